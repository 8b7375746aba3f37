"""The slow way: coefficients to sixty digits from exact data, and what rounding may do.

Nothing here is shared with the library. Flows are evaluated from their closed forms on the
eigenvalues of the
exact covariance; iterations and conjugate gradients are run on the raw data.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np

import stoptime as st
from reference import make_filters as formulas
from reference.make_iterations import high_resolution_flow

DIGITS = 60
ON_RAW_DATA = 30  # iterations; later ones are run in the eigenbasis
MOST_ITERATIONS = 1000
LONGEST_PHASE = 1e6
UNDECIDED = (
    1e4  # around the rank cut: a singular value within this factor of it may be kept or dropped
)


@dataclass(frozen=True)
class Exact:
    """Centred data, and the eigenvalues of their covariance; all in mpmath."""

    rows: mp.matrix  # scaled by the roots of the shares
    targets: list
    feature_mean: list
    target_mean: list
    eigenvalues: list
    vectors: mp.matrix
    responses: list

    @property
    def largest(self):
        return max(self.eigenvalues)


def exact_data(X, y, sample_weight, fit_intercept) -> Exact:
    """Centre and diagonalise; y is of shape (n, q)."""
    n, p = X.shape
    weights = [mp.mpf(float(w)) for w in (np.ones(n) if sample_weight is None else sample_weight)]
    total = mp.fsum(weights)
    shares = [w / total for w in weights]
    x = [[mp.mpf(float(v)) for v in row] for row in X]
    columns = [[mp.mpf(float(v)) for v in column] for column in y.T]
    mean, target_mean = [mp.mpf(0)] * p, [mp.mpf(0)] * len(columns)
    if fit_intercept:
        mean = [mp.fsum(shares[i] * x[i][j] for i in range(n)) for j in range(p)]
        target_mean = [
            mp.fsum(w * v for w, v in zip(shares, column, strict=True)) for column in columns
        ]
    rows = mp.matrix(n, p)
    for i in range(n):
        for j in range(p):
            rows[i, j] = mp.sqrt(shares[i]) * (x[i][j] - mean[j])
    targets = [
        [mp.sqrt(w) * (v - m) for w, v in zip(shares, column, strict=True)]
        for column, m in zip(columns, target_mean, strict=True)
    ]
    gram = rows.T * rows
    eigenvalues, vectors = mp.eigsy(gram)
    values = [max(value, mp.mpf(0)) for value in eigenvalues]
    noise = max(values) * mp.mpf(10) ** (-DIGITS + 8)
    values = [value if value > noise else mp.mpf(0) for value in values]
    image = rows * vectors
    responses = [[mp.fsum(image[i, k] * t[i] for i in range(n)) for k in range(p)] for t in targets]
    return Exact(rows, targets, mean, target_mean, values, vectors, responses)


# ---------------------------------------------------------------- filters


FORMULAS = {
    "ridge": (formulas.ridge, None),
    "gradient-flow": (formulas.gradient_flow, None),
    "accelerated-flow": (formulas.accelerated_flow, "friction"),
    "heavy-ball-flow": (formulas.heavy_ball_flow, "damping"),
    "critical-flow": (formulas.critical_flow, None),
    "iterated-ridge": (formulas.iterated_ridge, "times"),
    "butterworth": (formulas.butterworth, "order"),
}


def shrinkage(method: st.Method, s, t):
    """Return g(s, t) from the formula of a flow."""
    if isinstance(method, st.HighResolutionFlow):
        step, mu = mp.mpf(method.step), mp.mpf(method.strong_convexity)
        return high_resolution_flow(s, t, step=step, strong_convexity=mu)[0]
    formula, name = FORMULAS[method.name]
    return formula(mp.mpf(getattr(method, name)) if name else None, s, t)


def gain(method: st.Method, s, t):
    """Return (1 - g)/s, at s = 0 by its limit."""
    if t == 0:
        return mp.mpf(0)
    if mp.isinf(t):
        return 1 / s if s > 0 else mp.mpf(0)
    if isinstance(method, st.Iteration) and not isinstance(method, st.GradientDescent):
        return _iterate(method, lambda v: s * v, mp.mpf(1), int(t))
    # next to zero the gain is its limit to all digits
    s = s if s > 0 else mp.mpf(10) ** (-2 * DIGITS) / max(t, t**2, 1)
    if isinstance(method, st.GradientDescent):
        step = mp.mpf(method.step)
        with mp.workdps(DIGITS + _guard(step * s)):
            return (1 - (1 - step * s) ** int(t)) / s
    # a steep edge cancels to so high a power
    power = method.order if isinstance(method, st.Butterworth) else 1
    with mp.workdps(DIGITS + _guard(t * mp.sqrt(s), (t * s) ** power)):
        return (1 - shrinkage(method, s, t)) / s


def _guard(*sizes) -> int:
    """Return the digits that cancel between numbers of these sizes."""
    digits = min(2000, int(2.5 * max(abs(mp.log10(size)) for size in sizes)))
    return -64 * (-digits // 64)  # few precisions: mpmath keeps its constants for each


def _schedule(method: st.Iteration, k: int):
    """Return momentum, lookahead and weight of iteration k, from the papers."""
    zero, one = mp.mpf(0), mp.mpf(1)
    if isinstance(method, st.GradientDescent):
        return zero, zero, one
    if isinstance(method, st.HeavyBall):
        return mp.mpf(method.momentum), zero, one
    if isinstance(method, st.Nesterov):
        eta = mp.mpf(method.momentum) if method.momentum is not None else zero
        if method.momentum is None and k > 1:
            eta = mp.mpf(k - 2) / (k - 2 + mp.mpf(method.friction))
        return eta, eta, one
    nu = mp.mpf(method.nu)
    if k == 1:
        return zero, zero, (4 * nu + 2) / (4 * nu + 1)
    momentum = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1)
    momentum /= (k + 2 * nu - 1) * (2 * k + 4 * nu - 1) * (2 * k + 2 * nu - 3)
    return (
        momentum,
        zero,
        4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1)),
    )


def _iterate(method, multiply, source, last):
    """Run an iteration for ``last`` steps towards the solution of multiply(v) = source."""
    value, move, step = source * 0, source * 0, mp.mpf(method.step)
    for k in range(1, last + 1):
        momentum, lookahead, weight = _schedule(method, k)
        ahead = value + lookahead * move
        move = momentum * move + weight * step * (source - multiply(ahead))
        value = value + move
    return value


# ---------------------------------------------------------------- coefficients


def coefficients(data: Exact, method: st.Method, stop: float, cut: float) -> list[mp.matrix]:
    """Return exact coefficients; at t = ∞ directions below the rank cut are null."""
    t = mp.inf if np.isinf(stop) else mp.mpf(stop)
    if isinstance(method, st.ConjugateGradient) and not mp.isinf(t):
        return [_conjugate(data, column, int(stop)) for column in data.targets]
    if isinstance(method, st.Iteration) and stop <= ON_RAW_DATA:
        gram = data.rows.T * data.rows
        sources = [data.rows.T * mp.matrix(column) for column in data.targets]
        return [_iterate(method, lambda v: gram * v, source, int(stop)) for source in sources]
    gains = gains_of(data, method, t, cut)
    parts = [[g * z for g, z in zip(gains, zs, strict=True)] for zs in data.responses]
    return [data.vectors * mp.matrix(part) for part in parts]


def too_long(method, stop: float, largest) -> bool:
    """Tell whether there are more iterations, or more swings, than are followed here."""
    smooth = isinstance(method, st.Filter) and not method.oscillates
    if smooth or isinstance(method, st.GradientDescent) or np.isinf(stop):
        return False
    if isinstance(method, st.Iteration):
        return stop > MOST_ITERATIONS
    return method.time_power == 2 and mp.mpf(stop) * mp.sqrt(largest) > LONGEST_PHASE


def gains_of(data: Exact, method, t, cut):
    """Return the gain of every eigendirection."""
    values = data.eigenvalues
    if mp.isinf(t):
        least = mp.mpf(cut) ** 2 * data.largest
        values = [s if s > least else mp.mpf(0) for s in values]
        return [1 / s if s > 0 else mp.mpf(0) for s in values]
    return [gain(method, s, t) for s in values]


def _conjugate(data: Exact, column, last: int) -> mp.matrix:
    source = data.rows.T * mp.matrix(column)
    value, residual = source * 0, source.copy()
    direction, power = residual.copy(), _square(residual)
    first, basis = power, []
    for _ in range(last):
        if power <= first * mp.mpf(10) ** (-2 * DIGITS + 30) or first == 0:
            break
        basis.append(residual / mp.sqrt(power))
        image = data.rows * direction
        rate = power / _square(image)
        value = value + rate * direction
        residual = residual - rate * (data.rows.T * image)
        for unit in basis:  # else every iteration loses as many digits as the condition number has
            residual = residual - mp.fdot(unit, residual) * unit
        power, before = _square(residual), power
        direction = residual + (power / before) * direction
    return value


def _square(vector):
    return mp.fsum(v * v for v in vector)


# ---------------------------------------------------------------- what rounding may do


def undecided(data: Exact, cut: float, noise: float) -> bool:
    """Tell whether a singular value is so near the rank cut that both answers are right."""
    ratios = [mp.sqrt(s / data.largest) for s in data.eigenvalues if s > 0]
    return any(cut / UNDECIDED < ratio < max(cut, noise) * UNDECIDED for ratio in ratios)


def exhausted(data: Exact, stop: float, noise: float) -> bool:
    """Tell conjugate gradients that have more iterations than directions are surely there."""
    return stop > sum(mp.sqrt(s / data.largest) > noise * UNDECIDED for s in data.eigenvalues)


def rounding_error(data: Exact, method, stop: float, eps: float, cut: float) -> list:
    r"""Return a first-order bound of the error of the coefficients of every target.

    For data moved by :math:`\eta\|X\|`, in the eigenbasis

    .. math:: |\Delta\beta_i| \le \eta\sum_j |\varphi[s_i, s_j]|\sqrt L(\sqrt{s_i}+\sqrt{s_j})|z_j|
        + \eta|\varphi_i|\sqrt L\|y\|
    """
    t = mp.inf if np.isinf(stop) else mp.mpf(stop)
    values, gains = data.eigenvalues, gains_of(data, method, t, cut)
    top = mp.sqrt(data.largest)
    slopes = [
        _slope(method, s, t, g, cut**2 * data.largest) for s, g in zip(values, gains, strict=True)
    ]
    bounds = []
    for z, column, mean in zip(data.responses, data.targets, data.target_mean, strict=True):
        size = mp.sqrt(mp.fsum(v * v for v in column)) + abs(mean)
        total = mp.mpf(0)
        for i, s in enumerate(values):
            moved = abs(gains[i]) * top * size
            for j, other in enumerate(values):
                apart = abs(s - other) > mp.mpf(10) ** -6 * max(s, other)
                quotient = abs((gains[i] - gains[j]) / (s - other)) if apart else slopes[i]
                moved += quotient * top * (mp.sqrt(s) + mp.sqrt(other)) * abs(z[j])
            total += moved**2
        bounds.append(eps * mp.sqrt(total))
    return bounds


def _slope(method, s, t, g, least):
    """Return |φ'(s)|, by a difference."""
    if s <= least or s == 0:
        return mp.mpf(0) if mp.isinf(t) else abs(g) ** 2
    if mp.isinf(t):
        return 1 / s**2
    moved = s * (1 + mp.mpf(10) ** -12)
    return abs((gain(method, moved, t) - g) / (moved - s))


