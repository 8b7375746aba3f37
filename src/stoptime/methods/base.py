"""What a method is: a path through the data, and for most methods a filter of the eigenvalues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from stoptime.methods.special import piecewise
from stoptime.support.arrays import Array, Floats, slices
from stoptime.support.checks import nonnegative
from stoptime.support.wording import did_you_mean

Formula = Callable[[Array, Array], Array]
Complex = NDArray[np.complex128]
Check = Callable[[str, object], Any]
Checks = dict[str, Check]


@dataclass(frozen=True)
class Method(ABC):
    """A path from nothing learned towards least squares: parameters, and no data.

    Most methods are filters, see :class:`Filter`. The paths of conjugate gradients and of Adam
    depend on the response in a nonlinear way.
    """

    name: ClassVar[str]
    """The word by which :func:`stoptime.get_method` finds it."""
    time_power: ClassVar[int]
    """1 where the stop scales like 1/penalty, 2 where it scales like 1/sqrt(penalty)."""
    whole_stops: ClassVar[bool] = False
    """Whether stops are whole numbers, as for iterations."""
    stop_meaning: ClassVar[str] = "time of the flow"
    """What a stop is, for labels."""
    _checks: ClassVar[Checks] = {}
    """The check of each parameter, which returns it as a number or as a word that is allowed."""
    _automatic: ClassVar[dict[str, Callable[[Any, Array], float]]] = {}
    """The value of each parameter that may be "auto" or "critical", from the eigenvalues."""

    def __post_init__(self) -> None:
        for name, check in self._checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's
        """Return the parameters by their names, for searches of scikit-learn."""
        # what is not shown, such as the eigenvalues of spectral cut-off, comes from data
        return {one.name: getattr(self, one.name) for one in fields(self) if one.repr}

    def with_params(self, **params: Any) -> Self:
        """Return this method with other parameters; it is immutable itself."""
        known = self.get_params()
        for name in params.keys() - known.keys():
            hint = did_you_mean(name, known) or "."
            names = ", ".join(known) or "none"
            start = f'The method "{self.name}" has no parameter "{name}"'
            raise ValueError(f"{start}{hint} Its parameters: {names}.")
        return replace(self, **params)

    def __sklearn_clone__(self) -> Self:
        return self

    @property
    def horizon(self) -> float:
        """The latest stop that a search for the best stop looks at."""
        return np.inf

    @property
    def is_tuned(self) -> bool:
        """Whether no parameter, nor one of an inner method, is still to be computed."""
        values = vars(self).values()
        inner = all(value.is_tuned for value in values if isinstance(value, Method))
        return inner and not any(value in ("auto", "critical") for value in values)

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return this method with every "auto" or "critical" parameter computed for a spectrum."""
        s = nonnegative("eigenvalues", eigenvalues)
        tuned = self
        for name, formula in self._automatic.items():
            if isinstance(getattr(self, name), str):
                tuned = replace(tuned, **{name: formula(tuned, s)})
        return tuned

    def follow(self, s: Floats, z: Floats, stops: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Return the path in the eigenbasis, and the gains at the eigenvalues ``at``.

        Their shapes are (rank, n_stops, n_targets) and (len(at), n_stops, 1 or n_targets); the
        columns of ``z`` are the rotated responses of the targets.
        """
        return as_filter(self).follow(s, z, stops, at)  # which says what works instead


class Filter(Method):
    r"""A method that multiplies every eigendirection by a function of its eigenvalue and the stop.

    .. math:: \hat\beta(t) = V \varphi(S, t) z, \qquad \varphi(s, t) = (1 - g(s, t)) / s

    The shrinkage :math:`g` is the part not yet learned, and :math:`\varphi` is the gain. A new
    filter gives its ``name``, its ``time_power`` and the two formulas. The other members say what
    is known of it, and their defaults claim nothing: that it oscillates for ever, and is close to
    ridge on no spectrum.
    """

    oscillates: ClassVar[bool] = True
    """False only where the shrinkage falls monotonically to its limit in every direction."""
    scale_free: ClassVar[bool] = False
    """Whether g(s, t) depends on ts (power 1) or t²s (power 2) alone."""

    @property
    def universal_guarantee(self) -> bool:
        """Whether some stop is proven to be close to ridge on every spectrum."""
        return False

    @property
    def reaches_least_squares(self) -> bool:
        """Whether the path ends at least squares; False where it ends before, as with decay."""
        return True

    @property
    def pace(self) -> float:
        """Time of the flow for one unit of the stop; 1 for a flow itself."""
        return 1.0

    @abstractmethod
    def _shrinkage(self, s: Array, t: Array) -> Array:
        """Return g for finite s, t ≥ 0 of broadcastable shapes."""

    @abstractmethod
    def _gain(self, s: Array, t: Array) -> Array:
        """Return (1 - g)/s without cancellation; it is asked only where g exceeds one half."""

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at t = ∞: those of least squares, unless the path ends before."""
        return np.where(s > 0, 0.0, 1.0), 1 / s

    def shrinkage(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return g(s, t), the part of an eigendirection that is not yet learned.

        Eigenvalues ``s`` of XᵀX/n and stops ``t``, which may be ``inf``, are broadcast.
        """
        return evaluated(self, self._shrinkage, 0, s, t)

    def gain(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return φ(s, t) = (1 - g)/s, which multiplies the response in an eigendirection."""
        return _gain_beside(self, s, t, self.shrinkage(s, t))

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ of shape (n_eigenvalues, n_stops), for ``height`` stops at a time."""
        for part in slices(len(stops), height):
            g = self.shrinkage(s[:, None], stops[part])
            yield g, _gain_beside(self, s[:, None], stops[part], g)

    def follow(self, s: Floats, z: Floats, stops: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Return the path in the eigenbasis, and the gains at the eigenvalues ``at``."""
        gain = self.gain(s[:, None], stops)
        gains = gain if at is s else self.gain(at[:, None], stops)
        return gain[:, :, None] * z[:, None, :], gains[:, :, None]

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain over all eigenvalues; infinity before the method is tuned."""
        t = np.asarray(stop, np.float64)
        with np.errstate(over="ignore"):
            return (self._largest_gain(t) if self.is_tuned else np.full(t.shape, np.inf))[()]

    def _largest_gain(self, t: Array) -> Array:
        return self.gain(0.0, t)  # for most filters the largest one

    def in_units_of(self, penalty: float) -> Self:
        """Return this filter for eigenvalues divided by ``penalty``, with its time rescaled."""
        # the power of 1/s in the unit of each parameter that has one
        units = {"step": 1, "damping": -0.5, "strong_convexity": -1, "penalty": -1}
        units["weight_decay"] = -1
        scaled = {}
        for name, value in self.get_params().items():
            if isinstance(value, Filter):
                scaled[name] = value.in_units_of(penalty)
            elif name in units:
                scaled[name] = concrete(name, value) * penalty ** units[name]
        if not self.scale_free and not scaled:
            raise NotImplementedError(
                f"{type(self).__name__} must say how it scales: set scale_free = True if g depends "
                "on ts or t²s alone, or else define in_units_of(penalty)."
            )
        return replace(self, **scaled)

    def visible_until(self, level: float) -> tuple[float, float]:  # noqa: ARG002
        """Return a phase U and a time T: oscillations are below level where t√s > U or t > T."""
        return (np.inf, np.inf) if self.oscillates else (0.0, 0.0)


class Monotone(Filter):
    """A filter of ts or t²s that falls monotonically, with a proven guarantee on every spectrum."""

    oscillates: ClassVar[bool] = False
    scale_free: ClassVar[bool] = True
    universal_guarantee: ClassVar[bool] = True


def evaluated(method: Filter, formula: Formula, which: int, s: ArrayLike, t: ArrayLike) -> Array:
    """Apply a formula to checked arguments; where t is infinite, take one of the limits."""
    s = nonnegative("s", s)
    t = nonnegative("t", t, infinite=True)
    forever = np.isinf(t)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        if not forever.any():
            return np.asarray(formula(s, t))[()]
        found = formula(s, np.where(forever, 0.0, t))
        return np.where(forever, method.limits(s)[which], found)[()]


def _gain_beside(method: Filter, s: ArrayLike, t: ArrayLike, g: Array) -> Array:
    """Return φ where g is known."""

    def formula(s: Array, t: Array) -> Array:
        # 1 - g cancels only where g is near one: up to one half it is as accurate as g itself
        cases = [
            (g <= 0.5, lambda s, _, g: (1 - g) / s),
            (g > 0.5, lambda s, t, _: np.asarray(method._gain(s, t))),
        ]
        return piecewise(cases, s, t, g)

    return evaluated(method, formula, 1, s, t)


def settled_at(method: Filter, s: float, level: float) -> float:
    """Return a time from which on the shrinkage stays below level; infinity if not known."""
    phase = method.visible_until(level)[0] / np.sqrt(s)
    # damped oscillations decay fast, so that a tenth of the level is a cheap margin
    first = float(min(phase, method.visible_until(level / 10)[1]))
    if not method.reaches_least_squares or np.isinf(first):
        return np.inf
    if abs(method.shrinkage(s, first)) <= level:
        return first
    # Oscillations have ended, and what is left falls monotonically.
    last = max(first, float(s ** (-1 / method.time_power)))
    while abs(method.shrinkage(s, last)) > level:
        first, last = last, 2 * last
    excess = lambda t: abs(method.shrinkage(s, t)) - level  # noqa: E731
    return float(brentq(excess, first, last, xtol=1e-13 * last)) * (1 + 1e-12)


def as_filter(method: Method) -> Filter:
    """Return the method if it is a filter; otherwise raise a ValueError that says what works."""
    if isinstance(method, Filter):
        return method
    raise ValueError(
        f"{method} has no filter, because its path depends on the response in a nonlinear way: "
        "path(X, y, method, stops) works, but shrinkage, gain, risk, calibration, proven bounds "
        'and exact leave-one-out need a method with a fixed filter, such as "nesterov". Give the '
        "stop, or choose it: cv=5 and HoldOut(X_val, y_val) serve all methods; conjugate gradients "
        'have Discrepancy(noise), rule="ncp" and rule="l-curve" too; Adam and its relatives have '
        'rule="sure".'
    )


def unless(word: str | None, check: Check) -> Check:
    """Return a check that lets one word, or None, pass as it is."""

    def checked(name: str, value: object) -> Any:
        # an array compared with a word would be compared entry by entry
        allowed = value is None if word is None else isinstance(value, str) and value == word
        return value if allowed else check(name, value)

    return checked


def concrete(name: str, value: Any) -> Any:
    """Return a parameter as it is; refuse a word such as "auto", which needs a spectrum."""
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - the value is at fault: a word is legal
            f'{name}="{value}" depends on the spectrum: call tuned_to(eigenvalues), give the '
            "eigenvalues, or give a number."
        )
    return value


def longest_step(_: Method, s: Array) -> float:
    """Return 1/L, the automatic step."""
    largest = float(s.max(initial=0))
    return 1 / largest if largest > 0 else 1.0


def smallest_positive(method: Method, name: str, s: Array, least: float = 0.0) -> float:
    """Return the smallest eigenvalue if it exceeds ``least``; otherwise raise a ValueError."""
    smallest = float(s.min(initial=np.inf))
    if not least < smallest < np.inf:
        raise ValueError(
            f'{name}="{getattr(method, name)}" needs a positive smallest eigenvalue, but it is '
            f"{smallest:g}: a singular spectrum, or unknown as for sparse matrices and operators. "
            f"Give {name} as a number."
        )
    return smallest
