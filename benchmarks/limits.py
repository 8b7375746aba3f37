"""Compare limiting risks with those of large random designs.

    python -m benchmarks.limits [--covariance spiked] [--ratio 0.5] [--rows 2000] [--draws 1]
                                [--method HeavyBall] [--halve]

For each covariance and each p/n Gaussian designs are drawn and factorised. Their exact bias and
variance, averaged over the prior of the coefficients, serve all methods, stops, signals and both
targets. The limits know the eigenvalues of the covariance alone. The largest differences, relative
to the risk, are written to benchmarks/results/limits.json, which later runs complete, and to the
table of docs/beyond.md.

A method agrees with its limit where the difference is at most one percent or three standard errors
of the mean over the designs. With ``--halve`` as many designs of half the size are drawn too: an
effect of order 1/n, which no limit has, is not in twice the one mean less the other. It is for
covariances with few eigenvalues, which half the size shares.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import eig_banded, eigh

import stoptime as st
from benchmarks.harness import command, load, table
from stoptime.theory.search import stop_with_gain

PAGE = "beyond.md"
FILE = "limits.json"
RATIOS = (0.2, 0.5, 1.0, 2.0, 5.0)
GAINS = (0.5, 4.0, 32.0)  # φ(0) at the stops, in units of one over the mean eigenvalue
NOISE = 1.0
SINGLE = 200  # leading eigenvalues that are atoms of their own in the limit
BIN_GROWTH = 1.02  # of the numbers of the others, which share an atom
DAMPING = 0.3  # of the heavy ball, in units of the root of the mean eigenvalue

Pair = tuple[np.ndarray, np.ndarray]


def autoregression(p: int) -> np.ndarray:
    """Return the eigenvalues of the covariance 0.6^|i-j|, whose inverse is tridiagonal."""
    bands = np.array([np.full(p, 1 + 0.6**2), np.full(p, -0.6)])
    bands[0, [0, -1]] = 1.0
    return 1 / eig_banded(bands / (1 - 0.6**2), lower=True, eigvals_only=True)


def moving_average(p: int) -> np.ndarray:
    """Return the eigenvalues of the Toeplitz covariance of a moving average of three terms."""
    bands = np.array([np.full(p, 1.45), np.full(p, 0.78), np.full(p, 0.3)])
    return np.maximum(eig_banded(bands, lower=True, eigvals_only=True), 0.0)


def spiked(p: int) -> np.ndarray:
    """Return equal eigenvalues, and five percent of them ten to thirty times as large."""
    return np.append(np.ones(p - p // 20), np.tile([10.0, 30.0], p)[: p // 20])


COVARIANCES = {
    "two-point": lambda p: np.repeat([1.0, 5.0], [p - p // 2, p // 2]),
    "power law": lambda p: np.arange(1.0, p + 1) ** -1.0,
    "spiked": spiked,
    "AR(1)": autoregression,
    "Toeplitz": moving_average,
}
SIGNALS = {
    "isotropic": lambda tau, mean: np.ones_like(tau),  # noqa: ARG005 - the same in all directions
    "aligned": lambda tau, mean: tau / mean,
}


def binned(tau: np.ndarray) -> Pair:
    """Return the eigenvalues as fewer atoms: the leading ones, and means of the others."""
    values, counts = np.unique(tau, return_counts=True)
    if len(values) <= SINGLE:
        return values, counts.astype(float)
    tau = np.sort(tau)[::-1]
    starts = np.arange(SINGLE)
    while starts[-1] < len(tau):
        starts = np.append(starts, max(starts[-1] + 1, int(starts[-1] * BIN_GROWTH)))
    starts = starts[starts < len(tau)]
    counts = np.diff(np.append(starts, len(tau))).astype(float)
    return np.add.reduceat(tau, starts) / counts, counts


class Design:
    """The positive eigenvalues of XᵀX/n of one Gaussian design, and its eigenvectors."""

    def __init__(self, tau: np.ndarray, n: int, seed: int) -> None:
        """Draw rows with independent columns of variances tau: a rotation changes no risk."""
        X = np.random.default_rng(seed).standard_normal((n, len(tau))) * np.sqrt(tau)
        wide = len(tau) > n
        s, V = eigh((X @ X.T if wide else X.T @ X) / n, driver="evd", overwrite_a=True)
        if wide:
            V = X.T @ V / np.sqrt(n * s)
        self.tau, self.n = tau, n
        self.eigenvalues = np.maximum(s, 0.0)
        self.squares = V**2
        self.rotated = (V * tau[:, None]).T @ V  # the population covariance in this basis

    def risks(self, method: st.Method, stops: np.ndarray, signal: str, target: str) -> np.ndarray:
        """Return bias and variance at the stops, averaged over the prior: traces of matrices."""
        g = method.shrinkage(self.eigenvalues[:, None], stops)
        gain = method.gain(self.eigenvalues[:, None], stops)
        error = self.tau if target == "prediction" else np.ones_like(self.tau)
        variance = NOISE / self.n * (error @ self.squares * self.eigenvalues) @ gain**2
        energy = SIGNALS[signal](self.tau, self.tau.mean()) * error
        if signal == "isotropic" or target == "estimation":
            bias = energy.sum() + (energy @ self.squares) @ (g**2 - 1)
        else:
            # tr A g Σ g with g = 1 + h, where h is zero in null directions and A = Σ/mean
            h = g - 1
            pairs = self.rotated**2 / self.tau.mean()
            bias = energy.sum() + 2 * (energy @ self.squares) @ h + np.sum(h * (pairs @ h), axis=0)
        return np.array([bias / len(self.tau), variance])


def methods(pair: Pair, aspect: float) -> list[st.Method]:
    """Return all methods with a filter, tuned to the limit."""
    tau, weights = pair
    damping = DAMPING * np.sqrt(tau @ weights / weights.sum())
    step = 1 / (4 * tau.max() * (1 + aspect))
    given = {
        "heavy-ball-flow": st.HeavyBallFlow(damping),
        "heavy-ball": st.HeavyBall(step, 1 - 2 * damping * np.sqrt(step)),
        "high-resolution-flow": st.HighResolutionFlow(step, damping**2),
    }
    known = {"aspect": aspect, "covariance": pair, "signal": 1.0, "noise": 1.0}
    every = [given.get(name, st.get_method(name)) for name in (*st.METHODS, *st.ITERATIONS)]
    every += [st.AcceleratedFlow(5.0), st.AcceleratedFlow(9.0)]
    filters = [one for one in every if isinstance(one, st.Filter)]
    filters = [one for one in filters if not isinstance(one, st.SpectralCutoff)]
    tuned = [st.limiting_risk(one, [0], **known).method for one in filters]
    # the largest eigenvalue of a sample may exceed the edge of the limit: steps have a margin
    return [replace(one, step=0.8 * one.step) if one.whole_stops else one for one in tuned]


def stops_of(method: st.Method, mean: float) -> np.ndarray:
    """Return an early, a middle and a late stop."""
    stops = np.array([stop_with_gain(method, gain / mean) for gain in GAINS])
    return np.ceil(stops) if method.whole_stops else stops


def simulate(tau: np.ndarray, n: int, draws: int, cases: list[tuple]) -> tuple:
    """Return the mean bias and variance of every case, and the standard error of their sum."""
    found = [
        [design.risks(one, stops_of(one, tau.mean()), *kind) for one, *kind in cases]
        for design in (Design(tau, n, seed) for seed in range(draws))
    ]
    # of one draw the spread is not known, and is zero here
    spread = np.sum(found, axis=2).std(axis=0, ddof=min(draws - 1, 1))
    return np.mean(found, axis=0), spread / np.sqrt(draws)


def compare(
    covariance: str, ratio: float, n: int, draws: int, prefix: str = "", *, halve: bool = False
) -> list[dict[str, Any]]:
    """Return the largest differences of each method, over stops, signals and targets."""
    p = round(ratio * n)
    tau = COVARIANCES[covariance](p)
    pair = binned(tau)
    known = {"aspect": p / n, "noise": NOISE, "covariance": pair}
    tuned = [one for one in methods(pair, p / n) if str(one).startswith(prefix)]
    cases = list(product(tuned, SIGNALS, ("estimation", "prediction")))
    means, errors = simulate(tau, n, draws, cases)
    half = simulate(np.sort(tau)[::2], n // 2, draws, cases) if halve else (means, errors)
    rows: dict[str, Any] = {}
    for (method, signal, target), (bias, variance), error, (before, its_error) in zip(
        cases, means, errors, zip(*half, strict=True), strict=True
    ):
        r2 = SIGNALS[signal](pair[0], tau.mean())
        stops = stops_of(method, tau.mean())
        limit = st.limiting_risk(method, stops, signal=r2, target=target, **known)
        total = bias + variance
        # relative to the risk: the bias alone may be zero up to rounding
        found = {
            "bias": (limit.bias - bias) / total,
            "variance": (limit.variance - variance) / total,
            "total": limit.total / total - 1,
            "standard_error": error / total,
            "quadrature": limit.quadrature_error / total,
        }
        found["beyond"] = missed(found["total"], found["standard_error"])
        if halve:
            found["extrapolated"] = limit.total / (2 * total - before.sum(axis=0)) - 1
            found["extrapolated_error"] = np.hypot(2 * error, its_error) / total
            both = found["extrapolated"], found["extrapolated_error"]
            found["extrapolated_beyond"] = missed(*both)
        row = rows.setdefault(str(method), {"covariance": covariance, "ratio": ratio, "n": n})
        row |= {"draws": draws, "method": str(method)}
        for part, values in found.items():
            row[part] = max(row.get(part, 0.0), float(np.max(np.abs(values))))
    return list(rows.values())


def missed(difference: np.ndarray, standard_error: np.ndarray) -> np.ndarray:
    """Return differences above one percent and three standard errors, and zero for the others."""
    return np.where(np.abs(difference) > np.maximum(0.01, 3 * standard_error), difference, 0.0)


def measured(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare the cases that are asked for, and return them with the others of the file."""
    names = [given.covariance] if given.covariance else list(COVARIANCES)
    ratios = [given.ratio] if given.ratio else RATIOS
    rows = {(one["covariance"], one["ratio"], one["method"]): one for one in load(FILE)}
    for covariance, ratio in product(names, ratios):
        found = compare(covariance, ratio, given.rows, given.draws, given.method, halve=given.halve)
        rows |= {(covariance, ratio, one["method"]): one for one in found}
        worst = max(found, key=lambda one: one["total"])
        print(f"{covariance}, p/n = {ratio:g}: {worst['total']:.2e}, {worst['method']}", flush=True)
    return list(rows.values())


def parts() -> dict[str, str]:
    """Return the largest differences of the risk in percent, in brackets those of heavy balls."""
    rows = load(FILE)

    def largest(part: str, ratio: float, heavy: bool, covariance: str | None = None) -> str:
        found = [
            one[part]
            for one in rows
            if part in one and one["ratio"] == ratio and covariance in {None, one["covariance"]}
            if one["method"].startswith("HeavyBall") == heavy
        ]
        return f"{100 * max(found):.2f}" if found else ""

    lines = []
    for name in COVARIANCES:
        both = [
            [largest("total", ratio, heavy, name) for heavy in (False, True)] for ratio in RATIOS
        ]
        lines.append([name, *(f"{others} ({heavy})" for others, heavy in both)])
    cells = [largest("extrapolated", ratio, True) for ratio in RATIOS]
    lines.append(["spiked, extrapolated", *(f"({one})" if one else "" for one in cells)])
    return {"limits": table(["p/n", *(f"{ratio:g}" for ratio in RATIOS)], lines)}


if __name__ == "__main__":
    options = {"covariance": "", "ratio": 0.0, "rows": 2000, "draws": 1, "method": ""}
    command(__doc__, FILE, measured, {PAGE: parts}, **options, halve=False)
