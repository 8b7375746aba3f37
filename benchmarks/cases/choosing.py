"""Speed of choosing the stop by exact leave-one-out, compared with RidgeCV and with refitting."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

import stoptime as st
from benchmarks.data import gaussian, label
from benchmarks.harness import Case, Work, measure, peak_memory

GROUP = "choosing"
TITLE = "Choosing the stop"
ABOUT = (
    "`StoppedRegressorCV` with 100 stops and exact leave-one-out is compared with `RidgeCV` with "
    "100 penalties and its own leave-one-out; with many targets each target has its own stop or "
    "penalty. Refitting is the definition of leave-one-out: the whole path is computed on all "
    "rows but one, for every row. Ten refits are timed, and the time is multiplied accordingly. "
    "Peak memory is the memory beyond X and y."
)
SHAPES = {(2000, 200): 5.0, (20000, 500): 8.0, (500, 2000): 1.0, (2000, 200, 1000): 5.0}
QUICK = {(2000, 200): 5.0, (300, 1000): 1.0, (1000, 100, 100): 1.0}
STOPS = 100
PENALTIES = np.geomspace(1e-3, 1e5, STOPS)
REFITS = 10
MEMORY_SHAPE, MEMORY_GOAL = (20000, 500), 6.0
WHY = {
    "wide": "With more columns than rows both factor the same n × n matrix; this takes a third of "
    "our time and a fifth of theirs.",
    "tall": "The product of all rows with the eigenvectors, which leave-one-out needs, takes half "
    "of the time.",
}


def against_ridgecv(shape: tuple[int, ...]) -> Work:
    """Compare choosing a stop with choosing a penalty."""
    X, y = gaussian(*shape)
    many = len(shape) == 3
    return Work(
        lambda: st.StoppedRegressorCV("nesterov-flow", stops=STOPS, per_target=many).fit(X, y),
        lambda: RidgeCV(PENALTIES, alpha_per_target=many).fit(X, y),
    )


def against_refitting(shape: tuple[int, int]) -> Work:
    """Compare with the definition of leave-one-out, and check that the errors agree."""
    X, y = gaussian(*shape)
    stops = st.StoppedRegressorCV("nesterov-flow", stops=STOPS).fit(X, y).stops_

    def refit() -> np.ndarray:
        left_out = [np.arange(len(y)) != i for i in range(REFITS)]
        paths = (st.path(X[keep], y[keep], "nesterov-flow", stops) for keep in left_out)
        return np.array([y[i] - path.predict(X[i : i + 1])[:, 0] for i, path in enumerate(paths)])

    def same(_: object, residuals: np.ndarray) -> tuple[dict[str, Any], ...]:
        middle = len(stops) // 2
        ours = st.left_out_residuals(X, y, "nesterov-flow", stops[middle])[:REFITS]
        gap = np.abs(ours - residuals[:, middle]).max() / np.abs(residuals[:, middle]).max()
        return (measure("largest difference", float(gap), 1e-8, "at most"),)

    fit = partial(st.StoppedRegressorCV("nesterov-flow", stops=STOPS).fit, X, y)
    return Work(fit, refit, share=REFITS / shape[0], measures=same)


def memory(shape: tuple[int, int]) -> Work:
    """Measure the peak memory."""
    X, y = gaussian(*shape)
    peak = partial(
        peak_memory, lambda: st.StoppedRegressorCV("nesterov-flow", stops=STOPS).fit(X, y)
    )
    return Work(
        peak,
        measures=lambda held, _: (measure("times X", held / X.nbytes, MEMORY_GOAL, "at most"),),
    )


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    shapes = QUICK if quick else SHAPES
    against = [
        Case(
            GROUP,
            label(*shape) + (" targets" if len(shape) == 3 else ""),
            "scikit-learn RidgeCV",
            partial(against_ridgecv, shape),
            WHY["wide" if shape[0] < shape[1] else "tall"],
            goal=goal,
        )
        for shape, goal in shapes.items()
    ]
    refits = Case(
        GROUP,
        label(2000, 200),
        "2 000 refits",
        partial(against_refitting, (2000, 200)),
        WHY["tall"],
        goal=50,
    )
    shape = (2000, 200) if quick else MEMORY_SHAPE
    held = Case(
        GROUP,
        label(*shape),
        "peak memory",
        partial(memory, shape),
        "Probably the rotated rows, which are all kept in memory.",
        goal=None,
    )
    return [*against, refits, held]
