"""From flow to iteration: iterates on top of their flow, the gap between them, and exact risk.

    python examples/from_flow_to_iteration.py [target.png]

Left, the shrinkage of one direction under Nesterov's method for three step sizes, on top of accelerated
flow at time √ε·k. Middle, the largest gap over all directions: halving √ε halves it. Right, the exact
risk of every iteration against the mean of 500 simulated runs, with two standard errors.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import stoptime as st
from stoptime import plots
from stoptime.methods import AcceleratedFlow, GradientDescent, HeavyBall, HeavyBallFlow, Nesterov

ROOT_STEPS = (0.5, 0.25, 0.125)  # √ε, for a largest eigenvalue of one
LAST_TIME = 24.0
EIGENVALUE = 0.5
RUNS = 500
ITERATIONS = 60


def draw_iterates(ax: plots.Axes) -> None:
    """Draw g of one direction: the flow as a line, iterates as dots."""
    t = np.linspace(0, LAST_TIME, 600)
    flow = AcceleratedFlow().shrinkage(EIGENVALUE, t)
    ax.plot(t, flow, color="0.25", linewidth=1.4, label="accelerated flow", zorder=1)
    for root, marker, color in zip(ROOT_STEPS, "o^.", ("#c44e52", "#dd8452", "#4c72b0"), strict=True):
        k = np.arange(round(LAST_TIME / root) + 1)
        g = Nesterov(root**2).shrinkage(EIGENVALUE, k)
        ax.plot(root * k, g, marker, color=color, markersize=4, label=f"Nesterov, √ε = {root:g}")
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlabel="time  t = √ε·k", ylabel=f"shrinkage g at s = {EIGENVALUE:g}")
    ax.set_title("Iterates follow the flow")
    ax.legend(fontsize="small")


def draw_gaps(ax: plots.Axes) -> None:
    """Draw the largest distance between iterate and flow up to t = 6, against the time of one iteration."""
    s, paces = np.linspace(0, 1, 200)[:, None], 2.0 ** -np.arange(1, 8)
    flows = {
        "gradient descent": st.GradientFlow(),
        "Nesterov": AcceleratedFlow(),
        "heavy ball": HeavyBallFlow(0.3),
    }
    for (label, flow), marker in zip(flows.items(), "os^", strict=True):
        gaps = []
        for pace in paces:
            iteration = flow.as_iteration(pace**flow.order)
            k = np.arange(1, round(6 / pace) + 1)
            gaps.append(np.abs(iteration.shrinkage(s, k) - flow.shrinkage(s, pace * k)).max())
        ax.loglog(paces, gaps, marker + "-", markersize=4, linewidth=1, label=label)
    ax.loglog(paces, 0.08 * paces, ":", color="0.4", label="slope one")
    ax.set(xlabel="time of one iteration (ε or √ε)", ylabel="largest gap up to t = 6")
    ax.set_title("Halving √ε halves the gap")
    ax.legend(fontsize="small")


def draw_risk(ax: plots.Axes) -> None:
    """Draw the exact risk of every iteration, and the mean loss of simulated runs on top."""
    rng = np.random.default_rng(0)
    n, p, noise = 100, 40, 4.0
    X = rng.standard_normal((n, p)) * np.geomspace(0.15, 1, p)
    beta = rng.standard_normal(p)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    responses = (X @ beta)[:, None] + np.sqrt(noise) * rng.standard_normal((n, RUNS))
    z = vectors.T @ X.T @ responses / n
    k, signal = np.arange(ITERATIONS + 1), vectors.T @ beta
    methods = {
        "gradient descent": GradientDescent(),
        "Nesterov": Nesterov(),
        "heavy ball": HeavyBall(momentum=0.8),
    }
    for (label, method), color in zip(methods.items(), ("#4c72b0", "#c44e52", "#55a868"), strict=True):
        curve = st.risk(method, k, eigenvalues=values, signal=signal, noise=noise, n_samples=n)
        gain = curve.method.gain(values[:, None], k)
        losses = np.array([((gain[:, [j]] * z - signal[:, None]) ** 2).sum(axis=0) for j in k])
        mean, error = losses.mean(axis=1), 2 * losses.std(axis=1) / np.sqrt(RUNS)
        ax.plot(k, curve.total, color=color, linewidth=1.4, label=label)
        ax.errorbar(k[::3], mean[::3], error[::3], fmt="o", color=color, ms=3, mfc="white", elinewidth=0.8)
        ax.plot(curve.best, curve.best_total, "*", color=color, markersize=11)
    ax.plot(
        [], [], "o", color="0.3", markersize=3, markerfacecolor="white", label=f"mean of {RUNS} runs ± 2 s.e."
    )
    ax.set(xlabel="iteration k", ylabel="risk", ylim=(0, None))
    ax.set_title("Exact risk of every iteration; stars: stop")
    ax.legend(fontsize="small")


def main(target: Path) -> None:
    """Draw the three panels."""
    figure, (left, middle, right) = plots.new_figure(1, 3, figsize=(14, 4))
    draw_iterates(left)
    draw_gaps(middle)
    draw_risk(right)
    figure.savefig(target, dpi=110)
    print(f"wrote {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("from_flow_to_iteration.png"))
