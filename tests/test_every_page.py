"""All experiments of the paper at the smoke profile, in forks (tests/forks.py); the graph must then find that
nothing is left to do. Reruns with other values, sweeps and redrawing leave what the run wrote.
"""
import json

import pandas as pd
import pytest

from conftest import LABELS, MAIN, copied, digest, in_forks, results, said_in_forks
from modit.repro.pages import page
from modit.repro.pages.notebooks import experiment_path, experiments, page_constant, short_name
from modit.repro.pages.page import open_page
from modit.repro.pages.parameters import is_ledger, of_paper, pages_before, slug
from test_runs import finish, messages, models, papermill

pytestmark = pytest.mark.slow

PAPER = {name for name in experiments() if of_paper(name)}
READ = {x for name in experiments() for x in pages_before(name, 'smoke')} - PAPER # others take its scores
LONG = {'430_negative', '440_baselines', '400_sensitivity'} | READ # begin first


@pytest.fixture(scope='module')
def everything(whole, tmp_path_factory):
    "The main run, gone on to every experiment of the paper and READ; others run on one domain only, below."
    copy = copied(whole, tmp_path_factory.mktemp('everything'))/'modit'
    in_forks(copy, sorted((PAPER | READ) - {*MAIN}, key=lambda name: (name not in LONG, name)), fresh=True)
    return copy


def test_every_experiment_writes_its_artefacts(everything):
    files = {p.stem for p in (everything/'figures'/'smoke').glob('*.*')}
    assert set(LABELS) <= files, set(LABELS) - files
    ids = [set(pd.read_csv(everything/'figures'/folder/'claims.csv').id) for folder in ('reported', 'smoke')]
    assert ids[0] == ids[1]


def test_the_graph_has_nothing_left_to_do(everything):
    def written(path): return path.stat().st_mtime_ns
    made, before = models(everything, written), results(everything)
    finish(everything, 'main', 'paper', '--profile', 'smoke')
    assert results(everything) == before and models(everything, written) == made
    assert 'Tables and figures' in messages(everything) and ': start' not in messages(everything)


OTHER = dict(cases=20, domains=['D1']) # values with which pages run again


@pytest.fixture(scope='module')
def reruns(request, everything, tmp_path_factory):
    "Every page that is asked for with other values, the first through papermill: what went wrong with each."
    before = results(everything)
    asked = [x for x in request.session.items if request.fixturename in x.fixturenames]
    first, *names = [x.callspec.params['name'] for x in asked]
    out = tmp_path_factory.mktemp('reruns')/f'{first}.ipynb'
    line = [str(experiment_path(first)), str(out), '-p', 'profile', 'smoke', '-p', 'cases', '20']
    line += ['-p', 'fresh', 'True']
    told = papermill(everything, [*line, '-y', 'domains: [D1]'])
    shown = [x for cell in json.loads(out.read_text('utf-8'))['cells'] for x in cell.get('outputs', ())]
    assert 'unknown' not in told and not [x for x in shown if x.get('name') == 'stderr'], 'bars and warnings'
    assert [x for x in shown if 'Writes to figures/smoke/runs/domains=D1' in ''.join(x.get('text', ()))]
    said = {first: ''} | said_in_forks(everything, names, fresh=True, drawn=False, **OTHER)
    after = results(everything)
    return said, {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.parametrize('name', [name for name in experiments() if not is_ledger(name)])
def test_a_page_with_another_value_leaves_the_committed_results(everything, reruns, name):
    said, changed = reruns
    assert not said[name] and not changed, f'{said[name]} {changed}'
    folder = everything/'figures'/'smoke'/'runs'/slug(open_page(name, profile='smoke', **OTHER).changed)
    scores = {p.name.removesuffix('.csv.gz') for p in folder.glob('cases/*.csv.gz')}
    assert set(page_constant(name, 'SCORES')) <= scores
    drawn = hasattr(page.page_module(name), 'table') # lists draws one public domain, and nothing here
    assert (folder/f'{short_name(name)}.md').exists() or not drawn, 'its results were not published'


def test_a_sweep_joins_its_tables_and_goes_on_where_it_was(everything):
    grid = ['jacobi', 'domains=D1', 'weights=endpoint', 'sft_lr=0.001,0.002', '--profile', 'smoke']
    before = results(everything)
    finish(everything, 'sweep', *grid)
    assert results(everything) == before and '2 combinations, 2 to run' in messages(everything)
    folder = everything/'figures'/'smoke'/'sweeps'/'jacobi-domains=D1,weights=endpoint,sft_lr=0.001+0.002'
    table = pd.read_csv(folder/'tab-jacobi.csv')
    assert set(table.sft_lr) == {.001, .002}
    made = {p.name: digest(p) for p in folder.iterdir()}
    finish(everything, 'sweep', *grid)
    assert '2 combinations, 0 to run' in messages(everything)
    assert {p.name: digest(p) for p in folder.iterdir()} == made
