r"""HeavyBall and constant-momentum Nesterov are torch.optim.SGD, full batch, iterate by iterate.

The loss is ‖y - Xβ‖²/(2n), and iterates start from zero. The mapping is exact: ``lr`` is the step
and ``momentum`` the momentum. torch starts its buffer with the first gradient, and so do both
methods: their first step has no momentum. With
``nesterov=True`` torch's parameters are the extrapolated points θ_k = β_k + η(β_k - β_{k-1}).
"""

import numpy as np
import pytest

import stoptime as st
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov

torch = pytest.importorskip("torch", reason="the real optimiser is wanted: pip install torch")

ITERATIONS = 150


@pytest.fixture
def data(rng):
    X = rng.standard_normal((50, 8)) * np.geomspace(0.2, 1, 8)
    return X, X @ rng.standard_normal(8) + rng.standard_normal(50)


def sgd(X, y, **options):
    """Return the parameters after 0, 1, 2, ... steps of torch."""
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    beta = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([beta], **options)
    trace = [beta.detach().numpy().copy()]
    for _ in range(ITERATIONS):
        optimiser.zero_grad()
        loss = ((y - X @ beta) ** 2).sum() / (2 * len(y))
        loss.backward()
        optimiser.step()
        trace.append(beta.detach().numpy().copy())
    return np.array(trace)


def drawn(X, y, method):
    return st.path(X, y, method, np.arange(ITERATIONS + 1), fit_intercept=False).coef


@pytest.mark.parametrize(("lr", "momentum"), [(0.3, 0.9), (0.7, 0.5), (0.05, 0.99), (0.4, 0.0)])
def test_heavy_ball_is_sgd_with_momentum(data, lr, momentum):
    expected = sgd(*data, lr=lr, momentum=momentum)
    np.testing.assert_allclose(drawn(*data, HeavyBall(lr, momentum)), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("lr", "momentum"), [(0.3, 0.9), (0.6, 0.5), (0.05, 0.99)])
def test_nesterov_is_sgd_with_nesterov(data, lr, momentum):
    beta = drawn(*data, Nesterov(lr, momentum=momentum))
    theta = beta[1:] + momentum * np.diff(beta, axis=0)
    expected = sgd(*data, lr=lr, momentum=momentum, nesterov=True)
    np.testing.assert_allclose(theta, expected[1:], rtol=0, atol=1e-10)


def test_gradient_descent_is_plain_sgd(data):
    np.testing.assert_allclose(
        drawn(*data, GradientDescent(0.5)), sgd(*data, lr=0.5), rtol=0, atol=1e-10
    )
