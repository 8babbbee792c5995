"""The sphere and the statistics against references that share no formula with them: SciPy, many digits, an
equation solver, all resamples there are, Holm's definition."""
from itertools import product

import numpy as np
import pytest

from modit.stats import cluster_bootstrap, paired_bootstrap, resample_counts, verdict
from modit.store import stream


# ---- statistics
@pytest.fixture(scope='module')
def scores():
    rng = stream(0, 'stats test')
    a = rng.beta(2, 5, 300)
    return a, np.clip(a + rng.normal(.02, .1, 300), 0, 1), np.repeat(np.arange(60), 5)


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
