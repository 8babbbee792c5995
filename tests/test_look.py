"""The page of lists: its clicks without a browser, and the web page that it is served as."""
import base64
import os
import re
import signal
import socket
import subprocess
import sys
from html.parser import HTMLParser
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest

from conftest import HANG, ROOT, environment
from modit.serving import look as page_of
from modit.serving.look import card, look, look_command, picture

EVIL = '<script>window.ran = 1</script><img src=x onerror="window.ran = 1">\'"&'
SVG = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><script>window.ran = 1</script>'
       '<path d="M0 0h2v2z"/></svg>')
PNG = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+k'
                       'cQAAAABJRU5ErkJggg==')


class Near:
    "Stands in for a retriever: items by how close they are to the seeds' average, without what is marked."
    def __init__(self, n=100, **columns):
        self.ids = np.array([f'n{i}' for i in range(n)], object)
        self.items = np.random.default_rng(1).normal(size=(n, 4))
        self.columns = pd.DataFrame(columns or dict(text=[f'Number {i}' for i in range(n)]), range(n))
        self.asked = []

    def expand(self, ids, k=20, where='', right=(), wrong=()):
        self.asked.append((ids, right, wrong))
        scores = self.items @ self.items[np.isin(self.ids, ids)].mean(0)
        best = [i for i in np.argsort(-scores) if self.ids[i] not in {*ids, *right, *wrong}][:k]
        return self.columns.iloc[best].assign(id=self.ids[best], score=scores[best])


def click(page, i, kind):
    "On a button of the tile i."
    next(x for x in page.grid.children[i].children[1:] if x.description == kind).click()


def press(page, text): next(x for x in page.buttons if x.description == text).click()
def classes(page, i): return {*page.grid.children[i]._dom_classes}


def test_seeds_and_marks_by_clicks():
    near = Near()
    page = look(near, k=10)
    press(page, 'find more')
    assert not near.asked and 'No seed' in page.told.value
    seeds = page.names[:2]
    for i in (0, 1, 2, 2): click(page, i, 'seed')  # the second click takes it back
    assert page.seeds == seeds and len(page.chosen.children) == 2
    assert 'is-seed' in classes(page, 1) and 'is-seed' not in classes(page, 2)
    press(page, 'find more')
    first = page.names
    assert near.asked == [(seeds, [], [])] and len(first) == 10 and not {*first} & {*seeds}
    for i, kind in enumerate(('right', 'wrong', 'right', 'right')): click(page, i, kind)
    click(page, 2, 'right')
    click(page, 3, 'wrong')
    assert page.marks == {first[0]: 'right', first[1]: 'wrong', first[3]: 'wrong'}
    assert 'is-right' in classes(page, 0) and 'is-wrong' in classes(page, 3)
    saved = base64.b64decode(re.search('base64,([^"]+)', page.told.value)[1]).decode()
    assert saved.split() == ['id,judged', f'{first[0]},1', f'{first[1]},0', f'{first[3]},0']
    press(page, 'next list')
    assert near.asked[-1] == (seeds, [first[0]], [first[1], first[3]])
    assert first[2] in page.names and not {*page.marks} & {*page.names}
    page.chosen.children[0].click()
    assert page.seeds == seeds[1:]


@pytest.mark.parametrize('kind', ['right', 'wrong'])
def test_a_list_that_is_all_right_or_all_wrong_leads_to_another(kind):
    near = Near(25)
    page = look(near, ['n1', 'n2'], k=10)
    for left in (10, 10, 3, 0):
        press(page, 'next list' if page.marks else 'find more')
        assert len(page.names) == left
        for i in range(left): click(page, i, kind)
    assert 'Nothing is left' in page.told.value and all('empty' in classes(page, i) for i in range(10))


def test_items_to_choose_from_have_the_words_that_are_searched():
    page = look(Near(), k=12)
    first = page.names
    press(page, 'other items')
    assert len(first) == len(page.names) == 12 and not {*first} & {*page.names}
    page.search.value = ' NUMBER 9 '
    assert {*page.names} == {'n9', *(f'n{i}' for i in range(90, 100))} and '11 items' in page.told.value
    page.search.value = '(.*'
    assert page.names == []


def test_items_without_texts_are_shown_by_id():
    page = look(Near(price=1), k=4)
    assert all(f'<p>{name}</p>' in tile.children[0].value
               for tile, name in zip(page.grid.children, page.names, strict=True))


