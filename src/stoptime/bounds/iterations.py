r"""Certificates of iterations: at one step and one stop, or the best stop of each spectrum.

With εs = sin²θ and ρ² = ελ* the excess is D², D = y·g - (1 - g)/y with y = sin θ/ρ. Three methods
have g = cos(θ)^m·P(cos θ), P a Gegenbauer polynomial with P(1) = 1: g(θ) = E cos(θT), as for the
flows. The heavy ball has Chebyshev polynomials. Of any other loop only the degree is used.
Floors are proven under all stops one by one, with one floor under all late stops.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from stoptime.bounds import balls, minimax
from stoptime.bounds.balls import Enclosure, arb, ball, exact, squared, upward
from stoptime.bounds.filters import Cell, Curve
from stoptime.bounds.minimax import Game, Square, Strategy, imbalance
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import STEP_ROUNDING, at_stops
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain

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


def heavy_ball_iterates(eta: float, y: arb, stops: Iterable[int]) -> list[arb]:
    """Return g of the heavy ball at y = εs after some steps: q^k·(U_k - q·U_{k-1}) at x, q = √η.

    The Chebyshev polynomials U have the variable x = (1 + η - y)/2q.
    """
    if eta == 0:
        return [(1 - y) ** k for k in stops]
    q = exact(eta).sqrt()
    x = (1 + exact(eta) - y) / (2 * q)
    if not abs(x) < 1:
        return [q**k * (x.chebyshev_u(k) - (q * x.chebyshev_u(k - 1) if k else 0)) for k in stops]
    # With x = cos φ, U_{k-1} = sin(kφ)/sin φ.
    phi = x.acos()
    factor = (x - q) / phi.sin()
    waves = ((k, *(k * phi).sin_cos()) for k in stops)
    return [q**k * (cosine + factor * sine) for k, sine, cosine in waves]


def late_heavy_ball(eta: float, y: arb, k: int) -> arb:
    """Return a cap on |g| of the heavy ball after k > 0 steps and more."""
    before, g = heavy_ball_iterates(eta, y, (k - 1, k))
    momentum = exact(eta)
    c = (1 + momentum - y) / 2
    if c > momentum.sqrt():
        # Without oscillation g falls to zero and stays positive.
        return g
    # This energy of two neighbours is multiplied by η in every step.
    rest = momentum - c**2
    energy = (g - c * before) ** 2 + rest * before**2
    return (energy / rest).upper().sqrt() if rest > 0 else exact(math.inf)


@dataclass(frozen=True)
class _StepGame(Game):
    """The game of an iteration at one step: places are the angles θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    """

    method: Any
    rho: arb
    reach: balls.Interval = (0.0, 1.0)
    """The range of εs."""
    last: int = 1
    smooth: ClassVar[bool] = False  # stops are whole, and late ones have no payoff between places

    @abstractmethod
    def scaled(self, theta: Any) -> Any:
        """Return εs at angles, or at a ball: NumPy's sine of a ball is the ball's own."""

    @abstractmethod
    def shrinkage(self, theta: arb, k: int) -> arb:
        """Return g at an angle."""

    @abstractmethod
    def later(self, theta: arb) -> arb:
        """Return a cap on |g| at an angle for all iterates that count as one."""

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        count = max(3000, 8 * self.last) if self.method.has_momentum else 3000
        even = np.linspace(0.0, math.pi / 2, count + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        return np.append(np.arange(self.last, dtype=float), np.inf)

    def shrinkages(self, theta: Array, stops: Array) -> Array:
        """Return g at some angles, one row for each, and some iterations, in floating point."""
        s = self.scaled(theta) / self.method.epsilon
        return np.asarray(self.method.shrinkage(s[:, None], stops.astype(int)))

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
        x = self.to_eigenvalues(places)[:, None]
        d = ((1 + x) * g - 1) / np.sqrt(x)
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, ~early] = np.minimum(d[:, ~early], 0.0)
        return np.asarray(d**2)

    def excess(self, place: arb, stop: float) -> arb:
        found: arb = _excess(self.eigenvalue(place), self.shrinkage(place, int(stop)))
        return found

    def to_stops(self, stops: Array) -> Array:
        return stops

    def to_eigenvalues(self, places: Array) -> Array:
        # The step of the method is in units of the inverse of the penalty.
        return np.asarray(self.scaled(places) / float(self.rho) ** 2)

    def eigenvalue(self, place: arb) -> arb:
        """Return the eigenvalue at an angle, in units of the best penalty."""
        found: arb = self.scaled(place) / self.rho**2
        return found

    @cached_property
    def peaks(self) -> tuple[Array, Array]:
        """The angle where D² is largest, and D² there, at every early stop."""
        x = self.to_eigenvalues(self.places)
        run = self.method.run(self.scaled(self.places) / self.method.epsilon, np.array(1.0))
        found = []
        for g in islice(run, self.last):
            excess = _excess(x, g)
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
        return minimax.small_shrinkage_floor(self.eigenvalue(theta).sqrt(), self.later(theta))

    def prove_early_floor(self, spectrum: Strategy | None, level: arb) -> None:
        for k in range(self.last):
            used = spectrum or self.witness(k)
            if not used.total(self.excess(exact(angle), k) for angle in used.points) >= level:
                raise balls.WorkLimitError(
                    f"Not proven: the stop {k} is no better than the best one."
                )


def _excess(x: Any, g: Any) -> Any:
    """Return D² at eigenvalues x in units of the best penalty, of floats or balls."""
    return squared((1 + x) * g - 1) / x


class _GegenbauerGame(_StepGame):
    """Gradient descent, Nesterov's method and the ν-method: cells of angles prove caps."""

    def at(self, k: int) -> Gegenbauer:
        """Return iterate k."""
        method = self.method
        if isinstance(method, NuMethod):
            return Gegenbauer(0, 2 * k, 2 * method.nu)
        # Before the second step Nesterov's method, and without momentum every iteration, is
        # gradient descent.
        if k <= 1 or not method.has_momentum:
            return Gegenbauer(2 * k, 0, 1.0)
        return Gegenbauer(k + 1, k - 1, method.friction / 2)

    def scaled(self, theta: Any) -> Any:
        return np.sin(theta) ** 2

    def shrinkage(self, theta: arb, k: int) -> arb:
        return self.at(k).shrinkage(theta)

    def later(self, theta: arb) -> arb:
        return self.at(self.last).later(theta)

    @property
    def ends(self) -> tuple[float, float]:
        """The angles of the smallest and the largest εs, rounded outwards."""
        low, high = (exact(end).sqrt().asin() for end in self.reach)
        return max(0.0, balls.downward(low)), upward(high) if self.reach[1] < 1 else QUARTER

    def places_for(self, stop: float) -> Array:
        """Return angles that show all peaks of |D| up to an iterate, for all εs in reach."""
        # The largest peak is at a few units of the phase, but at the end for early iterates.
        flow_gain = float(self.method.as_flow().gain(0.0, self.method.pace * stop))
        slow = 8.5 / math.sqrt(max(1.0, flow_gain / self.method.epsilon))
        even = np.linspace(0.0, QUARTER, 700)
        grid = np.union1d(even, np.linspace(0.0, min(QUARTER, slow), 1500))[1:]
        first, last = self.ends
        inner = grid[(first < grid) & (grid < last)]
        return np.concatenate([[first] if first else [], inner, [last]])

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        cell = ball(place, radius)
        y = Cell(place.sin() / self.rho, cell.sin() / self.rho, cell.cos() / self.rho)
        return imbalance(y, self.at(int(float(stop))).cell(place, radius))

    def unproven_places(self, mixture: Strategy, cap: arb) -> balls.Interval:
        iterates = [self.at(int(k)) for k in mixture.points]
        first, last = self.ends

        def tail(start: float) -> arb:
            if start >= last:
                return exact(0)
            y = exact(start).sin() / self.rho
            envelopes = (iterate.tail(start) for iterate in iterates)
            return mixture.total((y * e + (1 + e) / y) ** 2 for e in envelopes)

        # As 1 - g ≤ θ²·E T²/2 and θ ≤ (π/2)·sin θ, the bracket is 1 + φ at most, and
        # |D| ≤ y·(1 + φ) with y = sin θ/ρ ≤ θ/ρ.
        bends = [iterate.bend_cap for iterate in iterates]
        steepest = mixture.total((1 + bend * self.rho**2 * exact(1.25)) ** 2 for bend in bends)
        unit = 1 / math.sqrt(max(1.0, *map(float, bends)))
        end = min(balls.horizon(tail, max(unit, first), cap), last)
        return min(max(first, balls.downward(self.rho * (cap / steepest).sqrt())), end), end

    def largest(
        self, mixture: Strategy, tolerance: float, places: Array | None = None
    ) -> tuple[float, float]:
        attained, cap = super().largest(mixture, tolerance, places)
        if self.reach[1] <= 1:
            return attained, cap
        # For an εL that rounding has raised above 1: no polynomial of the degree n of D² that is at
        # most M on [0, 1] exceeds M·T_n(2y - 1) at y > 1 (Chebyshev).
        iterate = self.at(int(max(mixture.points)))
        end, proven = exact(self.reach[1]), exact(cap)
        growth = (2 * end - 1).chebyshev_t(iterate.power + iterate.degree + 1)
        # With cos θ = iτ, τ² = y - 1: the polynomial is a mean of T_j(iτ), j up to its degree.
        tau = (end - 1).sqrt()
        g = tau**iterate.power * (iterate.degree * tau.asinh()).cosh()
        direct = (end.sqrt() / self.rho * g + (1 + g) * self.rho) ** 2
        return attained, upward((proven * growth).min(proven.max(direct)))


