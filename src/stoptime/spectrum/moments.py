"""Means and second moments in one pass over the rows: all that tall least squares needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.spectrum.accuracy import check_scale
from stoptime.spectrum.rows import ArrayRows, Rows, checked_weights
from stoptime.support.arrays import Floats, array_namespace, as_float64, constant, like, on_host
from stoptime.support.files import load_arrays, save_arrays

NEAR = 2.0  # standard deviations: a mean so close to zero costs no digits, X is multiplied as it is
MOST_FEATURES = 20_000  # their p × p products take 3.2 GB, and a few copies of that are needed
STATISTICS_FORMAT = 1  # version of the layout of stored files


@dataclass(frozen=True, repr=False, eq=False)
class Statistics:
    r"""Means and centred second moments of rows (x, y), which stand for the rows themselves.

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
        found = moments(ArrayRows(features), columns, weights, single_target=targets.ndim == 1)
        _check_entries("X", features, np.diagonal(found.gram), found.feature_mean)
        _check_entries("y", columns, found.target_power, found.target_mean)
        return replace(found, names=None if names is None else tuple(map(str, names)))

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
        return (self.origin + self.offset)[: self.n_features]

    @property
    def target_mean(self) -> Floats:
        """Mean of the targets."""
        return (self.origin + self.offset)[self.n_features :]

    def about_zero(self) -> Statistics:
        """Return moments about zero, for a fit without an intercept: all means are then zero."""
        x, y = self.feature_mean, self.target_mean
        return replace(
            self,
            origin=0 * self.origin,
            offset=0 * self.offset,
            gram=self.gram + x[:, None] * x,
            cross=self.cross + x[:, None] * y,
            target_power=self.target_power + y**2,
        )

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
        a = self.weight / weight
        b = other.weight / weight
        # origins and offsets are subtracted separately: the difference of large means loses digits
        d = (other.origin - self.origin) + (other.offset - self.offset)
        x, y = d[: self.n_features], d[self.n_features :]
        gram = a * self.gram
        gram += b * other.gram
        gram += (a * b * x)[:, None] * x
        cross = a * self.cross
        cross += b * other.cross + (a * b * x)[:, None] * y
        return replace(
            self,
            weight=weight,
            n_rows=self.n_rows + other.n_rows,
            offset=self.offset + b * d,
            gram=gram,
            cross=cross,
            target_power=a * self.target_power + b * other.target_power + a * b * y**2,
            names=self.names or other.names,
        )

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
        gram, power = as_products(left.gram), nonnegative(left.target_power)
        return replace(left, gram=gram, target_power=power, names=self.names)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file without pickle; an interrupt leaves no incomplete file behind."""
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        values["names"] = np.array(self.names or (), dtype=np.str_)
        values["weight"] = float(self.weight)
        arrays = {name: np.asarray(value) for name, value in values.items()}
        save_arrays(Path(path), {"format": np.array(STATISTICS_FORMAT)} | arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Statistics:
        """Read a file that :meth:`save` has written; any other raises a ValueError."""
        arrays = load_arrays(Path(path))
        reason = _fault(arrays)
        if reason:
            raise ValueError(f"{path} holds no statistics of stoptime: {reason}.")
        values: dict[str, Any] = {one.name: arrays[one.name] for one in fields(cls)}
        for name in ("weight", "n_rows", "single_target"):
            values[name] = arrays[name].item()
        values["names"] = tuple(map(str, arrays["names"])) or None
        return cls(**values)

    def _check_like(self, other: Statistics) -> None:
        if not isinstance(other, Statistics):
            raise TypeError(f"Statistics merge only with Statistics; got {type(other).__name__}.")
        if (self.cross.shape, self.single_target) != (other.cross.shape, other.single_target):
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


@np.errstate(over="ignore", invalid="ignore")  # NaN and overflow are found in the result
def moments(X: Rows, y: Any, weights: Any = None, *, single_target: bool = False) -> Statistics:
    """Accumulate the statistics block by block: X is read once and never copied whole."""
    xp = array_namespace(y)
    n = X.shape[0]
    n_rows = n
    total = float(n)
    if weights is not None:
        host = np.asarray(on_host(weights), np.float64)
        n_rows = int(np.count_nonzero(host))
        total = float(host.sum())
        weights = like(y, host / (total or 1.0))
    shift, target_shift = _guessed_means(X, y, weights)
    shifted = bool(xp.any(shift != 0))
    shares = constant(y, n, 1 / (total or 1.0)) if weights is None else weights
    gram = None if shifted or not n else X.gram(shares)
    if gram is None:
        gram, others, target_total, power = _summed(X, y, weights, (shift, target_shift), shifted)
        if weights is None:
            sums = (gram, others, target_total, power)
            gram, others, target_total, power = (one / (total or 1.0) for one in sums)
    else:
        targets = as_float64(y) - target_shift
        others = X.times_t(shares[:, None] * xp.concat([0 * targets[:, :1] + 1, targets], axis=1)).T
        target_total = shares @ targets
        power = shares @ targets**2
    mean = others[0]
    gram -= mean[:, None] * mean
    # rounding may leave the variance of a constant column just below zero
    return Statistics(
        total,
        n_rows,
        xp.concat([shift, target_shift]),
        xp.concat([mean, target_total]),
        as_products(gram),
        others[1:].T - mean[:, None] * target_total,
        nonnegative(power - target_total**2),
        single_target,
        X.names,
    )


def _summed(X: Rows, y: Any, weights: Any, origin: Any, shifted: bool) -> tuple[Any, ...]:
    """Return sums over rows measured from an origin: products of columns and with one and y."""
    xp = array_namespace(y)
    shift, target_shift = origin
    gram = 0 * shift[:, None] * shift
    others = 0 * xp.concat([shift[None], target_shift[:, None] + shift])
    target_total = 0 * target_shift
    power = 0 * target_shift
    for block in X.blocks():
        features = X.read(block)
        if shifted:
            features = features - shift
        targets = as_float64(y[block]) - target_shift
        left = xp.concat([xp.ones_like(targets[:, :1]), targets], axis=1)
        if weights is not None:
            root = xp.sqrt(weights[block])[:, None]
            features = features * root
            left = left * root
        total = left[:, :1].T @ left
        target_total += total[0, 1:]
        power += xp.sum(left[:, 1:] ** 2, axis=0)
        gram += features.T @ features
        others += left.T @ features
    return gram, others, target_total, power


def _guessed_means(X: Rows, y: Any, weights: Any) -> tuple[Any, Any]:
    """Guess the means from a few rows; zeros for features that are near zero."""
    # subtracting a large mean first leaves little to be cancelled in the second moments
    n = X.shape[0]
    if not n:
        return like(y, np.zeros(X.shape[1])), like(y, np.zeros(y.shape[1]))
    # 64 rows spread over all, because the first ones may be unlike the others
    step = max(n // 64, 1)
    few: Any = slice(0, min(n, 64 * step), step)
    share: Any = 1 / len(range(n)[few])
    if weights is not None:
        host = on_host(weights)
        if n > 64:
            few = np.sort(np.argpartition(host, -64)[-64:])
        share = like(y, host[few] / (host[few].sum() or 1.0))[:, None]
    rows = X.read(few)
    mean = (share * rows).sum(axis=0)
    spread = (share * rows * rows).sum(axis=0) - mean**2
    far = bool((mean**2 > NEAR**2 * spread).any())
    few = few if isinstance(few, slice) else like(y, few)
    return mean if far else 0 * mean, (share * as_float64(y[few])).sum(axis=0)


def diagonal(matrix: Any) -> Any:
    """Return the diagonal of a matrix of any namespace."""
    return array_namespace(matrix).linalg.diagonal(matrix)


def nonnegative(values: Any) -> Any:
    """Return zero for negative numbers."""
    return values * (values > 0)


def as_products(gram: Any) -> Any:
    """Return products of columns, overwritten, without the negative squares of rounding."""
    places = array_namespace(gram).arange(len(gram))
    gram[places, places] = nonnegative(diagonal(gram))
    return gram


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


def _check_entries(name: str, columns: NDArray[Any], powers: Floats, means: Floats) -> None:
    """Raise a ValueError that names an entry that is not finite, or a column of extreme scale."""
    if not np.isfinite(powers).all() and not np.isfinite(columns).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(columns))[0])
        kind = "NaN" if np.isnan(columns[row, column]) else "infinity"
        raise ValueError(f"{name} contains {kind}, first in row {row}, column {column}.")
    check_scale(name, powers, means)


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


def _fault(arrays: dict[str, NDArray[Any]]) -> str:
    """Return why stored arrays are no statistics, or an empty string if they are."""
    for name in ("format", *(one.name for one in fields(Statistics))):
        if name not in arrays:
            return f"{name} is missing"
    if arrays["format"] != STATISTICS_FORMAT:
        return f"it is of format {arrays['format']}"
    p, q = (*arrays["cross"].shape, 0, 0)[:2]
    shapes = {"gram": (p, p), "cross": (p, q), "target_power": (q,), "weight": ()}
    shapes |= {"origin": (p + q,), "offset": (p + q,)}
    fits = [arrays[one].shape == shape for one, shape in shapes.items()]
    fits += [arrays[one].dtype == np.float64 for one in shapes]
    if not all(fits) or p * q == 0 or arrays["names"].shape not in {(0,), (p,)}:
        return "its arrays do not fit each other"
    finite = all(np.isfinite(arrays[name]).all() for name in shapes)
    return "" if finite else "it has values that are not finite"
