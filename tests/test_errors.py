"""Mistakes and broken files: one clear message, and nothing left half done."""
import errno
import json
import resource
import signal
import subprocess
import sys

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from conftest import ROOT, environment
from modit.model import new_model
from modit.ordering import Corpus, draw_groups, holdout_split, pattern_pools
from modit.retrieval import VectorIndex
from modit.runner import check_parameters, execute, notebook_parameters
from modit.settings import atomic_write, load_arrays, load_settings, save_arrays, stream
from modit.training import load_checkpoint, save_checkpoint

ITEMS = stream(0, 'errors').normal(size=(50, 8)).astype(np.float32)


@pytest.mark.parametrize('row, value, said', [(7, np.nan, 'row 7 is not finite'), (3, np.inf, 'row 3 is not finite'), (9, 0, 'row 9 is all zeros')])
def test_bad_embeddings(row, value, said):
    bad = ITEMS.copy(); bad[row] = value
    with pytest.raises(ValueError, match=said): VectorIndex(bad)
    with pytest.raises(ValueError, match=said): VectorIndex(ITEMS).search(bad, 5)


def test_wrong_shapes_and_depths():
    index = VectorIndex(ITEMS)
    with pytest.raises(ValueError, match='dimension 4, expected 8'): index.search(ITEMS[:, :4], 5)
    with pytest.raises(ValueError, match='pool of 50'): index.search(ITEMS, 51)
    with pytest.raises(ValueError, match='table of rows'): VectorIndex(ITEMS[0])
    with pytest.raises(ValueError, match='flat, hnsw or ivf'): VectorIndex(ITEMS, 'tree')


