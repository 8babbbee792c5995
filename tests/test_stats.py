"""The bootstrap against scipy's, and Holm's adjustment against numbers worked by hand."""
import numpy as np
import pytest
from scipy import stats

from modit.settings import stream
from modit.stats import bootstrap_contrasts, cluster_bootstrap, holm, paired_bootstrap, resample_counts, verdict


@pytest.fixture(scope='module')
def scores():
    rng = stream(0, 'stats test')
    a = rng.beta(2, 5, 300)
    return a, np.clip(a + rng.normal(.02, .1, 300), 0, 1), np.repeat(np.arange(60), 5)


def test_interval_agrees_with_scipy(scores):
    a, b, _ = scores
    ours = paired_bootstrap(b, a, resamples=20_000, rng=stream(0, 'ours'))
    theirs = stats.bootstrap((b - a,), np.mean, n_resamples=20_000, method='percentile', rng=stream(0, 'theirs'), batch=1000)
    width = ours.high - ours.low
    assert abs(ours.estimate - (b - a).mean()) < 1e-12
    assert abs(ours.low - theirs.confidence_interval.low) < .04*width
    assert abs(ours.high - theirs.confidence_interval.high) < .04*width


def test_one_column_equals_many(scores):
    a, b, groups = scores
    counts = resample_counts(300, 2000, stream(0, 'counts'))
    values = np.stack([b - a, a, b], 1)
    together = bootstrap_contrasts(values, counts)
    alone = [bootstrap_contrasts(values[:, [j]], counts)[0] for j in range(3)]
    for x, y in zip(together, alone):
        assert (x.estimate, x.n, x.units) == (y.estimate, y.n, y.units)
        np.testing.assert_allclose([x.low, x.high, x.p], [y.low, y.high, y.p], atol=1e-6)
    assert paired_bootstrap(b, a, counts).estimate == together[0].estimate


def test_swapping_methods_mirrors_the_interval(scores):
    a, b, groups = scores
    counts = resample_counts(60, 2000, stream(0, 'clusters'))
    x, y = cluster_bootstrap(b, a, groups, counts), cluster_bootstrap(a, b, groups, counts)
    np.testing.assert_allclose([x.estimate, x.low, x.high], [-y.estimate, -y.high, -y.low], atol=1e-6)
    assert x.p == y.p and x.units == 60 and x.n == 300


def test_missing_scores_are_absent(scores):
    a, b, _ = scores
    b = b.copy(); b[::3] = np.nan
    found = paired_bootstrap(b, a, resamples=500)
    assert found.n == 200 and abs(found.estimate - np.nanmean(b - a)) < 1e-12


def test_pairing_narrows_and_patterns_widen(scores):
    a, b, groups = scores
    paired, marginal = paired_bootstrap(b, a, resamples=2000), paired_bootstrap(b, resamples=2000)
    assert paired.high - paired.low < marginal.high - marginal.low
    shared = np.repeat(stream(0, 'shared').normal(.02, .1, 60), 5)  # one difference a pattern
    cases, patterns = paired_bootstrap(shared, resamples=2000), cluster_bootstrap(shared, None, groups, resamples=2000)
    assert patterns.high - patterns.low > 1.5*(cases.high - cases.low)


def test_holm_by_hand():
    np.testing.assert_allclose(holm([.01, .04, .03, .005]), [.03, .06, .06, .02])  # .005*4, .01*3, .03*2, then never below
    np.testing.assert_allclose(holm([.5, .9]), [1., 1.])
    np.testing.assert_allclose(holm([.02, np.nan, .01]), [.02, np.nan, .02])


def test_verdicts(scores):
    a, b, _ = scores
    sure = paired_bootstrap(a + .1, a, resamples=200)
    assert (verdict(sure), verdict(sure, -1)) == ('holds', 'fails')
    assert verdict(paired_bootstrap(stream(0, 'z').normal(size=50) - 0, resamples=500), 1) in ('within noise', 'holds', 'fails')
    assert verdict(paired_bootstrap(np.tile([-1., 1.], 25), resamples=500)) == 'within noise'
    with pytest.raises(ValueError): verdict(sure, 0)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match='same cases'): paired_bootstrap(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match='no cases'): paired_bootstrap(np.zeros(0))
    with pytest.raises(ValueError, match='counts are for'): bootstrap_contrasts(np.zeros((3, 1)), resample_counts(4, 5, stream(0)))
