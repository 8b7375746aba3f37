"""Conventions around scikit-learn: arrays that follow X, frames, skops, names and links."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import make_pipeline

import stoptime as st
from stoptime.estimators.probabilities import calibrated

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
y = X @ [2.0, 1.0, 0.5, 0.0] + RNG.standard_normal(90)
LABELS = np.where(y > 0, "high", "low")
THREE = np.digitize(y, [-1, 1])
SITE = "https://stoptime.github.io/stoptime/"


def fitted():
    """Return estimators of every kind, with the response that each of them takes."""
    return [
        (st.StoppedRegressor(), y),
        (st.StoppedRegressorCV(), y),
        (st.StoppedClassifier(), LABELS),
        (st.StoppedClassifierCV(), THREE),
        (st.StoppedLogisticRegression(stop=5), LABELS),
        (st.StoppedLogisticRegressionCV(), THREE),
        (st.BandedRegressorCV({"first": [0], "rest": [1, 2, 3]}, n_draws=1, n_starts=1), y),
        (st.StoppedKernelRegressorCV(kernel="rbf"), y),
        (st.StoppedKernelRegressorCV("ridge", kernel="rbf", n_landmarks=20), y),
        (st.StoppedKernelClassifierCV("ridge"), LABELS),
    ]


def of_class(pair):
    return type(pair[0]).__name__


# arrays


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pair", fitted()[:6], ids=of_class)
def test_results_follow_x(pair, dtype):
    """Coefficients and decisions have the namespace, device and type of X, wherever y is."""
    torch = pytest.importorskip("torch")
    model, response = pair
    tensor = torch.asarray(X, dtype=getattr(torch, dtype))
    model.fit(tensor, response)
    found = model.decision_function if hasattr(model, "classes_") else model.predict
    values = found(tensor)
    for one in (model.coef_, values):
        assert isinstance(one, torch.Tensor)
        assert (one.dtype, one.device) == (tensor.dtype, tensor.device)
    host = sklearn.clone(model).fit(X.astype(dtype), response)
    np.testing.assert_allclose(model.coef_, host.coef_, rtol=0, atol=1e-4)
    if hasattr(model, "classes_"):
        chances = model.predict_proba(tensor)
        np.testing.assert_allclose(chances, host.predict_proba(X.astype(dtype)), atol=1e-4)
        assert model.score(tensor, response) == host.score(X.astype(dtype), response)


def test_the_response_follows_rows():
    torch = pytest.importorskip("torch")
    expected = st.StoppedRegressorCV().fit(X, y).coef_
    elsewhere = [(torch.asarray(X), y), (X, torch.asarray(y)), (torch.asarray(X), [*y])]
    for rows, response in elsewhere:
        model = st.StoppedRegressorCV().fit(rows, response)
        assert type(model.coef_) is type(rows)
        np.testing.assert_allclose(np.asarray(model.coef_), expected, rtol=1e-9)


def test_a_device_without_double_precision_is_refused_with_advice():
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch._subclasses").FakeTensorMode
    with fake():
        rows = torch.empty(9, 2, device="mps")
        for model in (st.StoppedRegressorCV(), st.StoppedKernelRegressorCV(n_landmarks=3)):
            with pytest.raises(ValueError, match=r"no double precision: give X\.cpu\(\)"):
                model.fit(rows, y[:9])


CHECKS = """
import warnings
import stoptime as st
from sklearn.utils.estimator_checks import check_array_api_input
warnings.simplefilter("ignore")
for model in (
    st.StoppedRegressorCV(), st.StoppedClassifierCV(), st.StoppedLogisticRegressionCV(),
    st.StoppedKernelRegressorCV("ridge", kernel="rbf"), st.StoppedKernelClassifierCV("ridge"),
):
    check_array_api_input(
        type(model).__name__, model, "numpy", check_values=True, check_sample_weight=True
    )
