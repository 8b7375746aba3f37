"""Sections that show the path: its error, its coefficients, its bias and variance, its filter."""

from __future__ import annotations

import numpy as np

from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.recurrence import Iteration
from stoptime.paths import path
from stoptime.show.report.charts import Chart, Mark, Section, Series, TableOf, thinned
from stoptime.show.report.subject import Subject
from stoptime.stopping import estimate_oracle
from stoptime.support.arrays import Array
from stoptime.support.wording import number
from stoptime.tables.assessment import Assessment
from stoptime.theory.risk import bayes_risk

__all__ = ["bias_and_variance", "coefficients", "error_curve", "spectrum"]

SHOWN_FEATURES = 16
SHOWN_STOPS = 160
SHOWN_EIGENVALUES = 400
HIGH = 3  # times the largest error shown: what is higher would flatten the curve


def error_curve(subject: Subject) -> Section:
    """Return the estimated error along the path, with the chosen stop."""
    choice = subject.model.choice_
    curve = choice.curve
    drawn = np.isfinite(curve.stops) & (curve.stops > 0)
    stops, errors = curve.stops[drawn], curve.errors[drawn]
    series = [Series("estimated error", stops, errors, color=1)]
    marks = [Mark("chosen stop", x=subject.assessment.stop)]
    text = f"Stopped at the {choice.message}."
    if curve.standard_errors is not None and choice.standard_error is not None:
        low, high = (errors + sign * curve.standard_errors[drawn] for sign in (-1, 1))
        series.insert(0, Series("± one standard error", stops, errors, low=low, high=high, color=1))
        limit = float(curve.errors.min()) + float(choice.standard_error)
        marks.append(Mark("least + one standard error", y=limit))
        within = stops[errors <= limit]
        if within.size:
            text += f" The earliest stop within one standard error of the least error is {number(within[0])}."
    if np.isinf(curve.stops[-1]):
        marks.append(Mark("never stopped: least squares", y=float(curve.errors[-1])))
    if curve.stops[0] == 0 and curve.errors[0] < HIGH * errors.max(initial=0):
        marks.append(Mark("nothing learned", y=float(curve.errors[0])))
    chart = Chart(
        "error", "Estimated error along the path", "stop", "mean squared error", series, marks
    )
    return Section("error", "When to stop", text, (chart,) if stops.size else ())


def coefficients(subject: Subject) -> Section:
    """Return the coefficients along the path."""
    stops = _path_stops(subject)
    drawn = path(subject.spectrum, subject.model.method_, stops)
    final = np.abs(drawn.coef).max(axis=0)
    largest = np.argsort(-final, kind="stable")[:SHOWN_FEATURES]
    series = [
        Series(subject.features[i], stops, drawn.coef[:, i].astype(np.float64), color=k)
        for k, i in enumerate(largest)
    ]
    marks = [Mark("chosen stop", x=subject.assessment.stop), Mark("", y=0.0)]
    chart = Chart(
        "paths",
        "Coefficients along the path",
        "stop",
        "coefficient",
        series,
        marks,
        log_y=None,
        nearest=True,
    )
    text = "Each line is a feature, learned from nothing on the left to least squares on the right."
    if len(final) > SHOWN_FEATURES:
        text += f" The {SHOWN_FEATURES} of {len(final)} that get largest are shown."
    order = np.argsort(-np.abs(subject.model.coef_), kind="stable")[: 2 * SHOWN_FEATURES]
    rows = [(subject.features[i], f"{subject.model.coef_[i]:.5g}") for i in order]
    rows.append(("intercept", f"{float(subject.model.intercept_):.5g}"))
    table = TableOf(
        "Coefficients at the chosen stop", ("feature", "coefficient"), tuple(rows), folded=True
    )
    return Section("paths", "What is learned when", text, (chart,), (table,))


