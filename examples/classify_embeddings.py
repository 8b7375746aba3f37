"""
Classifying embeddings
======================

Embeddings of a neural network have hundreds of columns, most of them with little variance. A linear
classifier on top of them needs regularisation, and its probabilities need calibration. Here both
come from one factorisation.
"""

# %%
# The data imitate embeddings: ten classes, 384 columns whose variance falls like a power, and
# class means of which the leading directions tell most. Between 200 and 1600 rows are used for the
# fit. ``RidgeClassifierCV`` chooses among its default penalties, and has no probabilities;
# ``CalibratedClassifierCV`` adds them by five refits.

from time import perf_counter

import numpy as np
from matplotlib import pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import log_loss

import stoptime as st
from stoptime.show import plots

CLASSES, COLUMNS, NEW = 10, 384, 4000
SIZES = 200, 400, 800, 1600
rng = np.random.default_rng(0)
scales = np.arange(1, COLUMNS + 1) ** -0.7
means = 0.22 * rng.standard_normal((CLASSES, COLUMNS)) * scales
turn = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0]


def drawn(n):
    """Return rows in single precision, as embeddings come, and their classes."""
    y = rng.integers(CLASSES, size=n)
    X = (means[y] + scales * rng.standard_t(5, (n, COLUMNS))) @ turn
    return X.astype(np.float32), y


X_new, y_new = drawn(NEW)
models = {
    "stopped early": st.StoppedClassifierCV(),
    "ridge, five refits": CalibratedClassifierCV(RidgeClassifierCV(), cv=5),
}
losses = {name: [] for name in models}
rights = {name: [] for name in models}
for n in SIZES:
    X, y = drawn(n)
    for name, model in models.items():
        begin = perf_counter()
        chance = model.fit(X, y).predict_proba(X_new)
        spent = perf_counter() - begin
        losses[name].append(log_loss(y_new, chance))
        rights[name].append(np.mean(model.predict(X_new) == y_new))
        print(
            f"{n:>5} rows, {name:>18}: {rights[name][-1]:.1%} right, "
            f"log loss {losses[name][-1]:.3f}, {spent:.2f} s"
        )

# %%
# Left: the log loss of the probabilities of new rows. Right: how often the predicted class was
# right, against its probability, for the last fit; on the diagonal probabilities can be taken
# literally.

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
right.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
edges = np.linspace(0.1, 1, 10)
looks = ("o", "#0072B2"), ("s", "#D55E00")
for (name, model), (marker, color) in zip(models.items(), looks, strict=True):
    left.plot(SIZES, losses[name], marker=marker, color=color, label=name)
    top = model.predict_proba(X_new).max(axis=1)
    hit = model.predict(X_new) == y_new
    bins = np.digitize(top, edges[1:-1])
    filled = [k for k in range(len(edges) - 1) if np.sum(bins == k) >= 20]
    points = [(top[bins == k].mean(), hit[bins == k].mean()) for k in filled]
    right.plot(*np.transpose(points), marker=marker, color=color, label=name)
left.set(xscale="log", xlabel="rows", ylabel="log loss of new rows", title="Probabilities")
left.set_xticks(SIZES, map(str, SIZES))
left.minorticks_off()
left.legend()
right.set(xlabel="probability of the predicted class", ylabel="share right", title="Reliability")
right.legend()

plt.show()
