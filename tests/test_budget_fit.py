"A fit that buys its labels: within the budget, no label twice, and the same model after a kill."
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import contents, run_apart
from modit.data.folder import FACTS, read_facts, read_folder, write_folder
from modit.data.scorer import Service
from modit.data.synth import make_domain, make_world
from modit.ordering import Corpus
from modit.patterns import ROLES
from modit.serving.check import check_folder
from modit.serving.commands import OWN
from modit.serving.fit import fit
from modit.serving.proposal import write_facts
from modit.serving.purse import SURVEY, Purse, bought_survey, judged, lacking, open_purse, positives, survey
from modit.settings import load_settings
from modit.store import stream

ONE = dict(clusters=[24], heldout_clusters=[3], valid_clusters=[3], train_rows=[100], normal_share=[0.],
           repetition=[1], sft_epochs=[1])
TOY = load_settings('smoke', domains=['D1'], items=[4000], attribute_shift=6., **ONE)
MADE = make_domain(make_world(TOY), 'D1', TOY)
N = len(MADE.items)
IDS = [f'item{i}' for i in range(N)]
TRUTH = dict(zip(IDS, MADE.attribute.tolist(), strict=True))
KINDS = [f'kind{c:02d}' for c in MADE.true_pattern]
SOLD = []


def sells(ids):
    "A service that knows all, and remembers what it sold."
    SOLD.extend(ids)
    return [TRUTH[x] for x in ids]


def make(path, blank=None):
    "A folder with a scorer; blank: which labels its table lacks, by default all."
    blank = np.ones(N, bool) if blank is None else blank
    write_folder(path, MADE.items, IDS, np.where(blank, np.nan, MADE.attribute), pattern=KINDS)
    (path/FACTS).write_text('[domain]\nscorer = shop:sells\n')
    return path


def files(folder): return contents(folder/'model')


@pytest.fixture(autouse=True)
def shop(monkeypatch, tmp_path):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    monkeypatch.setitem(sys.modules, 'shop', SimpleNamespace(sells=Service(sells, batch=40, pause=0)))
    SOLD.clear()


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    "A model of a budget of 1,200, and what was sold for it."
    with pytest.MonkeyPatch.context() as m:
        m.setitem(sys.modules, 'shop', SimpleNamespace(sells=Service(sells, batch=40, pause=0)))
        SOLD.clear()
        folder = make(tmp_path_factory.mktemp('whole')/'toys')
        model, = fit(folder, 'smoke', budget=1200)
    return folder, model, list(SOLD)


KILLED = """
import os, sys
from types import SimpleNamespace
sys.path.insert(0, 'tests')
import test_budget_fit as t
most = int(sys.argv[2])
log = open(sys.argv[3], 'a')
def sells(ids):
    answer = t.sells(ids)
    if len(t.SOLD) > most: os.kill(os.getpid(), 9)
    log.write(' '.join(ids) + ' '); log.flush()
    return answer
sys.modules['shop'] = SimpleNamespace(sells=t.Service(sells, batch=40, pause=0))
t.fit(sys.argv[1], 'smoke', budget=1200)
"""


@pytest.mark.parametrize('most', [300, 1000]) # in the survey, and in training
def test_a_fit_that_was_killed_buys_nothing_twice_and_ends_the_same(whole, tmp_path, most):
    folder = make(tmp_path/'toys')
    run = run_apart(KILLED, folder, most, tmp_path/'log')
    assert run.returncode == -signal.SIGKILL, run.stderr[-2000:]
    assert not (folder/'model').exists()
    paid = (tmp_path/'log').read_text().split()
    assert most - 80 < len(paid) <= most
    fit(folder, 'smoke', budget=1200)
    assert not set(SOLD) & set(paid) and sorted(SOLD + paid) == sorted(whole[2])
    assert files(folder) == files(whole[0])
    SOLD.clear()
    fit(folder, 'smoke', budget=1200) # a third pays nothing
    assert not SOLD and files(folder) == files(whole[0])


def test_labels_of_the_table_are_not_bought(tmp_path):
    blank = stream(0, 'blank').random(N) < .5
    folder = make(tmp_path/'toys', blank)
    model, = fit(folder, 'smoke', budget=500)
    data = model.about.data
    assert len(SOLD) == len(set(SOLD)) == data['labels'] <= 500 and data['table'] == (~blank).sum()
    assert all(blank[int(x[4:])] for x in SOLD)


