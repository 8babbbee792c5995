"""Mistakes that no page would show: each of these tests fails for one that was made by hand, once. Most ask
who sees which labels: those of held-out items are turned round, and nothing else is learned."""
import copy
import math
import sys
from dataclasses import fields, replace
from importlib import import_module
from types import ModuleType
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import ROOT, copied, corpus_of, run_apart
from modit import (VARIANTS, continue_pretraining, direct_rewards, evaluation, finetune, flow, hppo,
                   labelled_pool, load_settings, ordering, pretrain, sample_cases, score_cases)
from modit.candidates import rewarded_items
from modit.direct import Looks, climb, direct_batch, direct_loss, nearest
from modit.evaluation import average_pool, score_queries
from modit.model import init_zero_layers, new_model
from modit.patterns import ROLES
from modit.preference import SINGLE, Variant, implicit_scores
from modit.repro.report.verdicts import contrasts
from modit.rounds import hppo_round
from modit.sphere import geodesic
from modit.stages import pipeline, reach, source, stages
from modit.stats import cluster_interval, holm
from modit.store import stream

S = load_settings('smoke', direct_steps=4, direct_checkpoints=(2,), hppo_batch=8, hppo_steps=3, cpt_epochs=2,
                  train_rows=[64, 64, 64, 48], sft_epochs=[2]*4, pretrain_steps=4, reward_items='train')


@pytest.fixture(scope='module')
def corpus(): return corpus_of('D3', S)


def of_roles(corpus, *roles): return np.isin(corpus.role, [*map(ROLES.index, roles)]) # (N,) bool


def turned(corpus, *roles): # the same domain, with the labels of some items turned round
    return replace(corpus, attribute=corpus.attribute ^ of_roles(corpus, *roles))


def weights(model): return b''.join(x.numpy().tobytes() for x in model.state_dict().values())


def velocities(): return init_zero_layers(new_model(S), .3) # a model whose velocity is not nought


# ---- labels: losses of training, and validation Joint by which a policy is chosen
def told(run): return sum((row.get('losses', []) for row in run.history), []), run.history[-1]['valid_joint']
def preferred(c): return told(hppo(x := velocities(), c, S, labelled_pool(x, c, S), VARIANTS['pareto']))
def rewarded(c): return told(direct_rewards(velocities(), c, S))


def same(a, b): return len(a) == len(b) and np.allclose(a, b, atol=.01) # last bits and near ties aside


@pytest.mark.parametrize('learn', [preferred, rewarded])
def test_no_label_of_a_test_item_reaches_training_or_its_choice(corpus, learn):
    (losses, joint), (others, other) = map(learn, (corpus, turned(corpus, 'item', 'pattern')))
    assert same(losses, others) and abs(joint - other) < .02


def test_no_held_out_item_is_an_anchor_of_the_predictor(monkeypatch):
    asked = []
    def measured(index, anchors, *more):
        asked.extend(anchors)
        return np.arange(len(anchors))/len(anchors)
    monkeypatch.setattr(ordering, 'recall_density', measured)
    assert of_roles(corpus_of('D3', S), 'train', 'other')[asked].all() and len(asked) == S.anchors


# ---- a case and its lists
def test_nothing_of_a_case_is_found_by_it(corpus):
    cases = sample_cases(corpus, 'item', 30, S)
    tails = ordering.centroid(corpus.items, cases.tail) # nearer to the tail than to anything
    found = Looks(corpus).look(tails, cases, S.k)[0]
    assert not (found[:, :, None] == cases.sequence[:, None]).any()
    close = tails @ corpus.items.T
    np.put_along_axis(close, cases.sequence, -1, 1)
    near = np.argsort(-close, axis=1)[:, :S.k]
    brute = score_queries(near, corpus.attribute, corpus.pattern, cases.pattern).joint
    assert abs(score_cases(tails, corpus, cases, S).joint - brute).mean() < .01 # near ties aside


def test_every_step_split_and_case_has_random_numbers_of_its_own(corpus, monkeypatch):
    asked = []
    def noted(*names): return asked.append(names) or stream(*names)
    for name in ('pretrain', 'sft', 'rounds', 'direct'):
        monkeypatch.setattr(import_module(f'modit.{name}'), 'stream', noted)
    model, _ = pretrain(lambda rng: corpus.items[rng.integers(0, 99, (S.batch, S.seq_len))], S)
    finetune(continue_pretraining(model, [corpus], S)[0], corpus, S)
    preferred(corpus)
    direct_rewards(model, corpus, S)
    monkeypatch.setattr(evaluation, 'stream', noted)
    for split in ('item', 'pattern', 'valid'): sample_cases(corpus, split, 9, S)
    evaluation.case_noise(9, (1, S.dim), S, corpus.name)
    assert len(asked) == len(set(asked)) > 24


