"""The page of deviations: its text is what the page would write, its numbers are read and never typed,
and the paper's words are the paper's."""
import json
import os
import re
from pathlib import Path
from string import Formatter

import pandas as pd
import pytest

from conftest import ROOT
from modit.repro.verdicts import deviations
from modit.repro.pages.page import open_page
from modit.repro.report.report import read_reported
from modit.settings import load_settings

TEXT = ROOT/'docs'/'deviations.md'
PAGE = ROOT/'nbs'/'repro'/'verdicts'/'305_deviations.ipynb'
PAPER = Path(os.environ.get('MODIT_PAPER') or ROOT.parent/'shared'/'000_1615ec6eb273ec8d.txt')
LISTED = read_reported('deviations')
COLUMNS = ['id', 'group', 'what', 'paper', 'here', 'why', 'pages', 'status']
every_row = pytest.mark.parametrize('row', LISTED.to_dict('records'), ids=lambda row: row['id'])


@pytest.fixture(scope='module')
def page(): return open_page('deviations')


@pytest.fixture(scope='module')
def scores(page): return page.scores(deviations)


@pytest.fixture(scope='module')
def found(page, scores): return deviations.filled(scores, page)


# ---- the list
def test_list_is_whole():
    assert list(LISTED) == COLUMNS and LISTED.id.is_unique and not LISTED.isna().any(axis=None)
    assert set(LISTED.status) == set(deviations.STATUSES)


def fields_of(text): return {name for _, name, *_ in Formatter().parse(text) if name}


def test_every_field_is_read_from_settings_code_or_scores(page, scores):
    paper = load_settings('paper')
    theirs = {*deviations.of_settings(paper, page.domains), *deviations.of_tables(page.domains)}
    ours = {*deviations.of_settings(page.s, page.domains), *deviations.of_scores(scores, page)}
    for column, known in (('paper', theirs), ('here', ours), ('why', ours)):
        assert not set().union(*map(fields_of, LISTED[column])) - known, column


@every_row
def test_our_side_has_no_number_that_was_typed(row):
    for column in ('here', 'why'):
        typed = re.sub(r'\{[^}]*\}|\bD\d\b|\b\d{3}_\w+|[Aa]lgorithm \d|“[^”]*”', '', row[column])
        assert not re.search(r'\d', typed), f'{column}: {typed}'


# ---- the paper's words
MACROS = {r'\shortJoint{}': 'Joint@K', r'\hppo{}': 'HPPO', '~': ' ', '{,}': ',', '$': '', '---': ', '}


def plain(text):
    "LaTeX as it is read: without marks of emphasis and mathematics."
    for a, b in MACROS.items(): text = text.replace(a, b)
    return re.sub(r'\s+', ' ', re.sub(r'\\(?:emph|textbf|texttt)\{([^}]*)\}', r'\1', text))


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's LaTeX is not here; set MODIT_PAPER to its path")
def test_quotes_are_the_papers():
    text = plain(PAPER.read_text())
    quotes = re.findall(r'“([^”]*)”', ' '.join([*LISTED.paper, *LISTED.why]))
    assert len(quotes) > 15 and not [q for q in quotes if q not in text]


# ---- the text
def test_text_is_what_the_page_would_write(page, found):
    sizes = pd.read_csv(page.folder/'tab-proportions.csv', dtype=str)
    text = deviations.text_of(found, sizes, page)
    assert TEXT.read_text() == text, 'run modit run 305_deviations, then commit'


def test_the_answer_of_the_page_has_the_counts(found):
    title = re.sub(r'\s+', ' ', ''.join(json.loads(PAGE.read_text())['cells'][0]['source']))
    counts = TEXT.read_text().split('\n')[2]
    assert counts.startswith(f'{len(found)} things differ.') and counts in title


def test_another_run_leaves_the_text(page, found, monkeypatch):
    monkeypatch.setattr(deviations, 'atomic_write', None)  # would fail if it were called
    deviations.write_text(found, open_page('deviations', profile='smoke'))
    deviations.write_text(found, open_page('deviations', domains=['D1']))
