"""The density of all eigenvalues from Krylov spaces of random vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stoptime.methods.base import Filter, Method
from stoptime.spectrum.base import Density
from stoptime.spectrum.centred import CentredOperator
from stoptime.spectrum.golub_kahan import GolubKahan
from stoptime.spectrum.ritz import Space
from stoptime.support.arrays import EPS, Array

STOP_FRACTIONS = np.array([1.0, 0.3, 0.1, 0.03])  # of a goal, where traces are compared


def density(
    A: CentredOperator, goals: Iterable[tuple[Method, float]], probes: int, seed: int, most: int
) -> Density:
    r"""Estimate the density of the eigenvalues of AᵀA from m random sign vectors.

    .. math:: \mathrm{tr}\,f(A^TA) \approx \frac{\min(n, p)}m\sum_{k=1}^m\sum_j q_{1j}^2 f(\theta_j)

    This is stochastic Lanczos quadrature. A probe ends when its degrees of freedom at the goals,
    tuned methods and stops, have converged; ``most`` is the largest number of its vectors.
    """
    n, p = A.shape
    before = A.X.products
    present = A.root > 0
    size = int(np.count_nonzero(present)) - A.centre
    # AAᵀ has the same positive eigenvalues as AᵀA; the smaller of the two has fewer zeros, which
    # only add variance to the estimate
    matrix = A.T if size < p else A
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, matrix.shape[1]))
    if size < p:
        signs = signs * present
        if A.centre:
            # centring makes this direction a null direction, which the estimate must not contain
            signs -= np.multiply.outer(signs @ A.root, A.root)
    size = min(size, p)
    finite = [(m, t) for m, t in goals if np.isfinite(t) and isinstance(m, Filter)]
    # where there is no finite stop to converge at, 200 vectors have to do
    most = min(most, max(size, 1), most if finite else 200)
    rounding = EPS * max(n, p)
    parts = [_grown(GolubKahan(matrix, sign, rounding), finite, most) for sign in signs]
    nodes = np.concatenate([part.values for part in parts])
    weights = np.concatenate([_weights(part) for part in parts]) * size / probes
    probe = np.repeat(np.arange(probes), [len(part.values) for part in parts])
    # nodes below the rank cut stand for zero eigenvalues, which add nothing to a trace
    seen = np.flatnonzero(nodes > rounding**2 * nodes.max(initial=0))
    order = seen[np.argsort(nodes[seen], kind="stable")]
    return Density(nodes[order], weights[order], probe[order], A.X.products - before)


def _weights(space: Space) -> Array:
    return np.asarray(space.rotation[0] ** 2 if len(space.values) else space.values)


def _grown(run: GolubKahan, goals: list[tuple[Filter, float]], most: int) -> Space:
    """Grow one probe until its traces have converged; return its Ritz values, the nodes."""
    space = run.space(accurate=False)
    traces: Any = np.full((len(goals), len(STOP_FRACTIONS)), np.inf)
    while not run.exhausted and run.size < most:
        run.step()
        if not run.exhausted:
            run.step()
        space = run.space(accurate=False)
        found = np.empty_like(traces)
        for row, (method, stop) in enumerate(goals):
            # late degrees of freedom hardly change, so that earlier ones have to converge as well
            stops = np.ceil(stop * STOP_FRACTIONS) if method.whole_stops else stop * STOP_FRACTIONS
            found[row] = (_weights(space) * space.values) @ method.gain(
                space.values[:, None], stops
            )
        settled = np.abs(found - traces) <= 1e-5 * np.abs(found)
        if goals and settled.all() and run.size >= 4:
            break
        traces = found
    return space
