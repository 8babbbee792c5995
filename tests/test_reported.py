"""The tables in figures/reported against the paper's LaTeX and each other; the page of deviations:
its text is what the page would write, its numbers are read and never typed, its quotes are the paper's.

The LaTeX is not in the repository: MODIT_PAPER names it, else it is sought beside the checkout.
"""
import csv
import os
import re
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from string import Formatter

import pandas as pd
import pytest

from conftest import CONTENTS, ROOT
from modit.repro.pages.page import open_page, page_module
from modit.repro.report.report import read_reported
from modit.repro.verdicts import deviations
from modit.settings import load_settings

REPORTED = ROOT/'figures'/'reported'
PAPER = Path(os.environ.get('MODIT_PAPER') or ROOT.parent/'shared'/'000_1615ec6eb273ec8d.txt')
ABSENT = "the paper's LaTeX is not here; set MODIT_PAPER to its path"
needs_paper = pytest.mark.skipif(not PAPER.is_file(), reason=ABSENT)

COMPARED = 'c80ab2b7f8e66834' # digest of the tables
APPENDIX = {'tab:appdc': 'D1', 'tab:appdp': 'D2', 'tab:appdu': 'D3', 'tab:appdb': 'D4'}
PERCENT = {'attr', 'same', 'joint', 'cond', 'joint_low', 'joint_high', 'top10', 'bottom10', 'normal'}
KEYS = {'domain', 'split', 'pool', 'schedule', 'hyperparameter', 'value'}  # identify a line of a wide table
VALUES = PERCENT | {'auc', 'auc2080', 'spearman', 'lift', 'train', 'eval_item', 'eval_pattern',
                    'heldout_clusters', 'clusters'}

# What the paper prints -> what the project calls it, where that is not the same word in lower case.
NAMES = {
    'Eval': 'split', 'Dom.': 'domain', 'Dom': 'domain', 'Model': 'method', 'Pat.': 'pattern',
    'Avg.': 'average', 'Pre. GR': 'pretrained', 'Pre.': 'pretrained',
    r'\modit{}': 'sft', r'\modit{} (SFT)': 'sft',
    r'\hppo{}': 'hppo', 'Off-policy': 'off_policy', 'Off-pol.': 'off_policy', 'Hyb-adapt.': 'adaptive',
    'Hyb-pareto': 'pareto', r'Pareto-$\varepsilon$': 'pareto_eps', 'Desc.': 'descending', 'Rand.': 'random',
    'Asc.': 'ascending', 'Seed 1': 'seed1', 'Seed 2': 'seed2', 'Seed 3': 'seed3', 'SFT-oracle': 'sft_oracle',
    r'\hppo{}-single': 'hppo_single', r'\hppo{}-oracle': 'hppo_oracle', 'SFT static-or': 'sft_static_oracle',
    'SFT 8-or': 'sft_oracle', 'HPPO single': 'hppo_single', 'HPPO static-or': 'hppo_static_oracle',
    'HPPO gr-or': 'hppo_policy_oracle', 'HPPO 8-or': 'hppo_oracle',
    'target centroid': 'target_centroid', 'target top-1': 'target_top1', 'target top-5': 'target_top5',
    'Static-only (4 tail centroids)': 'static', 'Policy-only (4 fan samples)': 'policy',
    'Hybrid (static $+$ policy)': 'hybrid', 'Candidate pool': 'pool',
    r'Schedule (rounds$\times$steps)': 'schedule',
    r'Margin $\delta$': 'margin', r'Temperature $\beta$': 'beta',
    'Eval-I': 'eval_item', 'Eval-P': 'eval_pattern',
    'AUC20/80': 'auc2080', 'Top10 (%)': 'top10', 'Bottom10 (%)': 'bottom10', '--': '',
}


# ---- the CSV side
def rows(label):
    path = REPORTED/f'{label.replace(":", "-")}.csv'
    with open(path, newline='', encoding='utf-8') as f: return list(csv.DictReader(f))