def test_a_budget_that_is_too_small_is_refused_before_the_first_label(tmp_path):
    folder = make(tmp_path/'toys')
    with pytest.raises(ValueError, match='validation needs 8 patterns .* give 288 or more') as refusal:
        fit(folder, 'smoke', budget=287)
    assert '\n' not in str(refusal.value) and not SOLD
    lines, trouble = check_folder(folder, 'smoke')
    assert not trouble and not SOLD and 'N is 288' in lines[-1]
    assert read_facts(folder) == dict(scorer='shop:sells')
    OWN['check']([folder], 'smoke')
    with pytest.raises(ValueError, match='budget 5: '): OWN['fit']([folder], 'smoke', budget=5)
    assert not SOLD
    budget = 300
    for _ in range(9): # the number that is named leads to one that is enough
        domain, purse = open_purse(folder, budget)
        try: bought_survey(domain, purse, 24, 0)
        except ValueError as e:
            assert '; they are kept, give about ' in str(e) and '\n' not in str(e)
            assert budget < int(str(e).split()[-1]) < 4000
            budget = int(str(e).split()[-1])
        assert len(SOLD) == len(set(SOLD)) <= SURVEY*budget
    assert lacking(domain, purse, 24) == 0 and budget > 300


def counted(budget, blank=None, labels=MADE.attribute):
    "A domain and a purse over labels in memory."
    known = np.where(np.ones(N, bool) if blank is None else blank, np.nan, labels)
    class Labels:
        values, threshold = known.astype(float), None
        def __getitem__(self, ids): self.values[ids] = labels[ids]
    names, row = np.unique(KINDS, return_inverse=True)
    domain = SimpleNamespace(name='toys', pattern=row, patterns=tuple(names))
    return domain, Purse(Labels(), budget)


def test_the_survey_takes_its_share_and_stops_when_it_has_enough():
    for budget in (900, 1500, 20_000):
        domain, purse = counted(budget)
        survey(domain, purse, 24, 0)
        done = (positives(domain, purse) >= 24).sum()
        assert purse.bought <= SURVEY*budget and done <= 20
        assert purse.bought == int(SURVEY*budget) or done == 20
    smaller = counted(600)[1]
    survey(domain, smaller, 24, 0)
    assert (smaller.known <= purse.known).all() # a larger budget uses what a smaller one bought


def test_a_pattern_without_the_attribute_does_not_empty_the_purse():
    labels = MADE.attribute & np.isin(MADE.true_pattern, range(12)) # 54 or more in each of these
    domain, purse = counted(3000, labels=labels)
    survey(domain, purse, 24, 0)
    spent = np.bincount(domain.pattern[purse.known], minlength=24)
    assert spent[12:].max() <= 48 and (positives(domain, purse) >= 24).sum() == 12


def test_lists_are_judged_by_known_labels_alone():
    domain, purse = counted(2000)
    survey(domain, purse, 24, 0)
    zero = np.zeros(N, np.float32)
    role = np.zeros(N, np.uint8)
    corpus = Corpus('toys', MADE.items, purse.positive, domain.pattern, role, zero, zero[:16])
    small, rows = judged(corpus, purse, TOY)
    known = purse.known[rows]
    asked = np.unique(domain.pattern[purse.known])
    assert known.sum() == purse.known.sum() and not np.isin(small.pattern[~known], asked).any()
    assert not small.attribute[~known].any() and (small.role[~known] == ROLES.index('item')).all()


def test_mistakes_cost_nothing(tmp_path, monkeypatch):
    folder = make(tmp_path/'toys')
    wrong = {'heldout_clusters': dict(heldout_clusters=[3, 3]), 'a number of labels above 0': dict(budget=0)}
    for said, given in wrong.items():
        with pytest.raises(ValueError, match=said):
            fit(**(dict(folders=folder, profile='smoke', budget=1200) | given))
    write_facts(folder, dict(scorer='shop:rents'))
    with pytest.raises(ValueError, match='shop:rents: no such function'): fit(folder, 'smoke', budget=1200)
    write_facts(folder, {})
    with pytest.raises(ValueError, match='names no scorer'): fit(folder, 'smoke', budget=1200)
    write_folder(folder, MADE.items, IDS, np.full(N, np.nan))
    write_facts(folder, dict(scorer='shop:sells'))
    with pytest.raises(ValueError, match='column pattern'): fit(folder, 'smoke', budget=1200)
    assert 'column pattern' in check_folder(folder, 'smoke')[1][0]
    with pytest.raises(ValueError, match='blank'): fit(folder, 'smoke') # without a budget nothing is bought
    with pytest.raises(ValueError, match='blank'): read_folder(folder)
    assert not SOLD and not (folder/'model').exists()


def test_a_survey_in_vain_ends_early():
    rare = MADE.attribute & (stream(0, 'rare').random(N) < .05)
    domain, purse = counted(1000, labels=rare)
    with pytest.raises(ValueError, match=r'give about (\d+)00$'): bought_survey(domain, purse, 24, 0)
    assert SURVEY*1000/2 - 1 <= purse.bought < SURVEY*1000
