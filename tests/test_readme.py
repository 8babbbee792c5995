"""The README: it is its text, filled from the committed scores; some numbers are computed here once more; the
pages are listed."""
import json
import re

import pandas as pd
import pytest

from conftest import LABELS, LIBRARY, EXPERIMENTS, ROOT
from modit.repro.pages.page import COMMITTED
from modit.repro.report import front
from modit.serving.lists import aligned

README = (ROOT/'README.md').read_text()
TEXT = (ROOT/'docs'/'article'/'readme.md').read_text()


# ---- numbers
def test_the_readme_is_its_text_with_numbers():
    assert front.readme() == README, 'run python -m modit.repro.report.front'


NAMES = (r'arXiv \d+\.\d+|Table 2|Python 3\.\d+|Apache-2\.0|\(0, 1 or a score\)|\bD[1-4]\b'
         r'|50,000 labelled cases|\b\d+ (?:to \d+ )?(?:hours?|minutes?|seconds?|GB)\b')


def test_no_number_is_typed():
    text = re.sub(r'^```.*?^```', '', TEXT, flags=re.M | re.S)
    text = re.sub(r'{%.*?%}|{{.*?}}|`[^`]*`|\]\([^)]*\)', ' ', text, flags=re.S)
    assert re.findall(r'\S*\d\S*', re.sub(NAMES, '', text)) == []


def joint(profile, *names):
    "Mean Joint in percent, from the files of scores alone: (domain, split, method)."
    rows = pd.concat(pd.read_csv(ROOT/'figures'/profile/'cases'/f'{name}.csv.gz') for name in names)
    return 100*rows.groupby(['domain', 'split', 'method']).joint.mean()


def spread(values): return f'{min(values):.1f} to {max(values):.1f}'


def test_differences_are_those_of_the_scores():
    flat = ' '.join(README.split())
    found = joint('mini', 'main', 'order').unstack()
    assert f'{spread(found.sft/found.average)} times' in flat
    assert f'{spread(found.ascending - found.random)} points' in flat


@pytest.mark.parametrize('words, method, files', [
    ('average', 'average', ['main']), ('steered average', 'average_own', ['own_direction']),
    ('direct rewards', 'alone', ['rule']), ('filter', 'filtered', ['baselines'])])
def test_a_row_of_the_table_is_that_of_the_scores(words, method, files):
    line, = [x for x in README.splitlines() if x.startswith(f'| {words} |')]
    found = pd.concat(joint(profile, *files) for profile in ('public', 'icons', 'tree'))
    domains = ['tweets-positive', 'wordnet-freq', 'wordnet-verb', 'icons', 'wordnet-tree']
    means = [found[name, split, method] for split in ('pattern', 'item') for name in domains]
    assert [int(x.strip(' *')) for x in line.strip('| ').split('|')[1:]] == [round(x) for x in means]


def test_a_sentence_that_no_longer_holds_stops_the_text():
    with pytest.raises(ValueError, match='no longer holds'): front.holds(False)


# ---- tables, pages, code


def test_what_a_command_prints_is_what_its_page_printed():
    page = json.loads((ROOT/'nbs'/'serving'/'280_tutorial.ipynb').read_text())
    [outputs] = [c['outputs'] for c in page['cells'] if c['id'] == 'c014b']
    [shown] = re.findall(r'^```text\n(.*?)\n```', README, re.M | re.S)
    assert shown == aligned(''.join(outputs[0]['text']).strip()).strip()


def test_shares_of_molecules_are_those_of_the_scores():
    cases = pd.read_csv(ROOT/'figures'/'molecules'/'cases'/'budget.csv.gz')
    for method, budget in {'average': 0, 'tested_10': 100, 'feedback_10': 300}.items():
        rows = cases[(cases.method == method) & (cases.budget == budget)]
        means = 100*rows.groupby(['domain', 'split']).joint.mean()
        assert f'{min(means):.0f} to {max(means):.0f}' in README


LISTS = {'library': (LIBRARY, 'nbs/README.md'), 'experiments': (EXPERIMENTS, 'nbs/repro/README.md')}


@pytest.mark.parametrize('pages, text', LISTS.values(), ids=LISTS)
def test_every_page_is_listed_in_its_folder(pages, text):
    listed = (ROOT/text).read_text()
    folder = (ROOT/text).parent
    assert not [p.stem for p in pages if f']({p.relative_to(folder).as_posix()})' not in listed]


def test_the_list_of_experiments_has_their_questions():
    listed = (ROOT/'nbs'/'repro'/'README.md').read_text()
    for page in EXPERIMENTS:
        [title, *_] = ''.join(json.loads(page.read_text())['cells'][0]['source']).splitlines()
        title = title.lstrip('# ')
        assert f'({page.parent.name}/{page.name}) | {title} |' in listed, f'{page.stem} asks "{title}"'


def test_every_artefact_of_the_paper_is_committed():
    numbers = {p.stem for p in (ROOT/'figures'/'reported').glob('tab-*.csv')}
    assert {label for label in LABELS if label.startswith('tab')} == numbers
    for label in LABELS:
        assert [*(ROOT/'figures'/'mini').glob(f'{label}.*')], f'figures/mini holds no {label}'


@pytest.mark.parametrize('profile', COMMITTED)
def test_every_table_is_in_the_results_of_one_page(profile):
    folder = ROOT/'figures'/profile
    tables = [x for page in folder.glob('*.md') for x in re.findall(r'^## (\S+)$', page.read_text(), re.M)]
    assert len(tables) == len({*tables}) and {p.stem for p in folder.glob('tab-*.csv')} <= {*tables}
