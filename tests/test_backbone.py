"""Another backbone: a small network through the whole method. A setting names it; no page is touched."""
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import modit
from modit.block import TimeEmbedding
from modit.flow import flow_loss, generate, sample_time
from modit.model import Backbone, new_model
from modit.sphere import sample_sphere, to_tangent
from modit.store import stream

WORD = f'{__name__}:MeanMLP'


class MeanMLP(nn.Module):
    "Velocity from the mean of the items before a target, the target and its time."
    def __init__(self, dim, width, depth, heads, seq_len):
        super().__init__()
        self.time = TimeEmbedding(width)
        inner = [nn.Linear(2*dim + width, 4*width), nn.GELU(), nn.Linear(4*width, 4*width), nn.GELU()]
        self.net = nn.Sequential(*inner, nn.Linear(4*width, dim))
        nn.init.zeros_(self.net[-1].weight)

    def prefill(self, items, valid=None):
        weight = items.new_ones(items.shape[:2]) if valid is None else valid.to(items.dtype)
        nothing = items.new_zeros(len(items), 1, items.shape[2])
        sums = torch.cat([nothing, (items*weight[..., None]).cumsum(1)], 1)
        counts = torch.cat([nothing[..., 0], weight.cumsum(1)], 1)
        return sums/counts.clamp(min=1)[..., None]   # (B, m + 1, d): mean of the items before each position

    def cached_velocity(self, cache, z, t, position, visible=None):
        (B, T, d), time = z.shape, self.time(t)
        before = position.clamp(max=cache.shape[1] - 1).expand(B, T)
        mean = cache.gather(1, before[..., None].expand(B, T, d))
        if visible is not None: mean = mean*visible[..., None]
        time = time.repeat(1, T//time.shape[1], 1).expand(B, T, -1)
        return to_tangent(z, self.net(torch.cat([mean*d**.5, z*d**.5, time], -1)))

    def forward(self, items, z, t, position, valid=None, visible=None):
        return self.cached_velocity(self.prefill(items, valid), z, t, position, visible)

    @staticmethod
    def flops(s, m, targets, times, cached=False):
        return 2*targets*4*s.width*(3*s.dim + 5*s.width) + 2*times*2*s.width**2


def test_the_whole_method_runs_with_another_backbone():
    s = modit.load_settings('smoke', backbone=WORD)
    corpus = modit.prepare_corpus(modit.synthetic_domain(s, 'D3'), s)
    base, _ = modit.pretrain(modit.synthetic_sessions(s), s)
    shared, _ = modit.continue_pretraining(base, [corpus], s)
    sft, _ = modit.finetune(shared, corpus, s)
    pool = modit.labelled_pool(sft, corpus, s)
    policy = modit.hppo(sft, corpus, s, pool, modit.VARIANTS['adaptive']).policy
    assert isinstance(policy, MeanMLP) and isinstance(policy, Backbone)
    cases = modit.sample_cases(corpus, 'item', s.density_cases, s)
    def joint(query): return modit.score_cases(query, corpus, cases, s).joint.mean()
    average, tuned, preferred = (joint(query) for query in (
        modit.average_pool(corpus, cases), modit.serve(sft, corpus, cases, s),
        modit.serve(policy, corpus, cases, s)))
    assert min(tuned, preferred) > .5*average, (average, tuned, preferred)


def test_the_default_is_a_backbone_and_a_bare_network_is_not():
    assert isinstance(new_model(modit.load_settings('smoke')), Backbone)
    with pytest.raises(ValueError, match='give it the methods prefill'):
        new_model(modit.load_settings('smoke', backbone=f'{__name__}:bare'))
    with pytest.raises(ValueError, match='names no function; write module:function'):
        modit.load_settings('smoke', backbone='MODiT')


def bare(*sizes): return nn.Linear(2, 2)


@pytest.mark.parametrize('m, targets, times', [(11, 11, 11), (9, 12, 3), (0, 6, 2)])
def test_the_operations_of_a_pass_are_those_that_torch_counts(m, targets, times):
    s = modit.load_settings('smoke', width=64, depth=3, heads=4, dim=24, seq_len=12, prefix_len=9)
    model, rng = new_model(s), stream(0, 'operations')
    given = sample_sphere(rng, (5, m, 24)), sample_sphere(rng, (5, targets, 24)), torch.arange(targets) % 12
    draws = sample_time(rng, (5, times)), sample_sphere(rng, (5, times, 24))
    # The counter cannot see the operations inside fused attention.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        flow_loss(model, *given, *draws)
    assert counter.get_total_flops() == 5*model.flops(s, m, targets, times)


def test_the_operations_of_a_query_are_those_that_torch_counts():
    s = modit.load_settings('smoke')
    model, rng, m = new_model(s), stream(0, 'operations'), s.prefix_len
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        generate(model, sample_sphere(rng, (7, m, s.dim)), sample_sphere(rng, (7, 1, s.dim)), 1., s.ode_steps)
    step = 7*model.flops(s, m, 1, 0, cached=True) + model.flops(s, 0, 0, 1)
    assert counter.get_total_flops() == 7*model.flops(s, m, 0, 0) + s.ode_steps*step
