"""Every library page runs from top to bottom, its lessons hold, and it prints what is stored in it.

With --changed: those that differ from the last commit, and such experiments too, at profile smoke.
"""
import io
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import zip_longest
from multiprocessing import get_context
from unittest.mock import patch

import pandas as pd
import pytest
import torch._dynamo  # noqa: F401, every optimiser imports it, and both processes shall have it
from execnb.shell import CaptureShell
from IPython.core.pylabtools import select_figure_formats
from nbdev.test import test_nb as run_page

from conftest import COMMAND, EXPERIMENTS, LIBRARY, changed_files, run_apart, skip_if_absent
from modit.repro.report.looks import ABLATIONS, FOLDER_STAGES, OWN_STAGES, STAGES, VARIANTS
from test_outputs import shown


def pytest_generate_tests(metafunc):
    changed = changed_files() if metafunc.config.getoption('changed') else None
    if 'page' in metafunc.fixturenames:
        pages = [p for p in LIBRARY if changed is None or p in changed]
        metafunc.parametrize('page', pages, ids=lambda p: p.stem)
    if 'changed_experiment' in metafunc.fixturenames:  # else test_every_page.py runs them all
        pages = [p for p in EXPERIMENTS if p in (changed or ())]
        metafunc.parametrize('changed_experiment', pages, ids=lambda p: p.stem)


# what differs between two shells: addresses, ids of a styled table, a path's class; with other code: keys;
# and on another processor: numbers and what follows from them, the verdict on a toy training
UNSTABLE = re.compile(r' at 0x[0-9a-f]+|T_[0-9a-f]{5}|\b[0-9a-f]{12}\b|Posix(?=Path)'
                      r'|On (kinds seen in training|new kinds) \(.*')
NUMBER = re.compile(r'[-+−–]?\d[\d.,]*(e[-+]?\d+)?')


def words(outputs):
    "A cell's words, without numbers, those of a table once; sorted, for times can order its rows."
    found = [(kind.split(' of ')[-1], kind, text) for kind, text in shown(outputs)]
    tables = {where for where, kind, _ in found if kind.startswith('text/html')}
    return [' '.join(sorted(NUMBER.sub('#', UNSTABLE.sub('', text)).split())) for where, kind, text in found
            if kind.startswith(('stdout', 'text/html')) or kind.startswith('text/') and where not in tables]


class OnceDrawn(CaptureShell):
    """A shell that compares the words of a page's outputs with the stored ones. It draws every picture once
    and small; to cut it to its size, it would be drawn twice."""
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        select_figure_formats(self, ('png',), bbox_inches=None)
        pd.set_option('display.max_columns', 20, 'display.max_colwidth', 50)

    def run_all(self, nb, **more):
        cells = [cell for cell in nb.cells if cell.cell_type == 'code']
        stored = [words(cell.outputs) for cell in cells]
        super().run_all(nb, **more)
        for cell, old in zip(cells, stored, strict=True):
            for pair in zip_longest(old, words(cell.outputs)):
                assert pair[0] == pair[1], f'cell {cell.id} shows {pair[1]!r}; stored is {pair[0]!r}'


def test_words_are_compared_and_numbers_are_not():
    def printed(text): return [dict(output_type='stream', name='stdout', text=text)]
    assert words(printed('Joint −0.12 of 3,000\n')) == words(printed('Joint 1.1e-3 of 5')) == ['# # Joint of']
    assert words(printed('Joint 12')) != words(printed('Same 12'))
    pays, not_ = (f'shoes: On new kinds (5 patterns) training {x}\nmodel' for x in ('pays', 'does not pay'))
    assert words(printed(pays)) == words(printed(not_)) == ['model shoes:']


def tables_of(page):
    "A page that imports nothing of the reproduction sees the library's tables, whatever ran here before."
    stack, own = ExitStack(), dict(ABLATIONS, **OWN_STAGES)
    for table in () if 'modit.repro' in page.read_text('utf-8') else (VARIANTS, STAGES, FOLDER_STAGES):
        kept = {name: row for name, row in table.items() if name not in own}
        stack.enter_context(patch.dict(table, kept, clear=True))
    return stack


def run_and_listen(page):
    "Whether a page ran through, and its traceback where it did not."
    said = io.StringIO()
    with tables_of(page), patch.object(sys, '__stderr__', said), patch('nbdev.test.CaptureShell', OnceDrawn):
        ok, _ = run_page(page) # nbdev writes it there
    return ok, said.getvalue()


# Pages that take longest begin first, so that none runs alone at the end.
FIRST = ('100_training', '038_encoders')


@pytest.fixture(scope='module')
def page_runs(request):
    "Every page that is asked for, run in one of two processes."
    asked = [x.callspec.params['page'] for x in request.session.items if 'page_runs' in x.fixturenames]
    with ProcessPoolExecutor(2, get_context('fork')) as pool:
        yield {page: pool.submit(run_and_listen, page)
               for page in sorted(asked, key=lambda p: p.stem not in FIRST)}
        pool.shutdown(cancel_futures=True)


def test_page(page_runs, page):
    skip_if_absent(page.stem)
    ok, said = page_runs[page].result()
    assert ok, f'{page.name} failed:\n{said[-3000:]}'


def test_experiment_at_smoke(changed_experiment):
    run = run_apart(COMMAND, 'run', changed_experiment.stem, '--profile', 'smoke', '--fresh')
    assert run.returncode == 0, f'{changed_experiment.name} failed:\n{run.stderr[-3000:]}'