def test_what_a_retriever_says_is_on_the_page(monkeypatch):
    page = look(Near(), ['n1'])
    def noted(*ids, **more):
        found = Near.expand(page.retriever, *ids, **more)
        found.attrs = dict(notes=[f'marks: {EVIL}'])
        return found
    monkeypatch.setattr(page.retriever, 'expand', noted)
    press(page, 'find more')
    assert 'marks: &lt;script' in page.told.value and tags(page.told.value) == {'span'} and page.names
    def refused(*ids, **more): raise ValueError(f'no such seed: {EVIL}')
    monkeypatch.setattr(page.retriever, 'expand', refused)
    press(page, 'next list')
    assert 'no such seed' in page.told.value and tags(page.told.value) == {'span'}


def tags(text):
    "Names of the tags in an HTML text; an attribute that could run something fails."
    found, parser = set(), HTMLParser()
    def start(tag, attributes):
        found.add(tag)
        assert {name for name, _ in attributes} <= {'title', 'alt', 'src', 'href', 'download'}
        assert all(value.startswith('data:image/') for name, value in attributes if name == 'src')
    parser.handle_starttag = start
    parser.feed(text)
    return found


def test_nothing_of_an_item_becomes_html():
    shown = card(dict(id=EVIL, text=EVIL, image=f'of {EVIL}'), score='1')
    assert tags(shown) == {'figure', 'i', 'p', 'small', 'span'} and shown.count('&lt;script') >= 4
    assert tags(card(dict(id=EVIL, text='', image=f'{SVG}{EVIL}'))) == {'figure', 'img', 'small', 'span'}


def test_a_picture_comes_out_of_its_folder_alone(tmp_path):
    home, out = tmp_path/'home', tmp_path/'home-not'
    for folder in (home/'in', out): folder.mkdir(parents=True)
    for path in (home/'in'/'a.png', out/'a.png'): path.write_bytes(PNG)
    (home/'text.png').write_text('no picture', 'utf-8')
    (home/'link.png').symlink_to(out/'a.png')
    (home/'large.png').write_bytes(PNG + bytes(2**22))
    os.mkfifo(home/'pipe.png')
    seen = f'data:image/png;base64,{base64.b64encode(PNG).decode()}'
    assert picture('in/a.png', home) == picture('in/../in/a.png', home) == picture(PNG, home) == seen
    assert picture(SVG, home).startswith('data:image/svg+xml;base64,')
    for name in ('../home-not/a.png', str(out/'a.png'), 'link.png', 'text.png', 'large.png', 'pipe.png', 'in',
                 'none.png', 'a\0.png', b'no picture', b''):
        with pytest.raises(ValueError): picture(name, home)
        assert '<img' not in card(dict(id='a', text='', image=name), home)
    assert '<img' not in card(dict(id='a', text='', image='a'*5000), home)


def test_a_page_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(page_of, 'find_spec', lambda name: None)
    with pytest.raises(ValueError, match='pip install voila ipywidgets'): look_command('nosuch')
    with pytest.raises(ValueError, match='pip install ipywidgets'): look(Near())


# ---- as a web page
SERVED = '''import sys
from modit.serving.look import look_command
look_command(sys.argv[1], port=int(sys.argv[2]), no_browser=True)'''


@pytest.fixture(scope='module')
def served(tmp_path_factory):
    "A folder of pictures and texts as a web page: its address with the token."
    pytest.importorskip('voila', reason='voila is not installed')
    home = tmp_path_factory.mktemp('look')
    folder = home/'shapes'
    folder.mkdir()
    (folder/'a.svg').write_text(SVG, 'utf-8')
    near = Near(200)
    np.save(folder/'embeddings.npy', near.items.astype('float32'))
    near.columns.assign(id=near.ids, image='a.svg').to_csv(folder/'items.csv', index=False)
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    env = environment(ROOT) | dict(TMPDIR=str(home), HOME=str(home))
    command = [sys.executable, '-c', SERVED, str(folder), str(port)]
    with open(home/'said', 'w', encoding='utf-8') as err:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True, env=env, cwd=home)
    try: yield run.stdout.readline().strip()
    finally:
        run.send_signal(signal.SIGINT)
        assert run.wait(HANG) == 0, (home/'said').read_text('utf-8')
        assert not [*home.glob('modit-look-*')]


@pytest.mark.slow
def test_a_page_is_of_this_machine_and_behind_a_token(served):
    at, token = re.fullmatch(r'(http://127\.0\.0\.1:\d+/)\?token=(\w{40,})', served).groups()
    for path in ('', f'?token={token[:-1]}'):
        with urlopen(at + path) as f: assert '/login' in f.url and b'modit' not in f.read()
    for path in ('voila/files/look.ipynb', 'voila/files/open.html'):
        with pytest.raises(OSError, match='403'): urlopen(f'{at}{path}?token={token}')
    with socket.socket() as s: assert s.connect_ex(('127.0.0.2', int(at.split(':')[2][:-1])))
