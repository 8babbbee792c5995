"""What the pages export, read from the notebooks alone: nothing is imported and nothing runs."""
import ast
import io
import json
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = re.compile(r'\b(app\. |sec\. |algorithm|tab:|fig:|equation|stage|objective|ours|L_|t_tail)', re.I)


@dataclass
class Entry:
    "One exported function, class, method or constant."
    kind: str        # function, class, method, classmethod, property or data
    name: str        # a method's with its class
    signature: str   # as it is called; a constant's value
    summary: str     # the docstring's line without the paper's place
    source: str      # the paper's place, or ''
    parameters: list = field(default_factory=list) # of (name, annotation, default, meaning)
    returns: tuple = ('', '')                      # annotation, meaning
    cell: str = ''                                 # id of its notebook cell
    section: str = ''                              # heading above that cell
    rows: str = 'parameter'                        # what the parameters are: of a record, its fields


@dataclass
class Notebook:
    "A page: where it lies, what it says of itself, and its cells."
    path: Path
    cells: list

    @property
    def number(self): return self.path.stem[:3]

    @property
    def experiment(self): return self.path.parent.name in ('paper', 'ours', 'verdicts')

    @property
    def name(self): return self.path.stem[4:]

    @property
    def module(self): return '.'.join(['modit', *self.path.parent.relative_to(ROOT/'nbs').parts, self.name])

    @property
    def room(self): return self.path.parent.relative_to(ROOT/'nbs').as_posix() # '.' for the method

    @property
    def link(self): return f'/{self.path.relative_to(ROOT).as_posix()}'

    @property
    def title(self): return text_of(self.cells[0]).splitlines()[0].removeprefix('# ').strip()

    @property
    def short(self): return self.title if self.experiment else self.title.split(':')[0]

    @property
    def summary(self):
        "The line that sums a library page up, or an experiment's first paragraph."
        said = text_of(self.cells[0]).split('\n', 1)[-1].strip()
        return re.sub(r'^> ?', '', said.split('\n\n')[0], flags=re.M).replace('\n', ' ')


def text_of(cell): return ''.join(cell['source'])


def read_notebook(
    path, # of an ipynb file
) -> Notebook:
    "A page from its file."
    return Notebook(Path(path), json.loads(Path(path).read_text())['cells'])


def all_notebooks() -> list:
    "Every page of the repository, by number."
    found = [p for p in (ROOT/'nbs').rglob('*.ipynb') if '.ipynb_checkpoints' not in p.parts]
    return sorted(map(read_notebook, found), key=lambda n: n.path.stem)


def directives(
    code, # of a cell
) -> set: # such as {'export'}
    "nbdev's directives of a cell: the first words of its lines that begin with #|."
    return set(re.findall(r'^#\| *(\w+)', code, re.M))


def python(code):
    "A cell's code without nbdev's directives and IPython's magics."
    return re.sub(r'^(#\||[%!]).*\n?', '', code, flags=re.M)


def comments(
    code, # Python
) -> dict: # line number: comment without its mark
    "What stands behind # on every line; remarks to the linter are left out."
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    notes = {t.start[0]: t.string.lstrip('# ').strip() for t in tokens if t.type == tokenize.COMMENT}
    return {line: note for line, note in notes.items() if not note.startswith('noqa')}


def split_source(
    docstring, # one line, and below it an example or nothing
) -> tuple: # summary, the paper's place or ''
    "A docstring names its place in the paper in parentheses, most often at the end of its line."
    line = (docstring or '').partition('\n')[0]
    for found in re.finditer(r' \(([^()]*(?:\([^()]*\)[^()]*)*)\)', line):
        if PLACE.search(found[1]): return line.replace(found[0], '', 1), found[1]
    return line, ''


