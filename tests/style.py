"""How the pages read: the house's limits, each measured on every page.

    python tests/style.py                       # all pages; a line for each fault
    python tests/style.py nbs/065_patterns.ipynb   # one page, within a second

It imports nothing that is installed, so the hook before a commit is quick. Each rule takes a page and gives
what is wrong with it; `tests/test_style.py` asks for all of them.
"""
import ast
import json
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE_LINES = 200       # exported lines of a page, without blanks, comments and docstrings
EXPERIMENT_LINES = 260 # of an experiment: code that one page alone uses stands on that page
SCREEN = 45            # rows of a table, about as many as a screen shows
TRAINERS = {'pretrain', 'continue_pretraining', 'finetune', 'hppo', 'hppo_round', 'fit', 'labelled_pool'}
LISTS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def all_pages(): return [p for p in (ROOT/'nbs').rglob('*.ipynb') if '.ipynb_checkpoints' not in p.parts]
def is_experiment(page): return page.parent.name in ('paper', 'ours', 'verdicts')


def module_of(page):
    "The module that a page exports, such as data.synth."
    return '.'.join([*page.parent.relative_to(ROOT/'nbs').parts, page.stem[4:]])


# ---- what a page holds; pages stay as they are meanwhile: each is read, and each cell parsed, once
@cache
def all_cells(page):
    "A page's cells as its file has them; nobody changes them."
    return json.loads(page.read_text('utf-8'))['cells']


def cells(page, kind):
    "Sources of a page's cells of one kind."
    return [''.join(c['source']) for c in all_cells(page) if c['cell_type'] == kind]


def python(cell):
    "A code cell without its directives and IPython's magics."
    return re.sub(r'^(#\||[%!]).*$', '', cell, flags=re.M)


@cache
def exported(page):
    return [python(c) for c in cells(page, 'code') if re.search(r'^#\| *export', c, re.M)]


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


def lines_of(page): return sum(len(code_lines(c)) for c in exported(page)) # exported
def outputs_of(page): return [output for cell in all_cells(page) for output in cell.get('outputs', ())]


