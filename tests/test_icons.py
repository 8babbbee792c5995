"""Icons: the rule of names and labels, licences, doubles, and the small set made into a folder."""
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT, tracked_files
from modit.repro.datasets import icons
from modit.data.folder import problems, read_folder
from modit.repro.datasets.icons import (LICENCES, distinct_icons, icon_sets, make_icons, read_icons, styles,
                              why_no_icons)
from modit.repro.datasets.datasets import packages
from modit.store import runs_dir

CREDITS = pd.read_csv(ROOT/'data_public'/'icon-sets.csv', index_col='set')


@pytest.fixture
def there():
    "The small set and the encoder can be had, and drawn."
    if why_no_icons(): pytest.skip(why_no_icons())


@pytest.mark.parametrize('names, of, filled, open_', [
    (['a-fill', 'a', 'b'], '', 'a-fill', 'a'), (['a-outline', 'a'], '', 'a', 'a-outline'),
    (['a', 'b-solid'], 'fa-solid', 'a b-solid', ''), (['a-bold', 'a-linear'], '', 'a-bold', 'a-linear'),
    (['a-bold', 'a-thin'], '', '', 'a-bold a-thin'), (['a-duotone', 'a-two-tone', 'a'], '', '', '')])
def test_the_style_follows_from_names(names, of, filled, open_):
    style = styles(names, of)['style']
    assert style.index[style == 'filled'].tolist() == filled.split()
    assert style.index[style == 'open'].tolist() == open_.split()


@pytest.mark.parametrize('name, pattern', [
    ('baseline-home', 'home'), ('sharp-3d-rotation', 'rotation'), ('home-24-filled', 'home'), ('360', ''),
    ('chart-line-up-fill', 'chart'), ('thin', 'thin')])
def test_the_pattern_is_the_first_word_that_is_no_style(name, pattern):
    assert icons._pattern(icons._parts(name)[0]) == pattern


def test_only_free_sets_are_credited_and_used():
    assert set(CREDITS.licence) <= set(LICENCES) and CREDITS[['name', 'author']].notna().all(axis=None)
    assert not [x for x in LICENCES if 'SA' in x or 'NC' in x or 'GPL' in x]


def test_the_credits_are_those_of_the_package(there):
    if not (runs_dir()/'public'/'packages'/packages().loc[icons.ALL].file).exists():
        pytest.skip('the large package is not here; modit public --profile icons gets it')
    used = icon_sets(icons.ALL).query('used')
    credit = ['name', 'author', 'licence']
    assert used.loc[CREDITS.index, credit].equals(CREDITS[credit])


def test_without_what_draws_the_extra_is_named(monkeypatch):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    assert why_no_icons() == 'no resvg_py: pip install "modit[public]"'


def test_an_unknown_domain_of_icons_is_refused():
    with pytest.raises(ValueError, match='phosphor-plain'): make_icons('emoji')


def test_doubles_go_by_stem_and_equal_pictures_everywhere():
    rng = np.random.default_rng(0)
    ink = rng.random((6, 50)).astype(np.float32)
    ink[1], ink[3], ink[5] = 1.02*ink[0], 1.02*ink[0], 0
    stems = list('aabcde')
    assert distinct_icons(stems, ink).tolist() == [True, False, True, True, True, False]
    ink[3] = ink[0]
    assert not distinct_icons(stems, ink)[3]


def test_the_small_set_becomes_a_folder(there, tmp_path):
    first = make_icons('phosphor', tmp_path/'phosphor')
    assert not problems(first) and make_icons('phosphor', first) == first
    domain = read_folder(first)
    table = read_icons().set_index('id').loc[domain.ids]
    assert (np.array(domain.patterns)[domain.pattern] == table.pattern).all()
    assert (domain.attribute == table.attribute).all() and 'Phosphor' in (first/'LICENSE').read_text()
    again = make_icons('phosphor', tmp_path/'again')  # from kept shards
    assert (again/'embeddings.npy').read_bytes() == (first/'embeddings.npy').read_bytes()
    assert np.bincount(domain.pattern[domain.attribute]).min() >= 8


def test_no_drawing_is_committed(there):
    kinds = ('.ipynb', '.md', '.csv', '.py', '.html')
    committed = '\n'.join((ROOT/p).read_text() for p in tracked_files() if p.suffix in kinds)
    paths = read_icons().svg.str.extract(r' d="([^"]{60})')[0].dropna()
    assert not [x for x in paths if x in committed]
