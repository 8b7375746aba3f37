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

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

N, P, RUNS = 150, 20, 40
NOISES = {
    "Gaussian": lambda rng, _: rng.standard_normal(N),
    "Student t, 4 degrees of freedom": lambda rng, _: rng.standard_t(4, N) / np.sqrt(2),
    "growing with a column": lambda rng, X: rng.standard_normal(N) * np.exp(X[:, 0]) / np.e,
}
confidences = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
covered = {name: np.zeros((RUNS, len(confidences))) for name in NOISES}
beta = np.linspace(1, 0, P)
for name, draw in NOISES.items():
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        X, X_new = rng.standard_normal((2, N, P))
        model = st.StoppedRegressorCV("accelerated-flow", stops=40).fit(X, X @ beta + draw(rng, X))
        y_new = X_new @ beta + draw(rng, X_new)
        for k, confidence in enumerate(confidences):
            low, high = model.predict_interval(X_new, confidence).T
            covered[name][run, k] = np.mean((low <= y_new) & (y_new <= high))

# %%
# The average coverage is right for all three. But with the third kind of noise it is too high for
# rows with little noise and too low for rows with much noise. Right: one model of this kind.

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
    title="Coverage of new responses",
    ylim=(-6, 6),
)
left.legend(fontsize="small")

order = np.argsort(X_new[:, 0])
low, high = model.predict_interval(X_new, 0.9)[order].T
x, fit, seen = X_new[order, 0], model.predict(X_new)[order], y_new[order]
outside = (seen < low) | (seen > high)
right.fill_between(
    x, low - fit, high - fit, color="#0072B2", alpha=0.2, linewidth=0, label="90 % interval"
)
right.plot(
    x[~outside], (seen - fit)[~outside], "o", color="#0072B2", markersize=3.5, label="covered"
)
right.plot(x[outside], (seen - fit)[outside], "x", color="#D55E00", markersize=6, label="missed")
right.set(
    xlabel="first column",
    ylabel="new response minus prediction",
    title="Growing noise: misses at one end",
)
right.legend(loc="upper left", fontsize="small")

plt.show()
