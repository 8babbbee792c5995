"""Labels on demand: only what is needed is asked for, once, and nothing that was paid for is lost."""
import math
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import HANG, full_disk
from modit.stages import pipeline
from modit.data import scorer
from modit.density import fit_predictor, predict_density, recall_density
from modit.evaluation import average_pool, sample_cases, score_cases
from modit.data.folder import problems, read_folder, write_folder
from modit.serving.check import check_folder
from modit.serving.fit import fit
from modit.serving.proposal import settings_of
from modit.ordering import prepare_corpus
from modit.patterns import ROLES
from modit.retrieval import VectorIndex, search
from modit.data.scorer import Scorer, Service
from modit.settings import load_settings
from modit.store import stream
from modit.data.synth import make_domain, make_world

IDS = np.array([f'item{i}' for i in range(40)], object)
ODD = np.array([i % 2 for i in range(40)], bool)


class Oracle:
    "A service that knows all, and remembers what it was asked."
    def __init__(self, labels=ODD): self.labels, self.asked = dict(zip(IDS, labels, strict=False)), []

    def __call__(self, ids):
        self.asked += ids
        return [float(self.labels[x]) for x in ids]


def begin(call, path, name='a:b', batch=4, **other):
    service = Service(call, batch=batch, tries=2, pause=0, timeout=HANG)
    return Scorer(service, IDS, path/'scores.sqlite', name, **other)


def test_two_at_once_pay_once(tmp_path):
    first, second = begin(Oracle(), tmp_path), begin(Oracle(), tmp_path)
    assert np.array_equal(first[np.arange(8)], ODD[:8])
    assert np.array_equal(second[np.arange(12)], ODD[:12])
    assert second.service.call.asked == list(IDS[8:12]) and second[[]].shape == (0,)
    with pytest.raises(ValueError, match='by number'): second[ODD]


def short(ids): return [1.]*(len(ids) - 1)
def long(ids): return [1.]*(len(ids) + 1)
def mapping(ids): return dict.fromkeys(ids, 1.)
def text(ids): return '1'*len(ids)
def nan(ids): return [float('nan')]*len(ids)
def none(ids): return [None]*len(ids)
def nothing(ids): return None
def down(ids): raise ConnectionError('the line\nis down')
def leaves(ids): sys.exit(3)
def hangs(ids): scorer.time.sleep(HANG)


@pytest.mark.parametrize('broken, said', [
    (short, '3 scores for 4 ids'), (long, '5 scores for 4 ids'), (mapping, 'no list of scores'),
    (text, 'no list of scores'), (nan, 'not finite'), (none, 'not finite|no number'), (nothing, 'NoneType'),
    (down, 'ConnectionError: the line is down'), (leaves, 'SystemExit'),
    (hangs, 'TimeoutError: no answer in 0.2 s')])
def test_a_failure_costs_no_label(tmp_path, broken, said):
    oracle = Oracle()
    def until(ids): return broken(ids) if len(oracle.asked) == 8 else oracle(ids)
    labels = begin(until, tmp_path)
    assert np.array_equal(labels[np.arange(8)], ODD[:8])
    if broken is hangs: labels.service = replace(labels.service, timeout=.2)  # who answers may be slow
    with pytest.raises(ValueError, match=said) as refusal: labels[np.arange(20)]
    line = str(refusal.value)
    assert 'scorer a:b failed 2 times on 4 items from' in line and '\n' not in line
    assert '8 scores are kept' in line
    mended = begin(Oracle(), tmp_path)
    assert np.array_equal(mended[np.arange(20)], ODD[:20])
    assert mended.service.call.asked == list(IDS[8:20])


def test_a_passing_failure_is_asked_again(tmp_path):
    oracle, fails = Oracle(), [down, short, down]
    def shaky(ids): return fails.pop()(ids) if fails else oracle(ids)
    labels = begin(shaky, tmp_path)
    labels.service = replace(labels.service, tries=4)
    assert np.array_equal(labels[np.arange(40)], ODD) and len(oracle.asked) == 40


