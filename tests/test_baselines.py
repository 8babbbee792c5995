"""Baselines and rivals against naive versions: loops, full sorts, gradients written out by hand; and the rule
that constants are chosen on validation alone."""
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import corpus_of, unit
from modit.baselines import choose, filtered_neighbours, fit_ridge_map, pattern_direction, ridge_map
from modit.baselines import rocchio, steer
from modit.evaluation import average_pool, sample_cases
from modit.ordering import centroid, training_cases
from modit.patterns import ROLES
from modit.repro.ours.baselines import ALTERNATIVES, LISTS, densest_seeds, refined, score_lists
from modit.repro.ours.baselines import weighted_seeds
from modit.repro.ours.baselines import classifier_scores
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


# ---- methods from other work
@pytest.mark.parametrize('share, kept', [(1., 6), (.5, 3), (.3, 2), (.01, 1)])
def test_the_densest_seeds_are_averaged(world, share, kept):
    _, corpus, cases = world
    found = densest_seeds(corpus, cases, share)
    for seeds, query in zip(cases.prefix, found, strict=True):
        best = sorted(seeds, key=lambda i: -corpus.density[i])[:kept]
        assert query == pytest.approx(unit(corpus.items[best].mean(0)), abs=1e-5)


def test_seeds_are_weighted_by_density(world):
    _, corpus, cases = world
    found = weighted_seeds(corpus, cases, .05)
    for seeds, query in zip(cases.prefix, found, strict=True):
        total = sum(np.exp(corpus.density[i]/.05)*corpus.items[i] for i in seeds)
        assert query == pytest.approx(unit(total), abs=1e-5)


@pytest.mark.parametrize('method, teacher', [('feedback', 'density'), ('feedback_labels', 'attribute')])
def test_feedback_ranks_all_items_as_the_formula_of_pairs(world, method, teacher):
    s, corpus, cases = world
    scores = getattr(corpus, teacher).astype(float)
    found = ALTERNATIVES[method].prepare(corpus, s)(cases, .3)
    for i, mean in enumerate(average_pool(corpus, cases)):
        ten = others(corpus, mean, cases.sequence[i], 10)
        query = mean.astype(float)
        for a in ten:
            for b in ten:
                surer = max(scores[a] - scores[b], 0)
                query += .3*surer*(corpus.items[a] - corpus.items[b])
        assert found[i] == pytest.approx(unit(query), abs=1e-4)


def test_refinement_is_adam_on_the_divergence(world):
    _, corpus, cases = world
    start = average_pool(corpus, cases)
    ids = np.stack([others(corpus, q, row, 20) for q, row in zip(start, cases.sequence, strict=True)])
    found = refined(start, corpus.items[ids], corpus.density[ids], .002, steps=30)
    for i in range(3):
        x, scores, q = corpus.items[ids[i]].astype(float), corpus.density[ids[i]], start[i].astype(float)
        p = np.exp((scores - scores.min())/np.ptp(scores))
        m, v = np.zeros_like(q), np.zeros_like(q)
        for t in range(1, 31):
            length, cos = np.linalg.norm(q), x @ unit(q)
            soft = np.exp(cos)/np.exp(cos).sum()
            gradient = ((soft - p/p.sum())[:, None]*(x - cos[:, None]*unit(q))/length).sum(0)
            m, v = .9*m + .1*gradient, .999*v + .001*gradient**2
            q = q - .002*(m/(1 - .9**t))/(np.sqrt(v/(1 - .999**t)) + 1e-8)
        assert found[i] == pytest.approx(unit(q), abs=1e-3)


def test_lists_are_the_neighbours_sorted_by_the_classifier(world):
    s, corpus, cases = world
    scores = classifier_scores(corpus, s)
    found = ALTERNATIVES['reranked'].prepare(corpus, s)(cases, 100)
    for i, mean in enumerate(average_pool(corpus, cases)):
        near = others(corpus, mean, cases.sequence[i], 100)
        best = near[np.argsort(-scores[near], kind='stable')][:s.k]
        assert found[i].tolist() == best.tolist()


def test_the_constant_of_a_list_is_chosen_on_validation_alone(world):
    s, corpus, _ = world
    asked = []
    def lists(cases, value): # positives of the pattern where the value is 2, other items where it is 1
        asked.append((value, cases))
        right = [np.flatnonzero(corpus.attribute & (corpus.pattern == c))[:s.k] for c in cases.pattern]
        return np.stack(right) if value == 2 else np.zeros((len(cases), s.k), int)
    p = SimpleNamespace(s=s, splits=('item', 'pattern'), cases=5)
    rows = score_lists(p, corpus, 'best', lists, (1, 2))
    assert (rows.value == 2).all() and (rows.valid_joint == 1).all() and (rows.joint == 1).all()
    assert rows.groupby('split').size().tolist() == [5, 5]
    roles = [set(corpus.role[cases.sequence].ravel()) for _, cases in asked]
    valid, item, pattern = ({ROLES.index(role)} for role in ('valid', 'item', 'pattern'))
    assert roles == [valid, valid, item, valid, valid, pattern]


def test_only_the_row_with_labels_asks_for_labels(world):
    s, corpus, cases = world
    blind = SimpleNamespace(**{k: getattr(corpus, k) for k in ('name', 'items', 'density', 'index', 'probe')})
    for name, row in ALTERNATIVES.items():
        if name in LISTS: continue # its classifier has learned from labels of training items, before
        if row.oracle:
            with pytest.raises(AttributeError): row.prepare(blind, s)(cases, row.grid[0])
        else: assert row.prepare(blind, s)(cases, row.grid[0]).shape == (len(cases), s.dim)
