"""The rules: equal to refitting, global minima, edges, standard errors, and refused input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

import stoptime as st
from stoptime.stopping.rule import CurveRule, lowest_between
from stoptime.stopping.training_error import _best_guarantee

METHODS = [
    st.Ridge(),
    st.GradientFlow(),
    st.AcceleratedFlow(),
    st.AcceleratedFlow(5),
    st.HeavyBallFlow(0.3),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=str)
CURVE_RULES = [st.LeaveOneOut(), st.PathGCV(), st.SURE(), st.CrossValidation(4)]
each_rule = pytest.mark.parametrize("rule", CURVE_RULES, ids=lambda r: r.name)


def data(rng, n=60, p=8, q=None, noise=1.0):
    X = rng.standard_normal((n, p)) * np.geomspace(1, 0.2, p) + 1
    beta = rng.standard_normal(p if q is None else (p, q))
    y = X @ beta
    return X, y + noise * rng.standard_normal(y.shape)


def problem(X, y, method="nesterov-flow", **options):
    weights = options.get("sample_weight")
    return st.Problem.of(X, y, method, st.decompose(X, y, weights), **options)


def refitted_errors(X, y, method, stops, splits, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    total, mass = np.zeros(len(stops)), 0.0
    for train, test in splits:
        for k, stop in enumerate(stops):
            model = st.StoppedRegressor(method, stop=stop).fit(
                X[train], y[train], sample_weight=weights[train]
            )
            total[k] += weights[test] @ (y[test] - model.predict(X[test])) ** 2
        mass += weights[test].sum()
    return total / mass


@each_method
@pytest.mark.parametrize(
    "cv",
    [
        KFold(5),
        KFold(3, shuffle=True, random_state=0),
        ShuffleSplit(4, random_state=0),
        TimeSeriesSplit(3),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_cross_validation_equals_refitting(rng, method, cv):
    X, y = data(rng)
    weights = rng.uniform(0.5, 2, len(y))
    stops = np.array([0.0, 0.4, 3.0, 30.0])
    curve = st.CrossValidation(cv).errors(problem(X, y, method, sample_weight=weights), stops)
    expected = refitted_errors(X, y, method, stops, cv.split(X), weights)
    np.testing.assert_allclose(curve.errors, expected, rtol=1e-10)


def test_cross_validation_equals_refitting_wide_critical_and_rank_deficient(rng):
    stops = np.array([0.5, 4.0, 40.0])
    for X, y, method in [
        (*data(rng, 20, 50), st.AcceleratedFlow()),
        (*data(rng, 60, 5), st.HeavyBallFlow()),
        (np.repeat(data(rng, 40, 4)[0], 2, axis=1), data(rng, 40, 4)[1], st.GradientFlow()),
    ]:
        curve = st.CrossValidation(KFold(4)).errors(problem(X, y, method), stops)
        np.testing.assert_allclose(
            curve.errors, refitted_errors(X, y, method, stops, KFold(4).split(X)), rtol=1e-10
        )


def test_a_column_that_lives_in_one_fold_only(rng):
    X, y = data(rng, 40, 4)
    X[10:, 0] = 1e8  # constant in the training set of the first fold, large elsewhere
    X[:10, 0] = 1e8 + 1e3 * rng.standard_normal(10)
    stops = np.array([0.1, 2.0])
    curve = st.CrossValidation(KFold(4)).errors(problem(X, y), stops)
    expected = refitted_errors(X, y, st.AcceleratedFlow(), stops, KFold(4).split(X))
    np.testing.assert_allclose(curve.errors, expected, rtol=1e-8)


def test_groups_and_predefined_splits(rng):
    X, y = data(rng)
    groups = np.arange(60) % 6
    stops = np.array([0.5, 4.0])
    for cv in (LeaveOneGroupOut(), GroupKFold(3)):
        curve = st.CrossValidation(cv).errors(problem(X, y, groups=groups), stops)
        expected = refitted_errors(X, y, st.AcceleratedFlow(), stops, cv.split(X, y, groups))
        np.testing.assert_allclose(curve.errors, expected, rtol=1e-10)
    fold = np.where(np.arange(60) < 45, -1, 0)
    held = st.CrossValidation(PredefinedSplit(fold)).choose(problem(X, y), stops)
    own = st.HoldOut(X[45:], y[45:]).choose(problem(X[:45], y[:45]), stops)
    np.testing.assert_allclose(held.curve.errors, own.curve.errors, rtol=1e-10)
    assert held.standard_error == pytest.approx(own.standard_error, rel=1e-8)


def test_standard_errors_of_folds_and_of_rows(rng):
    X, y = data(rng)
    stops = np.array([1.0])
    split = [(np.arange(45), np.arange(45, 60))]
    model = st.StoppedRegressor(stop=1.0).fit(X[:45], y[:45])
    squares = (y[45:] - model.predict(X[45:])) ** 2
    choice = st.CrossValidation(split).choose(problem(X, y), stops)
    assert choice.standard_error == pytest.approx(squares.std() / np.sqrt(15), rel=1e-9)
    folds = [
        mean_squared_error(
            y[test], st.StoppedRegressor(stop=1.0).fit(X[train], y[train]).predict(X[test])
        )
        for train, test in KFold(5).split(X)
    ]
    curve = st.CrossValidation(5).errors(problem(X, y), stops)
    assert curve.standard_errors[0] == pytest.approx(np.std(folds, ddof=1) / np.sqrt(5), rel=1e-9)


@each_rule
@pytest.mark.parametrize("name", ["gradient-flow", "nesterov-flow"])
def test_the_choice_is_the_global_minimum_between_grid_points(rng, rule, name):
    X, y = data(rng, noise=2.0)
    p = problem(X, y, name)
    choice = rule.choose(p)
    last = choice.curve.stops[-2]
    dense = rule.errors(p, np.concatenate([[0.0], np.geomspace(1e-5 * last, last, 2000), [np.inf]]))
    assert choice.error == pytest.approx(dense.errors.min(), rel=1e-4)
    # the error it tells is the error where it stops
    assert rule.errors(p, np.array([choice.stop])).errors[0] == pytest.approx(
        choice.error, rel=1e-9
    )


@each_rule
def test_an_array_of_stops_is_chosen_among_exactly(rng, rule):
    X, y = data(rng)
    stops = [7.0, 0.3, 2.0, np.inf]
    choice = rule.choose(problem(X, y), stops)
    assert choice.stop in stops
    assert choice.error == choice.curve.errors.min()
    np.testing.assert_array_equal(choice.curve.stops, sorted(stops))


@each_rule
def test_per_target_choices_are_those_of_each_target(rng, rule):
    X, Y = data(rng, q=3, noise=3.0)
    stops = np.geomspace(0.1, 50, 40)
    together = rule.choose(problem(X, Y), stops, per_target=True)
    assert together.curve.errors.shape == (40, 3)
    if isinstance(rule, st.SURE):
        rule = st.SURE(noise=9.0)
        together = rule.choose(problem(X, Y), stops, per_target=True)
    for k in range(3):
        alone = rule.choose(problem(X, Y[:, k]), stops)
        assert together.stop[k] == alone.stop
        assert together.error[k] == pytest.approx(alone.error, rel=1e-9)
    pooled = rule.choose(problem(X, Y), stops)
    assert pooled.error == pytest.approx(together.curve.errors.mean(axis=1).min(), rel=1e-10)


def test_the_default_grid_sees_the_first_descent_and_every_oscillation(rng):
    for p in (1, 5, 30):
        X, y = data(rng, 60, p)
        spec = st.decompose(X, y)
        for method in METHODS:
            stops = st.default_stops(spec, method)
            s = spec.eigenvalues
            assert stops[0] == 0
            assert stops[-1] == np.inf
            # hardly anything is learned at the first stop, and hardly anything left at the last
            assert method.shrinkage(s[-1], stops[1]) > 0.89
            assert np.abs(method.shrinkage(s[0], stops[-2])) < 0.04
            assert 50 <= len(stops) <= 1002
            assert np.max(stops[2:-1] / stops[1:-2]) < 1.25
            if isinstance(method, st.AcceleratedFlow):
                # several points in each visible half of an oscillation
                for row in np.outer(np.sqrt(s), stops[:-1]):
                    counts = np.histogram(row, bins=np.arange(1, 3) * np.pi)[0]
                    assert counts.min() >= 3
    assert len(st.default_stops(spec, st.Ridge(), 17)) == 17
    with pytest.raises(ValueError, match="at least 3"):
        st.default_stops(spec, st.Ridge(), 2)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e4, 1e90])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow", "nesterov"])
def test_default_stops_rise_at_every_scale(method, scale, rng):
    spec = st.decompose(scale * rng.standard_normal((30, 3)), rng.standard_normal(30))
    for size in (None, 3, 40):
        assert (np.diff(st.default_stops(spec, method, size)) > 0).all()


def test_noise_free_data_are_never_stopped(rng):
    X, _ = data(rng)
    choice = st.PathGCV().choose(problem(X, X @ np.ones(8), "ridge"))
    assert choice.stop == np.inf
    assert "least squares" in choice.message


class Falling(CurveRule):
    name = "falling"

    def errors(self, _, stops):
        errors = np.where(np.isinf(stops), 2.0, 1 / (1 + np.where(np.isinf(stops), 0, stops)))
        return st.ErrorCurve(stops, errors, errors / 10)


def test_a_curve_that_falls_to_the_end_extends_the_grid_and_then_warns(rng):
    p = problem(*data(rng))
    grid = st.default_stops(p.spectrum, p.tuned)
    with pytest.warns(st.StopWarning, match="give an array of later stops"):
        choice = Falling().choose(p)
    assert choice.stop == pytest.approx(64 * grid[-2])


@pytest.mark.parametrize(
    "method",
    [st.AcceleratedFlow(), st.AcceleratedFlow(1.0), st.HeavyBallFlow(0.1), st.HeavyBallFlow(0.02)],
    ids=str,
)
def test_little_noise_does_not_end_the_search_too_early(method):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 5))
    y = X @ [3, 2, 1, 1, 1] + 0.1 * rng.standard_normal(200)
    choice = st.LeaveOneOut().choose(problem(X, y, method))
    stops = np.append(np.linspace(0.05, 400, 1001), np.inf)
    assert choice.error <= st.leave_one_out(X, y, method, stops).errors.min() * 1.02
    earlier = st.OneStandardError().choose(problem(X, y, method))
    assert 0 < earlier.stop <= choice.stop
    assert earlier.error <= choice.error + choice.standard_error


def test_splits_are_drawn_once(rng):
    X, y = data(rng)
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    names = ["ridge", "nesterov-flow"]
    from_generator = st.StoppedRegressorCV(names, cv=(s for s in splits)).fit(X, y)
    assert (
        from_generator.choice_.error
        == st.StoppedRegressorCV(names, cv=splits).fit(X, y).choice_.error
    )

    class Counting(KFold):
        drawn = 0

        def split(self, *args):
            Counting.drawn += 1
            return super().split(*args)

    st.StoppedRegressorCV(names, cv=Counting(5, shuffle=True)).fit(X, y)
    assert Counting.drawn == 1


def test_unusual_splits(rng):
    X, y = data(rng)
    stops = np.array([0.5, 4.0])
    repeated = [(np.tile(np.arange(20), 2), np.arange(40, 60))]
    curve = st.CrossValidation(repeated).errors(problem(X, y), stops)
    expected = refitted_errors(X, y, st.AcceleratedFlow(), stops, repeated)
    np.testing.assert_allclose(curve.errors, expected, rtol=1e-10)
    mask = np.arange(60) < 45
    masked = st.CrossValidation([(mask, ~mask)]).errors(problem(X, y), stops)
    plain = st.CrossValidation([(np.flatnonzero(mask), np.flatnonzero(~mask))]).errors(
        problem(X, y), stops
    )
    np.testing.assert_array_equal(masked.errors, plain.errors)
    weights = np.where(np.arange(60) < 12, 0.0, 1.0)
    weighted = st.CrossValidation(KFold(5)).errors(problem(X, y, sample_weight=weights), stops)
    assert np.isfinite(weighted.errors).all()
    for bad in ([], [(np.arange(30), np.array([], int))], [(np.arange(30), np.array([60]))]):
        with pytest.raises(ValueError, match="cv must give"):
            st.CrossValidation(bad).errors(problem(X, y), stops)


def test_pure_noise_stops_at_once():
    rng = np.random.default_rng(4)
    stops = []
    for _ in range(8):
        X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
        stops.append(st.LeaveOneOut().choose(problem(X, y)).stop)
    assert np.median(stops) < 1.5
    assert min(stops) == 0


@each_method
def test_training_error_is_the_residual(rng, method):
    X, y = data(rng)
    stops = np.array([0.0, 0.7, 20.0, np.inf])
    spec = st.decompose(X, y)
    residuals = y - st.path(spec, method, stops).predict(X)
    np.testing.assert_allclose(
        st.training_error(spec, method, stops), (residuals**2).mean(axis=1), rtol=1e-10
    )


def test_sure_estimates_the_in_sample_error(rng):
    """Mean over replicates of SURE = noise + expected in-sample risk, within its standard error."""
    X, _ = data(rng, 40, 5)
    beta = rng.standard_normal(5)
    stops = np.array([0.5, 3.0, 12.0])
    Y = X @ beta[:, None] + rng.standard_normal((40, 3000))
    curve = st.SURE(noise=1.0).errors(problem(X, Y), stops)
    fits = st.path(X, Y, "nesterov-flow", stops).predict(X)
    risk = ((fits - (X @ beta)[:, None]) ** 2).mean(axis=1) + 1.0
    gap = curve.errors - risk
    assert np.all(np.abs(gap.mean(axis=1)) < 4.5 * gap.std(axis=1) / np.sqrt(3000))


def test_plug_in_reports_its_guarantee(rng):
    X, y = data(rng)
    p = problem(X, y)
    choice = st.PlugIn().choose(p)
    assert choice.stop == pytest.approx(st.StoppedRegressor().fit(X, y).stop_, rel=1e-9)
    assert "at most 1.600 times its Bayes risk" in choice.message
    assert st.PlugIn().choose(p, [0.1, choice.stop, 100.0]).stop == choice.stop
    with pytest.raises(ValueError, match="has one stop for all targets"):
        st.PlugIn().choose(problem(X, np.column_stack([y, y])), per_target=True)
    assert "no signal" in st.PlugIn().choose(problem(X, np.zeros(60))).message
    assert _best_guarantee(p, 0.0) == (np.inf, "no noise was detected")


def test_one_standard_error_stops_earlier(rng):
    X, y = data(rng, noise=3.0)
    p = problem(X, y)
    for rule in (st.LeaveOneOut(), st.CrossValidation(5)):
        best, earlier = rule.choose(p), st.OneStandardError(rule).choose(p)
        assert earlier.stop < best.stop
        assert earlier.error <= best.error + best.standard_error
        index = list(best.curve.stops).index(earlier.stop)
        assert np.all(best.curve.errors[:index] > best.error + best.standard_error)
    many = st.OneStandardError().choose(problem(X, np.column_stack([y, y[::-1]])), per_target=True)
    assert many.stop.shape == many.error.shape == (2,)
    with pytest.raises(ValueError, match="has no standard error"):
        st.OneStandardError(st.PathGCV()).choose(p)


@pytest.mark.parametrize("center", [1.234, 30.0])
def test_the_lowest_point_between_stops_is_exact_for_parabolas(center):
    stops = np.concatenate([[0.0], np.geomspace(0.1, 100, 30), [np.inf]])

    def heights(points, owner):
        with np.errstate(divide="ignore"):
            return np.minimum((np.log(points) - np.log(center)) ** 2, 1e3) + 5 + owner

    columns = np.stack([heights(stops, 0), heights(stops, 1)], axis=1)
    found, least = lowest_between(heights, stops[:, None], columns, whole=False)
    np.testing.assert_allclose(found, center, rtol=1e-9)
    np.testing.assert_allclose(least, [5, 6])


def test_the_lowest_whole_stop_is_found():
    stops = np.unique(np.round(np.geomspace(1, 1e6, 40)))

    def heights(points, owner):
        return (points - 12_345.0) ** 2 + 1.0 + 0 * owner

    found, least = lowest_between(heights, stops[:, None], heights(stops, 0)[:, None], whole=True)
    assert found[0] == 12_345
    assert least[0] == 1


def test_rules_by_name():
    for name, cls in st.RULES.items():
        assert st.get_rule(name) == cls()
    assert st.get_rule("loo", cv=3) == st.CrossValidation(3)
    assert st.get_rule(st.SURE(2.0)) == st.SURE(2.0)
    with pytest.raises(ValueError, match=r"Unknown rule 'aic'.*path-gcv"):
        st.get_rule("aic")


def test_bad_hold_out_sets(rng):
    X, y = data(rng)
    with pytest.raises(ValueError, match="do not fit the training data"):
        st.HoldOut(X[:, :3], y).errors(problem(X, y), np.array([1.0]))
    with pytest.raises(ValueError, match="X_val"):
        st.HoldOut(X * np.nan, y).errors(problem(X, y), np.array([1.0]))
    with pytest.raises(ValueError, match="noise must be"):
        st.SURE(noise=-1).errors(problem(X, y), np.array([1.0]))


def test_repeated_splits_and_clone(rng):
    X, y = data(rng)
    cv = RepeatedKFold(n_splits=3, n_repeats=2, random_state=1)
    model = clone(st.StoppedRegressorCV(cv=cv)).fit(X, y)
    assert model.choice_.message.startswith("least cross-validation error")
    assert LinearRegression().fit(X, y).score(X, y) >= model.score(X, y)


@pytest.mark.parametrize("shape", [(120, 30), (60, 150), (60, 35)])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
@pytest.mark.parametrize("targets", [1, 20])
def test_held_out_errors_are_those_of_paths(method, shape, targets, rng):
    """By quadratic forms in a few coordinates, and one prediction at a time."""
    n, p = shape
    X = rng.standard_normal(shape) * np.arange(1, p + 1) ** -0.5
    y = X @ rng.standard_normal((p, targets)) + rng.standard_normal((n, targets))
    folds = list(KFold(3).split(X))
    model = st.StoppedRegressorCV(method, cv=folds, per_target=True).fit(X, y)
    curve = model.choice_.curve
    finite = np.asarray(curve.stops, float)[:-1]
    squares = 0.0
    for train, test in folds:
        fit = st.path(X[train], y[train], method, finite).predict(X[test])
        squares = squares + ((fit - y[test]) ** 2).sum(axis=1)
    # one column of y is treated as a vector
    expected = (squares / n).reshape(curve.errors[:-1].shape)
    np.testing.assert_allclose(curve.errors[:-1], expected, rtol=1e-8)
