"""How a folder is walked through the package: from room to room downhill."""
import sys

import pytest

from conftest import LIBRARY, module_of
from modit.data.folder import write_folder
from modit.data.synth import make_domain, make_world
from modit.stages.pipeline import get_corpus
from modit.serving.fit import fit
from modit.serving.proposal import settings_of
from modit.settings import load_settings

NUMBER = {f'modit.{module_of(page)}': int(page.stem[:3]) for page in LIBRARY}
FOUNDATIONS = {'modit.vocabulary', 'modit.settings', 'modit.store'}  # used everywhere
TINY = dict(pretrain_steps=2, train_rows=[32], repetition=[1], sft_epochs=[1], batch=16, hppo_cases=16)


def caller_of(frame):
    "The module of the package that a function was called from, through other libraries; '' for none."
    frame = frame.f_back
    while frame and frame.f_globals.get('__name__') not in NUMBER: frame = frame.f_back
    return frame.f_globals['__name__'] if frame else ''


def calls(function, *given, **more):
    "Calls from one module to another while a function runs: from, to."
    seen = []
    def note(frame, event, _):
        module = frame.f_globals.get('__name__')
        if event != 'call' or module not in NUMBER or module in FOUNDATIONS: return
        if caller_of(frame) != module: seen.append((caller_of(frame), module))
    sys.setprofile(note)
    try: function(*given, **more)
    finally: sys.setprofile(None)
    return seen


@pytest.fixture
def shoes(tmp_path, monkeypatch):
    "A folder of a domain, and a store of its own."
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    s = load_settings('smoke')
    domain = make_domain(make_world(s), 'D1', s)
    write_folder(tmp_path/'shoes', domain.items, range(len(domain.items)), domain.attribute)
    return tmp_path/'shoes'


def test_a_folder_is_checked_once(shoes):
    s = settings_of(shoes, 'smoke', **TINY)
    get_corpus(s, 'shoes')
    again = calls(get_corpus, s, 'shoes') # from the store
    assert 'modit.data.trouble' not in {b for _, b in again}


@pytest.mark.parametrize('stage', ['alone', 'adaptive'])
def test_fit_walks_downhill(shoes, capsys, stage):
    seen = calls(fit, shoes, 'smoke', stage, **TINY)
    rooms = ('modit.data.', 'modit.serving.')
    climbs = {(a, b) for a, b in seen if a.startswith(rooms) and NUMBER[b] > NUMBER[a]}
    assert not climbs, f'from a lower page to a higher one: {climbs}'
    assert {'modit.data.trouble', 'modit.serving.retriever'} <= {b for _, b in seen}
