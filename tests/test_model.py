"""The attention mask against a loop, the cache, and who can influence whom at every position."""
import pytest
import torch

from modit.model import attention_mask, new_model
from modit.settings import load_settings
from modit.sphere import sample_sphere
from modit.store import stream

S = load_settings('smoke')


def points(*shape):
    return sample_sphere(stream(0, 'model test', *shape), (*shape, S.dim))


def naive_mask(valid, position, visible):
    "The mask of appendix A, spelled out for one row."
    m, T = len(valid), len(position)
    mask = torch.zeros(m + T, m + T, dtype=torch.bool)
    for query in range(m + T):
        for key in range(m + T):
            if query < m and key < m: allowed = (key <= query and valid[key]) or query == key  # causal
            elif query < m: allowed = False                       # the condition never sees targets
            elif key >= m: allowed = query == key                 # diagonal
            else: allowed = key < position[query - m] and valid[key] and visible[query - m]  # prefix-visible
            mask[query, key] = bool(allowed)
    return mask


@pytest.mark.parametrize('seed', range(5))
def test_mask_is_the_naive_one(seed):
    g = torch.Generator().manual_seed(seed)
    valid, visible = torch.rand(4, 6, generator=g) < .7, torch.rand(4, 5, generator=g) < .7
    position = torch.randint(0, 7, (4, 5), generator=g)
    ours = attention_mask(valid, position, visible)
    for b in range(4): assert torch.equal(ours[b, 0], naive_mask(valid[b], position[b], visible[b]))


@torch.no_grad()
@pytest.mark.parametrize('seed', range(3))
def test_cache_gives_the_uncached_velocity(seed):
    g = torch.Generator().manual_seed(seed)
    model, items, z, t = new_model(S).waken(.3), points(3, 6), points(3, 4), torch.rand(3, 4, generator=g)
    valid, visible = torch.rand(3, 6, generator=g) < .7, torch.rand(3, 4, generator=g) < .7
    position = torch.randint(0, 7, (3, 4), generator=g)
    for mask, seen in ((None, None), (valid, None), (valid, visible)):
        cached = model.cached_velocity(model.prefill(items, mask), z, t, position, seen)
        assert torch.allclose(cached, model(items, z, t, position, mask, seen), atol=1e-5)


@torch.no_grad()
def test_influence_of_every_item_on_every_target():
    model, items, z = new_model(S).waken(.3), points(2, 6), points(2, 6)
    t, position = torch.rand(2, 6), torch.arange(6)
    before = model(items, z, t, position)
    for j in range(6):
        later = items.clone()
        later[:, j] *= -1
        moved = (model(later, z, t, position) - before).abs().amax((0, 2))
        assert moved[:j + 1].max() < 1e-5, 'a target sees an item that does not precede it'
        assert j == 5 or moved[j + 1:].min() > 1e-5, 'a target misses an item that precedes it'


def test_another_seed_gives_other_weights():
    ours, other = new_model(S).state_dict(), new_model(load_settings('smoke', seed=1)).state_dict()
    assert any(not torch.equal(ours[k], other[k]) for k in ours)


def test_names_of_weights_are_those_of_stored_checkpoints():
    names = list(new_model(S).state_dict())
    block = ('offset', 'qkv', 'out', 'up', 'down')
    ends = {'place', 'role', 'embed_item', 'embed_noised', 'time', 'shared', 'final', 'head'}
    assert {name.split('.')[0] for name in names} == ends | {'blocks'}
    assert {name.split('.')[2] for name in names if name.startswith('blocks')} == set(block)
