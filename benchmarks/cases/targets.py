"""Many targets, each with its own stop or scales of bands, compared with himalaya."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import stoptime as st
from benchmarks.data import label
from benchmarks.harness import Case, Work, measure, peak_memory

GROUP = "targets"
TITLE = "Many targets"
ABOUT = (
    "One design matrix and many targets with different smoothness and noise, in single precision. "
    "himalaya chooses the penalty of each target among 20 by 5 folds; stoptime chooses the stop "
    "of each target among 100, by path GCV and by exact leave-one-out. The scores are the mean R² "
    "over targets on 1 000 test rows. Peak memory is the memory beyond X and Y."
)
SHAPE, QUICK_SHAPE, TEST_ROWS = (3000, 500), (1000, 200), 1000
SIZES = {"path-gcv": 100_000, "loo": 10_000}  # number of targets for each rule
QUICK = {"path-gcv": 2000, "loo": 200}
MEMORY = 6.0  # GiB
PENALTIES = np.geomspace(1e-1, 1e6, 20)  # for XᵀX; the best ones are well inside this range
BATCH = 2000  # targets
TYPE = np.float32
BANDED_SHAPE, QUICK_BANDED_SHAPE = (1000, 1500), (120, 180)
BANDED_TARGETS, QUICK_BANDED_TARGETS = 2000, 30
DRAWS = 20
BANDED_GOAL = 8.0  # times as fast
R2_MARGIN = 0.002  # by which the mean R² may be below that of the peer
METHOD = "gradient-flow"
WHY = {
    "path-gcv": "Probably both are limited by the product of rows and targets.",
    "loo": "Nearly all the time is spent on the leave-one-out operators of every block of rows at "
    "every stop.",
    "bands": "Nearly all the time is spent on one eigendecomposition for each draw.",
}


def data(
    rows: int, columns: int, n_targets: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test sets with correlated columns and coefficients of different decay."""
    rng = np.random.default_rng(0)
    scales = np.arange(1, columns + 1) ** -0.5
    rotation = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    samples = (rng.standard_normal((rows + TEST_ROWS, columns)) * scales).astype(TYPE)
    Y = np.empty((rows + TEST_ROWS, n_targets), TYPE)
    for start in range(0, n_targets, BATCH):
        width = min(BATCH, n_targets - start)
        decay = rng.uniform(0, 1, width)
        coef = (rng.standard_normal((columns, width)) * scales[:, None] ** decay).astype(TYPE)
        signal = samples @ coef
        noise = signal.std(axis=0) * 10 ** rng.uniform(-0.5, 1, width).astype(TYPE)
        Y[:, start : start + width] = (
            signal + noise * rng.standard_normal(signal.shape, dtype=TYPE) + 1
        )
    X = samples @ rotation.astype(TYPE)
    X += 1  # so that the columns must be centred
    return X[:rows], Y[:rows], X[rows:], Y[rows:]


