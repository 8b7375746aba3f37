"""Iterations as filters: exact risk against a peer's Landweber, exact leave-one-out against running once.

    python benchmarks/iterations.py

The peer is PyPI's EarlyStoppingPy; without it that part is left out. Every pair is timed in turn, and the
best round of each counts. Times are for this machine; only ratios travel.
"""

from __future__ import annotations

import importlib.util
import time
import warnings

import numpy as np
from timing import best_times, environment, gaussian

import stoptime as st
from stoptime.methods import GradientDescent, Nesterov

ITERATIONS = 1000
SAMPLES, FEATURES = 1000, 500
FASTER = 20.0
SAME = 1e-10
LEFT_OUT = 400
DEARER = 3.0


def landweber(X: np.ndarray, signal: np.ndarray, noise: float, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and variance of every iteration as EarlyStoppingPy computes them."""
    from EarlyStopping import Landweber  # noqa: PLC0415 - an optional peer

    scaled = X / np.sqrt(len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Landweber(
            scaled,
            scaled @ signal,
            learning_rate=step,
            true_signal=signal,
            true_noise_level=np.sqrt(noise / len(X)),
        )
        peer.iterate(ITERATIONS)
    return np.asarray(peer.strong_bias2).ravel(), np.asarray(peer.strong_variance).ravel()


def exact(X: np.ndarray, signal: np.ndarray, noise: float) -> st.RiskCurve:
    """Return the same from the data, the factorisation included."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return st.risk(
        GradientDescent(),
        np.arange(ITERATIONS + 1),
        eigenvalues=np.maximum(values, 0),
        signal=vectors.T @ signal,
        noise=noise,
        n_samples=len(X),
    )


def risk_against_landweber() -> None:
    """Compare the risk of all iterations, and its price."""
    rng = np.random.default_rng(0)
    X, signal, noise = rng.standard_normal((SAMPLES, FEATURES)), rng.standard_normal(FEATURES), 2.0
    ours = best_times({"stoptime": lambda: exact(X, signal, noise)}, 5)["stoptime"]
    print(f"Exact risk of {ITERATIONS} iterations, n = {SAMPLES}, p = {FEATURES}: {ours * 1e3:.0f} ms")
    if importlib.util.find_spec("EarlyStopping") is None:
        print("  no peer: EarlyStoppingPy is not installed (pip install EarlyStoppingPy)\n")
        return
    curve = exact(X, signal, noise)
    begin = time.perf_counter()
    bias, variance = landweber(X, signal, noise, float(curve.method.step))
    theirs = time.perf_counter() - begin
    # in units of the risk: late biases are far below the rounding of the peer's matrix powers
    gap = max(
        np.abs((a - b) / curve.total).max() for a, b in ((curve.bias, bias), (curve.variance, variance))
    )
    print(
        f"  EarlyStoppingPy's Landweber: {theirs:.1f} s, {theirs / ours:.0f} times as long "
        f"(goal at least {FASTER:g}); bias and variance differ by at most {gap:.1e} of the risk\n"
    )
    assert gap < SAME


def nesterov(X: np.ndarray, y: np.ndarray, step: float) -> np.ndarray:
    """Run Nesterov's method on the raw data, once."""
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    b = theta = np.zeros(X.shape[1])
    for k in range(1, LEFT_OUT + 1):
        b, old = theta + step / len(X) * (Xc.T @ (yc - Xc @ theta)), b
        theta = b + (k - 1) / (k + 2) * (b - old)
    return b


def leave_one_out() -> None:
    """Compare exact leave-one-out of all iterates with one run of them."""
    X, y = gaussian(1000, 1200)
    step = float(1 / st.decompose(X, y).eigenvalues[-1])
    cases = {
        "once": lambda: nesterov(X, y, step),
        "left out": lambda: st.leave_one_out(X, y, Nesterov(step), np.arange(1, LEFT_OUT + 1)),
    }
    t = best_times(cases, 5)
    print(
        f"Exact leave-one-out of {LEFT_OUT} Nesterov iterates, n = 1000, p = 1200: "
        f"{t['left out']:.2f} s, {t['left out'] / t['once']:.2f} times one run on the raw data "
        f"({t['once']:.2f} s; goal at most {DEARER:g})"
    )


def main() -> None:
    """Print both comparisons."""
    print(environment(), "\n")
    risk_against_landweber()
    leave_one_out()


if __name__ == "__main__":
    main()
