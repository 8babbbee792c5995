"""The method in a dozen lines: what `import modit` offers; its docstring and page method agree."""
import doctest
import inspect
import io
import re
import warnings
from functools import cache
from importlib import import_module
from operator import attrgetter
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest

import modit
from conftest import ROOT, run_apart, run_python
from style import cells
from test_repo import CORE

# The code block of the docstring, without the place it is indented to.
LINES = dedent(re.search(r'^ *# the whole method\n(?: .*\n|\n)*', modit.__doc__, re.M)[0]).strip()
STEP = .04 # with other draws of all batches HPPO's Joint moves by .03; a last bit can do no more
PAGE = ROOT/'nbs'/'005_method.ipynb'


def numbers_in(lines):
    "Method and Joint of each line such as `# HPPO    0.52`, or the same printed."
    return [(name, float(joint)) for name, joint in re.findall(r'^(?:# )?([\w-]+) +(0?\.\d\d)$', lines, re.M)]


@cache
def printed():
    "What the lines print in a fresh process, method by method, and the modules that they load."
    loaded = "*[x.partition('.')[2] for x in sys.modules if x.startswith('modit.')]"
    said = run_python(f'{LINES}\nimport sys\nprint("loaded", {loaded})', ROOT)
    return numbers_in(said), {*said.splitlines()[-1].split()[1:]}


# ---- the lines
def test_the_dozen_lines_run_and_print_what_they_show():
    told, (found, _) = numbers_in(LINES), printed()
    assert [name for name, _ in found] == [name for name, _ in told] == ['average', 'MO-DiT', 'HPPO']
    for (name, shown), (_, joint) in zip(told, found, strict=True):
        assert abs(joint - shown) <= STEP + 1e-9, f'{name}: {joint} is printed and {shown} is shown'


def test_the_page_builds_the_same_lines_up():
    bare = [re.sub(r' +#.*', '', line) for line in LINES.splitlines()]
    steps = [line for line in bare if re.match(r'[\w, ]+ = modit\.', line)]
    *above, last = cells(PAGE, 'code')
    page = '\n'.join(above).splitlines()
    assert len(steps) == 8 and not [line for line in steps if line not in page]
    assert last.startswith(LINES.partition('\n# average')[0].rstrip()), 'the last cell has the lines alone'


def test_the_lines_load_the_method_and_a_world():
    assert printed()[1] - {*CORE} == {'data', 'data.synth'}


# ---- the names
@pytest.mark.parametrize('name', modit.__all__)
def test_a_name_is_the_same_as_in_its_module(name):
    home = import_module(f'modit.{modit._HOME[name]}')
    assert getattr(modit, name) is getattr(home, name) is vars(home)[name]
    assert name in home.__all__ and name in dir(modit)


def test_an_unknown_name_is_met_with_the_nearest():
    with pytest.raises(AttributeError, match='load_setings.*use load_settings'): _ = modit.load_setings
    with pytest.raises(AttributeError, match='one of load_settings, .*Retriever'): _ = modit.xyz
    assert not hasattr(modit, '__wrapped__')


def test_the_package_alone_imports_nothing_heavy():
    heavy = {'torch', 'numpy', 'pandas', 'matplotlib', 'faiss', 'sklearn'}
    assert run_apart(f'import modit, sys; print("heavy", *{heavy} & {{*sys.modules}})').stdout == 'heavy\n'


# A function that shares the name of its module, reached before and after the module was imported.
SHARED = """
import sys
import modit
first = modit.pretrain
from modit.pretrain import pretrain as its
from modit import pretrain as ours
import modit.pretrain as third
assert callable(first) and first is its is ours is third is modit.pretrain
assert first is sys.modules['modit.pretrain'].pretrain
from modit.stages import pipeline
assert modit.stages.pipeline is sys.modules['modit.stages.pipeline'] is pipeline
modules = {x.partition('.')[2] for x in sys.modules if x.startswith('modit.')}
print(*modules & {*modit.__all__})
"""


def test_a_function_keeps_its_name_from_a_module():
    assert run_python(SHARED, ROOT).split() == ['pretrain']


# ---- examples of the docstrings: one session, in the order of the names
OFFERED = [name for name in modit.__all__ if callable(getattr(modit, name))] # a constant has no docstring
METHODS = [f'Retriever.{name}' for name in ('of', 'query', 'expand')] # the others are called by these


def examples_of(name):
    "What stands in a docstring behind >>>, with its output."
    return doctest.DocTestParser().get_examples(inspect.getdoc(attrgetter(name)(modit)))


@pytest.fixture(scope='module')
def said(tmp_path_factory):
    "What is wrong with each name's examples, run one after another in an empty folder."
    names, wrong = dict(modit=modit, np=np, pd=pd), {}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    with pytest.MonkeyPatch.context() as m, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        m.chdir(tmp_path_factory.mktemp('examples'))
        m.setenv('MODIT_RUNS', 'runs')
        for name in OFFERED + METHODS:
            test, out = doctest.DocTest(examples_of(name), names, name, None, None, None), io.StringIO()
            runner.run(test, out=out.write, clear_globs=False)
            names, wrong[name] = test.globs, out.getvalue()
    return wrong


@pytest.mark.parametrize('name', OFFERED + METHODS)
def test_an_example_is_true(said, name):
    found = examples_of(name)
    assert found and name.rpartition('.')[2] in ''.join(x.source for x in found), f'{name} has no example'
    assert not said[name], said[name]


def test_only_constants_have_none():
    assert {*modit.__all__} - {*OFFERED} == {'VARIANTS'} and 'VARIANTS' in inspect.getdoc(modit.hppo)
