"""The certified constants, by method: what is asked is checked here, proven elsewhere, and remembered."""

from __future__ import annotations

from functools import lru_cache

from stoptime.bounds.balls import downward, exact, require_flint, upward, working_precision
from stoptime.bounds.enclosure import Enclosure
from stoptime.bounds.filters import BesselFilter, CosineFilter, GaussianFilter
from stoptime.bounds.heavy_ball import heavy_ball_inflation
from stoptime.bounds.inflation import inflation_at, least_inflation
from stoptime.bounds.parameter_error import cosine_filter_error, heavy_ball_error
from stoptime.methods import AcceleratedFlow, GradientFlow, HeavyBallFlow, Method, Ridge, get_method
from stoptime.methods.base import positive_number

TOLERANCE = 1e-10
HEAVY_BALL_TOLERANCE = 1e-3
CACHE_SIZE = 256
LARGEST_CONDITION = 1e7  # a cover of the heavy ball takes minutes there


def risk_inflation(
    method: str | Method,
    *,
    stop: float | None = None,
    condition_number: float | None = None,
    tolerance: float | None = None,
) -> Enclosure:
    r"""Enclose how much worse than oracle ridge a method can be on any spectrum.

    .. math:: C = \min_{\tau} \max_{x \ge 0}\ (1 + x) g^2 + \frac{(1 + x)(1 - g)^2}{x}

    with s = xλ* and t = τ/λ* (gradient flow) or τ/√λ* (accelerated flow), λ* the penalty of the Bayes-optimal
    ridge. For heavy-ball flow the stop may depend on μ/λ* = a², and

    .. math:: C(\kappa) = \max_{a > 0} \min_{\tau} \max_{a \le x \le a\sqrt\kappa}\
              (1 + x^2) g^2 + \frac{(1 + x^2)(1 - g)^2}{x^2}.

    The two ends are proven in ball arithmetic: see the page *Certificates* of the documentation.

    Parameters
    ----------
    method : Ridge, GradientFlow, AcceleratedFlow or HeavyBallFlow
        Accelerated flow needs friction ≥ 2; heavy-ball flow needs ``damping="critical"``.
    stop : float, optional
        The dimensionless τ at which to enclose the maximum over x; by default the best one.
        Not for heavy-ball flow.
    condition_number : float, optional
        κ ≥ 1. For heavy-ball flow only, and required there.
    tolerance : float, optional
        Largest width of the enclosure relative to the constant: 1e-10 by default, 1e-3 for heavy-ball flow.

    Returns
    -------
    Enclosure
        ``stop`` is the dimensionless τ; for heavy-ball flow, that of the worst a.

    Raises
    ------
    WorkLimitError
        When the tolerance asks for too much.

    Examples
    --------
    >>> from stoptime.methods import AcceleratedFlow
    >>> print(risk_inflation(AcceleratedFlow(), tolerance=1e-6))
    [1.59910940072, 1.5991...] at stop 1.75535

    References
    ----------
    Sheng, Ali (2022), Accelerated gradient flow: risk, stability, and implicit regularization.
    """
    require_flint()
    method = get_method(method)
    stop = None if stop is None else positive_number("stop", stop)
    if isinstance(method, HeavyBallFlow):
        if stop is not None:
            raise ValueError("stop is not for HeavyBallFlow: its best stop depends on the problem.")
        kappa = _condition_number(method, condition_number)
        return _heavy_ball_inflation(kappa, _tolerance(tolerance, HEAVY_BALL_TOLERANCE))
    if condition_number is not None:
        raise ValueError("condition_number is for HeavyBallFlow only.")
    if isinstance(method, Ridge):
        return _ridge_inflation(1.0 if stop is None else stop)
    if isinstance(method, AcceleratedFlow) and method.friction < 2:
        raise ValueError(
            f"No bound exists for friction {method.friction:g} < 2: the inflation is infinite, as the bias "
            "(1 + x)g² oscillates with an amplitude that grows like x^(1 - friction/2). Use friction ≥ 2."
        )
    return _flow_inflation(_cosine_filter(method), stop, _tolerance(tolerance, TOLERANCE))


