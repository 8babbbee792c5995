"""A list without training, and its rivals: each against a computation that takes no short cut."""
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from conftest import corpus_of, unit, write_shoes
from modit.anchored import anchored
from modit.data import columns as door
from modit.data.folder import write_folder
from modit.evaluation import sample_cases
from modit.ordering import trained_patterns
from modit.stages.pipeline import get_corpus, get_rows
from modit.serving import learned, rivals
from modit.serving.catalogue import make_catalogue
from modit.serving.fit import evaluate_model, fit, fit_settings
from modit.serving.proposal import FEW, settings_of
from modit.serving.retriever import Retriever
from modit.settings import load_settings

TINY = dict(pretrain_steps=4, hppo_cases=16, train_rows=[100], batch=16)


@pytest.fixture(scope='module')
def corpus(): return corpus_of('D2', load_settings('smoke'))


@pytest.fixture(scope='module')
def shoes(home): return write_shoes(home/'shoes', 'no. {}'.format)


@pytest.fixture(scope='module')
def quick(shoes): return Retriever.untrained(shoes)


# ---- what is served: the moves themselves are computed by hand on pages moves and retriever
def test_the_chosen_move_is_the_best_on_offer(corpus):
    s = load_settings('smoke')
    chosen = rivals.Trial(corpus, s).moves
    assert chosen['served'] == chosen['untrained']
    for split, cases in rivals.validation_cases(corpus, s).items():
        offers = rivals.OFFERS[rivals.OFFERS.share == 0]
        joint = rivals.joint_of_moves(corpus, cases, rivals.parts_of(corpus, cases, s), offers, s.k).mean(0)
        row = chosen['untrained'][split]
        assert row.joint == round(joint.max(), 6) and row.patterns == len(set(cases.pattern))
        trained = np.isin(cases.pattern, trained_patterns(corpus, s))
        assert trained.all() if split == 'item' else not trained.any()


@pytest.fixture
def lead(monkeypatch):
    "Settings, a corpus of which several trained kinds validate, and what is served with made-up scores."
    s = load_settings('smoke', valid_patterns=.6)
    corpus = corpus_of('D2', s)
    monkeypatch.setattr(rivals, 'parts_of', lambda *given: {})
    def served(gain, few=2): # gain: of cases and what is counted -> the policy's lead, (n, 1)
        def joint(corpus, cases, parts, offers, k, counted=None):
            some = 1 + np.linspace(0, .1, len(cases))[:, None] # kinds that are all alike decide nothing
            return some*gain(cases, counted)*offers.share.to_numpy()
        monkeypatch.setattr(rivals, 'joint_of_moves', joint)
        monkeypatch.setattr(learned, 'FEW', few)
        return {split: row.share for split, row in rivals.Trial(corpus, s, object()).moves['served'].items()}
    return s, corpus, served


def test_a_policy_has_no_share_where_few_kinds_validate(lead):
    s, corpus, served = lead
    kinds = {split: len(set(x.pattern)) for split, x in rivals.validation_cases(corpus, s).items()}
    assert min(kinds.values()) > 1 # an interval needs two
    for few in {n + more for n in kinds.values() for more in (0, 1)}:
        found = served(lambda cases, counted: 1., few)
        assert {x: share == 1. for x, share in found.items()} == {x: n >= few for x, n in kinds.items()}


@pytest.mark.parametrize('ahead, share', [(.02, 0.), (20., 1.)])
def test_a_policy_has_no_share_where_its_lead_is_noise(lead, ahead, share):
    def gain(cases, counted): # for one kind, against the next
        return ahead + (-1.)**np.unique(cases.pattern, return_inverse=True)[1][:, None]
    assert set(lead[2](gain).values()) == {share}


def test_a_policy_has_no_share_for_labels_that_it_knows_by_heart(lead):
    s, corpus, served = lead
    held = learned.unseen_items(corpus)
    cases = [sample_cases(corpus, split, 40, s) for split in ('item', 'pattern', 'valid')]
    assert all(held[x.sequence].all() for x in cases) and not held[corpus.role == 0].any()
    for won in (False, True):
        found = served(lambda cases, counted, won=won: float(counted is None or won))
        assert set(found.values()) == {float(won)}


def test_fit_by_direct_rewards_makes_nothing_else_and_says_what_it_asked_for(shoes, tmp_path, capsys):
    model, = fit(shoes, 'smoke', to=tmp_path)
    out = capsys.readouterr().out
    s = fit_settings(shoes, 'smoke')
    assert (s.backbone, s.guidance_scale) == (anchored(s).backbone, 1.) == (model.settings.backbone, 1.)
    assert [line.split()[1] for line in out.splitlines() if line.endswith('start')][-1] == 'alone'
    assert not any(word in out for word in ('pretrained', 'cpt', 'sft', 'pool', 'target'))
    rows = get_rows(s, 'shoes', 'alone')
    asked = f'asked for the labels of {rows[-1]["different"]:,} different items'
    assert asked in out and asked in model.card and model.about.data['company'] == []
    fit(shoes, 'smoke', to=tmp_path)
    assert f'training was done before and {asked}' in capsys.readouterr().out
    named = fit_settings(shoes, 'smoke', guidance_scale=2., direct_lr=.5, valid_patterns=.1)
    assert (named.guidance_scale, named.direct_lr, named.valid_patterns) == (2., .5, .1) # what is named


