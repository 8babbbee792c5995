"""A pool labelled in shards: the same bytes for any number, and nothing lost to kills, disks and servers."""
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from conftest import ROOT, corpus_of, environment, full_disk
from modit.cli import command
from modit.stages import pipeline, shards
from modit.index import milvus
from modit.candidates import Pool, labelled_pool
from modit.repro.pages.graph import main_stages, stage_jobs
from modit.rounds import hppo
from modit.variants import VARIANTS
from modit.model import init_zero_layers, new_model
from modit.ordering import Cases
from modit.settings import load_settings
from modit.stages.shards import label_in_shards, labeller, shard_file

S = load_settings('smoke')


@pytest.fixture(scope='module')
def world():
    "A corpus and a policy that was never trained; labels cost the same."
    policy = new_model(S)
    init_zero_layers(policy)
    return policy, corpus_of('D3', S)


def saved(pool, folder):
    "The bytes of a pool's file."
    pool.save(folder/'joined')
    return (folder/'joined').read_bytes()


# ---- the same bytes
@pytest.mark.parametrize('index, cases', [('ivf', 48), ('flat', 250)]) # these in several blocks
def test_a_pool_has_the_same_bytes_for_any_number_of_shards(world, tmp_path, index, cases):
    policy, corpus = world
    corpus, s = replace(corpus, index_kind=index), replace(S, hppo_cases=cases)
    whole = saved(labelled_pool(policy, corpus, s, 2, labeller(shards=1)), tmp_path)
    for many in (None, 2, 7):
        label = labeller(tmp_path/str(many), shards=many)
        assert saved(labelled_pool(policy, corpus, s, 2, label), tmp_path) == whole
    assert saved(labelled_pool(policy, corpus, s, 2), tmp_path) == whole
    assert len([*(tmp_path/'7').iterdir()]) == 7


def test_labels_are_those_of_a_search_by_hand(world):
    policy, corpus = world
    pool = labelled_pool(policy, corpus, S, label=labeller(shards=7))
    for i in range(len(pool)):
        scores = pool.candidates[i].astype(np.float64) @ corpus.items.T.astype(np.float64)
        scores[:, pool.cases.sequence[i]] = -np.inf
        near = np.argsort(-scores, axis=1, kind='stable')[:, :S.k]
        same = corpus.pattern[near] == pool.cases.pattern[i]
        assert np.allclose(pool.joint[i], (same & corpus.attribute[near]).mean(1))
        assert np.allclose(pool.same[i], same.mean(1))


@pytest.mark.parametrize('many', [1, 7])
def test_an_index_is_audited_once_a_pool(world, monkeypatch, many):
    policy, corpus = world
    seen = []
    monkeypatch.setattr(shards, 'audit_labels', lambda corpus, cases, families, k: seen.append(
        (len(cases), [len(x) for x in families.values()])))
    labelled_pool(policy, replace(corpus, index_kind='ivf'), S, label=labeller(shards=many))
    assert seen == [(48, [48, 48])]


