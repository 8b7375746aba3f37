"""
What does Adam regularise?
==========================

Adam against gradient descent and ridge, on the same data and from exact paths.
"""

# %%
# Above, left: all coefficients have the same size; Adam, which moves all of them at the same speed,
# is better than the best ridge. Above, right: one coefficient in ten matters; Adam is worse at
# every stop. Below: Adam is far from ridge, and close to ridge in the metric of its own step sizes.

from dataclasses import replace

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import stoptime as st
from stoptime.paper.reproduction import Experiment
from stoptime.show import plots

RESPONSES = 100
FEW_RESPONSES = 10
ADAPTIVE_ROWS = 150
ADAPTIVE_FEATURES = 30
ADAPTIVE_STEPS = np.unique(np.round(np.geomspace(1, 150, 40)))
COLUMN_SIZES = (1.0, 0.3)  # largest and smallest standard deviation of a column
OPTIMISERS = {"gradient-descent": {"step": 0.1}, "adam": {"lr": 0.005}}
RIDGE_STOPS = np.geomspace(1e-2, 1e4, 200)


def adaptive_paths():
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
    rows = []
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


def _optimiser_path(name, spectrum, stops):
    method = replace(st.get_method(name), **OPTIMISERS[name])
    return st.path(spectrum, method.tuned_to(spectrum.eigenvalues), stops)


def _mean_freedom(path):
    """Return degrees of freedom, averaged over responses where each has its own."""
    found = path.degrees_of_freedom.reshape(len(path.stops), -1).mean(axis=1)
    return [float(one) for one in found]


def _risk_panel(ax, X, Y, beta):
    """Draw the risk of predictions, averaged over the responses, against degrees of freedom."""
    spectrum = st.decompose(X, Y)
    paths = {name: _optimiser_path(name, spectrum, ADAPTIVE_STEPS) for name in OPTIMISERS}
    paths["ridge"] = st.path(spectrum, st.get_method("ridge"), RIDGE_STOPS)
    centred = X - X.mean(axis=0)
    rows = []
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


def _distance_panel(ax, X, Y):
    """Draw the relative distance of fits from the nearest ridge, in the metric of each."""
    few = Y[:, :FEW_RESPONSES]
    spectrum = st.decompose(X, few)
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
    rows = []
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


def _metric(path, X, Y):
    """Return the step sizes of every coefficient, the diagonal of the metric, at every step."""
    rows = X - X.mean(axis=0)
    method = path.method
    kept = method.betas[1]
    square = np.zeros(path.coef.shape[1:])
    found = [np.ones_like(square)]
    for k, coef in enumerate(path.coef[:-1], start=1):
        gradient = 2 / len(rows) * rows.T @ (rows @ coef - (Y - Y.mean(axis=0)))
        square = kept * square + (1 - kept) * gradient**2
        found.append(1 / (np.sqrt(square / (1 - kept**k)) + method.eps))
    return np.array(found)


def _nearest(X, Y, coef, metric):
    """Return the distance of fits to the nearest ridge with penalty Σ β²/metric, over their length.

    It is a mean over the responses; coefficients and metric have one column for each.
    """
    rows = X - X.mean(axis=0)
    found = []
    for y, one, own in zip(Y.T, coef.T, metric.T, strict=True):
        root = np.sqrt(own / own.mean())
        path = st.path(st.decompose(X * root, y), st.get_method("ridge"), RIDGE_STOPS)
        fit = rows @ one
        gaps = np.linalg.norm(path.coef * root @ rows.T - fit, axis=1)
        found.append(gaps.min() / np.linalg.norm(fit))
    return float(np.mean(found))


experiment = adaptive_paths()
figure = experiment.figure
figure.set_size_inches(8, 7)
grid = figure.add_gridspec(2, 2)
for ax, cell in zip(figure.axes, (grid[0, 0], grid[0, 1], grid[1, :]), strict=True):
    ax.set_subplotspec(cell)

# %%
# The stop is chosen by cross-validation or by SURE: exact leave-one-out needs a filter.

X, y = load_diabetes(return_X_y=True)
X, y = scale(X)[:80], y[:80]
for options in ({"cv": 5}, {"rule": "sure"}):
    model = st.StoppedRegressorCV(st.Adam(lr=0.5), **options).fit(X, y)
    print(f"{options}: stop after {model.stop_:.0f} steps, error {model.choice_.error:.0f}")

plt.show()
