"""`modit serve`: lists for many at once; bad, large, foreign and hanging requests; the page."""
import asyncio
import base64
import contextlib
import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import quote

import numpy as np
import psutil
import pytest
from numpy.lib.format import open_memmap

from browser import Browser, find_browser
from conftest import COMMAND, HANG, ROOT, environment, write_shoes
from modit.cli.command import main
from modit.serving.lists import REFUSED as ERRORS, answer_line, refusal
from modit.serving.retriever import Retriever
from modit.settings import load_settings

tornado = pytest.importorskip('tornado', reason="serve needs tornado; pip install 'modit[serve]'")
from modit.serving import serve as page  # noqa: E402

TOKEN = 'a token of some length'
BAD = '<img src=x onerror="document.title=1">'  # in every text
PNG = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9'
                       'awAAAABJRU5ErkJggg==')  # a pixel


@pytest.fixture(scope='module')
def shoes(home):
    "A folder of items with texts and pictures, some of which lead out of it."
    inline = f'data:image/png;base64,{"A"*5000}.png' # longer than a name may be
    pictures = ['../secret.png', str(home/'secret.png'), 'link.png', 'items.csv', 'pictures', inline]
    pictures += ['pictures/red.png']*(load_settings('smoke').items[0] - len(pictures))
    write_shoes(home/'shoes', f'no. {{}} {BAD}'.format, picture=pictures)
    (home/'shoes'/'pictures').mkdir()
    for place in (home/'secret.png', home/'shoes'/'pictures'/'red.png'): place.write_bytes(PNG)
    (home/'shoes'/'link.png').symlink_to(home/'secret.png')
    return home/'shoes'


@pytest.fixture(scope='module')
def retriever(shoes): return Retriever.load(shoes)


@contextlib.contextmanager
def listening(*what, **how):
    "The port of a server in a thread of this process, and the loop that it runs in."
    ready, place = threading.Event(), {}

    async def run():
        sockets = page.bind_sockets(0, '127.0.0.1')
        server = page.make_server(*what, **dict(seconds=HANG) | how)
        server.add_sockets(sockets)
        place.update(port=sockets[0].getsockname()[1], loop=asyncio.get_running_loop(), stop=asyncio.Event())
        ready.set()
        await place['stop'].wait()
        server.stop()
        await server.close_all_connections()
    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    try: yield place['port']
    finally:
        place['loop'].call_soon_threadsafe(place['stop'].set)
        thread.join(HANG)


@pytest.fixture(scope='module')
def port(shoes, retriever):
    with listening(retriever, shoes) as found: yield found


@pytest.fixture(scope='module')
def guarded(shoes, retriever):
    with listening(retriever, shoes, TOKEN) as found: yield found


def ask(port, path, body=None, **headers):
    "Status and what was answered; what is JSON is read."
    client = http.client.HTTPConnection('127.0.0.1', port, timeout=HANG)
    data = json.dumps(body) if isinstance(body, dict | list) else body
    client.request('POST' if body is not None else 'GET', path, data, headers)
    answer = client.getresponse()
    text = answer.read()
    client.close()
    return answer.status, json.loads(text) if 'json' in answer.headers.get('Content-Type', '') else text


HEAD = 'POST /expand HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n'


def ids_of(answer): return [row['id'] for row in answer['items']]


@pytest.fixture(scope='module')
def command(shoes):
    "The command on a free port: process and port."
    words = [sys.executable, '-c', COMMAND, 'serve', str(shoes), '--port', '0']
    process = subprocess.Popen(words, cwd=ROOT, env=environment(ROOT), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    assert process.stdout.readline().startswith('modit: loading packages, then ') # before it is ready
    line = process.stdout.readline()
    yield process, int(re.search(r'http://127\.0\.0\.1:(\d+)/', line)[1])
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG) == 130


