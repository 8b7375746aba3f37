"""One call from a table to a fitted, assessed and compared model."""

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import confusion_matrix, log_loss
from sklearn.model_selection import KFold, LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st
from stoptime.tables.results import key_figures


@pytest.fixture
def houses(rng):
    n = 60
    frame = pd.DataFrame({"size": rng.normal(100, 30, n), "town": rng.choice(["Oslo", "Rome"], n)})
    frame["price"] = 3 * frame["size"] + 50 * (frame["town"] == "Oslo") + rng.normal(0, 20, n)
    return frame


def test_it_is_the_pipeline_that_one_would_write():
    diabetes = st.fit_table("diabetes", "target")
    scaled = make_pipeline(StandardScaler(), st.StoppedRegressorCV()).fit(diabetes.X, diabetes.y)
    np.testing.assert_allclose(diabetes.predict(diabetes.X), scaled.predict(diabetes.X), rtol=1e-9)
    np.testing.assert_allclose(
        diabetes.predict_interval(diabetes.X[:5]), st.predict_interval(scaled, diabetes.X[:5])
    )
    errors = diabetes.errors
    assert errors.how == "leave-one-out"
    assert errors.rmse == pytest.approx(np.sqrt(scaled[-1].choice_.error), rel=1e-9)
    assert errors.explained == pytest.approx(1 - errors.rmse**2 / diabetes.y.var())
    for words in ("442 rows, 10 features", "by leave-one-out", "alpha", "least squares"):
        assert words in repr(diabetes)


def test_the_comparison_is_leave_one_out_of_every_estimator():
    """The same numbers as by refitting each of them without each row."""
    frame = st.tables.read_table("diabetes").frame[:60]
    fit = st.fit_table(frame, "target", method="gradient-flow")
    names = ["stoptime", "ridge, as RidgeCV", "least squares", "the mean"]
    assert [one.name for one in fit.scores] == names
    Z, y = fit.features, fit.y
    least = y - cross_val_predict(LinearRegression(), Z, y, cv=LeaveOneOut())
    ridge = RidgeCV(np.geomspace(0.1, 1e3, 300), store_cv_results=True).fit(Z, y)
    ours = fit.model.left_out_residuals_
    found = {one.name: one for one in fit.scores}
    assert found["stoptime"].error == pytest.approx(np.sqrt(np.mean(ours**2)))
    assert found["least squares"].error == pytest.approx(np.sqrt(np.mean(least**2)))
    assert found["least squares"].mae == pytest.approx(np.abs(least).mean())
    assert found["ridge, as RidgeCV"].error == pytest.approx(np.sqrt(-ridge.best_score_), rel=1e-4)
    mean = (y - y.mean()) * 60 / 59
    assert found["the mean"].error == pytest.approx(np.sqrt(np.mean(mean**2)))
    # the root is linear to first order
    roots = [np.sqrt(np.mean(one**2)) for one in (least, ours)]
    linear = least**2 / (2 * roots[0]) - ours**2 / (2 * roots[1])
    spread = linear.std(ddof=1) / np.sqrt(60)
    assert found["least squares"].excess_standard_error == pytest.approx(spread)