def test_patterns_too_small_for_a_case():
    s, pattern = load_settings('smoke'), np.repeat(np.arange(12, dtype=np.int32), 7)  # seven positives each, a case has eight
    attribute, n = np.ones(len(pattern), bool), len(pattern)
    with pytest.raises(ValueError, match='D1: 0 patterns have the 8 positives of a case'): holdout_split(attribute, pattern, s, 'D1')
    corpus = Corpus('D1', np.zeros((n, 2), np.float32), attribute, pattern, np.zeros(n, np.uint8), np.zeros(n, np.float32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match='D1: no pattern has 8 positives of role train'): pattern_pools(corpus, 'train', s.seq_len)
    corpus.pattern[:8] = 0  # now one pattern has enough, and the others are passed over
    assert list(pattern_pools(corpus, 'train', s.seq_len)) == [0]
    with pytest.raises(ValueError, match='7 items for sequences of 8'): draw_groups(np.arange(7), 1, s.seq_len, stream(0))


def test_checkpoints_that_do_not_fit(tmp_path):
    s, path = load_settings('smoke'), tmp_path/'a.safetensors'
    model = new_model(s)
    save_checkpoint(path, model, step=3)
    assert load_checkpoint(path, model)['step'] == 3
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    other = new_model(load_settings('smoke', width=64))
    with pytest.raises(ValueError, match='other settings'): load_checkpoint(path, other)
    whole = path.read_bytes()
    for damage in (whole[:100], whole[:-10], b'', b'not a checkpoint at all'):
        path.write_bytes(damage)
        with pytest.raises(ValueError, match='damaged'): load_checkpoint(path, model)
    save_arrays(path, dict(x=ITEMS), kind='labels')
    with pytest.raises(ValueError, match='does not fit'): load_checkpoint(path, model)
    from safetensors.numpy import save_file
    save_file(dict(x=ITEMS), path)
    with pytest.raises(ValueError, match='not written by modit'): load_checkpoint(path, model)
    with pytest.raises(FileNotFoundError, match='no file'): load_checkpoint(tmp_path/'none', model)
    assert all(torch.equal(v, kept[k]) for k, v in model.state_dict().items()), 'a refused file changed the model'


def test_target_that_cannot_be_written(tmp_path):
    (tmp_path/'file').write_text('in the way')
    with pytest.raises(OSError, match='cannot write.*nothing was changed'): atomic_write(tmp_path/'file'/'a.csv', 'x')
    assert (tmp_path/'file').read_text() == 'in the way'


def test_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path/'a.safetensors'
    save_arrays(path, dict(x=ITEMS))
    before = path.read_bytes()
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, old[1]))
        with pytest.raises(OSError, match='cannot write'): save_arrays(path, dict(x=np.zeros(100_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old); signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]
    assert np.array_equal(load_arrays(path)[0]['x'], ITEMS)


@pytest.mark.parametrize('call', ['tempfile.mkstemp', 'os.fsync', 'os.replace'])
def test_read_only_disk_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path/'a.csv'
    path.write_text('old')
    def refuse(*_, **__): raise OSError(errno.EROFS, 'Read-only file system')
    with monkeypatch.context() as m:
        m.setattr(call, refuse)
        with pytest.raises(OSError, match='^cannot write .*a.csv: Read-only file system; .*nothing was changed$'): atomic_write(path, 'new')
    assert path.read_text() == 'old' and list(tmp_path.iterdir()) == [path]


def page(path, *sources, tag=True):
    cells = [new_code_cell(s) for s in sources]
    if tag: cells[0].metadata['tags'] = ['parameters']
    path.write_text(nbformat.writes(new_notebook(cells=cells)))
    return path


def test_parameters_cell(tmp_path):
    good = page(tmp_path/'good.ipynb', "profile: str = 'mini'\nscale: float = 3.0\nks: list = [1, 2]")
    assert notebook_parameters(good)['scale'] == ('float', 3.0)
    with pytest.raises(ValueError, match='tagged `parameters`'): notebook_parameters(page(tmp_path/'lost.ipynb', 'k: int = 1', tag=False))
    with pytest.raises(ValueError, match='one annotated literal'): notebook_parameters(page(tmp_path/'plain.ipynb', 'k = 1'))
    with pytest.raises(ValueError, match='did you mean scale'): check_parameters(good, dict(scael=1.))
    for bad in (dict(scale='1e-3'), dict(ks='[1,2]'), dict(ks=['a']), dict(scale=True), dict(profile=3)):
        with pytest.raises(ValueError, match='parameter'): check_parameters(good, bad)
    (tmp_path/'torn.ipynb').write_text(good.read_text()[:50])
    with pytest.raises(ValueError, match='not a notebook'): notebook_parameters(tmp_path/'torn.ipynb')


@pytest.mark.parametrize('source, said', [('1/0', 'division by zero'), ('import os; os.kill(os.getpid(), 9)', 'kernel died'), ('import sys; sys.exit(0)', 'did not run|SystemExit')])
def test_a_page_that_fails_is_never_done(source, said):
    import tempfile
    from pathlib import Path
    (ROOT/'runs').mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT/'runs') as folder:
        folder = Path(folder)
        source = page(folder/'35_try.ipynb', 'k: int = 1', source, 'k')
        with pytest.raises(ValueError, match=said): execute(source, folder/'out'/'35_try.ipynb', {})
        assert not (folder/'out'/'35_try.ipynb').exists()


@pytest.mark.parametrize('argv', [
    ['main', '--profile', 'tiny'], ['run', 'no_such_experiment'], ['run', 'main', '--parameters', '[1'],
    ['run', '30_data', '--parameters', '{"profile": "mini"}'], ['run', '30_data', '--parameters', '{"fresh": true}'], ['figures', '--profile', 'tiny'],
    ['stage', 'sft', '--profile', 'smoke'], ['stage', 'cpt', 'D1', '--profile', 'smoke'], ['stage', 'sft', 'D9', '--profile', 'smoke'],
    ['stage', 'nothing'], ['bench', '--profile', 'tiny']])
def test_command_line_mistakes_exit_2_without_a_traceback(argv):
    run = subprocess.run([sys.executable, '-c', 'from modit.command import main; main()', *argv], cwd=ROOT, env=environment(ROOT), capture_output=True, text=True)
    assert run.returncode == 2 and 'Traceback' not in run.stderr and run.stderr.strip()
