"""Certificates of iterations: at one step, at every step, and by the best stop of each spectrum.

With y = εs = sin²θ and a² = 1/ελ* the excess is D², D = aA - B/a, where A = g·sin θ and
B = (1 - g)/sin θ do not depend on the step. So the worst step is the worst parameter of a family of
games. Early iterates have games of their own, and late ones are compared with their flow.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, Interval, WorkLimitError, arb, ball, centre_and_radius, downward, exact, squared,
    upward, verify,
)  # fmt: skip
from stoptime.bounds.filters import Cell
from stoptime.bounds.flows import flow_inflation

from stoptime.bounds.iterates import (  # isort: skip
    LONGEST_LOOP, PROVEN_ITERATIONS, QUARTER, Iterates, as_balls, iterates_of, largest_value,
    loop_excess, loop_precision, run_loop,
)  # fmt: skip
from stoptime.bounds.minimax import (  # isort: skip
    Claim, Family, Solution, Strategy, corners, enclosure, imbalance, largest,
    small_shrinkage_floor, solve,
)  # fmt: skip
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain


def step_inflation(method: Any, stop: int | None, tolerance: float) -> Enclosure:
    """Enclose C at the step ελ* of the method, for a given stop or the best one."""
    rho = exact(method.epsilon).sqrt()
    iterates = iterates_of(method)
    if stop is not None:
        found = iterates.at(stop).largest_excess(rho, (0.0, 1.0), tolerance)
        return enclosure(found.attained, found.cap, stop, tolerance)
    angles, heights = _peaks(method, iterates)
    k = int(np.argmin(heights))
    best = iterates.at(k).largest_excess(rho, (0.0, 1.0), 0.8 * tolerance)
    floor = max(0.0, best.attained - 0.2 * tolerance * max(1.0, best.attained))
    prove_step_floor(iterates, rho, exact(floor).sqrt(), angles)
    return enclosure(floor, best.cap, k, tolerance)


def _peaks(method: Any, iterates: Iterates) -> tuple[Array, Array]:
    """Return the angle where |D| is largest, and |D| there, at every stop that may be best."""
    rho = math.sqrt(method.epsilon)
    first = 2 ** math.ceil(math.log2(stop_with_gain(method) + 8))
    theta = QUARTER / 1.001 ** np.arange(math.log(50 * first) / math.log(1.001))

    def height(sine: Array, g: Array) -> Array:
        return np.abs(sine * g / rho - rho * (1 - g) / sine)

    found: list[tuple[float, float]] = []
    run = method.with_params(step=1.0).run(np.sin(theta) ** 2, np.array(1.0))
    for last in 2 ** np.arange(math.log2(first), 14.5).astype(int):
        for g in islice(run, int(last) - len(found)):
            at = height(np.sin(theta), g)
            found.append((theta[at.argmax()], at.max()))
        angles, heights = np.array(found).T
        # The peaks of fast oscillations lie between these angles, and a good stop needs a close
        # look.
        for k in np.flatnonzero(heights < 1.03 * heights.min()).tolist():
            sine, g = iterates.sample(k)
            at = height(sine, g)
            if at.max() > heights[k]:
                angles[k], heights[k] = math.asin(sine[at.argmax()]), at.max()
        if late_stops_are_worse(iterates, exact(rho), exact(heights.min()), len(found)):
            return angles, heights
    raise WorkLimitError(
        f"At the step {method.epsilon:g} the proof that no stop is better than the best one would "
        "take too long: give the stop, or take a larger step."
    )


def late_stops_are_worse(iterates: Iterates, rho: arb, d: arb, last: int) -> bool:
    """Whether all stops from ``last`` on certainly have |D| ≥ d at some angle."""
    # Late stops have little shrinkage left at this angle, where the variance alone exceeds d.
    theta = exact(math.asin(min(1.0, float(rho / (2 * d)))))
    floor = small_shrinkage_floor(theta.sin() / rho, iterates.at(last).later(theta))
    return bool(floor >= squared(d))


def prove_step_floor(iterates: Iterates, rho: arb, d: arb, angles: Array) -> None:
    """Prove that every stop has an angle with |D| ≥ d; ``angles`` has one for the early stops."""
    for k, angle in enumerate(angles.tolist()):
        theta = exact(angle)
        g = iterates.at(k).shrinkage(theta)
        if not abs(theta.sin() * g / rho - rho * (1 - g) / theta.sin()) >= d:
            raise WorkLimitError(f"Not proven: the stop {k} is no better than the best one.")
    if not late_stops_are_worse(iterates, rho, d, len(angles)):
        raise WorkLimitError("Not proven: every late stop is worse than the best one.")


@dataclass(frozen=True)
class _EarlySteps(Family):
    """All steps, which are to be stopped after at most ``last`` iterations.

    ``scale`` is the σ at which the flow is to be stopped; iterate k has the scale N/a. An excess
    that is low ``enough`` need not be the least one.
    """

    iterates: Iterates
    last: int
    scale: float
    enough: float

    @cached_property
    def _phases(self) -> Array:
        return np.array([float(self.iterates.phase(k)) for k in range(self.last + 1)])

    def answer(self, a: float) -> tuple[Strategy, float]:
        numbers = np.arange(self.last + 1)
        early = numbers <= max(64, self.iterates.oscillates_until)
        # Late numbers follow the flow, and are tried only near the scale that is best for it: all
        # of them where some are not good enough.
        near = np.abs(self._phases - a * self.scale) < 4 + 0.02 * a * self.scale
        for stride in (8, 1):
            tried = np.flatnonzero(early | (near & (numbers % stride == 0))).tolist()
            heights = largest([_points(self.iterates, k) for k in tried], a)
            best = int(heights.argmin())
            if heights[best] ** 2 <= self.enough:
                break
        return Strategy.single(tried[best]), float(heights[best] ** 2)

    def highest(self, claim: Claim) -> float:
        ((a, mixture),) = claim
        return float(largest([_points(self.iterates, int(mixture.points[0]))], a)[0] ** 2)


@lru_cache(maxsize=20_000)
def _points(iterates: Iterates, k: int) -> Array:
    """Return the points (A, B) of one iterate; before the first one g = 1, so that |D| ≤ a."""
    if k == 0:
        return np.array([[1.0], [0.0]])
    sine, g = iterates.sample(k)
    return corners(np.array([sine * g, (1 - g) / sine]))


def every_step_inflation(method: Any, largest_step: float | None, tolerance: float) -> Enclosure:
    """Enclose the largest C of all steps up to ``largest_step``, or of all."""
    iterates = iterates_of(method)
    first = max(64, iterates.oscillates_until)
    nearest = 0.0
    if largest_step is not None:
        # Only later iterates matter for short steps.
        first = max(first, 2 * math.ceil(stop_with_gain(method.with_params(step=largest_step))))
        nearest = downward(1 / exact(largest_step).sqrt())
    # In the limit of short steps the constant is that of the flow.
    limit = flow_inflation(iterates.flow, None, 0.1 * tolerance)
    best = limit.stop if iterates.flow.order == 2 else math.sqrt(limit.stop)
    known = (limit.upper - 1, math.inf)
    # The stop 0 has D = a·sin θ, and the constant is at least that of the flow.
    low = max(math.sqrt(known[0]), nearest)
    steps = _EarlySteps(iterates, first, best, known[0])
    some = np.geomspace(low, max(low, float(iterates.phase(first)) / best), 100).tolist()
    known = max(known, *((steps.answer(a)[1], a) for a in some))
    cap = (1 + known[0]) * (1 + 0.6 * tolerance) - 1
    last, sigma = _prove_late(steps, cap)
    steps = _EarlySteps(iterates, last, best, known[0])
    high = upward(iterates.phase(last) / sigma)
    cover = steps.cover(low, max(low, high), known, 0.2 * tolerance)
    cap = (1 + cover.value) * (1 + 0.6 * tolerance) - 1
    for ((a, mixture),) in cover.claims:
        iterate = iterates.at(int(mixture.points[0]))
        excess = iterate.largest_excess(1 / exact(a), (0.0, 1.0), 0.3 * tolerance, cap)
        if not excess.cap <= cap:
            raise WorkLimitError("Not proven: an iterate is good enough for its steps.")
    if math.isinf(cover.worst):
        return enclosure(downward(exact(limit.lower) - 1), cap, math.inf, tolerance)
    step = cover.worst**-2 if largest_step is None else min(cover.worst**-2, largest_step)
    hardest = step_inflation(method.with_params(step=step), None, tolerance / 4)
    return enclosure(downward(exact(hardest.lower) - 1), cap, hardest.stop, tolerance)


def _prove_late(steps: _EarlySteps, cap: float) -> tuple[int, arb]:
    """Return an iterate from which on all have at most the cap at the scales up to one, and it."""
    iterates = steps.iterates
    k = steps.last
    while k <= 20_000:
        # From one iterate to the next, σ = Nρ grows by this ratio; the factor allows for rounding.
        ratio = float(iterates.phase(k + 1) / iterates.phase(k)) * (1 + 1e-9)
        root = math.sqrt(ratio)
        sigmas = exact(steps.scale / root), exact(steps.scale * root)
        try:
            prove_late_iterates(iterates, k, sigmas, exact(cap).sqrt())
        except WorkLimitError:
            k *= 2  # later iterates are closer to the flow
        else:
            return k, sigmas[1]
    raise WorkLimitError(
        "No iterate up to 20000 is proven to be close enough to its flow; use a larger tolerance."
    )


def prove_late_iterates(iterates: Iterates, k: int, sigmas: tuple[arb, arb], d: arb) -> None:
    """Prove that all steps with σ ≤ σ₂ for iterate k have a stop with |D| ≤ d.

    The stop is an iterate, from k on, whose scale σ = Nρ lies between σ₁ and σ₂.
    """
    # The ratio of the phases of neighbours falls with k, so no step falls between two iterates.
    if not sigmas[0] * iterates.phase(k + 1) <= sigmas[1] * iterates.phase(k):
        raise WorkLimitError("The cover of short steps has a gap.")
    end = iterates.flow.tail_start
    while not all(iterates.beyond(k, end, sigma) <= d for sigma in sigmas):
        end *= 1.25
        if end > 1e4 or not iterates.narrowing(k, exact(end)) < 1:
            raise WorkLimitError("Not proven: the tail of late iterates stays small.")
    if not iterates.distances_fall(k):
        raise WorkLimitError("Not proven: later iterates are closer to the flow.")
    # |D| is quasi-convex in σ: both ends are enough.
    verify(
        lambda box: all(_late_cap(iterates, k, box[0], sigma) <= d for sigma in sigmas),
        ((0.0, end),),
    )


def _late_cap(iterates: Iterates, k: int, interval: Interval, sigma: arb) -> arb:
    """Return a cap on |D| over an interval of u, for iterate k and all later ones."""
    first, last = map(exact, interval)
    flow = iterates.flow
    e = iterates.distance(k, last)
    narrowing = iterates.narrowing(k, last)
    loss = iterates.loss(k, last)
    wide = 1 - narrowing
    if not wide > 0:
        return exact(math.inf)
    if not first > 0:
        # |D| ≤ z/σ + σ·(1 - g)/z, and 1 - g ≤ u²·φ + e + ℓ.
        return last / sigma + sigma * (last * flow.gain_cap + (e + loss) / last) / wide
    # D without the loss differs from that of the flow by e and by the sine: (1 - f)/u is at most
    # the root of E T².
    slower = flow.bend_cap.sqrt() * narrowing
    u, radius = centre_and_radius(interval)
    y = Cell(u / sigma, ball(u, radius) / sigma, 1 / sigma)
    value, slope = imbalance(y, flow.cell(u, radius))
    full = abs(value) + abs(slope) * radius
    full += last / sigma * (e + narrowing) + sigma * (e / last + slower) / wide
    # D is linear in c, and -σ/z where c = 0: it is largest at one of both ends. ℓ(u)/u grows.
    lost = (loss / last).min(1 / first)
    kept = 1 - iterates.loss(k, first).min(exact(1))
    return full.max(kept * full + sigma * lost / wide)


def step_ratio(method: Any, tolerance: float) -> Enclosure:
    """Enclose the ratio at the step ελ* where the stop may depend on the spectrum."""
    iterates = iterates_of(method)
    # A floor under all late stops is certain only if they are late enough.
    for factor in (4, 8, 16, 32, 64):
        game = _IterationGame(iterates, factor * math.ceil(stop_with_gain(method)) + 16)
        below = solve(game.payoff, game.places, game.stops, tolerance / 4)
        floor = max(0.0, below.lower - 0.1 * tolerance)
        if game.late_stops_are_worse(below.spectrum, floor):
            break
    else:
        raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")
    above = solve(game.payoff, game.places, game.stops[:-1], tolerance / 4)
    cap = game.proven_cap(above.mixture, 0.4 * tolerance)
    game.prove_floor(below.spectrum, floor)
    angles, weights = np.array(below.spectrum)
    spectrum = Strategy.of(np.sin(angles) ** 2 / method.epsilon, weights)
    games = Solution(above.mixture, spectrum, floor, cap)
    return enclosure(floor, cap, above.mixture.heaviest, tolerance, games)


@dataclass(frozen=True)
class _IterationGame:
    """The game of one step: places are the angles θ of y = sin²θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    A mixture of iterates has a polynomial in y as its excess, so that Bernstein's inequality proves
    a cap. On a spectrum the excess of every iterate up to the last is evaluated.
    """

    iterates: Iterates
    last: int

    def __post_init__(self) -> None:
        # The work grows with the third power of the number of stops.
        if self.last > 3000:
            raise WorkLimitError(
                f"At the step {self.step:g} the game has {self.last} stops, which would take too "
                "long: take a larger step, or the flow."
            )

    @property
    def step(self) -> float:
        return float(self.iterates.method.epsilon)

    @cached_property
    def places(self) -> Array:
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        even = np.linspace(0.0, math.pi / 2, max(3000, 8 * self.last) + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:
        return np.append(np.arange(self.last, dtype=float), np.inf)

    @cached_property
    def _shrinkages(self) -> Array:
        """The shrinkage of all iterations at all places, and at last the largest one later."""
        unit = self.iterates.method.with_params(step=1.0)
        run = unit.run(np.sin(self.places) ** 2, np.array(1.0))
        table = np.zeros((self.last + 1, len(self.places)))
        for k, g in enumerate(islice(run, 2 * self.last)):
            if k < self.last:
                table[k] = g
            else:
                np.maximum(table[-1], np.abs(g), out=table[-1])
        return table

    def payoff(self, theta: Array, stops: Array) -> Array:
        rows = np.searchsorted(self.places, theta)
        columns = np.where(np.isfinite(stops), stops, self.last).astype(int)
        g = self._shrinkages[np.ix_(columns, rows)].T
        root = (np.sin(theta) / math.sqrt(self.step))[:, None]
        d = (root + 1 / root) * g - 1 / root
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, np.isinf(stops)] = np.minimum(d[:, np.isinf(stops)], 0.0)
        return np.asarray(d**2)

    def proven_cap(self, mixture: Strategy, tolerance: float) -> float:
        """Return a proven cap on the excess of the mixture at all eigenvalues up to 1/ε."""
        shares = dict(zip(map(int, mixture.points), mixture.shares, strict=True))
        longest = max(shares)
        rho_squared = exact(self.step)

        def excess(y: arb) -> arb:
            x = y / rho_squared
            run = enumerate(run_loop(self._steps[:longest], y))
            squares = (shares[k] * squared((1 + x) * g - 1) for k, g in run if k in shares)
            return sum(squares, exact(0)) / x

        with loop_precision(longest):
            return largest_value(excess, 2 * longest + 1, (0.0, 1.0), tolerance).cap

    def late_stops_are_worse(self, spectrum: Strategy, floor: float) -> bool:
        """Try to prove that the spectrum has at least this excess from the last iteration on."""
        last = self.iterates.at(self.last)
        late = [small_shrinkage_floor(y, last.later(theta)) for y, theta in self._roots(spectrum)]
        return bool(spectrum.total(late) >= exact(floor))

    def prove_floor(self, spectrum: Strategy, floor: float) -> None:
        """Prove that the spectrum has at least this excess at every earlier iteration."""
        level = exact(floor)
        roots = self._roots(spectrum)
        with loop_precision(self.last):
            runs = [run_loop(self._steps, theta.sin() ** 2) for _, theta in roots]
            for shrinkages in zip(*runs, strict=True):
                pairs = zip(roots, shrinkages, strict=True)
                squares = [squared((y + 1 / y) * g - 1 / y) for (y, _), g in pairs]
                if not spectrum.total(squares) >= level:
                    raise WorkLimitError("Not proven: no stop is better on the worst spectrum.")

    def _roots(self, spectrum: Strategy) -> list[tuple[arb, arb]]:
        rho = exact(self.step).sqrt()
        return [(exact(theta).sin() / rho, exact(theta)) for theta in spectrum.points]

    @cached_property
    def _steps(self) -> list[tuple[arb, ...]]:
        method = self.iterates.method
        return as_balls(method.update(k) for k in range(1, self.last + 1))


def iterate_guarantee(method: Any, stop: int, penalty: float, eigenvalues: Interval) -> Enclosure:
    """Enclose the largest inflation of one iterate for eigenvalues in a range."""
    step = exact(method.epsilon)
    rho = (step * exact(penalty)).sqrt()
    reach = (downward(step * eigenvalues[0]), upward(step * eigenvalues[1]))
    iterates = None
    if type(method) in PROVEN_ITERATIONS:
        # Parameters for which there is no closed form are refused.
        with suppress(ValueError):
            iterates = iterates_of(method)
    if iterates is not None and reach[1] <= iterates.longest:
        found = iterates.at(stop).largest_excess(rho, reach, 1e-5)
    else:
        steps = [method.update(k) for k in range(1, min(stop, LONGEST_LOOP + 1) + 1)]
        found = loop_excess(steps, rho, reach, 1e-5)
    # A plan promises no width: only the upper end is used.
    return Enclosure(downward(1 + exact(found.attained)), upward(1 + exact(found.cap)), stop)
