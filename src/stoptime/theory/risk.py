"""The exact risk of a method at every stop: bias, variance and their sum, without simulation.

Directions with s = 0, which a wide design always has, have bias and no variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.support.arrays import Array
from stoptime.support.checks import list_of_stops, nonnegative, positive_number
from stoptime.theory import search

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Target = Literal["estimation", "prediction"]

FILTER_ENTRIES = 2**20  # of one table of filters, eigenvalues by stops


@dataclass(frozen=True, eq=False)
class RiskModel:
    """A tuned method, with the weights of g² in the bias and of s·φ² in the variance."""

    method: Filter
    eigenvalues: Array
    bias_weight: Array  # the bias is a quadratic form of g if this is a matrix
    variance_weight: Array

    def evaluate(self, stops: Array) -> tuple[Array, Array]:
        """Return bias and variance at the stops; tables of filters have a bounded size."""
        s = self.eigenvalues
        live = s > 0
        found = [np.empty((2, 0))]
        for g, gain in self.method.filters(s, stops, max(1, FILTER_ENTRIES // max(1, len(s)))):
            # multiply by √s before squaring: s φ² would underflow for small s
            noise = gain[live] * np.sqrt(s[live, None])
            if self.bias_weight.ndim == 2:
                bias = np.einsum("it,it->t", g, self.bias_weight @ g)
            else:
                bias = self.bias_weight @ g**2
            found.append(np.stack([bias, self.variance_weight[live] @ noise**2]))
        bias, variance = np.concatenate(found, axis=1)
        return bias, variance

    def total(self, stops: Array) -> Array:
        """Return bias plus variance at stops of any shape."""
        return np.add(*self.evaluate(stops.ravel())).reshape(stops.shape)

    def minimum(self, first: float, last: float) -> tuple[float, float]:
        """Return the stop in [first, last] with the least risk, and that risk."""
        if not self.method.whole_stops:
            # The risk may oscillate: the deepest of its dips are refined. No dip is deeper between
            # stops of the grid by more than a tenth of the least risk.
            return search.lowest(self.total, self.grid(first, last), 40, 8, 0.1)
        last = last if np.isinf(last) else float(np.floor(last))
        stops = np.minimum(np.ceil(self.grid(np.ceil(first), last)), last)
        finite = stops[np.isfinite(stops)]
        runs = isinstance(self.method, Iteration) and self.method.runs_steps
        if finite.size and runs and np.ptp(finite) < FILTER_ENTRIES // len(self.eigenvalues):
            # One run passes every iteration on its way; looking closer would repeat it. With
            # many eigenvalues, evaluating them all would cost more than the run.
            stops = np.append(stops, np.arange(finite.min(), finite.max()))
        return search.lowest(self.total, np.unique(stops), 8, 8, whole=True)

    def grid(self, first: float, last: float) -> Array:
        """Return stops that are even in decades and, for second order, follow the oscillations."""
        positive = self.eigenvalues[self.eigenvalues > 0]
        if positive.size == 0:
            return np.unique([first, last])
        if isinstance(self.method, SpectralCutoff):
            return np.append(np.arange(first, min(last, len(self.method.counted)) + 1), last)
        power = 1 / self.method.time_power
        pace = self.method.pace
        largest = positive.max()
        # before this phase of the largest eigenvalue hardly anything is learned
        begin = max(first, 1e-4 / largest**power / pace)
        # after this phase of the smallest eigenvalue hardly anything changes
        settled = max(begin, 1e6 / positive.min() ** power / pace)
        end = min(settled if np.isinf(last) else last, max(first, self.method.horizon))
        if begin >= end:
            return np.unique([first, last])
        decades = np.geomspace(begin, end, int(60 * np.log10(end / begin)) + 2)
        grids = [np.array([first, last]), decades]
        if self.method.time_power == 2 and self.method.oscillates:
            # twelve points for each half oscillation of the largest eigenvalue
            step = np.pi / (np.sqrt(largest) * 12) / pace
            step = max(step, 1.0) if self.method.whole_stops else step
            # with many eigenvalues, oscillations average out and points are expensive
            most = min(20_000, 2**21 // len(self.eigenvalues))
            grids.append(begin + step * np.arange(min(most, (end - begin) / step)))
        return np.unique(np.concatenate(grids))


@dataclass(frozen=True, eq=False, repr=False)
class RiskCurve:
    """Bias, variance and risk at many stops; ``model.evaluate`` gives them at any other stop."""

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
        """The stop with the least risk between the first and the last, also between grid points."""
        return self._minimum[0]

    @property
    def best_total(self) -> float:
        """The risk at ``best``."""
        return self._minimum[1]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve; see :func:`stoptime.plots.risk`."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.risk(self, ax=ax)

    def __repr__(self) -> str:
        least = f"least risk {self.best_total:.4g} at {self.best:.4g}"
        return f"{type(self).__name__}({self.method}, {len(self.stops)} stops, {least})"


@dataclass(frozen=True)
class Inflation:
    """Least risk over the risk of the best ridge, and the stop that attains it."""

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
    method, stops : Method or str, and array-like of shape (n_stops,)
        The method that draws the path, and non-negative stops; ``inf`` is least squares.
    eigenvalues, signal : array-like of shape (p,)
        All eigenvalues of XᵀX/n, zeros included, and the coordinates vᵢᵀβ₀ of the coefficients.
    noise, n_samples : float
        Variance σ² of the noise, and number of observations n.
    target : {"estimation", "prediction"}, default="estimation"
        "prediction" is in-sample, :math:`E\|X(\hat\beta - \beta_0)\|^2/n`.
    covariance : array-like of shape (p, p), optional
        Population covariance of new rows in the eigenbasis, VᵀΣV. The risk is then that of
        predictions there, :math:`E(x^T(\hat\beta - \beta_0))^2`. Excludes ``target="prediction"``.

    Examples
    --------
    >>> known = {"eigenvalues": [1, 0.1], "signal": [1, 1], "noise": 1, "n_samples": 9}
    >>> curve = risk("accelerated-flow", [0, 1, 5], **known)
    >>> float(curve.bias[0]), float(curve.variance[0])
    (2.0, 0.0)
    """
    s = list_of_eigenvalues(eigenvalues)
    a = _coordinates(signal, s)
    # with a covariance, the bias of fixed coefficients has a term for each pair of directions
    weight = a**2 if covariance is None else np.multiply.outer(a, a)
    return curve_of(_model(method, s, weight, noise, n_samples, target, covariance), stops)


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

    Here ``signal`` is r² = E‖β₀‖², spread evenly over all eigenvalues, zeros included. The other
    parameters are those of :func:`risk`.

    Examples
    --------
    >>> known = {"eigenvalues": [1, 0.5], "signal": 2, "noise": 1, "n_samples": 10}
    >>> round(bayes_risk("ridge", [0.1, 100], **known).best, 6)  # 1/λ* = r²n/(σ²p)
    10.0
    """
    s = list_of_eigenvalues(eigenvalues)
    weight = squared_coordinates(float(nonnegative("signal", signal)), s)
    return curve_of(_model(method, s, weight, noise, n_samples, target, covariance), stops)


def inflation(
    method: str | Method,
    *,
    eigenvalues: ArrayLike,
    signal: ArrayLike,
    noise: float,
    n_samples: float,
    target: Target = "estimation",
) -> Inflation:
    r"""Return the risk of the method at its best stop over that of the best ridge, on one spectrum.

    .. math:: \min_t R(t) \Big/ \min_\lambda R_{\mathrm{ridge}}(\lambda)

    A number is the ``signal`` r² of :func:`bayes_risk`. No method then has less risk than the best
    ridge, and the ratio is at most ``stoptime.bounds.risk_inflation(method, adaptive=True).upper``.
    Coordinates are those of :func:`risk`; for such a fixed signal the ratio is below one where
    ridge loses. Very many steps of an iteration are those of its flow.

    Examples
    --------
    >>> known = {"eigenvalues": [1, 0.1], "signal": 1, "noise": 1, "n_samples": 50}
    >>> round(inflation("gradient-flow", **known).ratio, 4)
    1.0047
    """
    s = list_of_eigenvalues(eigenvalues)
    positive_number("noise", noise)
    squares = squared_coordinates(signal, s)
    if not squares.any():
        raise ValueError("signal must have a coordinate other than zero; got none.")
    tuned = as_filter(get_method(method)).tuned_to(s)
    model = _model(tuned, s, squares, noise, n_samples, target, None)
    # equal eigenvalues, such as the zeros of a wide design, are evaluated once
    distinct, place = np.unique(s, return_inverse=True)
    weights = (model.bias_weight, model.variance_weight)
    sums = [np.asarray(np.bincount(place, one), np.float64) for one in weights]
    gain, oracle = RiskModel(Ridge(), distinct, *sums).minimum(0.0, np.inf)
    searched: Filter = tuned
    if 0 < gain < np.inf and not isinstance(tuned, SpectralCutoff):
        # the best stop may be later than the one with the gain of ridge, though rarely four times
        searched, _ = search.affordable(tuned, 4 * search.stop_with_gain(tuned, gain))
    stop, least = RiskModel(searched, distinct, *sums).minimum(0.0, np.inf)
    # a time of the flow is turned back into iterations
    stop = stop if searched is tuned else float(np.round(stop / tuned.pace))
    return Inflation(least / oracle, stop)


def _model(
    method: str | Method,
    s: Array,
    weight: Array,
    noise: float,
    n_samples: float,
    target: Target,
    covariance: ArrayLike | None,
) -> RiskModel:
    """Return the model for a target, given the weights of the bias of the estimation error."""
    level = nonnegative("noise", noise) / positive_number("n_samples", n_samples)
    error = target_weights(target, s)
    pairs = error
    if covariance is not None:
        if target == "prediction":
            raise ValueError('Give a covariance (new rows) or target="prediction", not both.')
        pairs = _checked_covariance(covariance, len(s))
        error = np.diagonal(pairs)
    bias = weight * (pairs if weight.ndim == 2 else error)
    return RiskModel(as_filter(get_method(method)).tuned_to(s), s, bias, level * error)


def _checked_covariance(covariance: ArrayLike, p: int) -> Array:
    """Return the matrix; refuse it unless it is positive semi-definite up to rounding."""
    C = np.asarray(covariance, dtype=np.float64)
    if C.shape != (p, p) or not np.isfinite(C).all():
        raise ValueError(f"covariance must be a finite array of shape {(p, p)}; got {C.shape}.")
    allowed = 1e-10 * float(np.abs(C).max())
    is_symmetric = np.allclose(C, C.T, rtol=0, atol=allowed)
    least = float(np.linalg.eigvalsh(C)[0])
    if not is_symmetric or least < -allowed * p:
        raise ValueError(
            f"covariance must be symmetric, without negative eigenvalues; its least is {least:.3g}."
        )
    return C


def squared_coordinates(signal: ArrayLike, eigenvalues: Array) -> Array:
    """Return the squares of the coordinates; one number is spread evenly over all of them."""
    if np.ndim(signal):
        return _coordinates(signal, eigenvalues) ** 2
    return np.full(len(eigenvalues), float(nonnegative("signal", signal)) / len(eigenvalues))


def _coordinates(signal: ArrayLike, eigenvalues: Array) -> Array:
    """Return the coordinates of a signal; refuse all but one finite number per eigenvalue."""
    a = np.asarray(signal, dtype=np.float64)
    if a.shape != eigenvalues.shape or not np.isfinite(a).all():
        raise ValueError(
            f"signal must have one finite coordinate for each of the {len(eigenvalues)} "
            f"eigenvalues; got the shape {a.shape}, or a number that is not finite."
        )
    return a


def target_weights(target: Target, eigenvalues: Array) -> Array:
    """Return the weight of every direction in the risk of this target."""
    if target not in {"estimation", "prediction"}:
        raise ValueError(f'target must be "estimation" or "prediction"; got {target!r}.')
    return eigenvalues if target == "prediction" else np.ones_like(eigenvalues)


def list_of_eigenvalues(eigenvalues: ArrayLike) -> Array:
    """Return eigenvalues as an array of one dimension; refuse an empty list."""
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
