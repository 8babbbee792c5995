"""A pool labelled in blocks: the same bytes, and nothing lost to kills, disks and servers."""
from dataclasses import replace
from functools import partial
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from conftest import corpus_of
from modit.candidates import label_in_blocks, labelled_pool
from modit.index import milvus
from modit.model import init_zero_layers, new_model
from modit.rounds import hppo
from modit.settings import load_settings
from modit.stages import pipeline
from modit.stages.pipeline import labeller
from modit.preference import VARIANTS

S = load_settings('smoke')


@pytest.fixture(scope='module')
def world():
    "A corpus and a policy that was never trained; labels cost the same."
    policy = new_model(S)
    init_zero_layers(policy)
    return policy, corpus_of('D3', S)


@pytest.fixture(autouse=True)
def seven(monkeypatch): # of the 48 cases of a pool are a block
    monkeypatch.setattr(pipeline, 'label_in_blocks', partial(label_in_blocks, block=7))


def saved(pool, folder):
    "The bytes of a pool's file."
    pool.save(folder/'joined')
    return (folder/'joined').read_bytes()


@pytest.mark.parametrize('index, cases, blocks', [('ivf', 48, 7), ('flat', 250, 36)])
def test_a_pool_has_the_same_bytes_in_blocks(world, tmp_path, index, cases, blocks):
    policy, corpus = world
    corpus, s = replace(corpus, index_kind=index), replace(S, hppo_cases=cases)
    found = saved(labelled_pool(policy, corpus, s, 2, labeller(tmp_path/'blocks')), tmp_path)
    assert saved(labelled_pool(policy, corpus, s, 2), tmp_path) == found
    assert len([*(tmp_path/'blocks').iterdir()]) == blocks


def test_a_later_round_goes_on_at_its_unfinished_block(world, tmp_path, monkeypatch):
    policy, corpus = world
    s, label, rows = replace(S, hppo_steps=2), pipeline.label_pool, []
    first = labelled_pool(policy, corpus, s)
    through = hppo(policy, corpus, s, first, VARIANTS['pareto_through'])
    def killed(corpus, cases, *more, **how):
        if len(rows) == 3: raise KeyboardInterrupt
        rows.append(len(cases))
        return label(corpus, cases, *more, **how)
    monkeypatch.setattr(pipeline, 'label_pool', killed)
    with pytest.raises(KeyboardInterrupt):
        hppo(policy, corpus, s, first, VARIANTS['pareto_through'], tmp_path, labeller(tmp_path))
    assert sorted(p.name[:15] for p in tmp_path.glob('pool-*')) == [f'pool-002-{i:06d}' for i in (0, 7, 14)]
    monkeypatch.setattr(pipeline, 'label_pool', lambda *more: rows.append(0) or label(*more))
    run = hppo(policy, corpus, s, first, VARIANTS['pareto_through'], tmp_path, labeller(tmp_path))
    assert len(rows) == 7 and run.history == through.history
    weights = through.policy.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in run.policy.state_dict().items())


# ---- a server that goes away
class Server:
    "Milvus in a dict, exact; answers so many searches, then fails in one way until it is started again."
    def __init__(self):
        self.rows, self.error, self.left, self.asked, self.written = {}, None, 10**9, 0, 0

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


@pytest.fixture
def server(monkeypatch):
    "A server in the place of Milvus, and the pauses that were made before it was asked again."
    made, pauses = Server(), []
    monkeypatch.setattr(milvus, '_open_client', lambda uri, timeout: made)
    monkeypatch.setattr(milvus, '_make_collection', lambda *_, **__: None)
    monkeypatch.setattr(milvus.time, 'sleep', pauses.append)
    return made, pauses


def test_rows_that_are_there_are_not_inserted_again(world, server):
    items, made = world[1].items[:700], server[0]
    made.rows = dict(enumerate(items[:400]))
    assert len(milvus.MilvusIndex(items, 'nowhere', batch=100)) == 700 and made.written == 300


@pytest.mark.parametrize('error', [TimeoutError('deadline exceeded'), ConnectionResetError('reset by peer')])
def test_a_server_lost_while_labelling_loses_no_block_and_labels_none_twice(world, tmp_path, server, error):
    policy, flat = world
    made, pauses = server
    corpus, reference = replace(flat, index_kind='milvus'), saved(labelled_pool(policy, flat, S), tmp_path)
    whole = labelled_pool(policy, corpus, S, label=labeller(None))
    assert saved(whole, tmp_path) == reference
    each, made.asked = len(whole.family), 0
    made.error, made.left = error, 5   # the audit of two families, and three blocks
    with pytest.raises(ConnectionError, match='searching failed 4 times .*nothing is lost') as refused:
        labelled_pool(policy, corpus, S, label=labeller(tmp_path/'work'))
    assert '\n' not in str(refused.value) and str(error) in str(refused.value) and pauses == [1, 2, 4]
    assert made.asked == each*(48 + 21) and len([*(tmp_path/'work').iterdir()]) == 3
    made.left, made.asked = 10**9, 0
    again = labelled_pool(policy, corpus, S, label=labeller(tmp_path/'work'))
    assert made.asked == each*27, 'the other four blocks, each query once'
    assert saved(again, tmp_path) == reference
