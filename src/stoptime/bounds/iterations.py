r"""Certificates of iterations: at one step, at every step, and by the best stop of each spectrum.

.. math:: C(\varepsilon) = \min_{k \ge 0} \max_{0 \le s \le 1/\varepsilon}\ (1 + x) g_k^2
          + \frac{(1 + x)(1 - g_k)^2}{x}, \qquad x = s/\lambda^*

depends on the step through a² = 1/ελ* alone: with y = εs = sin²θ the excess is D², D = aA - B/a,
where A = g·sin θ and B = (1 - g)/sin θ do not depend on a. So the worst step is the worst parameter
of a family of games. Early iterates have games of their own, and late ones are compared with their
flow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, Enclosure, Interval, WorkLimitError, arb, centre_and_radius, downward, exact,
    squared, upward, verify, working_precision,
)  # fmt: skip
from stoptime.bounds.flows import floor_of_small_shrinkage, flow_inflation, imbalance, one_stop_game

from stoptime.bounds.iterates import (  # isort: skip
    LOST_BITS, QUARTER, HeavyBallIterates, Iterates, as_balls, largest_value, run_loop,
)  # fmt: skip
from stoptime.bounds.minimax import (  # isort: skip
    Claim, Family, Solution, Strategy, WorseParameter, corners, enclosure, largest, solve,
)  # fmt: skip
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain

AnyIterates = Iterates | HeavyBallIterates


def iteration_inflation(
    method: Any, iterates: AnyIterates, argument: float | None, tolerance: float
) -> Enclosure:
    """Enclose C: at the step of the method, where the argument is a stop, or at the worst step."""
    if not method.is_tuned:
        return _every_step(method, iterates, argument, tolerance)
    if argument is None:
        return _one_step(method, iterates, tolerance)
    rho = exact(method.epsilon).sqrt()
    found = iterates.at(int(argument)).largest_excess(rho, (0.0, 1.0), tolerance)
    return enclosure(found.attained, found.cap, argument, tolerance)


def _one_step(method: Any, iterates: AnyIterates, tolerance: float) -> Enclosure:
    """Enclose C at the step ελ* of the method."""
    rho = exact(method.epsilon).sqrt()
    angles, heights = _peaks(method, iterates, iterates.last(stop_with_gain(method)))
    k = int(np.argmin(heights))
    best = iterates.at(k).largest_excess(rho, (0.0, 1.0), 0.8 * tolerance)
    floor = max(0.0, best.attained - 0.2 * tolerance * max(1.0, best.attained))
    _prove_floor(iterates, rho, exact(floor).sqrt(), angles)
    return enclosure(floor, best.cap, k, tolerance)


def _peaks(method: Any, iterates: AnyIterates, last: int) -> tuple[Array, Array]:
    """Return the angle where |D| is largest, and |D| there, for every stop before ``last``."""
    step = method.epsilon
    if last > 20_000:
        raise WorkLimitError(
            f"At the step {step:g} the proof that no stop is better than the best one needs {last} "
            "stops, which would take too long: give the stop, or take a larger step."
        )
    theta = QUARTER / 1.001 ** np.arange(math.log(10 * last) / math.log(1.001))

    def height(sine: Array, g: Array) -> Array:
        return np.abs(sine * g / math.sqrt(step) - math.sqrt(step) * (1 - g) / sine)

    found = []
    run = method.with_params(step=1.0).run(np.sin(theta) ** 2, np.array(1.0))
    for g in islice(run, last):
        at = height(np.sin(theta), g)
        found.append((theta[at.argmax()], at.max()))
    angles, heights = np.array(found).T
    # The peaks of fast oscillations lie between these angles, and a good stop needs a close look.
    for k in np.flatnonzero(heights < 1.03 * heights.min()).tolist():
        sine, g = iterates.at(k).sample(QUARTER)
        at = height(sine, g)
        if at.max() > heights[k]:
            angles[k], heights[k] = math.asin(sine[at.argmax()]), at.max()
    return angles, heights


def _prove_floor(iterates: AnyIterates, rho: arb, d: arb, angles: Array) -> None:
    """Prove that every stop has an angle with |D| ≥ d; ``angles`` has one for the early stops."""
    for k, angle in enumerate(angles.tolist()):
        theta = exact(angle)
        g = iterates.at(k).shrinkage(theta)
        if not abs(theta.sin() * g / rho - rho * (1 - g) / theta.sin()) >= d:
            raise WorkLimitError(f"Not proven: the stop {k} is no better than the best one.")
    # Late stops have little shrinkage left at this angle, where the variance alone exceeds d.
    theta = exact(math.asin(min(1.0, float(rho / (2 * d)))))
    y = theta.sin() / rho
    late = floor_of_small_shrinkage(y, iterates.at(len(angles)).later(theta))
    if not late >= d**2:
        raise WorkLimitError("Not proven: every late stop is worse than the best one.")


@dataclass(frozen=True)
class EarlySteps(Family):
    """All steps, which are to be stopped after one of some numbers of iterations.

    ``scale`` is the σ at which the flow is to be stopped; iterate k has the scale N/a.
    """

    iterates: AnyIterates
    numbers: tuple[int, ...]
    scale: float

    @cached_property
    def _phases(self) -> Array:
        return np.array([float(self.iterates.phase(k)) for k in self.numbers])

    def answer(self, a: float) -> tuple[Strategy, float]:
        """Return the best number of iterations, and its excess."""
        # Late numbers follow the flow, and are tried only near the scale that is best for it.
        near = np.abs(self._phases / (a * self.scale) - 1) < 0.2
        early = np.array(self.numbers) <= max(64, self.iterates.oscillates_until)
        tried = np.flatnonzero(near | early).tolist()
        heights = largest([_points(self.iterates, self.numbers[i]) for i in tried], a)
        best = int(heights.argmin())
        return Strategy.single(self.numbers[tried[best]]), float(heights[best] ** 2)

    def highest(self, claim: Claim) -> float:
        """Return the largest excess of one number of iterations at one step."""
        ((a, mixture),) = claim
        return float(largest([_points(self.iterates, int(mixture.points[0]))], a)[0] ** 2)


@lru_cache(maxsize=20_000)
def _points(iterates: AnyIterates, k: int) -> Array:
    """Return the points (A, B) of one iterate; before the first one g = 1, so that |D| ≤ a."""
    if k == 0:
        return np.array([[1.0], [0.0]])
    sine, g = iterates.at(k).sample(QUARTER)
    return corners(np.array([sine * g, (1 - g) / sine]))


def _every_step(
    method: Any, iterates: AnyIterates, largest_step: float | None, tolerance: float
) -> Enclosure:
    """Enclose the largest C of all steps up to ``largest_step``, or of all."""
    every = max(64, iterates.oscillates_until)
    nearest = 0.0
    if largest_step is not None:
        # Only later iterates matter for short steps.
        every = max(every, 2 * math.ceil(stop_with_gain(method.with_params(step=largest_step))))
        nearest = downward(1 / exact(largest_step).sqrt())
    # In the limit of short steps the constant is that of the flow.
    limit = flow_inflation(iterates.flow, None, 0.1 * tolerance)
    best = limit.stop if iterates.flow.order == 2 else math.sqrt(limit.stop)
    steps = EarlySteps(iterates, tuple(range(every + 1)), best)
    end = float(iterates.phase(every)) / best
    # The stop 0 has D = a·sin θ, and the constant is at least that of the flow.
    worst = steps.worst(max(0.5 * math.sqrt(limit.lower - 1), nearest), max(end, nearest), 1e-7)
    for _ in range(10):
        value = max(steps.answer(worst)[1], limit.upper - 1)
        try:
            cap = _prove_cap(steps, nearest, value, tolerance)
        except WorseParameter as worse:
            # The search has missed a maximum, which the cover has found.
            worst = steps.worst_near(worse.a, 1e-7)
        else:
            break
    else:
        raise WorkLimitError("The worst of all steps was not found; use a larger tolerance.")
    floor = downward(exact(limit.lower) - 1)
    stop = math.inf
    if value > (1 + 1e-6) * (limit.upper - 1):
        step = worst**-2 if largest_step is None else min(worst**-2, largest_step)
        hardest = _one_step(method.with_params(step=step), iterates, tolerance / 4)
        floor = downward(exact(hardest.lower) - 1)
        stop = hardest.stop
    return enclosure(floor, cap, stop, tolerance)


def _prove_cap(steps: EarlySteps, nearest: float, value: float, tolerance: float) -> float:
    """Return a proven cap on the excess for all parameters from the nearest on, above a value."""
    level = (1 + value) * (1 + 0.2 * tolerance) - 1
    cap = (1 + value) * (1 + 0.6 * tolerance) - 1
    # The scales at which the flow is good enough lie around the best one, not evenly.
    game = one_stop_game(steps.iterates.flow)

    def excess(log_ratio: float) -> float:
        return game.highest(Strategy.single(steps.scale * math.exp(log_ratio))) - level

    centre = steps.scale * math.exp((brentq(excess, 0, 5) + brentq(excess, -5, 0)) / 2)
    last, sigmas = _prove_late(steps.iterates, steps.numbers[-1], centre, exact(cap).sqrt())
    # The stop 0 serves a² ≤ cap, and late iterates serve all later parameters.
    low = max(downward(exact(level).sqrt()), nearest)
    high = upward(steps.iterates.phase(last) / sigmas[1])
    if low < high:
        _prove_early(steps, last, (low, high), level, cap)
    return cap


def _prove_late(
    iterates: AnyIterates, first: int, centre: float, d: arb
) -> tuple[int, tuple[arb, arb]]:
    """Return an iterate from which on all have |D| ≤ d at scales around a centre, and these."""
    while first <= 20_000:
        # From one iterate to the next, σ = Nρ grows by this ratio; the factor allows for rounding.
        ratio = float(iterates.phase(first + 1) / iterates.phase(first)) * (1 + 1e-9)
        sigmas = exact(centre / math.sqrt(ratio)), exact(centre * math.sqrt(ratio))
        try:
            LateIterates(iterates, first).prove(sigmas, d)
        except WorkLimitError:
            # Later iterates are closer to the flow.
            first *= 2
        else:
            return first, sigmas
    raise WorkLimitError(
        "No iterate up to 20000 is proven to be close enough to its flow; use a larger tolerance."
    )


def _prove_early(steps: EarlySteps, last: int, between: Interval, level: float, cap: float) -> None:
    """Prove D² ≤ cap for all parameters between two, by iterates up to a last one."""
    every = steps.numbers[-1]
    # Most covers need few of the iterates beyond these, and sampling them takes the time.
    for stride in (8, 2, 1):
        numbers = (*steps.numbers, *range(every + stride, last, stride), last)
        try:
            claims = replace(steps, numbers=numbers).cover(*between, level)
        except WorseParameter:
            if stride == 1:
                raise
        else:
            break
    for ((a, mixture),) in claims:
        steps.iterates.at(int(mixture.points[0])).prove_excess(1 / exact(a), cap)


class LateIterates(NamedTuple):
    r"""All iterates from ``first`` on, which one proof compares with their flow.

    With N the phase of iterate k, u = Nθ and σ = Nρ, the shrinkage and the sine are

    .. math:: g = c\,(f(u) + e), \quad 1 - \ell(u) \le c \le 1, \quad |e| \le e(u), \qquad
              \sin\theta = z/N, \quad 1 - u^2/6N^2 \le z/u \le 1,

    where f is the shrinkage of the flow. None of these distances, which the iterates know, depends
    on σ, and all of them fall with k from some iterate on.
    """

    iterates: AnyIterates
    first: int

    def cap(self, interval: Interval, sigma: arb) -> arb:
        """Return a cap on |D| over an interval of u, for all these iterates."""
        first, last = map(exact, interval)
        e = self.iterates.distance(self.first, last)
        narrowing = self.iterates.narrowing(self.first, last)
        wide = 1 - narrowing
        if not wide > 0:
            return exact(float("inf"))
        # D without the loss differs from that of the flow by e and by the sine: (1 - f)/u is at
        # most the root of E T².
        slower = self.iterates.flow.even_moment(1).sqrt() * narrowing
        u, radius = centre_and_radius(interval)
        value, slope = imbalance(self.iterates.flow, sigma, u, radius)
        full = abs(value) + abs(slope) * radius
        full += last / sigma * (e + narrowing) + sigma * (e / last + slower) / wide
        # D is linear in c, and -σ/z where c = 0: it is largest at one of both ends. ℓ(u)/u grows.
        lost = self.iterates.loss(self.first, last) / last
        if first > 0:
            lost = lost.min(1 / first)
        kept = 1 - self.iterates.loss(self.first, first).min(exact(1))
        return full.max(kept * full + sigma * lost / wide)

    def _end(self, sigmas: tuple[arb, arb], d: arb) -> float | None:
        """Return a phase beyond which |D| ≤ d is certain, if there is one."""
        end = self.iterates.flow.tail_start
        while end < 1e4 and 1 - self.iterates.narrowing(self.first, exact(end)) > 0:
            if all(self.iterates.beyond(self.first, end, sigma) <= d for sigma in sigmas):
                return end
            end *= 1.25
        return None

    def prove(self, sigmas: tuple[arb, arb], d: arb) -> None:
        """Prove that all steps with σ ≤ σ₂ for iterate ``first`` have a stop with |D| ≤ d.

        The stop is an iterate, from ``first`` on, whose scale lies between σ₁ and σ₂.
        """
        # The ratio of the phases of neighbours falls with k, so no step falls between two iterates.
        phase, next_phase = (self.iterates.phase(k) for k in (self.first, self.first + 1))
        if not sigmas[0] * next_phase <= sigmas[1] * phase:
            raise WorkLimitError("The cover of short steps has a gap.")
        end = self._end(sigmas, d)
        if end is None or not self.iterates.distances_fall(self.first):
            raise WorkLimitError("Not proven: the tail of late iterates stays small.")
        # |D| is quasi-convex in σ: both ends are enough.
        verify(lambda box: all(self.cap(box[0], sigma) <= d for sigma in sigmas), ((0.0, end),))


def iteration_ratio(method: Any, iterates: AnyIterates, _: None, tolerance: float) -> Enclosure:
    """Enclose the ratio at the step ελ* where the stop may depend on the spectrum."""
    last = iterates.last(stop_with_gain(method))
    # A floor under all late stops is certain only if they are late enough.
    for factor in (1, 2, 4):
        game = IterationGame(method, factor * last)
        below = solve(game.payoff, game.places, game.stops, tolerance / 4)
        floor = max(0.0, below.lower - 0.1 * tolerance)
        if game.late_stops_are_worse(iterates, below.spectrum, floor):
            break
    else:
        raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")
    above = solve(game.payoff, game.places, game.stops[:-1], tolerance / 4)
    cap = game.prove_cap(above.mixture, 0.4 * tolerance)
    game.prove_floor(below.spectrum, floor)
    angles, weights = np.array(below.spectrum)
    spectrum = Strategy.of(np.sin(angles) ** 2 / method.epsilon, weights)
    stop = above.mixture.points[int(np.argmax(above.mixture.weights))]
    witnesses = Solution(above.mixture, spectrum, floor, cap)
    return enclosure(floor, cap, stop, tolerance, witnesses)


@dataclass(frozen=True)
class IterationGame:
    """The game of one step: places are the angles θ of y = sin²θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    A mixture of iterates has a polynomial in y as its excess, so that Bernstein's inequality proves
    a cap. On a spectrum the excess of every iterate up to the last is evaluated.
    """

    method: Any
    last: int

    def __post_init__(self) -> None:
        # The work grows with the third power of the number of stops.
        if self.last > 3000:
            raise WorkLimitError(
                f"At the step {self.method.epsilon:g} the game has {self.last} stops, which would "
                "take too long: take a larger step, or the flow."
            )

    @cached_property
    def places(self) -> Array:
        """A fine grid of angles, which is finer where the first directions are learned."""
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        even = np.linspace(0.0, math.pi / 2, max(3000, 8 * self.last) + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:
        """All iterations before the last one, and infinity."""
        return np.append(np.arange(self.last, dtype=float), np.inf)

    @cached_property
    def _shrinkages(self) -> Array:
        """The shrinkage of all iterations at all places, and at last the largest one later."""
        unit = self.method.with_params(step=1.0)
        run = unit.run(np.sin(self.places) ** 2, np.array(1.0))
        table = np.zeros((self.last + 1, len(self.places)))
        for k, g in enumerate(islice(run, 2 * self.last)):
            if k < self.last:
                table[k] = g
            else:
                np.maximum(table[-1], np.abs(g), out=table[-1])
        return table

    def payoff(self, theta: Array, stops: Array) -> Array:
        """Return D² in floating point, at infinity a floor under it."""
        rows = np.searchsorted(self.places, theta)
        columns = np.where(np.isfinite(stops), stops, self.last).astype(int)
        g = self._shrinkages[np.ix_(columns, rows)].T
        root = (np.sin(theta) / math.sqrt(self.method.epsilon))[:, None]
        d = (root + 1 / root) * g - 1 / root
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, np.isinf(stops)] = np.minimum(d[:, np.isinf(stops)], 0.0)
        return np.asarray(d**2)

    def prove_cap(self, mixture: Strategy, tolerance: float) -> float:
        """Return a proven cap on the excess of the mixture at all eigenvalues up to 1/ε."""
        shares = dict(zip(map(int, mixture.points), mixture.shares, strict=True))
        longest = max(shares)
        rho_squared = exact(self.method.epsilon)

        def excess(y: arb) -> arb:
            x = y / rho_squared
            run = enumerate(run_loop(self._steps[:longest], y))
            squares = (shares[k] * squared((1 + x) * g - 1) for k, g in run if k in shares)
            return sum(squares, exact(0)) / x

        with working_precision(PRECISION + math.ceil(LOST_BITS * longest)):
            return largest_value(excess, 2 * longest + 1, (0.0, 1.0), tolerance).cap

    def late_stops_are_worse(self, iterates: AnyIterates, spectrum: Strategy, floor: float) -> bool:
        """Try to prove that the spectrum has at least this excess from the last iteration on."""
        last = iterates.at(self.last)
        late = (
            floor_of_small_shrinkage(y, last.later(theta))
            for y, theta in zip(*self._roots(spectrum), strict=True)
        )
        return bool(spectrum.total(late) >= exact(floor))

    def prove_floor(self, spectrum: Strategy, floor: float) -> None:
        """Prove that the spectrum has at least this excess at every earlier iteration."""
        level = exact(floor)
        roots, angles = self._roots(spectrum)
        with working_precision(PRECISION + math.ceil(LOST_BITS * self.last)):
            runs = [run_loop(self._steps, theta.sin() ** 2) for theta in angles]
            for shrinkages in zip(*runs, strict=True):
                pairs = zip(roots, shrinkages, strict=True)
                squares = [squared((y + 1 / y) * g - 1 / y) for y, g in pairs]
                if not spectrum.total(squares) >= level:
                    raise WorkLimitError("Not proven: no stop is better on the worst spectrum.")

    def _roots(self, spectrum: Strategy) -> tuple[list[arb], list[arb]]:
        """Return y = √(s/λ*) of a spectrum, and its angles."""
        rho = exact(self.method.epsilon).sqrt()
        angles = [exact(theta) for theta in spectrum.points]
        return [theta.sin() / rho for theta in angles], angles

    @cached_property
    def _steps(self) -> list[tuple[arb, ...]]:
        return as_balls(self.method.update(k) for k in range(1, self.last + 1))
