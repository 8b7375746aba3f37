r"""Certificates of iterations: at one step and one stop, or the best stop of each spectrum.

With y = εs = sin²θ and ρ² = ελ* the excess is D², D = y'g - (1 - g)/y' with y' = sin θ/ρ. Three
methods have g = cos(θ)^m·P(cos θ), P a Gegenbauer polynomial with P(1) = 1: g(θ) = E cos(θT), as
for the flows. The heavy ball has Chebyshev polynomials. Of any other loop only the degree is used.
Floors are proven under all stops one by one, with one floor under all late stops.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from stoptime.bounds import balls, minimax
from stoptime.bounds.balls import (
    Enclosure,
    Interval,
    WorkLimitError,
    arb,
    ball,
    downward,
    exact,
    squared,
    upward,
)
from stoptime.bounds.filters import Cell, Curve
from stoptime.bounds.minimax import CellGame, Game, Square, Strategy, imbalance
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.support.arrays import Array
from stoptime.theory.search import lowest, stop_with_gain

PROVEN_ITERATIONS = (GradientDescent, Nesterov, NuMethod, HeavyBall)
QUARTER = math.nextafter(math.pi / 2, 2.0)  # the angle of y = 1, rounded up
LONGEST_LOOP = 200  # of a loop in ball arithmetic: the work grows like the square


@dataclass(frozen=True)
class Gegenbauer(Curve):
    """An iterate g = cos(θ)^power · P(cos θ)."""

    power: int
    degree: int
    order: float  # of the polynomial P, at least 1

    def shrinkage(self, theta: arb) -> arb:
        """Return g at an angle."""
        return theta.cos() ** self.power * self._factor(theta)

    def slope(self, theta: arb) -> arb:
        """Return g' at an angle."""
        c = theta.cos()
        inner = 0 if self.power == 0 else self.power * c ** (self.power - 1) * self._factor(theta)
        return -theta.sin() * (inner + c**self.power * self._factor_slope(theta))

    @property
    def bend_cap(self) -> arb:
        """E T², where T is a sum of ``power`` independent signs and of a variable for P."""
        n, nu = exact(self.degree), exact(self.order)
        return self.power + n * (n + 2 * nu) / (2 * nu + 1)

    def _factor(self, theta: arb) -> arb:
        return _gegenbauer(self.degree, exact(self.order), theta)

    def _factor_slope(self, theta: arb) -> arb:
        # P' at cos θ: the derivative is a polynomial of the next order.
        if self.degree == 0:
            return exact(0)
        nu = exact(self.order)
        scale = self.degree * (self.degree + 2 * nu) / (2 * nu + 1)
        return scale * _gegenbauer(self.degree - 1, nu + 1, theta)

    def later(self, theta: arb) -> arb:
        """Return a cap on |g| for this iterate and all later ones."""
        power = abs(theta.cos()) ** self.power
        if self.degree == 0:
            return power
        # (P - c·before)² + (s·before)² never grows with the degree, as the page shows.
        before = _gegenbauer(self.degree - 1, exact(self.order), theta)
        sine = theta.sin()
        energy = (self._factor(theta) - theta.cos() * before) ** 2 + (sine * before) ** 2
        return power * energy.upper().sqrt() / sine

    def tail(self, start: float) -> arb:
        """Return an e with |g| ≤ e and sin θ·|g| ≤ e·sin(start) from ``start`` on, or infinity."""
        # v = sin(θ)^ν·P solves v'' + qv = 0 with q below, which does not fall up to π/2 as ν ≥ 1.
        # So v² + v'²/q never grows once q is positive (Sonin), and it bounds v² from here on.
        theta = exact(start)
        nu = exact(self.order)
        q = (self.degree + nu) ** 2 - nu * (nu - 1) / theta.sin() ** 2
        if not q > 0:
            return exact(math.inf)
        P = self._factor(theta)
        velocity = -theta.sin() * self._factor_slope(theta) + nu * theta.cot() * P
        envelope = (P**2 + velocity**2 / q).sqrt().upper()
        return abs(theta.cos()) ** self.power * envelope