# ---- what is answered
def test_a_hundred_at_once_get_the_lists_of_the_retriever(command, retriever):
    _, port = command
    rng = np.random.default_rng(0)
    asked = [dict(seeds=[f'shoe {i}' for i in rng.choice(900, 3, replace=False)], k=int(k))
             for k in rng.integers(1, 40, 100)]
    with ThreadPoolExecutor(100) as pool: answers = [*pool.map(lambda x: ask(port, '/expand', x), asked)]
    assert {status for status, _ in answers} == {200}
    for question, (_, answer) in zip(asked, answers, strict=True):
        found = retriever.expand(**question)
        assert ids_of(answer) == found.id.tolist() and answer['moves'] == found.attrs['moves']
        assert np.allclose([row['score'] for row in answer['items']], found.score, atol=1e-5)


def test_memory_stays_over_some_hundred_requests(command):
    process, port = command
    def some(n):
        for i in range(n):
            ask(port, '/expand', dict(seeds=[f'shoe {i}', f'shoe {i + 1}'], k=50, where='id!=a'))
        return psutil.Process(process.pid).memory_info().rss
    some(100)
    grown = some(400) - some(1)
    assert abs(grown) < 2**24, f'{grown/2**20:.0f} MB more'


def test_marks_wishes_and_moves_go_through(port, retriever):
    seeds, marks = ['shoe 7', 'shoe 9'], {'shoe 11': 1, 'shoe 12': 0}
    for wishes in (dict(judged=marks), dict(where=['id!=shoe 20']), dict(step=1., own=0), dict(diversity=.4),
                   dict(unlike=['shoe 30'], feedback=.5), dict(distinct={'text': 1})):
        status, answer = ask(port, '/expand', dict(seeds=seeds, k=12, **wishes))
        assert status == 200 and ids_of(answer) == retriever.expand(seeds, 12, **wishes).id.tolist()
        if 'where' not in wishes and 'distinct' not in wishes:
            wishes.pop('diversity', None)
            vector = ask(port, '/query', dict(seeds=seeds, k=12, **wishes))[1]['query']
            assert np.array_equal(np.float32(vector), retriever.query(seeds, **wishes))
    vectors = retriever.catalogue.items[:2].tolist()
    assert ids_of(ask(port, '/expand', dict(seeds=vectors, k=9))[1]) == retriever.expand(
        ['shoe 0', 'shoe 1'], 9).id.tolist()


def test_items_are_found_by_their_words(port, retriever):
    goods = retriever.catalogue
    texts = {name: f'{name} {text}'.lower() for name, text in zip(goods.ids, goods.text, strict=True)}
    for words in ('SHOE 1', '7 1 shoe', texts['shoe 3'].upper(), 'boot'):
        status, answer = ask(port, f'/find?words={quote(words)}')
        asked = words.lower().split()
        wanted = [name for name, text in texts.items() if all(word in text for word in asked)]
        assert status == 200 and ids_of(answer) == wanted[:20]
    assert ask(port, '/find?words=')[1] == ask(port, '/find')[1] == dict(items=[], most=20)
    status, answer = ask(port, f'/find?words={"x"*201}')
    assert status == 400 and '201 letters are too many' in answer['error']


def test_seeds_are_found_in_both_folders(retriever):
    goods = retriever.catalogue
    named = dict(ids=['boot', 'shoe 31', 'shoe 5'], text=['shoe', '', 'mine'])
    other = SimpleNamespace(items=goods.items[:3], **named)
    with pytest.warns(UserWarning, match='other items'): both = retriever.over(other)
    found = page.items_with(both, 'shoe')
    assert [x['id'] for x in found[:4]] == ['boot', 'shoe 31', 'shoe 5', 'shoe 0'] and len(found) == 20
    assert [x['text'] for x in page.items_with(both, 'shoe 5') if x['id'] == 'shoe 5'] == ['mine']


