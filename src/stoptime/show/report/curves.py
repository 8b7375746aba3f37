"""Sections on the path: its error, its coefficients, its bias and variance, its filter."""

from __future__ import annotations

import numpy as np

from stoptime.paths import path
from stoptime.show.report.charts import Chart, Mark, Section, Series, TableOf, thinned
from stoptime.show.report.subject import Subject
from stoptime.support.arrays import Array
from stoptime.support.wording import number
from stoptime.theory.oracle import estimate_oracle
from stoptime.theory.risk import bayes_risk

SHOWN_FEATURES = 16
SHOWN_STOPS = 160
SHOWN_EIGENVALUES = 400
FILTER_NODES = 240  # eigenvalues at which the curve of the filter is computed
HIGHEST_MARK = 3  # times the largest error of the curve: a higher mark would flatten it


def error_curve(subject: Subject) -> Section:
    """Return the estimated error along the path, with the chosen stop."""
    choice = subject.model.choice_
    curve = choice.curve
    drawn = np.isfinite(curve.stops) & (curve.stops > 0)
    stops = curve.stops[drawn]
    errors = curve.errors[drawn]
    series = [Series("estimated error", stops, errors, color=1)]
    marks = [Mark("chosen stop", x=subject.assessment.stop)]
    text = f"The chosen stop is {number(subject.assessment.stop)}: {choice.message}."
    if curve.standard_errors is not None and choice.standard_error is not None:
        low, high = (errors + sign * curve.standard_errors[drawn] for sign in (-1, 1))
        series.insert(0, Series("± one standard error", stops, errors, low, high, "band", color=1))
        limit = float(curve.errors.min()) + float(choice.standard_error)
        marks.append(Mark("least error + one standard error", y=limit))
        within = stops[errors <= limit]
        if within.size:
            first = number(within[0])
            text += f" The first stop within one standard error of the least error is {first}."
    if np.isinf(curve.stops[-1]):
        marks.append(Mark("least squares (never stopped)", y=float(curve.errors[-1])))
    if curve.stops[0] == 0 and curve.errors[0] < HIGHEST_MARK * errors.max(initial=0):
        marks.append(Mark("nothing learned", y=float(curve.errors[0])))
    title = "Estimated error along the path"
    chart = Chart("error", title, "stop", "mean squared error", series, marks)
    return Section("error", "When to stop", text, (chart,) if stops.size else ())


def coefficients(subject: Subject) -> Section:
    """Return the coefficients along the path."""
    stops = _path_stops(subject)
    coef = path(subject.spectrum, subject.model.method_, stops).coef.astype(np.float64)
    largest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:SHOWN_FEATURES]
    series = [
        Series(subject.features[i], stops, coef[:, i], color=k) for k, i in enumerate(largest)
    ]
    marks = [Mark("chosen stop", x=subject.assessment.stop), Mark("", y=0.0)]
    title = "Coefficients along the path"
    chart = Chart("paths", title, "stop", "coefficient", series, marks, log_y=None, nearest=True)
    text = "All coefficients start at zero and approach least squares as the stop grows."
    if len(subject.features) > SHOWN_FEATURES:
        text += f" The chart shows the {SHOWN_FEATURES} features with the largest coefficients."
    final = subject.model.coef_
    order = np.argsort(-np.abs(final), kind="stable")[: 2 * SHOWN_FEATURES]
    rows = [(subject.features[i], f"{final[i]:.5g}") for i in order]
    rows.append(("intercept", f"{float(subject.model.intercept_):.5g}"))
    head = ("feature", "coefficient")
    table = TableOf("Coefficients at the chosen stop", head, tuple(rows), folded=True)
    return Section("paths", "Coefficients", text, (chart,), (table,))


