"""Plots that people look at: all methods, the stop of least squares, and dips that can be seen."""

import numpy as np
import pytest

import stoptime as st


def legend(ax):
    return [one.get_text() for one in ax.get_legend().get_texts()]


def test_a_plot_shows_all_candidates(rng):
    X = rng.normal(size=(60, 5))
    model = st.StoppedRegressorCV().fit(X, X[:, 0] + rng.normal(size=60))
    names = legend(model.plot())
    for candidate in model.choice_.candidates:
        assert st.plots.LABELS[candidate.method.name] in names


def test_the_stop_of_least_squares_has_a_place(rng):
    X = rng.normal(size=(60, 2))
    model = st.StoppedRegressorCV("ridge", stops=[0.1, 1.0, np.inf]).fit(X, 9 * X[:, 0])
    assert np.isinf(model.stop_)
    ax = model.plot()
    dot = next(line for line in ax.lines if line.get_marker() == "o")
    assert ax.get_xlim()[0] < dot.get_xdata()[0] < ax.get_xlim()[1]
    assert any(name.startswith("stop ∞") for name in legend(ax))
    assert max(map(len, ax.get_title().split("\n"))) <= 60


@pytest.mark.parametrize(("last", "scale"), [(1e6, "log"), (1.0, "linear")])
def test_a_dip_below_a_plateau_is_seen(last, scale):
    known = {"eigenvalues": [1.0, 1e-3], "signal": [1.0, 0.0], "noise": 100.0, "n_samples": 1000}
    curve = st.risk("ridge", np.geomspace(1e-2, last), **known)
    assert curve.plot().get_yscale() == scale
