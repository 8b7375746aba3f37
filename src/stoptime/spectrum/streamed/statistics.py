"""Means and products of rows in one pass: they can be merged, updated, saved and fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.spectrum.accuracy import check_range, entries_vary
from stoptime.spectrum.moments import Moments, checked_weights, sums
from stoptime.support.arrays import Floats
from stoptime.support.files import load_arrays, save_arrays

NEGATIVE_VARIANCE = 1e-6  # of a variance: rounding may push a difference this far below zero
MOST_FEATURES = 20_000  # their p × p products take 3.2 GB, and a few copies of that are needed
STATISTICS_FORMAT = 1  # version of the layout of stored files
ASYMMETRY = 1e-8  # relative difference of two stored products that must be equal


@dataclass(frozen=True, repr=False, eq=False)
class Statistics:
    r"""Means and centred second moments of rows (x, y), which stand for streamed data.

    .. math:: \bar x = \frac1w\sum_i w_i x_i, \qquad
        \hat\Sigma = \frac1w\sum_i w_i (x_i-\bar x)(x_i-\bar x)^T, \qquad w = \sum_i w_i

    and likewise the products with y. Statistics of two sets of rows add up to those of both. They
    hold p × p numbers, whatever the number of rows, and are accepted wherever data are:
    ``decompose(statistics)``, ``StoppedRegressor().fit(statistics)``.

    Attributes
    ----------
    weight, n_rows : float and int
        Sum of the sample weights, and number of rows of positive weight.
    origin, offset : arrays of shape (n_features + n_targets,)
        The mean of (x, y) is their sum. Rows were measured from the origin, so that the offset is
        small and columns with large means keep their digits.
    gram, cross : arrays of shape (n_features, n_features) and (n_features, n_targets)
        Mean products of features, and of features with targets, centred.
    target_power : array of shape (n_targets,)
        Mean squares of the targets, centred.
    single_target, names : bool, and tuple of str or None
        Whether y was a vector, and the names of the features.

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
        X, y, sample_weight : array-like
            Rows, response and weights as for :func:`stoptime.decompose`, numbers of any type.
        names : sequence of str, optional
            Names of the features, by default the columns of a data frame; only rows of the same
            features can then be added.
        """
        names = column_names(X) if names is None else names
        features = _numeric("X", X, {2})
        targets = _numeric("y", y, {1, 2})
        n, p = features.shape
        if n != len(targets):
            raise ValueError(f"X and y must have the same rows; got {n} and {len(targets)}.")
        if names is not None and not len(names) == len(set(names)) == p:
            raise ValueError(f"names must be {p} different names of features; got {len(names)}.")
        weights = None if sample_weight is None else checked_weights(sample_weight, n)
        columns = targets.reshape(n, int(np.prod(targets.shape[1:])))
        # NaN, infinity and overflow show in the products, so that rows need no check of their own
        with np.errstate(over="ignore", invalid="ignore"):
            found = sums(features, columns, weights, np.dtype(np.float64), centre=True)
        # rounding may leave the variance of a constant column just below zero
        np.fill_diagonal(found.gram, np.maximum(np.diagonal(found.gram), 0))
        m = found.moments()
        shares = np.ones(n) if weights is None else weights / (weights.max(initial=0) or 1.0)
        _check_entries("X", features, np.diagonal(found.gram), m.feature_mean, shares)
        _check_entries("y", columns, found.target_power, m.target_mean, shares)
        return cls(
            found.weight, n if weights is None else int(np.count_nonzero(weights)),
            np.concatenate(found.origin), np.concatenate(found.offset),
            found.gram, found.cross, found.target_power,
            targets.ndim == 1, None if names is None else tuple(map(str, names)),
        )  # fmt: skip

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
        # origins and offsets are subtracted separately: the difference of large means loses digits
        d = (other.origin - self.origin) + (other.offset - self.offset)
        gram = a * self.gram
        gram += b * other.gram
        gram += np.multiply.outer(a * b * d[:p], d[:p])
        cross = a * self.cross
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
        """Return the statistics of the rows that remain when a part is removed."""
        self._check_like(part)
        if part.weight == 0:
            return self
        if part.weight >= self.weight or part.n_rows >= self.n_rows:
            raise ValueError(f"{part} cannot be a part of {self}: it has as many rows or more.")
        # merging with a negative weight undoes merging
        left = self.merge(replace(part, weight=-part.weight, n_rows=-part.n_rows))
        rest = np.diagonal(left.gram)
        # rounding makes variances slightly negative; rows that were never added, by far
        most = np.diagonal(self.gram) * self.weight / left.weight
        if np.any(rest < -NEGATIVE_VARIANCE * most):
            raise ValueError(f"{part} cannot be a part of {self}: its variance is larger.")
        np.fill_diagonal(left.gram, np.maximum(rest, 0))
        return replace(left, target_power=np.maximum(left.target_power, 0), names=self.names)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file without pickle; an interrupt leaves no incomplete file behind."""
        save_arrays(Path(path), self.as_arrays())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Statistics:
        """Read a file that :meth:`save` has written; any other raises a ValueError."""
        return cls.from_arrays(load_arrays(Path(path)), str(path))

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays, for :func:`stoptime.support.files.save_arrays`."""
        fields = {name: np.asarray(value) for name, value in vars(self).items()}
        fields["weight"] = np.array(float(self.weight))
        fields["names"] = np.array(self.names or (), dtype=np.str_)
        return {"format": np.array(STATISTICS_FORMAT)} | fields

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], source: str) -> Statistics:
        """Return statistics from stored arrays, checked in every shape and sign."""
        reason = _fault(arrays)
        if reason:
            raise ValueError(f"{source} holds no statistics of stoptime: {reason}.")
        values: dict[str, Any] = {name: arrays[name] for name in cls.__dataclass_fields__}
        scalars = {name: arrays[name].item() for name in ("weight", "n_rows", "single_target")}
        return cls(**values | scalars | {"names": tuple(map(str, arrays["names"])) or None})

    def _check_like(self, other: Statistics) -> None:
        if not isinstance(other, Statistics):
            raise TypeError(f"Statistics merge only with Statistics; got {type(other).__name__}.")
        mine = self.n_features, self.n_targets, self.single_target
        if mine != (other.n_features, other.n_targets, other.single_target):
            raise ValueError(
                f"{self} and {other} have different columns, or y of different shapes."
            )
        for one, two in zip(self.names or (), other.names or (), strict=False):
            if one != two:
                raise ValueError(f"The statistics have different features: {one!r} and {two!r}.")

    def __repr__(self) -> str:
        weight = "" if self.weight == self.n_rows else f" of weight {self.weight:g}"
        targets = f"{self.n_targets} target" + ("s" if self.n_targets != 1 else "")
        return f"Statistics({self.n_rows} rows{weight}, {self.n_features} features, {targets})"


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, if they are strings that differ."""
    columns = list(getattr(X, "columns", ()))
    strings = all(isinstance(name, str) for name in columns)
    return tuple(columns) if columns and strings and len({*columns}) == len(columns) else None


