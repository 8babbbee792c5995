"""Whole runs at the smoke profile: two give the same files, and so does one that is killed again and again.

Each run works in its own copy of the repository and gets its own process group, which SIGKILL ends at once.
"""
import gzip
import hashlib
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

from conftest import LABELS, ROOT, copy_repository, environment, run_python, two_at_a_time
from modit.graph import has_scores, is_ledger
from modit.notebooks import experiments, page_constant, short_name

pytestmark = pytest.mark.slow
LIMIT = 900  # seconds for one uninterrupted run
COMMAND = 'from modit.command import main; main()'


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


def digest(path):
    "Hash of a file, of its content where it is compressed."
    data = path.read_bytes()
    return hashlib.sha256(gzip.decompress(data) if path.suffix == '.gz' else data).hexdigest()


def results(copy, profile='smoke'):
    "Hash of every table, figure and score file of a profile, without those of reruns and sweeps."
    folder, kinds = copy/'figures'/profile, ('.csv', '.gz', '.svg', '.md', '.tex')
    files = {p.relative_to(folder): p for p in sorted(folder.rglob('*')) if p.suffix in kinds}
    return {str(name): digest(p) for name, p in files.items() if name.parts[0] not in ('runs', 'sweeps')}


def models(copy, seen=digest):
    "What identifies every stored stage."
    return {str(p.relative_to(copy)): seen(p) for p in (copy/'runs').rglob('*.safetensors')}


def papermill(copy, line):
    "A papermill line as a person types it."
    command = [sys.executable, '-m', 'papermill', *line]
    run = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    "An uninterrupted run, and how long it took."
    copy = copy_repository(tmp_path_factory.mktemp('whole')/'modit')
    began = time.time()
    finish(copy, 'main', '--profile', 'smoke')
    return copy, time.time() - began


def test_a_run_writes_the_main_table(whole):
    found = results(whole[0])
    assert {'tab-main.csv', 'tab-main.md', 'cases/main.csv.gz'} <= found.keys()
    assert 'Tables and figures' in messages(whole[0])


def test_a_second_call_has_nothing_to_do(whole):
    copy, _ = whole
    def written(path): return path.stat().st_mtime_ns
    made, before = models(copy, written), results(copy)
    finish(copy, 'main', '--profile', 'smoke')
    assert results(copy) == before and models(copy, written) == made


@pytest.mark.parametrize('name', ['320_main', '380_bootstrap'])
def test_a_papermill_line_by_hand_gives_the_same_files(whole, name):
    copy, _ = whole
    before, readme = results(copy), (ROOT/'README.md').read_text()
    line = re.search(r'^\.venv/bin/papermill (.*nbs/experiments/320_main\.ipynb .*)$', readme, re.M)[1]
    papermill(copy, line.replace('320_main', name).split())
    assert results(copy) == before


@pytest.fixture(scope='module')
def everything(whole, tmp_path_factory):
    "The same run, gone on to every experiment of the paper."
    copy = tmp_path_factory.mktemp('everything')/'modit'
    subprocess.run(['cp', '-r', str(whole[0]), str(copy)], check=True)
    finish(copy, 'main', 'paper', '--profile', 'smoke')
    return copy


def test_every_experiment_writes_its_artefacts(everything):
    files = {p.stem for p in (everything/'figures'/'smoke').glob('*.*')}
    assert set(LABELS) <= files, set(LABELS) - files
    ids = [set(pd.read_csv(everything/'figures'/folder/'claims.csv').id) for folder in ('reported', 'smoke')]
    assert ids[0] == ids[1]


@pytest.fixture(scope='module')
def before_reruns(everything):
    "The committed results while no page has run with another value."
    return results(everything)


@pytest.fixture(scope='module')
def reruns(request, everything, before_reruns, tmp_path_factory):
    "Every page with another value."
    folder = tmp_path_factory.mktemp('reruns')
    def rerun(name):
        line = [f'nbs/experiments/{name}.ipynb', str(folder/f'{name}.ipynb'), '-p', 'profile', 'smoke']
        papermill(everything, [*line, '-p', 'cases', '20'])
    yield from two_at_a_time(request, 'name', rerun)