@pytest.fixture(scope='module')
def mac(shoes, tmp_path_factory, retriever):
    "The same items, their ids and texts with letters as a Mac stores them; every third text is missing."
    def stored(text): return unicodedata.normalize('NFD', text)
    n = len(retriever.catalogue.ids)
    text = np.array([None if i % 3 else stored(f'\ud14c\uc2a4\ud2b8 {i}') for i in range(n)], object)
    ids = np.array([stored(f'caf\u00e9-{i}') for i in range(n)], object)
    goods = replace(retriever.catalogue, ids=ids, text=text)
    return replace(retriever, catalogue=goods)


def test_letters_are_the_same_in_any_form_and_a_missing_text_is_empty(mac, shoes):
    with listening(mac, shoes) as port:
        for words in ('caf\u00e9-7', 'CAF\u00c9-7', 'cafe\u0301-7'):
            wanted = [unicodedata.normalize('NFD', f'caf\u00e9-{i}') for i in (7, *range(70, 80))]
            assert ids_of(ask(port, f'/find?words={quote(words)}')[1])[:11] == wanted
        assert len(ids_of(ask(port, f'/find?words={quote(chr(0xd14c))}')[1])) == 20 # a syllable of Hangul
        assert ids_of(ask(port, '/find?words=nan')[1]) == ids_of(ask(port, '/find?words=none')[1]) == []
        status, answer = ask(port, '/expand', dict(seeds=['caf\u00e9-7'], k=30, without=['caf\u00e9-8']))
        assert status == 200 and all(isinstance(row['text'], str) for row in answer['items'])
        assert any(row['text'] == '' for row in answer['items'])
        assert not {unicodedata.normalize('NFD', f'caf\u00e9-{i}') for i in (7, 8)} & {*ids_of(answer)}


def test_no_answer_holds_what_is_no_json(retriever, shoes, monkeypatch):
    monkeypatch.setattr(page, 'card_facts', lambda retriever: dict(x=float('nan')))
    with listening(retriever, shoes) as port: assert ask(port, '/card')[0] == 500


@pytest.mark.parametrize('host', ['127.0.0.1', '127.0.0.2', '::1', '[::1]', '::ffff:127.0.0.1', 'localhost',
                                  'LOCALHOST', '0:0:0:0:0:0:0:1'])
def test_this_machine_is_itself_under_every_address(port, host):
    page.check_address(host, None)
    name = f'[{host}]' if ':' in host and '[' not in host else host
    for shown in (name, f'{name}:{port}'): assert ask(port, '/card', Host=shown)[0] == 200


@pytest.mark.parametrize('host', ['0.0.0.0', '::', '::ffff:8.8.8.8', '128.0.0.1', 'example.org', '', '127.1',
                                  'localhost.example.org', '[::2]', '::ffff:0.0.0.0'])
def test_other_addresses_are_not_this_machine(port, host):
    with pytest.raises(ValueError, match='open to others'): page.check_address(host, None)
    name = f'[{host}]' if ':' in host and '[' not in host else host
    if host: assert ask(port, '/card', Host=name)[0] == 403


def test_the_card_says_what_a_client_has_to_know(port, retriever):
    status, card = ask(port, '/card')
    known = dict(name='shoes', items=len(retriever.catalogue.ids), example='shoe 0', picture=True)
    assert status == 200 and known.items() <= card.items() and card['dim'] == retriever.settings.dim
    assert [x['name'] for x in card['sliders']] == ['step', 'own']


