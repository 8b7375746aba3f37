"""Learning curves: the least limiting risk of a method and its best stop against the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.support.arrays import TINY, Array
from stoptime.support.checks import positive_number
from stoptime.support.progress import progress
from stoptime.theory import limits, search
from stoptime.theory.limiting_spectrum import Population
from stoptime.theory.limits import Covariance, Signal
from stoptime.theory.signals import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEARCHED_GAINS = (1e-3, 16.0)  # of oscillating methods, in units of the gain of the best ridge
FIRST_STOPS = 10  # every so many stops of the grid are looked at first


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """The least risk and the stop that attains it, for each number of rows."""

    method: Method
    n: Array
    risk: Array
    stop: Array
    quadrature_error: Array
    """The difference from the risk by a rule with fewer nodes."""

    @property
    def exponents(self) -> Array:
        """The powers of n with which the risk falls, between each number of rows and the next."""
        return np.diff(np.log(self.risk)) / np.diff(np.log(self.n))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the least risk against the number of rows."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.learning([self], ax=ax)

    def __repr__(self) -> str:
        ends = f"risk {self.risk[0]:.4g} to {self.risk[-1]:.4g}"
        return f"LearningCurve({self.method}, n from {self.n[0]:g} to {self.n[-1]:g}, {ends})"


def learning_curve(
    method: str | Method,
    covariance: Covariance,
    signal: Signal,
    noise: float,
    *,
    n: ArrayLike,
    n_features: float | None = None,
    target: Target = "prediction",
    verbose: bool = False,
) -> LearningCurve:
    r"""Return the least limiting risk of a method and its best stop, for each number of rows.

    The risk of n rows is that of :func:`limiting_risk` at the aspect p/n. For eigenvalues
    :math:`i^{-a}` (the capacity condition) and ``signal=power_signal(b)`` (the source condition) it
    falls with the power of n that :func:`risk_exponent` gives, until the last eigenvalues matter.

    Parameters
    ----------
    method, covariance, signal, noise, target : as for :func:`limiting_risk`
        The noise must be positive. Oscillating methods are searched up to 16 times the gain of the
        best ridge.
    n : array-like of shape (n_sizes,)
        Numbers of rows.
    n_features : float, optional
        The number p of features. By default there is one for each eigenvalue.
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
    sizes = np.array([positive_number("n", one) for one in np.atleast_1d(n).tolist()])
    given = limits.population_of(covariance, 1.0).shares.size if n_features is None else n_features
    p = positive_number("n_features", given)
    positive_number("noise", noise)
    method = get_method(method)
    found = []
    for size in progress(sizes.tolist(), "learning curve", verbose):
        population = limits.population_of(covariance, p / size)
        found.append(_least(method, population, (signal, noise, target)))
    return LearningCurve(method, sizes, *np.array(found).T)


def _least(
    method: Method, population: Population, known: tuple[Signal, float, Target]
) -> tuple[float, float, float]:
    """Return the least risk, its stop, and the error of the integration."""
    tuned = limits.tuned_to_limit(method, population)
    rate = limits.oscillation(tuned)
    model, check = limits.limit_models(Ridge() if rate else method, population, np.zeros(1), *known)
    # a few stops in each decade find the least risk roughly
    stops = model.grid(0.0, model.method.horizon)[::FIRST_STOPS]
    stops = np.unique(np.ceil(stops)) if model.method.whole_stops else stops
    best = int(np.argmin(model.total(stops)))
    first, last = stops[[max(best - 1, 0), min(best + 1, len(stops) - 1)]]
    if rate:
        # oscillations need nodes, so that only stops around that of the best ridge are searched
        lowest, highest = population.support
        gain = min(max(stops[best], stops[1]), 1 / max(lowest, TINY))
        first, last = (search.stop_with_gain(tuned, one * gain) for one in SEARCHED_GAINS)
        latest = limits.LATEST_LIMIT_PHASE / (rate * np.sqrt(highest))
        first, last = min(first, latest), min(last, latest, tuned.horizon)
        model, check = limits.limit_models(method, population, np.array([last]), *known)
    # the search may begin after the start, and end before least squares
    ends = np.array([model.minimum(first, last)[0], 0.0, np.inf])
    totals = model.total(ends)
    least = int(np.argmin(totals))
    error = abs(check.total(ends[[least]])[0] - totals[least])
    return float(totals[least]), float(ends[least]), float(error)
