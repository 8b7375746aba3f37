"""Iterations as filters: exact risk compared with Landweber, leave-one-out with one run."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

import stoptime as st
from benchmarks.cases.paths import nesterov
from benchmarks.data import gaussian, label
from benchmarks.harness import Case, Work
from benchmarks.results import Measure

GROUP = "iterations"
TITLE = "Iterations"
ABOUT = (
    "The exact bias and variance of gradient descent from k = 0 on, including the factorisation, "
    "are compared with EarlyStoppingPy's Landweber, which multiplies p × p matrices at every "
    "step; differences are relative to the risk. The second case compares the exact leave-one-out "
    "error of all of Nesterov's iterates with running them once on the raw data."
)
NOISE = 2.0
SAME = 1e-10  # of the risk: late biases are far below the rounding errors of the peer
RISK, QUICK_RISK = (1000, 500, 1000), (400, 100, 200)  # rows, columns, iterations
LEFT_OUT, QUICK_LEFT_OUT = (1000, 1200, 400), (500, 600, 200)


def landweber(
    X: np.ndarray, signal: np.ndarray, step: float, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and variance of every iteration, computed by EarlyStoppingPy."""
    from EarlyStopping import Landweber  # noqa: PLC0415 - an optional peer

    scaled = X / np.sqrt(len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Landweber(
            scaled,
            scaled @ signal,
            learning_rate=step,
            true_signal=signal,
            true_noise_level=np.sqrt(NOISE / len(X)),
        )
        peer.iterate(iterations)
    return np.asarray(peer.strong_bias2).ravel(), np.asarray(peer.strong_variance).ravel()


def exact(X: np.ndarray, signal: np.ndarray, iterations: int) -> st.RiskCurve:
    """Return the same from the data, including the factorisation."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return st.risk(
        st.GradientDescent(),
        np.arange(iterations + 1),
        eigenvalues=np.maximum(values, 0),
        signal=vectors.T @ signal,
        noise=NOISE,
        n_samples=len(X),
    )


def difference(curve: st.RiskCurve, peer: tuple[np.ndarray, np.ndarray]) -> tuple[Measure, ...]:
    """Return the difference of bias and variance from those of the peer."""
    pairs = zip((curve.bias, curve.variance), peer, strict=True)
    gap = max(float(np.abs((a - b) / curve.total).max()) for a, b in pairs)
    return (Measure("of the risk apart", gap, SAME, "at most"),)


def against_landweber(n: int, p: int, iterations: int) -> Work:
    """Compare the risk of all iterations."""
    import EarlyStopping  # noqa: F401, PLC0415 - imported before timing

    rng = np.random.default_rng(0)
    X, signal = rng.standard_normal((n, p)), rng.standard_normal(p)
    step = float(exact(X, signal, 1).method.step)
    return Work(
        lambda: exact(X, signal, iterations),
        lambda: landweber(X, signal, step, iterations),
        measures=difference,
    )


def against_one_run(n: int, p: int, iterations: int) -> Work:
    """Compare exact leave-one-out of all iterates with one run of them."""
    X, y = gaussian(n, p)
    step = float(1 / st.decompose(X, y).eigenvalues[-1])
    return Work(
        lambda: st.leave_one_out(X, y, st.Nesterov(step), np.arange(1, iterations + 1)),
        lambda: nesterov(X - X.mean(axis=0), y - y.mean(), step, iterations),
    )


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    risk, left_out = (QUICK_RISK, QUICK_LEFT_OUT) if quick else (RISK, LEFT_OUT)
    return [
        Case(
            GROUP,
            f"risk of {risk[2]} iterations, {label(*risk[:2])}",
            "EarlyStoppingPy Landweber",
            partial(against_landweber, *risk),
            "Probably few small steps cost less than one factorisation.",
            goal=1 if quick else 20,
            needs=("EarlyStopping",),
        ),
        Case(
            GROUP,
            f"leave-one-out of {left_out[2]} iterates, {label(*left_out[:2])}",
            "one run of them",
            partial(against_one_run, *left_out),
            "Leave-one-out needs the eigenvectors, which take half of the time; a run needs only "
            "products with vectors, so short runs are cheap.",
            goal=None if quick else 3,
            sense="at most",
        ),
    ]
