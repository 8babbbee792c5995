"""Whole runs at the smoke profile: two runs give the same files, and so does one that is killed again and again.

Each run works in its own copy of the repository and gets its own process group, which SIGKILL ends at once.
"""
import gzip
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import LABELS, ROOT, copy_repository, environment

pytestmark = pytest.mark.skipif(not (ROOT/'nbs'/'experiments'/'32_main.ipynb').exists(), reason='the main experiment is not written yet')
LIMIT = 900  # seconds for one uninterrupted run


def start(copy, *argv):
    "Start `modit` in a copy, in a process group of its own, its messages in a file."
    log = open(copy/'messages.txt', 'ab')
    return subprocess.Popen([sys.executable, '-c', 'from modit.command import main; main()', *argv], cwd=copy, env=environment(copy),
                            stdout=log, stderr=log, start_new_session=True)


def kill(process):
    "SIGKILL to the whole group; kernels live in groups of their own and end when their parent does."
    try: os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError: pass
    process.wait()


def finish(copy, *argv):
    "Run to the end."
    process = start(copy, *argv)
    try: code = process.wait(LIMIT)
    finally: kill(process)
    assert code == 0, (copy/'messages.txt').read_text()[-3000:]


def results(copy, profile='smoke'):
    "Hash of every table, and of every score file's content, that a run wrote."
    folder = copy/'figures'/profile
    read = {'.gz': lambda p: gzip.decompress(p.read_bytes())}
    return {str(p.relative_to(folder)): hashlib.sha256(read.get(p.suffix, lambda p: p.read_bytes())(p)).hexdigest()
            for p in sorted(folder.rglob('*')) if p.suffix in ('.csv', '.gz', '.svg', '.md', '.tex')}


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
    assert 'tab-main' in (whole[0]/'messages.txt').read_text() or 'Tables and figures' in (whole[0]/'messages.txt').read_text()


def test_a_second_call_has_nothing_to_do(whole):
    copy, _ = whole
    models = {p: p.stat().st_mtime_ns for p in (copy/'runs').rglob('*.safetensors')}
    before = results(copy)
    finish(copy, 'main', '--profile', 'smoke')
    assert results(copy) == before
    assert {p: p.stat().st_mtime_ns for p in (copy/'runs').rglob('*.safetensors')} == models


@pytest.mark.parametrize('name', ['32_main', '38_bootstrap'])
def test_a_papermill_line_by_hand_gives_the_same_files(whole, name):
    copy, _ = whole
    before = results(copy)
    line = re.search(r'^\.venv/bin/papermill (.*nbs/experiments/32_main\.ipynb .*)$', (ROOT/'README.md').read_text(), re.M)[1].replace('32_main', name)
    run = subprocess.run([sys.executable, '-m', 'papermill', *line.split()], cwd=copy, env=environment(copy), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
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
    read = lambda name: (everything/'figures'/name).read_text().splitlines()[1:]
    claimed, answered = ({line.split(',')[0] for line in read(f'{folder}/claims.csv')} for folder in ('reported', 'smoke'))
    assert answered == claimed


def test_redrawing_needs_no_models(everything, tmp_path):
    copy = copy_repository(tmp_path/'modit')
    (copy/'figures'/'smoke').mkdir(parents=True, exist_ok=True)
    subprocess.run(['cp', '-r', str(everything/'figures'/'smoke'/'cases'), str(copy/'figures'/'smoke')], check=True)
    finish(copy, 'figures', '--profile', 'smoke')
    assert not list((copy/'runs').rglob('*.safetensors'))
    ours, theirs = results(copy), results(everything)
    assert ours.keys() == theirs.keys()
    assert {k for k, v in ours.items() if v != theirs[k]} == set()


def test_committed_tables_follow_from_the_committed_scores(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = results(copy, 'mini')
    for path in (copy/'figures'/'mini').glob('tab-*'): path.unlink()
    for page in ('32_main', '36_rounds', '50_claims'): finish(copy, 'run', page, '--profile', 'mini')
    after = results(copy, 'mini')
    assert {'tab-main.csv', 'tab-rollout.md', 'tab-claims.tex'} <= after.keys() and not list((copy/'runs').rglob('*.safetensors'))
    assert {k for k, v in after.items() if v != before.get(k) and not k.endswith('.svg')} == set(), 'run make figures, then commit'


def test_killed_again_and_again_ends_the_same(whole, tmp_path):
    reference, seconds = whole
    copy = copy_repository(tmp_path/'modit')
    rng = random.Random(0)  # the moments differ with the machine's speed, as they should
    for i in range(4):
        process = start(copy, 'main', '--profile', 'smoke')
        time.sleep(rng.uniform(.1, .3)*seconds)
        kill(process)
    finish(copy, 'main', '--profile', 'smoke')
    ours, theirs = results(copy), results(reference)
    assert ours.keys() == theirs.keys()
    assert [k for k in ours if ours[k] != theirs[k]] == []
    models = lambda c: {str(p.relative_to(c)): hashlib.sha256(p.read_bytes()).hexdigest() for p in (c/'runs').glob('smoke/*.safetensors')}
    assert models(copy) == models(reference)
    left = [str(p.relative_to(copy)) for p in (copy/'figures').rglob('*') if p.name.startswith('.') and p.is_file()]
    assert not left, f'unfinished files in figures: {left}'