class _PolynomialGame(_StepGame):
    """The heavy ball, and any other loop at one stop: caps are proven from values alone."""

    @property
    def is_heavy_ball(self) -> bool:
        """Whether the iterates have a closed form; only then late ones have a floor."""
        method = self.method
        return type(method) is HeavyBall and method.is_tuned and method.follows_flow

    def iterates(self, y: arb, stops: Iterable[int]) -> list[arb]:
        """Return g at εs after some steps, in ascending order."""
        if self.is_heavy_ball:
            return heavy_ball_iterates(self.method.eta, y, stops)
        return list(at_stops(self.method.steps(y.__mul__, exact(1)), stops))

    def scaled(self, theta: Any) -> Any:
        low, high = self.reach
        return low + (high - low) * np.sin(theta) ** 2

    def shrinkage(self, theta: arb, k: int) -> arb:
        return self.iterates(self.scaled(theta), [k])[0]

    def later(self, theta: arb) -> arb:
        return late_heavy_ball(self.method.eta, self.scaled(theta), self.last)

    def places_for(self, stop: float) -> Array:
        # D² has twice as many peaks as g has zeros, and eight points resolve each of them.
        return np.linspace(0.0, math.pi / 2, int(16 * stop) + 500)[1:]

    def largest(
        self, mixture: Strategy, tolerance: float, places: Array | None = None
    ) -> tuple[float, float]:
        last = int(max(mixture.points))
        if last > (10_000 if self.is_heavy_ball else LONGEST_LOOP):
            raise balls.WorkLimitError("A proof for that many iterations would take too long.")
        # Balls grow by at most 2 + √2 in each step of a loop.
        growth = 0 if self.is_heavy_ball else math.ceil(1.8 * last)
        with balls.working_precision(balls.PRECISION + growth):
            return super().largest(mixture, tolerance, places)

    def prove_cap(self, mixture: Strategy, cap: float) -> None:
        r"""Prove a cap on the sum of a mixture from its values on cells.

        With y = m - h·cos ω, D² of iterate k is a trigonometric polynomial of degree n = 2k + 1 in
        ω. If M is its maximum, its distance from M/2 is at most M/2, and Bernstein's inequality
        bounds its second derivative by n²M/2. Let B be the weighted mean of these bounds. As the
        slope of the sum vanishes at its maximum, which is in some cell of centre ω and radius r, it
        is there at most the value at ω plus Br²/2. For one iterate this gives B = n²M/2 itself.
        """
        middle, half = balls.centre_and_radius(self.reach)
        pi = balls.require_flint().arb.pi()
        stops = [int(k) for k in mixture.points]

        def values(centre: arb, stops: list[int]) -> list[arb]:
            y = middle - half * (pi * centre).cos()
            x = y / self.rho**2
            return [_excess(x, g) for g in self.iterates(y, stops)]

        def rough_cap(k: int) -> arb:
            if len(stops) == 1:
                return exact(cap)
            # In cells with n·r ≤ 1 the maximum M exceeds the largest value by at most M/4.
            cells = 2 * (2 * k + 1)
            centres = (exact(2 * i + 1) / (2 * cells) for i in range(cells))
            return max(values(centre, [k])[0].upper() for centre in centres) * 4 / 3

        bend = mixture.total((2 * k + 1) ** 2 * rough_cap(k) / 2 for k in stops)

        def holds(box: balls.Box) -> bool:
            # Cells are parts of [0, 1], in units of π: their ends are exact, and leave no gap.
            centre, radius = balls.centre_and_radius(box[0])
            room = exact(cap) - bend * squared(pi * radius) / 2
            return bool(room > 0 and mixture.total(values(centre, stops)) <= room)

        balls.verify(holds, ((0.0, 1.0),))


