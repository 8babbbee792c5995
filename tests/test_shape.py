"""A list that one can shape: every wish against the plainest program, and a line for every mistake."""
import json
import os
import pty
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from conftest import COMMAND, ROOT, environment
from modit import synthetic_domain
from modit.data.columns import read_table
from modit.data.folder import write_folder
from modit.serving.lists import printed, read_marks
from modit.serving.shape import (
    distinct, marked_way, nearest, where)
from modit.serving.retriever import Retriever
from modit.settings import load_settings


def unit(x): return (x/np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


def drawn(seed, n=400, d=12):
    "Items with doubles among them, a query, columns, and which may be shown."
    rng = np.random.default_rng(seed)
    items = unit(rng.normal(size=(n, d)))
    items[rng.integers(0, n, 40)] = items[7]
    columns = pd.DataFrame(dict(price=rng.integers(0, 50, n), shop=rng.choice(['a', 'b', 'c', ''], n)))
    return items, unit(rng.normal(size=d)), columns, rng.random(n) < .5


def ranked(items, query):
    "All rows, best first, equal scores by row."
    scores = (items.astype(np.float64) @ query).astype(np.float32)
    return np.lexsort((np.arange(len(items)), -scores)).tolist()


def test_where_nothing_may_be_shown_the_list_is_empty():
    items, query, columns, _ = drawn(0)
    assert nearest(items, query, 5, np.zeros(len(items), bool))[1].tolist() == []
    assert distinct(items, query, 5, np.zeros(len(items), bool), columns['shop'])[1].tolist() == []


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
        found = {text: ''.join('01'[int(met)] for met in where(each, f'c{text}')) for text in asked}
        assert found == asked


def test_a_missing_value_is_one_value():
    items, query, _, _ = drawn(0)
    shop = pd.Series(np.where(np.arange(len(items)) % 2, 'a', None), dtype=object)
    found = distinct(items, query, 10, np.ones(len(items), bool), shop, 2)[1]
    assert len(found) == 4 and sorted(found % 2) == [0, 0, 1, 1]


def test_a_value_that_no_item_has_is_told_with_one_that_is_there():
    table = pd.DataFrame(dict(shop=['', 'north', 'south'], price=[1, 2, 3]))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert where(table, ['shop=north', 'price=2']).sum() == 1 and not where(table, 'price<0').any()
        assert where(table, 'shop!=North').all() and where(table, 'shop=').sum() == 1
    with pytest.warns(UserWarning, match="no item has it; shop has values such as 'north'"):
        assert not where(table, 'shop=North').any()


# ---- a folder's own list, in Python and as a command
@pytest.fixture(scope='module')
def shop(home):
    "A folder with prices and shops, searched without training."
    domain = synthetic_domain(load_settings('smoke'), 'D1')
    rng, n = np.random.default_rng(0), len(domain.items)
    columns = dict(price=rng.integers(1, 100, n), shop=rng.choice(['north', 'south', ''], n))
    write_folder(home/'shop', domain.items, [f'shoe-{i}' for i in range(n)], domain.attribute, **columns)
    Retriever.untrained(home/'shop', 'smoke').save(home/'shop'/'model')
    return home/'shop'


@pytest.fixture(scope='module')
def open_shop(shop): return Retriever.load(shop/'model')


MOVES = dict(share=0, step=.4, own=0)
PLAIN = ['--moves', json.dumps(MOVES)]
ASKED = ['shoe-3', 'shoe-5', 'shoe-8']


def far_of(retriever, rows):
    "The length that validation chose for seeds of such a kind."
    centre = np.argmax(unit(retriever.facts['centroids']) @ retriever.catalogue.items[rows].sum(0))
    split = 'item' if centre in retriever.about.trained else 'pattern'
    return retriever.about.feedback[split]['length']


def by_hand(retriever, seeds, keeps, marks=None, most=None, k=20):
    "Rows of the list that the plainest program makes."
    goods = retriever.catalogue
    items, rows = np.asarray(goods.items), [goods.row[name] for name in seeds]
    probe = unit(retriever.facts['probe'])
    query = unit(unit(items[rows].mean(0)) + .4*probe)
    if marks:
        good, bad = ([goods.row[name] for name, mark in marks.items() if mark == x] for x in (1, 0))
        liked = items[good or rows].mean(0)
        query = unit(query + far_of(retriever, rows)*unit(liked - items[bad].mean(0)))
    counts, kept = {}, []
    for i in ranked(items, query):
        value = goods.columns['shop'][i]
        if i in rows or goods.ids[i] in (marks or {}) or not keeps(i): continue
        if counts.get(value, 0) == most: continue
        counts[value] = counts.get(value, 0) + 1
        kept.append(goods.ids[i])
    return kept[:k]


@pytest.mark.parametrize('wish, said', [ # others are on page shape
    (dict(where='price'), 'no sign'), (dict(where=3), 'no sign'), (dict(where=[['price<3']]), 'no sign'),
    (dict(where='price<low'), "'low' is no number"), (dict(where='price>2024-02-30'), 'condition'),
    (dict(where='price=<5'), 'condition'), (dict(where='shop<3'), 'no number; compare numbers'),
    (dict(without='cap'), "id 'cap'"), (dict(judged=dict(cap=1)), "id 'cap'"),
    (dict(judged={'shoe-20': 1, 'shoe-30': 1}), 'marks do not differ'),
    (dict(judged={'shoe-1': float('nan')}), 'give 0, 1'), (dict(judged={'shoe-1': True}), 'give 0, 1'),
    (dict(without={'shoe-1': 1}), 'give one, or a list'), (dict(distinct=dict(shop='few')), 'give 1, 2'),
    (dict(distinct=dict(shop='inf')), 'no whole number'), (dict(distinct=['shop']), 'give one column'),
    (dict(distinct=dict(shop=True)), 'give 1, 2 or more'), (dict(distinct=False), 'give one column'),
    (dict(diversity=.5), 'no option of a list'), (dict(share=True), 'from 0 to 1'),
    (dict(step=10**400), 'from 0 to 10')])
def test_a_wish_that_cannot_be_met_is_refused_in_one_line(open_shop, wish, said):
    with pytest.raises(ValueError) as refusal: open_shop.expand(ASKED, 5, **wish)
    assert said in str(refusal.value) and '\n' not in str(refusal.value)


def test_marks_of_equal_items_move_nothing(open_shop):
    rng = np.random.default_rng(0)
    items = np.repeat(unit(rng.normal(size=64))[None], 9, axis=0)
    for x in (items, unit(items + 1e-6*rng.normal(size=items.shape))):
        assert not marked_way(x, [1, 0, 0, 1, 0, 1, 1, 0, 0]).any()
        assert not marked_way(x, 1e6*np.arange(9)).any()
    with pytest.warns(UserWarning, match='marked items are equal'):
        found = open_shop.expand(['shoe-3'], 9, **MOVES, judged={'shoe-3': 0})
    assert found.id.tolist() == open_shop.expand(['shoe-3'], 9, **MOVES).id.tolist()


def test_expand_meets_every_wish_as_the_plainest_program_does(open_shop):
    price = open_shop.catalogue.columns.price.astype(int)
    def cheap(i): return price[i] < 20
    def anything(i): return True
    def found(k=20, **wishes): return open_shop.expand(ASKED, k, **MOVES, **wishes).id.tolist()
    plain = by_hand(open_shop, ASKED, anything)
    assert found() == plain
    assert found(where='price<20') == by_hand(open_shop, ASKED, cheap)
    assert found(17, without=plain[:3]) == plain[3:]
    bad = dict.fromkeys(plain[4:6], 0)
    assert found(judged=bad) == by_hand(open_shop, ASKED, anything, bad)
    marks = {plain[0]: 1, plain[1]: 0, plain[2]: 1}
    assert found(judged=marks, where='price<20') == by_hand(open_shop, ASKED, cheap, marks)
    assert found(judged=pd.Series(marks), where='price<20') == found(judged=marks, where='price<20')
    assert found(distinct=dict(shop=4), k=12) == by_hand(open_shop, ASKED, anything, most=4, k=12)
    some = [i for i in open_shop.catalogue.ids if i not in plain[:8]]
    with pytest.warns(UserWarning, match='20 items asked, and 8 meet'):
        assert found(without=[i for i in some if i not in ASKED]) == plain[:8]
    x = open_shop.catalogue.items[open_shop.catalogue.rows_of(ASKED)]
    as_vectors = open_shop.expand(x, 20, where='price<20', **MOVES)
    assert as_vectors.id.tolist() == found(where='price<20') # seeds that came as vectors are not shown


def test_marks_move_the_query_as_far_as_validation_chose(open_shop):
    chosen = {split: row['length'] for split, row in open_shop.about.feedback.items()}
    assert set(chosen) == {'item', 'pattern'} and set(chosen.values()) <= {0, .1, .2, .4}
    goods = open_shop.catalogue
    far = far_of(open_shop, [goods.row[name] for name in ASKED])
    marks = dict(zip(open_shop.expand(ASKED, 2, **MOVES).id, (1, 0), strict=True))
    def found(length): # with another length
        rows = {split: row | dict(length=length) for split, row in open_shop.about.feedback.items()}
        other = replace(open_shop, about=replace(open_shop.about, feedback=rows))
        return other.expand(ASKED, 20, **MOVES, judged=marks)
    ours = open_shop.expand(ASKED, 20, **MOVES, judged=marks)
    pd.testing.assert_frame_equal(ours, found(far))
    assert not np.allclose(ours.score, found(2*far + .1).score, atol=1e-3)
    with pytest.warns(UserWarning, match='only leave items out'): unmoved = found(0.)
    plain = open_shop.expand(ASKED, 20, **MOVES, without=list(marks))
    assert unmoved.id.tolist() == plain.id.tolist()
    pd.testing.assert_frame_equal(found(None), found(.2)) # validation lists had nothing to mark


def test_the_command_shapes_a_list(open_shop, shop, tmp_path, modit):
    plain = open_shop.expand(ASKED, 8, **MOVES)
    plain.assign(judged=['1', '0', *[''*6]*6]).to_csv(tmp_path/'marks.tsv', sep='\t', index=False)
    (tmp_path/'ids').write_text('\n'.join(plain.id[2:4]), 'utf-8')
    line = ['expand', shop/'model', '--seeds', '-', '--k', 6, *PLAIN, '--where', 'price<60', '--where',
            'shop!=', '--without', tmp_path/'ids', '--judged', tmp_path/'marks.tsv', '--distinct', 'shop=4']
    status, lines, last = modit(*line, stdin='\n'.join(ASKED))
    found = open_shop.expand(
        ASKED, 6, **MOVES, where=['price<60', 'shop!='], without=plain.id[2:4],
        judged={plain.id[0]: 1, plain.id[1]: 0}, distinct=dict(shop=4))
    rows = [row.split('\t') for row in lines]
    assert status == 0 and [row[0] for row in rows[1:]] == found.id.tolist(), last
    assert rows[0] == list(found)
    mistakes = {('--where', 'cost<3'): "no column 'cost'", ('--without', 'nobody'): 'no such file',
                ('--judged', tmp_path/'ids'): 'add a column judged'}
    for wrong, said in mistakes.items():
        status, _, last = modit('expand', shop/'model', '--seeds', '-', *wrong, stdin='shoe-3')
        assert status == 2 and said in last and last.startswith('modit: ')


def test_streams_are_taken_as_they_come(open_shop, shop, tmp_path):
    goods = open_shop.catalogue
    names = [f'größe {i}\x1b[2J\x9b\u2028' for i in range(len(goods.ids))]
    write_folder(tmp_path/'odd', goods.items, names, goods.columns.attribute.astype(int))
    words = ['expand', shop/'model', '--items', tmp_path/'odd', *PLAIN, '--seeds', '-', '--k', '3']
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


def test_a_printed_list_can_be_seeds_and_marks(open_shop, tmp_path, modit):
    goods = open_shop.catalogue
    odd = ['pipe 12"', '"', '""', '"a" b', '"a" "b"', ' both ends ', 'a\u0301', '3.0', '1,5', '#x', "'q'"]
    ids = goods.ids.copy()
    ids[100:100 + len(odd)] = odd
    columns = dict(odd=[int(name in odd) for name in ids], note=['say "so"']*len(ids))
    write_folder(tmp_path/'odd', goods.items, ids, goods.columns.attribute.astype(int), **columns)
    line = ['expand', tmp_path/'odd', *PLAIN, '--seeds', '-']
    _, lines, _ = modit(*line, '--k', len(odd), '--where', 'odd=1', stdin='\n'.join(ASKED))
    names = [row.split('\t')[0] for row in lines[1:]]
    found = Retriever.load(tmp_path/'odd').catalogue
    assert {*found.ids[found.rows_of(names)]} == {*odd} > {x for x in odd if x[0] != '"'} <= {*names}
    marked = [f'{lines[0]}\tjudged', *(f'{row}\t{i % 2}' for i, row in enumerate(lines[1:]))]
    (tmp_path/'marks.tsv').write_text('\n'.join(marked), newline='\n', encoding='utf-8')
    assert {*read_marks(tmp_path/'marks.tsv')} == {*odd}
    for more, said in (((), names), (('--judged', tmp_path/'marks.tsv'), ASKED)):
        status, again, last = modit(*line, '--k', 3, *more, stdin='\n'.join(said))
        assert status == 0 and len(again) == 4, last
    table = pd.DataFrame(dict(id=['a\tb', 'c\nd', 'e\rf', '"\t"'], judged='1'))
    (tmp_path/'tabs.tsv').write_text(printed(table), newline='\n', encoding='utf-8')
    assert list(read_marks(tmp_path/'tabs.tsv')) == table.id.tolist()


@pytest.mark.parametrize('data, said', [
    (b'', 'cannot be read'), (b'\xff\xfe', 'cannot be read'),
    (b'id\tscore\nshoe-1\t1\n', 'columns id, score'),
    (b'id\tjudged\nshoe-1\t\n', 'no row is judged'), (b'id\tjudged\nshoe-1\n', 'no row is judged'),
    (b'id\tjudged\nshoe-1\t1\nshoe-1\t0\n', "'shoe-1' is judged twice"),
    (b'id\tjudged\nshoe-1\t1\n\t1\t1\n', 'cannot be read'),
    (b'id\tjudged\nshoe-1\tgood\n', "judged shoe-1: 'good' is out of range; give 0, 1 or a score"),
    (b'id\tjudged\nboot\t1\nshoe-1\t0\n', "marked id 'boot': not among")])
def test_marks_that_say_nothing_are_refused_in_one_line(open_shop, shop, tmp_path, modit, data, said):
    (tmp_path/'marks.tsv').write_bytes(data)
    line = ['expand', shop/'model', '--seeds', '-', '--k', 3, '--judged', tmp_path/'marks.tsv']
    status, lines, last = modit(*line, stdin='shoe-3')
    assert status == 2 and not lines and last.startswith('modit: ') and said in last


def test_files_from_other_systems_are_read(open_shop, shop, tmp_path, modit):
    "A mark at the beginning, two characters at the end of a line, a byte that is no text."
    plain = open_shop.expand(ASKED, 4, **MOVES).id.tolist()
    ids, marks, lists = (tmp_path/name for name in ('ids', 'marks', 'lists'))
    ids.write_bytes('\r\n'.join(['\ufeff' + ASKED[0], *ASKED[1:], '']).encode())
    marks.write_bytes(f'\ufeffid\tjudged\r\n{plain[0]}\t1\r\n{plain[1]}\t0\r\n'.encode())
    lists.write_bytes(f'\ufeff{json.dumps(ASKED)}\r\n'.encode() + b'["\xff"]\n{"seeds": ["\\ud800"]}\n')
    line = ['expand', shop/'model', '--seeds', ids, '--k', 4, *PLAIN]
    status, lines, _ = modit(*line)
    assert status == 0 and [row.split('\t')[0] for row in lines[1:]] == plain
    judged = open_shop.expand(ASKED, 4, **MOVES, judged={plain[0]: 1, plain[1]: 0}).id.tolist()
    assert [row.split('\t')[0] for row in modit(*line, '--judged', marks)[1][1:]] == judged
    marks.write_text(marks.read_text('utf-8').replace('\t', ';'), 'utf-8') # where a comma is in numbers
    assert [row.split('\t')[0] for row in modit(*line, '--judged', marks)[1][1:]] == judged
    status, lines, last = modit('expand', shop/'model', '--lists', lists, '--k', 4, *PLAIN)
    answers = [json.loads(line) for line in lines]
    assert [row['id'] for row in answers[0]['items']] == plain and len(answers) == 3
    assert all('not among' in answer['error'] for answer in answers[1:]) and last.endswith('answered: 2')


def test_a_model_without_items_asks_for_them(open_shop, shop, tmp_path, modit):
    open_shop.save(tmp_path/'away'/'model')
    for more in ((), ('--lists', '-')):
        line = ['expand', tmp_path/'away'/'model', *more, *(() if '--lists' in more else ('--seeds', '-'))]
        status, lines, last = modit(*line, stdin='["shoe-3"]')
        assert status == 2 and not lines and 'no items to search; give --items' in last
