"""
Stop a linear probe in torch
============================

Train a linear probe with Nesterov momentum and a cosine schedule, and stop it where the plan says.
"""

# %%
# The features are random rectified projections of the digits, and the responses are 1 for the class
# of a row and 0 for the nine others. Columns and responses are centred, so the probe has no bias.
# The run is the usual one: ``torch.optim.SGD`` with momentum, a schedule, and ``MSELoss``, the mean
# over ten outputs, whose gradient is 2/10 of that of ‖Y - XB‖²/(2n).
#
# :func:`stoptime.from_torch` reads optimiser and scheduler before the first step. The plan then
# needs one factorisation of the features, and no validation set. Where torch is not installed, the
# same run is done in NumPy.

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

import stoptime as st

try:
    import torch
except ImportError:
    torch = None

LR, MOMENTUM, STEPS, CLASSES = 0.5, 0.9, 400, 10

rng = np.random.default_rng(0)
pixels, digit = load_digits(return_X_y=True)
features = np.maximum(pixels @ rng.standard_normal((64, 300)) / 60, 0)
train = rng.permutation(len(digit)) < 200
indicators = np.eye(CLASSES)[digit]
centre, mean = features[train].mean(axis=0), indicators[train].mean(axis=0)
X, Y = features[train] - centre, indicators[train] - mean
X_new, Y_new = features[~train] - centre, indicators[~train] - mean

# %%
# First, ``from_torch`` turns the optimiser into a method of this package. Then ``plan`` estimates
# the best ridge penalty from the data, and stops where the run is closest to that ridge.

if torch is not None:
    weights = torch.zeros((X.shape[1], CLASSES), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=LR, momentum=MOMENTUM, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    method = st.from_torch(optimizer, scheduler, iterations=STEPS, loss_scale=2 / CLASSES)
else:
    cosine = st.schedules.Cosine(peak=2 * LR / CLASSES, total=STEPS)
    method = st.SGD(cosine, MOMENTUM, nesterov=True)

plan = st.plan(X=X, y=Y, method=method)
print(f"{type(method).__name__}: stop after {plan.iterations} of {STEPS} steps")

# %%
# Now the run itself. It goes on beyond the stop, to show what that would cost. The errors on new
# rows are those of the weights that torch holds. The other curve is the exact leave-one-out error
# of the same method, computed without the run.

errors, right = [], []


def judge(coef):
    """Note the error of new rows, and the share of them that get the right class."""
    predicted = X_new @ coef
    errors.append(np.mean((Y_new - predicted) ** 2))
    right.append(np.mean((predicted + mean).argmax(axis=1) == digit[~train]))


if torch is not None:
    loss = torch.nn.MSELoss()
    X_torch, Y_torch = torch.from_numpy(X), torch.from_numpy(Y)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(X_torch @ weights, Y_torch).backward()
        optimizer.step()
        scheduler.step()
        judge(weights.detach().numpy())
else:
    path = st.path(st.decompose(X, Y, fit_intercept=False), method, np.arange(1, STEPS + 1))
    for coef in path.coef:
        judge(coef)

steps = np.arange(1, STEPS + 1)
left_out = st.leave_one_out(X, Y, method, steps, fit_intercept=False)
at_stop = errors[plan.iterations - 1]
print(
    f"new rows: {at_stop:.4f} at the stop, {errors[-1]:.4f} at the end, {min(errors):.4f} at best; "
    f"{right[plan.iterations - 1]:.1%} right at the stop, {right[-1]:.1%} at the end"
)

fig, ax = plt.subplots()
ax.plot(steps, errors, label="new rows")
ax.plot(steps, left_out.errors.mean(axis=1), "--", label="exact leave-one-out")
ax.axvline(plan.iterations, color="0.5", label="the plan stops here")
ax.set(xlabel="steps", ylabel="mean squared error", xscale="log", ylim=(0, 3 * at_stop))
ax.legend()

plt.show()