def step_game(method: Any, rho: arb | None = None, reach: balls.Interval = (0.0, 1.0)) -> _StepGame:
    """Return the game of an iteration, by default at its step ελ*."""
    rho = exact(method.epsilon).sqrt() if rho is None else rho
    has_polynomials = type(method) in {GradientDescent, Nesterov, NuMethod}
    # Rounding may raise εL above 1 where the step is 1/L.
    if has_polynomials and method.universal_guarantee and reach[1] <= 1 + STEP_ROUNDING:
        return _GegenbauerGame(method, rho, reach)
    return _PolynomialGame(method, rho, reach)


def step_inflation(method: Any, stop: int | None, adaptive: bool, tolerance: float) -> Enclosure:
    """Enclose C at the step ελ* for a given stop, the best one, or the best of each spectrum."""
    game = step_game(method)
    if isinstance(game, _PolynomialGame) and not game.is_heavy_ball:
        raise ValueError(
            f"No bound of {method} is proven: it needs a constant step, friction ≥ 2 without a "
            "constant momentum, ν ≥ 1/2, or for the heavy ball its momentum as a number."
        )
    if adaptive:
        return minimax.adaptive_inflation(_games(game), tolerance)
    if stop is None:
        return minimax.inflation(_games(game), tolerance)
    return minimax.enclosure(*game.largest(Strategy.single(stop), tolerance / 2), stop, tolerance)


def _games(first: _StepGame) -> Iterator[_StepGame]:
    """Yield a game with ever more stops before those that count as one."""
    # A floor under all late stops is certain only if they are late enough. The heavy ball with a
    # momentum of 0.99 needs the last of these, which takes half a minute.
    for factor in (4, 8, 16, 32, 64, 128):
        game = replace(first, last=factor * math.ceil(stop_with_gain(first.method)) + 16)
        # All of these values are computed, a few times where a linear program is solved.
        if game.last * len(game.places) > 5e8:
            break
        yield game
    raise balls.WorkLimitError(
        f"At the step {first.method.epsilon:g} a proof for all stops would take too long: give the "
        "stop, take a larger step, or the flow, which such short steps follow."
    )


def proven_at(method: Any, stop: int, penalty: float, eigenvalues: balls.Interval) -> float:
    """Return a proven cap on the inflation of one iterate, for eigenvalues in a range."""
    step = exact(method.epsilon)
    low, high = map(exact, eigenvalues)
    reach = (balls.downward(step * low), upward(step * high))
    game = step_game(method, (step * exact(penalty)).sqrt(), reach)
    return upward(1 + exact(game.largest(Strategy.single(stop), 1e-5)[1]))
