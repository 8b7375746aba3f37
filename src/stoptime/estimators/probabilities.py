r"""Probabilities of classes from decision values, calibrated on values of left-out rows.

.. math:: P(\text{class } k) \propto \exp(a f_k + b_k), \qquad a > 0

For two classes f is (0, f) and b is (0, b), which is Platt's sigmoid; for more classes b is zero
and 1/a is a temperature. The offset b is given as a shift of the decision values, b/a, so that a
shifted value of zero means an even chance. As the decision values are those of rows that the fit
has not seen, the calibration needs neither a split of the data nor a refit.

References
----------
Platt (1999), Probabilistic outputs for support vector machines.
Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, check_consistent_length, column_or_1d, compute_sample_weight

from stoptime.stopping.held_out import check_splitter
from stoptime.support.arrays import (
    EPS,
    Array,
    Floats,
    array_namespace,
    as_float64,
    constant,
    like,
    on_host,
    slices,
)
from stoptime.support.checks import nonnegative, row_numbers

LEAST_SLOPE = 1e-6  # decision values that tell nothing give every row the odds of the classes

Split = tuple[NDArray[np.intp], NDArray[np.intp]]  # the rows of a training and a test set
Derivatives = tuple[Floats, Floats, Floats]  # values, slopes and second derivatives, one row each


def calibrated(decisions: Any, place: Any, weights: Any = None) -> tuple[float, float]:
    """Return slope and shift with the least log loss; ``place`` are the true classes of rows.

    The decision values may be a tensor: the work is done on its device.
    """
    slopes, shifts = calibrated_at_stops(decisions[None], place, weights)
    return float(slopes[0]), float(shifts[0])


def calibrated_at_stops(decisions: Any, place: Any, weights: Any = None) -> tuple[Floats, Floats]:
    r"""Return slopes and shifts for many stops, along the first axis of the decision values.

    The log loss is :math:`\sum_i w_i (\log\sum_k e^{z_{ik}} - \sum_k T_{ik} z_{ik})`.
    """
    values = as_float64(decisions)
    xp = array_namespace(values)
    n_stops, n_rows = values.shape[:2]
    weights = np.ones(n_rows) if weights is None else weights
    # a weight of 2 counts the row twice, but small weights do not mean few rows
    count = max(weights.sum(), np.count_nonzero(weights))
    weights = like(values, weights / weights.sum())
    is_binary = values.ndim == 2
    if not is_binary:
        # below the largest value of their row, so that exponentials do not overflow
        values = values - xp.max(values, axis=2, keepdims=True)
    flat = values.reshape(n_stops, -1)
    unit = np.sqrt(on_host(xp.sum(flat * flat, axis=1)) / n_rows)
    unit[unit == 0] = 1.0
    flat = flat / like(values, unit)[:, None]
    values = flat.reshape(values.shape)
    targets = _targets(like(values, place), weights, count, 2 if is_binary else values.shape[2])
    if is_binary:
        total = float(xp.sum(targets[:, 1]))
        wanted = np.column_stack([on_host(flat @ targets[:, 1]), np.full(n_stops, total)])
        # the best probabilities without a slope are the shares of the classes
        start = np.tile([0.0, logit(total)], (n_stops, 1))
    else:
        wanted = on_host(flat @ targets.reshape(-1))[:, None]
        start = np.zeros((n_stops, 1))
    logarithms = _binary_logarithms if is_binary else _logarithms

    def loss(parameters: Floats) -> Derivatives:
        value, slopes, curvature = logarithms(values, weights, parameters)
        return value - (parameters * wanted).sum(axis=1), slopes - wanted, curvature

    found = _lowest(loss, start)
    # left-out values of pure noise predict the wrong class: a negative slope would rely on that
    slope = np.maximum(found[:, 0], LEAST_SLOPE * unit)
    held = slope > found[:, 0]
    offset = found[:, 1:].sum(axis=1)
    if is_binary:
        # the best probabilities at so small a slope are the shares of the classes, in the mean
        offset = np.where(held, start[:, 1] - slope * on_host(flat @ weights), offset)
    slope = slope / unit
    return slope, offset / slope


def _targets(place: Any, weights: Any, n_observations: float, n_classes: int) -> Any:
    """Return Platt's targets T, which leave a probability to the other classes, times weights."""
    totals = on_host(array_namespace(weights).bincount(place, weights, n_classes))
    own = (n_observations * totals + 1) / (n_observations * totals + 2)
    other = (1 - own) / (n_classes - 1)
    table = np.where(np.eye(n_classes) > 0, own[:, None], other[:, None])
    return weights[:, None] * like(weights, table)[place]


