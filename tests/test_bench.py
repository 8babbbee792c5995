"""Speed at tiny sizes: answers agree, files join and outlive a kill, exponents are found; untimed."""
import json
import subprocess
import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from conftest import HANG, ROOT, environment
from modit.repro.bench import bench
from modit.repro.bench.bench import Watched, training_step
from modit.flow import generate
from modit.model import init_zero_layers, new_model
from modit.pretrain import continuation_loss, continuation_rows
from modit.retrieval import VectorIndex, faiss
from modit.settings import PER_DOMAIN, load_settings
from modit.sphere import sample_sphere
from modit.store import stream

sys.path.insert(0, str(ROOT/'bench'))
import folder  # noqa: E402 (the scripts of bench/)
import growth  # noqa: E402
import line  # noqa: E402
import narrow  # noqa: E402
import race  # noqa: E402
from growth import Point, Sizes, along, exponents, grow, points_of, read_growth  # noqa: E402
from race import behind, draw_race, generate_plainly, interleaved  # noqa: E402
from race import one_sequence, race_row  # noqa: E402

S = load_settings('smoke')
RNG = stream(0, 'bench tests')
ITEMS = race.made_items(900, 12, RNG)
QUERIES = race.made_queries(ITEMS, 30, RNG)
BRUTE = -np.sort(-(QUERIES.astype(float) @ ITEMS.T.astype(float)))[:, :7]


# ---- the bench
PROCESSORS = ROOT/'figures'/'mini'/'bench'


def test_the_joint_table_is_that_of_the_committed_runs():
    joint = pd.read_csv(ROOT/'figures'/'mini'/'bench.csv', keep_default_na=False)
    pd.testing.assert_frame_equal(joint, bench.joint_table(PROCESSORS))
    for path in PROCESSORS.iterdir():
        name, = pd.read_csv(path).processor.unique()
        assert path.name == f'{"-".join(name.split()[:2])}.csv' and name in joint


def run_of(processor, **values):
    "A made-up table of one processor."
    rows = [dict(what=what, value=x, low=x, high=x, aim='>= 1') for what, x in values.items()]
    return pd.DataFrame(rows).assign(processor=processor)


def test_a_run_writes_its_own_table_and_the_joint_one(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, 'figures_dir', lambda s: tmp_path)
    for run in (run_of('6 1 A', old=1, kept=2), run_of('7 2 B', kept=3, new=5, more=4)):
        monkeypatch.setattr(bench, 'bench', lambda s, run=run: run)
        bench.write_bench(S)
    assert sorted(x.name for x in (tmp_path/'bench').iterdir()) == ['6-1.csv', '7-2.csv']
    joint = pd.read_csv(tmp_path/'bench.csv').set_index('what')
    assert joint.index.tolist() == ['kept', 'new', 'more'] and (tmp_path/'bench.md').exists()
    assert joint['6 1 A'].tolist() == ['2 [2, 2]', '–', '–']
    assert joint['7 2 B'].tolist() == ['3 [3, 3]', '5 [5, 5]', '4 [4, 4]']


def test_a_watched_step_learns_the_same():
    plain, seen = training_step(S), training_step(S)
    losses = [float(plain()) for _ in range(3)]
    with Watched() as watched: assert [float(seen()) for _ in range(3)] == losses
    assert {'mm', 'addmm'} & {op for op, _ in watched.rows}


# ---- the race
@pytest.mark.parametrize('make', [race.by_faiss, race.by_sklearn, race.by_torch, race.by_usearch])
def test_exact_rivals_find_the_nearest(make):
    search = make(ITEMS)
    if search is None: pytest.skip('usearch is not installed')
    ids = search(QUERIES, 7)
    assert np.allclose(np.einsum('qd,qkd->qk', QUERIES, ITEMS[ids]), BRUTE, atol=1e-5)
    assert np.allclose(VectorIndex(ITEMS).search(QUERIES, 7)[0], BRUTE, atol=1e-5)


def test_faiss_as_it_comes_leaves_our_switch_alone():
    search = race.by_faiss(ITEMS)
    with pytest.raises(AssertionError): search(QUERIES[:, :5], 7)
    assert faiss.cvar.distance_compute_blas_threshold == 0


