"""A rule that is served, of one's own folder or of the package: where it is chosen, that it answers as it was
scored, and that nothing is lost."""
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from conftest import unit
from modit.data.folder import write_folder
from modit.data.synth import make_domain, make_world
from modit.evaluation import sample_cases
from modit.rule import compass, follow
from modit.stages.pipeline import get_corpus, make_stage
from modit.serving import learned, rivals
from modit.serving.card import RULED
from modit.serving.fit import evaluate_model, fit, fit_settings
from modit.serving.lists import answer_line
from modit.serving.proposal import settings_of
from modit.serving.retriever import Retriever
from modit.settings import load_settings

OWN = dict(valid_patterns=.5, direct_steps=4, direct_checkpoints=[], hppo_cases=400, k=20,
             direct_lr=1e-9) # a policy that stays averaging


@pytest.fixture(scope='module')
def kinds(home):
    "A folder in which every kind has a side of its own with the attribute, and its model."
    rng = np.random.default_rng(0)
    centres, sides = unit(rng.normal(size=(2, 40, 32)))
    kind = rng.integers(40, size=8000)
    noise = rng.normal(size=(8000, 32))/9
    items = unit(centres[kind] + noise)
    wanted = (noise*sides[kind]).sum(1) > .08
    write_folder(home/'sides', items, [f'thing {i}' for i in range(8000)], wanted, pattern=kind.astype(str))
    made, = fit(home/'sides', 'smoke', **OWN)
    ways = made.about.moves # served by its rule, whatever validation has made of it
    served = {x: replace(row, **ways['rule'][x].told, rule='rule') for x, row in ways['served'].items()}
    model = replace(made, about=replace(made.about, moves=ways | dict(served=served)))
    model.save(home/'sides'/'model')
    return home/'sides', model


def joint_of(corpus, cases, queries, k):
    "Mean Joint of lists, by a full sort without the items of a case."
    scores = queries @ corpus.items.T
    np.put_along_axis(scores, cases.sequence, -np.inf, 1)
    best = np.argsort(-scores, axis=1)[:, :k]
    return (corpus.attribute[best] & (corpus.pattern[best] == cases.pattern[:, None])).mean()


def test_a_rule_finds_more_than_averaging_where_labels_lie_to_a_side(kinds):
    folder, model = kinds
    s = fit_settings(folder, 'smoke', **OWN)
    corpus = get_corpus(s, 'sides')
    cases = sample_cases(corpus, 'item', 30, s)
    rule = np.stack([model.query(model.catalogue.ids[seeds]) for seeds in cases.prefix])
    mean = unit(corpus.items[cases.prefix].mean(1))
    assert joint_of(corpus, cases, rule, s.k) > joint_of(corpus, cases, mean, s.k) + .1
    table = evaluate_model(folder).set_index(['split', 'what'])
    assert (table.loc[('item', 'rule')] == table.loc[('item', 'served')]).all()


def test_what_is_served_is_what_was_scored(kinds):
    folder, model = kinds
    s = fit_settings(folder, 'smoke', **OWN)
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
    corpus = get_corpus(s := fit_settings(folder, 'smoke', **OWN), 'sides')
    seeds = model.catalogue.ids[sample_cases(corpus, 'item', 1, s).prefix[0]]
    found = again.expand(seeds, 20)
    pd.testing.assert_frame_equal(found, model.expand(seeds, 20))
    assert found.attrs['moves'] == dict(rule='rule') == answer_line(again, dict(seeds=list(seeds)))['moves']
    row = model.about.moves['served']['item']
    assert again.expand(seeds, 20, step=row.step).attrs['moves'] == row.moves # a dial asks for moves
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


def test_a_rule_made_again_has_the_same_bytes(kinds):
    folder, _ = kinds
    s = fit_settings(folder, 'smoke', **OWN)
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
    s = fit_settings(folder, 'smoke', **OWN)
    corpus = get_corpus(s, 'sides')
    monkeypatch.setattr(learned, 'FEW', few)
    def rule(cases): return np.zeros((len(cases), 32), np.float32) # by which it is known
    def joint(corpus, cases, queries, k, counted=None):
        ahead = not queries.any()
        return .5 + ahead*(gain if counted is None else unseen)*np.linspace(1, 1.1, len(cases))
    monkeypatch.setattr(learned, 'joint_found', joint)
    monkeypatch.setattr(rivals, 'joint_of_moves', lambda corpus, cases, parts, offers, *more: np.full(
        (len(cases), len(offers)), .5))
    for name in ('rule', 'shipped'):
        for row in rivals.Trial(corpus, s, rules={name: rule}).moves['served'].values():
            assert row.rule == (name if chosen else None)
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


