"""How the pages read: every page keeps the rules of style.py, and what needs more than the page's file."""
import re
import statistics
import subprocess
import sys
from unittest.mock import patch

import pandas as pd
import pytest
import style
from papermill import inspect_notebook
from style import cells, code_lines, exported, outputs_of

from conftest import EXPERIMENTS, LIBRARY, PAGES, ROOT
from modit.repro.report.looks import METHODS, add_looks
from modit.repro.pages.notebooks import notebook_parameters, page_constant
from modit.repro.pages.page import LEDGER

every_experiment = pytest.mark.parametrize('page', EXPERIMENTS, ids=lambda p: p.stem)

# The first parameters of every experiment, in this order; None may stand for the profile's own value.
PARAMETERS = dict(profile='str', fresh='bool', domains='list[str]', splits='list[str]',
                  seed='int', cases='int', overrides='dict')


@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.stem)
def test_page_keeps_the_rules(page):
    found = style.faults(page)
    assert not found, '\n'.join(found)


@pytest.mark.parametrize('text, found', [
    ('Intel(R) Xeon(R) Processor', 1), (f'{ROOT}/figures', 1), ('see /home/me/runs', 1), ('done in 12 s', 1),
    ('16 cores, 80 GiB', 2), ('Python 3.12.3', 1), ('the second world; done in ... s; a/work/b', 0)])
def test_a_fact_of_a_machine_is_found(text, found):
    with patch.object(style, 'stored_texts', lambda page: [('', text)]):
        assert len(style.stores_nothing_of_the_machine(LIBRARY[0])) == found


def test_exported_cells_are_small():
    sizes = sorted(len(code_lines(c)) for page in PAGES for c in exported(page))
    median, ninth = statistics.median(sizes), statistics.quantiles(sizes, n=10)[-1]
    assert median <= 10 and ninth <= 22, f'exported cells: median {median} lines, nine in ten up to {ninth}'


def test_the_linter_is_content():
    command = [sys.executable, '-m', 'ruff', 'check', '--no-cache', '--output-format', 'concise']
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr


def test_every_file_is_read_and_written_as_utf8(): # the linter knows paths only where they are made
    files = [*PAGES, *(ROOT/'tests').glob('*.py'), *(ROOT/'bench').glob('*.py'), *(ROOT/'docs').glob('*.py')]
    silent = re.compile(r'(?<!deviations)\.(?:read|write)_text\((?!.*utf-8).*')
    found = [f'{path.name}: {line}' for path in files for line in silent.findall(path.read_text('utf-8'))]
    assert not found, found


# ---- experiments
def test_a_method_has_one_look_and_a_label_is_one_methods():
    brought = {}
    for page in EXPERIMENTS:
        for method, mark in page_constant(page.stem, 'LOOKS', {}).items():
            same = brought.setdefault(method, mark) == mark
            assert same, f'{page.stem}: {method} looks different elsewhere'
    with patch.dict(METHODS):
        add_looks(brought)
        labels = [mark.label for mark in METHODS.values()]
    assert len(labels) == len(set(labels))


@every_experiment
def test_experiment_keeps_its_parameters(page):
    found = notebook_parameters(page)
    kinds = {name: kind.removesuffix(' | None') for name, (kind, _) in found.items()}
    assert list(kinds.items())[:len(PARAMETERS)] == list(PARAMETERS.items())
    assert found.keys() == inspect_notebook(str(page)).keys(), 'papermill calls the others unknown'
    assert found['profile'][1] == 'mini' and found['fresh'][1] is False


def test_every_score_file_has_one_page():
    owners = [name for p in EXPERIMENTS for name in page_constant(p.stem, 'SCORES')]
    assert len(owners) == len(set(owners)), 'two pages write the same scores'
    read = {name for p in EXPERIMENTS for name in page_constant(p.stem, 'READS')}
    assert read <= {*owners, *LEDGER}, f'nobody writes {read - {*owners, *LEDGER}}'
    committed = {p.name.removesuffix('.csv.gz') for p in (ROOT/'figures'/'mini'/'cases').glob('*.csv.gz')}
    assert committed <= set(owners), committed - set(owners)  # a new page has none until it has run


