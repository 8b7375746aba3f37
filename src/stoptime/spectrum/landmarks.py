r"""Kernels by landmarks: features of rows that are computed a block at a time and never stored.

With m landmark rows Z, :math:`f(x) = \sum_j\alpha_jk(z_j, x) + b` is linear in the features

.. math:: \phi(x) = R^Tk(Z, x), \qquad RR^T = (k(Z, Z) + \delta I)^{-1}.

The penalty ‖β‖² is the norm of f in the space of the kernel; δ only keeps the features accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite

from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Want
from stoptime.spectrum.kinds import rows_in_memory
from stoptime.spectrum.radial import Columns
from stoptime.spectrum.row_data import RowData
from stoptime.spectrum.rows import Index, Rows, Sample
from stoptime.spectrum.source import WITHOUT_BLOCKS, WITHOUT_RESPONSE, Block, Source
from stoptime.spectrum.sources import Chunks, DaskRows, dask_rows
from stoptime.spectrum.streams import StreamData
from stoptime.support.arrays import (
    array_namespace,
    as_float64,
    empty,
    is_device_array,
    like,
    numbers_on_device,
    slices,
)

JITTER = 1e-11  # of the trace of k(Z, Z): features of larger eigenvalues keep four digits
KERNEL_VALUES = 2**22  # kernel values at once on the host: 32 MB, enough for fast products

KernelFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """The features φ of rows, given prepared landmarks.

    ``prepare`` standardises rows in double precision, and ``kernel`` takes two sets of prepared
    rows. If they are ``centred``, numbers near the means of all features are subtracted.
    """

    prepare: Columns
    kernel: KernelFunction
    landmarks: Any
    centred: bool

    @cached_property
    def _factors(self) -> tuple[Any, Any]:
        gram = as_float64(self.kernel(self.landmarks, self.landmarks))
        xp = array_namespace(gram)
        identity = like(gram, np.eye(len(gram)))
        jitter = JITTER * float(xp.linalg.trace(gram)) * identity
        try:
            lower = xp.linalg.cholesky((gram + gram.T) / 2 + jitter)
        except getattr(xp.linalg, "LinAlgError", np.linalg.LinAlgError):
            raise ValueError(
                "The kernel is not positive semi-definite on the landmarks: choose another kernel, "
                "or other parameters."
            ) from None
        root = xp.linalg.solve(lower, identity).T
        # landmarks are drawn at random: their mean is near that of all rows
        mean = times_triangle(gram, root).sum(axis=0) / len(gram)
        return root, mean if self.centred else 0 * mean

    @property
    def root(self) -> Any:
        """The R above, upper triangular, of as many columns as landmarks."""
        return self._factors[0]

    @property
    def origin(self) -> Any:
        """The numbers that are subtracted from the features."""
        return self._factors[1]

    def checked(self, X: Any) -> Any:
        """Return rows of any container in memory where the landmarks are."""
        rows = rows_in_memory(X, self.landmarks)
        if rows.shape[1] != self.landmarks.shape[1]:
            wanted = self.landmarks.shape[1]
            raise ValueError(f"X has {rows.shape[1]} features, but {wanted} were fitted.")
        return rows

    def values(self, rows: Any) -> Any:
        """Return the kernel between rows and landmarks."""
        return self.kernel(self.prepare(rows), self.landmarks)

    def __call__(self, rows: Any) -> Any:
        """Return the features of rows."""
        features = times_triangle(self.values(rows), self.root)
        features -= self.origin
        return features


def times_triangle(values: Any, triangle: Any) -> Any:
    """Return the product with an upper triangular matrix, without most of its zeros."""
    out = empty(values, values.shape)
    # eight blocks of columns leave out nearly half of the product
    for some in slices(len(triangle), -(-len(triangle) // 8)):
        out[:, some] = values[:, : some.stop] @ triangle[: some.stop, some]
    return out


class LandmarkRows(Rows):
    """Features of the rows of a container: an array, a memory map, a sparse matrix or a tensor."""

    can_be_copied = False  # all features together may be far larger than the rows
    fade_out = True

    def __init__(self, X: Any, features: LandmarkFeatures) -> None:
        self.X = X
        self.features = features
        self.shape = int(X.shape[0]), int(features.landmarks.shape[0])
        self.precision = features.landmarks.dtype
        # the newest directions to which features were rotated, and R times them
        self._turned: list[Any] = []

    def read(self, index: Index) -> Any:
        """Return the features of some rows."""
        return self.features(self._taken(index))

    def rotated(self, index: Index, mean: Any, vectors: Any) -> Any:
        """Return centred features of some rows times vectors, by one product."""
        if not (self._turned and self._turned[0] is vectors):
            self._turned[:] = [vectors, self.features.root @ vectors]
        values = self.features.values(self._taken(index))
        return values @ self._turned[1] - (mean + self.features.origin) @ vectors

    def fingerprint(self, weights: Any) -> Any:
        """Return weighted sums of the rows themselves, for which no kernel is evaluated."""
        return weights @ (as_float64(self.X) if is_device_array(self.X) else self.X)

    def _taken(self, index: Index) -> Any:
        return self.X[index if isinstance(index, slice) else like(self.X, index)]

    def blocks(self, width: int | None = None) -> Iterator[slice]:
        """Cut the rows into blocks of so many kernel values as keep a processor busy."""
        landmarks = self.features.landmarks
        numbers = KERNEL_VALUES
        if is_device_array(landmarks):
            numbers = numbers_on_device(landmarks)
        return slices(self.X.shape[0], numbers // max(width or 1, landmarks.shape[0]))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_turned": []}


@dataclass(frozen=True)
class LandmarkData(RowData):
    """A sample with features by landmarks in the place of X.

    Two passes, one for the second moments of the features and one that rotates them, give exact
    leave-one-out at every stop. Without a row, the fit still has it among its landmarks if it is
    one of them. The same landmarks serve all folds.
    """

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, features: LandmarkFeatures) -> LandmarkData:
        """Return data of checked rows and response, which is put where the features are."""
        if not is_device_array(y):
            y = like(features.landmarks, np.asarray(y, np.float64))
        rows = LandmarkRows(X, features)
        return cls(Sample.of(rows, as_float64(y), sample_weight, features.centred))

    def subset(self, rows: NDArray[np.intp]) -> LandmarkData:
        """Return some of the rows."""
        every = cast("LandmarkRows", self.sample.X)
        some = LandmarkRows(every._taken(rows), every.features)
        return LandmarkData(replace(self.sample.take(rows), X=some))

    def with_features(self, features: LandmarkFeatures) -> LandmarkData:
        """Return the same rows with other features."""
        rows = cast("LandmarkRows", self.sample.X)
        return LandmarkData(replace(self.sample, X=LandmarkRows(rows.X, features)))

    def test(self, X: Any, y: Any) -> Any:
        """Return the features of new rows as a test set."""
        features = cast("LandmarkRows", self.sample.X).features
        return super().test(features(features.checked(X)), y)


@dataclass(frozen=True)
class LandmarkStream(StreamData):
    """Streamed features by landmarks."""

    def spectrum(self, want: Want = Want()) -> Spectrum:  # noqa: ARG002, B008 - complete and frozen
        """Diagonalise the second moments of the features, whose rounding is that of kernels."""
        return self._spectrum.accepted()


@dataclass(frozen=True)
class KernelProduct:
    """Kernel values of new rows, which are multiplied with coefficients a block at a time."""

    features: LandmarkFeatures
    X: Any

    def __matmul__(self, coef: Any) -> Any:
        blocks = slices(self.X.shape[0], KERNEL_VALUES // self.features.landmarks.shape[0])
        parts = [self.features.values(self.X[block]) @ coef for block in blocks]
        return array_namespace(parts[0]).concat(parts)


def mapped(stream: Any, function: Callable[[Any], Any], width: int) -> Any:
    """Return streamed rows, chunks or a Dask collection, each block replaced by a function of it.

    ``width`` is the number of columns of the result, which has no names.
    """
    if isinstance(stream, DaskRows):
        return replace(stream, X=mapped(stream.X, function, width), names=None)
    if not isinstance(stream, Source):
        rows = dask_rows(stream)
        # an empty block tells Dask what a block is, so that it does not try the function
        options = {"dtype": np.float64, "meta": np.empty((0, 0))}
        return rows.map_blocks(_of_block, function, chunks=(rows.chunks[0], (width,)), **options)

    def read() -> Iterator[Block]:
        for block in stream.blocks():
            yield block._replace(X=_of_block(np.asarray(block.X), function))

    return Chunks(read, width, stream.n_rows)


def _of_block(rows: Any, function: Callable[[Any], Any]) -> Any:
    assert_all_finite(rows, input_name="X")
    return function(rows)


def sampled(source: Source, count: int, rng: np.random.Generator) -> Block:
    """Return so many rows of a stream, drawn uniformly, in one pass; all if there are fewer."""
    kept: list[Any] = []
    for block in source.blocks():
        if block.y is None:
            raise ValueError(WITHOUT_RESPONSE)
        # every row has a random number, and those of the smallest numbers stay
        parts = (None if one is None else np.asarray(one) for one in block)
        new: list[Any] = [rng.random(len(block.X)), *parts]
        if kept:
            pairs = zip(kept, new, strict=True)
            new = [None if one is None else np.concatenate([old, one]) for old, one in pairs]
        first = np.argsort(new[0])[:count]
        kept = [None if one is None else one[first] for one in new]
    if not kept or not len(kept[0]):
        raise ValueError(WITHOUT_BLOCKS)
    return Block(*kept[1:])
