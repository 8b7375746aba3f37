"""
Random batches
==============

The exact risk of stochastic gradient descent, and the batch size that is enough.
"""

# %%
# Left: the exact risk against the steps for several batch sizes, the limit that needs the spectrum
# alone, and simulated runs. Right: what batches add to the risk, beside a bound that holds for all
# rows with this spectrum.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.paper.optimisers import batch_sizes

batch_sizes()

# %%
# A plan says what batches cost, and which size is enough.

rng = np.random.default_rng(0)
X = rng.standard_normal((5000, 40))
y = X @ rng.standard_normal(40) + 20 * rng.standard_normal(5000)
print(st.plan(X=X, y=y, lr=0.005, batch_size=256))

plt.show()
