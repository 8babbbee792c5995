"""Mistakes and broken files: one clear message, and nothing left half done."""
import errno
import os
import platform
import resource
import tempfile
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook
from tqdm import tqdm

from conftest import ROOT, tracked_files
from modit.cli import command
from modit.repro.pages import page as pages
from modit.model import new_model
from modit.repro.pages.notebooks import execute, page_constant
from modit.ordering import Corpus, pattern_pools
from modit.repro.pages.page import COMMITTED, open_page
from modit.settings import load_settings
from modit.stages.pipeline import one_at_a_time
from modit.store import (as_rows, atomic_write, load_arrays, lock_file, save_arrays, stream, whole_file)
from modit.training import load_checkpoint, save_checkpoint

ITEMS = stream(0, 'errors').normal(size=(50, 8)).astype(np.float32)


def test_patterns_too_small_for_a_case():
    s = load_settings('smoke')
    pattern = np.repeat(np.arange(12, dtype=np.int32), 7) # seven positives each, a case has eight
    attribute, n = np.ones(len(pattern), bool), len(pattern)
    corpus = Corpus('D1', np.zeros((n, 2), np.float32), attribute, pattern, role=np.zeros(n, np.uint8),
                    density=np.zeros(n, np.float32), probe=np.zeros(2, np.float32))
    with pytest.raises(ValueError, match='D1: no pattern has 8 positives of role train'):
        pattern_pools(corpus, 'train', s.seq_len)
    corpus.pattern[:8] = 0  # now one pattern has enough, and the others are passed over
    assert list(pattern_pools(corpus, 'train', s.seq_len)) == [0]


def test_checkpoints_that_do_not_fit(tmp_path):
    s, path = load_settings('smoke'), tmp_path/'a.safetensors'
    model = new_model(s)
    save_checkpoint(path, model, step=3)
    assert load_checkpoint(path, model)['step'] == 3
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match='damaged'): load_checkpoint(path, model)
    save_arrays(path, dict(x=ITEMS), kind='pool')
    with pytest.raises(ValueError, match='does not fit'): load_checkpoint(path, model)
    with pytest.raises(FileNotFoundError, match='no file'): load_checkpoint(tmp_path/'none', model)
    same = [torch.equal(v, kept[k]) for k, v in model.state_dict().items()]
    assert all(same), 'a refused file changed the model'


def test_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path/'a.safetensors'
    save_arrays(path, dict(x=ITEMS))
    before = path.read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, old[1])) # no file may grow beyond so many bytes
    try:
        with pytest.raises(OSError, match='cannot write'): save_arrays(path, dict(x=np.zeros(100_000)))
    finally: resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]
    assert np.array_equal(load_arrays(path)[0]['x'], ITEMS)


@pytest.mark.parametrize('call', ['os.open', 'os.fsync', 'os.replace'])
def test_read_only_disk_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path/'a.csv'
    path.write_text('old', 'utf-8')
    def deny(*_, **__): raise OSError(errno.EROFS, 'Read-only file system')
    said = '^cannot write .*a.csv: Read-only file system; .*nothing was changed$'
    with monkeypatch.context() as m:
        m.setattr(call, deny)
        with pytest.raises(OSError, match=said): atomic_write(path, 'new')
    assert path.read_text('utf-8') == 'old' and list(tmp_path.iterdir()) == [path]


def mode_of(path): return path.stat().st_mode & 0o7777


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(tmp_path, umask):
    makers = dict(text=lambda p: atomic_write(p, 'x'), arrays=lambda p: save_arrays(p, dict(x=ITEMS)),
                  rows=lambda p: as_rows([ITEMS], ITEMS.shape, p))
    for name, make in makers.items():
        make(tmp_path/name)
        assert mode_of(tmp_path/name) == 0o666 & ~umask
        for mode in (0o600, 0o444, 0o755):
            (tmp_path/name).chmod(mode)
            make(tmp_path/name)
            assert mode_of(tmp_path/name) == mode
    with lock_file(tmp_path/'a.lock'): assert mode_of(tmp_path/'a.lock') == 0o666 & ~umask
    (tmp_path/'text').chmod(0o600)
    with whole_file(tmp_path/'text'): # what replaces a private file is private while it is written
        assert [mode_of(p) for p in tmp_path.glob('.text*')] == [0o600]


