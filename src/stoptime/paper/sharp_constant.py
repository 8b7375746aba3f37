"""A figure of both readings of the paper's theorem: a stop for each spectrum, and one for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stoptime.bounds.certificates import risk_inflation
from stoptime.bounds.heavy_ball import estimated_heavy_ball
from stoptime.bounds.minimax import Solution, estimated_game
from stoptime.bounds.summary import heavy_ball_theorem
from stoptime.methods.flows import AcceleratedFlow, HeavyBallFlow
from stoptime.paper.experiment import Experiment, Rows
from stoptime.show import plots
from stoptime.support.arrays import Array
from stoptime.theory.calibration import calibrate
from stoptime.theory.search import risk_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAU = np.geomspace(0.15, 30, 1500)  # stops in units of 1/√λ*
KAPPA = np.array([1.5, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])
FLOW = AcceleratedFlow()
OF_ONE_STOP = "#0072B2"  # the colour of one stop for all spectra
OF_BEST_STOP = "#D55E00"  # and of the best stop of each


def sharp_constant() -> Experiment:
    """Draw the worst spectrum among random ones, the mixture that proves it, and heavy ball."""
    game = estimated_game(FLOW)
    one_stop = calibrate(FLOW)
    figure, (left, middle, right) = plots.new_figure(1, 3, figsize=(14, 4.2))
    rows = _by_stop(left, game) + _by_eigenvalue(middle, game, one_stop.stop)
    rows += by_condition_number(right, KAPPA)
    for ax in (left, middle):
        for level, color in ((one_stop.inflation, OF_ONE_STOP), (1 + game.upper, OF_BEST_STOP)):
            ax.axhline(level, color=color, linewidth=0.9, linestyle=":")
            transform = ax.get_yaxis_transform()
            offset = (2, 2), transform, "offset points"
            ax.annotate(f"{level:.4f}", (0.01, level), *offset, color=color)
        ax.axhline(1, color="0.6", linewidth=0.8, zorder=0)
    caption = (
        "Largest risk of accelerated flow over that of the best ridge, computed in floating point: "
        f"about {1 + game.upper:.4f} at the best stop of each spectrum, and "
        f"{one_stop.inflation:.4f} with one stop for all spectra."
    )
    return Experiment("sharp_constant", figure, ("panel", "curve", "x", "value"), rows, caption)


def _drawn(
    ax: Axes, panel: str, label: str, x: ArrayLike, y: ArrayLike, line: str = "-", **style: Any
) -> Rows:
    """Draw a curve and return its numbers."""
    ax.plot(x, y, line, label=label, linewidth=1.8, **style)
    pairs = zip(np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True)
    return [(panel, label, *pair) for pair in pairs]


def _by_stop(ax: Axes, game: Solution) -> Rows:
    """Draw risk over ridge risk against the stop, on the worst spectrum and on random ones."""
    rng = np.random.default_rng(0)
    for number in range(40):
        x = np.exp(rng.uniform(-2, 3, 6))
        ratio = rng.dirichlet(np.ones(6)) @ risk_ratio(FLOW, x[:, None], TAU)
        best = int(ratio.argmin())
        label = "random spectra, • best stop" if number == 0 else None
        ax.plot(TAU, ratio, color="0.82", linewidth=0.7, zorder=0, label=label)
        ax.plot(TAU[best], ratio[best], ".", color="0.45", markersize=4, zorder=1)
    places = np.array(game.spectrum.points)
    worst = game.spectrum.mean(risk_ratio(FLOW, (places**2)[:, None], TAU).T)
    rows = _drawn(ax, "stop", "worst spectrum", TAU, worst, color=OF_BEST_STOP)
    ax.set(xscale="log", ylim=(0.98, 2.2), xlabel="stop  t√λ*", ylabel="risk over best ridge risk")
    ax.set_title("No stop is better on the worst spectrum")
    ax.legend(loc="upper right", fontsize="small")
    return rows


def _by_eigenvalue(ax: Axes, game: Solution, stop: float) -> Rows:
    """Draw the risk of one direction over ridge's: at the best single stop, and of the mixture."""
    x = np.geomspace(0.03, 300, 1500)
    single = risk_ratio(FLOW, x, stop)
    mixture = game.mixture.mean(risk_ratio(FLOW, x[:, None], np.array(game.mixture.points)))
    rows = _drawn(ax, "eigenvalue", "the best single stop", x, single, color=OF_ONE_STOP)
    rows += _drawn(ax, "eigenvalue", "the best mixture of stops", x, mixture, color=OF_BEST_STOP)
    eigenvalues = np.array(game.spectrum.points) ** 2
    shares = np.array(game.spectrum.weights) * (1 + eigenvalues)
    ax.vlines(eigenvalues, 0.82, 0.82 + 0.16 * shares / shares.max(), color="0.35", linewidth=2.5)
    ax.annotate("worst spectrum", (0.035, 0.84), color="0.35", fontsize="small")
    ax.set(xscale="log", ylim=(0.82, 1.75), xlabel="eigenvalue  s/λ*")
    ax.set_ylabel("risk over ridge risk, one direction")
    ax.set_title("The mixture that proves it")
    ax.legend(loc="upper right", fontsize="small")
    pairs = zip(eigenvalues.tolist(), (shares / shares.sum()).tolist(), strict=True)
    return [*rows, *(("eigenvalue", "worst spectrum", *pair) for pair in pairs)]


def by_condition_number(ax: Axes, condition_numbers: Array, *, certify: bool = False) -> Rows:
    """Draw the paper's h(κ) and both constants of heavy-ball flow, estimated or certified."""

    def constant(kappa: float, adaptive: bool) -> float:
        options: Any = {"adaptive": adaptive, "tolerance": 1e-2 if adaptive else 3e-3}
        if certify:
            return risk_inflation(HeavyBallFlow(), condition_number=kappa, **options).upper
        return estimated_heavy_ball(kappa, **options)

    every = condition_numbers
    # larger condition numbers take minutes for each point
    few = every[every <= 1000]
    one = [constant(kappa, adaptive=False) for kappa in every.tolist()]
    best = [constant(kappa, adaptive=True) for kappa in few.tolist()]
    rows: Rows = []
    for label, x, values, color, line in (
        ("the paper's bound h(κ)", every, heavy_ball_theorem(every), "#CC79A7", "-"),
        ("1 + √κ: start or least squares", every, 1 + np.sqrt(every), "0.4", "--"),
        ("one stop for each κ, μ/λ*", every, one, OF_ONE_STOP, ".-"),
        ("best stop of each spectrum", few, best, OF_BEST_STOP, ".-"),
    ):
        rows += _drawn(ax, "condition number", label, x, values, line, color=color)
    ax.set(xscale="log", yscale="log", xlabel="condition number κ", ylim=(0.9, None))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_title(f"Heavy-ball flow over ridge, {'at most' if certify else 'numerical'}")
    ax.legend(loc="upper left", fontsize="small")
    return rows
