"""Dense data to a spectrum: by XᵀX, by XXᵀ, or by QR and SVD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from stoptime.spectrum.accuracy import constant, reach, reach_of_columns
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.support.arrays import EPS, array_namespace, is_device_array, like, on_host, slices

if TYPE_CHECKING:
    from stoptime.spectrum.dense import DenseData
    from stoptime.support.arrays import Floats

COPIED_NUMBERS = 2**20  # of X and y, which are factored together if they are few
MIRROR_NUMBERS = 2**17  # numbers of a temporary array: a megabyte, which stays in the cache
BLOCK_HEIGHT = 4096  # rows of eigenvectors that are rotated at once
IMAGES_AT_ONCE = 256  # vectors whose images are formed together
LOST_SAFETY = 8.0  # factor of the estimated rounding error of directions that a product has lost


@np.errstate(over="ignore", invalid="ignore")  # overflow is found by check_range
def by_features(data: DenseData) -> Spectrum:
    """Diagonalise XᵀX."""
    m = data.moments()
    powers = on_host(diagonal(m.gram))
    data.check_features(powers, m.feature_mean)
    # only rounding errors are left of a constant column: zeros keep it out of every direction
    flat = constant(powers, on_host(m.feature_mean))
    if flat.any():
        mask = like(m.gram, flat)
        m.gram[mask] = 0
        m.gram[:, mask] = 0
        m.cross[mask] = 0
        powers = np.where(flat, 0, powers)
    eigenvalues, vectors = _eigh(m.gram)
    first = _resolve(data, eigenvalues, vectors, partial(data.image_gram, means=m.feature_mean))
    response = on_host(vectors.T @ m.cross)
    far = reach(data, eigenvalues, first, response, powers)
    kept = eigenvalues[first:], vectors[:, first:], response[first:]
    return data.assembled(*kept, (m.feature_mean, m.target_mean), "gram", far)


@np.errstate(over="ignore", invalid="ignore")
def by_rows(data: DenseData) -> Spectrum:
    """Diagonalise XXᵀ, whose eigenvectors give those of XᵀX as combinations of the rows."""
    rows, targets, means, powers = data.centred_in_products()
    product = rows @ rows.T
    # the trace is the sum of the mean squares of all columns, if they are not known one by one
    data.check_features(on_host(diagonal(product)).sum() if powers is None else powers, means[0])
    powers = np.zeros(data.n_features) if powers is None else powers
    if data.fit_intercept and len(product) > 1:
        eigenvalues, left = without_null(product, data.shares**0.5, _eigh)
    else:
        eigenvalues, left = _eigh(product)
    first = _resolve(data, eigenvalues, left, partial(image_gram, rows.T))
    lengths = np.sqrt(np.maximum(eigenvalues, 0))
    response = lengths[:, None] * on_host(left.T @ targets)
    far = reach(data, eigenvalues, first, response, powers)
    basis = DualVectors(rows, left[:, first:] / like(left, lengths[first:]))
    return data.assembled(eigenvalues[first:], basis, response[first:], means, "gram", far)


@np.errstate(over="ignore", invalid="ignore")
def by_svd(data: DenseData) -> tuple[Spectrum, Floats]:
    """Take the singular values of a QR factor, accurate where squares would lose the small ones.

    The mean squares of the columns are returned too.
    """
    rows, targets, means, powers = data.centred()
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
        for block in slices(p, BLOCK_HEIGHT):
            vectors[block] = vectors[block] @ right.T
    first = _rank_cut(lengths, data.rounding)
    response = lengths[first:, None] * on_host(components)[first:]
    vectors[like(vectors, powers == 0)] = 0  # a constant column has coefficients of exactly zero
    far = reach_of_columns(data, powers)
    kept = lengths[first:] ** 2, vectors[:, first:], response
    return data.assembled(*kept, means, "svd", far), powers


def _resolve(data: DenseData, s: Floats, vectors: Any, gram_of: Callable[[Any], Any]) -> int:
    """Tell apart the directions that a product has lost; return how many are only rounding.

    The eigenvalues ``s`` of the product, ascending, and the vectors are overwritten; ``gram_of``
    returns the products of the images of vectors under X.
    """
    first = _rank_cut(s, data.rounding)
    if not 0 < first < len(s):
        return first
    # a product holds squares of lengths, of which the small ones are less than rounding errors of
    # the largest; among the images of the lost directions alone there are no large ones
    lost, turn = _eigh(gram_of(vectors[:, :first]))
    vectors[:, :first] = vectors[:, :first] @ turn
    s[:first] = np.clip(lost, 0, s[first])
    # rounding has mixed them with the directions that were kept, most with the shortest
    mixed = LOST_SAFETY * EPS * np.sqrt(max(data.X.shape) / s[first] * s[-1])
    return _rank_cut(s, max(data.rounding, mixed) ** 2)


def image_gram(matrix: Any, vectors: Any) -> Any:
    """Return VᵀAᵀAV for a matrix A, a few vectors at a time to need little memory."""
    gram = vectors.T @ vectors
    for some in slices(vectors.shape[1], IMAGES_AT_ONCE):
        gram[:, some] = vectors.T @ (matrix.T @ (matrix @ vectors[:, some]))
    return (gram + gram.T) / 2


def diagonal(matrix: Any) -> Any:
    """Return the diagonal of a matrix of any namespace."""
    return array_namespace(matrix).linalg.diagonal(matrix)


def _rank_cut(ascending: Floats, rounding: float) -> int:
    """Return how many of the smallest values are no more than rounding errors of the largest."""
    return int(np.searchsorted(ascending, rounding * ascending[-1], side="right"))


@contextmanager
def advising(
    advice: str, failed: str = "The factorisation of X did not converge", xp: Any = np
) -> Iterator[None]:
    """Turn the error of a factorisation that does not converge into advice."""
    try:
        yield
    except getattr(xp.linalg, "LinAlgError", np.linalg.LinAlgError):
        raise ValueError(f"{failed}: {advice}.") from None


def _eigh(gram: Any) -> tuple[Floats, Any]:
    """Return eigenvalues on the host, ascending, and eigenvectors where the matrix is."""
    xp = array_namespace(gram)
    with advising('rescale its columns, or use solver="svd"', xp=xp):
        eigenvalues, vectors = xp.linalg.eigh(gram)
    return on_host(eigenvalues), vectors


def _svd(triangle: Any) -> tuple[Any, Floats, Any]:
    """Return singular vectors, and singular values on the host, ascending as eigenvalues are."""
    xp = array_namespace(triangle)
    with advising('rescale its columns, or use solver="gram"', xp=xp):
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
    if targets.shape[1] <= p and rows.size + targets.size <= COPIED_NUMBERS:
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
    for rows in slices(len(matrix), MIRROR_NUMBERS // len(matrix)):
        matrix[rows] -= normal[rows, None] * image
        matrix[rows] -= image[rows, None] * normal
    eigenvalues, vectors = eigenpairs(matrix[1:, 1:])
    mirrored = (-2 * normal)[:, None] * (normal[1:] @ vectors)
    mirrored[1:] += vectors
    return eigenvalues, mirrored
