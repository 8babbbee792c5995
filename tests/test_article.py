"""The report: its text holds no number, so each was read; its links and pictures are there, and what it says
of the main results is what the scores of single cases say."""
import importlib.util
import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from conftest import ROOT
from modit.repro.datasets.datasets import CLAIMED
from modit.repro.report import article
from modit.repro.report.report import read_cases, with_hppo
from modit.repro.report.verdicts import contrasts
from modit.settings import load_settings

TEXT = (ROOT/'docs'/'article'/'text.md').read_text('utf-8')
BARE = re.sub(r'{%.*?%}|{{.*?}}|`[^`]*`|\]\([^)]*\)', ' ', TEXT, flags=re.S)
# Years, the paper, the level, a volume, a licence; and numbers of sections.
ALLOWED = r'\b(?:19|20)\d\d\b|arXiv:\d+\.\d+|\b95%|ACM 38\(11\)|Apache-2\.0'
SECTION = r'^(?:## )?\d+ (?=[A-Z])'


class Reader(HTMLParser):
    "A page's links and pictures; its tags must be closed."
    def __init__(self, page):
        super().__init__()
        self.open, self.links, self.pictures = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag not in ('img', 'meta', 'br', 'hr'): self.open.append(tag)
        self.links += [v for k, v in attrs if k == 'href']
        self.pictures += [v for k, v in attrs if k == 'src']

    def handle_startendtag(self, tag, attrs): self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag): assert self.open.pop() == tag


@pytest.fixture(scope='module')
def built():
    "The page's text, and the page as it was read."
    text = article.fill()
    return text, Reader(article.as_page(text))


# ---- numbers
def test_the_text_holds_no_number():
    assert re.findall(r'\S*\d\S*', re.sub(f'{ALLOWED}|{SECTION}', '', BARE, flags=re.M)) == []


def gains(profile, *pairs):
    "Differences of Joint, from the scores of single cases."
    folder, s = ROOT/'figures'/profile, load_settings(profile)
    scores = {name: read_cases(folder, name) for name in ('main', 'validation', 'own_direction')}
    both = [with_hppo(scores['main'], scores['validation']), scores['own_direction']]
    return contrasts(pd.concat(both, ignore_index=True), pairs, s)


def points(rows): return f'{100*rows.estimate.min():+.1f} to {100*rows.estimate.max():+.1f}'.replace('-', '−')
def counts(rows): return f'{(rows.verdict == "for").sum() or "none"} of {len(rows)} cells'


def test_the_main_results_are_those_of_the_cases(built):
    text = re.sub(r'\ball (\d+) cells', r'\1 of \1 cells', built[0])
    stages, taught = gains('mini', ('sft', 'average')), gains('mini', ('hppo', 'sft'))
    moved, *public = (gains(profile, ('average_own', 'hppo')) for profile in ('mini', *CLAIMED))
    public = pd.concat(public)
    item, new = (taught[taught.split == split] for split in ('item', 'pattern'))
    counted = stages, item, new, moved, public[public.split == 'pattern']
    said = [*map(counts, counted), *map(points, (stages, item, new))]
    assert not [words for words in said if words not in text]


def test_the_paper_s_results_are_the_paper_s(built):
    rows = pd.read_csv(ROOT/'figures'/'reported'/'tab-main.csv')
    joint = rows.set_index(['method', 'split', 'domain']).joint
    item, new = (100*(joint['hppo'][split] - joint['sft'][split]) for split in ('item', 'pattern'))
    spans = [f'{v.min():+.1f} to {v.max():+.1f}' for v in (item, new)]
    assert ' and '.join(spans) in built[0]


# ---- what it must hold
def test_every_claim_stands_in_it_with_its_word_and_its_page(built):
    for r in pd.read_csv(ROOT/'figures'/'mini'/'claims.csv').itertuples():
        rows = [line for line in built[0].splitlines() if line.startswith(f'| {r.id} ')]
        (row,) = [line for line in rows if r.statement in line]
        assert row.rstrip(' |').endswith(r.page) and r.verdict.removesuffix(' at this scale') in row


def test_links_and_pictures_are_there(built):
    page = built[1]
    assert page.open == [] and page.links and all(x.startswith('https://') for x in page.links)
    assert len(page.pictures) >= 4 and all((ROOT/'docs'/x).stat().st_size > 1000 for x in page.pictures)


def test_values_may_hold_any_sign():
    signs = 'a # b $ c_d "e" <f> @g [h] ~ // = i'
    strings = re.findall(r'#("(?:\\.|[^"\\])*");', article.as_form(signs, article.Print()))
    assert ''.join(map(json.loads, strings)) == signs


def test_the_committed_pdf_is_a_fresh_one(built):
    if not importlib.util.find_spec('typst'): pytest.skip('the PDF needs typst; make report installs it')
    fresh = article.as_pdf(built[0])
    assert (ROOT/'docs'/'report.pdf').read_bytes() == fresh, 'run make report, then commit docs/report.pdf'


def test_the_committed_page_is_a_fresh_one(built):
    committed = (ROOT/'docs'/'report.html').read_text('utf-8')
    assert committed == article.as_page(built[0]), 'run make report, then commit docs/report.html'


def test_the_title_is_what_the_cells_say():
    cells = pd.read_csv(ROOT/'figures'/'mini'/'claim-cells.csv')
    assert (cells.verdict[cells.id == 'C09'] == 'for').all(), 'ascending order against the two others'
    on_items = cells.query('id == "B30" and split == "item"').verdict
    assert (on_items == 'for').all(), 'the same labels used item by item against preference pairs'


def test_without_typst_there_is_no_pdf(built, monkeypatch):
    monkeypatch.setattr(article.importlib.util, 'find_spec', lambda name: None)
    assert article.as_pdf(built[0]) is None