# ---- what is refused
REFUSED = [ # test_every_field_may_hold_anything has the others
    (b'', 'give an object'), (b'{', 'give an object'), (b'\xff\xfe', 'give an object'),
    (b'null', 'give an object'), (b'['*200_000, 'give an object'), (['shoe 1'], 'give an object'),
    ({}, 'give an object'), (dict(seeds=['boot']), "seed 'boot': not among"),
    (dict(seeds=['../../etc/passwd']), 'not among'), (dict(seeds=[True]), 'neither ids'),
    (dict(seeds=[['shoe 1']]), 'neither ids'), (dict(seeds=[[1., 2.]]), 'dimension'),
    (dict(seeds=[[1., 2.], [1.]]), 'neither ids'), (b'{"seeds": [[NaN, NaN]]}', ''),
    (dict(seeds=['shoe 1', 'shoe 1']), 'twice'), (dict(seeds=['shoe 1']*1001), 'seeds: 1001 are too many'),
    *[(dict(seeds=['shoe 1']) | more, says) for more, says in (
        (dict(k=0), 'k: 0'), (dict(k=10**9), 'too many'), (dict(k=2.5), 'k: 2.5'),
        (dict(wear=1), "'wear' is no option"), (dict(self=1), "'self' is no option"),
        (dict(explain=1), 'true or false'),
        (dict(scale=False), 'no policy'), (dict(share=.5), 'no policy'), (dict(where='price<1'), 'no column'),
        (dict(where=['id=a']*21), 'where: 21'), (dict(where=' '*900_000), 'no sign'),
        (dict(judged={'shoe 2': 'good'}), 'judged'), (dict(without=['x']), 'id'),
        (dict(unlike={'a': {'b': 'c'}}), 'give one, or a list'), (dict(k=[1]), 'k'))],
    (b'{"seeds": ["shoe 1"], "distinct": {"text": 1e999}}', '')]


FIELDS = ('seeds', 'k', 'scale', 'explain', 'share', 'step', 'own', 'where', 'threshold', 'without', 'unlike',
          'judged', 'feedback', 'distinct', 'diversity')
VALUES = {'null': 'null', 'true': 'true', 'text': '"x"', '-1': '-1', '1e999': '1e999', '[]': '[]', '{}': '{}',
          '[[]]': '[[]]', '900 deep': '['*900 + ']'*900, '1000 deep': '['*1000 + ']'*1000,
          'large': json.dumps('x'*10**6), 'long': '1'*4000}
FINE = {('explain', 'true'), ('threshold', '-1'), ('judged', '{}'), ('distinct', '{}'),
        *[(name, 'null') for name in FIELDS if name not in ('seeds', 'explain')],
        *[(name, '[]') for name in ('where', 'threshold', 'without', 'unlike')]}


def answer_of(retriever, body):
    "What the server answers, without a server."
    try: return page._list(retriever, body)
    except ERRORS as e: return dict(error=refusal(e))


@pytest.mark.parametrize('value', VALUES)
@pytest.mark.parametrize('name', FIELDS)
def test_every_field_may_hold_anything(retriever, name, value):
    "What is no value of a field is refused in one line that is not long, in a file of lists and over HTTP."
    others = '' if name == 'seeds' else '"seeds": ["shoe 1"], '
    line = f'{{{others}"{name}": {VALUES[value]}}}'
    for answer in (answer_line(retriever, line), answer_of(retriever, line.encode())):
        if (name, value) in FINE: assert answer['items'], answer
        else: assert '\n' not in answer['error'] and 5 < len(answer['error']) < 500


@pytest.mark.parametrize('body, says', REFUSED, ids=[f'{i}-{says}' for i, (_, says) in enumerate(REFUSED)])
def test_a_bad_question_is_one_line(port, body, says):
    status, answer = ask(port, '/expand', body)
    assert status == 400 and list(answer) == ['error'] and says in answer['error'], answer
    assert '\n' not in answer['error'] and 'Traceback' not in answer['error']
    status, answer = ask(port, '/query', body)
    assert status in (200, 400) and list(answer) in (['error'], ['query'])


def test_a_large_body_is_read_and_refused(port, guarded):
    for size in (2**20 + 1, 2**24):
        for path in ('/expand', '/query'):
            status, answer = ask(port, path, b' '*size)
            assert status == 413 and answer == dict(error='too large; send 1,048,576 bytes at most')
        assert ask(guarded, '/expand', b' '*size)[0] == 401 and ask(port, '/expnad', b' '*size)[0] == 404
        client = http.client.HTTPConnection('127.0.0.1', port, timeout=HANG)
        client.request('POST', '/expand', iter([b' '*size]), encode_chunked=True)  # its length is not said
        assert client.getresponse().status == 413
        client.close()
    with socket.create_connection(('127.0.0.1', port), timeout=HANG) as client:
        client.sendall(HEAD.format(10**12).encode())
        assert b'400' in client.recv(1000)
    assert ask(port, '/card')[0] == 200


