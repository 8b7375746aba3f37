"""
Many targets, each with its own stop
====================================

Targets with the same rows share one factorisation. Choosing a separate stop for each target costs
almost nothing.
"""

# %%
# There are 60 targets with the same signal. Their noise ranges from a tenth to ten times the
# signal.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

rng = np.random.default_rng(0)
n, p, q = 300, 80, 60
X = rng.standard_normal((n, p)) @ np.diag(np.arange(1, p + 1) ** -0.5)
beta = rng.standard_normal((p, q)) / np.sqrt(p)
noise = np.geomspace(0.03, 3, q)
Y = X @ beta + noise * rng.standard_normal((n, q))

shared = st.StoppedRegressorCV("accelerated-flow").fit(X, Y)
each = st.StoppedRegressorCV("accelerated-flow", per_target=True).fit(X, Y)
finite = each.stop_[(each.stop_ > 0) & np.isfinite(each.stop_)]
first, last = finite.min(), finite.max()
print(f"common stop: {shared.stop_:.1f}; one stop for each: from {first:.1f} to {last:.1f},")
print(f"{np.sum(each.stop_ == 0)} targets stop at 0 and {np.isinf(each.stop_).sum()} never stop")

# %%
# Targets with much noise stop early, targets with little noise stop late. Crosses are the best
# stops, which are known here because the data are simulated. A common stop is good for the noisy
# targets, which dominate the total error, and bad for the others.

stops = np.geomspace(0.5, 300, 300)
path = st.path(X, Y, "accelerated-flow", stops)
covariance = np.arange(1, p + 1) ** -1.0  # of the columns of new rows
excess = ((path.coef - beta) ** 2 * covariance[:, None]).sum(axis=1)
best = stops[np.argmin(excess, axis=0)]


def excess_of(model):
    """Return the excess prediction error of every target."""
    return ((model.coef_.T - beta) ** 2 * covariance[:, None]).sum(axis=0)


figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
left.plot(
    noise, each.stop_, "o", color="#0072B2", markersize=4, label="leave-one-out, one stop for each"
)
left.plot(noise, best, "x", color="0.45", markersize=5, label="best stop, from the truth", zorder=1)
left.axhline(shared.stop_, color="#D55E00", linestyle="--", label="leave-one-out, common stop")
left.set(
    xscale="log",
    yscale="log",
    xlabel="noise σ",
    ylabel="stop (time t)",
    title="Noisier targets stop earlier",
)
left.legend(fontsize="small")
for model, color, marker, name in (
    (shared, "#D55E00", "s", "common stop"),
    (each, "#0072B2", "o", "one stop for each"),
):
    ratio = excess_of(model) / excess.min(axis=0)
    right.plot(noise, ratio, marker, color=color, markersize=4, label=name)
    mean = np.exp(np.log(ratio).mean())
    print(f"{name:>17}: excess error {mean:.2f} times that of the best stop (geometric mean)")
right.set(
    xscale="log", yscale="log", xlabel="noise σ", ylabel="excess error / that of the best stop"
)
right.set_title("What a common stop costs")
right.yaxis.set_major_formatter("{x:g}")
right.legend(fontsize="small")

plt.show()
