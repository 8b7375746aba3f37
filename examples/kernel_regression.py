"""Kernel regression with momentum, stopped early, against kernel ridge.

    python examples/kernel_regression.py [target.png]

Left, a noisy function of one variable: accelerated flow in the feature space of a Gaussian kernel, stopped by
exact leave-one-out, with its 90 % intervals; kernel ridge with the penalty that a grid search finds; and the
same flow run forty times too long. Right, the leave-one-out error along the path, and the stop.
"""

import sys

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

import stoptime as st
from stoptime import plots

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(-3, 3, 150))
truth = np.sin(2 * x) * np.exp(-(x**2) / 6)
X, y = x[:, None], truth + 0.25 * rng.standard_normal(len(x))

model = st.StoppedKernelRegressorCV("nesterov-flow", kernel="rbf", gamma=10.0).fit(X, y)
late = st.StoppedKernelRegressor("nesterov-flow", stop=40 * model.stop_, kernel="rbf", gamma=10.0).fit(X, y)
search = GridSearchCV(KernelRidge(kernel="rbf", gamma=10.0), {"alpha": np.geomspace(1e-4, 1e2, 20)}, cv=5)
search.fit(X, y)

grid = np.linspace(-3, 3, 400)[:, None]
curve = np.sin(2 * grid[:, 0]) * np.exp(-(grid[:, 0] ** 2) / 6)
low, high = model.predict_interval(grid).T

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4))
left.fill_between(grid[:, 0], low, high, color="0.9", label="90 % intervals")
left.plot(x, y, ".", color="0.55", markersize=4)
left.plot(grid, curve, color="0.2", linestyle=":", label="truth")
left.plot(grid, late.predict(grid), linewidth=0.8, color="C3", label="forty times too long")
left.plot(grid, search.predict(grid), color="C1", label="kernel ridge, grid search")
left.plot(grid, model.predict(grid), color="C0", label=f"accelerated flow, stop {model.stop_:.0f}")
left.set(xlabel="x", ylim=(-2.3, 1.5), title="One noisy function")
left.legend(loc="lower left", fontsize=8, ncols=2)
model.plot(ax=right)
right.set_title("Leave-one-out error along the path")

target = sys.argv[1] if len(sys.argv) > 1 else "kernel_regression.png"
figure.savefig(target, dpi=110)
errors = {
    name: np.sqrt(np.mean((fit.predict(grid) - curve) ** 2))
    for name, fit in (("accelerated flow", model), ("kernel ridge", search), ("forty times too long", late))
}
for name, error in errors.items():
    print(f"{name:>22}: {error:.3f} from the truth")
print(f"wrote {target}")
