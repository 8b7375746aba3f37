"""Two figures beyond the paper: random batches, and what Adam regularises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stoptime.methods.adaptive import Adam
from stoptime.methods.registry import get_method
from stoptime.paper.experiment import Experiment, Rows
from stoptime.paths import Path, draw
from stoptime.show import plots
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.support.arrays import Array, Floats
from stoptime.theory import stochastic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH_ROWS = 240
BATCH_FEATURES = 60
BATCH_SIZES = (8, 32, 128, 512)
BATCH_STEPS = np.unique(np.round(np.geomspace(1, 400, 50)))
SMALL_STEP = 0.3  # of the largest one for which the upper bound is finite
RESPONSES = 100
SIMULATED_RUNS = 200
FEW_RESPONSES = 10
ADAPTIVE_ROWS = 150
ADAPTIVE_FEATURES = 30
ADAPTIVE_STEPS = np.unique(np.round(np.geomspace(1, 150, 40)))
COLUMN_SIZES = (1.0, 0.3)  # largest and smallest standard deviation of a column
OPTIMISERS: dict[str, dict[str, float]] = {"gradient-descent": {"step": 0.1}, "adam": {"lr": 0.005}}
RIDGE_STOPS = np.geomspace(1e-2, 1e4, 200)


def batch_sizes() -> Experiment:
    """Draw the exact risk of several batch sizes, and what the limit and the bound say of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BATCH_ROWS, BATCH_FEATURES)) * np.geomspace(0.3, 1, BATCH_FEATURES)
    beta = rng.standard_normal(BATCH_FEATURES) / np.sqrt(BATCH_FEATURES)
    figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
    rows = [*_risks_of_batches(left, X, beta), *_bounds_of_batches(right, X, beta)]
    columns = ("panel", "curve", "steps", "risk", "two_standard_errors")
    caption = "Exact risk on random batches; the limit from the spectrum alone."
    return Experiment("batch_sizes", figure, columns, rows, caption)


