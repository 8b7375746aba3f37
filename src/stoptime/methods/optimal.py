"""The iteration with the best guarantee against ridge that k products can have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from stoptime.methods.base import Checks, unless
from stoptime.methods.flows import AcceleratedFlow
from stoptime.methods.recurrence import STEP_ROUNDING, Coefficients, Recurrence, iterates
from stoptime.support.arrays import EPS, Array
from stoptime.support.checks import positive_number


@dataclass(frozen=True)
class OptimalIteration(Recurrence):
    r"""The iteration whose every iterate has the least guaranteed risk of so many products with X.

    .. math:: (s + \lambda)\,\varphi(s, k) = 1 - \frac{W_k(1 - 2s/L)}{W_k(1 + 2\lambda/L)}, \qquad
        W_k(\cos\theta) = \frac{\sin((k + 1/2)\theta)}{\sin(\theta/2)}

    with Chebyshev polynomials W of the fourth kind and the step 1/L. If λ is the best penalty,
    then iterate k has at most coth²((2k + 1)·arsinh√(λ/L)) times the Bayes risk of the best ridge,
    for all eigenvalues up to L. No other polynomial of the same degree has a smaller bound
    (:func:`stoptime.bounds.price_of_products`). The path ends at ridge with penalty λ, and not at
    least squares. It is Chebyshev's iteration for the equations of ridge, with the polynomial that
    is best for the risk. As λ falls to zero it becomes the ν-method with ν = 1/2.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The 1/L above; "auto" is the reciprocal of the largest eigenvalue. The iteration diverges
        for eigenvalues above L + λ. It takes no schedule.
    penalty : float
        The λ above, of the ridge that the path approaches.

    Examples
    --------
    >>> from stoptime import guarantee
    >>> method = OptimalIteration(step=1.0, penalty=0.01)
    >>> round(guarantee(method.in_units_of(0.01), 5).inflation, 4)
    1.5631
    """

    step: float | str = "auto"
    penalty: float = field(kw_only=True)
    name: ClassVar[str] = "optimal-iteration"
    follows_flow: ClassVar[bool] = False
    reaches_least_squares: ClassVar[bool] = False
    _checks: ClassVar[Checks] = {
        "step": unless("auto", positive_number),
        "penalty": positive_number,
    }

    @property
    def limit(self) -> float:
        """The smallest εs for which the iteration diverges: 1 + ελ."""
        return 1 + max(self.epsilon * self.penalty, STEP_ROUNDING)

    @property
    def pace(self) -> float:
        """The time of one iteration, 2√ε, as for the ν-method."""
        return 2 * super().pace

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at: from there on the iterate is that of ridge."""
        if not self.is_tuned:
            return super().horizon
        return min(super().horizon, float(np.ceil(np.log(2 / EPS) / (2 * self._rate))))

    @property
    def _rate(self) -> float:
        """The θ with sinh θ = √(ελ): the distance from ridge falls like exp(-2θk)."""
        return float(np.arcsinh(np.sqrt(self.epsilon * self.penalty)))

    def _ratio(self, k: int) -> float:
        """Return W_k/W_{k+1} at 1 + 2ελ, which is sinh((2k + 1)θ)/sinh((2k + 3)θ)."""
        theta = self._rate
        # both sines would overflow, so the growing exponential is divided out
        falls = np.expm1(-2 * (2 * k + 1) * theta) / np.expm1(-2 * (2 * k + 3) * theta)
        return float(np.exp(-2 * theta) * falls)

    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k, whose gradient is that of ridge."""
        ratio = self._ratio(k - 1)
        momentum = ratio * self._ratio(k - 2) if k > 1 else 0.0
        return Coefficients(momentum, 0.0, 4 * ratio)

    def as_flow(self) -> AcceleratedFlow:
        """Return a flow that oscillates as fast; only with penalty 0 the iterates follow it."""
        return AcceleratedFlow(2.0)

    def in_units_of(self, penalty: float) -> Self:
        """Return the iteration for eigenvalues, and a penalty, that are divided by ``penalty``."""
        return replace(super().in_units_of(penalty), penalty=self.penalty / penalty)

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        total = s + self.penalty
        run = iterates(self.update, self.epsilon * total, start)
        # the recurrence gives the residual of the equations of ridge, a part of the shrinkage
        return (np.where(start == 1, (self.penalty + s * value) / total, value) for value in run)

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ of ridge."""
        total = s + self.penalty
        return self.penalty / total, 1 / total
