"""Leave-one-out is n refits: for every kind of data, every method with a filter, every option.

The number of combinations is kept small: every case meets every method, and the intercept, the
number of targets and the penalties take turns, so that they meet every case and every method too.
"""

from importlib.util import find_spec
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, rbf_kernel

import stoptime as st
from contract import (
    CASES,
    FIRST_ORDER,
    ITERATIONS,
    METHODS,
    SECOND_ORDER,
    Case,
    case,
    errors_of,
    falling,
    made,
    names_of_family,
    refit,
    refit_kernel,
    residuals_of,
    response,
    stops_for,
    unit_of_time,
)

NAMES = list(METHODS)
# The bound of a public promise. Rounding alone gives 1e-12: the condition numbers of X'X are below
# 1e5 but for one case, and the factorisation has errors of eps times the condition number of X.
ERRORS = 1e-8  # relative, or of 1e-10 times the power of the response, whichever is larger
RESIDUALS = 1e-9  # of the response's size
SINGLE = 4 * np.finfo(np.float32).eps  # residuals and predictions of float32 data are float32


def turn(*names):
    """Return a number that differs between combinations and is the same in every run."""
    places = [(CASES if name in CASES else NAMES).index(name) for name in names]
    return int(np.dot(places, [7, 5, 3][: len(places)]))


def assert_errors(found, expected, power, tolerance=ERRORS):
    """Compare errors of shape (n_stops,) or (n_stops, n_targets)."""
    expected = expected.reshape(np.shape(found))
    allowed = tolerance * np.maximum(expected, 1e-10 * power)
    np.testing.assert_array_less(np.abs(found - expected), allowed)


def assert_values(found, expected, size, tolerance=RESIDUALS):
    """Compare residuals or predictions, one target or several.

    Where predictions without a row are larger than the response, as at interpolation, rounding is
    a share of them.
    """
    expected = np.reshape(expected, np.shape(found))
    largest = max(size, np.abs(expected).max())
    assert np.abs(found - expected).max() <= tolerance * largest


def by_refits(data, method, stops, **more):
    return refit(data.X, data.y, method, stops, **data.options, **more)


def check(data, method, stops):
    """Compare errors and residuals, and residuals at a stop for each target, with refits."""
    predictions = by_refits(data, method, stops)
    residuals = residuals_of(data.y, predictions)
    curve = st.leave_one_out(data.X, data.y, method, stops, **data.options)
    np.testing.assert_array_equal(curve.stops, stops)
    assert curve.errors.shape == (len(stops), *data.y.shape[1:])
    assert_errors(curve.errors, errors_of(residuals, data.sample_weight), data.power)
    for stop, expected in zip(stops, residuals, strict=True):
        found = st.left_out_residuals(data.X, data.y, method, stop, **data.options)
        assert found.shape == data.y.shape
        assert_values(found, expected, data.size)
    if data.y.ndim > 1:
        own = np.resize(stops, data.y.shape[1])
        found = st.left_out_residuals(data.X, data.y, method, own, **data.options)
        expected = [residuals[k % len(stops), :, k] for k in range(len(own))]
        assert_values(found, np.transpose(expected), data.size)


# What shares a mechanism with another method need not meet every case.
EVERY_THIRD = [
    "six times iterated ridge", "averaged gradient flow", "friction 5", "high-resolution flow",
    "undamped heavy-ball flow", "overdamped heavy-ball flow", "high-resolution friction 3",
]  # fmt: skip
EVERY_FOURTH = list(ITERATIONS)[2:]


def meet(kind, name):
    place = CASES.index(kind) + NAMES.index(name)
    return place % (4 if name in EVERY_FOURTH else 3 if name in EVERY_THIRD else 1) == 0


COMBINATIONS = [(kind, name) for kind, name in product(CASES, NAMES) if meet(kind, name)]


@pytest.mark.parametrize(("kind", "name"), COMBINATIONS)
def test_errors_and_residuals_are_those_of_refits(kind, name):
    number = turn(kind, name)
    data = case(kind, *([3] if number % 2 else []))
    # without an intercept, far means are one direction that hides all others
    data = data.given(fit_intercept=number % 3 > 0 or kind == "far means")
    L = data.largest
    method = made(name, L)
    stops = stops_for(name, L)
    singular = data.spectrum.rank < data.X.shape[1]
    if method == st.HeavyBallFlow() and singular:
        with pytest.raises(ValueError, match="critical"):
            st.leave_one_out(data.X, data.y, method, stops, **data.options)
        return
    check(data, method, stops)


