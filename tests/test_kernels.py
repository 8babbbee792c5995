"""Results hang on decisions, and decisions must not hang on a last bit.

A library picks its kernels for the processor, and with other kernels the last bit of a sum is another. The
same small run is made twice here, each time in a process of its own: with this machine's kernels, and with
those of an older one. Numbers may differ by rounding. What is decided with them may not: patterns, roles,
sequences, retrieved labels, winners, pairs and what validation says.
"""
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from conftest import ROOT, environment

OLDER = dict(ATEN_CPU_CAPABILITY='avx2', OPENBLAS_CORETYPE='Haswell', MKL_ENABLE_INSTRUCTIONS='AVX2',
             ONEDNN_MAX_CPU_ISA='AVX2', FAISS_SIMD_LEVEL='AVX2')
KERNELS = {'here': {}, 'older': OLDER}
RUN = """
import sys
import numpy as np
from modit.pairs import margin_pairs
from modit.run.pipeline import get_corpus, get_history, get_pool
from modit.settings import load_settings

s = load_settings('smoke')
corpus, pool, run = get_corpus(s, 'D1'), get_pool(s, 'D1'), get_history(s, 'D1', 'pareto')
win, losers = margin_pairs(pool.joint, pool.same, s.margin)
np.savez(sys.argv[1], pattern=corpus.pattern, role=corpus.role, sequence=pool.cases.sequence,
         joint=pool.joint, same=pool.same, win=win, losers=losers, valid=run.valid_joint,
         kept=run.kept.fillna(0), candidates=pool.candidates)
"""


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    "What both runs decided: kernels -> arrays."
    def run(name):
        place = tmp_path_factory.mktemp(name)
        words = dict(environment(ROOT), MODIT_RUNS=str(place/'runs'), **KERNELS[name])
        done = subprocess.run([sys.executable, '-c', RUN, str(place/'run.npz')], env=words, cwd=ROOT,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        with np.load(place/'run.npz') as arrays: return dict(arrays)
    with ThreadPoolExecutor(2) as pool: return dict(zip(KERNELS, pool.map(run, KERNELS), strict=True))


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != 'AVX512',
                    reason='this machine has no newer kernels than those it would be compared with')
def test_other_kernels_decide_alike(runs):
    here, older = runs['here'], runs['older']
    apart = np.abs(here.pop('candidates') - older.pop('candidates')).max()
    assert 0 < apart < 1e-5, 'the kernels of this run did not differ, or differ by more than rounding'
    differ = [name for name in here if not np.array_equal(here[name], older[name])]
    assert not differ, f'decided by a last bit: {differ}'


LOADED = """
import os
from importlib import import_module
from threadpoolctl import threadpool_info

import_module({first!r})
kernels = [x['architecture'] for x in threadpool_info() if 'architecture' in x]
print('OPENBLAS_CORETYPE' in os.environ, *kernels)
"""


@pytest.mark.parametrize('first', ['modit.retrieval', 'modit.index.engines', 'modit.serving.catalogue'])
def test_faiss_takes_the_kernels_that_numpy_chose(first):
    words = environment(ROOT)
    words.pop('OPENBLAS_CORETYPE', None)
    done = subprocess.run([sys.executable, '-c', LOADED.format(first=first)], env=words, cwd=ROOT,
                          capture_output=True, text=True, check=True)
    left, *found = done.stdout.split()
    assert left == 'False' # programs that are started later choose for themselves
    if not {'Haswell', 'SkylakeX'} & {*found}: pytest.skip('an older processor, or another library')
    assert len(found) > 1 and len({*found}) == 1
