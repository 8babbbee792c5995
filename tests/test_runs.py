"""Whole runs at the smoke profile: two give the same files, one of them killed again and again.

One goes through the graph, with a process for every stage and a kernel for every page, and is killed on its
way. The other makes the same in forks (tests/forks.py); test_every_page.py goes on from there.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import COMMAND, HANG, ROOT, begun, copied, digest, environment, results, toy_repository

pytestmark = pytest.mark.slow


def start(copy, *argv, **variables):
    "Start `modit` in a copy, in a process group of its own, its messages in a file."
    with open(copy/'messages.txt', 'ab') as log:
        return subprocess.Popen([sys.executable, '-c', COMMAND, *argv], cwd=copy, stdout=log, stderr=log,
                                env=environment(copy) | variables, start_new_session=True)


def kill(process):
    "SIGKILL to the whole group; kernels live in groups of their own and end when their parent does."
    try: os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError: pass
    process.wait()


def messages(copy): return (copy/'messages.txt').read_text('utf-8')


def finish(copy, *argv):
    "Run to the end."
    process = start(copy, *argv)
    try: code = process.wait(HANG)
    finally: kill(process)
    assert code == 0, messages(copy)[-3000:]


def models(copy, seen=digest):
    "What identifies every stored stage."
    return {str(p.relative_to(copy)): seen(p) for p in (copy/'runs').rglob('*.safetensors')}


def made_in(copy): return results(copy), models(copy)


def papermill(copy, line):
    "A papermill line as a person types it."
    command = [sys.executable, '-m', 'papermill', *line]
    run = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout + run.stderr


def test_one_experiment_runs_first_what_it_reads(whole, tmp_path):
    "In a clone without results, where the stages are there: who makes these is tested below."
    copy = toy_repository(tmp_path/'modit')
    shutil.copytree(whole/'runs', copy/'runs', ignore=shutil.ignore_patterns('done', 'notebooks'))
    text = (ROOT/'CONTRIBUTING.md').read_text('utf-8')
    line = re.search(r'^\.venv/bin/modit (run .*--fresh)', text, re.M)[1]
    finish(copy, *line.split())
    assert 'are run first: 320_main' in messages(copy)
    assert (copy/'figures'/'smoke'/'cases'/'pareto.csv.gz').exists()


def test_a_papermill_line_by_hand_gives_the_same_files(whole, tmp_path):
    copy, readme = copied(whole, tmp_path)/'modit', (ROOT/'nbs'/'repro'/'README.md').read_text('utf-8')
    line = re.search(r'^\.venv/bin/papermill (.*nbs/repro/paper/320_main\.ipynb .*)$', readme, re.M)[1]
    papermill(copy, line.split())
    assert results(copy) == results(whole)


# Left to a run: stages of one domain, and the two pages after them. Other domains run the same code.
LEFT = ('pool-D1-*', 'adaptive-D1-*', 'off_policy-D1-*', 'pareto*-D1-*')

# Killed when such a file is there: the rounds of a stage, a page's scores before its tables.
MOMENTS = ('runs/smoke/adaptive-D1-*', 'figures/smoke/cases/main.*')
MAIN_RUN = ('main', '--profile', 'smoke')


def kill_when(copy, moment, seconds):
    "Start a run and kill it so long after a file is there."
    process = start(copy, *MAIN_RUN)
    began = time.time()
    while process.poll() is None and not [*copy.glob(moment)]:
        if time.time() - began > HANG: break
        time.sleep(.02)
    time.sleep(seconds)
    assert process.poll() is None, messages(copy)[-3000:]
    kill(process)


def test_killed_again_and_again_ends_the_same(whole, tmp_path):
    copy = begun(whole, tmp_path/'modit', *LEFT)
    rng = random.Random(0)
    for moment in MOMENTS: kill_when(copy, moment, rng.uniform(0, .3))
    finish(copy, *MAIN_RUN)
    assert made_in(copy) == made_in(whole) and 'Tables and figures' in messages(copy)
    files = [p for p in (copy/'figures').rglob('*') if p.is_file()]
    left = [str(p.relative_to(copy)) for p in files if p.name.startswith('.')]
    assert not left, f'unfinished files in figures: {left}'
