"""
Choose when to stop
===================

How much alcohol has a wine? The data have 12 other measurements of 178 wines; with their squares
and products these are 90 columns, too many for least squares. Exact leave-one-out estimates the
prediction error at every stop, and the fit is stopped where this error is smallest.
"""

# %%
# One call estimates the error along the whole path. At every stop, 178 refits, each without one
# row, would give the same error; none is run. The band is one standard error, which by default is
# computed at the chosen stop alone.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import PolynomialFeatures, scale

import stoptime as st
from stoptime.show import plots

wines, _ = load_wine(return_X_y=True)
y = wines[:, 0]
X = scale(PolynomialFeatures(2, include_bias=False).fit_transform(scale(wines[:, 1:])))
rule = st.LeaveOneOut(standard_errors=True)
model = st.StoppedRegressorCV("accelerated-flow", rule=rule).fit(X, y)
figure, ax = plots.new_figure(figsize=(8, 4.2))
model.plot(ax=ax)
ax.set(
    xlabel="stop (time t of the flow)",
    ylabel="mean squared error (squared percent of alcohol)",
    title="Leave-one-out error along the path",
    ylim=(0.2, 1),
)
print(model.choice_.message)

# %%
# A much earlier stop may have nearly the same error. The rule "one-standard-error" takes the
# earliest stop whose error is within one standard error of the minimum. The coefficients there are
# smaller.

early = st.StoppedRegressorCV("accelerated-flow", rule=st.OneStandardError(rule)).fit(X, y)
path = st.path(X, y, "accelerated-flow", np.geomspace(0.03, 300, 400))
figure, ax = plots.new_figure(figsize=(8, 4.2))
path.plot(ax=ax)
ax.set(
    xlabel="stop (time t of the flow)", ylabel="coefficient", title="Coefficients, and two stops"
)
for fit, name in ((early, "1 SE"), (model, "smallest error")):
    ax.axvline(fit.stop_, color="0.3", linestyle="--", linewidth=1)
    at = (fit.stop_, 0.02)
    ax.annotate(f"{name}\n{fit.stop_:.1f}", at, (4, 0), ("data", "axes fraction"), "offset points")
    error, deviation = fit.choice_.error, fit.choice_.standard_error
    print(
        f"{name:>14}: stop {fit.stop_:.1f}, error {error:.3f} ± {deviation:.3f}, "
        f"{fit.degrees_of_freedom_:.0f} degrees of freedom, ‖β‖ = {np.linalg.norm(fit.coef_):.2f}"
    )

# %%
# Several methods share one factorisation. The method with the smallest error is kept. Without a
# list, ridge, gradient flow and critically damped flow are compared.

several = st.StoppedRegressorCV(
    ["ridge", "gradient-flow", "accelerated-flow", st.AcceleratedFlow(5)]
).fit(X, y)
print(f"{several.method_} at {several.stop_:.1f}: error {several.choice_.error:.3f}")

plt.show()
