"""README and tour: links lead somewhere on a code host too, the texts are their templates filled from
committed scores, and every page is listed."""
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from conftest import EXPERIMENTS, LABELS, LIBRARY, ROOT, tracked_files
from modit.repro.paper.drawings import METHODS, joint_of_cases, nearest_case
from modit.repro.pages.page import COMMITTED, open_page
from modit.repro.report import article, front
from modit.repro.report.report import written_table
from modit.serving.lists import aligned

sys.path.insert(0, str(ROOT/'docs'))
from docments import read_notebook, text_of  # noqa: E402
from pictures import PICTURES, stored_picture  # noqa: E402
from stage import CODE, MATH, Stage, settle_links  # noqa: E402

TOUR = (ROOT/'docs'/'tour.md').read_text()
README = (ROOT/'README.md').read_text()
TEXT = (ROOT/'docs'/'article'/'readme.md').read_text()
FOLDERS = ('.', 'bench', 'docs', 'docs/log', 'nbs', 'nbs/repro', 'figures', 'figures/reported', 'data_synth',
           'data_public')
TEXTS = [path for folder in FOLDERS for path in sorted((ROOT/folder).glob('*.md'))]
TEXTS += [ROOT/p for p in tracked_files() if p.match('figures/*/*.md') and ROOT/p not in TEXTS]


# ---- links
def prose_of(path):
    "A text, or a notebook's cells of prose; code and mathematics hold no links."
    if path.suffix == '.md': text = path.read_text()
    else: text = '\n\n'.join(text_of(c) for c in read_notebook(path).cells if c['cell_type'] == 'markdown')
    return re.sub(f'{CODE}|{MATH}', '', text, flags=re.S)


def links_of(path):
    "What a file links to in the repository."
    text = prose_of(path)
    found = re.findall(r'\]\(([^)\s]+)', text) + re.findall(r'(?:href|src)="([^"]+)"', text)
    return [link for link in found if not re.match(r'\w+:', link)]


def anchors(path):
    "The headings of a text, as a code host names them."
    text = re.sub('```.*?```', '', path.read_text(), flags=re.S)
    headings = re.findall(r'^#+ +(.+?) *$', text, re.M)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


def leads_nowhere(path, link):
    "Whether a link of a file names no file of the repository, or no heading of it."
    name, _, anchor = link.partition('#')
    target = (path.parent/name).resolve() if name else path
    if name[:1] == '/' or not target.exists() or not target.is_relative_to(ROOT): return True
    return bool(anchor) and target.suffix == '.md' and anchor not in anchors(target)


def test_links_that_lead_nowhere_are_found():
    tour = ROOT/'docs'/'tour.md'
    assert not leads_nowhere(tour, '../README.md') and not leads_nowhere(tour, 'scaling.md')
    faulty = ('/README.md', '/api/index.md', '../method.md', '../README.md#no-such-heading')
    assert all(leads_nowhere(tour, link) for link in faulty)


@pytest.mark.parametrize('path', [*TEXTS, *LIBRARY, *EXPERIMENTS], ids=lambda p: str(p.relative_to(ROOT)))
def test_links_work_on_a_code_host(path):
    faulty = [link for link in links_of(path) if leads_nowhere(path, link)]
    assert not faulty, f'{path.name}: no file of the repository: {faulty}'


# ---- the front page of the site
def test_what_a_text_links_to_is_laid_out(tmp_path):
    texts = {'nbs/README.md': 'method.md'}
    def settled(text): return settle_links(Stage(tmp_path), text, 'docs/tour.md', texts)
    assert settled('[a](../nbs/README.md) [b](../nbs)') == '[a](/method.md) [b](/method.md)'
    assert settled('[a](../nbs/050_metrics.ipynb#x)') == '[a](/nbs/050_metrics.ipynb#x)'
    assert settled('![a](../figures/mini/fig-task.png)') == '![a](/figures/mini/fig-task.svg)'
    assert settled('[a](../figures/mini/main.md#tab-main)') == '[a](/figures/mini/main.md#tab-main)'
    laid = {path.name: path for path in tmp_path.rglob('*.*')}
    results = laid['main.md'].read_text()
    assert 'orphan: true' in results, 'results are a page that no contents name'
    assert '](/nbs/repro/paper/320_main.ipynb)' in results
    named = {Path(name).name for name in re.findall(r'figures/mini/(\S+)\)', results)}
    assert set(laid) == {'fig-task.svg', 'main.md', *named}, 'with what its own links lead to'


# ---- the tour's pictures, table and numbers
def test_pictures_of_pages_are_those_that_the_pages_show():
    for name, source in PICTURES.items():
        assert (ROOT/'docs'/name).read_bytes() == stored_picture(*source), 'run python docs/pictures.py'
        assert f']({name})' in TOUR


@pytest.fixture(scope='module')
def fresh():
    "Tour and README as they would be written now, and the tables that they and the report are written from."
    read, paths = pd.read_csv, set()
    def noted(path, *words, **more):
        paths.add(Path(path))
        return read(path, *words, **more)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(pd, 'read_csv', noted)
        texts = front.tour(), front.readme()
        article.fill()
    return texts, {p.relative_to(ROOT) for p in paths if p.name.startswith('tab-')}


def test_texts_are_their_templates_with_numbers(fresh):
    assert fresh[0] == (TOUR, README), 'run python -m modit.repro.report.front'


