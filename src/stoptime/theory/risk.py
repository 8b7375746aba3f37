r"""Exact risk: what stopping costs in bias and saves in variance, at every stop, without simulation.

.. math::

    \mathrm{bias}(t) = \sum_i (v_i^T\beta_0)^2 g(s_i, t)^2, \qquad
    \mathrm{variance}(t) = \frac{\sigma^2}{n} \sum_i s_i \varphi(s_i, t)^2

Directions with s = 0, which a wide design always has, carry bias and no variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.support.arrays import Array
from stoptime.support.checks import list_of_stops, nonnegative, positive_number
from stoptime.theory.risk_model import RiskModel
from stoptime.theory.worst_case import stop_with_gain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Inflation", "RiskCurve", "bayes_risk", "curve_of", "inflation", "risk"]

Target = Literal["estimation", "prediction"]

ROUNDED = 1e-10  # times its size: what a covariance may lack in symmetry or positivity
SEARCH = 1e4  # stops around the one whose gain at s = 0 is that of the best ridge


@dataclass(frozen=True, eq=False, repr=False)
class RiskCurve:
    """Bias, variance and risk of a method at many stops.

    Attributes
    ----------
    stops, bias, variance : arrays of shape (n_stops,)
        The curve.
    model : RiskModel
        What drew it; ``model.evaluate`` gives any other stop.
    """

    stops: Array
    bias: Array
    variance: Array
    model: RiskModel

    @property
    def method(self) -> Method:
        """The method, tuned to the eigenvalues."""
        return self.model.method

    @property
    def total(self) -> Array:
        """Bias plus variance."""
        return self.bias + self.variance

    @cached_property
    def _minimum(self) -> tuple[float, float]:
        return self.model.minimum(float(self.stops.min()), float(self.stops.max()))

    @property
    def best(self) -> float:
        """The stop between the first and the last with the least risk, refined between grid points."""
        return self._minimum[0]

    @property
    def best_total(self) -> float:
        """The risk at ``best``."""
        return self._minimum[1]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve; see :func:`stoptime.plots.risk`."""
        from stoptime.support import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.risk(self, ax=ax)

    def __repr__(self) -> str:
        least = f"least risk {self.best_total:.4g} at {self.best:.4g}"
        return f"RiskCurve({self.method}, {len(self.stops)} stops, {least})"


@dataclass(frozen=True)
class Inflation:
    """Least Bayes risk over the Bayes risk of the best ridge, and the stop that attains it."""

    ratio: float
    stop: float


def risk(
    method: str | Method,
    stops: ArrayLike,
    *,
    eigenvalues: ArrayLike,
    signal: ArrayLike,
    noise: float,
    n_samples: float,
    target: Target = "estimation",
    covariance: ArrayLike | None = None,
) -> RiskCurve:
    r"""Return the exact risk :math:`E\|\hat\beta(t) - \beta_0\|^2` for fixed coefficients.

    .. math:: \sum_i (v_i^T\beta_0)^2 g(s_i, t)^2 + \frac{\sigma^2}{n}\sum_i s_i\varphi(s_i, t)^2

    Parameters
    ----------
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares.
    eigenvalues : array-like of shape (p,)
        All eigenvalues of XᵀX/n, zeros included.
    signal : array-like of shape (p,)
        The coordinates vᵢᵀβ₀ of the true coefficients.
    noise : float
        Variance σ² of the noise.
    n_samples : float
        Number of observations n.
    target : {"estimation", "prediction"}, default="estimation"
        "prediction" is in-sample, :math:`E\|X(\hat\beta - \beta_0)\|^2/n`.
    covariance : array-like of shape (p, p), optional
        Population covariance of new rows in the eigenbasis, VᵀΣV: the risk is then that of predicting
        there, :math:`E(x^T(\hat\beta - \beta_0))^2`. Excludes ``target="prediction"``.

    Returns
    -------
    RiskCurve

    Examples
    --------
    >>> curve = risk("nesterov-flow", [0, 1, 5], eigenvalues=[1, 0.1], signal=[1, 1], noise=1, n_samples=9)
    >>> float(curve.bias[0]), float(curve.variance[0])
    (2.0, 0.0)
    """
    a = np.asarray(signal, dtype=np.float64)
    if a.ndim != 1 or not np.isfinite(a).all():
        raise ValueError(
            f"signal must be a list of finite coordinates, one per eigenvalue; got {signal!r}."
        )
    weight = a**2 if covariance is None else np.multiply.outer(a, a)
    return _curve(method, stops, eigenvalues, weight, noise, n_samples, target, covariance)


