"""Every kind of data gives what an array gives, or says by name what it cannot."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.model_selection import KFold

import stoptime as st
from stoptime.spectrum import krylov, rows
from stoptime.spectrum.rows import Rows


class Halves(Rows):
    """A kind of a user's own: rows stored as halves of their entries."""

    def __init__(self, X):
        self.stored = X / 2
        self.shape = X.shape

    def read(self, index):
        return 2 * self.stored[index]


def on_disk(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def compressed(X, folder):
    store = str(folder / f"X{len(list(folder.iterdir()))}.zarr")
    stored = zarr.open(store, mode="w", shape=X.shape, chunks=(32, 3), dtype=X.dtype)
    stored[:] = X
    return stored


def tensor(device):
    def made(X, _=None):
        torch = pytest.importorskip("torch", reason="tensors are wanted: pip install torch")
        if device == "cuda" and not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
        return torch.asarray(X, device=device)

    return made


def on_cupy(X, _=None):
    cupy = pytest.importorskip("cupy", reason="arrays of CuPy need the package cupy and a GPU")
    if not cupy.cuda.is_available():
        pytest.skip("arrays of CuPy need a CUDA device")
    return cupy.asarray(X)


def frame(X, y=None, weight=None):
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    targets = {} if y is None else {f"y{k}": column for k, column in enumerate(np.atleast_2d(y.T))}
    return table.assign(**targets, **({} if weight is None else {"w": weight}))


def in_file(form):
    def made(X, y, weight, folder):
        path = folder / f"{len(list(folder.iterdir()))}.{form}"
        table = frame(X, y, weight)
        table.to_parquet(path, row_group_size=20) if form == "parquet" else table.to_csv(
            path, index=False
        )
        targets = [f"y{k}" for k in range(y.shape[1])] if y.ndim > 1 else "y0"
        known = {"weight": None if weight is None else "w", "rows": 17}
        return (getattr(st.Chunks, form)(path, targets, **known),)

    return made


def lazy(X, y, weight, _):
    da = pytest.importorskip("dask.array")
    given = [da.from_array(X, (17, 3)), da.from_array(y, (13, *[1] * (y.ndim - 1)))]
    return (*given, None if weight is None else da.from_array(weight, 17))


class Kind(NamedTuple):
    """How rows, response and weights are handed over, new rows, and what can be asked for."""

    given: Callable
    new: Callable
    has_rows: bool = True  # whether leave-one-out is possible
    has_folds: bool = True
    exact: float = 1e-9  # relative error of coefficients

    @classmethod
    def of(cls, made, *, all_of_them=False, **options):
        """Return a kind whose X, or all arrays, are converted by a function."""

        def given(X, y, weight, folder):
            return made(X, folder), (made(y) if all_of_them else y), weight

        return cls(given, made, **options)


KINDS = {
    "fortran": Kind.of(lambda X, _: np.asfortranarray(X)),
    "single": Kind.of(lambda X, _: X.astype(np.float32), exact=1e-6),
    "frame": Kind.of(lambda X, _: frame(X)),
    "memmap": Kind.of(on_disk),
    "zarr": Kind.of(compressed),
    "own": Kind.of(lambda X, _: Halves(X)),
    "sparse": Kind.of(lambda X, _: sparse.csr_array(X)),
    "sparse columns": Kind.of(lambda X, _: sparse.csc_matrix(X)),
    "sparse frame": Kind.of(
        lambda X, _: pd.DataFrame.sparse.from_spmatrix(
            sparse.csr_matrix(X), columns=frame(X).columns
        )
    ),
    "large sparse": Kind.of(lambda X, _: sparse.csr_array(X), exact=2e-6),
    "operator": Kind.of(lambda X, _: aslinearoperator(X), has_rows=False, exact=2e-6),
    "tensor": Kind.of(tensor("cpu"), all_of_them=True),
    "tensor on a device": Kind.of(tensor("cuda"), all_of_them=True),
    "cupy": Kind.of(on_cupy, all_of_them=True),
    "chunks": Kind(
        lambda X, y, weight, _: (st.Chunks.of(X, y, weight, rows=17),),
        lambda X, _: st.Chunks.of(X, rows=7),
        has_rows=False,
    ),
    "parquet": Kind(in_file("parquet"), lambda X, _: frame(X), has_rows=False),
    "csv": Kind(in_file("csv"), lambda X, _: frame(X), has_rows=False, has_folds=False),
    "dask": Kind(lazy, lambda X, _: lazy(X, X, None, None)[0], has_rows=False),
    "statistics": Kind(
        lambda X, y, weight, _: (st.Statistics.of(X, y, weight),),
        lambda X, _: X,
        has_rows=False,
        has_folds=False,
    ),
}
SHAPES = [(60, 8), (14, 30)]
PENALTIES = {
    "differences": st.Differences(2),
    "periodic": st.Differences(1, boundary="periodic"),
    "image": st.Differences(1, (2, 4)),
    "wide": np.random.default_rng(2).normal(size=(5, 8)),
    "dropped": st.Bands([0, 0, 0, 1, 1, 1, 1, 2], [1.0, 0.1, 0.0]),
    "free": st.Bands([0, 0, 0, 1, 1, 1, 1, 2], [1.0, 0.1, np.inf]),
    "standardise": "standardise",
}


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_NUMBERS", 100)  # several blocks of rows
    if request.param == "large sparse":
        monkeypatch.setattr(krylov, "SMALL", 0)
    return KINDS[request.param]


def problem(rng, shape=SHAPES[0], targets=None):
    """Return an X with zeros whose entries have single precision, a response, and weights."""
    n, p = shape
    X = rng.standard_normal(shape) * np.geomspace(0.5, 2, p) + 1
    X = np.where(np.abs(X) < 0.4, 0, X).astype(np.float32).astype(np.float64)
    y = X @ rng.standard_normal(p if targets is None else (p, targets))
    return X, y + rng.standard_normal(y.shape) + 5, rng.integers(0, 4, n) / 2


def host(values):
    values = values.compute() if hasattr(values, "compute") else values
    values = values.get() if type(values).__module__.startswith("cupy") else values
    return values.cpu().numpy() if hasattr(values, "cpu") else np.asarray(values)


def assert_close(found, expected, tolerance):
    """Compare values in the unit of the largest one."""
    np.testing.assert_allclose(
        host(found), expected, rtol=0, atol=tolerance * np.abs(expected).max()
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_paths_predictions_and_sizes(rng, tmp_path, kind, shape, fit_intercept):
    X, y, weight = problem(rng, shape, 2)
    Y = np.column_stack([y, np.ones(len(y))])
    given = kind.given(X, Y, weight, tmp_path)
    stops = [0.0, 0.3, 1.0, np.inf]
    for solver in ("auto", "gram"):
        found = st.decompose(*given, fit_intercept=fit_intercept, solver=solver)
        expected = st.decompose(X, Y, weight, fit_intercept)
        assert found.n_samples == expected.n_samples
        assert found.n_observations == expected.n_observations
        assert_close(found.target_power, expected.target_power, 1e-11)
        drawn, known = (st.path(one, "nesterov-flow", stops) for one in (found, expected))
        assert_close(drawn.coef, known.coef, kind.exact)
        assert_close(drawn.intercept, known.intercept, 3 * kind.exact)
        if found.krylov is None:
            np.testing.assert_allclose(
                drawn.degrees_of_freedom, known.degrees_of_freedom, rtol=1e-7
            )
            assert_close(found.eigenvalues, expected.eigenvalues, 1e-10)
        else:
            assert np.isnan(drawn.degrees_of_freedom).all()
    model = st.StoppedRegressor("nesterov-flow", 1.0, fit_intercept).fit(*given)
    new = X[5:14].copy()
    predicted = model.predict(kind.new(new, tmp_path))
    assert_close(predicted, known.predict(new)[2], 3 * kind.exact)
    if hasattr(given[0], "columns"):
        assert list(model.feature_names_in_) == list(given[0].columns)
    if hasattr(given[0], "device") and type(given[0]) is type(given[1]):
        assert type(predicted) is type(model.coef_) is type(given[0])
        assert predicted.device == model.coef_.device == given[0].device


RULES = [
    "loo",
    "one-standard-error",
    "path-gcv",
    "sure",
    "plug-in",
    st.Discrepancy(noise=2.0),
    st.CrossValidation(KFold(4, shuffle=True, random_state=0)),
    st.OneStandardError(st.CrossValidation(KFold(4))),
    "hold-out",
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rules_choose_the_same(rng, tmp_path, kind, rule):
    X, y, weight = problem(rng)
    if kind.exact == 2e-6 and rule in ("path-gcv", "sure", "plug-in"):
        pytest.skip("traces are estimated by probes, which test_krylov_rules compares")
    given = kind.given(X, y, weight, tmp_path)
    folds = isinstance(rule, st.CrossValidation | st.OneStandardError)
    leaves_out = rule in ("loo", "one-standard-error")
    if rule == "hold-out":
        rule = st.HoldOut(X[:9], y[:9] + 1)
    model = st.StoppedRegressorCV("nesterov-flow", rule=rule)
    known = st.StoppedRegressorCV("nesterov-flow", rule=rule).fit(X, y, weight)
    if (leaves_out and not kind.has_rows) or (folds and not kind.has_folds):
        refused = r"choose the stop by|cannot be divided|cv must be a whole number"
        with pytest.raises(ValueError, match=refused):
            model.fit(*given)
        return
    model.fit(*given)
    assert model.stop_ == pytest.approx(known.stop_, rel=1e-4)
    assert model.choice_.error == pytest.approx(known.choice_.error, rel=1e-4)
    assert_close(model.coef_, known.coef_, 1e-4)
    if kind.has_rows and leaves_out:
        new = X if "zarr" in type(given[0]).__module__ else kind.new(X, tmp_path)
        assert model.score(new, y) == pytest.approx(known.score(X, y), rel=1e-6)
        interval = model.predict_interval(new, confidence=0.8)
        assert_close(interval, known.predict_interval(X, confidence=0.8), 1e-4)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalties_are_those_of_arrays(rng, tmp_path, kind, penalty):
    X, y, weight = problem(rng, targets=2)
    given = kind.given(X, y, weight, tmp_path)
    operator = kind is KINDS["operator"]
    if operator and penalty == "standardise":
        with pytest.raises(ValueError, match="which an operator does not show"):
            st.decompose(*given, penalty_matrix=penalty)
        return
    for fit_intercept in (True, False):
        options = {"fit_intercept": fit_intercept, "penalty_matrix": PENALTIES[penalty]}
        spectrum, known = st.decompose(*given, **options), st.decompose(X, y, weight, **options)
        assert spectrum.n_unpenalised == known.n_unpenalised
        for method in ("nesterov-flow", "conjugate-gradient"):
            found, expected = (st.path(one, method, [1, 2, 4]) for one in (spectrum, known))
            assert_close(found.coef, expected.coef, 10 * kind.exact)
            assert_close(found.intercept, expected.intercept, 100 * kind.exact)
    if not kind.has_folds:
        return
    model = st.StoppedRegressorCV("ridge", cv=KFold(4), stops=[0.3, 3.0], **options)
    assert_close(model.fit(*given).errors_, model.fit(X, y, weight).errors_, 100 * kind.exact)


@pytest.mark.parametrize("away", [1e3, 1e6, 1e9])
def test_rows_of_no_weight_are_as_good_as_absent_wherever_they_lie(rng, tmp_path, kind, away):
    if kind.exact > 1e-9:
        pytest.skip("far rows have rounding of their own")
    X, y, _ = problem(rng)
    weight = rng.uniform(0.5, 1.5, len(y))
    right = st.StoppedRegressor("ridge", 1e6).fit(X, y, weight)
    X = np.vstack([away + rng.normal(size=(70, 8)), X])
    y = np.concatenate([np.full(70, -away), y])
    given = kind.given(X, y, np.append(np.zeros(70), weight), tmp_path)
    found = st.StoppedRegressor("ridge", 1e6).fit(*given)
    assert_close(found.coef_, right.coef_, 1e-11)
    assert float(found.intercept_) == pytest.approx(right.intercept_, rel=1e-10)


@pytest.fixture
def collinear(rng):
    X = rng.normal(size=(80, 6))
    X[:, 3] = X[:, 2] + 1e-7 * X[:, 3]
    return X, X @ [1, 1, 1e7, -1e7, 1, 1] + 1e-3 * rng.normal(size=80)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 6))
    return X, X.sum(axis=1) + rng.normal(size=80)


@pytest.mark.parametrize("options", [{}, {"cv": 4}, {"rule": "path-gcv"}, {"rule": "plug-in"}])
def test_ill_conditioned_sparse_matrices_lose_no_digits(collinear, options):
    X, y = collinear
    dense = st.StoppedRegressorCV("ridge", **options).fit(X, y)
    found = st.StoppedRegressorCV("ridge", **options).fit(sparse.csr_array(X), y)
    assert found.stop_ == pytest.approx(dense.stop_)
    assert found.choice_.error == pytest.approx(dense.choice_.error, rel=1e-3)
    assert dense.choice_.error < 1e-5


def test_conjugate_gradients_stop_for_each_target(data, rng):
    X, y = data
    Y = np.column_stack([y, rng.normal(size=80)])
    model = st.StoppedRegressorCV("conjugate-gradient", cv=5, per_target=True).fit(X, Y)
    for target, stop in enumerate(model.stop_):
        alone = st.StoppedRegressor("conjugate-gradient", stop=stop).fit(X, Y[:, target])
        np.testing.assert_allclose(model.coef_[target], alone.coef_, rtol=1e-8, atol=1e-10)


def test_names_of_an_earlier_fit_are_forgotten(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdef"))
    for other in (aslinearoperator(X), st.Chunks.of(X, y)):
        model = st.StoppedRegressor(stop=1.0).fit(frame, y)
        model.fit(other, None if isinstance(other, st.Chunks) else y)
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: st.Chunks.of(sparse.csr_array(X), y), "rows can be sliced; got csr_array"),
        (lambda X, y: st.StoppedKernelRegressor().fit(aslinearoperator(X), y), "rows in an array"),
        (
            lambda X, y: st.StoppedRegressorCV(rule=st.HoldOut(st.Chunks.of(X, y), y)).fit(X, y),
            "X_val",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(data, call, message):
    with pytest.raises(TypeError, match=message):
        call(*data)


def first(values, value):
    """Return a copy of an array with another first entry."""
    return np.where(np.arange(values.size).reshape(values.shape) == 0, value, values)


SPOILED = {
    "nan in X": (lambda X, y, w: (first(X, np.nan), y, w), "X contains NaN"),
    "infinity in X": (lambda X, y, w: (first(X, np.inf), y, w), "X (contains|is too large)"),
    "nan in y": (lambda X, y, w: (X, first(y, np.nan), w), "y contains NaN"),
    "infinity in y": (lambda X, y, w: (X, first(y, np.inf), w), "y contains (NaN or )?infinity"),
    "no weight": (lambda X, y, w: (X, y, 0 * w), "positive"),
    "negative weight": (lambda X, y, w: (X, y, -w), "non-negative; got"),
    "nan in weight": (lambda X, y, w: (X, y, first(w, np.nan)), "finite and non-negative"),
    "short y": (lambda X, y, w: (X, y[:-1], w), "inconsistent numbers|the same rows"),
    "cubic y": (lambda X, y, w: (X, y[:, None, None], w), "y must be of shape"),
    "short weight": (lambda X, y, w: (X, y, w[:-1]), "sample_weight"),
}


@pytest.mark.parametrize("case", SPOILED)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bad_data_are_refused_with_advice(rng, tmp_path, kind, case, shape):
    if kind in (KINDS["parquet"], KINDS["csv"]) and case in ("short y", "cubic y", "short weight"):
        pytest.skip("the columns of a file have one length")
    spoil, message = SPOILED[case]
    X, y, _ = problem(rng, shape)
    spoiled = spoil(X, y, np.ones(len(y)))
    for solver in ("auto", "svd") if kind.has_rows else ("auto",):
        with pytest.raises(ValueError, match=message):
            st.decompose(*kind.given(*spoiled, tmp_path), solver=solver)
