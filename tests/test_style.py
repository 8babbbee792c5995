"""How the pages read: every page keeps the rules of style.py, and what needs more than the page's file."""
import re
import statistics
import subprocess
import sys
from unittest.mock import patch

import pytest
import style
from papermill import inspect_notebook
from style import code_lines, exported

from conftest import EXPERIMENTS, LIBRARY, ROOT
from modit.repro.report.looks import METHODS, add_looks
from modit.repro.pages.notebooks import notebook_parameters, page_constant
from modit.repro.pages.page import LEDGER

PAGES = LIBRARY + EXPERIMENTS
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
