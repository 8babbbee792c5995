"""What an experiment page prints, draws and writes is what its committed scores give: every page runs again,
cell by cell. Each of its stored outputs is compared with the new one, a picture pixel by pixel; tables,
results and the ledger are compared with the committed ones; and its figures are measured (test_figures.py).

Nothing is trained and nothing is written. What is not compared is a cell that asks the store for a corpus or
a model, for it shows what no score file holds.
"""
import base64
import io
import os
import traceback
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch._dynamo  # noqa: F401, every page needs it, and a fork keeps it for itself
from execnb.shell import CaptureShell
from fastcore.nbio import read_nb
from IPython.core.pylabtools import select_figure_formats
from PIL import Image

from conftest import EXPERIMENTS, ROOT, tracked_files
from modit.repro.pages import page
from modit.stages import pipeline
from modit.repro.report import ledger, looks, report
from modit.repro.pages.page import page_module
from test_figures import faults_of

pytestmark = pytest.mark.slow
TRACKED = {ROOT/path for path in tracked_files() if path.parts[0] == 'figures'}


# ---- a run that neither trains nor writes
class AsksTheStore(Exception):
    "A cell wants a corpus or a model."


def refuse(*stage, **more): raise AsksTheStore


class Run:
    "What a page shows, cell id -> outputs, None where the cell asks the store; writes, path -> text; draws."
    def __init__(self): self.shown, self.written, self.drawn = {}, {}, {}

    def write(self, path, text):
        "In the place of `atomic_write`."
        self.written[Path(path)] = text

    def save_figure(self, folder, label, figure):
        "In its place: a figure that was saved is shown with the layout it was saved with."
        looks._laid_out_anew(figure)
        figure.savefig(io.BytesIO(), format='png', bbox_inches='tight')
        self.drawn[label] = figure

    def faults(self):
        "What is wrong with what was written and drawn."
        written = [(path, text) for path, text in self.written.items() if path in TRACKED]
        old = [path for path, text in written if path.read_text('utf-8') != text]
        measured = {label: faults_of(figure) for label, figure in self.drawn.items()}
        return [f'{path.relative_to(ROOT)}: run make figures, then commit' for path in old] + [
            f'{label}: {found}' for label, found in measured.items() if found]


def in_a_kernel():
    "A shell that shows what a kernel would: pandas and pictures ask where they are."
    pd.set_option('display.max_columns', 20)
    shell = CaptureShell()
    select_figure_formats(shell, ('png',), bbox_inches='tight')
    return shell


def run_page(path):
    "A page's outputs, which files it would write, and its faults; or the traceback that ended the run."
    os.chdir(path.parent)
    shell, run = in_a_kernel(), Run()
    with patch.object(report, 'atomic_write', run.write), patch.object(ledger, 'atomic_write', run.write), \
            patch.object(page, 'save_figure', run.save_figure), patch.object(pipeline, 'make_stage', refuse):
        for cell in read_nb(path).cells:
            if cell.cell_type != 'code': continue
            run.shown[cell.id] = shell.run(cell.source)
            if isinstance(shell.exc, AsksTheStore): run.shown[cell.id] = None
            elif shell.exc: return ''.join(traceback.format_exception(shell.exc))
    return run.shown, {*run.written}, run.faults()


@pytest.fixture(scope='module')
def outputs_of(request):
    "Every page that is asked for, run in one of two processes, in a fork of its own."
    for path in EXPERIMENTS: page_module(path.stem)
    asked = [x.callspec.params['path'] for x in request.session.items if 'outputs_of' in x.fixturenames]
    with get_context('fork').Pool(2, maxtasksperchild=1) as pool:
        yield {path: pool.apply_async(run_page, (path,)) for path in asked}


# ---- stored and new
def shown(outputs):
    "What a cell shows, as (kind, content); what is printed is one text."
    found = {}
    for output in outputs:
        if output['output_type'] == 'stream': parts = {output['name']: output['text']}
        else: parts = {f'{kind} of {output["output_type"]}': x for kind, x in output.get('data', {}).items()}
        for kind, content in parts.items(): found.setdefault(kind, []).append(''.join(content))
    streams = {kind: [''.join(found[kind])] for kind in ('stdout', 'stderr') if kind in found}
    return [(kind, content) for kind, many in sorted((found | streams).items()) for content in many]


def pixels(text): return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))).convert('RGBA'))


def difference(old, new):
    "How two outputs (kind, content) differ, in words; nothing where they are the same."
    if old is None or new is None: return f'{(old or new)[0]} is {"new" if old is None else "gone"}'
    if old[0] != new[0]: return f'{old[0]} became {new[0]}'
    if old[1] == new[1]: return ''
    if not old[0].startswith('image/'):
        lines = zip_longest(old[1].splitlines(), new[1].splitlines())
        before, after = next(pair for pair in lines if pair[0] != pair[1])
        return f'{old[0]}: {before!r} is now {after!r}'
    a, b = pixels(old[1]), pixels(new[1])
    if a.shape != b.shape: return f'a picture of {a.shape[1::-1]} pixels has now {b.shape[1::-1]}'
    odd = (a != b).any(-1).mean()
    return f'{odd:.1%} of the pixels of a picture differ' if odd else ''


def differences(path, found):
    "What differs between a page's stored outputs and those of a run, cell by cell."
    said = []
    for i, cell in enumerate(read_nb(path).cells):
        if cell.cell_type != 'code' or found[cell.id] is None: continue
        pairs = zip_longest(shown(cell.outputs), shown(found[cell.id]))
        said += [f'[{i}] {text}' for text in (difference(*pair) for pair in pairs) if text]
    return said


def test_differences_are_found():
    def png(value):
        out = io.BytesIO()
        Image.new('RGB', (3, 2), (value, 0, 0)).save(out, 'png')
        return 'image/png', base64.b64encode(out.getvalue()).decode()
    assert difference(png(4), png(4)) == '' and 'pixels' in difference(png(4), png(5))
    assert difference(('text/plain', 'a\nb'), ('text/plain', 'a\nc')) == "text/plain: 'b' is now 'c'"
    assert difference(None, png(4)) == 'image/png is new' and difference(png(4), None) == 'image/png is gone'

    def printed(*texts): return [dict(output_type='stream', name='stdout', text=t) for t in texts]
    assert shown(printed('Joint', ' 12')) == shown(printed(['Joint ', '12']))
    assert shown(printed('Joint 12')) != shown(printed('Joint 13'))


@pytest.mark.parametrize('path', EXPERIMENTS, ids=lambda p: p.stem)
def test_a_page_follows_from_the_committed_scores(outputs_of, path):
    found = outputs_of[path].get(600)
    assert isinstance(found, tuple), f'{path.name} failed:\n{found[-3000:]}'
    shown, written, faults = found
    results = [p for p in TRACKED if p.name == f'{path.stem[4:]}.md' and p.parent.name == 'mini']
    assert {*results} <= written, 'it does not publish its results'
    odd = differences(path, shown)
    where = path.relative_to(ROOT).parent
    assert not odd, '\n'.join([f'{path.name}: run it in {where} and store its outputs:', *odd])
    assert not faults, '\n'.join(faults)
