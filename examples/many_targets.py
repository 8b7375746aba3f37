"""
Many targets, each with its own stop
====================================

Targets that share their rows share the factorisation. Each can be stopped on its own for next to nothing.
"""

# %%
# 60 targets with the same signal and noise from a tenth to ten times its size.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.support import plots

rng = np.random.default_rng(0)
n, p, q = 300, 80, 60
X = rng.standard_normal((n, p)) @ np.diag(np.arange(1, p + 1) ** -0.5)
beta = rng.standard_normal((p, q)) / np.sqrt(p)
noise = np.geomspace(0.03, 3, q)
Y = X @ beta + noise * rng.standard_normal((n, q))

shared = st.StoppedRegressorCV("nesterov-flow").fit(X, Y)
each = st.StoppedRegressorCV("nesterov-flow", per_target=True).fit(X, Y)
finite = each.stop_[(each.stop_ > 0) & np.isfinite(each.stop_)]
print(
    f"one stop for all: {shared.stop_:.1f}; one each: from {finite.min():.1f} to {finite.max():.1f},"
)
print(
    f"{np.sum(each.stop_ == 0)} targets learn nothing and {np.isinf(each.stop_).sum()} never stop"
)

# %%
# Loud targets stop early, quiet ones late; crosses are the best stops, known here since the truth is. A
# common stop suits the loud targets, which make most of the error, and the quiet ones pay for it.

stops = np.geomspace(0.5, 300, 300)
path = st.path(X, Y, "nesterov-flow", stops)
covariance = np.arange(1, p + 1) ** -1.0  # of new rows
excess = ((path.coef - beta) ** 2 * covariance[:, None]).sum(axis=1)
best = stops[np.argmin(excess, axis=0)]


def excess_of(model):
    """Return the excess prediction error of every target."""
    return ((model.coef_.T - beta) ** 2 * covariance[:, None]).sum(axis=0)


figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
left.plot(
    noise, each.stop_, "o", color="#0072B2", markersize=4, label="leave-one-out, each on its own"
)
left.plot(noise, best, "x", color="0.45", markersize=5, label="best, given the truth", zorder=1)
left.axhline(shared.stop_, color="#D55E00", linestyle="--", label="leave-one-out, all together")
left.set(
    xscale="log",
    yscale="log",
    xlabel="noise σ",
    ylabel="stop (time t)",
    title="Louder targets stop earlier",
)
left.legend(fontsize="small")
for model, color, marker, name in (
    (shared, "#D55E00", "s", "all together"),
    (each, "#0072B2", "o", "each on its own"),
):
    ratio = excess_of(model) / excess.min(axis=0)
    right.plot(noise, ratio, marker, color=color, markersize=4, label=name)
    mean = np.exp(np.log(ratio).mean())
    print(f"{name:>16}: excess error {mean:.2f} times that of the best stop (geometric mean)")
right.set(
    xscale="log", yscale="log", xlabel="noise σ", ylabel="excess error over that of the best stop"
)
right.set_title("What a common stop costs")
right.yaxis.set_major_formatter("{x:g}")
right.legend(fontsize="small")

plt.show()
