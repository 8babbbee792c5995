"""Domains that are folders: every mistake has its line, and what is sound trains like any other domain."""
import importlib.util
import os
import re
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import own_settings
from modit.stages import pipeline, stages
from modit.data.folder import (folder_key, inspect_folder, open_embeddings, read_facts, read_folder,
                               write_folder, write_table)
from modit.serving import goods
from modit.serving.goods import read_goods
from modit.retrieval import check_embeddings
from modit.settings import load_settings
from modit.data.synth import make_domain, make_world

S = load_settings('smoke')
MADE = {name: make_domain(make_world(S), name, S) for name in ('D1', 'D2')}
D1 = MADE['D1']
N = len(D1.items)
IDS = [f'item{i}' for i in range(N)]
TINY = dict(items=[len(x.items) for x in MADE.values()], pretrain_steps=4, checkpoint_every=2,
            train_rows=[32, 32], batch=16, hppo_cases=16)


def write(path, **other):
    "The folder of a sound domain, but for what is given."
    write_folder(path, **dict(embeddings=3*D1.items, ids=IDS, attribute=D1.attribute) | other)
    return path


def facts(path, **values):
    "What is known of a folder, as a person writes it."
    lines = [f'{name} = {value}' for name, value in values.items()]
    (path/'domain.ini').write_text('\n'.join(['[domain]', *lines, '']), 'utf-8')


def problems(path): return inspect_folder(path)[1]


PYARROW = importlib.util.find_spec('pyarrow')


@pytest.fixture
def good(tmp_path):
    return write(tmp_path/'good', pattern=D1.true_pattern, text=IDS, sessions=[IDS[:4], IDS[9:6:-1]])


# ---- mistakes
def with_row(row, value):
    bad = D1.items.copy()
    bad[row] = value
    return bad


@pytest.mark.parametrize('x, said', [ # pages columns and folder have the others
    (with_row(7, np.inf), 'embeddings.npy: row 7: not finite'), (D1.items[:0], r'shape \(0, 16\)'),
    (D1.items[0], r'shape \(16,\); write one row an item'), (np.ones((N, 4), int), 'int64; write float32'),
    (np.array([object()]*3), 'cannot be read'), (D1.items[1:], f'has {N - 1} rows, the items {N}')])
def test_other_arrays_have_their_line(tmp_path, x, said):
    np.save(write(tmp_path/'own')/'embeddings.npy', x) # as another program may write them
    lines = problems(tmp_path/'own')
    assert len([line for line in lines if re.search(said, line)]) == 1, lines
    with pytest.raises(ValueError, match='own: '): read_folder(tmp_path/'own')


def test_parquet_without_pyarrow(good, monkeypatch):
    (good/'items.csv').unlink()
    (good/'items.parquet').write_bytes(b'PAR1')
    monkeypatch.setitem(sys.modules, 'pyarrow.parquet', None)
    assert problems(good)[0].startswith('items.parquet: reading parquet needs pyarrow; install it with')


# ---- by row, and words as they are
class Arrow:
    "A column as those of pyarrow."
    def __init__(self, values): self.values = list(values)
    def __iter__(self): return (f'<{x}>' for x in self.values) # no Python values
    def to_pylist(self): return self.values


ORDER = np.random.default_rng(0).permutation(N)
COLUMNS = dict(index=pd.Index, arrow=Arrow, twice=lambda x: pd.Series(x, index=[0]*N),
               kinds=lambda x: pd.Series(pd.Categorical(x), index=ORDER)) # page columns has the others


@pytest.mark.parametrize('kind', COLUMNS)
def test_columns_are_taken_row_by_row(tmp_path, kind):
    text = [f'about {x}' for x in IDS]
    pattern = D1.true_pattern.astype(str)
    given = dict(ids=COLUMNS[kind](IDS), text=pd.Series(text), pattern=COLUMNS[kind](pattern),
                 attribute=pd.Series(D1.attribute, index=ORDER[::-1]))
    found = read_folder(write(tmp_path/'own', **given))
    assert found.ids.tolist() == IDS and found.text.tolist() == text
    assert (found.attribute == D1.attribute).all()
    assert np.array_equal(found.items, check_embeddings(3*D1.items))
    assert [found.patterns[c] for c in found.pattern] == pattern.tolist()