def _gegenbauer(degree: int, nu: arb, theta: arb) -> arb:
    """Return the Gegenbauer polynomial of order ν at cos θ, divided by its value at 1."""
    # The sum of flint cancels about 1.5 bits for each unit of the phase: so many are added.
    with balls.working_precision(balls.PRECISION + 2 * math.ceil(degree * abs(float(theta)))):
        value = theta.cos().gegenbauer_c(exact(degree), nu)
        at_one = (2 * nu).rising(degree) / exact(degree).fac()
        found: arb = value / at_one
    # As an average of cosines it lies in [-1, 1], which also replaces a failed evaluation.
    return found.intersection(ball(0, 1)) if found.is_finite() else ball(0, 1)


@dataclass(frozen=True)
class Chebyshev:
    """Iterate k of the heavy ball with the momentum η."""

    k: int
    eta: float

    def polynomial(self, y: arb) -> arb:
        """Return g at y = εs: q^k·(U_k - q·U_{k-1}) at (1 + η - y)/2q, q = √η."""
        if self.k == 0 or self.eta == 0:
            return (1 - y) ** self.k
        q = exact(self.eta).sqrt()
        x = (1 + exact(self.eta) - y) / (2 * q)
        return q**self.k * (x.chebyshev_u(self.k) - q * x.chebyshev_u(self.k - 1))

    def shrinkage(self, theta: arb) -> arb:
        """Return g at an angle."""
        return self.polynomial(theta.sin() ** 2)

    def later(self, theta: arb) -> arb:
        """Return a cap on |g| for this iterate and all later ones."""
        g = self.shrinkage(theta)
        eta = exact(self.eta)
        c = (1 + eta - theta.sin() ** 2) / 2
        if c > eta.sqrt():
            # Without oscillation g falls to zero and stays positive.
            return g
        # This energy of two neighbours is multiplied by η in every step.
        before = Chebyshev(max(self.k - 1, 0), self.eta).shrinkage(theta)
        energy = (g - c * before) ** 2 + (eta - c**2) * before**2
        return (energy / (eta - c**2)).upper().sqrt() if c < eta.sqrt() else exact(math.inf)


def prove_polynomial_cap(
    shrinkages: Callable[[arb], list[arb]],
    mixture: Strategy,
    k: int,
    rho: arb,
    reach: Interval,
    cap: float,
) -> None:
    r"""Prove a cap on the mean of D² for y = εs in ``reach``; g has degree k, and g(0) = 1.

    With y = m - h·cos ω it is a trigonometric polynomial of degree n = 2k + 1 in ω. If M is its
    maximum, its distance from M/2 is at most M/2, and Bernstein's inequality bounds its second
    derivative by n²M/2. As the slope vanishes at the maximum, which is in some cell of centre ω and
    radius r,

    .. math:: M \le D^2(\omega) + \tfrac14 n^2r^2M

    So the cap is proven if D²(ω) is at most 1 - n²r²/4 of it in every cell of [0, π].
    """
    middle, half = balls.centre_and_radius(reach)
    pi = balls.require_flint().arb.pi()

    def holds(box: balls.Box) -> bool:
        # Cells are parts of [0, 1], in units of π: their ends are exact, and leave no gap.
        centre, radius = balls.centre_and_radius(box[0])
        rest = 1 - squared((2 * k + 1) * pi * radius) / 4
        if not rest > 0:
            return False
        y = middle - half * (pi * centre).cos()
        x: arb = y / rho**2
        value = mixture.total(squared((1 + x) * g - 1) / x for g in shrinkages(y))
        return bool(value <= rest * exact(cap))

    balls.verify(holds, ((0.0, 1.0),))


def loop_cap(method: Any, stop: int, penalty: float, eigenvalues: Interval) -> float:
    """Return a proven cap on D² after some steps of any loop, for eigenvalues in a range."""
    if stop > LONGEST_LOOP:
        raise WorkLimitError("The loop is too long for a proof.")
    steps = [method.update(k) for k in range(1, stop + 1)]
    if any(step.pull for step in steps):
        raise WorkLimitError("Not proven: the loop does not start at g(0) = 1.")
    low, high = eigenvalues

    def depth(angles: Array) -> Array:
        s = low + (high - low) * np.sin(angles / 2) ** 2
        return np.asarray(-(((1 + s / penalty) * method.shrinkage(s, stop) - 1) ** 2) / s * penalty)

    # sixteen angles for each oscillation
    grid = np.linspace(0.0, math.pi, 32 * stop + 33)[1:]
    cap = minimax.slightly_above(-lowest(depth, grid, margin=0.05)[1], 1e-5)
    # balls grow by at most 2 + √2 in each step
    with balls.working_precision(balls.PRECISION + math.ceil(1.8 * stop)):
        loop = [tuple(map(exact, step[:5])) for step in steps]

        def after(y: arb) -> list[arb]:
            # as :func:`stoptime.methods.recurrence.Iteration.steps` does it
            value = exact(1)
            move = exact(0)
            for momentum, lookahead, weight, stride, direct in loop:
                slope = y * (value + lookahead * move)
                move = momentum * move - weight * slope
                value = value - direct * slope + stride * move
            return [value]

        rho, reach = in_steps(method, penalty, eigenvalues)
        prove_polynomial_cap(after, Strategy.single(stop), stop, rho, reach, cap)
    return cap


