"""One optimiser step of every stage at the paper's constants, on a CPU: only the numbers of rows are cut down."""
import numpy as np
import pytest
import torch

from modit.candidates import static_candidates
from modit.cpt import continue_pretraining
from modit.hppo import hppo_round
from modit.ordering import Corpus, training_cases
from modit.pretrain import pretrain
from modit.settings import load_settings, stream
from modit.sft import finetune


@pytest.fixture(scope='module')
def setup():
    s = load_settings('paper', batch=2, items=(1600,)*4, clusters=(4,)*4, heldout_clusters=(1,)*4, valid_clusters=(1,)*4, train_rows=(1,)*4,
                      pretrain_steps=1, hppo_cases=2, hppo_batch=2)
    rng = stream(0, 'paper profile')
    items = rng.standard_normal((1600, s.dim), dtype=np.float32)
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    corpus = Corpus('D1', items, rng.random(1600) < .9, (np.arange(1600) % 4).astype(np.int32), np.zeros(1600, np.uint8), rng.random(1600, np.float32), items[0])
    torch.set_num_threads(2)
    yield s, corpus
    torch.set_num_threads(1)


def change(a, b): return max((x - y).abs().max().item() for x, y in zip(a.state_dict().values(), b.state_dict().values()))


def test_one_step_of_every_stage(setup):
    s, corpus = setup
    assert (s.dim, s.k, s.seq_len, s.prefix_len) == (1536, 100, 200, 150)
    pretrained, losses = pretrain(s)
    assert len(losses) == 1 and np.isfinite(losses[0])
    continued, losses = continue_pretraining(pretrained, [corpus], s)
    assert len(losses) == 1 and np.isfinite(losses[0]) and change(pretrained, continued) > 0
    del pretrained
    tuned, losses = finetune(continued, corpus, s)
    assert len(losses) == 1 and np.isfinite(losses[0]) and change(continued, tuned) > 0
    cases = training_cases(corpus, 2, s, 'hppo')
    candidates = static_candidates(corpus, cases, s.tail_depths)
    joint, same = np.array([[.5, .1, .2, .3]]*2), np.array([[.9, .8, .95, .9]]*2)
    policy = continued; policy.load_state_dict(tuned.state_dict())
    facts = hppo_round(policy, tuned, corpus, cases, (candidates, joint, same), s, 1, 1, tolerance=0.)
    assert facts['pairs'] == 4 and facts['kept'] == 2 and change(tuned, policy) > 0
