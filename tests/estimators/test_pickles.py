"""Pickles say by which version they were made, compute nothing, and leave out very many rows."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest

import stoptime as st
from stoptime.estimators.regressor import PICKLED_VERSION

ESTIMATORS = [
    st.StoppedRegressor(),
    st.StoppedRegressorCV(stops=8),
    st.StoppedRegressorCV("ridge", rule="sure"),
    st.StoppedRegressorCV(cv=4),
    st.StoppedKernelRegressor(),
    st.StoppedKernelRegressorCV("ridge", stops=8),
]
FEW_CALLS = 200  # to collect the state: about 50; a pass over a million rows takes thousands


@pytest.fixture(params=ESTIMATORS, ids=str)
def model(request, rng):
    X = rng.standard_normal((20, 3))
    return request.param.fit(X, X[:, 0] + 0.1 * rng.standard_normal(20))


def pickled_with_few_calls(model):
    """Return the content of a pickle, for which the package calls few functions."""
    calls = 0

    def note(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_globals.get("__name__", "").startswith("stoptime")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        content = pickle.dumps(model)
    finally:
        sys.setprofile(before)
    assert calls < FEW_CALLS
    return content


def test_a_pickle_of_this_version_is_silent_quick_and_the_same(model):
    new = np.eye(3)
    for again in (pickle.loads(pickled_with_few_calls(model)), copy.deepcopy(model)):
        assert vars(again).keys() == vars(model).keys()
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
        if hasattr(model, "choice_"):
            np.testing.assert_array_equal(again.predict_interval(new), model.predict_interval(new))
    if getattr(model, "rule", "loo") == "sure":
        found = pickle.loads(pickle.dumps(model)).predict_interval(new, kind="nested")
        np.testing.assert_array_equal(found, model.predict_interval(new, kind="nested"))


def test_very_many_rows_are_left_out_of_a_pickle(rng):
    """No pickle holds more than 2^24 numbers of X."""
    X = rng.standard_normal((1_100_000, 16), dtype=np.float32)
    y = X[:, 0] + rng.standard_normal(len(X), dtype=np.float32)
    model = st.StoppedRegressorCV("ridge", stops=[20.0], rule="path-gcv").fit(X, y)
    content = pickled_with_few_calls(model)
    assert len(content) < X.nbytes
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict(X[:9]), model.predict(X[:9]))
    with pytest.raises(ValueError, match="pickled without its training rows"):
        again.predict_interval(X[:3])
    with pytest.raises(ValueError, match="pickled without its training rows"):
        again.predict_interval(X[:3], kind="jackknife")
    # a pickle contains the left-out residuals that are known
    assert model.left_out_residuals_.shape == y.shape
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.left_out_residuals_, model.left_out_residuals_)
    expected = model.predict_interval(X[:3], kind="jackknife")
    np.testing.assert_array_equal(again.predict_interval(X[:3], kind="jackknife"), expected)


@pytest.mark.parametrize("version", [None, "0.0.1"])
def test_a_pickle_of_another_version_says_so_and_predicts(model, version):
    state = model.__getstate__()
    del state[PICKLED_VERSION]
    if version is not None:
        state[PICKLED_VERSION] = version
    made_by = f"stoptime {version}" if version else "an older stoptime"
    again = type(model).__new__(type(model))
    with pytest.warns(
        UserWarning, match=f"{type(model).__name__} was pickled by {made_by}"
    ) as caught:
        again.__setstate__(state)
    assert caught[0].filename == __file__
    assert PICKLED_VERSION not in vars(again)
    np.testing.assert_array_equal(again.predict(np.eye(3)), model.predict(np.eye(3)))
