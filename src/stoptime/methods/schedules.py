r"""Schedules: a step, or a momentum, that changes from iteration to iteration.

A schedule is a formula for the iterations k = 1, 2, ... of one run; after its ``total`` iterations
it keeps its last value. Steps are absolute, like torch's ``lr``, for the loss
:math:`\|y - X\beta\|^2/(2n)`. Warm-up is linear, :math:`\mathrm{peak}\cdot k/(w + 1)` for the first
w iterations, as ``LinearLR(start_factor=1/(w + 1), total_iters=w)`` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number, whole_number

LONGEST_SEARCH = 20_000  # iterations among which a stop is looked for; users may ask for more


class Schedule:
    """A number for each iteration: a frozen dataclass, which is comparable and printable.

    A new schedule gives ``peak``, ``total``, its formula and, if it has one, its ``warmup``.
    """

    peak: float
    total: int
    """The number of iterations that the schedule is made for."""
    warmup: int = 0

    def _formula(self, j: Array) -> Array:
        """Return the values j = 0, 1, ... iterations after the warm-up, up to its last one."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        positive_number("peak", self.peak)
        whole_number("warmup", self.warmup)
        if self.warmup >= whole_number("total", self.total, least=1):
            raise ValueError(f"warmup must be less than total; got {self!r}.")
        _ = self.values  # a schedule that has no values is refused at once

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The values of all iterations until the last value is reached, which stays."""
        rising = self.peak * (np.arange(1.0, self.warmup + 1) / (self.warmup + 1))
        after = self._formula(np.arange(self.total - self.warmup + 1.0))
        found = nonnegative("The values of a schedule", np.append(rising, after))
        return tuple(found.tolist())

    def _remaining(self, j: Array) -> Array:
        """Return the share of the iterations after the warm-up that is still to come."""
        return 1 - j / (self.total - self.warmup)

    def __call__(self, k: int) -> float:
        """Return the value at iteration k = 1, 2, ..."""
        return self.values[min(k, len(self.values)) - 1]

    @cached_property
    def largest(self) -> float:
        """The largest value."""
        return max(self.values)

    @cached_property
    def mean(self) -> float:
        """The mean over the iterations of the schedule."""
        return float(np.mean(self.values))

    @property
    def length(self) -> float:
        """The iterations of a run that ends with the schedule; infinity where it can go on."""
        # a thousandth of the largest step moves little more
        return self.total if self.values[-1] <= 1e-3 * self.largest else np.inf

    def __str__(self) -> str:
        return f"{type(self).__name__} up to {self.largest:.3g}"

    def __mul__(self, factor: float) -> Schedule:
        levels = {name: getattr(self, name, None) for name in ("peak", "start", "end")}
        scaled = {name: factor * one for name, one in levels.items() if one is not None}
        return cast("Schedule", replace(cast("Any", self), **scaled))


@dataclass(frozen=True)
class Constant(Schedule):
    """One value after the warm-up.

    >>> [round(Constant(0.4, warmup=3)(k), 6) for k in (1, 2, 3, 4, 5)]
    [0.1, 0.2, 0.3, 0.4, 0.4]
    """

    peak: float
    warmup: int = 0
    total: int = LONGEST_SEARCH

    def _formula(self, j: Array) -> Array:
        return np.full_like(j, self.peak)


@dataclass(frozen=True)
class StepDecay(Schedule):
    """A fall by a ``factor`` after every so many iterations: torch's ``StepLR``.

    The schedule is zero from where it has fallen below 10⁻²⁰ of its peak, which no longer changes
    any float.

    >>> [StepDecay(peak=1.0, every=10, factor=0.5)(k) for k in (1, 10, 11, 21)]
    [1.0, 1.0, 0.5, 0.25]
    """

    peak: float
    every: int
    factor: float = 0.1
    warmup: int = 0
    total: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positive_number("factor", self.factor, high=1.0)
        drops = int(np.ceil(np.log(1e-20) / np.log(self.factor)))
        length = whole_number("every", self.every, least=1) * drops
        object.__setattr__(self, "total", whole_number("warmup", self.warmup) + length)
        super().__post_init__()

    def _formula(self, j: Array) -> Array:
        shares = self.factor ** (j // self.every)
        return self.peak * np.where(j < self.total - self.warmup, shares, 0.0)


@dataclass(frozen=True)
class Linear(Schedule):
    """A straight line from ``peak`` to ``end``, which may be larger: torch's ``LinearLR``.

    >>> [Linear(peak=0.1, total=4, end=0.02)(k) for k in (1, 3, 5, 9)]
    [0.1, 0.06, 0.02, 0.02]
    """

    peak: float
    total: int
    end: float = 0.0
    warmup: int = 0

    def _formula(self, j: Array) -> Array:
        return self.end + (self.peak - self.end) * self._remaining(j)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """A power of the remaining share of the iterations: torch's ``PolynomialLR``.

    >>> [Polynomial(peak=1.0, total=4, power=2.0)(k) for k in (1, 2, 3, 5)]
    [1.0, 0.5625, 0.25, 0.0]
    """

    peak: float
    total: int
    power: float = 2.0
    end: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        positive_number("power", self.power)
        super().__post_init__()

    def _formula(self, j: Array) -> Array:
        return np.asarray(self.end + (self.peak - self.end) * self._remaining(j) ** self.power)


@dataclass(frozen=True)
class Cosine(Schedule):
    r"""Half a period of a cosine from ``peak`` to ``end``: torch's ``CosineAnnealingLR``.

    .. math:: \varepsilon_k = e + (p - e)\,\frac{1 + \cos(\pi j/T)}2, \qquad j = k - 1

    With warm-up, j and T do not count its iterations; ``total`` does.

    >>> [round(Cosine(peak=0.1, total=1000, warmup=50)(k), 6) for k in (1, 51, 526, 1001)]
    [0.001961, 0.1, 0.05, 0.0]
    """

    peak: float
    total: int
    end: float = 0.0
    warmup: int = 0

    def _formula(self, j: Array) -> Array:
        share = _half_wave(j / (self.total - self.warmup))
        return self.end + (self.peak - self.end) * share


@dataclass(frozen=True)
class OneCycle(Schedule):
    """From ``start`` up to ``peak`` and down to ``end``, along cosines: torch's ``OneCycleLR``.

    ``rise`` is the share of the iterations before the peak. By default the start is peak/25 and the
    end is start/10⁴. The momentum of the same cycle goes down and up; that of torch is
    ``OneCycle(peak=0.85, total=total, start=0.95, end=0.95)``.

    >>> [round(OneCycle(peak=1.0, total=101)(k), 6) for k in (1, 101, 500)]
    [0.04, 4e-06, 4e-06]
    """

    peak: float
    total: int
    rise: float = 0.3
    start: float | None = None
    end: float | None = None

    def __post_init__(self) -> None:
        positive_number("rise", self.rise, high=1.0)
        if self.rise * whole_number("total", self.total, least=2) <= 1:
            raise ValueError(f"rise·total must exceed one iteration; got {self!r}.")
        super().__post_init__()

    def _formula(self, j: Array) -> Array:
        start = self.peak / 25 if self.start is None else self.start
        end = start / 1e4 if self.end is None else self.end
        # the peak of torch lies between two iterations
        j = np.minimum(j, self.total - 1)
        top = self.rise * self.total - 1
        up = self.peak + (start - self.peak) * _half_wave(j / top)
        down = end + (self.peak - end) * _half_wave((j - top) / (self.total - 1 - top))
        return np.where(j <= top, up, down)


@dataclass(frozen=True)
class Listed(Schedule):
    """Given values, of which the last one stays; a function in place of a step becomes its values.

    >>> Listed((0.3, 0.2, 0.1))(7)
    0.1
    >>> Listed.of(lambda k: 0.5 / k, total=100)(2)
    0.25
    """

    given: tuple[float, ...]
    total: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = nonnegative("The values of a schedule", self.given)
        if values.ndim != 1 or not values.any():
            raise ValueError(
                f"A schedule needs a list of values, not all of them zero; got {self.given!r}."
            )
        object.__setattr__(self, "given", tuple(values.tolist()))
        object.__setattr__(self, "total", len(self.given))
        super().__post_init__()

    @classmethod
    def of(cls, function: Callable[[int], float], total: int = LONGEST_SEARCH) -> Listed:
        """Return the values of a function at the iterations k = 1, 2, ..., ``total``."""
        values = []
        for k in range(1, whole_number("total", total, least=1) + 1):
            value = np.asarray(function(k))
            # checked one by one, because a message with all values would be of no use
            if value.ndim or not np.issubdtype(value.dtype, np.number):
                raise ValueError(f"A schedule must give a number; at k = {k} it gives {value!r}.")
            values.append(float(value))
        return cls(tuple(values))

    @property
    def peak(self) -> float:  # type: ignore[override]
        """The largest value."""
        return max(self.given)

    def _formula(self, j: Array) -> Array:
        return np.append(self.given, self.given[-1:])[: len(j)]

    def __mul__(self, factor: float) -> Schedule:
        return Listed(tuple(factor * value for value in self.given))

    def __repr__(self) -> str:
        few = [f"{value:.4g}" for value in self.given]
        shown = few if len(few) <= 6 else [*few[:3], "...", *few[-2:]]
        return f"Listed(({', '.join(shown)}), {self.total} values)"


def _half_wave(x: Array) -> Array:
    """Return half a period of a cosine, which falls from 1 at x = 0 to 0 at x = 1."""
    # a squared cosine is exactly one at the start, and has no cancellation near the end
    return np.where(x < 1, np.cos(np.pi * x / 2) ** 2, 0.0)


def scheduled(check: Callable[[str, object], float]) -> Callable[[str, object], float | Schedule]:
    """Return a check that lets schedules and functions pass if it lets all their values pass."""

    def checked(name: str, value: object) -> float | Schedule:
        if not callable(value):
            return check(name, value)
        schedule = value if isinstance(value, Schedule) else Listed.of(value)
        # a step may be zero for a while; the check of a single step refuses zero
        check(name, schedule.largest)
        return schedule

    return checked


def at(value: float | Schedule, k: int) -> float:
    """Return the value of a schedule at iteration k; a number is the same at all of them."""
    return value(k) if isinstance(value, Schedule) else value


def largest_value(value: float | Schedule) -> float:
    """Return the largest value of a schedule; a number is the same at all iterations."""
    return value.largest if isinstance(value, Schedule) else float(value)


SCHEDULES: dict[str, type[Schedule]] = {
    cls.__name__: cls for cls in (Constant, StepDecay, Linear, Polynomial, Cosine, OneCycle, Listed)
}
"""The schedules that can be written to a file, by their names."""
__all__ = ["Schedule", *SCHEDULES]  # noqa: PLE0604 - the documented names