def bayes_risk(
    method: str | Method,
    stops: ArrayLike,
    *,
    eigenvalues: ArrayLike,
    signal: float,
    noise: float,
    n_samples: float,
    target: Target = "estimation",
    covariance: ArrayLike | None = None,
) -> RiskCurve:
    r"""Return the exact risk averaged over :math:`\beta_0 \sim (0, (r^2/p) I)`.

    .. math:: \frac{r^2}{p}\sum_i g(s_i, t)^2 + \frac{\sigma^2}{n}\sum_i s_i\varphi(s_i, t)^2

    Parameters
    ----------
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares.
    eigenvalues : array-like of shape (p,)
        All eigenvalues of XᵀX/n, zeros included: the signal is spread evenly over them.
    signal : float
        r² = E‖β₀‖².
    noise : float
        Variance σ² of the noise.
    n_samples : float
        Number of observations n.
    target : {"estimation", "prediction"}, default="estimation"
        As in :func:`risk`.
    covariance : array-like of shape (p, p), optional
        As in :func:`risk`.

    Returns
    -------
    RiskCurve

    Examples
    --------
    >>> curve = bayes_risk("ridge", [0.1, 100], eigenvalues=[1, 0.5], signal=2, noise=1, n_samples=10)
    >>> round(curve.best, 6)  # 1/λ* = r²n/(σ²p)
    10.0
    """
    p = np.size(eigenvalues)
    r2 = float(nonnegative("signal", signal))
    return _curve(
        method, stops, eigenvalues, np.full(p, r2 / max(p, 1)), noise, n_samples, target, covariance
    )


def inflation(
    method: str | Method, *, eigenvalues: ArrayLike, signal: float, noise: float, n_samples: float
) -> Inflation:
    r"""Return how much worse than the best ridge the method is on this very spectrum, at its best stop.

    .. math:: \min_t R(t) \Big/ \min_\lambda R_{\mathrm{ridge}}(\lambda), \qquad
        \min_\lambda R_{\mathrm{ridge}} = \frac{\sigma^2}{n}\sum_i\frac{\alpha}{\alpha s_i + 1},
        \quad \alpha = \frac{r^2 n}{\sigma^2 p}

    Parameters
    ----------
    method : Method or str
        What draws the path.
    eigenvalues, signal, noise, n_samples
        As in :func:`bayes_risk`; noise and signal positive.

    Returns
    -------
    Inflation
        At least 1, and at most ``stoptime.bounds.risk_inflation(method).upper``.

    Examples
    --------
    >>> round(inflation("gradient-flow", eigenvalues=[1, 0.1], signal=1, noise=1, n_samples=50).ratio, 4)
    1.0047
    """
    s = _spectrum(eigenvalues)
    r2, sigma2 = positive_number("signal", signal), positive_number("noise", noise)
    n = positive_number("n_samples", n_samples)
    alpha = r2 * n / (sigma2 * s.size)
    oracle = sigma2 / n * float(np.sum(alpha / (alpha * s + 1)))
    model = bayes_risk(method, [0.0], eigenvalues=s, signal=r2, noise=sigma2, n_samples=n).model
    if isinstance(model.method, Ridge):
        return Inflation(1.0, alpha)
    centre = stop_with_gain(model.method, alpha)
    stop, least = model.minimum(centre / SEARCH, centre * SEARCH)
    ends = np.array([0.0, np.inf])
    least, stop = min((least, stop), *zip(model.total(ends).tolist(), ends.tolist(), strict=True))
    return Inflation(least / oracle, stop)


def _curve(
    method: str | Method,
    stops: ArrayLike,
    eigenvalues: ArrayLike,
    weight: Array,
    noise: float,
    n_samples: float,
    target: Target,
    covariance: ArrayLike | None,
) -> RiskCurve:
    s = _spectrum(eigenvalues)
    if len(weight) != len(s):
        raise ValueError(
            f"signal must have one coordinate per eigenvalue, {len(s)}; got {len(weight)}."
        )
    variance = np.full(
        len(s), float(nonnegative("noise", noise)) / positive_number("n_samples", n_samples)
    )
    if target not in {"estimation", "prediction"}:
        raise ValueError(f'target must be "estimation" or "prediction"; got {target!r}.')
    if covariance is not None:
        if target == "prediction":
            raise ValueError(
                'Give either covariance (new rows) or target="prediction" (in-sample).'
            )
        C = np.asarray(covariance, dtype=np.float64)
        if C.shape != (len(s), len(s)) or not np.isfinite(C).all():
            raise ValueError(
                f"covariance must be a finite array of shape {(len(s), len(s))}; got {C.shape}."
            )
        _check_covariance(C)
        weight = weight * (C if weight.ndim == 2 else np.diagonal(C))
        variance = variance * np.diagonal(C)
    elif target == "prediction":
        weight, variance = weight * s, variance * s
    model = RiskModel(get_method(method).tuned_to(s), s, weight, variance)
    return curve_of(model, stops)


def _check_covariance(C: Array) -> None:
    """Raise a ValueError unless the matrix is symmetric and has no negative eigenvalue, up to rounding."""
    size = float(np.abs(C).max())
    if not np.allclose(C, C.T, rtol=0, atol=ROUNDED * size):
        raise ValueError("covariance must be symmetric; it differs from its transpose.")
    least = float(np.linalg.eigvalsh(C)[0])
    if least < -ROUNDED * size * len(C):
        raise ValueError(f"covariance must have no negative eigenvalues; its least is {least:.3g}.")


def _spectrum(eigenvalues: ArrayLike) -> Array:
    s = np.atleast_1d(nonnegative("eigenvalues", eigenvalues))
    if s.ndim != 1 or s.size == 0:
        raise ValueError(f"eigenvalues must be a list of numbers; got shape {s.shape}.")
    return s


def curve_of(model: RiskModel, stops: ArrayLike) -> RiskCurve:
    """Evaluate a model at the stops."""
    t = list_of_stops(stops)
    if t.size == 0:
        raise ValueError("stops must be at least one number; got none.")
    return RiskCurve(t, *model.evaluate(t), model)
