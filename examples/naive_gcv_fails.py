"""
Where generalised cross-validation fails
========================================

Generalised cross-validation divides the training error by (1 - df/n)². For ridge that estimates the
prediction error. For every other method it does not, even with very many data.
"""

# %%
# The data are Gaussian with more columns than rows. The true error is computed from the true
# coefficients.

import warnings

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

rng = np.random.default_rng(1)
n, p = 300, 360
X = rng.standard_normal((n, p))
beta = rng.standard_normal(p) * np.sqrt(5 / p)
y = X @ beta + rng.standard_normal(n)
spectrum = st.decompose(X, y)

figure, axes = plots.new_figure(1, 3, figsize=(9, 3.8), sharey=True)
for ax, (name, last) in zip(
    axes, {"ridge": 400, "gradient-flow": 400, "accelerated-flow": 40}.items(), strict=True
):
    stops = np.geomspace(0.05, last, 80)
    path = st.path(spectrum, name, stops)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that naive GCV is inconsistent
        naive = st.naive_gcv(spectrum, name, stops)
    truth = 1 + ((path.coef - beta) ** 2).sum(axis=1) + path.intercept**2
    exact = st.leave_one_out(X, y, name, stops, spectrum=spectrum).errors
    right = st.path_gcv(spectrum, name, stops)
    ax.plot(stops, truth, color="black", linewidth=2.4, label="true error")
    ax.plot(stops, exact, "--", color="#009E73", linewidth=1.8, label="exact leave-one-out")
    ax.plot(stops, right, ":", color="#0072B2", linewidth=2.4, label="path GCV")
    ax.plot(stops, naive, "-.", color="#D55E00", linewidth=1.6, label="naive GCV")
    label = "stop (1/λ)" if name == "ridge" else "stop (time t)"
    ax.set(xscale="log", ylim=(0, 14), xlabel=label, title=plots.LABELS[name])
    print(
        f"{plots.LABELS[name]:>16}: true error {truth.min():.2f} at best, "
        f"{truth[np.argmin(exact)]:.2f} by leave-one-out, "
        f"{truth[np.argmin(naive)]:.2f} by naive GCV"
    )
axes[0].set_ylabel("prediction error, in units of σ²")
axes[0].legend(loc="upper left")

# %%
# For ridge the three estimates agree. For the flows naive GCV is wrong, while
# :func:`stoptime.path_gcv` follows the true error. Both need only the eigenvalues.

plt.show()