# ---- guidance and the reference
def test_what_guides_is_left_as_it_was(corpus):
    start = velocities()
    before = weights(start)
    guided = replace(S, guidance_scale=2., score_scale=2.)
    for run in (direct_rewards(start, corpus, guided),
                hppo(start, corpus, guided, labelled_pool(start, corpus, guided), VARIANTS['off_policy'])):
        last = run.checkpoints[-1]
        assert weights(start) == weights(flow.guide_of(last)) == before != weights(last)


def test_a_guided_loss_by_hand_without_a_gradient_in_the_unconditional_branch():
    def points(n): return evaluation.case_noise(4, (n, S.dim), S, 'guided', n)
    model, items, targets, noise = velocities(), points(6), points(2), points(1)
    position, t = torch.full((2,), 6), torch.full((4, 1), .4)
    path, velocity = geodesic(noise, targets, .4)
    blind = flow.unconditional_velocity(model, path, t, position).detach()
    guided = blind + 3*(model(items, path, t, position) - blind)
    by_hand = (guided - velocity).square().sum(-1)
    ours = flow.flow_loss(model, items, targets, position, t, noise, 'none', scale=3.)
    def slopes(of):
        return torch.cat([x.flatten() for x in torch.autograd.grad(of.sum(), [*model.parameters()])])
    assert torch.allclose(ours, by_hand, rtol=1e-3)
    one, other = map(slopes, (ours, by_hand))
    assert (one - other).norm() < .01*other.norm()


@pytest.mark.parametrize('variant, scale', [('off_policy', 2.), ('adaptive', 1.)])
def test_the_reference_stays_while_the_policy_moves(corpus, variant, scale):
    start, off = velocities(), dict(off_policy_steps=(3,), score_scale=scale)
    s = replace(S, tail_weight=0., hppo_lr=1e-2, round_start='last', **off)
    run = hppo(start, corpus, s, labelled_pool(start, corpus, s), replace(VARIANTS[variant], stop=False))
    losses = sum((row['losses'] for row in run.history if row['step']), [])
    margin = abs(np.array(losses) - math.log(2)) > 1e-4 # there is none while the policy is the reference
    assert not margin[0] and margin[1:].all() and len(margin) > 2


def test_direct_rewards_draw_a_query_to_the_tail(corpus):
    model, cases = velocities(), ordering.training_cases(corpus, 20, S)
    rows = direct_batch(cases, corpus, S, stream(0, 'a batch'))
    def loss(tail): return direct_loss(model, rows, Looks(corpus), cases, replace(S, direct_tail=tail)).item()
    score = implicit_scores(model, rows['prefix'], rows['tail'], rows['t'], rows['noise']).mean().item()
    assert score < -.1 and np.isclose(loss(.5) - loss(0.), -.5*score, atol=.02) # near ties aside


def test_a_list_longer_than_what_may_be_searched_is_refused(corpus):
    few = np.arange(len(corpus.items)) < 20
    queries = average_pool(corpus, ordering.training_cases(corpus, 4, S, 'hppo', 1))
    with pytest.raises(ValueError, match='lower k'): nearest(corpus, queries, 30, few)


def test_held_out_items_are_neither_searched_nor_labelled(corpus):
    run = direct_rewards(init_zero_layers(new_model(S)), corpus, replace(S, reward_items='all'))
    looks = Looks(corpus, rewarded_items(corpus, replace(S, reward_items=S.direct_items)))
    cases = ordering.training_cases(corpus, 60, S, 'hppo', 1)
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


# ---- intervals and keys
@pytest.mark.parametrize('between, within, wider', [(.001, .1, 'cases'), (.1, .01, 'patterns')])
def test_an_interval_of_known_kinds_is_as_wide_as_those_of_cases_and_patterns(between, within, wider):
    rng, pattern = stream(0, 'two intervals'), np.repeat(np.arange(6), 30)
    noise = rng.normal(0, within, (6, 30))
    gain = .02 + (noise - noise.mean(1, keepdims=True) + rng.normal(0, between, (6, 1))).ravel()
    table = pd.DataFrame(dict(domain='D1', case=range(180), pattern=pattern))
    rows = pd.concat([table.assign(method=m, joint=x) for m, x in dict(a=gain, b=0.).items()])
    both = contrasts(pd.concat([rows.assign(split=x) for x in ('item', 'pattern')]), [('a', 'b')], S)
    assert np.allclose(both.p_holm, holm(both.p), atol=0)
    item, new = both.itertuples()
    found = {x: cluster_interval(gain, None, of) for x, of in (('cases', range(180)), ('patterns', pattern))}
    assert np.allclose([new.low, new.high], [found['patterns'].low, found['patterns'].high])
    assert np.allclose([item.low, item.high], [found[wider].low, found[wider].high], atol=.003)
    assert found[wider].high - found[wider].low > .02


