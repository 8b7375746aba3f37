"""A training loop with momentum in torch, compared with the same iterates as a path."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import stoptime as st
from benchmarks.data import gaussian, label
from benchmarks.harness import Case, Work
from benchmarks.results import Measure

GROUP = "training"
TITLE = "A training loop"
ABOUT = (
    "`torch.optim.SGD` with momentum 0.9 on all rows, in double precision on the CPU, stores the "
    "weights at 50 of its steps. `st.path` with `HeavyBall` of the same step and momentum "
    "computes the weights at the same 50 steps. Both give the same iterates, and the weights are "
    "compared."
)
MOMENTUM = 0.9
KEPT = 50
SAME = 1e-8
SIZES, QUICK = [(2000, 200, 1000), (20000, 500, 1000)], [(2000, 200, 300)]  # rows, columns, steps


def train(X: Any, y: Any, step: float, kept: np.ndarray) -> np.ndarray:
    """Run the loop; return the weights after the given steps."""
    import torch  # noqa: PLC0415 - an optional peer

    weights = torch.zeros(X.shape[1], dtype=X.dtype, requires_grad=True)
    optimiser = torch.optim.SGD([weights], lr=step, momentum=MOMENTUM)
    wanted, snapshots = set(kept.tolist()), []
    for k in range(1, int(kept[-1]) + 1):
        optimiser.zero_grad()
        loss = 0.5 * torch.mean((y - X @ weights) ** 2)
        loss.backward()
        optimiser.step()
        if k in wanted:
            snapshots.append(weights.detach().numpy().copy())
    return np.array(snapshots)


def against_torch(n: int, p: int, steps: int) -> Work:
    """Compare a loop with the path of its iterates."""
    import torch  # noqa: PLC0415

    X, y = gaussian(n, p)
    Xc, yc = torch.from_numpy(X - X.mean(axis=0)), torch.from_numpy(y - y.mean())
    step = float(1 / st.decompose(X, y).eigenvalues[-1])
    kept = np.unique(np.geomspace(1, steps, KEPT).astype(int))
    train(Xc, yc, step, kept[:3])  # the first steps of torch are slower: libraries are loaded
    return Work(
        lambda: st.path(X, y, st.HeavyBall(step, MOMENTUM), kept),
        lambda: train(Xc, yc, step, kept),
        measures=same,
    )


def same(path: st.Path, weights: np.ndarray) -> tuple[Measure, ...]:
    """Return the difference of the iterates relative to the largest weight."""
    gap = np.abs(path.coef - weights).max() / np.abs(weights).max()
    return (Measure("largest difference", float(gap), SAME, "at most"),)


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    return [
        Case(
            GROUP,
            f"{label(n, p)}, {label(steps)} steps",
            "torch loop",
            partial(against_torch, n, p, steps),
            "Probably few steps with one vector each cost less than all eigenvectors.",
            rounds=3,
            needs=("torch",),
        )
        for n, p, steps in (QUICK if quick else SIZES)
    ]
