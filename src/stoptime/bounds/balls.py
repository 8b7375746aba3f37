"""Ball arithmetic, the proof of a statement on a whole box, and the enclosures that are returned.

The precision of python-flint is one setting for the whole process. :func:`working_precision` holds
a lock while it changes it, so that certificates of several threads run one after another.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flint import arb as arb  # noqa: PLC0414 - for the annotations of other modules
else:
    arb = Any  # python-flint is optional

PRECISION = 128  # bits; (1 - g)/u² may cancel about forty, and more than a double remains

Interval = tuple[float, float]
Box = tuple[Interval, ...]

_precision_lock = threading.RLock()


class WorkLimitError(RuntimeError):
    """A proof was not finished within its work limit; the message says what to relax."""


@dataclass(frozen=True)
class Enclosure:
    """A constant C that provably lies between two doubles, lower ≤ C ≤ upper.

    Both ends are rounded outwards, so the inequalities hold for the printed numbers themselves. At
    ``stop`` the constant is (nearly) attained, in the units of the function that returned it.

    Where the stop may depend on the spectrum, there are witnesses. ``mixture`` has pairs of a stop
    and its weight, which prove the upper end: on no spectrum is the weighted mean of their risks
    larger. ``spectrum`` has pairs of an eigenvalue, in units of the best penalty, and the share of
    directions that have it; on this spectrum no stop has a smaller ratio than the lower end. A
    share of 0 stands for a vanishing one. ``stop`` is then the one with the largest weight.

    Examples
    --------
    >>> constant = Enclosure(1.5, 1.625, stop=1.7553)
    >>> 1.6 in constant, 1.7 in constant, constant.width
    (True, False, 0.125)
    >>> print(constant)
    [1.5, 1.625] at stop 1.7553
    """

    lower: float
    upper: float
    stop: float
    mixture: tuple[tuple[float, float], ...] = ()
    spectrum: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        # The negated comparison refuses NaN too.
        if not self.lower <= self.upper:
            raise ValueError(f"lower must not exceed upper; got {self.lower!r} and {self.upper!r}.")

    @property
    def width(self) -> float:
        """The distance between the two ends."""
        return self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def printed(self, digits: int = 12) -> tuple[str, str]:
        """Return both ends in decimal digits, still rounded outwards."""
        lower = Context(digits, ROUND_FLOOR).create_decimal(Decimal(self.lower))
        upper = Context(digits, ROUND_CEILING).create_decimal(Decimal(self.upper))
        return f"{lower.normalize():f}", f"{upper.normalize():f}"

    def __str__(self) -> str:
        lower, upper = self.printed()
        if self.spectrum:
            return f"[{lower}, {upper}] with the stop chosen for each spectrum"
        return f"[{lower}, {upper}] at stop {self.stop:.6g}"


def require_flint() -> Any:
    """Return python-flint, or say how to install it."""
    # Balls are made by the million, and looking a module up is faster than importing it again.
    loaded = sys.modules.get("flint")
    if loaded is not None:
        return loaded
    try:
        return import_module("flint")
    except ImportError as error:
        raise ImportError(
            'Certified constants need python-flint: pip install "stoptime[certify]".'
        ) from error


@contextmanager
def working_precision(bits: int = PRECISION) -> Iterator[None]:
    """Compute with ``bits`` of precision inside, and with the former precision afterwards."""
    context = require_flint().ctx
    with _precision_lock:
        former = context.prec
        context.prec = bits
        try:
            yield
        finally:
            context.prec = former


def ball(centre: arb | float, radius: arb | float) -> arb:
    """Return a ball that contains all numbers within ``radius`` of ``centre``."""
    found: arb = require_flint().arb(centre, radius)
    return found


def exact(value: float) -> arb:
    """Return the ball of radius zero at a double."""
    return ball(value, 0)


def squared(value: arb) -> arb:
    """Return the square of a ball that may contain zero, for which ``**`` may give NaN."""
    return value * value


def centre_and_radius(interval: Interval) -> tuple[arb, arb]:
    """Return the centre and the radius of an interval."""
    low, high = map(exact, interval)
    return (low + high) / 2, (high - low) / 2


def upward(value: arb) -> float:
    """Return the least double that is certainly not below ``value``."""
    double = float(value.upper())
    if not math.isfinite(double):
        return math.inf
    # float() rounds to nearest, so its result may lie below the ball: step up until it does not.
    while not exact(double) >= value:
        double = math.nextafter(double, math.inf)
    return double


def downward(value: arb) -> float:
    """Return the greatest double that is certainly not above ``value``."""
    # Adding zero turns -0.0 into 0.0, which is what people expect to read.
    return 0.0 - upward(-value)


Values = Callable[["arb", "arb"], "arb"]
"""A ball with all values of a function on a cell, given the centre of the cell and its radius."""


def horizon(tail: Callable[[float], arb], start: float, cap: arb) -> float:
    """Return a point, not before ``start``, from which on a function is at most a cap."""
    end = start
    for _ in range(80):
        if tail(end) <= cap:
            return end
        end *= 1.25
    raise WorkLimitError(
        f"Not proven: what comes after {end:.3g} stays below {float(cap):.6g}, or falls too slowly."
    )


def prove_cap(values: Values, interval: Interval, cap: arb) -> None:
    """Prove that a function is at most a cap in an interval."""
    verify(lambda box: bool(values(*centre_and_radius(box[0])) <= cap), (interval,))


def verify(holds: Callable[[Box], bool], box: Box, limit: int = 400_000) -> None:
    """Prove a statement everywhere in ``box`` by halving it until it holds on each part.

    After so many boxes, about half a minute, the proof is given up.
    """
    # False means only that a part is too large to decide, so that it is halved.
    waiting = [box]
    for _ in range(limit):
        part = waiting.pop()
        if not holds(part):
            # The longest side is cut, and both halves contain the cut, so that no gap is left.
            side = max(range(len(part)), key=lambda i: part[i][1] - part[i][0])
            low, high = part[side]
            middle = 0.5 * (low + high)
            if not low < middle < high:
                raise WorkLimitError(
                    "The proof needs boxes finer than double precision; use a larger tolerance."
                )
            halves = ((low, middle), (middle, high))
            waiting += [(*part[:side], half, *part[side + 1 :]) for half in halves]
        if not waiting:
            return
    raise WorkLimitError(
        f"Not proven within {limit} boxes, near {waiting[-1]}; use a larger tolerance."
    )