def test_noise_learned_by_heart_is_not_served(tmp_path, monkeypatch):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    rng = np.random.default_rng(0)
    kinds = unit(rng.normal(size=(40, 32)))
    kind = rng.integers(40, size=6000)
    items = unit(kinds[kind] + rng.normal(size=(6000, 32))/32**.5)
    write_folder(tmp_path/'coins', items, range(6000), rng.random(6000) < .25, pattern=kind.astype(str))
    words = dict(direct_steps=60, direct_checkpoints=[], anchored_lr=3e-3, valid_patterns=.5)
    model, = fit(tmp_path/'coins', 'smoke', **words)
    moves = model.about.moves
    lead = moves['policy']['item'].joint - moves['average']['item'].joint
    assert lead > .02 and moves['served']['item'].patterns >= FEW, 'the policy is ahead in Joint'
    assert moves['served']['item'].share == moves['served']['pattern'].share == 0


def test_the_classifier_sorts_the_averages_neighbours(corpus):
    s = load_settings('smoke')
    cases = rivals.validation_cases(corpus, s, 10)['item']
    scores = rivals.classifier_scores(corpus, s, most=10**9)
    seen = np.isin(corpus.role, (0, 4)) # train and other: nothing that is held out
    model = LogisticRegression(max_iter=1000).fit(corpus.items[seen], corpus.attribute[seen])
    odds = model.decision_function(corpus.items)
    assert np.corrcoef(scores, odds)[0, 1] > .9999
    for row, mine in zip(rivals.reranked(corpus, cases, scores, 50), cases.sequence, strict=True):
        mean = unit(corpus.items[mine[:cases.prefix_len]].mean(0))
        others = np.setdiff1d(np.arange(len(corpus.items)), mine)
        near = others[np.argsort(-(corpus.items[others] @ mean))[:50]]
        assert set(row) == set(near) and (np.diff(scores[row]) <= 0).all()


@pytest.mark.parametrize('split', ['pattern', 'item']) # of the second, 0 is the best
def test_the_length_of_feedback_is_that_of_the_highest_joint(corpus, split):
    s = load_settings('smoke')
    cases = rivals.validation_cases(corpus, s, 12)[split]
    queries = rivals.parts_of(corpus, cases, s)['mean']
    chosen = rivals.choose_feedback(corpus, cases, queries, 15)
    wanted = corpus.attribute[:, None] & (corpus.pattern[:, None] == cases.pattern)
    joint = {0.: [], .1: [], .2: [], .4: []}
    for i, (query, own) in enumerate(zip(queries, cases.sequence, strict=True)):
        others = np.setdiff1d(np.arange(len(corpus.items)), own)
        first = others[np.argsort(-(corpus.items[others] @ query), kind='stable')[:10]]
        marks = wanted[first, i]
        if marks.all(): continue
        liked = first[marks] if marks.any() else cases.prefix[i]
        way = unit(corpus.items[liked].mean(0) - corpus.items[first[~marks]].mean(0))
        rest = np.setdiff1d(others, first)
        for length, values in joint.items():
            scores = corpus.items[rest] @ (query + length*way)
            values.append(wanted[rest[np.argsort(-scores, kind='stable')[:15]], i].mean())
    joint = {length: np.mean(values) for length, values in joint.items()}
    best = max(joint, key=joint.get)
    assert chosen['length'] == best
    assert np.allclose([chosen['joint'], chosen['without']], [joint[best], joint[0.]], atol=1e-5)
    easy = cases[np.zeros(len(cases), bool)] # nothing to mark
    assert rivals.choose_feedback(corpus, easy, queries[:0], 15)['length'] is None


# ---- folders and commands
def test_items_without_labels_are_searched(quick, shoes, tmp_path):
    goods = quick.catalogue
    write_folder(tmp_path/'shelf', goods.items[:500], goods.ids[:500], ['']*500)
    table = pd.read_csv(tmp_path/'shelf'/'items.csv')
    for columns in (['id', 'attribute'], ['id']):
        table[columns].to_csv(tmp_path/'shelf'/'items.csv', index=False)
        with pytest.warns(UserWarning, match='other items; it searches these 500'):
            found = quick.over(tmp_path/'shelf').expand(goods.ids[:3], 20)
        assert set(found.id) <= set(goods.ids[3:500]) and 'text' not in found
    with pytest.raises(ValueError, match='no column id'):
        table[['attribute']].to_csv(tmp_path/'shelf'/'items.csv', index=False)
        quick.over(tmp_path/'shelf')


def test_ids_stay_what_they_are_and_one_long_id_lengthens_no_other():
    ids = ['nan', 'None', 'a\0', 'b\0\0', '\0', '007', 'x'*10**6, *map(str, range(2000))]
    items = np.random.default_rng(0).normal(size=(len(ids), 4)).astype(np.float32)
    tracemalloc.start()
    for form in (list, lambda x: np.array(x, object), pd.Series):
        goods = make_catalogue(SimpleNamespace(items=items, ids=form(ids), text=form(ids)))
        assert goods.ids.tolist() == goods.text.tolist() == ids
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6 # as a table of one width, 8 GB


