"""What all rules share: global minima, given stops, targets, one standard error, and names."""

import numpy as np
import pytest

import stoptime as st
from contract import fitted
from stoptime.stopping.rule import CurveRule, lowest_between

RULES = [st.LeaveOneOut(), st.PathGCV(), st.SURE(), st.CrossValidation(4)]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)


def problem(rng, method="nesterov-flow", *, q=None, noise=1.0):
    X = rng.standard_normal((60, 8)) * np.geomspace(1, 0.2, 8) + 1
    y = X @ rng.standard_normal(8 if q is None else (8, q))
    y = y + noise * rng.standard_normal(y.shape)
    return st.Problem.of(X, y, method, st.decompose(X, y))


@each_rule
@pytest.mark.parametrize("name", ["gradient-flow", "nesterov-flow"])
def test_the_choice_is_the_global_minimum_between_grid_points(rng, rule, name):
    p = problem(rng, name, noise=2.0)
    choice = rule.choose(p)
    last = choice.curve.stops[-2]
    dense = rule.errors(p, np.concatenate([[0.0], np.geomspace(1e-5 * last, last, 2000), [np.inf]]))
    assert choice.error == pytest.approx(dense.errors.min(), rel=1e-4)
    # the error it tells is the error where it stops
    (error,) = rule.errors(p, np.array([choice.stop])).errors
    assert error == pytest.approx(choice.error, rel=1e-9)


@each_rule
def test_an_array_of_stops_is_chosen_among_exactly(rng, rule):
    stops = [7.0, 0.3, 2.0, np.inf]
    choice = rule.choose(problem(rng), stops)
    assert choice.stop in stops
    assert choice.error == choice.curve.errors.min()
    np.testing.assert_array_equal(choice.curve.stops, sorted(stops))


@each_rule
def test_per_target_choices_are_those_of_each_target(rng, rule):
    p = problem(rng, q=3, noise=3.0)
    stops = np.geomspace(0.1, 50, 40)
    if isinstance(rule, st.SURE):
        rule = st.SURE(noise=9.0)
    together = rule.choose(p, stops, per_target=True)
    assert together.curve.errors.shape == (40, 3)
    X, Y = p.data.rows.X, p.data.rows.y
    for k in range(3):
        alone = rule.choose(st.Problem.of(X, Y[:, k], "nesterov-flow"), stops)
        assert together.stop[k] == alone.stop
        assert together.error[k] == pytest.approx(alone.error, rel=1e-9)
    pooled = rule.choose(p, stops)
    assert pooled.error == pytest.approx(together.curve.errors.mean(axis=1).min(), rel=1e-10)


class Falling(CurveRule):
    name = "falling"

    def errors(self, _, stops):
        errors = np.where(np.isinf(stops), 2.0, 1 / (1 + np.where(np.isinf(stops), 0, stops)))
        return st.ErrorCurve(stops, errors, errors / 10)


def test_a_curve_that_falls_to_the_end_extends_the_grid_and_then_warns(rng):
    p = problem(rng)
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
    choice = st.LeaveOneOut().choose(st.Problem.of(X, y, method))
    stops = np.append(np.linspace(0.05, 400, 1001), np.inf)
    dense = st.leave_one_out(X, y, method, stops, standard_errors=False)
    assert choice.error <= dense.errors.min() * 1.02
    earlier = st.OneStandardError().choose(st.Problem.of(X, y, method))
    assert 0 < earlier.stop <= choice.stop
    assert earlier.error <= choice.error + choice.standard_error


def test_pure_noise_stops_at_once():
    rng = np.random.default_rng(4)
    stops = []
    for _ in range(8):
        X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
        stops.append(st.LeaveOneOut().choose(st.Problem.of(X, y, "nesterov-flow")).stop)
    assert np.median(stops) < 1.5
    assert min(stops) == 0


# ---------------------------------------------------------------- one standard error