def parameter_error(
    method: str | Method, *, calibration: float = 1.0, tolerance: float | None = None
) -> Enclosure:
    r"""Enclose how far a method's coefficients stray from those of ridge, at any stop and on any data.

    .. math:: \|\hat\beta(t) - \hat\beta^{ridge}(\lambda)\|^2 \le C\, \|\hat\beta^{ridge}(\lambda)\|^2, \qquad
              C = \sup_u \Big( c\,\frac{1 - g(u)}{u^2} - g(u) \Big)^2

    with λ = c/t² and u = t√s, or λ = c/t and u² = ts where stops scale like 1/λ (gradient flow, ridge).
    For heavy-ball flow the supremum is also over the damping.

    Parameters
    ----------
    method : Ridge, GradientFlow, AcceleratedFlow or HeavyBallFlow
        Any friction; heavy-ball flow needs ``damping="critical"``.
    calibration : float, default=1.0
        The c > 0 above; the paper has 1.
    tolerance : float, optional
        Largest width of the enclosure, relative where the constant exceeds 1; by default 1e-10.

    Returns
    -------
    Enclosure
        ``stop`` is the u (the ts where stops scale like 1/λ) at which the constant is nearly attained;
        0 means in the limit.

    Raises
    ------
    WorkLimitError
        When the tolerance asks for too much.

    Examples
    --------
    >>> from stoptime.methods import AcceleratedFlow
    >>> print(parameter_error(AcceleratedFlow()))  # 49/64
    [0.765625, 0.765625] at stop 0

    References
    ----------
    Sheng, Ali (2022), Accelerated gradient flow: risk, stability, and implicit regularization.
    """
    require_flint()
    method = get_method(method)
    c = positive_number("calibration", calibration)
    width = _tolerance(tolerance, TOLERANCE)
    if isinstance(method, Ridge):
        return _ridge_error(c)
    if isinstance(method, HeavyBallFlow):
        _require_critical(method)
        return _heavy_ball_error(c, width)
    return _flow_error(_cosine_filter(method), c, width)


def _tolerance(tolerance: float | None, default: float) -> float:
    return default if tolerance is None else positive_number("tolerance", tolerance)


def _cosine_filter(method: Method) -> CosineFilter:
    if isinstance(method, GradientFlow):
        return GaussianFilter()
    if isinstance(method, AcceleratedFlow):
        return BesselFilter(method.friction)
    raise TypeError(
        "Certified constants exist for Ridge, GradientFlow, AcceleratedFlow and HeavyBallFlow; "
        f"got {method!r}."
    )


def _require_critical(method: HeavyBallFlow) -> None:
    if method.damping != "critical":
        raise ValueError(
            'The bounds are those of damping="critical", the root of the smallest eigenvalue; '
            f"got damping={method.damping!r}."
        )


def _condition_number(method: HeavyBallFlow, condition_number: float | None) -> float:
    _require_critical(method)
    if condition_number is None:
        raise ValueError("The bound of HeavyBallFlow depends on the condition_number: give one.")
    kappa = positive_number("condition_number", condition_number)
    if not 1 <= kappa <= LARGEST_CONDITION:
        raise ValueError(
            f"condition_number must be between 1 and {LARGEST_CONDITION:g}; got {kappa!r}."
        )
    return kappa


@lru_cache(CACHE_SIZE)
def _flow_inflation(cosine_filter: CosineFilter, stop: float | None, tolerance: float) -> Enclosure:
    with working_precision():
        if stop is None:
            return least_inflation(cosine_filter, tolerance)
        return inflation_at(cosine_filter, stop, tolerance)


@lru_cache(CACHE_SIZE)
def _heavy_ball_inflation(kappa: float, tolerance: float) -> Enclosure:
    with working_precision():
        return heavy_ball_inflation(kappa, tolerance)


@lru_cache(CACHE_SIZE)
def _flow_error(cosine_filter: CosineFilter, calibration: float, tolerance: float) -> Enclosure:
    with working_precision():
        return cosine_filter_error(cosine_filter, calibration, tolerance)


@lru_cache(CACHE_SIZE)
def _heavy_ball_error(calibration: float, tolerance: float) -> Enclosure:
    with working_precision():
        return heavy_ball_error(calibration, tolerance)


def _ridge_inflation(stop: float) -> Enclosure:
    """Ridge with penalty λ*/τ: the inflation 1 + x(1 - τ)²/(1 + τx)² is largest at x = 1/τ."""
    with working_precision():
        tau = exact(stop)
        value = (1 + tau) ** 2 / (4 * tau)
        return Enclosure(downward(value), upward(value), stop)


def _ridge_error(calibration: float) -> Enclosure:
    """Ridge against ridge: c·φ - g = (c - 1)/(1 + ts) is largest in the limit ts → 0."""
    with working_precision():
        value = (exact(calibration) - 1) ** 2
        return Enclosure(downward(value), upward(value), 0.0)