@pytest.mark.parametrize("kind", CASES)
def test_new_rows_are_predicted_as_by_refits(kind):
    rng = np.random.default_rng(5)
    for name in [NAMES[(turn(kind) + 6 * k) % len(NAMES)] for k in range(6)]:
        number = turn(kind, name)
        data = case(kind, *([2] if number % 2 else []))
        data = data.given(fit_intercept=number % 3 > 0 or kind == "far means")
        L = data.largest
        method = made(name, L)
        if method == st.HeavyBallFlow():
            method = st.HeavyBallFlow(damping=0.1 * np.sqrt(L))
        stops = stops_for(name, L)
        new = data.X.mean(axis=0) + data.X.std() * rng.normal(size=(4, data.X.shape[1]))
        expected = by_refits(data, method, stops, new=new)
        for place in (1, 3, len(stops) - 1):
            given = data.options | {"new": new}
            found = st.left_out_predictions(data.X, data.y, method, stops[place], **given)
            assert found.shape == (data.n, 4, *data.y.shape[1:])
            shift = data.y.mean()  # sizes are about the mean
            assert_values(found - shift, expected[place] - shift, data.size)
        own = st.left_out_predictions(data.X, data.y, method, stops[2], **data.options)
        assert_values(own, by_refits(data, method, stops[2:3])[0], np.abs(data.y).max())
        if data.y.ndim > 1:
            given = data.options | {"new": new}
            found = st.left_out_predictions(data.X, data.y, method, stops[[3, 2]], **given)
            both = np.stack([expected[3, ..., 0], expected[2, ..., 1]], axis=-1)
            assert_values(found - data.y.mean(), both - data.y.mean(), data.size)


# ---------------------------------------------------------------- larger data


def larger(n, p, *targets, power=1.0, seed=0):
    """Return data with more rows, stops or targets than one block of any algorithm has."""
    rng = np.random.default_rng([17, seed])
    X = falling(rng, n, p, power)
    weights = rng.gamma(2.0, size=n)
    return Case(X, response(X, rng, *targets), {"sample_weight": weights})


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weights"])
@pytest.mark.parametrize("name", [*names_of_family(), "Nesterov", "heavy-ball flow"])
def test_many_rows_and_a_grid_of_stops(name, weighted):
    data = larger(150, 12)
    data = data if weighted else data.given(sample_weight=None)
    method = made(name, data.largest)
    stops = np.geomspace(1e-2, 1e4 if name in FIRST_ORDER else 300.0, 60)
    stops = np.unique(np.round(stops)) if name in ITERATIONS else stops
    residuals = residuals_of(data.y, by_refits(data, method, stops))
    curve = st.leave_one_out(data.X, data.y, method, stops, **data.options)
    assert_errors(curve.errors, errors_of(residuals, data.sample_weight), data.power)


MANY = [
    *product(["ridge", "gradient flow", "friction 3", "Nesterov"], [4, 16, 40]),
    ("friction 3", 1100),  # blocks have 1024
]


@pytest.mark.parametrize(("name", "targets"), MANY)
def test_any_number_of_targets(name, targets):
    data = larger(30, 6, targets, seed=1)
    data = Case(data.X, data.y * np.geomspace(1e-3, 1e3, targets), data.options)
    method = made(name, data.largest)
    stops = stops_for(name, data.largest)
    residuals = residuals_of(data.y, by_refits(data, method, stops))
    curve = st.leave_one_out(data.X, data.y, method, stops, **data.options)
    # every target keeps its own digits
    assert_errors(curve.errors, errors_of(residuals, data.sample_weight), np.var(data.y, axis=0))
    own = np.resize(stops, targets)
    found = st.left_out_residuals(data.X, data.y, method, own, **data.options)
    for target in range(targets):
        expected = residuals[target % len(stops), :, target]
        assert_values(found[:, target], expected, np.abs(data.y[:, target]).max())


LATE = [
    "friction 3", "friction 9", "undamped heavy-ball flow", "overdamped heavy-ball flow",
    "gradient flow", "Nesterov",
]  # fmt: skip


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("shape", [(20, 8), (12, 20)], ids=["tall", "wide"])
def test_late_stops_of_ill_conditioned_data(name, shape):
    n, p = shape
    rng = np.random.default_rng(23)
    X = falling(rng, n, min(n - 1, p), 6.0)
    X = X @ np.linalg.qr(rng.normal(size=(p, X.shape[1])))[0].T
    data = Case(X, response(X, rng), {"sample_weight": None})
    method = made(name, data.largest)
    stops = np.array([1e4, 1e6]) if name in FIRST_ORDER else np.array([300.0, 1500.0])
    check(data, method, stops)