def bias_and_variance(subject: Subject) -> Section:
    """Return bias and variance along the path as the data let us estimate them."""
    key, title = "risk", "Bias and variance"
    oracle = estimate_oracle(subject.spectrum)
    if isinstance(subject.model.method_, ConjugateGradient):
        return Section(
            key, title, "Conjugate gradients depend on the response: their bias has no formula."
        )
    if not 0 < oracle.penalty < np.inf:
        unseen = "noise" if oracle.penalty == 0 else "signal"
        return Section(
            key, title, f"Marginal likelihood sees no {unseen} here: there is nothing to balance."
        )
    stops = _path_stops(subject)
    noise, signal = float(oracle.noise), float(oracle.signal)
    curve = bayes_risk(
        subject.model.method_,
        stops,
        eigenvalues=subject.spectrum.padded_eigenvalues,
        signal=signal,
        noise=noise,
        n_samples=subject.spectrum.n_observations,
        target="prediction",
    )
    series = [
        Series("bias²", stops, curve.bias, color=0, dashed=True),
        Series("variance", stops, curve.variance, color=2, dashed=True),
        Series("both", stops, curve.total, color=1),
    ]
    marks = [
        Mark("chosen stop", x=subject.assessment.stop),
        Mark("least by this estimate", x=curve.best),
    ]
    text = (
        f"Exact for the noise variance {number(noise)} and the squared length {number(signal)} of the "
        "coefficients that marginal likelihood sees in these data; the best ridge would then have penalty "
        f"{number(oracle.penalty)}. Bias and variance are those of the fitted values."
    )
    label = "mean squared error of the fit"
    chart = Chart("risk", "Estimated bias and variance", "stop", label, series, marks, log_y=True)
    return Section(key, title, text, (chart,))


def spectrum(subject: Subject) -> Section:
    """Return the eigenvalues, and how much of each direction is learned at the stop."""
    key, title = "spectrum", "Spectrum and filter"
    s = np.sort(subject.spectrum.eigenvalues.astype(np.float64))[::-1]
    if s.size == 0:
        return Section(key, title, "Every feature is constant: there is no spectrum.")
    found = subject.assessment
    kept = thinned(len(s), SHOWN_EIGENVALUES)
    eigenvalues = Series("eigenvalue", kept + 1.0, s[kept], color=0, points=True)
    marks = [Mark("equivalent penalty", y=found.penalty)] if found.penalty else []
    charts = [
        Chart(
            "scree",
            "Eigenvalues of XᵀX/n",
            "direction",
            "eigenvalue",
            [eigenvalues],
            marks,
            False,
            True,
        )
    ]
    if not isinstance(found.method, ConjugateGradient):
        charts.append(_filter_chart(found, s[kept]))
    text = (
        f"{len(s)} directions, condition number {s[0] / s[-1]:.3g}. Those well above the equivalent penalty "
        "are learned in full at the chosen stop, those well below it hardly at all."
    )
    return Section(key, title, text, tuple(charts))


def _path_stops(subject: Subject) -> Array:
    """Return stops for smooth lines: those that the rule looked at, thinned."""
    seen = subject.model.choice_.curve.stops
    seen = seen[np.isfinite(seen) & (seen > 0)]
    if seen.size == 0:
        seen = np.array([1.0])
    keep = seen[thinned(len(seen), SHOWN_STOPS)]
    stop = subject.assessment.stop
    return np.unique(np.append(keep, [stop] if 0 < stop < np.inf else []))


def _filter_chart(found: Assessment, s: Array) -> Chart:
    dense = np.geomspace(s.min() / 3, s.max() * 3, 240)
    top = found.method
    if isinstance(top, Iteration):  # beyond its step it would diverge
        dense = dense[dense <= s.max()]
    series = [
        Series("share learned", dense, 1 - top.shrinkage(dense, found.stop), color=1),
        Series("at the eigenvalues", s, 1 - top.shrinkage(s, found.stop), color=1, points=True),
    ]
    marks = []
    if found.penalty is not None and 0 < found.penalty < np.inf:
        ridge = dense / (dense + found.penalty)
        series.append(
            Series("ridge with the equivalent penalty", dense, ridge, color=0, dashed=True)
        )
        marks.append(Mark("equivalent penalty", x=found.penalty))
    return Chart(
        "filter", "Learned at the stop", "eigenvalue", "share learned", series, marks, log_y=None
    )
