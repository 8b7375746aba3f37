"""Factor data of any kind; only this module distinguishes kinds of containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.flows import GradientFlow, HeavyBallFlow
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.centred import owned
from stoptime.spectrum.data import Data, Goal
from stoptime.spectrum.dense import DenseData
from stoptime.spectrum.kinds import kind_of
from stoptime.spectrum.krylov.operator import MOST_FILLED, MatrixFreeData
from stoptime.spectrum.krylov.penalised import PenalisedMatrixFreeData
from stoptime.spectrum.penalised import PenalisedData
from stoptime.spectrum.streamed.data import StreamedData, as_stream
from stoptime.support.checks import nonnegative, truth_value

Solver = Literal["auto", "gram", "svd", "krylov"]
NEARLY_UNDAMPED = 1e-9  # damping, in units of the frequency, of a path that oscillates most
KRYLOV_OPTIONS = {"tol", "max_rank", "probes", "rng", "verbose"}


def decompose(
    X: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    *,
    penalty_matrix: Any = None,
    solver: Solver = "auto",
    max_gain: float = np.inf,
    **options: Any,
) -> Spectrum:
    r"""Factor the data once, for every method at every stop.

    .. math:: X^TX/n = V S V^T, \qquad z = V^TX^Ty/n

    The result needs at most one extra array of the size of X, and none if X is tall and factored by
    "gram"; with "krylov" it stores its Krylov vectors.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, p), LinearOperator, tensor, or streamed data
        All are processed in double precision, float32 a block at a time, so that nothing is lost;
        coefficients of float32 are rounded to float32. Sparse matrices are centred without
        becoming dense. Streamed data (Chunks, Statistics, Dask collections, zarr arrays) are read
        once, and factored by "gram". X is never modified.
    y : array-like of shape (n,) or (n, n_targets)
        The response; leave it out for chunks and statistics, which contain it.
    sample_weight : array-like of shape (n,), optional
        Non-negative. A weight of 2 counts the row twice; n becomes the sum of the weights.
    fit_intercept : bool, default=True
        Whether to centre X and y.
    penalty_matrix : matrix of shape (k, p), Differences, Bands or "standardise", optional
        The L of a penalty ‖Lβ‖², in whose geometry all methods then work; an array, a sparse matrix
        or a LinearOperator. Directions with Lβ = 0 are never shrunk. Where such a direction has a
        constant fit, as columns of splines that add up to one do, the intercept takes it, and the
        coefficients of least norm are returned. "standardise" penalises each coefficient in the
        unit of its column's standard deviation on all rows. A sparse X that fits into memory as an
        array is made one; with an operator or a larger sparse X, the Krylov space is one in this
        geometry, and ``tol`` is an error of Lβ.
    solver : {"auto", "gram", "svd", "krylov"}, default="auto"
        "gram" diagonalises the smaller of XᵀX and XXᵀ. "svd" computes the singular values of a QR
        factor: several times slower, but accurate for ill-conditioned data. "auto" starts with
        "gram" and turns to "svd" if the relative error of the coefficients could exceed 1e-10
        (float32: 1e-8), judged by eps·L·min(1/s, ``max_gain``) for the smallest eigenvalue s that
        is kept, and by the response in directions below the rank cut. "krylov", for sparse
        matrices and operators only, computes Ritz values of a Krylov space started from the
        response; "auto" uses it unless X is sparse with at most 1000 rows or columns.
    max_gain : float, default=inf
        The largest gain φ(0, t) that you will need: about t, or t² for an accelerated method. The
        error of "gram" does not show at early stops, so that a moderate ``max_gain`` avoids "svd"
        for ill-conditioned data. A Krylov space grows until every method has converged up to
        this gain; :func:`stoptime.path` knows its method, and often needs less.
    **options
        For sparse matrices and operators only. ``tol=1e-6``: the largest relative error of the
        coefficients. ``max_rank``: the largest number of Krylov vectors for all targets together,
        of 8p bytes each; by default 2 GiB of them. ``probes=0``, ``rng=0``: random probes that
        estimate all eigenvalues, for degrees of freedom, path GCV and the plug-in oracle, and a
        seed or ``numpy.random.Generator`` for them.
        ``verbose=False``: whether to show progress.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> decompose(*load_diabetes(return_X_y=True))
    Spectrum(442 samples, 10 features, rank 10, solver='gram')
    """
    check_solver(solver)
    if penalty_matrix is not None:
        options["penalty_matrix"] = penalty_matrix
    data = open_data(X, y, sample_weight, fit_intercept, **options)
    gain = float(nonnegative("max_gain", max_gain, infinite=True))
    spectrum = data.spectrum(worst_goals(gain), solver)
    # eigenvectors of wide data refer to the user's array, which may change later
    return replace(spectrum, basis=owned(spectrum.basis))


def worst_goals(max_gain: float) -> tuple[Goal, ...] | None:
    """Return the most demanding paths among all paths with at most this gain."""
    if np.isinf(max_gain):
        return None  # least squares
    time = float(np.sqrt(max_gain))
    # among paths of the same gain, one with hardly any damping oscillates most
    damping = NEARLY_UNDAMPED / time if time > 0 else 1.0
    oscillating = Goal(HeavyBallFlow(damping), time)
    return Goal(Ridge(), max_gain), Goal(GradientFlow(), max_gain), oscillating


def check_solver(solver: Any) -> None:
    """Raise a ValueError if there is no such solver."""
    if solver not in {"auto", "gram", "svd", "krylov"}:
        raise ValueError(f'solver must be "auto", "gram", "svd" or "krylov"; got {solver!r}.')


def open_data(
    X: Any, y: Any = None, sample_weight: Any = None, fit_intercept: bool = True, **options: Any
) -> Data:
    """Validate data of any kind, once; the parameters are those of :func:`decompose`."""
    kind = kind_of(X)
    fit_intercept = truth_value("fit_intercept", fit_intercept)
    penalty_matrix = options.pop("penalty_matrix", None)
    if kind in {"sparse", "operator"} and (unknown := options.keys() - KRYLOV_OPTIONS):
        names = ", ".join(sorted(KRYLOV_OPTIONS))
        raise TypeError(f"{', '.join(unknown)}: no option of this name; there are {names}.")
    if penalty_matrix is not None and kind == "sparse" and np.prod(X.shape) <= MOST_FILLED:
        # an array has exact leave-one-out, and its factorisation needs no iterations
        X = X.toarray()
        kind = "dense"
        options = {}
    if kind in {"sparse", "operator"}:
        free = MatrixFreeData.validated(X, y, sample_weight, fit_intercept)
        free = replace(free, options=options)
        return free if penalty_matrix is None else PenalisedMatrixFreeData.of(free, penalty_matrix)
    if options:
        raise TypeError(
            f"{', '.join(options)}: only for sparse matrices and operators; see "
            "scipy.sparse.linalg.aslinearoperator."
        )
    if kind == "dense":
        data = DenseData.validated(X, y, sample_weight, fit_intercept)
        return data if penalty_matrix is None else PenalisedData.of(data, penalty_matrix)
    stream = as_stream(X, y, sample_weight)
    return StreamedData(stream, fit_intercept, penalty_matrix=penalty_matrix)