def as_printed(name, text):
    "A cell in the paper's notation: shifting the point keeps every digit."
    return format(Decimal(text).scaleb(2), 'f') if name in PERCENT and text else text


def by_key(records):
    "Records by the columns that identify them; a repeated row fails."
    table = {frozenset((k, v) for k, v in r.items() if k not in VALUES): r for r in records}
    assert len(table) == len(records), 'a row is there twice'
    return table


# ---- the LaTeX side
def clean(cell):
    cell = re.sub(r'\\textbf\{([^}]*)\}', r'\1', cell.strip()).replace(r'\%', '%').replace(r'\ ', ' ')
    return NAMES.get(cell, cell.lower() if cell.isalpha() else cell)


def grid(label):
    "The cells of one tabular, in the project's names, header first."
    body = PAPER.read_text('utf-8').split(rf'\label{{{label}}}')[1].split(r'\begin{tabular}')[1]
    body = body.split(r'\end{tabular}')[0].split('\n', 1)[1].replace(r'\hline', '')
    return [[clean(c) for c in line.split('&')] for line in body.split(r'\\') if '&' in line]


def records(label):
    header, *lines = grid(label)
    return [dict(zip(header, line, strict=True)) for line in lines]


def wide(label):
    "One joint a column: of a method, or, where no domain is named, of a split."
    table = records(label)
    name = 'method' if 'domain' in table[0] else 'split'
    out = []
    for r in table:
        keys = {k: r[k] for k in KEYS & r.keys()}
        out += [{**keys, name: c, 'joint': v} for c, v in r.items() if c not in KEYS]
    return out


def rollout(label):
    out = []
    for r in wide(label):
        rounds, steps = re.findall(r'\d+', r['schedule'])
        out.append(dict(rounds=rounds, steps=steps, split=r['split'], joint=r['joint']))
    return out


def hyperparameters(label):
    out, name = wide(label), ''  # named once, in the first of its lines
    for r in out:
        name = r['hyperparameter'] = r['hyperparameter'] or name
        r['value'] = r['value'].removesuffix(' (default)')
    return out


def main_table(label):
    "Two domains side by side, named in a row of their own."
    header, *lines = grid(label)
    out, domains = [], []
    for line in lines:
        if len(line) == 2:
            domains = re.findall(r'D\d', ' '.join(line))
        else:
            out += [{'domain': domain, **dict(zip(header[half], line[half], strict=True))}
                    for domain, half in zip(domains, (slice(0, 7), slice(7, 14)), strict=True)]
    return out


def appendix(label):
    "The joint cell holds its interval: 8.29$_{[7.30,9.30]}$."
    out = records(label)
    for r in out:
        joint, low, high = re.fullmatch(r'([\d.]+)(?:\$_\{\[([\d.]+),([\d.]+)\]\}\$)?', r['joint']).groups()
        r.update(domain=APPENDIX[label], joint=joint, joint_low=low or '', joint_high=high or '')
    return out


def data(label):
    out = records(label)
    for r in out:
        for k in ('train', 'eval_item', 'eval_pattern'):
            r[k] = str(int(Decimal(r[k][:-1]) * {'K': 10**3, 'M': 10**6}[r[k][-1]]))
        r['heldout_clusters'], r['clusters'] = r['clusters'].split('/')
        r['normal'] = r['normal'].rstrip('%')
    return out


def full_protocol(label):
    "tab:apporig names the domain in the first cell; tab:appbfs is all D4."
    out = records(label)
    for r in out:
        domain, method = re.fullmatch(r'(?:(D\d) )?(.*)', r['method']).groups()
        r.update(domain=domain or 'D4', method=clean(method))
    return out


