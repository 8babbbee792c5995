"""Tables are made again from scores, without a model and without a kernel; so are the verdicts of a second
world, whose jobs take nothing from the first.

That what is committed follows from the committed scores is tested page by page in test_outputs.py.
"""
import re
import shutil

import pandas as pd
import pytest

from conftest import NO_KERNEL, ROOT, WRITING, copy_repository, results, run_python
from modit.repro.pages.graph import main_stages, page_job, stage_jobs
from modit.repro.pages.notebooks import experiment_path
from modit.repro.pages.redraw import SECOND, SECOND_PAGES, redraw_page, second_jobs
from modit.settings import load_settings

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
LENT = ('data', 'order')  # scores of the first world that stand for a second one's


def test_no_job_takes_anything_from_the_first_world():
    s = load_settings('smoke')
    pages = [page_job(s, experiment_path(name).stem) for name in SECOND_PAGES]
    first = {*stage_jobs(s, main_stages(s)), *(job.output for job in pages)}
    stages, pages = second_jobs('smoke')
    jobs = stages | pages
    assert len(pages) == len(SECOND_PAGES) and not first & set(jobs)
    assert len({job.name for job in jobs.values()}) == len(jobs)
    for job in jobs.values():
        assert set(job.inputs) <= set(jobs) and f'"seed": {SECOND}' in job.command


def test_the_second_ledger_follows_from_its_scores(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    run_python("from modit.repro.pages.redraw import redraw_second; redraw_second('mini')", copy)
    after = results(copy, 'mini')
    assert {k: after[k] for k in before} == before, 'run make figures, then commit'


JUDGE = """from modit.repro.pages.redraw import redraw_page, redraw_second
print(redraw_second('mini'), redraw_page('replicate', profile='mini'), redraw_second('smoke'))"""


def test_equal_scores_give_equal_estimates_side_by_side(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    first, second = copy/'figures'/'mini', copy/'figures'/'mini'/'runs'/f'seed={SECOND}'
    shutil.rmtree(second, ignore_errors=True)
    (second/'cases').mkdir(parents=True)
    for name in LENT: shutil.copy(first/'cases'/f'{name}.csv.gz', second/'cases')
    before = (first/'claims.csv').read_bytes()
    said = run_python(JUDGE, copy)
    assert "['300_data', '330_order']" in said and 'no scores in figures/smoke' in said
    assert (first/'claims.csv').read_bytes() == before       # the first ledger is only read
    both = pd.read_csv(first/'tab-replicate.csv', index_col='id', keep_default_na=False)
    ledger = pd.read_csv(ROOT/'figures'/'mini'/'claims.csv', index_col='id')
    assert both.verdict_0.to_dict() == ledger.verdict.to_dict()
    judged = both[both.verdict_1 != 'not run']
    assert sorted(judged.index) == ['C09', 'C10', 'C33']
    numbers = judged[['estimate_0', 'estimate_1']].astype(float)
    assert (numbers.estimate_0 - numbers.estimate_1).abs().max() < 1e-6
    assert (judged.agree == (judged.verdict_0 == judged.verdict_1).map({True: 'yes', False: 'no'})).all()
    assert (judged.shared.astype(int) == judged.cells.astype(int)).all()
    assert set(both.agree[both.verdict_1 == 'not run']) == {''}
    assert not list((copy/'runs').rglob('*.safetensors'))
    assert {'tab-order.csv', 'tab-data.csv', 'claims.csv'} <= {p.name for p in second.iterdir()}
    assert not list(second.glob('*.svg'))
