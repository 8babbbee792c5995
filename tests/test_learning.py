"""Direct rewards, and another preference loss: what each may see, against formulas by hand."""
import copy
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

from conftest import corpus_of
from modit.candidates import labelled_pool, rewarded_items
from modit.direct import Looks, climb, direct_rewards, nearest
from modit.evaluation import average_pool
from modit.model import init_zero_layers, new_model
from modit.ordering import training_cases
from modit.patterns import ROLES
from modit.rounds import hppo_round
from modit.settings import load_settings
from modit.sft import finetune
from modit.preference import SINGLE, Variant

S = load_settings('smoke', direct_steps=4, direct_checkpoints=(2,), hppo_batch=8)


@pytest.fixture(scope='module')
def corpus(): return corpus_of('D3', S)


def test_a_list_longer_than_what_may_be_searched_is_refused(corpus):
    few = np.arange(len(corpus.items)) < 20
    queries = average_pool(corpus, training_cases(corpus, 4, S, 'hppo', 1))
    with pytest.raises(ValueError, match='lower k'): nearest(corpus, queries, 30, few)


def test_held_out_items_are_neither_searched_nor_labelled(corpus):
    run = direct_rewards(init_zero_layers(new_model(S)), corpus, S)
    looks = Looks(corpus, rewarded_items(corpus, replace(S, reward_items=S.direct_items)))
    cases = training_cases(corpus, 60, S, 'hppo', 1)
    climb(average_pool(corpus, cases), looks, cases, S)
    roles = {ROLES[i] for i in corpus.role[list(looks.asked)]}
    assert roles <= {'train', 'other'} and run.history[-1]['different'] <= (corpus.role == 0).sum()


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
