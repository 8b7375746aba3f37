"""
P-splines in three lines
========================

Many knots, and a penalty on second differences of the coefficients. The stop decides how smooth the
curve is; exact leave-one-out chooses it.
"""

# %%
# A signal whose noise has a standard deviation of 0.3. The basis has 42 columns, far too many for
# least squares.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import stoptime as st
from stoptime.show import plots

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(size=150))[:, None]
truth = np.sin(2 * np.pi * x[:, 0] ** 2 * 2)
y = truth + 0.3 * rng.standard_normal(150)


def spline(regressor):
    """Return a regression on a basis of cubic splines."""
    return make_pipeline(SplineTransformer(40), regressor)


smooth = spline(st.StoppedRegressorCV(penalty_matrix=st.Differences(2))).fit(x, y)
plain = spline(st.StoppedRegressorCV()).fit(x, y)
for name, model in (("second differences", smooth), ("plain", plain)):
    error = np.sqrt(np.mean((model.predict(x) - truth) ** 2))
    freedom = model[-1].degrees_of_freedom_
    print(f"{name}: root mean squared error {error:.3f}, {freedom:.1f} degrees of freedom")

# %%
# Prediction intervals are exact jackknife+ intervals, from the fits without each row. On the right
# the path: at early stops a straight line, which second differences do not penalise.

grid = np.linspace(x.min(), x.max(), 400)[:, None]
basis = smooth[0].transform(grid)
ends = smooth[-1].predict_interval(basis, confidence=0.9)

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
left.fill_between(grid[:, 0], *ends.T, color="#0072B2", alpha=0.15, label="90 % intervals")
left.plot(x, y, ".", color="0.6", markersize=4)
left.plot(grid, smooth.predict(grid), color="#0072B2", label="second differences")
left.plot(grid, plain.predict(grid), color="#D55E00", linewidth=1, label="plain penalty")
left.set(xlabel="x", ylabel="y", title="Stop chosen by leave-one-out")
left.legend(frameon=False, fontsize=8)

stops = [0, 0.1, 1, 10]
path = st.path(smooth[0].transform(x), y, "ridge", stops, penalty_matrix=st.Differences(2))
for stop, fit, freedom in zip(stops, path.predict(basis), path.degrees_of_freedom, strict=True):
    right.plot(grid, fit, label=f"stop {stop:g}: {freedom:.1f} degrees of freedom")
right.set(xlabel="x", title="The path begins with a straight line")
right.legend(frameon=False, fontsize=8)
plt.show()
