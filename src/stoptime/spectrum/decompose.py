"""Factor data of any kind; here data come in and their kind is told, once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.spectrum.base import OnDemand, Spectrum
from stoptime.spectrum.data import Data, Want
from stoptime.spectrum.kinds import kind_of, sample_of
from stoptime.spectrum.krylov import KrylovData, KrylovOptions
from stoptime.spectrum.penalised import Penalised
from stoptime.spectrum.row_data import RowData
from stoptime.spectrum.sources import as_stream
from stoptime.spectrum.streams import StreamData
from stoptime.support.checks import nonnegative, truth_value

Solver = Literal["auto", "gram", "svd", "krylov"]


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

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, p), LinearOperator, tensor, or streamed data
        All are processed in double precision; coefficients of float32 are rounded to float32.
        Arrays on disk (memory maps, zarr, HDF5) are read in blocks, as often as needed, and so is
        a class of your own that derives from ``stoptime.spectrum.rows.Rows``. Streamed data
        (Chunks, Statistics, Dask collections) are read once, and factored by "gram".
    y : array-like of shape (n,) or (n, n_targets)
        The response; leave it out for chunks and statistics, which contain it.
    sample_weight : array-like of shape (n,), optional
        Non-negative. A weight of 2 counts the row twice; n becomes the sum of the weights.
    fit_intercept : bool, default=True
        Whether to centre X and y.
    penalty_matrix : matrix of shape (k, p), Differences, Bands or "standardise", optional
        The L of a penalty ‖Lβ‖², in whose geometry all methods then work. Directions with Lβ = 0
        are never shrunk; one with a constant fit is left to the intercept. "standardise" penalises
        each coefficient in the unit of its column's standard deviation on all rows. In a Krylov
        space, ``tol`` is then an error of Lβ.
    solver : {"auto", "gram", "svd", "krylov"}, default="auto"
        "gram" diagonalises the smaller of XᵀX and XXᵀ. "svd" is several times slower, but accurate
        for ill-conditioned data. "auto" turns from "gram" to "svd" if the relative error of the
        coefficients could exceed 1e-10 (float32: 1e-8). "krylov", for sparse matrices and operators
        only, computes Ritz values of a Krylov space started from the response; "auto" uses it
        unless X is sparse with at most 1000 rows or columns.
    max_gain : float, default=inf
        The largest gain φ(0, t) that you will need: about t, or t² for an accelerated method. A
        moderate one avoids "svd" for ill-conditioned data, and keeps a Krylov space small;
        :func:`stoptime.path` knows its method, and often needs less.
    **options
        For sparse matrices and operators only. ``tol=1e-6``: the largest relative error that is
        expected of the coefficients. ``max_rank``: the largest number of Krylov vectors, of 8p
        bytes each, which targets share; by default 2 GiB of them. ``probes=0``, ``rng=0``: random
        probes that estimate all eigenvalues, for degrees of freedom, path GCV and the plug-in
        oracle, and their seed. ``verbose=False``: whether to show progress.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> decompose(*load_diabetes(return_X_y=True))
    Spectrum(442 samples, 10 features, rank 10, solver='gram')
    """
    check_solver(solver)
    data = open_data(X, y, sample_weight, fit_intercept, penalty_matrix=penalty_matrix, **options)
    gain = float(nonnegative("max_gain", max_gain, infinite=True))
    spectrum = data.spectrum(Want.up_to(gain, solver=solver))
    if isinstance(spectrum.basis, OnDemand) and kind_of(X) in {"dense", "sparse"}:
        # eigenvectors of wide data refer to the user's container, which may change later
        return replace(spectrum, basis=deepcopy(spectrum.basis))
    return spectrum


def check_solver(solver: Any) -> None:
    """Raise a ValueError if there is no such solver."""
    if solver not in {"auto", "gram", "svd", "krylov"}:
        raise ValueError(f'solver must be "auto", "gram", "svd" or "krylov"; got {solver!r}.')


def open_data(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    fit_intercept: bool = True,
    *,
    penalty_matrix: Any = None,
    **options: Any,
) -> Data:
    """Validate data of any kind, once; the parameters are those of :func:`decompose`."""
    kind = kind_of(X)
    fit_intercept = truth_value("fit_intercept", fit_intercept)
    data: Data
    if kind in {"sparse", "operator"}:
        known = KrylovOptions.__dataclass_fields__
        if unknown := options.keys() - known.keys():
            names = ", ".join(sorted(known))
            raise TypeError(f"{', '.join(unknown)}: no option of this name; there are {names}.")
        sample = sample_of(X, y, sample_weight, fit_intercept)
        data = KrylovData(sample, KrylovOptions(**options))
    elif options:
        raise TypeError(
            f"{', '.join(options)}: only for sparse matrices and operators; see "
            "scipy.sparse.linalg.aslinearoperator."
        )
    elif kind == "stream":
        data = StreamData(as_stream(X, y, sample_weight), fit_intercept)
    else:
        data = RowData(sample_of(X, y, sample_weight, fit_intercept))
    return data if penalty_matrix is None else Penalised(data, penalty_matrix)