def test_the_head_of_an_answer_can_be_asked_alone(port):
    for path, status in {'/': 200, '/card': 200, '/find?words=shoe': 200, '/expand': 405, '/x': 404}.items():
        client = http.client.HTTPConnection('127.0.0.1', port, timeout=HANG)
        client.request('HEAD', path)
        answer = client.getresponse()
        assert answer.status == status and int(answer.headers['Content-Length']) and answer.read() == b''
        client.close()


def test_other_methods_and_paths_are_refused(port):
    assert ask(port, '/expand')[0] == ask(port, '/card', {})[0] == ask(port, '/', {})[0] == 405
    for path in ('/nothing', '/items.csv', '/../shoes/items.csv', '/..%2f..%2fetc%2fpasswd',
                 '/static/../../etc/passwd', '/card/', '//etc/passwd', '/page.html',
                 '/picture/../../secret.png'):
        status, answer = ask(port, path)
        assert status == 404 and answer['error'], path


def test_a_picture_is_one_of_the_folder(port):
    assert ask(port, '/picture?id=shoe%207') == (200, PNG)
    outside = [f'shoe%20{i}' for i in range(6)]
    for name in (*outside, '../secret.png', 'pictures/red.png', ''):
        assert ask(port, f'/picture?id={name}')[0] == 404, name
    assert ask(port, '/picture')[0] == 400


def test_another_host_is_refused(port):
    for name in ('example.org', '127.0.0.1.example.org', '10.0.0.1'):
        for path in ('/', '/card', '/picture?id=shoe%207'): assert ask(port, path, Host=name)[0] == 403
        assert ask(port, '/expand', dict(seeds=['shoe 1']), Host=name)[0] == 403


def test_with_a_token_nothing_is_answered_without_it(guarded):
    question = dict(seeds=['shoe 1'])
    wrong = [TOKEN, 'Bearer ', f'Bearer {TOKEN}x', f'bearer {TOKEN}', 'Bearer é'.encode().decode('latin-1')]
    for headers in [{}, *[dict(Authorization=text) for text in wrong]]:
        for path, body in (('/card', None), ('/picture?id=shoe%207', None), ('/expand', question),
                           ('/query', question)):
            status, answer = ask(guarded, path, body, **headers)
            assert status == 401 and list(answer) == ['error']
    right = dict(Authorization=f'Bearer {TOKEN}')
    assert ask(guarded, '/card', **right)[0] == 200 and ask(guarded, '/', Host='example.org')[0] == 200
    assert ask(guarded, '/expand', dict(seeds=['shoe 1'], k=3), **right)[0] == 200


@pytest.mark.parametrize('words, says', [
    (('--host', '0.0.0.0'), 'give a token'), (('--host', '::'), 'give a token'),
    (('--host', 'a.org'), 'give a token'), (('--token', 'SHORT'), 'short'), (('--token', 'BLANK'), 'short'),
    (('--token', 'UTF-16'), 'as UTF-8'),
    (('--token', 'none.txt'), 'no such file'), (('--port', '70000'), '--port'),
    (('--port', 'TAKEN'), 'in use')])
def test_the_command_refuses_in_a_line(shoes, port, tmp_path, capsys, words, says):
    short = tmp_path/'short'
    short.write_text('secret\n')
    (tmp_path/'blank').write_text('\n')
    (tmp_path/'utf-16').write_text(TOKEN, 'utf-16')
    names = {'SHORT': str(short), 'BLANK': str(tmp_path/'blank'), 'UTF-16': str(tmp_path/'utf-16'),
             'TAKEN': str(port)}
    words = [names.get(word, word) for word in words]
    with pytest.raises(SystemExit) as end: main(['serve', str(shoes), *words])
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.count('\n') == 1 and says in said


