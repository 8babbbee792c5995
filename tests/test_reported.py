"""The tables in figures/reported are those that were compared with the paper's LaTeX; the page of deviations:
its text is what the page would write, its numbers are read and never typed, its quotes are the paper's.

The LaTeX is not in the repository: MODIT_PAPER names it, else it is sought beside the checkout.
"""
import os
import re
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

from conftest import CONTENTS, ROOT
from modit.repro.pages.page import open_page, page_module
from modit.repro.report.report import read_reported
from modit.repro.verdicts import deviations

REPORTED = ROOT/'figures'/'reported'
PAPER = Path(os.environ.get('MODIT_PAPER') or ROOT.parent/'shared'/'000_1615ec6eb273ec8d.txt')
needs_paper = pytest.mark.skipif(not PAPER.is_file(), reason="no LaTeX here; set MODIT_PAPER to its path")

COMPARED = 'c80ab2b7f8e66834' # digest of the tables when each cell was compared with the LaTeX


# ---- the paper's contents
@needs_paper
@pytest.mark.parametrize('kind', ['Table', 'Figure'])
def test_numbers_are_the_paper_s(kind):
    labels = re.findall(rf'\\label\{{({kind[:3].lower()}:[^}}]*)\}}', PAPER.read_text('utf-8'))
    listed = CONTENTS[CONTENTS.number.str.startswith(kind)]
    assert list(zip(listed.number, listed.label, strict=True)) == [
        (f'{kind} {i}', label) for i, label in enumerate(labels, 1)]


def test_a_table_or_figure_is_of_its_page():
    code = {page: Path(page_module(page).__file__).read_text('utf-8') for page in CONTENTS.page}
    labels = CONTENTS.label.str.replace(':', '-')
    elsewhere = [x for x, page in zip(labels, CONTENTS.page, strict=True) if f"'{x}'" not in code[page]]
    assert not elsewhere, f'figures/reported/contents.csv: the page makes no {elsewhere}'


def test_what_a_claim_rests_on_is_in_the_contents():
    places = {place for places in read_reported('claims').place for place in places.split(', ')}
    assert {place for place in places if ':' in place} <= {*CONTENTS.label}


# ---- no paper needed
def test_the_tables_are_as_they_were_when_they_were_compared():
    text = b''.join(path.read_bytes() for path in sorted(REPORTED.glob('tab-*.csv')))
    assert sha256(text).hexdigest()[:16] == COMPARED, 'compare each cell with the LaTeX; then this digest'


# ---- deviations
TEXT = ROOT/'docs'/'deviations.md'
LISTED = read_reported('deviations')
COLUMNS = ['id', 'group', 'what', 'paper', 'here', 'why', 'pages', 'status']


@pytest.fixture(scope='module')
def page(): return open_page('deviations')


@pytest.fixture(scope='module')
def found(page): return deviations.filled(page.scores(deviations), page)


def test_list_is_whole():
    assert list(LISTED) == COLUMNS and LISTED.id.is_unique and not LISTED.isna().any(axis=None)
    assert set(LISTED.status) == set(deviations.STATUSES)


@pytest.mark.parametrize('row', LISTED.to_dict('records'), ids=lambda row: row['id'])
def test_our_side_has_no_number_that_was_typed(row):
    for column in ('here', 'why'):
        typed = re.sub(r'\{[^}]*\}|\bD\d\b|\b\d{3}_\w+|[Aa]lgorithm \d|“[^”]*”', '', row[column])
        assert not re.search(r'\d', typed), f'{column}: {typed}'


# LaTeX is read without marks of emphasis and mathematics.
MACROS = {r'\shortJoint{}': 'Joint@K', r'\hppo{}': 'HPPO', '~': ' ', '{,}': ',', '$': '', '---': ', '}


@needs_paper
def test_quotes_are_the_papers():
    text = PAPER.read_text('utf-8')
    for a, b in MACROS.items(): text = text.replace(a, b)
    text = re.sub(r'\s+', ' ', re.sub(r'\\(?:emph|textbf|texttt)\{([^}]*)\}', r'\1', text))
    quotes = re.findall(r'“([^”]*)”', ' '.join([*LISTED.paper, *LISTED.why]))
    assert len(quotes) > 15 and not [q for q in quotes if q not in text]


def test_text_is_what_the_page_would_write(page, found):
    sizes = pd.read_csv(page.folder/'tab-proportions.csv', dtype=str)
    text = deviations.text_of(found, sizes, page)
    assert TEXT.read_text('utf-8') == text, 'run modit run 305_deviations, then commit'


def test_another_run_leaves_the_text(page, found, monkeypatch):
    monkeypatch.setattr(deviations, 'atomic_write', None)  # would fail if it were called
    deviations.write_text(found, open_page('deviations', profile='smoke'))
    deviations.write_text(found, open_page('deviations', domains=['D1']))