def in_steps(method: Any, penalty: float, eigenvalues: Interval) -> tuple[arb, Interval]:
    """Return ρ = √(ελ*), and a range that certainly contains εs for eigenvalues in a range."""
    step = exact(method.epsilon)
    low, high = map(exact, eigenvalues)
    return (step * exact(penalty)).sqrt(), (downward(step * low), upward(step * high))


@dataclass(frozen=True)
class _StepGame(Game):
    """The game of an iteration at one step: places are the angles θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    """

    method: Any
    rho: arb
    reach: Interval = (0.0, 1.0)
    """The range of εs."""
    last: int = 1
    longest: ClassVar[float]
    """The longest εL for which the proofs hold."""

    @abstractmethod
    def at(self, k: int) -> Any:
        """Return iterate k: its shrinkage, and a cap on what comes later."""

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        count = max(3000, 8 * self.last) if self.method.has_momentum else 3000
        even = np.linspace(0.0, math.pi / 2, count + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        return np.append(np.arange(self.last, dtype=float), np.inf)

    def places_for(self, stop: float) -> Array:
        """Return angles that show all peaks of |D| up to an iterate, for all εs in reach."""
        # The peak is at a few units of the phase, but for fast oscillations of early iterates.
        unit = self.method.with_params(step=1.0)
        slow = 8.5 / math.sqrt(max(1.0, float(unit.as_flow().gain(0.0, unit.pace * stop))))
        count = 500 + math.ceil(200 * (stop + 1) * getattr(unit, "eta", 0.0) ** (stop / 4))
        even = np.linspace(0.0, QUARTER, count)
        grid = np.union1d(even, np.linspace(0.0, min(QUARTER, slow), 1500))[1:]
        first = math.asin(math.sqrt(min(1.0, self.reach[0])))
        inner = grid[(first < grid) & (grid < self.last_angle)]
        return np.concatenate([[first] if first else [], inner, [self.last_angle]])

    @property
    def last_angle(self) -> float:
        """The angle of the largest εs, rounded up."""
        return QUARTER if self.reach[1] >= 1 else upward(exact(self.reach[1]).sqrt().asin())

    def shrinkages(self, theta: Array, stops: Array) -> Array:
        """Return the shrinkage at some angles, one row for each, and some iterations."""
        unit = self.method.with_params(step=1.0)
        return np.asarray(unit.shrinkage(np.sin(theta)[:, None] ** 2, stops.astype(int)))

    @cached_property
    def _later(self) -> Array:
        """About what is proven of the shrinkage at all later stops, at all places."""
        # Envelopes fall, so that they are below the largest values a little before.
        some = np.round(np.linspace(0.7 * self.last, self.last, 40))
        return np.asarray(np.abs(self.shrinkages(self.places, some)).max(axis=1))

    def payoff(self, places: Array, stops: Array) -> Array:
        early = np.isfinite(stops)
        g = np.empty((len(places), len(stops)))
        g[:, early] = self.shrinkages(places, stops[early])
        if not early.all():
            g[:, ~early] = self._later[np.searchsorted(self.places, places)][:, None]
        y = (np.sin(places) / float(self.rho))[:, None]
        d = (y + 1 / y) * g - 1 / y
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, ~early] = np.minimum(d[:, ~early], 0.0)
        return np.asarray(d**2)

    def excess(self, place: arb, stop: float) -> arb:
        y = place.sin() / self.rho
        g = self.at(int(stop)).shrinkage(place)
        return squared(y * g - (1 - g) / y)

    def to_stops(self, stops: Array) -> Array:
        return stops

    def to_eigenvalues(self, places: Array) -> Array:
        # The step of the method is in units of the inverse of the penalty.
        return np.sin(places) ** 2 / float(self.rho) ** 2

    @cached_property
    def peaks(self) -> tuple[Array, Array]:
        """The angle where D² is largest, and D² there, at every early stop."""
        y = np.sin(self.places) / float(self.rho)
        run = self.method.with_params(step=1.0).run(np.sin(self.places) ** 2, np.array(1.0))
        found = []
        for g in islice(run, self.last):
            excess = (y * g - (1 - g) / y) ** 2
            found.append((self.places[excess.argmax()], excess.max()))
        angles, heights = np.array(found).T
        # Peaks may lie between these angles, and a good stop needs a close look.
        for k in np.flatnonzero(heights < 1.06 * heights.min()).tolist():
            angle, height = self.highest(Strategy.single(k))
            if height > heights[k]:
                angles[k], heights[k] = angle, height
        return angles, heights

    def best_stop(self, width: float) -> tuple[float, float]:  # noqa: ARG002 - stops are whole
        k = int(np.argmin(self.peaks[1]))
        return float(k), float(self.peaks[1][k])

    def witness(self, stop: float) -> Strategy:
        if math.isfinite(stop):
            return Strategy.single(self.peaks[0][int(stop)])
        # Nothing is left there, and four times the least excess is variance.
        sine = float(self.rho) / (2 * math.sqrt(self.peaks[1].min()))
        return Strategy.single(math.asin(min(1.0, sine)))

    def late_floor(self, place: float) -> arb:
        theta = exact(place)
        return minimax.small_shrinkage_floor(
            theta.sin() / self.rho, self.at(self.last).later(theta)
        )

    def prove_early_floor(self, spectrum: Strategy | None, level: arb) -> None:
        for k in range(self.last):
            used = spectrum or self.witness(k)
            if not used.total(self.excess(exact(angle), k) for angle in used.points) >= level:
                raise WorkLimitError(f"Not proven: the stop {k} is no better than the best one.")


