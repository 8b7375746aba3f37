"""From flow to iteration: iterates on their flow, the gap between them, exact and simulated risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.methods import (
    AcceleratedFlow,
    GradientDescent,
    GradientFlow,
    HeavyBall,
    HeavyBallFlow,
    Iteration,
    Nesterov,
)
from stoptime.methods.base import Array
from stoptime.paper.experiment import Experiment
from stoptime.support import plots
from stoptime.theory.risk import risk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["from_flow_to_iteration"]

ROOT_STEPS = (0.5, 0.25, 0.125)  # √ε, for a largest eigenvalue of one
MARKERS = {0.5: ("o", "#D55E00"), 0.25: ("^", "#E69F00"), 0.125: (".", "#0072B2")}
LAST_TIME, EIGENVALUE = 24.0, 0.5
RUNS, ITERATES = 500, 60
FLOWS: dict[str, GradientFlow | AcceleratedFlow | HeavyBallFlow] = {
    "gradient descent": GradientFlow(),
    "Nesterov": AcceleratedFlow(),
    "heavy ball": HeavyBallFlow(0.3),
}
SIMULATED: dict[str, Iteration] = {
    "gradient descent": GradientDescent(),
    "Nesterov": Nesterov(),
    "heavy ball": HeavyBall(momentum=0.8),
}

Rows = list[tuple[Any, ...]]


def from_flow_to_iteration() -> Experiment:
    """Draw three panels: iterates on the flow, the gap, and the risk of every iteration."""
    figure, (left, middle, right) = plots.new_figure(1, 3, figsize=(14, 4))
    rows = [*_iterates(left), *_gaps(middle), *_risks(right)]
    columns = ("panel", "method", "x", "value", "reference", "two_standard_errors")
    caption = "Iterates follow their flow within O(√ε), and their exact risk is that of 500 simulated runs."
    return Experiment("from_flow_to_iteration", figure, columns, rows, caption)


def _iterates(ax: Axes) -> Rows:
    """Draw g of one direction: the flow as a line, iterates as dots."""
    t = np.linspace(0, LAST_TIME, 600)
    flow = AcceleratedFlow()
    ax.plot(
        t,
        flow.shrinkage(EIGENVALUE, t),
        color="0.25",
        linewidth=1.4,
        label="accelerated flow",
        zorder=1,
    )
    rows: Rows = []
    for root in ROOT_STEPS:
        k = np.arange(round(LAST_TIME / root) + 1)
        g, reference = (
            Nesterov(root**2).shrinkage(EIGENVALUE, k),
            flow.shrinkage(EIGENVALUE, root * k),
        )
        marker, color = MARKERS[root]
        ax.plot(root * k, g, marker, color=color, markersize=4, label=f"Nesterov, √ε = {root:g}")
        rows += [
            ("iterates", f"√ε = {root:g}", *map(float, row), "")
            for row in zip(root * k, g, reference, strict=True)
        ]
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(
        xlabel="time  t = √ε·k",
        ylabel=f"shrinkage g at s = {EIGENVALUE:g}",
        title="Iterates follow the flow",
    )
    ax.legend(fontsize="small")
    return rows


def _gaps(ax: Axes) -> Rows:
    """Draw the largest distance between iterate and flow up to t = 6, against the time of one iteration."""
    s, paces = np.linspace(0, 1, 200)[:, None], 2.0 ** -np.arange(1, 8)
    rows: Rows = []
    for label, flow in FLOWS.items():
        gaps = []
        for pace in paces:
            k = np.arange(1, round(6 / pace) + 1)
            g = flow.as_iteration(float(pace**flow.order)).shrinkage(s, k)
            gaps.append(float(np.abs(g - flow.shrinkage(s, pace * k)).max()))
        ax.loglog(
            paces, gaps, "o-", color=plots.COLORS[flow.name], markersize=4, linewidth=1, label=label
        )
        rows += [
            ("gap", label, float(pace), gap, "", "") for pace, gap in zip(paces, gaps, strict=True)
        ]
    ax.loglog(paces, 0.08 * paces, ":", color="0.4", label="slope one")
    ax.set(xlabel="time of one iteration (ε or √ε)", ylabel="largest gap up to t = 6")
    ax.set_title("Halving √ε halves the gap")
    ax.legend(fontsize="small")
    return rows


def _risks(ax: Axes) -> Rows:
    """Draw the exact risk of every iteration, and the mean loss of runs of the iteration itself on top."""
    rng = np.random.default_rng(0)
    n, p, noise = 100, 40, 4.0
    X = rng.standard_normal((n, p)) * np.geomspace(0.15, 1, p)
    beta = rng.standard_normal(p)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    responses = (X @ beta)[:, None] + np.sqrt(noise) * rng.standard_normal((n, RUNS))
    k = np.arange(ITERATES + 1)
    rows: Rows = []
    for label, method in SIMULATED.items():
        curve = risk(
            method, k, eigenvalues=values, signal=vectors.T @ beta, noise=noise, n_samples=n
        )
        color = plots.COLORS[method.name]
        losses = _losses(curve.method, X, responses, beta)
        mean, error = losses.mean(axis=1), 2 * losses.std(axis=1) / np.sqrt(RUNS)
        ax.plot(k, curve.total, color=color, linewidth=1.4, label=label)
        ax.errorbar(
            k[::3], mean[::3], error[::3], fmt="o", color=color, ms=3, mfc="white", elinewidth=0.8
        )
        ax.plot(curve.best, curve.best_total, "*", color=color, markersize=11)
        columns = (k, curve.total, mean, error)
        rows += [("risk", label, *map(float, row)) for row in zip(*columns, strict=True)]
    ax.plot([], [], "o", color="0.3", ms=3, mfc="white", label=f"mean of {RUNS} runs ± 2 s.e.")
    ax.set(
        xlabel="iteration k", ylabel="risk", ylim=(0, None), title="Exact risk; stars: when to stop"
    )
    ax.legend(fontsize="small")
    return rows


def _losses(method: Any, X: Array, responses: Array, beta: Array) -> Array:
    """Run the iteration on all responses at once: squared distances from β, (iterates + 1, runs)."""
    step, n = float(method.step), len(X)
    point = old = np.zeros((X.shape[1], responses.shape[1]))
    losses = [((point - beta[:, None]) ** 2).sum(axis=0)]
    for k in range(1, ITERATES + 1):
        momentum = _momentum(method, k)
        ahead = point + momentum * (point - old)
        base = point if isinstance(method, HeavyBall) else ahead
        point, old = ahead + step / n * (X.T @ (responses - X @ base)), point
        losses.append(((point - beta[:, None]) ** 2).sum(axis=0))
    return np.array(losses)


def _momentum(method: Any, k: int) -> float:
    """Return what carries iterate k - 1 ahead of itself."""
    if isinstance(method, GradientDescent):
        return 0.0
    return max(k - 2, 0) / (k + 1) if isinstance(method, Nesterov) else float(method.momentum)
