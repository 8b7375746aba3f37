"""The choice of method and stop: as good as a dense grid, reported as it is, and invariant.

A campaign of 300 problems and more methods is in tests/soak/test_choices.py.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

import stoptime as st
from contract import Case, dense_grid, generated, made, names_of_family

PROBLEMS = 25
OTHERS = ["friction 3", "friction 5", "friction 9", "heavy-ball flow"]
ITERATIONS = ["gradient descent", "Nesterov"]
SEARCHED = list(dict.fromkeys([*names_of_family(), *OTHERS, *ITERATIONS]))
NAMES = ["auto", *SEARCHED]
CLOSE = 1.001  # times the least error of a dense grid: a promise of the documentation
# Two ways to the same left-out residuals agree to 1e-10 of the response, and errors here are at
# least a thousandth of its power.
SAME_ERROR = 1e-7
# Near its minimum the error is a parabola of the logarithm of the stop. A search that resolves the
# error to six digits, which is more than it is worth, determines the stop to about three.
LEAST_ERROR = 1e-6
SAME_STOP = 1e-3


@cache
def problem(seed: int, weighted: bool = False) -> Case:
    data = generated(seed)
    if not weighted:
        return data
    return data.given(sample_weight=np.random.default_rng(seed).gamma(2.0, size=data.n))


def method_of(name, data):
    return "auto" if name == "auto" else made(name, float(data.spectrum.eigenvalues[-1]))


def fitted(method, X, y, sample_weight=None, **options):
    """Fit without the warning that the least error is at the last stop, which is no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        return st.StoppedRegressorCV(method, **options).fit(X, y, sample_weight)


@cache
def chosen(seed: int, name: str, weighted: bool = False):
    data = problem(seed, weighted)
    return fitted(method_of(name, data), data.X, data.y, data.sample_weight)


def left_out_error(data, model, stops):
    curve = st.leave_one_out(
        data.X, data.y, model.method_, stops, standard_errors=False, **data.options
    )
    return curve.errors


@cache
def least_error(seed: int, name: str) -> float:
    """Return the least left-out error of a dense grid."""
    data = problem(seed)
    if name == "auto":
        return min(least_error(seed, one) for one in names_of_family())
    model = chosen(seed, name)  # its method has the step of all rows
    return float(left_out_error(data, model, dense_grid(name, data.spectrum)).min())


# ---------------------------------------------------------------- as good as a dense grid


