r"""Probabilities of classes from decision values, calibrated on values of left-out rows.

.. math:: P(\text{class } k) \propto \exp(a f_k + b_k), \qquad a > 0

For two classes f is (0, f) and b is (0, b), which is Platt's sigmoid; for more classes b is zero
and 1/a is a temperature. The offset b is given as a shift of the decision values, b/a, so that a
shifted value of zero means an even chance. As the decision values are those of rows that the fit
has not seen, the calibration needs neither a split of the data nor a refit. An isotonic calibration
takes any increasing functions in place of this formula.

References
----------
Platt (1999), Probabilistic outputs for support vector machines.
Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import get_scorer

from stoptime.support.arrays import (  # isort: skip
    EPS, Floats, array_namespace, as_float64, constant, like, on_host, pairs,
)  # fmt: skip

LEAST_SLOPE = 1e-6  # decision values that tell nothing give every row the odds of the classes
MOST_NEWTON_STEPS = 64
MOST_SHORTER_STEPS = 60  # that are tried in place of one of these
LEAST_GAIN = 1e-4  # of what the slope promises: a step that gains less is too long

Derivatives = tuple[float, Floats, Floats]  # a value, its slopes and its second derivatives


def calibrated(decisions: Any, place: Any, weights: Any = None) -> tuple[float, float]:
    """Return slope and shift with the least log loss; ``place`` are the true classes of rows.

    The decision values may be a tensor: the work is done on its device.
    """
    values = _columns(decisions)
    xp = array_namespace(values)
    count = float(len(values))
    if weights is None:
        weights = constant(values, len(values), 1 / count)
    else:
        # a weight of 2 counts the row twice, but small weights do not mean few rows
        count = max(weights.sum(), np.count_nonzero(weights))
        weights = like(values, weights / weights.sum())
    is_binary = decisions.ndim == 1
    if not is_binary:
        # below the largest value of their row, so that exponentials do not overflow
        values = values - xp.max(values, axis=1, keepdims=True)
    unit = float(xp.sum(values * values) / len(values)) ** 0.5 or 1.0
    values = values / unit
    wanted = _sums_wanted(values, like(values, place), weights, count)
    # the best probabilities without a slope are the shares of the classes
    start = np.array([0.0, logit(wanted[1])]) if is_binary else np.zeros(1)
    kind = _binary_loss if is_binary else _loss
    loss = partial(kind, values[:, -1] if is_binary else values, weights, wanted)
    found = _lowest(loss, start)
    # left-out values of pure noise predict the wrong class: a negative slope would rely on that
    least = LEAST_SLOPE * unit
    if found[0] < least:
        found[0] = least

        def of_offset(offset: Floats) -> Derivatives:
            value, slopes, curvature = loss(np.append(least, offset))
            return value, slopes[1:], curvature[1:, 1:]

        found[1:] = _lowest(of_offset, start[1:])
    slope = float(found[0]) / unit
    return slope, float(found[1:].sum()) / slope


def _binary_loss(values: Any, weights: Any, wanted: Floats, place: Floats) -> Derivatives:
    """Return the log loss of two classes at a slope and an offset, and its derivatives."""
    xp = array_namespace(values)
    logits = float(place[0]) * values + float(place[1])
    small = xp.exp(-abs(logits))
    value = weights @ (xp.clip(logits, 0, None) + xp.log1p(small))
    chances = xp.where(logits > 0, 1.0, small) / (1 + small)
    weighted = weights * chances
    slopes = float(weighted @ values), float(xp.sum(weighted))
    weighted = weighted * (1 - chances)
    own = weighted * values
    shared = float(xp.sum(own))
    curvature = np.array([[float(own @ values), shared], [shared, float(xp.sum(weighted))]])
    return float(value) - float(place @ wanted), slopes - wanted, curvature


def _loss(values: Any, weights: Any, wanted: Floats, place: Floats) -> Derivatives:
    """Return the log loss of several classes at a slope, and its derivatives."""
    xp = array_namespace(values)
    odds = xp.exp(float(place[0]) * values)
    totals = xp.sum(odds, axis=1)
    value = weights @ xp.log(totals)
    # mean and variance of the values of every row under its probabilities
    odds *= values
    means = xp.sum(odds, axis=1) / totals
    odds *= values
    variances = xp.sum(odds, axis=1) / totals - means * means
    slope = np.array([float(weights @ means)]) - wanted[:1]
    return float(value) - place[0] * wanted[0], slope, np.array([[float(weights @ variances)]])


def _lowest(loss: Callable[[Floats], Derivatives], start: Floats) -> Floats:
    """Return where a convex function is least, by Newton's method."""
    place = start
    value, slopes, curvature = loss(place)
    for _ in range(MOST_NEWTON_STEPS if start.size else 0):
        # equal decision values have no curvature
        step = np.linalg.solve(curvature + EPS * np.eye(len(start)), slopes)
        gain = float(slopes @ step)
        if gain <= EPS * abs(value):
            break
        # far from the least value a step may lead too far: then half of it is tried
        for _ in range(MOST_SHORTER_STEPS):
            lower, slopes, curvature = loss(place - step)
            if lower <= value - LEAST_GAIN * gain:
                break
            step = step / 2
            gain /= 2
        else:
            break
        place = place - step
        value = lower
    return place