WIDE = ['tab:seed', 'tab:progress', 'tab:order', 'tab:hppo-abl', 'tab:cand', 'tab:bon', 'tab:appbon']
READERS = {
    'tab:data': data, 'tab:main': main_table, 'tab:density': records, **dict.fromkeys(WIDE, wide),
    'tab:rollout': rollout, 'tab:hparam': hyperparameters, **dict.fromkeys(APPENDIX, appendix),
    'tab:apporig': full_protocol, 'tab:appbfs': full_protocol,
}


@needs_paper
@pytest.mark.parametrize('label', READERS)
def test_every_cell_is_the_papers(label):
    typed = [{k: as_printed(k, v) for k, v in r.items()} for r in rows(label)]
    assert by_key(typed) == by_key(READERS[label](label))


# ---- the paper's contents
@needs_paper
@pytest.mark.parametrize('kind', ['Table', 'Figure'])
def test_numbers_are_the_paper_s(kind):
    labels = re.findall(rf'\\label\{{({kind[:3].lower()}:[^}}]*)\}}', PAPER.read_text('utf-8'))
    listed = CONTENTS[CONTENTS.number.str.startswith(kind)]
    assert list(zip(listed.number, listed.label, strict=True)) == [
        (f'{kind} {i}', label) for i, label in enumerate(labels, 1)]


def test_every_table_has_a_reader():
    assert {label for label in CONTENTS.label if label[:3] == 'tab'} == set(READERS)


def test_a_table_or_figure_is_of_its_page():
    code = {page: Path(page_module(page).__file__).read_text('utf-8') for page in CONTENTS.page}
    labels = CONTENTS.label.str.replace(':', '-')
    elsewhere = [x for x, page in zip(labels, CONTENTS.page, strict=True) if f"'{x}'" not in code[page]]
    assert not elsewhere, f'figures/reported/contents.csv: the page makes no {elsewhere}'


def test_what_a_claim_rests_on_is_in_the_contents():
    places = {place for r in rows('claims') for place in r['place'].split(', ')}
    assert {place for place in places if ':' in place} <= {*CONTENTS.label}


# ---- no paper needed
def test_the_tables_are_as_they_were_when_they_were_compared():
    text = b''.join(path.read_bytes() for path in sorted(REPORTED.glob('tab-*.csv')))
    assert sha256(text).hexdigest()[:16] == COMPARED, 'compare with the LaTeX (MODIT_PAPER); then its digest'


def test_claim_ids():
    found = [r['id'] for r in rows('claims')]
    theirs, ours = [x for x in found if x[0] == 'C'], [x for x in found if x[0] == 'B']
    assert found == theirs + ours and theirs == sorted(set(theirs))
    assert sorted({x[:3] for x in theirs}) == [f'C{i:02}' for i in range(1, 34)]
    assert ours == sorted(set(ours)), 'our own claims are numbered upwards, each once'
    assert all(r['place'] and r['statement'] for r in rows('claims'))


# ---- deviations
TEXT = ROOT/'docs'/'deviations.md'
LISTED = read_reported('deviations')
COLUMNS = ['id', 'group', 'what', 'paper', 'here', 'why', 'pages', 'status']
every_row = pytest.mark.parametrize('row', LISTED.to_dict('records'), ids=lambda row: row['id'])


@pytest.fixture(scope='module')
def page(): return open_page('deviations')


@pytest.fixture(scope='module')
def scores(page): return page.scores(deviations)


@pytest.fixture(scope='module')
def found(page, scores): return deviations.filled(scores, page)


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


MACROS = {r'\shortJoint{}': 'Joint@K', r'\hppo{}': 'HPPO', '~': ' ', '{,}': ',', '$': '', '---': ', '}


def plain(text):
    "LaTeX as it is read: without marks of emphasis and mathematics."
    for a, b in MACROS.items(): text = text.replace(a, b)
    return re.sub(r'\s+', ' ', re.sub(r'\\(?:emph|textbf|texttt)\{([^}]*)\}', r'\1', text))


@needs_paper
def test_quotes_are_the_papers():
    text = plain(PAPER.read_text('utf-8'))
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
