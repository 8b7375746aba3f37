"""
Intervals for few rows and many columns
=======================================

The stop is chosen where the left-out errors are smallest, and the jackknife+ makes intervals of the
same errors. With few rows and nearly as many columns they are then too small, and the intervals
too short. Nested intervals choose the stop anew without each row.
"""

# %%
# There are 40 rows and 38 columns. For each of 40 training sets, 200 new responses are compared
# with three kinds of 90 % intervals. The nested kind takes 40 refits, once for each model.

import warnings

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

N, P, RUNS, NEW = 40, 38, 40, 200
KINDS = "jackknife", "jackknife+", "nested"
covered = np.empty((RUNS, len(KINDS)))
widths = np.empty((RUNS, len(KINDS)))
for run in range(RUNS):
    rng = np.random.default_rng(run)
    X, X_new = rng.standard_normal((N, P)), rng.standard_normal((NEW, P))
    beta = rng.standard_normal(P) * np.sqrt(2 / P)
    y, y_new = X @ beta + rng.standard_normal(N), X_new @ beta + rng.standard_normal(NEW)
    with warnings.catch_warnings():
        # in some sets least squares is best, and no stop is late enough
        warnings.simplefilter("ignore", st.StopWarning)
        model = st.StoppedRegressorCV("ridge", stops=30).fit(X, y)
    for k, kind in enumerate(KINDS):
        low, high = model.predict_interval(X_new, 0.9, kind).T
        covered[run, k] = np.mean((low <= y_new) & (y_new <= high))
        widths[run, k] = np.median(high - low)

# %%
# Left: the coverage in every training set, and its mean with two standard errors. Right: what the
# additional coverage costs in width. The sets in which the jackknife+ fails most are those whose
# nested intervals are much wider.

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
left.axhline(90, color="0.6", linewidth=1, zorder=0)
jitter = np.random.default_rng(0).uniform(-0.12, 0.12, RUNS)
for k, (kind, color) in enumerate(zip(KINDS, ("#D55E00", "#CC79A7", "#0072B2"), strict=True)):
    mean, error = 100 * covered[:, k].mean(), 100 * covered[:, k].std(ddof=1) / np.sqrt(RUNS)
    left.plot(k + jitter, 100 * covered[:, k], "o", color=color, alpha=0.35, markersize=4)
    left.errorbar(k, mean, 2 * error, color="black", marker="D", capsize=5, zorder=3)
    print(f"{kind:>10}: {mean:.1f} ± {error:.1f} % of new responses in 90 % intervals")
left.set_xticks(range(len(KINDS)), KINDS)
left.set(ylabel="new responses in the intervals (%)", title="Coverage in each training set")

right.axvline(90, color="0.6", linewidth=1, zorder=0)
ratio = widths[:, 2] / widths[:, 1]
right.plot(100 * covered[:, 1], ratio, "o", color="#0072B2", alpha=0.6, markersize=5)
right.set(
    xlabel="coverage of the jackknife+ (%)",
    ylabel="width of nested intervals / jackknife+",
    title="Nested intervals are wider where it matters",
)

plt.show()