# ---------------------------------------------------------------- kernels


def kernel_fit(kernel, y, weight, model):
    """Return the exact fit at the training rows, flattened, and what rounding may do beside |y|.

    None where an eigenvalue is too near to rounding for either answer to be wrong.
    """
    n, shares = len(kernel), _shares(weight)
    if min(shares) <= 0:
        return None
    root = mp.diag([mp.sqrt(w) for w in shares])
    values, U = mp.eigsy(_centred_gram(kernel, shares, root, model.fit_intercept))
    largest, entry = max(abs(v) for v in values), mp.mpf(float(np.abs(kernel).max()))
    noise = mp.mpf("2e-16") * n * max(largest, entry * max(shares))
    t = mp.inf if np.isinf(model.stop_) else mp.mpf(float(model.stop_))
    near = any(noise / 1000 < abs(v) < noise * mp.mpf("1e6") for v in values)
    if near or largest <= noise * 1000 or too_long(model.method_, model.stop_, largest):
        return None
    learned = [s * gain(model.method_, s, t) if s > noise else mp.mpf(0) for s in values]
    fits = []
    for column in y.T:
        target = mp.matrix([float(v) for v in column])
        mean = (
            mp.fsum(w * v for w, v in zip(shares, target, strict=True))
            if model.fit_intercept
            else 0
        )
        inner = U.T * (root * (target - mean * mp.ones(n, 1)))
        fit = U * mp.matrix([h * v for h, v in zip(learned, inner, strict=True)])
        fits.append([value / mp.sqrt(w) + mean for value, w in zip(fit, shares, strict=True)])
    right = [fit[i] for i in range(n) for fit in fits]
    steepest = max(
        _learning_slope(model.method_, s, t, h)
        for s, h in zip(values, learned, strict=True)
        if s > noise
    )
    return right, 1000 / mp.sqrt(min(shares)) * steepest * noise * n


def _shares(weight):
    total = mp.fsum(mp.mpf(float(w)) for w in weight)
    return [mp.mpf(float(w)) / total for w in weight]


def _centred_gram(kernel, shares, root, fit_intercept):
    K, C = mp.matrix(kernel.tolist()), mp.eye(len(kernel))
    if fit_intercept:
        for i in range(len(kernel)):
            for j in range(len(kernel)):
                C[i, j] -= shares[j]
    gram = root * C * K * C.T * root
    return (gram + gram.T) / 2


def _learning_slope(method, s, t, learned):
    """Return how steeply 1 - g rises at s, and at least on its way there."""
    moved = s * (1 + mp.mpf("1e-9"))
    return max(abs((moved * gain(method, moved, t) - learned) / (moved - s)), abs(learned / s))
