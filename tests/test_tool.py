"""The tool: a folder of one's own from labels to lists, each step against the plainest program."""
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import solve

from conftest import COMMAND, ROOT, environment, run_apart, unit
from modit.data.columns import read_table
from modit.data.folder import read_facts, write_folder
from modit.repro.leaderboard.labels import same as board_same
from modit.repro.leaderboard.split import SMALL, open_board
from modit.rows import quick_lengths
from modit.serving import goods, retriever as door
from modit.serving.choice import KINDS, LOOK, STEPS, Constants, _among, best_way, choose, make_trial
from modit.serving.choice import scored, trials
from modit.serving.field import learn, list_scores, same, scores, vectors
from modit.serving.goods import first_of_each, ids_or_vectors, look_at, read_goods, read_marks, where
from modit.serving.field import of_one_pattern
from modit.serving.lists import answers, checked, evaluated
from modit.serving.look import printed
from modit.serving.parts import Asked, one_sum, unchosen, worth
from modit.serving.retriever import KEPT, Retriever

D, N = 16, 2400


def made(seed=0, patterns=12, share=.5):
    "Vectors of any length, their patterns, whether they are right, and labels of a part."
    rng = np.random.default_rng(seed)
    pattern = rng.integers(0, patterns, N)
    x = rng.normal(size=(patterns, D))[pattern] + .8*rng.normal(size=(N, D))
    right = x[:, 0]*x[:, 1] + .3*rng.normal(size=N) > .4
    known = (rng.random(N) < share) & (pattern < patterns - 2) # two patterns have no label
    return SimpleNamespace(x=(x*rng.uniform(.5, 2, (N, 1))).astype(np.float32), pattern=pattern, right=right,
                           known=known, label=np.where(known, right.astype(int).astype(str), ''))


def write(path, m, **columns):
    rng = np.random.default_rng(1)
    usual = dict(pattern=np.where(m.known, [f'kind {c}' for c in m.pattern], ''),
                 price=rng.integers(1, 100, N), shop=rng.choice(['north', 'south', ''], N))
    write_folder(path, m.x, [f'shoe-{i}' for i in range(N)], m.label, **(usual | columns))
    return path


M = made()
FREE = np.flatnonzero(~M.known)
ASKED = [f'shoe-{i}' for i in FREE[M.right[FREE] & (M.pattern[FREE] == 3)][:4]]


@pytest.fixture(scope='module')
def shop(home): return write(home/'shop', M)


@pytest.fixture(scope='module')
def opened(shop): return Retriever.of(shop)


@pytest.fixture(scope='module')
def averaging(opened):
    "The same folder where nothing was chosen."
    plain = {kind: vars(Constants()) for kind in KINDS}
    return replace(opened, ways=opened.ways | dict(constants=plain))


# ---- the parts of a list
@pytest.fixture(scope='module')
def board(): return open_board(SMALL)


@pytest.fixture(scope='module')
def learned(board):
    "The small domain as the tool learns it, and forty requests."
    known = board.labelled
    free = np.flatnonzero(~known)
    field = learn(board.items, np.ones(len(board.items), np.float32), free, board.items[known],
                  board.attribute[known].astype(float), board.pattern[known], ('logistic',))
    cases = board.cases('known', 40)
    return field, cases, Asked(board.items[cases.seeds.ravel()], np.full(40, board.m)), free


@pytest.mark.parametrize('form, how', [('means', .03), ('wide', .1), ('logistic', 'logistic')])
def test_chances_of_patterns_are_those_of_the_leaderboard(board, learned, form, how):
    field, cases, asked, free = learned
    ours = same(field, asked, form)[:, free]
    theirs = board_same(board.items, cases.seeds, board.labels, board.patterns, how)
    high = theirs > -4 # patterns that the seeds hardly have are left out
    assert high.any() and abs(ours - theirs)[high].max() < (.3 if form == 'logistic' else .06)
    assert ours[~high].max() < -3


def test_the_sum_of_vectors_is_the_sum_of_scores(learned):
    field, cases, asked, free = learned
    c = Constants(beta=10., weight=1., fit=.1, lam=2., how='logistic', kappa=.3, form='wide')
    linear, others = vectors(field, asked, cases.seeds), scores(field, asked, c.how, c.form)
    one_by_one = SimpleNamespace(
        near=lambda: field.product(linear.near()), exemplar=lambda: field.product(linear.exemplar()),
        likely=lambda: field.product(linear.likely()) + others.likely(), attribute=others.attribute,
        same=others.same)
    plain = one_sum(one_by_one, **c.sum)
    assert np.allclose(list_scores(field, asked, cases.seeds, c), plain, atol=2e-3*np.std(plain))


def test_worth_grows_with_what_is_found_and_how_soon():
    first, depth, left = np.eye(4, dtype=bool)[[0, 3]], np.array([2, 2]), np.array([1, 1])
    assert worth(first, depth, left)[0] == 1.5 and 0 < worth(first, depth, left)[1] < 1


