"""Processes of tests that need not import for seconds: forks of one that has torch and the like, and no
module of ours. Each has its folder, its variables and its files for what it says, as a new process has.
"""
import atexit
import os
import sys
from multiprocessing import get_context

# Nothing of notebooks is among them: some tests run without.
HEAVY = ['torch._dynamo', 'pandas', 'scipy.stats', 'sklearn.linear_model', 'matplotlib.pyplot', 'accelerate']
CONTEXT = get_context('forkserver')
CONTEXT.set_forkserver_preload(HEAVY)


def _run(code, words, cwd, env, out, err):
    "In the process: what `python -c` would do."
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv, sys.path[:0] = ['-c', *words], env.get('PYTHONPATH', '').split(os.pathsep)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), number)
    how = dict(buffering=1, closefd=False, encoding='utf-8')
    sys.stdout, sys.stderr = (open(number, 'w', **how) for number in (1, 2))
    try: exec(compile(code, '-c', 'exec'), vars(sys.modules['__main__']))
    finally: atexit._run_exitfuncs()


def begin(code, *words, cwd, env, out, err=None):
    "Start a text of Python on some words: a process with a pid and, at its end, an exitcode."
    run = CONTEXT.Process(target=_run, args=(code, [*map(str, words)], cwd, env, out, err or out))
    run.start()
    return run