@pytest.mark.parametrize("method", ["auto", "ridge", "accelerated-flow"])
def test_the_comparison_takes_no_longer_than_the_fit(rng, method):
    X = rng.standard_normal((1500, 80))
    X[:, 40:] = X[:, :40] + 1e-3 * X[:, 40:]  # ill-conditioned
    frame = pd.DataFrame(X).assign(y=X[:, :3].sum(axis=1) + rng.standard_normal(1500))
    times = []
    st.fit_table(frame, "y", method=method, progress=lambda _: times.append(time.process_time()))
    _, _, fitting, comparing = times  # after reading and preparing
    assert time.process_time() - comparing < 1.5 * (comparing - fitting) + 0.05  # of a noisy clock


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({"cv": 4}, "4-fold cross-validation"),
        ({"rule": "path-gcv"}, 'the rule "path-gcv"'),
        ({"scoring": "neg_mean_absolute_error"}, "leave-one-out"),
        # an angle, a distance, or a training error is no error of a prediction
        ({"rule": "l-curve"}, "leave-one-out"),
        ({"rule": "discrepancy"}, "leave-one-out"),
        ({"method": st.ConjugateGradient(), "cv": KFold(3)}, "3-fold cross-validation"),
        ({"method": st.Adam(0.1), "rule": "sure"}, ""),
    ],
)
def test_the_error_names_the_rule_that_estimates_it(houses, options, how):
    fit = st.fit_table(houses, "price", **{"method": "ridge", **options})
    assert fit.errors.how == how
    assert how in key_figures(fit)[0][2]
    residuals = fit.model.left_out_residuals_
    if how == "leave-one-out":
        assert fit.errors.rmse**2 == pytest.approx(np.mean(residuals**2))
        assert fit.errors.standard_error > 0
    if residuals is None:
        assert (fit.scores, fit.errors.mae) == ((), None)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["yes", "no"], ["no", "yes"]),
        ([True, False], [False, True]),
        (["True", "False"], [False, True]),
        ([1, 2], [1, 2]),
        ([0, 1, 2], [0, 1, 2]),
        (["low", "mid", "top"], ["low", "mid", "top"]),
    ],
)
def test_classes_are_recognised_told_and_assessed(rng, values, labels):
    frame = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    place = np.digitize(frame["a"] + 0.3 * rng.normal(size=90), [0, 0.6][: len(values) - 1])
    fit = st.fit_table(frame.assign(y=np.array(values, dtype=object)[place]), "y")
    assert fit.model.classes_.tolist() == labels
    assert "which are taken as classes" in fit.notes[0]
    assert ("classify=False" in fit.notes[0]) == (
        not isinstance(values[0], str) or values[0] == "True"
    )
    decisions = fit.model.left_out_decisions_
    both = np.column_stack([0 * decisions, decisions]) if len(labels) == 2 else decisions
    chances = np.exp(fit.model.slope_ * both)
    chances /= chances.sum(axis=1, keepdims=True)
    predicted = fit.model.classes_[both.argmax(axis=1)]
    found = fit.classes
    assert found.confusion == confusion_matrix(fit.y, predicted).tolist()
    assert found.accuracy[0] == pytest.approx((fit.y == predicted).mean())
    assert found.log_loss[0] == pytest.approx(log_loss(fit.y, chances, labels=fit.model.classes_))
    cases = sum(one[2] for one in found.calibration)
    assert cases == 90 * (1 if len(labels) == 2 else 3)
    rows = [one.name for one in fit.scores]
    assert (rows[0], rows[-1]) == ("stoptime", "the most frequent class")
    assert fit.scores[0].error == pytest.approx(1 - found.accuracy[0])


def test_numbers_stay_numbers_where_asked_or_likely(rng):
    frame = pd.DataFrame({"a": rng.normal(size=50), "y": rng.integers(0, 2, 50)})
    assert st.fit_table(frame, "y", classify=False).classes is None
    rated = st.fit_table(frame.assign(y=rng.integers(1, 6, 50)), "y")
    categories = frame.assign(y=pd.Categorical(rng.integers(1, 6, 50)))
    assert st.fit_table(categories, "y").classes is not None
    assert st.fit_table(categories, "y", classify=False).classes is None
    assert rated.classes is None
    assert "classify=True takes them as classes" in rated.notes[0]
    money = st.fit_table(frame.assign(y=[f"€ {i},50" for i in range(50)]), "y")
    assert money.y[1] == 1.5
    assert "text such as '€ 0,50', read as numbers" in money.notes[0]


def test_rows_without_a_target_are_left_out(houses):
    houses.loc[:9, "price"] = np.nan
    houses.loc[10, "size"] = np.nan
    columns = {name: houses[name].tolist() for name in houses}  # is a table too
    fit = st.fit_table(columns, "price")
    assert len(fit.y) == 50
    assert '10 rows without a target "price" left out.' in fit.notes
    with pytest.raises(ValueError, match="has 0 values: nothing can be learned"):
        st.fit_table(houses[:0], "price")


