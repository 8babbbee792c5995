"""An install of one extra alone brings all that its commands import, beside what a plain install brings."""
import ast
import json
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import pytest
from packaging.requirements import Requirement

from conftest import EXPERIMENTS, PAGES, ROOT
from modit.repro.report.report import PACKAGES

PROJECT = tomllib.loads((ROOT/'pyproject.toml').read_text('utf-8'))['project']
EXTRAS = PROJECT['optional-dependencies']
MODULES = [p for p in sorted((ROOT/'modit').rglob('*.py')) if p.name != '_modidx.py']

# The files that an extra is for; all other modules are for a plain install.
FILES = dict(
    run=['modit/repro/**/*.py'],
    report=['modit/repro/report/article.py'], milvus=['modit/index/milvus.py'],
    public=['modit/repro/datasets/*.py'],
    dev=['tests/*.py', 'docs/*.py'], parquet=[])
SHOWN = dict(run=EXPERIMENTS, dev=PAGES)  # pages that it runs
# What a call brings in without an import line: pandas, and processes.
BEHIND = {r'\.to_markdown\(': 'tabulate', r"'-m', 'snakemake'": 'snakemake',
          "'ipykernel_launcher'": 'ipykernel'}
OF_ONE_TEST = {'typst', *(path.stem for place in ('docs', 'bench') for path in (ROOT/place).glob('*.py'))}
TRIED = {'datasets', 'lancedb', 'pgserver', 'psycopg', 'qdrant_client'} # a page goes on without them


def canonical(name): return re.sub(r'[-_.]+', '-', name).lower()


def brought(asked, extra='', seen=None):
    "The distributions that requirements bring, by name and extra, as they are described here."
    seen = {} if seen is None else seen
    for line in asked:
        need = Requirement(line)
        if need.marker and not need.marker.evaluate(dict(extra=extra)): continue
        for more in ('', *need.extras):
            if (key := (canonical(need.name), more)) in seen: continue
            seen[key] = need
            if key[0] == 'modit': brought(EXTRAS[more] if more else (), '', seen)
            else:
                try: brought(distribution(need.name).requires or (), more, seen)
                except PackageNotFoundError: pass  # of another platform, or not installed here
    return seen


def installed_by(extra):
    "Names of distributions, of a plain install for no extra."
    return {name for name, _ in brought([*PROJECT['dependencies'], *EXTRAS.get(extra, ())])}


def imports(tree, everywhere=True):
    "Lines of imports: as (level, name, names)."
    for node in ast.walk(tree) if everywhere else tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom): continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.Import): yield from ((0, name, ()) for name in names)
        else: yield node.level, node.module or '', names


@cache
def tree_of(path): return ast.parse(path.read_text('utf-8'))


def top_names(tree, everywhere=True):
    return {name.split('.')[0] for level, name, _ in imports(tree, everywhere) if not level}


def files_behind(path, level, name, names):
    "Our modules that a line of a file imports."
    start = [path.parent, *path.parent.parents][level - 1] if level else ROOT
    base = start.joinpath(*name.split('.')) if name else start
    return [p.with_suffix('.py') for p in (base, *(base/x for x in names)) if p.with_suffix('.py') in MODULES]


def wanted(path, everywhere=True, seen=None):
    "Packages that a file imports, at its top or anywhere, and what stands at the top of our modules there."
    seen = {path} if seen is None else seen
    found = top_names(tree_of(path), everywhere)
    for line in imports(tree_of(path), False):
        others = {*files_behind(path, *line)} - seen
        seen |= others
        for other in others: found |= wanted(other, False, seen)
    behind = {name for call, name in BEHIND.items() if re.search(call, path.read_text('utf-8'))}
    return found | behind if everywhere else found


def wanted_by_page(page):
    found = set()
    for cell in json.loads(page.read_text('utf-8'))['cells']:
        source = re.sub(r'^[%!].*$', 'pass', ''.join(cell['source']), flags=re.M)
        if cell['cell_type'] == 'code': found |= top_names(ast.parse(source))
    return found


def files_of(extra):
    if extra: return [p for glob in FILES[extra] for p in ROOT.glob(glob) if p.name != '_modidx.py']
    return [p for p in MODULES if not any(p in files_of(name) for name in FILES)]


@pytest.mark.parametrize('extra', ['', *EXTRAS])
def test_an_extra_brings_what_it_is_for(extra):
    files = [p for p in files_of(extra) if extra != 'run' or p not in files_of('report') + files_of('public')]
    names = set().union(*map(wanted, files), *map(wanted_by_page, SHOWN.get(extra, ())))
    ours = {p.stem for p in (ROOT/'tests').glob('*.py')} | {p.stem for p in (ROOT/'docs').glob('*.py')}
    names -= {*sys.stdlib_module_names, 'modit'} | ours | (OF_ONE_TEST | TRIED if extra == 'dev' else set())
    here, known = installed_by(extra), packages_distributions()
    lacking = {name for name in names if not {canonical(x) for x in known.get(name, [name])} & here}
    assert (names or extra == 'parquet') and not lacking, f'[{extra}] does not bring {lacking}'


def test_what_a_manifest_names_is_brought_by_the_extra_that_writes_it():
    assert {*map(canonical, PACKAGES)} <= installed_by('run')


def test_every_extra_is_looked_at(): assert FILES.keys() == EXTRAS.keys()
