"""Experiments of the repository one stands in, two at a time, without a kernel each:
`python tests/forks.py '{"profile": "smoke"}' 330_order 370_best_of_n`.

Forks of this process, which has imported what all pages need, run the pages' cells, a fork a page.
All else is as in `modit run`: parameters are checked, papermill puts them into the page, a run leaves its
marker. The last line that is printed says, as JSON, what went wrong with each page, if anything did.
"""
import io
import json
import sys
from functools import partial
from multiprocessing import get_context
from unittest.mock import patch

from nbdev.test import test_nb as run_cells
from papermill.iorw import load_notebook_node, write_ipynb
from papermill.parameterize import parameterize_notebook

from modit import notebooks, page  # noqa: F401

PYTHON = dict(kernel_name='python3', language='python')


def execute(path, out, parameters):
    "In the place of `notebooks.execute`: the cells run in this process."
    out.parent.mkdir(parents=True, exist_ok=True)
    write_ipynb(parameterize_notebook(load_notebook_node(str(path)), parameters, **PYTHON), str(out))
    said = io.StringIO()
    with patch.object(sys, '__stderr__', said): ok, _ = run_cells(out)  # nbdev writes tracebacks there
    if not ok: raise ValueError(said.getvalue()[-3000:])


def run(name, parameters):
    "What went wrong with a page, or nothing."
    notebooks.execute = execute
    try: notebooks.run_notebook(name, **parameters)
    except Exception as e: return f'{type(e).__name__}: {e}'
    return ''


if __name__ == '__main__':
    parameters, names = json.loads(sys.argv[1]), sys.argv[2:]
    with get_context('fork').Pool(2, maxtasksperchild=1) as pool:  # a page must not see another's names
        found = pool.map(partial(run, parameters=parameters), names, chunksize=1)
    print(json.dumps(dict(zip(names, found, strict=True))))