def test_only_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path/'pipe')
    (tmp_path/'folder').mkdir()
    for name in ('pipe', 'folder'):
        (tmp_path/f'to-{name}').symlink_to(name)
        for path in (tmp_path/name, tmp_path/f'to-{name}'):
            with pytest.raises(OSError, match='cannot write .*nothing was changed') as refusal:
                atomic_write(path, 'x')
            assert '\n' not in str(refusal.value)
    assert (tmp_path/'pipe').is_fifo() and (tmp_path/'folder').is_dir() and len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize('why', [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
@pytest.mark.parametrize('wait', [True, False])
def test_without_locks_a_line_says_where_the_store_may_lie(tmp_path, monkeypatch, why, wait):
    def flock(*_): raise OSError(why, os.strerror(why))
    monkeypatch.setattr('fcntl.flock', flock)
    with pytest.raises(OSError, match='MODIT_RUNS') as refusal: lock_file(tmp_path/'locks'/'a', wait)
    said = str(refusal.value)
    assert str(tmp_path/'locks'/'a') in said and os.strerror(why) in said and '\n' not in said


def test_a_store_that_cannot_be_made_is_told_with_a_way_out(tmp_path):
    (tmp_path/'runs').write_text('no folder', 'utf-8')
    with pytest.raises(OSError, match='MODIT_RUNS') as refusal:
        one_at_a_time(tmp_path/'runs'/'.locks'/'a', 'makes a')
    assert f'{tmp_path/"runs"} ' in str(refusal.value) and '\n' not in str(refusal.value)


def page(path, *sources, tag=True):
    cells = [new_code_cell(s) for s in sources]
    if tag: cells[0].metadata['tags'] = ['parameters']
    path.write_text(nbformat.writes(new_notebook(cells=cells)), 'utf-8')
    return path


@pytest.mark.slow
@pytest.mark.parametrize('source, said', [('import os; os.kill(os.getpid(), 9)', 'kernel died'),
                                          ('import sys; sys.exit(0)', 'did not run|SystemExit')])
def test_a_page_that_fails_is_never_done(source, said):
    (ROOT/'runs').mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT/'runs') as folder:
        folder = Path(folder)
        source = page(folder/'350_try.ipynb', 'k: int = 1', source, 'k')
        (folder/'out').mkdir()
        killed = folder/'out'/f'.350_try.ipynb.{platform.node()}-{2**22 + 1}-ab.ipynb' # who is none
        killed.touch()
        with pytest.raises(ValueError, match=said): execute(source, folder/'out'/'350_try.ipynb', {})
        assert not (folder/'out'/'350_try.ipynb').exists() and not killed.exists()


@pytest.fixture
def unscored(tmp_path, monkeypatch):
    "Pages whose results lie in an empty folder, and what is run for them."
    ran, rows = [], pd.DataFrame(dict(domain=['D1'], split=['item'], case=[0]))
    def run(p): return {score: rows for score in page_constant(p.name, 'SCORES')}
    def module(name): return ran.append(name) or run
    monkeypatch.setattr(pages, 'results_folder', lambda s, changed: tmp_path/s.profile)
    monkeypatch.setattr(pages, 'page_module', module)
    return ran


def test_scores_of_another_page_that_are_not_there_are_made_first(unscored, capsys):
    for p in (open_page('pareto', profile='smoke'), open_page('pareto', profile='mini', fresh=True)):
        for score in ('main', 'validation'): assert p.read_other(score).domain.tolist() == ['D1']
        assert 'pareto reads main: main is run first' in capsys.readouterr().out
    assert unscored == 2*['main']


def test_committed_scores_that_are_not_there_are_named_with_their_command(unscored):
    with pytest.raises(FileNotFoundError, match='`modit run main --profile mini --fresh`'):
        open_page('pareto', profile='mini').read_other('main')
    with pytest.raises(FileNotFoundError, match='run all experiments first: `modit main paper'):
        open_page('claims', profile='mini').read_other('claims')
    assert not unscored


def test_committed_profiles_are_those_with_results():
    folders = {p.parts[1] for p in tracked_files() if p.match('figures/*/manifest.json')}
    assert folders == set(COMMITTED), 'a public dataset has a row in DATASETS and results in git'


@pytest.mark.parametrize('verb, error, code, said', [
    ('fit', KeyboardInterrupt, 130, 'modit: stopped; the same command resumes it'),
    ('check', KeyboardInterrupt, 130, 'modit: stopped'),
    ('fit', FloatingPointError, 2, 'modit: loss is nan')])
def test_what_breaks_off_a_bar_is_told_on_a_line_of_its_own(monkeypatch, modit, verb, error, code, said):
    def call(
        folder # as the command has it
    ):
        for _ in tqdm(range(3)): raise error('loss is\nnan')
    monkeypatch.setitem(command.COMMANDS, verb, call)
    monkeypatch.setattr(command, 'KEEPING', ('fit',))
    assert modit(verb, 'shoes') == (code, [], said)
