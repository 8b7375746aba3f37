"""
Momentum against ridge
======================

How much is lost by early-stopped momentum instead of a ridge penalty? The risk of both is known
exactly, so no simulation is needed.
"""

# %%
# The eigenvalues follow a power law, the signal is spread evenly, and it is as large as the noise.
# The horizontal axis is 1/λ: ridge has penalty λ, gradient flow time 1/λ, accelerated flow time
# 1/√λ. Dots are the best stops.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

n, p = 500, 100
problem = {"eigenvalues": 1 / np.arange(1, p + 1), "signal": 1.0, "noise": 1.0, "n_samples": n}
methods = {
    "ridge": (st.Ridge(), plots.COLORS["ridge"], "-"),
    "gradient flow": (st.GradientFlow(), plots.COLORS["gradient-flow"], "-"),
    "accelerated flow": (st.AcceleratedFlow(), plots.COLORS["accelerated-flow"], "-"),
    "accelerated, friction 5": (st.AcceleratedFlow(5), plots.COLORS["high-resolution-flow"], "--"),
}
x = np.geomspace(1e-1, 1e4, 500)
figure, ax = plots.new_figure(figsize=(8, 4.4))
for name, (method, color, line) in methods.items():
    curve = st.bayes_risk(method, x ** (1 / method.time_power), **problem)
    ax.plot(x, curve.total, line, color=color, label=name)
    ax.plot(curve.best**method.time_power, curve.best_total, "o", color=color)
    found = st.inflation(method, **problem)
    print(
        f"{name:>24}: best stop {curve.best:6.2f}, risk / risk of the best ridge {found.ratio:.4f}"
    )
ax.set(xscale="log", yscale="log", xlabel="1/λ  (t or t²)", ylabel="risk, in units of ‖β₀‖²")
ax.set(title="Exact risk along the path", yticks=[1, 2, 5, 10])
ax.yaxis.set_major_formatter("{x:g}")
ax.yaxis.set_minor_formatter("")
ax.legend()

# %%
# The best stop is known only if signal and noise are known. If the best penalty is known instead,
# a calibration says when to stop: "risk" has the least largest risk, "parameter" the least
# largest distance of the coefficients, "paper" is t = 1/λ or t = 1/√λ. The largest ratios are those
# of this one stop on every spectrum, by a search; the figure shows the spectrum above for many
# signal-to-noise ratios.

ratios = np.geomspace(1e-2, 1e3, 60)
figure, ax = plots.new_figure(figsize=(8, 4.4))
styles = {"risk": "-", "parameter": "--", "paper": ":"}
for kind, line in styles.items():
    for name in ("gradient-flow", "accelerated-flow"):
        method = st.get_method(name)
        inflated = []
        for ratio in ratios:
            case = problem | {"signal": float(ratio)}
            penalty = p / (ratio * n)  # the best penalty: noise · p / (signal · n)
            stop = st.equivalent_stop(method, penalty, calibration=kind)
            best = st.bayes_risk("ridge", [1 / penalty], **case).total[0]
            inflated.append(st.bayes_risk(method, [stop], **case).total[0] / best)
        color = plots.COLORS[name]
        ax.plot(ratios, inflated, line, color=color, label=f"{plots.LABELS[name]}, {kind}")
        largest = st.calibrate(method, kind).inflation
        print(f"{name:>16}, {kind:>9}: about {largest:.4f}, largest here {max(inflated):.4f}")
ax.axhline(1, color="0.6", linewidth=0.8, zorder=0)
ax.set(
    xscale="log",
    xlabel="signal to noise, ‖β₀‖²/σ²",
    ylabel="risk / risk of the best ridge",
    title="Stopped by a calibration",
)
ax.legend(fontsize="small")

plt.show()