def test_a_key_follows_the_code_of_its_engine():
    def code(index): # of a corpus with this index
        words = stages.functions_of(load_settings('smoke', index=index), 'corpus')
        return '\n'.join(stages.code_reached(*words))
    assert 'IndexIVFScalarQuantizer' in code('ivf') and 'IndexIVFScalarQuantizer' not in code('flat')


def test_a_default_of_a_variant_that_is_another_now_changes_its_keys():
    assert stages.FIRST.keys() == {f.name for f in fields(stages.Variant)} - {*stages.DISPLAYED}
    stretch = next(f for f in fields(stages.Variant) if f.name == 'stretch')
    with patch.object(stretch, 'default', 2): # a row that says nothing now has 2
        assert stages._values_of(replace(VARIANTS['adaptive'], stretch=2)) == dict(stretch=2)
    assert stages._values_of(VARIANTS['adaptive']) == {}


def test_a_key_that_was_asked_for_follows_what_is_edited_later(monkeypatch):
    def keys(): return {(name, stages.stage_key(S, name, 'D1')) for name in stages.STAGES}
    first = keys()
    monkeypatch.setitem(stages.VARIANTS, 'pareto', replace(VARIANTS['pareto'], stretch=3))
    assert {name for name, key in first - keys()} == {'pareto'}
    monkeypatch.undo()
    assert keys() == first


# Modules of a package that is edited, and what is edited in them.
TEXTS = dict(a="""
from .b import one as step, keep
from . import c

class Box: pass

def make(): return step(keep(Box(), c.size))
""", b="""
count = 0
def one(x): return x + 1
def two(x): return x + 2
def keep(*x):
    global count
    count = count + 1
    return one(two(x))
""", c='size = 3', d="""
from fastcore.basics import patch
from .a import Box

@patch
def g(self: Box): return 4
""")


def code_of_texts(**texts):
    "The code that `make` of module `a` reaches."
    asked = (reach.contents, reach.found_at, reach._patching, reach._added, reach._part, reach.reached)
    paths = {name: source.PACKAGE/f'{name}.py' for name in texts}
    at = {path.with_suffix(''): name for name, path in paths.items()}
    with patch.dict(source.sources(), texts), patch.dict(source._module_files(), paths), \
            patch.dict(source._modules_at(), at):
        for x in asked: x.cache_clear()
        code = reach.code_reached('modit.a:make')
    for x in asked: x.cache_clear()
    return code


@pytest.mark.parametrize('module, old, new', [
    ('a', 'one as step', 'two as step'), ('a', 'import c', 'import b as c'), ('b', 'count = 0', 'count = 5'),
    ('b', 'x + 2', 'x + 3'), ('c', '3', '4'), ('d', '4', '5')])
def test_what_is_edited_is_in_a_key(module, old, new):
    text = TEXTS[module].replace(old, new)
    assert text != TEXTS[module] and code_of_texts(**TEXTS) != code_of_texts(**TEXTS | {module: text})


def test_the_code_of_a_key_is_what_was_imported(tmp_path):
    "Whichever module is imported first, and when keys are first asked for."
    copied(ROOT/'modit', tmp_path/'modit')
    code = """if True:
        from pathlib import Path
        import modit.rows
        path = Path(modit.rows.__file__)
        path.write_text(path.read_text('utf-8') + '\\ndef other(): return 1\\n', 'utf-8') # edited, exported
        from modit.stages.reach import refuse_changed
        import numpy as np
        import modit.index.engines as engines
        name, lists = engines._lists_name(np.eye(9)), Path(engines.__file__)
        text = lists.read_text('utf-8').replace(' = 1, 10,', ' = 1, 11,')
        lists.write_text('# one more line\\n' + text, 'utf-8')
        assert engines._lists_name(np.eye(9)) == name, 'old code makes these lists'
        refuse_changed('modit.rows:unit_rows')"""
    said = run_apart(code, copy=tmp_path).stderr
    assert f'{tmp_path}/modit/rows.py has changed since this process read it' in said


def test_what_is_made_while_its_data_change_is_refused(tmp_path, monkeypatch):
    paths = [tmp_path/'corpus-of-other-data', tmp_path/'smoke'/'corpus']
    monkeypatch.setattr(pipeline, 'stage_path', lambda *stage: paths.pop())
    monkeypatch.setattr(pipeline, 'named', lambda word: lambda s, stage, domain, path: path.touch())
    with pytest.raises(ValueError, match='corpus: its data were changed while it was made'):
        pipeline.make_stage(S, 'corpus', 'D1')
    assert not (tmp_path/'smoke'/'corpus').exists() and not paths
