"""The limit of the risk as n and p grow together with p/n → c, for rows of any covariance.

For a filter f, p⁻¹ tr w(Σ) f(Σ̂) tends to an integral over one eigenvalue of Σ̂ = XᵀX/n, and
p⁻¹ tr w(Σ) f(Σ̂) Σ f(Σ̂) to an integral over two. The documentation derives both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.support.arrays import EPS, TINY, Array
from stoptime.support.checks import list_of_stops, nonnegative, positive_number
from stoptime.support.progress import progress, progress_shown
from stoptime.support.user_warnings import warn_user
from stoptime.theory import search
from stoptime.theory.limiting_spectrum import PANEL_NODES, Limit, Panels, Population, panels_for
from stoptime.theory.risk import RiskCurve, RiskModel, curve_of
from stoptime.theory.signals import PowerSignal, Target, target_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Covariance = tuple[ArrayLike, ArrayLike]
Signal = ArrayLike | PowerSignal

SMOOTH_PANEL = 1e-9  # last Legendre coefficient of a density on a panel, relative to the largest
LATEST_LIMIT_PHASE = 3e4  # t√x of the largest eigenvalue; later stops would need too many nodes
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
    signal: Signal,
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
    eigenvalues. "critical" damping and "auto" steps are those of the edges of the limit.

    Parameters
    ----------
    method, stops, noise
        As in :func:`stoptime.risk`.
    aspect : float
        The limit c of p/n, below, at or above one.
    signal : float, array-like of one number per eigenvalue, or PowerSignal
        A number is r² = E‖β₀‖², spread evenly over all directions. An array gives r² by the
        population eigenvalue: a coefficient in that direction has the variance r²/p.
        :func:`stoptime.power_signal` gives the i-th largest eigenvalue the energy :math:`i^{-b}`.
    covariance : pair of array-like, default=(1.0, 1.0)
        Eigenvalues of the covariance Σ of the rows, and how often each occurs, up to a factor.
    target : {"estimation", "prediction"}, default="estimation"
        "prediction" is at new rows, :math:`E(x^T(\hat\beta - \beta_0))^2`, less the noise itself;
        leave-one-out and path GCV converge to this plus the noise. For the identity both are equal.

    Examples
    --------
    >>> curve = limiting_risk("ridge", [0.1, 10.0], aspect=1.0, signal=1.0, noise=1.0)
    >>> round(curve.best, 6), round(curve.best_total, 6)
    (1.0, 0.618034)
    """
    population = population_of(covariance, aspect)
    t = list_of_stops(stops)
    model, check = _models(method, population, t, signal, noise, target)
    curve = curve_of(model, t)
    # With as many directions as rows, eigenvalues come so close to zero that the mean of 1/s is
    # infinite, and with it the variance of least squares; nodes would give a large number.
    unbounded = np.isinf(t) & (population.surplus == 0) & bool(model.variance_weight.any())
    return LimitCurve(t, curve.bias, np.where(unbounded, np.inf, curve.variance), model, check)


def limiting_naive_gcv(
    method: str | Method,
    stops: ArrayLike,
    *,
    aspect: float,
    signal: Signal,
    noise: float,
    covariance: Covariance = IDENTITY,
) -> Array:
    r"""Return the limit of :func:`naive_gcv`, which is right for ridge and wrong for other methods.

    .. math:: \frac{\int s g^2\,d\mu_{r^2} + \sigma^2(1 - c + c\int g^2\,d\mu_1)}
        {(1 - c\int (1 - g)\,d\mu_1)^2}

    The right value is the total of :func:`limiting_risk` with ``target="prediction"``, plus the
    noise: 6.2 in the example. The parameters are those of :func:`limiting_risk`; the value is
    infinite where every degree of freedom is used.

    Examples
    --------
    >>> known = {"aspect": 1.2, "signal": 5.0, "noise": 1.0}
    >>> limiting_naive_gcv("gradient-flow", [100.0], **known).round(1)
    array([32.8])
    """
    population = population_of(covariance, aspect)
    t = list_of_stops(stops)
    weights = np.stack([_energies(signal, population), np.ones(len(population.shares))])
    tuned, panels = _tuned_panels(method, population, t, weights, SMOOTH_PANEL)
    limit = Limit(population, *panels.points(PANEL_NODES))
    energy, count = (limit.single(w) for w in weights)
    count[0] = 0.0  # null directions are no degrees of freedom
    g = tuned.shrinkage(limit.eigenvalues[:, None], t)
    left = 1 - aspect * count @ (1 - g)
    error = (energy * limit.eigenvalues) @ g**2
    error += nonnegative("noise", noise) * (1 - aspect * count @ (1 - g**2))
    return np.where(left > PANEL_NODES * EPS, error / np.maximum(left, EPS) ** 2, np.inf)


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


