"""What several tests need: the repository's root, its files, and copies of it to break."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
os.chdir(ROOT)
os.environ.pop('JUPYTER_PATH', None)
os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('MPLBACKEND', 'agg')
torch.set_num_threads(1)

# The paper's numbered tables and figures, by LaTeX label.
LABELS = [f'tab-{name}' for name in ('data', 'main', 'seed', 'progress', 'order', 'hppo-abl', 'cand', 'rollout', 'bon', 'appdc', 'appdp', 'appdu', 'appdb',
                                     'appbon', 'hparam', 'density', 'apporig', 'appbfs')]
LABELS += [f'fig-{name}' for name in ('task', 'arch', 'traj', 'hppo', 'pareto', 'sig', 'drift', 'guidance')]


def tracked_files():
    "Files that are committed, or would be: relative paths that git does not ignore."
    out = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '-z'], cwd=ROOT, capture_output=True, text=True)
    if out.returncode: pytest.skip('not a git checkout')
    return [Path(p) for p in out.stdout.split('\0') if p and (ROOT/p).is_file()]


def copy_repository(to):
    "A copy of the repository as a clone would have it."
    for path in tracked_files():
        (to/path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT/path, to/path)
    return to


def environment(copy):
    "Variables under which this interpreter imports modit from a copy."
    steady = dict(MALLOC_MMAP_THRESHOLD_=str(2**25), MALLOC_TRIM_THRESHOLD_=str(2**30), MALLOC_TOP_PAD_=str(2**26))
    path = f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    return {**os.environ, **steady, 'PYTHONPATH': str(copy), 'PATH': path, 'PYTHONDONTWRITEBYTECODE': '1'}