@pytest.mark.parametrize('given', [ # page columns has the others
    dict(ids=IDS[1:]), dict(ids='x'*N), dict(ids=None), dict(text=['x']), dict(attribute=1),
    dict(attribute=D1.attribute[:, None]), dict(embeddings=D1.items[1:]), dict(embeddings={}),
    dict(embeddings=[]), dict(embeddings=[*D1.items[1:], None]), dict(embeddings=D1.items.astype(object)),
    dict(sessions={'a': IDS}), dict(sessions=[['item 1', 'item2']])])
def test_what_does_not_fit_is_refused_before_anything_is_written(good, given):
    before = {p.name: p.read_bytes() for p in good.iterdir()}
    with pytest.raises(ValueError) as refusal: write(good, **given)
    assert '\n' not in str(refusal.value)
    assert {p.name: p.read_bytes() for p in good.iterdir()} == before
    if given.keys() & {'embeddings'}:
        table = dict(id=IDS, attribute=D1.attribute, embedding=given['embeddings'])
        with pytest.raises(ValueError): write_table(good, table)
        assert {p.name: p.read_bytes() for p in good.iterdir()} == before


def test_a_table_may_have_any_names_of_rows_and_columns(tmp_path):
    table = pd.DataFrame(dict(id=IDS, attribute=D1.attribute, embedding=list(3*D1.items), ids=IDS[::-1],
                              sessions='no', path=ORDER))
    table[7] = IDS
    forms = dict(plain=table, named=table.set_index('id'), labels=table.set_axis(ORDER))
    for name, form in forms.items(): write_table(tmp_path/name, form)
    for file in ('items.csv', 'embeddings.npy'):
        assert len({(tmp_path/name/file).read_bytes() for name in forms}) == 1
    found = pd.read_csv(tmp_path/'plain'/'items.csv', dtype=str)
    assert found.ids.tolist() == IDS[::-1] and found['7'].tolist() == IDS and {*found.sessions} == {'no'}
    assert not (tmp_path/'plain'/'sessions.csv').exists()


WORDS = ['nan', 'None', '<NA>', 'NULL', 'NaN', 'n/a', '#N/A', 'null', 'true', '007', '1e3', '-', 'NA', 'inf']
MARKS = ['\r', '\r\n', '\n', ',', '"', "'", '\t', ';', '\0', '\ufeff', ' ', '\u2028', '#']


@pytest.mark.parametrize('mark', MARKS)
def test_any_character_of_a_text_is_read_again(tmp_path, mark):
    text = [f'{mark}blue{mark}shoe{mark}' if i in (0, 7, N - 1) else x for i, x in enumerate(IDS)]
    own = write(tmp_path/'own', text=text)
    assert not problems(own) and read_folder(own).text.tolist() == text
    assert read_goods(own).columns.text.tolist() == text


def test_files_of_windows_are_read(good):
    before = read_folder(good)
    facts(good, clusters=12)
    for name in ('items.csv', 'sessions.csv', 'domain.ini'):
        text = (good/name).read_text('utf-8')
        (good/name).write_bytes(text.replace('\n', '\r\n').encode('utf-8-sig'))
    after = read_folder(good)
    assert after.ids.tolist() == IDS and after.text.tolist() == before.text.tolist()
    assert [x.tolist() for x in after.sessions] == [x.tolist() for x in before.sessions]
    assert read_facts(good) == dict(clusters=12)


