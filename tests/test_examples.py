"""The examples in the docstrings of what `import modit` offers: one session, in the order of its names."""
import doctest
import inspect
import io
import warnings
from operator import attrgetter

import numpy as np
import pandas as pd
import pytest

import modit

OFFERED = [name for name in modit.__all__ if callable(getattr(modit, name))] # a constant has no docstring
METHODS = [f'Retriever.{name}' for name, _ in inspect.getmembers(modit.Retriever, callable) if name[0] != '_']


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
    assert {f'Retriever.{x}' for x in ('of', 'query', 'expand')} <= {*METHODS}
