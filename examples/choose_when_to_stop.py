"""
Choose when to stop
===================

The diabetes data contain 10 measurements of 442 patients and the progress of the disease after a
year. Exact leave-one-out estimates the prediction error at every stop, and the fit is stopped where
this error is smallest.
"""

# %%
# One call estimates the error along the whole path. At every stop, 442 refits, each without one
# row, would give the same error; none is run. The band is one standard error, which by default is
# computed at the chosen stop alone.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

import stoptime as st
from stoptime.show import plots

X, y = load_diabetes(return_X_y=True)
rule = st.LeaveOneOut(standard_errors=True)
model = st.StoppedRegressorCV("accelerated-flow", rule=rule).fit(X, y)
figure, ax = plots.new_figure(figsize=(8, 4.2))
model.plot(ax=ax)
ax.set(
    xlabel="stop (time t of the flow)",
    ylabel="mean squared error (squared units of progress)",
    title="Leave-one-out error along the path",
    ylim=(2600, 6400),
)
print(model.choice_.message)

# %%
# A much earlier stop may have nearly the same error. The rule "one-standard-error" takes the
# earliest stop whose error is within one standard error of the minimum. The coefficients there are
# smaller.

early = st.StoppedRegressorCV("accelerated-flow", rule=st.OneStandardError(rule)).fit(X, y)
path = st.path(X, y, "accelerated-flow", np.geomspace(3, 3000, 400))
figure, ax = plots.new_figure(figsize=(8, 4.2))
path.plot(ax=ax)
ax.set(
    xlabel="stop (time t of the flow)", ylabel="coefficient", title="Coefficients, and two stops"
)
ax.set_ylim(-1200, 900)
for fit, name in ((early, "1 SE"), (model, "smallest error")):
    ax.axvline(fit.stop_, color="0.3", linestyle="--", linewidth=1)
    at = (fit.stop_, 0.02)
    ax.annotate(f"{name}\n{fit.stop_:.0f}", at, (4, 0), ("data", "axes fraction"), "offset points")
    error, deviation = fit.choice_.error, fit.choice_.standard_error
    print(
        f"{name:>14}: stop {fit.stop_:4.0f}, error {error:.0f} ± {deviation:.0f}, "
        f"{fit.degrees_of_freedom_:.1f} degrees of freedom, ‖β‖ = {np.linalg.norm(fit.coef_):.0f}"
    )

# %%
# Several methods share one factorisation. The method with the smallest error is kept. Without a
# list, ridge, gradient flow and critically damped flow are compared.

several = st.StoppedRegressorCV(
    ["ridge", "gradient-flow", "accelerated-flow", st.AcceleratedFlow(5)]
).fit(X, y)
print(f"{several.method_} at {several.stop_:.0f}: error {several.choice_.error:.0f}")

plt.show()
