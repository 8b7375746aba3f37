"""Where people come from: shapes, labels, groups and methods as RidgeCV and its classifier have."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_validate

import stoptime as st


def test_one_column_of_y_is_one_target(rng):
    X = rng.normal(size=(30, 3))
    y = X[:, :1] + rng.normal(size=(30, 1))
    for given in (y, pd.DataFrame(y)):
        model, ridge = (one.fit(X, given) for one in (st.StoppedRegressorCV(), RidgeCV()))
        assert model.predict(X).shape == ridge.predict(X).shape
        assert model.coef_.shape == ridge.coef_.shape
    np.testing.assert_array_equal(model.coef_, st.StoppedRegressorCV().fit(X, y[:, 0]).coef_)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_labels_have_the_message_of_scikit_learn(rng, missing):
    labels = np.array(["a", "b", missing] * 10, dtype=object)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        st.StoppedClassifierCV().fit(rng.normal(size=(30, 3)), labels)


@pytest.mark.parametrize("make", [st.StoppedRegressorCV, st.StoppedClassifierCV])
def test_groups_are_routed_to_the_splitter(rng, make):
    X = rng.normal(size=(40, 3))
    y = X[:, 0] > 0 if make is st.StoppedClassifierCV else X[:, 0]
    groups = np.repeat(np.arange(8), 5)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            make(cv=GroupKFold(2)), X, y, cv=GroupKFold(4), params={"groups": groups},
            error_score="raise",
        )  # fmt: skip
    assert len(found["test_score"]) == 4


@pytest.mark.parametrize("count", [2, 3])
def test_classifiers_have_logarithms_and_a_summary_with_names(rng, count):
    X = rng.normal(size=(60, 3))
    labels = np.array(["low", "mid", "top"])[rng.integers(0, count, 60)]
    model = st.StoppedClassifierCV().fit(X, labels)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    table = model.summary()
    names = ["class mid"] if count == 2 else ["class low", "class mid", "class top"]
    assert table.targets == names
    assert all(name in repr(table) for name in names)
    both = st.StoppedRegressorCV().fit(X, X[:, :2]).summary()
    assert both.targets == ["target 0", "target 1"]


def test_frames_of_sparse_columns_are_sparse_matrices(rng):
    X = rng.normal(size=(40, 4)) * (rng.random((40, 4)) < 0.5)
    frame = pd.DataFrame(X).astype(pd.SparseDtype("float64", 0.0))
    model = st.StoppedRegressorCV().fit(frame, X[:, 0] + rng.normal(size=40))
    np.testing.assert_allclose(model.predict(frame), model.predict(X))
    labels = st.StoppedClassifierCV().fit(frame, X[:, 0] > 0)
    np.testing.assert_array_equal(labels.predict(frame), labels.predict(X))
