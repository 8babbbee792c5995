"""Every library page runs from top to bottom, and its lessons hold.

With --changed: those that differ from the last commit, and such experiments too, at profile smoke.
"""
import subprocess
import sys

from nbdev.test import test_nb as run_page

from conftest import EXPERIMENTS, LIBRARY, ROOT, changed_files, environment


def pytest_generate_tests(metafunc):
    changed = changed_files() if metafunc.config.getoption('changed') else None
    if 'page' in metafunc.fixturenames:
        pages = [p for p in LIBRARY if changed is None or p in changed]
        metafunc.parametrize('page', pages, ids=lambda p: p.stem)
    if 'changed_experiment' in metafunc.fixturenames:  # else test_runs.py runs them all
        pages = [p for p in EXPERIMENTS if p in (changed or ())]
        metafunc.parametrize('changed_experiment', pages, ids=lambda p: p.stem)


def test_page(page):
    ok, _ = run_page(page)
    assert ok, f'{page.name} failed; its traceback is above'


def test_experiment_at_smoke(changed_experiment):
    command = [sys.executable, '-c', 'from modit.command import main; main()', 'run', changed_experiment.stem]
    run = subprocess.run([*command, '--profile', 'smoke', '--fresh'], cwd=ROOT, env=environment(ROOT),
                         capture_output=True, text=True)
    assert run.returncode == 0, f'{changed_experiment.name} failed:\n{run.stderr[-3000:]}'
