"""The sphere against references that share no formula with it: SciPy, many digits, an equation solver."""
import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.spatial import geometric_slerp

from modit.sphere import angle, geodesic, jacobi_weight, normalize, sample_sphere
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


def test_weights_are_between_zero_and_one_and_known():
    t, theta = torch.rand(100), torch.rand(100)*np.pi
    for kind in ('endpoint', 'reverse', 'none'):
        w = jacobi_weight(t, theta, kind)
        assert (w >= 0).all() and (w <= 1).all()
    with pytest.raises(ValueError, match='endpoint'): jacobi_weight(t, theta, 'both')
