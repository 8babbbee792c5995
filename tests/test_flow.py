"""The sampler's and the pipeline's invariances: order of cases, padding, targets, rotations."""
import numpy as np
import pytest
import torch

from modit.flow import flow_loss, generate, guided_by, step_modulations, sample_time
from modit.metrics import direction_auc, score_queries
from modit.model import init_zero_layers, new_model
from modit.retrieval import VectorIndex, search
from modit.sphere import exp_map, geodesic, normalize, sample_sphere
from modit.store import stream
from test_model import S, points


@pytest.mark.parametrize('scale', [1., 3.])
def test_order_of_cases_changes_no_query(scale):
    model, items, noise = init_zero_layers(new_model(S), .3), points(12, 6), points(12, 2)
    order = torch.from_numpy(np.random.default_rng(0).permutation(12))
    whole, mixed = (generate(model, items[rows], noise[rows], scale) for rows in (torch.arange(12), order))
    assert torch.allclose(mixed, whole[order], atol=1e-5)


@pytest.mark.parametrize('cases, targets', [(1, 1), (4, 3)])
def test_a_kept_clock_changes_no_bit(cases, targets):
    model = guided_by(init_zero_layers(new_model(S), .3), init_zero_layers(new_model(S), .3, seed=1))
    items, noise, modulations = points(cases, 6), points(cases, targets), step_modulations(model, 5)
    for scale in (1., 3.):
        read = generate(model, items, noise, scale, 5)
        assert torch.equal(generate(model, items, noise, scale, 5, modulations=modulations), read)
    foreign = step_modulations(guided_by(init_zero_layers(new_model(S), .3), None), 5) # the guide's counts
    assert not torch.equal(generate(model, items, noise, 3., 5, modulations=foreign), read)


@pytest.mark.parametrize('sampler', ['euler', 'expmap'])
def test_short_condition_equals_padded(sampler):
    model, items, noise = init_zero_layers(new_model(S), .3), points(4, 6), points(4, 1)
    valid = torch.tensor([[1, 1, 1, 1, 0, 0]]*4).bool()
    short = generate(model, items[:, :4], noise, 2., sampler=sampler)
    padded = generate(model, items, noise, 2., sampler=sampler, valid=valid)
    assert torch.allclose(short, padded, atol=1e-5)
    with pytest.raises(ValueError, match='padding behind the seeds'):
        generate(model, items, noise, 2., sampler=sampler, valid=valid.flip(1))


def test_losses_of_targets_are_separate():
    model, items, target = init_zero_layers(new_model(S), .3), points(5, 6), points(5, 4)
    t, noise = sample_time(stream(0, 't'), (5, 4)), sample_sphere(stream(0, 'n'), (5, 4, S.dim))
    position = torch.tensor([1, 2, 4, 6])
    whole = flow_loss(model, items, target, position, t, noise)
    for j in range(4):
        alone = flow_loss(model, items, target[:, [j]], position[[j]], t[:, [j]], noise[:, [j]])
        assert torch.allclose(whole[:, [j]], alone, atol=1e-5) and (alone >= 0).all()


def test_rotating_every_embedding_changes_no_result():
    rng = stream(0, 'rotation')
    d, q = 16, np.linalg.qr(stream(0, 'Q').normal(size=(16, 16)))[0].astype(np.float32)
    items = sample_sphere(rng, (2000, d)).numpy()
    attribute, pattern = rng.random(2000) < .1, rng.integers(0, 5, 2000)
    sequence = rng.integers(0, 2000, (40, 8))

    def results(x):
        "Average pooling, retrieval, metrics and displacement of 40 cases."
        prefix, tail = x[sequence[:, :6]], x[sequence[:, 6:]]
        query = prefix.mean(1)
        query /= np.linalg.norm(query, axis=1, keepdims=True)
        ids = search(VectorIndex(x), query, 10, exclude=sequence)
        scores = score_queries(ids, attribute, pattern, pattern[sequence[:, 0]])
        return ids, scores, direction_auc(query, prefix, tail)

    here, there = results(items), results(items @ q)
    assert np.array_equal(here[0], there[0])
    assert here[1].equals(there[1]) and np.array_equal(here[2], there[2])
    R, (x0, x1) = torch.from_numpy(q), torch.from_numpy(items[:200]).view(2, 100, d)
    for one, other in zip(geodesic(x0, x1, .3), geodesic(x0 @ R, x1 @ R, .3), strict=True):
        assert torch.allclose(one @ R, other, atol=1e-5)
    assert torch.allclose(normalize(x0 + x1) @ R, normalize((x0 + x1) @ R), atol=1e-6)
    step = geodesic(x0, x1, 0.)[1]
    assert torch.allclose(exp_map(x0, step) @ R, exp_map(x0 @ R, step @ R), atol=1e-5)
