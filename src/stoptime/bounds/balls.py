"""Ball arithmetic: numbers with a proven error, and branch and bound on top of them.

python-flint is imported on first use. Its working precision is global to the process;
:func:`working_precision` holds a lock while it is changed and restores it afterwards, so certificates
of several threads run one after another. Other threads that use flint meanwhile see the changed precision.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from stoptime.bounds.enclosure import WorkLimitError

if TYPE_CHECKING:
    from flint import arb

PRECISION = 128
"""Bits; some forty of them may cancel in (1 - g)/u² and still leave more than a double."""

WORK_LIMIT = 400_000
"""Boxes examined before a proof is given up: about half a minute."""

Interval = tuple[float, float]
Box = tuple[Interval, ...]

_precision_lock = threading.RLock()


def require_flint() -> ModuleType:
    """Return python-flint, or say how to install it."""
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


def exact(value: float) -> arb:
    """Return the ball of radius zero at a double."""
    ball: arb = require_flint().arb(value)
    return ball


def hull(interval: Interval) -> arb:
    """Return a ball that contains the interval."""
    return exact(interval[0]).union(exact(interval[1]))


def symmetric(radius: arb) -> arb:
    """Return a ball that contains [-radius, radius]."""
    return (-radius).union(radius)


def centre_and_radius(interval: Interval) -> tuple[arb, arb]:
    """Return the centre and the radius of an interval."""
    low, high = exact(interval[0]), exact(interval[1])
    return (low + high) / 2, (high - low) / 2


def centred(centre_value: arb, slope: arb, radius: arb) -> arb:
    """Return the mean-value form: the values within ``radius`` of the centre, given all slopes there."""
    return centre_value + symmetric((abs(slope) * radius).upper())


def upward(value: arb) -> float:
    """Return the least double that is certainly not below ``value``."""
    double = float(value.upper())
    if not math.isfinite(double):
        return math.inf
    while not exact(double) >= value:
        double = math.nextafter(double, math.inf)
    return double


def downward(value: arb) -> float:
    """Return the greatest double that is certainly not above ``value``."""
    return -upward(-value)


def halves(box: Box) -> tuple[Box, Box]:
    """Cut a box across its longest side; the halves share the cut, so they leave no gap."""
    side = max(range(len(box)), key=lambda i: box[i][1] - box[i][0])
    low, high = box[side]
    middle = 0.5 * (low + high)
    if not low < middle < high:
        raise WorkLimitError(
            "The proof asks for boxes finer than double precision; use a larger tolerance."
        )
    before, after = box[:side], box[side + 1 :]
    return (*before, (low, middle), *after), (*before, (middle, high), *after)


@dataclass(frozen=True)
class Bracket:
    """A value the function certainly reaches at one point of a box, and a cap on all its values there."""

    attained: float
    cap: float
    box: Box


def supremum(
    bracket: Callable[[Box], Bracket],
    box: Box,
    *,
    known: Bracket,
    tolerance: float,
    work_limit: int = WORK_LIMIT,
) -> Bracket:
    """Enclose the supremum of a function over ``box`` and whatever ``known`` stands for.

    The box with the highest cap is always the next to be halved, until that cap exceeds what is attained by
    no more than ``tolerance`` (relative where the supremum exceeds 1).

    Parameters
    ----------
    bracket : callable
        Maps a box to its :class:`Bracket`.
    box : Box
        Where to look.
    known : Bracket
        A value known to be attained somewhere, and a cap on the values outside ``box``.
    tolerance : float
        Largest acceptable cap - attained.
    work_limit : int
        Boxes examined before :class:`WorkLimitError`.

    Returns
    -------
    Bracket
        attained ≤ supremum ≤ cap, and the box whose centre attains the first.
    """
    best = known
    queue: list[tuple[float, int, Bracket]] = []
    waiting: tuple[Box, ...] = (box,)
    for examined in range(0, work_limit, 2):
        for i, part in enumerate(waiting):
            found = bracket(part)
            best = max(best, found, key=lambda b: b.attained)
            heapq.heappush(queue, (-found.cap, examined + i, found))
        worst = queue[0][2]
        cap = max(worst.cap, known.cap)
        if cap - best.attained <= tolerance * max(1.0, best.attained):
            return Bracket(best.attained, cap, best.box)
        if worst.cap < known.cap:
            break  # nothing inside matters any more, and the outside cannot be improved here
        heapq.heappop(queue)
        waiting = halves(worst.box)
    raise WorkLimitError(
        f"The supremum is only known to lie in [{best.attained!r}, {cap!r}]; ask for a larger "
        f"tolerance than {tolerance:g}."
    )


def verify(
    holds: Callable[[Box], bool], boxes: Iterable[Box], *, work_limit: int = WORK_LIMIT
) -> int:
    """Prove a statement everywhere in ``boxes`` by halving each box until it holds on every part.

    Returns the number of boxes examined; raises :class:`WorkLimitError` when that passes ``work_limit``.
    """
    waiting = list(boxes)
    examined = 0
    while waiting:
        box = waiting.pop()
        examined += 1
        if examined > work_limit:
            raise WorkLimitError(
                f"Not proven within {work_limit} boxes, near {box}; ask for a larger tolerance."
            )
        if not holds(box):
            waiting.extend(halves(box))
    return examined
