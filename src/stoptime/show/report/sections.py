"""The sections of a report: on the path, on the quality of the fit, on its data and its code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.flows import AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.recurrence import Iteration
from stoptime.methods.ridge import Ridge
from stoptime.paths import path
from stoptime.show import results
from stoptime.show.report.charts import Chart, Mark, Section, Series, thinned
from stoptime.stopping.rule import StopWarning
from stoptime.support.arrays import Array
from stoptime.support.wording import method_in_words, number, with_error
from stoptime.tables.assessment import (
    Assessment,
    ClassErrors,
    Fitted,
    assess,
    guarantee_in_words,
    rule_of,
)
from stoptime.tables.columns import Kind
from stoptime.tables.recipe import Prepared
from stoptime.theory.oracle import estimate_oracle
from stoptime.theory.risk import bayes_risk

SHOWN_FEATURES = 16
SHOWN_STOPS = 160
SHOWN_EIGENVALUES = 400
FILTER_NODES = 240  # eigenvalues at which the curve of the filter is computed
HIGHEST_MARK = 3  # times the largest error of the curve: a higher mark would flatten it
SHOWN_COLUMNS = 100
SHOWN_LEVELS = 6
UNFOLDED_ROWS = 15  # a longer table of columns is folded
SHOWN_POINTS = 200
HELD_OUT = 0.2  # fraction of the rows
CONFIDENCE = 0.9
FEWEST_ROWS = 20  # with fewer rows, none are held out


def error_curve(fitted: Fitted) -> Section:
    """Return the estimated error along the path, with the chosen stop."""
    choice = fitted.model.choice_
    curve = choice.curve
    # Stops zero and infinity have no place on a logarithmic axis: they are drawn as marks.
    drawn = np.isfinite(curve.stops) & (curve.stops > 0)
    stops = curve.stops[drawn]
    # Several classes have an error each, of which the rule takes the mean.
    squares = curve.errors.reshape(len(curve.stops), -1).mean(axis=1)
    rule = rule_of(fitted.model)
    is_error = rule.measure.endswith("error")
    errors = np.sqrt(squares) if is_error else squares
    series = [Series(f"estimated {rule.measure}", stops, errors[drawn], color=1)]
    marks = [Mark("chosen stop", x=fitted.assessment.stop)]
    text = f"The chosen stop is {number(fitted.assessment.stop)}: {choice.message}."
    spread = curve.standard_errors
    if spread is not None and spread.ndim == 1 and choice.standard_error is not None:
        low, high = (np.sqrt(np.maximum(squares + one * spread, 0.0))[drawn] for one in (-1, 1))
        band = Series("± one standard error", stops, errors[drawn], low, high, "band", color=1)
        series.insert(0, band)
        limit = float(np.sqrt(squares.min() + float(choice.standard_error)))
        marks.append(Mark("least error + one standard error", y=limit))
        within = stops[errors[drawn] <= limit]
        if within.size:
            first = number(within[0])
            text += f" The first stop within one standard error of the least error is {first}."
    if np.isinf(curve.stops[-1]):
        marks.append(Mark("least squares (never stopped)", y=float(errors[-1])))
    if curve.stops[0] == 0 and squares[0] < HIGHEST_MARK * squares[drawn].max(initial=0):
        marks.append(Mark("nothing learned", y=float(errors[0])))
    title = f"Estimated {rule.measure} along the path"
    label = _error_label(fitted) if is_error else f"{rule.measure} of {rule.name}"
    chart = Chart("error", title, "stop", label, series, marks)
    return Section("error", "When to stop", text, (chart,) if stops.size else ())


def coefficients(fitted: Fitted) -> Section:
    """Return the coefficients along the path."""
    stops = _path_stops(fitted)
    drawn = path(fitted.spectrum, fitted.model.method_, stops).coef.astype(np.float64)
    coef = drawn.reshape(len(stops), -1)
    features = fitted.prepared.recipe.features
    outputs = [f" ({one.name})" for one in fitted.coefficients()]
    # One target, or two classes, need no name beside each feature.
    names = [f"{one}{name}" for one in features for name in (outputs if outputs[1:] else [""])]
    largest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:SHOWN_FEATURES]
    series = [Series(names[i], stops, coef[:, i], color=k) for k, i in enumerate(largest)]
    marks = [Mark("chosen stop", x=fitted.assessment.stop), Mark("", y=0.0)]
    title = "Coefficients along the path"
    standardised = fitted.request.policy.standardise
    label = "coefficient of the standardised column" if standardised else "coefficient"
    chart = Chart("paths", title, "stop", label, series, marks, log_y=None, nearest=True)
    text = "All coefficients start at zero and approach least squares as the stop grows."
    if standardised:
        text += (
            " They belong to standardised columns (mean zero, variance one), so that their sizes "
            "can be compared; the table also has them in the units of the table."
        )
    if len(names) > SHOWN_FEATURES:
        text += f" The chart shows the {SHOWN_FEATURES} largest."
    table = results.coefficient_table(fitted, 2 * SHOWN_FEATURES)
    return Section("paths", "Coefficients", text, (chart,), (table,))


def bias_and_variance(fitted: Fitted) -> Section:
    """Return bias and variance along the path, for the estimated noise and signal."""
    key, title = "risk", "Bias and variance"
    method = fitted.model.method_
    if not isinstance(method, Filter):
        text = "The filter of this method depends on the response, so its bias has no formula."
        return Section(key, title, text)
    oracle = estimate_oracle(fitted.spectrum)
    if np.ndim(oracle.noise):
        text = "Each of several classes has a bias and a variance of its own: none is shown."
        return Section(key, title, text)
    if not 0 < oracle.penalty < np.inf:
        absent = "noise" if oracle.penalty == 0 else "signal"
        text = f"Marginal likelihood estimates no {absent}, so bias and variance need no balance."
        if oracle.penalty == 0 and np.isfinite(fitted.assessment.rmse):
            text = (
                "Marginal likelihood cannot tell noise from signal in these rows: rely on the "
                f"error of left-out rows, {number(fitted.assessment.rmse)}."
            )
        return Section(key, title, text)
    stops = _path_stops(fitted)
    known = {"signal": float(oracle.signal), "noise": float(oracle.noise)}
    known["n_samples"] = fitted.spectrum.n_observations
    s = fitted.spectrum.padded_eigenvalues
    curve = bayes_risk(method, stops, eigenvalues=s, target="prediction", **known)
    series = [
        Series("bias²", stops, curve.bias, color=0, dashed=True),
        Series("variance", stops, curve.variance, color=2, dashed=True),
        Series("total", stops, curve.total, color=1),
    ]
    marks = [Mark("chosen stop", x=fitted.assessment.stop), Mark("least total", x=curve.best)]
    noise = float(np.sqrt(oracle.noise))
    error = fitted.assessment.rmse
    text = (
        f"Marginal likelihood estimates noise with the standard deviation {number(noise)}, and "
        f"therefore the best ridge penalty {number(oracle.penalty)}. For these values the curves "
        "are the exact bias and variance of the fitted values, squared and averaged over rows. "
    )
    n, p = fitted.prepared.X.shape
    if n <= p or noise > error:
        text += (
            f"With {n} rows and {p} features, noise and signal are hard to tell apart: rely on the "
            f"error of left-out rows, {number(error)}, by which the stop was chosen."
        )
    else:
        text += (
            f"The error of left-out rows, {number(error)}, is larger than the noise: it includes "
            "what these rows cannot teach."
        )
    label = "mean squared error of the fit"
    chart = Chart("risk", "Estimated bias and variance", "stop", label, series, marks, log_y=True)
    return Section(key, title, text, (chart,))


def spectrum(fitted: Fitted) -> Section:
    """Return the eigenvalues, and how much of each direction is learned at the stop."""
    key, title = "spectrum", "Spectrum and filter"
    s = np.sort(fitted.spectrum.eigenvalues.astype(np.float64))[::-1]
    if s.size == 0:
        return Section(key, title, "Every feature is constant, so there are no eigenvalues.")
    kept = thinned(len(s), SHOWN_EIGENVALUES)
    series = [Series("eigenvalue", kept + 1.0, s[kept], kind="points")]
    penalty = fitted.assessment.penalty
    marks = [Mark("equivalent penalty", y=penalty)] if penalty else []
    name = "Eigenvalues of XᵀX/n"
    charts = [Chart("scree", name, "direction", "eigenvalue", series, marks, False, True)]
    if isinstance(fitted.assessment.method, Filter):
        charts.append(_filter_chart(fitted, s[kept]))
    text = f"The data have {len(s)} directions, with condition number {s[0] / s[-1]:.3g}."
    if penalty:
        text += (
            " At the chosen stop, directions with eigenvalues well above the equivalent penalty "
            "are almost fully learned, and those well below it hardly at all."
        )
    return Section(key, title, text, tuple(charts))


def _filter_chart(fitted: Fitted, s: Array) -> Chart:
    found = fitted.assessment
    method = as_filter(found.method)
    dense = np.geomspace(s.min() / 3, s.max() * 3, FILTER_NODES)
    # An iteration may diverge at eigenvalues larger than its step allows.
    if isinstance(method, Iteration):
        dense = dense[dense <= s.max()]
    curve = 1 - method.shrinkage(dense, found.stop)
    points = 1 - method.shrinkage(s, found.stop)
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


def _path_stops(fitted: Fitted) -> Array:
    """Return the stops that the rule looked at, thinned, and the chosen stop."""
    seen = fitted.model.choice_.curve.stops
    seen = seen[np.isfinite(seen) & (seen > 0)]
    if seen.size == 0:
        seen = np.array([1.0])
    keep = seen[thinned(len(seen), SHOWN_STOPS)]
    stop = fitted.assessment.stop
    return np.unique(np.append(keep, [stop] if 0 < stop < np.inf else []))


def methods(fitted: Fitted) -> Section:
    """Return other methods with the same rule, and other estimators on the same folds."""
    tried = _tried(fitted)
    errors = [(method_in_words(one.method), one.rmse, one.rmse_standard_error) for one in tried]
    charts = [_dots("methods", "Error by method", _error_label(fitted), errors)]
    scale = fitted.scale
    rows = [
        (
            method_in_words(one.method),
            with_error(one.rmse, one.rmse_standard_error, scale=scale),
            number(one.stop),
            number(one.penalty),
            f"{one.degrees_of_freedom:.1f}",
            guarantee_in_words(one)[0],
        )
        for one in tried
    ]
    head = ("method", "error", "stop", "equivalent penalty", "degrees of freedom", "guarantee")
    tables = [results.TableOf("Methods with the same rule", head, tuple(rows))]
    text = (
        f"Errors of methods are root mean squared errors ({_error_label(fitted)}) ± one standard "
        "error. The guarantee is an upper bound on the error at this stop, averaged over signals "
        "of all directions, relative to the best ridge if that has the equivalent penalty."
    )
    if fitted.scores:
        scores = [(score.name, score.error, score.standard_error) for score in fitted.scores]
        measure = fitted.prepared.task.measure
        charts.append(_dots("folds", "Error on held-out folds", measure, scores))
        tables.append(results.comparison_table(fitted))
        text += " Differences are computed row by row: they are more precise than the errors."
    return Section("methods", "Comparison", text, tuple(charts), tuple(tables))


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
    accuracy, loss = (f"{name} {value}" for name, value, _ in results.key_figures(fitted)[:2])
    text = (
        f"Each row was classified by the fit without it: {accuracy}, {loss}. In the chart, cases "
        "are grouped by their predicted probability: points on the line are well calibrated."
    )
    confusion = results.class_tables(found)[:1]
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
    model = _refitted(fitted, train)
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


def data(fitted: Fitted) -> Section:
    """Return the columns of the data, and the warnings about them."""
    prepared = fitted.prepared
    columns = _columns(prepared)
    text = f"{fitted.size} The target is {prepared.target}."
    if len(columns) > SHOWN_COLUMNS:
        text += f" The table shows the first {SHOWN_COLUMNS} of {len(columns)} columns."
    labels = [] if fitted.classes is None else [str(label) for label in fitted.classes.labels]
    moments = ("",) * 4 if labels else _moments(prepared.y)
    rows = [(prepared.target, "target", _listed(labels), *moments), *columns[:SHOWN_COLUMNS]]
    head = ("column", "kind", "values", "mean", "standard deviation", "minimum", "maximum")
    table = results.TableOf("Columns", head, tuple(rows), folded=len(rows) > UNFOLDED_ROWS)
    notes = fitted.messages or ("No value had to be filled in, left out or converted.",)
    return Section("data", "Data and warnings", text, (), (table,), notes)


def _columns(prepared: Prepared) -> list[tuple[str, ...]]:
    """Return a row for each column of the table."""
    recipe = prepared.recipe
    # The features in the units of the table.
    raw = prepared.X * np.array(recipe.scales) + np.array(recipe.centres)
    rows: list[tuple[str, ...]] = []
    first = 0
    for column in recipe.columns:
        shown = _listed(["(missing)" if one is None else one for one in column.levels])
        moments = ("",) * 4 if column.kind == "category" else _moments(raw[:, first], column.kind)
        rows.append((column.name, column.kind, shown, *moments))
        first += len(column.features)
    return rows


def _listed(levels: list[str]) -> str:
    return ", ".join(levels[:SHOWN_LEVELS]) + (", ..." if len(levels) > SHOWN_LEVELS else "")


def _moments(values: Array, kind: Kind = "number") -> tuple[str, str, str, str]:
    """Return mean, standard deviation, minimum and maximum; days since 1970 as dates."""
    spread = float(values.std())
    places = (values.mean(), values.min(), values.max())
    if kind == "date":
        mean, low, high = (str(np.datetime64(round(one), "D")) for one in places)
        return mean, f"{number(spread)} days", low, high
    mean, low, high = (number(one, scale=spread) for one in places)
    return mean, number(spread), low, high


def _error_label(fitted: Fitted) -> str:
    """Return what an error along the path is."""
    if fitted.classes is None:
        return f"RMSE, in units of {fitted.prepared.target}"
    return "RMSE of classes coded as ±1"


def code(fitted: Fitted) -> Section:
    """Return Python code that fits the same model."""
    text = "This Python code fits the same model. Shuffles are seeded, so the numbers are the same."
    return Section("code", "Reproduce this fit", text, code=fitted.code)


def _tried(fitted: Fitted) -> list[Assessment]:
    """Fit the common methods with the same rule, and sort them by error."""
    smallest = float(fitted.spectrum.eigenvalues.min(initial=np.inf))
    common: list[Method] = [Ridge(), GradientFlow(), AcceleratedFlow(), AcceleratedFlow(5.0)]
    if np.isfinite(smallest):
        common.append(HeavyBallFlow(float(np.sqrt(smallest))))
    # Stops that a user chose are times of one method, so that other methods choose their own.
    stops = fitted.model.stops if isinstance(fitted.model.stops, int) else None
    others = [method for method in common if method != fitted.model.method_]
    models = [_refitted(fitted, slice(None), method=one, stops=stops) for one in others]
    found = [fitted.assessment, *(assess(model, fitted.spectrum) for model in models)]
    return sorted(found, key=lambda one: one.error)


def _refitted(fitted: Fitted, rows: Any, **parameters: Any) -> Any:
    """Fit the model again, to some rows or with other parameters."""
    data = fitted.prepared
    weights = None if data.sample_weight is None else data.sample_weight[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StopWarning)  # it is about the data, as for the first fit
        model = clone(fitted.model).set_params(**parameters)
        return model.fit(data.X[rows], data.y[rows], weights)


def _dots(
    key: str, title: str, label: str, values: Sequence[tuple[str, float, float | None]]
) -> Chart:
    """Return a chart of errors with their standard errors, side by side."""
    names, errors, spreads = zip(*values, strict=True)
    place = np.arange(1.0, len(values) + 1)
    error = np.array(errors)
    spread = np.array([one or 0.0 for one in spreads])
    ends = (error - spread, error + spread)
    series = [
        Series("± one standard error", place, error, *ends, "whiskers", color=7),
        Series("error", place, error, kind="points", color=1, labels=names),
    ]
    return Chart(key, title, "", label, series, log_x=None, categories=names)


SECTIONS: dict[str, Callable[[Fitted], Section]] = {
    "error curve": error_curve,
    "coefficients": coefficients,
    "bias and variance": bias_and_variance,
    "comparison": methods,
    "intervals": intervals,
    "spectrum": spectrum,
    "data": data,
    "code": code,
}
