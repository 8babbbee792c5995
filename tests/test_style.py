"""How the pages read: the house's limits, each measured on every page."""
import ast
import json
import re
import statistics
import subprocess
import sys
from functools import cache
from unittest.mock import patch

import pytest
from papermill import inspect_notebook

from conftest import EXPERIMENTS, OF_REAL_DATA, LIBRARY, ROOT, module_of
from modit.report.looks import METHODS, add_looks
from modit.run.notebooks import notebook_parameters, page_constant
from modit.run.page import LEDGER

PAGES = LIBRARY + EXPERIMENTS
every_page = pytest.mark.parametrize('page', PAGES, ids=lambda p: p.stem)
PAGE_LINES = 200  # exported lines of a page, without blanks, comments and docstrings
EXPERIMENT_LINES = 260 # of an experiment: code that one page alone uses stands on that page
PACKED = 13       # assignments of several unrelated values on one line, in 1,000 exported lines
every_experiment = pytest.mark.parametrize('page', EXPERIMENTS, ids=lambda p: p.stem)

# The first parameters of every experiment, in this order; None may stand for the profile's own value.
PARAMETERS = dict(profile='str', fresh='bool', domains='list[str]', splits='list[str]',
                  seed='int', cases='int', overrides='dict')
TRAINERS = {'pretrain', 'continue_pretraining', 'finetune', 'hppo', 'hppo_round', 'fit', 'labelled_pool'}
LISTS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# Pages stay as they are while tests run: each is read, and each of its cells parsed, once.
@cache
def all_cells(page):
    "A page's cells as its file has them; nobody changes them."
    return json.loads(page.read_text())['cells']


def cells(page, kind):
    "Sources of a page's cells of one kind."
    return [''.join(c['source']) for c in all_cells(page) if c['cell_type'] == kind]


def is_exported(cell):
    return bool(re.search(r'^#\| *export', cell, re.M))


def python(cell):
    "A code cell without its directives and IPython's magics."
    return re.sub(r'^(#\||[%!]).*$', '', cell, flags=re.M)


@cache
def exported(page):
    return [python(c) for c in cells(page, 'code') if is_exported(c)]


@cache
def nodes_of(text):
    "All nodes of a code cell's syntax tree."
    return [*ast.walk(ast.parse(python(text)))]


@cache
def code_lines(text):
    "Lines that are neither blank nor a comment alone nor of a docstring."
    nodes = [n for n in nodes_of(text) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    told = [n.body[0] for n in nodes if ast.get_docstring(n)]
    words = {i for x in told for i in range(x.lineno, x.end_lineno + 1)}
    lines = [line.strip() for i, line in enumerate(text.splitlines(), 1) if i not in words]
    return [line for line in lines if line and not line.startswith('#')]


def definitions(cell):
    "Functions and classes defined at the top of a cell."
    return [n for n in nodes_of(cell)[0].body if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def is_helper(node):
    "One line, or private with a body of at most three."
    body = node.body[1:] if ast.get_docstring(node) else node.body
    private = node.name.startswith('_') and body[-1].end_lineno - body[0].lineno < 3
    return private or node.lineno == node.end_lineno


def name_of(page):
    "What a page's module is called: its file's name without the number."
    return page.stem.partition('_')[2]


# ---- the text of a page
@every_page
def test_page_has_a_title_and_a_size_to_read(page):
    first = all_cells(page)[0]
    assert first['cell_type'] == 'markdown' and ''.join(first['source']).startswith('# ')
    outputs = [output for cell in all_cells(page) for output in cell.get('outputs', ())]
    shown = [data for output in outputs for data in output.get('data', {}).items()]
    pictures = sum(len(json.dumps(data)) for kind, data in shown if kind.startswith('image/'))
    size = len(json.dumps(all_cells(page))) - pictures
    assert size <= 300_000, f'{size} bytes of text and code; a page has at most 300 KB, pictures apart'


def stored_texts(page):
    "Streams and plain texts of a page's stored outputs: name of the stream or nothing, text."
    for cell in all_cells(page):
        for output in cell.get('outputs', ()):
            text = output.get('text') or output.get('data', {}).get('text/plain', '')
            yield output.get('name', ''), ''.join(text)


@every_page
def test_stored_outputs_hold_no_progress_bar(page):
    bars = [text for name, text in stored_texts(page) if name == 'stderr' or re.search(r'\d%\|.*\|', text)]
    assert not bars, f'call bars_in_terminals() of page environment first: {bars[:2]}'


@every_page
def test_tables_are_shown_whole(page):
    cut = [text for _, text in stored_texts(page) if re.search(r'^\[\d+ rows x|^Length: \d+', text, re.M)]
    assert not cut, f'pandas left out rows; show those that the text uses: {[text[-40:] for text in cut]}'


@pytest.mark.parametrize('page', LIBRARY, ids=lambda p: p.stem)
def test_library_page_says_what_it_is_about(page):
    assert re.search(r'^> \w', cells(page, 'markdown')[0], re.M), 'a line that begins with > sums the page up'


@every_page
def test_prose_keeps_up_with_code(page):
    code, prose = sum(bool(code_lines(c)) for c in cells(page, 'code')), len(cells(page, 'markdown'))
    assert 2*prose >= code, f'{prose} cells of prose for {code} of code; write at least one for two'


@every_page
def test_lines_fit(page):
    wide = [line for cell in cells(page, 'code') for line in cell.splitlines() if len(line) > 110]
    assert not wide, f'lines of more than 110 columns: {wide}'


def test_lines_of_tests_and_graph_fit():
    files = [*ROOT.glob('tests/*.py'), ROOT/'Snakefile']
    wide = [f'{p.name}: {line}' for p in files for line in p.read_text().splitlines() if len(line) > 110]
    assert not wide, f'lines of more than 110 columns: {wide}'


# ---- exported cells
def test_exported_cells_are_small():
    sizes = sorted(len(code_lines(c)) for page in PAGES for c in exported(page))
    median, ninth = statistics.median(sizes), statistics.quantiles(sizes, n=10)[-1]
    assert median <= 10 and ninth <= 22, f'exported cells: median {median} lines, nine in ten up to {ninth}'


def names_in(node):
    "Variables, attributes and items that stand in an expression."
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute | ast.Subscript)}


