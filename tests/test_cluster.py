"""The profiles for clusters: whose jobs they name, and that for Kubernetes with a stand-in for kubectl."""
import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from conftest import ROOT, environment
from modit.run.graph import main_stages, page_job, stage_jobs
from modit.run.notebooks import experiments
from modit.settings import load_settings

PROFILES = ROOT/'workflow'/'profiles'
TRAINED = ('pretrained', 'cpt', 'sft', 'hppo')


def asked(name):
    "What a profile asks for each job that it names, and for the rest; partitions and accounts apart."
    profile = yaml.safe_load((PROFILES/name/'config.yaml').read_text())
    own = profile['set-resources'] | dict(default=profile['default-resources'])
    shared = ('gpu', 'runtime', 'mem_mb')
    return {job: {k: v for k, v in wants.items() if k in shared and v} for job, wants in own.items()}


@pytest.mark.parametrize('name', ['slurm', 'kubernetes'])
def test_a_profile_names_jobs_of_the_graph_and_all_that_train(name):
    s = load_settings('large')
    jobs = {job.name for job in stage_jobs(s, main_stages(s)).values()}
    pages = {page_job(s, page).name for page in experiments()}
    named = {job: wants for job, wants in asked(name).items() if job != 'default'}
    assert set(named) <= jobs | pages
    assert {job for job in jobs if job.startswith(TRAINED)} <= {job for job in named if named[job]['gpu']}


def test_both_profiles_ask_for_the_same():
    assert asked('slurm') == asked('kubernetes')


# ---- Kubernetes
# Runs a Job at once, with the variables of its pod and no others. Asked for it, it says that it is at work,
# then that nothing answers, then what became of it.
KUBECTL = f"""#!{sys.executable}
import json, pathlib, subprocess, sys
folder, words = pathlib.Path(__file__).parent/'jobs', sys.argv[1:]
folder.mkdir(exist_ok=True)
if words[0] == 'create':
    job = json.load(sys.stdin)
    name = job['metadata']['generateName'] + str(len([*folder.iterdir()]))
    container = job['spec']['template']['spec']['containers'][0]
    env = {{one['name']: one['value'] for one in container['env']}}
    place = dict(cwd=container['workingDir'], env=env)
    run = subprocess.run(container['command'], **place, capture_output=True, text=True)
    job.update(end='Failed' if run.returncode else 'Complete', said=run.stdout + run.stderr, asked=0)
    (folder/name).write_text(json.dumps(job))
    print('job.batch/' + name)
if words[0] == 'get':
    path = folder/words[1].split('/')[1]
    if not path.exists(): sys.exit(0 if '--ignore-not-found' in words else 1)
    job = json.loads(path.read_text())
    job['asked'] += 1
    path.write_text(json.dumps(job))
    if job['asked'] == 2: sys.exit('the connection to the server was refused')
    print('Job', '' if job['asked'] == 1 else job['end'], end='')
if words[0] == 'delete':
    for word in words[1:]:
        if word.startswith('job'): (folder/word.split('/')[1]).unlink()
"""

GRAPH = """
rule all:
    input: 'scores'

rule pretrained:
    output: 'model'
    shell: 'env > model'

rule scores:
    input: 'model'
    output: 'scores'
    shell: 'test -e mended && cp model scores'
"""


@pytest.fixture
def cluster(tmp_path):
    "A folder with a graph of two jobs, the profile filled in, and what stands in for kubectl."
    shutil.copytree(PROFILES, tmp_path/'workflow'/'profiles')
    config = tmp_path/'workflow'/'profiles'/'kubernetes'/'config.yaml'
    own = config.read_text().replace('your-image', 'python:3.11').replace('your-claim', 'ours')
    config.write_text(own.replace('/your/folder', str(tmp_path)))
    (tmp_path/'Snakefile').write_text(GRAPH)
    (tmp_path/'bin').mkdir()
    (tmp_path/'bin'/'kubectl').write_text(KUBECTL)
    (tmp_path/'bin'/'kubectl').chmod(0o755)
    return tmp_path