# ---- a folder is one thing
def test_tables_of_an_earlier_writing_do_not_stay(good):
    for name in ('items.parquet', 'sessions.parquet'): (good/name).write_bytes(b'PAR1')
    for name in ('notes.txt', 'scores.sqlite'): (good/name).write_text('mine', 'utf-8')
    facts(good, clusters=12)
    write(good)
    assert sorted(p.name for p in good.iterdir()) == [
        'domain.ini', 'embeddings.npy', 'items.csv', 'notes.txt', 'scores.sqlite']
    assert not problems(good)


@pytest.mark.parametrize('file', ['items.parquet', 'items.csv', 'sessions.csv', 'embeddings.npy'])
def test_a_folder_of_parts_is_refused_and_never_removed(good, file):
    (good/file).unlink(missing_ok=True)
    (good/file).mkdir()
    (good/file/'part.0').write_text('of dask', 'utf-8')
    if file == 'items.parquet': (good/'items.csv').unlink()
    assert any(file in line for line in problems(good))
    if file != 'embeddings.npy':
        with pytest.raises(ValueError, match='is a folder|both there'): folder_key(good)
    with pytest.raises((ValueError, OSError), match=file): write(good)
    assert (good/file/'part.0').read_text('utf-8') == 'of dask'
    if not file.startswith('items'): return
    with pytest.raises(ValueError, match=f'{file} is a folder'): read_goods(good)


@pytest.mark.parametrize('renames', [0, 1, 2])
@pytest.mark.parametrize('error', [KeyboardInterrupt, OSError])
def test_what_breaks_off_between_two_renames_is_noticed(good, monkeypatch, renames, error):
    before, left, rename = read_folder(good), [None]*renames, os.replace
    turned = dict(embeddings=D1.items[::-1], ids=IDS[::-1], attribute=D1.attribute[::-1])
    def last(*paths):
        if not left: raise error('broken off')
        left.pop()
        rename(*paths)
    with monkeypatch.context() as m, pytest.raises(error) as refusal:
        m.setattr('os.replace', last)
        write(good, **turned, sessions=[IDS[:2]])
    assert ('nothing was changed' in str(refusal.value)) == (error is OSError and not renames)
    if not renames:
        assert not problems(good) and read_folder(good).ids.tolist() == before.ids.tolist()
        return
    assert len(problems(good)) == 1
    for refused in (read_folder, read_goods, lambda folder: write(folder, ids=IDS[1:])):
        with pytest.raises(ValueError): refused(good)
    assert problems(good) # a writing that fails keeps the mark
    write(good, **turned)
    assert not problems(good) and read_folder(good).ids.tolist() == IDS[::-1]


def test_files_replaced_while_they_are_read_are_refused(good, monkeypatch):
    opened = goods.open_embeddings
    def meanwhile(folder):
        x = opened(folder)
        write(good, embeddings=D1.items[::-1], ids=IDS[::-1], attribute=D1.attribute[::-1])
        return x
    monkeypatch.setattr(goods, 'open_embeddings', meanwhile)
    with pytest.raises(ValueError, match='replaced while they were read'): read_goods(good)


# ---- what is sound
@pytest.mark.parametrize('labels', [('0', '1'), ('false', 'True'), ('0.0', '1.0'), ('no', 'yes')])
def test_labels_in_words(tmp_path, labels):
    domain = read_folder(write(tmp_path/'own', attribute=np.array(labels)[D1.attribute.astype(int)]))
    assert (domain.attribute == D1.attribute).all()


def test_a_threshold_makes_labels_of_scores(tmp_path):
    scores = np.where(D1.attribute, .7, .2)
    own = write(tmp_path/'own', attribute=scores)
    facts(own, threshold=.7)
    assert (read_folder(own).attribute == D1.attribute).all()