# ---- how an experiment opens: a question, a short answer, and the intervals that its page prints
def first_cell(page):
    "The markdown under the title, links as their text alone."
    return re.sub(r'\[([^\]]+)\]\([^)\s]+\)', r'\1', cells(page, 'markdown')[0])


def answers(page, profile=''):
    "Text of the paragraphs that answer, without the profile in brackets; those of one profile, or all."
    return re.findall(rf'^\*\*Answer \(profile {profile}[^)]*\)\.\*\* +(.+)$', first_cell(page), re.M)


def printed(page):
    "Every three numbers that follow each other in a line of the page's stored outputs."
    shown = [''.join(output.get('data', {}).get('text/plain', ())) for output in outputs_of(page)]
    for line in '\n'.join(shown).splitlines():
        row = [float(number) for number in re.findall(r'(?<![\w.])[+-]?\d+\.\d+', line)]
        yield from zip(row, row[1:], row[2:], strict=False)


def agree(said, row):
    "Whether an estimate and its interval are a row of a page, or that row turned round; both are rounded."
    values = [float(x.replace('−', '-')) for x in said]
    near = [.5*10**-len(x.partition('.')[2]) + .0051 for x in said]
    turned = -row[0], -row[2], -row[1]
    return any(all(abs(a - b) <= e for a, b, e in zip(values, there, near, strict=True))
               for there in (row, turned))


@every_experiment
def test_a_short_answer_comes_first(page):
    found = answers(page)
    assert found, 'a paragraph that begins with **Answer (profile mini).**'
    assert max(len(text.split()) for text in found) <= 60, 'an answer has 60 words; numbers are in tables'


@every_experiment
def test_a_page_prints_the_intervals_of_its_answer(page):
    number = r'([+−-]?\d*\.?\d+)'
    for text in answers(page, 'mini'): # the profile of the stored outputs
        for said in re.findall(rf'{number}(?: [a-z]+| [A-Z]\w+|%)* \[{number}, {number}\]', text):
            assert any(agree(said, row) for row in printed(page)), f'{said} is in no stored output'


# ---- pages that count what the others say
def counted():
    "Counts that the answers of the last pages give, from the ledger and its tables."
    folder = EXPERIMENTS[0].parents[3]/'figures'/'mini'
    table = {name: pd.read_csv(folder/f'{name}.csv') for name in (
        'tab-classes', 'tab-replicate')}
    classes = table['tab-classes'].set_index('about')
    paper, ours = classes.drop('ours').sum(), classes.loc['ours']
    method, conditions, calibration = (classes.loc[c] for c in ('the method', 'conditions', 'calibration'))
    both, same, again = 'the same verdict in both', 'judged in a second world', table['tab-replicate']
    return {
        '495_replicate': [
            f'{paper[both] + ours[both]} of {paper[same] + ours[same]}',
            *map(str, (paper[both], paper[same], ours[both], ours[same])),
            *map(str, again[['shared', 'alike']].sum())],
        '500_claims': [
            f"{paper.confirmed} of the paper's {paper.statements}",
            *(f'{x.confirmed} of {x.statements}' for x in (method, conditions, calibration)),
            f'{paper["not seen at this scale"]}', f'{paper.opposite}', f'{ours.statements}',
            f'{ours.confirmed}']}


@pytest.mark.parametrize('name', ['495_replicate', '500_claims'])
def test_pages_that_count_have_the_ledger_s_counts(name):
    [page] = [page for page in EXPERIMENTS if page.stem == name]
    [text] = answers(page, 'mini')
    assert not [x for x in counted()[name] if not re.search(rf'(?<![\d.]){re.escape(x)}(?!\d)', text)]
