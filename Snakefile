# The runs as a graph. `modit main` starts it; by hand:
#   snakemake --workflow-profile workflow/profiles/local --config profile=mini [--dry-run] TARGET
# where TARGET is main, paper, public or replicate. Under Slurm, MODIT_GPU names the partition of jobs that train.
# What needs what is said by the table of stages (page stages), the table of variants (page preference) and two
# lines of every experiment page, READS and SCORES; page graph turns them into the jobs that are rules here.
# The path of every stage bears a key of the settings, the code and the parents it was made from: a file that
# exists is up to date, whatever its age, so inputs are `ancient`. Stages write a file whole or not at all.
import os
from pathlib import Path

from modit.repro.datasets.datasets import ASKED, DATASETS, asks
from modit.repro.pages.graph import MAIN_VARIANTS, main_stages, page_job, stage_jobs
from modit.repro.pages.notebooks import experiments, short_name
from modit.repro.pages.parameters import of_paper
from modit.repro.pages.redraw import second_jobs
from modit.settings import load_settings

S = load_settings(config.get('profile', 'mini'))
MAIN = ('300_data', '310_density', '320_main', '380_bootstrap')
OWN = DATASETS[S.profile].pages if S.profile in DATASETS else ASKED
PUBLIC = [name for name in experiments() if name in MAIN and asks(S.profile, 'main')
          or short_name(name) in OWN]
PAGES = {name: page_job(S, name) for name in experiments()}
SECOND_STAGES, SECOND = second_jobs(S.profile)
STAGES = stage_jobs(S, main_stages(S)) | SECOND_STAGES
RUNS = {job.output: job for job in PAGES.values()} | SECOND
TRAINING = ('pretrained', 'cpt', 'sft', 'hppo', 'run_320_main')  # names of jobs that train, or generate most
GPU = os.environ.get('MODIT_GPU')

def asked(name): # what a job asks of Slurm beside the profile's default-resources
    return dict(gpu=1, slurm_partition=GPU) if GPU and name.startswith(TRAINING) else {}

rule main:
    input: [PAGES[name].output for name in MAIN]

rule paper:
    input: [job.output for name, job in PAGES.items() if of_paper(name)]

rule public:
    input: [job.output for name, job in PAGES.items() if name in PUBLIC]

rule replicate:
    input: list(SECOND)

for job in STAGES.values():
    rule:
        name: job.name
        input: [ancient(path) for path in job.inputs]
        output: job.output
        params: command=job.command
        resources: **asked(job.name)
        priority: 0 if job.name.startswith(('hppo', *MAIN_VARIANTS)) else 1  # first what others wait for
        shell: '{params.command}'

for job in RUNS.values():  # a mark that exists holds; it needs nothing before it
    rule:
        name: job.name
        input: [ancient(path) for path in job.inputs if not Path(job.output).exists()]
        output: job.output
        log: job.log
        params: command=job.command
        resources: **asked(job.name)
        shell: '{params.command}'
