"""
Classification with calibrated probabilities
============================================

Least squares on labels coded as ±1, stopped early. Exact leave-one-out chooses the stop, and the
same left-out decision values calibrate the probabilities: no split, no refit.
"""

# %%
# The breast cancer data have 569 rows and 30 columns. Twenty times, 100 rows are drawn for the
# fit, and the others are predicted. scikit-learn's ``CalibratedClassifierCV`` fits ridge five times
# for its probabilities.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st
from stoptime.show import plots

X, y = load_breast_cancer(return_X_y=True)
ridge = RidgeClassifierCV(np.geomspace(1e-3, 1e3, 13))
models = {
    "stopped early": make_pipeline(StandardScaler(), st.StoppedClassifierCV()),
    "ridge, five refits": make_pipeline(StandardScaler(), CalibratedClassifierCV(ridge, cv=5)),
}
truths, chances = [], {name: [] for name in models}
for seed in range(20):
    split = train_test_split(X, y, train_size=100, random_state=seed, stratify=y)
    truths.append(split[3])
    for name, model in models.items():
        model.fit(split[0], split[2])
        chances[name].append(model.predict_proba(split[1])[:, 1])
truth = np.concatenate(truths)
for name, parts in chances.items():
    chance = np.concatenate(parts)
    right = np.mean((chance > 0.5) == truth)
    print(f"{name:>20}: log loss {log_loss(truth, chance):.3f}, {right:.1%} right")

# %%
# Left: how often a prediction of each probability came true; on the diagonal the probabilities
# can be taken literally. Right: left-out decision values of the last fit, and the sigmoid that
# turns a decision value into a probability.

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
edges = np.linspace(0, 1, 9)
left.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
looks = ("o", "#0072B2"), ("s", "#D55E00")
for (name, parts), (marker, color) in zip(chances.items(), looks, strict=True):
    chance = np.concatenate(parts)
    bins = np.digitize(chance, edges[1:-1])
    means = [(chance[bins == k].mean(), truth[bins == k].mean()) for k in range(len(edges) - 1)]
    left.plot(*np.transpose(means), marker=marker, color=color, label=name)
left.set(xlabel="predicted probability", ylabel="share that came true", title="Reliability")
left.legend()

model = models["stopped early"][-1]
values, labels = model.left_out_decisions_, split[2]
grid = np.linspace(values.min(), values.max(), 200)
right.plot(grid, 1 / (1 + np.exp(-model.slope_ * grid)), color="#0072B2", label="probability")
for label, color in enumerate(("#D55E00", "#009E73")):
    own = values[labels == label]
    right.plot(own, np.full(len(own), label), "|", color=color, markersize=12)
right.set(
    xlabel="left-out decision value",
    ylabel="class, and probability of class 1",
    title=f"Platt's sigmoid at stop {model.stop_:.2g}",
)
right.legend()

plt.show()
