"""Models in JSON files: loaded they are estimators, with intervals and probabilities."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 4))
    return X, X @ [1.0, 2, 0, -1] + rng.standard_normal(60) + 5


@pytest.fixture
def table(rng):
    n = 80
    frame = pd.DataFrame(
        {
            "paid": [f"€ {i},50" for i in rng.integers(1, 90, n)],
            "when": [f"{i}/04/2021" for i in rng.integers(10, 30, n)],
            "town": rng.choice(["Oslo", "Rome", None], n),
            "size": np.where(rng.random(n) < 0.1, -999, rng.normal(size=n)),
        }
    )
    return frame.assign(y=rng.normal(size=n) + (frame["town"] == "Oslo"))


def roundtrip(model, folder):
    st.save(model, folder / "model.json")
    return st.load(folder / "model.json")


@pytest.mark.parametrize(
    "model",
    [
        st.StoppedRegressorCV(),
        st.StoppedRegressorCV(["ridge", st.AcceleratedFlow(5.0)], cv=3),
        st.StoppedRegressor("ridge", stop=np.inf, fit_intercept=False),
        st.StoppedRegressorCV(per_target=True),
    ],
)
@pytest.mark.parametrize("targets", [1, 3])
def test_regressors_predict_the_same(tmp_path, data, model, targets):
    X, y = data
    y = y if targets == 1 else np.column_stack([y, X[:, 0] ** 2, -y])
    model = clone(model).fit(X, y)
    loaded = roundtrip(model, tmp_path)
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-13)
    assert loaded.method_ == model.method_
    np.testing.assert_array_equal(loaded.stop_, model.stop_)
    kind = {"kind": "jackknife"} if isinstance(model, st.StoppedRegressorCV) else {}
    for confidence in (0.01, 0.9, 0.999):
        expected = model.predict_interval(X, confidence, **kind)
        np.testing.assert_allclose(loaded.predict_interval(X, confidence), expected, rtol=1e-9)
    between = loaded.predict_interval(X, 0.905)  # the next larger confidence
    np.testing.assert_array_equal(between, loaded.predict_interval(X, 0.91))
    with pytest.raises(ValueError, match=r"up to 0\.999"):
        loaded.predict_interval(X, 0.9995)
    assert loaded.fit_intercept == model.fit_intercept
    st.save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()


@pytest.mark.parametrize("labels", [["a", "b"], [0, 1, 2], [True, False]])
@pytest.mark.parametrize("model", [st.StoppedClassifierCV(), st.StoppedLogisticRegression(stop=30)])
def test_classifiers_predict_the_same(tmp_path, data, model, labels):
    X, y = data
    place = np.digitize(y, np.quantile(y, np.arange(1, len(labels)) / len(labels)))
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(model).fit(frame, np.array(labels)[place])
    loaded = roundtrip(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    chances = model.predict_proba(frame)
    np.testing.assert_allclose(loaded.predict_proba(frame), chances, rtol=1e-8)
    np.testing.assert_allclose(st.to_sklearn(model).predict_proba(frame), chances, rtol=1e-8)
    again = clone(loaded).fit(frame, np.array(labels)[place])
    expected = model.decision_function(frame)
    np.testing.assert_allclose(again.decision_function(frame), expected, rtol=1e-6)


def test_a_pipeline_of_a_table_is_loaded_as_one(tmp_path, table):
    preparation = st.TablePreparation(na=[-999], categories=2, kinds={"when": "%d/%m/%Y"})
    fit = st.fit_table(table, "y", preparation=preparation)
    loaded = roundtrip(fit, tmp_path)
    with pytest.warns(st.PreparationWarning):
        expected = fit.predict(table)
    with pytest.warns(st.PreparationWarning, match="Missing values"):
        np.testing.assert_allclose(loaded.predict(table), expected, rtol=1e-12)
    with pytest.warns(st.PreparationWarning):
        ends = st.predict_interval(loaded, table)
    assert ((ends[:, 0] <= table["y"]) & (table["y"] <= ends[:, 1])).mean() > 0.8
    text = (tmp_path / "model.json").read_text()
    assert "base64" not in text
    assert json.loads(text)["preparation"]["columns"][0]["form"]["unit"] == "€"


@pytest.mark.filterwarnings("ignore::stoptime.PreparationWarning")
def test_a_loaded_model_is_an_estimator(tmp_path, table, data):
    loaded = roundtrip(st.fit_table(table, "y"), tmp_path)
    found = permutation_importance(loaded, table, table["y"], n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() == list(table.columns).index("town")
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(table)
    np.testing.assert_allclose(loaded.predict(frame), loaded.predict(table))
    X, y = data
    named = st.StoppedRegressorCV().fit(pd.DataFrame(X, columns=list("abcd")), y)
    alone = roundtrip(named, tmp_path)
    columns = pd.DataFrame(X, columns=list("abcd"))
    np.testing.assert_allclose(alone.predict(columns), named.predict(columns))
    with pytest.raises(ValueError, match="feature names should match"):
        alone.predict(columns[["d", "b", "a", "c"]])
    refitted = clone(alone).fit(X, y)
    np.testing.assert_allclose(refitted.coef_, named.coef_, rtol=1e-9)
    ends = refitted.predict_interval(X, 0.8)
    np.testing.assert_allclose(ends, alone.predict_interval(columns, 0.8), rtol=1e-6)
    with pytest.raises(TypeError):  # without rows
        alone.summary()
    np.testing.assert_allclose(refitted.summary().coef[0], named.coef_, rtol=1e-9)
    without = roundtrip(st.StoppedRegressor(st.ConjugateGradient(), stop=2).fit(X, y), tmp_path)
    with pytest.raises(ValueError, match="without left-out residuals"):
        without.predict_interval(X)


def test_pipelines_searches_and_transformed_targets_have_intervals_and_plain_twins(data):
    X, y = data
    y = np.exp(y / 5)
    model = make_pipeline(StandardScaler(), st.StoppedRegressorCV())
    plain = clone(model).fit(X, y)
    expected = plain[-1].predict_interval(plain[:-1].transform(X), 0.8)
    np.testing.assert_array_equal(st.predict_interval(plain, X, 0.8), expected)
    of_log = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(X, y)
    inner = clone(model).fit(X, np.log(y))
    np.testing.assert_allclose(
        st.predict_interval(of_log, X, 0.8), np.exp(st.predict_interval(inner, X, 0.8))
    )
    falling = TransformedTargetRegressor(model, func=np.negative, inverse_func=np.negative)
    swapped = st.predict_interval(falling.fit(X, y), X, 0.8)
    np.testing.assert_allclose(swapped, expected, rtol=1e-9)
    turning = TransformedTargetRegressor(model, func=np.sqrt, inverse_func=np.square)
    assert (st.predict_interval(turning.fit(X, y + 100), X, 0.8) > 0).all()
    around_zero = TransformedTargetRegressor(
        model, func=np.copy, inverse_func=np.square, check_inverse=False
    )
    with pytest.raises(ValueError, match=r"turns within an interval.*a monotone transformation"):
        st.predict_interval(around_zero.fit(X, y - y.mean()), X)
    scaled = TransformedTargetRegressor(model, transformer=StandardScaler())
    both = np.column_stack([y, -y])
    assert st.predict_interval(scaled.fit(X, both), X).shape == (60, 2, 2)
    search = GridSearchCV(model, {"stoppedregressorcv__method": ["ridge"]}, cv=3).fit(X, y)
    linear = st.to_sklearn(plain)
    assert type(linear[-1]).__name__ == "LinearRegression"
    np.testing.assert_allclose(linear.predict(X), plain.predict(X), rtol=1e-12)
    kept = st.predict_interval(search, X, kind="jackknife")
    assert (kept[:, 0] < kept[:, 1]).all()
    with pytest.raises(TypeError, match="StandardScaler has no intervals"):
        st.predict_interval(StandardScaler(), X)


def test_only_what_can_be_loaded_is_saved(tmp_path, data):
    X, y = data
    steps = make_pipeline(StandardScaler(), st.StoppedRegressorCV())
    isotonic = st.StoppedClassifierCV(calibration="isotonic")
    refused = [
        (st.StoppedKernelRegressor(kernel=np.dot, stop=1.0).fit(X, y), TypeError, "a function"),
        (steps.fit(X, y), TypeError, "skops"),
        (isotonic.fit(X, y > y.mean()), ValueError, "Isotonic"),
    ]
    for model, kind, words in refused:
        with pytest.raises(kind, match=words):
            st.save(model, tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.update(format="other"), 'its "format" must be'),
        (lambda file: file.update(schema=99), "newer stoptime: upgrade"),
        (lambda file: file.update(schema=2), "older one: fit again"),
        (lambda file: file.pop("coef"), '"coef" is missing'),
        (lambda file: file.update(intercept=[1, 2]), "do not fit"),
        (lambda file: file["method"].update(name="os.system"), "os.system"),
        (lambda file: file.update(half_widths=[1.0]), "do not fit"),
        (lambda file: file["preparation"]["columns"].pop(), "different numbers|strict|zip"),
        (lambda file: file["preparation"].update(center=[0.0]), "different numbers"),
    ],
)
def test_other_files_are_refused_with_a_reason(tmp_path, table, change, words):
    path = tmp_path / "model.json"
    st.save(st.fit_table(table, "y"), path)
    file = json.loads(path.read_text())
    change(file)
    path.write_text(json.dumps(file))
    with pytest.raises(ValueError, match=words) as error:
        st.load(path)
    assert "is no model file of stoptime" in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\0\xff", "[" * 100_000, '{"a": NaN}'])
def test_hostile_text_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="is no model file of stoptime"):
        st.load(tmp_path / "model.json")
    with pytest.raises(FileNotFoundError, match=r'did you mean "model\.json"'):
        st.load(tmp_path / "modle.json")


def test_loading_a_model_of_arrays_needs_no_pandas(tmp_path, data):
    st.save(st.StoppedRegressorCV().fit(*data), tmp_path / "model.json")
    code = """
import sys
sys.modules["pandas"] = None
import stoptime as st
st.load("model.json").predict([[1, 2, 3, 4]])
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)  # noqa: S603 - our own
