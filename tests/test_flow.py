"""The model, baselines and statistics against naive versions; and invariances of sampler and pipeline:
padding, targets, rotations."""
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conftest import corpus_of, unit
from modit.baselines import choose, filtered_neighbours, pattern_direction, ridge_map
from modit.baselines import rocchio, steer
from modit.evaluation import average_pool, direction_auc, sample_cases, score_queries
from modit.flow import generate
from modit.model import init_zero_layers, new_model
from modit.ordering import centroid, training_cases
from modit.patterns import ROLES
from modit.retrieval import VectorIndex, search
from modit.settings import load_settings
from modit.sphere import exp_map, geodesic, normalize, sample_sphere, to_tangent
from modit.stats import paired_bootstrap, resample_counts, verdict
from modit.store import stream

S = load_settings('smoke')


def points(*shape):
    return sample_sphere(stream(0, 'model test', *shape), (*shape, S.dim))


def random_model(): return init_zero_layers(new_model(S), .3) # its velocity is not zero


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


def naive_norm(x, shift, scale):
    "Layer norm, shifted and scaled."
    centred, spread = x - x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    return centred/(spread + 1e-5).sqrt()*(1 + scale) + shift


def naive_velocity(model, items, z, t, position, valid, visible):
    "The model as one sequence: every token through every block, under the mask of appendix A."
    (B, m, _), W = items.shape, model.position_embedding.shape[1]
    masks = [naive_mask(*row) for row in zip(valid, position, visible, strict=True)]
    features = F.silu(model.time(t))
    no_time = torch.zeros(B, m, 6*W, dtype=z.dtype)
    place, kind = model.position_embedding, model.type_embedding
    condition = model.embed_item(items*model.dim**.5) + place[:m] + kind[0]
    targets = model.embed_noised(z*model.dim**.5) + place[position] + kind[1]
    x = torch.cat([condition, targets], 1)
    for block in model.blocks:
        parts = (torch.cat([no_time, model.shared(features)], 1) + block.offset).split(W, -1)
        shift1, scale1, gate1, shift2, scale2, gate2 = parts
        heads = block.qkv(naive_norm(x, shift1, scale1)).view(B, len(x[0]), 3, block.heads, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        logits = (q @ k.mT/q.shape[-1]**.5).masked_fill(~torch.stack(masks)[:, None], -torch.inf)
        x = x + gate1*block.out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + gate2*block.down(F.gelu(block.up(naive_norm(x, shift2, scale2))))
    return to_tangent(z, model.head(naive_norm(x[:, m:], *model.final(features).split(W, -1))))


@pytest.mark.parametrize('seed', range(3))
def test_two_streams_equal_one_masked_sequence(seed):
    g = torch.Generator().manual_seed(seed)
    model, items, z = random_model().double(), points(3, 6).double(), points(3, 4).double()
    t, position = torch.rand(3, 4, generator=g).double(), torch.randint(0, 7, (3, 4), generator=g)
    valid, visible = torch.rand(3, 6, generator=g) < .7, torch.rand(3, 4, generator=g) < .7
    for mask, seen in ((valid, visible), (valid | True, visible | True)):
        ours = model(items, z, t, position, mask, seen)
        naive = naive_velocity(model, items, z, t, position, mask, seen)
        assert (ours - naive).abs().max() < 1e-6
        direction = torch.randn(z.shape, generator=g).double()
        weights = list(model.parameters())
        ours, naive = (torch.autograd.grad((v*direction).sum(), weights) for v in (ours, naive))
        for one, other in zip(ours, naive, strict=True): assert (one - other).abs().max() < 1e-6


# ---- invariances
@pytest.mark.parametrize('sampler', ['euler', 'expmap'])
def test_short_condition_equals_padded(sampler):
    model, items, noise = random_model(), points(4, 6), points(4, 1)
    valid = torch.tensor([[1, 1, 1, 1, 0, 0]]*4).bool()
    short = generate(model, items[:, :4], noise, 2., sampler=sampler)
    padded = generate(model, items, noise, 2., sampler=sampler, valid=valid)
    assert torch.allclose(short, padded, atol=1e-5)
    with pytest.raises(ValueError, match='padding behind the seeds'):
        generate(model, items, noise, 2., sampler=sampler, valid=valid.flip(1))


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


# ---- baselines: loops and full sorts; constants are chosen on validation alone
@pytest.fixture(scope='module')
def world():
    s = load_settings('smoke')
    corpus = corpus_of('D1', s)
    return s, corpus, sample_cases(corpus, 'pattern', 20, s)


def nearest(corpus, query, ids, k):
    "The k nearest of some items, by a full sort."
    return ids[np.argsort(-(corpus.items[ids] @ query), kind='stable')[:k]]


def others(corpus, query, sequence, k):
    "The k nearest items that are not of a case."
    return nearest(corpus, query, np.setdiff1d(np.arange(len(corpus.items)), sequence), k)


def test_filtered_neighbours_are_the_nearest_positives(world):
    s, corpus, cases = world
    found = filtered_neighbours(corpus, cases, s)
    for i, query in enumerate(average_pool(corpus, cases)):
        allowed = corpus.attribute.copy()
        allowed[cases.sequence[i]] = False
        near = nearest(corpus, query, np.flatnonzero(allowed), s.k)
        assert found.joint[i] == pytest.approx((corpus.pattern[near] == cases.pattern[i]).mean())


def test_rocchio_moves_from_least_to_most_dense_neighbours(world):
    s, corpus, cases = world
    query, mean, quarter = rocchio(corpus, cases, s, 2.), average_pool(corpus, cases), s.k//4
    for i in range(3):
        near = others(corpus, mean[i], cases.sequence[i], s.k)
        near = near[np.argsort(corpus.density[near], kind='stable')]
        low, high = corpus.items[near[:quarter]].mean(0), corpus.items[near[-quarter:]].mean(0)
        assert query[i] == pytest.approx(unit(mean[i] + 2*(high - low)), abs=1e-5)


def test_ridge_map_is_the_closed_form(world):
    s, corpus, cases = world
    train = training_cases(corpus, s.of('train_rows', 'D1'), s)
    x = average_pool(corpus, train).astype(float)
    y = centroid(corpus.items, train.tail).astype(float) - x
    centred = x - x.mean(0)
    gram = centred.T @ centred + s.ridge_alpha*np.eye(x.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (y - y.mean(0)))
    mean = average_pool(corpus, cases)
    expected = unit(mean + 1.5*((mean - x.mean(0)) @ weights + y.mean(0)))
    assert ridge_map(corpus, s)(cases, 1.5) == pytest.approx(expected, abs=1e-4)


def test_the_pattern_direction_is_the_difference_of_class_means(world):
    _, corpus, cases = world
    query, mean = pattern_direction(corpus, cases, .5), average_pool(corpus, cases)
    for i, pattern in enumerate(cases.pattern[:5]):
        mine = corpus.pattern == pattern
        classes = [corpus.items[mine & (corpus.attribute == a)].mean(0) for a in (True, False)]
        assert query[i] == pytest.approx(unit(mean[i] + .5*unit(classes[0] - classes[1])), abs=1e-5)


@pytest.mark.parametrize('split', ['item', 'pattern'])
def test_constants_are_chosen_on_validation_alone(world, split):
    s, corpus, _ = world
    served = []
    def answer(cases, value):
        served.append(cases)
        return steer(average_pool(corpus, cases), corpus, value)
    trained = np.unique(corpus.pattern[corpus.role == ROLES.index('train')])
    choose(answer, (.1, .5), corpus, s, split)
    roles = corpus.role[np.concatenate([c.sequence for c in served]).ravel()]
    assert set(roles) == {ROLES.index('valid')}
    assert all((np.isin(c.pattern, trained) == (split == 'item')).all() for c in served)


# ---- statistics: all resamples there are
def test_every_resample_of_four_cases():
    x = np.array([-.1, .2, .3, .7])
    draws = np.array(list(product(range(4), repeat=4)))             # all 256, each as likely
    counts = np.stack([(draws == i).sum(1) for i in range(4)], 1).astype(np.float32)
    found, means = paired_bootstrap(x, counts=counts, level=.9), x[draws].mean(1)
    np.testing.assert_allclose([found.low, found.high], np.quantile(means, [.05, .95]), atol=1e-6)
    assert found.p == 2*(1 + (means <= 1e-9).sum())/257


def test_swapping_methods_mirrors_the_interval():
    rng = stream(0, 'stats test')
    a = rng.beta(2, 5, 300)
    b = np.clip(a + rng.normal(.02, .1, 300), 0, 1)
    counts = resample_counts(300, 2000, stream(0, 'cases'))
    x, y = paired_bootstrap(np.stack([b, a], 1), np.stack([a, b], 1), counts)
    np.testing.assert_allclose([x.estimate, x.low, x.high], [-y.estimate, -y.high, -y.low], atol=1e-6)
    assert x.p == y.p and x.units == x.n == 300
    assert {verdict(x), verdict(y)} in ({'for', 'against'}, {'neither'}) and verdict(x) == verdict(y, -1)
