"""The base class of all methods: a formula with parameters, without data, and its properties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial, singledispatch
from importlib import import_module
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.support.arrays import Array, Floats, slices
from stoptime.support.checks import nonnegative
from stoptime.support.wording import did_you_mean

Formula = Callable[[Array, Array], Array]
Complex = NDArray[np.complex128]
Checks = dict[str, Callable[[str, object], Any]]


@dataclass(frozen=True)
class Method(ABC):
    r"""A path from nothing learned to least squares, as a filter of eigenvalues.

    .. math:: \hat\beta(t) = V \varphi(S, t) z, \qquad \varphi(s, t) = (1 - g(s, t)) / s

    The shrinkage :math:`g` is the part not yet learned, and :math:`\varphi` is the gain. A new
    method gives its ``name``, its ``order`` and the two formulas for finite non-negative arguments.
    Validation, broadcasting and the limit t = ∞ are done here. The other attributes say what a
    method can do; their defaults claim nothing, so that a new method is correct without them.
    """

    name: ClassVar[str]
    """The word by which :func:`stoptime.get_method` finds it."""
    order: ClassVar[int]
    """1 where the stop scales like 1/penalty, 2 where it scales like 1/sqrt(penalty)."""
    whole_stops: ClassVar[bool] = False
    """Whether stops are whole numbers, as for iterations."""
    has_filter: ClassVar[bool] = True
    """Whether g depends on eigenvalue and stop alone; False where it depends on the response."""
    sees_features: ClassVar[bool] = False
    """Whether the path depends on the features themselves, and not on the spectrum alone."""
    ends_at_least_squares: ClassVar[bool] = True
    """Whether the path has a limit at stop infinity, which is least squares."""
    finishes_at_rank: ClassVar[bool] = False
    """Whether as many steps as there are positive eigenvalues already give least squares."""
    exact_freedom: ClassVar[bool] = True
    """Whether degrees of freedom are the trace of the derivative of the fit by the response."""
    counts_eigenvalues: ClassVar[bool] = False
    """Whether g depends on how many eigenvalues are larger, and not on the eigenvalue alone."""
    oscillates: ClassVar[bool] = True
    """False only where the shrinkage falls monotonically to its limit in every direction."""
    oscillates_at_limit: ClassVar[bool] = False
    """Whether oscillations become faster as the step approaches the limit of convergence."""
    runs_steps: ClassVar[bool] = False
    """Whether a stop t costs t steps of a recurrence."""
    decouples: ClassVar[bool] = False
    """Whether a decay of the coefficients can be separated from the gradient."""
    scale_free: ClassVar[bool] = False
    """Whether g(s, t) depends on ts (order 1) or t²s (order 2) alone."""
    gcv_is_consistent: ClassVar[bool] = False
    """Whether generalised cross-validation with the degrees of freedom estimates the error."""
    qualification: ClassVar[float] = np.nan
    """The q with g ~ (λ/s)^q at large s, λ the equivalent penalty; NaN where it is not known."""
    stop_meaning: ClassVar[str] = "time of the flow"
    """What a stop is, for labels."""
    _checks: ClassVar[Checks] = {}
    """The check of each parameter, which returns it as a number; a default word stays as it is."""

    def __post_init__(self) -> None:
        for name, check in self._checks.items():
            if name not in self.__dataclass_fields__:
                continue
            value = getattr(self, name)
            default = getattr(type(self), name, 0.0)  # not every parameter has a default
            if isinstance(default, int | float) or value != default:
                object.__setattr__(self, name, check(name, value))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's
        """Return the parameters by their names, for searches of scikit-learn."""
        # what is not shown, such as the eigenvalues of spectral cut-off, comes from data
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init and one.repr}

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
    def is_smooth(self) -> bool:
        """Whether the shrinkage falls monotonically with s, as that of a flow without overshoot."""
        return not (self.oscillates or self.whole_stops or self.counts_eigenvalues)

    @property
    def universal_guarantee(self) -> bool:
        """Whether some stop is proven to be close to ridge on every spectrum."""
        return False

    @property
    def averages(self) -> tuple[str, ...]:
        """The kinds of averages along its path that :class:`stoptime.Averaged` can take."""
        return ()

    @property
    def reaches_least_squares(self) -> bool:
        """Whether the path ends at least squares; False where it ends before, as with decay."""
        return True

    @property
    def follows_flow(self) -> bool:
        """Whether late stops are those of :meth:`as_flow`; False for iterations with a schedule."""
        return True

    @property
    def pace(self) -> float:
        """Time of the flow for one unit of the stop; 1 for a flow itself."""
        return 1.0

    @property
    def horizon(self) -> float:
        """The latest stop that a search for the best stop looks at."""
        return np.inf

    @property
    def ends_at(self) -> float:
        """The stop from which on the path does not change."""
        return np.inf

    @property
    def largest_eigenvalue(self) -> float:
        """The smallest eigenvalue for which the method diverges."""
        return np.inf

    @property
    def possible_eigenvalues(self) -> tuple[float, float]:
        """The range of eigenvalues for which a calibration holds where no spectrum is given."""
        return 0.0, np.inf

    @property
    def counted(self) -> Array:
        """The positive eigenvalues that are counted, in ascending order; mostly none."""
        return np.empty(0)

    def require_filter(self) -> None:  # noqa: B027 - most methods have a filter
        """Raise a ValueError if the filter depends on the response."""

    @abstractmethod
    def _shrinkage(self, s: Array, t: Array) -> Array:
        """Return g for finite s, t ≥ 0 of broadcastable shapes."""

    @abstractmethod
    def _gain(self, s: Array, t: Array) -> Array:
        """Return (1 - g)/s for finite s, t ≥ 0 of broadcastable shapes, without cancellation."""

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:  # noqa: ARG002 - for methods that adapt
        """Return this method with every "auto" or "critical" parameter computed for a spectrum."""
        return self

    def tuned_without_rows(self, eigenvalues: ArrayLike, scale: float) -> Self:  # noqa: ARG002
        """Return this method tuned to converge if any row is removed: eigenvalues then grow."""
        return self.tuned_to(eigenvalues)

    @property
    def is_tuned(self) -> bool:
        """Whether every parameter is a number."""
        return not any(isinstance(value, str) for value in vars(self).values())

    def ridges(self, stops: Array) -> tuple[Any, Any] | None:  # noqa: ARG002 - for a few methods
        """Return penalties λ and weights ω with g = Re Σ ωλ/(λ + s), or None if there are none.

        Both have a column for every stop; of conjugate pairs only one is listed.
        """
        return None

    def mean_shrinkage(self, s: Array, first: Array, last: Array) -> Array:
        """Return the mean of g over the times from ``first`` to ``last``, for ``averages``."""
        raise NotImplementedError

    def mean_gain(self, s: Array, first: Array, last: Array) -> Array:
        """Return the mean of φ over the times from ``first`` to ``last``, for ``averages``."""
        raise NotImplementedError

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield the filters of one iteration after another, for methods that run steps."""
        raise NotImplementedError

    def check_convergence(self, largest: float) -> None:  # noqa: B027 - flows converge
        """Raise a ValueError if the method diverges for eigenvalues up to ``largest``."""

    def as_flow(self) -> Method:
        """Return the flow that this method follows, at time ``pace`` times the stop."""
        return self

    def in_units_of(self, penalty: float) -> Self:  # noqa: ARG002 - for methods with a time scale
        """Return this method for eigenvalues divided by ``penalty``, with its time rescaled."""
        return self

    def safer(self) -> Self | None:
        """Return the same method with a better guarantee for a few more steps, if there is one."""
        return None

    def visible_until(self, level: float) -> tuple[float, float]:  # noqa: ARG002
        """Return a phase U and a time T: oscillations are below level where t√s > U or t > T."""
        return 0.0, 0.0

    def settled_at(self, s: float, level: float) -> float:
        """Return a time from which on the shrinkage stays below level, for s > 0."""
        # Ridge is the slowest of the methods that do not oscillate: this is its time.
        return float((1 / level - 1) / s)

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain φ(s, t) over all eigenvalues, at every stop."""
        if not (self.is_tuned and self.has_filter):
            return np.full(np.shape(stop), np.inf)[()]  # the bound depends on the data
        with np.errstate(over="ignore"):
            return (self.pace * np.asarray(stop, np.float64)) ** self.order

    def largest_gain_for(self, s: Floats, z: Floats, stop: float) -> float:  # noqa: ARG002
        """Return the same bound for these eigenvalues and responses, a column for each target."""
        return float(self.largest_gain(stop))

    def shrinkage(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return g(s, t): the part of an eigendirection that is not yet learned.

        Both arguments are non-negative numbers or arrays, which are broadcast: ``s`` has finite
        eigenvalues of XᵀX/n, and ``t`` has stops, where ``inf`` means the limit.
        """
        return self._evaluate(self._shrinkage, s, t, 0)

    def gain(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return φ(s, t) = (1 - g)/s, which multiplies the response in an eigendirection.

        The arguments are those of :meth:`shrinkage`. It is finite at s = 0 for every finite t.
        """
        return self._evaluate(self._gain, s, t, 1)

    def _limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at t = ∞: those of least squares."""
        return np.where(s > 0, 0.0, 1.0), 1 / s

    def _evaluate(self, formula: Formula, s: ArrayLike, t: ArrayLike, limit: int) -> Array:
        """Apply ``formula`` to checked arguments; where t is infinite, take one of the limits."""
        s = nonnegative("s", s)
        t = np.minimum(nonnegative("t", t, infinite=True), self.ends_at)
        forever = np.isinf(t)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            if not forever.any():
                return np.asarray(formula(s, t))[()]
            found = formula(s, np.where(forever, 0.0, t))
            return np.where(forever, self._limits(s)[limit], found)[()]

    def gain_of_spectra(self, s: Array, others: Array, stops: Array) -> Array:  # noqa: ARG002
        """Return φ of shape (n, rank, n_stops) for n spectra, those of the data without a row.

        ``s`` has shape (n, rank); ``others`` are further eigenvalues of each spectrum, for methods
        that count them.
        """
        return self.gain(s[..., None], stops)

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ of shape (n_eigenvalues, n_stops), for ``height`` stops at a time."""
        for part in slices(len(stops), height):
            yield self.shrinkage(s[:, None], stops[part]), self.gain(s[:, None], stops[part])

    def follow(self, s: Floats, z: Floats, stops: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Return the path in the eigenbasis, and the gains at the eigenvalues ``at``.

        Their shapes are (rank, n_stops, n_targets) and (len(at), n_stops, 1 or n_targets).
        """
        gain = self.gain(s[:, None], stops)
        gains = gain if at is s else self.gain(at[:, None], stops)
        return gain[:, :, None] * z[:, None, :], gains[:, :, None]

    def freedom_work(self, n_features: int, stop: float) -> float:  # noqa: ARG002
        """Return how many operations degrees of freedom take beyond those of the path."""
        return 0.0

    def unlearned(self, s: Floats, energy: Floats, stops: Floats) -> Floats:
        """Return Σ g²·energy, what the training error can still lose, (n_stops, n_targets)."""
        return (self.shrinkage(s[:, None], stops) ** 2).T @ energy

    def gain_for(self, s: Floats, z: Floats, stop: float) -> Callable[[Floats], Array]:  # noqa: ARG002
        """Return the gain at one stop for one response, or its size, as a function of s."""
        return partial(self.gain, t=stop)


class WithoutFilter(Method):
    """An iteration that depends on the response, so that no filter of eigenvalues describes it."""

    whole_stops: ClassVar[bool] = True
    has_filter: ClassVar[bool] = False
    stop_meaning: ClassVar[str] = "iterations"

    @abstractmethod
    def require_filter(self) -> NoReturn:
        """Refuse, and say what works without a filter."""

    @property
    def pace(self) -> float:
        """Refused: the iterations follow no flow."""
        self.require_filter()

    def _shrinkage(self, s: Array, t: Array) -> Array:  # noqa: ARG002 - refused whatever they are
        self.require_filter()

    _gain = _shrinkage


@singledispatch
def discretise(flow: Method, step: float) -> Any:
    """Return the iteration that follows a flow; the module of the iterations registers each."""
    # Public names are imported when they are first used, so that module may not be loaded yet.
    import_module("stoptime.methods.iterations")
    registered = discretise.dispatch(type(flow))
    if registered is discretise.dispatch(object):
        raise TypeError(f"{flow} is not the limit of any iteration.")
    return registered(flow, step)


def concrete(name: str, value: float | str) -> float:
    """Return a parameter as a number; refuse a word such as "auto", which needs a spectrum."""
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - the value is at fault: a word is legal
            f'{name}="{value}" depends on the spectrum: call tuned_to(eigenvalues), or give a '
            "number."
        )
    return value


def smallest_positive(method: Method, name: str, s: Array, least: float, example: float) -> float:
    """Return the smallest eigenvalue if it exceeds ``least``; otherwise raise a ValueError."""
    smallest = float(s.min(initial=np.inf))
    if not least < smallest < np.inf:
        found = f"{smallest:g}, a singular spectrum"
        if not smallest:  # eigenvalues that a Krylov space does not know are stored as zero
            found += ", or unknown as for sparse matrices and operators"
        raise ValueError(
            f'{name}="{getattr(method, name)}" needs a positive smallest eigenvalue, but it is '
            f"{found}: give a number, for example {type(method).__name__}({name}={example})."
        )
    return smallest
