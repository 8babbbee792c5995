"""The bootstrap against SciPy's and against all resamples there are; Holm against its definition."""
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from modit.stats import cluster_bootstrap, holm
from modit.stats import paired_bootstrap, resample_counts, verdict
from modit.store import stream


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
