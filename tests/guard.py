"""Processes of tests end with the tests, however these end: all done, Ctrl-C, or killed.

What tests start inherits a variable with the name of their run, and so does what that starts, such as
kernels. A process beside the tests waits until they have ended, which closes a pipe, and kills what still
bears the name. A fork of the tests themselves ends with the process that made it.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import psutil

NAMES = 'MODIT_TESTS'  # the variable
DIES_WITH_PARENT = 1   # PR_SET_PDEATHSIG of prctl(2)


def begin():
    "Once in each process of pytest; it hears SIGINT also in the background, and so does what it starts."
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    pipe = None if 'PYTEST_XDIST_WORKER' in os.environ else watched()
    by_main = True
    def forks():
        nonlocal by_main
        by_main = threading.current_thread() is threading.main_thread()
    def forked():
        if pipe is not None: os.close(pipe)
        # Linux ends a fork with the thread that made it, and the thread of a pool ends before its forks do
        if by_main: end_with_parent(signal.SIGKILL)
    os.register_at_fork(before=forks, after_in_child=forked)
    if 'MAKELEVEL' in os.environ and pipe is not None: end_with_parent(signal.SIGTERM)  # make, or its shell


def end_with_parent(sign):
    if sys.platform == 'linux': ctypes.CDLL(None).prctl(DIES_WITH_PARENT, sign)


def watched():
    "Name this run, and start what waits for its end: the end of a pipe that is open as long as this process."
    name, others = f'{os.getpid()}-{time.time_ns()}', dict(os.environ)
    os.environ[NAMES] = ' '.join([*others.pop(NAMES, '').split(), name])
    heard, pipe = os.pipe()
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    subprocess.Popen([sys.executable, __file__, name], stdin=heard, env=others, **quiet)
    os.close(heard)
    return pipe


def bearing(name):
    "Processes of a run."
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if name in process.environ().get(NAMES, '').split(): yield process


def pytest_keyboard_interrupt():
    "A hook of pytest. It would wait for the forks of a pool, which do not know of the interrupt."
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[1:2] != [__file__]: process.kill()


if __name__ == '__main__':
    sys.stdin.buffer.read()
    for _ in range(100):  # what is killed may just have started another
        left = [*bearing(sys.argv[1])]
        for process in left:
            with contextlib.suppress(psutil.Error): process.kill()
        if not left: break
        time.sleep(.1)
