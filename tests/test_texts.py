"""Links lead somewhere on a code host too, the README and the paper's map are written from committed scores,
and every page is listed."""
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from conftest import EXPERIMENTS, LABELS, LIBRARY, ROOT, tracked_files
from modit.repro.ours import lists
from modit.repro.paper.drawings import METHODS, joint_of_cases, nearest_case
from modit.repro.pages.page import COMMITTED, open_page
from modit.repro.report import article, front
from modit.repro.report.report import read_cases, written_table
from style import cells
from test_figures import faults_of

sys.path.insert(0, str(ROOT/'docs'))
from paper import paper_map  # noqa: E402

README = (ROOT/'README.md').read_text('utf-8')
TEXTS = [p for p in tracked_files() if p.suffix == '.md' and not p.match('docs/article/*')]
TEXTS = [ROOT/p for p in TEXTS if p.parts[0] not in ('.github', 'modit')] + [ROOT/'llms.txt']


# ---- links
def links_of(path):
    "What a file links to in the repository; code and mathematics hold no links."
    text = '\n\n'.join(cells(path, 'markdown')) if path.suffix == '.ipynb' else path.read_text('utf-8')
    text = re.sub(r'```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$', '', text, flags=re.S)
    found = re.findall(r'\]\(([^)\s]+)', text) + re.findall(r'(?:href|src)="([^"]+)"', text)
    return [link for link in found if not re.match(r'\w+:', link)]


def anchors(path):
    "The headings of a text, as a code host names them."
    text = re.sub('```.*?```', '', path.read_text('utf-8'), flags=re.S)
    headings = re.findall(r'^#+ +(.+?) *$', text, re.M)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


def leads_nowhere(path, link):
    "Whether a link of a file names no file of the repository, or no heading of it."
    name, _, anchor = link.partition('#')
    target = (path.parent/name).resolve() if name else path
    if name[:1] == '/' or not target.exists() or not target.is_relative_to(ROOT): return True
    return bool(anchor) and target.suffix == '.md' and anchor not in anchors(target)


@pytest.mark.parametrize('path', [*TEXTS, *LIBRARY, *EXPERIMENTS], ids=lambda p: str(p.relative_to(ROOT)))
def test_links_work_on_a_code_host(path):
    faulty = [link for link in links_of(path) if leads_nowhere(path, link)]
    assert not faulty, f'{path.name}: no file of the repository: {faulty}'


# ---- what is written from scores
@pytest.fixture(scope='module')
def fresh():
    "The README as it would be written now, and the tables that it and the report are written from."
    read, paths = pd.read_csv, set()
    def noted(path, *words, **more):
        paths.add(Path(path))
        return read(path, *words, **more)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(pd, 'read_csv', noted)
        text = front.readme()
        article.fill()
    return text, {p.relative_to(ROOT) for p in paths if p.name.startswith('tab-')}


def test_the_readme_is_its_template_with_numbers(fresh):
    assert fresh[0] == README, 'run python -m modit.repro.report.front'


def test_the_map_of_the_paper_is_that_of_the_results():
    assert (ROOT/'docs'/'paper.md').read_text('utf-8') == paper_map(), 'run python docs/paper.py'


def test_the_tables_that_are_read_are_committed(fresh):
    "git ignores the other tables; a clone has them after `modit figures`."
    committed = {p for p in tracked_files() if p.match('figures/*/tab-*.csv')}
    pages = '\n'.join(x for p in (*LIBRARY, *EXPERIMENTS) for x in cells(p, 'code'))
    named = {*re.findall(r"/'(tab-[\w-]+\.csv)'", pages)}
    assert len(fresh[1]) > 15 and fresh[1] <= committed, 'name them in .gitignore'
    assert named and named <= {p.name for p in committed}, 'name them in .gitignore'


def test_the_drawn_case_is_that_of_the_main_table():
    p = open_page('470_drawings', profile='mini')
    points = pd.read_csv(p.folder/'cases'/'drawings.csv.gz')
    joint = joint_of_cases(p.read_other('main'), p.read_other('validation'), p)
    row = joint.xs(nearest_case(joint), level='case').iloc[0]
    found = points[points.kind.isin(METHODS)].set_index('kind').value
    assert found[list(METHODS)].tolist() == row.tolist(), 'run 470_drawings with the main table\'s models'


def test_every_page_of_the_library_is_listed():
    listed = (ROOT/'nbs'/'README.md').read_text('utf-8')
    assert not [p.stem for p in LIBRARY if f']({p.relative_to(ROOT/"nbs").as_posix()})' not in listed]


def test_the_list_of_experiments_has_their_questions():
    listed = (ROOT/'nbs'/'repro'/'README.md').read_text('utf-8')
    for page in EXPERIMENTS:
        title = cells(page, 'markdown')[0].partition('\n')[0].lstrip('# ')
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
    pages = [(ROOT/p).read_text('utf-8') for p in own if p.suffix == '.md']
    tables = [x for page in pages for x in re.findall(r'^## (\S+)$', page, re.M)]
    drawn = {*tables} | ({'tab-data'} if profile != 'mini' else set()) # of real data, git has only its csv
    assert len(tables) == len({*tables}) and {p.stem for p in own if p.match('tab-*.csv')} <= drawn


def test_the_picture_of_real_lists_can_be_read(): # profile mini has none
    p = open_page('lists', profile='public')
    scores = {name: read_cases(p.folder, name) for name in (*lists.READS, *lists.SCORES)}
    assert not faults_of(lists.plot(scores, p)['fig-found'])
