"""Speed of a full path, compared with the bare linear algebra and with iterations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import stoptime as st
from benchmarks.data import gaussian, label
from benchmarks.harness import Case, Work, measure

GROUP = "paths"
TITLE = "A full path"
ABOUT = (
    "The coefficients of Nesterov flow at 100 stops up to t·√L = 100 are computed from X and y, "
    "including centring. The bare limit cannot be avoided: the smaller of XᵀX and XXᵀ of the "
    "centred data and its eigenvectors, by the same BLAS and LAPACK. Nesterov's iteration with "
    "step 1/L in NumPy takes 100 steps to the last stop; `solve_ivp` integrates the differential "
    "equation to six digits."
)
SHAPES = [(2000, 200), (20000, 500), (500, 2000), (100000, 50)]
QUICK = [(2000, 200), (500, 2000)]
INTEGRATED = [(2000, 200), (500, 500)]
N_STOPS = 100
PHASE = 100.0  # the last stop times sqrt(L): the number of steps of Nesterov's iteration
BEYOND = {
    "wide": "With more columns than rows, the coefficients at all stops need a product with all "
    "of X and a centred copy of X; the bare limit has neither.",
    "tall": "Centring, the rotated response and the filters are extra work.",
}
SAME = 1e-3  # of the largest coefficient: the accuracy of the integration


def bare(Xc: np.ndarray) -> None:
    """Compute the smaller of XᵀX and XXᵀ and its eigenvectors, which every path needs."""
    np.linalg.eigh(Xc @ Xc.T if len(Xc) < Xc.shape[1] else Xc.T @ Xc)


def nesterov(Xc: np.ndarray, yc: np.ndarray, step: float, iterations: int) -> np.ndarray:
    """Run Nesterov's iteration, which gives the stops of one method."""
    b = theta = np.zeros(Xc.shape[1])
    for k in range(1, iterations + 1):
        b, old = theta + step / len(Xc) * (Xc.T @ (yc - Xc @ theta)), b
        theta = b + (k - 1) / (k + 2) * (b - old)
    return b


def integrate(Xc: np.ndarray, yc: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Solve the differential equation to six digits; return coefficients at all stops."""
    p = Xc.shape[1]

    def motion(t: float, state: np.ndarray) -> np.ndarray:
        b, velocity = state[:p], state[p:]
        return np.concatenate([velocity, Xc.T @ (yc - Xc @ b) / len(Xc) - 3 / t * velocity])

    begin = stops[0] / 100
    solved = solve_ivp(
        motion, (begin, stops[-1]), np.zeros(2 * p), t_eval=stops, rtol=1e-6, atol=1e-9
    )
    return solved.y[:p].T


def distance(ours: st.Path, theirs: np.ndarray) -> tuple[dict[str, Any], ...]:
    """Return the difference of two paths relative to the largest coefficient."""
    gap = np.abs(ours.coef - theirs).max() / np.abs(theirs).max()
    return (measure("largest difference", float(gap), SAME, "at most"),)


def problem(
    shape: tuple[int, int],
) -> tuple[Callable[[], st.Path], np.ndarray, np.ndarray, float, np.ndarray]:
    """Return our work, centred data, the largest eigenvalue and the stops."""
    X, y = gaussian(*shape)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    largest = float(np.linalg.norm(Xc, 2) ** 2 / len(Xc))
    stops = np.geomspace(0.1, PHASE, N_STOPS) / np.sqrt(largest)
    return lambda: st.path(X, y, "nesterov-flow", stops), Xc, yc, largest, stops


def against_bare(shape: tuple[int, int]) -> Work:
    """Compare with the product and eigh."""
    ours, Xc, *_ = problem(shape)
    return Work(ours, lambda: bare(Xc))


def against_nesterov(shape: tuple[int, int]) -> Work:
    """Compare with the iteration to the same time."""
    ours, Xc, yc, largest, _ = problem(shape)
    return Work(ours, lambda: nesterov(Xc, yc, 1 / largest, int(PHASE)))


def against_integration(shape: tuple[int, int]) -> Work:
    """Compare with a solver of differential equations, in time and in answers."""
    ours, Xc, yc, _, stops = problem(shape)
    return Work(ours, lambda: integrate(Xc, yc, stops), measures=distance)


def limit(shape: tuple[int, int], rounds: int) -> Case:
    """Return a comparison with the bare algebra."""
    peer, why = "bare product and eigh", BEYOND["wide" if shape[0] < shape[1] else "tall"]
    work = partial(against_bare, shape)
    return Case(GROUP, label(*shape), peer, work, why, goal=1.5, sense="at most", rounds=rounds)


def loop(shape: tuple[int, int], rounds: int) -> Case:
    """Return a comparison with the iteration."""
    why = (
        "Probably a hundred products with one vector cost less here than XXᵀ and its "
        "eigenvectors. These products give one path of one method; the factorisation serves every "
        "method, every stop and leave-one-out."
    )
    work = partial(against_nesterov, shape)
    return Case(GROUP, label(*shape), "Nesterov's iteration in NumPy", work, why, rounds=rounds)


def motion(shape: tuple[int, int]) -> Case:
    """Return a comparison with a solver of differential equations."""
    work = partial(against_integration, shape)
    why = "Probably few steps of the solver suffice at these times."
    return Case(GROUP, label(*shape), "scipy.integrate.solve_ivp", work, why, rounds=3)


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    shapes, rounds = (QUICK, 7) if quick else (SHAPES, 25)
    limits = [limit(shape, rounds) for shape in shapes]
    loops = [loop(shape, rounds) for shape in shapes]
    return [*limits, *loops, *map(motion, INTEGRATED[:1] if quick else INTEGRATED)]
