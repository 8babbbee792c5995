"Baselines against naive versions, loops and full sorts; and that constants are chosen on validation alone."
import numpy as np
import pytest

from conftest import corpus_of, unit
from modit.baselines import choose, filtered_neighbours, fit_ridge_map, pattern_direction, ridge_map
from modit.baselines import rocchio, steer
from modit.evaluation import average_pool, sample_cases
from modit.ordering import centroid, training_cases
from modit.patterns import ROLES
from modit.settings import load_settings


@pytest.fixture(scope='module')
def world():
    s = load_settings('smoke')
    corpus = corpus_of('D1', s)
    return s, corpus, sample_cases(corpus, 'pattern', 20, s)


def nearest(corpus, query, ids, k):
    "The k nearest of some items, by a full sort."
    return ids[np.argsort(-(corpus.items[ids] @ query), kind='stable')[:k]]


def others(corpus, query, sequence, k):
    "The k nearest items that are not of a case."
    return nearest(corpus, query, np.setdiff1d(np.arange(len(corpus.items)), sequence), k)


def test_filtered_neighbours_are_the_nearest_positives(world):
    s, corpus, cases = world
    found = filtered_neighbours(corpus, cases, s)
    for i, query in enumerate(average_pool(corpus, cases)):
        allowed = corpus.attribute.copy()
        allowed[cases.sequence[i]] = False
        near = nearest(corpus, query, np.flatnonzero(allowed), s.k)
        assert found.joint[i] == pytest.approx((corpus.pattern[near] == cases.pattern[i]).mean())


def test_rocchio_moves_from_least_to_most_dense_neighbours(world):
    s, corpus, cases = world
    query, mean, quarter = rocchio(corpus, cases, s, 2.), average_pool(corpus, cases), s.k//4
    for i in range(3):
        near = others(corpus, mean[i], cases.sequence[i], s.k)
        near = near[np.argsort(corpus.density[near], kind='stable')]
        low, high = corpus.items[near[:quarter]].mean(0), corpus.items[near[-quarter:]].mean(0)
        assert query[i] == pytest.approx(unit(mean[i] + 2*(high - low)), abs=1e-5)


def test_ridge_map_is_the_closed_form(world):
    s, corpus, cases = world
    train = training_cases(corpus, s.of('train_rows', 'D1'), s)
    x = average_pool(corpus, train).astype(float)
    y = centroid(corpus.items, train.tail).astype(float) - x
    centred = x - x.mean(0)
    gram = centred.T @ centred + s.ridge_alpha*np.eye(x.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (y - y.mean(0)))
    mean = average_pool(corpus, cases)
    expected = unit(mean + 1.5*((mean - x.mean(0)) @ weights + y.mean(0)))
    assert ridge_map(fit_ridge_map(corpus, s), corpus, cases, 1.5) == pytest.approx(expected, abs=1e-4)


def test_the_pattern_direction_is_the_difference_of_class_means(world):
    _, corpus, cases = world
    query, mean = pattern_direction(corpus, cases, .5), average_pool(corpus, cases)
    for i, pattern in enumerate(cases.pattern[:5]):
        mine = corpus.pattern == pattern
        classes = [corpus.items[mine & (corpus.attribute == a)].mean(0) for a in (True, False)]
        assert query[i] == pytest.approx(unit(mean[i] + .5*unit(classes[0] - classes[1])), abs=1e-5)


@pytest.mark.parametrize('split', ['item', 'pattern'])
def test_constants_are_chosen_on_validation_alone(world, split):
    s, corpus, _ = world
    served = []
    def answer(cases, value):
        served.append(cases)
        return steer(average_pool(corpus, cases), corpus, value)
    trained = np.unique(corpus.pattern[corpus.role == ROLES.index('train')])
    choose(answer, (.1, .5), corpus, s, split)
    roles = corpus.role[np.concatenate([c.sequence for c in served]).ravel()]
    assert set(roles) == {ROLES.index('valid')}
    assert all((np.isin(c.pattern, trained) == (split == 'item')).all() for c in served)
