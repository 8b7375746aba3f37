r"""Values of a kernel to a spectrum: features that are never formed, only their inner products.

A coefficient vector in the space of the features is a combination of the rows, and what is fitted is a
combination of the kernel's columns,

.. math:: f(x) = \sum_i \alpha_i k(x_i, x) + b.

The columns of the kernel matrix therefore take the place of the columns of X, and α that of β.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from sklearn.utils import check_array

from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.centred import Mirror
from stoptime.spectrum.dense import DenseData
from stoptime.support.arrays import Floats

__all__ = ["decompose_kernel"]

ASYMMETRIC = 1e-6  # of the largest entry: more is no rounding
INDEFINITE = 1e-6  # of the largest eigenvalue: more below zero is no rounding
CENTRINGS = 4.0  # roundings of an entry, in units of eps times the largest
PIVOT = 8.0  # in units of eps times the largest diagonal entry: smaller pivots are rounding
LOW_RANK = 0.6  # share of the rows up to which a factor of fewer columns costs less
PROBES = 4
LARGEST = 1e150  # entries, whose squares are summed


def decompose_kernel(
    K: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> Spectrum:
    r"""Factor a kernel matrix once, for every method at every stop.

    .. math:: W^{1/2}CKC^TW^{1/2} = USU^T, \qquad z = S^{1/2}U^TW^{1/2}y, \qquad
        \hat\alpha(t) = W^{1/2}US^{-1/2}\varphi(S, t)z

    with W the weights divided by their sum, and C = I - 1wᵀ where there is an intercept. The result stands
    for data whose columns are those of K: a path drawn from it has coefficients α, and predicts from the
    values of the kernel between new rows and those of the training set.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Symmetric, and positive semi-definite once it is centred.
    y : array-like of shape (n,) or (n, n_targets)
        The response.
    sample_weight : array-like of shape (n,), optional
        Non-negative. A weight of 2 is the row twice; n becomes the sum of the weights.
    fit_intercept : bool, default=True
        Whether to centre the features and y.

    Returns
    -------
    Spectrum
        In double precision. Eigenvalues within rounding of zero are left out, and so are those that are no
        larger than the most negative one.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.metrics.pairwise import linear_kernel
    >>> X, y = load_diabetes(return_X_y=True)
    >>> decompose_kernel(linear_kernel(X), y)
    Spectrum(442 samples, 442 features, rank 10, solver='kernel')
    """
    K = np.asarray(check_array(K, dtype=np.float64, input_name="kernel matrix"))
    largest = largest_entry(K)
    _check_size(largest)
    _check_symmetric(K, largest)
    data = DenseData.validated(K, y, sample_weight, fit_intercept)
    root, mean, target_mean = np.sqrt(data.shares), np.zeros(len(K)), np.zeros(data.y.shape[1])
    rounding = CENTRINGS * np.finfo(np.float64).eps * largest
    if fit_intercept:
        mean, target_mean = data.shares @ K, data.shares @ data.y
        mirror = Mirror.onto_first(root)
        eigenvalues, left = _eigenpairs(mirror.without_first(_weighted(K, data)), rounding)
        left = mirror.with_first(left)
    else:
        eigenvalues, left = _eigenpairs(_weighted(K, data), rounding)
    lengths = np.sqrt(eigenvalues)
    response = lengths[:, None] * (left.T @ (root[:, None] * (data.y - target_mean)))
    left /= lengths
    # in coordinates that are columns of K, a weighted row is a multiple of a unit vector
    basis = DualVectors(sparse.diags_array(root), left)
    return data.spectrum(eigenvalues, basis, response, (mean, target_mean), "kernel", np.inf)


def _weighted(K: Floats, data: DenseData) -> Floats:
    """Return every entry times the roots of both its weights."""
    if data.uneven_shares is None:
        return np.asarray(K / len(K))
    root = np.sqrt(data.shares)
    return np.asarray(root[:, None] * K * root)


def _check_size(largest: float) -> None:
    if largest > LARGEST:
        raise ValueError(
            f"The kernel matrix is too large: squares of its entries (up to {largest:.3g}) overflow. Rescale "
            "X, for example with StandardScaler, or the kernel."
        )


def _check_symmetric(K: Floats, largest: float) -> None:
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"The kernel matrix must be square, with values between all training rows; got shape {K.shape}."
        )
    probe = _probes(len(K))
    if np.linalg.norm(K @ probe - (probe.T @ K).T) > ASYMMETRIC * largest:
        worst = float(np.abs(K - K.T).max())
        raise ValueError(
            f"The kernel matrix must be symmetric; its entries differ by up to {worst:.3g}."
        )


def _probes(n: int) -> Floats:
    """Return a few random vectors: a matrix that takes all of them to zero is zero."""
    return np.random.default_rng(0).standard_normal((n, PROBES))


def largest_entry(matrix: Floats) -> float:
    """Return the largest size of an entry."""
    return max(float(matrix.max()), -float(matrix.min()))


def _eigenpairs(gram: Floats, rounding: float) -> tuple[Floats, Floats]:
    """Return the positive eigenvalues, ascending, and their eigenvectors; the matrix is overwritten.

    Kernels of smooth functions, and of few columns, have a low rank: a Cholesky factorisation finds it at a
    tenth of the price of all eigenvectors.
    """
    n, eps = len(gram), float(np.finfo(np.float64).eps)
    if n == 0:  # one row, and an intercept
        return np.empty(0), np.empty((0, 0))
    factor = _cholesky(gram)
    if factor is None:
        eigenvalues, vectors = _eigh(gram)
    else:  # orthonormal columns first: eigenvectors of FᵀF would lose the small directions
        span, triangle = linalg.qr(factor, mode="economic", overwrite_a=True, check_finite=False)
        eigenvalues, vectors = _eigh(triangle @ triangle.T)
    least, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if least < -max(INDEFINITE * largest, rounding):
        raise ValueError(
            "The kernel is not positive semi-definite on these data (eigenvalues of its matrix, divided by "
            f"n, go from {least:.3g} to {largest:.3g}), so it is no inner product of features: choose "
            "another kernel or other parameters of it."
        )
    cut = max(eps * n * largest, rounding, -least)
    kept = slice(int(np.searchsorted(eigenvalues, cut, side="right")), None)
    return eigenvalues[kept], vectors[:, kept] if factor is None else span @ vectors[:, kept]


def _cholesky(gram: Floats) -> Floats | None:
    """Return F with few columns and FFᵀ the matrix, or None where there is none."""
    n, diagonal = len(gram), np.diagonal(gram)
    eps, largest = float(np.finfo(np.float64).eps), float(diagonal.max())
    if largest <= 0:
        return None
    tolerance = PIVOT * eps * largest
    if _has_full_rank(gram[::2, ::2], tolerance):
        return None  # then that of the whole is above a half
    lower, pivots, rank, _ = linalg.lapack.dpstrf(gram.T, tol=tolerance, lower=1)
    if rank > LOW_RANK * n:
        return None
    factor = np.empty((n, rank))
    factor[pivots - 1] = np.tril(lower[:, :rank])
    # an indefinite matrix ends the factorisation early too: a few random vectors see what was left
    probes = _probes(n)
    left_over = np.linalg.norm(gram @ probes - factor @ (factor.T @ probes))
    return factor if left_over <= PIVOT * eps * n * np.trace(gram) else None


def _has_full_rank(gram: Floats, tolerance: float) -> bool:
    """Tell it from pivots in the order of the rows, which cost a fifth of those in the best order."""
    try:
        pivots = np.diagonal(np.linalg.cholesky(gram)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool(pivots.min() > tolerance)


def _eigh(matrix: Floats) -> tuple[Floats, Floats]:
    try:
        driver = (
            "evd" if len(matrix) > 1 else "ev"
        )  # SciPy 1.12 gives "evd" too little room for one row
        columns = matrix.T  # which is the same, and laid out as LAPACK reads it
        eigenvalues, vectors = linalg.eigh(
            columns, driver=driver, overwrite_a=True, check_finite=False
        )
    except np.linalg.LinAlgError:
        raise ValueError(
            "The factorisation of the kernel matrix did not converge: rescale it."
        ) from None
    return np.asarray(eigenvalues), np.asarray(vectors)