# ---- kills
def toy(rows, n=48):
    "Labels that cost nothing, a hash of the case."
    at = np.arange(n)[rows, None]
    cases = Cases(at[:, 0]//8, at*100 + np.arange(8), 6)
    x = np.stack([np.cos(at + np.arange(3)), np.sin(at + np.arange(3))], 2)
    joint, same = at % 7/7 + np.arange(3)/21, at % 5/5 + 0*np.arange(3)
    return Pool(cases, x.astype(np.float32), joint, same, ('static',)*3)


class Counted:
    "Toy labels that note what was labelled, and may do something before a given shard."
    def __init__(self, first=-1, then=None): self.rows, self.first, self.then = [], first, then

    def __call__(self, rows):
        if self.then and rows.start >= self.first: self.then()
        self.rows.append((rows.start, rows.stop))
        return toy(rows)


ALL, SEVEN = toy(slice(0, 48)), [(0, 6), (6, 13), (13, 20), (20, 27), (27, 34), (34, 41), (41, 48)]
def test_a_later_round_goes_on_at_its_unfinished_shard(world, tmp_path, monkeypatch):
    policy, corpus = world
    s, label, rows = replace(S, hppo_steps=2), shards.label_pool, []
    monkeypatch.setattr(shards, 'SHARD', 10)
    first = labelled_pool(policy, corpus, s)
    through = hppo(policy, corpus, s, first, VARIANTS['pareto_through'])
    def killed(corpus, cases, *more, **how):
        if len(rows) == 3: raise KeyboardInterrupt
        rows.append(len(cases))
        return label(corpus, cases, *more, **how)
    monkeypatch.setattr(shards, 'label_pool', killed)
    with pytest.raises(KeyboardInterrupt):
        hppo(policy, corpus, s, first, VARIANTS['pareto_through'], tmp_path, labeller(tmp_path))
    assert sorted(tmp_path.glob('pool-*')) == [shard_file(tmp_path, 2, i, 5) for i in (1, 2, 3)]
    rows[:] = [0]   # it may label two more
    run = hppo(policy, corpus, s, first, VARIANTS['pareto_through'], tmp_path, labeller(tmp_path))
    assert len(rows) == 3 and run.history == through.history
    weights = through.policy.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in run.policy.state_dict().items())


# ---- disks
def test_a_disk_that_fills_up_at_the_join_keeps_all_shards(tmp_path):
    joined, path = label_in_shards(toy, ALL.cases, tmp_path, shards=7), tmp_path/'joined'
    with full_disk(3000), pytest.raises(OSError, match='cannot write .*joined'): joined.save(path)
    assert len([*tmp_path.iterdir()]) == 7
    label = Counted()
    label_in_shards(label, ALL.cases, tmp_path, shards=7)
    assert label.rows == []


# ---- a server that goes away
class Server:
    "Milvus in a dict, exact; answers so many searches, then fails in one way until it is started again."
    def __init__(self, error):
        self.rows, self.error, self.left, self.up, self.asked, self.written = {}, error, 10**9, True, 0, 0

    def __getattr__(self, name): return MagicMock()

    def query(self, *_, **__): return [{'count(*)': len(self.rows)}]

    def upsert(self, name, rows, timeout):
        self.written += len(rows)
        self.rows.update((row['id'], row['vector']) for row in rows)

    def search(self, name, data, limit, timeout, **_):  # no call waits for ever
        self.left -= 1
        if self.left < 0: raise self.error
        self.asked += len(data)
        scores = np.array(data) @ np.stack([self.rows[i] for i in range(len(self.rows))]).T
        near = np.argsort(-scores, axis=1)[:, :limit]
        def hits(row): return [dict(id=int(i), distance=float(scores[row, i])) for i in near[row]]
        return [hits(row) for row in range(len(near))]


DOWN = dict(absent=ConnectionRefusedError('connection refused'), slow=TimeoutError('deadline exceeded'),
            dropped=ConnectionResetError('connection reset by peer'))


@pytest.fixture
def server(monkeypatch):
    "A server in the place of Milvus, and the pauses that were made before it was asked again."
    made, pauses = Server(DOWN['dropped']), []
    def open_client(uri, timeout):
        if not made.up: raise made.error
        return made
    monkeypatch.setattr(milvus, '_open_client', open_client)
    monkeypatch.setattr(milvus, '_make_collection', lambda *_, **__: None)
    monkeypatch.setattr(milvus.time, 'sleep', pauses.append)
    return made, pauses


def test_rows_that_are_there_are_not_inserted_again(world, server):
    items, made = world[1].items[:700], server[0]
    made.rows = dict(enumerate(items[:400]))
    assert len(milvus.MilvusIndex(items, 'nowhere', batch=100)) == 700 and made.written == 300


