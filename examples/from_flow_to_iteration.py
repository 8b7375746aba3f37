"""
From flow to iteration
======================

Iterates compared with their flow, the distance between them, and the exact risk.
"""

# %%
# Above, left: the shrinkage of one direction under Nesterov's method for three step sizes ε, and
# accelerated flow at time √ε·k. Above, right: the largest difference over all directions; halving
# √ε halves it. Below: the exact risk of every iteration and the mean of 500 simulated runs, with
# two standard errors.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.paper.reproduction import Experiment
from stoptime.show import plots

# Marker and colour by √ε, the time of one iteration if the largest eigenvalue is one.
MARKERS = {0.5: ("o", "#D55E00"), 0.25: ("^", "#E69F00"), 0.125: (".", "#0072B2")}
LAST_TIME = 24.0
EIGENVALUE = 0.5
RUNS = 500
ITERATES = 60
COMPARED = {
    "gradient descent": (st.GradientFlow(), st.GradientDescent()),
    "Nesterov": (st.AcceleratedFlow(), st.Nesterov()),
    "heavy ball": (st.HeavyBallFlow(0.3), st.HeavyBall(momentum=0.8)),
}


def of_pace(method, flow, pace):
    """Return the iteration that takes this time of its flow in every step."""
    method = method.with_params(step=pace**flow.time_power)
    if isinstance(flow, st.HeavyBallFlow):
        return method.with_params(momentum=1 - 2 * flow.damping * pace)
    return method


def from_flow_to_iteration():
    """Draw three panels: iterates on the flow, the gap, and the risk of every iteration."""
    figure, (left, middle, right) = plots.new_figure(1, 3, figsize=(14, 4))
    rows = [*_iterates(left), *_gaps(middle), *_risks(right)]
    for ax in (left, middle, right):
        ax.legend(fontsize="small")
    columns = ("panel", "method", "x", "value", "reference", "two_standard_errors")
    caption = "Iterates are within O(√ε) of their flow; exact risk and mean loss of 500 runs agree."
    return Experiment("from_flow_to_iteration", figure, columns, rows, caption)


def _iterates(ax):
    """Draw g of one direction: the flow as a line, iterates as dots."""
    t = np.linspace(0, LAST_TIME, 600)
    flow = st.AcceleratedFlow()
    g = flow.shrinkage(EIGENVALUE, t)
    ax.plot(t, g, color="0.25", linewidth=1.4, label="accelerated flow", zorder=1)
    rows = []
    for root, (marker, color) in MARKERS.items():
        k = np.arange(round(LAST_TIME / root) + 1)
        g = st.Nesterov(root**2).shrinkage(EIGENVALUE, k)
        reference = flow.shrinkage(EIGENVALUE, root * k)
        ax.plot(root * k, g, marker, color=color, markersize=4, label=f"Nesterov, √ε = {root:g}")
        numbers = zip((root * k).tolist(), g.tolist(), reference.tolist(), strict=True)
        rows += [("iterates", f"√ε = {root:g}", *row, "") for row in numbers]
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlabel="time  t = √ε·k", ylabel=f"shrinkage g at s = {EIGENVALUE:g}")
    ax.set_title("Iterates follow the flow")
    return rows


def _gaps(ax):
    """Draw the largest gap between iterate and flow up to t = 6, by the time of one iteration."""
    s = np.linspace(0, 1, 200)[:, None]
    paces = 2.0 ** -np.arange(1, 8)
    rows = []
    for label, (flow, method) in COMPARED.items():
        gaps = []
        for pace in paces.tolist():
            k = np.arange(1, round(6 / pace) + 1)
            g = of_pace(method, flow, pace).shrinkage(s, k)
            gaps.append(float(np.abs(g - flow.shrinkage(s, pace * k)).max()))
            rows.append(("gap", label, pace, gaps[-1], "", ""))
        ax.loglog(paces, gaps, "o-", color=plots.COLORS[flow.name], ms=4, linewidth=1, label=label)
    ax.loglog(paces, 0.08 * paces, ":", color="0.4", label="slope one")
    ax.set(xlabel="time of one iteration (ε or √ε)", ylabel="largest gap up to t = 6")
    ax.set_title("Halving √ε halves the gap")
    return rows


def _risks(ax):
    """Draw the exact risk of every iteration, and the mean loss of simulated runs on top."""
    rng = np.random.default_rng(0)
    n, p, noise = 100, 40, 4.0
    X = rng.standard_normal((n, p)) * np.geomspace(0.15, 1, p)
    beta = rng.standard_normal(p)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    responses = (X @ beta)[:, None] + np.sqrt(noise) * rng.standard_normal((n, RUNS))
    known = {"signal": vectors.T @ beta, "noise": noise, "n_samples": n}
    k = np.arange(ITERATES + 1)
    dots = {"fmt": "o", "ms": 3, "mfc": "white", "elinewidth": 0.8}
    rows = []
    for label, (_, method) in COMPARED.items():
        tuned = method.tuned_to(values)
        curve = st.risk(tuned, k, eigenvalues=values, **known)
        losses = _losses(tuned, X, responses, beta)
        mean = losses.mean(axis=1)
        error = 2 * losses.std(axis=1) / np.sqrt(RUNS)
        color = plots.COLORS[method.name]
        ax.plot(k, curve.total, color=color, linewidth=1.4, label=label)
        ax.errorbar(k[::3], mean[::3], error[::3], color=color, **dots)
        ax.plot(curve.best, curve.best_total, "*", color=color, markersize=11)
        numbers = zip(k, curve.total, mean, error, strict=True)
        rows += [("risk", label, *map(float, row)) for row in numbers]
    ax.plot([], [], "o", color="0.3", ms=3, mfc="white", label=f"mean of {RUNS} runs ± 2 s.e.")
    ax.set(xlabel="iteration k", ylabel="risk", ylim=(0, None))
    ax.set_title("Exact risk; stars: best stop")
    return rows


def _losses(method, X, responses, beta):
    """Run the iteration on all responses; return squared distances from β, (iterates + 1, runs)."""
    point = np.zeros((X.shape[1], responses.shape[1]))
    move = np.zeros_like(point)
    losses = []
    for k in range(1, ITERATES + 2):
        losses.append(((point - beta[:, None]) ** 2).sum(axis=0))
        momentum, lookahead, weight = method.coefficients(k)
        # This uses the data, not the spectrum, so it is an independent check of the exact risk.
        gradient = X.T @ (X @ (point + lookahead * move) - responses) / len(X)
        move = momentum * move - weight * method.epsilon * gradient
        point = point + move
    return np.array(losses)


experiment = from_flow_to_iteration()
figure = experiment.figure
figure.set_size_inches(8, 7)
grid = figure.add_gridspec(2, 2)
for ax, cell in zip(figure.axes, (grid[0, 0], grid[0, 1], grid[1, :]), strict=True):
    ax.set_subplotspec(cell)

plt.show()
