"""Results hang on decisions, and decisions must not hang on a last bit.

A library picks its kernels for the processor, and with other kernels the last bit of a sum is another. The
same small run is made here with this machine's kernels and with the oldest set (tests/kernels.py): what is
decided from items and labels is the same, and a few neighbours of a trained model's queries may differ.
"""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from conftest import run_apart
from kernels import KERNELS

RUN = """
import sys
import numpy as np
from modit.preference import margin_pairs
from modit.stages.pipeline import get_corpus, get_pool
from modit.settings import load_settings

s = load_settings('smoke')
corpus, pool = get_corpus(s, 'D1'), get_pool(s, 'D1')
win, losers = margin_pairs(pool.joint, pool.same, s.margin)
np.savez(sys.argv[1], pattern=corpus.pattern, role=corpus.role, sequence=pool.cases.sequence,
         joint=pool.joint, same=pool.same, win=win, losers=losers, candidates=pool.candidates)
"""


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() not in ('AVX2', 'AVX512'),
                    reason='this machine has no newer kernels than those it would be compared with')
def test_other_kernels_decide_alike(tmp_path):
    def run(name): # what it decided
        done = run_apart(RUN, tmp_path/f'{name}.npz', MODIT_RUNS=tmp_path/name, **KERNELS[name])
        assert done.returncode == 0, done.stderr[-3000:]
        with np.load(tmp_path/f'{name}.npz') as arrays: return dict(arrays)
    with ThreadPoolExecutor(2) as pool: here, older = pool.map(run, ('here', 'no-avx2'))
    for name in ('pattern', 'role', 'sequence'): assert np.array_equal(here[name], older[name]), name
    apart = np.abs(here['candidates'] - older['candidates']).max()
    assert 0 < apart < 1e-3, 'the kernels of this run did not differ, or differ by more than rounding'
    alike = (here['joint'] == older['joint']) & (here['same'] == older['same'])
    assert alike.mean() > .95, 'labels hang on a last bit'
    whole = alike.all(1) # cases whose candidates have the same labels: their pairs are the same
    for name in ('win', 'losers'): assert np.array_equal(here[name][whole], older[name][whole]), name


LOADED = """
import os
os.environ.pop('OPENBLAS_CORETYPE', None)
from importlib import import_module
from threadpoolctl import threadpool_info

import_module({first!r})
kernels = [x['architecture'] for x in threadpool_info() if 'architecture' in x]
print('OPENBLAS_CORETYPE' in os.environ, *kernels)
"""


@pytest.mark.parametrize('first', ['modit.retrieval', 'modit.index.engines', 'modit.stages.pipeline'])
def test_faiss_takes_the_kernels_that_numpy_chose(first):
    left, *found = run_apart(LOADED.format(first=first)).stdout.split()
    assert left == 'False' # programs that are started later choose for themselves
    if not {'Haswell', 'SkylakeX'} & {*found}: pytest.skip('an older processor, or another library')
    assert len(found) > 1 and len({*found}) == 1