def is_packed(node):
    "An assignment of as many values as names on one line that is no exchange, such as a, b = b, a + b."
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple): return False
    to, values = node.targets[0], node.value.elts
    if not isinstance(to, ast.Tuple) or len(to.elts) != len(values): return False
    both = [(names_in(a), names_in(b)) for a, b in zip(to.elts, values, strict=True)]
    return not any(a & other for a, b in both for _, other in both if other is not b)


def packed_lines(page):
    return [ast.unparse(n) for c in exported(page) for n in nodes_of(c) if is_packed(n)]


def without_annotation(page):
    "Public functions whose settings or page do not say that they are."
    for node in [n for c in exported(page) for n in definitions(c)]:
        if isinstance(node, ast.ClassDef) or node.name.startswith('_') or is_helper(node): continue
        bare = [a.arg for a in (*node.args.args, *node.args.kwonlyargs) if not a.annotation]
        if {'s', 'p'} & {*bare}: yield node.name


# Pages that are over a limit which came after them. A row is deleted with its reason; none is added.
OVER = [tuple(line.split(',')) for line in (ROOT/'tests'/'over_limits.csv').read_text().split()[1:]]


def within(page, limit, found):
    "Nothing was found on a page, or the page is on the list of those where something is."
    row = module_of(page), limit
    if row in OVER: assert found, f'it keeps the limit now; delete the row {",".join(row)} of over_limits.csv'
    else: assert not found, f'{page.stem}: {found}'


@every_page
def test_a_page_does_not_export_too_many_lines(page):
    lines = sum(len(code_lines(c)) for c in exported(page))
    limit = EXPERIMENT_LINES if page in EXPERIMENTS else PAGE_LINES
    within(page, 'lines', f'{lines} exported lines; at most {limit}' if lines > limit else '')


@every_page
def test_a_line_assigns_what_belongs_together(page):
    lines, packed = sum(len(code_lines(c)) for c in exported(page)), packed_lines(page)
    within(page, 'packed', packed if len(packed) > max(1, PACKED*lines/1000) else [])


@every_page
def test_settings_and_pages_are_annotated(page):
    within(page, 'annotated', [*without_annotation(page)])


def test_pages_over_a_limit_are_there():
    gone = [row for row in OVER if row[0] not in map(module_of, PAGES)]
    assert not gone, f'delete these rows of over_limits.csv: {gone}'
    assert OVER == sorted(set(OVER)) and {limit for _, limit in OVER} <= {'annotated', 'lines', 'packed'}


@every_page
def test_no_exported_cell_is_long(page):
    long = [c for c in exported(page) if len(code_lines(c)) > 45]
    long = [c for c in long if 'class Settings:' not in c]  # one line a setting
    assert not long, f'exported cells of more than 45 lines: {[code_lines(c)[0] for c in long]}'


@every_page
def test_one_public_definition_a_cell(page):
    found = [[n.name for n in definitions(c) if not is_helper(n)] for c in exported(page)]
    crowded = [names for names in found if len(names) > 1]
    assert not crowded, f'cells with several definitions: {crowded}'


