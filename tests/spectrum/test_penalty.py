"""Penalty matrices against dense solves, refits and Fourier series, for data of every kind."""

import pickle
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from scipy import fft, integrate, sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.preprocessing import SplineTransformer

import stoptime as st
from stoptime.spectrum.penalty import Solves, bands_of

N = 30
P = 9
PLAIN = [st.get_method(name) for name in (*st.METHODS, *st.ITERATIONS)]
PENALTIES = {
    "differences": st.Differences(2),
    "first differences": st.Differences(1),
    "periodic": st.Differences(1, boundary="periodic"),
    "zero": st.Differences(3, boundary="zero"),
    "image": st.Differences(1, (3, 3)),
    "sparse": sparse.random_array((P, P), density=0.5, rng=np.random.default_rng(4)).tocsr(),
    "wide": np.random.default_rng(2).normal(size=(4, P)),
    "tall": np.random.default_rng(3).normal(size=(2 * P, P)),
    "bands": st.Bands([0] * 4 + [1] * 5, [0.3, 2.0]),
    "free columns": np.diag([0, 0, *np.linspace(0.5, 3, P - 2)]),
    "standardise": "standardise",
}


def data(n=N, p=P, *, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.geomspace(0.5, 2, p) + rng.normal(size=p)
    y = X @ rng.normal(size=(p, targets)) + rng.normal(size=(n, targets)) + 5
    return X, y, rng.uniform(0.5, 2, n)


def matrix_of(penalty, X, shares, *, centre=True):
    """Return L as an array, by hand."""
    if isinstance(penalty, str):
        return np.diag(np.sqrt(shares @ (X - centre * (shares @ X)) ** 2))
    if isinstance(penalty, st.Differences):
        return penalty.matrix(X.shape[1]).toarray()
    if isinstance(penalty, st.Bands):
        return np.diag(1 / np.repeat(penalty.scales, [4, 5]))
    return penalty.toarray() if sparse.issparse(penalty) else penalty


def by_solve(X, y, shares, L, stop, *, centre=True):
    """Return coefficients and intercept of ridge by one dense solve of the normal equations."""
    design = np.column_stack([np.ones(len(X)), X]) if centre else X
    ridge = np.zeros((design.shape[1],) * 2)
    ridge[int(centre) :, int(centre) :] = L.T @ L / stop
    gram = design.T @ (shares[:, None] * design) + ridge
    solved = np.linalg.solve(gram, design.T @ (shares[:, None] * y))
    return (solved[1:], solved[0]) if centre else (solved, 0 * solved[0])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", PENALTIES)
def test_ridge_is_the_dense_solve(kind, intercept):
    X, y, weights = data()
    shares = weights / weights.sum()
    L = matrix_of(PENALTIES[kind], X, shares, centre=intercept)
    for stop in (0.1, 10.0):
        coef, constant = by_solve(X, y, shares, L, stop, centre=intercept)
        options = {"sample_weight": weights, "fit_intercept": intercept}
        path = st.path(X, y, "ridge", [stop], penalty_matrix=PENALTIES[kind], **options)
        np.testing.assert_allclose(path.coef[0], coef, rtol=0, atol=1e-11)
        np.testing.assert_allclose(path.intercept[0], constant, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["differences", "wide", "free columns"])
def test_gradient_flow_is_the_differential_equation_in_its_geometry(kind):
    X, y, _ = data(targets=1)
    L = matrix_of(PENALTIES[kind], X, None)
    null = np.linalg.svd(L)[2][np.linalg.matrix_rank(L) :].T
    X = X - X.mean(axis=0)
    y = y[:, 0] - y.mean()
    off = np.eye(N) - X @ null @ np.linalg.pinv(X @ null)
    A = off @ X @ np.linalg.pinv(L)

    def motion(_, gamma):
        return A.T @ (y - A @ gamma) / N

    solved = integrate.solve_ivp(motion, (0, 0.7), np.zeros(len(L)), rtol=1e-11, atol=1e-12)
    inner = np.linalg.pinv(L) @ solved.y[:, -1]
    coef = inner + null @ np.linalg.lstsq(X @ null, y - X @ inner, rcond=None)[0]
    path = st.path(X, y, "gradient-flow", [0.7], penalty_matrix=PENALTIES[kind])
    np.testing.assert_allclose(path.coef[0], coef, atol=1e-9)


@pytest.mark.parametrize("method", PLAIN, ids=str)
def test_every_method_is_ordinary_in_standard_form(method):
    """With an invertible L, X and β become XL⁻¹ and Lβ."""
    X, y, weights = data()
    L = np.random.default_rng(3).normal(size=(P, P))
    stops = [2, 7]
    there = st.path(X @ np.linalg.inv(L), y, method, stops, sample_weight=weights)
    here = st.path(X, y, method, stops, sample_weight=weights, penalty_matrix=L)
    coef = np.linalg.solve(L, there.coef)
    np.testing.assert_allclose(here.coef, coef, atol=1e-10 * np.abs(coef).max())
    if isinstance(method, st.Filter):  # rounding grows in the trace of conjugate gradients
        np.testing.assert_allclose(here.degrees_of_freedom, there.degrees_of_freedom, rtol=1e-9)


def test_unshrunk_directions_are_counted_and_fitted_at_every_stop():
    X, y, _ = data()
    spectrum = st.decompose(X, y, penalty_matrix=st.Differences(2))
    assert spectrum.n_unpenalised == 3
    assert len(spectrum.padded_eigenvalues) == P - 2
    line = np.column_stack([np.ones(N), X.sum(axis=1), X @ np.arange(P)])
    fit = line @ np.linalg.lstsq(line, y, rcond=None)[0]
    path = st.path(spectrum, "nesterov-flow", [0.0, np.inf])
    np.testing.assert_allclose(path.predict(X)[0], fit, atol=1e-10)
    np.testing.assert_allclose(path.degrees_of_freedom, [3, P + 1])
    whole = st.path(X, y, "nesterov-flow", [np.inf])
    np.testing.assert_allclose(path.coef[1], whole.coef[0], atol=1e-9)


def test_degrees_of_freedom_are_the_trace_of_the_map_to_the_fit():
    X, _, _ = data()
    path = st.path(X, np.eye(N), "nesterov-flow", [1.5], penalty_matrix=st.Differences(2))
    np.testing.assert_allclose(path.degrees_of_freedom[0], np.trace(path.predict(X)[0]))


def test_folds_keep_the_penalty_and_fit_unshrunk_directions_anew():
    X, y, _ = data(40)
    y += 10 * X.sum(axis=1, keepdims=True)
    options = {"penalty_matrix": st.Differences(2), "stops": [0.3, 3.0], "per_target": True}
    model = st.StoppedRegressorCV("ridge", cv=4, **options).fit(X, y)
    errors = np.zeros((2, 2))
    for k in range(4):
        test = np.arange(10 * k, 10 * k + 10)
        train = np.setdiff1d(np.arange(40), test)
        L = options["penalty_matrix"].matrix(P).toarray()
        for i, stop in enumerate(options["stops"]):
            coef, constant = by_solve(X[train], y[train], np.full(30, 1 / 30), L, stop)
            errors[i] += ((y[test] - X[test] @ coef - constant) ** 2).sum(axis=0) / 40
    np.testing.assert_allclose(model.errors_, errors, rtol=1e-8)


def test_a_column_of_zero_scale_is_dropped_and_an_infinite_scale_is_not_shrunk():
    X, y, _ = data(targets=1)
    y = y[:, 0]
    bands = st.Bands({"out": [0], "in": slice(1, 7), "free": [7, 8]}, [0.0, 1.0, np.inf])
    path = st.path(X, y, "ridge", [0.5], penalty_matrix=bands)
    assert path.coef[0, 0] == 0
    same = st.path(X[:, 1:], y, "ridge", [0.5], penalty_matrix=np.eye(8)[:6])
    np.testing.assert_allclose(path.coef[0, 1:], same.coef[0], rtol=1e-9)


@pytest.mark.parametrize("boundary", ["free", "periodic", "zero"])
@pytest.mark.parametrize("shape", [7, (4, 5), (3, 4, 3)])
@pytest.mark.parametrize("order", [1, 2])
def test_differences_in_one_to_three_dimensions(order, shape, boundary):
    penalty = st.Differences(order, shape, boundary)
    beta = np.random.default_rng(0).normal(size=shape)
    total = 0.0
    for axis in range(beta.ndim):
        widths = [(order * (axis == one),) * 2 for one in range(beta.ndim)]
        padded = {
            "free": beta,
            "zero": np.pad(beta, widths),
            "periodic": np.pad(beta, [(0, high) for _, high in widths], mode="wrap"),
        }[boundary]
        total += np.sum(np.diff(padded, order, axis=axis) ** 2)
    L = penalty.matrix()
    np.testing.assert_allclose(np.sum((L @ beta.ravel()) ** 2), total)
    form = penalty.standard_form(beta.size)
    expected = {"free": order**beta.ndim, "periodic": 1, "zero": 0}[boundary]
    assert form.null.shape[1] == expected
    assert np.abs(L @ form.null).max(initial=0) < 1e-12
    image = L @ form.inverse.matrix
    np.testing.assert_allclose(image.T @ image, np.eye(form.inverse.rank), atol=1e-11)
    np.testing.assert_allclose(form.null.T @ form.inverse.matrix, 0, atol=1e-11)


def test_groups_can_be_given_in_several_ways():
    names = ["age", "sex", "bmi"]
    for groups in ("aab", [[0, 1], [2]], {"x": slice(0, 2), "y": -1}, [["age", "sex"], ["bmi"]]):
        bands, member = bands_of(groups, 3, names)
        assert len(bands) == 2
        assert member.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="exactly one band"):
        bands_of([[0, 1], [1, 2]], 3)
    with pytest.raises(ValueError, match="no columns of the names"):
        bands_of({"x": ["age", "height"]}, 3, names)
    with pytest.raises(ValueError, match="but X has 3 columns"):
        bands_of([[0, 1, 2, 3]], 3)
    with pytest.raises(ValueError, match="4 labels"):
        bands_of([0, 1, 2, 3], 3)


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (np.ones((2, 3)), "one column for each of the 9 columns"),
        (np.zeros((2, P)), "penalises nothing"),
        (np.full((2, P), np.nan), "NaN or infinity"),
        (np.full((2, P), 1j), "real numbers"),
        ("normalise", "standardise"),
        (st.Differences(2, (2, 5)), "for 10 columns"),
        (st.Differences(9), "more than 9 coefficients"),
        (st.Bands([0] * P, [-1.0]), "non-negative"),
        (st.Bands([0] * P, [1.0, 2.0]), "one entry for each band"),
        (st.Bands([0] * P, {1: 1.0}), "no entry for the bands"),
    ],
)
def test_bad_penalties_are_refused(penalty, message):
    X, y, _ = data()
    with pytest.raises(ValueError, match=message):
        st.path(X, y, "ridge", [1.0], penalty_matrix=penalty)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "order must be a whole number of at least 1"),
        ((1, 5, "open"), "boundary"),
        ((1, (2, 2, 2, 2)), "one to three"),
    ],
)
def test_bad_differences_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        st.Differences(*arguments)


