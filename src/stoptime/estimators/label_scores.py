"""Scores of labels and probabilities at many stops at once, equal to those of scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

from stoptime.support.arrays import EPS, Floats


def label_scores(
    name: str, logits: Floats, place: NDArray[np.intp], weights: Floats | None
) -> Floats | None:
    """Return the score at every stop of a scorer of scikit-learn, or None for other names.

    The logits have shape (n_stops, n) for two classes and (n_stops, n, n_classes) for more, and
    ``place`` are the true classes.
    """
    is_binary = logits.ndim == 2
    if name in {"accuracy", "balanced_accuracy"}:
        right = (logits > 0 if is_binary else logits.argmax(axis=2)) == place
        if name == "balanced_accuracy":
            # each class counts as much as every other
            given = np.ones(len(place)) if weights is None else weights
            weights = given / np.bincount(place, given)[place]
        return np.average(right, axis=1, weights=weights)
    if name == "neg_log_loss":
        # scikit-learn clips probabilities, so that no logarithm is infinite
        own = np.clip(_chances(logits)[:, np.arange(len(place)), place], EPS, 1 - EPS)
        return np.average(np.log(own), axis=1, weights=weights)
    if name == "neg_brier_score":
        chances = _chances(logits)
        squares = (chances - (place[:, None] == np.arange(chances.shape[2]))) ** 2
        # of two classes only one counts, because the other has the same square
        each = squares[:, :, 1] if is_binary else squares.sum(axis=2)
        return -np.average(each, axis=1, weights=weights)
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
