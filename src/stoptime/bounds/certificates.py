"""The certified constants: arguments are checked here, and proofs are looked up by method."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from importlib.util import find_spec
from typing import Any, NamedTuple

from stoptime.methods.base import as_filter

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, Interval, WorkLimitError, downward, exact, inflation_between, require_flint, upward,
    working_precision,
)  # fmt: skip
from stoptime.bounds.adaptive import flow_ratio
from stoptime.bounds.adaptive_heavy_ball import heavy_ball_ratio
from stoptime.bounds.adaptive_iterations import iteration_ratio
from stoptime.bounds.every_step import AnyIterates, every_step_inflation, step_inflation

from stoptime.bounds.filters import (  # isort: skip
    BesselFilter, ButterworthFilter, GaussianFilter, MaternFilter, PowerFilter,
)  # fmt: skip
from stoptime.bounds.heavy_ball import (  # isort: skip
    heavy_ball_error, heavy_ball_inflation, heavy_ball_variance,
)  # fmt: skip
from stoptime.bounds.iterates import Iterates
from stoptime.bounds.loops import LONGEST_LOOP, HeavyBallIterates, loop_excess

from stoptime.bounds.one_variable import (  # isort: skip
    flow_bias, flow_error, flow_inflation, flow_variance, ridge_error, ridge_inflation, ridge_ratio,
)  # fmt: skip
from stoptime.methods.base import Method
from stoptime.methods.butterworth import Butterworth
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import Recurrence
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import IteratedRidge, Ridge
from stoptime.support.checks import positive_number, whole_number

FLOW_TOLERANCE = 1e-10
HEAVY_BALL_TOLERANCE = 1e-6
ITERATION_TOLERANCE = 1e-4
PLAN_TOLERANCE = 1e-5
ADAPTIVE_TOLERANCE = 1e-4
COARSE_ADAPTIVE_TOLERANCE = 1e-3  # of heavy-ball flow and of iterations
LARGEST_CONDITION = 1e7  # proving the constant of heavy-ball flow takes minutes there


def risk_inflation(
    method: str | Method,
    *,
    stop: float | None = None,
    condition_number: float | None = None,
    largest_step: float | None = None,
    adaptive: bool = False,
    tolerance: float | None = None,
) -> Enclosure:
    r"""Enclose the largest ratio of a method's risk to the risk of oracle ridge, on any spectrum.

    There are two readings. By default one stop serves all spectra, as in a plan that is made before
    the data are seen. With ``adaptive=True`` the stop is the best one for each spectrum, as if it
    were tuned on the data: this is the ratio that the paper's theorems bound,

    .. math:: \sup_{\text{spectra}} \frac{\inf_t R(t)}{\inf_\lambda R^{ridge}(\lambda)}
              = \min_{\nu} \max_{x \ge 0} \sum_j \nu_j F(x, \tau_j), \qquad
              F = (1 + x) g^2 + \frac{(1 + x)(1 - g)^2}{x},

    with a minimum over mixtures ν of stops. The result is then an
    :class:`~stoptime.bounds.AdaptiveEnclosure`, which has the mixture that proves the upper end and
    the spectrum that proves the lower one. F is the ratio of risks in one eigendirection, so that
    both readings hold for estimation, for prediction in sample, and for prediction at new rows of
    any covariance. With one stop for all spectra,

    .. math:: C = \min_{\tau} \max_{x \ge 0}\ (1 + x) g^2 + \frac{(1 + x)(1 - g)^2}{x}

    with s = xλ* and t = τ/λ* (gradient flow, iterated ridge) or τ/√λ* (accelerated and critically
    damped flow), λ* the penalty of the Bayes-optimal ridge. The ``stop`` of the enclosure is the
    best τ; for heavy-ball flow that of the worst a, because the stop may depend on μ/λ* = a², and

    .. math:: C(\kappa) = \max_{a > 0} \min_{\tau} \max_{a \le x \le a\sqrt\kappa}\
              (1 + x^2) g^2 + \frac{(1 + x^2)(1 - g)^2}{x^2}.

    For an iteration the stop is the best whole number k, and the eigenvalues go up to 1/ε. Its
    step is that of the method in units of 1/λ*, the number ελ*; ``step="auto"`` stands for the
    worst of all steps, as a whole number of steps may fit badly. The ``stop`` is the best k at that
    step, and infinite where short steps are the worst ones.

    Parameters
    ----------
    method : Ridge, IteratedRidge, a flow, GradientDescent, Nesterov, NuMethod or HeavyBall
        Accelerated flow and Nesterov's method need friction ≥ 2, the ν-method ν ≥ 1/2; heavy-ball
        flow needs ``damping="critical"``, and the heavy ball a given momentum: its constant grows
        without bound as the momentum tends to 1.
    stop : float, optional
        The dimensionless τ, or the iteration of a method with a given step, at which to enclose the
        maximum over x; by default the best one. Heavy-ball flow does not take it.
    condition_number : float, optional
        κ ≥ 1. Heavy-ball flow requires it, and no other method takes it.
    largest_step : float, optional
        For iterations with ``step="auto"``: an upper bound of ελ*. Long steps are worse.
    adaptive : bool, default=False
        Whether the stop may depend on the spectrum. Heavy-ball flow then needs a condition number
        of at most 2000, and an iteration needs a step.
    tolerance : float, optional
        Largest width of the enclosure relative to the constant: 1e-10 by default, 1e-4 for
        iterations, and 1e-6 for heavy-ball flow; if adaptive, 1e-4, and 1e-3 for iterations and
        heavy-ball flow. If the proof would need too much work, WorkLimitError is raised.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> print(risk_inflation(AcceleratedFlow(), tolerance=1e-6))
    [1.59910940072, 1.5991...] at stop 1.75535
    >>> print(risk_inflation(AcceleratedFlow(), adaptive=True))
    [1.2675..., 1.2676...] with the stop chosen for each spectrum
    >>> from stoptime import Nesterov
    >>> print(risk_inflation(Nesterov(step=0.01)))  # at most 1.234 for the step 0.01/λ*
    [1.2338..., 1.2339...] at stop 13
    """
    method, proofs = _proofs_of(method)
    if adaptive:
        return _adaptive(method, proofs, condition_number, tolerance, (stop, largest_step))
    if largest_step is not None and (not proofs.by_step or method.is_tuned):
        raise ValueError('largest_step is for iterations with step="auto" only.')
    argument: float | None = None
    if proofs.by_condition_number:
        if stop is not None:
            name = type(method).__name__
            raise ValueError(f"{name} takes no stop: its best stop depends on the problem.")
        argument = _checked_condition_number(condition_number)
    elif condition_number is not None:
        raise ValueError("condition_number is for HeavyBallFlow only.")
    elif proofs.by_step:
        argument = _checked_step_or_stop(method, largest_step, stop)
    elif stop is not None:
        argument = positive_number("stop", stop)
    width = positive_number("tolerance", proofs.tolerance if tolerance is None else tolerance)
    return _proven(proofs.inflation, *proofs.filter(method), argument, width)


def _adaptive(
    method: Method,
    proofs: Proofs,
    condition_number: float | None,
    tolerance: float | None,
    given: tuple[float | None, ...],
) -> Enclosure:
    """Enclose the ratio in which the stop may depend on the spectrum."""
    if any(one is not None for one in given):
        raise ValueError("With adaptive=True the stop depends on the spectrum: give none.")
    if proofs.ratio is None:
        raise ValueError(f"No adaptive constant of {method} is proven.")
    if proofs.by_step and not method.is_tuned:
        raise ValueError(
            "The adaptive constant of an iteration needs a step: give the number ελ*, for example "
            f"{type(method).__name__}(step=0.01)."
        )
    argument = None
    if proofs.by_condition_number:
        argument = _checked_condition_number(condition_number)
    elif condition_number is not None:
        raise ValueError("condition_number is for HeavyBallFlow only.")
    coarse = proofs.by_step or proofs.by_condition_number
    width = COARSE_ADAPTIVE_TOLERANCE if coarse else ADAPTIVE_TOLERANCE
    width = positive_number("tolerance", width if tolerance is None else tolerance)
    return _proven(proofs.ratio, *proofs.filter(method), argument, width)


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
    if proofs.error is None:
        names = ", ".join(cls.__name__ for cls, one in PROOFS.items() if one.error is not None)
        raise TypeError(f"The parameter error is certified for {names}; got {method!r}.")
    c = positive_number("calibration", calibration)
    width = positive_number("tolerance", FLOW_TOLERANCE if tolerance is None else tolerance)
    return _proven(proofs.error, *proofs.filter(method), c, width)


def variance_coupling(method: str | Method, *, tolerance: float = FLOW_TOLERANCE) -> Enclosure:
    r"""Enclose the largest variance over that of ridge, at any stop and on any spectrum.

    .. math:: \mathrm{Var}(t) \le C_2\, \mathrm{Var}^{ridge}(\lambda), \qquad
              C_2 = \sup_u \Big( \frac{(1 + u^2)(1 - g(u))}{u^2} \Big)^2

    with λ = 1/t² and u = t√s, or λ = 1/t and u² = ts where stops scale like 1/λ. Of the two
    inequalities in Section 3.3 of the paper this one holds: the variance of accelerated flow never
    exceeds that of ridge by more than a factor. It holds in each direction, so for estimation and
    for prediction. For heavy-ball flow the supremum is also over the damping.

    Parameters
    ----------
    method : Ridge, IteratedRidge, Butterworth, or a flow
        Any friction; heavy-ball flow needs ``damping="critical"``.
    tolerance : float, default=1e-10
        See :func:`risk_inflation`.

    Examples
    --------
    >>> print(variance_coupling("nesterov-flow"))
    [1.38363..., 1.38363...] at stop 5.00...
    """
    return _coupling(method, tolerance, flow_variance, heavy_ball_variance)


def bias_coupling(method: str | Method, *, tolerance: float = FLOW_TOLERANCE) -> Enclosure:
    r"""Enclose the largest squared bias over that of ridge, at any stop and on any spectrum.

    .. math:: C_1 = \sup_u\ (1 + u^2)^2 g(u)^2

    with λ and u as in :func:`variance_coupling`. There is none for the paper's flows, and a
    ValueError says why: the bias of accelerated flow exceeds every multiple of ridge's bias at some
    eigenvalue (:func:`coupling_counterexample`). With friction of at least 4 there is one.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> print(bias_coupling(AcceleratedFlow(5), tolerance=1e-6))
    [18.7172..., 18.7172...] at stop 2.928...
    """
    return _coupling(method, tolerance, flow_bias, _no_bias_coupling)


def _coupling(
    method: str | Method,
    tolerance: float,
    flow: Callable[..., Enclosure],
    heavy_ball: Callable[..., Enclosure],
) -> Enclosure:
    method, proofs = _proofs_of(method)
    if proofs.error is None:
        raise TypeError(f"Couplings are proven for ridge and for flows; got {method!r}.")
    width = positive_number("tolerance", tolerance)
    if isinstance(method, Ridge):
        return Enclosure(1.0, 1.0, 0.0)
    proof = heavy_ball if isinstance(method, HeavyBallFlow) else flow
    return _proven(proof, *proofs.filter(method), width)


def _no_bias_coupling(_: float) -> Enclosure:
    raise ValueError(
        "The bias of heavy-ball flow cannot be coupled: with little damping it oscillates like a "
        "cosine and exceeds every multiple of ridge's bias, which falls like 1/s."
    )


def proven_guarantee(
    method: Method, stop: int, penalty: float, eigenvalues: Interval
) -> float | None:
    """Return a proven bound on the inflation of one iterate, for eigenvalues in a range.

    It is None where there is no proof: for methods without a loop, for long loops that have no
    closed form, and where python-flint is not installed.
    """
    # The loop gives the shrinkage itself only where no subclass changes how it is run.
    if find_spec("flint") is None or getattr(type(method), "run", None) is not Recurrence.run:
        return None
    try:
        return _proven(_iterate_guarantee, method, stop, penalty, eigenvalues).upper
    except WorkLimitError:
        return None


def _iterate_guarantee(method: Any, stop: int, penalty: float, eigenvalues: Interval) -> Enclosure:
    step = exact(method.epsilon)
    rho = (step * exact(penalty)).sqrt()
    reach = (downward(step * eigenvalues[0]), upward(step * eigenvalues[1]))
    iterates = None
    # The filter of a proof refuses parameters for which there is no closed form.
    with suppress(KeyError, ValueError):
        iterates = PROOFS[type(method)].filter(method)[1]
    if iterates is not None and reach[1] <= iterates.longest:
        found = iterates.at(stop).largest_excess(rho, reach, PLAN_TOLERANCE)
    else:
        steps = [method.update(k) for k in range(1, min(stop, LONGEST_LOOP + 1) + 1)]
        found = loop_excess(steps, rho, reach, PLAN_TOLERANCE)
    return inflation_between(found.attained, found.cap, stop)


class Proofs(NamedTuple):
    """How the constants of one kind of method are proven."""

    filter: Callable[[Any], tuple[Any, ...]]  # the first arguments of both proofs, by method
    inflation: Callable[..., Enclosure]  # next arguments: stop or condition number, and tolerance
    error: Callable[..., Enclosure] | None  # next arguments: calibration and tolerance
    ratio: Callable[..., Enclosure] | None  # the adaptive constant; next arguments as above
    tolerance: float = FLOW_TOLERANCE
    by_condition_number: bool = False
    # The argument of the inflation is a stop if the step is given, and else the largest step.
    by_step: bool = False


def _proofs_of(method: str | Method) -> tuple[Method, Proofs]:
    require_flint()
    method = as_filter(get_method(method))
    # Its own oracle, ridge, has constants in closed form: no search finds a maximum of D = 0.
    if method in {IteratedRidge(times=1), Butterworth(order=1)}:
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
            "The bound of the heavy ball depends on the condition_number: give a number between 1 "
            f"and {LARGEST_CONDITION:g}; got {value!r}."
        )
    return float(value)


def _checked_step_or_stop(
    method: Method, largest_step: float | None, stop: float | None
) -> float | None:
    if stop is None:
        return None if largest_step is None else positive_number("largest_step", largest_step)
    if not method.is_tuned:
        raise ValueError("A stop needs a step: give the number ελ* as the step of the method.")
    return whole_number("stop", stop, least=0)


def _accelerated(proof: Callable[..., Enclosure]) -> Callable[..., Enclosure]:
    """Return a proof that refuses frictions below 2."""

    @wraps(proof)
    def checked(found: BesselFilter, argument: float | None, tolerance: float) -> Enclosure:
        if found.friction < 2:
            raise ValueError(
                f"No bound exists for friction {found.friction:g} < 2: the inflation is infinite, "
                "as the oscillation of the bias grows with the eigenvalue. Use friction ≥ 2."
            )
        return proof(found, argument, tolerance)

    return checked


def _critical_damping(method: HeavyBallFlow) -> tuple[()]:
    if method.damping != "critical":
        raise ValueError(
            'The bounds hold for damping="critical", the root of the smallest eigenvalue; '
            f"got damping={method.damping!r}."
        )
    return ()


def _polynomials(method: Any) -> tuple[Any, Iterates]:
    if not method.universal_guarantee:
        raise ValueError(
            f"No bound of {method} is proven: it needs a constant step, friction ≥ 2 without a "
            "constant momentum, or ν ≥ 1/2."
        )
    # without momentum, every iteration is gradient descent
    kind = type(method) if method.has_momentum else GradientDescent
    return method, POLYNOMIALS[kind](method)


def _given_momentum(method: HeavyBall) -> tuple[HeavyBall, HeavyBallIterates]:
    if isinstance(method.momentum, str) or not method.follows_flow:
        raise ValueError(
            "The constant of HeavyBall grows without bound as its momentum tends to 1: give the "
            "momentum as a number."
        )
    return method, HeavyBallIterates(method.eta)


def _iteration_inflation(
    method: Any, iterates: AnyIterates, argument: float | None, tolerance: float
) -> Enclosure:
    if not method.is_tuned:
        return every_step_inflation(method, iterates, argument, tolerance)
    return step_inflation(method, iterates, argument, tolerance)


# The powers and degrees of the polynomials of each iteration.
POLYNOMIALS: dict[type[Method], Callable[[Any], Iterates]] = {
    GradientDescent: lambda _: Iterates(2, 0, 0, 1.0),
    Nesterov: lambda method: Iterates(1, 1, 1, method.friction / 2),
    NuMethod: lambda method: Iterates(0, 2, 0, 2 * method.nu),
}

# One entry for each method with certificates.
PROOFS: dict[type[Method], Proofs] = {
    Ridge: Proofs(lambda _: (), ridge_inflation, ridge_error, ridge_ratio),
    GradientFlow: Proofs(lambda _: (GaussianFilter(),), flow_inflation, flow_error, flow_ratio),
    AcceleratedFlow: Proofs(
        lambda method: (BesselFilter(method.friction),),
        _accelerated(flow_inflation),
        flow_error,
        _accelerated(flow_ratio),
    ),
    CriticalFlow: Proofs(lambda _: (MaternFilter(),), flow_inflation, flow_error, flow_ratio),
    IteratedRidge: Proofs(
        lambda method: (PowerFilter(method.times),), flow_inflation, flow_error, flow_ratio
    ),
    Butterworth: Proofs(
        lambda method: (ButterworthFilter(method.order),), flow_inflation, flow_error, flow_ratio
    ),
    HeavyBallFlow: Proofs(
        _critical_damping,
        heavy_ball_inflation,
        heavy_ball_error,
        heavy_ball_ratio,
        HEAVY_BALL_TOLERANCE,
        by_condition_number=True,
    ),
    HeavyBall: Proofs(
        _given_momentum,
        _iteration_inflation,
        None,
        iteration_ratio,
        ITERATION_TOLERANCE,
        by_step=True,
    ),
    **dict.fromkeys(
        POLYNOMIALS,
        Proofs(
            _polynomials,
            _iteration_inflation,
            None,
            iteration_ratio,
            ITERATION_TOLERANCE,
            by_step=True,
        ),
    ),
}
