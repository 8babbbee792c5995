"""The attention mask against a loop, the cache, and who can influence whom."""
import pytest
import torch

from modit.model import attention_mask, cached_velocity, new_model, prefill
from modit.settings import load_settings, stream
from modit.sphere import sample_sphere

S = load_settings('smoke')


def awake(seed=0):
    "A model whose zero-initialised layers are random, so that there is something to compare."
    model = new_model(S)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in (model.shared, model.final, model.head): layer.weight.normal_(0, .3, generator=generator)
    return model.eval()


def points(*shape):
    n = int(torch.tensor(shape).prod())
    return sample_sphere(stream(0, 'model test', *shape), n, S.dim).view(*shape, S.dim)


def naive_mask(valid, position, visible):
    "The mask of appendix A, spelled out for one row."
    m, T = len(valid), len(position)
    mask = torch.zeros(m + T, m + T, dtype=torch.bool)
    for i in range(m + T):
        for j in range(m + T):
            if i < m and j < m: mask[i, j] = (j <= i and valid[j]) or i == j     # causal
            elif i < m: mask[i, j] = False                                     # condition never sees targets
            elif j < m: mask[i, j] = j < position[i - m] and valid[j] and visible[i - m]  # prefix-visible
            else: mask[i, j] = i == j                                          # diagonal
    return mask


@pytest.mark.parametrize('seed', range(5))
def test_mask_is_the_naive_one(seed):
    g = torch.Generator().manual_seed(seed)
    valid, visible = torch.rand(4, 6, generator=g) < .7, torch.rand(4, 5, generator=g) < .7
    position = torch.randint(0, 7, (4, 5), generator=g)
    ours = attention_mask(valid, position, visible)
    for b in range(4): assert torch.equal(ours[b, 0], naive_mask(valid[b], position[b], visible[b]))


@torch.no_grad()
def test_cache_gives_the_uncached_velocity():
    model, items, z = awake(), points(3, 6), points(3, 4)
    t, position = torch.rand(3, 4), torch.tensor([1, 3, 6, 6])
    valid, visible = torch.tensor([[1, 1, 1, 1, 0, 0]]*3).bool(), torch.tensor([[1, 1, 0, 1]]*3).bool()
    for kw in ({}, dict(valid=valid), dict(valid=valid, visible=visible)):
        full = model(items, z, t, position, kw.get('valid'), kw.get('visible'))
        assert torch.allclose(cached_velocity(model, prefill(model, items, kw.get('valid')), z, t, position, kw.get('visible')), full, atol=1e-5)


@torch.no_grad()
def test_influence():
    model, items, z = awake(), points(2, 6), points(2, 6)
    t, position = torch.rand(2, 6), torch.arange(6)
    before = model(items, z, t, position)
    for j in range(6):
        later = items.clone(); later[:, j] = -later[:, j]
        moved = (model(later, z, t, position) - before).abs().amax((0, 2))
        assert moved[:j + 1].max() < 1e-5, 'a target sees an item that does not precede it'
        assert j == 5 or moved[j + 1:].min() > 1e-5, 'a target misses an item that precedes it'
        other = z.clone(); other[:, j] = -other[:, j]
        moved = (model(items, other, t, position) - before).abs().amax((0, 2))
        assert moved[torch.arange(6) != j].max() < 1e-5, 'a target sees another target'
        assert moved[j] > 1e-5


@torch.no_grad()
def test_padding_is_absence_and_velocity_is_tangent():
    model, items, z = awake(), points(3, 6), points(3, 1)
    t = torch.rand(3, 1)
    valid = torch.tensor([[1, 1, 1, 0, 0, 0]]*3).bool()
    short, padded = model(items[:, :3], z, t, torch.tensor([3])), model(items, z, t, torch.tensor([3]), valid)
    assert torch.allclose(short, padded, atol=1e-5)
    assert (short*z).sum(-1).abs().max() < 1e-5


def test_same_seed_same_weights():
    a, b, c = new_model(S).state_dict(), new_model(S).state_dict(), new_model(load_settings('smoke', seed=1)).state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert any(not torch.equal(a[k], c[k]) for k in a)
