"""A rule that is served: where it is chosen, that it answers as it was scored, and that nothing is lost."""
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from conftest import unit
from modit.data.folder import write_folder
from modit.evaluation import sample_cases
from modit.rule import compass, follow
from modit.stages.pipeline import get_corpus, make_stage
from modit.serving import learned, rivals
from modit.serving.card import RULED
from modit.serving.fit import evaluate_model, fit, fit_settings
from modit.serving.lists import answer_line
from modit.serving.retriever import Retriever

WORDS = dict(valid_patterns=.5, direct_steps=150, direct_checkpoints=[], hppo_cases=400, k=20,
             direct_lr=1e-9) # a policy that stays averaging


@pytest.fixture(scope='module')
def kinds(tmp_path_factory):
    "A folder in which every kind has a side of its own with the attribute, and its model."
    home = tmp_path_factory.mktemp('home')
    rng = np.random.default_rng(0)
    centres, sides = unit(rng.normal(size=(2, 40, 32)))
    kind = rng.integers(40, size=8000)
    noise = rng.normal(size=(8000, 32))/9
    items = unit(centres[kind] + noise)
    wanted = (noise*sides[kind]).sum(1) > .08
    write_folder(home/'sides', items, [f'thing {i}' for i in range(8000)], wanted, pattern=kind.astype(str))
    with pytest.MonkeyPatch.context() as m:
        m.setenv('MODIT_RUNS', str(home/'runs'))
        made, = fit(home/'sides', 'smoke', **WORDS)
        ways = made.about.moves # served by its rule, whatever validation has made of it
        served = {x: replace(row, **ways['rule'][x].told, rule=True) for x, row in ways['served'].items()}
        model = replace(made, about=replace(made.about, moves=ways | dict(served=served)))
        model.save(home/'sides'/'model')
        yield home/'sides', model


def test_a_rule_finds_more_than_averaging_where_labels_lie_to_a_side(kinds):
    folder, model = kinds
    s = fit_settings(folder, 'smoke', **WORDS)
    corpus, cases = (x := get_corpus(s, 'sides')), sample_cases(x, 'item', 30, s)
    joint = dict(rule=[], average=[])
    for seeds, own, pattern in zip(cases.prefix, cases.sequence, cases.pattern, strict=True):
        mean = unit(corpus.items[seeds].mean(0))
        for name, query in dict(rule=model.query(model.catalogue.ids[seeds]), average=mean).items():
            scores = corpus.items @ query
            scores[own] = -np.inf
            ids = np.argsort(-scores)[:s.k]
            joint[name].append((corpus.attribute[ids] & (corpus.pattern[ids] == pattern)).mean())
    assert np.mean(joint['rule']) > np.mean(joint['average']) + .1
    table = evaluate_model(folder).set_index(['split', 'what'])
    assert {'rule', 'served'} <= set(table.loc['item'].index)
    assert (table.loc[('item', 'rule')] == table.loc[('item', 'served')]).all()


def test_what_is_served_is_what_was_scored(kinds):
    folder, model = kinds
    s = fit_settings(folder, 'smoke', **WORDS)
    corpus = get_corpus(s, 'sides')
    cases = sample_cases(corpus, 'item', 10, s)
    rule = model.rules_over(corpus)['rule']
    assert np.allclose(rule(cases), follow(rule.rule, compass(corpus, s), cases), atol=1e-5)
    for seeds in cases.prefix: # alone: the rest of a case is not left out of what surrounds the seeds
        shown = replace(cases[:1], sequence=seeds[None], prefix_len=len(seeds))
        assert np.allclose(model.query(model.catalogue.ids[seeds]), rule(shown)[0], atol=1e-4)


def test_a_rule_saved_and_loaded_answers_alike_and_says_so(kinds, tmp_path):
    folder, model = kinds
    again = Retriever.load(model.save(tmp_path/'model'), folder)
    s = fit_settings(folder, 'smoke', **WORDS)
    seeds = model.catalogue.ids[sample_cases(get_corpus(s, 'sides'), 'item', 1, s).prefix[0]]
    pd.testing.assert_frame_equal(again.expand(seeds, 20), model.expand(seeds, 20))
    found = again.expand(seeds, explain=True)
    assert found.attrs['moves'] == dict(rule=True) == answer_line(again, dict(seeds=list(seeds)))['moves']
    assert np.allclose(found.filter(like='from_').sum(axis=1), found.score, atol=1e-5)
    assert found.attrs['forecast'] # as validation had it
    row = model.about.moves['served']['item']
    moved = again.expand(seeds, 20, step=row.step)
    assert moved.attrs['moves'] == row.moves # a dial asks for moves
    vectors = unit(np.random.default_rng(1).normal(size=(3, 32)))
    for x in (vectors, vectors[:1], np.concatenate([vectors]*5)):
        query = sum(model.rules['rule'].parts(unit(x).astype(np.float32), np.arange(50)).values())
        assert np.isclose(np.linalg.norm(query), 1, atol=1e-5)
    assert len(again.expand(again.catalogue.items[:2] + np.float32(.01), 5)) == 5 # not of the folder


