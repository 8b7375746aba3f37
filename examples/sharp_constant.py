"""
The sharp constant
==================

How much worse than the best ridge accelerated flow can be, with one stop for all spectra and with
the best stop of each spectrum.
"""

# %%
# Left: no stop is better on the worst spectrum, and random spectra are far less bad. Right: a
# mixture of stops proves it, as no eigenvalue has more risk with it.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.bounds.minimax import solve
from stoptime.paper.reproduction import Experiment
from stoptime.show import plots
from stoptime.theory.search import risk_ratio

TAU = np.geomspace(0.15, 30, 1500)  # stops in units of 1/√λ*
FLOW = st.AcceleratedFlow()
OF_ONE_STOP = "#0072B2"  # the colour of one stop for all spectra
OF_BEST_STOP = "#D55E00"  # and of the best stop of each


def solved():
    """Solve the game of stop and spectrum in floating point; places are √(s/λ*)."""

    def payoff(places, stops):
        x = (places**2)[:, None]
        return risk_ratio(FLOW, x, stops) - 1

    grid = np.geomspace(0.05, 40, 4000)
    stops = np.sqrt(8) * np.geomspace(0.05, 20, 4000)
    return solve(payoff, grid, stops, tolerance=1e-5)


def sharp_constant():
    """Draw the worst spectrum among random ones, and the mixture that proves it."""
    game = solved()
    one_stop = st.calibrate(FLOW)
    figure, (left, right) = plots.new_figure(1, 2, figsize=(10, 4.2))
    rows = _by_stop(left, game) + _by_eigenvalue(right, game, one_stop.stop)
    for ax in (left, right):
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


def _curve(ax, panel, label, x, y, **style):
    """Draw a curve and return its numbers."""
    ax.plot(x, y, label=label, linewidth=1.8, **style)
    pairs = zip(np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True)
    return [(panel, label, *pair) for pair in pairs]


def _by_stop(ax, game):
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
    rows = _curve(ax, "stop", "worst spectrum", TAU, worst, color=OF_BEST_STOP)
    ax.set(xscale="log", ylim=(0.98, 2.2), xlabel="stop  t√λ*", ylabel="risk over best ridge risk")
    ax.set_title("No stop is better on the worst spectrum")
    ax.legend(loc="upper right", fontsize="small")
    return rows


def _by_eigenvalue(ax, game, stop):
    """Draw the risk of one direction over ridge's: at the best single stop, and of the mixture."""
    x = np.geomspace(0.03, 300, 1500)
    single = risk_ratio(FLOW, x, stop)
    mixture = game.mixture.mean(risk_ratio(FLOW, x[:, None], np.array(game.mixture.points)))
    rows = _curve(ax, "eigenvalue", "the best single stop", x, single, color=OF_ONE_STOP)
    rows += _curve(ax, "eigenvalue", "the best mixture of stops", x, mixture, color=OF_BEST_STOP)
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


experiment = sharp_constant()
plt.show()