# ---- what is chosen
def test_no_hidden_label_reaches_a_trial():
    x, y, pattern = unit(M.x[M.known]), M.right[M.known].astype(float), M.pattern[M.known]
    t = make_trial(x, y, pattern, 20)
    hidden = [int(np.abs(x - row).sum(1).argmin()) for row in t.field.x]
    turned = y.copy()
    turned[hidden] = 1 - turned[hidden]
    kept = np.setdiff1d(np.arange(len(y)), hidden)
    for name, values in learn(t.field.x, np.ones(len(hidden), np.float32), np.arange(len(hidden)), x[kept],
                              turned[kept], pattern[kept]).odds.items():
        assert np.array_equal(values, t.field.odds[name])
    for row, seeds in enumerate(t.seeds): # seeds are right and hidden, and lists are of what is left
        assert (t.truth[seeds] == t.pattern[row]).all()
        assert t.left[row] == (t.truth == t.pattern[row]).sum() - len(seeds)
    fresh = set(t.pattern[t.new]) # of which no label is seen
    assert fresh and not fresh & set(pattern[kept]) and not fresh & set(t.pattern[~t.new])


def test_constants_are_the_best_of_their_neighbours_and_averaging_where_that_is_best(shop):
    ss = trials(read_goods(shop))
    assert len(ss) == 3
    def found(c, kind): return np.concatenate([s.worth(c, s.rows[kind]) for s in ss]).mean()
    for kind in KINDS:
        best = choose(ss, kind)
        assert found(best, kind) > found(Constants(), kind)
        for change in (dict(beta=0.), dict(beta=30.), dict(weight=0.), dict(fit=0.), dict(lam=0., how='')):
            assert found(replace(best, **change), kind) <= found(best, kind) + 1e-9
        assert choose(ss, kind, ()) == Constants()


def test_labels_by_lot_gain_nothing(home):
    m = made(seed=5)
    m.label = np.where(m.known, np.random.default_rng(2).integers(0, 2, N).astype(str), '')
    lines, table = evaluated(write(home/'lot', m))
    low = table.low.unstack()['attribute']
    assert (low <= 0).all() and len(lines) == 2


def test_what_evaluate_tells_is_what_lists_of_unlabelled_items_gain(shop, opened, averaging):
    def right(r, c, seeds):
        rows = [int(x.removeprefix('shoe-')) for x in r.expand([f'shoe-{i}' for i in seeds], k=10).id]
        return 100*(M.right[rows] & (M.pattern[rows] == c)).mean()
    gain = []
    for c in range(10): # of known patterns
        mine = FREE[M.right[FREE] & (M.pattern[FREE] == c)]
        gain += [right(opened, c, mine[i:i + 6]) - right(averaging, c, mine[i:i + 6]) for i in (0, 6)]
    low, high = evaluated(shop)[1].loc['known', 'this'][['low', 'high']]
    assert low < np.mean(gain) < high


def test_a_condition_that_tells_the_pattern_has_a_sum_of_its_own(home):
    r = Retriever.of(write(home/'within', M, category=[f'c{c}' for c in M.pattern], serial=range(N)))
    other = replace(r, ways=r.ways | dict(constants=dict.fromkeys(KINDS, r.ways['constants']['within'])))
    def listed(r, where): return r.expand(ASKED, where=where).id.tolist()
    assert listed(r, 'category=c3') == listed(other, ['category!=c2', 'category>c2', 'category<c4'])
    asked = 'category=c1', 'category=c1|c2', 'category!=c1', 'price=3', 'serial=3', 'x=1', 'price<3'
    assert [of_one_pattern(r.own, [x]) for x in asked] == [True] + [False]*6


@pytest.mark.parametrize('labels', ['none', 'one kind', 'few', 'no patterns'])
def test_a_folder_that_says_little_is_listed_by_the_seeds(home, labels):
    m, name = made(), home/f'little {labels}'.replace(' ', '-')
    if labels == 'none': m.label = np.full(N, '')
    if labels == 'one kind': m.label = np.where(m.known, '1', '')
    if labels == 'few': m.label = np.where(np.arange(N) < 30, m.right.astype(int).astype(str), '')
    r = Retriever.of(write(name, m, **({} if labels != 'no patterns' else dict(pattern=['']*N))))
    found = r.expand(r.ids[:3], k=5)
    assert len(found) == 5
    said = {'none': 'usual weights', 'few': 'usual weights', 'no patterns': 'clusters stand in'}
    assert said.get(labels, '') in ' '.join(found.attrs['notes'])
    usual = vars(unchosen(r.own.label[~r.own.free]))
    if labels in ('none', 'few'):
        assert r.ways['constants'] == dict.fromkeys(r.ways['constants'], usual)
        assert r.ways['marks'] == dict.fromkeys(KINDS, dict(seeds=False, minus=.3))
    if labels != 'none': return
    x, seeds = unit(M.x), unit(M.x[:3]).mean(0) # closeness, and the border by scipy and numpy
    near = x[3:] @ unit(seeds)
    spread = np.cov(x.T)
    away = seeds - .25*x[3:][np.argsort(-near)[:100]].mean(0) - .75*x.mean(0)
    way = solve(spread + .3*np.trace(spread)/len(spread)*np.eye(len(spread)), away)
    assert np.allclose(found.score, np.sort(30.001*(near + x[3:] @ unit(way)))[::-1][:5], atol=1e-3)