@pytest.mark.parametrize("name", ["ridge", "gradient flow", "friction 3", "critical flow"])
@pytest.mark.parametrize("shape", [(24, 6), (14, 25)], ids=["tall", "wide"])
def test_early_stops_do_not_notice_directions_below_rounding(name, shape):
    rng = np.random.default_rng(11)
    X = rng.normal(size=shape) * np.geomspace(1, 1e-9, shape[1])
    data = Case(X, rng.normal(size=shape[0]), {"sample_weight": None})
    stops = np.array([0.1, 1.0, 30.0]) * unit_of_time(name, data.largest)
    check(data, made(name, data.largest), stops)


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-7])
def test_a_leverage_that_cannot_be_told_from_one(size):
    """One row alone has a column of this size: without it the column is zero."""
    rng = np.random.default_rng(13)
    X = np.column_stack([rng.normal(size=(24, 5)), size * (np.arange(24) == 4)])
    data = Case(X, rng.normal(size=24), {"sample_weight": None})
    check(data, st.Ridge(), np.array([1.0, np.inf]))


@pytest.mark.parametrize("name", ["ridge", "friction 3", "Nesterov"])
def test_a_constant_response_leaves_nothing_over(name):
    data = case("tall")
    method = made(name, data.largest)
    curve = st.leave_one_out(data.X, np.full(data.n, 3.0), method, [0.0, 1.0, 7.0, np.inf])
    assert np.abs(curve.errors).max() <= (10 * np.finfo(float).eps * 3.0) ** 2


@pytest.mark.parametrize("name", [*FIRST_ORDER, *SECOND_ORDER])
def test_the_ends_of_the_path(name):
    data = case("tall")
    method = made(name, data.largest)
    stops = unit_of_time(name, data.largest) * np.array([0, 1e-150, 1e-9, 1e12, 1e150, np.inf])
    errors = st.leave_one_out(data.X, data.y, method, stops).errors
    # at 1e-9 at most 1e-9 of the response is learned
    np.testing.assert_allclose(errors[1:3], errors[0], rtol=1e-8)
    np.testing.assert_allclose(errors[4], errors[5], rtol=1e-8)
    if method in st.FAMILY:
        # t^(-r/2) remains to be learned with friction r: at most 1e-18
        np.testing.assert_allclose(errors[3], errors[5], rtol=1e-8)


@pytest.mark.parametrize("kind", ["tall", "wide", "lonely column"])
@pytest.mark.parametrize("name", [*FIRST_ORDER, *SECOND_ORDER])
def test_the_scale_of_the_columns_is_a_scale_of_time(name, kind):
    data = case(kind)
    method = made(name, data.largest)
    if method == st.HeavyBallFlow():
        method = st.HeavyBallFlow(damping=0.1 * np.sqrt(data.largest))
    stops = np.array([0.0, 0.1, 3.0, 50.0, 1e5, np.inf])
    expected = st.leave_one_out(data.X, data.y, method, stops).errors
    for scale in (2.0**-300, 2.0**300):
        scaled = method.in_units_of(scale**-2)
        at = stops / scale ** (3 - method.time_power)
        found = st.leave_one_out(scale * data.X, data.y, scaled, at).errors
        np.testing.assert_allclose(found, expected, rtol=1e-9)


# ---------------------------------------------------------------- penalties


def penalties(p):
    """Return penalties, with and without directions that are never shrunk."""
    rng = np.random.default_rng(3)
    return {
        "first differences": st.Differences(1),
        "second differences": st.Differences(2),
        "periodic differences": st.Differences(1, boundary="periodic"),
        "a full array": rng.normal(size=(p, p)) + 2 * np.eye(p),
        "more rows than columns": rng.normal(size=(2 * p, p)),
        "two free columns": np.eye(p)[2:],
        "a sparse array": sparse.csr_array(np.diag(np.linspace(0.5, 3.0, p))),
        "bands": st.Bands(np.arange(p) % 2, [0.5, 3.0]),
    }


