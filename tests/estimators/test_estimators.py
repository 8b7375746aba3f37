"""StoppedRegressor as a scikit-learn citizen, and the numbers it must give."""

import threading

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import stoptime as st


@pytest.mark.parametrize("name", st.METHODS)
def test_infinite_stop_is_least_squares(diabetes, name):
    model = st.StoppedRegressor(name, stop=np.inf).fit(*diabetes)
    peer = LinearRegression().fit(*diabetes)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=1e-12)
    assert model.degrees_of_freedom_ == pytest.approx(11)


@pytest.mark.parametrize("name", ["ridge", "gradient-flow", "accelerated-flow"])
def test_default_stop_is_the_calibrated_oracle(diabetes, name):
    model = st.StoppedRegressor(name).fit(*diabetes)
    assert model.oracle_.penalty == st.estimate_oracle(st.decompose(*diabetes)).penalty
    assert model.stop_ == st.equivalent_stop(name, model.oracle_.penalty)
    tau = {"ridge": 1, "gradient-flow": 0.45711, "accelerated-flow": 1.75535}[name]
    order = st.METHODS[name].time_power
    assert model.stop_ * model.oracle_.penalty ** (1 / order) == pytest.approx(tau, abs=1e-5)


def test_default_stop_predicts_as_well_as_the_truth_allows(rng):
    """Against the best of all stops in hindsight, on fresh data with a dense weak signal."""
    ratios = []
    for _ in range(20):
        X = rng.standard_normal((100, 80))
        beta = rng.standard_normal(80) / np.sqrt(80)
        y = X @ beta + rng.standard_normal(100)
        model = st.StoppedRegressor().fit(X, y)
        every = st.path(X, y, "nesterov-flow", np.geomspace(0.01, 100, 200))
        risks = ((every.coef - beta) ** 2).sum(axis=1)
        ratios.append(((model.coef_ - beta) ** 2).sum() / risks.min())
    assert np.mean(ratios) < 1.2


def test_pandas_names_are_kept_and_checked(diabetes):
    frame, y = load_diabetes(return_X_y=True, as_frame=True)
    model = st.StoppedRegressor().fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    np.testing.assert_allclose(model.coef_, st.StoppedRegressor().fit(*diabetes).coef_, rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"age": "years"}))


def test_float32_is_kept(diabetes):
    X, y = (a.astype(np.float32) for a in diabetes)
    model = st.StoppedRegressor(stop=50.0).fit(X, y)
    assert model.coef_.dtype == np.float32
    assert model.predict(X).dtype == np.float32
    exact = st.StoppedRegressor(stop=50.0).fit(*diabetes)
    np.testing.assert_allclose(
        model.coef_, exact.coef_, rtol=1e-3, atol=1e-3 * np.abs(exact.coef_).max()
    )


def test_parallel_fits_give_the_same_bits(diabetes):
    results = [None] * 4

    def work(k):
        results[k] = st.StoppedRegressor("gradient-flow").fit(*diabetes).coef_

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "sgd"}, "Unknown method 'sgd'"),
        ({"method": 3}, "Unknown method 3"),
        ({"stop": -1.0}, "stop must be non-negative numbers; got -1.0"),
        ({"stop": np.nan}, "stop must be"),
        ({"stop": [1.0, 2.0]}, "stop must be one number"),
    ],
)
def test_bad_parameters_are_refused_at_fit(diabetes, params, message):
    with pytest.raises(ValueError, match=message):
        st.StoppedRegressor(**params).fit(*diabetes)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (5, 200), (50, 1)], ids=str)
@pytest.mark.parametrize("stop", [None, 0.0, 1.0, np.inf])
def test_small_and_wide_data(rng, shape, stop):
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    model = st.StoppedRegressor(stop=stop).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(X)).all()


def test_ill_conditioned_data_switch_to_the_accurate_route(rng):
    """Vandermonde columns: stopping at infinity is as good as lstsq."""
    X = np.vander(np.linspace(0, 1, 50), 9)[:, :-1]
    beta = rng.standard_normal(8)
    model = st.StoppedRegressor(stop=np.inf).fit(X, X @ beta + 1)
    np.testing.assert_allclose(model.coef_, beta, rtol=1e-6)


def test_single_precision_does_not_spoil_a_response_of_large_mean(rng):
    X = rng.standard_normal((200, 3)).astype(np.float32)
    y = X.astype(float) @ [1.0, 2.0, 3.0]
    model = st.StoppedRegressor(stop=np.inf).fit(X, y + 1.7e9)
    np.testing.assert_allclose(model.coef_, [1, 2, 3], rtol=1e-6)