def parameters_of(
    node,  # FunctionDef
    notes, # of `comments`
) -> list: # of (name, annotation, default, meaning), without self and cls
    "A function's parameters, each with what its line says."
    a = node.args
    named = a.posonlyargs + a.args
    defaults = [None]*(len(named) - len(a.defaults)) + a.defaults
    rows = [(x.arg, x, d) for x, d in zip(named, defaults, strict=True)]
    if a.vararg: rows.append((f'*{a.vararg.arg}', a.vararg, None))
    rows += [(x.arg, x, d) for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.kwarg: rows.append((f'**{a.kwarg.arg}', a.kwarg, None))
    last, found = node.body[0].lineno - 1, []  # the comment of the last line is about what is returned
    for name, arg, default in rows:
        if name in ('self', 'cls'): continue
        kind = ast.unparse(arg.annotation) if arg.annotation else ''
        meaning = notes.get(arg.lineno, '') if arg.lineno < last else ''
        found.append((name, kind, ast.unparse(default) if default else '', meaning))
    return found


def function_entry(
    node,    # FunctionDef
    notes,   # of `comments`
    owner='', # class that it belongs to
) -> Entry:
    "A function or method; a patched one belongs to the class that its first parameter names."
    decorators = ' '.join(map(ast.unparse, node.decorator_list))
    first = node.args.args[0] if node.args.args else None
    if 'patch' in decorators and first is not None and first.annotation: owner = ast.unparse(first.annotation)
    kind = 'method' if owner else 'function'
    if 'property' in decorators or 'as_prop' in decorators: kind = 'property'
    if 'classmethod' in decorators or 'cls_method' in decorators: kind = 'classmethod'
    rows = parameters_of(node, notes)
    equals = {True: ' = ', False: '='} # with a kind, and without
    words = [n + (k and f': {k}') + (d and equals[bool(k)] + d) for n, k, d, _ in rows]
    returns = ast.unparse(node.returns) if node.returns else ''
    signature = f'({", ".join(words)})' + (f' -> {returns}' if returns else '')
    end = node.body[0].lineno - 1 if node.body[0].lineno > node.lineno else node.lineno
    summary, source = split_source(ast.get_docstring(node))
    name, told = f'{owner}.{node.name}' if owner else node.name, notes.get(end, '')
    if not summary and told: summary, told = f'{told[0].upper()}{told[1:]}.', ''  # a helper of one line
    return Entry(kind, name, signature, summary, source, rows, (returns, told))


def class_entries(
    node,  # ClassDef
    notes, # of `comments`
) -> list: # the class, then its public methods
    "A class with its fields or the parameters of its making, and the methods of its own cell."
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
    rows = [(n.target.id, ast.unparse(n.annotation), ast.unparse(n.value) if n.value else '',
             notes.get(n.lineno, '')) for n in fields]
    for made in methods:
        if made.name == '__init__': rows = parameters_of(made, notes)
    called = ', '.join(n + (f'={d}' if d else '') for n, _, d, _ in rows)
    summary, source = split_source(ast.get_docstring(node))
    whole = Entry('class', node.name, f'({called})', summary, source, rows)
    public = [n for n in methods if n.name[0] != '_' and ast.get_docstring(n)]
    if not any(n.name == '__init__' for n in methods): whole.rows = 'field'
    return [whole, *(function_entry(n, notes, node.name) for n in public)]


def constant_entries(
    node,  # Assign
    notes, # of `comments`
) -> list:
    "Public constants: name, value, and what the line says."
    names = [t for target in node.targets for t in getattr(target, 'elts', [target])]
    names = [t.id for t in names if isinstance(t, ast.Name) and t.id[0].isupper()]
    value = ast.unparse(node.value) if len(names) == 1 else ''
    return [Entry('data', name, value, notes.get(node.lineno, ''), '') for name in names]


def cell_entries(
    code, # of an exported cell
) -> list:
    "What one exported cell defines in public."
    code, found = python(code), []
    notes = comments(code)
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign): found += constant_entries(node, notes)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name[0] == '_': continue
        if isinstance(node, ast.ClassDef): found += class_entries(node, notes)
        else: found.append(function_entry(node, notes))
    return found


def entries_of(
    notebook, # Notebook
) -> list:
    "Everything that a page exports, in the page's order, each with its cell and its section."
    found, section = [], notebook.title
    for cell in notebook.cells:
        text = text_of(cell)
        if cell['cell_type'] == 'markdown':
            headings = re.findall(r'^#{2,3} +(.*)$', text, re.M)
            section = headings[-1] if headings else section
        elif 'export' in directives(text):
            new = cell_entries(text)
            for entry in new: entry.cell, entry.section = cell['id'], section
            found += new
    return found