def test_a_condition_that_tells_the_attribute_has_a_sum_of_its_own(home):
    m = made()
    few = np.arange(N) % 2 == 0 # without a label, and searched
    m.label = np.where(few, '', m.right.astype(int).astype(str))
    category = [f'c{c}' for c in m.pattern]
    more = dict(has=m.right.astype(int), category=category, other=np.arange(N) % 3)
    r = Retriever.of(write(home/'told', m, **more))
    asked = 'has=1', ['has>0', 'other<3'], 'other=1', 'other<3', ['category=c1', 'has=1'], 'attribute=1', ()
    named = ['right', 'right', 'known', 'known', 'within', 'right', 'known']
    assert [r._way(r.question(ASKED[::2], where=x), 'known') for x in asked] == named
    for wish, met in (('has=1', m.right & few), ((), few)): # each list is of the sum that was chosen for it
        q = r.question(ASKED[::2], where=wish)
        (rows, found, kind, notes), = r.lists([q])
        c = Constants(**r.ways['constants'][r._way(q, kind)])
        plain = np.where(met, list_scores(r.field, Asked(q.x, np.array([2])), [q.rows], c)[0], -np.inf)
        plain[q.rows] = -np.inf
        assert rows.tolist() == np.argsort(-plain, kind='stable')[:20].tolist() and not notes
        assert np.allclose(found, plain[rows]/(c.beta + 1e-3 if c.averages else 1), atol=1e-5)
    wrong = r.expand(ASKED[::2], where='attribute=0', labelled=True).id.map(lambda x: int(x[5:]))
    assert not m.right[wrong].any() and not few[wrong].any() # no label is no 0
    m.label = np.where(np.arange(N) % 50 == 0, '0', '1') # a condition that removes nothing says nothing
    r = Retriever.of(write(home/'nearly', m, same=[1]*N))
    assert r._way(r.question(ASKED, where='same=1'), 'new') == 'new'


def test_lists_among_some_items_are_scored_as_if_there_were_no_others(home):
    s = scored(make_trial(unit(M.x), M.right.astype(float), M.pattern, 20))
    kept, c = np.arange(len(s.trial.truth)) % 3 > 0, Constants(weight=1.)
    cut, rows = _among(s, kept), np.arange(len(s.trial.pattern))
    found = np.where(kept, s.total(c, rows), -np.inf)
    first = np.argsort(-found, axis=1, kind='stable')[:, :LOOK]
    assert (cut.first(c, cut.rows['all']) == (s.trial.truth[first] == s.trial.pattern[:, None])).all()
    right = choose([_among(s, s.trial.truth >= 0)], 'all', [x for x in STEPS if x != 'attribute'])
    assert best_way([s])['constants']['right'] == vars(right)


@pytest.mark.parametrize('labels', [True, False])
@pytest.mark.parametrize('many', [1, 2])
def test_one_item_or_equal_ones_are_listed(home, many, labels):
    m, place = made(), home/f'last-{many}-{labels}'
    m.label = m.right.astype(int).astype(str) if labels else np.full(N, '')
    write_folder(place/'other', m.x[-1:].repeat(many, 0), [f'x{i}' for i in range(many)], np.full(many, ''))
    r = Retriever.of(write(place/'own', m), items=place/'other')
    assert len(r.expand(ASKED, k=5)) == many
    if labels and many == 1: # all of the own folder have one
        none, three = (Retriever.of(place/'own').expand(ASKED, k=3, labelled=x) for x in (False, True))
        assert none.attrs['notes'][0].endswith('0 can be listed without labelled ones') and len(three) == 3


def test_semicolons_between_fields_are_told(home):
    path = write(home/'semicolons', M)
    (path/'items.csv').write_text((path/'items.csv').read_text('utf-8').replace(',', ';'), 'utf-8')
    assert checked(path)[1] == ['items.csv has semicolons between its fields; write commas']


# ---- a list by hand
def by_hand(r, seeds, keeps=lambda i: True, most=None, k=20):
    "The list that the plainest program makes."
    rows = [int(name[5:]) for name in seeds]
    mean = unit(unit(M.x[rows]).mean(0))
    counts, kept = {}, []
    for i in np.argsort(-(unit(M.x) @ mean), kind='stable'):
        value = r.goods.columns['shop'][i]
        if M.known[i] or i in rows or not keeps(i) or counts.get(value, 0) == most: continue
        counts[value] = counts.get(value, 0) + 1
        kept.append(f'shoe-{i}')
    return kept[:k]


def test_every_wish_is_met_as_by_the_plainest_program(averaging):
    r, price = averaging, averaging.goods.columns.price.astype(int)
    def listed(**more): return r.expand(ASKED, **more).id.tolist()
    assert listed() == by_hand(r, ASKED)
    assert listed(where='price<20', k=7) == by_hand(r, ASKED, lambda i: price[i] < 20, k=7)
    first = listed()[:3]
    assert listed(without=first, k=9) == by_hand(r, ASKED, lambda i: f'shoe-{i}' not in first, k=9)
    assert listed(distinct={'shop': 2}) == by_hand(r, ASKED, most=2)
    assert r.expand(ASKED, labelled=True, k=200).id.map(lambda x: M.known[int(x[5:])]).any()
    assert r.expand(ASKED, where='price<0').attrs['notes'][0] == 'k: 20 items asked, and 0 can be listed'
    assert averaging.lists([averaging.question(ASKED), averaging.question(ASKED[:1])])[0][0].tolist() == [
        int(x[5:]) for x in listed()] # together as alone


