r"""A path as a mixture of ridges with complex penalties.

Ridge with penalty λ has the shrinkage λ/(λ + s). Every smooth shrinkage is a mixture of them,

.. math:: g(s, t) = \sum_k \omega_k(t)\,\frac{\lambda_k}{\lambda_k + s}
    \qquad\text{for all } 0 \le s \le L,

with complex λ that do not depend on t. Every quantity that is linear in the shrinkage, such as
the left-out residual, is the same mixture of its values for ridge, which have a closed form.

Ridge is its own mixture, and the pole of iterated ridge is replaced by a few on a circle around it.
Gradient flow is an inverse Laplace transform, and a few nodes on a hyperbola suffice for all stops
of one decade, even if tL is large. The critically damped flow depends on √s, which is not analytic
at s = 0: its penalties lie on the imaginary axis, evenly spaced in decades. Other methods are
expanded in Chebyshev polynomials, each a mixture of ridges by Cauchy's formula on an ellipse around
[0, L].

References
----------
Weideman, Trefethen (2007), Parabolic and hyperbolic contours for computing the Bromwich integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, next_fast_len
from scipy.optimize import minimize_scalar

from stoptime.methods.base import Method
from stoptime.support.arrays import Array, like

if TYPE_CHECKING:
    from stoptime.left_out.ladder import Ladder

Numbers = NDArray[np.inexact[Any]]

MAX_DEGREE = 16384  # beyond it the secular equation costs less and rounds less
FIRST_DEGREE = 32  # of the Chebyshev expansion; it is doubled until it resolves the shrinkage
DEGREES_PER_RADIAN = {1: 7.0, 2: 1.25}  # that iterations need at most, by their order
FLOW_DEGREES_PER_RADIAN = 0.65  # that oscillating flows need as a rule
FIRST_NODE_SHRINKAGE = 0.5  # least shrinkage at the smallest node; less is a drop not resolved
ALIASING = 33.0  # minus the logarithm of the trapezoidal rule's error, exp(-33) = 5e-15
SHARED_WEIGHT = 3.0  # times the largest weight, for penalties that were chosen for another mixture
SHARED_RANGE = 20.0  # times its own largest eigenvalue: an ellipse so large may be shared
NOTABLE = 10.0  # times the size of resolved coefficients, whose growth counts
KEPT_BITS = 40  # of a stop that is looked up
FEWEST_LOOKED_UP = 8  # stops of a mixture that is worth looking up
EARLY = 100.0  # tL up to which gradient flow needs fewer penalties on an ellipse
SPAN = 40.0  # about the ratio of the last stop to the first one on one hyperbola
LARGEST_POLE_WEIGHT = 100.0  # of the penalties around a pole of higher order
MOST_POLE_RIDGES = 400  # around poles; rays need about half as many, for any number of stops
RAY_STEP = 0.28  # between logarithms of penalties: an error of exp(-π²/0.28) = 5e-16, times 20
RAY_STEP_ORDERS = 20.0  # orders of a pole on the negative axis for which the step is halved
RAY_START = 1e-14  # of s·φ(0, t), which is 1 - g there
RAY_END = 1e-15  # shrinkage
SUBTRACTED = 2.0 ** np.arange(4)  # penalties of the ridges that cancel g(0) = 1 at the origin
FARTHEST_RAY = 1e250  # of φ(0, t) and φ(0, t)·L, so that penalties neither overflow nor underflow
LEAST_SPAN = 2.0  # and the least one, for which the best angle is found


@dataclass(frozen=True)
class RidgeMixture:
    r"""The shrinkage :math:`g(cs, t) = \mathrm{Re}\sum_k\omega_k\lambda_k/(\lambda_k+s)`.

    ``penalties`` are the λ, real for ridge and otherwise complex, one of each conjugate pair.
    ``weights`` are the ω, of shape (n_scales, n_penalties, n_stops), a matrix for every scale c.
    ``contour`` is where the penalties lie, if other filters can share them.
    """

    penalties: Numbers
    weights: Numbers
    contour: Ellipse | Ladder | None = None

    @property
    def is_ridge(self) -> bool:
        """Whether every stop is a ridge with a penalty of its own."""
        one_scale = len(self.weights) == 1
        return one_scale and self.contour is None and not np.iscomplexobj(self.penalties)

    @cached_property
    def real_weights(self) -> Array:
        """The weights of real and imaginary parts, of shape (n_scales, 2·penalties, n_stops)."""
        return np.stack([for_real_part(weights) for weights in self.weights])

    def scaled(self, unit: float) -> RidgeMixture:
        """Return the mixture for eigenvalues that are larger by a factor."""
        ellipse = cast("Ellipse", self.contour)
        larger = Ellipse(ellipse.largest * unit, ellipse.count, ellipse.precision)
        found = RidgeMixture(self.penalties * unit, self.weights, larger)
        vars(found)["real_weights"] = self.real_weights  # which do not change
        return found

    def shrinkages(self, eigenvalues: Array) -> Any:
        """Return λ/(λ + s), one row for every eigenvalue, where the eigenvalues are."""
        # divided by λ, so that an infinite penalty gives one and not inf/inf
        with np.errstate(over="ignore"):
            return 1 / (1 + eigenvalues[:, None] / like(eigenvalues, self.penalties))


class Precision(NamedTuple):
    """The precision of mixtures on an ellipse: the coarser, the fewer penalties they need.

    ``aliasing`` is minus the logarithm of the trapezoidal rule's error. Chebyshev coefficients
    below ``resolved`` are left out. Rounding errors are multiplied by the ``largest_weight``.
    """

    aliasing: float
    resolved: float
    largest_weight: float


EXACT = Precision(ALIASING, 1e-14, 300.0)
ROUGH = Precision(12.0, 1e-5, 1e8)  # an error of 3e-5, with a third to a half of the penalties


@dataclass(frozen=True)
class Ellipse:
    """Penalties on an ellipse around [0, ``largest``], which serve every filter smooth there."""

    largest: float
    count: int
    precision: Precision = EXACT

    @property
    def _log_radius(self) -> float:
        return self.precision.aliasing / self.count

    @property
    def _half_w(self) -> Numbers:
        """Half of w, where cosh w are the poles in x = 1 - 2s/L: half of them, at odd angles."""
        angles = (2 * np.arange(self.count // 2) + 1) * (1j * np.pi / self.count)
        return np.asarray((self._log_radius + angles) / 2)

    @cached_property
    def penalties(self) -> Numbers:
        """The poles as penalties λ; their conjugates are left out."""
        return np.asarray(self.largest * np.sinh(self._half_w) ** 2)

    @classmethod
    def around(cls, coefficients: Array, largest: float, precision: Precision) -> Ellipse:
        """Return the ellipse with the fewest penalties for these Chebyshev coefficients."""
        sizes = np.abs(coefficients).max(axis=(0, 1))
        # a large radius has little aliasing and large weights: the smallest radius with both small
        kept = np.flatnonzero(sizes > NOTABLE * precision.resolved)
        room = np.log(precision.largest_weight / sizes[kept])
        count = max(len(sizes), float((precision.aliasing * kept / room).max(initial=0)))
        # even, and a length whose Fourier transform is fast
        return cls(largest, 2 * next_fast_len(int(np.ceil(count / 2)) + 1), precision)

    def serves(self, coefficients: Array) -> bool:
        """Tell whether a filter of these coefficients has a mixture with moderate weights."""
        sizes = np.abs(coefficients).max(axis=(0, 1))
        growth = np.exp(self._log_radius * np.arange(len(sizes)))
        heights = np.where(sizes > NOTABLE * self.precision.resolved, sizes, 0) * growth
        moderate = heights.max() <= SHARED_WEIGHT * self.precision.largest_weight
        return bool(len(sizes) <= self.count and moderate)

    def mixture(self, coefficients: Array) -> RidgeMixture:
        r"""Return the mixture of the filter with these coefficients.

        .. math:: g(s) = \frac1{2\pi i}\oint \frac{g(\zeta)}{\zeta - s}\,d\zeta

        The trapezoidal rule on the ellipse gives g inside of it and zero outside. Eigenvalues
        beyond ``largest`` are therefore taken as learned.
        """
        half_turn = 1j * np.pi / self.count
        degrees = np.arange(coefficients.shape[-1])
        # T_m(cosh w) = (exp(mw) + exp(-mw))/2 at even angles: two Fourier transforms
        outer = coefficients * np.exp((self._log_radius + half_turn) * degrees)
        inner = coefficients * np.exp((half_turn - self._log_radius) * degrees)
        inner[..., 0] = 0
        waves = np.fft.ifft(np.stack([outer, inner]), n=self.count, axis=-1)
        # the lower half of the ellipse is the conjugate of the upper one, whose weights are doubled
        waves = waves[..., : self.count // 2]
        weights = (waves[0] + waves[1].conj()) / np.tanh(self._half_w)
        return RidgeMixture(self.penalties, np.swapaxes(weights, -1, -2), self)


def for_real_part(table: Numbers) -> Array:
    """Return the real matrix that maps interleaved vectors to the real part of a product."""
    if np.iscomplexobj(table):
        return np.stack([table.real, -table.imag], axis=1).reshape(-1, table.shape[1])
    return np.asarray(table, np.float64)


def ridge_mixture(
    method: Method,
    stops: Array,
    largest: float,
    scales: Array,
    known: Sequence[Ellipse] = (),
    precision: Precision = EXACT,
) -> RidgeMixture | None:
    """Write a tuned method as a mixture of ridges, to about 1e-13 for 0 ≤ s ≤ ``largest``.

    The stops are positive and finite; ``scales`` are the c of :class:`RidgeMixture`. If one of the
    ``known`` ellipses serves, it is used. Methods that oscillate may ask for a rough ``precision``.
    The result is None where more than ``MAX_DEGREE``
    penalties would be needed, or the method counts eigenvalues.
    """
    if method.counts_eigenvalues:
        return None
    if method.mixture == "pole":
        nodes, shares = _around_pole(method.pole_order)
        if method.pole_order == 1 or len(nodes) * stops.size * scales.size <= MOST_POLE_RIDGES:
            # the shrinkage at cs has its pole at -q/(ct), and weight on its own penalties only
            centres = method.pole_order / np.multiply.outer(scales, stops)
            penalties = np.multiply.outer(centres, nodes)
            own = np.eye(centres.size).reshape(*centres.shape, centres.size)
            weights = np.multiply.outer(own, shares).reshape(*centres.shape, penalties.size)
            return RidgeMixture(penalties.ravel(), weights.swapaxes(1, 2))
    if method.mixture in {"pole", "rays"}:
        return _on_rays(method, stops, largest, scales)
    with np.errstate(over="ignore"):
        late = stops * (scales.max() * largest) > EARLY
    if method.mixture == "hyperbola" and late.any():
        far = _on_hyperbolas(stops[late], scales)
        if late.all():
            return far
        # stops so early never need more than MAX_DEGREE penalties
        early = _on_ellipse(method, stops[~late], largest, scales, known, EXACT)
        near = cast("RidgeMixture", early)
        # each stop has weight on its own penalties only
        count = len(far.penalties)
        penalties = np.concatenate([far.penalties, near.penalties])
        weights = np.zeros((len(scales), len(penalties), len(stops)), np.complex128)
        weights[:, :count, late] = far.weights
        weights[:, count:, ~late] = near.weights
        return RidgeMixture(penalties, weights)
    return _on_ellipse(method, stops, largest, scales, known, precision)


def _on_ellipse(
    method: Method,
    stops: Array,
    largest: float,
    scales: Array,
    known: Sequence[Ellipse],
    precision: Precision,
) -> RidgeMixture | None:
    """Expand in Chebyshev polynomials of x = 1 - 2s/L, and these in ridges."""
    for ellipse in reversed(known):
        fine_enough = ellipse.precision in {EXACT, precision}
        if fine_enough and largest <= ellipse.largest <= SHARED_RANGE * largest:
            own = ellipse.precision
            found = _in_units(method, stops, ellipse.largest, scales, own, ellipse.count)
            if found is not None:
                return found
    return _in_units(method, stops, largest, scales, precision)


def _in_units(
    method: Method,
    stops: Array,
    largest: float,
    scales: Array,
    precision: Precision,
    count: int | None = None,
) -> RidgeMixture | None:
    """Return a mixture on an ellipse of ``count`` penalties, or of as many as it needs."""
    if not method.scale_free or len(stops) < FEWEST_LOOKED_UP:
        return _fitted(method, stops, largest, scales, precision, count)
    phases = in_units(method, stops, largest * float(scales.max()))
    shares = scales / scales.max()
    found = _remembered(method, phases, shares.tobytes(), precision, count)
    return None if found is None else found.scaled(largest)


def in_units(method: Method, stops: Array, largest: float) -> bytes:
    """Return the stops of a scale-free method for a largest eigenvalue of one, to look them up."""
    # the grids of other data have the same stops then; rounded, by less than 1e-12, they are
    # recognised
    mantissa, exponent = np.frexp(stops * largest ** (1 / method.order))
    return np.ldexp(np.round(mantissa * 2.0**KEPT_BITS), exponent - KEPT_BITS).tobytes()


@lru_cache(maxsize=256)
def _remembered(
    method: Method, stops: bytes, scales: bytes, precision: Precision, count: int | None
) -> RidgeMixture | None:
    return _fitted(method, np.frombuffer(stops), 1.0, np.frombuffer(scales), precision, count)


def _fitted(
    method: Method,
    stops: Array,
    largest: float,
    scales: Array,
    precision: Precision,
    count: int | None,
) -> RidgeMixture | None:
    # more radians than penalties cannot be resolved
    if count is not None and _radians(method, stops, largest * scales.max()) > 2 * count:
        return None
    coefficients = _coefficients(method, stops, largest, scales, precision.resolved)
    if coefficients is None:
        return None
    if count is None:
        return Ellipse.around(coefficients, largest, precision).mixture(coefficients)
    ellipse = Ellipse(largest, count, precision)
    return ellipse.mixture(coefficients) if ellipse.serves(coefficients) else None


def _radians(method: Method, stops: Array, largest: float) -> float:
    return float(np.sqrt((method.pace * stops.max()) ** method.order * largest))


def _coefficients(
    method: Method, stops: Array, largest: float, scales: Array, resolved: float
) -> Array | None:
    degree = FIRST_DEGREE
    if method.oscillates or method.whole_stops:
        # a degree that suffices as a rule: every attempt evaluates the filter again
        radians = _radians(method, stops, scales.max() * largest)
        slope = DEGREES_PER_RADIAN[method.order] if method.whole_stops else FLOW_DEGREES_PER_RADIAN
        degree = next_fast_len(int(np.clip(degree + slope * radians, 1, MAX_DEGREE)))
    while degree <= MAX_DEGREE:
        # Chebyshev nodes as squared sines: eigenvalues near zero keep their relative accuracy
        s = largest * np.sin(np.pi * (np.arange(degree) + 0.5) / (2 * degree)) ** 2
        values = method.shrinkage(np.multiply.outer(scales, s)[:, None], stops[:, None])
        coefficients = dct(values, axis=-1) / degree
        sizes = np.abs(coefficients).max(axis=(0, 1))
        needed = int(np.max(np.flatnonzero(sizes > resolved), initial=0)) + 1
        # g is one at s = 0: where it is small at the first node, a steep drop has been missed
        if needed <= 0.85 * degree and values[..., 0].min() > FIRST_NODE_SHRINKAGE:
            return np.asarray(coefficients[..., :needed])
        degree *= 2
    return None


@lru_cache(maxsize=64)
def _hyperbola(span: float) -> tuple[float, float, Numbers]:
    """Return size, step and nodes w of the contour p = size (1 + sin w) for times 1 to ``span``."""

    def length(angle: float) -> float:
        top = (np.pi - 2 * angle) * span + 4 * angle - np.pi
        bottom = (4 * angle - np.pi) * np.sin(angle)
        return float(np.arccosh(top / bottom))

    def nodes_per_digit(angle: float) -> float:
        return length(angle) / (np.pi * (np.pi - 2 * angle))

    # the angle at which the trapezoidal rule converges fastest for all times at once
    angle = float(minimize_scalar(nodes_per_digit, bounds=(0.8, 1.5), method="bounded").x)
    count = int(np.ceil(ALIASING * nodes_per_digit(angle)))
    # midpoints, of which none is on the real axis: every node has a conjugate that is left out
    nodes = (np.arange(count) + 0.5) * length(angle) / count
    size = (4 * np.pi * angle - np.pi**2) / length(angle) * count / span
    return size, nodes[1] - nodes[0], 1j * nodes - angle


def _on_hyperbolas(stops: Array, scales: Array) -> RidgeMixture:
    """Invert the Laplace transform 1/(p + s) of exp(-ts): the penalties are the nodes p."""
    # one contour is accurate for a limited range of times: longer ranges are cut into equal ratios
    first = float(stops.min() * scales.min())
    last = float(stops.max() * scales.max())
    count = max(1, int(np.ceil(np.log(last / first) / np.log(SPAN))))
    span = max((last / first) ** (1 / count), LEAST_SPAN)
    starts = first * span ** np.arange(count)
    size, step, nodes = _hyperbola(span)
    p = np.multiply.outer(size / starts, 1 + np.sin(nodes))
    slope = np.multiply.outer(size / starts, np.cos(nodes))
    times = np.multiply.outer(scales, stops)
    # rounding may put a time outside of all ranges, next to the first or the last one
    place = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, count - 1)
    weights = np.zeros((*times.shape, *p.shape), np.complex128)
    own = p[place]
    values = np.exp(times[..., None] * own) * (step / np.pi) * slope[place] / own
    np.put_along_axis(weights, place[..., None, None], values[..., None, :], axis=2)
    weights = weights.reshape(*times.shape, p.size)
    return RidgeMixture(p.ravel(), np.swapaxes(weights, -1, -2))


def _around_pole(order: int) -> tuple[Numbers, Numbers]:
    """Return penalties and weights of (1 + s)^(-order): one, or a circle around the pole at -1.

    On a circle of radius ρ the trapezoidal rule of M nodes has the error ρ^M, and weights up to
    ρ^(1 - order).
    """
    if order == 1:
        return np.ones(1), np.ones(1)
    log_radius = -np.log(LARGEST_POLE_WEIGHT) / (order - 1)
    count = int(np.ceil(-ALIASING / log_radius / 2))
    # half of the circle, and weights doubled, because the other half is the conjugate
    angles = np.pi * (np.arange(count) + 0.5) / count
    penalties = 1 - np.exp(log_radius + 1j * angles)
    return penalties, np.exp((1 - order) * (log_radius + 1j * angles)) / penalties / count


def _on_rays(method: Method, stops: Array, largest: float, scales: Array) -> RidgeMixture | None:
    r"""Use Cauchy's formula on both halves of the imaginary axis, for g analytic but at s ≤ 0.

    The variable is log z, in which the trapezoidal rule converges exponentially for all s ≥ 0 at
    once. The integrand must vanish at the origin, so a product of ridges is subtracted from g,
    which is itself a mixture of ridges with real penalties.
    """
    slopes = np.multiply.outer(scales, method.gain(0.0, stops))
    if slopes.min() < 1 / FARTHEST_RAY or slopes.max() * max(largest, 1.0) > FARTHEST_RAY:
        return None
    # the shrinkage of the flow falls like exp(-u/√2) on the imaginary axis, not like exp(-u)
    end = 2 * (method.settled_at(1.0, RAY_END) / stops.min()) ** method.order / scales.min()
    step = RAY_STEP / (1 + (method.pole_order - 1) / RAY_STEP_ORDERS)
    z = 1j * np.exp(np.arange(np.log(RAY_START / slopes.max()), np.log(end) + step, step))
    values = method.continued(np.multiply.outer(scales, z)[:, None], stops[:, None])
    # powers of two, so that neighbouring stops share their real penalties
    power = np.floor(-np.log2(2 * slopes)).astype(np.intp)
    first = power.min()
    real = 2.0 ** np.arange(first, power.max() + len(SUBTRACTED))
    product = np.prod([1 / (1 + z / (p * 2.0**power)[..., None]) for p in SUBTRACTED], axis=0)
    weights = np.zeros((*slopes.shape, len(z) + len(real)), np.complex128)
    weights[..., : len(z)] = (1j * step / np.pi) * (values - product)
    ratios = SUBTRACTED[:, None] / SUBTRACTED
    # partial fractions: the weight of a penalty is the product of 1/(1 - ratio) over the others
    shares = 1 / np.prod(1 - ratios, axis=1, where=ratios != 1)
    places = len(z) + (power - first)[..., None] + np.arange(len(SUBTRACTED))
    np.put_along_axis(weights, places, shares + 0j, axis=2)
    return RidgeMixture(np.concatenate([-z, real]), np.swapaxes(weights, -1, -2))