def test_a_full_disk_asks_for_nothing_that_it_cannot_keep(tmp_path):
    ids, asked = np.array([f'{i:0>300}' for i in range(400)], object), []
    def call(batch):
        asked.extend(batch)
        return [1]*len(batch)
    labels = Scorer(Service(call, batch=10), ids, tmp_path/'scores.sqlite', 'a:b')
    with full_disk(60_000), pytest.raises(OSError, match='nothing that was kept is lost'):
        labels[np.arange(400)]
    paid = list(asked)
    assert 0 < len(paid) < 400
    asked.clear()
    assert Scorer(Service(call), ids, tmp_path/'scores.sqlite', 'a:b')[np.arange(400)].all()
    assert not set(asked) & set(paid) and len(asked) + len(paid) == 400


def test_scores_of_another_and_damaged_ones_are_refused(tmp_path):
    begin(Oracle(), tmp_path)[np.arange(4)]
    with pytest.raises(ValueError, match='holds scores of a:b, not of c:d'): begin(Oracle(), tmp_path, 'c:d')
    (tmp_path/'scores.sqlite').write_bytes(b'not a database at all, but long enough to be read as one'*40)
    with pytest.raises(ValueError, match='scores.sqlite is damaged'): begin(Oracle(), tmp_path)


def test_calls_keep_their_distance_and_pauses_grow(tmp_path, monkeypatch):
    clock, slept = [100.], []
    def sleep(seconds):
        slept.append(seconds)
        clock[0] += seconds
    fake = types.SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    monkeypatch.setattr(scorer, 'time', fake)
    monkeypatch.setattr('tenacity.nap.time', fake)
    labels = begin(Oracle(), tmp_path)
    labels.service = Service(labels.service.call, batch=10, per_second=.5)
    labels[np.arange(40)]
    assert slept == [2., 2., 2.]
    slept.clear()
    labels.service = Service(down, tries=4, pause=1.)
    labels.values[:] = np.nan
    labels.base.execute('delete from score')
    with pytest.raises(ValueError, match='failed 4 times'): labels[np.arange(4)]
    assert [b > a for a, b in zip(slept[-3:], slept[-2:], strict=False)] == [True, True]


# ---- in a domain
S = load_settings('smoke')
MADE = make_domain(make_world(S), 'D1', S)
N = len(MADE.items)
ASKED = []


def truth(ids):
    "The scorer of the tests: what the generated domain says."
    ASKED.extend(ids)
    return [bool(MADE.attribute[int(x)]) for x in ids]


@pytest.fixture
def partly(tmp_path, monkeypatch):
    "A folder of which every fourth label is blank, and settings that name the scorer above."
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    monkeypatch.setitem(sys.modules, 'my_scorers', types.SimpleNamespace(truth=Service(truth, batch=500)))
    labels = np.where(np.arange(N) % 4, MADE.attribute.astype(float), np.nan)
    write_folder(tmp_path/'mine', MADE.items, range(N), labels)
    ASKED.clear()
    tiny = dict(pretrain_steps=2, train_rows=[32], hppo_cases=16, off_policy_steps=[1, 2])
    return tmp_path/'mine', settings_of(tmp_path/'mine', 'smoke', scorers=['my_scorers:truth'], **tiny)


def test_blank_labels_need_a_scorer(partly):
    folder, s = partly
    assert any('blank; write 0 or 1, or name a scorer' in line for line in problems(folder))
    assert not problems(folder, scored=True) and s.normal_share == (0.,)
    with pytest.raises(ValueError, match='blank'): read_folder(folder)
    with pytest.raises(ValueError, match='my_scorers:lies: no such function'):
        pipeline.get_corpus(replace(s, scorers=('my_scorers:lies',)), 'mine')
    lines, trouble = check_folder(folder, 'smoke', scorer='my_scorers:truth')
    assert not trouble and not ASKED and 'and each may cost: nothing is measured' in lines[-1]


def test_anchors_are_labelled_and_nothing_else(partly):
    folder, s = partly
    domain = pipeline.get_domain(s, 'mine')
    corpus = prepare_corpus(domain, s)
    seen = np.flatnonzero(np.isin(corpus.role, (ROLES.index('train'), ROLES.index('other'))))
    few = min(s.anchors, len(seen))
    anchors = np.sort(stream(s.seed, 'anchors', 'mine').choice(seen, few, replace=False))
    index = VectorIndex(domain.items)
    near = search(index, domain.items[anchors], s.k, exclude=anchors[:, None])
    needed = np.unique(near)
    assert sorted(map(int, ASKED)) == needed[needed % 4 == 0].tolist()
    density = recall_density(index, anchors, MADE.attribute, s.k) # as if every label were known
    expected = predict_density(domain.items, *fit_predictor(domain.items[anchors], density, s.ridge_alpha))
    assert np.array_equal(corpus.density, expected)
    assert not corpus.attribute[::4].any() # what is built does not depend on what was scored