@dataclass(frozen=True)
class _GegenbauerGame(_StepGame, CellGame):
    """Gradient descent, Nesterov's method and the ν-method."""

    longest: ClassVar[float] = 1 + 1e-12  # rounding may raise εL above 1 where the step is 1/L

    def at(self, k: int) -> Gegenbauer:
        method = self.method
        if isinstance(method, NuMethod):
            return Gegenbauer(0, 2 * k, 2 * method.nu)
        # Before the second step Nesterov's method, and without momentum every iteration, is
        # gradient descent.
        if k <= 1 or not method.has_momentum:
            return Gegenbauer(2 * k, 0, 1.0)
        return Gegenbauer(k + 1, k - 1, method.friction / 2)

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        cell = ball(place, radius)
        y = Cell(place.sin() / self.rho, cell.sin() / self.rho, cell.cos() / self.rho)
        return imbalance(y, self.at(int(float(stop))).cell(place, radius))

    def unproven_places(self, mixture: Strategy, cap: arb) -> Interval:
        iterates = [self.at(int(k)) for k in mixture.points]

        def tail(start: float) -> arb:
            if start >= self.last_angle:
                return exact(0)
            y = exact(start).sin() / self.rho
            envelopes = (iterate.tail(start) for iterate in iterates)
            return mixture.total((y * e + (1 + e) / y) ** 2 for e in envelopes)

        # As 1 - g ≤ θ²·E T²/2 and θ ≤ (π/2)·sin θ, the bracket is 1 + φ at most, and
        # |D| ≤ y·(1 + φ) with y = sin θ/ρ ≤ θ/ρ.
        bends = [iterate.bend_cap for iterate in iterates]
        steepest = mixture.total((1 + bend * self.rho**2 * exact(1.25)) ** 2 for bend in bends)
        unit = 1 / math.sqrt(max(1.0, *map(float, bends)))
        end = min(balls.horizon(tail, unit, cap), self.last_angle)
        return min(downward(self.rho * (cap / steepest).sqrt()), end), end

    def largest(
        self, mixture: Strategy, tolerance: float, places: Array | None = None
    ) -> tuple[float, float]:
        attained, cap = super().largest(mixture, tolerance, places)
        return attained, cap if self.reach[1] <= 1 else self._slightly_beyond(mixture, cap)

    def _slightly_beyond(self, mixture: Strategy, proven: float) -> float:
        """Return a cap up to an εL that rounding has raised above 1, given one up to 1."""
        # No polynomial of the degree n of D² that is at most M on [0, 1] exceeds M·T_n(2y - 1)
        # beyond 1 (Chebyshev).
        iterate = self.at(int(mixture.heaviest))
        end, cap = exact(self.reach[1]), exact(proven)
        growth = (2 * end - 1).chebyshev_t(iterate.power + iterate.degree + 1)
        # With cos θ = iτ, τ² = y - 1: the polynomial is a mean of T_j(iτ), j up to its degree.
        tau = (end - 1).sqrt()
        g = tau**iterate.power * (iterate.degree * tau.asinh()).cosh()
        direct = (end.sqrt() / self.rho * g + (1 + g) * self.rho) ** 2
        return upward((cap * growth).min(cap.max(direct)))