def test_copies_of_seeds_are_no_finds(home):
    m = made()
    m.x[FREE[10:30]] = 3*m.x[FREE[5]] # twenty copies, of another length
    r = Retriever.of(write(home/'copies', m))
    assert not set(r.expand([f'shoe-{FREE[5]}'], k=50).id) & {f'shoe-{i}' for i in FREE[10:30]}
    twins = {f'shoe-{i}' for i in (FREE[5], *FREE[10:30])}
    assert not set(r.expand(unit(m.x[FREE[5]])[None], k=50).id) & twins


@pytest.mark.parametrize('right, wrong', [(3, 0), (0, 3), (1, 0), (2, 2)])
@pytest.mark.parametrize('way', [dict(seeds=True, minus=.3), dict(seeds=False, minus=0.)])
def test_any_marks_give_a_list(opened, right, wrong, way):
    r = replace(opened, ways=opened.ways | dict(marks=dict.fromkeys(KINDS, way)))
    plain = r.expand(ASKED, k=10).id
    marks = dict(right=plain[:right], wrong=plain[right:right + wrong])
    found = r.expand(ASKED, k=10, **marks)
    assert len(found) == 10 and not {*found.id} & {*plain[:right + wrong]}
    told = found.attrs['notes'] == ['marks only leave items out, as validation chose']
    assert told == (not any(way.values()))
    if told: assert found.id[:10 - right - wrong].tolist() == plain[right + wrong:].tolist()


def test_the_query_is_the_part_of_the_list_that_is_a_vector(opened, averaging):
    c = Constants(beta=10., weight=1., fit=.1)
    linear = {kind: vars(c) for kind in KINDS}
    r = replace(opened, ways=opened.ways | dict(constants=linear))
    q = r.question(ASKED)
    parts = vectors(r.field, Asked(q.x, np.array([4])), [q.rows])
    plain = 10.001*(parts.near() + parts.exemplar()) + .1*parts.likely()
    assert np.allclose(r.query(ASKED), unit(plain)[0], atol=1e-5)
    plain = averaging
    close = unit(M.x) @ plain.query(ASKED)
    close[[int(x[5:]) for x in ASKED]] = close[M.known] = -1
    listed = plain.expand(ASKED).id.str[5:].astype(int).tolist()
    assert np.argsort(-close, kind='stable')[:20].tolist() == listed


# ---- another folder, and what is stored
def test_another_folder_is_searched(opened, shop, home):
    rng, names = np.random.default_rng(3), [f'boot-{i}' for i in range(300)]
    path = home/'boots'
    path.mkdir()
    np.save(path/'embeddings.npy', rng.normal(size=(300, D)).astype(np.float16))
    pd.DataFrame(dict(id=names)).to_csv(path/'items.csv', index=False)
    r = Retriever.of(shop, items=path)
    for seeds in (ASKED, names[:2], unit(M.x[:2])): # ids of either folder, vectors
        found = r.expand(seeds, k=7)
        assert set(found.id) <= set(names) and list(found) == ['id', 'score']
    with pytest.raises(ValueError, match="seed 'cap': not among the 300 items"): r.expand(['cap'])
    np.save(path/'embeddings.npy', rng.normal(size=(300, 5)).astype(np.float32))
    with pytest.raises(ValueError, match='dimension 5, .* has 16; embed both'): Retriever.of(shop, items=path)


def test_a_stored_choice_is_of_its_content_and_code(home, monkeypatch):
    path = write(home/'kept', made())
    first = Retriever.of(path)
    monkeypatch.setattr(door, 'best_way', None) # would fail if it were called
    again = Retriever.of(path)
    assert again.expand(ASKED).equals(first.expand(ASKED))
    assert again.ways == json.loads(json.dumps(first.ways))
    names = {p.name for p in (path/KEPT).iterdir()}
    moved = shutil.copytree(path, home/'moved') # content counts, and not the name
    assert Retriever.of(moved).expand(ASKED).equals(first.expand(ASKED))
    with monkeypatch.context() as m:
        m.setattr(door, 'version', lambda name: '0')
        with pytest.raises(TypeError): Retriever.of(path)
    monkeypatch.undo()
    for file in (path/KEPT).iterdir(): file.write_text('{}', 'utf-8') # is not there, then
    assert Retriever.of(path).expand(ASKED).equals(first.expand(ASKED))
    m = made()
    m.label[np.flatnonzero(m.known)[0]] = ''
    Retriever.of(write(path, m))
    now = {p.name for p in (path/KEPT).iterdir()}
    assert len(now) == 2 and not names & now


@pytest.mark.parametrize('damage', ['cut', 'empty', 'gone', 'read only'])
def test_what_is_stored_may_be_damaged_or_missing(shop, opened, home, damage, monkeypatch):
    path = shutil.copytree(shop, home/damage.replace(' ', '-'))
    for file in (path/KEPT).iterdir():
        if damage == 'cut': file.write_bytes(file.read_bytes()[:-9])
        if damage == 'empty': file.write_bytes(b'')
        if damage in ('gone', 'read only'): file.unlink()
    def refuse(*given): raise OSError('read-only')
    if damage == 'read only': monkeypatch.setattr(door, 'atomic_write', refuse)
    pd.testing.assert_frame_equal(Retriever.of(path).expand(ASKED), opened.expand(ASKED))


