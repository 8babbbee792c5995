"""Whole runs at the smoke profile: two give the same files, one of them killed again and again.

Each run works in its own copy of the repository and gets its own process group, which SIGKILL ends at once.
One run goes through the graph, with a process for every stage and a kernel for every page, and is killed on
its way. The other makes the same in forks (tests/forks.py), where a page costs its own work alone, and goes
on to all experiments of the paper; the graph must then find that nothing is left to do.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from conftest import LABELS, MAIN, NO_KERNEL, ROOT, begun, copied, copy_repository, digest, environment
from conftest import in_forks, results, run_python, said_in_forks
from modit.run.notebooks import experiments, page_constant
from modit.run.parameters import slug
from modit.run.page import is_ledger, open_page

pytestmark = pytest.mark.slow
LIMIT = 900  # seconds for one uninterrupted run
COMMAND = 'from modit.cli.command import main; main()'


def start(copy, *argv):
    "Start `modit` in a copy, in a process group of its own, its messages in a file."
    log = open(copy/'messages.txt', 'ab')
    return subprocess.Popen([sys.executable, '-c', COMMAND, *argv], cwd=copy, env=environment(copy),
                            stdout=log, stderr=log, start_new_session=True)


def kill(process):
    "SIGKILL to the whole group; kernels live in groups of their own and end when their parent does."
    try: os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError: pass
    process.wait()


def messages(copy): return (copy/'messages.txt').read_text()


def finish(copy, *argv):
    "Run to the end."
    process = start(copy, *argv)
    try: code = process.wait(LIMIT)
    finally: kill(process)
    assert code == 0, messages(copy)[-3000:]


def models(copy, seen=digest):
    "What identifies every stored stage."
    return {str(p.relative_to(copy)): seen(p) for p in (copy/'runs').rglob('*.safetensors')}


def papermill(copy, line):
    "A papermill line as a person types it."
    command = [sys.executable, '-m', 'papermill', *line]
    run = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]


def test_a_run_writes_the_main_table(whole):
    assert {'tab-main.csv', 'tab-main.md', 'cases/main.csv.gz'} <= results(whole).keys()


def test_one_experiment_runs_in_a_fresh_clone(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    line = re.search(r'^\.venv/bin/modit (run .*--fresh)', (ROOT/'CONTRIBUTING.md').read_text(), re.M)[1]
    finish(copy, *line.split())
    assert 'run first: 320_main' in messages(copy)
    assert (copy/'figures'/'smoke'/'cases'/'pareto.csv.gz').exists()


def test_a_papermill_line_by_hand_gives_the_same_files(whole, tmp_path):
    copy, readme = copied(whole, tmp_path)/'modit', (ROOT/'nbs'/'experiments'/'README.md').read_text()
    line = re.search(r'^\.venv/bin/papermill (.*nbs/experiments/320_main\.ipynb .*)$', readme, re.M)[1]
    papermill(copy, line.split())
    assert results(copy) == results(whole)


# Killed when such a file is there: the rounds of a stage, a page's scores before its tables. Kills of other
# stages that train are in test_folder.py and test_retriever.py; other domains run the same code.
MOMENTS = ('runs/smoke/adaptive-D1-*', 'figures/smoke/cases/main.*')
IN_SHARDS = ('main', '--profile', 'smoke', '--shards', '2')  # so may the jobs that label be killed


def kill_when(copy, moment, seconds):
    "Start a run and kill it so long after a file is there."
    process = start(copy, *IN_SHARDS)
    began = time.time()
    while process.poll() is None and not [*copy.glob(moment)]:
        if time.time() - began > LIMIT: break
        time.sleep(.02)
    time.sleep(seconds)
    assert process.poll() is None, messages(copy)[-3000:]
    kill(process)


def test_killed_again_and_again_ends_the_same(whole, tmp_path):
    copy = begun(whole, tmp_path/'modit', '*-D1-*', 'cpt-*')
    rng = random.Random(0)
    for moment in MOMENTS: kill_when(copy, moment, rng.uniform(0, .3))
    finish(copy, *IN_SHARDS)
    ours, theirs = results(copy), results(whole)
    assert ours.keys() == theirs.keys()
    assert [k for k in ours if ours[k] != theirs[k]] == []
    assert models(copy) == models(whole) and 'Tables and figures' in messages(copy)
    files = [p for p in (copy/'figures').rglob('*') if p.is_file()]
    left = [str(p.relative_to(copy)) for p in files if p.name.startswith('.')]
    assert not left, f'unfinished files in figures: {left}'


@pytest.fixture(scope='module')
def everything(whole, tmp_path_factory):
    "The same run, gone on to every experiment of the paper."
    copy = copied(whole, tmp_path_factory.mktemp('everything'))/'modit'
    in_forks(copy, [name for name in experiments() if name not in MAIN], fresh=True)
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


@pytest.fixture(scope='module')
def before_reruns(everything):
    "The committed results while no page has run with another value."
    return results(everything)


OTHER = dict(cases=20, domains=['D1']) # values with which pages run again


@pytest.fixture(scope='module')
def reruns(request, everything, before_reruns, tmp_path_factory):
    "Every page that is asked for with other values; the first of them through papermill."
    asked = [x for x in request.session.items if request.fixturename in x.fixturenames]
    first, *names = [x.callspec.params['name'] for x in asked]
    out = tmp_path_factory.mktemp('reruns')/f'{first}.ipynb'
    line = [f'nbs/experiments/{first}.ipynb', str(out), '-p', 'profile', 'smoke', '-p', 'cases', '20']
    papermill(everything, [*line, '-y', 'domains: [D1]'])
    return {first: ''} | said_in_forks(everything, names, **OTHER)


@pytest.mark.parametrize('name', [name for name in experiments() if not is_ledger(name)])
def test_a_page_with_another_value_leaves_the_committed_results(everything, before_reruns, reruns, name):
    assert not reruns[name], reruns[name]
    assert results(everything) == before_reruns
    folder = everything/'figures'/'smoke'/'runs'/slug(open_page(name, profile='smoke', **OTHER).changed)
    scores = {p.name.removesuffix('.csv.gz') for p in folder.glob('cases/*.csv.gz')}
    assert set(page_constant(name, 'SCORES')) <= scores
    assert [p for p in folder.iterdir() if p.suffix in ('.csv', '.svg')], 'no table and no figure'


def test_a_page_under_other_settings_has_the_others_scores_made(everything):
    before, smoke = results(everything), everything/'figures'/'smoke'
    in_forks(everything, ['440_baselines'], overrides=dict(resamples=100))  # no score hangs on these
    assert results(everything) == before
    for name in ('main.csv.gz', 'validation.csv.gz'):
        assert digest(smoke/'runs'/'resamples=100'/'cases'/name) == digest(smoke/'cases'/name)


def test_a_sweep_joins_its_tables_and_goes_on_where_it_was(everything):
    grid = ['jacobi', 'sft_lr=0.001,0.002', '--profile', 'smoke']
    before = results(everything)
    finish(everything, 'sweep', *grid)
    assert results(everything) == before and '2 combinations, 1 to run' in messages(everything)
    folder = everything/'figures'/'smoke'/'sweeps'/'jacobi-sft_lr=0.001,0.002'
    table = pd.read_csv(folder/'tab-jacobi.csv')
    assert set(table.sft_lr) == {.001, .002} and (folder/'fig-sweep.svg').exists()
    made = {p.name: digest(p) for p in folder.iterdir()}
    finish(everything, 'sweep', *grid)
    assert '2 combinations, 0 to run' in messages(everything)
    assert {p.name: digest(p) for p in folder.iterdir()} == made


def test_redrawing_needs_no_models_and_no_kernel(everything, tmp_path):
    copy = copy_repository(tmp_path/'modit')
    (copy/'figures'/'smoke').mkdir(parents=True, exist_ok=True)
    shutil.copytree(everything/'figures'/'smoke'/'cases', copy/'figures'/'smoke'/'cases')
    run_python(NO_KERNEL.format(profile='smoke', kinds=('svg',)), copy)
    assert not list((copy/'runs').rglob('*.safetensors')) and not list((copy/'runs').rglob('*.ipynb'))
    ours, theirs = results(copy), results(everything)
    assert ours.keys() == theirs.keys()
    assert {k for k, v in ours.items() if v != theirs[k]} == set()