def test_undetermined_directions_are_refused():
    X, y, _ = data()
    flat = X - X.mean(axis=1, keepdims=True)  # X has no influence on a constant
    for intercept in (True, False):
        with pytest.raises(ValueError, match="no influence"):
            st.path(
                flat, y, "ridge", [1.0], penalty_matrix=st.Differences(1), fit_intercept=intercept
            )
    few = np.eye(P)[5:]  # five columns are free, but three rows determine only two of them
    for rows in (X[:3], aslinearoperator(X[:3]), da.from_array(X[:3])):
        with pytest.raises(ValueError, match="3 direction"):
            st.decompose(rows, y[:3], penalty_matrix=few)
    lonely = X * np.where(np.arange(P) == 0, np.arange(N)[:, None] == 4, 1.0)
    free = np.eye(P)[1:]
    assert st.path(lonely, y, "ridge", [1.0], penalty_matrix=free).coef.shape == (1, P, 2)
    with pytest.raises(ValueError, match="Without row 4"):
        st.leave_one_out(lonely, y, "ridge", [1.0], penalty_matrix=free)


def test_a_spectrum_without_the_penalty_is_refused():
    X, y, _ = data()
    spectrum = st.decompose(X, y)
    with pytest.raises(ValueError, match="without penalty_matrix"):
        st.leave_one_out(X, y, "ridge", [1.0], penalty_matrix=np.eye(P), spectrum=spectrum)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["differences", "bands", "free columns", "standardise"])