@pytest.mark.parametrize('name', [name for name in experiments() if not is_ledger(name)])
def test_a_page_with_another_value_leaves_the_committed_results(everything, before_reruns, reruns, name):
    reruns[name].result()
    assert results(everything) == before_reruns
    folder = everything/'figures'/'smoke'/'runs'/'cases=20'
    scores = {p.name.removesuffix('.csv.gz') for p in folder.glob('cases/*.csv.gz')}
    assert set(page_constant(name, 'SCORES')) <= scores
    assert [p for p in folder.iterdir() if p.suffix in ('.csv', '.svg')], 'no table and no figure'


def test_a_sweep_joins_its_tables_and_goes_on_where_it_was(everything):
    grid = ['sensitivity', 'margin=0.03,0.05', 'domains=D1', '--profile', 'smoke']
    before = results(everything)
    finish(everything, 'sweep', *grid)
    assert results(everything) == before
    folder = everything/'figures'/'smoke'/'sweeps'/'sensitivity-margin=0.03,0.05-domains=D1'
    table = pd.read_csv(folder/'tab-hparam.csv')
    assert set(table.margin) == {.03, .05} and (folder/'fig-sweep.svg').exists()
    made = {p.name: digest(p) for p in folder.iterdir()}
    finish(everything, 'sweep', *grid)
    assert '2 combinations, 0 to run' in messages(everything)
    assert {p.name: digest(p) for p in folder.iterdir()} == made


# What a kernel would need cannot be imported.
NO_KERNEL = """import sys
for name in ('papermill', 'nbclient', 'ipykernel', 'jupyter_client'): sys.modules[name] = None
from modit.command import main
main(['figures', '--profile', {profile!r}])"""


def test_redrawing_needs_no_models_and_no_kernel(everything, tmp_path):
    copy = copy_repository(tmp_path/'modit')
    (copy/'figures'/'smoke').mkdir(parents=True, exist_ok=True)
    shutil.copytree(everything/'figures'/'smoke'/'cases', copy/'figures'/'smoke'/'cases')
    run_python(NO_KERNEL.format(profile='smoke'), copy)
    assert not list((copy/'runs').rglob('*.safetensors')) and not list((copy/'runs').rglob('*.ipynb'))
    ours, theirs = results(copy), results(everything)
    assert ours.keys() == theirs.keys()
    assert {k for k, v in ours.items() if v != theirs[k]} == set()


def test_committed_tables_follow_from_the_committed_scores(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    for path in (copy/'figures'/'mini').glob('tab-*'): path.unlink()
    said = run_python(NO_KERNEL.format(profile='mini'), copy)
    unrun = [name for name in experiments() if not has_scores('mini', name)]
    assert said.count('passed over') == len(unrun) and all(f'{name}: no scores' in said for name in unrun)
    assert all(short_name(name) in said for name in experiments())
    after = results(copy, 'mini')
    assert before.keys() == after.keys() and not list((copy/'runs').rglob('*.safetensors'))
    differ = {k for k, v in after.items() if v != before[k] and not k.endswith('.svg')}
    assert not differ, 'run make figures, then commit'


def test_a_page_without_scores_is_named_and_passed_over(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    for path in (copy/'figures'/'mini'/'cases').iterdir():
        if path.name not in ('data.csv.gz', 'seeds.csv.gz'): path.unlink()
    said = run_python(NO_KERNEL.format(profile='mini'), copy)
    assert re.search(r'jacobi: no scores .*passed over', said)
    assert not list((copy/'runs').rglob('*.safetensors'))
    assert results(copy, 'mini')['tab-seed.csv'] == before['tab-seed.csv']


def test_killed_again_and_again_ends_the_same(whole, tmp_path):
    reference, seconds = whole
    copy = copy_repository(tmp_path/'modit')
    rng = random.Random(0)  # the moments differ with the machine's speed, as they should
    line = ('main', '--profile', 'smoke', '--shards', '2')  # and so may the jobs that label
    for _ in range(3):
        process = start(copy, *line)
        time.sleep(rng.uniform(.1, .3)*seconds)
        kill(process)
    finish(copy, *line)
    ours, theirs = results(copy), results(reference)
    assert ours.keys() == theirs.keys()
    assert [k for k in ours if ours[k] != theirs[k]] == []
    assert models(copy) == models(reference)
    files = [p for p in (copy/'figures').rglob('*') if p.is_file()]
    left = [str(p.relative_to(copy)) for p in files if p.name.startswith('.')]
    assert not left, f'unfinished files in figures: {left}'
