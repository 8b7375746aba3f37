"""The certified constants: arguments are checked here, and each method is led to its proof."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from stoptime.bounds import balls
from stoptime.bounds.balls import Enclosure, exact
from stoptime.bounds.filters import SHAPES, shape_of
from stoptime.bounds.flows import flow_bias, flow_error, flow_inflation
from stoptime.bounds.heavy_ball import heavy_ball_error, heavy_ball_inflation
from stoptime.bounds.iterations import PROVEN_ITERATIONS, proven_at, step_inflation
from stoptime.methods.base import Method, as_filter
from stoptime.methods.flows import AcceleratedFlow, HeavyBallFlow
from stoptime.methods.iterations import HeavyBall
from stoptime.methods.recurrence import Recurrence
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Butterworth, IteratedRidge, Ridge
from stoptime.support.arrays import Array
from stoptime.support.checks import positive_number, whole_number

FINE = 1e-10  # the width of an enclosure of one variable and no mixture
ONE_VARIABLE: tuple[type[Method], ...] = (Ridge, *SHAPES)
COUPLED: tuple[type[Method], ...] = (
    *(kind for kind in ONE_VARIABLE if kind is not Butterworth),
    HeavyBallFlow,
)


def risk_inflation(
    method: str | Method,
    *,
    stop: float | None = None,
    condition_number: float | None = None,
    adaptive: bool = False,
    tolerance: float | None = None,
) -> Enclosure:
    r"""Enclose the largest ratio of a method's risk to the risk of oracle ridge, on any spectrum.

    By default one stop serves all spectra, as in a plan that is made before the data are seen. With
    ``adaptive=True`` the stop is the best one for each spectrum, as if it were tuned on the data:
    this is the ratio that the paper's theorems bound. With λ* the penalty of the Bayes-optimal
    ridge, s = xλ*, and t = τ/λ* or τ/√λ*, the two are

    .. math:: \min_{\tau} \max_{x \ge 0} F(x, \tau), \qquad
              \sup_{\text{spectra}} \frac{\inf_t R(t)}{\inf_\lambda R^{ridge}(\lambda)}
              = \min_{\nu} \max_{x \ge 0} \sum_j \nu_j F(x, \tau_j), \qquad
              F = (1 + x) g^2 + \frac{(1 + x)(1 - g)^2}{x},

    the latter with a minimum over mixtures ν of stops. F is the ratio in one direction, so both
    hold for estimation, for prediction in sample, and at new rows of any covariance. The ``stop``
    of the enclosure is the best τ, for heavy-ball flow at the worst μ/λ*, on which it may depend.

    Parameters
    ----------
    method : Ridge, IteratedRidge, Butterworth, a flow, or a plain iteration
        Accelerated flow and Nesterov's method need friction ≥ 2, the ν-method ν ≥ 1/2, heavy-ball
        flow ``damping="critical"``, the heavy ball a given momentum, and every iteration its step
        in units of 1/λ*, the number ελ*; eigenvalues then go up to 1/ε, and stops are whole.
    stop : float, optional
        The dimensionless τ, or the iteration, at which to enclose the maximum over x; by default
        the best one. Heavy-ball flow does not take it.
    condition_number : float, optional
        κ ≥ 1. Heavy-ball flow requires it, and no other method takes it.
    adaptive : bool, default=False
        Whether the stop may depend on the spectrum. Heavy-ball flow then needs a condition number
        of at most 3000.
    tolerance : float, optional
        Largest width of the enclosure relative to the constant. The default is 1e-4, but 1e-10 for
        one stop of a flow, and 1e-3 for the best stops of the heavy ball and its flow. If the proof
        would need too much work, WorkLimitError is raised.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> print(risk_inflation(AcceleratedFlow(), tolerance=1e-6))
    [1.59910..., 1.59910...] at stop 1.755...
    >>> print(risk_inflation(AcceleratedFlow(), adaptive=True))
    [1.2675..., 1.2676...] with the stop chosen for each spectrum
    >>> from stoptime import Nesterov
    >>> print(risk_inflation(Nesterov(step=0.01)))  # at most 1.234 for the step 0.01/λ*
    [1.2338..., 1.2339...] at stop 13
    """
    found = _certified(method, (*ONE_VARIABLE, HeavyBallFlow, *PROVEN_ITERATIONS))
    if condition_number is not None and not isinstance(found, HeavyBallFlow):
        raise ValueError("condition_number is for HeavyBallFlow only.")
    if adaptive and stop is not None:
        raise ValueError("With adaptive=True the stop depends on the spectrum: give none.")
    if isinstance(found, PROVEN_ITERATIONS) and isinstance(found.step, str):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            "The constant of an iteration depends on its step: give the number ελ*, for example "
            f"{type(found).__name__}(step=0.01)."
        )

    is_heavy_ball = isinstance(found, HeavyBall | HeavyBallFlow)
    width = 1e-3 if adaptive and is_heavy_ball else 1e-4
    if not adaptive and isinstance(found, ONE_VARIABLE):
        width = FINE
    width = positive_number("tolerance", width if tolerance is None else tolerance)
    if isinstance(found, HeavyBallFlow):
        if stop is not None:
            raise ValueError("HeavyBallFlow takes no stop: its best stop depends on the problem.")
        return _proven(heavy_ball_inflation, _checked(condition_number), adaptive, width)
    if isinstance(found, ONE_VARIABLE):
        return _of_a_flow(found, stop, adaptive, width)
    k = None if stop is None else whole_number("stop", stop, least=0)
    return _proven(step_inflation, found, k, adaptive, width)


def _of_a_flow(method: Any, stop: float | None, adaptive: bool, width: float) -> Enclosure:
    tau = None if stop is None else positive_number("stop", stop)
    if isinstance(method, AcceleratedFlow) and method.friction < 2:
        raise ValueError(
            f"No bound exists for friction {method.friction:g} < 2: the inflation is infinite, "
            "as the oscillation of the bias grows with the eigenvalue. Use friction ≥ 2."
        )
    if not isinstance(method, Ridge):
        return _proven(flow_inflation, shape_of(method), tau, adaptive, width)
    if adaptive:
        return Enclosure(1.0, 1.0, 1.0, ((1.0, 1.0),), ((1.0, 1.0),))
    # With penalty λ*/τ the inflation 1 + x(1 - τ)²/(1 + τx)² is largest at x = 1/τ.
    t = exact(1.0 if tau is None else tau)
    value = (1 + t) ** 2 / (4 * t)
    return Enclosure(balls.downward(value), balls.upward(value), float(t))


def parameter_error(
    method: str | Method, *, calibration: float = 1.0, tolerance: float = FINE
) -> Enclosure:
    r"""Enclose the largest distance of a method's coefficients from ridge's, at any stop.

    .. math:: \|\hat\beta(t) - \hat\beta^{ridge}(\lambda)\|^2
              \le C\, \|\hat\beta^{ridge}(\lambda)\|^2, \qquad
              C = \sup_u \Big( c\,\frac{1 - g(u)}{u^2} - g(u) \Big)^2

    with λ = c/t² and u = t√s, or λ = c/t and u² = ts where stops scale like 1/λ (gradient flow,
    ridge, once or iterated). The bound holds for any data, and for the fitted values Xβ too. For
    heavy-ball flow the supremum is also over the damping. The ``stop`` of the enclosure is the u
    (or ts) where the constant is nearly attained; 0 means in the limit.

    Parameters
    ----------
    method : Ridge, IteratedRidge, GradientFlow, AcceleratedFlow, CriticalFlow or HeavyBallFlow
        Any friction; heavy-ball flow needs ``damping="critical"``.
    calibration : float, default=1.0
        The c > 0 above; the paper has 1.
    tolerance : float, default=1e-10
        See :func:`risk_inflation`; relative if the constant exceeds 1.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> print(parameter_error(AcceleratedFlow()))  # 49/64
    [0.765625, 0.765625] at stop 0
    """
    c = positive_number("calibration", calibration)
    return _distance(method, c, tolerance, 0)


def variance_coupling(method: str | Method, *, tolerance: float = FINE) -> Enclosure:
    r"""Enclose the largest variance over that of ridge, at any stop and on any spectrum.

    .. math:: \mathrm{Var}(t) \le C_2\, \mathrm{Var}^{ridge}(\lambda), \qquad
              C_2 = \sup_u \Big( \frac{(1 + u^2)(1 - g(u))}{u^2} \Big)^2

    with λ = 1/t² and u = t√s, or λ = 1/t and u² = ts where stops scale like 1/λ. Of the two
    inequalities in Section 3.3 of the paper this one holds. It holds in each direction, so for
    estimation and for prediction. The parameters are those of :func:`parameter_error`.

    Examples
    --------
    >>> print(variance_coupling("accelerated-flow"))
    [1.38363..., 1.38363...] at stop 5.00...
    """
    return _distance(method, 1.0, tolerance, 1)


def _distance(method: str | Method, calibration: float, tolerance: float, shift: int) -> Enclosure:
    """Enclose the supremum of (shift + c·φ - g)²."""
    found = _certified(method, COUPLED)
    width = positive_number("tolerance", tolerance)
    if isinstance(found, Ridge):
        # c·φ - g = (c - 1)/(1 + ts) is largest in the limit ts → 0.
        value = (shift + exact(calibration) - 1) ** 2
        return Enclosure(balls.downward(value), balls.upward(value), 0.0)
    if isinstance(found, HeavyBallFlow):
        return _proven(heavy_ball_error, calibration, width, shift)
    return _proven(flow_error, shape_of(found), calibration, width, shift)


def bias_coupling(method: str | Method, *, tolerance: float = FINE) -> Enclosure:
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
    found = _certified(method, COUPLED)
    width = positive_number("tolerance", tolerance)
    if isinstance(found, Ridge):
        return Enclosure(1.0, 1.0, 0.0)
    if isinstance(found, HeavyBallFlow):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            "The bias of heavy-ball flow cannot be coupled: with little damping it oscillates like "
            "a cosine and exceeds every multiple of ridge's bias, which falls like 1/s."
        )
    return _proven(flow_bias, shape_of(found), width)


def price_of_products(products: int, *, largest_eigenvalue: float, penalty: float) -> Enclosure:
    r"""Enclose the least risk over the best ridge risk that k products with the data can guarantee.

    .. math:: C(k) = \min_{\varphi} \max_{0 \le s \le L} \bigl(1 + x\,(g - \varphi)^2\bigr)
        = \coth^2\Bigl((2k + 1)\,\mathrm{arsinh}\sqrt{\lambda^*/L}\Bigr)

    with x = s/λ*, φ any polynomial of degree k - 1 in units of 1/λ*, and g = 1 - xφ: k iterations
    of any gradient method from zero, the first of which computes Xᵀy. On the eigenvalues of
    :func:`hardest_spectrum` no such φ has a smaller ratio, even if it depends on all of them, and
    in the limit of many directions of Gaussian signal and noise no method that depends on y, such
    as conjugate gradients. :class:`stoptime.OptimalIteration` attains the bound for every k.

    Parameters
    ----------
    products : int
        The k above: products with XᵀX, where Xᵀy counts as the first.
    largest_eigenvalue, penalty : float
        The L above, of XᵀX/n, and the penalty λ* of the Bayes-optimal ridge. Only their ratio
        matters. Without a bound on L/λ* no number of products guarantees anything.

    Examples
    --------
    >>> print(price_of_products(20, largest_eigenvalue=1.0, penalty=0.001))
    [1.34965726444, 1.34965726445] at stop 20
    """
    k = whole_number("products", products)
    largest = positive_number("largest_eigenvalue", largest_eigenvalue)
    best = positive_number("penalty", penalty)
    with balls.working_precision():
        angle = (exact(best) / exact(largest)).sqrt().asinh()
        price = 1 / ((2 * k + 1) * angle).tanh() ** 2
        # The price exceeds 1, also where its excess is far below the rounding of a double.
        return Enclosure(max(1.0, balls.downward(price)), balls.upward(price), float(k))


def hardest_spectrum(products: int, *, largest_eigenvalue: float = 1.0) -> Array:
    r"""Return the 2k + 1 eigenvalues on which k products are worth least, in ascending order.

    .. math:: s_j = L\cos^2\frac{j\pi}{2k + 1}, \qquad j = -k, \dots, k

    All but the largest eigenvalue appear twice. On this spectrum, also if every eigenvalue is
    repeated m times, each filter of k products has at least :func:`price_of_products` times the
    Bayes risk of the best ridge (``target="estimation"``), whatever the best penalty is.

    Examples
    --------
    >>> hardest_spectrum(1, largest_eigenvalue=4.0).round(6)
    array([1., 1., 4.])
    """
    k = whole_number("products", products)
    largest = positive_number("largest_eigenvalue", largest_eigenvalue)
    # Sines in place of cosines: small eigenvalues keep all their digits.
    return largest * np.sort(np.sin(np.pi * (np.arange(2 * k + 1) + 0.5) / (2 * k + 1)) ** 2)


def proven_guarantee(
    method: Method, stop: int, penalty: float, eigenvalues: balls.Interval
) -> float | None:
    """Return a proven bound on the inflation of one iterate, for eigenvalues in a range.

    It is None where there is no proof: for methods without a loop, for long loops that have no
    closed form, and where python-flint is not installed.
    """
    # The loop gives the shrinkage itself only where no subclass changes how it is run.
    kind: Any = type(method)
    if find_spec("flint") is None or not isinstance(method, Recurrence):
        return None
    if kind.run is not Recurrence.run or kind.steps is not Recurrence.steps:
        return None
    try:
        with balls.working_precision():
            return proven_at(method, stop, penalty, eigenvalues)
    except balls.WorkLimitError:
        return None


def _certified(method: str | Method, kinds: tuple[type[Method], ...]) -> Any:
    """Return a method of one of some kinds."""
    balls.require_flint()
    method = as_filter(get_method(method))
    # Its own oracle, ridge, has constants in closed form: no search finds a maximum of D = 0.
    if method in {IteratedRidge(times=1), Butterworth(order=1)}:
        return Ridge()
    if isinstance(method, HeavyBallFlow) and method.damping != "critical":
        raise ValueError(
            'The bounds hold for damping="critical", the root of the smallest eigenvalue; '
            f"got damping={method.damping!r}."
        )
    # The exact type counts: a subclass may have another shrinkage, to which no proof applies.
    if type(method) not in kinds:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"This constant is certified for {names}; got {method!r}.")
    return method


@lru_cache(maxsize=256)
def _proven(proof: Callable[..., Enclosure], *arguments: Any) -> Enclosure:
    with balls.working_precision():
        return proof(*arguments)


def _checked(value: float | None) -> float:
    """Return a condition number."""
    # Beyond 1e7 the proof takes many minutes.
    if value is None or not 1 <= positive_number("condition_number", value) <= 1e7:
        raise ValueError(
            "The bound of the heavy ball depends on the condition_number: give a number between 1 "
            f"and 1e7; got {value!r}."
        )
    return float(value)