def test_the_logarithm_of_a_target_is_fitted_and_mapped_back(houses, tmp_path):
    houses["price"] = np.exp(houses["price"] / 100)
    fit = st.fit_table(houses, "price", log=True)
    X = houses.drop(columns="price")
    plain = make_pipeline(st.TablePreparation(), st.StoppedRegressorCV())
    plain.fit(X, np.log(houses["price"]))
    np.testing.assert_allclose(fit.predict(X), np.exp(plain.predict(X)), rtol=1e-12)
    ends = np.exp(st.predict_interval(plain, X, 0.8))
    np.testing.assert_allclose(fit.predict_interval(X, 0.8), ends, rtol=1e-12)
    assert fit.errors.rmse**2 == pytest.approx(plain[-1].choice_.error)
    assert "coefficients for log(price)" in repr(fit)
    same = clone(fit.pipeline).fit(X, houses["price"])  # a TransformedTargetRegressor
    np.testing.assert_allclose(same.predict(X), fit.predict(X), rtol=1e-9)
    st.save(fit, tmp_path / "m.json")
    loaded = st.load(tmp_path / "m.json")
    np.testing.assert_allclose(loaded.predict(X), fit.predict(X), rtol=1e-12)
    jackknife = st.predict_interval(fit.pipeline, X, kind="jackknife")
    np.testing.assert_allclose(st.predict_interval(loaded, X), jackknife, rtol=1e-12)
    np.testing.assert_allclose(st.to_sklearn(fit).predict(X), fit.predict(X), rtol=1e-12)
    st.report.write(tmp_path / "r.html", same, X, houses["price"], name="price")
    assert f"{100 * fit.errors.explained:.1f}\u00a0%" in (tmp_path / "r.html").read_text()


def test_weights_count_rows(houses):
    times = np.arange(60) % 3 + 1
    weighted = st.fit_table(houses.assign(w=times), "price", weights="w", rule="path-gcv")
    repeated = st.fit_table(houses.loc[houses.index.repeat(times)], "price", rule="path-gcv")
    np.testing.assert_allclose(weighted.predict(houses), repeated.predict(houses), rtol=1e-6)
    assert weighted.importance() == pytest.approx(repeated.importance(), rel=1e-6)


def test_columns_are_judged(houses, rng):
    fit = st.fit_table(houses, "price")
    words = dict(zip(["Oslo", "Rome"], fit.coefficients()[0].original_coef[1:], strict=True))
    # the words of a column are counted together
    assert fit.importance()["town"] == pytest.approx(houses["town"].map(words).std(ddof=0))
    assert list(fit.importance()) == ["size", "town"]
    copied = st.fit_table(houses.assign(euro=2 * houses["price"] + 1), "price")
    assert 'The feature "euro" determines the target exactly: is it a copy?' in copied.notes[-1]
    noise = st.fit_table(houses.assign(price=rng.permutation(["a", "b"] * 30)), "price")
    assert noise.model.stop_ == 0
    assert "the columns predict no better than a constant" in repr(noise)


@pytest.mark.parametrize("method", ["nesterov", "gradient-descent"])
def test_a_table_without_noise_is_fitted_by_an_iteration(method):
    a = np.arange(1, 31)
    start = time.process_time()
    fit = st.fit_table(pd.DataFrame({"a": a, "b": a**2, "y": 3 * a}), "y", method=method)
    assert time.process_time() - start < 20  # about a second; a search without end took minutes
    assert fit.model.score(fit.features, fit.y) == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"target": "prise"}, r'no column "prise": did you mean "price"\? The columns are'),
        ({}, {"target": "town", "classify": False}, "must be numbers, not text such as"),
        ({}, {"weights": "town"}, 'weights "town" must be numbers'),
        ({"price": range(-3, 57)}, {"log": True}, 'values of "price" go down to -3'),
        ({}, {"target": "town", "log": True, "classify": True}, 'values of "town" are classes'),
        ({"w": -1.0}, {"weights": "w"}, "from zero on"),
        ({"w": 0.0}, {"weights": "w"}, "not all zero"),
        ({"price": 1.0}, {}, "1.0 in every row: there is nothing to learn"),
        ({"price": [1.0] + [np.nan] * 59}, {}, "has 1 value: nothing can be learned"),
        ({"price": np.nan}, {}, "has 0 values: nothing can be learned"),
        ({}, {"classify": True}, "60 different values in 60 rows, too many for classes"),
        ({"price": ["?", *map(str, range(59))]}, {}, r'target "price": numbers .* na=\[\'\?\'\]'),
    ],
)
def test_mistakes_are_told_with_what_to_change(houses, change, options, words):
    options = {"target": "price", **options}
    with pytest.raises(ValueError, match=words):
        st.fit_table(houses.assign(**change), options.pop("target"), **options)
