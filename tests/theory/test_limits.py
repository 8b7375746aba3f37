"""The limit of the risk, against a closed form, quadrature and large samples."""

import numpy as np
import pytest
from scipy.integrate import quad

import stoptime as st


def test_limiting_risk_of_ridge_in_closed_form():
    """The resolvent of the Marchenko-Pastur law is known: λ* = σ²c/r² gives risk σ²c·m(-λ*)."""
    for aspect in (0.2, 0.999, 1.0, 1.001, 3.0):
        signal, sigma2 = 2.0, 0.7
        penalty = sigma2 * aspect / signal
        b = 1 - aspect + penalty
        stieltjes = (-b + np.sqrt(b * b + 4 * aspect * penalty)) / (2 * aspect * penalty)
        curve = st.limiting_risk("ridge", [1 / penalty], aspect=aspect, signal=signal, noise=sigma2)
        assert curve.total[0] == pytest.approx(sigma2 * aspect * stieltjes, rel=1e-10)


@pytest.mark.parametrize("aspect", [0.1, 0.5, 0.95, 1.0, 1.05, 2.0, 10.0])
@pytest.mark.parametrize("name", ["gradient-flow", "nesterov-flow"])
def test_limiting_risk_against_adaptive_quadrature(aspect, name):
    low, high = (1 - np.sqrt(aspect)) ** 2, (1 + np.sqrt(aspect)) ** 2
    method = st.get_method(name)
    for t in (0.3, 2.0, 15.0):
        curve = st.limiting_risk(method, [t], aspect=aspect, signal=1.5, noise=0.5)

        def integral(h):
            def integrand(angle, h=h):  # s = low + (high - low) sin²: the edges become smooth
                s = low + (high - low) * np.sin(angle) ** 2
                jacobian = 2 * ((high - low) * np.sin(angle) * np.cos(angle)) ** 2
                return h(max(s, 1e-300)) * jacobian / (2 * np.pi * aspect * max(s, 1e-300))

            return quad(integrand, 0, np.pi / 2, epsabs=1e-12, epsrel=1e-11, limit=500)[0]

        bias = 1.5 * (integral(lambda s, t=t: method.shrinkage(s, t) ** 2) + max(0, 1 - 1 / aspect))
        variance = 0.5 * aspect * integral(lambda s, t=t: s * method.gain(s, t) ** 2)
        np.testing.assert_allclose([curve.bias[0], curve.variance[0]], [bias, variance], rtol=1e-8)


@pytest.mark.parametrize("aspect", [0.5, 2.0])
def test_finite_samples_approach_the_limit(aspect):
    rng = np.random.default_rng(5)
    n = 500
    p = int(aspect * n)
    s = np.linalg.eigvalsh(np.cov(rng.standard_normal((p, n)), bias=True))
    stops = np.array([0.5, 2.0, 5.0])
    known = {"signal": 1.0, "noise": 1.0}
    finite = st.bayes_risk(
        "nesterov-flow", stops, eigenvalues=np.maximum(s, 0), **known, n_samples=n
    )
    limit = st.limiting_risk("nesterov-flow", stops, aspect=aspect, **known)
    np.testing.assert_allclose(finite.total, limit.total, rtol=0.03)


def test_limiting_mass_and_heavy_ball():
    nodes, weights = st.marchenko_pastur(4.0)
    assert weights.sum() == pytest.approx(0.25, rel=1e-12)
    assert weights @ nodes == pytest.approx(1.0, rel=1e-12)
    assert st.limiting_risk(
        "heavy-ball-flow", [1.0], aspect=0.25, signal=1, noise=1
    ).method == st.HeavyBallFlow(0.5)
    with pytest.raises(ValueError, match="damping"):
        st.limiting_risk("heavy-ball-flow", [1.0], aspect=2.0, signal=1, noise=1)
