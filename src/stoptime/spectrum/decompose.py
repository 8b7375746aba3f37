"""Ways from data to a spectrum."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.spectrum import dense, tensors
from stoptime.spectrum.accuracy import GRAM_TOLERANCE
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.centred import owned
from stoptime.spectrum.dense import DenseData
from stoptime.spectrum.kinds import MATRIX_FREE, STREAMED, kind_of
from stoptime.spectrum.krylov.operator import MatrixFreeData
from stoptime.spectrum.krylov.spaces import decompose_matrix_free
from stoptime.spectrum.moments import Moments
from stoptime.spectrum.streamed.rounding import VISIBLE
from stoptime.spectrum.streamed.streams import as_stream, spectrum_of
from stoptime.spectrum.tensors import TensorData
from stoptime.support.checks import nonnegative

__all__ = ["Arguments", "Data", "Solver", "borrow", "decompose", "factored", "validated"]

MOST_FILLED = (
    2**27
)  # numbers, a gigabyte: a sparse matrix that is ill-conditioned is filled up to here

Arguments = tuple[Any, Any, Any, bool]
"""X, y, sample_weight and fit_intercept, as :func:`decompose` takes them."""

Data = DenseData | TensorData
Solver = Literal["auto", "gram", "svd", "krylov"]


def decompose(
    X: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    *,
    solver: Solver = "auto",
    max_gain: float = np.inf,
    **options: Any,
) -> Spectrum:
    r"""Factor the data once, for every method at every stop.

    .. math:: X^TX/n = V S V^T, \qquad z = V^TX^Ty/n

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, p), LinearOperator, tensor, or rows that are not in memory
        float32 in memory is worked on and returned as float32, all else as float64. Never modified. Sparse
        matrices and operators are worked on in float64 whatever they hold, and centred without being filled.
        Chunks, Statistics, Dask arrays and dataframes and zarr arrays are read once, by "gram" only.
    y : array-like of shape (n,) or (n, n_targets)
        The response; left out where X holds it, as chunks and statistics do.
    sample_weight : array-like of shape (n,), optional
        Non-negative. A weight of 2 is the row twice; n becomes the sum of the weights.
    fit_intercept : bool, default=True
        Whether to centre X and y.
    solver : {"auto", "gram", "svd", "krylov"}, default="auto"
        "gram" diagonalises the smaller of XᵀX and XXᵀ. "svd" takes singular values of a QR factor:
        several times slower, and accurate to the last digits where squares are not. "auto" starts
        with "gram" and turns to "svd" when the coefficients could be off by more than 1e-10
        (float32: 1e-3) of their norm, judged by eps·L·min(1/s, ``max_gain``) for the smallest
        eigenvalue s that is kept, and by what directions below the rank cut would carry.
        "krylov" is for sparse matrices and operators alone: Ritz values of a Krylov space grown from the
        response. There "auto" takes it too, unless X is sparse with at most 1000 rows or columns.
    max_gain : float, default=inf
        The largest gain φ(0, t) that will be asked for: about t, or t² for an accelerated method.
        Squaring X moves its eigenvalues by about eps·L, which no early stop notices; a modest
        ``max_gain`` spares ill-conditioned data the price of "svd". A Krylov space is grown until every
        method has converged up to there; :func:`stoptime.path` knows its method, and often needs less.
    **options
        For sparse matrices and operators. ``tol=1e-6``: the largest relative error of the coefficients.
        ``max_rank``: the most Krylov vectors, all targets together, each of 8p bytes; by default as many
        as 2 GiB hold. ``probes=0``, ``seed=0``: random probes of the density of all eigenvalues, from
        which degrees of freedom, path GCV and the plug-in oracle are then estimated. ``verbose=False``:
        whether long growth shows its progress.

    Returns
    -------
    Spectrum
        Needs at most one extra array of the size of X, and when X is tall none at all by "gram"; by
        "krylov" its Krylov vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> decompose(*load_diabetes(return_X_y=True))
    Spectrum(442 samples, 10 features, rank 10, solver='gram')
    """
    data = X, y, sample_weight, fit_intercept
    spectrum = borrow(data, solver=solver, max_gain=max_gain, **options)
    return replace(spectrum, basis=owned(spectrum.basis))


def borrow(
    data: Arguments, *, solver: Solver = "auto", max_gain: float = np.inf, **options: Any
) -> Spectrum:
    """Factor the data as :func:`decompose` does, for those who are done before X can change.

    The eigenvectors of a wide array may refer to it, which spares a copy.
    """
    X, y, sample_weight, fit_intercept = data
    if solver not in {"auto", "gram", "svd", "krylov"}:
        raise ValueError(f'solver must be "auto", "gram", "svd" or "krylov"; got {solver!r}.')
    max_gain = float(nonnegative("max_gain", max_gain, infinite=True))
    kind = kind_of(X)
    if (options or solver == "krylov") and kind not in MATRIX_FREE:
        named = ", ".join(options) or 'solver="krylov"'
        raise TypeError(
            f"{named}: for sparse matrices and operators; see scipy.sparse.linalg.aslinearoperator."
        )
    if kind in STREAMED:
        return spectrum_of(as_stream(X, y, sample_weight), fit_intercept, solver)
    if y is None:
        raise ValueError(
            "y must be given with X: only chunks and statistics hold their own response."
        )
    if kind in MATRIX_FREE:
        options |= {"solver": solver, "max_gain": max_gain}
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is looked for in the products
            return decompose_matrix_free(*data, **options)
    return factored(validated(*data), solver=solver, max_gain=max_gain)


def validated(X: Any, y: Any, sample_weight: Any, fit_intercept: bool) -> Data:
    """Check data of any kind, and say what is wrong with them."""
    kind = kind_of(X)
    if kind == "tensor":
        return TensorData.validated(X, y, sample_weight, fit_intercept)
    if kind in STREAMED:
        raise TypeError(
            f"X must be rows in memory here; got {type(X).__name__}, whose rows pass by."
        )
    if kind in MATRIX_FREE:
        return MatrixFreeData.validated(X, y, sample_weight, fit_intercept)
    with np.errstate(over="ignore", invalid="ignore"):  # sums that find NaN need not warn as well
        return DenseData.validated(X, y, sample_weight, fit_intercept)


def _filled(data: MatrixFreeData, spectrum: Spectrum, max_gain: float) -> Spectrum:
    """Factor a sparse matrix as a dense one, where squares would lose digits and it is not too large."""
    if data.X.shape[0] * data.X.shape[1] > MOST_FILLED:
        _warn_beyond(spectrum, max_gain)
        return spectrum
    y = data.y[:, 0] if data.single_target else data.y
    weights = None if data.uneven_shares is None else data.uneven_shares * data.n_samples
    filled = DenseData.validated(data.X.toarray(), y, weights, data.fit_intercept)
    return dense.by_svd(filled, max_gain)


def _warn_beyond(spectrum: Spectrum, max_gain: float) -> None:
    """Warn where the largest gain is so far beyond the reach that the error may be visible."""
    steepest = np.inf if spectrum.rank < spectrum.n_features else 1 / spectrum.eigenvalues[0]
    if min(max_gain, steepest) > spectrum.reach * VISIBLE / GRAM_TOLERANCE["float64"]:
        warnings.warn(
            "Columns are so dependent, or so different in scale, that products of features may lose more "
            f"than {VISIBLE:g} of the coefficients at late stops: standardise or drop columns.",
            UserWarning,
            stacklevel=4,
        )


def factored(
    data: Data, known: Moments | None = None, *, solver: Solver = "auto", max_gain: float = np.inf
) -> Spectrum:
    """Factor validated data; ``known`` moments of tall data spare the pass over them."""
    route: Any = tensors if isinstance(data, TensorData) else dense
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is looked for in the products
        if solver != "svd":
            spectrum: Spectrum = route.by_gram(data, known)
            if solver == "gram" or max_gain <= spectrum.reach:
                return spectrum
            if isinstance(data, MatrixFreeData):
                return _filled(data, spectrum, max_gain)
        svd: Spectrum = route.by_svd(data, max_gain)
        return svd
