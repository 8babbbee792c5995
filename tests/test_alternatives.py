"""Rivals without training against naive versions: loops, full sorts, a gradient written out by hand."""
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import corpus_of
from modit.evaluation import average_pool, sample_cases
from modit.repro.ours.baselines import ALTERNATIVES, LISTS, densest_seeds, refined, score_lists
from modit.repro.ours.baselines import weighted_seeds
from modit.patterns import ROLES
from modit.serving.rivals import classifier_scores
from modit.settings import load_settings


@pytest.fixture(scope='module')
def world():
    s = load_settings('smoke')
    corpus = corpus_of('D1', s)
    return s, corpus, sample_cases(corpus, 'pattern', 12, s)


def unit(x): return x/np.linalg.norm(x)


def nearest(corpus, query, sequence, k):
    "The k nearest items that are not of a case, by a full sort."
    others = np.setdiff1d(np.arange(len(corpus.items)), sequence)
    return others[np.argsort(-(corpus.items[others] @ query), kind='stable')[:k]]


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


def test_the_own_direction_leads_from_the_surroundings_to_the_seeds(world):
    s, corpus, cases = world
    n = len(corpus.items)//s.of('clusters', 'D1')
    found = ALTERNATIVES['own_alone'].prepare(corpus, s)(cases, .6)
    for i, mean in enumerate(average_pool(corpus, cases)):
        around = corpus.items[nearest(corpus, mean, cases.sequence[i], n)].mean(0)
        away = unit(corpus.items[cases.prefix[i]].mean(0) - around)
        assert found[i] == pytest.approx(unit(mean + .6*away), abs=1e-4)


@pytest.mark.parametrize('method, teacher', [('feedback', 'density'), ('feedback_labels', 'attribute')])
def test_feedback_ranks_all_items_as_the_formula_of_pairs(world, method, teacher):
    s, corpus, cases = world
    scores = getattr(corpus, teacher).astype(float)
    found = ALTERNATIVES[method].prepare(corpus, s)(cases, .3)
    for i, mean in enumerate(average_pool(corpus, cases)):
        ten = nearest(corpus, mean, cases.sequence[i], 10)
        query = mean.astype(float)
        for a in ten:
            for b in ten:
                surer = max(scores[a] - scores[b], 0)
                query += .3*surer*(corpus.items[a] - corpus.items[b])
        assert found[i] == pytest.approx(unit(query), abs=1e-4)


def test_refinement_is_adam_on_the_divergence(world):
    _, corpus, cases = world
    start = average_pool(corpus, cases)
    ids = np.stack([nearest(corpus, q, row, 20) for q, row in zip(start, cases.sequence, strict=True)])
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
        near = nearest(corpus, mean, cases.sequence[i], 100)
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
