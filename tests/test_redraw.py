"""Tables follow from the committed scores, without a model and without a kernel.

Figures are not drawn here: test_figures.py draws those of the committed scores, and test_every_page.py writes
some of the smoke profile and compares them.
"""
import re
import shutil

import pytest

from conftest import NO_KERNEL, WRITING, copy_repository, results, run_python
from modit.repro.pages.notebooks import experiments, short_name
from modit.repro.pages.redraw import has_scores

pytestmark = pytest.mark.slow


def test_committed_tables_follow_from_the_committed_scores(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    for path in (copy/'figures'/'mini').glob('tab-*'): path.unlink()
    said = run_python(NO_KERNEL.format(profile='mini', kinds=()), copy)
    unrun = [name for name in experiments() if not has_scores('mini', name)]
    assert said.count('skipped') == len(unrun) and all(f'{name}: no scores' in said for name in unrun)
    assert all(short_name(name) in said for name in experiments())
    after = results(copy, 'mini')
    assert before.keys() == after.keys() and not list((copy/'runs').rglob('*.safetensors'))
    differ = {k for k, v in after.items() if v != before[k] and not k.endswith('.svg')}
    assert not differ, 'run make figures, then commit'


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
from modit.variants import VARIANTS
VARIANTS['eager'] = replace(VARIANTS['pareto'], label='Eager', page={page!r})
from modit.repro.pages.redraw import redraw_page
for name in {pages!r}: redraw_page(name, profile='mini')"""


AGAIN = ('main', 'candidate_pool', 'pareto', 'rounds', 'sensitivity')


@pytest.mark.parametrize('page, pages', [('main', AGAIN), ('candidate_pool', AGAIN[1:2])])
def test_a_variant_that_was_never_trained_changes_no_result(tmp_path, page, pages):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    run_python(WRITING.format(kinds=('svg',)) + UNTRAINED.format(page=page, pages=pages), copy)
    assert results(copy, 'mini') == before
