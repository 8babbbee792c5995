"""The training loop over several processes."""
import subprocess
import sys

import numpy as np

from conftest import ROOT, environment
from modit.model import new_model
from modit.settings import load_settings
from modit.store import load_arrays

SCRIPT = """
import os, sys
from modit.pretrain import pretrain
from modit.settings import load_settings
from modit.training import save_checkpoint
model, losses = pretrain(load_settings('smoke', pretrain_steps=3, pretrain_micro_batch=8))  # 32 rows a step
save_checkpoint(f'{sys.argv[1]}/{os.environ.get("RANK", "alone")}', model, losses=losses)
"""


def test_two_processes_train_as_one(tmp_path):
    (tmp_path/'script.py').write_text(SCRIPT)
    where = environment(ROOT) | dict(ACCELERATE_USE_CPU='true', CUDA_VISIBLE_DEVICES='')
    for launcher in ([], ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2']):
        command = [sys.executable, *launcher, str(tmp_path/'script.py'), str(tmp_path)]
        run = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-3000:]
    runs = [load_arrays(tmp_path/name) for name in ('alone', '0', '1')]
    (alone, whole), (first, half), (second, other) = runs
    assert half['losses'] != other['losses'], 'both processes computed the same rows'
    assert np.allclose((np.array(half['losses']) + other['losses'])/2, whole['losses'], atol=1e-5)
    for k, before in new_model(load_settings('smoke')).state_dict().items():
        k = f'model.{k}'
        assert abs(alone[k] - before.numpy()).max() > 1e-4, f'{k} was not trained'
        assert abs(alone[k] - first[k]).max() < 1e-5 and (first[k] == second[k]).all(), k
