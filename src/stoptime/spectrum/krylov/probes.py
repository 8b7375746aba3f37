"""Stochastic Lanczos quadrature: the density of all eigenvalues from a few random probes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stoptime.methods.base import Method
from stoptime.spectrum.base import Density
from stoptime.spectrum.krylov.golub_kahan import GolubKahan
from stoptime.spectrum.krylov.operator import MatrixFreeData
from stoptime.support.arrays import Array

__all__ = ["density"]

SETTLED = 1e-5  # relative change of a probe's trace with two more steps that ends its growth
FEWEST_STEPS = 4
EARLIER = np.array(
    [1.0, 0.3, 0.1, 0.03]
)  # of a goal: at late stops all is learned, and nothing to be seen
MOST_STEPS = 200  # where no finite stop says how many are enough


def density(
    data: MatrixFreeData, goals: Iterable[tuple[Method, float]], probes: int, seed: int, most: int
) -> Density:
    r"""Probe the eigenvalues of AᵀA with random signs, in the shorter dimension.

    .. math:: \mathrm{tr}\,f(A^TA) \approx \frac{\min(n, p)}{m}\sum_{k=1}^m \sum_j q_{1j}^2 f(\theta_j)

    Parameters
    ----------
    data : MatrixFreeData
        Where A is from.
    goals : iterable of (method, stop)
        Tuned; every probe is followed until the degrees of freedom there, and earlier, have settled.
    probes, seed : int
        Number m of probes, and the seed of their signs.
    most : int
        Steps of one probe, at most.

    Examples
    --------
    >>> from scipy import sparse
    >>> from stoptime.methods import GradientFlow
    >>> X = sparse.random(200, 30, density=0.2, random_state=0, format="csr")
    >>> data = MatrixFreeData.validated(X, X @ np.ones(30), None, False)
    >>> found = density(data, [(GradientFlow(), 100.0)], probes=20, seed=0, most=30)
    >>> freedom, error = found.trace(1 - np.exp(-100.0 * found.nodes))
    >>> exact = np.sum(1 - np.exp(-100.0 * np.linalg.eigvalsh((X.T @ X).toarray() / 200)))
    >>> bool(abs(freedom - exact) < 3 * error)
    True
    """
    A, p, before = data.operator, data.X.shape[1], data.operator.products
    present = A.root > 0
    size = int(np.count_nonzero(present)) - data.fit_intercept
    wide = size < p
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, len(present) if wide else p))
    if wide:
        signs = signs * present
        if (
            data.fit_intercept
        ):  # the direction that centring takes away has no eigenvalue to be seen
            signs -= np.multiply.outer(signs @ A.root, A.root)
    matrix, size = (A.T, size) if wide else (A, p)
    finite = [(m, t) for m, t in goals if np.isfinite(t) and m.has_filter]
    most = min(most, max(size, 1), most if finite else MOST_STEPS)
    parts = [_followed(GolubKahan(matrix, sign, data.rounding), finite, most) for sign in signs]
    nodes = np.concatenate([values for values, _ in parts])
    weights = np.concatenate([weights for _, weights in parts]) * size / probes
    probe = np.repeat(np.arange(probes), [len(values) for values, _ in parts])
    seen = np.flatnonzero(nodes > data.rounding**2 * nodes.max(initial=0))
    order = seen[np.argsort(nodes[seen], kind="stable")]
    return Density(nodes[order], weights[order], probe[order], data.operator.products - before)


def _followed(run: GolubKahan, goals: list[tuple[Method, float]], most: int) -> tuple[Array, Array]:
    """Grow one probe until its traces have settled; return its nodes and weights."""
    values, weights = np.empty(0), np.empty(0)
    traces = np.full((len(goals), len(EARLIER)), np.inf)
    while not run.exhausted and run.size < most:
        run.step()
        if not run.exhausted:
            run.step()
        ritz = run.ritz(accurate=False)
        values, weights = ritz.values, ritz.first**2
        found = np.array([_freedom(method, stop, values, weights) for method, stop in goals])
        found = found.reshape(traces.shape)
        settled = np.abs(found - traces) <= SETTLED * np.abs(found)
        if goals and settled.all() and run.size >= FEWEST_STEPS:
            break
        traces = found
    return values, weights


def _freedom(method: Method, stop: float, values: Array, weights: Array) -> Array:
    stops = np.ceil(stop * EARLIER) if method.whole_stops else stop * EARLIER
    return np.asarray((weights * values) @ method.gain(values[:, None], stops))