def bias_and_variance(subject: Subject) -> Section:
    """Return bias and variance along the path, for the estimated noise and signal."""
    key, title = "risk", "Bias and variance"
    method = subject.model.method_
    if not method.has_filter:
        text = "The filter of this method depends on the response, so its bias has no formula."
        return Section(key, title, text)
    oracle = estimate_oracle(subject.spectrum)
    if not 0 < oracle.penalty < np.inf:
        absent = "noise" if oracle.penalty == 0 else "signal"
        text = f"Marginal likelihood estimates no {absent}, so bias and variance need no balance."
        return Section(key, title, text)
    stops = _path_stops(subject)
    curve = bayes_risk(
        method,
        stops,
        eigenvalues=subject.spectrum.padded_eigenvalues,
        signal=float(oracle.signal),
        noise=float(oracle.noise),
        n_samples=subject.spectrum.n_observations,
        target="prediction",
    )
    series = [
        Series("bias²", stops, curve.bias, color=0, dashed=True),
        Series("variance", stops, curve.variance, color=2, dashed=True),
        Series("total", stops, curve.total, color=1),
    ]
    marks = [Mark("chosen stop", x=subject.assessment.stop), Mark("least total", x=curve.best)]
    text = (
        f"Marginal likelihood estimates the noise variance {number(float(oracle.noise))}, the "
        f"squared norm {number(float(oracle.signal))} of the coefficients and therefore the best "
        f"ridge penalty {number(oracle.penalty)}. For these values the curves are the exact bias "
        "and variance of the fitted values."
    )
    label = "mean squared error of the fit"
    chart = Chart("risk", "Estimated bias and variance", "stop", label, series, marks, log_y=True)
    return Section(key, title, text, (chart,))


def spectrum(subject: Subject) -> Section:
    """Return the eigenvalues, and how much of each direction is learned at the stop."""
    key, title = "spectrum", "Spectrum and filter"
    s = np.sort(subject.spectrum.eigenvalues.astype(np.float64))[::-1]
    if s.size == 0:
        return Section(key, title, "Every feature is constant, so there are no eigenvalues.")
    kept = thinned(len(s), SHOWN_EIGENVALUES)
    series = [Series("eigenvalue", kept + 1.0, s[kept], kind="points")]
    penalty = subject.assessment.penalty
    marks = [Mark("equivalent penalty", y=penalty)] if penalty else []
    name = "Eigenvalues of XᵀX/n"
    charts = [Chart("scree", name, "direction", "eigenvalue", series, marks, False, True)]
    if subject.assessment.method.has_filter:
        charts.append(_filter_chart(subject, s[kept]))
    text = f"The data have {len(s)} directions, with condition number {s[0] / s[-1]:.3g}."
    if penalty:
        text += (
            " At the chosen stop, directions with eigenvalues well above the equivalent penalty "
            "are almost fully learned, and those well below it hardly at all."
        )
    return Section(key, title, text, tuple(charts))


def _filter_chart(subject: Subject, s: Array) -> Chart:
    found = subject.assessment
    dense = np.geomspace(s.min() / 3, s.max() * 3, FILTER_NODES)
    # an iteration may diverge at eigenvalues beyond those that its step was made for
    if np.isfinite(found.method.largest_eigenvalue):
        dense = dense[dense <= s.max()]
    curve = 1 - found.method.shrinkage(dense, found.stop)
    points = 1 - found.method.shrinkage(s, found.stop)
    label = "fraction learned"
    series = [
        Series(label, dense, curve, color=1),
        Series("at the eigenvalues", s, points, kind="points", color=1),
    ]
    marks = []
    if found.penalty is not None and 0 < found.penalty < np.inf:
        name = "ridge with the equivalent penalty"
        series.append(Series(name, dense, dense / (dense + found.penalty), color=0, dashed=True))
        marks.append(Mark("equivalent penalty", x=found.penalty))
    title = "Fraction learned at the stop"
    return Chart("filter", title, "eigenvalue", label, series, marks, log_y=None)


def _path_stops(subject: Subject) -> Array:
    """Return the stops that the rule looked at, thinned, and the chosen stop."""
    seen = subject.model.choice_.curve.stops
    seen = seen[np.isfinite(seen) & (seen > 0)]
    if seen.size == 0:
        seen = np.array([1.0])
    keep = seen[thinned(len(seen), SHOWN_STOPS)]
    stop = subject.assessment.stop
    return np.unique(np.append(keep, [stop] if 0 < stop < np.inf else []))