def test_candidates_and_cases_are_judged_by_the_scorer(partly):
    folder, s = partly
    corpus = pipeline.get_corpus(s, 'mine')
    ASKED.clear()
    cases = sample_cases(corpus, 'item', 20, s)
    found = score_cases(average_pool(corpus, cases), corpus, cases, s)
    whole = replace(corpus, scorer=None, attribute=MADE.attribute)
    again = score_cases(average_pool(corpus, cases), whole, cases, s)
    assert found.equals(again) and len(set(ASKED)) == len(ASKED)


def test_a_run_with_some_labels_on_disk_ends_as_one_without(partly, tmp_path, monkeypatch):
    folder, s = partly
    first = pipeline.make_stage(s, 'off_policy', 'mine').read_bytes()
    paid = len(ASKED)
    assert paid == len(set(ASKED)) < N/4
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'others'))
    assert pipeline.make_stage(s, 'off_policy', 'mine').read_bytes() == first
    assert len(ASKED) == paid # a second run pays nothing


def test_a_fit_whose_scorer_fails_goes_on_and_buys_no_label_twice(partly, tmp_path, monkeypatch, capsys):
    folder, _ = partly
    left = [math.inf] # items that are scored before the service is down
    def shaky(ids):
        if left[0] < len(ids): raise ConnectionError('the line is down')
        left[0] -= len(ids)
        return truth(ids)
    service = Service(shaky, batch=40, tries=2, pause=0)
    monkeypatch.setitem(sys.modules, 'my_scorers', types.SimpleNamespace(shaky=service))
    monkeypatch.setattr('modit.serving.fit._prospects', lambda *given: []) # which buys many labels before
    words = dict(scorers=['my_scorers:shaky'], anchors=20)
    whole = Path(shutil.copytree(folder, tmp_path/'whole'/'mine'))
    with monkeypatch.context() as m:
        m.setenv('MODIT_RUNS', str(tmp_path/'others'))
        fit(whole, 'smoke', **words)
    bought = len(ASKED)
    ASKED.clear()
    stopped = []
    for _ in range(20):
        left[0] = 100
        before = len(ASKED)
        capsys.readouterr()
        try: fit(folder, 'smoke', **words)
        except ValueError as e:
            line = str(e)
            assert 'scorer my_scorers:shaky failed 2 times' in line and '\n' not in line
            assert f'{len(ASKED)} scores are kept' in line and len(ASKED) > before
            stopped.append(capsys.readouterr().out.splitlines()[-1])
        else: break
    assert '[3/3] alone mine: start' in stopped, 'it fails in training too'
    assert len(ASKED) == len(set(ASKED)) == bought < N/4
    same = [(x/'model'/'model.safetensors').read_bytes() for x in (folder, whole)]
    assert same[0] == same[1], 'the policy is that of a service that never fails'


def build(items): # an index of one's own, in NumPy
    class Plain:
        def search(self, queries, k):
            scores = queries @ items.T
            ids = np.argsort(-scores, axis=1, kind='stable')[:, :k]
            return np.take_along_axis(scores, ids, 1), ids
    return Plain()


def liar(items):
    return types.SimpleNamespace(search=lambda queries, k: (None, np.full((len(queries), k), len(items))))


def test_an_index_of_ones_own_answers_as_faiss_does(partly, monkeypatch):
    mine = types.SimpleNamespace(build=build, liar=liar)
    monkeypatch.setitem(sys.modules, 'my_index', mine)
    queries = stream(0, 'queries').normal(size=(30, S.dim)).astype(np.float32)
    scores, ids = VectorIndex(MADE.items, 'my_index:build').search(queries, 9)
    usual = VectorIndex(MADE.items).search(queries, 9)
    assert np.array_equal(ids, usual[1]) and np.array_equal(scores, usual[0])
    s = load_settings('smoke', index='my_index:build')
    assert np.array_equal(prepare_corpus(MADE, s).density, prepare_corpus(MADE, S).density)
    with pytest.raises(ValueError, match='the index answered'):
        VectorIndex(MADE.items, 'my_index:liar').search(queries, 9)
    with pytest.raises(ValueError, match='my_index:none: no such function'):
        VectorIndex(MADE.items, 'my_index:none')
