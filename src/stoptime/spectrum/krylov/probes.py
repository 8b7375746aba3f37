"""Stochastic Lanczos quadrature: the density of all eigenvalues from a few random probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stoptime.spectrum.base import Density
from stoptime.spectrum.krylov.golub_kahan import GolubKahan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoptime.methods.base import Method
    from stoptime.spectrum.krylov.golub_kahan import Ritz
    from stoptime.spectrum.krylov.operator import MatrixFreeData

__all__ = ["density"]

TRACE_CHANGE = 1e-5  # relative change of a trace over two steps at which a probe has converged
FEWEST_PROBE_STEPS = 4
MOST_PROBE_STEPS = 200  # where there is no finite stop to converge at
STOP_FRACTIONS = np.array([1.0, 0.3, 0.1, 0.03])  # of a goal, where traces are compared


def density(
    data: MatrixFreeData, goals: Iterable[tuple[Method, float]], probes: int, seed: int, most: int
) -> Density:
    r"""Estimate the density of the eigenvalues of AᵀA from m random sign vectors.

    .. math:: \mathrm{tr}\,f(A^TA) \approx \frac{\min(n, p)}m\sum_{k=1}^m\sum_j q_{1j}^2 f(\theta_j)

    A probe ends when its degrees of freedom at the goals, which are tuned methods and their stops,
    have converged, or after ``most`` steps.
    """
    A = data.operator
    before = A.products
    present = A.root > 0
    size = int(np.count_nonzero(present)) - data.fit_intercept
    # AAᵀ has the same positive eigenvalues as AᵀA; the smaller of the two has fewer zeros, which
    # only add variance to the estimate
    matrix = A.T if size < data.n_features else A
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, matrix.shape[1]))
    if size < data.n_features:
        signs = signs * present
        if data.fit_intercept:
            # centring makes this direction a null direction, which the estimate must not contain
            signs -= np.multiply.outer(signs @ A.root, A.root)
    size = min(size, data.n_features)
    finite = [(m, t) for m, t in goals if np.isfinite(t) and m.has_filter]
    most = min(most, max(size, 1), most if finite else MOST_PROBE_STEPS)
    parts = [_grown(GolubKahan(matrix, sign, data.rounding), finite, most) for sign in signs]
    nodes = np.concatenate([part.values for part in parts])
    weights = np.concatenate([part.first**2 for part in parts]) * size / probes
    probe = np.repeat(np.arange(probes), [len(part.values) for part in parts])
    # nodes below the rank cut stand for zero eigenvalues, which add nothing to a trace
    seen = np.flatnonzero(nodes > data.rounding**2 * nodes.max(initial=0))
    order = seen[np.argsort(nodes[seen], kind="stable")]
    return Density(nodes[order], weights[order], probe[order], A.products - before)


def _grown(run: GolubKahan, goals: list[tuple[Method, float]], most: int) -> Ritz:
    """Grow one probe until its traces have converged; return its Ritz values, the nodes."""
    ritz = run.ritz(accurate=False)
    traces = np.full((len(goals), len(STOP_FRACTIONS)), np.inf)
    while not run.exhausted and run.size < most:
        run.step()
        if not run.exhausted:
            run.step()
        ritz = run.ritz(accurate=False)
        found = np.empty_like(traces)
        for row, (method, stop) in enumerate(goals):
            # late degrees of freedom hardly change, so that earlier ones have to converge as well
            stops = np.ceil(stop * STOP_FRACTIONS) if method.whole_stops else stop * STOP_FRACTIONS
            gains = method.gain(ritz.values[:, None], stops)
            found[row] = (ritz.first**2 * ritz.values) @ gains
        settled = np.abs(found - traces) <= TRACE_CHANGE * np.abs(found)
        if goals and settled.all() and run.size >= FEWEST_PROBE_STEPS:
            break
        traces = found
    return ritz
