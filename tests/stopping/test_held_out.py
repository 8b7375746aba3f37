"""Errors of rows held out, by folds or by a set of their own: those of paths to the other rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

import stoptime as st
from contract import fitted, fold_errors

METHODS = [
    st.Ridge(),
    st.GradientFlow(),
    st.AcceleratedFlow(),
    st.AcceleratedFlow(5),
    st.HeavyBallFlow(0.3),
]
SPLITTERS = [
    KFold(5),
    KFold(3, shuffle=True, random_state=0),
    ShuffleSplit(4, random_state=0),
    TimeSeriesSplit(3),
]
STOPS = np.array([0.5, 4.0, 40.0])


def data(rng, n=60, p=8):
    X = rng.standard_normal((n, p)) * np.geomspace(1, 0.2, p) + 1
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


def found(cv, X, y, method="nesterov-flow", stops=STOPS, **options):
    """Return the errors of the rule, whose rows may have weights and groups."""
    return st.CrossValidation(cv).errors(st.Problem.of(X, y, method, **options), stops).errors


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_errors_are_those_of_refits(rng, method, cv):
    X, y = data(rng)
    weights = rng.uniform(0.5, 2, len(y))
    stops = np.array([0.0, 0.4, 3.0, 30.0])
    expected = fold_errors(X, y, method, stops, cv.split(X), weights)
    errors = found(cv, X, y, method, stops, sample_weight=weights)
    np.testing.assert_allclose(errors, expected, rtol=1e-10)


def one_fold_has_a_column(rng):
    """Return a column that is constant in the training set of the first fold, and large."""
    X, y = data(rng, 40, 4)
    X[10:, 0] = 1e8
    X[:10, 0] = 1e8 + 1e3 * rng.standard_normal(10)
    return X, y


@pytest.mark.parametrize(
    ("make", "method", "digits"),
    [
        (lambda rng: data(rng, 20, 50), st.AcceleratedFlow(), 1e-10),
        (lambda rng: data(rng, 60, 5), st.HeavyBallFlow(), 1e-10),
        (lambda rng: (np.repeat((d := data(rng, 40, 4))[0], 2, axis=1), d[1]), st.GradientFlow(),
         1e-10),
        (one_fold_has_a_column, st.AcceleratedFlow(), 1e-8),
    ],
    ids=["wide", "critical", "rank deficient", "a column of one fold"],
)  # fmt: skip
def test_errors_of_unusual_columns_are_those_of_refits(rng, make, method, digits):
    X, y = make(rng)
    expected = fold_errors(X, y, method, STOPS, KFold(4).split(X))
    np.testing.assert_allclose(found(KFold(4), X, y, method), expected, rtol=digits)


@pytest.mark.parametrize("shape", [(120, 30), (60, 150), (60, 35)])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
@pytest.mark.parametrize("targets", [1, 20])
def test_curves_of_a_search_are_those_of_refits(method, shape, targets, rng):
    """By quadratic forms in a few coordinates, and one prediction at a time."""
    n, p = shape
    X = rng.standard_normal(shape) * np.arange(1, p + 1) ** -0.5
    y = X @ rng.standard_normal((p, targets)) + rng.standard_normal((n, targets))
    folds = list(KFold(3).split(X))
    model = st.StoppedRegressorCV(method, cv=folds, per_target=True).fit(X, y)
    curve = model.choice_.curve
    expected = fold_errors(X, y, method, np.asarray(curve.stops, float)[:-1], folds)
    # one column of y is treated as a vector
    expected = expected.reshape(curve.errors[:-1].shape)
    np.testing.assert_allclose(curve.errors[:-1], expected, rtol=1e-8)


def test_groups_and_predefined_splits(rng):
    X, y = data(rng)
    groups = np.arange(60) % 6
    for cv in (LeaveOneGroupOut(), GroupKFold(3)):
        expected = fold_errors(X, y, "nesterov-flow", STOPS, cv.split(X, y, groups))
        np.testing.assert_allclose(found(cv, X, y, groups=groups), expected, rtol=1e-10)
    fold = np.where(np.arange(60) < 45, -1, 0)
    problem = st.Problem.of(X, y, "nesterov-flow")
    held = st.CrossValidation(PredefinedSplit(fold)).choose(problem, STOPS)
    train = st.Problem.of(X[:45], y[:45], "nesterov-flow")
    own = st.HoldOut(X[45:], y[45:]).choose(train, STOPS)
    np.testing.assert_allclose(held.curve.errors, own.curve.errors, rtol=1e-10)
    assert held.standard_error == pytest.approx(own.standard_error, rel=1e-8)


def test_unusual_splits(rng):
    X, y = data(rng)
    repeated = [(np.tile(np.arange(20), 2), np.arange(40, 60))]
    expected = fold_errors(X, y, "nesterov-flow", STOPS, repeated)
    np.testing.assert_allclose(found(repeated, X, y), expected, rtol=1e-10)
    mask = np.arange(60) < 45
    plain = found([(np.flatnonzero(mask), np.flatnonzero(~mask))], X, y)
    np.testing.assert_array_equal(found([(mask, ~mask)], X, y), plain)
    weights = np.where(np.arange(60) < 12, 0.0, 1.0)
    assert np.isfinite(found(KFold(5), X, y, sample_weight=weights)).all()
    for bad in ([], [(np.arange(30), np.array([], int))], [(np.arange(30), np.array([60]))]):
        with pytest.raises(ValueError, match="cv must give"):
            found(bad, X, y)


@pytest.mark.parametrize("targets", [6, 8, 13])
@pytest.mark.parametrize("by", ["hold-out", "folds"])
def test_one_small_column_and_many_targets(by, targets):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 40))
    X[:, -1] *= 1e-4
    Y = X[:, :targets] + 2 * rng.standard_normal((160, targets))
    if by == "hold-out":
        splits = [(np.arange(80), np.arange(80, 160))]
        model = fitted("nesterov-flow", X[:80], Y[:80], rule=st.HoldOut(X[80:], Y[80:]))
    else:
        folds = np.arange(160) % 5
        splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(5)]
        model = fitted("nesterov-flow", X, Y, cv=splits)
    stops = np.append(0.0, np.geomspace(0.01, 300, 300))
    errors = fold_errors(X, Y, "nesterov-flow", np.append(stops, model.stop_), splits).mean(axis=1)
    assert errors[-1] <= 1.001 * errors[:-1].min()  # a promise of the documentation
    assert np.mean(model.choice_.error) == pytest.approx(errors[-1], rel=1e-6)


def test_standard_errors_of_folds_and_of_rows(rng):
    X, y = data(rng)
    stops = np.array([1.0])
    split = [(np.arange(45), np.arange(45, 60))]
    squares = (y[45:] - st.path(X[:45], y[:45], "nesterov-flow", 1.0).predict(X[45:])[0]) ** 2
    problem = st.Problem.of(X, y, "nesterov-flow")
    choice = st.CrossValidation(split).choose(problem, stops)
    assert choice.standard_error == pytest.approx(squares.std() / np.sqrt(15), rel=1e-9)
    folds = [fold_errors(X, y, "nesterov-flow", stops, [one])[0] for one in KFold(5).split(X)]
    curve = st.CrossValidation(5).errors(problem, stops)
    assert curve.standard_errors[0] == pytest.approx(np.std(folds, ddof=1) / np.sqrt(5), rel=1e-9)


@pytest.mark.parametrize("method", ["auto", "ridge", "nesterov-flow", "gradient-descent"])
def test_leave_one_out_as_a_splitter_is_the_rule(method, rng):
    X, y = data(rng, 40)
    rule, splitter = fitted(method, X, y), fitted(method, X, y, cv=LeaveOneOut())
    assert splitter.method_ == rule.method_
    assert splitter.stop_ == rule.stop_
    assert splitter.choice_.error == rule.choice_.error


def test_splits_are_drawn_once(rng):
    X, y = data(rng)
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    names = ["ridge", "nesterov-flow"]
    generator = st.StoppedRegressorCV(names, cv=(s for s in splits)).fit(X, y)
    assert (
        generator.choice_.error == st.StoppedRegressorCV(names, cv=splits).fit(X, y).choice_.error
    )

    class Counting(KFold):
        drawn = 0

        def split(self, *args):
            Counting.drawn += 1
            return super().split(*args)

    st.StoppedRegressorCV(names, cv=Counting(5, shuffle=True)).fit(X, y)
    assert Counting.drawn == 1


def test_repeated_splits_and_clone(rng):
    cv = RepeatedKFold(n_splits=3, n_repeats=2, random_state=1)
    model = clone(st.StoppedRegressorCV(cv=cv)).fit(*data(rng))
    assert model.choice_.message.startswith("least cross-validation error")


def test_bad_hold_out_sets(rng):
    X, y = data(rng)
    problem = st.Problem.of(X, y, "nesterov-flow")
    with pytest.raises(ValueError, match="do not fit the training data"):
        st.HoldOut(X[:, :3], y).errors(problem, STOPS)
    with pytest.raises(ValueError, match="X_val"):
        st.HoldOut(X * np.nan, y).errors(problem, STOPS)