def test_a_file_that_is_overwritten_changes_no_list(shop, home, monkeypatch):
    path = shutil.copytree(shop, home/'overwritten')
    r = Retriever.of(path)
    found = r.expand(ASKED)
    with monkeypatch.context() as m: # files of its own: ours stay
        m.setattr(goods, 'quick_lengths', lambda x: write(path, made(seed=9)) and quick_lengths(x))
        assert read_goods(path).key == r.own.key, 'of what was read, not of what is there now'
        m.setattr(goods, 'quick_lengths', quick_lengths)
        m.setattr(door, 'learn_chosen', lambda *given: os.utime(path/'embeddings.npy'))
        with pytest.raises(ValueError, match='was changed while'): Retriever.of(path)
    assert r.expand(ASKED).equals(found)
    r = Retriever.of(path)
    with open(path/'embeddings.npy', 'r+b') as f: f.truncate(10_000)
    with pytest.raises(ValueError, match='was changed while it is searched') as refusal: r.expand(ASKED)
    assert '\n' not in str(refusal.value)


@pytest.mark.parametrize('kind, scale', [(np.float16, 1), (np.float64, 1e30), (np.float32, 1e-30)])
def test_numbers_of_any_precision_are_searched(home, kind, scale):
    m = made()
    m.x = (unit(m.x)*scale).astype(kind)
    goods = read_goods(write(home/f'as-{np.dtype(kind).name}', m))
    assert np.allclose(np.linalg.norm(goods.rows(np.arange(50)), axis=1), 1, atol=1e-3)


