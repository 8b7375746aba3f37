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
from stoptime import stochastic
from stoptime.paper.experiment import Experiment
from stoptime.show import plots

BATCH_ROWS = 240
BATCH_FEATURES = 60
BATCH_SIZES = (8, 32, 128, 512)
BATCH_STEPS = np.unique(np.round(np.geomspace(1, 400, 50)))
SMALL_STEP = 0.3  # of the largest one for which the upper bound is finite
SIMULATED_RUNS = 200


def batch_sizes():
    """Draw the exact risk of several batch sizes, and what the limit and the bound say of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BATCH_ROWS, BATCH_FEATURES)) * np.geomspace(0.3, 1, BATCH_FEATURES)
    beta = rng.standard_normal(BATCH_FEATURES) / np.sqrt(BATCH_FEATURES)
    figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
    rows = [*_risks_of_batches(left, X, beta), *_bounds_of_batches(right, X, beta)]
    columns = ("panel", "curve", "steps", "risk", "two_standard_errors")
    caption = "Exact risk on random batches; the limit from the spectrum alone."
    return Experiment("batch_sizes", figure, columns, rows, caption)


def _known(X, beta):
    """Return the eigenvalues, and what the limit needs to know of signal and noise."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return values, {"signal": vectors.T @ beta, "noise": 1.0, "n_samples": len(X)}


def _risks_of_batches(ax, X, beta):
    """Draw risks against steps, the limit dashed, and means of simulated runs as dots."""
    values, known = _known(X, beta)
    step = 0.5 * stochastic.largest_step(X, BATCH_SIZES[0])
    curves = {
        f"batches of {size}": stochastic.risk(X, beta, 1.0, step, size, BATCH_STEPS)
        for size in BATCH_SIZES
    }
    plots.batches(curves, ax=ax)
    rows = []
    for size, (label, curve) in zip(BATCH_SIZES, curves.items(), strict=True):
        limit = stochastic.limit(values, BATCH_STEPS, **known, step=step, batch_size=size)
        ax.plot(limit.stops, limit.total, "--", color="0.3", linewidth=0.9)
        rows += _rows(label, "exact", curve.stops, curve.total)
        rows += _rows(label, "limit", limit.stops, limit.total)
    steps = BATCH_STEPS[8::6]
    mean, error = _simulated(X, beta, step, BATCH_SIZES[0], steps)
    ax.errorbar(steps, mean, 2 * error, fmt="o", color="0.2", ms=3, mfc="white", elinewidth=0.8)
    rows += _rows(f"batches of {BATCH_SIZES[0]}", "simulated", steps, mean, 2 * error)
    ax.plot([], [], "--", color="0.3", linewidth=0.9, label="limit, from the spectrum")
    ax.plot([], [], "o", color="0.2", ms=3, mfc="white", label=f"mean of {SIMULATED_RUNS} runs")
    ax.set_title("Exact risk on random batches")
    ax.set_ylim(0.4, 8)
    ax.legend(fontsize="small", ncols=2, loc="upper left")
    return rows


def _bounds_of_batches(ax, X, beta):
    """Draw what batches add to the risk: exact, in the limit, and at most."""
    values, known = _known(X, beta)
    size = BATCH_SIZES[1]
    step = SMALL_STEP * 2 * size / (len(X) * values.sum())
    steps = np.unique(np.round(np.geomspace(1, 30_000, 40)))
    exact = stochastic.risk(X, beta, 1.0, step, size, steps[steps <= 1000])
    ax.loglog(exact.stops, exact.batches, color="#0072B2", linewidth=1.8, label="exact")
    rows = _rows("added", "exact", exact.stops, exact.batches)
    curve = stochastic.limit(values, steps, **known, step=step, batch_size=size)
    label = "limit, from the spectrum"
    ax.loglog(curve.stops, curve.batches, "--", color="0.2", linewidth=1.4, label=label)
    rows += _rows("added", label, curve.stops, curve.batches)
    full = curve.full_gradient
    ax.loglog(steps, full, color="black", linewidth=1.0, label="risk of the full gradient")
    ax.set(xlabel="steps", ylabel="risk that batches add")
    ax.set_title(f"Batches of {size}, short steps")
    ax.legend(fontsize="small")
    return rows


def _rows(panel, curve, steps, values, errors=None):
    spread = [""] * len(steps) if errors is None else errors.tolist()
    numbers = zip(steps.tolist(), values.tolist(), spread, strict=True)
    return [(panel, curve, *row) for row in numbers]


def _simulated(X, beta, step, size, steps):
    """Return means and standard errors of ‖β - β₀‖² over runs, each with noise of its own."""
    # this uses rows and not the recursion for covariances, so it is an independent check
    rng = np.random.default_rng(1)
    responses = X @ beta + rng.standard_normal((SIMULATED_RUNS, len(X)))
    coef = np.zeros((SIMULATED_RUNS, X.shape[1]))
    losses = []
    for k in range(1, int(steps[-1]) + 1):
        batch = rng.integers(0, len(X), (SIMULATED_RUNS, size))
        rows = X[batch]
        errors = (rows @ coef[:, :, None])[..., 0] - np.take_along_axis(responses, batch, axis=1)
        coef = coef - step / size * (errors[:, None] @ rows)[:, 0]
        if k in steps:
            losses.append(((coef - beta) ** 2).sum(axis=1))
    found = np.array(losses)
    return found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(SIMULATED_RUNS)


experiment = batch_sizes()

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
