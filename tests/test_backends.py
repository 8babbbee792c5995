"""Every index behind one method: a suite that all kinds pass, and faults of a server."""
import socket
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from modit.index import device
from modit.index.milvus import MilvusIndex
from modit.index.device import DeviceIndex
from modit.retrieval import VectorIndex
from modit.settings import load_settings
from modit.stages import pipeline
from modit.sphere import normalize
from modit.store import stream

lacking = [name for name in ('pymilvus', 'milvus_lite', 'pyarrow') if find_spec(name) is None]
needs_milvus = pytest.mark.skipif(bool(lacking), reason=f'modit[milvus] lacks {", ".join(lacking)}')
KINDS = ('flat', 'torch', 'ivf', pytest.param('milvus', marks=needs_milvus))


def grouped(n, d, groups, rng):
    "Unit items around some centres, as embeddings lie."
    centres = normalize(rng.normal(size=(groups, d)))
    spread = normalize(rng.normal(size=(n, d)))
    return normalize(centres[rng.integers(groups, size=n)] + .8*spread).astype(np.float32)


ITEMS = grouped(3000, 24, 12, stream(0, 'backends'))
ITEMS[100:103] = ITEMS[7]   # four equal items
PICK = stream(0, 'backends picks').integers(3000, size=(70, 6))
QUERIES = normalize(ITEMS[PICK].mean(1) + .3*ITEMS[0]).astype(np.float32)   # off the data, as generated


@pytest.fixture(scope='module')
def indexes(tmp_path_factory):
    "Each kind of index, made once, in a store of its own."
    made = {}
    def index(kind):
        if kind not in made: made[kind] = VectorIndex(ITEMS, kind, block=32)
        return made[kind]
    with pytest.MonkeyPatch.context() as m:
        m.setenv('MODIT_RUNS', str(tmp_path_factory.mktemp('runs')))
        m.delenv('MODIT_MILVUS', raising=False)
        yield index
    if 'milvus' in made: made['milvus'].index.client.close()


# ---- what every kind must do
@pytest.mark.parametrize('kind', KINDS)
def test_finds_the_nearest_items(indexes, kind):
    scores, ids = indexes(kind).search(QUERIES, 20)
    brute = QUERIES.astype(np.float64) @ ITEMS.T.astype(np.float64)
    exact = np.argsort(-brute, axis=1, kind='stable')[:, :20]
    shared = (ids[:, :, None] == exact[:, None]).any(2)
    least = 1 if kind in ('flat', 'torch') else .99
    assert ids.shape == scores.shape == (70, 20) and shared.mean() >= least
    assert np.array_equal(scores, np.take_along_axis(brute, ids, 1).astype(np.float32)), 'scores are exact'
    assert (np.diff(scores, axis=1) <= 0).all() and all(len(set(row)) == 20 for row in ids)


@pytest.mark.parametrize('room', (3000, 77_777), ids=lambda n: f'{n} scores')
def test_torch_holds_few_scores_at_once(monkeypatch, room):
    "What it finds is on page device; here no more scores are in memory than there is room for."
    monkeypatch.setattr(device, 'SCORES', room)
    sizes, usual = [], device.best_scores
    def watched(scores, *rest):
        sizes.append(scores.numel())
        return usual(scores, *rest)
    monkeypatch.setattr(device, 'best_scores', watched)
    DeviceIndex(ITEMS).search(QUERIES, 30)
    assert max(sizes) <= max(room, len(ITEMS)), 'the scores of one query fit always'


def test_an_accelerator_takes_over_exact_search_and_nothing_else(monkeypatch):
    words = ('flat', 'ivf', 'torch', 'mine:engine')
    for place in ('cpu', 'cuda', 'xpu'):
        monkeypatch.setattr(device, 'search_device', lambda place=place: torch.device(place))
        taken = dict(zip(words, map(device.engine_here, words), strict=True))
        assert taken == {word: word for word in words} | ({} if place == 'cpu' else dict(flat='torch'))


def test_a_run_that_says_flat_writes_the_same_bytes_on_an_accelerator(tmp_path, monkeypatch):
    s, made = load_settings('smoke', pretrain_steps=4, train_rows=(48,)*4, hppo_cases=80), {}
    for place, kind in (('here', 'flat'), ('there', 'torch')):
        monkeypatch.setenv('MODIT_RUNS', str(tmp_path/place))
        monkeypatch.setattr(pipeline, 'engine_here', lambda _, kind=kind: kind)
        assert pipeline.get_corpus(s, 'D3').index.kind == kind
        files = [pipeline.make_stage(s, stage, 'D3') for stage in ('corpus', 'pool')]
        made[kind] = {path.name: path.read_bytes() for path in files}
    assert made['flat'] == made['torch'] # names, which have the keys, too


@pytest.mark.parametrize('kind', KINDS)
def test_equal_items_come_by_their_ids(indexes, kind):
    assert indexes(kind).search(ITEMS[7:8], 4)[1].tolist() == [[7, 100, 101, 102]]


@pytest.mark.parametrize('kind', KINDS)
def test_an_answer_does_not_depend_on_company(indexes, kind):
    scores, ids = indexes(kind).search(QUERIES[:40], 10)
    order = stream(0, 'company').permutation(40)
    mixed = indexes(kind).search(QUERIES[:40][order], 10)
    assert np.array_equal(mixed[0], scores[order]) and np.array_equal(mixed[1], ids[order])
    assert np.array_equal(indexes(kind).search(QUERIES[3:4], 10)[1], ids[3:4])


def test_queries_of_another_dimension_are_refused(indexes):
    with pytest.raises(ValueError, match='dimension 8, expected 24'):
        indexes('flat').search(QUERIES[:, :8], 5)


@pytest.mark.parametrize('kind', [k for k in KINDS if k != 'flat'])
def test_made_again_it_is_the_same(indexes, kind):
    again = indexes('flat').with_engine(kind)
    assert np.array_equal(again.search(QUERIES, 10)[1], indexes(kind).search(QUERIES, 10)[1])


# ---- a server: what it does with faults is on page milvus
@needs_milvus
@pytest.mark.parametrize('listens', [True, False], ids=['slow', 'absent'])
def test_a_server_that_does_not_answer_is_one_line(listens):
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        if listens: server.listen()
        uri = f'http://me:secret@127.0.0.1:{server.getsockname()[1]}'
        with pytest.raises(ConnectionError, match='connecting failed 2 times') as refused:
            MilvusIndex(ITEMS[:9], uri, timeout=1., tries=2, pause=0.)
    said = str(refused.value)
    assert '\n' not in said and 'secret' not in said and 'MODIT_MILVUS' in said


def test_without_the_extra_milvus_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, 'pymilvus', None)
    with pytest.raises(ValueError, match=r"pip install 'modit\[milvus\]'"): VectorIndex(ITEMS, 'milvus')
