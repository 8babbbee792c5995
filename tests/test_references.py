"""The sphere and the statistics against references that share no formula with them: SciPy, many digits, an
equation solver, all resamples there are, Holm's definition."""
from itertools import combinations, product

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.spatial import geometric_slerp

from modit.sphere import angle, geodesic, jacobi_weight, normalize, sample_sphere
from modit.stats import cluster_bootstrap, holm, paired_bootstrap, resample_counts, verdict
from modit.store import stream


def pair(d, *words):
    return normalize(sample_sphere(stream(0, 'sphere test', d, *words), (2, d)).double())


@pytest.mark.parametrize('d', [3, 16, 1536])
def test_path_is_scipy_slerp(d):
    a, b = pair(d)
    t = torch.linspace(0, 1, 21, dtype=torch.float64)
    ours, _ = geodesic(a, b, t)     # one pair, many times: they broadcast
    np.testing.assert_allclose(ours, geometric_slerp(a.numpy(), b.numpy(), t.numpy(), tol=1e-12), atol=1e-12)


@pytest.mark.parametrize('gap', ['1e-7', '1e-4', '0.01', '1', '3.1', '3.1415'])
def test_angle_and_path_against_arbitrary_precision(gap):
    mp.mp.dps = 60
    theta, t = mp.mpf(gap), mp.mpf('0.3')
    a, b = torch.zeros(2, 8, dtype=torch.float64)
    a[0], b[0], b[3] = 1, float(mp.cos(theta)), float(mp.sin(theta))
    z, v = geodesic(a, b, .3)
    assert abs(mp.mpf(angle(a, b).item()) - theta) < 1e-15*max(1, theta)
    assert abs(mp.mpf(z[3].item()) - mp.sin(t*theta)) < 1e-14
    assert abs(mp.mpf(v[3].item()) - theta*mp.cos(t*theta)) < 1e-14
    assert abs(mp.mpf(v[0].item()) + theta*mp.sin(t*theta)) < 1e-14


@pytest.mark.parametrize('theta', [.3, np.pi/2, 3.])
def test_endpoint_weight_solves_the_jacobi_equation(theta):
    # j'' + theta^2 j = 0 from j = 0, j' = 1; after the remaining time 1 - t the weight is (j/(1 - t))^2
    left = np.array([.1, .5, 1.])
    def slope(_, y): return [y[1], -theta**2*y[0]]
    solved = solve_ivp(slope, (0, 1), [0, 1], t_eval=left, rtol=1e-10, atol=1e-12)
    ours = jacobi_weight(torch.from_numpy(1 - left), torch.tensor(theta, dtype=torch.float64), 'endpoint')
    np.testing.assert_allclose(ours, (solved.y[0]/left)**2, atol=1e-8)


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_arrays_and_tensors_are_normalised_alike(dtype):
    x = stream(0, 'both kinds').normal(size=(4, 5, 48)).astype(dtype)
    array, tensor = normalize(x), normalize(torch.from_numpy(x))
    assert array.dtype == dtype and isinstance(array, np.ndarray)
    np.testing.assert_allclose(array, tensor, rtol=4*np.finfo(dtype).eps)


# ---- statistics
@pytest.fixture(scope='module')
def scores():
    rng = stream(0, 'stats test')
    a = rng.beta(2, 5, 300)
    return a, np.clip(a + rng.normal(.02, .1, 300), 0, 1), np.repeat(np.arange(60), 5)


def test_interval_agrees_with_scipy(scores):
    a, b, _ = scores
    ours = paired_bootstrap(b, a, resample_counts(len(a), 20_000, stream(0, 'ours')))
    theirs = stats.bootstrap((b - a,), np.mean, n_resamples=20_000, method='percentile',
                             rng=stream(0, 'theirs'), batch=1000).confidence_interval
    width = ours.high - ours.low
    assert abs(ours.estimate - (b - a).mean()) < 1e-12
    assert abs(ours.low - theirs.low) < .04*width and abs(ours.high - theirs.high) < .04*width


def test_every_resample_of_four_cases():
    x = np.array([-.1, .2, .3, .7])
    draws = np.array(list(product(range(4), repeat=4)))             # all 256, each as likely
    counts = np.stack([(draws == i).sum(1) for i in range(4)], 1).astype(np.float32)
    found, means = paired_bootstrap(x, counts=counts, level=.9), x[draws].mean(1)
    np.testing.assert_allclose([found.low, found.high], np.quantile(means, [.05, .95]), atol=1e-6)
    assert found.p == 2*(1 + (means <= 1e-9).sum())/257


def test_swapping_methods_mirrors_the_interval(scores):
    a, b, groups = scores
    counts = resample_counts(60, 2000, stream(0, 'clusters'))
    x, y = cluster_bootstrap(b, a, groups, counts), cluster_bootstrap(a, b, groups, counts)
    np.testing.assert_allclose([x.estimate, x.low, x.high], [-y.estimate, -y.high, -y.low], atol=1e-6)
    assert x.p == y.p and x.units == 60 and x.n == 300
    assert {verdict(x), verdict(y)} in ({'for', 'against'}, {'neither'}) and verdict(x) == verdict(y, -1)


def test_holm_is_the_closed_test_of_bonferroni():
    # the adjusted p of a claim: the largest Bonferroni p of any subfamily that holds it
    p = np.array([.01, .04, .03, .005, .5, .011, .2])
    members = range(len(p))
    families = [f for size in range(1, len(p) + 1) for f in combinations(members, size)]
    worst = [max(min(1, len(f)*p[list(f)].min()) for f in families if i in f) for i in members]
    np.testing.assert_allclose(holm(p), worst)
