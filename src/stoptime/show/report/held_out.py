"""The section of a report on rows that the fit has not seen: intervals, or classes."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from stoptime.show.report.charts import Chart, Section, Series
from stoptime.show.results import class_tables, key_figures
from stoptime.tables.assessment import ClassErrors, Fitted

SHOWN_POINTS = 200
HELD_OUT = 0.2  # fraction of the rows
CONFIDENCE = 0.9
FEWEST_ROWS = 20  # with fewer rows, none are held out


def _classes(fitted: Fitted, found: ClassErrors) -> Section:
    """Return how left-out rows were classified, and how far probabilities came true."""
    chances, shares, counts = np.array(found.calibration).T
    labels = tuple(f"{count:.0f} cases" for count in counts)
    ends = np.array([0.0, 1.0])
    series = [
        Series("perfect calibration", ends, ends, color=7, dashed=True),
        Series("left-out rows", chances, shares, kind="points", color=1, labels=labels),
    ]
    title = "Calibration curve"
    axes = "predicted probability", "share that came true"
    chart = Chart("calibration", title, *axes, series, log_x=None, log_y=None)
    accuracy, loss = (f"{name} {value}" for name, value, _ in key_figures(fitted)[:2])
    text = (
        f"Each row was classified by the fit without it: {accuracy}, {loss}. In the chart, cases "
        "are grouped by their predicted probability: points on the line are well calibrated."
    )
    confusion = class_tables(found)[:1]
    return Section("classes", "Classes and probabilities", text, (chart,), confusion)


def intervals(fitted: Fitted) -> Section:
    """Return prediction intervals on rows that were held out; for classes, their probabilities."""
    if fitted.classes is not None:
        return _classes(fitted, fitted.classes)
    key, title = "intervals", "Prediction intervals"
    prepared = fitted.prepared
    seed = fitted.request.seed
    n = len(prepared.y)
    if n < FEWEST_ROWS:
        return Section(key, title, f"There are only {n} rows, too few to hold some out.")
    train, test = train_test_split(np.arange(n), test_size=HELD_OUT, random_state=seed)
    weights = None if prepared.sample_weight is None else prepared.sample_weight[train]
    model = clone(fitted.model).fit(prepared.X[train], prepared.y[train], weights)
    if model.left_out_residuals_ is None:
        text = "This method has no left-out residuals, from which intervals are computed."
        return Section(key, title, text)
    guess = model.predict(prepared.X[test])
    ends = model.predict_interval(prepared.X[test], CONFIDENCE)
    truth = prepared.y[test]
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    # The number of values inside is binomial if each lies inside with this confidence.
    chance = 100 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / len(test))
    text = (
        f"A random fifth of the rows ({len(test)}) was held out, and the model was fitted to the "
        f"others. Of the held-out values, {int(inside.sum())} ({inside.mean():.0%}) lie in their "
        f"{CONFIDENCE:.0%} interval (jackknife+); by chance this share varies by {chance:.0f} "
        "percentage points."
    )
    shown = np.random.default_rng(seed).permutation(len(test))[:SHOWN_POINTS]
    if len(shown) < len(test):
        text += f" The chart shows {len(shown)} of them, drawn at random."
    order = shown[np.argsort(guess[shown], kind="stable")]
    place = np.arange(1.0, len(order) + 1)
    low, high = ends[order].T
    series = [Series("interval", place, guess[order], low, high, "whiskers", color=7)]
    for name, kept, color in (("inside", inside[order], 1), ("outside", ~inside[order], 3)):
        points = truth[order][kept]
        series.append(Series(name, place[kept], points, kind="points", color=color))
    rows = "held-out rows, ordered by prediction"
    name = f"{CONFIDENCE:.0%} intervals"
    chart = Chart("intervals", name, rows, prepared.target, series, log_x=None, log_y=None)
    return Section(key, title, text, (chart,))
