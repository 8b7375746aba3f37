"""What is not a number, a covariance or a matching list is refused where it enters, by its name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

import stoptime as st

X, y = load_diabetes(return_X_y=True)
SPECTRUM = st.decompose(X, y)
NAMED = ["nesterov-flow", st.AcceleratedFlow()]


@pytest.mark.parametrize("stop", ["5", True, [True, False], ["1", "2"], 1j, None, [None]])
def test_stops_that_only_look_like_numbers(stop):
    with pytest.raises(ValueError, match="stop"):
        st.path(SPECTRUM, "nesterov-flow", stop)
    if stop is not None:
        with pytest.raises(ValueError, match="stop"):
            st.StoppedRegressor(stop=stop).fit(X, y)


def test_stops_of_two_dimensions():
    for call in (
        lambda: st.path(SPECTRUM, "ridge", [[1.0]]),
        lambda: st.path_gcv(SPECTRUM, "ridge", [[1.0]]),
        lambda: st.leave_one_out(X, y, "ridge", [[1.0]]),
        lambda: st.training_error(SPECTRUM, "ridge", [[1.0]]),
        lambda: st.bayes_risk("ridge", [[1.0]], eigenvalues=[1.0], signal=1, noise=1, n_samples=5),
    ):
        with pytest.raises(ValueError, match="one number or a list"):
            call()


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1, 0.5], [0.1, 1]], "symmetric"),
        ([[1, 2], [2, 1]], "negative"),
        ([[1, np.nan], [0, 1]], "finite"),
    ],
)
def test_a_covariance_that_is_none(covariance, message):
    given = {"eigenvalues": [1, 0.1], "noise": 1, "n_samples": 9, "covariance": covariance}
    with pytest.raises(ValueError, match=message):
        st.risk("ridge", [1.0], signal=[1, 1], **given)
    with pytest.raises(ValueError, match=message):
        st.bayes_risk("ridge", [1.0], signal=1.0, **given)


@pytest.mark.parametrize("max_gain", [np.nan, -1, "all"])
def test_a_gain_that_cannot_be_asked_for(max_gain):
    with pytest.raises(ValueError, match="max_gain"):
        st.decompose(X, y, max_gain=max_gain)


def test_groups_of_another_length():
    with pytest.raises(ValueError, match="groups"):
        st.StoppedRegressorCV().fit(X, y, groups=np.zeros(5))


def test_a_spectrum_that_was_cut_short_leaves_no_row_out():
    rng = np.random.default_rng(0)
    steep = rng.standard_normal((40, 6)) * np.geomspace(1, 1e-6, 6)
    response = steep @ np.ones(6) + rng.standard_normal(40)
    spectrum = st.decompose(steep, response, max_gain=10.0)
    assert spectrum.accuracy.gain < np.inf
    with pytest.raises(ValueError, match="max_gain"):
        st.leave_one_out(steep, response, "ridge", [1.0], spectrum=spectrum)


def test_names_do_for_methods_everywhere():
    by_name, by_object = (
        (
            st.calibrate(method).stop,
            st.guarantee(method, 1.0).parameter_error,
            st.default_stops(SPECTRUM, method)[5],
            st.training_error(SPECTRUM, method, [3.0])[0],
            st.bounds.parameter_error(method).upper,
            st.bounds.risk_inflation(method, tolerance=1e-4).upper,
        )
        for method in NAMED
    )
    assert by_name == by_object


def test_rules_can_be_kept_in_sets():
    rules = {st.HoldOut(X, y), st.LeaveOneOut(), st.LeaveOneOut()}
    assert len(rules) == 2


@pytest.mark.parametrize("ratio", [1e14, 1e18])
def test_a_column_that_is_lost_beside_a_large_one_is_named(ratio, rng):
    frame = pd.DataFrame({"time": ratio * rng.normal(size=200), "x": rng.normal(size=200)})
    response = frame["x"] + 0.3 * rng.normal(size=200)
    with pytest.warns(st.StopWarning, match="Column 1 of X is too small .* rescale the columns"):
        st.StoppedRegressorCV().fit(frame, response)
    scaled = st.StoppedRegressorCV(penalty_matrix="standardise").fit(frame, response)
    assert scaled.score(frame, response) > 0.8