# ---- what is wrong
@pytest.mark.parametrize('other, said', [
    (dict(label=['yes', 'maybe', *['']*(N - 2)]), 'attribute, row 1: neither 0 or 1'),
    (dict(label=['red', 'blue', '']*(N//3)), '2 kinds of words'),
    (dict(label=np.linspace(0, .8, N)), 'scores from 0 to 0.8 without a threshold; give modit check'),
    (dict(x=np.zeros((N, D), np.float32)), 'embeddings.npy: row 0 and 2399 more: all zeros'),
    (dict(x=np.full((N, D), np.nan, np.float32)), 'not finite')])
def test_every_mistake_has_its_line(tmp_path, other, said):
    m = made()
    for name, value in other.items(): setattr(m, name, value)
    goods, lines = look_at(write(tmp_path/'bad', m))
    assert goods is None and len([x for x in lines if said in x]) == 1 and all('\n' not in x for x in lines)
    with pytest.raises(ValueError, match='bad: '): Retriever.of(tmp_path/'bad')
    assert checked(tmp_path/'bad') == ([], lines)


@pytest.mark.parametrize('labels, said', [('1', 'all labels are 1: write 0'), ('', 'no item has a label')])
def test_labels_that_teach_nothing_are_told(tmp_path, labels, said):
    m = made()
    m.label = [labels]*9 + ['']*(N - 9)
    lines, trouble = checked(write(tmp_path/'alike', m))
    assert trouble == [] and lines[-1].startswith(said)


HAND = '# labels: wear in mm\n[domain]\nthreshold = 0.1 # of May\n# k = 30 was too long\nk = 7\n'


def test_a_threshold_is_kept_and_comments_stay(home):
    m = made()
    m.label = M.x[:, 0].round(3)
    path = write(home/'wear', m)
    (path/'domain.ini').write_text(HAND, 'utf-8')
    checked(path)
    assert (path/'domain.ini').read_text('utf-8') == HAND and Retriever.of(path).k == 7
    checked(path, .2)
    assert (path/'domain.ini').read_text('utf-8') == HAND.replace('0.1', '0.2')
    assert (read_goods(path).label == (m.label >= .2)).all()
    (path/'domain.ini').unlink()
    checked(path, .3)
    assert (path/'domain.ini').read_text('utf-8') == '[domain]\nthreshold = 0.3\n'
    for hand in ('\ufeff[domain]\nk = 7\n', '[other]\nthreshold = 9\n[domain]\n Threshold = 2\n'):
        (path/'domain.ini').write_text(hand, 'utf-8')
        checked(path, .12345678)
        assert read_facts(path)['threshold'] == .12345678
        assert hand.splitlines()[1] in (path/'domain.ini').read_text('utf-8')


@pytest.mark.parametrize('wish, said', [
    (dict(where='price'), 'no sign'), (dict(where=3), 'no sign'), (dict(where=[['price<3']]), 'no sign'),
    (dict(where='price<low'), "'low' is no number"), (dict(where='price=<5'), 'condition'),
    (dict(where='shop<3'), 'no number; compare numbers'), (dict(where='cost<3'), "no column 'cost'"),
    (dict(without='cap'), "id 'cap'"), (dict(right=['cap']), "marked id 'cap'"),
    (dict(distinct=dict(shop='few')), 'whole number'), (dict(distinct=dict(shop=True)), 'whole number'),
    (dict(distinct=['shop', 'price']), 'give one column'), (dict(distinct='cost'), "no column 'cost'"),
    (dict(k=0), 'k: 0'), (dict(k=2.5), 'k: 2.5'), (dict(k='x'), "k: 'x'"), (dict(seeds=[]), 'no seeds'),
    (dict(seeds=['cap', 'hat']), "seed 'cap' and 1 more: not among the 2,400"),
    (dict(seeds=[ASKED[0]]*2), 'is given twice'), (dict(seeds=[[0.]*D]), 'a vector of zeros'),
    (dict(seeds=[[1.]*3]), 'neither ids nor vectors of 16'), (dict(seeds=[None]), 'neither ids nor vectors'),
    (dict(seeds=[[1., 2.], [1.]]), 'neither ids'),
    (dict(seeds=np.eye(D)[:1].repeat(2, 0)*[[1], [-1]]), 'cancel out')])
def test_a_wish_that_cannot_be_met_is_refused_in_one_line(opened, wish, said):
    with pytest.raises(ValueError) as refusal: opened.expand(**(dict(seeds=ASKED) | wish))
    assert said in str(refusal.value) and '\n' not in str(refusal.value)


def test_whole_numbers_are_ids_however_they_come(home):
    m, ids = made(), [177 + i if i % 2 else 13811189083039875000 + i for i in range(N)]
    ids[7] = 2**70
    write_folder(home/'points', m.x, ids, m.label)
    r = Retriever.of(home/'points')
    few = ids[:D]
    forms = [few, tuple(few), np.array(few, object), pd.Series(few, dtype=object), [str(few[0]), *few[1:]]]
    for seeds in forms: assert r.seed_rows(seeds)[1].tolist() == list(range(D))
    assert r.seed_rows(np.array(few[0], np.uint64))[1].tolist() == [0]
    assert r.seed_rows([178., 180.])[1].tolist() == [1, 3] and r.seed_rows({178, 180})[1].tolist() == [1, 3]
    for vector in (np.eye(D)[:1], [[1, *[0]*(D - 1)]], .5*np.eye(D)[0] + .1):
        assert r.seed_rows(vector)[1].size == 0


def test_ids_are_found_in_any_form_of_their_letters():
    assert ids_or_vectors('a', 2) == ['a'] and ids_or_vectors(7, 2) == [7]
    kept = first_of_each(pd.Series(['a', 'a ', None, '', 'b']), 1)
    assert kept.tolist() == [True, False, True, False, True]


# ---- conditions
ID = 1546130668394913800  # of an account: a double holds 128 of its neighbours as the same number
ALIKE = [
    (ID + np.arange(6), {f'={ID + 2}': '001000', f'!={ID + 2}': '110111', f'>={ID + 2}': '001111',
                         f'>{ID + 2}': '000111', f'<{ID + 2}': '110000', f'={ID}|{ID + 5}': '100001'}),
    (pd.array([ID, None, ID + 1], 'Int64'), {f'={ID}': '100', f'>{ID}': '001', f'!={ID}': '011'}),
    (np.array([2**63 + 5, 2**63 + 6, 3], np.uint64), {
        f'={2**63 + 5}': '100', f'>={2**63 + 6}': '010', '=3': '001', '=-1': '000', f'<{2**70}': '111'}),
    ([-5, 5, 0], {'=-5': '100', '<0': '100', '=-0': '001', '=5.0': '010'}),
    ([1.5, 2., np.nan], {'=1.50': '100', '=2': '010', '!=2': '101', '=': '001', '>=1.5': '110'}),
    (['1.50', '2.00', ''], {'=1.5': '100', '=2': '010', '!=2': '101', '=': '001', '>=1.5': '110'}),
    (['007', '7', '1E2', '100'], {'=7': '0100', '=007': '1000', '=100': '0001', '!=7': '1011'}),
    (np.float32([.1, .3, np.nan]), {'<=.3': '110'}), # as it is printed
    (['x=y', 'z', '', 'x=y'], {'=x=y': '1001', "=__import__('os')": '0000'}), # read, never executed
    ([True, False, None, True], {'=True': '1001'}),
    (['a|b', 'a', 'b', ''], {'=a|b': '1000', '!=a|b': '0111', '=a': '0100', '=b|a': '0110', '=a|': '0101'}),
    (['north', 'south', '"x"', "it's"], {
        '==north': '1000', '="north"': '1000', "== 'north'": '1000', '="x"': '0010', '="it\'s"': '0001'}),
    (['caf\u00e9', 'cafe\u0301', 'cafe'], {'=caf\u00e9': '110', '=cafe\u0301': '110', '!=cafe': '110'}),
    (pd.to_datetime(['2024-05-01 00:00:00', '2024-05-02 10:30:00', '2024-06-01 00:00:00', None]), {
        '<2024-05-02': '1000', '>=2024-05-02': '0110', '=': '0001', '=2024-05-02 10:30:00': '0100'}),
    (pd.to_datetime(['2024-05-01', '2024-05-02', '9999-12-31']).date, {
        '=2024-05-02': '010', '>2024-05-01': '011', '!=9999-12-31': '110'})]


@pytest.mark.parametrize('values, asked', ALIKE, ids=lambda x: str(list(x)[0]))
def test_a_question_has_one_answer_in_memory_in_csv_and_in_parquet(tmp_path, values, asked):
    table = pd.DataFrame({'c': values})
    table.to_csv(tmp_path/'table.csv', index=False)
    tables = [table, pd.read_csv(tmp_path/'table.csv', dtype=str, keep_default_na=False).fillna('')]
    try: table.to_parquet(tmp_path/'table.parquet')
    except ImportError: pass
    else: tables.append(read_table(tmp_path/'table.parquet'))
    for each in tables:
        found = {text: ''.join('01'[int(met)] for met in where(each, f'c{text}')[0]) for text in asked}
        assert found == asked


def test_a_value_that_no_item_has_is_told_with_one_that_is_there():
    table = pd.DataFrame(dict(shop=['', 'north', 'south'], price=[1, 2, 3]))
    assert where(table, ['shop=north', 'price=2'])[1] == where(table, 'price<0')[1] == []
    with pytest.raises(ValueError, match='two columns are'): where(table.assign(**{'price ': 3}), 'price<9')
    kept, notes = where(table, 'shop=North')
    assert not kept.any() and "no item has it; shop has values such as 'north'" in notes[0]


# ---- the command
def test_the_command_shapes_a_list(opened, shop, tmp_path, modit):
    plain = opened.expand(ASKED, 8)
    plain.assign(judged=['1', '0', *['']*6]).to_csv(tmp_path/'marks.tsv', sep='\t', index=False)
    (tmp_path/'ids').write_text('\n'.join(plain.id[2:4]), 'utf-8')
    line = ['expand', shop, '--seeds', '-', '--k', 6, '--where', 'price<60', '--where', 'shop!=', '--without',
            tmp_path/'ids', '--judged', tmp_path/'marks.tsv', '--distinct', 'shop=4']
    status, lines, last = modit(*line, stdin='\n'.join(ASKED))
    found = opened.expand(ASKED, 6, where=['price<60', 'shop!='], without=plain.id[2:4], right=[plain.id[0]],
                          wrong=[plain.id[1]], distinct=dict(shop=4))
    rows = [row.split('\t') for row in lines]
    assert status == 0 and [row[0] for row in rows[1:]] == found.id.tolist() and rows[0] == list(found), last
    status, lines, _ = modit(*line, '--format', 'json', stdin='\n'.join(ASKED))
    assert [row['id'] for row in json.loads(lines[0])] == found.id.tolist()
    for wrong, said in {('--where', 'cost<3'): "no column 'cost'", ('--without', 'nobody'): 'no such file',
                        ('--judged', tmp_path/'ids'): 'a column judged', ('--distinct', 'a=b'): 'column=n',
                        ('--lists', 'x'): 'give --seeds, or --lists', ('--k', 0): 'k: 0'}.items():
        status, _, last = modit('expand', shop, '--seeds', '-', *wrong, stdin='shoe-3')
        assert status == 2 and said in last and last.startswith('modit: ')


def test_check_evaluate_and_query_say_what_they_found(shop, opened, tmp_path, modit):
    status, lines, _ = modit('check', shop)
    assert status == 0 and '2,400 items of dimension 16' in lines[0]
    status, again, _ = modit('evaluate', shop)
    assert again[0] == lines[1].partition(': ')[2] and again[0].startswith('new patterns: averaging ')
    low, high = map(float, again[0].rpartition('[')[2].strip(']').split(', '))
    table = evaluated(shop)[1]
    assert (low, high) == tuple(table.loc['new', 'this'][['low', 'high']]) and 'attribute' in ' '.join(again)
    gains = any(table.loc[kind, 'this'].low > 0 for kind in table.index.unique(0))
    assert lines[-1].endswith(' patterns' if gains else 'averaging may be as good')
    status, out, last = modit('query', shop, '--seeds', '-', stdin='\n'.join(ASKED))
    assert np.allclose(json.loads(out[0]), opened.query(ASKED)) and 'search by cosine' in last
    modit('query', shop, '--seeds', '-', '--out', tmp_path/'q.npy', stdin='\n'.join(ASKED))
    assert np.array_equal(np.load(tmp_path/'q.npy'), opened.query(ASKED))
    status, lines, last = modit('check', tmp_path/'nowhere', shop)
    assert status == 2 and 'no such folder' in last


def test_many_lists_are_the_same_as_one(opened, shop, tmp_path, modit):
    asked = [dict(seeds=ASKED[:n], k=5, where='price<50') for n in (1, 2, 3, 4)]*20
    (tmp_path/'lists').write_text('\n'.join(map(json.dumps, asked)), 'utf-8')
    status, lines, _ = modit('expand', shop, '--lists', tmp_path/'lists')
    told = [json.loads(line) for line in lines]
    for question, answer in zip(asked, told, strict=True):
        assert [row['id'] for row in answer['items']] == opened.expand(**question).id.tolist()
    lines = [json.dumps(ASKED), '{"seeds": ["boot"]}', '[', '{}', json.dumps(dict(seeds=ASKED, wear=1)),
             '['*10**5, '{"seeds": ["shoe-1"], "distinct": {"price": 1e999}}', '{"seeds": ["\\ud800"]}',
             '{"seeds": ["shoe-1"], "where": "cost<3"}']
    told = answers(opened, lines)
    assert len(told[0]['items']) == 20 and all('error' in x for x in told[1:])
    assert json.dumps(told, allow_nan=False)


def test_files_from_other_systems_are_read(opened, shop, tmp_path, modit):
    "A mark at the beginning, two characters at the end of a line, a byte that is no text."
    plain = opened.expand(ASKED, 4).id.tolist()
    ids, marks, lists = (tmp_path/name for name in ('ids', 'marks', 'lists'))
    ids.write_bytes('\r\n'.join(['\ufeff' + ASKED[0], *ASKED[1:], '']).encode())
    marks.write_bytes(f'\ufeffid\tjudged\r\n{plain[0]}\t1\r\n{plain[1]}\t0\r\n'.encode())
    lists.write_bytes(f'\ufeff{json.dumps(ASKED)}\r\n'.encode() + b'["\xff"]\n')
    line = ['expand', shop, '--seeds', ids, '--k', 4]
    assert [row.split('\t')[0] for row in modit(*line)[1][1:]] == plain
    judged = opened.expand(ASKED, 4, right=plain[:1], wrong=plain[1:2]).id.tolist()
    assert [row.split('\t')[0] for row in modit(*line, '--judged', marks)[1][1:]] == judged
    marks.write_text(marks.read_text('utf-8').replace('\t', ';'), 'utf-8') # where a comma is in numbers
    assert [row.split('\t')[0] for row in modit(*line, '--judged', marks)[1][1:]] == judged
    status, lines, last = modit('expand', shop, '--lists', lists, '--k', 4)
    told = [json.loads(line) for line in lines]
    assert [row['id'] for row in told[0]['items']] == plain and 'error' in told[1]
    assert last.endswith('answered: 1')


def test_streams_are_taken_as_they_come(shop, tmp_path):
    names = [f'größe {i}\x1b[2J\x9b\u2028' for i in range(N)]
    write_folder(tmp_path/'odd', M.x, names, M.label)
    words = ['expand', shop, '--items', tmp_path/'odd', '--seeds', '-', '--k', '3']
    def ask(command, stdout):
        line = ['sh', '-c', command, sys.executable, '-c', COMMAND, *map(str, words)]
        env = environment(ROOT) | dict(PYTHONIOENCODING='cp1252', PYTHONUTF8='0')
        how = dict(cwd=ROOT, env=env, stdout=stdout, check=True)
        return subprocess.run(line, input=names[0].encode(), **how).stdout
    closed = ask('"$0" "$@" 2>&-', subprocess.PIPE).decode() # a note does not go where the list is
    assert closed.startswith('id\t') and closed.count('größe') == 3
    ours, theirs = pty.openpty()
    ask('"$0" "$@" 2>&1', theirs)
    shown = os.read(ours, 10**5).decode()
    assert 'größe' in shown and '\\u001b[2J\\u009b' in shown and not {'\x1b', '\x9b'} & {*shown}


def test_a_printed_list_can_be_seeds_and_marks(home, tmp_path, modit):
    odd = ['pipe 12"', '"', '""', '"a" b', '"a" "b"', ' both ends ', 'a\u0301', '3.0', '1,5', '#x', "'q'"]
    ids = [f'shoe-{i}' for i in range(N)]
    for row, name in zip(FREE[-len(odd):], odd, strict=True): ids[row] = name
    write_folder(home/'odd', M.x, ids, M.label, odd=[int(name in odd) for name in ids], note=['say "so"']*N)
    line = ['expand', home/'odd', '--seeds', '-']
    _, lines, last = modit(*line, '--k', len(odd), '--where', 'odd=1', stdin='\n'.join(ASKED))
    names = [row.split('\t')[0] for row in lines[1:]]
    r = Retriever.of(home/'odd')
    assert {*r.goods.ids[r.seed_rows(names)[1]]} == {*odd} > {x for x in odd if x[0] != '"'} <= {*names}
    marked = [f'{lines[0]}\tjudged', *(f'{row}\t{i % 2}' for i, row in enumerate(lines[1:]))]
    (tmp_path/'marks.tsv').write_text('\n'.join(marked), newline='\n', encoding='utf-8')
    marks = read_marks(tmp_path/'marks.tsv')
    assert {*marks['right'], *marks['wrong']} == {*odd}
    for more, said in (((), names), (('--judged', tmp_path/'marks.tsv'), ASKED)):
        status, again, last = modit(*line, '--k', 3, *more, stdin='\n'.join(said))
        assert status == 0 and len(again) == 4, last
    table = pd.DataFrame(dict(id=['a\tb', 'c\nd', 'e\rf', '"\t"'], judged='1'))
    (tmp_path/'tabs.tsv').write_text(printed(table), newline='\n', encoding='utf-8')
    assert read_marks(tmp_path/'tabs.tsv')['right'] == table.id.tolist()


@pytest.mark.parametrize('data, said', [ # page goods has the others
    (b'\xff\xfe', 'cannot be read'), (b'id\tjudged\nshoe-1\n', 'no row is judged'),
    (b'id\tjudged\nshoe-1\t1\n\t1\t1\n', 'cannot be read'),
    (b'id\tjudged\nboot\t1\nshoe-1\t0\n', "marked id 'boot': not among")])
def test_marks_that_say_nothing_are_refused_in_one_line(shop, tmp_path, modit, data, said):
    (tmp_path/'marks.tsv').write_bytes(data)
    line = ['expand', shop, '--seeds', '-', '--judged', tmp_path/'marks.tsv']
    status, lines, last = modit(*line, stdin='shoe-3')
    assert status == 2 and not lines and last.startswith('modit: ') and said in last


LIGHT = """
import sys
from modit.cli.command import main
main(sys.argv[1:])
heavy = {'torch', 'sklearn', 'scipy.stats', 'faiss'} & {*sys.modules}
assert not heavy, heavy
"""


def test_a_second_list_imports_nothing_slow(opened, shop, tmp_path):
    (tmp_path/'ids').write_text('\n'.join(ASKED), 'utf-8')
    run = run_apart(LIGHT, 'expand', shop, '--seeds', tmp_path/'ids')
    assert not run.returncode, run.stderr
    assert pd.read_csv(io.StringIO(run.stdout), sep='\t').id.tolist() == opened.expand(ASKED).id.tolist()
