"""The slow way: coefficients to sixty digits from exact data, and what rounding may do.

Nothing here is shared with the library. Data are arrays of mpmath numbers; the formulas are those
of tests/reference, on the eigenvalues of the exact covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import mpmath as mp
import numpy as np

import stoptime as st
from reference import make_filters as flows
from reference import make_iterations as iterations

DIGITS = 60
MOST_ITERATIONS = 1000
LONGEST_PHASE = 1e6
# around the rank cut: a singular value within this factor of it may be kept or dropped
UNDECIDED = 1e4

exactly = np.vectorize(lambda value: mp.mpf(float(value)), otypes=[object])
root = np.vectorize(mp.sqrt, otypes=[object])


def norm(vector):
    return mp.sqrt(mp.fsum(v * v for v in vector))


@dataclass(frozen=True)
class Exact:
    """Centred data, one row of ``targets`` for each, and the eigenvalues of their covariance."""

    rows: np.ndarray  # scaled by the roots of the shares, like the targets
    targets: np.ndarray
    feature_mean: np.ndarray
    target_mean: np.ndarray
    eigenvalues: np.ndarray
    vectors: np.ndarray

    @property
    def largest(self):
        return max(self.eigenvalues)

    @property
    def responses(self):
        return self.targets @ self.rows @ self.vectors


def exact_data(X, y, sample_weight, fit_intercept) -> Exact:
    """Centre and diagonalise; y is of shape (n, q)."""
    shares = exactly(np.ones(len(X)) if sample_weight is None else sample_weight)
    shares = shares / mp.fsum(shares)
    X, targets = exactly(X), exactly(y.T)
    centre = shares if fit_intercept else 0 * shares
    mean, target_mean = centre @ X, targets @ centre
    rows = root(shares)[:, None] * (X - mean)
    targets = root(shares) * (targets - target_mean[:, None])
    values, vectors = mp.eigsy(mp.matrix((rows.T @ rows).tolist()))
    noise = max(*values, mp.mpf(0)) * mp.mpf(10) ** (-DIGITS + 8)
    values = np.array([value if value > noise else mp.mpf(0) for value in values])
    vectors = np.array(vectors.tolist(), dtype=object)
    return Exact(rows, targets, mean, target_mean, values, vectors)


# ---------------------------------------------------------------- filters

FLOWS = {
    "ridge": (flows.ridge, None),
    "gradient-flow": (flows.gradient_flow, None),
    "accelerated-flow": (flows.accelerated_flow, "friction"),
    "heavy-ball-flow": (flows.heavy_ball_flow, "damping"),
    "critical-flow": (flows.critical_flow, None),
    "iterated-ridge": (flows.iterated_ridge, "times"),
    "butterworth": (flows.butterworth, "order"),
}
STEPPED = {
    "gradient-descent": (iterations.gradient_descent, ("step",)),
    "nesterov": (iterations.nesterov, ("step", "friction", "momentum")),
    "heavy-ball": (iterations.heavy_ball, ("step", "momentum")),
    "nu-method": (iterations.nu_method, ("step", "nu")),
    "high-resolution-flow": (iterations.high_resolution_flow, ("step", "strong_convexity")),
}


def gain(method: st.Method, s, t):
    """Return (1 - g)/s, at s = 0 by its limit."""
    if t == 0:
        return mp.mpf(0)
    if mp.isinf(t):
        return 1 / s if s > 0 else mp.mpf(0)
    # next to zero the gain is its limit to all digits
    s = s if s > 0 else mp.mpf(10) ** (-2 * DIGITS) / max(t, t**2, 1)
    if method.name in STEPPED:
        formula, names = STEPPED[method.name]
        values = {name: getattr(method, name) for name in names}
        given = {name: one if one is None else mp.mpf(one) for name, one in values.items()}
        lost = guard(given["step"] * s, t * mp.sqrt(s))
        with mp.workdps(DIGITS + lost):
            return formula(s, t, **given)[1]
    formula, name = FLOWS[method.name]
    # a steep edge cancels to so high a power
    power = method.order if isinstance(method, st.Butterworth) else 1
    with mp.workdps(DIGITS + guard(t * mp.sqrt(s), (t * s) ** power)):
        return (1 - formula(mp.mpf(getattr(method, name)) if name else None, s, t)) / s


def guard(*sizes) -> int:
    """Return the digits that cancel between numbers of these sizes."""
    digits = min(2000, int(2.5 * max(abs(mp.log10(size)) for size in sizes)))
    return -64 * (-digits // 64)  # few precisions: mpmath keeps its constants for each


def too_long(method, stop: float, largest) -> bool:
    """Tell whether there are more iterations, or more swings, than are followed here."""
    smooth = isinstance(method, st.Filter) and not method.oscillates
    if smooth or isinstance(method, st.GradientDescent) or np.isinf(stop):
        return False
    if isinstance(method, st.Iteration):
        return stop > MOST_ITERATIONS
    return method.time_power == 2 and mp.mpf(stop) * mp.sqrt(largest) > LONGEST_PHASE


def gains_of(data: Exact, method, t, cut):
    """Return the gain of every eigendirection; at t = ∞ those below the rank cut have none."""
    least = mp.mpf(cut) ** 2 * data.largest if mp.isinf(t) else mp.mpf(0)
    kept = [s if s > least else mp.mpf(0) for s in data.eigenvalues]
    return np.array([gain(method, s, t) for s in kept])


def coefficients(data: Exact, method: st.Method, stop: float, cut: float) -> np.ndarray:
    """Return exact coefficients, of shape (q, p)."""
    t = mp.inf if np.isinf(stop) else mp.mpf(stop)
    if isinstance(method, st.ConjugateGradient) and not mp.isinf(t):
        return np.array([conjugate(data.rows, column, int(stop)) for column in data.targets])
    return (gains_of(data, method, t, cut) * data.responses) @ data.vectors.T


def conjugate(rows, column, last: int):
    """Run conjugate gradients, as Hestenes and Stiefel do, with residuals kept orthogonal."""
    residual = rows.T @ column
    direction = residual
    value = 0 * residual
    first = power = residual @ residual
    basis = []
    for _ in range(last):
        if power <= first * mp.mpf(10) ** (-2 * DIGITS + 30) or first == 0:
            break
        basis.append(residual / mp.sqrt(power))
        image = rows @ direction
        rate = power / (image @ image)
        value = value + rate * direction
        residual = residual - rate * (rows.T @ image)
        for unit in basis:  # else every iteration loses as many digits as the condition number has
            residual = residual - (unit @ residual) * unit
        before, power = power, residual @ residual
        direction = residual + (power / before) * direction
    return value


# ---------------------------------------------------------------- what rounding may do


def undecided(data: Exact, cut: float, noise: float) -> bool:
    """Tell whether a singular value is so near the rank cut that both answers are right."""
    ratios = [mp.sqrt(s / data.largest) for s in data.eigenvalues if s > 0]
    return any(cut / UNDECIDED < ratio < max(cut, noise) * UNDECIDED for ratio in ratios)


def exhausted(data: Exact, stop: float, noise: float) -> bool:
    """Tell conjugate gradients that have more iterations than directions are surely there."""
    return stop > sum(mp.sqrt(s / data.largest) > noise * UNDECIDED for s in data.eigenvalues)


def rounding_error(data: Exact, method, stop: float, eps: float, cut: float, target: int):
    r"""Return a first-order bound of the error of the coefficients of a target.

    For data moved by :math:`\eta\|X\|`, in the eigenbasis

    .. math:: |\Delta\beta_i| \le \eta\sum_j |\varphi[s_i, s_j]|\sqrt L(\sqrt{s_i}+\sqrt{s_j})|z_j|
        + \eta|\varphi_i|\sqrt L\|y\|
    """
    t = mp.inf if np.isinf(stop) else mp.mpf(stop)
    values, gains = data.eigenvalues, gains_of(data, method, t, cut)
    top, z = mp.sqrt(data.largest), data.responses[target]
    slope = partial(slope_of, method, t=t, least=cut**2 * data.largest)
    size = norm(data.targets[target]) + abs(data.target_mean[target])
    moves = []
    for s, phi in zip(values, gains, strict=True):
        moved = abs(phi) * top * size
        for other, its, response in zip(values, gains, z, strict=True):
            apart = abs(s - other) > mp.mpf(10) ** -6 * max(s, other)
            quotient = abs((phi - its) / (s - other)) if apart else slope(s, phi)
            moved += quotient * top * (mp.sqrt(s) + mp.sqrt(other)) * abs(response)
        moves.append(moved)
    return eps * norm(moves)


def slope_of(method, s, phi, *, t, least):
    """Return |φ'(s)|, by a difference."""
    if s <= least or s == 0:
        return mp.mpf(0) if mp.isinf(t) else abs(phi) ** 2
    if mp.isinf(t):
        return 1 / s**2
    moved = s * (1 + mp.mpf(10) ** -12)
    return abs((gain(method, moved, t) - phi) / (moved - s))
