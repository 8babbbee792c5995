"""What a person has set for other work, in the shell or in files of their own, changes no page."""
import json
import tempfile
from pathlib import Path

import pytest
from test_errors import page

from modit.cli.command import main
from modit.repro.pages.notebooks import code_cells, execute, syntax_tree
from modit.store import runs_dir

DARK = 'axes.facecolor: 202020\nsavefig.transparent: True\nxtick.direction: in\n'
SHOWN = """import shutil
import matplotlib.pyplot as plt
print('mine' in globals(), shutil.get_terminal_size())
plt.plot([1, 3, 2]);"""


@pytest.mark.parametrize('rank', ['1', '', 'worker', '-1'])
def test_a_rank_in_the_environment_silences_nobody(tmp_path, monkeypatch, capsys, rank):
    monkeypatch.setenv('RANK', rank)
    with pytest.raises(SystemExit) as end: main(['check', str(tmp_path/'nosuch')])
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.startswith('modit: ') and 'nosuch' in said and said.count('\n') == 1


def mine(folder):
    "Variables of a person who has a theme and start-up files; page environment has the others."
    startup = folder/'ipython'/'profile_default'/'startup'
    startup.mkdir(parents=True)
    (startup/'own.py').write_text('mine = 1', 'utf-8')
    (folder/'matplotlibrc').write_text(DARK, 'utf-8')
    return dict(MATPLOTLIBRC=str(folder), IPYTHONDIR=str(folder/'ipython'), COLUMNS='222')


def outputs(folder):
    "What the cells of a page show."
    path, out = page(folder/'350_try.ipynb', 'k: int = 1', SHOWN), folder/'done'/'350_try.ipynb'
    execute(path, out, {})
    return [cell.get('outputs') for cell in json.loads(out.read_text('utf-8'))['cells']]


@pytest.mark.slow
def test_a_page_shows_the_same_to_everybody(tmp_path, monkeypatch):
    runs_dir().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs_dir()) as folder:
        plain = outputs(Path(folder))
        for name, value in mine(tmp_path).items(): monkeypatch.setenv(name, value)
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
