"""Experiments of the repository one stands in, two at a time, without a kernel each:
`python tests/forks.py '{"profile": "smoke"}' 330_order 370_best_of_n`.

Forks of this process, which has imported what all pages need, make the stages of the main results and run
the pages' cells, a fork a page, those that read another's scores after it. All else is as in `modit run`.
Figures are drawn once, as svg, and shown nowhere; with "drawn": false none is drawn.
The last line that is printed says, as JSON, what went wrong with each page, if anything did.
"""
import io
import json
import os
import sys
from functools import partial
from multiprocessing import get_context
from unittest.mock import patch

import matplotlib
import torch._dynamo  # noqa: F401, every optimiser imports it, and a fork keeps it for itself
from execnb.shell import CaptureShell
from IPython.core.pylabtools import select_figure_formats
from matplotlib.figure import Figure
from nbdev.test import test_nb as run_cells
from papermill.iorw import load_notebook_node, write_ipynb
from papermill.parameterize import parameterize_notebook

from modit.repro.pages import graph, marks, page
from modit.repro.pages.notebooks import experiments, page_module
from modit.repro.pages.parameters import is_ledger, pages_before
from modit.stages.pipeline import make_stage, stage_path
from modit.settings import load_settings

os.fsync = lambda file: None  # no file must outlive this machine
PYTHON = dict(kernel_name='python3', language='python')


class Blind(CaptureShell):
    "A shell that shows no picture, and draws none at the end of a cell."
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        select_figure_formats(self, ())
        matplotlib.interactive(False)


def only_svg(figure, out, savefig=Figure.savefig, **words):
    "In the place of `Figure.savefig`."
    if words.get('format') != 'png': savefig(figure, out, **words)


def execute(path, out, parameters):
    "In the place of `marks.execute`: the cells run in this process."
    out.parent.mkdir(parents=True, exist_ok=True)
    write_ipynb(parameterize_notebook(load_notebook_node(str(path)), parameters, **PYTHON), str(out))
    said = io.StringIO()
    with patch.object(sys, '__stderr__', said), patch('nbdev.test.CaptureShell', Blind), \
            patch.object(Figure, 'savefig', only_svg):
        ok, _ = run_cells(out, cell_timeout=None)  # nbdev writes tracebacks there
    if not ok: raise ValueError(said.getvalue()[-3000:])


def run(name, parameters, drawn):
    "What went wrong with a page, or nothing."
    marks.execute = execute
    if not drawn: page.save_figure = lambda *given: None
    try: marks.run_notebook(name, **parameters)
    except Exception as e: return f'{type(e).__name__}: {e}'
    return ''


def make_variants(domain, s):
    "The stages of the main results that end in a domain, with all before them."
    for variant in graph.MAIN_VARIANTS: make_stage(s, variant, domain)


def read_code(names, s):
    "The keys of all stages and of the pages: this process remembers what they are made from."
    for domain in s.domains:
        for variant in graph.MAIN_VARIANTS: stage_path(s, variant, domain)
    for name in names: marks.run_marker(s, name)
    # modules of pages, too: a fork in the midst of an import, from a thread of the pool, would wait for ever
    for name in experiments(): page_module(name)


def run_all(names, call, pool):
    "What `call` returns for every page; each begins when those that it reads from, or judges, are done."
    judged = {name for name in names if not is_ledger(name)}
    before = {x: {*pages_before(x)} | (set() if x in judged else judged) for x in names}
    left, under_way, found = list(names), {}, {}
    while left or under_way:
        for name in [x for x in left if not before[x] & {*left, *under_way}]:
            left.remove(name)
            under_way[name] = pool.apply_async(call, (name,))
        under_way[next(iter(under_way))].wait(.1)
        for name in [x for x, result in under_way.items() if result.ready()]:
            found[name] = under_way.pop(name).get()
    return found


if __name__ == '__main__':
    parameters, names, s = json.loads(sys.argv[1]), sys.argv[2:], load_settings('smoke')
    drawn = parameters.pop('drawn', True)
    read_code(names, s)
    with get_context('fork').Pool(2, maxtasksperchild=1) as pool:  # a page must not see another's names
        pool.map(partial(make_variants, s=s), s.domains, chunksize=1)
        found = run_all(names, partial(run, parameters=parameters, drawn=drawn), pool)
    print(json.dumps(found))
