"""
Kernel regression, stopped early
================================

Accelerated flow in the feature space of a Gaussian kernel, compared with kernel ridge.
"""

# %%
# The data are a noisy function of one variable. Three fits are compared: the flow stopped by exact
# leave-one-out, kernel ridge with a penalty from a grid search, and the same flow run forty times
# too long.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

import stoptime as st
from stoptime.show import plots

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(-3, 3, 150))
truth = np.sin(2 * x) * np.exp(-(x**2) / 6)
X, y = x[:, None], truth + 0.25 * rng.standard_normal(len(x))

model = st.StoppedKernelRegressorCV("accelerated-flow", kernel="rbf", gamma=10.0).fit(X, y)
late = st.StoppedKernelRegressor(
    "accelerated-flow", stop=40 * model.stop_, kernel="rbf", gamma=10.0
).fit(X, y)
search = GridSearchCV(
    KernelRidge(kernel="rbf", gamma=10.0), {"alpha": np.geomspace(1e-4, 1e2, 20)}, cv=5
)
search.fit(X, y)

grid = np.linspace(-3, 3, 400)[:, None]
curve = np.sin(2 * grid[:, 0]) * np.exp(-(grid[:, 0] ** 2) / 6)
fits = {"accelerated flow": model, "kernel ridge": search, "forty times too long": late}
for name, fit in fits.items():
    print(f"{name:>20}: {np.sqrt(np.mean((fit.predict(grid) - curve) ** 2)):.3f} from the truth")

# %%
# Left: the three fits, with 90 % intervals from leave-one-out residuals. Right: the leave-one-out
# error along the path.

low, high = model.predict_interval(grid).T
figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.4))
left.fill_between(grid[:, 0], low, high, color="0.9", label="90 % intervals")
left.plot(x, y, ".", color="0.55", markersize=4)
left.plot(grid, curve, color="0.2", linestyle=":", label="truth")
left.plot(grid, late.predict(grid), linewidth=0.8, color="#D55E00", label="forty times too long")
left.plot(grid, search.predict(grid), color="#E69F00", label="kernel ridge, grid search")
left.plot(
    grid, model.predict(grid), color="#0072B2", label=f"accelerated flow, stop {model.stop_:.0f}"
)
left.set(xlabel="x", ylabel="response", ylim=(-2.3, 1.5), title="One noisy function")
left.legend(loc="lower left", fontsize=8, ncols=2)
model.plot(ax=right)
right.legend(loc="upper right", fontsize=8)
right.set(
    xlabel="stop (time t)", ylabel="mean squared error", title="Leave-one-out error along the path"
)

plt.show()
