"""Pipelines of scikit-learn in model files: the same predictions, or a clear refusal."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import stoptime as st

ROWS = 60
TEXT = OneHotEncoder(handle_unknown="ignore")
NUMBERS = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())


@pytest.fixture
def table(rng):
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, ROWS),
            "town": rng.choice(["here", "there", "far"], ROWS),
            "size": rng.standard_normal(ROWS) * 1e6,
            "kind": rng.choice(["a", "b"], ROWS),
        }
    )
    y = frame["age"] / 10 + (frame["town"] == "far") + rng.standard_normal(ROWS)
    frame.loc[::7, "age"] = np.nan
    return frame, y.to_numpy()


def reloaded(model, tmp_path):
    st.save(model, tmp_path / "model.json")
    return st.load(tmp_path / "model.json")


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [StandardScaler(with_std=False), "passthrough"],
        [SimpleImputer(strategy="mean"), StandardScaler()],
        [SimpleImputer(strategy="constant", fill_value=2)],
        [],
    ],
    ids=str,
)
def test_steps_on_an_array(tmp_path, rng, steps):
    X = rng.standard_normal((50, 4)) * [1, 10, 1e-6, 1e5] + 7
    model = make_pipeline(*steps, st.StoppedRegressorCV()).fit(X, X[:, 0] + X[:, 3] / 1e5)
    same = reloaded(model, tmp_path)
    np.testing.assert_allclose(same.predict(X + 1), model.predict(X + 1), rtol=1e-14)
    ends = model[-1].predict_interval(model[:-1].transform(X) if steps else X, kind="jackknife")
    # the columns determine the response, so that all kinds of intervals agree to rounding
    np.testing.assert_allclose(same.predict_interval(X), ends, rtol=1e-9)


@pytest.mark.parametrize(
    "columns",
    [
        [(TEXT, ["town", "kind"]), (NUMBERS, ["age", "size"])],
        [(NUMBERS, [0, 2]), (TEXT, [1])],
        [(NUMBERS, make_column_selector(dtype_include="number")), (TEXT, [False, True] * 2)],
        [(TEXT, slice(3, 4)), (NUMBERS, ["size", "age"]), ("drop", ["town"])],
    ],
    ids=["names", "numbers", "selector and mask", "slice"],
)
@pytest.mark.parametrize("scaled", [False, True])
def test_columns_of_a_table(tmp_path, table, columns, scaled):
    frame, y = table
    if scaled:  # everything together, at the end
        inner = [(SimpleImputer() if one is NUMBERS else one, some) for one, some in columns]
        dense = ColumnTransformer(
            [(str(i), one, some) for i, (one, some) in enumerate(inner)], sparse_threshold=0
        )
        steps = [dense, StandardScaler()]
    else:
        steps = [make_column_transformer(*columns)]
    model = make_pipeline(*steps, st.StoppedRegressorCV("ridge")).fit(frame, y)
    same = reloaded(model, tmp_path)
    shuffled = frame[frame.columns[::-1]].iloc[::-1]
    with pytest.warns(st.PreparationWarning, match="median"):
        found = same.predict(shuffled)
    np.testing.assert_allclose(found[::-1], model.predict(frame), rtol=1e-12)
    new = frame.assign(age=1.0, town="nowhere", kind="?")
    with pytest.warns(st.PreparationWarning, match="not seen"):
        found = same.predict(new)
    np.testing.assert_allclose(found, model.predict(new), rtol=1e-12)


def test_a_remainder_that_is_passed_through(tmp_path, table):
    frame, y = table
    columns = make_column_transformer((TEXT, ["town", "kind"]), remainder=SimpleImputer())
    model = make_pipeline(columns, st.StoppedRegressor()).fit(frame, y)
    filled = frame.fillna({"age": frame["age"].mean()})
    found = reloaded(model, tmp_path).predict(filled)
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)
    passed = make_column_transformer((TEXT, ["town", "kind"]), remainder="passthrough")
    model = make_pipeline(passed, st.StoppedRegressor()).fit(filled, y)
    np.testing.assert_allclose(
        reloaded(model, tmp_path).predict(filled), model.predict(filled), rtol=1e-12
    )


def test_a_category_for_missing_text(tmp_path, table):
    frame, y = table
    frame.loc[::5, "town"] = None
    model = make_pipeline(TEXT, st.StoppedRegressor()).fit(frame[["town"]], y)
    with pytest.warns(st.PreparationWarning, match="category of their own"):
        found = reloaded(model, tmp_path).predict(frame)
    np.testing.assert_allclose(found, model.predict(frame[["town"]]), rtol=1e-12)


@pytest.mark.parametrize(
    "steps",
    [
        [PolynomialFeatures()],
        [StandardScaler(), SimpleImputer()],
        [StandardScaler(), StandardScaler()],
        [SimpleImputer(add_indicator=True)],
    ],
    ids=str,
)
def test_steps_that_a_file_cannot_hold(tmp_path, rng, steps):
    X = rng.standard_normal((20, 3))
    X[0, 0] = np.nan if isinstance(steps[0], SimpleImputer) else 0
    model = make_pipeline(*steps, st.StoppedRegressor()).fit(X, X[:, 1])
    with pytest.raises(TypeError, match=r"cannot hold .*Pickle the pipeline"):
        st.save(model, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_other_things_that_cannot_be_saved(tmp_path, table, rng):
    frame, y = table
    target = tmp_path / "model.json"
    strict = make_pipeline(OneHotEncoder(), st.StoppedRegressor()).fit(frame[["town"]], y)
    with pytest.raises(TypeError, match="handle_unknown"):
        st.save(strict, target)
    codes = make_pipeline(TEXT, st.StoppedRegressor()).fit(rng.integers(0, 3, (ROWS, 1)), y)
    with pytest.raises(TypeError, match="convert the column to text"):
        st.save(codes, target)
    with pytest.raises(TypeError, match=r"pipelines that end with one of them.*not Ridge\(\)"):
        st.save(make_pipeline(StandardScaler(), Ridge()).fit(frame[["size"]], y), target)
    unnamed = make_pipeline(make_column_transformer((StandardScaler(), [1])), st.StoppedRegressor())
    with pytest.raises(ValueError, match="fit the pipeline to a data frame"):
        st.save(unnamed.fit(rng.standard_normal((ROWS, 2)), y), target)
    with pytest.raises(ValueError, match="not fitted"):
        st.save(make_pipeline(StandardScaler(), st.StoppedRegressor()), target)
