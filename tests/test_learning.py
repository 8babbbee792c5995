"""Direct rewards, and a rule: what each may see, against roots, counts
and formulas by hand."""
import copy
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

from conftest import corpus_of
from modit.anchored import anchored
from modit.candidates import labelled_pool, rewarded_items
from modit.direct import Looks, climb, direct_rewards, nearest
from modit.evaluation import average_pool, sample_cases
from modit.model import new_model
from modit.ordering import training_cases
from modit.patterns import ROLES
from modit.rounds import hppo_round
from modit.rule import DIRECTIONS, Rule, compass, contrast, frame, learn_rule, lesson
from modit.settings import load_settings
from modit.sft import finetune
from modit.variants import SINGLE, Variant

S = load_settings('smoke', direct_steps=4, direct_checkpoints=(2,), hppo_batch=8)


@pytest.fixture(scope='module')
def corpus(): return corpus_of('D3', S)


def test_a_list_longer_than_what_may_be_searched_is_refused(corpus):
    few = np.arange(len(corpus.items)) < 20
    queries = average_pool(corpus, training_cases(corpus, 4, S, 'hppo', 1))
    with pytest.raises(ValueError, match='lower k'): nearest(corpus, queries, 30, few)


def test_held_out_items_are_neither_searched_nor_labelled(corpus):
    run = direct_rewards(new_model(anchored(S)), corpus, anchored(S))
    looks = Looks(corpus, rewarded_items(corpus, replace(S, reward_items=S.direct_items)))
    cases = training_cases(corpus, 60, S, 'hppo', 1)
    climb(average_pool(corpus, cases), looks, cases, S)
    roles = {ROLES[i] for i in corpus.role[list(looks.asked)]}
    assert roles <= {'train', 'other'} and run.history[-1]['different'] <= (corpus.role == 0).sum()


def test_an_anchored_policy_learns_in_the_supervised_stages_too(corpus):
    model, losses = finetune(new_model(anchored(S)), corpus, S)
    assert np.isfinite(losses).all() and len(losses)
    run = direct_rewards(model, corpus, S) # with guidance: the unconditional branch stays
    assert [row['step'] for row in run.history] == [2, 4]


def test_another_preference_loss_is_a_name_in_a_row(corpus, monkeypatch):
    """The recipe "Another preference loss": a function of the scaled margins, named in a variant's row."""
    mine = ModuleType('mine')
    mine.ipo = lambda margins: (margins - .5)**2
    monkeypatch.setitem(sys.modules, 'mine', mine)
    sft, _ = finetune(new_model(S), corpus, S)
    pool = labelled_pool(sft, corpus, S)
    ends = {}
    for loss in ('modit.preference:logistic', 'mine:ipo'):
        policy, variant = copy.deepcopy(sft), Variant('Mine', loss=loss, **SINGLE)
        facts = hppo_round(policy, sft, corpus, pool, replace(S, tail_weight=0.), variant, 1, 3)
        ends[loss] = facts['losses'][0], policy.head.weight.detach()
    assert np.isclose(ends['modit.preference:logistic'][0], np.log(2), atol=1e-4)
    assert np.isclose(ends['mine:ipo'][0], .25, atol=1e-4) # no margin yet: (0 - 1/2)^2
    assert not torch.equal(ends['modit.preference:logistic'][1], ends['mine:ipo'][1])


# ---- a rule
def relabelled(corpus, rows): # the same domain, with the labels of some rows turned round
    attribute = corpus.attribute.copy()
    attribute[rows] = ~attribute[rows]
    return replace(corpus, attribute=attribute)


def same(a, b): return all(torch.equal(a[name], b[name]) for name in a)


def test_no_label_of_a_held_out_item_reaches_a_rule(corpus):
    held_out = np.flatnonzero(~np.isin(corpus.role, (ROLES.index('train'), ROLES.index('other'))))
    rules = []
    for c in (corpus, relabelled(corpus, held_out)):
        here = compass(c, S)
        mine = lesson(here, S)
        seen = frame(here, sample_cases(corpus, 'item', 20, S))
        rules.append((seen, mine.rows, learn_rule([mine], 5).state_dict()))
        assert not mine.looks.asked & set(held_out.tolist())
    for a, b in zip(*rules, strict=True): assert same(a, b)


def test_labels_of_a_hidden_pattern_change_nothing(corpus):
    here = compass(corpus, S)
    cases = training_cases(corpus, 20, S, 'hidden')[:1]
    own = corpus.pattern == cases.pattern[0]
    other = replace(here, corpus=relabelled(corpus, own))
    assert same(frame(here, cases, [True]), frame(other, cases, [True]))
    assert not same(frame(here, cases), frame(other, cases))


def test_what_is_to_be_found_is_not_what_was_shown(corpus):
    here = compass(corpus, S)
    mine = lesson(here, S)
    positive = here.known & corpus.attribute & (corpus.role == ROLES.index('train'))
    shares = [mine.looks.allowed[positive].mean(), (~mine.looks.allowed[positive]).mean()]
    assert .4 < min(shares) # halved at random: some 400 of each
    assert mine.looks.allowed[here.known & ~positive].all() # all that is wrong may be found


def test_the_vectors_of_a_case_by_a_naive_computation(corpus):
    here = compass(corpus, S)
    cases = sample_cases(corpus, 'item', 5, S)
    rows = frame(here, cases)
    for i in range(5):
        seeds = corpus.items[cases.prefix[i]].astype(float)
        mean = seeds.mean(0)/np.linalg.norm(seeds.mean(0))
        near = [j for j in np.argsort(-(corpus.items @ mean.astype(np.float32)), kind='stable')
                if j not in cases.sequence[i]][:here.many]
        x, attribute, known = corpus.items[near].astype(float), corpus.attribute[near], here.known[near]
        up, down = x[known & attribute], x[known & ~attribute]
        labelled = up.mean(0) - down.mean(0) if len(up) and len(down) else np.zeros(S.dim)
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
