"""Statistics of the data in one pass, to be merged, updated and saved: all that a tall problem needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.spectrum.moments import Moments, sums
from stoptime.spectrum.streamed.stored import FORMAT, fault
from stoptime.support.arrays import Floats
from stoptime.support.files import load_arrays, save_arrays

__all__ = ["Statistics", "checked_weights"]

CANCELLED = 1e-6  # of a variance: what rounding may leave below zero of a difference
TINY = float(np.finfo(np.float64).tiny)
MOST_FEATURES = 20_000  # their p × p products take 3.2 GB, and a few copies of that are needed


@dataclass(frozen=True, repr=False, eq=False)
class Statistics:
    r"""Means and centred second moments of rows (x, y): what is left of data that are not kept.

    .. math::

        \bar x = \frac1w\sum_i w_i x_i, \qquad
        \hat\Sigma = \frac1w\sum_i w_i (x_i-\bar x)(x_i-\bar x)^T, \qquad w = \sum_i w_i

    and likewise the products with y. Statistics of two sets of rows add up to those of both. They hold
    p × p numbers, whatever the number of rows, and go wherever data go: ``decompose(statistics)``,
    ``StoppedRegressor().fit(statistics)``.

    Attributes
    ----------
    weight : float
        Sum of the sample weights; the number of rows without weights.
    n_rows : int
        Number of rows of positive weight.
    origin, offset : arrays of shape (n_features + n_targets,)
        The mean of (x, y) is their sum. Rows were measured from the origin, so that the offset is small and
        columns with large means keep their digits.
    gram : array of shape (n_features, n_features)
        Mean products of features, centred.
    cross : array of shape (n_features, n_targets)
        Mean products of features with targets, centred.
    target_power : array of shape (n_targets,)
        Mean squares of the targets, centred.
    single_target : bool
        Whether y was a vector.
    names : tuple of str, optional
        Names of the features.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> seen = Statistics.of(X[:300], y[:300])
    >>> seen.update(X[300:], y[300:])
    Statistics(442 rows, 10 features, 1 target)
    """

    weight: float
    n_rows: int
    origin: Floats
    offset: Floats
    gram: Floats
    cross: Floats
    target_power: Floats
    single_target: bool = True
    names: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> Statistics:
        """Return the statistics of rows, in double precision.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Numbers of any type.
        y : array-like of shape (n,) or (n, n_targets)
            The response.
        sample_weight : array-like of shape (n,), optional
            Non-negative. A weight of 2 is the row twice.
        names : sequence of str, optional
            Names of the features, by default the columns of a data frame; only rows of the same features
            can then be added.
        """
        names = column_names(X) if names is None else names
        features, targets = _numeric("X", X, {2}), _numeric("y", y, {1, 2})
        if len(features) != len(targets):
            raise ValueError(
                f"X and y must have the same rows; got {len(features)} and {len(targets)}."
            )
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, len(features))
        names = None if names is None else _checked_names(names, features.shape[1])
        columns = targets.reshape(len(targets), int(np.prod(targets.shape[1:])))
        with np.errstate(over="ignore", invalid="ignore"):  # looked for in the products
            found = sums(features, columns, weights, np.dtype(np.float64), centre=True)
        if not (np.isfinite(found.gram).all() and np.isfinite(found.cross).all()):
            _refuse("X", features)
        if not (np.isfinite(found.target_power).all() and np.isfinite(found.cross).all()):
            _refuse("y", columns)
        np.fill_diagonal(found.gram, np.maximum(np.diagonal(found.gram), 0))
        _check_underflow("X", features, np.diagonal(found.gram))
        _check_underflow("y", columns, found.target_power)
        return cls(
            weight=found.weight,
            n_rows=len(features) if weights is None else int(np.count_nonzero(weights)),
            origin=np.concatenate(found.origin),
            offset=np.concatenate(found.offset),
            gram=found.gram,
            cross=found.cross,
            target_power=found.target_power,
            single_target=targets.ndim == 1,
            names=names,
        )

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.gram.shape[0])

    @property
    def n_targets(self) -> int:
        """Number of columns of y."""
        return int(self.cross.shape[1])

    @property
    def feature_mean(self) -> Floats:
        """Mean of the features."""
        return np.asarray((self.origin + self.offset)[: self.n_features])

    @property
    def target_mean(self) -> Floats:
        """Mean of the targets."""
        return np.asarray((self.origin + self.offset)[self.n_features :])

    def about(self, fit_intercept: bool) -> tuple[Moments, Floats]:
        """Return moments and powers of y about the means, or about zero without an intercept."""
        x, y = self.feature_mean, self.target_mean
        if fit_intercept:
            return Moments(x, y, self.gram, self.cross), self.target_power
        outer = np.multiply.outer
        raw = Moments(0 * x, 0 * y, self.gram + outer(x, x), self.cross + outer(x, y))
        return raw, self.target_power + y**2

    def merge(self, other: Statistics) -> Statistics:
        r"""Return the statistics of both sets of rows; ``a + b`` is the same.

        .. math:: \hat\Sigma = \alpha\hat\Sigma_a + \beta\hat\Sigma_b + \alpha\beta\,dd^T,
            \qquad d = \bar x_b - \bar x_a

        with α and β the shares of the weight.
        """
        self._check_like(other)
        if other.weight == 0 or self.weight == 0:
            return replace(self if other.weight == 0 else other, names=self.names or other.names)
        weight = self.weight + other.weight
        a, b, p = self.weight / weight, other.weight / weight, self.n_features
        d = (other.origin - self.origin) + (other.offset - self.offset)
        gram, cross = a * self.gram, a * self.cross
        gram += b * other.gram
        gram += np.multiply.outer(a * b * d[:p], d[:p])
        cross += b * other.cross + np.multiply.outer(a * b * d[:p], d[p:])
        power = a * self.target_power + b * other.target_power + a * b * d[p:] ** 2
        return Statistics(
            weight, self.n_rows + other.n_rows, self.origin, self.offset + b * d,
            gram, cross, power, self.single_target, self.names or other.names,
        )  # fmt: skip

    __add__ = merge

    def __radd__(self, other: object) -> Statistics:
        """Return the statistics themselves where a sum begins with zero, as ``sum`` does."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def update(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Statistics:
        """Return the statistics with new rows added; see :meth:`of`."""
        return self.merge(Statistics.of(X, y, sample_weight))

    def without(self, part: Statistics) -> Statistics:
        """Return the statistics of the rows that are left when a part is taken away.

        See :meth:`stoptime.spectrum.moments.Moments.without`.
        """
        self._check_like(part)
        if part.weight == 0:
            return self
        if part.weight >= self.weight or part.n_rows >= self.n_rows:
            raise ValueError(f"{part} cannot be a part of {self}, or is all of it.")
        share, p = part.weight / self.weight, self.n_features
        away = (part.origin - self.origin) + part.offset
        mine = Moments(self.offset[:p], self.offset[p:], self.gram, self.cross)
        left = mine.without(Moments(away[:p], away[p:], part.gram, part.cross), share)
        diagonal = np.diagonal(left.gram)
        if np.any(diagonal < -CANCELLED * np.diagonal(self.gram) / (1 - share)):
            raise ValueError(f"{part} cannot be a part of {self}: more would vary than there is.")
        np.fill_diagonal(left.gram, np.maximum(diagonal, 0))
        own, gone = self.offset[p:] - left.target_mean, away[p:] - left.target_mean
        power = self.target_power + own**2 - share * (part.target_power + gone**2)
        return replace(
            self,
            weight=self.weight - part.weight,
            n_rows=self.n_rows - part.n_rows,
            offset=np.concatenate([left.feature_mean, left.target_mean]),
            gram=left.gram,
            cross=left.cross,
            target_power=np.maximum(power / (1 - share), 0),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file that is either whole or not there, readable without pickle."""
        save_arrays(Path(path), self.as_arrays())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Statistics:
        """Read a file that :meth:`save` has written; a ValueError tells what is wrong with any other."""
        return cls.from_arrays(load_arrays(Path(path)), str(path))

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays, for :func:`stoptime.support.files.save_arrays`."""
        names = () if self.names is None else self.names
        return {
            "format": np.array(FORMAT),
            "weight": np.array(float(self.weight)),
            "n_rows": np.array(int(self.n_rows)),
            "origin": self.origin,
            "offset": self.offset,
            "gram": self.gram,
            "cross": self.cross,
            "target_power": self.target_power,
            "single_target": np.array(bool(self.single_target)),
            "names": np.array(names, dtype=np.str_),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], source: str) -> Statistics:
        """Return statistics from stored arrays, checked in every shape and sign."""
        reason = fault(arrays)
        if reason:
            raise ValueError(f"{source} holds no statistics of stoptime: {reason}.")
        names = tuple(str(name) for name in arrays["names"])
        return cls(
            weight=float(arrays["weight"]),
            n_rows=int(arrays["n_rows"]),
            origin=arrays["origin"],
            offset=arrays["offset"],
            gram=arrays["gram"],
            cross=arrays["cross"],
            target_power=arrays["target_power"],
            single_target=bool(arrays["single_target"]),
            names=names or None,
        )

    def _check_like(self, other: Statistics) -> None:
        if not isinstance(other, Statistics):
            raise TypeError(
                f"Statistics can only be joined with Statistics; got {type(other).__name__}."
            )
        mine = self.n_features, self.n_targets, self.single_target
        if mine != (other.n_features, other.n_targets, other.single_target):
            raise ValueError(
                f"{self} and {other} are of different columns, or of y of different shapes."
            )
        if self.names and other.names and self.names != other.names:
            first = next(
                pair for pair in zip(self.names, other.names, strict=True) if pair[0] != pair[1]
            )
            raise ValueError(
                f"Statistics are of different features: {first[0]!r} and {first[1]!r}."
            )

    def __repr__(self) -> str:
        rows = f"{self.n_rows} rows" + (
            "" if self.weight == self.n_rows else f" of weight {self.weight:g}"
        )
        targets = f"{self.n_targets} target" + ("s" if self.n_targets != 1 else "")
        return f"Statistics({rows}, {self.n_features} features, {targets})"


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, where all are different and strings."""
    columns = list(getattr(X, "columns", ()))
    named = (
        columns
        and len({*columns}) == len(columns)
        and all(isinstance(name, str) for name in columns)
    )
    return tuple(columns) if named else None


def checked_weights(sample_weight: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return weights in double precision; a ValueError where they are not finite and non-negative."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be of shape ({n},), one per row; got {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        worst = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise ValueError(f"sample_weight must be finite and non-negative; got {worst!r}.")
    return weights


def check_size(n_features: int) -> None:
    """Raise a ValueError where the products of so many features would not fit into memory."""
    if n_features > MOST_FEATURES:
        size = 8e-9 * n_features**2
        raise ValueError(
            f"Statistics of {n_features} features take {size:.0f} GB, and at most {MOST_FEATURES} features "
            "are accepted: select or project columns first, or fit the rows in memory if they are few."
        )


def _numeric(name: str, data: ArrayLike, ndims: set[int]) -> NDArray[Any]:
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers; got dtype {array.dtype}.")
    if array.ndim not in ndims:
        shape = "(n, n_features)" if ndims == {2} else "(n,) or (n, n_targets)"
        raise ValueError(f"{name} must be of shape {shape}; got {array.shape}.")
    if 0 in array.shape[1:]:
        raise ValueError(f"{name} has no columns.")
    if name == "X":
        check_size(array.shape[1])
    return array


def _checked_names(names: Sequence[str], n_features: int) -> tuple[str, ...]:
    if len(names) != n_features or len(set(names)) != n_features:
        raise ValueError(
            f"names must be {n_features} different names, one per feature; got {len(names)}."
        )
    return tuple(map(str, names))


def _check_underflow(name: str, values: NDArray[Any], powers: Floats) -> None:
    """Raise a ValueError where squares of entries that differ have vanished."""
    for column in np.flatnonzero(powers == 0) if len(values) > 1 else ():
        if np.ptp(values[:, column]) > 0 and not np.any(values[:, column] ** 2 > TINY):
            raise ValueError(
                f"{name} is too small: squares of its entries underflow, as in column {column}. Rescale it."
            )


def _refuse(name: str, columns: NDArray[Any]) -> None:
    """Raise a ValueError that tells the first entry that is not finite, or that squares overflow."""
    wrong = ~np.isfinite(columns)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        kind = "NaN" if np.isnan(columns[row, column]) else "infinity"
        raise ValueError(f"{name} contains {kind}, first in row {row}, column {column}.")
    largest = np.abs(columns.astype(np.float64)).max(initial=0)
    if largest > np.sqrt(np.finfo(np.float64).max) * 1e-9:
        raise ValueError(
            f"{name} is too large: squares of its entries (up to {largest:.3g}) overflow. Rescale it."
        )