print("passed")
"""


def test_dispatching_changes_nothing_for_numpy():
    """scikit-learn's own check, which needs a variable that SciPy reads when it is imported."""
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CHECKS],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "passed\n", found.stderr


# data frames


@pytest.mark.parametrize("pair", fitted(), ids=of_class)
def test_frames_of_polars_and_pandas_give_the_same_fit(pair):
    pl = pytest.importorskip("polars")
    model, response = pair
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    model.fit(frame, pd.Series(response))
    assert [*model.feature_names_in_] == names
    polars = pl.DataFrame(X, schema=names)
    other = sklearn.clone(model).fit(polars, pl.Series(response))
    assert [*other.feature_names_in_] == names
    found, expected = other.predict(polars), model.predict(frame)
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(found, expected)
    else:  # columns may lie in memory otherwise, which changes the order of sums
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(y).max())
    with pytest.raises(ValueError, match="feature names"):
        other.predict(polars.select(names[::-1]))


# files


@pytest.mark.parametrize("pair", fitted(), ids=of_class)
def test_models_survive_skops(pair):
    skops = pytest.importorskip("skops.io")
    model, response = pair
    pipeline = make_pipeline(st.TablePreparation(), model)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipeline.fit(frame, response)
    data = skops.dumps(pipeline)
    unknown = skops.get_untrusted_types(data=data)
    known = ("stoptime.", "numpy.", "pandas.", "scipy.")
    assert [one for one in unknown if not one.startswith(known)] == []
    loaded = skops.loads(data, trusted=unknown)
    np.testing.assert_array_equal(loaded.predict(frame), pipeline.predict(frame))
    if hasattr(model, "predict_interval"):
        intervals = [st.predict_interval(one, frame) for one in (loaded, pipeline)]
        np.testing.assert_array_equal(*intervals)


# names


def test_the_display_of_an_estimator_links_to_its_page():
    root = Path(__file__).parents[2] / "docs"
    for name in ("StoppedRegressorCV", "StoppedLogisticRegression", "StoppedKernelClassifierCV"):
        link = getattr(st, name)()._get_doc_link()
        assert link == f"{SITE}api/estimators.html#stoptime.{name}"
        assert link in getattr(st, name)()._repr_html_()
    link = st.TablePreparation()._get_doc_link()
    assert link == f"{SITE}api/showing.html#stoptime.TablePreparation"
    for page, name in [("estimators", "StoppedRegressorCV"), ("showing", "TablePreparation")]:
        text = (root / "api" / f"{page}.md").read_text(encoding="utf-8")
        assert re.search(rf"autoclass:: stoptime\.{name}$", text, flags=re.MULTILINE)


def test_temperature_scaling_has_the_name_that_scikit_learn_gives_it():
    """One slope for the decision values of left-out rows; labels stay those of the sign."""
    assert "temperature" in CalibratedClassifierCV._parameter_constraints["method"][0].options
    model = st.StoppedClassifierCV("ridge", calibration="temperature").fit(X, LABELS)
    sign = np.where(model.decision_function(X) > 0, model.classes_[1], model.classes_[0])
    np.testing.assert_array_equal(model.predict(X), sign)
    moved = st.StoppedClassifierCV("ridge").fit(X, LABELS)
    np.testing.assert_array_equal(model.coef_, moved.coef_)
    np.testing.assert_allclose(model.intercept_, moved.regressor_.intercept_)
    decisions = model.left_out_decisions_
    odds = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    np.testing.assert_allclose(odds, model.slope_ * model.decision_function(X), rtol=1e-9)
    # as for more classes: one slope for a column of each class, and no offset
    columns = np.column_stack([0 * decisions, decisions])
    slope, _ = calibrated(columns, (model.classes_[1] == LABELS).astype(int))
    assert model.slope_ == slope
    several = [
        st.StoppedClassifierCV("ridge", calibration=one).fit(X, THREE).predict_proba(X)
        for one in ("temperature", "sigmoid")
    ]
    np.testing.assert_array_equal(*several)