def test_a_table_of_vectors_is_the_folder(good, tmp_path):
    table = pd.read_csv(good/'items.csv', dtype=str, keep_default_na=False)
    x = np.array(open_embeddings(good))
    table = table.assign(vector=list(x))
    other = type('Dataset', (), dict(to_pandas=lambda self: table))()  # as those of Hugging Face and polars
    forms = dict(frame=table, dataset=other)
    if PYARROW:
        table.to_parquet(tmp_path/'items.parquet')
        forms['parquet'] = str(tmp_path/'items.parquet')
    for name, form in forms.items():
        write_table(tmp_path/name, form, 'vector')
        assert np.array_equal(open_embeddings(tmp_path/name), x)
        assert (tmp_path/name/'items.csv').read_bytes() == (tmp_path/'frame'/'items.csv').read_bytes()
    assert read_folder(tmp_path/'frame').ids.tolist() == table.id.tolist()


# ---- the command, and files of any kind
def test_random_streams_are_of_the_items_and_not_of_a_name(good, tmp_path):
    n, dim = np.load(good/'embeddings.npy').shape
    def word(path, name):
        s = SimpleNamespace(of=lambda key, _: str(path) if key == 'folders' else n, dim=dim)
        return pipeline.own_domain(s, name).word
    assert word(good, 'a') == word(shutil.copytree(good, tmp_path/'other'), 'b') != ''
    n += 1
    with pytest.raises(ValueError, match='a: .* items of dimension .*, and settings for'): word(good, 'a')


def test_the_command_says_everything_and_exits_2(tmp_path, good, modit):
    def check(*words): return modit('check', *words)
    status, lines, _ = check(write(tmp_path/'bad', embeddings=with_row(7, 0), ids=['item5', *IDS[1:]]))
    assert status == 2 and len(lines) == 2 and 'all zeros' in lines[0] and 'names an item' in lines[1]
    for value in ('nan', 'inf'):
        status, _, last = check(good, '--threshold', value)
        assert status == 2 and 'give a finite number' in last and 'threshold' not in read_facts(good)


@pytest.mark.parametrize('file, data, said', [
    ('embeddings.npy', None, 'embeddings.npy is missing'),
    ('embeddings.npy', b'', 'embeddings.npy cannot be read'),
    ('embeddings.npy', b'\x93NUMPY\x01\x00short', 'embeddings.npy cannot be read'),
    ('items.csv', None, 'items.csv is missing'), ('items.csv', b'', 'items.csv cannot be read'),
    ('items.csv', b'name,attribute\na,1\n', 'items.csv has no column id; it has name, attribute'),
    ('items.csv', b'name\na\n', 'no column id and no attribute'),
    ('items.csv', b'id,attribute\na,1\nb,"0\n', 'items.csv cannot be read|labels are positive'),
    ('items.csv', b'id,attribute\n\xff\xfe,1\n', 'items.csv cannot be read'),
    ('items.parquet', b'', 'items.csv and items.parquet are both there'),
    ('sessions.csv', b'ids\nitem1 item2,item3\n', 'sessions.csv .* .row 0 has more fields'),
    ('domain.ini', b'[domain]\nk = 2\xff\n', 'domain.ini is malformed'),
    ('sessions.csv', b'session\na b\n', 'sessions.csv has no column ids'),
    ('domain.ini', b'[domain]\nzzz = 5\n', "unknown setting 'zzz'; use threshold"),
    ('domain.ini', b'[domain]\nclusters = many\n', 'clusters in domain.ini: expected int'),
    ('domain.ini', b'clusters = 5\n', 'domain.ini is malformed')])
def test_every_file_can_be_wrong(good, file, data, said):
    (good/file).write_bytes(data) if data is not None else (good/file).unlink()
    lines = problems(good)
    assert any(re.search(said, line) for line in lines), lines


