r"""Kernel matrices to a spectrum: inner products of features that are never formed.

A coefficient vector in feature space is a combination of the rows, so that the fit is

.. math:: f(x) = \sum_i \alpha_i k(x_i, x) + b.

The columns of the kernel matrix therefore take the place of the columns of X, and α that of β.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.utils import check_array

from stoptime.spectrum.accuracy import EXACT, SAFETY, check_scale
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.data import Data, RowsToTest, Want
from stoptime.spectrum.factorise import assembled, without_null
from stoptime.spectrum.kinds import sample_of
from stoptime.spectrum.row_data import SampleData
from stoptime.spectrum.rows import ArrayRows, Sample
from stoptime.support.arrays import EPS, Floats, on_host
from stoptime.support.checks import truth_value


def decompose_kernel(
    K: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, fit_intercept: bool = True
) -> Spectrum:
    r"""Factor a kernel matrix once, for every method at every stop.

    .. math:: W^{1/2}CKC^TW^{1/2} = USU^T, \qquad z = S^{1/2}U^TW^{1/2}y, \qquad
        \hat\alpha(t) = W^{1/2}US^{-1/2}\varphi(S, t)z

    with W the weights divided by their sum, and C = I - 1wᵀ if there is an intercept. A path drawn
    from the result has coefficients α. It predicts from the kernel between new rows and training
    rows. The result is in double precision. Eigenvalues within rounding of zero are left out, and
    so are those no larger than the absolute value of the most negative one.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Symmetric, and positive semi-definite after centring.
    y, sample_weight, fit_intercept
        As for :func:`stoptime.decompose`; an intercept centres the features, not the columns of K.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.metrics.pairwise import linear_kernel
    >>> X, y = load_diabetes(return_X_y=True)
    >>> decompose_kernel(linear_kernel(X), y)
    Spectrum(442 samples, 442 features, rank 10, solver='kernel')
    """
    centred = truth_value("fit_intercept", fit_intercept)
    return KernelData.of(K, y, sample_weight, centred).spectrum()


@dataclass(frozen=True)
class KernelData(SampleData):
    """A sample with the kernel matrix of its rows in the place of X, in double precision."""

    sample: Sample
    # those of the training rows, by which new rows become kernel values; else they are such values
    features: Any = None

    @classmethod
    def of(
        cls,
        K: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        fit_intercept: bool,
        features: Any = None,
    ) -> KernelData:
        """Check a kernel matrix, including its symmetry."""
        K = np.asarray(check_array(K, dtype=np.float64, input_name="kernel matrix"))
        largest = largest_entry(K)
        with np.errstate(over="ignore"):
            # small entries are harmless, as they are not squared
            check_scale("The kernel matrix", np.maximum(np.square(largest), 1.0))
        if K.shape[0] != K.shape[1]:
            raise ValueError(
                "The kernel matrix must be square, with values between all training rows; got "
                f"shape {K.shape}."
            )
        worst = float(np.abs(K - K.T).max())
        # a larger asymmetry is not rounding
        if worst > 1e-6 * largest:
            raise ValueError(
                f"The kernel matrix must be symmetric; its entries differ by up to {worst:.3g}."
            )
        return cls(sample_of(K, y, sample_weight, fit_intercept), features)

    @classmethod
    def of_some(cls, K: Floats, sample: Sample, features: Any = None) -> KernelData:
        """Return data of a kernel matrix that is known to be symmetric, on the host."""
        shares = sample.uneven_shares
        shares = None if shares is None else np.asarray(on_host(shares))
        y = np.asarray(on_host(sample.y))
        return cls(replace(sample, X=ArrayRows(K), y=y, uneven_shares=shares), features)

    def with_features(self, features: Any) -> KernelData:
        """Return the same data with the kernel of these features."""
        matrix = features.kernel(features.landmarks, features.landmarks)
        return replace(self, sample=replace(self.sample, X=ArrayRows(matrix)), features=features)

    def spectrum(self, want: Want = Want()) -> Spectrum:  # noqa: ARG002, B008 - complete and frozen
        """Return the spectrum, which is always complete."""
        return self._spectrum

    @cached_property
    def _spectrum(self) -> Spectrum:
        """The centred, weighted kernel matrix, diagonalised."""
        sample = self.sample
        K = sample.X.matrix()
        root = np.sqrt(sample.shares)
        weighted = K / len(K) if sample.uneven_shares is None else root[:, None] * K * root
        # an entry is rounded a few times while rows and columns are centred
        eigenpairs = partial(_eigenpairs, rounding=4 * EPS * largest_entry(K))
        means = sample.means
        if sample.fit_intercept:
            eigenvalues, left = without_null(weighted, root, eigenpairs)
        else:
            eigenvalues, left = eigenpairs(weighted)
        lengths = np.sqrt(eigenvalues)
        response = lengths[:, None] * (left.T @ (root[:, None] * (sample.y - means[1])))
        left /= lengths
        # in coordinates that are columns of K, a weighted row is a multiple of a unit vector
        basis = DualVectors(sparse.diags_array(root), left)
        factors = eigenvalues, basis, response
        return assembled(sample, factors, means, sample.target_power(), "kernel", EXACT)

    def _fold(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Data, RowsToTest]:
        K = self.sample.X.matrix()
        own = K[np.ix_(test, train)]
        weights = self._weights_of_tests(test)
        tested = RowsToTest(own, self.sample.y[test], weights, columns=train)
        return KernelData.of_some(K[np.ix_(train, train)], self.sample.take(train)), tested

    def test(self, X: Any, y: ArrayLike) -> RowsToTest:
        """Return the kernel between new rows and the training rows as a test set."""
        own = self.features
        return super().test(X if own is None else own.values(own.checked(X)), y)


def largest_entry(matrix: Floats) -> float:
    """Return the largest absolute value of an entry."""
    return max(float(matrix.max()), -float(matrix.min()))


def _eigenpairs(gram: Floats, rounding: float) -> tuple[Floats, Floats]:
    """Return the positive eigenvalues, ascending, and their eigenvectors; overwrites the matrix."""
    n = len(gram)
    if n == 0:  # one row, and an intercept
        return np.empty(0), np.empty((0, 0))
    # smooth kernels, and those of few columns, have a low rank: a Cholesky factorisation finds it
    # in a tenth of the time of all eigenvectors
    factor = _cholesky(gram)
    # not by SciPy, whose pool of threads would compete for the cores with that of other products
    if factor is None:
        eigenvalues, vectors = np.linalg.eigh(gram)
    else:  # orthonormal columns first: eigenvectors of FᵀF would lose the small directions
        span, triangle = linalg.qr(factor, mode="economic", overwrite_a=True, check_finite=False)
        eigenvalues, vectors = np.linalg.eigh(triangle @ triangle.T)
    least, largest = eigenvalues[[0, -1]]
    # a more negative eigenvalue is not rounding
    if least < -max(1e-6 * largest, rounding):
        raise ValueError(
            "The kernel is not positive semi-definite on these data (eigenvalues of its matrix, "
            f"divided by n, range from {least:.3g} to {largest:.3g}): choose another kernel, or "
            "other parameters."
        )
    cut = max(EPS * n * largest, rounding, -least)
    kept = slice(int(np.searchsorted(eigenvalues, cut, side="right")), None)
    return eigenvalues[kept], vectors[:, kept] if factor is None else span @ vectors[:, kept]


def _cholesky(gram: Floats) -> Floats | None:
    """Return F with few columns and FFᵀ equal to the matrix, or None if there is no such F."""
    n = len(gram)
    tolerance = SAFETY * EPS * float(np.diagonal(gram).max())
    if tolerance <= 0:
        return None
    lower, pivots, rank, _ = linalg.lapack.dpstrf(gram.T, tol=tolerance, lower=1)
    # with more columns the factor is no faster than all eigenvectors
    if rank > 0.6 * n:
        return None
    factor = np.empty((n, rank))
    factor[pivots - 1] = np.tril(lower[:, :rank])
    # an indefinite matrix ends the factorisation early too: random vectors reveal the remainder
    probes = np.random.default_rng(0).standard_normal((n, 4))
    remainder = np.linalg.norm(gram @ probes - factor @ (factor.T @ probes))
    return factor if remainder <= SAFETY * EPS * n * np.trace(gram) else None
