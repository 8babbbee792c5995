"""The workflow under Slurm: what its jobs ask for, and a run on a Slurm of this machine that loses jobs,
memory and the controller on the way, to the same bytes as without."""
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import HANG, ROOT, begun, copy_repository, environment, results
from modit.repro.pages.graph import TRAINING, main_stages, page_job, slurm_resources, stage_jobs
from modit.settings import load_settings
from modit.store import load_arrays
from test_runs import LEFT, models, start

ROUNDS = LEFT[1:]  # of preferences, and two pages
SCRIPT = ROOT/'workflow'/'slurm-local'
MAIN_RUN = ('main', '--profile', 'smoke', '--workflow', 'slurm')
# Snakemake asks how jobs stand after five seconds, then ten seconds later each time; here every second.
ASKED_OFTEN = """
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
RemoteExecutor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, seconds: None)
"""


def test_what_trains_asks_for_an_accelerator_and_nothing_else_does():
    s = load_settings('smoke', beta=.5)  # names of jobs end in a fingerprint
    jobs = [*stage_jobs(s, main_stages(s)).values(), page_job(s, 'main', seed=1), page_job(s, 'order')]
    for name in (job.name for job in jobs):
        trains = name.startswith(('pretrained', 'cpt', 'sft', 'hppo', 'run_320_main'))
        assert slurm_resources(name, 'gpu=a100') == (dict(gpu=1, slurm_partition='a100') if trains else {})
        assert slurm_resources(name, '') == {}
    assert {word.split('_')[0] for word in TRAINING} == {'pretrained', 'cpt', 'sft', 'hppo', 'run'}


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


def processes(copy, *words):
    "The Python processes of a copy whose command line has some words one after another."
    found = []
    for path in Path('/proc').glob('[0-9]*'):
        try:
            if (path/'cwd').resolve() != copy.resolve(): continue
            line = (path/'cmdline').read_text('utf-8').split('\0')
        except OSError: continue
        if 'python' in line[0] and any(tuple(line[i:i + len(words)]) == words for i in range(len(line))):
            found.append(int(path.name))
    return found


def kill_process(copy, *words):
    "SIGKILL to such a process, waited for."
    for _ in range(10*HANG):
        found = processes(copy, *words)
        for number in found: os.kill(number, signal.SIGKILL)
        if found: return
        time.sleep(.1)
    raise AssertionError(f'{words} was never started')


@pytest.mark.slow
def test_a_run_that_loses_jobs_memory_and_the_controller_ends_the_same(slurm, whole, tmp_path):
    copy = begun(whole, tmp_path/'modit', *ROUNDS)
    messages, folder = copy/'messages.txt', Path(slurm['SLURM_CONF']).parent
    with open(copy/'Snakefile', 'a', encoding='utf-8') as f: f.write(ASKED_OFTEN)
    profile = copy/'workflow'/'profiles'/'slurm'/'config.yaml'
    usual = profile.read_text('utf-8')

    profile.write_text(usual.replace('retries: 1', 'retries: 0'), 'utf-8')  # it would starve again
    starved = start(copy, *MAIN_RUN, **slurm, MODIT_SLURM='mem_mb=100')
    assert starved.wait(HANG) == 2, messages.read_text('utf-8')[-3000:]
    profile.write_text(usual, 'utf-8')
    said = messages.read_text('utf-8').splitlines()[-1]
    assert "exceeded its mem_mb; raise it with MODIT_SLURM='mem_mb=" in said

    messages.unlink()
    run = start(copy, *MAIN_RUN, **slurm, MODIT_SLURM='mem_mb=2500 gpu=gpu')
    try:
        subprocess.run(['scancel', running(slurm, 'hppo_D1')], env=os.environ | slurm, check=True)
        running(slurm, 'run_320_main')
        subprocess.run([SCRIPT, 'stop', folder], check=True)
        time.sleep(2)
        subprocess.run([SCRIPT, 'start', folder], check=True)
        kill_process(copy, 'run', '380_bootstrap')
        assert run.wait(HANG) == 0, messages.read_text('utf-8')[-3000:]
    finally:
        if run.poll() is None: os.killpg(run.pid, signal.SIGTERM)
    said = messages.read_text('utf-8')
    assert 'Error in rule hppo_D1' in said and 'Error in rule run_380_bootstrap' in said
    ours, theirs = results(copy), results(whole)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == [] and models(copy) == models(whole)


CURVE = dict(pretrain_steps=60, pretrain_micro_batch=16, checkpoint_every=5)  # half of a batch each
STAGE = ('-m', 'modit.cli.command', 'stage', 'pretrained', '--profile', 'smoke',
         '--overrides', json.dumps(CURVE))
LAUNCH = ('-m', 'accelerate.commands.launch', '--cpu', '--num_processes', '2', '--num_machines', '1',
          '--mixed_precision', 'no', '--dynamo_backend', 'no')


def submit(copy, slurm, *words):
    "A job of Slurm that runs Python on some words in a copy; its end is the end of the process."
    line = ['sbatch', '--wait', '--mem=2500', f'--chdir={copy}', f'--output={copy}/%j.log',
            f'--wrap=exec {shlex.join([sys.executable, *words])}']
    return subprocess.Popen(line, env=environment(copy) | slurm, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_stage_of_two_processes_in_one_job_is_killed_and_ends_as_one(slurm, tmp_path):
    copy, one = copy_repository(tmp_path/'modit'), tmp_path/'one'
    usual = environment(copy) | dict(MODIT_RUNS=str(one), CUDA_VISIBLE_DEVICES='')
    subprocess.run([sys.executable, *STAGE], cwd=copy, env=usual, check=True, stdout=subprocess.DEVNULL)
    job = submit(copy, slurm, *LAUNCH, *STAGE)
    while job.poll() is None and not [*copy.rglob('checkpoint.safetensors')]: time.sleep(.02)
    os.kill(max(processes(copy, '-m', 'modit.cli.command', 'stage')), signal.SIGKILL)  # the last is a rank
    said = '\n'.join(path.read_text('utf-8') for path in copy.glob('*.log'))
    assert job.wait(HANG) != 0, said
    assert submit(copy, slurm, *LAUNCH, *STAGE).wait(HANG) == 0, said
    (alone, facts), (shared, same) = (load_arrays(*folder.rglob('pretrained-*.safetensors'))
                                      for folder in (one, copy/'runs'))
    assert facts['losses'] == same['losses'] and all(np.array_equal(alone[k], shared[k]) for k in alone)
