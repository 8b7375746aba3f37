"""The search for method and stop: as good as a dense grid, reported as it is, and invariant."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import OneHotEncoder

import stoptime as st
from campaign import SOAK, problems
from contract import (
    METHODS,
    Case,
    dense_grid,
    fitted,
    generated,
    least_of_family,
    left_out_error,
    made,
    names_of_family,
    one_by_one,
    refit,
    residuals_of,
)

PROBLEMS = problems(25, 300)
SMOOTH = ["auto", *names_of_family()]
WAVES = [
    "friction 3",
    "heavy-ball flow",
    "friction 5",
    "friction 9",
    "gradient descent",
    "Nesterov",
]
NAMES = ["auto", *METHODS] if SOAK else [*SMOOTH, *WAVES]
CLOSE = 1.001  # times the least error of a dense grid: a promise of the documentation
# Two ways to the same left-out residuals agree to 1e-10 of the response, and errors here are at
# least a thousandth of its power. Among 300 problems are some where products of X lose digits.
SAME_ERROR = 1e-6 if SOAK else 1e-7
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


@cache
def chosen(seed: int, name: str, weighted: bool = False):
    data = problem(seed, weighted)
    return fitted(method_of(name, data), data.X, data.y, data.sample_weight)


def seeds_of(name, usual):
    """Return fewer problems where one takes a second, and all of them in a campaign."""
    if SOAK:
        return range(PROBLEMS)
    if name in {"friction 5", "friction 9"}:
        return usual[:2]
    return usual if name in SMOOTH else usual[::6]


def chosen_unless_singular(seed, name, weighted=False):
    """Return the fit, or None for a damping that a singular spectrum has not."""
    try:
        return chosen(seed, name, weighted)
    except ValueError as refusal:
        assert "critical" in str(refusal)  # noqa: PT017 - nothing else may be refused
        return None


def searched(name, data, model):
    """Return a dense grid up to the last stop of a search: infinity is no number of iterations."""
    grid = dense_grid(name, data.spectrum)
    return grid[grid <= model.stops_.max()]


# ---------------------------------------------------------------- as good as a dense grid


def check_choice(name, seed, same_error=SAME_ERROR, *, weighted=False):
    data = problem(seed, weighted)
    if (model := chosen_unless_singular(seed, name, weighted)) is None:
        return
    finite = np.isfinite(model.errors_)
    assert finite.any()
    expected = left_out_error(data, model.method_, np.append(model.stops_[finite], model.stop_))
    told = np.append(model.errors_[finite], model.choice_.error)
    np.testing.assert_allclose(told, expected, rtol=same_error, err_msg=f"problem {seed}")
    if name == "auto":
        # another method must be better than ridge by more than chance, so all candidates count
        found, least = min(one.error for one in model.choice_.candidates), least_of_family(data)
    else:
        found = expected[-1]
        least = left_out_error(data, model.method_, searched(name, data, model)).min()
    assert found <= CLOSE * least, f"problem {seed}"


@pytest.mark.parametrize("name", NAMES)
def test_the_choice_is_as_good_as_a_dense_grid_and_reported_as_it_is(name):
    for seed in seeds_of(name, range(25)):
        check_choice(name, seed)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("auto", 80),
        ("tail of gradient flow", 80),
        ("friction 3", 80),
        ("critical flow", 25),
        ("critical heavy-ball flow", 24),
    ],
)
def test_a_best_stop_after_all_but_a_few_per_cent_is_learned_is_found(name, seed):
    check_choice(name, seed)


def test_errors_with_as_many_directions_as_rows_keep_their_digits():
    """Every leverage is one, and the smallest eigenvalue 1e-13 of the largest."""
    data = problem(87)
    assert data.spectrum.rank == data.n - 1
    check_choice("auto", 87, same_error=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_the_choice_is_as_good_where_weights_differ(name):
    """Every row has its own scale of time: for an iteration, its own step."""
    for seed in seeds_of(name, range(0, 25, 8)):
        check_choice(name, seed, weighted=True)


def little_noise(lowest, noise):
    """Return thirty columns that explain nearly all of the response."""
    rng = np.random.default_rng(0)
    mixed = np.diag(np.geomspace(1, lowest, 30)) @ rng.normal(size=(30, 30))
    X = rng.normal(size=(300, 30)) @ mixed
    return Case(X, X[:, 0] + noise * rng.normal(size=300))


def powers():
    """Return the first twelve powers of a variable."""
    rng = np.random.default_rng(0)
    X = np.vander(rng.uniform(-1, 1, 160), 13, increasing=True)[:, 1:]
    return Case(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=160))


def levels():
    """Return a table of levels, some of which occur once."""
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.zipf(1.6, 400).clip(max=40), rng.integers(0, 8, 400)])
    X = np.hstack([OneHotEncoder(sparse_output=False).fit_transform(table), 50 * table[:, :1]])
    return Case(X, X @ rng.normal(size=X.shape[1]) + 5 * rng.normal(size=400))


def heavy_row():
    """Return rows of which one has a tenth of the whole weight."""
    rng = np.random.default_rng([31, 0])
    X = rng.normal(size=(100, 12)) * np.arange(1, 13.0) ** -0.5
    weights = np.ones(100)
    weights[7] = 11.0
    return Case(X, X @ rng.normal(size=12) + rng.normal(size=100), {"sample_weight": weights})


CLIFFS = {
    "little noise": lambda: little_noise(1.0, 1e-3),
    "little noise, falling": lambda: little_noise(1e-2, 1e-2),
    "powers of a variable": powers,
    "a table of levels": levels,
    "one heavy row": heavy_row,
}


@pytest.mark.parametrize("name", CLIFFS)
def test_the_choice_is_good_where_the_search_is_hard(name):
    data = CLIFFS[name]()
    model = fitted("auto", data.X, data.y, data.sample_weight)
    (error,) = left_out_error(data, model.method_, [model.stop_])
    assert min(one.error for one in model.choice_.candidates) <= CLOSE * least_of_family(data)
    assert model.choice_.error == pytest.approx(error, rel=1e-6)
    # a grid that follows every wave of the slowest direction has tens of thousands
    assert len(model.stops_) <= 1000


# ---------------------------------------------------------------- what a model reports


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weights"])
@pytest.mark.parametrize("name", ["auto", "ridge", "friction 3", "Nesterov"])
def test_a_model_has_the_residuals_of_its_stop_and_their_standard_error(name, weighted):
    for seed in (0, 24):
        data = problem(seed, weighted)
        model = chosen(seed, name, weighted)
        expected = st.left_out_residuals(data.X, data.y, model.method_, model.stop_, **data.options)
        near = {"rtol": 1e-9, "atol": 1e-9 * data.size}
        np.testing.assert_allclose(model.left_out_residuals_, expected, **near)
        np.testing.assert_allclose(model.left_out_predictions_, data.y - expected, **near)
        weights = np.ones(data.n) if data.sample_weight is None else data.sample_weight
        deviations = weights * (expected**2 - np.average(expected**2, weights=weights))
        spread = np.sqrt((deviations**2).sum() * data.n / (data.n - 1)) / weights.sum()
        assert model.choice_.standard_error == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize("targets", [1, 3, 20])
@pytest.mark.parametrize("name", ["ridge", "friction 3"])
def test_errors_at_given_stops_are_exact_with_weights_too(name, targets):
    data = problem(2, weighted=True)
    Y = data.y
    if targets > 1:
        noise = np.random.default_rng(2).normal(size=(data.n, targets))
        Y = data.y[:, None] + data.y.std() * noise
    method = method_of(name, data)
    stops = np.sort(dense_grid(name, data.spectrum)[::60])
    model = fitted(method, data.X, Y, data.sample_weight, stops=stops)
    np.testing.assert_array_equal(model.stops_, stops)
    curve = st.leave_one_out(data.X, Y, method, stops, **data.options)
    pooled = curve.errors.reshape(len(stops), -1).mean(axis=1)
    np.testing.assert_allclose(model.errors_, pooled, rtol=SAME_ERROR)
    own = fitted(method, data.X, Y, data.sample_weight, stops=stops, per_target=True)
    np.testing.assert_allclose(own.errors_, curve.errors, rtol=SAME_ERROR)
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
        np.testing.assert_allclose(model.errors_[at], expected, rtol=1e-8)
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
    np.testing.assert_allclose(model.choice_.error, (expected**2).mean(axis=0), rtol=SAME_ERROR)


@pytest.mark.parametrize("method", ["auto", "nesterov-flow"])
def test_no_stop_occurs_nearly_twice(method, diabetes):
    model = fitted(method, *diabetes)
    stops = model.stops_[np.isfinite(model.stops_) & (model.stops_ > 0)]
    assert (np.diff(stops) > 0).all()
    # a search may come close to the chosen stop; pairs that are 1/(2n) apart are an artefact
    far = (stops < 0.8 * model.stop_) | (stops > 1.2 * model.stop_)
    gaps = np.diff(stops)[far[1:] & far[:-1]] / stops[1:][far[1:] & far[:-1]]
    assert gaps.min() > 1 / len(diabetes[1])


# ---------------------------------------------------------------- invariances

SEEDS = [1, 4, 7, 9, 12, 18]  # tall and wide, plain and other units
INVARIANT = ["auto", "ridge", "friction 3", "Nesterov"]


def few(name):
    """Return fewer problems for methods that oscillate, whose fits take a second."""
    return SEEDS[:2] if name in WAVES else SEEDS


def assert_same_choice(found, expected, *, time=1.0, power=1.0, stop=SAME_STOP, error=LEAST_ERROR):
    """Compare two fits; ``time`` and ``power`` are what stops and errors are multiplied by."""
    assert type(found.method_) is type(expected.method_)
    if isinstance(found.method_, st.AcceleratedFlow):
        assert found.method_ == expected.method_
    assert float(found.stop_) == pytest.approx(float(expected.stop_) * time, rel=stop)
    assert float(np.mean(found.choice_.error)) == pytest.approx(
        expected.choice_.error * power, rel=error
    )


def rows(data, order):
    return data.X[order], data.y[order]


def turned(X, rng):
    return X @ np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))[0]


CHANGES = {
    "rows permuted": lambda d, rng: rows(d, rng.permutation(d.n)),
    "columns permuted": lambda d, rng: (d.X[:, rng.permutation(d.X.shape[1])], d.y),
    "columns rotated": lambda d, rng: (turned(d.X, rng), d.y),
    "response shifted": lambda d, _: (d.X, d.y + 3 * d.y.std()),
    "columns shifted": lambda d, rng: (d.X + d.X.std() * rng.normal(size=d.X.shape[1]), d.y),
    "copies of the target": lambda d, _: (d.X, np.column_stack([d.y] * 5)),
    "many copies of the target": lambda d, _: (d.X, np.column_stack([d.y] * 20)),
}


@pytest.mark.parametrize("name", INVARIANT)
@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_matter_does_not_change_the_choice(change, name):
    for seed in few(name):
        data = problem(seed)
        X, y = CHANGES[change](data, np.random.default_rng(2))
        assert_same_choice(fitted(method_of(name, data), X, y), chosen(seed, name))


def time_of(model, scale):
    """Return what stops are multiplied by if X is: the unit of time is 1/L or 1/√L."""
    if isinstance(model.method_, st.Nesterov):
        return 1.0
    second_order = st.AcceleratedFlow | st.CriticalFlow | st.HeavyBallFlow
    return scale ** (-1 if isinstance(model.method_, second_order) else -2)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("name", INVARIANT)
def test_units_do_not_matter(name, scale):
    for seed in few(name):
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


TALL = [seed for seed in range(25) if problem(seed).n > problem(seed).X.shape[1] + 2][:3]


@pytest.mark.parametrize("name", ["auto", "Nesterov"])
def test_a_weight_of_two_is_the_row_twice_where_folds_keep_both(name):
    for seed in TALL:
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
    for seed in TALL:
        data = problem(seed)
        counts = np.random.default_rng(seed).integers(1, 4, data.n)
        twice = np.repeat(np.arange(data.n), counts)
        found = fitted("ridge", data.X, data.y, counts.astype(float))
        grouped = GroupKFold(data.n).split(data.X[twice], groups=twice)
        expected = fitted("ridge", data.X[twice], data.y[twice], cv=list(grouped))
        assert_same_choice(found, expected)


@pytest.mark.parametrize("name", ["auto", "accelerated-flow", "nesterov"])
@pytest.mark.parametrize("heavy", [30.0, 3000.0])
def test_errors_of_a_search_are_exact_beside_a_heavy_row(name, heavy):
    """A row of nearly all weight has a scale that is far from those of all others."""
    data = problem(5)
    weights = np.random.default_rng(5).uniform(0.2, 3, data.n)
    weights[0] *= heavy
    model = fitted(name, data.X, data.y, weights)
    stops = model.stops_[1::7]
    options = {"sample_weight": weights, "standard_errors": False}
    exact = st.leave_one_out(data.X, data.y, model.method_, stops, **options)
    np.testing.assert_allclose(model.errors_[1::7], exact.errors, rtol=1e-7)


@pytest.mark.parametrize("name", ["auto", "gradient-flow", "accelerated-flow", "nesterov"])
def test_stops_before_the_first_of_the_whole_data_are_searched(name):
    """With an intercept, a row of nearly all weight is the mean: without it all happens earlier."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] - X[:, 1] + rng.normal(size=60)
    weights = np.append(0.9999, np.full(59, 1e-4 / 59))
    model = fitted(name, X, y, weights)
    stops = np.geomspace(1e-2, 1e4, 800)
    if model.method_.whole_stops:
        stops = np.unique(np.round(stops[stops >= 1]))
    options = {"sample_weight": weights, "standard_errors": False}
    dense = st.leave_one_out(X, y, model.method_, stops[stops <= model.stops_[-1]], **options)
    assert model.choice_.error <= CLOSE * dense.errors.min()