def test_bad_entries_of_x_are_refused(kind, value):
    X, y, _ = data()
    X[3, 0] = value
    for intercept in (True, False):
        model = st.StoppedRegressor(fit_intercept=intercept, penalty_matrix=PENALTIES[kind])
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(X, y)


@pytest.mark.parametrize("kind", ["differences", "wide", "bands", "standardise"])
def test_weights_constant_columns_and_few_rows(kind):
    X, y, _ = data(targets=1)
    y = y[:, 0]
    X[:, 5] = 7.0
    model = st.StoppedRegressorCV("ridge", stops=[1.0], penalty_matrix=PENALTIES[kind])
    twice = model.fit(X, y, np.r_[np.full(5, 2.0), np.ones(N - 6), 0.0]).coef_
    copies = clone(model).fit(np.r_[X, X[:5]][np.arange(N + 5) != N - 1], np.r_[y[:-1], y[:5]])
    np.testing.assert_allclose(twice, copies.coef_, rtol=0, atol=1e-12)
    if kind in {"bands", "standardise"}:
        assert abs(twice[5]) < 1e-12
    with pytest.raises(ValueError, match="n_samples=1"):
        clone(model).fit(X[:1], y[:1])
    alone = st.StoppedRegressor("ridge", stop=1.0, penalty_matrix=PENALTIES[kind])
    assert not alone.fit(X[:1], y[:1]).coef_.any()
    constant = clone(model).fit(np.full((N, P), 3.0), y)
    np.testing.assert_allclose(constant.coef_, 0, atol=1e-12)
    assert constant.intercept_ == pytest.approx(y.mean())


