"""The page of lists: its clicks without a browser, and as a web page in a real one."""
import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from html.parser import HTMLParser
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest

from conftest import HANG, ROOT, environment
from modit.serving import look as page_of
from modit.serving.look import Look, card, look_command, picture

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
    page = Look(near, k=10)
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
    page = Look(near, ['n1', 'n2'], k=10)
    for left in (10, 10, 3, 0):
        press(page, 'next list' if page.marks else 'find more')
        assert len(page.names) == left
        for i in range(left): click(page, i, kind)
    assert 'Nothing is left' in page.told.value and all('empty' in classes(page, i) for i in range(10))


def test_items_to_choose_from_have_the_words_that_are_searched():
    page = Look(Near(), k=12)
    first = page.names
    press(page, 'other items')
    assert len(first) == len(page.names) == 12 and not {*first} & {*page.names}
    page.search.value = ' NUMBER 9 '
    assert {*page.names} == {'n9', *(f'n{i}' for i in range(90, 100))} and '11 items' in page.told.value
    for _ in range(3): press(page, 'other items')  # they are few, and come again
    assert len(page.names) == 11
    page.search.value = 'n42'
    assert page.names == ['n42']
    page.search.value = '(.*'
    assert page.names == []


def test_items_without_texts_are_shown_by_id():
    page = Look(Near(price=1), k=4)
    assert all(f'<p>{name}</p>' in tile.children[0].value
               for tile, name in zip(page.grid.children, page.names, strict=True))


def test_what_a_retriever_says_is_on_the_page(monkeypatch):
    page = Look(Near(), ['n1'])
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
    with pytest.raises(ValueError, match='pip install ipywidgets'): Look(Near())


# ---- a real browser
SERVED = '''import sys
from modit.serving.look import look_command
look_command(sys.argv[1], port=int(sys.argv[2]), no_browser=True)'''
CHROMES = 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'


class Browser:
    "A browser without a window, spoken to by the protocol of its own tools."
    def __init__(self, program, home):
        flags = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                 '--remote-debugging-port=0', f'--user-data-dir={home}', '--window-size=1240,900']
        self.run = subprocess.Popen([program, *flags, 'about:blank'], stderr=subprocess.DEVNULL)
        port = home/'DevToolsActivePort'
        told = waited(lambda: port.exists() and port.read_text('utf-8'))
        with urlopen(f'http://127.0.0.1:{told.split()[0]}/json/list') as f: pages = json.load(f)
        address = next(x['webSocketDebuggerUrl'] for x in pages if x['type'] == 'page')
        from websocket import create_connection
        self.socket, self.count, self.events = create_connection(address, suppress_origin=True), 0, []
        for part in ('Page', 'Network', 'Runtime'): self.call(f'{part}.enable')

    def call(self, method, **given):
        self.count += 1
        self.socket.send(json.dumps(dict(id=self.count, method=method, params=given)))
        while (said := json.loads(self.socket.recv())).get('id') != self.count: self.events.append(said)
        return said['result']

    def js(self, code):
        said = self.call('Runtime.evaluate', expression=code, returnByValue=True)
        assert 'exceptionDetails' not in said, said
        return said['result'].get('value')

    def until(self, code): return waited(lambda: self.js(f'!!({code})'))

    def all(self, where):
        "Texts of what there is of a kind."
        return self.js(f"[...document.querySelectorAll('.modit-look {where}')].map(x => x.innerText)")

    def click(self, where, i=0):
        "As a person does: with a mouse, on what lies uppermost there."
        place = f"document.querySelectorAll('.modit-look {where}')[{i}]"
        self.js(f"{place}.scrollIntoView({{block: 'center'}})")
        x, y = self.js(f'(r => [r.x + r.width/2, r.y + r.height/2])({place}.getBoundingClientRect())')
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)

    def close(self):
        self.socket.close()
        self.run.terminate()
        self.run.wait()


def waited(asked):
    for _ in range(10*HANG):
        if found := asked(): return found
        time.sleep(.1)
    raise TimeoutError


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
    table = near.columns.assign(id=near.ids, image='a.svg')
    table.loc[7, ['id', 'text', 'image']] = f'odd {EVIL}', f'odd {EVIL}', '../out.svg'
    table.to_csv(folder/'items.csv', index=False)
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


@pytest.fixture
def browser(tmp_path):
    program = next(filter(None, map(shutil.which, CHROMES)), None)
    if not program: pytest.skip('no browser here; apt-get install chromium')
    pytest.importorskip('websocket', reason='websocket-client is not installed')
    made = Browser(program, tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_a_page_is_of_this_machine_and_behind_a_token(served):
    at, token = re.fullmatch(r'(http://127\.0\.0\.1:\d+/)\?token=(\w{40,})', served).groups()
    for path in ('', f'?token={token[:-1]}'):
        with urlopen(at + path) as f: assert '/login' in f.url and b'modit' not in f.read()
    for path in ('voila/files/look.ipynb', 'voila/files/open.html'):
        with pytest.raises(OSError, match='403'): urlopen(f'{at}{path}?token={token}')
    with socket.socket() as s: assert s.connect_ex(('127.0.0.2', int(at.split(':')[2][:-1])))


@pytest.mark.slow
def test_a_person_finds_items_in_a_browser(served, browser):
    browser.call('Page.navigate', url=served.split('?')[0])
    browser.until("document.querySelector('input[type=password]')")
    assert not browser.all('.tile')
    browser.call('Page.navigate', url=served)
    browser.until("document.querySelectorAll('.modit-look .tile img').length > 10")
    for i in (0, 3): browser.click('.tile .seed', i)
    browser.until("document.querySelectorAll('.modit-look .chip').length == 2")
    browser.click('.more')
    browser.until("document.querySelectorAll('.modit-look.listing .tile small span').length == 24")
    first = browser.all('.tile small span')
    browser.click('.tile .wrong', 1)
    browser.until("document.querySelector('.modit-look .is-wrong')")
    browser.click('.more')
    whole = "document.querySelectorAll('.tile small span').length == 24" # tiles come one by one
    browser.until(f"!document.querySelector('.modit-look .is-wrong') && {whole}")
    assert first[1] not in browser.all('.tile small span') # and others may move
    assert 'save marks (1)' in browser.all('.told')[0]
    browser.click('.back')
    browser.until("document.querySelector('.modit-look.choosing')")
    browser.click('.bar input')
    browser.call('Input.insertText', text='odd')
    browser.until("document.querySelectorAll('.modit-look .tile').length == 1")
    assert EVIL in browser.all('.tile')[0] and 'outside of the folder' in browser.all('.tile')[0]
    browser.click('.tile .seed')
    browser.until("document.querySelectorAll('.modit-look .chip').length == 3")
    assert browser.all('.chip')[2].startswith('odd <script>') and browser.js('window.ran') is None
    heard = [x['params']['response'] for x in browser.events if x['method'] == 'Network.responseReceived']
    assert heard and all(x['url'].startswith((served.split('?')[0], 'data:', 'blob:')) for x in heard)
