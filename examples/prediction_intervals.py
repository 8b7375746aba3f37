"""
Coverage of prediction intervals
================================

``predict_interval`` is made of leave-one-out residuals and of the fits without each row. It assumes
no distribution of the noise. This example counts how many new responses the intervals contain.
"""

# %%
# There are 150 rows, 20 columns, three kinds of noise with variance one, and 40 training sets for
# each. The third kind violates the only assumption, that the noise has the same distribution in
# all rows: its size grows with the first column.

import warnings

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

RUNS = 40
NOISES = {
    "Gaussian": lambda rng, X: rng.standard_normal(len(X)),
    "Student t, 4 degrees of freedom": lambda rng, X: rng.standard_t(4, len(X)) / np.sqrt(2),
    "growing with a column": lambda rng, X: rng.standard_normal(len(X)) * np.exp(X[:, 0]) / np.e,
}


def coverage(method, n, beta, draw, intervals):
    """Return the share of new responses that intervals of each kind contain, for every run."""
    shares = np.zeros((RUNS, len(intervals)))
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        X, X_new = rng.standard_normal((2, n, len(beta)))
        y_new = X_new @ beta + draw(rng, X_new)
        with warnings.catch_warnings():
            # in some sets least squares is best, and no stop is late enough
            warnings.simplefilter("ignore", st.StopWarning)
            model = st.StoppedRegressorCV(method, stops=40).fit(X, X @ beta + draw(rng, X))
        for k, options in enumerate(intervals):
            low, high = model.predict_interval(X_new, **options).T
            shares[run, k] = np.mean((low <= y_new) & (y_new <= high))
    return shares


confidences = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
asked = [{"confidence": one} for one in confidences]
beta = np.linspace(1, 0, 20)
covered = {
    name: coverage("accelerated-flow", 150, beta, draw, asked) for name, draw in NOISES.items()
}

# %%
# The average coverage is right for all three; with the third kind of noise it is too high for rows
# with little noise and too low for rows with much noise.
#
# With few rows and nearly as many columns the stop adapts to the very errors from which the
# intervals are made, and the jackknife+ covers too little. Nested intervals choose the stop anew
# without each row, by one refit for each. Right: 40 rows and 38 columns.

kinds = ("jackknife", "jackknife+", "nested")
asked = [{"confidence": 0.9, "kind": kind} for kind in kinds]
beta = np.random.default_rng(0).standard_normal(38) * np.sqrt(2 / 38)
few = 100 * coverage("ridge", 40, beta, NOISES["Gaussian"], asked)

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
left.axhline(0, color="0.6", linewidth=1, zorder=0)
looks = ("o", "#0072B2"), ("s", "#D55E00"), ("^", "#009E73")
for k, ((name, runs), (marker, color)) in enumerate(zip(covered.items(), looks, strict=True)):
    gap, error = 100 * (runs.mean(axis=0) - confidences), 200 * runs.std(axis=0) / np.sqrt(RUNS)
    beside = 100 * confidences + (k - 1)  # shifted, so that the error bars do not overlap
    left.errorbar(beside, gap, error, marker=marker, color=color, linestyle="", label=name)
    print(f"{name:>32}: {runs.mean(axis=0)[4]:.1%} of new responses in 90 % intervals")
left.set(
    xlabel="nominal coverage (%)",
    ylabel="coverage minus nominal (points, ± 2 SE)",
    title="150 rows, 20 columns",
    ylim=(-6, 6),
)
left.legend(fontsize="small")

right.axhline(90, color="0.6", linewidth=1, zorder=0)
jitter = np.random.default_rng(0).uniform(-0.12, 0.12, RUNS)
for k, (kind, color) in enumerate(zip(kinds, ("#D55E00", "#CC79A7", "#0072B2"), strict=True)):
    mean, error = few[:, k].mean(), few[:, k].std(ddof=1) / np.sqrt(RUNS)
    right.plot(k + jitter, few[:, k], "o", color=color, alpha=0.35, markersize=4)
    right.errorbar(k, mean, 2 * error, color="black", marker="D", capsize=5, zorder=3)
    print(f"{kind:>32}: {mean:.1f} ± {error:.1f} % of new responses in 90 % intervals")
right.set_xticks(range(len(kinds)), kinds)
right.set(ylabel="new responses in 90 % intervals (%)", title="40 rows, 38 columns")

plt.show()
