"""Nothing that tests have started lives on after them."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conftest import HANG

CONFTEST = """
import sys
sys.path.insert(0, {tests!r})
import guard
from guard import pytest_keyboard_interrupt
guard.begin()
"""
SLEEPS = """
import subprocess, sys, time
from multiprocessing import get_context
from pathlib import Path

CHILD = [sys.executable, '-c', 'import time; time.sleep({hang})']
MORE = 'import subprocess, time; print(subprocess.Popen({{}}, start_new_session=True).pid, flush=True)'

def test_that_sleeps():
    fork = get_context('fork').Process(target=time.sleep, args=({hang},))
    fork.start()
    command = [sys.executable, '-c', MORE.format(CHILD) + '; time.sleep({hang})']
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    grandchild = int(child.stdout.readline())
    Path('pids').write_text(f'{{fork.pid}} {{child.pid}} {{grandchild}}', 'utf-8')
    time.sleep({hang})
"""


def lives(pid):
    try: return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess: return False


def until(holds):
    for _ in range(20*HANG):
        if holds(): return
        time.sleep(.05)
    raise TimeoutError


@pytest.mark.parametrize('sign, workers', [(signal.SIGINT, 1), (signal.SIGTERM, 0), (signal.SIGKILL, 1)])
def test_what_tests_started_ends_with_them(tmp_path, sign, workers):
    (tmp_path/'conftest.py').write_text(CONFTEST.format(tests=str(Path(__file__).parent)), 'utf-8')
    (tmp_path/'test_sleeps.py').write_text(SLEEPS.format(hang=HANG), 'utf-8')
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-n', str(workers)]
    env = {k: v for k, v in os.environ.items() if not k.startswith('PYTEST_')}
    with open(tmp_path/'log', 'w', encoding='utf-8') as log:
        run = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
    def begun(): return run.poll() is not None or (tmp_path/'pids').exists()
    until(begun)
    until(lambda: run.poll() is not None or len((tmp_path/'pids').read_text('utf-8').split()) == 3)
    assert run.poll() is None, (tmp_path/'log').read_text('utf-8')
    pids = [int(pid) for pid in (tmp_path/'pids').read_text('utf-8').split()]
    assert all(map(lives, pids))
    run.send_signal(sign)
    assert run.wait(HANG) != 0
    until(lambda: not any(map(lives, pids)))
