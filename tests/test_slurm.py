"""The workflow under Slurm: what its jobs ask for, and a run on a Slurm of this machine that loses jobs,
memory and the controller on the way, to the same bytes as without."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from conftest import HANG, ROOT, begun, environment
from test_runs import LEFT, made_in, start

SCRIPT = ROOT/'workflow'/'slurm-local'
MAIN_RUN = ('main', '--profile', 'smoke', '--workflow', 'slurm')
# Snakemake asks how jobs stand after five seconds, then ten seconds later each time; here every second.
ASKED_OFTEN = """
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
RemoteExecutor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, seconds: None)
"""


@pytest.fixture(scope='module')
def slurm(tmp_path_factory):
    "A Slurm of this machine: the variables that it is found by."
    path = f'{os.environ["PATH"]}:/usr/sbin'
    lacking = [x for x in ('munged', 'slurmctld', 'slurmd', 'srun') if not shutil.which(x, path=path)]
    if lacking: pytest.skip(f'no {", ".join(lacking)} here; apt-get install slurm-wlm munge')
    pytest.importorskip('snakemake_executor_plugin_slurm', reason='the executor for Slurm is not installed')
    folder = tmp_path_factory.mktemp('slurm')
    up = subprocess.run([SCRIPT, 'up', folder], capture_output=True, text=True)
    try:
        if up.returncode: pytest.skip(f'Slurm is installed but does not start: {up.stderr[-2000:]}')
        yield dict(SLURM_CONF=str(folder/'slurm.conf'), PATH=f'{folder}/bin:{environment(ROOT)["PATH"]}')
    finally: subprocess.run([SCRIPT, 'down', folder], capture_output=True)


def running(slurm, rule):
    "Slurm's number of the running job of a rule, waited for."
    for _ in range(2*HANG):
        asked = ['squeue', '--noheader', '--states=RUNNING', '--format=%i %k']
        said = subprocess.run(asked, env=os.environ | slurm, capture_output=True, text=True).stdout
        for number, comment in map(str.split, said.splitlines()):
            if comment.startswith(f'rule_{rule}'): return number
        time.sleep(.5)
    raise AssertionError(f'{rule} was never started')


def kill_page(copy, name):
    "SIGKILL to the process of a copy that runs a page, waited for."
    for _ in range(10*HANG):
        found = [p for p in psutil.process_iter(['cwd', 'cmdline'])
                 if p.info['cwd'] == str(copy.resolve()) and name in (p.info['cmdline'] or ())]
        for process in found: process.kill()
        if found: return
        time.sleep(.1)
    raise AssertionError(f'{name} was never started')


@pytest.mark.slow
def test_a_run_that_loses_jobs_memory_and_the_controller_ends_the_same(slurm, whole, tmp_path):
    copy = begun(whole, tmp_path/'modit', *LEFT[1:])  # rounds of preferences, and two pages
    messages, folder = copy/'messages.txt', Path(slurm['SLURM_CONF']).parent
    with open(copy/'Snakefile', 'a', encoding='utf-8') as f: f.write(ASKED_OFTEN)
    profile = copy/'workflow'/'profiles'/'slurm'/'config.yaml'
    usual = profile.read_text('utf-8')

    starving = usual.replace('retries: 1', 'retries: 0').replace('attempt*24000', '100')
    profile.write_text(starving, 'utf-8')
    starved = start(copy, *MAIN_RUN, **slurm)
    assert starved.wait(HANG) == 2, messages.read_text('utf-8')[-3000:]
    assert 'a job failed' in messages.read_text('utf-8').splitlines()[-1]

    messages.unlink()
    profile.write_text(usual.replace('attempt*24000', '2500'), 'utf-8')
    run = start(copy, *MAIN_RUN, **slurm, MODIT_GPU='gpu')
    try:
        subprocess.run(['scancel', running(slurm, 'hppo_D1')], env=os.environ | slurm, check=True)
        running(slurm, 'run_320_main')
        subprocess.run([SCRIPT, 'stop', folder], check=True)
        time.sleep(2)
        subprocess.run([SCRIPT, 'start', folder], check=True)
        kill_page(copy, '380_bootstrap')
        assert run.wait(HANG) == 0, messages.read_text('utf-8')[-3000:]
    finally:
        if run.poll() is None: os.killpg(run.pid, signal.SIGTERM)
    said = messages.read_text('utf-8')
    assert 'Error in rule hppo_D1' in said and 'Error in rule run_380_bootstrap' in said
    assert made_in(copy) == made_in(whole)
