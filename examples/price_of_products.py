"""
The price of k products
=======================

What k iterations can guarantee against ridge, and the iteration that guarantees it.
"""

# %%
# No method that multiplies k times by the data has a smaller guarantee than the black line; the
# optimal iteration attains it. Conjugate gradients have no guarantee: theirs are the worst ratios
# that were found.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.paper.products import price_of_products

price_of_products()

# %%
# In use: the penalty is estimated, and a few products take the place of the ridge solution.

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 300)) * np.geomspace(1, 0.03, 300)
y = X @ rng.standard_normal(300) + 3 * rng.standard_normal(400)
spectrum = st.decompose(X, y)
penalty = st.estimate_oracle(spectrum).penalty
largest = spectrum.eigenvalues[-1]
optimal = st.path(spectrum, st.OptimalIteration(penalty=penalty), [5, 10, 20])
nesterov = st.path(spectrum, st.Nesterov(), [5, 10, 20])
ridge = st.path(spectrum, st.Ridge(), [1 / penalty]).coef[0]
for k, *paths in zip(optimal.stops, optimal.coef, nesterov.coef, strict=True):
    price = st.bounds.price_of_products(int(k), largest_eigenvalue=largest, penalty=penalty)
    ours, theirs = (np.linalg.norm(coef - ridge) / np.linalg.norm(ridge) for coef in paths)
    print(f"{k:.0f} products: at most {price.printed(6)[1]} times the risk of the best ridge")
    print(f"  distance from ridge {ours:.3f}; that of Nesterov's method {theirs:.3f}")

plt.show()