@pytest.mark.parametrize('how', ['slow', 'dropped'])
def test_a_server_lost_while_labelling_loses_no_shard_and_labels_none_twice(world, tmp_path, server, how):
    policy, flat = world
    made, pauses = server
    corpus, reference = replace(flat, index_kind='milvus'), saved(labelled_pool(policy, flat, S), tmp_path)
    whole = labelled_pool(policy, corpus, S, label=labeller())
    assert saved(whole, tmp_path) == reference
    each, made.asked = len(whole.family), 0
    made.error, made.left = DOWN[how], 5   # the audit of two families, and three shards
    with pytest.raises(ConnectionError, match='searching failed 4 times .*nothing is lost') as refused:
        labelled_pool(policy, corpus, S, label=labeller(tmp_path/'work', shards=7))
    assert '\n' not in str(refused.value) and str(DOWN[how]) in str(refused.value) and pauses == [1, 2, 4]
    assert made.asked == each*(48 + 20) and len([*(tmp_path/'work').iterdir()]) == 3
    made.left, made.asked = 10**9, 0
    again = labelled_pool(policy, corpus, S, label=labeller(tmp_path/'work', shards=7))
    assert made.asked == each*28, 'the other four shards, each query once'
    assert saved(again, tmp_path) == reference


def test_a_drop_that_passes_is_not_noticed(world, tmp_path, server):
    policy, flat = world
    made, pauses = server
    corpus, usual, calls = replace(flat, index_kind='milvus'), made.search, []
    def shaky(*words, **more):
        calls.append(words)
        if len(calls) % 3 == 0: raise made.error
        return usual(*words, **more)
    made.search = shaky
    found = labelled_pool(policy, corpus, S, label=labeller(tmp_path/'work', shards=7))
    assert pauses and saved(found, tmp_path) == saved(labelled_pool(policy, flat, S), tmp_path)


# ---- shards as jobs
TINY = dict(pretrain_steps=2, train_rows=[32, 32, 32, 32])


def typed(*words):
    "A line of the command, in this process."
    command.main([*words, '--profile', 'smoke', '--overrides', json.dumps(TINY)])


def test_jobs_make_the_pool_that_one_process_makes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    path = pipeline.stage_path(load_settings('smoke', **TINY), 'pool', 'D4')
    typed('stage', 'pool', 'D4')
    whole = path.read_bytes()
    path.unlink()
    for number in (5, 1, 7, 3, 6, 2):
        typed('stage', 'pool', 'D4', '--shards', '7', '--shard', str(number))
        assert not path.exists()
    shard_file(path.with_suffix('.work'), 1, 6, 7).write_bytes(b'spoilt')
    capsys.readouterr()
    typed('stage', 'pool', 'D4', '--shards', '7')
    assert '-6-of-7.safetensors: ' in capsys.readouterr().out
    assert path.read_bytes() == whole and not path.with_suffix('.work').exists()


def planned(runs, many):
    "The jobs that Snakemake would run for the main results, by rule."
    line = ['snakemake', 'main', '--config', 'profile=smoke', f'shards={many}', '--dry-run']
    line += ['--workflow-profile', 'workflow/profiles/local']
    env = environment(ROOT) | dict(MODIT_RUNS=str(runs))
    run = subprocess.run([sys.executable, '-m', *line], cwd=ROOT, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return set(re.findall(r'^(\w+) +1$', run.stdout + run.stderr, re.M))


@pytest.mark.slow
def test_the_graph_runs_unfinished_shards_only(tmp_path, monkeypatch):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    jobs = stage_jobs(S, main_stages(S), 7)
    assert len(jobs) == 2 + 4*(3 + 8)
    pools = [job for job in jobs.values() if 'pool' in job.name]
    lost = {'shard_3_of_pool_D1', 'shard_7_of_pool_D4'}
    for path, job in jobs.items():
        late = job.name.startswith('hppo') or job.name in ('pool_D1', 'pool_D4', *lost)
        if late: continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, 'w').close()
    for job in pools:   # joined: its shards are gone, and nobody wants them back
        if job.name.startswith('shard') and job.name[-2:] in ('D2', 'D3'): os.unlink(job.output)
    found = planned(tmp_path, 7)
    assert {name for name in found if 'pool' in name} == lost | {'pool_D1', 'pool_D4'}
    assert {f'hppo_{d}' for d in S.domains} <= found
