"""Experiments of the repository one stands in, two at a time, without a kernel each:
`python tests/forks.py '{"profile": "smoke"}' 330_order 370_best_of_n`.

Forks of this process, which has imported what all pages need, make the stages of the main results and run
the pages' cells, a fork a page, those that read another's scores after it. All else is as in `modit run`:
parameters are checked, papermill puts them into the page, a run leaves its marker. Figures are written as
svg and shown nowhere: kernels show them, and write png, in other tests; with "drawn": false none is written.
The last line that is printed says, as JSON, what went wrong with each page, if anything did.
"""
import io
import json
import sys
from functools import partial
from multiprocessing import get_context
from unittest.mock import patch

import torch._dynamo  # noqa: F401, every optimiser imports it, and a fork keeps it for itself
from execnb.shell import CaptureShell
from IPython.core.pylabtools import select_figure_formats
from matplotlib.figure import Figure
from nbdev.test import test_nb as run_cells
from papermill.iorw import load_notebook_node, write_ipynb
from papermill.parameterize import parameterize_notebook

from modit.repro.pages import graph, notebooks, page
from modit.stages.pipeline import make_stage
from modit.settings import load_settings

PYTHON = dict(kernel_name='python3', language='python')


class Blind(CaptureShell):
    "A shell that shows no picture."
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        select_figure_formats(self, ())


def only_svg(figure, out, savefig=Figure.savefig, **words):
    "In the place of `Figure.savefig`."
    if words.get('format') != 'png': savefig(figure, out, **words)


def save_nothing(folder, label, figure): "In the place of `save_figure`."


def execute(path, out, parameters):
    "In the place of `notebooks.execute`: the cells run in this process."
    out.parent.mkdir(parents=True, exist_ok=True)
    write_ipynb(parameterize_notebook(load_notebook_node(str(path)), parameters, **PYTHON), str(out))
    said = io.StringIO()
    with patch.object(sys, '__stderr__', said), patch('nbdev.test.CaptureShell', Blind), \
            patch.object(Figure, 'savefig', only_svg):
        ok, _ = run_cells(out, cell_timeout=None)  # nbdev writes tracebacks there
    if not ok: raise ValueError(said.getvalue()[-3000:])


def run(name, parameters, drawn):
    "What went wrong with a page, or nothing."
    notebooks.execute = execute
    if not drawn: page.save_figure = save_nothing
    try: notebooks.run_notebook(name, **parameters)
    except Exception as e: return f'{type(e).__name__}: {e}'
    return ''


def make_variants(domain, s):
    "The stages of the main results that end in a domain, with all before them."
    for variant in graph.MAIN_VARIANTS: make_stage(s, variant, domain)


def waves(names):
    "Pages in groups, each after those that it reads from."
    left = list(names)
    while left:
        now = [name for name in left if not {*page.pages_before(name)} & {*left}]
        yield now
        left = [name for name in left if name not in now]


if __name__ == '__main__':
    parameters, names, s = json.loads(sys.argv[1]), sys.argv[2:], load_settings('smoke')
    found, drawn = {}, parameters.pop('drawn', True)
    with get_context('fork').Pool(2, maxtasksperchild=1) as pool:  # a page must not see another's names
        pool.map(partial(make_variants, s=s), s.domains, chunksize=1)
        for wave in waves(names):
            said = pool.map(partial(run, parameters=parameters, drawn=drawn), wave, chunksize=1)
            found |= dict(zip(wave, said, strict=True))
    print(json.dumps(found))
