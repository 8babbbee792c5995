"""What a person has set for other work, in the shell or in files of their own, changes no page."""
import json
import os
import subprocess
import sys
import time
import tempfile
from pathlib import Path

import psutil
import pytest
import torch
from test_errors import page

from conftest import ROOT, environment
from modit.model import new_model
from modit.repro.pages import notebooks
from modit.repro.pages.notebooks import code_cells, execute, syntax_tree
from modit.rounds import _finished
from modit.settings import load_settings
from modit.stages.source import steady_environment
from modit.store import runs_dir

DARK = 'axes.facecolor: 202020\nsavefig.transparent: True\nxtick.direction: in\n'
SHOWN = """import shutil
import matplotlib.pyplot as plt
print('mine' in globals(), shutil.get_terminal_size())
plt.plot([1, 3, 2]);"""


@pytest.mark.parametrize('rank', ['1', '', 'worker', '-1'])
def test_a_rank_in_the_environment_silences_nobody(tmp_path, monkeypatch, modit, rank):
    monkeypatch.setenv('RANK', rank)
    status, _, last = modit('check', tmp_path/'nosuch')
    assert status == 2 and last.startswith('modit: ') and 'nosuch' in last


def outputs(folder):
    "What the cells of a page show."
    path, out = page(folder/'350_try.ipynb', 'k: int = 1', SHOWN), folder/'done'/'350_try.ipynb'
    execute(path, out, {})
    return [cell.get('outputs') for cell in json.loads(out.read_text('utf-8'))['cells']]


@pytest.mark.slow
def test_a_page_shows_the_same_to_everybody(tmp_path, monkeypatch):
    "Who has a theme and start-up files, too; page source has other variables."
    startup = tmp_path/'ipython'/'profile_default'/'startup'
    startup.mkdir(parents=True)
    (startup/'own.py').write_text('mine = 1', 'utf-8')
    (tmp_path/'matplotlibrc').write_text(DARK, 'utf-8')
    mine = dict(MATPLOTLIBRC=str(tmp_path), IPYTHONDIR=str(tmp_path/'ipython'), COLUMNS='222')
    runs_dir().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs_dir()) as folder:
        plain = outputs(Path(folder))
        for name, value in mine.items(): monkeypatch.setenv(name, value)
        assert outputs(Path(folder)) == plain
    assert 'image/png' in str(plain), 'a page shows its pictures'


MARKS = ['<<<<<<< HEAD\n', '"ours",\n', '=======\n', '"theirs",\n', '>>>>>>> other\n']


@pytest.mark.parametrize('whole', [True, False])
def test_conflict_marks_in_a_page_are_told_in_a_line(tmp_path, whole):
    path = page(tmp_path/'310_density.ipynb', 'k: int = 1', '' if whole else ''.join(MARKS))
    if whole: path.write_text(path.read_text('utf-8') + ''.join(MARKS), 'utf-8')
    with pytest.raises(ValueError, match='310_density.ipynb') as refusal:
        syntax_tree(path, ''.join(line for cell in code_cells(path) for line in cell['source']))
    assert '\n' not in str(refusal.value)


# ---- what surrounds a run
def test_what_editors_leave_beside_a_page_is_no_page(tmp_path, monkeypatch):
    paper = tmp_path/'nbs'/'repro'/'paper'
    paper.mkdir(parents=True)
    for name in ('310_density', '310_density-Copy1', '.~310_density', '._310_density'):
        (paper/f'{name}.ipynb').touch()
    monkeypatch.setattr(notebooks, 'repo_root', lambda: tmp_path)
    assert notebooks.experiments() == ['310_density']


def test_a_model_is_the_same_whatever_type_and_device_a_program_has_set():
    def weights(): return [x.clone() for x in new_model(load_settings('smoke')).parameters()]
    usual = weights()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device('meta'): found = weights()
    finally: torch.set_default_dtype(torch.float32)
    assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(usual, found, strict=True))


def test_rounds_behind_a_gap_are_of_a_lost_run(tmp_path):
    for i in (0, 1, 3): (tmp_path/f'round-{i:03d}.safetensors').touch()
    assert [x.stem for x in _finished(tmp_path)] == ['round-000', 'round-001']
    assert len([*tmp_path.iterdir()]) == 2


def test_paths_and_profiles_of_a_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in dict(MODIT_RUNS='mine', SNAKEMAKE_PROFILE='lsf', PATH=os.environ['PATH']).items():
        monkeypatch.setenv(name, value)
    assert runs_dir() == tmp_path/'mine'
    steady_environment()
    assert os.environ['MODIT_RUNS'] == str(tmp_path/'mine') and 'SNAKEMAKE_PROFILE' not in os.environ
    with monkeypatch.context() as m:
        for name in ('MODIT_RUNS', 'HOME'): m.setenv(name, '~/r' if name[0] == 'M' else str(tmp_path))
        assert runs_dir() == tmp_path/'r'
    monkeypatch.setenv('JUPYTER_RUNTIME_DIR', 'of a home')
    assert notebooks._writable(Path(os.devnull)/'jupyter') == tmp_path/'mine'/'jupyter'
    assert os.environ['JUPYTER_RUNTIME_DIR'] == str(tmp_path/'mine'/'jupyter')


STARTING = ('import subprocess\nfrom modit.repro.pages.graph import ending_all\n'
            'with ending_all(): subprocess.run(["sh", "-c", "sleep 600 & wait"])')
DRAWING = 'import time\nfrom modit.repro.pages.redraw import _redraw_pages as f; f([600]*2, time.sleep, 0)'


@pytest.mark.parametrize('code', [STARTING, DRAWING])
def test_a_signal_of_a_scheduler_ends_all_that_was_started(code):
    run = subprocess.Popen([sys.executable, '-c', code], cwd=ROOT, env=environment(ROOT))
    while len(started := psutil.Process(run.pid).children(recursive=True)) < 2: assert run.poll() is None
    time.sleep(.5) # not while it starts them
    run.terminate()
    status, left = run.wait(), psutil.wait_procs(started, 20)[1]
    for process in left: process.kill()
    assert status == 128 + 15 and not left