def test_words_are_words_in_csv_and_in_parquet(tmp_path):
    pattern = [WORDS[i % len(WORDS)] for i in range(N)]
    own = write(tmp_path/'own', ids=[*WORDS, *IDS[len(WORDS):]], pattern=pattern, text=pattern)
    for step in ('csv', 'parquet'):
        found = read_folder(own)
        assert found.ids.tolist()[:len(WORDS)] == WORDS and found.text.tolist() == pattern, step
        assert [found.patterns[c] for c in found.pattern] == pattern
        assert read_goods(own).ids.tolist() == found.ids.tolist()
        if step == 'parquet' or not PYARROW: break
        pd.read_csv(own/'items.csv', dtype=str, keep_default_na=False).to_parquet(own/'items.parquet')
        (own/'items.csv').unlink()


@pytest.mark.skipif(PYARROW is None, reason='pyarrow reads parquet, and is not installed')
def test_parquet_holds_the_same(good):
    plain = read_folder(good)
    table = pd.read_csv(good/'items.csv').assign(attribute=D1.attribute, text=[None, *IDS[1:]])
    table.set_axis(ORDER).set_index('id').to_parquet(good/'items.parquet') # ids as labels of the rows
    pd.DataFrame(dict(ids=[IDS[:4], IDS[9:6:-1]])).to_parquet(good/'sessions.parquet')
    for name in ('items.csv', 'sessions.csv'): (good/name).unlink()
    again = read_folder(good)
    for name in ('items', 'attribute', 'ids', 'pattern'):
        assert np.array_equal(getattr(plain, name), getattr(again, name)), name
    assert [x.tolist() for x in again.sessions] == [x.tolist() for x in plain.sessions]
    assert again.text.tolist() == read_goods(good).columns.text.tolist() == ['', *IDS[1:]]
    pd.DataFrame(dict(ids=[IDS[:2], None])).to_parquet(good/'sessions.parquet')
    assert problems(good) == ['sessions: row 1: fewer than two items; remove the session']


# ---- training
@pytest.fixture
def two(tmp_path, monkeypatch):
    "Two folders, and a store of their own."
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    paths = [tmp_path/'first', tmp_path/'second']
    for path, domain in zip(paths, MADE.values(), strict=True):
        write(path, embeddings=domain.items, ids=range(len(domain.items)), attribute=domain.attribute)
    return paths


def test_folders_train_and_the_store_knows_their_content(two):
    s = own_settings(two, **TINY)
    keys = {stage: stages.stage_key(s, stage, 'first') for stage in stages.stages_of(s)}
    model = pipeline.get_model(s, 'sft', 'first')
    moved = two[0].parent/'elsewhere'/'first'
    shutil.move(two[0], moved)
    there = replace(s, folders=(str(moved), s.folders[1]))
    assert {stage: stages.stage_key(there, stage, 'first') for stage in keys} == keys
    again = pipeline.get_model(there, 'sft', 'first')
    for name, weights in model.state_dict().items(): assert torch.equal(weights, again.state_dict()[name])
    labels = MADE['D1'].attribute.copy()
    labels[0] ^= True
    write(moved, embeddings=MADE['D1'].items, ids=range(N), attribute=labels)
    changed = [stage for stage in keys if stages.stage_key(there, stage, 'first') != keys[stage]]
    assert changed == list(keys) # raw sequences are of training items, and who trains follows from the labels
    with pytest.raises(ValueError, match='stage .domain. is unknown'):
        stages.stage_key(s, 'domain', 'first')


def test_a_stage_of_folders_reads_the_settings_of_its_key(two, monkeypatch):
    from test_repo import READ, functions_that_run, not_held, recorded
    s = own_settings(two, **TINY)
    recording = recorded(s, monkeypatch)
    for name in ('corpus', 'pretrained'):
        stage = stages.stages_of(s)[name]
        domain = None if stage.shared else 'first'
        path = pipeline.make_stage(s, name, domain)
        path.unlink()
        maker = pipeline.named(stages.stages_of(s)[name].maker)
        READ.clear()
        with functions_that_run() as ran: maker(recording, name, domain, path)
        assert not not_held(s, name, ran)
        assert READ - set(stages.UNKEYED) == set(stage.reads), name
