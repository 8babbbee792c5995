"Direct rewards: the soft Joint against other ways to compute it, what is labelled, a loss handed in."
import copy
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import expit

from conftest import corpus_of
from modit.anchored import anchored
from modit.candidates import labelled_pool, rewarded_items
from modit.data.scorer import Scorer, Service
from modit.direct import Looks, climb, direct_rewards, nearest, soft_border, soft_joint
from modit.evaluation import average_pool
from modit.model import new_model
from modit.ordering import training_cases
from modit.patterns import ROLES
from modit.rounds import hppo_round
from modit.settings import load_settings
from modit.sft import finetune
from modit.variants import SINGLE, Variant

S = load_settings('smoke', direct_steps=4, direct_checkpoints=(2,), hppo_batch=8)


@pytest.fixture(scope='module')
def corpus(): return corpus_of('D3', S)


@pytest.mark.parametrize(('k', 'temperature'), [(1, .02), (20, .01), (20, .5), (99, .02)])
def test_the_border_is_the_root_that_scipy_finds(k, temperature):
    scores = np.random.default_rng(k).normal(0, .3, 100)
    root = brentq(lambda tau: expit((scores - tau)/temperature).sum() - k, -50, 50, xtol=1e-13)
    found = soft_border(torch.from_numpy(scores), k, temperature)
    assert abs(float(found) - root) < 1e-9


def test_the_gradient_moves_the_border_too():
    rng = np.random.default_rng(0)
    scores, wanted = rng.normal(0, .3, 60), (rng.random(60) < .4).astype(float)

    def value(scores):
        root = brentq(lambda tau: expit((scores - tau)/.05).sum() - 15, -50, 50, xtol=1e-14)
        return (wanted*expit((scores - root)/.05)).sum()/15

    x = torch.from_numpy(scores).requires_grad_()
    ours = soft_joint(x, torch.from_numpy(wanted), 15, .05)
    (slopes,) = torch.autograd.grad(ours, x)
    numeric = [(value(scores + 1e-5*e) - value(scores - 1e-5*e))/2e-5 for e in np.eye(60)]
    assert abs(float(ours.detach()) - value(scores)) < 1e-9 and np.allclose(slopes, numeric, atol=1e-7)
    assert abs(float(slopes.sum())) < 1e-9  # all scores raised alike change no list


def test_nothing_is_learned_where_all_labels_are_equal():
    scores = torch.randn(3, 50, requires_grad=True)
    for label in (0., 1.):
        value = soft_joint(scores, torch.full((3, 50), label), 10, .05)
        assert not torch.autograd.grad(value.sum(), scores)[0].any()


def test_a_restricted_list_is_that_of_an_index_without_the_others(corpus):
    cases = training_cases(corpus, 40, S, 'hppo', 1)
    queries, allowed = average_pool(corpus, cases), rewarded_items(corpus, replace(S, reward_items='train'))
    found = nearest(corpus, queries, 30, allowed, cases.sequence)
    kept = np.flatnonzero(allowed)
    other = replace(corpus, items=corpus.items[kept], pattern=corpus.pattern[kept])
    place = {item: i for i, item in enumerate(kept.tolist())}
    inside = np.array([[place.get(x, -1) for x in row] for row in cases.sequence])
    assert np.array_equal(found, kept[nearest(other, queries, 30, exclude=inside)])
    few = np.zeros(len(corpus.items), bool)
    few[:20] = True
    with pytest.raises(ValueError, match='lower k'): nearest(corpus, queries, 30, few)


def test_held_out_items_are_neither_searched_nor_labelled(corpus):
    run = direct_rewards(new_model(anchored(S)), corpus, anchored(S))
    looks = Looks(corpus, rewarded_items(corpus, replace(S, reward_items=S.direct_items)))
    cases = training_cases(corpus, 60, S, 'hppo', 1)
    climb(average_pool(corpus, cases), looks, cases, S)
    roles = {ROLES[i] for i in corpus.role[list(looks.asked)]}
    assert roles <= {'train', 'other'} and run.history[-1]['different'] <= (corpus.role == 0).sum()


def test_a_label_is_bought_once_though_the_service_fails(corpus, tmp_path):
    asked, down = [], {3, 4, 5, 9}

    def call(ids):
        asked.append(list(ids))
        if len(asked) in down: raise ConnectionError('the service is away')
        return corpus.attribute[np.array(ids, int)].astype(float).tolist()

    ids = np.array([str(i) for i in range(len(corpus.items))], object)

    def bought():
        service = Service(call, pause=0, tries=2)
        return replace(corpus, scorer=Scorer(service, ids, tmp_path/'s', 'mine'))

    def train(of): return direct_rewards(new_model(anchored(S)), of, anchored(S))

    with pytest.raises(ValueError, match='scores are kept'): train(bought())
    run = train(bought())
    free = train(corpus)
    assert run.history == free.history
    weights = free.policy.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in run.policy.state_dict().items())
    paid = [x for i, part in enumerate(asked, 1) if i not in down for x in part]
    assert len(paid) == len(set(paid))


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