def probabilities(slope: float, decisions: Floats) -> Floats:
    """Return the probability of every class, of shape (n, n_classes)."""
    return np.asarray(softmax(slope * _columns(np.asarray(decisions)), axis=1))


def isotonic(
    decisions: Floats, place: NDArray[np.intp], weights: Floats | None, shift: float
) -> tuple[float, list[IsotonicRegression]]:
    """Return a shift, and increasing functions of shifted decision values that fit the classes.

    Of two classes only the second has a function, and the shift gives zero an even chance. The
    shift that is given serves where no value does.
    """
    curves = _curves(decisions, place, weights)
    values, chances = curves[0].X_thresholds_, curves[0].y_thresholds_
    if decisions.ndim == 1 and chances[0] < 0.5 < chances[-1]:
        shift = -float(np.interp(0.5, chances, values))
    return shift, _curves(decisions + shift, place, weights)


def _curves(
    decisions: Floats, place: NDArray[np.intp], weights: Floats | None
) -> list[IsotonicRegression]:
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    classes = [1] if decisions.ndim == 1 else range(decisions.shape[1])
    curves = [IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip") for _ in classes]
    for curve, column, one in zip(curves, columns.T, classes, strict=True):
        curve.fit(column, place == one, sample_weight=weights)
    return curves


def isotonic_probabilities(curves: list[IsotonicRegression], decisions: Floats) -> Floats:
    """Return the probability of every class, of shape (n, n_classes)."""
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    fitted = zip(curves, columns.T, strict=True)
    chances = np.column_stack([curve.predict(column) for curve, column in fitted])
    if decisions.ndim == 1:
        return np.column_stack([1 - chances, chances])
    # the classes are fitted one by one: their chances are scaled to a sum of one
    chances[chances.sum(axis=1) == 0] = 1.0
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def chosen(classes: NDArray[Any], decisions: Floats) -> NDArray[Any]:
    """Return the class of each row: of two classes the second above zero, else the largest."""
    if decisions.ndim == 1:
        return np.asarray(classes[(decisions > 0).astype(np.intp)])
    return np.asarray(classes[decisions.argmax(axis=1)])


def coded(place: Any, count: int) -> Any:
    """Return ±1: a vector for two classes, else a column for each class."""
    classes = like(place, np.arange(count))
    signs = as_float64(place == 1 if count == 2 else place[:, None] == classes)
    signs *= 2
    signs -= 1
    return signs


def _columns(decisions: Any) -> Any:
    """Return decision values in double precision, one column for each class."""
    values = as_float64(decisions)
    return pairs(0 * values, values) if values.ndim == 1 else values


def _sums_wanted(
    values: Any, place: Any, weights: Any, n_observations: float
) -> NDArray[np.float64]:
    r"""Return the part of the log loss that is linear in slope and offset; weights add to one.

    With the targets T the log loss is :math:`\sum_i w_i (\log\sum_k e^{z_{ik}} - \sum_k T_{ik}
    z_{ik})`, and the second term is the product of slope and offset with the sums returned here.
    """
    xp = array_namespace(values)
    n_classes = values.shape[1]
    member = values[like(values, np.arange(len(place))), place]
    # the weights of a class, and its weighted sums of values of its own and of all classes
    parts = [weights, weights * member, weights * xp.sum(values, axis=1)]
    totals, members, sums = (on_host(xp.bincount(place, one, n_classes)) for one in parts)
    # Platt's targets, which leave a probability to the classes that were not seen
    own = (n_observations * totals + 1) / (n_observations * totals + 2)
    other = (1 - own) / (n_classes - 1)
    offset = other @ totals + (own - other)[-1] * totals[-1]
    return np.array([(own - other) @ members + other @ sums, offset])


class OnLabels:
    """A scorer of coded labels and decision values, from one of labels and a classifier."""

    def __init__(self, scoring: str | Callable[..., float], classes: NDArray[Any]) -> None:
        self.name = scoring if isinstance(scoring, str) else "score"
        self.scorer = get_scorer(scoring)
        self.classes = classes

    def __call__(self, model: Any, X: Floats, y: Floats, **options: Any) -> float:
        """Score decision values, which are the predictions of a regressor."""
        place = y.argmax(axis=1) if y.ndim > 1 else (y > 0).astype(np.intp)
        decisions = model.predict(X)
        slope, shift = calibrated(decisions, place, options.get("sample_weight"))
        decided = _Decided(self.classes, slope)
        return float(self.scorer(decided, decisions + shift, self.classes[place], **options))


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are its decision values already, for scorers."""

    def __init__(self, classes: NDArray[Any], slope: float) -> None:
        self.classes_ = classes
        self.slope = slope

    def decision_function(self, X: Floats) -> Floats:
        """Return the decision values themselves."""
        return X

    def predict(self, X: Floats) -> NDArray[Any]:
        """Return the labels."""
        return chosen(self.classes_, X)

    def predict_proba(self, X: Floats) -> Floats:
        """Return the probabilities of the classes."""
        return probabilities(self.slope, X)
