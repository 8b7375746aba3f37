"""From data of any kind to a spectrum: the one place where the kind of a container is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.centred import owned
from stoptime.spectrum.data import Data, worst_goals
from stoptime.spectrum.dense import DenseData
from stoptime.spectrum.kinds import kind_of
from stoptime.spectrum.krylov.operator import MatrixFreeData
from stoptime.spectrum.streamed.data import StreamedData, as_stream
from stoptime.support.checks import nonnegative

__all__ = ["Solver", "decompose", "open_data"]

Solver = Literal["auto", "gram", "svd", "krylov"]
KRYLOV_OPTIONS = {"tol", "max_rank", "probes", "seed", "verbose"}


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
    check_solver(solver)
    data = open_data(X, y, sample_weight, fit_intercept, **options)
    gain = float(nonnegative("max_gain", max_gain, infinite=True))
    spectrum = data.spectrum(worst_goals(gain), solver)
    # eigenvectors of wide data may refer to the user's array, which may change later
    return replace(spectrum, basis=owned(spectrum.basis))


def check_solver(solver: Any) -> None:
    """Raise a ValueError where a solver has no such name."""
    if solver not in {"auto", "gram", "svd", "krylov"}:
        raise ValueError(f'solver must be "auto", "gram", "svd" or "krylov"; got {solver!r}.')


def open_data(
    X: Any, y: Any = None, sample_weight: Any = None, fit_intercept: bool = True, **options: Any
) -> Data:
    """Validate data of any kind, once, and return them as what the rest of the library asks.

    Parameters are those of :func:`decompose`.
    """
    kind = kind_of(X)
    if kind in {"sparse", "operator"}:
        if unknown := options.keys() - KRYLOV_OPTIONS:
            names = ", ".join(sorted(KRYLOV_OPTIONS))
            raise TypeError(f"{', '.join(unknown)}: no option; there are {names}.")
        data = MatrixFreeData.validated(X, y, sample_weight, fit_intercept)
        return replace(data, options=options)
    if options:
        raise TypeError(
            f"{', '.join(options)}: for sparse matrices and operators; see "
            "scipy.sparse.linalg.aslinearoperator."
        )
    if kind == "dense":
        return DenseData.validated(X, y, sample_weight, fit_intercept)
    return StreamedData(as_stream(X, y, sample_weight), fit_intercept)
