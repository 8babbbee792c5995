"A rule sees no label of a held-out item and none of a hidden pattern; it turns with its vectors."
from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import corpus_of
from modit.evaluation import sample_cases
from modit.ordering import training_cases
from modit.patterns import ROLES
from modit.rule import DIRECTIONS, Rule, compass, contrast, frame, learn_rule, lesson
from modit.settings import load_settings


@pytest.fixture(scope='module')
def world():
    s = load_settings('smoke')
    return s, corpus_of('D3', s)


def relabelled(corpus, rows): # the same domain, with the labels of some rows turned round
    attribute = corpus.attribute.copy()
    attribute[rows] = ~attribute[rows]
    return replace(corpus, attribute=attribute)


def same(a, b): return all(torch.equal(a[name], b[name]) for name in a)


def test_no_label_of_a_held_out_item_reaches_a_rule(world):
    s, corpus = world
    held_out = np.flatnonzero(~np.isin(corpus.role, (ROLES.index('train'), ROLES.index('other'))))
    rules = []
    for c in (corpus, relabelled(corpus, held_out)):
        here = compass(c, s)
        mine = lesson(here, s)
        seen = frame(here, sample_cases(corpus, 'item', 20, s))
        rules.append((seen, mine.rows, learn_rule([mine], 5).state_dict()))
        assert not mine.looks.asked & set(held_out.tolist())
    for a, b in zip(*rules, strict=True): assert same(a, b)


def test_labels_of_a_hidden_pattern_change_nothing(world):
    s, corpus = world
    here = compass(corpus, s)
    cases = training_cases(corpus, 20, s, 'hidden')[:1]
    own = corpus.pattern == cases.pattern[0]
    other = replace(here, corpus=relabelled(corpus, own))
    assert same(frame(here, cases, [True]), frame(other, cases, [True]))
    assert not same(frame(here, cases), frame(other, cases))


def test_what_is_to_be_found_is_not_what_was_shown(world):
    s, corpus = world
    here = compass(corpus, s)
    mine = lesson(here, s)
    positive = here.known & corpus.attribute & (corpus.role == ROLES.index('train'))
    shares = [mine.looks.allowed[positive].mean(), (~mine.looks.allowed[positive]).mean()]
    assert .4 < min(shares) # halved at random: some 400 of each
    assert mine.looks.allowed[here.known & ~positive].all() # all that is wrong may be found


def test_the_vectors_of_a_case_by_a_naive_computation(world):
    s, corpus = world
    here = compass(corpus, s)
    cases = sample_cases(corpus, 'item', 5, s)
    rows = frame(here, cases)
    for i in range(5):
        seeds = corpus.items[cases.prefix[i]].astype(float)
        mean = seeds.mean(0)/np.linalg.norm(seeds.mean(0))
        near = [j for j in np.argsort(-(corpus.items @ mean.astype(np.float32)), kind='stable')
                if j not in cases.sequence[i]][:here.many]
        x, attribute, known = corpus.items[near].astype(float), corpus.attribute[near], here.known[near]
        up, down = x[known & attribute], x[known & ~attribute]
        labelled = up.mean(0) - down.mean(0) if len(up) and len(down) else np.zeros(s.dim)
        own = seeds.mean(0) - x.mean(0)
        for name, v in dict(own=own, labelled=labelled).items():
            got = rows['directions'][i, DIRECTIONS.index(name)].numpy()
            expected = v/max(np.linalg.norm(v), 1e-12)
            assert got @ expected > .999 or not np.any(expected) and not got.any()


def test_nothing_moves_along_a_direction_without_a_length():
    x = np.ones((4, 3), np.float32)
    some, none = np.array([True, False, True, False]), np.zeros(4, bool)
    assert not contrast(x, some, none).any() and not contrast(x, none, some).any()
    assert not contrast(x, some, ~some).any() # equal means


def test_a_rule_answers_in_any_dimension_and_with_any_number_of_seeds():
    rule = Rule()
    for p in rule.parameters(): torch.nn.init.normal_(p, std=.2)
    for d, m in ((3, 1), (48, 30), (384, 6)):
        unit = torch.nn.functional.normalize
        rows = dict(mean=unit(torch.randn(4, d), dim=1), seeds=unit(torch.randn(4, m, d), dim=2),
                    directions=unit(torch.randn(4, 7, d), dim=2), numbers=torch.rand(4, 12))
        order = torch.randperm(m) # the order of the seeds does not matter
        q = rule(rows)
        assert torch.allclose(q.norm(dim=1), torch.ones(4), atol=1e-5)
        assert torch.allclose(q, rule(rows | dict(seeds=rows['seeds'][:, order])), atol=1e-5)