def test_one_standard_error_stops_earlier(rng):
    p = problem(rng, noise=3.0)
    for rule in (st.LeaveOneOut(), st.CrossValidation(5)):
        best, earlier = rule.choose(p), st.OneStandardError(rule).choose(p)
        assert earlier.stop < best.stop
        assert earlier.error <= best.error + best.standard_error
        index = list(best.curve.stops).index(earlier.stop)
        assert np.all(best.curve.errors[:index] > best.error + best.standard_error)
    many = st.OneStandardError().choose(problem(rng, q=2), per_target=True)
    assert many.stop.shape == many.error.shape == (2,)
    with pytest.raises(ValueError, match="has no standard error"):
        st.OneStandardError(st.PathGCV()).choose(p)


def test_one_standard_error_chooses_the_method_first(diabetes):
    earlier = fitted("auto", *diabetes, rule="one-standard-error")
    assert earlier.method_ == fitted("auto", *diabetes).method_


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", st.AcceleratedFlow(9.0)], ids=str)
def test_one_standard_error_takes_the_earliest_stop_within_it(method, diabetes):
    X, y = diabetes
    stops = np.geomspace(10.0, 1e5, 60)
    errors = st.leave_one_out(X, y, method, stops).errors
    best = np.argmin(errors)
    squares = st.left_out_residuals(X, y, method, stops[best]) ** 2
    limit = errors[best] + squares.std(ddof=1) / np.sqrt(len(y))
    found = fitted(method, X, y, stops=stops, rule="one-standard-error")
    assert found.stop_ == stops[np.argmax(errors <= limit)] < stops[best]


# ---------------------------------------------------------------- the lowest point


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


def test_a_wide_bracket_does_not_give_narrow_ones_more_points():
    stops = np.concatenate([[0.0], np.arange(1.0, 41.0), [60.0, 80.0, 100.0], [np.inf]])
    looked = []

    def heights(points, owner):
        looked.append(points.size)
        return 2 + np.cos(np.pi * points) - np.exp(-((points - 71.0) ** 2)) + 0 * owner

    # the grid has a dip at every odd stop, and the lowest point lies far from the last stops
    columns = heights(stops[:-1], 0)[:, None]
    columns = np.concatenate([columns, [[3.0]]])
    columns[-3] = 1.0
    found, least = lowest_between(heights, stops[:, None], columns, whole=False, fine=0.1)
    np.testing.assert_allclose(found, 71.0, rtol=1e-3)
    assert least[0] < 0.001
    assert sum(looked[1:]) < 20 * 34 + 600


def test_the_lowest_whole_stop_is_found():
    stops = np.unique(np.round(np.geomspace(1, 1e6, 40)))

    def heights(points, owner):
        return (points - 12_345.0) ** 2 + 1.0 + 0 * owner

    found, least = lowest_between(heights, stops[:, None], heights(stops, 0)[:, None], whole=True)
    assert found[0] == 12_345
    assert least[0] == 1


def test_a_sharp_dip_between_two_stops_is_found():
    """The stops around it are a third higher than the lowest stop of all."""
    stops = np.arange(1.0, 31.0)

    def heights(points, owner):
        wide = np.exp(-(((points - 10.0) / 4) ** 2))
        sharp = 2 * np.exp(-25 * (points - 22.4) ** 2)
        return 2 - wide - sharp + 0 * owner

    columns = heights(stops, 0)[:, None]
    assert columns.argmin() == 9
    assert columns[20:24].min() > 1.3 * columns.min()
    found, least = lowest_between(heights, stops[:, None], columns, whole=False, fine=0.05)
    np.testing.assert_allclose(found, 22.4, rtol=1e-3)
    assert least[0] < 0.1


# ---------------------------------------------------------------- names


def test_rules_by_name():
    for name, cls in st.RULES.items():
        assert st.get_rule(name) == cls()
    assert st.get_rule("loo", cv=3) == st.CrossValidation(3)
    assert st.get_rule(st.SURE(2.0)) == st.SURE(2.0)
    with pytest.raises(ValueError, match=r"Unknown rule 'aic'.*path-gcv"):
        st.get_rule("aic")


def test_rules_can_be_kept_in_sets(diabetes):
    assert len({st.HoldOut(*diabetes), st.LeaveOneOut(), st.LeaveOneOut()}) == 2