def test_everybody_has_as_many_turns():
    turns = []
    times = interleaved({name: partial(turns.append, name) for name in 'ab'}, 4)
    assert ''.join(turns) == 'ab' + 'abbaabba' and all(len(t) == 4 for t in times.values())


def test_a_ratio_is_that_of_a_round():
    row = race_row('w', np.array([1., 10.]), np.array([2., 40.]))   # medians would say 21/5.5
    assert (row['low'], row['ratio'], row['high'], row['ours_ms']) == (2, 3, 4, 5500)


def test_a_rival_that_is_missing_has_a_row(monkeypatch):
    monkeypatch.setattr(race, 'find_spec', lambda name: None)
    table = pd.DataFrame(race.race_labelling(900, 12, 5, 8, 1))
    missing = table[table.what.str.contains('usearch')]
    assert len(missing) == 4 and (missing.note == 'not installed').all() and missing.ratio.isna().all()
    assert not behind(table).what.str.contains('usearch').any()
    plt.close(draw_race(table))


def test_one_sequence_learns_the_same():
    gradients, losses = [], []
    rows = continuation_rows(sample_sphere(RNG, (6, S.seq_len, S.dim)).numpy(), S, RNG, dropout=0.)
    for plainly in (False, True):
        model = init_zero_layers(new_model(S))
        loss = continuation_loss(partial(one_sequence, model) if plainly else model, rows)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert np.isclose(*losses, rtol=1e-4) and torch.allclose(*gradients, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize('scales', [[1.], [3.], [1., 2., 6.]])
def test_one_sequence_serves_the_same(scales):
    model, scale = init_zero_layers(new_model(S)), torch.tensor(scales)
    items, noise = sample_sphere(RNG, (3, 5, S.dim)), sample_sphere(RNG, (3, len(scales), S.dim))
    plain = generate_plainly(partial(one_sequence, model), items, noise, scale, 4)
    assert torch.allclose(plain, generate(model, items, noise, scale, 4), atol=1e-3)


def test_targets_of_the_plain_model_do_not_see_each_other():
    items, noise = sample_sphere(RNG, (5, S.prefix_len, S.dim)), sample_sphere(RNG, (5, 3, S.dim))
    t, place, plain = torch.rand(5, 3), torch.full((3,), S.prefix_len), race.plain_transformer(S)
    together, alone = plain(items, noise, t, place), plain(items, noise[:, 1:2], t[:, 1:2], place[1:2])
    assert torch.allclose(together[:, 1:2], alone, atol=1e-5)
    assert (together*noise).sum(-1).abs().max() < 1e-5  # velocities are tangent


def test_a_whole_race_is_run_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    monkeypatch.setattr(race, 'race', partial(race.race, rounds=2))
    table = race.write_race(S, 'toy')
    assert len(table) == 18 and (table.low.dropna() <= table.high.dropna()).all()
    assert {p.name for p in (tmp_path/'bench'/'smoke'/'toy').iterdir()} >= {'race.csv', 'fig-race.svg'}


# ---- growth
SIZES = Sizes((100, 1000, 10_000), (50, 500, 5000), (8, 16, 64), (10, 20, 40))


def power(point, s):
    "Rows of a made-up unit of work that grows by known powers."
    n, d, L = point.items or 1, point.dim, point.length or 1
    return [dict(work='a unit', seconds=1e-6*n**.75*d**.5*L**2, memory_mb=n*d*L)]


def test_exponents_of_made_up_growth_are_recovered(tmp_path):
    table = grow(points_of(SIZES), S, tmp_path/'growth.csv', power)
    found = exponents(table).set_index(['case', 'axis']).time
    assert np.allclose(found.xs('items', level='axis'), .75) and len(found.xs('items', level='axis')) == 5
    assert np.allclose(found.xs('dim', level='axis'), .5) and np.allclose(found.xs('length', level='axis'), 2)
    line = along(table[table.case == 'hnsw'], 'items')
    assert line['items'].tolist() == [50, 500, 5000] and (line.dim == 8).all()


def test_growth_goes_on_where_it_was_stopped(tmp_path):
    path, points, asked = tmp_path/'growth.csv', [Point('flat', n) for n in (100, 200, 300)], []
    def measure(point, s):
        asked.append(point.items)
        if len(asked) == 3: raise KeyboardInterrupt
        return power(point, s)
    with pytest.raises(KeyboardInterrupt): grow(points, S, path, measure)
    before, after = pd.read_csv(path), grow(points, S, path, measure)
    assert asked == [100, 200, 300, 300] and after['items'].tolist() == [100, 200, 300]
    assert (after.seconds[:2] == before.seconds).all() and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_point_has_a_process_and_a_memory_of_its_own():
    held = np.ones(2**26)                                            # half a gigabyte, here
    row, = growth.measure_apart(Point('generation', 0, 8, 6), S)
    assert 0 < row['memory_mb'] < held.nbytes/2**20/2 and row['seconds'] > 0
    with pytest.raises(ValueError, match="Point.*case='nothing'.*unknown.*is kept$"):
        growth.measure_apart(Point('nothing'), S)


@pytest.mark.parametrize('spoil, said', [
    (lambda text: 'a,b\n1,2\n', 'other columns'), (lambda text: '', 'damaged'),
    (lambda text: text.replace(growth.PROCESSOR, 'Another'), 'is of Another, this is ')],
    ids=['foreign', 'empty', 'another machine'])
def test_a_file_that_cannot_go_on_is_refused(tmp_path, spoil, said):
    path = tmp_path/'growth.csv'
    grow([Point('flat', 100)], S, path, power)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(ValueError, match=f'growth.csv.*{said}.*; delete the file$'): read_growth(path)


def test_only_what_no_file_has_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    monkeypatch.setattr(growth, 'points_of', lambda sizes: [Point('flat', n) for n in (100, 200)])
    measured = []
    def measure(point, s):
        measured.append(point.items)
        return power(point, s)
    monkeypatch.setattr(growth, 'grow', partial(grow, measure=measure))
    folder = tmp_path/'bench'/'smoke'/'toy'
    for _ in range(2): assert len(growth.write_growth(S, 'toy')) == 2
    assert measured == [100, 200] and (folder/'fig-growth.svg').exists()
    (folder/'growth.csv').unlink()
    assert len(growth.write_growth(S, 'toy')) == 2 and measured == [100, 200, 100, 200]


# ---- items in fewer bits
@pytest.mark.skipif(sys.platform != 'linux', reason='memory is counted as Linux does')
def test_items_in_fewer_bits_are_smaller_and_found(tmp_path):
    table = narrow.compare(tmp_path, narrow.SIZES['toy'], 20)
    assert table.groupby('embeddings').size().to_dict() == dict(float16=4, float32=4)
    sizes = table.groupby('embeddings').table_mb.max()
    assert .5 <= sizes.float16/sizes.float32 < .51
    assert table.recall.between(.9, 1).all()
    whole = table[table.embeddings == 'float32'].set_index('index')
    assert whole.recall['flat'] == 1 and (whole.recall >= whole.alone - 1e-9).all()
    assert ((table.index_mb > 0) == (table['index'] == 'ivf_disk')).all()


# ---- the script for a machine with an accelerator
def test_the_script_for_an_accelerator_runs_anywhere(tmp_path):
    path, words = tmp_path/'found.json', ['--tiny', '--seconds', str(HANG)]
    run = [sys.executable, ROOT/'bench'/'accelerator.py', path, *words]
    subprocess.run(run, env=environment(ROOT), check=True, capture_output=True)
    rows = json.loads(path.read_text())
    assert [row['what'] for row in rows][-1] == 'end'
    compared = [row for row in rows if row.get('engine') == 'flat']
    assert len(compared) == 2 and all(row['same_ids'] == row['same_scores'] == 1 for row in compared)


# ---- a folder
def test_a_folder_is_made_listed_and_fitted():
    table = folder.compare(load_settings('smoke'), folder.SIZES['toy'])
    assert table.what.tolist() == ['list_first', 'list_next', 'fit', 'list_model']
    assert (table[['cpu_seconds', 'seconds', 'peak_mb']] > 0).all(axis=None)
    with pytest.raises(RuntimeError, match='failed'): folder.measure('nosuch')


# ---- the line of a profile
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


def test_a_line_of_fewer_domains_keeps_their_own_sizes():
    s = load_settings('large')
    few = load_settings('large', **line.restricted('large', ['D2', 'D4'], dict(index='torch')))
    assert few.domains == ('D2', 'D4') and few.index == 'torch'
    assert all(few.of(x, d) == s.of(x, d) for x in PER_DOMAIN for d in few.domains)
