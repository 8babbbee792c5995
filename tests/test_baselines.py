"""Baselines against brute force, and the rule that constants are chosen on validation alone."""
import numpy as np
import pytest

from modit import baselines
from modit.baselines import choose, filtered_neighbours, fit_ridge_map, pattern_direction, ridge_map, rocchio, steer
from modit.evaluation import average_pool, sample_cases
from modit.ordering import ROLES, prepare_corpus
from modit.retrieval import VectorIndex
from modit.settings import load_settings
from modit.synth import make_domain, make_world


@pytest.fixture(scope='module')
def world():
    s = load_settings('smoke')
    domain = make_domain(make_world(s), 'D1', s)
    index = VectorIndex(domain.items)
    corpus = prepare_corpus(domain, index, s)
    return s, corpus, index, sample_cases(corpus, 'pattern', 20, s)


def test_filtered_neighbours_are_the_nearest_positives(world):
    s, corpus, _, cases = world
    found = filtered_neighbours(corpus, cases, s)
    for i, query in enumerate(average_pool(corpus, cases)):
        allowed = corpus.attribute.copy()
        allowed[cases.sequence[i]] = False
        ids = np.flatnonzero(allowed)
        nearest = ids[np.argsort(-(corpus.items[ids] @ query), kind='stable')[:s.k]]
        assert found.joint[i] == pytest.approx((corpus.pattern[nearest] == cases.pattern[i]).mean())


def test_rocchio_moves_from_least_to_most_dense_neighbours(world):
    s, corpus, index, cases = world
    query = rocchio(corpus, index, cases, s, 2.)
    mean = average_pool(corpus, cases)
    for i in range(3):
        score = corpus.items @ mean[i]
        score[cases.sequence[i]] = -2
        near = np.argsort(-score, kind='stable')[:s.k]
        near = near[np.argsort(corpus.density[near], kind='stable')]
        quarter = s.k//4
        expected = mean[i] + 2*(corpus.items[near[-quarter:]].mean(0) - corpus.items[near[:quarter]].mean(0))
        assert query[i] == pytest.approx(expected/np.linalg.norm(expected), abs=1e-5)


def test_ridge_map_is_the_closed_form(world):
    s, corpus, _, cases = world
    from modit.ordering import centroid, training_cases
    train = training_cases(corpus, s.train_rows[0], s)
    x, y = average_pool(corpus, train).astype(float), centroid(corpus.items, train.tail).astype(float)
    y = y - x
    centred = x - x.mean(0)
    weights = np.linalg.solve(centred.T @ centred + s.ridge_alpha*np.eye(x.shape[1]), centred.T @ (y - y.mean(0)))
    mean = average_pool(corpus, cases)
    expected = mean + 1.5*((mean - x.mean(0)) @ weights + y.mean(0))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert ridge_map(fit_ridge_map(corpus, s), corpus, cases, 1.5) == pytest.approx(expected, abs=1e-4)


def test_a_step_raises_what_it_steps_along(world):
    s, corpus, _, cases = world
    mean = average_pool(corpus, cases)
    along = corpus.probe/np.linalg.norm(corpus.probe)
    heights = [(steer(mean, corpus, step) @ along).mean() for step in (0., .3, .9)]
    assert heights == sorted(heights)
    assert np.linalg.norm(pattern_direction(corpus, cases, .5), axis=1) == pytest.approx(1, abs=1e-5)


def test_constants_are_chosen_on_validation_alone(world, monkeypatch):
    s, corpus, index, _ = world
    seen = []
    def answer(cases, value):
        seen.append(cases)
        return steer(average_pool(corpus, cases), corpus, value)
    trained = np.unique(corpus.pattern[corpus.role == ROLES.index('train')])
    for split in ('item', 'pattern'):
        seen.clear()
        choose(answer, (.1, .5), corpus, index, s, split)
        roles = corpus.role[np.concatenate([c.sequence for c in seen]).ravel()]
        assert set(roles) == {ROLES.index('valid')}
        assert all(np.isin(c.pattern, trained).all() == (split == 'item') for c in seen)