def score(X: np.ndarray, Y: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Return the mean R² over targets."""
    total = 0.0
    for start in range(0, Y.shape[1], BATCH):
        columns = slice(start, start + BATCH)
        truth = Y[:, columns].astype(np.float64)
        fit = X @ coef[columns].T + intercept[columns]
        total += float(np.sum(1 - ((truth - fit) ** 2).mean(axis=0) / truth.var(axis=0)))
    return total / Y.shape[1]


def against_himalaya(rule: str, shape: tuple[int, int], n_targets: int) -> Work:
    """Compare the time and the score on test rows."""
    from himalaya.ridge import RidgeCV  # noqa: PLC0415 - an optional peer

    X, Y, X_test, Y_test = data(*shape, n_targets)

    def scores(ours: Any, peer: Any) -> tuple[dict[str, Any], ...]:
        mine = score(X_test, Y_test, ours.coef_, ours.intercept_)
        other = score(X_test, Y_test, peer.coef_.T, peer.intercept_)
        return (measure("mean R²", mine, other), measure("mean R² of the peer", other))

    options = {"n_targets_batch": BATCH, "n_targets_batch_refit": BATCH}
    peer = RidgeCV(PENALTIES, fit_intercept=True, cv=5, solver_params=options)
    ours = st.StoppedRegressorCV(METHOD, stops=100, per_target=True, rule=rule)
    return Work(lambda: ours.fit(X, Y), lambda: peer.fit(X, Y), measures=scores)


def banded_data(rows: int, columns: int, n_targets: int) -> tuple[np.ndarray, ...]:
    """Return training and test sets, and labels of three bands that matter to different degrees."""
    rng = np.random.default_rng(0)
    groups = np.arange(columns) * 3 // columns
    X = rng.standard_normal((rows + TEST_ROWS, columns))
    scales = np.array([1.0, 0.3, 0.05])[:, None] * rng.choice([0.2, 1.0], (3, n_targets))
    signal = X @ (rng.standard_normal((columns, n_targets)) * scales[groups])
    Y = signal + 2 * signal.std(axis=0) * rng.standard_normal(signal.shape)
    return X[:rows], Y[:rows], X[rows:], Y[rows:], groups


def against_banded_ridge(shape: tuple[int, int], n_targets: int) -> Work:
    """Compare the time and the score on test rows of a random search for scales of bands.

    Both choose among 20 draws for each target, in double precision: himalaya by 20 penalties and 5
    folds, stoptime by path GCV.
    """
    from himalaya.ridge import GroupRidgeCV  # noqa: PLC0415 - an optional peer

    X, Y, X_test, Y_test, groups = banded_data(*shape, n_targets)

    def scores(ours: Any, peer: Any) -> tuple[dict[str, Any], ...]:
        mine = score(X_test, Y_test, ours.coef_, ours.intercept_)
        other = score(X_test, Y_test, peer.coef_.T, peer.intercept_)
        return (
            measure("mean R²", mine, other - R2_MARGIN),
            measure("mean R² of the peer", other),
        )

    options = {"n_iter": DRAWS, "alphas": PENALTIES, "n_targets_batch": BATCH}
    options |= {"n_targets_batch_refit": BATCH, "progress_bar": False}
    search = {"solver": "random_search", "solver_params": options, "random_state": 0}
    peer = GroupRidgeCV(groups=groups, fit_intercept=True, cv=5, **search)
    ours = st.BandedRegressorCV(
        groups, per_target=True, search="random", n_draws=DRAWS, rule="path-gcv"
    )
    return Work(lambda: ours.fit(X, Y), lambda: peer.fit(X, Y), measures=scores)


def memory(shape: tuple[int, int], n_targets: int) -> Work:
    """Measure the peak memory."""
    X, Y, *_ = data(*shape, n_targets)
    ours = st.StoppedRegressorCV(METHOD, stops=100, per_target=True, rule="path-gcv")
    peak = partial(peak_memory, lambda: ours.fit(X, Y))
    return Work(peak, measures=lambda held, _: (measure("GiB", held / 2**30, MEMORY, "at most"),))


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    sizes, shape = (QUICK, QUICK_SHAPE) if quick else (SIZES, SHAPE)
    against = [
        Case(
            GROUP,
            f"{label(*shape)}, {label(n)} targets by {rule}",
            "himalaya RidgeCV",
            partial(against_himalaya, rule, shape, n),
            WHY[rule],
            rounds=2,
            needs=("himalaya",),
        )
        for rule, n in sizes.items()
    ]
    banded = (QUICK_BANDED_SHAPE, QUICK_BANDED_TARGETS) if quick else (BANDED_SHAPE, BANDED_TARGETS)
    against.append(
        Case(
            GROUP,
            f"{label(*banded[0])} in 3 bands, {label(banded[1])} targets, {DRAWS} draws",
            "himalaya GroupRidgeCV",
            partial(against_banded_ridge, *banded),
            WHY["bands"],
            goal=BANDED_GOAL,
            rounds=1,
            needs=("himalaya",),
        )
    )
    n = sizes["path-gcv"]
    name = f"{label(*shape)}, {label(n)} targets by path-gcv"
    why = "Probably the coefficients of all targets."
    return [*against, Case(GROUP, name, "peak memory", partial(memory, shape, n), why)]
