"""One optimiser step of every stage at the paper's constants on a CPU; only numbers of rows are cut down."""
import numpy as np
import pytest

from modit.candidates import Pool, static_candidates
from modit.data.synth import synthetic_sessions
from modit.sft import continue_pretraining, finetune
from modit.rounds import hppo_round
from modit.preference import VARIANTS
from modit.ordering import Corpus, training_cases
from modit.pretrain import pretrain
from modit.settings import load_settings
from modit.sphere import normalize
from modit.store import stream

FEW = dict(batch=1, items=(1600,)*4, clusters=(4,)*4, heldout_clusters=(1,)*4, valid_clusters=(1,)*4,
           train_rows=(1,)*4, repetition=(1,)*4, pretrain_steps=1, hppo_cases=2, hppo_batch=2)


def change(a, b):
    "The largest difference of two models' weights."
    weights = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max((x - y).abs().max().item() for x, y in weights)


@pytest.mark.slow
def test_one_step_of_every_stage():
    s, rng = load_settings('paper', **FEW), stream(0, 'paper profile')
    assert (s.dim, s.k, s.seq_len, s.prefix_len) == (1536, 100, 200, 150)
    items = normalize(rng.standard_normal((1600, s.dim), dtype=np.float32))
    attribute, pattern = rng.random(1600) < .9, (np.arange(1600) % 4).astype(np.int32)
    role, density = np.zeros(1600, np.uint8), rng.random(1600, np.float32)
    corpus = Corpus('D1', items, attribute, pattern, role, density, probe=items[0])
    pretrained, losses = pretrain(synthetic_sessions(s), s)
    assert len(losses) == 1 and np.isfinite(losses[0])
    continued, losses = continue_pretraining(pretrained, [corpus], s)
    assert len(losses) == 1 and np.isfinite(losses[0]) and change(pretrained, continued) > 0
    del pretrained
    tuned, losses = finetune(continued, corpus, s)
    assert len(losses) == 1 and np.isfinite(losses[0]) and change(continued, tuned) > 0
    policy = continued # its memory is used again
    policy.load_state_dict(tuned.state_dict())
    cases = training_cases(corpus, 2, s, 'hppo')
    joint, same = np.array([[.5, .1, .2, .3]]*2), np.array([[.9, .8, .95, .9]]*2) # the third is purer
    pool = Pool(cases, static_candidates(corpus, cases, s.tail_depths), joint, same, ('static',)*4)
    facts = hppo_round(policy, tuned, corpus, pool, s, VARIANTS['pareto'], 1, 1)
    assert facts['pairs'] == 4 and facts['kept'] == 2 and change(tuned, policy) > 0