def test_without_tornado_the_command_says_what_to_install(shoes, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'modit.serving.serve', None)
    with pytest.raises(SystemExit): main(['serve', str(shoes)])
    said = capsys.readouterr().err
    assert "in the clone run pip install '.[serve]'" in said


def test_the_command_prints_or_writes_the_query(shoes, retriever, tmp_path, capsys):
    seeds, out = tmp_path/'seeds.txt', tmp_path/'query.npy'
    seeds.write_text('shoe 7\nshoe 9\n')
    main(['query', str(shoes), '--seeds', str(seeds)])
    vector = retriever.query(['shoe 7', 'shoe 9'])
    assert np.array_equal(np.float32(json.loads(capsys.readouterr().out)), vector)
    main(['query', str(shoes), '--seeds', str(seeds), '--step', '1', '--out', str(out)])
    assert np.array_equal(open_memmap(out, mode='r'), retriever.query(['shoe 7', 'shoe 9'], step=1.))
    assert capsys.readouterr().out == '' and not np.array_equal(open_memmap(out, mode='r'), vector)
    for words in ((), ('--seeds', str(seeds), '--out', 'query.txt'), ('--seeds', 'none')):
        with pytest.raises(SystemExit): main(['query', str(shoes), *words])
        assert capsys.readouterr().err.count('\n') == 1


def test_clients_that_hang_hold_up_no_other(shoes, retriever):
    halves = (b'', b'GET /card HTT', f'{HEAD.format(100)}{{"seeds"'.encode())
    with listening(retriever, shoes, seconds=5.) as port:
        clients = [socket.create_connection(('127.0.0.1', port), timeout=HANG) for _ in range(60)]
        for i, client in enumerate(clients): client.sendall(halves[i % 3])
        assert ask(port, '/expand', dict(seeds=['shoe 1'], k=3))[0] == 200
        for client in clients:
            assert client.recv(1000) == b''  # closed
            client.close()
        gone = [socket.create_connection(('127.0.0.1', port)) for _ in range(20)]
        body = json.dumps(dict(seeds=['shoe 1'], k=500))
        for client in gone:  # ask, and leave before the answer
            client.sendall(f'{HEAD.format(len(body))}{body}'.encode())
            client.close()
        assert ask(port, '/expand', dict(seeds=['shoe 1'], k=3))[0] == 200


def test_more_than_can_wait_are_refused_and_nothing_is_lost(shoes, retriever, monkeypatch):
    going = threading.Event()
    def slow(retriever, body): return going.wait(HANG) and dict(items=[])
    monkeypatch.setattr(page, '_WAITING', 5)
    monkeypatch.setattr(page, '_list', slow)
    with listening(retriever, shoes) as port, ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(ask, port, '/expand', {}) for _ in range(20)]
        while sum(x.done() for x in asked) < 15: time.sleep(.02)
        assert ask(port, '/card')[0] == 200  # while all others wait
        going.set()
        found = sorted(x.result()[0] for x in asked)
    assert found == [200]*5 + [503]*15


# ---- the page
@pytest.fixture
def browser(tmp_path):
    if find_browser() is None: pytest.skip('the page is not opened: no chromium is installed')
    if not importlib.util.find_spec('websocket'): pytest.skip('the page is not opened: no websocket-client')
    with Browser(tmp_path/'profile') as found: yield found


ROWS = '[...document.querySelectorAll("#list tr")].map(row => row.children[3].textContent)'


def press(browser, button):
    "Press a button, and wait until the list is there."
    browser.evaluate(f'document.getElementById("{button}").click()')
    browser.wait(lambda: not browser.evaluate('document.getElementById("go").disabled'))
    return browser.evaluate(ROWS)


def value(browser, name, text, event='input'):
    browser.evaluate(f'(x => {{ x.value = {json.dumps(text)}; x.dispatchEvent(new Event("{event}")) }})'
                     f'(document.getElementById("{name}"))')


