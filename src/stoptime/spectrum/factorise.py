"""From rows or their moments to a spectrum: by XᵀX, by XXᵀ, or by QR and SVD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from stoptime.spectrum.accuracy import (
    EXACT,
    SAFETY,
    Rounding,
    check_scale,
    hidden_power,
    is_constant,
)
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.moments import NEAR, Statistics, diagonal
from stoptime.spectrum.rows import BLOCK_NUMBERS, Rows, Sample
from stoptime.support.arrays import (
    EPS,
    Floats,
    array_namespace,
    as_float64,
    is_device_array,
    like,
    on_host,
    slices,
)


@dataclass(frozen=True, eq=False)
class CentredOperator:
    r"""The centred, weighted X as an operator A that is never formed.

    .. math:: A = D^{1/2}(I - \mathbf 1 d^T)X, \qquad A^TA = X^TX/n

    with d the weights divided by their sum, D their diagonal matrix, and ``root`` the square roots
    of d.
    """

    X: Rows
    root: Any
    centre: bool
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, p = self.X.shape
        return (p, n) if self.is_transposed else (n, p)

    @property
    def T(self) -> CentredOperator:  # noqa: N802 - as arrays have it
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    def __matmul__(self, other: Any) -> Any:
        # vectors are centred instead of the matrix, so that A and Aᵀ are adjoint to the last digit
        # even if the means are large
        if self.is_transposed:
            if self.centre:
                other = other - (self.root * (self.root @ other)[..., None]).T
            return self.X.times_t((self.root * other.T).T)
        image = self.X.times(other)
        if self.centre:
            image = image - self.root**2 @ image
        return (self.root * image.T).T


def assembled(
    data: Any,
    factors: tuple[Floats, Any, Floats],
    means: tuple[Any, Any],
    power: Floats,
    solver: str,
    accuracy: Any,
) -> Spectrum:
    """Return the spectrum of a sample, or of streamed data, with eigenvalues, basis, response."""
    s, basis, response = factors
    # a vector y gives a vector response
    one = (..., 0) if data.single_target else ...
    if not np.isfinite(response).all():
        raise ValueError("Products of X and y overflow: rescale them.")
    return Spectrum(
        s,
        basis,
        response[one],
        data.n_samples,
        data.n_observations,
        means[0],
        means[1][one],
        power[one],
        data.fit_intercept,
        solver,
        accuracy,
        precision=data.precision,
    )


def _diagonalised(
    moments: Statistics, fit_intercept: bool
) -> tuple[Statistics, Floats, Floats, Any]:
    """Return moments about the means or about zero, mean squares of columns, and eigenpairs."""
    m = moments if fit_intercept else moments.about_zero()
    powers = np.asarray(on_host(diagonal(m.gram)))
    mean = on_host(m.feature_mean)
    check_scale("X", powers, mean)
    check_scale("y", on_host(m.target_power), on_host(m.target_mean))
    # only rounding errors are left of a constant column: zeros keep it out of every direction
    flat = is_constant(powers, mean)
    if flat.any():
        kept = like(m.gram, (~flat).astype(np.float64))
        gram = m.gram * kept * kept[:, None]
        m = replace(m, gram=gram, cross=m.cross * kept[:, None])
        powers = np.where(flat, 0, powers)
    # eigh keeps the digits of small columns only if the largest columns come first
    if powers.max() <= 100 * powers.min():
        return m, powers, *_eigh(m.gram)
    order = np.argsort(-powers, kind="stable")
    index = like(m.gram, order)
    s, vectors = _eigh(m.gram[index][:, index])
    return m, powers, s, vectors[like(m.gram, np.argsort(order))]


@np.errstate(over="ignore", invalid="ignore")  # overflow is found by the checks
def by_features(sample: Sample, moments: Statistics) -> Spectrum:
    """Diagonalise XᵀX."""
    m, powers, s, vectors = _diagonalised(moments, sample.fit_intercept)
    fade_out = sample.X.fade_out
    if fade_out:
        # there is no gap below which a better factorisation would begin
        first = _rank_cut(s, sample.rounding)
    else:
        first = _resolve(sample, s, vectors, partial(_image_gram, sample, m.feature_mean))
    response = on_host(vectors.T @ m.cross)
    accuracy = EXACT if fade_out else _of_products(sample, s, first, response, powers)
    solver = "kernel" if fade_out else "gram"
    factors = s[first:], vectors[:, first:], response[first:]
    means = m.feature_mean, m.target_mean
    return assembled(sample, factors, means, on_host(m.target_power), solver, accuracy)


@np.errstate(over="ignore", invalid="ignore")
def by_statistics(data: Any, moments: Statistics, lengths: Any = None) -> Spectrum:
    """Diagonalise XᵀX where there are no rows to look up directions that it has lost.

    ``lengths`` returns those of the columns that were combined to each eigenvector, for moments in
    the standard form of a penalty.
    """
    if moments.weight == 0:
        raise ValueError("There is no row of positive weight to fit.")
    m, powers, s, vectors = _diagonalised(moments, data.fit_intercept)
    response = vectors.T @ m.cross
    scales = _combined(m.gram, s, vectors)
    if lengths is not None:
        scales = np.maximum(scales, lengths(vectors))
    # a product of two columns is a sum over rows, whose random rounding errors grow as √n
    hidden = EPS * (moments.n_features + np.sqrt(moments.n_rows))
    rounding = EPS * max(moments.n_features, moments.n_rows)
    kept = s > np.maximum(hidden * scales**2, rounding**2 * s[-1])
    # rounding alone explains the response of a direction that X annihilates
    power = on_host(m.target_power)
    mixed = np.linalg.norm((scales[kept] / s[kept])[:, None] * response[kept], axis=0)
    doubt = SAFETY * EPS * scales[~kept, None] * (np.sqrt(power) + mixed)
    dead = scales[~kept, None] ** 2 <= rounding**4 * s[-1]  # combinations of dead columns
    lost = np.where(~dead & (np.abs(response[~kept]) > doubt), response[~kept], 0)
    accuracy = Rounding(
        unit=EPS * float(np.max(scales[kept] ** 2, initial=0)),
        worst=EPS * float(np.max(scales[kept] ** 2 / s[kept], initial=0)),
        largest=float(s[-1]),
        dropped=_share(lost, response),
        hidden=hidden_power(powers, rounding),
    )
    factors = s[kept], vectors[:, kept], response[kept]
    return assembled(data, factors, (m.feature_mean, m.target_mean), power, "gram", accuracy)


@np.errstate(over="ignore", invalid="ignore")
def by_rows(sample: Sample) -> Spectrum:
    """Diagonalise XXᵀ, whose eigenvectors give those of XᵀX as combinations of the rows."""
    rows: Any
    root = sample.shares**0.5
    means = sample.means
    powers = column_powers(sample)
    if np.any(on_host(means[0]) ** 2 > NEAR**2 * powers):
        # centring in products would lose the digits of columns whose means are large
        rows, means, powers = centred(sample)
        product = rows @ rows.T
    else:
        rows = CentredOperator(sample.X, root, sample.fit_intercept)
        product = sample.X.outer()
        product *= root
        product *= root[:, None]
    if sample.fit_intercept and len(product) > 1:
        s, left = without_null(product, root, _eigh)
    else:
        s, left = _eigh(product)
    first = _resolve(sample, s, left, partial(_image_gram_of, rows.T))
    lengths = np.sqrt(np.maximum(s, 0))
    targets = root[:, None] * (as_float64(sample.y) - means[1])
    response = lengths[:, None] * on_host(left.T @ targets)
    accuracy = _of_products(sample, s, first, response, powers)
    basis = DualVectors(rows, left[:, first:] / like(left, lengths[first:]))
    factors = s[first:], basis, response[first:]
    return assembled(sample, factors, means, sample.target_power(), "gram", accuracy)


@np.errstate(over="ignore", invalid="ignore")
def by_svd(sample: Sample) -> Spectrum:
    """Take the singular values of a QR factor, accurate where squares would lose the small ones."""
    rows, means, powers = centred(sample)
    targets = (sample.shares**0.5)[:, None] * (as_float64(sample.y) - means[1])
    n, p = rows.shape
    if p <= n:
        components, triangle = _projected(rows, targets)
        left, lengths, right = _svd(triangle)
        vectors = right.T
        components = left.T @ components
    else:
        vectors, triangle = _qr(rows.T)
        left, lengths, right = _svd(triangle.T)
        components = left.T @ targets
        # block by block, without a second array of the size of X
        for block in slices(p, 4 * BLOCK_NUMBERS // n):
            vectors[block] = vectors[block] @ right.T
    first = _rank_cut(lengths, sample.rounding, sample.X.floor)
    response = lengths[first:, None] * on_host(components)[first:]
    vectors[like(vectors, powers == 0)] = 0  # a constant column has coefficients of exactly zero
    hidden = hidden_power(powers, sample.rounding)
    accuracy = Rounding(hidden=hidden, tolerance=sample.tolerance)
    factors = lengths[first:] ** 2, vectors[:, first:], response
    return assembled(sample, factors, means, sample.target_power(), "svd", accuracy)


def centred(sample: Sample) -> tuple[Any, tuple[Any, Any], Floats]:
    """Return centred, weighted rows in a new array, the means, and mean squares of columns."""
    root = (sample.shares**0.5)[:, None]
    means = sample.means
    if sample.on_device:
        rows = sample.X.read(slice(None)) - means[0]
    else:
        # laid out for LAPACK to overwrite
        rows = np.empty(sample.X.shape, order="F" if sample.n_features <= sample.n_rows else "C")
        for block in sample.X.blocks():
            np.subtract(sample.X.read(block), means[0], out=rows[block])
    rows *= root if sample.uneven_shares is not None else root[0, 0]
    powers = _squares(rows)
    # a mean so many standard deviations away shows in the rank cut
    limit = (0.05 * max(rows.shape)) ** 2
    if sample.fit_intercept and np.any(on_host(means[0]) ** 2 > limit * powers):
        # centre once more: the mean of large numbers is itself rounded
        remainder = root[:, 0] @ rows
        rows -= root * remainder
        means = means[0] + remainder, means[1]
        powers = _squares(rows)
    sample.check_features(powers, means[0])
    flat = is_constant(powers, on_host(means[0]))
    if flat.any():
        rows[:, like(rows, flat)] = 0
    return rows, means, np.where(flat, 0, powers)


def column_powers(sample: Sample) -> Floats:
    """Return the mean squares of the centred columns, zero if they are constant."""
    mean = sample.means[0]
    powers = np.asarray(on_host(sample.X.mean_squares(sample.shares, mean)))
    sample.check_features(powers, mean)
    return np.where(is_constant(powers, on_host(mean)), 0, powers)


def _squares(rows: Any) -> Floats:
    """Return the sum of squares of every column, without an array of squares."""
    return np.asarray(on_host(array_namespace(rows).einsum("ij,ij->j", rows, rows)))


def _of_products(
    sample: Sample, s: Floats, first: int, response: Floats, powers: Floats
) -> Rounding:
    """Return the accuracy of a product whose eigenvalues from the ``first`` on are kept."""
    if first == len(s):
        return Rounding(tolerance=sample.tolerance)
    dropped = 0.0
    if first:
        # dropping directions is harmless if X maps them to rounding errors
        cut = max(sample.rounding * np.sqrt(s[-1]), sample.X.floor)
        real = np.sqrt(np.maximum(s[:first], 0)) > cut
        share = _share(np.where(real[:, None], response[:first], 0), response)
        # a share is never known better than to rounding, even if the computed one is zero
        dropped = max(share, EPS) if real.any() else 0.0
    return Rounding(
        unit=EPS * float(s[-1]),
        worst=EPS * float(s[-1] / s[first]),
        largest=float(s[-1]),
        dropped=dropped,
        hidden=hidden_power(powers, sample.rounding),
        tolerance=sample.tolerance,
    )


def _share(lost: Floats, response: Floats) -> float:
    """Return the largest share that some directions have in the response of a target."""
    total = np.linalg.norm(response, axis=0)
    return float(np.max(np.linalg.norm(lost, axis=0) / np.where(total > 0, total, 1), initial=0))


def _combined(gram: Floats, s: Floats, vectors: Floats) -> Floats:
    r"""Return d of each direction, where the product of two is off by about :math:`\eta d_id_j`.

    .. math:: d_i^2 = c_i(c_i + \rho_i/\eta), \qquad c_i^2 = \sum_a V_{ai}^2\hat\Sigma_{aa}, \qquad
        \rho_i = \max_a|\hat\Sigma V - VS|_{ai}/\sqrt{\hat\Sigma_{aa}}
    """
    # products of columns are rounded in proportion to their lengths; ρ is the residual of eigh
    lengths = np.sqrt(np.diagonal(gram))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    found = np.empty_like(s)
    for part in slices(len(s), 2**5 * BLOCK_NUMBERS // len(s)):
        v = vectors[:, part]
        size = np.linalg.norm(lengths[:, None] * v, axis=0)
        residual = np.abs(inverse[:, None] * (gram @ v - v * s[part])).max(axis=0)
        found[part] = np.sqrt(size * (size + residual / (2 * EPS)))
    return found


def _resolve(sample: Sample, s: Floats, vectors: Any, gram_of: Callable[[Any], Any]) -> int:
    """Tell apart the directions that a product has lost; return how many are only rounding.

    The eigenvalues ``s`` of the product, ascending, and the vectors are overwritten; ``gram_of``
    returns the products of the images of vectors under X.
    """
    floor = sample.X.floor**2
    first = _rank_cut(s, sample.rounding, floor)
    if not 0 < first < len(s):
        return first
    # a product holds squares of lengths, of which the small ones are less than rounding errors of
    # the largest; among the images of the lost directions alone there are no large ones
    lost, turn = _eigh(gram_of(vectors[:, :first]))
    vectors[:, :first] = vectors[:, :first] @ turn
    s[:first] = np.clip(lost, 0, s[first])
    # rounding has mixed them with the directions that were kept, most with the shortest
    mixed = SAFETY * EPS * np.sqrt(max(sample.X.shape) / s[first] * s[-1])
    return _rank_cut(s, max(sample.rounding, mixed) ** 2, floor)


def _image_gram(sample: Sample, mean: Any, vectors: Any) -> Any:
    """Return the products of images under the centred, weighted X."""
    total: Any = 0
    for block in sample.X.blocks():
        images = sample.X.rotated(block, mean, vectors)
        total = total + images.T @ (sample.shares[block, None] * images)
    return total


def _image_gram_of(matrix: Any, vectors: Any) -> Any:
    """Return VᵀAᵀAV for a matrix A, a few vectors at a time to need little memory."""
    gram = vectors.T @ vectors
    for some in slices(vectors.shape[1], 2**5 * BLOCK_NUMBERS // max(matrix.shape)):
        gram[:, some] = vectors.T @ (matrix.T @ (matrix @ vectors[:, some]))
    return (gram + gram.T) / 2


def _rank_cut(ascending: Floats, rounding: float, floor: float = 0.0) -> int:
    """Return how many of the smallest values are no more than rounding errors of the largest.

    Nor are those up to the ``floor``, where X is what rounding has left of other numbers.
    """
    cut = max(rounding * ascending[-1], floor)
    return int(np.searchsorted(ascending, cut, side="right"))


def _eigh(gram: Any) -> tuple[Floats, Any]:
    """Return eigenvalues on the host, ascending, and eigenvectors where the matrix is."""
    eigenvalues, vectors = array_namespace(gram).linalg.eigh(gram)
    return on_host(eigenvalues), vectors


def _svd(triangle: Any) -> tuple[Any, Floats, Any]:
    """Return singular vectors, and singular values on the host, ascending as eigenvalues are."""
    xp = array_namespace(triangle)
    left, lengths, right = xp.linalg.svd(triangle, full_matrices=False)
    return xp.flip(left, axis=1), on_host(lengths)[::-1].copy(), xp.flip(right, axis=0)


def _qr(rows: Any) -> tuple[Any, Any]:
    if is_device_array(rows):
        return tuple(array_namespace(rows).linalg.qr(rows))
    return linalg.qr(rows, mode="economic", overwrite_a=True)


def _projected(rows: Any, targets: Any) -> tuple[Any, Any]:
    # Qᵀy and R: LAPACK needs no Q for them, which would be as large as X
    if is_device_array(rows):
        basis, triangle = _qr(rows)
        return basis.T @ targets, triangle
    p = rows.shape[1]
    if targets.shape[1] <= p and rows.size + targets.size <= 2**20:
        # NumPy has no such product, but its threads and SciPy's would compete for the cores
        whole: Any = np.linalg.qr(np.hstack([rows, targets]), mode="r")
        return whole[:p, p:], whole[:p, :p]
    components, triangle = linalg.qr_multiply(rows, targets.T, mode="right", overwrite_a=True)
    return components.T, triangle


def without_null(
    matrix: Any, null: Any, eigenpairs: Callable[[Any], tuple[Floats, Any]]
) -> tuple[Floats, Any]:
    """Return the eigenpairs of a symmetric matrix, which is overwritten, without a null vector.

    The null vector has unit length and no negative entry; ``eigenpairs`` diagonalises the rest.
    """
    # centring creates this null direction; the reflection I - 2vvᵀ takes it to the first axis,
    # where it is cut off, so that its zero does not mix with small eigenvalues
    normal = 1 * null
    normal[0] += 1
    normal /= float(normal @ normal) ** 0.5
    image = 2 * (matrix @ normal)
    image -= (normal @ image) * normal
    # in blocks of rows: memory for a whole outer product costs more time than the sums
    for rows in slices(len(matrix), BLOCK_NUMBERS // len(matrix)):
        matrix[rows] -= normal[rows, None] * image
        matrix[rows] -= image[rows, None] * normal
    eigenvalues, vectors = eigenpairs(matrix[1:, 1:])
    mirrored = (-2 * normal)[:, None] * (normal[1:] @ vectors)
    mirrored[1:] += vectors
    return eigenvalues, mirrored