def _known(X: Array, beta: Array) -> tuple[Array, dict[str, Any]]:
    """Return the eigenvalues, and what the limit needs to know of signal and noise."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return values, {"signal": vectors.T @ beta, "noise": 1.0, "n_samples": len(X)}


def _risks_of_batches(ax: Axes, X: Array, beta: Array) -> Rows:
    """Draw risks against steps, the limit dashed, and means of simulated runs as dots."""
    values, known = _known(X, beta)
    step = 0.5 * stochastic.largest_step(X, BATCH_SIZES[0])
    curves = {
        f"batches of {size}": stochastic.risk(X, beta, 1.0, step, size, BATCH_STEPS)
        for size in BATCH_SIZES
    }
    plots.batches(curves, ax=ax)
    rows: Rows = []
    for size, (label, curve) in zip(BATCH_SIZES, curves.items(), strict=True):
        limit = stochastic.limit(values, BATCH_STEPS, **known, step=step, batch_size=size)
        ax.plot(limit.stops, limit.total, "--", color="0.3", linewidth=0.9)
        rows += _rows(label, "exact", curve.stops, curve.total)
        rows += _rows(label, "limit", limit.stops, limit.total)
    steps = BATCH_STEPS[8::6]
    mean, error = _simulated(X, beta, step, BATCH_SIZES[0], steps)
    ax.errorbar(steps, mean, 2 * error, fmt="o", color="0.2", ms=3, mfc="white", elinewidth=0.8)
    rows += _rows(f"batches of {BATCH_SIZES[0]}", "simulated", steps, mean, 2 * error)
    ax.plot([], [], "--", color="0.3", linewidth=0.9, label="limit, from the spectrum")
    ax.plot([], [], "o", color="0.2", ms=3, mfc="white", label=f"mean of {SIMULATED_RUNS} runs")
    ax.set_title("Exact risk on random batches")
    ax.set_ylim(0.4, 8)
    ax.legend(fontsize="small", ncols=2, loc="upper left")
    return rows


def _bounds_of_batches(ax: Axes, X: Array, beta: Array) -> Rows:
    """Draw what batches add to the risk: exact, in the limit, and at most."""
    values, known = _known(X, beta)
    size = BATCH_SIZES[1]
    step = SMALL_STEP * 2 * size / (len(X) * values.sum())
    steps = np.unique(np.round(np.geomspace(1, 30_000, 40)))
    exact = stochastic.risk(X, beta, 1.0, step, size, steps[steps <= 1000])
    ax.loglog(exact.stops, exact.batches, color="#0072B2", linewidth=1.8, label="exact")
    rows = _rows("added", "exact", exact.stops, exact.batches)
    curve = stochastic.limit(values, steps, **known, step=step, batch_size=size)
    label = "limit, from the spectrum"
    ax.loglog(curve.stops, curve.batches, "--", color="0.2", linewidth=1.4, label=label)
    rows += _rows("added", label, curve.stops, curve.batches)
    full = curve.full_gradient
    ax.loglog(steps, full, color="black", linewidth=1.0, label="risk of the full gradient")
    ax.set(xlabel="steps", ylabel="risk that batches add")
    ax.set_title(f"Batches of {size}, short steps")
    ax.legend(fontsize="small")
    return rows


def _rows(panel: str, curve: str, steps: Array, values: Array, errors: Any = None) -> Rows:
    spread = [""] * len(steps) if errors is None else errors.tolist()
    numbers = zip(steps.tolist(), values.tolist(), spread, strict=True)
    return [(panel, curve, *row) for row in numbers]


def _simulated(X: Array, beta: Array, step: float, size: int, steps: Array) -> tuple[Array, Array]:
    """Return means and standard errors of ‖β - β₀‖² over runs, each with noise of its own."""
    # this uses rows and not the recursion for covariances, so it is an independent check
    rng = np.random.default_rng(1)
    responses = X @ beta + rng.standard_normal((SIMULATED_RUNS, len(X)))
    coef = np.zeros((SIMULATED_RUNS, X.shape[1]))
    losses = []
    for k in range(1, int(steps[-1]) + 1):
        batch = rng.integers(0, len(X), (SIMULATED_RUNS, size))
        rows = X[batch]
        errors = (rows @ coef[:, :, None])[..., 0] - np.take_along_axis(responses, batch, axis=1)
        coef = coef - step / size * (errors[:, None] @ rows)[:, 0]
        if k in steps:
            losses.append(((coef - beta) ** 2).sum(axis=1))
    found = np.array(losses)
    return found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(SIMULATED_RUNS)


def adaptive_paths() -> Experiment:
    """Draw the risk of Adam for two signals, and its distance from ridge in two metrics."""
    figure, (left, middle, right) = plots.new_figure(1, 3, figsize=(14, 4.2))
    rng = np.random.default_rng(2)
    sizes = np.geomspace(*COLUMN_SIZES, ADAPTIVE_FEATURES)
    X = rng.standard_normal((ADAPTIVE_ROWS, ADAPTIVE_FEATURES)) * sizes
    dense = rng.choice([-1.0, 1.0], ADAPTIVE_FEATURES)
    sparse = np.where(np.arange(ADAPTIVE_FEATURES) % 10 == 0, dense, 0.0)
    panels = {
        "coefficients of equal size": (left, dense),
        "one coefficient in ten": (middle, sparse),
    }
    rows: Rows = []
    for title, (ax, signal) in panels.items():
        beta = signal / np.sqrt(np.mean((X @ signal) ** 2))
        Y = (X @ beta)[:, None] + rng.standard_normal((ADAPTIVE_ROWS, RESPONSES))
        ax.set_title(f"Signal: {title}")
        rows += _risk_panel(ax, X, Y, beta)
        if signal is dense:
            rows += _distance_panel(right, X, Y)
    columns = ("panel", "curve", "degrees_of_freedom", "value")
    caption = "Adam against gradient descent and ridge: risk for two signals, distance from ridge."
    return Experiment("adaptive_paths", figure, columns, rows, caption)


def _optimiser_path(name: str, spectrum: Spectrum, stops: Floats) -> Path:
    method = replace(get_method(name), **OPTIMISERS[name])
    return draw(spectrum, method.tuned_to(spectrum.eigenvalues), stops)


def _mean_freedom(path: Path) -> list[float]:
    """Return degrees of freedom, averaged over responses where each has its own."""
    found = path.degrees_of_freedom.reshape(len(path.stops), -1).mean(axis=1)
    return [float(one) for one in found]


def _risk_panel(ax: Axes, X: Array, Y: Array, beta: Array) -> Rows:
    """Draw the risk of predictions, averaged over the responses, against degrees of freedom."""
    spectrum = decompose(X, Y)
    paths = {name: _optimiser_path(name, spectrum, ADAPTIVE_STEPS) for name in OPTIMISERS}
    paths["ridge"] = draw(spectrum, get_method("ridge"), RIDGE_STOPS)
    centred = X - X.mean(axis=0)
    rows: Rows = []
    for name, path in paths.items():
        gaps = centred @ (path.coef - beta[:, None])
        risk = np.mean(gaps**2, axis=(1, 2)).tolist()
        freedom = _mean_freedom(path)
        style = "--" if name == "ridge" else "-"
        ax.plot(freedom, risk, style, color=plots.COLORS[name], label=plots.LABELS[name])
        rows += [(ax.get_title(), name, *row) for row in zip(freedom, risk, strict=True)]
    ax.set(xlabel="degrees of freedom", ylabel="prediction risk", ylim=(0, 1))
    ax.legend(fontsize="small")
    return rows


def _distance_panel(ax: Axes, X: Array, Y: Array) -> Rows:
    """Draw the relative distance of fits from the nearest ridge, in the metric of each."""
    few = Y[:, :FEW_RESPONSES]
    spectrum = decompose(X, few)
    every = np.arange(ADAPTIVE_STEPS[-1] + 1)
    adam = _optimiser_path("adam", spectrum, every)
    descent = _optimiser_path("gradient-descent", spectrum, every)
    steps = ADAPTIVE_STEPS[::3].astype(np.intp)
    same = np.ones((len(steps), *adam.coef.shape[1:]))
    curves = {
        "gradient descent, from ridge": (descent, same, "gradient-descent", "-"),
        "Adam, from ridge": (adam, same, "adam", "-"),
        "Adam, from ridge in its own metric": (adam, _metric(adam, X, few)[steps], "adam", ":"),
    }
    rows: Rows = []
    for label, (path, metric, name, style) in curves.items():
        distance = [
            _nearest(X, few, path.coef[k], own) for k, own in zip(steps, metric, strict=True)
        ]
        freedom = [_mean_freedom(path)[k] for k in steps]
        ax.semilogy(freedom, distance, style, color=plots.COLORS[name], label=label)
        rows.extend(("distance", label, *row) for row in zip(freedom, distance, strict=True))
    ax.set(xlabel="degrees of freedom", ylabel="distance of fits over their length")
    ax.set_title("Distance from the nearest ridge")
    ax.legend(fontsize="small")
    return rows


def _metric(path: Path, X: Array, Y: Array) -> Array:
    """Return the step sizes of every coefficient, the diagonal of the metric, at every step."""
    rows = X - X.mean(axis=0)
    method = cast("Adam", path.method)
    kept = method.betas[1]
    square = np.zeros(path.coef.shape[1:])
    found = [np.ones_like(square)]
    for k, coef in enumerate(path.coef[:-1], start=1):
        gradient = 2 / len(rows) * rows.T @ (rows @ coef - (Y - Y.mean(axis=0)))
        square = kept * square + (1 - kept) * gradient**2
        found.append(1 / (np.sqrt(square / (1 - kept**k)) + method.eps))
    return np.array(found)


def _nearest(X: Array, Y: Array, coef: Array, metric: Array) -> float:
    """Return the distance of fits to the nearest ridge with penalty Σ β²/metric, over their length.

    It is a mean over the responses; coefficients and metric have one column for each.
    """
    rows = X - X.mean(axis=0)
    found = []
    for y, one, own in zip(Y.T, coef.T, metric.T, strict=True):
        root = np.sqrt(own / own.mean())
        path = draw(decompose(X * root, y), get_method("ridge"), RIDGE_STOPS)
        fit = rows @ one
        gaps = np.linalg.norm(path.coef * root @ rows.T - fit, axis=1)
        found.append(gaps.min() / np.linalg.norm(fit))
    return float(np.mean(found))