PENALTIES = list(penalties(4))
PENALISED = [
    "ridge", "gradient flow", "critical flow", "friction 3", "friction 9", "heavy-ball flow",
    "iterated ridge", "gradient descent", "Nesterov", "nu-method", "averaged gradient descent",
    "decayed gradient descent", "spectral cutoff", "cosine schedule",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["tall", "wide", "a zero weight", "one heavy row"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalties_are_those_of_refits(penalty, kind):
    first = 3 * PENALTIES.index(penalty) + CASES.index(kind)
    for k in range(2):
        name = PENALISED[(first + 4 * k) % len(PENALISED)]
        data = case(kind, *([2] if k % 2 else []))
        L = penalties(data.X.shape[1])[penalty]
        data = data.given(penalty_matrix=L, fit_intercept=k == 0)
        largest = data.largest
        method = made(name, largest)
        stops = stops_for(name, largest)
        check(data, method, stops)
        new = data.X[:3] + 0.5
        expected = by_refits(data, method, stops[[2]], new=new)[0]
        given = data.options | {"new": new}
        found = st.left_out_predictions(data.X, data.y, method, stops[2], **given)
        assert_values(found, expected, np.abs(data.y).max())


def test_standardised_columns_keep_the_scales_of_all_rows():
    data = case("weights")
    X = data.X * np.array([1e-2, 1.0, 1e2, 3.0, 1e3])
    mean = np.average(X, axis=0, weights=data.sample_weight)
    scales = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=data.sample_weight))
    data = Case(X, data.y, data.options | {"penalty_matrix": np.diag(scales)})
    stops = np.array([0.0, 0.1, 3.0, 100.0, np.inf])
    residuals = residuals_of(data.y, by_refits(data, st.AcceleratedFlow(), stops))
    given = data.options | {"penalty_matrix": "standardise"}
    curve = st.leave_one_out(X, data.y, st.AcceleratedFlow(), stops, **given)
    assert_errors(curve.errors, errors_of(residuals, data.sample_weight), data.power)


# ---------------------------------------------------------------- containers