def _binary_logarithms(values: Any, weights: Any, parameters: Floats) -> Derivatives:
    """Return Σ w log(1 + exp z) of slopes and offsets, z = slope·value + offset."""
    xp = array_namespace(values)
    slope, offset = (like(values, one)[:, None] for one in parameters.T)
    logits = slope * values + offset
    small = xp.exp(-abs(logits))
    value = (xp.clip(logits, 0.0, None) + xp.log1p(small)) @ weights
    chances = xp.where(logits > 0, 1.0, small) / (1 + small)
    weighted = weights * chances
    own = weighted * (1 - chances)
    moved = own * values
    terms = weighted * values, weighted, moved * values, moved, own
    first, second, a, b, c = (on_host(xp.sum(one, axis=1)) for one in terms)
    curvature = np.array([[a, b], [b, c]]).transpose(2, 0, 1)
    return on_host(value), np.array([first, second]).T, curvature


def _logarithms(values: Any, weights: Any, parameters: Floats) -> Derivatives:
    """Return Σ w log Σ exp z of slopes, z = slope·value for each of several classes."""
    xp = array_namespace(values)
    odds = xp.exp(like(values, parameters)[:, :, None] * values)
    # sums over classes, which a product takes much faster than a sum over a short axis
    ones = constant(values, values.shape[2], 1.0)
    totals = odds @ ones
    value = xp.log(totals) @ weights
    # mean and variance of the values of every row under its probabilities
    odds *= values
    means = odds @ ones / totals
    odds *= values
    variances = odds @ ones / totals - means * means
    slopes, curvature = on_host(means @ weights), on_host(variances @ weights)
    return on_host(value), slopes[:, None], curvature[:, None, None]


def _lowest(loss: Callable[[Floats], Derivatives], start: Floats) -> Floats:
    """Return where convex functions, one for each row, are least, by Newton's method."""
    found = start
    length = np.ones(len(start))
    value, slopes, curvature = loss(found)
    for _ in range(100):  # far more than any function has needed
        # equal decision values have no curvature
        regular = curvature + EPS * np.eye(start.shape[1])
        step = length[:, None] * np.linalg.solve(regular, slopes[:, :, None])[:, :, 0]
        gain = (slopes * step).sum(axis=1)
        trial = found - step
        # what is left after so short a step is its square, and that is rounding
        if (gain <= 1e-12 * np.abs(value)).all():
            return trial
        there = loss(trial)
        # far from the least value a step may lead too far: then half of it is tried
        better = there[0] <= value - 1e-4 * gain
        length = np.where(better, 1.0, length / 2)
        found = np.where(better[:, None], trial, found)
        value = np.where(better, there[0], value)
        slopes = np.where(better[:, None], there[1], slopes)
        curvature = np.where(better[:, None, None], there[2], curvature)
    return found


def probabilities(slope: float, decisions: Floats) -> Floats:
    """Return the probability of every class, of shape (n, n_classes)."""
    values = np.asarray(decisions, np.float64)
    columns = np.column_stack([0 * values, values]) if values.ndim == 1 else values
    return np.asarray(softmax(slope * columns, axis=1))


def calibration(kind: str, decisions: Any, place: Any, weights: Floats | None) -> Any:
    """Return slope and shift of decision values, for any kind of calibration.

    Several labels of a row, whose places are marks, are calibrated together.
    """
    if place.ndim == 2:  # as rows of two classes
        weights = None if weights is None else np.repeat(weights, place.shape[1])
        decisions = decisions.reshape(-1)
        place = place.reshape(-1)
    if kind == "temperature" and decisions.ndim == 1:
        # a temperature for two classes is one slope for a column of each, and no offset
        decisions = array_namespace(decisions).stack([0 * decisions, decisions], axis=-1)
    return calibrated(decisions, place, weights)


def likeliest(decisions: Floats) -> NDArray[np.intp]:
    """Return the number of the class with the largest decision value, for each row."""
    place = decisions > 0 if decisions.ndim == 1 else decisions.argmax(axis=1)
    return np.asarray(place, np.intp)


def coded(place: Any, count: int) -> Any:
    """Return ±1: a vector for two classes, else a column for each class or label."""
    if place.ndim == 2:
        return 2 * as_float64(place) - 1
    classes = like(place, np.arange(count))
    return 2 * as_float64(place == 1 if count == 2 else place[:, None] == classes) - 1


