"""
What does Adam regularise?
==========================

Adam against gradient descent and ridge, on the same data and from exact paths.
"""

# %%
# Above, left: all coefficients have the same size; Adam, which moves all of them at the same speed,
# is better than the best ridge. Above, right: one coefficient in ten matters; Adam is worse at
# every stop. Below: Adam is far from ridge, and close to ridge in the metric of its own step sizes.

from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import stoptime as st
from stoptime.paper.optimisers import adaptive_paths

figure = adaptive_paths().figure
figure.set_size_inches(8, 7)
grid = figure.add_gridspec(2, 2)
for ax, cell in zip(figure.axes, (grid[0, 0], grid[0, 1], grid[1, :]), strict=True):
    ax.set_subplotspec(cell)

# %%
# The stop is chosen by cross-validation or by SURE: exact leave-one-out needs a filter.

X, y = load_diabetes(return_X_y=True)
X, y = scale(X)[:80], y[:80]
for options in ({"cv": 5}, {"rule": "sure"}):
    model = st.StoppedRegressorCV(st.Adam(lr=0.5), **options).fit(X, y)
    print(f"{options}: stop after {model.stop_:.0f} steps, error {model.choice_.error:.0f}")

plt.show()