def strided(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
    wide[::2, ::3] = X
    return wide[::2, ::3]


CONTAINERS = {
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "list": np.ndarray.tolist,
    "DataFrame": lambda X: pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "float32": lambda X: X.astype(np.float32),
}
if find_spec("torch"):
    import torch

    CONTAINERS |= {
        "torch": lambda X: torch.from_numpy(np.ascontiguousarray(X)),
        "torch float32": lambda X: torch.from_numpy(X.astype(np.float32)),
    }


def in_container(container, X, y):
    """Return X and y as the container has them, and the numbers that it holds."""
    held = CONTAINERS[container](X)
    if "float32" in container:
        single = y.astype(np.float32)
        known = X.astype(np.float32).astype(float), single.astype(float)
        return held, torch.from_numpy(single) if "torch" in container else single, *known
    target = {"DataFrame": pd.DataFrame if y.ndim > 1 else pd.Series, "list": np.ndarray.tolist}
    if container == "torch":
        return held, torch.from_numpy(y), X, y
    return held, target.get(container, np.asarray)(y), X, y


@pytest.mark.parametrize("kind", ["tall", "wide", "weights", "one heavy row", "far means"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_refits_of_its_numbers(container, kind):
    first = list(CONTAINERS).index(container) + 3 * CASES.index(kind)
    for k in range(2):
        name = PENALISED[(first + 5 * k) % len(PENALISED)]
        data = case(kind, *([2] if k == 1 else []))
        X, y, *numbers = in_container(container, data.X, data.y)
        data = Case(*numbers, data.options)
        L = data.largest
        method = made(name, L)
        stops = stops_for(name, L)
        residuals = residuals_of(data.y, by_refits(data, method, stops))
        curve = st.leave_one_out(X, y, method, stops, **data.options)
        # float32 rows are worked on in double precision
        assert_errors(curve.errors, errors_of(residuals, data.sample_weight), data.power)
        rounding = SINGLE if "float32" in container else RESIDUALS
        found = st.left_out_residuals(X, y, method, stops[2], **data.options)
        assert_values(np.asarray(found, float), residuals[2], data.size, rounding)
        assert str(getattr(found, "dtype", "")).endswith(
            "float32" if "float32" in container else "64"
        )
        new = in_container(container, data.X[:3], data.y)[0]
        given = data.options | {"new": new}
        found = st.left_out_predictions(X, y, method, stops[2], **given)
        expected = by_refits(data, method, stops[[2]], new=data.X[:3])[0]
        assert_values(np.asarray(found, float), expected, np.abs(data.y).max(), rounding)


# ---------------------------------------------------------------- kernels


def own_kernel(a, b):
    """A kernel that no library knows."""
    return (1.0 + a @ b) ** 2 / (2.0 + a @ a + b @ b)


def matrix(function, X):
    return np.array([[function(a, b) for b in X] for a in X])


KERNELS = {
    "rbf": (lambda X: rbf_kernel(X, gamma=0.3), {"gamma": 0.3}),
    "laplacian": (lambda X: laplacian_kernel(X, gamma=0.3), {"gamma": 0.3}),
    "linear": (linear_kernel, {}),
    "precomputed": (lambda X: rbf_kernel(X, gamma=0.1), {}),
    "a function": (lambda X: matrix(own_kernel, X), {}),
}
OF_KERNELS = [
    "ridge", "gradient flow", "friction 3", "critical flow", "friction 9", "Nesterov",
    "gradient descent", "iterated ridge", "spectral cutoff",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["tall", "weights, wide", "a zero weight", "duplicate rows"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_those_of_refits(kernel, kind):
    first = list(KERNELS).index(kernel) + 2 * CASES.index(kind)
    for k in range(3):
        name = OF_KERNELS[(first + 3 * k) % len(OF_KERNELS)]
        data = case(kind, *([2] if k == 1 else []))
        K = KERNELS[kernel][0](data.X)
        intercept = k != 2
        weights = data.sample_weight
        L = float(st.decompose_kernel(K, data.y, weights, intercept).eigenvalues[-1])
        method = made(name, L)
        # the last stops are left out: a kernel matrix has eigenvalues down to rounding
        stops = stops_for(name, L)[:4]
        given = {"sample_weight": weights, "fit_intercept": intercept}
        residuals = residuals_of(data.y, refit_kernel(K, data.y, method, stops, **given))
        named = own_kernel if kernel == "a function" else kernel
        model = st.StoppedKernelRegressorCV(
            method, stops=stops, kernel=named, fit_intercept=intercept, **KERNELS[kernel][1]
        )
        model.fit(K if kernel == "precomputed" else data.X, data.y, weights)
        np.testing.assert_array_equal(model.stops_, stops)
        errors = errors_of(residuals, weights)
        mean = errors.mean(axis=1)
        assert model.stop_ == stops[np.argmin(mean)]
        expected = mean if model.errors_.ndim == 1 else errors
        assert_errors(model.errors_, expected, data.power)
        place = int(np.flatnonzero(stops == model.stop_)[0])
        assert_values(model.left_out_residuals_, residuals[place], data.size)


# ---------------------------------------------------------------- standard errors, a spectrum


@pytest.mark.parametrize("kind", ["tall", "wide", "weights", "a zero weight"])
@pytest.mark.parametrize("name", ["ridge", "friction 3", "Nesterov"])
def test_standard_errors_are_those_of_a_weighted_mean(kind, name):
    data = case(kind, 2)
    L = data.largest
    method = made(name, L)
    stops = stops_for(name, L)
    squares = residuals_of(data.y, by_refits(data, method, stops)) ** 2
    weights = np.ones(data.n) if data.sample_weight is None else data.sample_weight
    n = (weights > 0).sum()
    deviations = (squares - errors_of(np.sqrt(squares), weights)[:, None]) * weights[:, None]
    expected = np.sqrt((deviations**2).sum(axis=1) * n / (n - 1)) / weights.sum()
    curve = st.leave_one_out(data.X, data.y, method, stops, standard_errors=True, **data.options)
    # twice the relative error of the squares
    np.testing.assert_allclose(curve.standard_errors, expected, rtol=1e-7)


@pytest.mark.parametrize("solver", ["gram", "svd"])
def test_a_spectrum_of_the_same_data_is_used(solver):
    data = case("weights")
    L = data.largest
    spectrum = st.decompose(data.X, data.y, solver=solver, **data.options)
    for name in ("gradient flow", "friction 5", "heavy ball"):
        method = made(name, L)
        stops = stops_for(name, L)
        expected = errors_of(
            residuals_of(data.y, by_refits(data, method, stops)), data.sample_weight
        )
        given = data.options | {"spectrum": spectrum}
        curve = st.leave_one_out(data.X, data.y, method, stops, **given)
        assert_errors(curve.errors, expected, data.power)


def test_every_method_of_the_family_is_held_here():
    assert len(names_of_family()) == len(st.FAMILY)