def test_rows_of_weight_zero_are_no_rows():
    data = problem(0)
    weights = (np.arange(data.n) % 3 > 0).astype(float)
    found = fitted("auto", data.X, data.y, weights)
    expected = fitted("auto", data.X[weights > 0], data.y[weights > 0])
    assert_same_choice(found, expected, stop=1e-6, error=1e-9)


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
        errors = left_out_error(Case(data.X, Y), "ridge", grid)
        assert np.mean(both.choice_.error) <= CLOSE * errors.mean(axis=1).min()


@pytest.mark.parametrize("name", INVARIANT)
def test_single_precision_and_tensors_agree_to_their_digits(name):
    """Rounding of the data to 24 bits moves errors by 1e-6 or so, and a flat minimum by 1e-3."""
    for seed in few(name):
        data = problem(seed)
        X, y = data.X.astype(np.float32), data.y.astype(np.float32)
        method = method_of(name, data)
        single = fitted(method, X, y)
        if data.spectrum.rank > 1:
            double = fitted(method, X.astype(float), y.astype(float))
            assert_same_choice(single, double, stop=1e-3, error=1e-5)
            size = np.abs(double.coef_).max()
            np.testing.assert_allclose(single.coef_, double.coef_, rtol=0, atol=1e-3 * size)
        torch = pytest.importorskip("torch")
        found = fitted(method, torch.from_numpy(data.X), torch.from_numpy(data.y))
        assert_same_choice(found, chosen(seed, name))
        found = fitted(method, torch.from_numpy(X), torch.from_numpy(y))
        assert np.asarray(found.coef_).dtype == np.float32
        assert_same_choice(found, single, stop=1e-3, error=1e-5)


