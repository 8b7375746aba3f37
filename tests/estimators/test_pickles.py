"""Pickles say by which version they were made."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import stoptime as st
from stoptime.estimators.conventions import PICKLED_VERSION

ESTIMATORS = [
    st.StoppedRegressor(),
    st.StoppedRegressorCV(stops=8),
    st.StoppedKernelRegressor(),
    st.StoppedKernelRegressorCV("ridge", stops=8),
]


@pytest.fixture(params=ESTIMATORS, ids=lambda one: type(one).__name__)
def model(request, rng):
    X = rng.standard_normal((20, 3))
    return request.param.fit(X, X[:, 0] + 0.1 * rng.standard_normal(20))


def test_a_pickle_of_this_version_is_silent_and_the_same(model):
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert vars(again).keys() == vars(model).keys()
        np.testing.assert_array_equal(again.predict(np.eye(3)), model.predict(np.eye(3)))


def test_a_pickle_of_another_version_says_so_and_predicts(model, monkeypatch):
    monkeypatch.setattr("stoptime.estimators.conventions.__version__", "0.0.1")
    content = pickle.dumps(model)
    monkeypatch.undo()
    with pytest.warns(
        UserWarning, match=f"{type(model).__name__} was pickled by stoptime 0.0.1"
    ) as caught:
        again = pickle.loads(content)
    assert caught[0].filename == __file__
    assert PICKLED_VERSION not in vars(again)
    np.testing.assert_array_equal(again.predict(np.eye(3)), model.predict(np.eye(3)))


def test_a_state_without_a_version_is_an_older_one(model):
    state = {name: value for name, value in model.__getstate__().items() if name != PICKLED_VERSION}
    bare = type(model).__new__(type(model))
    with pytest.warns(UserWarning, match="pickled by an older stoptime"):
        bare.__setstate__(state)
    np.testing.assert_array_equal(bare.predict(np.eye(3)), model.predict(np.eye(3)))
