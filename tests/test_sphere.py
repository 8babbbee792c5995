"""The sphere against scipy, arbitrary precision, and its two awkward places: equal and antipodal points."""
import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.spatial import geometric_slerp

from modit.settings import stream
from modit.sphere import angle, exp_map, geodesic, jacobi_weight, log_map, sample_sphere, weighted_error


def pair(d, *words):
    a, b = sample_sphere(stream(0, 'sphere test', d, *words), 2, d).double()
    return a/a.norm(), b/b.norm()


@pytest.mark.parametrize('d', [3, 16, 1536])
def test_path_is_scipy_slerp(d):
    a, b = pair(d)
    t = torch.linspace(0, 1, 21, dtype=torch.float64)
    ours, _ = geodesic(a.expand(21, -1), b.expand(21, -1), t)
    np.testing.assert_allclose(ours, geometric_slerp(a.numpy(), b.numpy(), t.numpy(), tol=1e-12), atol=1e-12)


@pytest.mark.parametrize('gap', ['1e-7', '1e-4', '0.01', '1', '3.1', '3.1415'])
def test_angle_and_path_against_arbitrary_precision(gap):
    mp.mp.dps = 60
    theta, t = mp.mpf(gap), mp.mpf('0.3')
    a = torch.zeros(1, 8, dtype=torch.float64); a[0, 0] = 1
    b = torch.zeros(1, 8, dtype=torch.float64); b[0, 0], b[0, 3] = float(mp.cos(theta)), float(mp.sin(theta))
    assert abs(mp.mpf(angle(a, b).item()) - theta) < 1e-15*max(1, theta)
    z, v = geodesic(a, b, torch.tensor([.3], dtype=torch.float64))
    assert abs(mp.mpf(z[0, 3].item()) - mp.sin(t*theta)) < 1e-14
    assert abs(mp.mpf(v[0, 3].item()) - theta*mp.cos(t*theta)) < 1e-14
    assert abs(mp.mpf(v[0, 0].item()) + theta*mp.sin(t*theta)) < 1e-14


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
@pytest.mark.parametrize('sign', [1, -1], ids=['equal', 'antipodal'])
def test_equal_and_antipodal_points_are_finite(dtype, sign):
    x = sample_sphere(stream(0, 'ends'), 50, 48).to(dtype)
    x = x/x.norm(dim=-1, keepdim=True)
    y = (sign*x).clone().requires_grad_()
    t = torch.linspace(0, 1, 50, dtype=dtype)
    z, v = geodesic(x, y, t)
    loss = weighted_error(v - 1, z, v, t, angle(x, y), 'endpoint')
    loss.sum().backward()
    assert all(torch.isfinite(q).all() for q in (z, v, loss, y.grad))
    far = 0 if sign == 1 else np.pi
    assert (v.norm(dim=-1) - far).abs().max() < 1e-3
    assert (z.norm(dim=-1) - 1).abs().max() < 1e-5
    assert (exp_map(x, log_map(x, y)) - y).abs().max() < 1e-5


def test_velocity_is_the_derivative_of_the_path():
    a, b = pair(16, 'derivative')
    h = 1e-6
    at = lambda t: geodesic(a[None], b[None], torch.tensor([t], dtype=torch.float64))
    np.testing.assert_allclose(at(.4)[1], (at(.4 + h)[0] - at(.4 - h)[0])/(2*h), atol=1e-8)


def test_weights_are_between_zero_and_one_and_known():
    t, theta = torch.rand(100), torch.rand(100)*np.pi
    for kind in ('endpoint', 'reverse', 'none'):
        w = jacobi_weight(t, theta, kind)
        assert (w >= 0).all() and (w <= 1).all()
    with pytest.raises(ValueError, match='endpoint'): jacobi_weight(t, theta, 'both')