@every_page
def test_no_comprehension_in_a_comprehension(page):
    nested = []
    for cell in cells(page, 'code'):
        for outer in (n for n in nodes_of(cell) if isinstance(n, LISTS)):
            inner = [n for n in ast.walk(outer) if isinstance(n, LISTS) and n is not outer]
            if inner: nested.append(ast.unparse(outer))
    assert not nested, f'give the inner one a line and a name of its own: {nested}'


def untold(cell):
    "Parameters of a cell's public functions without a line and a comment of their own."
    lines = cell.splitlines()
    for node in definitions(cell):
        if isinstance(node, ast.ClassDef) or node.name.startswith('_') or is_helper(node): continue
        given = [a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg not in ('self', 'cls')]
        yield from (f'{node.name}({a.arg})' for a in given if '#' not in lines[a.lineno - 1])


@every_page
def test_parameters_are_told_line_by_line(page):
    found = [name for cell in exported(page) for name in untold(cell)]
    assert not found, f'each parameter has a line of its own and says what it is behind a #: {found}'


@every_page
def test_docstrings_are_one_line(page):
    nodes = [n for cell in exported(page) for n in definitions(cell) if not is_helper(n) and n.name[0] != '_']
    bad = [n.name for n in nodes if not re.fullmatch(r'.+(\n\n>>> (.|\n)+)?', ast.get_docstring(n) or '')]
    assert not bad, f'a docstring is one line, and below it an example or nothing: {bad}'


@every_page
def test_imports_come_from_lower_numbers(page):
    number = {name_of(p): p.stem[:3] for p in LIBRARY}
    for node in [n for cell in exported(page) for n in nodes_of(cell)]:
        if not isinstance(node, ast.ImportFrom): continue
        parts = (node.module or '').split('.')
        if parts[0] != 'modit': continue
        assert '*' not in [a.name for a in node.names]
        assert parts[1:2] != ['experiments'] or parts[2:3] == ['lib'], 'experiments are imported by nobody'
        modules = parts[-1:] if parts[-1] in number else [a.name for a in node.names]
        later = [m for m in modules if number.get(m, '000') >= page.stem[:3]]
        assert page in EXPERIMENTS or not later, f'{page.stem} imports {later}, which come later'


def test_the_linter_is_content():
    command = [sys.executable, '-m', 'ruff', 'check', '--no-cache', '--output-format', 'concise']
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr


# ---- experiments
SCREEN = 45 # rows of a table, about as many as a screen shows

@every_experiment
def test_a_table_fits_on_a_screen_and_has_no_asterisks(page):
    for cell in all_cells(page):
        for data in (output.get('data', {}) for output in cell.get('outputs', ())):
            table = ''.join(data.get('text/html', ''))
            rows, source = table.count('<tr'), ''.join(cell['source'])
            assert rows <= SCREEN, f'{rows} rows, show fewer and link the file that has all: {source[:300]}'
            assert '**' not in table, f'a mark of Markdown in a table that is not Markdown: {source[:300]}'


@every_experiment
def test_experiment_keeps_its_skeleton(page):
    functions = {n.name: [a.arg for a in n.args.args] for c in exported(page) for n in definitions(c)
                 if isinstance(n, ast.FunctionDef)}
    wanted = dict(run=['p'], table=['scores', 'p'], plot=['scores', 'p'], claims=['scores', 'p'])
    assert {k: functions.get(k) for k in wanted} == wanted
    for constant in ('READS', 'SCORES'):
        names = page_constant(page.stem, constant)
        assert isinstance(names, tuple) and all(isinstance(n, str) for n in names)


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
    assert found['profile'][1] == OF_REAL_DATA.get(page.stem, 'mini') and found['fresh'][1] is False


@every_experiment
def test_experiment_opens_its_own_page(page):
    opened = re.findall(r"open_page\('([^']+)', globals\(\)\)", '\n'.join(cells(page, 'code')))
    assert opened == [page.stem]


@every_experiment
def test_no_experiment_trains(page):
    nodes = [n for c in exported(page) for n in nodes_of(c) if isinstance(n, ast.ImportFrom)]
    used = {a.name for n in nodes for a in n.names}
    assert not used & TRAINERS, f'take it from the store, under settings of its own: {used & TRAINERS}'


def test_every_score_file_has_one_page():
    owners = [name for p in EXPERIMENTS for name in page_constant(p.stem, 'SCORES')]
    assert len(owners) == len(set(owners)), 'two pages write the same scores'
    read = {name for p in EXPERIMENTS for name in page_constant(p.stem, 'READS')}
    assert read <= {*owners, *LEDGER}, f'nobody writes {read - {*owners, *LEDGER}}'
    committed = {p.name.removesuffix('.csv.gz') for p in (ROOT/'figures'/'mini'/'cases').glob('*.csv.gz')}
    assert committed <= set(owners), committed - set(owners)  # a new page has none until it has run