@dataclass(frozen=True)
class _HeavyBallStepGame(_StepGame):
    """The iterates of the heavy ball with a constant momentum."""

    longest: ClassVar[float] = math.inf

    def at(self, k: int) -> Chebyshev:
        return Chebyshev(k, self.method.eta)

    def largest(
        self, mixture: Strategy, tolerance: float, places: Array | None = None
    ) -> tuple[float, float]:
        if max(mixture.points) > 10_000:
            raise WorkLimitError("A proof for that many iterations would take too long.")
        return super().largest(mixture, tolerance, places)

    def prove_cap(self, mixture: Strategy, cap: float) -> None:
        iterates = [self.at(int(k)) for k in mixture.points]
        k = int(max(mixture.points))

        def shrinkages(y: arb) -> list[arb]:
            return [iterate.polynomial(y) for iterate in iterates]

        prove_polynomial_cap(shrinkages, mixture, k, self.rho, self.reach, cap)


def step_game(method: Any, rho: arb | None = None, reach: Interval = (0.0, 1.0)) -> _StepGame:
    """Return the game of a method that has certified constants, by default at its step ελ*."""
    rho = exact(method.epsilon).sqrt() if rho is None else rho
    if type(method) is HeavyBall:
        if isinstance(method.momentum, str) or not method.follows_flow:
            raise ValueError(
                "The constant of HeavyBall depends on its momentum: give the momentum as a number."
            )
        return _HeavyBallStepGame(method, rho, reach)
    if not method.universal_guarantee:
        raise ValueError(
            f"No bound of {method} is proven: it needs a constant step, friction ≥ 2 without a "
            "constant momentum, or ν ≥ 1/2."
        )
    return _GegenbauerGame(method, rho, reach)


def step_inflation(method: Any, stop: int | None, adaptive: bool, tolerance: float) -> Enclosure:
    """Enclose C at the step ελ* for a given stop, the best one, or the best of each spectrum."""
    if adaptive:
        return minimax.adaptive_inflation(_games(method), tolerance)
    if stop is None:
        return minimax.inflation(_games(method), tolerance)
    return minimax.enclosure(
        *step_game(method).largest(Strategy.single(stop), tolerance / 2), stop, tolerance
    )


def _games(method: Any) -> Iterator[_StepGame]:
    """Yield the game of a method with ever more stops before those that count as one."""
    # A floor under all late stops is certain only if they are late enough.
    first = step_game(method)
    for factor in (4, 8, 16, 32, 64):
        game = replace(first, last=factor * math.ceil(stop_with_gain(method)) + 16)
        # All of these values are computed, a few times where a linear program is solved.
        if game.last * len(game.places) > 5e8:
            break
        yield game
    raise WorkLimitError(
        f"At the step {method.epsilon:g} a proof for all stops would take too long: give the stop, "
        "take a larger step, or the flow, which such short steps follow."
    )


def proven_at(method: Any, stop: int, penalty: float, eigenvalues: Interval) -> float:
    """Return a proven cap on the inflation of one iterate, for eigenvalues in a range."""
    rho, reach = in_steps(method, penalty, eigenvalues)
    game = None
    if type(method) in PROVEN_ITERATIONS:
        # Parameters for which there is no closed form are refused.
        with suppress(ValueError):
            game = step_game(method, rho, reach)
    if game is not None and reach[1] <= game.longest:
        cap = game.largest(Strategy.single(stop), 1e-5)[1]
    else:
        cap = loop_cap(method, stop, penalty, eigenvalues)
    return upward(1 + exact(cap))
