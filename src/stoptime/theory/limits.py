"""The limit of the risk as n and p grow together with p/n → c, for rows of any covariance.

For a filter f, p⁻¹ tr w(Σ) f(Σ̂) tends to an integral over one eigenvalue of Σ̂ = XᵀX/n, and
p⁻¹ tr w(Σ) f(Σ̂) Σ f(Σ̂) to an integral over two. The documentation derives both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.registry import get_method
from stoptime.support.arrays import EPS, Array
from stoptime.support.checks import list_of_stops, nonnegative, positive_number
from stoptime.theory.limiting_spectrum import PANEL_NODES, Limit, Population, panels_for
from stoptime.theory.risk import RiskCurve, RiskModel, Target, curve_of, target_weights

Covariance = tuple[ArrayLike, ArrayLike]

SMOOTH_PANEL = 1e-9  # last Legendre coefficient of a density on a panel, relative to the largest
LATEST_PHASE = 3e4  # t√x of the largest eigenvalue; later stops would need too many nodes
IDENTITY = (1.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class LimitCurve(RiskCurve):
    """The limit of a risk curve, with the error of the numerical integration."""

    check: RiskModel

    @cached_property
    def quadrature_error(self) -> Array:
        """The difference from the risk by a rule with fewer nodes, at every stop."""
        return np.abs(self.total - self.check.total(self.stops))


def marchenko_pastur(aspect: float, phase: float = 0.0) -> tuple[Array, Array]:
    r"""Return nodes and weights that integrate against the Marchenko-Pastur bulk, c = p/n.

    .. math:: \int h\,dF_c = \frac1{2\pi c}
        \int h(s) \sqrt{(s_+ - s)(s - s_-)}\,\frac{ds}s, \qquad s_\pm = (1 \pm \sqrt c)^2

    The weights sum to min(1, 1/c). For filters that oscillate like cos(t√s), ``phase`` is the
    largest t; it adds nodes.

    Examples
    --------
    >>> nodes, weights = marchenko_pastur(0.5)
    >>> round(float(weights.sum()), 12), round(float(weights @ nodes), 12)
    (1.0, 1.0)
    """
    population = population_of(IDENTITY, aspect)
    panels = panels_for(population, phase, np.ones((1, 1)), SMOOTH_PANEL)
    limit = Limit(population, *panels.points(PANEL_NODES))
    return limit.points.x, limit.single(np.ones(1))[1:]


def limiting_risk(
    method: str | Method,
    stops: ArrayLike,
    *,
    aspect: float,
    signal: ArrayLike,
    noise: float,
    covariance: Covariance = IDENTITY,
    target: Target = "estimation",
) -> LimitCurve:
    r"""Return the limit of the Bayes risk as n and p grow with p/n → c.

    .. math:: \int g^2\,d\mu_{r^2} + \sigma^2 c \int s\varphi^2\,d\mu_1 \quad\text{(estimation)},
        \qquad \int g^2\,d\mu_{r^2\tau} + \sigma^2 c \int s\varphi^2\,d\mu_\tau
        \quad\text{(prediction)}

    Here :math:`\mu_w` is the limit of :math:`p^{-1}\operatorname{tr} w(\Sigma) f(\hat\Sigma)`.
    Where the signal depends on the direction, the bias of prediction is an integral over two
    eigenvalues. Automatic parameters are those of the edges of the limit.

    Parameters
    ----------
    method, stops, noise
        As in :func:`stoptime.risk`.
    aspect : float
        The limit c of p/n, below, at or above one.
    signal : float, or array-like of one number per eigenvalue
        A number is r² = E‖β₀‖², spread evenly over all directions. An array gives r² by the
        population eigenvalue: a coefficient in that direction has the variance r²/p.
    covariance : pair of array-like, default=(1.0, 1.0)
        Eigenvalues of the covariance Σ of the rows, and how often each occurs, up to a factor.
    target : {"estimation", "prediction"}, default="estimation"
        "prediction" is at new rows, :math:`E(x^T(\hat\beta - \beta_0))^2`, without the noise, by
        which leave-one-out and path GCV exceed it.

    Examples
    --------
    >>> curve = limiting_risk("ridge", [0.1, 10.0], aspect=1.0, signal=1.0, noise=1.0)
    >>> round(curve.best, 6), round(curve.best_total, 6)
    (1.0, 0.618034)
    """
    population = population_of(covariance, aspect)
    t = list_of_stops(stops)
    tuned = _tuned(method, population)
    model, check = _models(tuned, population, t, signal, noise, target)
    curve = curve_of(model, t)
    # With as many directions as rows, eigenvalues come so close to zero that the mean of 1/s is
    # infinite, and with it the variance of least squares; nodes would give a large number.
    unbounded = np.isinf(t) & (population.surplus == 0) & bool(model.variance_weight.any())
    return LimitCurve(t, curve.bias, np.where(unbounded, np.inf, curve.variance), model, check)


def population_of(covariance: Covariance, aspect: float) -> Population:
    """Return the population of checked eigenvalues, with shares that sum to one."""
    try:
        eigenvalues, counts = covariance
    except (TypeError, ValueError):
        advice = "covariance must be a pair: eigenvalues, and how often each occurs"
        raise ValueError(f"{advice}; got {covariance!r}.") from None
    tau, weights = (np.atleast_1d(nonnegative("covariance", v)) for v in (eigenvalues, counts))
    if tau.ndim != 1 or tau.shape != weights.shape or not weights.any():
        raise ValueError(
            "covariance must be eigenvalues and as many weights, not all zero; got the shapes "
            f"{tau.shape} and {weights.shape}."
        )
    # in units of the largest eigenvalue, so that squares do not overflow
    unit = float(tau.max()) or 1.0
    shares = weights / weights.max()
    # beyond these aspects, rounding hides the bulk
    aspect = positive_number("aspect", aspect, low=1e-9, high=1e9)
    return Population(tau / unit, shares / shares.sum(), aspect, unit)


def _energies(signal: ArrayLike, population: Population) -> Array:
    """Return r² for each population eigenvalue."""
    r2 = nonnegative("signal", signal)
    if r2.ndim and r2.shape != population.shares.shape:
        raise ValueError(
            f"signal must be one number, or {len(population.shares)}, one per eigenvalue of the "
            f"covariance; got the shape {r2.shape}."
        )
    return np.broadcast_to(r2, population.shares.shape)


def _tuned(method: str | Method, population: Population) -> Filter:
    """Return the method tuned to the edges of the limiting spectrum."""
    found = as_filter(get_method(method))
    if isinstance(found, SpectralCutoff):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            f"{found.name} counts eigenvalues, and in the limit there is no number."
        )
    lowest, highest = population.support
    return found.tuned_to([0.0 if population.has_null else lowest, highest])


def _models(
    tuned: Filter,
    population: Population,
    stops: Array,
    signal: ArrayLike,
    noise: float,
    target: Target,
) -> tuple[RiskModel, RiskModel]:
    """Return the model of the limit up to the last of these stops, by a fine and a coarse rule."""
    level = float(nonnegative("noise", noise)) * population.aspect
    r2 = _energies(signal, population)
    tau = population.unit * population.eigenvalues
    error = target_weights(target, tau)
    # one eigenvalue is enough where Σ or the signal is the same in all directions
    alike = target == "estimation" or np.ptp(r2) == 0 or np.ptp(tau) == 0
    weights = np.stack([r2 * error if alike else r2, error])
    # filters of first order are smooth on the scale of s itself, which panels resolve
    smooth = tuned.time_power == 1 or not (tuned.oscillates or tuned.whole_stops)
    # oscillations that a damping has extinguished need no nodes
    visible = tuned.visible_until(EPS)[1] if tuned.oscillates else np.inf
    last = min(float(np.max(stops, initial=0, where=np.isfinite(stops))), visible)
    time = 0.0 if smooth else 2 * tuned.pace * last  # the phase of g² is this times √s
    phase = time * np.sqrt(population.support[1])
    if phase > LATEST_PHASE:
        latest = last * LATEST_PHASE / phase
        raise ValueError(f"stops must be at most {latest:.3g}, or inf for the limit; got {last:g}.")
    # integrals over two eigenvalues have tables of all pairs, so that their panels are coarser
    rough = SMOOTH_PANEL if alike else 1e-4
    panels = panels_for(population, time * np.sqrt(population.unit), weights, rough)

    def model(n_nodes: int) -> RiskModel:
        limit = Limit(population, *panels.points(n_nodes))
        bias = limit.single(weights[0]) if alike else limit.paired(r2)
        return RiskModel(tuned, limit.eigenvalues, bias, level * limit.single(error))

    # the rule with fewer nodes states the error of the first
    return model(PANEL_NODES), model(11)
