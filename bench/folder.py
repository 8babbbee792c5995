"""What a folder of your own costs: time and memory of a first list, of the next one, and of a verdict.

    python bench/folder.py                                # writes figures/mini/folder.csv
    python bench/folder.py --profile smoke --size quick   # a tenth of it, written beside the runs

Items are made up, in groups of four hundred; a tenth of them has the attribute, along one direction and by
chance. Each command is a process of its own, on one core, as typed in a terminal.
"""
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from race import asked, made_items, measured_dir, own_store

from modit.data.folder import write_folder
from modit.repro.report.report import kernels
from modit.sphere import normalize
from modit.store import atomic_write, stream

SIZES = dict(full=(200_000, 384), quick=(20_000, 96), toy=(6000, 32)) # items, dimensions
ONE = dict(OMP_NUM_THREADS='1', MKL_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1')


def made_folder(
    path, # to write it to
    size, # items, dimensions
) -> Path: # a file with the ids of twelve items of one group that have the attribute
    "A folder as a user brings it, a tenth of it labelled."
    rng, (n, dim) = stream(0, 'folder', *size), size
    items = made_items(n, dim, rng)
    groups = max(4, n//400)
    way = normalize(rng.standard_normal(dim, dtype=np.float32))
    drawn = items @ way + .05*rng.standard_normal(n)
    positive = drawn >= np.quantile(drawn, .9)
    ids = np.array([f'item{i}' for i in range(n)])
    group = np.arange(n) % groups
    labelled = rng.random(n) < .1
    label = np.where(labelled, positive.astype(int).astype(str), '')
    write_folder(path, items, ids, label, pattern=np.where(labelled, [f'group{g}' for g in group], ''))
    most = np.bincount(group[positive]).argmax()
    seeds = Path(path).with_suffix('.txt')
    atomic_write(seeds, '\n'.join(ids[positive & (group == most)][:12]) + '\n')
    return seeds


def measure(*words) -> dict: # cpu_seconds, seconds, peak_mb
    "Run a command of `modit` to its end; `RuntimeError` if it fails."
    began = time.monotonic()
    made = subprocess.Popen([sys.executable, '-m', 'modit.cli.command', *map(str, words)],
                            env=os.environ | ONE, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(made.pid, 0)
    if os.waitstatus_to_exitcode(status): raise RuntimeError(f'modit {" ".join(map(str, words))}: failed')
    return dict(cpu_seconds=used.ru_utime + used.ru_stime, seconds=time.monotonic() - began,
                peak_mb=used.ru_maxrss/2**10)


def compare(
    s,    # Settings of a profile
    size, # items, dimensions
) -> pd.DataFrame: # a row for each command
    "A first list, the next one, and how good lists are."
    with own_store() as home:
        folder = Path(home)/'goods'
        seeds = made_folder(folder, size)
        plain = ('expand', folder, '--seeds', seeds)
        steps = dict(list_first=plain, list_next=plain, evaluate=('evaluate', folder))
        rows = [dict(items=size[0], dim=size[1], what=x) | measure(*words) for x, words in steps.items()]
    return pd.DataFrame(rows).assign(processor=kernels()['processor'])


def write_costs(
    s,           # Settings of a profile
    size='full', # full, quick or toy
) -> pd.DataFrame:
    "Measure, and write the table."
    table = compare(s, SIZES[size])
    text = table.to_csv(index=False, float_format='%.4g', lineterminator='\n')
    atomic_write(measured_dir(s, size)/'folder.csv', text)
    return table


if __name__ == '__main__': print(write_costs(*asked(SIZES, __doc__)).round(1).to_string(index=False))