def test_intervals_of_folds_are_those_of_rows_in_memory():
    X, y, _ = data(200, 12)
    free = st.Bands(np.arange(12) // 4, [1.0, 0.1, np.inf])
    model = st.StoppedRegressorCV(cv=KFold(5), penalty_matrix=free)
    wanted = model.fit(X, y).predict_interval(X[:3], kind="cv+")
    found = model.fit(st.Chunks.of(X, y, rows=37)).predict_interval(X[:3], kind="cv+")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)


def by_least_squares(X, y, L, stop):
    """Return ridge with a penalty on Lβ as least squares with further rows."""
    root = np.sqrt(len(y))
    L = L.toarray() if sparse.issparse(L) else L
    rows = np.vstack([(X - X.mean(axis=0)) / root, L / np.sqrt(stop)])
    response = np.concatenate([(y - y.mean()) / root, np.zeros(len(L))])
    return np.linalg.lstsq(rows, response, rcond=1e-14)[0]


@pytest.mark.parametrize(("knots", "slope"), [(40, 0.0), (150, 1.0), (300, 0.0)])
@pytest.mark.filterwarnings("ignore:Columns are so dependent")
def test_errors_of_products_are_bounded(knots, slope):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=400))
    y = np.sin(8 * x) + 0.3 * rng.normal(size=400) + slope * x
    basis = SplineTransformer(knots).fit_transform(x[:, None])
    differences = st.Differences(2)
    stops = np.array([1.0, 1e2, 1e4, 1e6])
    options = {"penalty_matrix": differences}
    path = st.path(st.Chunks.of(basis, y, rows=50), "ridge", stops, **options)
    L = differences.matrix(basis.shape[1])
    exact = np.stack([by_least_squares(basis, y, L, stop) for stop in stops])
    errors = [np.linalg.norm(L @ one) for one in path.coef - exact]
    errors /= np.array([np.linalg.norm(L @ one) for one in exact])
    assert np.all(errors <= path.error)
    assert np.all(path.error < 1e6 * errors)


def test_bad_penalties_are_refused_before_rows_are_read():
    X, y, _ = data(200, 12, targets=1)

    def read():
        raise AssertionError("Rows were read.")

    unread = replace(st.Chunks.of(X, y[:, 0]), read=read)
    with pytest.raises(ValueError, match="one column for each"):
        st.decompose(unread, penalty_matrix=np.eye(3))
    with pytest.raises(ValueError, match="must be"):
        st.decompose(unread, penalty_matrix="scale")
    same = X.copy()
    same[:, 1] = same[:, 0]
    unpenalised = np.diag([0, 0, *np.ones(10)])
    with pytest.raises(ValueError, match="X has no influence"):
        st.decompose(st.Chunks.of(same, y), penalty_matrix=unpenalised)


