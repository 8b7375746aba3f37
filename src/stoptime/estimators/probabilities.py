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

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stoptime.support.arrays import Floats

LEAST_SLOPE = 1e-6  # decision values that tell nothing give every row the odds of the classes


def calibrated(
    decisions: Floats, place: NDArray[np.intp], weights: Floats | None = None
) -> tuple[float, float]:
    """Return slope and shift with the least log loss; ``place`` are the true classes of rows."""
    values = _columns(decisions)
    weights = np.ones(len(values)) if weights is None else weights
    # a weight of 2 counts the row twice, but small weights do not mean few rows
    weights = weights * (max(weights.sum(), np.count_nonzero(weights)) / weights.sum())
    targets = _smoothed(place, values.shape[1], weights)
    is_binary = np.ndim(decisions) == 1

    def loss(parameters: Floats) -> tuple[float, Floats]:
        logits = parameters[0] * values
        logits[:, -1] += parameters[1]
        excess = weights[:, None] * (softmax(logits, axis=1) - targets)
        value = -(weights[:, None] * targets * log_softmax(logits, axis=1)).sum()
        return value, np.array([(excess * values).sum(), is_binary * excess[:, -1].sum()])

    # left-out values of pure noise predict the wrong class: a negative slope would rely on that
    bounds = [(LEAST_SLOPE, None), (None, None) if is_binary else (0, 0)]
    options = {"ftol": 1e-15, "gtol": 1e-9}
    found: Any = minimize(loss, [1.0, 0.0], jac=True, bounds=bounds, options=options)
    slope, offset = map(float, found.x)
    return slope, offset / slope


def probabilities(slope: float, decisions: Floats) -> Floats:
    """Return the probability of every class, of shape (n, n_classes)."""
    return np.asarray(softmax(slope * _columns(decisions), axis=1))


def chosen(classes: NDArray[Any], decisions: Floats) -> NDArray[Any]:
    """Return the class of each row: of two classes the second above zero, else the largest."""
    if decisions.ndim == 1:
        return np.asarray(classes[(decisions > 0).astype(np.intp)])
    return np.asarray(classes[decisions.argmax(axis=1)])


def coded(place: NDArray[np.intp], count: int) -> Floats:
    """Return ±1: a vector for two classes, else a column for each class."""
    member = place == 1 if count == 2 else place[:, None] == np.arange(count)
    return np.where(member, 1.0, -1.0)


def _columns(decisions: Floats) -> Floats:
    """Return decision values in double precision, one column for each class."""
    values = np.asarray(decisions, np.float64)
    return np.stack([np.zeros_like(values), values], axis=1) if values.ndim == 1 else values


def _smoothed(place: NDArray[np.intp], count: int, weights: Floats) -> Floats:
    """Return Platt's targets, which leave a probability to the classes that were not seen."""
    totals = np.bincount(place, weights, count)
    own = ((totals + 1) / (totals + 2))[place]
    targets = np.repeat(((1 - own) / (count - 1))[:, None], count, axis=1)
    targets[np.arange(len(place)), place] = own
    return targets


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
