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

from stoptime.methods import Iteration, Method, Ridge, get_method
from stoptime.methods.base import Array, list_of_stops, nonnegative, positive_number
from stoptime.methods.recurrence import closer_stops
from stoptime.worst_case import stop_with_gain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Inflation", "RiskCurve", "RiskModel", "bayes_risk", "inflation", "risk"]

Target = Literal["estimation", "prediction"]

CHUNK = 2**20  # entries of one table of filters, eigenvalues by stops
ROUNDED = 1e-10  # times its size: what a covariance may lack in symmetry or positivity
POINTS_PER_SWING = 12
MOST_POINTS = 20_000
PER_DECADE = 60
DIPS, ZOOMS = 40, 8
BEGUN, SETTLED = 1e-4, 1e6  # phases before which nothing and after which nothing more happens
SEARCH = 1e4  # stops around the one whose gain at s = 0 is that of the best ridge


@dataclass(frozen=True, eq=False)
class RiskModel:
    """A method and what multiplies its squared filters.

    Attributes
    ----------
    method : Method
        Tuned to the eigenvalues.
    eigenvalues : array of shape (k,)
        Zeros included.
    bias_weight : array of shape (k,) or (k, k)
        The bias is the sum of weight times g², or the quadratic form of g.
    variance_weight : array of shape (k,)
        The variance is the sum of weight times s·φ².
    """

    method: Method
    eigenvalues: Array
    bias_weight: Array
    variance_weight: Array

    def evaluate(self, stops: Array) -> tuple[Array, Array]:
        """Return bias and variance at the stops, a bounded number of them at a time."""
        height = max(1, CHUNK // max(1, len(self.eigenvalues)))
        parts = [self._summed(*tables) for tables in self.method.filters(self.eigenvalues, stops, height)]
        bias, variance = zip(*parts, strict=True) if parts else ([np.empty(0)], [np.empty(0)])
        return np.concatenate(bias), np.concatenate(variance)

    def _summed(self, g: Array, gain: Array) -> tuple[Array, Array]:
        live = self.eigenvalues > 0
        # φ√s before squaring: s φ² would lose small s to underflow
        noise = gain[live] * np.sqrt(self.eigenvalues[live, None])
        if self.bias_weight.ndim == 2:
            bias = np.einsum("it,it->t", g, self.bias_weight @ g)
        else:
            bias = self.bias_weight @ g**2
        return bias, self.variance_weight[live] @ noise**2

    def total(self, stop: float) -> float:
        """Return bias plus variance at one stop."""
        bias, variance = self.evaluate(np.array([stop]))
        return float(bias[0] + variance[0])

    def minimum(self, first: float, last: float) -> tuple[float, float]:
        """Return the stop in [first, last] with the least risk, and that risk.

        The curve oscillates, so its lowest dip is looked for on a grid that follows the fastest
        oscillation, and every dip that may be the lowest is refined between grid points.
        """
        if isinstance(self.method, Iteration):
            return self._whole_minimum(first, last)
        grid = self._grid(first, last)
        total = np.add(*self.evaluate(grid))
        best = int(np.argmin(total))
        stop, least = float(grid[best]), float(total[best])
        inner = total[1:-1]
        dips = 1 + np.flatnonzero((inner <= total[:-2]) & (inner <= total[2:]) & np.isfinite(grid[2:]))
        dips = dips[np.argsort(total[dips])[:DIPS]]
        left, right = grid[dips - 1], grid[dips + 1]
        for _ in range(ZOOMS if dips.size else 0):  # every dip at once, ten times closer each time
            points = np.linspace(left, right, 21)
            heights = np.add(*self.evaluate(points.ravel())).reshape(points.shape)
            lowest = np.clip(heights.argmin(axis=0), 1, 19)
            columns = np.arange(len(dips))
            left, right = points[lowest - 1, columns], points[lowest + 1, columns]
            if heights.min() < least:
                stop, least = float(points.flat[heights.argmin()]), float(heights.min())
        return stop, least

    def _whole_minimum(self, first: float, last: float) -> tuple[float, float]:
        """Return the best iteration: the same search among whole numbers."""
        last = last if np.isinf(last) else float(np.floor(last))
        closer = np.unique(np.minimum(np.ceil(self._grid(np.ceil(first), last)), last))
        grid = total = np.empty(0)
        while closer.size:
            grid, total = np.append(grid, closer), np.append(total, np.add(*self.evaluate(closer)))
            grid, total = grid[np.argsort(grid)], total[np.argsort(grid)]
            inner = total[1:-1]
            dips = 1 + np.flatnonzero((inner <= total[:-2]) & (inner <= total[2:]))
            dips = np.append(dips[np.argsort(total[dips])[:8]], np.argmin(total))
            closer = closer_stops(grid, dips)
        best = int(np.argmin(total))
        return float(grid[best]), float(total[best])

    def _grid(self, first: float, last: float) -> Array:
        positive = self.eigenvalues[self.eigenvalues > 0]
        if positive.size == 0:
            return np.unique([first, last])
        largest, power = positive.max(), 1 / self.method.order
        pace = self.method.pace
        begin = max(first, BEGUN / largest**power / pace)
        end = last if np.isfinite(last) else max(begin, SETTLED / positive.min() ** power / pace)
        if isinstance(self.method, Iteration):
            end = min(end, max(first, self.method.horizon))
        if begin >= end:
            return np.unique([first, last])
        grids = [
            np.array([first, last]),
            np.geomspace(begin, end, int(PER_DECADE * np.log10(end / begin)) + 2),
        ]
        if self.method.order == 2:
            step = np.pi / (np.sqrt(largest) * POINTS_PER_SWING) / pace
            step = max(step, 1.0) if isinstance(self.method, Iteration) else step
            grids.append(begin + step * np.arange(min(MOST_POINTS, (end - begin) / step)))
        return np.unique(np.concatenate(grids))


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
        from stoptime import plots  # noqa: PLC0415 - matplotlib is an extra

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
        raise ValueError(f"signal must be a list of finite coordinates, one per eigenvalue; got {signal!r}.")
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
    center = stop_with_gain(model.method, alpha)
    stop, least = model.minimum(center / SEARCH, center * SEARCH)
    least, stop = min((least, stop), (model.total(0.0), 0.0), (model.total(np.inf), np.inf))
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
        raise ValueError(f"signal must have one coordinate per eigenvalue, {len(s)}; got {len(weight)}.")
    variance = np.full(len(s), float(nonnegative("noise", noise)) / positive_number("n_samples", n_samples))
    if target not in {"estimation", "prediction"}:
        raise ValueError(f'target must be "estimation" or "prediction"; got {target!r}.')
    if covariance is not None:
        if target == "prediction":
            raise ValueError('Give either covariance (new rows) or target="prediction" (in-sample).')
        C = np.asarray(covariance, dtype=np.float64)
        if C.shape != (len(s), len(s)) or not np.isfinite(C).all():
            raise ValueError(f"covariance must be a finite array of shape {(len(s), len(s))}; got {C.shape}.")
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
