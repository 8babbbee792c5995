"""The rule of the package: what it answers in a folder without training, and where it does not."""
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from conftest import unit
from modit.data.folder import write_folder
from modit.data.synth import make_domain, make_world
from modit.evaluation import sample_cases
from modit.stages.pipeline import get_corpus
from modit.serving import learned
from modit.serving.fit import evaluate_model
from modit.serving.proposal import settings_of
from modit.serving.retriever import Retriever
from modit.settings import load_settings

DIM = 192
WORDS = dict(valid_patterns=.5, k=20, prefix_len=2, valid_clusters=[12])


@pytest.fixture(scope='module')
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp('home')
    with pytest.MonkeyPatch.context() as m:
        m.setenv('MODIT_RUNS', str(home/'runs'))
        yield home


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
    write_folder(home/'sides', items, [f'thing {i}' for i in range(len(items))], wanted, pattern=kind)
    return home/'sides', Retriever.untrained(home/'sides', 'smoke', **WORDS)


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
    corpus = get_corpus(s, 'sides')
    cases = sample_cases(corpus, 'pattern', 40, s)
    moves = ways['untrained'].moves
    joint, served = dict(rule=[], moves=[]), []
    for seeds, own, pattern in zip(cases.prefix, cases.sequence, cases.pattern, strict=True):
        ids = made.catalogue.ids[seeds]
        found = made.expand(ids, 10, explain=True)
        near = np.argmax(unit(made.facts['centroids']) @ corpus.items[seeds].mean(0))
        served.append(found.attrs['moves'] == dict(rule='shipped'))
        assert served[-1] or near in made.about.trained # taken for a kind that was seen
        assert np.allclose(found.filter(like='from_').sum(axis=1), found.score, atol=1e-5)
        for name, query in dict(rule=by_rule(made).query(ids), moves=made.query(ids, **moves)).items():
            scores = corpus.items @ query
            scores[own] = -np.inf
            best = np.argsort(-scores)[:s.k]
            joint[name].append((corpus.attribute[best] & (corpus.pattern[best] == pattern)).mean())
    assert np.mean(joint['rule']) > np.mean(joint['moves']) and np.mean(served) > .5


def test_its_table_shows_the_rule_and_what_is_served(ahead, behind, monkeypatch):
    for folder, made in (ahead, behind):
        monkeypatch.setattr(Retriever, 'load', lambda *given, made=made: made)
        table = evaluate_model(folder).set_index(['split', 'what'])
        for split, row in made.about.moves['served'].items():
            way = 'shipped' if row.rule else 'untrained'
            assert (table.loc[(split, way)] == table.loc[(split, 'served')]).all()
            assert {'shipped', 'served - shipped', 'served - untrained'} <= set(table.loc[split].index)


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


def test_given_moves_are_used_as_they_are_asked(ahead):
    _, made = ahead
    rows = np.arange(2)
    x = made.catalogue.items[rows]
    found = made.expand(made.catalogue.ids[rows], 20, step=0, own=0)
    scores = made.catalogue.items @ unit(x.mean(0))
    scores[rows] = -np.inf
    assert found.attrs['moves'] == dict(share=0., step=0, own=0)
    assert found.id.tolist() == made.catalogue.ids[np.argsort(-scores)[:20]].tolist() # averaging


def test_labels_are_saved_only_for_a_rule_that_answers(ahead, behind, tmp_path):
    for folder, made in (ahead, behind):
        place = made.save(tmp_path/folder.name)
        again = Retriever.load(place, folder)
        ruled = folder.name == 'sides'
        assert any('labels' in name for name in again.facts) == ruled == bool(again.rules)
        ids = made.catalogue.ids[:2]
        pd.testing.assert_frame_equal(again.expand(ids, 20), made.expand(ids, 20))
        assert again.about == made.about
        table = evaluate_model(place, folder)
        assert ('shipped' in set(table.what)) == ruled


def test_without_a_classifier_there_is_no_rule(behind, monkeypatch):
    folder, made = behind
    def alike(*given): raise ValueError('This solver needs samples of at least 2 classes')
    monkeypatch.setattr(learned, 'compass', alike)
    plain = Retriever.untrained(folder, 'smoke')
    assert not plain.rules
    pd.testing.assert_frame_equal(plain.expand(['7', '12'], 9), made.expand(['7', '12'], 9))