def test_the_tables_that_are_read_are_committed(fresh):
    "git ignores the other tables; a clone has them after `modit figures`."
    committed = {p for p in tracked_files() if p.match('figures/*/tab-*.csv')}
    pages = '\n'.join(text_of(c) for p in (*LIBRARY, *EXPERIMENTS) for c in read_notebook(p).cells)
    named = {*re.findall(r"/'(tab-[\w-]+\.csv)'", pages)}
    assert len(fresh[1]) > 20 and fresh[1] <= committed, 'name them in .gitignore'
    assert named and named <= {p.name for p in committed}, 'name them in .gitignore'


@pytest.fixture(scope='module')
def drawn():
    "The points of page drawings, and the cases that it chooses from."
    p = open_page('470_drawings', profile='mini')
    points = pd.read_csv(p.folder/'cases'/'drawings.csv.gz')
    return p, points, joint_of_cases(p.read_other('main'), p.read_other('validation'), p)


def test_the_drawn_case_is_that_of_the_main_table(drawn):
    p, points, joint = drawn
    row = joint.xs(nearest_case(joint), level='case').iloc[0]
    found = points[points.kind.isin(METHODS)].set_index('kind').value
    assert found[list(METHODS)].tolist() == row.tolist(), 'run 470_drawings with the main table\'s models'


def test_page_470_says_what_it_draws(drawn):
    p, points, joint = drawn
    text = prose_of(next(page for page in EXPERIMENTS if page.stem == '470_drawings'))
    queries = points[points.kind.isin(METHODS)].set_index('kind').loc[list(METHODS)]
    found, others = ((p.s.k*x).round().astype(int) for x in (queries.value, queries.y2 - queries.value))
    assert others['average'] == others['hppo']
    pairs = points[points.figure == 'hppo']
    removed = pairs[pairs.kind == 'removed']
    shares = [f'{100*x:.0f}%' for x in (*queries.value, *queries.x2)]
    means = [f'{100*x:.1f}%' for x in joint.mean()]
    counts = [*found, *others, len(joint), (removed.x >= .95).sum(), f'{len(removed)} of {len(pairs)}',
              f'{100*(removed.x - removed.x2).max():.0f} points']
    said = [x for x in map(str, (*shares, *means, *counts)) if not re.search(rf'(?<![\d.]){x}', text)]
    assert not said, f'computed, and not in the text: {said}'


# ---- the README: some numbers are computed here once more
NAMES = (r'arXiv \d+\.\d+|Table 2|Python 3\.\d+|Apache-2\.0|\(0, 1 or a score\)|\bD[1-4]\b'
         r'|50,000 labelled cases|\b\d+ (?:to \d+ )?(?:hours?|minutes?|seconds?|GB)\b')


def test_no_number_is_typed():
    text = re.sub(r'^```.*?^```', '', TEXT, flags=re.M | re.S)
    text = re.sub(r'{%.*?%}|{{.*?}}|`[^`]*`|\]\([^)]*\)', ' ', text, flags=re.S)
    assert re.findall(r'\S*\d\S*', re.sub(NAMES, '', text)) == []


def joint(profile, *names):
    "Mean Joint in percent, from the files of scores alone: (domain, split, method)."
    rows = pd.concat(pd.read_csv(ROOT/'figures'/profile/'cases'/f'{name}.csv.gz') for name in names)
    if 'of' in rows: rows = rows[rows.of != 'new'] # lists without what training knew
    return 100*rows.groupby(['domain', 'split', 'method']).joint.mean()


def spread(values): return f'{min(values):.1f} to {max(values):.1f}'


def test_differences_are_those_of_the_scores():
    flat = ' '.join(README.split())
    found = joint('mini', 'main', 'order').unstack()
    assert f'{spread(found.sft/found.average)} times' in flat
    assert f'{spread(found.ascending - found.random)} points' in flat


@pytest.mark.parametrize('words, method, files', [
    ('average', 'average', ['main']), ('steered average', 'average_own', ['own_direction']),
    ('direct rewards', 'places_alone', ['both']), ('filter', 'filtered', ['baselines'])])
def test_a_row_of_the_table_is_that_of_the_scores(words, method, files):
    line, = [x for x in README.splitlines() if x.startswith(f'| {words} |')]
    found = pd.concat(joint(profile, *files) for profile in ('public', 'icons', 'tree'))
    domains = ['tweets-positive', 'wordnet-freq', 'wordnet-verb', 'icons', 'wordnet-tree']
    means = [found[name, split, method] for split in ('pattern', 'item') for name in domains]
    assert [int(x.strip(' *')) for x in line.strip('| ').split('|')[1:]] == [round(x) for x in means]


def test_a_sentence_that_no_longer_holds_stops_the_text():
    with pytest.raises(ValueError, match='no longer holds'): front.holds(False)


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
        if label.startswith('tab'): assert written_table(ROOT/'figures'/'mini', label)
        else: assert (ROOT/'figures'/'mini'/f'{label}.svg').exists(), f'figures/mini holds no {label}'


@pytest.mark.parametrize('profile', COMMITTED)
def test_every_table_is_in_the_results_of_one_page(profile):
    folder = ROOT/'figures'/profile
    own = [p for p in tracked_files() if ROOT/p.parent == folder] # an earlier run may have left others
    pages = [(ROOT/p).read_text() for p in own if p.suffix == '.md']
    tables = [x for page in pages for x in re.findall(r'^## (\S+)$', page, re.M)]
    drawn = {*tables} | ({'tab-data'} if profile != 'mini' else set()) # of real data, git has only its csv
    assert len(tables) == len({*tables}) and {p.stem for p in own if p.match('tab-*.csv')} <= drawn