# ---------------------------------------------------------------- columns that are hard to fit


def far_from_zero(seed):
    """Return a few rows whose means are far larger than their spread."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 4, 5]))
    p = int(rng.integers(1, 6))
    ratio = 10.0 ** rng.uniform(1, 7)
    X = rng.normal(size=(n, p)) + ratio * rng.normal(size=p) * (rng.random(p) < 0.7)
    return X, rng.normal(size=n)


@pytest.mark.parametrize("seed", [5467, 5732, 250])
def test_few_rows_far_from_zero_keep_their_digits(seed):
    """Centring loses eps times mean over spread, and the fit multiplies it by its condition."""
    X, y = far_from_zero(seed)
    condition = 1.0
    for kept, _ in one_by_one(len(X)):
        values = np.linalg.svd(X[kept] - X[kept].mean(axis=0), compute_uv=False)
        rank = min(len(X) - 2, X.shape[1])
        condition = max(condition, values[0] / values[rank - 1])
    lost = np.finfo(float).eps * np.abs(X).max() / X.std(axis=0).min() * condition
    expected = residuals_of(y, refit(X, y, st.Ridge(), np.array([np.inf])))[0, :, 0]
    found = st.left_out_residuals(X, y, "ridge", np.inf)
    assert np.abs(found - expected).max() <= 3 * lost * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n", [100, 500, 2000])
def test_columns_that_determine_the_response_are_named_and_ridge_is_chosen(n):
    for seed in range(3):
        X = np.random.default_rng([43, seed]).normal(size=(n, 6))
        y = (X[:, 0] > 0).astype(float)
        X = np.column_stack([X, y])
        model = st.StoppedRegressorCV().fit(X, y)
        assert model.method_ == st.Ridge()
        np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
        assert "determine" in model.choice_.message


@pytest.mark.parametrize("ratio", [1e7, 1e8, 1e10])
def test_columns_of_very_different_spread_are_fitted_or_named(ratio):
    for seed in range(3):
        rng = np.random.default_rng([41, seed])
        large = ratio * 0.01 * (5 + rng.normal(size=200))
        small = 0.05 + 0.01 * rng.normal(size=200)
        y = small + 0.1 * small.std() * rng.normal(size=200)
        X = np.column_stack([large, small])
        try:
            model = st.StoppedRegressorCV().fit(X, y)
        except UserWarning as warning:  # warnings are errors here
            assert "column" in str(warning)  # noqa: PT017 - naming a column is as good as a fit
            continue
        assert model.score(X, y) > 0.9, f"draw {seed}"


@pytest.mark.parametrize("ratio", [1e14, 1e18])
def test_a_column_that_is_lost_beside_a_large_one_is_named(ratio, rng):
    frame = pd.DataFrame({"time": ratio * rng.normal(size=200), "x": rng.normal(size=200)})
    response = frame["x"] + 0.3 * rng.normal(size=200)
    with pytest.warns(st.StopWarning, match="Column 1 of X is too small .* rescale the columns"):
        st.StoppedRegressorCV().fit(frame, response)
    scaled = st.StoppedRegressorCV(penalty_matrix="standardise").fit(frame, response)
    assert scaled.score(frame, response) > 0.8