def definitions(cell):
    "Functions and classes defined at the top of a cell."
    return [n for n in nodes_of(cell)[0].body if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def is_helper(node):
    "One line, or private with a body of at most three."
    body = node.body[1:] if ast.get_docstring(node) else node.body
    private = node.name.startswith('_') and body[-1].end_lineno - body[0].lineno < 3
    return private or node.lineno == node.end_lineno


def public_functions(cell):
    "Functions that readers call: neither private nor of one line."
    functions = [n for n in definitions(cell) if isinstance(n, ast.FunctionDef)]
    return [n for n in functions if n.name[0] != '_' and not is_helper(n)]


def arguments(node): return (*node.args.args, *node.args.kwonlyargs)


def stored_texts(page):
    "Streams, texts and tables of a page's stored outputs: name of the stream or nothing, text."
    for output in outputs_of(page):
        kinds = 'text/plain', 'text/html', 'text/markdown'
        texts = output.get('text', ''), *map(output.get('data', {}).get, kinds)
        yield from ((output.get('name', ''), ''.join(text)) for text in texts if text)


# ---- the text of a page
def has_a_size_to_read(page):
    shown = [data for output in outputs_of(page) for data in output.get('data', {}).items()]
    pictures = sum(len(json.dumps(data)) for kind, data in shown if kind.startswith('image/'))
    size = len(json.dumps(all_cells(page))) - pictures
    return [f'{size} bytes of text and code; at most 300 KB, pictures apart'] if size > 300_000 else []


def stores_no_progress_bar(page):
    return [f'call bars_in_terminals() of page source first: {text[:80]}' for name, text
            in stored_texts(page) if name == 'stderr' or re.search(r'\d%\|.*\|', text)]


def shows_tables_whole(page):
    cut = re.compile(r'\[?\d+ rows [x×] \d+ columns|^Length: \d+', re.M) # pandas says so
    return [f'pandas left out rows; pivot the table, or show all of it: {text[-40:]}' for _, text
            in stored_texts(page) if cut.search(text)]


# What an output says of the machine that made it; on another one the page would show something else.
MACHINES = r'EPYC|Xeon|Ryzen|Core\(TM\)|Apple M\d|GenuineIntel|AuthenticAMD'
PATHS = r'(?<![\w.])/(?:home|root|work|tmp|Users)/'
AMOUNTS = r'\b\d+ (?:cores?|threads?|[GM]iB|s|seconds?|minutes?|hours?)\b|\bPython 3\.\d+\.\d|device\(type='
MEASURED = ('repro.bench.bench',) # amounts from committed files


@cache
def this_machine():
    "Patterns of this machine's processor and the repository's path."
    info = Path('/proc/cpuinfo')
    models = re.findall(r'^model name\s*: (.+)', info.read_text('utf-8'), re.M) if info.exists() else []
    return [re.escape(f'{ROOT}/'), *map(re.escape, {*models})]


def stores_nothing_of_the_machine(page):
    amounts = [] if module_of(page) in MEASURED else [AMOUNTS]
    facts = re.compile('|'.join([MACHINES, PATHS, *this_machine(), *amounts]))
    found = [(fact, text) for _, text in stored_texts(page) for fact in facts.finditer(text)]
    return [f'of the machine: {text[max(0, x.start() - 40):x.end() + 40]!r}' for x, text in found]


def says_what_it_is_about(page):
    summed_up = re.search(r'^> \w', cells(page, 'markdown')[0], re.M)
    return [] if summed_up else ['a line that begins with > sums the page up']


def has_prose_beside_code(page):
    code, prose = sum(bool(code_lines(c)) for c in cells(page, 'code')), len(cells(page, 'markdown'))
    return [f'{prose} cells of prose for {code} of code; at least one for two'] if 2*prose < code else []


# ---- exported cells
def does_not_export_too_many_lines(page):
    limit = EXPERIMENT_LINES if is_experiment(page) else PAGE_LINES
    return [f'{lines_of(page)} exported lines; at most {limit}'] if lines_of(page) > limit else []


def annotates_settings_and_pages(page):
    bare = [n.name for c in exported(page) for n in public_functions(c)
            if {a.arg for a in arguments(n) if not a.annotation} & {'s', 'p'}]
    return [f'{name}: write s:Settings, p:Page' for name in bare]


def has_no_long_exported_cell(page):
    long = [code_lines(c)[0] for c in exported(page) if len(code_lines(c)) > 45]
    return [f'an exported cell of more than 45 lines: {line}' for line in long]


def has_one_public_definition_a_cell(page):
    found = [[n.name for n in definitions(c) if not is_helper(n)] for c in exported(page)]
    return [f'several definitions in a cell: {names}' for names in found if len(names) > 1]


def has_no_comprehension_in_a_comprehension(page):
    outer = [n for cell in cells(page, 'code') for n in nodes_of(cell) if isinstance(n, LISTS)]
    nested = [n for n in outer if any(isinstance(x, LISTS) for x in ast.walk(n) if x is not n)]
    return [f'give the inner one a line and a name of its own: {ast.unparse(n)}' for n in nested]


def tells_parameters_line_by_line(page):
    found = []
    for cell in exported(page):
        lines = cell.splitlines()
        found += [f'{n.name}({a.arg}): a line of its own, and what it is behind a #'
                  for n in public_functions(cell) for a in arguments(n)
                  if a.arg not in ('self', 'cls') and '#' not in lines[a.lineno - 1]]
    return found


def has_docstrings_of_one_line(page):
    nodes = [n for cell in exported(page) for n in definitions(cell) if not is_helper(n) and n.name[0] != '_']
    bad = [n.name for n in nodes if not re.fullmatch(r'.+(\n\n>>> (.|\n)+)?', ast.get_docstring(n) or '')]
    return [f'{name}: a docstring is one line, and below it an example or nothing' for name in bad]


@cache
def places(): # what a module is called -> its place in the order of imports: first the library
    return {p.stem[4:]: place(p) for p in all_pages() if not is_experiment(p)}


def place(page): return 'repro' in page.parts, page.stem[:3]


def imports_from_lower_numbers(page):
    found = []
    for node in [n for cell in exported(page) for n in nodes_of(cell) if isinstance(n, ast.ImportFrom)]:
        parts, names = (node.module or '').split('.'), [a.name for a in node.names]
        if parts[0] != 'modit': continue
        if parts[1:2] == ['repro'] and parts[2:3] in (['paper'], ['ours'], ['verdicts']):
            found.append(f'experiments are imported by nobody: {node.module}')
        modules = parts[-1:] if parts[-1] in places() else names
        later = [m for m in modules if places().get(m, (False, '000')) >= place(page)]
        if later and not is_experiment(page): found.append(f'{later} come later')
    return found


# ---- experiments
def shows_tables_of_a_screen(page):
    found = []
    for cell in all_cells(page):
        source = ''.join(cell['source'])[:200]
        for output in cell.get('outputs', ()):
            table = ''.join(output.get('data', {}).get('text/html', ''))
            rows = table.count('<tr')
            if rows > SCREEN: found.append(f'{rows} rows; show fewer, link the file that has all: {source}')
            if '**' in table: found.append(f'a mark of Markdown in a table that is not Markdown: {source}')
    return found


def keeps_the_skeleton(page):
    given = {n.name: [a.arg for a in n.args.args] for c in exported(page) for n in definitions(c)
             if isinstance(n, ast.FunctionDef)}
    wanted = dict(run=['p'], table=['scores', 'p'], plot=['scores', 'p'], claims=['scores', 'p'])
    other = [(name, words) for name, words in wanted.items() if given.get(name, words) != words]
    made = [] if {'table', 'plot'} & given.keys() else ['define table(scores, p) or plot(scores, p)']
    return [f'define {name}({", ".join(words)})' for name, words in other] + made


def trains_nothing(page):
    nodes = [n for c in exported(page) for n in nodes_of(c) if isinstance(n, ast.ImportFrom)]
    used = {a.name for n in nodes for a in n.names} & TRAINERS
    return [f'take it from the store, under settings of its own: {used}'] if used else []


OF_ALL = (has_a_size_to_read, stores_no_progress_bar, shows_tables_whole, stores_nothing_of_the_machine,
          has_prose_beside_code, does_not_export_too_many_lines, annotates_settings_and_pages,
          has_no_long_exported_cell,
          has_one_public_definition_a_cell, has_no_comprehension_in_a_comprehension,
          tells_parameters_line_by_line, has_docstrings_of_one_line, imports_from_lower_numbers)
OF_EXPERIMENTS = (shows_tables_of_a_screen, keeps_the_skeleton, trains_nothing)


def faults(page):
    "What is wrong with a page, a line each."
    rules = OF_ALL + (OF_EXPERIMENTS if is_experiment(page) else (says_what_it_is_about,))
    return [f'{page.relative_to(ROOT)} {rule.__name__}: {found}' for rule in rules for found in rule(page)]


if __name__ == '__main__':
    asked = [Path(name).resolve() for name in sys.argv[1:]] or sorted(all_pages())
    wrong = [line for page in asked for line in faults(page)]
    print('\n'.join(wrong), file=sys.stderr)
    sys.exit(bool(wrong))