# ---- the rule of the package, in folders without training
DIM = 192
WORDS = dict(valid_patterns=.5, k=20, prefix_len=2, valid_clusters=[12])


def sides(): # all kinds have their attribute to one side, in shares that differ
    rng = np.random.default_rng(0)
    centres, way = unit(rng.normal(size=(40, DIM))), unit(rng.normal(size=DIM))
    kind = rng.integers(40, size=8000)
    noise = rng.normal(size=(8000, DIM))/14
    cut = (.8 + .5*rng.normal(size=40).clip(-1.5, 1.2))/14
    items = unit(centres[kind] + noise)
    return items, noise @ way > cut[kind], kind.astype(str)


@pytest.fixture(scope='module')
def ahead(home):
    "A folder in which the rule is ahead of the moves."
    items, wanted, kind = sides()
    write_folder(home/'ahead', items, [f'thing {i}' for i in range(len(items))], wanted, pattern=kind)
    return home/'ahead', Retriever.untrained(home/'ahead', 'smoke', **WORDS)


@pytest.fixture(scope='module')
def behind(home):
    "A folder in which it is not."
    s = load_settings('smoke')
    domain = make_domain(make_world(s), 'D1', s)
    write_folder(home/'shoes', domain.items, range(len(domain.items)), domain.attribute)
    return home/'shoes', Retriever.untrained(home/'shoes', 'smoke')


def by_rule(made): # whatever validation has made of it
    moves = made.about.moves
    served = {split: replace(row, rule='shipped') for split, row in moves['served'].items()}
    return replace(made, about=replace(made.about, moves=moves | dict(served=served)))


def test_new_kinds_of_a_folder_in_which_the_rule_leads_are_answered_by_it(ahead):
    folder, made = ahead
    ways = {way: rows['pattern'] for way, rows in made.about.moves.items()}
    assert ways['served'].rule == 'shipped' and ways['served'].joint > ways['untrained'].joint
    s = settings_of(folder, 'smoke', **WORDS)
    corpus = get_corpus(s, 'ahead')
    cases = sample_cases(corpus, 'pattern', 40, s)
    ids = [made.catalogue.ids[seeds] for seeds in cases.prefix]
    by_moves = np.stack([made.query(x, **ways['untrained'].moves) for x in ids])
    ruled = np.stack([by_rule(made).query(x) for x in ids])
    assert joint_of(corpus, cases, ruled, s.k) > joint_of(corpus, cases, by_moves, s.k)
    served = [made.expand(x, 10).attrs['moves'] == dict(rule='shipped') for x in ids]
    near = np.argmax(corpus.items[cases.prefix].mean(1) @ unit(made.facts['centroids']).T, 1)
    seen = np.isin(near, list(made.about.trained)) # taken for a kind that was seen
    assert (np.array(served) | seen).all() and np.mean(served) > .5


def test_where_it_does_not_lead_all_is_as_without_it(behind, monkeypatch):
    folder, made = behind
    assert made.about.moves['served'] == made.about.moves['untrained']
    with monkeypatch.context() as m:
        m.setattr('modit.serving.retriever.untrained_rule', lambda *given: {})
        without = Retriever.untrained(folder, 'smoke')
    assert not without.rules and 'shipped' not in without.about.moves
    for seeds in (['7', '12'], ['1'], [*map(str, range(30, 36))]):
        a, b = made.expand(seeds, 20), without.expand(seeds, 20)
        pd.testing.assert_frame_equal(a, b)
        assert a.attrs == b.attrs
    def alike(*given): raise ValueError('This solver needs samples of at least 2 classes')
    monkeypatch.setattr(learned, 'compass', alike) # without a classifier there is no rule
    assert not Retriever.untrained(folder, 'smoke').rules


def test_labels_are_saved_only_for_a_rule_that_answers(ahead, behind, tmp_path):
    for folder, made in (ahead, behind):
        place = made.save(tmp_path/folder.name)
        again = Retriever.load(place, folder)
        ruled = folder.name == 'ahead'
        assert any('labels' in name for name in again.facts) == ruled == bool(again.rules)
        ids = made.catalogue.ids[:2]
        pd.testing.assert_frame_equal(again.expand(ids, 20), made.expand(ids, 20))
        assert again.about == made.about
        table = evaluate_model(place, folder)
        assert ('shipped' in set(table.what)) == ruled
