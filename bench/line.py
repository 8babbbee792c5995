"""The main line of a profile on one machine with an accelerator: stages side by side, then scores.

    python bench/line.py OUT --profile large --overrides '{"index": "torch", "precision": "tf32"}'

Every stage is a process and begins when its parents are done. The store keeps it: a run that was cut goes on.
`--domains` leaves some domains of the profile; `--chains` runs the stages of their own for some of these.
OUT gets seconds.csv (when each stage began, and its seconds), cases-*.csv.gz (scores of every case),
valid-*.csv (validation of the preference runs) and a log of each stage. `--until cpt` ends after the stages
that domains share.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT)) # modit of this clone, installed or not

import pandas as pd  # noqa: E402

from modit.settings import PER_DOMAIN, load_settings  # noqa: E402
from modit.stages.stages import stage_path  # noqa: E402

PREFERRED = ('off_policy', 'adaptive', 'direct') # begin at MO-DiT


def restricted(profile, domains, more):
    "Overrides that leave some domains of a profile."
    s = load_settings(profile)
    place = [s.domains.index(x) for x in domains]
    return {x: [getattr(s, x)[i] for i in place] for x in PER_DOMAIN} | dict(domains=list(domains)) | more


def jobs_of(domains, chains, until):
    "Job -> its parents; a job is a stage and a domain, '' for a shared stage."
    jobs = {('pretrained', ''): []} | {('corpus', d): [] for d in domains}
    jobs['cpt', ''] = [('pretrained', ''), *(('corpus', d) for d in domains)]
    if until == 'cpt': return jobs
    for d in chains:
        jobs['sft', d], jobs['pool', d] = [('cpt', '')], [('sft', d)]
        jobs |= {(stage, d): [('pool', d)] for stage in PREFERRED}
        jobs['scores', d] = [(stage, d) for stage in PREFERRED]
    return jobs


class Line:
    "Jobs as processes, and a table of their seconds."

    def __init__(self, out, profile, overrides, threads):
        self.out, self.profile, self.overrides, self.threads = out, profile, overrides, threads
        self.began, self.rows, self.lock = time.time(), [], threading.Lock()

    def command(self, stage, domain):
        given = ['--profile', self.profile, '--overrides', json.dumps(self.overrides)]
        if stage == 'scores': return [__file__, str(self.out), '--score', domain, *given]
        return ['-m', 'modit.cli.command', 'stage', *([stage, domain] if domain else [stage]), *given]

    def done(self, stage, domain):
        "Whether the store has the result of a stage."
        if stage == 'scores': return False
        s = load_settings(self.profile, **self.overrides)
        return stage_path(s, stage, domain or None).exists()

    def do(self, job, parents):
        for parent in parents: parent.result()
        if self.done(*job): return
        start = time.time()
        threads = dict(OMP_NUM_THREADS=str(self.threads)) if job[0] == 'corpus' else {} # k-means
        with open(self.out/f'{"-".join(filter(None, job))}.log', 'a', encoding='utf-8') as log:
            command = [sys.executable, *self.command(*job)]
            subprocess.run(command, cwd=ROOT, env=os.environ | threads, stdout=log, stderr=log, check=True)
        self.note(*job, start)

    def note(self, stage, domain, start):
        with self.lock:
            now = time.time()
            self.rows.append(dict(stage=stage, domain=domain, began=start - self.began, seconds=now - start))
            pd.DataFrame(self.rows).round(1).to_csv(self.out/'seconds.csv', index=False)
            print(f'{now - self.began:6.1f} {stage} {domain} {now - start:.1f} s', flush=True)

    def run(self, jobs):
        "All jobs; one that fails ends its children, and no other."
        tasks = {}
        with ThreadPoolExecutor(len(jobs)) as pool:
            for job, parents in jobs.items():
                tasks[job] = pool.submit(self.do, job, [tasks[x] for x in parents])
        failed = {job: task.exception() for job, task in tasks.items() if task.exception()}
        for job, error in failed.items(): print('failed', *job, str(error)[-200:], flush=True)
        return not failed


def score(out, domain, s):
    "Scores of all methods of a domain, and the validation history of its preference runs."
    from modit.baselines import along_own, choose, own_directions, steer
    from modit.evaluation import average_pool, evaluate, serve
    from modit.repro.pages.page import open_page
    from modit.stages.pipeline import get_corpus, get_history, get_model
    corpus, rows = get_corpus(s, domain), []
    said = [get_history(s, domain, stage) for stage in PREFERRED]
    pd.concat(said).to_csv(out/f'valid-{domain}.csv', index=False)

    def keep(method, answer, splits=('item', 'pattern'), **facts):
        found = evaluate(answer, corpus, s, method, splits=splits, most=s.density_cases)
        rows.append(found.drop(columns=['cond', 'auc']).assign(**facts))
        pd.concat(rows).to_csv(out/f'cases-{domain}.csv.gz', index=False, float_format='%.6g')
        print(domain, method, found.groupby('split').joint.mean().round(4).to_dict(), flush=True)

    keep('average', partial(average_pool, corpus))
    for stage in ('sft', *PREFERRED, 'cpt', 'pretrained'):
        keep(stage, partial(serve, get_model(s, stage, domain), corpus, s=s))
    page = open_page('own_direction', profile=s.profile) # its lengths
    lengths = [dict(own=a, step=b) for a, b in product(page.owns, page.etas)]
    own = own_directions(corpus, len(corpus.items)//s.of('clusters', domain))
    answer = along_own(lambda cases, step: steer(average_pool(corpus, cases), corpus, step), own)
    for split in ('item', 'pattern'):
        best, joint = choose(lambda cases, found: answer(cases, **found), lengths, corpus, s, split)
        keep('average_own', partial(answer, **best), (split,), valid=joint, **best)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('out', type=Path)
    parser.add_argument('--profile', default='large')
    parser.add_argument('--domains', nargs='*')
    parser.add_argument('--chains', nargs='*', help='domains whose own stages are run; all by default')
    parser.add_argument('--overrides', default='{}', help='settings, as JSON')
    parser.add_argument('--until', choices=('cpt', 'scores'), default='scores')
    parser.add_argument('--threads', type=int, default=3, help='of k-means')
    parser.add_argument('--score', help='only scores of this domain')
    given = parser.parse_args()
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    overrides = json.loads(given.overrides)
    if given.domains: overrides = restricted(given.profile, given.domains, overrides)
    s = load_settings(given.profile, **overrides)
    if given.score: return score(given.out, given.score, s)
    line = Line(given.out, given.profile, overrides, given.threads)
    sys.exit(not line.run(jobs_of(s.domains, given.chains or s.domains, given.until)))


if __name__ == '__main__': main()
