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
plan = st.plan(X=X, y=y, lr=0.005, batch_size=256)
for run in (plan.run, plan.descent):
    enough = run.batches.enough or "all"
    print(f"{run.method.name}: stop after {run.iterations} steps")
    print(f"  batches of 256 have {run.batches.cost:.2f} times the risk of the full gradient")
    print(f"  which batches of {enough} rows exceed by less than 1 %")

plt.show()