def test_constant_columns_and_extreme_units():
    X, y, _ = data(200, 12, targets=1)
    y = y[:, 0]
    X[:, 4] = 7.0
    scaled = st.Bands(np.arange(12), np.geomspace(1e-3, 1, 12))
    for options in ({"penalty_matrix": scaled}, {"penalty_matrix": "standardise"}):
        wanted = st.path(X, y, "ridge", [1.0], **options).coef
        found = st.path(st.Chunks.of(X, y), "ridge", [1.0], **options).coef
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
        assert found[0, 4] == 0
    plain = st.path(st.Chunks.of(X, y), "ridge", [1.0], penalty_matrix=scaled).coef
    for unit in (1e-90, 1e90):
        # coefficients in the units of the columns are penalised as before
        options = {"penalty_matrix": st.Bands(np.arange(12), np.geomspace(1e-3, 1, 12) / unit)}
        found = st.path(st.Chunks.of(X * unit, y), "ridge", [1.0], **options).coef
        np.testing.assert_allclose(found * unit, plain, rtol=0, atol=1e-12)


@pytest.fixture
def only_solves(monkeypatch):
    """Let small matrices be solved as large ones are."""
    monkeypatch.setattr("stoptime.spectrum.penalty.LARGEST_BASIS", 3)


@pytest.mark.usefixtures("only_solves")
@pytest.mark.parametrize("kind", ["differences", "image", "periodic", "zero"])
def test_solves_are_the_pseudo_inverse(kind):
    L = PENALTIES[kind]
    form = L.standard_form(P)
    inverse = form.inverse
    assert isinstance(inverse, Solves)
    dense = np.linalg.pinv(L.matrix(P).toarray())
    rng = np.random.default_rng(0)
    some = rng.normal(size=(inverse.width, 3))
    rows = rng.normal(size=(4, P))
    np.testing.assert_allclose(inverse @ some, dense @ some, rtol=0, atol=1e-10)
    np.testing.assert_allclose(inverse.of_rows(rows), rows @ dense, rtol=0, atol=1e-9)
    np.testing.assert_allclose(L.matrix(P) @ form.null, 0, atol=1e-14)
    np.testing.assert_allclose(form.null.T @ form.null, np.eye(form.null.shape[1]), atol=1e-14)
    assert inverse.rank == np.linalg.matrix_rank(dense)
    again = pickle.loads(pickle.dumps(inverse))
    np.testing.assert_array_equal(again @ some, inverse @ some)


@pytest.mark.usefixtures("only_solves")
def test_solves_in_the_place_of_an_array_change_nothing():
    X, y, _ = data(200, 12)
    L = st.Differences(1, (3, 4))
    array = L.matrix(12).toarray()
    wanted = st.path(X, y, "nesterov-flow", [1, 4], fit_intercept=False, penalty_matrix=array)
    # more rows than columns: products then have a null space, which must not count
    found = st.decompose(st.Chunks.of(X, y), fit_intercept=False, penalty_matrix=L)
    drawn = st.path(found, "nesterov-flow", [1, 4])
    np.testing.assert_allclose(drawn.coef, wanted.coef, rtol=0, atol=1e-12)
    assert found.rank == 11


@pytest.mark.usefixtures("only_solves")
def test_large_sparse_matrices_without_full_rank_are_refused():
    few = sparse.csr_array(np.eye(3, 90) + np.eye(3, 90, 1))
    X, y, _ = data(30, 90, targets=1)
    with pytest.raises(ValueError, match="must penalise every direction"):
        st.path(X, y, "ridge", [1.0], penalty_matrix=few)
    steep = st.Differences(5, 2000, "periodic")
    with pytest.raises(ValueError, match="too ill-conditioned to be solved as a sparse matrix"):
        steep.standard_form(2000).inverse @ np.ones(2000)