def risk_curve_by_size(
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
    method, covariance, signal, noise, target
        As in :func:`limiting_risk`; the noise must be positive. Stops are searched up to 16 times
        the gain of the best ridge.
    n : array-like of shape (n_sizes,)
        Numbers of rows.
    n_features : float, optional
        The number p of features. By default there is one for each eigenvalue.
    verbose : bool, default=False
        Whether to show progress.

    Examples
    --------
    >>> from stoptime import power_signal
    >>> powers = (np.arange(1.0, 201) ** -1.5, np.ones(200))
    >>> curve = risk_curve_by_size("ridge", powers, power_signal(1), 0.1, n=[100, 400])
    >>> curve.risk.round(4), curve.exponents.round(2)
    (array([0.0256, 0.0103]), array([-0.66]))
    """
    sizes = np.array([positive_number("n", one) for one in np.atleast_1d(n).tolist()])
    given = population_of(covariance, 1.0).shares.size if n_features is None else n_features
    p = positive_number("n_features", given)
    positive_number("noise", noise)
    method = get_method(method)
    found = []
    with progress_shown(verbose):
        for size in progress(sizes.tolist(), "risk by size"):
            population = population_of(covariance, p / size)
            found.append(_least(method, population, (signal, noise, target)))
    return LearningCurve(method, sizes, *np.array(found).T)


def learning_curve(*arguments: Any, **options: Any) -> LearningCurve:
    """Return :func:`risk_curve_by_size`, by its former name."""
    warn_user(
        "learning_curve is now called risk_curve_by_size, and the old name goes with the next "
        "release: call st.risk_curve_by_size.",
        DeprecationWarning,
    )
    return risk_curve_by_size(*arguments, **options)


def _least(
    method: Method, population: Population, known: tuple[Signal, float, Target]
) -> tuple[float, float, float]:
    """Return the least risk, its stop, and the error of the integration."""
    ridge, _ = _models(Ridge(), population, np.zeros(1), *known)
    # a few penalties in each decade find the best ridge roughly
    gains = ridge.grid(0.0, np.inf)[:-1:10]
    lowest, highest = population.support
    gain = float(np.clip(gains[np.argmin(ridge.total(gains))], gains[1], 1 / max(lowest, TINY)))
    # the best stop of any method has about the gain of the best ridge
    tuned = _tuned_to_limit(method, population)
    first, last = (search.stop_with_gain(tuned, one * gain) for one in (1e-3, 16.0))
    # oscillations need nodes: later stops are not searched
    latest = LATEST_LIMIT_PHASE / max(_oscillation(tuned) * np.sqrt(highest), TINY)
    first, last = min(first, latest), min(last, latest, tuned.horizon)
    model, check = _models(method, population, np.array([last]), *known)
    # the search begins after the start, and ends before least squares
    ends = np.array([model.minimum(first, last)[0], 0.0, np.inf])
    totals = model.total(ends)
    least = int(np.argmin(totals))
    error = abs(check.total(ends[[least]])[0] - totals[least])
    return float(totals[least]), float(ends[least]), float(error)


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


def _energies(signal: Signal, population: Population) -> Array:
    """Return r² for each population eigenvalue."""
    if isinstance(signal, PowerSignal):
        # an eigenvalue without directions has no energy
        shares = np.where(population.shares > 0, population.shares, np.inf)
        return signal.coordinates(population.eigenvalues) ** 2 / shares
    r2 = nonnegative("signal", signal)
    if r2.ndim and r2.shape != population.shares.shape:
        raise ValueError(
            f"signal must be one number, or {len(population.shares)}, one per eigenvalue of the "
            f"covariance; got the shape {r2.shape}."
        )
    return np.broadcast_to(r2, population.shares.shape)


def _tuned_to_limit(method: str | Method, population: Population) -> Filter:
    """Return the method tuned to the edges of the limiting spectrum."""
    found = as_filter(get_method(method))
    if isinstance(found, SpectralCutoff):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            f"{found.name} counts eigenvalues, and in the limit there is no number."
        )
    lowest, highest = population.support
    return found.tuned_to([0.0 if population.has_null else lowest, highest])


def _oscillation(tuned: Filter) -> float:
    """Return the change of phase of g² with t√s, zero where g does not oscillate."""
    # the filters of first order are smooth on the scale of s itself, which panels resolve
    smooth = tuned.time_power == 1 or not (tuned.oscillates or tuned.whole_stops)
    return 0.0 if smooth else 2 * tuned.pace


def _tuned_panels(
    method: str | Method, population: Population, stops: Array, weights: Array, rough: float
) -> tuple[Filter, Panels]:
    """Return the tuned method, and panels that resolve its filters up to the last finite stop."""
    tuned = _tuned_to_limit(method, population)
    # oscillations that a damping has extinguished need no nodes
    visible = tuned.visible_until(EPS)[1] if tuned.oscillates else np.inf
    last = min(float(np.max(stops, initial=0, where=np.isfinite(stops))), visible)
    phase = _oscillation(tuned) * last * np.sqrt(population.support[1])
    if phase > LATEST_LIMIT_PHASE:
        latest = last * LATEST_LIMIT_PHASE / phase
        raise ValueError(f"stops must be at most {latest:.3g}, or inf for the limit; got {last:g}.")
    in_units = _oscillation(tuned) * last * np.sqrt(population.unit)
    return tuned, panels_for(population, in_units, weights, rough)


def _models(
    method: str | Method,
    population: Population,
    stops: Array,
    signal: Signal,
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
    # integrals over two eigenvalues have tables of all pairs, so that their panels are coarser
    rough = SMOOTH_PANEL if alike else 1e-4
    tuned, panels = _tuned_panels(method, population, stops, weights, rough)

    def model(n_nodes: int) -> RiskModel:
        limit = Limit(population, *panels.points(n_nodes))
        bias = limit.single(weights[0]) if alike else limit.paired(r2)
        return RiskModel(tuned, limit.eigenvalues, bias, level * limit.single(error))

    # the rule with fewer nodes states the error of the first
    return model(PANEL_NODES), model(11)
