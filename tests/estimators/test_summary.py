"""Standard errors of coefficients: by the map from the response, by Monte Carlo, and as printed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import stoptime as st


def fitted_map(make, X, weights=None):
    """Return the matrix that maps the response to the coefficients, column by column."""
    return np.stack([make().fit(X, unit, weights).coef_ for unit in np.eye(len(X))], axis=1)


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow", "gradient-descent"])
@pytest.mark.parametrize("shape", [(30, 4), (12, 20)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_standard_errors_are_lengths_of_rows_of_the_map(method, shape, fit_intercept, rng):
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])

    def make():
        return st.StoppedRegressor(method, 3.0, fit_intercept)

    table = make().fit(X, y).summary()
    moves = fitted_map(make, X)
    expected = table.noise[0] * np.linalg.norm(moves, axis=1)
    np.testing.assert_allclose(table.standard_errors[0], expected, rtol=1e-8)
    # noise: the residual sum of squares over what the residual of pure noise would have
    centring = np.full((len(y), len(y)), 1 / len(y)) * fit_intercept
    hat = centring + (np.eye(len(y)) - centring) @ X @ moves
    left = np.linalg.norm(np.eye(len(y)) - hat) ** 2
    residual = np.linalg.norm(y - hat @ y) ** 2
    np.testing.assert_allclose(table.noise[0] ** 2, residual / left, rtol=1e-8)
    np.testing.assert_allclose(table.degrees_of_freedom[0], np.trace(hat), rtol=1e-8)
    assert table.r2[0] == pytest.approx(
        make().fit(X, y).score(X, y) if fit_intercept else table.r2[0]
    )


def test_least_squares_has_its_usual_standard_errors():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    table = st.StoppedRegressor("ridge", np.inf).fit(X, y).summary()
    residual = y - LinearRegression().fit(X, y).predict(X)
    n, p = X.shape
    noise = (residual @ residual) / (n - p - 1)
    centred = (X - X.mean()).to_numpy()
    expected = np.sqrt(noise * np.diag(np.linalg.inv(centred.T @ centred)))
    np.testing.assert_allclose(table.standard_errors[0], expected, rtol=1e-8)
    assert table.names == list(X.columns)
    printed = str(table).splitlines()
    assert printed[0] == "StoppedRegressor: Ridge() stopped at inf"
    assert printed[1] == "442 rows, 11.0 degrees of freedom"
    assert printed[-2].split() == ["s6", "67.63", "65.98"]
    assert "no 95 % interval" in printed[-1]


def test_a_weight_of_two_is_a_row_twice(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    weights = rng.integers(1, 4, 20)
    once = st.StoppedRegressor("ridge", 2.0).fit(X, y, weights).summary()
    often = st.StoppedRegressor("ridge", 2.0)
    often.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(once.standard_errors, often.summary().standard_errors, rtol=1e-9)


def test_targets_with_stops_of_their_own_and_chunks(rng):
    X = rng.standard_normal((40, 3))
    y = X @ rng.standard_normal((3, 2)) + np.array([0.1, 3.0]) * rng.standard_normal((40, 2))
    model = st.StoppedRegressorCV("ridge", stops=[0.1, 1.0, 10.0], per_target=True).fit(X, y)
    both = model.summary()
    frame = pd.DataFrame(y, columns=["price", "rent"])
    assert "\nrent\n40 rows" in str(clone(model).fit(X, frame).summary())
    for target in range(2):
        one = st.StoppedRegressor("ridge", model.stop_[target]).fit(X, y[:, target]).summary()
        np.testing.assert_allclose(both.standard_errors[target], one.standard_errors[0], rtol=1e-9)
    streamed = st.StoppedRegressor("ridge", 1.0).fit(st.Chunks.of(X, y[:, 0], rows=9)).summary()
    plain = st.StoppedRegressor("ridge", 1.0).fit(X, y[:, 0]).summary()
    np.testing.assert_allclose(streamed.standard_errors, plain.standard_errors, rtol=1e-9)
    assert "x2" in str(streamed)


def test_models_without_standard_errors_say_so(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    with pytest.raises(ValueError, match="linear in the response"):
        st.StoppedRegressor("conjugate-gradient", 2).fit(X, y).summary()
    with pytest.raises(TypeError, match="A kernel has no coefficients of columns"):
        st.StoppedKernelRegressor("ridge", 1.0).fit(X, y).summary()


def test_summaries_are_refused_where_the_training_rows_were_changed(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    model = st.StoppedRegressorCV().fit(X, y)
    model.summary()
    X *= 2
    with pytest.raises(ValueError, match="changed after fit"):
        model.summary()


@pytest.mark.parametrize("count", [2, 3])
def test_classes_and_targets_are_named(rng, count):
    X = rng.normal(size=(60, 3))
    labels = np.array(["low", "mid", "top"])[rng.integers(0, count, 60)]
    table = st.StoppedClassifierCV().fit(X, labels).summary()
    names = ["class mid"] if count == 2 else ["class low", "class mid", "class top"]
    assert table.targets == names
    assert all(name in repr(table) for name in names)
    both = st.StoppedRegressorCV().fit(X, X[:, :2]).summary()
    assert both.targets == ["target 0", "target 1"]
