"""The default grid of stops: from nothing learned to all, with every oscillation."""

import numpy as np
import pytest

import stoptime as st

METHODS = [
    st.Ridge(),
    st.GradientFlow(),
    st.AcceleratedFlow(),
    st.AcceleratedFlow(5),
    st.HeavyBallFlow(0.3),
]


@pytest.mark.parametrize("p", [1, 5, 30])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_default_grid_sees_the_first_descent_and_every_oscillation(rng, method, p):
    X = rng.standard_normal((60, p)) * np.geomspace(1, 0.2, p) + 1
    spec = st.decompose(X, rng.standard_normal(60))
    stops = st.default_stops(spec, method)
    s = spec.eigenvalues
    assert stops[0] == 0
    assert stops[-1] == np.inf
    # hardly anything is learned at the first stop, and hardly anything left at the last
    assert method.shrinkage(s[-1], stops[1]) > 0.89
    assert np.abs(method.shrinkage(s[0], stops[-2])) < 0.04
    assert 50 <= len(stops) <= 1002
    assert np.max(stops[2:-1] / stops[1:-2]) < 1.25
    if isinstance(method, st.AcceleratedFlow):
        # several points in each visible half of an oscillation
        for row in np.outer(np.sqrt(s), stops[:-1]):
            counts = np.histogram(row, bins=np.arange(1, 3) * np.pi)[0]
            assert counts.min() >= 3
    assert len(st.default_stops(spec, method, 17)) == 17
    with pytest.raises(ValueError, match="at least 3"):
        st.default_stops(spec, method, 2)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e4, 1e90])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow", "nesterov"])
def test_default_stops_rise_at_every_scale(method, scale, rng):
    spec = st.decompose(scale * rng.standard_normal((30, 3)), rng.standard_normal(30))
    for size in (None, 3, 40):
        assert (np.diff(st.default_stops(spec, method, size)) > 0).all()