def test_the_page_in_a_browser(browser, port, retriever):
    browser.ask('Page.navigate', url=f'http://127.0.0.1:{port}/')
    browser.wait(lambda: browser.evaluate('document.getElementById("name")?.textContent'))
    seeds = ['shoe 7', 'shoe 9']
    for name in seeds:  # found by their words
        value(browser, 'words', f'no. {name.split()[1]} shoe')
        browser.evaluate('document.getElementById("words").dispatchEvent('
                         'new KeyboardEvent("keydown", {key: "Enter", cancelable: true}))')
        found = '[...document.querySelectorAll("#found button")]' \
                f'.find(x => x.textContent.startsWith("+ {name} "))'
        browser.wait(lambda found=found: browser.evaluate(f'Boolean({found})'))
        browser.evaluate(f'{found}.click()')
    assert browser.evaluate('document.getElementById("seeds").value').split('\n') == seeds
    assert BAD in browser.evaluate('document.querySelector("#found").textContent')  # as text
    found = press(browser, 'go')
    assert found == retriever.expand(seeds).id.tolist()
    count = f'document.querySelectorAll("#list img").length == {len(found)}'
    browser.wait(lambda: browser.evaluate(count))
    browser.wait(lambda: browser.evaluate('[...document.images].every(x => x.naturalWidth)'))
    assert BAD in browser.evaluate('document.querySelector("#list tr").lastChild.textContent')
    assert browser.evaluate('document.getElementById("again").disabled')
    assert not browser.evaluate('document.getElementById("secret").offsetHeight')  # no token, no field

    boxes = 'document.querySelectorAll("#list tr")[{}].querySelectorAll("input")[{}].click()'
    for row, mark in ((0, 0), (1, 0), (1, 1)): browser.evaluate(boxes.format(row, mark))  # the last counts
    again = press(browser, 'again')
    assert again == retriever.expand(seeds, judged={found[0]: 1, found[1]: 0}).id.tolist()
    assert not {*found[:2]} & {*again}
    assert press(browser, 'go') == found  # begins anew
    for row in (0, 2): browser.evaluate(boxes.format(row, 0))
    assert press(browser, 'again') == retriever.expand([*seeds, found[0], found[2]]).id.tolist()

    value(browser, 'step', '2')
    assert press(browser, 'go') == retriever.expand(seeds, step=2.).id.tolist()
    value(browser, 'seeds', 'boot')
    press(browser, 'go')
    assert 'not among' in browser.evaluate('document.querySelector("#said.wrong").textContent')
    assert browser.evaluate('document.title') == 'modit' and not browser.told('Runtime.exceptionThrown')
    asked = [e['request']['url'] for e in browser.told('Network.requestWillBeSent')]
    assert asked and all(url.startswith((f'http://127.0.0.1:{port}/', 'blob:')) for url in asked)
    assert not browser.evaluate('document.documentElement.scrollWidth > innerWidth'), 'wider than the window'


def test_the_page_asks_for_the_token(browser, guarded, retriever):
    browser.ask('Page.navigate', url=f'http://127.0.0.1:{guarded}/')
    browser.wait(lambda: browser.evaluate('document.getElementById("secret")?.hidden === false'))
    value(browser, 'token', TOKEN, 'change')
    browser.wait(lambda: browser.evaluate('document.getElementById("name").textContent'))
    value(browser, 'seeds', 'shoe 7')
    assert press(browser, 'go') == retriever.expand(['shoe 7']).id.tolist()
    assert TOKEN not in browser.evaluate('location.href')


def test_the_page_states_what_it_may_run(port):
    client = http.client.HTTPConnection('127.0.0.1', port, timeout=HANG)
    client.request('GET', '/')
    answer = client.getresponse()
    policy, text = answer.headers['Content-Security-Policy'], answer.read().decode()
    assert "default-src 'none'" in policy and 'unsafe' not in policy and policy.count('sha256-') == 2
    assert 'http' not in re.sub(r'http-equiv', '', text) and os.sep*2 not in re.sub(r'// |//   ', '', text)
    assert not re.search(r'innerHTML|\son\w+=', text)