def check_size(n_features: int) -> None:
    """Raise a ValueError where the products of so many features would not fit into memory."""
    if n_features > MOST_FEATURES:
        raise ValueError(
            f"Statistics of {n_features} features take {8e-9 * n_features**2:.0f} GB, and at most "
            f"{MOST_FEATURES} features are accepted: select or project columns first, or fit the "
            "rows in memory if they are few."
        )


def _check_entries(
    name: str, columns: NDArray[Any], powers: Floats, means: Floats, shares: Floats
) -> None:
    """Raise a ValueError that names an entry that is not finite, or a column out of range."""
    if not np.isfinite(powers).all() and not np.isfinite(columns).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(columns))[0])
        kind = "NaN" if np.isnan(columns[row, column]) else "infinity"
        raise ValueError(f"{name} contains {kind}, first in row {row}, column {column}.")

    def vanish(small: NDArray[np.bool_]) -> NDArray[np.bool_]:
        # only if all squares underflow to zero, products cannot tell the column from a constant one
        return (powers[small] == 0) & entries_vary(columns, means, shares, small)

    check_range(name, powers, vanish)


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


@np.errstate(invalid="ignore")
def _fault(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return why stored arrays are not valid statistics, or an empty string if they are."""
    cross = arrays.get("cross")
    if cross is None or cross.ndim != 2 or cross.size == 0:
        return "cross is missing" if cross is None else f"cross is of shape {cross.shape}"
    p, q = cross.shape
    # broadcast zeros need no memory, whatever sizes a file claims
    gram = np.broadcast_to(0.0, (p, p))
    means = np.broadcast_to(0.0, (p + q,))
    wanted = Statistics(0.0, 0, means, means, gram, cross, means[p:]).as_arrays()
    for name, like in wanted.items():
        if name not in arrays:
            return f"{name} is missing"
        dtype, shape = arrays[name].dtype, arrays[name].shape
        if dtype.kind != like.dtype.kind or (dtype.kind == "f" and dtype != np.float64):
            return f"{name} is of dtype {dtype}"
        if shape != like.shape and name != "names":
            return f"{name} is of shape {shape} instead of {like.shape}"
    misfit = arrays["names"].shape not in {(0,), (p,)} or (arrays["single_target"] and q != 1)
    gram, power, version = arrays["gram"], arrays["target_power"], arrays["format"]
    numbers = [array for array in arrays.values() if array.dtype.kind == "f"]
    size = np.sqrt(np.diagonal(gram))
    skewed = np.abs(gram - gram.T) > ASYMMETRY * size * size[:, None]
    faults = (
        (misfit, "its names or targets do not fit its shapes"),
        (version != STATISTICS_FORMAT, f"it is of format {version}, not {STATISTICS_FORMAT}"),
        (not all(np.isfinite(one).all() for one in numbers), "it has values that are not finite"),
        (min(arrays["weight"], arrays["n_rows"]) < 0, "its number of rows is negative"),
        (min(np.diagonal(gram).min(), power.min()) < 0, "it has negative mean squares"),
        (skewed.any(), "its gram is asymmetric"),
    )
    return next((reason for wrong, reason in faults if wrong), "")
