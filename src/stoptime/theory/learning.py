"""Learning curves: the least limiting risk of a method and its best stop against the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.support.arrays import TINY
from stoptime.support.checks import positive_number
from stoptime.support.progress import progress
from stoptime.theory import search
from stoptime.theory.limits import (
    LATEST_LIMIT_PHASE,
    limit_models,
    oscillation,
    population_of,
    tuned_to_limit,
)
from stoptime.theory.risk import FIRST_PHASE, LAST_PHASE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from stoptime.methods.base import Method
    from stoptime.support.arrays import Array
    from stoptime.theory.limiting_spectrum import Population
    from stoptime.theory.limits import Covariance
    from stoptime.theory.risk import RiskModel
    from stoptime.theory.signals import PowerSignal, Target

FIRST_SHARE = 1e-3  # of the gain of the best ridge, at which the search for the best stop begins
SEARCH_GROWTH = 4.0  # factor by which the search goes on where the best stop is its last
SCALE_PER_DECADE = 6  # stops that find the least risk roughly
LAST_STOPS = 0.99  # of the last stop: a best stop beyond is at the end of the search


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """The least risk and the stop that attains it, for each number of rows."""

    method: Method
    n: Array
    risk: Array
    stop: Array
    quadrature_error: Array
    """The difference between this risk and that of a rule with fewer nodes."""

    @property
    def exponents(self) -> Array:
        """The powers of n with which the risk falls, between each number of rows and the next."""
        return np.diff(np.log(self.risk)) / np.diff(np.log(self.n))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the least risk against the number of rows."""
        from stoptime.support import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.learning([self], ax=ax)

    def __repr__(self) -> str:
        ends = f"risk {self.risk[0]:.4g} to {self.risk[-1]:.4g}"
        return f"LearningCurve({self.method}, n from {self.n[0]:g} to {self.n[-1]:g}, {ends})"


def learning_curve(
    method: str | Method,
    covariance: Covariance,
    signal: ArrayLike | PowerSignal,
    noise: float,
    *,
    n: ArrayLike,
    n_features: float | None = None,
    target: Target = "prediction",
    verbose: bool = False,
) -> LearningCurve:
    r"""Return the least limiting risk of a method and its best stop, for each number of rows.

    With p features, n rows have the risk of :func:`limiting_risk` at the aspect p/n, whose error
    falls like a power of n. For eigenvalues :math:`i^{-a}` and ``signal=power_signal(b)`` the risk
    falls with the power of n that :func:`risk_exponent` gives (the capacity condition is a, the
    source condition b), as long as the last eigenvalues are not yet learned.

    Parameters
    ----------
    method : Method or str
        The method; its stops up to a phase t√s of 30 000 are searched.
    covariance : pair of array-like
        Eigenvalues of the covariance of the rows, and how often each occurs, up to a factor.
    signal, noise : as for :func:`limiting_risk`
        The noise must be positive.
    n : array-like of shape (n_sizes,)
        Numbers of rows.
    n_features : float, optional
        The number p of features. By default there is one for each eigenvalue.
    target : {"prediction", "estimation"}, default="prediction"
        The risk; see :func:`limiting_risk`.
    verbose : bool, default=False
        Whether to show progress.

    Examples
    --------
    >>> from stoptime import power_signal
    >>> powers = np.arange(1.0, 201) ** -1.5
    >>> curve = learning_curve("ridge", (powers, np.ones(200)), power_signal(1), 0.1, n=[100, 400])
    >>> curve.risk.round(4), curve.exponents.round(2)
    (array([0.0256, 0.0103]), array([-0.66]))
    """
    sizes = np.array([positive_number("n", one) for one in np.atleast_1d(n)])
    p = positive_number("n_features", np.size(covariance[0]) if n_features is None else n_features)
    positive_number("noise", noise)
    method = get_method(method)
    found = [
        _Problem(population_of(covariance, p / size), signal, noise, target).least(method)
        for size in progress(sizes.tolist(), "Learning curve", verbose)
    ]
    stop, risk, error = np.array(found).T
    return LearningCurve(method, sizes, risk, stop, error)


@dataclass(frozen=True)
class _Problem:
    """A limiting problem in which methods are stopped where their risk is least."""

    population: Population
    signal: ArrayLike | PowerSignal
    noise: float
    target: Target

    def models(self, method: Method, last: float) -> tuple[RiskModel, RiskModel]:
        """Return the model of the limit by a fine rule and by a coarse one."""
        known = (self.signal, self.noise, self.target)
        return limit_models(method, self.population, last, *known)

    def least(self, method: Method) -> tuple[float, float, float]:
        """Return the best stop, its risk, and the error of the integration."""
        tuned = tuned_to_limit(method, self.population)
        rate = oscillation(tuned)
        model, check = self.models(Ridge() if rate else method, 0.0)
        stops = self._scale(model.method)
        place = int(np.argmin(model.total(stops)))
        first, last = stops[max(place - 1, 0)], stops[min(place + 1, len(stops) - 1)]
        if rate:
            # oscillations need nodes, so that only stops around the best ridge are searched
            latest = LATEST_LIMIT_PHASE / (rate * np.sqrt(self.population.support[1]))
            first, last = self._range(tuned, stops[place], latest)
            model, check = self.models(method, last)
            while model.minimum(first, last)[0] > LAST_STOPS * last and last < latest:
                last = min(SEARCH_GROWTH * last, latest)
                model, check = self.models(method, last)
        # the search may begin after nothing is learned, and end before least squares
        ends = np.array([model.minimum(first, last)[0], 0.0, np.inf])
        totals = model.total(ends)
        best = int(np.argmin(totals))
        error = abs(check.total(ends[[best]])[0] - totals[best])
        return float(ends[best]), float(totals[best]), float(error)

    def _scale(self, tuned: Method) -> Array:
        """Return stops from nothing learned to everything learned, a few for each decade."""
        power = 1 / tuned.order
        lowest, highest = self.population.support
        begin = FIRST_PHASE / highest**power / tuned.pace
        end = LAST_PHASE / max(lowest, TINY) ** power / tuned.pace
        stops = np.geomspace(begin, end, int(SCALE_PER_DECADE * np.log10(end / begin)) + 2)
        return np.unique(np.ceil(stops)) if tuned.whole_stops else stops

    def _range(self, tuned: Method, gain: float, latest: float) -> tuple[float, float]:
        """Return the first and the last stop around the one with the gain of the best ridge."""
        first = search.stop_with_gain(tuned, FIRST_SHARE * gain)
        last = search.stop_with_gain(tuned, SEARCH_GROWTH * gain)
        return min(first, latest), min(last, latest)
