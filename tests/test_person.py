"""What a person has set for other work, in the shell or in files of their own, changes no run and no page."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_errors import page

from conftest import ROOT, copy_repository, environment, run_apart
from modit.cli.command import main
from modit.repro.pages.notebooks import execute
from modit.store import runs_dir


# ---- one process of several
@pytest.mark.parametrize('rank', ['1', '3', '', 'worker', '-1'])
def test_a_rank_in_the_environment_silences_nobody(tmp_path, monkeypatch, capsys, rank):
    monkeypatch.setenv('RANK', rank)
    with pytest.raises(SystemExit) as end: main(['check', str(tmp_path/'nosuch')])
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.startswith('modit: ') and 'nosuch' in said and said.count('\n') == 1


# ---- pages and figures
DARK = 'axes.facecolor: 202020\nsavefig.transparent: True\nxtick.direction: in\nlegend.loc: upper left\n'


def mine(folder):
    "Variables of a person who has a theme, a window, start-up files and a wide terminal of their own."
    (folder/'matplotlibrc').write_text(DARK, 'utf-8')
    (folder/'startup.py').write_text('mine = 1', 'utf-8')
    own = folder/'ipython'/'profile_default'
    (own/'startup').mkdir(parents=True)
    (own/'startup'/'own.py').write_text('mine = 1', 'utf-8')
    (own/'ipython_kernel_config.py').write_text("c.InteractiveShellApp.exec_lines = ['mine = 1']", 'utf-8')
    return dict(MATPLOTLIBRC=str(folder), MPLBACKEND='module://backend_of_an_editor', COLUMNS='222',
                PYTHONSTARTUP=str(folder/'startup.py'), IPYTHONDIR=str(folder/'ipython'),
                PYTHONOPTIMIZE='1', PYTHONWARNINGS='error')


def outputs(folder, *sources):
    "What the cells of a page show."
    path, out = page(folder/'350_try.ipynb', 'k: int = 1', *sources), folder/'done'/'350_try.ipynb'
    execute(path, out, {})
    return [cell.get('outputs') for cell in json.loads(out.read_text('utf-8'))['cells']]


SHOWN = """import shutil, sys
import matplotlib.pyplot as plt
print('mine' in globals(), shutil.get_terminal_size(), __debug__, sys.warnoptions, plt.get_backend())
fig, ax = plt.subplots()
ax.plot([1, 3, 2], label='a')
ax.legend();"""


def test_a_page_shows_the_same_to_everybody(tmp_path, monkeypatch):
    runs_dir().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs_dir()) as folder:
        plain = outputs(Path(folder), SHOWN)
        for name, value in mine(tmp_path).items(): monkeypatch.setenv(name, value)
        assert outputs(Path(folder), SHOWN) == plain
    assert 'image/png' in str(plain), 'a page shows its pictures'


DRAWS = """import sys
from modit.stages.environment import steady_environment
steady_environment()
import matplotlib.pyplot as plt
from modit.repro.report.looks import look, save_figure
fig, ax = plt.subplots()
ax.plot([1, 3, 2], label='a', **look('sft').style)
ax.legend()
save_figure(sys.argv[1], 'fig-arch', fig)
"""


def test_a_figure_has_the_same_bytes_for_everybody(tmp_path):
    usual = {k: v for k, v in environment(ROOT).items() if k not in ('MATPLOTLIBRC', 'MPLBACKEND')}
    own = mine(tmp_path)
    for name, env in (('plain', {}), ('own', {k: own[k] for k in ('MATPLOTLIBRC', 'MPLBACKEND')})):
        (tmp_path/name).mkdir()
        command = [sys.executable, '-c', DRAWS, str(tmp_path/name)]
        subprocess.run(command, cwd=ROOT, env=usual | env, check=True)
    for kind in ('svg', 'png'):
        one, other = (tmp_path/name/f'fig-arch.{kind}' for name in ('plain', 'own'))
        assert one.read_bytes() == other.read_bytes()


# ---- two versions of a page, merged as text
MARKS = ['<<<<<<< HEAD', '"ours",', '=======', '"theirs",', '>>>>>>> other']
TRIES = """
import sys
from modit.cli.command import main
for line in sys.argv[1:]:
    try: main(line.split())
    except SystemExit as e: print(e.code)
"""


def merged_as_file(path):
    lines = path.read_text('utf-8').split('\n')
    path.write_text('\n'.join([*lines[:len(lines)//2], *MARKS, *lines[len(lines)//2:]]), 'utf-8')


def merged_in_a_cell(path):
    book = json.loads(path.read_text('utf-8'))
    cell = next(c for c in book['cells'] if '#| export\n' in c['source'])
    cell['source'] += ['\n'] + [f'{line}\n' for line in MARKS]
    path.write_text(json.dumps(book), 'utf-8')


@pytest.mark.slow
@pytest.mark.parametrize('merge', [merged_as_file, merged_in_a_cell])
def test_conflict_marks_in_a_page_are_told_in_a_line_by_every_command(tmp_path, merge):
    copy = copy_repository(tmp_path/'modit')
    merge(copy/'nbs'/'repro'/'paper'/'310_density.ipynb')
    lines = ['run 310_density --profile smoke --fresh', 'main --profile smoke --dry-run',
             'sweep density anchors=20,30 --profile smoke', 'figures --profile mini']
    run = run_apart(TRIES, *lines, copy=copy)
    assert run.stdout.split() == ['2']*len(lines), run.stderr
    told = run.stderr.splitlines()
    assert len(told) == len(lines) and all('310_density.ipynb' in line for line in told), run.stderr
