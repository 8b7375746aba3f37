"""
Bands of columns with their own scales
======================================

Columns come in bands, of which some matter more than others. A scale for each band, chosen with the
stop, has a fraction of the risk of one penalty for all.
"""

# %%
# Four bands: ten columns carry most of the signal, forty carry some, two hundred hardly any.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

SIZES = {"strong": 10, "medium": 40, "weak": 100, "none": 100}
POWERS = [1.0, 0.5, 0.02, 0.0]
groups = np.repeat(list(SIZES), list(SIZES.values()))


def drawn(seed, n=300):
    """Return rows, a response, and the true coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(groups)))
    sizes = np.array(list(SIZES.values()))
    beta = rng.standard_normal(len(groups)) * np.repeat(np.sqrt(POWERS / sizes), sizes)
    return X, X @ beta + rng.standard_normal(n), beta


X, y, beta = drawn(0)
banded = st.BandedRegressorCV({name: groups == name for name in SIZES}).fit(X, y)
plain = st.StoppedRegressorCV("ridge").fit(X, y)
for name, model in (("bands", banded), ("one penalty", plain)):
    excess = np.sum((model.coef_ - beta) ** 2)
    print(f"{name}: excess risk {excess:.3f}, leave-one-out error {-model.best_score_:.3f}")

# %%
# The scales, and how much of the variance each band explains on new rows.

X_new, y_new = drawn(1)[:2]
y_new = X_new @ beta + np.random.default_rng(2).standard_normal(len(X_new))
shares = banded.explained(X_new, y_new)

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
left.bar(banded.bands_, banded.scales_, color="#0072B2")
left.set(ylabel="scale", title="Chosen scales")
right.bar(list(shares), list(shares.values()), color="#D55E00")
right.set(ylabel="share of the variance", title="Variance explained on new rows")
plt.show()
