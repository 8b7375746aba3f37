"""
Random batches
==============

The risk of stochastic gradient descent, and the batch size that is enough.
"""

# %%
# Left: the risk against the steps for several batch sizes, in the limit that needs the spectrum
# alone, exact for the data, and in simulated runs. Right: what batches add to the risk.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime import stochastic
from stoptime.paper.reproduction import Experiment
from stoptime.show import plots

BATCH_SIZES = (8, 32, 128, 512)
STEPS = np.unique(np.round(np.geomspace(1, 400, 50)))
RESPONSES = 4  # over whose noise the exact risk is averaged
RUNS = 50  # simulated for each response

rng = np.random.default_rng(0)
X = rng.standard_normal((240, 60)) * np.geomspace(0.3, 1, 60)
beta = rng.standard_normal(60) / np.sqrt(60)
responses = X @ beta + rng.standard_normal((RESPONSES, len(X)))
values, vectors = np.linalg.eigh(X.T @ X / len(X))
known = {"signal": vectors.T @ beta, "noise": 1.0, "n_samples": len(X)}


def exact(step, size, steps):
    """Return E‖β - β₀‖², and the part of it that batches add, both as means over the responses."""
    found = [stochastic.moments(X, y, step, size, steps) for y in responses]
    added = np.mean([np.trace(one.covariance, axis1=1, axis2=2) for one in found], axis=0)
    return np.mean([((one.mean - beta) ** 2).sum(axis=1) for one in found], axis=0) + added, added


def simulated(step, size, steps):
    """Return means and standard errors of ‖β - β₀‖² over runs, some for each response."""
    # this uses rows and not the recursion for covariances, so it is an independent check
    rng = np.random.default_rng(1)
    of_runs = np.repeat(responses, RUNS, axis=0)
    coef = np.zeros((len(of_runs), X.shape[1]))
    losses = []
    for k in range(1, int(steps[-1]) + 1):
        batch = rng.integers(0, len(X), (len(of_runs), size))
        rows = X[batch]
        errors = (rows @ coef[:, :, None])[..., 0] - np.take_along_axis(of_runs, batch, axis=1)
        coef = coef - step / size * (errors[:, None] @ rows)[:, 0]
        if k in steps:
            losses.append(((coef - beta) ** 2).sum(axis=1))
    found = np.array(losses)
    return found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(len(of_runs))


def table(panel, curve, steps, values, errors=None):
    """Return the numbers of a curve as rows."""
    spread = [""] * len(steps) if errors is None else errors.tolist()
    numbers = zip(steps.tolist(), values.tolist(), spread, strict=True)
    return [(panel, curve, *row) for row in numbers]


figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
step = 0.265  # about half of the longest one that converges with the smallest batches
curves = {
    f"batches of {size}": stochastic.limit(values, STEPS, **known, step=step, batch_size=size)
    for size in BATCH_SIZES
}
colors = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
for color, (label, curve) in zip(colors, curves.items(), strict=True):
    left.loglog(curve.stops, curve.total, color=color, lw=1.4, label=label)
    left.plot(curve.best, curve.total.min(), "o", color=color, markersize=4)
left.loglog(curve.stops, curve.full_gradient, color="black", lw=1.8, label="full gradient")
left.set(xlabel="steps", ylabel="risk")
few = STEPS[8::6]
numbers = []
for size, (label, curve) in zip(BATCH_SIZES, curves.items(), strict=True):
    risk, _ = exact(step, size, few)
    left.plot(few, risk, "x", color="0.2", markersize=5, label="exact" if size == 8 else None)
    numbers += table(label, "limit", STEPS, curve.total) + table(label, "exact", few, risk)
mean, error = simulated(step, BATCH_SIZES[0], few)
dots = {"fmt": "o", "color": "0.2", "ms": 3, "mfc": "white", "elinewidth": 0.8}
left.errorbar(few, mean, 2 * error, **dots, label=f"mean of {RUNS * RESPONSES} runs")
numbers += table(f"batches of {BATCH_SIZES[0]}", "simulated", few, mean, 2 * error)
left.set(title="Risk on random batches: limit, exact, simulated", ylim=(0.4, 8))
left.legend(fontsize="small", ncols=2, loc="upper left")

size, steps = 32, np.unique(np.round(np.geomspace(1, 30_000, 40)))
step = 0.6 * size / (len(X) * values.sum())
curve = stochastic.limit(values, steps, **known, step=step, batch_size=size)
early = steps[steps <= 300]
_, added = exact(step, size, early)
right.loglog(steps, curve.batches, color="#0072B2", label="limit, from the spectrum")
right.loglog(early, added, "x", color="0.2", markersize=5, label="exact")
right.loglog(steps, curve.full_gradient, color="black", lw=1.0, label="risk of the full gradient")
right.set(xlabel="steps", ylabel="risk that batches add", title=f"Batches of {size}, short steps")
right.legend(fontsize="small")
numbers += table("added", "limit", steps, curve.batches) + table("added", "exact", early, added)
columns = ("panel", "curve", "steps", "risk", "two_standard_errors")
caption = "Risk on random batches: exact, simulated, and the limit from the spectrum alone."
experiment = Experiment("batch_sizes", figure, columns, numbers, caption)

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
