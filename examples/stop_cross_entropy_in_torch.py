"""
Stop a classifier in torch
==========================

Train a linear layer with cross-entropy, momentum and a cosine schedule, and stop it where folds of
the same run say.
"""

# %%
# The run is the usual one: ``torch.nn.Linear``, ``CrossEntropyLoss``, ``torch.optim.SGD`` with
# momentum, a schedule. :func:`stoptime.from_torch` reads optimiser and scheduler before the first
# step. :func:`stoptime.plan` then makes that very run on five folds at once and says at which step
# held-out rows have the least log loss; all rows train the layer, and there is no validation set.
# Where torch is not installed, the same run is done by :class:`stoptime.StoppedLogisticRegression`.

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import log_softmax
from sklearn.datasets import load_digits

import stoptime as st
from stoptime.show import plots

try:
    import torch
except ImportError:
    torch = None

LR, MOMENTUM, STEPS = 0.03, 0.9, 600

rng = np.random.default_rng(0)
pixels, digit = load_digits(return_X_y=True)
features = np.maximum(pixels @ rng.standard_normal((64, 400)) / 100, 0)
# one label in five is wrong, as if it had been given in a hurry
hurried = rng.uniform(size=len(digit)) < 0.2
digit = np.where(hurried, rng.integers(10, size=len(digit)), digit)
train = rng.permutation(len(digit)) < 250
X, y, X_new, y_new = features[train], digit[train], features[~train], digit[~train]
X, X_new = X - X.mean(axis=0), X_new - X.mean(axis=0)

if torch is not None:
    layer = torch.nn.Linear(X.shape[1], 10, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=LR, momentum=MOMENTUM)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    method = st.from_torch(optimizer, scheduler, iterations=STEPS)
else:
    method = st.HeavyBall(st.schedules.Cosine(peak=LR, total=STEPS), MOMENTUM)

plan = st.plan(X=X, y=y, method=method, loss="cross-entropy")
print(f"stop after {plan.iterations} of {STEPS} steps")

# %%
# Now the run itself, beyond the stop, to show what that would cost.


def loss(weight, bias):
    """Return the log loss of new rows."""
    return -log_softmax(X_new @ weight.T + bias, axis=1)[np.arange(len(y_new)), y_new].mean()


steps = np.arange(0, STEPS + 1, 5)
losses = []
if torch is not None:
    rows, labels = torch.asarray(X), torch.asarray(y)
    for step in range(STEPS + 1):
        if step % 5 == 0:
            losses.append(loss(layer.weight.detach().numpy(), layer.bias.detach().numpy()))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(layer(rows), labels).backward()
        optimizer.step()
        scheduler.step()
else:
    ones = np.column_stack([X, np.ones(len(X))])
    for step in steps:
        model = st.StoppedLogisticRegression(method, int(step), fit_intercept=False).fit(ones, y)
        losses.append(loss(model.coef_[:, :-1], model.coef_[:, -1]))

at_stop = np.interp(plan.iterations, steps, losses)
print(f"log loss of new rows: {at_stop:.3f} at the stop, {min(losses):.3f} at best, "
      f"{losses[-1]:.3f} at the end of the schedule")  # fmt: skip
figure, ax = plots.new_figure(figsize=(7, 4.2))
ax.plot(steps, losses, color="#D55E00", label="new rows")
plan.plot(ax)
ax.set(title="One run, and where its own folds stop it", ylabel="log loss", ylim=(0.8, 2))

plt.show()
