"""Paths: shapes, limits, predictions, degrees of freedom, and agreement with iterations."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import stoptime as st

STOPS = [0.0, 0.5, 3.0, 40.0, np.inf]


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5)) + 2
    return X, X @ rng.standard_normal(5) + rng.standard_normal(60)


def concrete(name):
    return st.HeavyBallFlow(0.3) if name == "heavy-ball-flow" else st.get_method(name)


@pytest.mark.parametrize("name", st.METHODS)
def test_path_from_the_mean_to_least_squares(data, name):
    X, y = data
    drawn = st.path(X, y, name, STOPS)
    np.testing.assert_array_equal(st.path(st.decompose(X, y), name, STOPS).coef, drawn.coef)
    np.testing.assert_array_equal(drawn.coef[0], 0)
    np.testing.assert_allclose(drawn.intercept[0], y.mean())
    ols = LinearRegression().fit(X, y)
    np.testing.assert_allclose(drawn.coef[-1], ols.coef_, rtol=1e-10)
    np.testing.assert_allclose(drawn.intercept[-1], ols.intercept_, rtol=1e-10)
    np.testing.assert_allclose(drawn.degrees_of_freedom[[0, -1]], [1, 6], rtol=1e-12)
    np.testing.assert_allclose(drawn.predict(X)[-1], ols.predict(X), rtol=1e-9)


@pytest.mark.parametrize("name", st.METHODS)
def test_many_targets_are_many_single_ones(data, name):
    X, y = data
    Y = np.column_stack([y, -2 * y + 1, np.sin(y)])
    drawn = st.path(X, Y, name, STOPS)
    assert drawn.coef.shape == (5, 5, 3)
    assert drawn.intercept.shape == (5, 3)
    assert drawn.predict(X[:7]).shape == (5, 7, 3)
    for k in range(3):
        single = st.path(X, Y[:, k], name, STOPS)
        np.testing.assert_allclose(drawn.coef[:, :, k], single.coef, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(drawn.intercept[:, k], single.intercept, rtol=1e-11)
        np.testing.assert_allclose(drawn.predict(X[:7])[:, :, k], single.predict(X[:7]), rtol=1e-11)


@pytest.mark.parametrize("name", st.METHODS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_degrees_of_freedom_are_the_trace_of_the_hat_matrix(rng, name, fit_intercept):
    X = rng.standard_normal((12, 4)) + 1
    stops = [0.4, 2.0, 9.0]
    hat = st.path(X, np.eye(12), concrete(name), stops, fit_intercept=fit_intercept)
    trace = np.trace(hat.predict(X), axis1=1, axis2=2)
    np.testing.assert_allclose(hat.degrees_of_freedom, trace, rtol=1e-10)


def test_pandas_and_pickle(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    drawn = st.path(frame, pd.Series(y), "nesterov-flow", [1.0])
    np.testing.assert_allclose(drawn.coef, st.path(X, y, "nesterov-flow", [1.0]).coef, rtol=1e-12)
    np.testing.assert_allclose(drawn.predict(frame), drawn.predict(X), rtol=1e-12)
    again = pickle.loads(pickle.dumps(drawn))
    np.testing.assert_array_equal(again.coef, drawn.coef)
    wide = st.decompose(X.T, np.arange(5.0))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(wide)).vectors, wide.vectors)


def test_bad_arguments(data):
    X, y = data
    with pytest.raises(ValueError, match="stops must be non-negative numbers; got -1"):
        st.path(X, y, "ridge", [1, -1])
    with pytest.raises(ValueError, match="stops must be one number or a list"):
        st.path(X, y, "ridge", [[1.0]])
    with pytest.raises(ValueError, match="Unknown method"):
        st.path(X, y, "lbfgs", [1])
    with pytest.raises(TypeError, match="fit_intercept"):
        st.path(st.decompose(X, y), "ridge", [1], fit_intercept=False)
    with pytest.raises(ValueError, match=r"3 features.*drawn with 5"):
        st.path(X, y, "ridge", [1]).predict(X[:, :3])
    with pytest.raises(TypeError, match="path takes"):
        st.path(X, "ridge")


def test_no_stops_is_an_empty_path(data):
    drawn = st.path(*data, "ridge", [])
    assert drawn.coef.shape == (0, 5)
    assert "0 stops" in repr(drawn)


def test_plot_takes_and_returns_axes(data):
    from matplotlib import pyplot as plt

    drawn = st.path(*data, "nesterov-flow", [*np.geomspace(0.1, 10, 20), np.inf])
    ax = drawn.plot()
    assert len(ax.lines) == 5 + 1
    assert ax.get_xlabel() == "stop"
    _, other = plt.subplots()
    assert drawn.plot(ax=other) is other
    st.path(data[0], np.column_stack([data[1]] * 2), "ridge", [1.0, 2.0]).plot(ax=other)


def test_plot_without_matplotlib_says_what_to_install(data, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"stoptime\[plot\]\""):
        st.path(*data, "ridge", [1.0]).plot()


@pytest.mark.parametrize("shape", [(60, 8), (20, 50)])
@pytest.mark.parametrize("method", ["ridge", "nesterov-flow", "nesterov", "gradient-descent"])
def test_rows_in_the_eigenbasis_have_the_predictions_of_the_path(method, shape, rng):
    from stoptime.paths import Drawing

    X = rng.standard_normal(shape) + 3
    Y = rng.standard_normal((shape[0], 4))
    stops = np.array([0.0, 1.0, 7.0, 100.0, np.inf])
    drawing = Drawing(st.decompose(X, Y), st.get_method(method))
    new = rng.standard_normal((9, shape[1]))
    found = drawing.predictions(new)(stops)
    np.testing.assert_allclose(found, drawing(stops).predict(new), rtol=1e-9, atol=1e-9)
