"""Tables are made again from scores, without a model and without a kernel; so is a second world's ledger.
That what is committed follows from the committed scores is tested page by page in test_outputs.py.
"""
import re
import shutil

import pytest

from conftest import copy_repository, results, run_python

pytestmark = pytest.mark.slow

# Figures are written in some formats only: what is compared is svg, and writing takes most time.
WRITING = """from matplotlib.figure import Figure
def write(figure, out, savefig=Figure.savefig, **words):
    if words['format'] in {kinds!r}: savefig(figure, out, **words)
Figure.savefig = write
"""

# What a kernel would need cannot be imported. `redraw_page` draws no figure unless it is asked to.
NO_KERNEL = WRITING.format(kinds=()) + """import sys
for name in ('papermill', 'nbclient', 'ipykernel', 'jupyter_client'): sys.modules[name] = None
from modit.cli.command import main
from modit.repro.pages.redraw import redraw_page
redraw_page.__defaults__ = (False,)
main(['figures', '--profile', 'mini'])"""


def test_a_page_without_scores_is_named_and_skipped(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    shutil.rmtree(copy/'figures'/'mini'/'runs')  # the second world too has no scores
    for path in (copy/'figures'/'mini'/'cases').iterdir():
        if path.name not in ('data.csv.gz', 'sensitivity.csv.gz', 'seeds.csv.gz'): path.unlink()
    said = run_python(NO_KERNEL, copy)
    assert re.search(r'jacobi: no scores .*skipped', said) and 'second world: no scores' in said
    assert not list((copy/'runs').rglob('*.safetensors'))
    assert results(copy, 'mini')['tab-seed.csv'] == before['tab-seed.csv']


# A row more in the table of variants, which no score file holds.
UNTRAINED = WRITING.format(kinds=('svg',)) + """from dataclasses import replace
import sys
from modit.preference import VARIANTS
VARIANTS['eager'] = replace(VARIANTS['pareto'], label='Eager', page=sys.argv[1])
from modit.repro.pages.redraw import redraw_page
for name in sys.argv[2:]: redraw_page(name, profile='mini')"""
SECOND = "from modit.repro.pages.redraw import redraw_second; redraw_second('mini')"
AGAIN = ('main', 'candidate_pool', 'pareto', 'rounds', 'sensitivity')


@pytest.mark.parametrize('code, words', [
    (UNTRAINED, ('main', *AGAIN)), (UNTRAINED, ('candidate_pool', 'candidate_pool')), (SECOND, ())],
    ids=['a variant', 'a variant of a page', 'the second ledger'])
def test_a_variant_that_was_never_trained_and_a_second_ledger_change_no_result(tmp_path, code, words):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    run_python(code, copy, *words)
    after = results(copy, 'mini')
    assert {k: after[k] for k in before} == before, 'run make figures, then commit'