class FromDecisions(ClassifierMixin, BaseEstimator):
    """Labels and probabilities from decision values: of a fit, or given as X for a scorer."""

    classes_: NDArray[Any]
    slope_: float | None
    class_weight: Any
    _multilabel = False  # whether a row may have several labels, or none

    def decision_function(self, X: Any) -> Floats:
        """Return the decision values themselves."""
        return np.asarray(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, always as an array of NumPy."""
        decisions = self.decision_function(X)  # which says first whether the estimator is fitted
        if self._multilabel:
            return np.asarray(on_host(decisions) > 0, np.intp)
        return np.asarray(self.classes_[likeliest(on_host(decisions))])

    def predict_proba(self, X: Any) -> Floats:
        r"""Return the probability of each class, of shape (n, n_classes), as an array of NumPy.

        .. math:: P(\text{class } k \mid x) \propto \exp\bigl(a f_k(x)\bigr)

        with f the decision values, and (0, f) for two classes; a is one for logits.
        """
        # logits have no slope of their own
        slope = getattr(self, "slope_", 1.0)
        return probabilities(slope, on_host(self.decision_function(X)))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):  # a probability may underflow to zero
            return np.asarray(np.log(self.predict_proba(X)))

    def _weights(self, place: NDArray[np.intp], sample_weight: Any) -> Array | None:
        """Return sample weights times class weights, on the host; None if there are neither."""
        weights = None
        if sample_weight is not None:
            weights = column_or_1d(nonnegative("sample_weight", on_host(sample_weight)))
            check_consistent_length(weights, place)
        if self.class_weight is None:
            return weights
        own = compute_sample_weight(self.class_weight, self._labels(place))
        return np.asarray(own if weights is None else own * weights, np.float64)

    def _labels(self, place: NDArray[np.intp]) -> NDArray[Any]:
        """Return the label of each row, or the marks of several labels."""
        return place if place.ndim == 2 else self.classes_[place]

    def _splits(self, cv: Any, place: NDArray[np.intp], groups: Any) -> list[Split]:
        """Return the rows of training and test sets; a number of folds is stratified."""
        check_splitter(cv, groups)
        labels = self._labels(place)
        n = len(labels)
        splits = check_cv(cv, labels, classifier=True).split(np.zeros((n, 1)), labels, groups)
        return [(row_numbers(train, n), row_numbers(test, n)) for train, test in splits]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class OnLabels:
    """A scorer of coded labels and decision values, from one of labels and a classifier."""

    def __init__(self, scoring: str | Callable[..., float], classes: NDArray[Any]) -> None:
        self.name = scoring if isinstance(scoring, str) else "score"
        self.scorer = get_scorer(scoring)
        self.classes = classes

    def __call__(self, model: Any, X: Floats, y: Floats, sample_weight: Any = None) -> float:
        """Score decision values, which are the predictions of a regressor."""
        return float(self.scores(model.predict(X)[None], y, sample_weight)[0])

    def scores(self, predictions: Floats, response: Floats, weights: Floats | None) -> Floats:
        """Score the decision values of many stops, along the first axis."""
        place = response.argmax(axis=1) if response.ndim > 1 else (response > 0).astype(np.intp)
        apart = (-1, *(1,) * response.ndim)  # the shape of one number for each stop
        found = []
        # a few megabytes at once, which stay in the caches of a processor
        for part in slices(len(predictions), 2**18 // response.size):
            slopes, shifts = calibrated_at_stops(predictions[part], place, weights)
            values = predictions[part] + shifts.reshape(apart)
            scores = label_scores(self.name, slopes.reshape(apart) * values, place, weights)
            if scores is None:
                pairs = zip(values, slopes, strict=True)
                given = self.scorer, self.classes
                scores = np.array([scored(*given, v, place, weights, a) for v, a in pairs])
            found.append(scores)
        return np.concatenate(found)


def scored(
    scorer: Any, classes: Any, decisions: Floats, place: Any, weights: Any, slope: float = 1.0
) -> float:
    """Return what a scorer of labels and a classifier says of decision values."""
    model = FromDecisions()
    model.classes_ = classes
    model.slope_ = slope
    options = {} if weights is None else {"sample_weight": weights}
    return float(scorer(model, decisions, classes[place], **options))


def label_scores(
    name: str, logits: Floats, place: NDArray[np.intp], weights: Floats | None
) -> Floats | None:
    """Return the score at every stop of a scorer of scikit-learn, or None for other names.

    The logits have shape (n_stops, n) for two classes and (n_stops, n, n_classes) for more, and
    ``place`` are the true classes.
    """
    is_binary = logits.ndim == 2
    if name == "accuracy":
        right = (logits > 0 if is_binary else logits.argmax(axis=2)) == place
        return np.average(right, axis=1, weights=weights)
    if name == "neg_log_loss":
        # scikit-learn clips probabilities, so that no logarithm is infinite
        own = np.clip(_chances(logits)[:, np.arange(len(place)), place], EPS, 1 - EPS)
        return np.average(np.log(own), axis=1, weights=weights)
    if name == "roc_auc" and is_binary and weights is None and np.ptp(place):
        # the share of pairs, one row of each class, in which the second class has the larger value
        ranks = rankdata(logits, axis=1)[:, place == 1]
        count = ranks.shape[1]
        return np.asarray((ranks.mean(axis=1) - (count + 1) / 2) / (len(place) - count))
    return None


def _chances(logits: Floats) -> Floats:
    """Return the probabilities of all classes, (n_stops, n, n_classes)."""
    if logits.ndim == 2:
        second = expit(logits)
        # scorers of scikit-learn see this probability alone, and round the other one
        return np.stack([1 - second, second], axis=2)
    odds = np.exp(logits - logits.max(axis=2, keepdims=True))
    # a product with ones is much faster than a sum over the short axis of the classes
    return np.asarray(odds / (odds @ np.ones(odds.shape[2]))[:, :, None])