@pytest.mark.usefixtures("only_solves")
def test_solutions_without_any_error_need_no_correction():
    X, y, _ = data(50, 40, targets=1)
    twice = sparse.vstack([2 * sparse.eye_array(40), 2 * sparse.eye_array(40)]).tocsr()
    found = st.path(X, y, "ridge", [8.0], penalty_matrix=twice).coef
    np.testing.assert_allclose(found, st.path(X, y, "ridge", [1.0]).coef, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_periodic_deblurring_is_a_quotient_of_fourier_series(order):
    size = 51  # 2601 pixels, too many for a singular value decomposition
    n = size**2
    waves = fft.fftfreq(size)
    blur = np.exp(-30 * (waves[:, None] ** 2 + waves**2))

    def apply(pixels):
        return fft.ifft2(blur * fft.fft2(pixels.reshape(size, size))).real.ravel()

    X = LinearOperator((n, n), matvec=apply, rmatvec=apply, dtype=float)
    rng = np.random.default_rng(0)
    y = rng.normal(size=n).cumsum()
    steps = (2 * np.sin(np.pi * waves)) ** (2 * order)
    stops = np.array([1.0, 30.0])
    L = st.Differences(order, (size, size), "periodic")
    drawn = st.path(X, y, "ridge", stops, penalty_matrix=L, fit_intercept=False)
    for coef, stop in zip(drawn.coef, stops, strict=True):
        filtered = blur / n / (blur**2 / n + (steps[:, None] + steps) / stop)
        exact = fft.ifft2(filtered * fft.fft2(y.reshape(size, size))).real.ravel()
        assert np.linalg.norm(coef - exact) < 2e-6 * np.linalg.norm(exact)
    # constants are not penalised: the first stop of any path is their least-squares fit
    start = st.path(X, y, "conjugate-gradient", [0], penalty_matrix=L, fit_intercept=False)
    np.testing.assert_allclose(start.coef[0], y.mean(), rtol=1e-10)


def test_a_constant_fit_is_taken_by_the_intercept_with_the_least_norm():
    X, y, _ = data(50, 40, targets=1)
    X /= X.sum(axis=1, keepdims=True)  # rows add up to one, as those of splines do
    options = {"penalty_matrix": st.Differences(2)}
    dense = st.path(X, y[:, 0], "ridge", [10.0], **options)
    free = st.path(aslinearoperator(X), y[:, 0], "ridge", [10.0], tol=1e-9, **options)
    scale = abs(dense.coef).max()
    np.testing.assert_allclose(free.coef, dense.coef, rtol=0, atol=1e-5 * scale)
    assert abs(free.coef.mean()) < 1e-5 * scale


def test_long_signals_are_smoothed_as_arrays_of_wide_data_and_as_operators():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2500))
    y = X @ np.sin(np.arange(2500) / 300)
    L = st.Differences(2).matrix(2500).toarray()
    options = {"penalty_matrix": st.Differences(2), "fit_intercept": False}
    for rows in (X, aslinearoperator(X)):
        coef = st.path(rows, y, "ridge", [1e6], **options).coef[0]
        # the normal equations, with the gradient of the penalty by products
        gradient = X.T @ (y - X @ coef) / 30
        force = L.T @ (L @ coef) / 1e6
        assert np.linalg.norm(gradient - force) < 1e-5 * np.linalg.norm(X.T @ y / 30)


def test_a_penalty_may_be_an_operator_of_any_size():
    X, y, _ = data(60, 2100, targets=1)
    steps = st.Differences(1, boundary="zero")
    L = steps.matrix(2100)
    by_matrix = st.path(X, y, "ridge", [1.0], penalty_matrix=steps).coef
    by_operator = st.path(X, y, "ridge", [1.0], penalty_matrix=aslinearoperator(L)).coef
    np.testing.assert_allclose(by_operator, by_matrix, rtol=0, atol=1e-8 * abs(by_matrix).max())


def test_far_means_are_harmless():
    X, y, _ = data(50, 40, targets=1)
    options = {"penalty_matrix": st.Differences(2)}
    expected = st.path(X, y, "ridge", [1.0], **options).coef
    far = st.path(aslinearoperator(X + 1e4), y, "ridge", [1.0], **options).coef
    np.testing.assert_allclose(far, expected, rtol=0, atol=1e-6 * abs(expected).max())
