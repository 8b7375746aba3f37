"""
A small table without tuning
============================

The default kernel estimator on a table of a few hundred rows, with prediction intervals, beside
gradient boosting with its defaults.
"""

# %%
# The table is the diabetes data of scikit-learn: ten measurements of 442 patients, and how far the
# disease has progressed a year later. Kernel, width, method and stop are chosen by the exact
# leave-one-out error of the training rows; nothing is left to choose.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import stoptime as st
from stoptime.show import plots

X, y = load_diabetes(return_X_y=True)
rows, new, response, truth = train_test_split(X, y, test_size=0.4, random_state=0)

model = st.StoppedKernelRegressorCV().fit(rows, response)
boosting = HistGradientBoostingRegressor(random_state=0).fit(rows, response)
for name, one in (("kernel, chosen", model), ("gradient boosting", boosting)):
    error = np.sqrt(np.mean((one.predict(new) - truth) ** 2))
    print(f"{name:>18}: error {error:.1f} on new patients")
print(f"{'left-out error':>18}: {np.sqrt(model.choice_.error):.1f}, known before any new patient")

# %%
# All kernels that were tried, and the error that each one reached at its own best stop.

for one in model.candidates_[:6]:
    width = "" if one.gamma is None else f"gamma {one.gamma:.4f}"
    print(f"{one.kernel:>10} {width:14} {one.method.name:>14}  {np.sqrt(one.error):.2f}")

# %%
# Left: predictions for new patients with 90 % intervals. Right: the best error of each kernel.

low, high = model.predict_interval(new).T
inside = np.mean((low <= truth) & (truth <= high))
print(f"{inside:.0%} of the new responses lie in their 90 % intervals")

predicted = model.predict(new)
order = np.argsort(predicted)
figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.4))
left.vlines(np.arange(len(order)), low[order], high[order], color="0.85")
left.plot(predicted[order], color="#0072B2", label="prediction")
left.plot(truth[order], ".", color="#D55E00", markersize=4, label="response")
left.set(xlabel="new patients, sorted by prediction", ylabel="progression", title="90 % intervals")
left.legend()
for name in ("rbf", "laplacian", "matern"):
    tried = sorted((one.gamma, one.error) for one in model.candidates_ if one.kernel == name)
    gammas, errors = np.array(tried).T
    right.semilogx(gammas, np.sqrt(errors), "o-", label=name)
linear = next(one.error for one in model.candidates_ if one.kernel == "linear")
right.axhline(np.sqrt(linear), color="0.4", linestyle=":", label="linear")
right.set(xlabel="gamma", ylabel="left-out error", title="One error compares all kernels")
right.legend()

plt.show()
