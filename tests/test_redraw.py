"""Tables are made again from scores, without a model and without a kernel; so is a second world's ledger.
That what is committed follows from the committed scores is tested page by page in test_outputs.py.
"""
import re
import shutil

import pytest

from conftest import NO_KERNEL, WRITING, copy_repository, results, run_python

pytestmark = pytest.mark.slow


def test_a_page_without_scores_is_named_and_skipped(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    shutil.rmtree(copy/'figures'/'mini'/'runs')  # the second world too has no scores
    for path in (copy/'figures'/'mini'/'cases').iterdir():
        if path.name not in ('data.csv.gz', 'sensitivity.csv.gz', 'seeds.csv.gz'): path.unlink()
    said = run_python(NO_KERNEL.format(profile='mini', kinds=()), copy)
    assert re.search(r'jacobi: no scores .*skipped', said) and 'second world: no scores' in said
    assert not list((copy/'runs').rglob('*.safetensors'))
    assert results(copy, 'mini')['tab-seed.csv'] == before['tab-seed.csv']


# A row more in the table of variants, which no score file holds.
UNTRAINED = """from dataclasses import replace
from modit.preference import VARIANTS
VARIANTS['eager'] = replace(VARIANTS['pareto'], label='Eager', page={page!r})
from modit.repro.pages.redraw import redraw_page
for name in {pages!r}: redraw_page(name, profile='mini')"""


AGAIN = ('main', 'candidate_pool', 'pareto', 'rounds', 'sensitivity')


@pytest.mark.parametrize('page, pages', [('main', AGAIN), ('candidate_pool', AGAIN[1:2])])
def test_a_variant_that_was_never_trained_changes_no_result(tmp_path, page, pages):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    run_python(WRITING.format(kinds=('svg',)) + UNTRAINED.format(page=page, pages=pages), copy)
    after = results(copy, 'mini')
    assert {k: after[k] for k in before} == before


# ---- a second world


def test_the_second_ledger_follows_from_its_scores(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    run_python("from modit.repro.pages.redraw import redraw_second; redraw_second('mini')", copy)
    after = results(copy, 'mini')
    assert {k: after[k] for k in before} == before, 'run make figures, then commit'
