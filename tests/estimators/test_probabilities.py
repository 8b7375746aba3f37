"""Calibration and scores at many stops at once: equal to SciPy's minimum, and stop by stop."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.metrics import f1_score, make_scorer

import stoptime as st
from stoptime.estimators.probabilities import (
    LEAST_SLOPE,
    OnLabels,
    calibrated,
    calibrated_at_stops,
    probabilities,
)


def drawn(rng, n_classes, n=90, n_stops=8):
    """Return decision values from pure noise to nearly certain ones, and the classes of rows."""
    place = rng.integers(n_classes, size=n)
    place[:n_classes] = np.arange(n_classes)
    signal = 2.0 * (place[:, None] == np.arange(n_classes)) - 1
    noise = rng.standard_normal((n_stops, n, n_classes))
    strength = np.linspace(0, 3, n_stops)[:, None, None]
    values = np.round(strength * signal + noise, 2)  # some of them are equal
    return (values[:, :, 1] if n_classes == 2 else values), place


def log_loss(parameters, values, place, weights, n_classes):
    """Return the log loss with Platt's targets, written out."""
    columns = np.column_stack([0 * values, values]) if values.ndim == 1 else values
    offset = np.r_[0.0, parameters[1]] if values.ndim == 1 else 0.0
    counts = np.bincount(place, weights, n_classes)
    targets = np.empty((len(place), n_classes))
    for row, own in enumerate(place):
        targets[row] = 1 / (counts[own] + 2) / (n_classes - 1)
        targets[row, own] = (counts[own] + 1) / (counts[own] + 2)
    logs = log_softmax(parameters[0] * columns + offset, axis=1)
    return -(weights[:, None] * targets * logs).sum() / weights.sum()


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_stop_has_the_least_log_loss(n_classes, weighted, rng):
    values, place = drawn(rng, n_classes)
    weights = rng.integers(1, 4, len(place)).astype(float)
    given = weights if weighted else None
    weights = weights if weighted else np.ones(len(place))
    slopes, shifts = calibrated_at_stops(values, place, given)
    assert (slopes >= LEAST_SLOPE).all()
    for stop, one in enumerate(values):
        start = np.zeros(2 if n_classes == 2 else 1)
        options = {"method": "Nelder-Mead", "options": {"xatol": 1e-9, "fatol": 1e-15}}
        bounds = [(LEAST_SLOPE, None), (None, None)][: len(start)]
        args = one, place, weights, n_classes
        best = minimize(log_loss, start + 0.1, args=args, bounds=bounds, **options)
        found = np.array([slopes[stop], slopes[stop] * shifts[stop]])[: len(start)]
        assert log_loss(found, *args) <= best.fun + 1e-13
        np.testing.assert_allclose(found, best.x, rtol=1e-5, atol=1e-6)
        # a stop is calibrated as if it were alone
        alone = calibrated(one, place, given)
        np.testing.assert_allclose(alone, [slopes[stop], shifts[stop]], rtol=1e-9, atol=1e-12)


def test_values_of_any_size_are_calibrated_together(rng):
    """Equal values, certain ones, and those that are right by chance alone."""
    place = np.arange(60) % 2
    signs = 2.0 * place - 1
    values = np.array([0 * signs, 0 * signs + 3, 1e3 * signs, -signs, 1e-9 * rng.random(60), signs])
    slopes, shifts = calibrated_at_stops(values, place)
    assert np.isfinite([slopes, shifts]).all()
    chances = [
        probabilities(*one)[:, 1] for one in zip(slopes, values + shifts[:, None], strict=True)
    ]
    np.testing.assert_allclose(chances[0], 0.5)
    np.testing.assert_allclose(chances[1], 0.5, atol=1e-6)
    # Platt's target of a class of 30 rows
    np.testing.assert_allclose(chances[2][place == 1], 31 / 32, rtol=1e-6)
    np.testing.assert_allclose(chances[3], 0.5, atol=1e-5)
    np.testing.assert_allclose(chances[5], chances[2], rtol=1e-6)


def test_scorers_that_are_not_known_are_called_stop_by_stop(rng):
    values, place = drawn(rng, 2)
    words = np.array(["no", "yes"])
    calls = []

    def own(truth, labels, sample_weight=None):
        calls.append(len(labels))
        return f1_score(truth, labels, pos_label="yes", sample_weight=sample_weight)

    weights = rng.random(len(place))
    scores = OnLabels(make_scorer(own), words).scores(values, 2.0 * place - 1, weights)
    assert calls == [len(place)] * len(values)
    for score, one in zip(scores, values, strict=True):
        _, shift = calibrated(one, place, weights)
        labels = np.where(one + shift > 0, "yes", "no")
        expected = f1_score(words[place], labels, pos_label="yes", sample_weight=weights)
        assert score == pytest.approx(expected, rel=1e-12)


def test_a_scorer_of_labels_is_called_as_others_are(rng):
    values, place = drawn(rng, 3)
    scorer = OnLabels("neg_log_loss", np.arange(3))
    coded = 2.0 * (place[:, None] == np.arange(3)) - 1

    class Fitted:
        def predict(self, X):
            return X

    one = scorer(Fitted(), values[4], coded)
    assert one == pytest.approx(scorer.scores(values, coded, None)[4], rel=1e-9)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy", "balanced_accuracy"])
def test_a_fold_without_one_of_the_classes_is_scored(scoring, rng):
    X = rng.standard_normal((60, 4))
    y = np.r_[np.zeros(2, int), np.arange(58) % 2 + 1]
    folds = [(np.arange(60) % 3 != fold, np.arange(60) % 3 == fold) for fold in range(3)]
    model = st.StoppedClassifierCV("ridge", stops=[0.1, 1.0], cv=folds, scoring=scoring)
    assert np.isfinite(model.fit(X, y).errors_).all()
