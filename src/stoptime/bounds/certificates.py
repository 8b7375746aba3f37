"""The certified constants: arguments are checked here, and proofs are looked up by method."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from stoptime.bounds.balls import Enclosure, require_flint, working_precision
from stoptime.bounds.filters import BesselFilter, GaussianFilter, MaternFilter, PowerFilter
from stoptime.bounds.heavy_ball import heavy_ball_error, heavy_ball_inflation
from stoptime.bounds.one_variable import flow_error, flow_inflation, ridge_error, ridge_inflation
from stoptime.methods.base import Method
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import IteratedRidge, Ridge
from stoptime.support.checks import positive_number

FLOW_TOLERANCE = 1e-10
HEAVY_BALL_TOLERANCE = 1e-3
LARGEST_CONDITION = 1e7  # proving the constant of heavy-ball flow takes minutes there


def risk_inflation(
    method: str | Method,
    *,
    stop: float | None = None,
    condition_number: float | None = None,
    tolerance: float | None = None,
) -> Enclosure:
    r"""Enclose the largest ratio of a method's risk to the risk of oracle ridge, on any spectrum.

    .. math:: C = \min_{\tau} \max_{x \ge 0}\ (1 + x) g^2 + \frac{(1 + x)(1 - g)^2}{x}

    with s = xλ* and t = τ/λ* (gradient flow, iterated ridge) or τ/√λ* (accelerated and critically
    damped flow), λ* the penalty of the Bayes-optimal ridge. The ``stop`` of the enclosure is the
    best τ; for heavy-ball flow that of the worst a, because the stop may depend on μ/λ* = a², and

    .. math:: C(\kappa) = \max_{a > 0} \min_{\tau} \max_{a \le x \le a\sqrt\kappa}\
              (1 + x^2) g^2 + \frac{(1 + x^2)(1 - g)^2}{x^2}.

    Parameters
    ----------
    method : Ridge, IteratedRidge, GradientFlow, AcceleratedFlow, CriticalFlow or HeavyBallFlow
        Accelerated flow needs friction ≥ 2; heavy-ball flow needs ``damping="critical"``.
    stop : float, optional
        The dimensionless τ at which to enclose the maximum over x; by default the best one.
        Heavy-ball flow does not take it.
    condition_number : float, optional
        κ ≥ 1. Heavy-ball flow requires it, and no other method takes it.
    tolerance : float, optional
        Largest width of the enclosure relative to the constant: 1e-10 by default, 1e-3 for
        heavy-ball flow. If the proof would need too much work, WorkLimitError is raised.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> print(risk_inflation(AcceleratedFlow(), tolerance=1e-6))
    [1.59910940072, 1.5991...] at stop 1.75535
    """
    method, proofs = _proofs_of(method)
    argument: float | None = None
    if proofs.by_condition_number:
        if stop is not None:
            raise ValueError("HeavyBallFlow takes no stop: its best stop depends on the problem.")
        argument = _checked_condition_number(condition_number)
    elif condition_number is not None:
        raise ValueError("condition_number is for HeavyBallFlow only.")
    elif stop is not None:
        argument = positive_number("stop", stop)
    width = positive_number("tolerance", proofs.tolerance if tolerance is None else tolerance)
    return _proven(proofs.inflation, *proofs.filter(method), argument, width)


def parameter_error(
    method: str | Method, *, calibration: float = 1.0, tolerance: float | None = None
) -> Enclosure:
    r"""Enclose the largest distance of a method's coefficients from ridge's, at any stop.

    .. math:: \|\hat\beta(t) - \hat\beta^{ridge}(\lambda)\|^2
              \le C\, \|\hat\beta^{ridge}(\lambda)\|^2, \qquad
              C = \sup_u \Big( c\,\frac{1 - g(u)}{u^2} - g(u) \Big)^2

    with λ = c/t² and u = t√s, or λ = c/t and u² = ts where stops scale like 1/λ (gradient flow,
    ridge, once or iterated). The bound holds for any data. For heavy-ball flow the supremum is also
    over the damping. The ``stop`` of the enclosure is the u (or ts) where the constant is nearly
    attained; 0 means in the limit.

    Parameters
    ----------
    method : Ridge, IteratedRidge, GradientFlow, AcceleratedFlow, CriticalFlow or HeavyBallFlow
        Any friction; heavy-ball flow needs ``damping="critical"``.
    calibration : float, default=1.0
        The c > 0 above; the paper has 1.
    tolerance : float, optional
        See :func:`risk_inflation`; always 1e-10 by default, relative if the constant exceeds 1.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> print(parameter_error(AcceleratedFlow()))  # 49/64
    [0.765625, 0.765625] at stop 0
    """
    method, proofs = _proofs_of(method)
    c = positive_number("calibration", calibration)
    width = positive_number("tolerance", FLOW_TOLERANCE if tolerance is None else tolerance)
    return _proven(proofs.error, *proofs.filter(method), c, width)


class Proofs(NamedTuple):
    """How the constants of one kind of method are proven."""

    filter: Callable[[Any], tuple[Any, ...]]  # the first arguments of both proofs, by method
    inflation: Callable[..., Enclosure]  # next arguments: stop or condition number, and tolerance
    error: Callable[..., Enclosure]  # next arguments: calibration and tolerance
    tolerance: float = FLOW_TOLERANCE
    by_condition_number: bool = False


def _proofs_of(method: str | Method) -> tuple[Method, Proofs]:
    require_flint()
    method = get_method(method)
    # Its own oracle, ridge, has constants in closed form: no search finds a maximum of D = 0.
    if method == IteratedRidge(times=1):
        method = Ridge()
    # The exact type counts: a subclass may have another shrinkage, to which no proof applies.
    if type(method) not in PROOFS:
        names = ", ".join(cls.__name__ for cls in PROOFS)
        raise TypeError(f"Certified constants exist for {names}; got {method!r}.")
    return method, PROOFS[type(method)]


@lru_cache(maxsize=256)
def _proven(proof: Callable[..., Enclosure], *arguments: Any) -> Enclosure:
    with working_precision():
        return proof(*arguments)


def _checked_condition_number(value: float | None) -> float:
    if value is None or not 1 <= positive_number("condition_number", value) <= LARGEST_CONDITION:
        raise ValueError(
            "The bound of HeavyBallFlow depends on the condition_number: give a number between 1 "
            f"and {LARGEST_CONDITION:g}; got {value!r}."
        )
    return float(value)


def _accelerated_inflation(found: BesselFilter, stop: float | None, tolerance: float) -> Enclosure:
    if found.friction < 2:
        raise ValueError(
            f"No bound exists for friction {found.friction:g} < 2: the inflation is infinite, as "
            "the oscillation of the bias grows with the eigenvalue. Use friction ≥ 2."
        )
    return flow_inflation(found, stop, tolerance)


def _critical_damping(method: HeavyBallFlow) -> tuple[()]:
    if method.damping != "critical":
        raise ValueError(
            'The bounds hold for damping="critical", the root of the smallest eigenvalue; '
            f"got damping={method.damping!r}."
        )
    return ()


# One entry for each method with certificates.
PROOFS: dict[type[Method], Proofs] = {
    Ridge: Proofs(lambda _: (), ridge_inflation, ridge_error),
    GradientFlow: Proofs(lambda _: (GaussianFilter(),), flow_inflation, flow_error),
    AcceleratedFlow: Proofs(
        lambda method: (BesselFilter(method.friction),), _accelerated_inflation, flow_error
    ),
    CriticalFlow: Proofs(lambda _: (MaternFilter(),), flow_inflation, flow_error),
    IteratedRidge: Proofs(lambda method: (PowerFilter(method.times),), flow_inflation, flow_error),
    HeavyBallFlow: Proofs(
        _critical_damping, heavy_ball_inflation, heavy_ball_error, HEAVY_BALL_TOLERANCE, True
    ),
}