def within(folder):
    "The variables of a process in the folder of the fixture."
    usual = environment(ROOT)
    own = dict(PATH=f'{folder}/bin{os.pathsep}{usual["PATH"]}', MODIT_RUNS=f'{folder}/runs', SECRET='own')
    return usual | own


def snakemake(folder):
    "Run the graph of the fixture."
    line = [sys.executable, '-m', 'snakemake', '--workflow-profile', 'workflow/profiles/kubernetes']
    line += ['--seconds-between-status-checks', '1', '--latency-wait', '2']
    return subprocess.run(line, cwd=folder, env=within(folder), capture_output=True, text=True)


@pytest.mark.slow
def test_jobs_become_pods_and_a_failed_one_is_run_again(cluster):
    pytest.importorskip('snakemake_executor_plugin_cluster_generic', reason='the executor is not installed')
    broken = snakemake(cluster)
    assert broken.returncode and 'Error in rule scores' in broken.stderr, broken.stderr[-3000:]
    variables = (cluster/'model').read_text()
    assert f'MODIT_RUNS={cluster}/runs' in variables and 'SECRET' not in variables
    (cluster/'mended').touch()
    mended = snakemake(cluster)
    assert mended.returncode == 0, mended.stderr[-3000:]
    assert (cluster/'scores').exists() and 'connection to the server was refused' in mended.stderr
    jobs = [json.loads(path.read_text()) for path in sorted((cluster/'bin'/'jobs').iterdir())]
    assert [job['end'] for job in jobs] == ['Complete', 'Failed', 'Complete'], 'the model is made once'
    model, scores, _ = (job['spec']['template']['spec'] for job in jobs)
    (trains,), (plain,) = model['containers'], scores['containers']
    assert trains['resources']['limits'] == {'memory': '24000M', 'nvidia.com/gpu': '1'}
    assert plain['resources']['limits'] == {'memory': '24000M'}
    assert (model['activeDeadlineSeconds'], scores['activeDeadlineSeconds']) == (180*60, 60*60)
    assert trains['image'] == 'python:3.11' and trains['workingDir'] == str(cluster)
    assert trains['volumeMounts'] == [dict(name='shared', mountPath=str(cluster))]
    assert model['volumes'] == [dict(name='shared', persistentVolumeClaim=dict(claimName='ours'))]


def script(folder, name, *words, path=None):
    "Run one of the profile's scripts."
    command = [f'workflow/profiles/kubernetes/{name}', *words]
    if name.endswith('.py'): command.insert(0, sys.executable)
    env = within(folder) | (dict(PATH=path) if path else {})
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def test_what_becomes_of_a_job_is_told_and_a_deleted_one_has_failed(cluster):
    (cluster/'job.sh').write_text('exit 3')
    line = ['image', 'ours', str(cluster), '0', '500', '1', 'job.sh']
    names = [script(cluster, 'submit.py', *line).stdout.strip() for _ in range(2)]
    assert names == ['job.batch/modit-0', 'job.batch/modit-1']
    said = [script(cluster, 'status.sh', names[0]).stdout.strip() for _ in range(3)]
    assert said == ['running', 'running', 'failed']
    assert script(cluster, 'cancel.sh', *names).returncode == 0
    assert script(cluster, 'status.sh', names[1]).stdout.strip() == 'failed'


def test_what_is_missing_for_kubernetes_is_one_line(cluster):
    line = ['your-image', 'your-claim', '/your/folder', '0', '500', '1', 'job.sh']
    unfilled = script(cluster, 'submit.py', *line)
    assert unfilled.returncode and unfilled.stderr.count('\n') == 1 and 'config.yaml' in unfilled.stderr
    absent = script(cluster, 'submit.py', 'image', 'ours', *line[2:], path='/nowhere')
    assert absent.returncode and absent.stderr.count('\n') == 1 and 'kubectl' in absent.stderr
