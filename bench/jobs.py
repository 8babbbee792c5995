"""How much several jobs speed up labelling: the first pool of one domain, labelled by one, two and four jobs
that start at once, at three numbers of items, with the index on disk.

    python bench/jobs.py                                  # writes figures/mini/jobs.csv

A job is a process of `modit stage pool`, started in the same way as by the graph of runs. It starts Python,
imports, opens the domain, the index and the model, labels its shard and writes it. If it runs again while the
shards exist, it labels nothing: this measures the time of starting. The model is not trained, since the time
of a label does not depend on training. Beside each time stands the prediction of `modit plan`, for one core.
"""
import json
import os
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser

import pandas as pd

from modit.repro.bench.plan import _measured_once, fit_machine
from modit.repro.bench.work import all_work, main_runs
from modit.repro.report.report import figures_dir, kernels
from modit.repro.pages.graph import changes
from modit.stages.pipeline import work_folder
from modit.stages.stages import stage_path
from modit.settings import PER_DOMAIN, Settings, load_settings, override
from modit.store import atomic_write

ITEMS, JOBS = (300_000, 1_000_000, 4_000_000), (1, 2, 4)

def of_one_domain(
    s:Settings, # of a profile
    n:int,      # items
) -> Settings:
    "Settings of one domain of n items, with its index on disk and stages of one step."
    alone = dict(domains=s.domains[:1]) | {key: getattr(s, key)[:1] for key in PER_DOMAIN}
    share = n/s.items[0] # patterns are as large as in the profile
    kinds = ('clusters', 'heldout_clusters', 'valid_clusters')
    fewer = {key: (max(2, round(share*alone[key][0])),) for key in kinds}
    least = dict(items=(n,), index='ivf_disk', pretrain_steps=1, train_rows=(s.batch,))
    return override(s, **(alone | least | fewer))


def start_jobs(
    s:Settings, # of `of_one_domain`
    *words,     # of the command after the stage and its domain, for each job
) -> float:     # seconds until the last has ended
    "Run processes in parallel; raises `RuntimeError` if one fails."
    command = [sys.executable, '-m', 'modit.cli.command', 'stage']
    given = ['--profile', s.profile, '--overrides', json.dumps(changes(s))]
    began, quiet = time.time(), dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    running = [subprocess.Popen([*command, *more, *given], **quiet) for more in words]
    said = [job.communicate()[1] for job in running]
    if any(job.returncode for job in running): raise RuntimeError(f'a job has failed: {"".join(said)[-500:]}')
    return time.time() - began


def label(
    s:Settings, # of `of_one_domain`
    jobs:int,   # side by side
) -> dict:      # jobs, seconds, start
    "Label the pool in one shard per job, once with work to do and once without."
    name, folder = s.domains[0], work_folder(stage_path(s, 'pool', s.domains[0]))
    shards = [['pool', name, '--shards', str(jobs), '--shard', str(i + 1)] for i in range(jobs)]
    shutil.rmtree(folder, ignore_errors=True)
    seconds, again = (start_jobs(s, *shards) for _ in range(2))
    return dict(jobs=jobs, seconds=seconds, start=again)


def predicted(
    s:Settings, # of one domain
    machine,    # Machine
) -> float:     # seconds of one core
    "The predicted seconds of labelling one pool, without starting processes."
    work = all_work(s)
    return machine.predict(work[work.stage == 'pool']).seconds.sum()/main_runs(s)[0]/len(s.domains)


def measure(
    s:Settings, # of a profile
    path,       # jobs.csv
):
    "Measure every number of items and jobs; the table is saved after each number of items."
    machine, rows = fit_machine(_measured_once()), []
    for n in ITEMS:
        one = of_one_domain(s, n)
        start_jobs(one, ['sft', one.domains[0]])
        facts = dict(items=n, cases=one.hppo_cases, cores=os.cpu_count(), predicted=predicted(one, machine))
        rows += [facts | label(one, jobs) | dict(processor=kernels()['processor']) for jobs in JOBS]
        atomic_write(path, pd.DataFrame(rows).to_csv(index=False, float_format='%.4g', lineterminator='\n'))


if __name__ == '__main__':
    parser = ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--profile', default='mini', help='of settings.ini')
    s = load_settings(parser.parse_args().profile)
    measure(s, figures_dir(s)/'jobs.csv')