@pytest.fixture
def served(quick, tmp_path):
    "A folder whose embeddings are searched where they are, if they are large."
    goods = quick.catalogue
    write_folder(tmp_path/'shelf', np.array(goods.items), goods.ids, [0]*len(goods.ids))
    return tmp_path/'shelf'


def overwrite(folder, x): # as NumPy saves, into the file that is there
    with open(folder/'embeddings.npy', 'wb') as f: np.lib.format.write_array(f, x)


QUESTIONS = [{}, dict(where='id!=shoe 9'), dict(own=.5), dict(without=['shoe 9'])]


@pytest.mark.parametrize('kind, large', [('f4', True), ('f4', False), ('f2', False)]) # half becomes single
def test_a_file_that_is_overwritten_changes_no_list(quick, served, monkeypatch, kind, large):
    if large: monkeypatch.setattr(door, 'IN_MEMORY', 0)
    x = np.array(quick.catalogue.items).astype(kind)
    overwrite(served, x)
    shelf, seeds = quick.over(served), (['shoe 1'], quick.catalogue.items[:1])
    mapped = shelf.catalogue.items
    assert large == (isinstance(mapped, np.memmap) or isinstance(mapped.base, np.memmap)) # no copy
    asked = [(given, wishes) for given in seeds for wishes in QUESTIONS]
    before = [shelf.expand(given, k=9, **wishes) for given, wishes in asked]
    write_folder(served, x[::-1], quick.catalogue.ids[::-1], [0]*len(x)) # a file of its own: ours stays
    for (given, wishes), found in zip(asked, before, strict=True):
        pd.testing.assert_frame_equal(shelf.expand(given, k=9, **wishes), found)
    shelf = quick.over(served)
    before = [shelf.expand(given, k=9, **wishes) for given, wishes in asked]
    overwrite(served, x[:7])
    for (given, wishes), found in zip(asked, before, strict=True):
        if not large: pd.testing.assert_frame_equal(shelf.expand(given, k=9, **wishes), found)
        else:
            with pytest.raises(ValueError, match='embeddings.npy was changed') as refusal:
                shelf.expand(given, k=9, **wishes)
            assert '\n' not in str(refusal.value)


def test_a_folder_without_a_model_is_measured(shoes):
    table = evaluate_model(shoes, asked=dict(own=.6))
    ways = ['average', 'classifier', 'untrained', 'shipped', 'served', 'asked']
    others = [way for way in ways if way not in ('served', 'asked')]
    assert table[table.split == 'item'].what.tolist() == [*ways, *[f'asked - {way}' for way in others]]
    s = settings_of(shoes)
    for split, kind in (('item', 'trained'), ('pattern', 'new')):
        cases = sample_cases(get_corpus(s, 'shoes'), split, s.density_cases, s)
        n = len(set(cases.pattern))
        said, = set(table[table.split == split].over)
        assert said.startswith(f'{len(cases)} cases of {n} {kind} pattern{"s"*(n > 1)}')
    for asked, said in ((dict(share=.5), 'no policy'), (dict(own=-1), 'own -1 is out of range')):
        with pytest.raises(ValueError, match=said): evaluate_model(shoes, asked=asked)
    with pytest.raises(ValueError, match='no policy'): Retriever.load(shoes).expand(['shoe 1'], share=.5)


def test_fit_says_before_and_after_whether_training_pays(shoes, tmp_path, capsys):
    model, = fit(shoes, 'smoke', 'adaptive', tmp_path, **TINY)
    lines = capsys.readouterr().out.splitlines()
    before = [i for i, line in enumerate(lines) if 'without training' in line and 'target' in line]
    begins = [i for i, line in enumerate(lines) if 'pretrained: start' in line]
    assert len(before) == len(begins) == 1 and before < begins and 'MODIT_RUNS' in lines[0]
    gained, = [line for line in lines if line.startswith('shoes: served, ')]
    rows = pd.DataFrame(model.about.metrics).set_index(['split', 'what', 'metric']).estimate
    for split in ('item', 'pattern'):
        served, alone = (model.about.moves[way][split] for way in ('served', 'untrained'))
        assert served.joint >= alone.joint and alone.share == 0
        assert f'{100*rows[split, "served - average", "joint"]:+.1f}' in gained
    new = next(c for c in range(len(model.patterns)) if c not in model.about.trained)
    seeds = model.facts['centroids'][new][None]
    with pytest.warns(UserWarning, match='not trained on; with share 0, .* too few new kinds'):
        found = model.expand(seeds, 5)
    assert found.attrs['moves'] == model.about.moves['served']['pattern'].moves
    assert model.about.moves['served']['pattern'] == model.about.moves['untrained']['pattern']
    with pytest.warns(UserWarning, match='may leave their kind; share 0 leaves the policy out'):
        model.expand(seeds, 5, share=.3)
