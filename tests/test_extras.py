"""An install of one extra alone brings all that its files import, beside what a plain install brings;
what such an install runs is tested in test_anywhere.py."""
import ast
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

from conftest import EXPERIMENTS, PAGES, ROOT
from modit.repro.report.report import PACKAGES
from style import cells, nodes_of

PROJECT = tomllib.loads((ROOT/'pyproject.toml').read_text('utf-8'))['project']
EXTRAS = PROJECT['optional-dependencies']

# The files that an extra is for; all other modules are for a plain install.
REPORT, PUBLIC = 'modit/repro/report/article.py', 'modit/repro/datasets/*.py'
FILES = dict(train=['modit/*.py', 'modit/index/device.py'], run=['modit/repro/**/*.py'], report=[REPORT],
             milvus=['modit/index/milvus.py'], public=[PUBLIC], dev=['tests/*.py', 'docs/*.py'],
             look=['modit/serving/look.py'], parquet=['modit/data/columns.py'])
SHOWN = dict(run=EXPERIMENTS, dev=PAGES)  # pages that it runs
# What a call brings in without an import line: pandas, and processes.
BEHIND = {r'\.to_markdown\(': 'tabulate', r"'-m', 'snakemake'": 'snakemake',
          "'ipykernel_launcher'": 'ipykernel'}
# our own, and what a test or a page goes on without
OURS = {'modit', *(p.stem for place in ('tests', 'docs', 'bench') for p in (ROOT/place).glob('*.py'))}
TRIED = {'typst', 'datasets', 'lancedb', 'pgserver', 'psycopg', 'qdrant_client'}


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


def wanted(path):
    "Packages that a file imports, at its top or anywhere."
    for text in [path.read_text('utf-8')] if path.suffix == '.py' else cells(path, 'code'):
        for node in nodes_of(text):
            if isinstance(node, ast.Import): yield from (x.name.split('.')[0] for x in node.names)
            if isinstance(node, ast.ImportFrom) and not node.level: yield node.module.split('.')[0]
        if path.suffix == '.py': yield from (x for call, x in BEHIND.items() if re.search(call, text))


def files_of(extra):
    "The files that an install of an extra must be able to import."
    if not extra: return {*(ROOT/'modit').rglob('*.py')}.difference(*map(files_of, FILES))
    found = {p for glob in FILES[extra] for p in ROOT.glob(glob)} | {*SHOWN.get(extra, ())}
    return found - files_of('report') - files_of('public') if extra == 'run' else found


@pytest.mark.parametrize('extra', ['', *EXTRAS])
def test_an_extra_brings_what_it_is_for(extra):
    names = {name for path in files_of(extra) for name in wanted(path)} - {*sys.stdlib_module_names} - OURS
    here, known = installed_by(extra), packages_distributions()
    lacking = {name for name in names if not {canonical(x) for x in known.get(name, [name])} & here}
    assert (names or extra == 'parquet') and not lacking - (TRIED if extra == 'dev' else set())


def test_what_a_manifest_names_is_brought_by_the_extra_that_writes_it():
    assert FILES.keys() == EXTRAS.keys() and {*map(canonical, PACKAGES)} <= installed_by('run')