def problems(name):
    """Return fewer problems where every one takes a second; the campaign has them all."""
    return range(0, PROBLEMS, 8 if name in ITERATIONS else 6 if name in OTHERS else 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_choice_is_as_good_as_a_dense_grid_and_reported_as_it_is(name):
    for seed in problems(name):
        data, model = problem(seed), chosen(seed, name)
        finite = np.isfinite(model.errors_)
        assert finite.any()
        expected = left_out_error(data, model, np.append(model.stops_[finite], model.stop_))
        np.testing.assert_allclose(
            model.errors_[finite], expected[:-1], rtol=SAME_ERROR, err_msg=f"problem {seed}"
        )
        assert model.choice_.error == pytest.approx(expected[-1], rel=SAME_ERROR), f"problem {seed}"
        assert expected[-1] <= CLOSE * least_error(seed, name), f"problem {seed}"


@pytest.mark.parametrize("name", NAMES)
def test_the_choice_with_weights_is_no_worse_than_its_neighbours(name):
    """A factor of 1.05 to either side, or one iteration, is never better by a thousandth."""
    for seed in range(0, PROBLEMS, 8):
        data, model = problem(seed, weighted=True), chosen(seed, name, weighted=True)
        stop = float(model.stop_)
        near = np.array([stop, stop / 1.05, stop * 1.05])
        near = np.array([stop, max(stop - 1, 0), stop + 1]) if name in ITERATIONS else near
        errors = left_out_error(data, model, near)
        assert model.choice_.error == pytest.approx(errors[0], rel=SAME_ERROR), f"problem {seed}"
        assert errors[0] <= CLOSE * errors.min(), f"problem {seed}"


# ---------------------------------------------------------------- what a model reports


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weights"])
@pytest.mark.parametrize("name", ["auto", "ridge", "friction 3", "Nesterov"])
def test_a_model_has_the_residuals_of_its_stop_and_their_standard_error(name, weighted):
    for seed in (0, 24):
        data = problem(seed, weighted)
        model = chosen(seed, name, weighted)
        expected = st.left_out_residuals(data.X, data.y, model.method_, model.stop_, **data.options)
        size = np.abs(data.y - data.y.mean()).max()
        np.testing.assert_allclose(model.left_out_residuals_, expected, rtol=0, atol=1e-9 * size)
        np.testing.assert_allclose(
            model.left_out_predictions_, data.y - expected, rtol=1e-9, atol=1e-9 * size
        )
        weights = np.ones(data.n) if data.sample_weight is None else data.sample_weight
        deviations = weights * (expected**2 - np.average(expected**2, weights=weights))
        spread = np.sqrt((deviations**2).sum() * data.n / (data.n - 1)) / weights.sum()
        assert model.choice_.standard_error == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize("targets", [1, 3, 20])
@pytest.mark.parametrize("name", ["ridge", "friction 3"])
def test_errors_at_given_stops_are_exact_with_weights_too(name, targets):
    for seed in (2, 12):
        data = problem(seed, weighted=True)
        Y = data.y
        if targets > 1:
            noise = np.random.default_rng(seed).normal(size=(data.n, targets))
            Y = data.y[:, None] + data.y.std() * noise
        method = method_of(name, data)
        stops = np.sort(dense_grid(name, data.spectrum)[::60])
        model = fitted(method, data.X, Y, data.sample_weight, stops=stops)
        np.testing.assert_array_equal(model.stops_, stops)
        curve = st.leave_one_out(data.X, Y, method, stops, **data.options)
        pooled = curve.errors.reshape(len(stops), -1).mean(axis=1)
        np.testing.assert_allclose(model.errors_, pooled, rtol=SAME_ERROR)
        options = {"stops": stops, "per_target": True}
        alone = fitted(method, data.X, Y, data.sample_weight, **options)
        np.testing.assert_allclose(alone.errors_, curve.errors, rtol=SAME_ERROR)
        assert pooled[list(stops).index(model.stop_)] == pytest.approx(pooled.min(), rel=1e-9)


@pytest.mark.parametrize("targets", [3, 40])
@pytest.mark.parametrize("penalty", [None, "differences"])
def test_targets_that_share_a_stop_have_its_mean_error(targets, penalty):
    """More targets than directions are searched as few; the errors are those of all of them."""
    data = problem(7, weighted=True)
    noise = np.random.default_rng(7).normal(size=(data.n, targets))
    Y = (data.y[:, None] + data.y.std() * noise) * np.geomspace(1e-2, 1e2, targets)
    L = st.Differences(2) if penalty else None
    for method in ["ridge", "nesterov-flow", "auto"]:
        model = st.StoppedRegressorCV(method, penalty_matrix=L)
        model.fit(data.X, Y, data.sample_weight)
        stops = np.unique(np.append(model.stops_[1::9], model.stop_))
        options = data.options | {"penalty_matrix": L}
        curve = st.leave_one_out(data.X, Y, model.method_, stops, **options)
        at = np.searchsorted(model.stops_, stops)
        expected = curve.errors.mean(axis=1)
        # the curve has the mean scale of unequal weights; the chosen stop has that of every row
        exact = stops == model.stop_
        np.testing.assert_allclose(model.errors_[at][exact], expected[exact], rtol=1e-9)
        rtol = 1e-8 if data.sample_weight is None else 0.01
        np.testing.assert_allclose(model.errors_[at], expected, rtol=rtol)
        residuals = st.left_out_residuals(data.X, Y, model.method_, model.stop_, **options)
        size = np.abs(residuals).max(axis=0)
        assert np.abs((model.left_out_residuals_ - residuals) / size).max() < 1e-9


def test_every_target_has_the_residuals_of_its_own_stop():
    data = problem(4)
    noise = np.random.default_rng(4).normal(size=(data.n, 3))
    Y = data.y[:, None] + data.y.std() * noise * [0.1, 1.0, 10.0]
    model = fitted("ridge", data.X, Y, per_target=True)
    assert model.stop_.shape == (3,)
    expected = st.left_out_residuals(data.X, Y, "ridge", model.stop_)
    np.testing.assert_allclose(model.left_out_residuals_, expected, atol=1e-9 * np.abs(Y).max())
    errors = (expected**2).mean(axis=0)
    np.testing.assert_allclose(model.choice_.error, errors, rtol=SAME_ERROR)


# ---------------------------------------------------------------- invariances

SEEDS = [1, 4, 7, 9, 12, 18]  # tall and wide, plain and other units
INVARIANT = ["auto", "ridge", "friction 3", "Nesterov"]


def seeds(name):
    """Return fewer problems for methods that oscillate, whose fits take a second."""
    return SEEDS[:2] if name in {*OTHERS, *ITERATIONS} else SEEDS


def assert_same_choice(found, expected, *, time=1.0, power=1.0, stop=SAME_STOP, error=LEAST_ERROR):
    """Compare two fits; ``time`` and ``power`` are what stops and errors are multiplied by."""
    assert type(found.method_) is type(expected.method_)
    if isinstance(found.method_, st.AcceleratedFlow):
        assert found.method_ == expected.method_
    assert float(found.stop_) == pytest.approx(float(expected.stop_) * time, rel=stop)
    assert float(found.choice_.error) == pytest.approx(expected.choice_.error * power, rel=error)


def time_of(model, scale):
    """Return what stops are multiplied by if X is: the unit of time is 1/L or 1/√L."""
    if isinstance(model.method_, st.Nesterov):
        return 1.0
    second_order = st.AcceleratedFlow | st.CriticalFlow | st.HeavyBallFlow
    return scale ** (-1 if isinstance(model.method_, second_order) else -2)


def permuted_rows(data, rng):
    order = rng.permutation(data.n)
    return data.X[order], data.y[order]


def permuted_columns(data, rng):
    return data.X[:, rng.permutation(data.X.shape[1])], data.y


def rotated_columns(data, rng):
    p = data.X.shape[1]
    return data.X @ np.linalg.qr(rng.normal(size=(p, p)))[0], data.y


def shifted_response(data, _):
    return data.X, data.y + 3 * data.y.std()


def shifted_columns(data, rng):
    return data.X + data.X.std() * rng.normal(size=data.X.shape[1]), data.y


CHANGES = [permuted_rows, permuted_columns, rotated_columns, shifted_response, shifted_columns]


@pytest.mark.parametrize("name", INVARIANT)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_does_not_matter_does_not_change_the_choice(change, name):
    for seed in seeds(name):
        data = problem(seed)
        X, y = change(data, np.random.default_rng(2))
        assert_same_choice(fitted(method_of(name, data), X, y), chosen(seed, name))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("name", INVARIANT)
def test_units_do_not_matter(name, scale):
    for seed in seeds(name):
        data = problem(seed)
        expected = chosen(seed, name)
        method = method_of(name, data)
        of_y = fitted(method, data.X, scale * data.y)
        assert_same_choice(of_y, expected, power=scale**2)
        of_X = fitted(method, scale * data.X, data.y)
        assert_same_choice(of_X, expected, time=time_of(expected, scale))


@pytest.mark.parametrize("options", [{}, {"cv": 3}], ids=["loo", "folds"])
def test_the_unit_of_weights_does_not_matter(options):
    """For rules that predict rows; others take the sum of the weights for the number of rows."""
    for seed in SEEDS:
        data = problem(seed, weighted=True)
        one = fitted("ridge", data.X, data.y, data.sample_weight, **options)
        other = fitted("ridge", data.X, data.y, 1000 * data.sample_weight, **options)
        assert_same_choice(other, one)


TALL = [seed for seed in range(PROBLEMS) if problem(seed).n > problem(seed).X.shape[1] + 2][:6]


@pytest.mark.parametrize("name", ["auto", "Nesterov"])
def test_a_weight_of_two_is_the_row_twice_where_folds_keep_both(name):
    for seed in TALL[:3]:
        data = problem(seed)
        counts = np.random.default_rng(seed).integers(1, 4, data.n)
        twice = np.repeat(np.arange(data.n), counts)
        folds = np.arange(data.n) % 4

        def splits(of):
            return [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(4)]

        method = method_of(name, data)
        found = fitted(method, data.X, data.y, counts.astype(float), cv=splits(folds))
        expected = fitted(method, data.X[twice], data.y[twice], cv=splits(folds[twice]))
        assert_same_choice(found, expected)


def test_leave_one_out_removes_all_of_a_weight():
    """A weight of two is the row twice if folds of one group each are left out."""
    for seed in TALL[:3]:
        data = problem(seed)
        counts = np.random.default_rng(seed).integers(1, 4, data.n)
        twice = np.repeat(np.arange(data.n), counts)
        found = fitted("ridge", data.X, data.y, counts.astype(float))
        grouped = GroupKFold(data.n).split(data.X[twice], groups=twice)
        expected = fitted("ridge", data.X[twice], data.y[twice], cv=list(grouped))
        # a search with unequal weights takes their mean scale, which moves the stop by a few tenths
        # of a per cent and the error by the square of that
        assert_same_choice(found, expected, stop=1e-2)


@pytest.mark.parametrize("copies", [5, 20])
@pytest.mark.parametrize("name", ["auto", "ridge", "friction 3"])
def test_a_repeated_target_changes_nothing(name, copies):
    for seed in seeds(name):
        data = problem(seed)
        found = fitted(method_of(name, data), data.X, np.column_stack([data.y] * copies))
        expected = chosen(seed, name)
        assert found.method_ == expected.method_
        assert found.stop_ == pytest.approx(expected.stop_, rel=SAME_STOP)


@pytest.mark.parametrize("per_target", [False, True])
def test_targets_do_not_disturb_each_other(per_target):
    """Every target has its own stop, or one stop has the least mean of their errors."""
    for seed in SEEDS:
        data = problem(seed)
        rng = np.random.default_rng(seed)
        Y = np.column_stack([data.y, data.y.std() * rng.normal(size=data.n), data.y**2])
        both = fitted("ridge", data.X, Y, per_target=per_target)
        if per_target:
            alone = [fitted("ridge", data.X, column).choice_.error for column in Y.T]
            np.testing.assert_allclose(both.choice_.error, alone, rtol=1e-3)
            continue
        grid = dense_grid("ridge", data.spectrum)
        errors = st.leave_one_out(data.X, Y, "ridge", grid, standard_errors=False).errors
        assert np.mean(both.choice_.error) <= CLOSE * errors.mean(axis=1).min()


@pytest.mark.parametrize("name", INVARIANT)
def test_single_precision_agrees_to_its_digits(name):
    """Rounding of the data to 24 bits moves errors by 1e-6 or so, and a flat minimum by 1e-3."""
    for seed in [seed for seed in seeds(name) if problem(seed).spectrum.rank > 1]:
        data = problem(seed)
        X, y = data.X.astype(np.float32), data.y.astype(np.float32)
        method = method_of(name, data)
        single = fitted(method, X, y)
        double = fitted(method, X.astype(float), y.astype(float))
        assert_same_choice(single, double, stop=1e-3, error=1e-5)
        size = np.abs(double.coef_).max()
        np.testing.assert_allclose(single.coef_, double.coef_, rtol=0, atol=1e-3 * size)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", INVARIANT)
def test_tensors_agree_with_arrays(name):
    import torch

    for seed in seeds(name):
        data = problem(seed)
        method = method_of(name, data)
        found = fitted(method, torch.from_numpy(data.X), torch.from_numpy(data.y))
        assert_same_choice(found, chosen(seed, name))
        single = fitted(method, torch.from_numpy(data.X).float(), torch.from_numpy(data.y).float())
        same = fitted(method, data.X.astype(np.float32), data.y.astype(np.float32))
        assert_same_choice(single, same, stop=1e-3, error=1e-5)
