"""The scripts of `bench/` at tiny sizes: they start, their answers agree, bad words are refused; untimed."""
import json
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from conftest import HANG, ROOT, environment
from modit.retrieval import VectorIndex
from modit.settings import load_settings
from modit.store import stream

sys.path.insert(0, str(ROOT/'bench'))
import folder  # noqa: E402 (the scripts of bench/)
import line  # noqa: E402
import race  # noqa: E402
import shop  # noqa: E402

pytestmark = pytest.mark.slow
S = load_settings('smoke')
RNG = stream(0, 'bench tests')
ITEMS = race.made_items(900, 12, RNG)
QUERIES = race.made_queries(ITEMS, 30, RNG)
BRUTE = -np.sort(-(QUERIES.astype(float) @ ITEMS.T.astype(float)))[:, :7]


# ---- the race
@pytest.mark.parametrize('make', [race.by_faiss, race.by_sklearn, race.by_torch, race.by_usearch])
def test_exact_rivals_find_the_nearest(make):
    search = make(ITEMS)
    if search is None: pytest.skip('usearch is not installed')
    ids = search(QUERIES, 7)
    assert np.allclose(np.einsum('qd,qkd->qk', QUERIES, ITEMS[ids]), BRUTE, atol=1e-5)
    assert np.allclose(VectorIndex(ITEMS).search(QUERIES, 7)[0], BRUTE, atol=1e-5)


def test_a_ratio_is_that_of_a_round():
    row = race.race_row('w', np.array([1., 10.]), np.array([2., 40.]))   # medians would say 21/5.5
    assert (row['low'], row['ratio'], row['high'], row['ours_ms']) == (2, 3, 4, 5500)


def test_a_whole_race_is_run_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    monkeypatch.setattr(race, 'race', partial(race.race, rounds=2))
    table = race.write_race(S, 'toy')
    assert len(table) == 18 and (table.low.dropna() <= table.high.dropna()).all()
    assert {p.name for p in (tmp_path/'bench'/'smoke'/'toy').iterdir()} >= {'race.csv', 'fig-race.svg'}


@pytest.mark.parametrize('script', ['race', 'line', 'accelerator'])
def test_a_script_refuses_what_it_does_not_know(script):
    run = subprocess.run([sys.executable, ROOT/'bench'/f'{script}.py', '--size', 'nosuch'], text=True,
                         env=environment(ROOT), capture_output=True)
    assert run.returncode == 2 and 'error: ' in run.stderr and not run.stdout


# ---- the shop
def test_a_shop_is_as_it_was_described():
    s = shop.made_shop(3, 9000)
    assert abs(s.labelled.mean() - .1) < .02 and abs(s.right.mean() - .15) < .02
    assert len({*s.category[s.new]}) <= 16 and not s.labelled[s.new].any()
    wrong = (s.label[s.labelled] == '1') != s.right[s.labelled]
    assert .02 < wrong.mean() < .08
    seeds, kinds = shop.made_requests(s, 3, True)
    assert s.right[seeds].all() and (s.category[seeds] == kinds[:, None]).all() and s.new[seeds].all()


# ---- the others
def test_the_script_for_an_accelerator_runs_anywhere(tmp_path):
    path, words = tmp_path/'found.json', ['--tiny', '--seconds', str(HANG)]
    run = [sys.executable, ROOT/'bench'/'accelerator.py', path, *words]
    subprocess.run(run, env=environment(ROOT), check=True, capture_output=True)
    rows = json.loads(path.read_text('utf-8'))
    assert [row['what'] for row in rows][-1] == 'end'
    compared = [row for row in rows if row.get('engine') == 'flat']
    assert len(compared) == 2 and all(row['same_ids'] == row['same_scores'] == 1 for row in compared)


def test_a_folder_is_made_listed_and_fitted():
    table = folder.compare(load_settings('smoke'), folder.SIZES['toy'])
    assert table.what.tolist() == ['list_first', 'list_next', 'evaluate']
    assert (table[['cpu_seconds', 'seconds', 'peak_mb']] > 0).all(axis=None)
    with pytest.raises(RuntimeError, match='failed'): folder.measure('nosuch')


def test_jobs_of_the_line_begin_after_their_parents_and_a_failure_stops_its_children_alone(tmp_path):
    jobs = line.jobs_of(['D1', 'D4'], ['D4'], 'scores')
    assert jobs['cpt', ''] == [('pretrained', ''), ('corpus', 'D1'), ('corpus', 'D4')]
    assert ('sft', 'D1') not in jobs and ('pool', 'D4') in jobs['direct', 'D4']
    run = line.Line(tmp_path, 'smoke', {}, 1)
    run.done = lambda *job: False
    run.command = lambda stage, domain: ['-c', f'import sys; sys.exit({int(stage == "pool")})']
    assert not run.run(jobs)
    made = pd.read_csv(tmp_path/'seconds.csv').fillna('')
    assert {*zip(made.stage, made.domain, strict=True)} == {x for x in jobs if x[0] not in (
        'pool', *line.PREFERRED, 'scores')}
    ended = {(row.stage, row.domain): row.began + row.seconds for row in made.itertuples()}
    begins = {(row.stage, row.domain): row.began for row in made.itertuples()}
    assert all(begins[job] >= ended[x] - .2 for job in begins for x in jobs[job])