def test_labels_are_found_again_by_item_and_others_count_as_unknown(kinds):
    _, model = kinds
    goods, facts = model.catalogue, model.facts
    labels = learned.labels_of(facts, goods.ids, goods.items)
    assert (labels >= 0).sum() == len(facts['rule.labels']) < len(labels)
    some = np.random.default_rng(0).permutation(len(labels))[:900]
    assert np.array_equal(learned.labels_of(facts, goods.ids[some], goods.items[some]), labels[some])
    other = SimpleNamespace(items=np.roll(goods.items, 1, axis=1)[:900], ids=goods.ids[:900])
    with pytest.warns(UserWarning, match='other items'): shop = model.over(other)
    assert not shop.rules['rule'].here.known.any()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        assert len(shop.expand(shop.catalogue.items[:3], 7)) == 7


def test_a_model_without_a_rule_loads_as_before(kinds):
    folder, model = kinds
    facts = {name: x for name, x in model.facts.items() if not name.startswith(('rule.', 'shipped.'))}
    ways = model.about.moves
    served = {x: replace(row, rule=None) for x, row in ways['served'].items()}
    ways = {way: x for way, x in ways.items() if way not in ('rule', 'shipped')} | dict(served=served)
    place = folder.parent/'old'
    shutil.copytree(folder, place/'sides')
    old = replace(model, facts=facts, about=replace(model.about, moves=ways))
    shutil.rmtree(place/'sides'/'model')
    old = Retriever.load(old.save(place/'sides'/'model'))
    assert not old.rules and 'rule' not in old.expand(old.catalogue.ids[:3], 5).attrs['moves']
    assert not {'rule', 'shipped'} & set(evaluate_model(place/'sides').what)


def test_a_rule_made_again_has_the_same_bytes(kinds):
    folder, _ = kinds
    s = fit_settings(folder, 'smoke', **WORDS)
    path = make_stage(s, 'rule', 'sides')
    before = path.read_bytes()
    path.unlink() # as after a kill: it begins again
    assert Path(make_stage(s, 'rule', 'sides')).read_bytes() == before


# ---- the choice, with made-up scores
@pytest.mark.parametrize('gain, unseen, few, chosen', [
    (.3, .3, 2, True), (-.3, .3, 2, False), (.3, 0., 2, False), # where kinds are enough for an interval
    (.3, .3, 99, True), (.01, .3, 99, False), (.3, 0., 99, False)]) # where they are too few
def test_a_rule_is_chosen_only_with_a_lead_that_is_no_chance_and_no_memory(
        kinds, monkeypatch, gain, unseen, few, chosen):
    folder, _ = kinds
    s = fit_settings(folder, 'smoke', **WORDS)
    corpus = get_corpus(s, 'sides')
    monkeypatch.setattr(learned, 'FEW', few)
    def rule(cases): return np.zeros((len(cases), 32), np.float32) # by which it is known
    def joint(corpus, cases, queries, k, counted=None):
        ahead = not queries.any()
        return np.full(len(cases), .5) + ahead*(gain if counted is None else unseen)
    monkeypatch.setattr(learned, 'joint_found', joint)
    monkeypatch.setattr(rivals, 'joint_of_moves', lambda corpus, cases, parts, offers, *more: np.full(
        (len(cases), len(offers)), .5))
    for name, said in dict(rule=True, shipped='shipped').items():
        for row in rivals.Trial(corpus, s, rules={name: rule}).moves['served'].values():
            assert row.rule == (said if chosen else None)
            assert row.answer(dict(step=.2))['step'] == .2
            assert not chosen or row.answer({})['rule'] in RULED


@pytest.mark.parametrize('kinds', [1, 2, 4])
def test_few_kinds_of_chance_alone_seldom_stand_out(kinds):
    "All cases of a kind have the luck of one list, and this luck passes in few of a thousand trials."
    rng, k, each = np.random.default_rng(kinds), 20, 10
    pattern = np.repeat(np.arange(kinds), each)
    found = []
    for _ in range(1000):
        luck = rng.binomial(k, .4, size=(kinds, 2))/k # of both queries, no item in common
        found.append(learned.stands_out(luck[pattern], pattern, k))
    assert np.mean(found) < .05
    assert learned.stands_out(np.array([[.3, .8]]*each*kinds), pattern, k)
