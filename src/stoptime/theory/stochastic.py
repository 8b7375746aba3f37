r"""Mini-batches: the exact mean and covariance of stochastic gradient descent on least squares.

.. math:: \beta_k = \beta_{k-1} + \mu(\beta_{k-1} - \beta_{k-2}) - \varepsilon
    \Bigl[\frac1b\sum_{i\in B_k} x_i(x_i^T\beta_{k-1} - y_i) + w\beta_{k-1}\Bigr]

with batches B of b rows, momentum μ and weight decay w as in ``torch.optim.SGD``. For the loss
``mse_loss`` of torch, whose gradient is twice this one, ε is twice torch's ``lr`` and w half its
``weight_decay``. X and y are taken as they are, without an intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_X_y

from stoptime.methods.iterations import GradientDescent, HeavyBall
from stoptime.methods.recurrence import MOST_ITERATIONS
from stoptime.spectrum.decompose import decompose
from stoptime.support.arrays import Array
from stoptime.support.progress import progress_shown

from stoptime.support.checks import (  # isort: skip
    fraction_below_one, list_of_stops, nonnegative, positive_number, whole_number,
)  # fmt: skip
from stoptime.theory.fluctuations import RowSource, Source, SpectrumSource, State
from stoptime.theory.risk import list_of_eigenvalues
from stoptime.theory.signals import Target, check_target, coordinates_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BatchRisk", "Moments", "largest_step", "limit", "moments", "risk"]


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Mean and covariance of random iterates at many stops.

    Attributes
    ----------
    stops : array of shape (n_stops,)
        Numbers of steps.
    mean : array of shape (n_stops, n_features)
        Expected coefficients.
    train_error : array of shape (n_stops,)
        Expected training error, E‖y - Xβ‖²/n.
    gram : array of shape (n_features, n_features)
        XᵀX/n.
    basis, spread : arrays of shape (n_features, rank) and (n_stops, rank, rank)
        The covariance in a basis of the row space; see :attr:`covariance`.
    """

    stops: Array
    mean: Array
    train_error: Array
    gram: Array
    basis: Array
    spread: Array

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients, an array of shape (n_stops, n_features, n_features)."""
        return np.asarray(self.basis @ self.spread @ self.basis.T)

    def estimation_risk(self, coef: ArrayLike) -> Array:
        """Return E‖β - β₀‖² at every stop, for coefficients β₀, given the data."""
        return self.prediction_risk(coef, np.eye(len(self.gram)))

    def prediction_risk(self, coef: ArrayLike, covariance: ArrayLike | None = None) -> Array:
        """Return E(β - β₀)ᵀΣ(β - β₀) at every stop; Σ is XᵀX/n unless given."""
        weight = self.gram if covariance is None else np.asarray(covariance, dtype=np.float64)
        if weight.shape != self.gram.shape:
            raise ValueError(f"covariance must have shape {self.gram.shape}; got {weight.shape}.")
        distance = self.mean - _one_per_column("coef", coef, len(self.gram))
        bias = np.einsum("ti,ij,tj->t", distance, weight, distance)
        inner = self.basis.T @ weight @ self.basis
        return np.asarray(bias + np.einsum("tij,ji->t", self.spread, inner))

    def __repr__(self) -> str:
        stops = f"{self.stops[0]:.4g} to {self.stops[-1]:.4g}" if len(self.stops) else "- to -"
        return f"Moments({len(self.stops)} stops from {stops}, {len(self.gram)} features)"


def moments(
    X: ArrayLike,
    y: ArrayLike,
    step: float,
    batch_size: float,
    stops: ArrayLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    *,
    verbose: bool = False,
) -> Moments:
    r"""Return the exact mean and covariance of the iterates, given the data.

    .. math:: E\beta_k \text{ is the iterate of the full gradient}, \qquad
        V_{k+1} = (I - \varepsilon H)V_k(I - \varepsilon H) + \varepsilon^2 N(V_k)

    (without momentum) with N the covariance of the gradient of a batch, which depends on every row.
    A step costs about 2np² operations. Batches are drawn with replacement.

    Parameters
    ----------
    X, y : array-like of shape (n, p) and (n,)
        The data, as they are: nothing is centred.
    step, batch_size : float, and int or inf
        Step ε and rows of a batch; ``inf`` is the full gradient. A step for which the mean square
        of the iterates diverges is refused, and the largest one is told.
    stops : array-like of shape (n_stops,)
        Numbers of steps. The covariance at every stop has p² numbers.
    momentum, weight_decay : float
        As in ``torch.optim.SGD``, for the loss ‖y - Xβ‖²/(2n).
    verbose : bool, default=False
        Whether to show progress where it takes more than a few seconds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 3))
    >>> found = moments(X, X @ [1, 2, 0] + rng.standard_normal(50), 0.1, 5, [10, 100])
    >>> found.train_error.round(3)
    array([1.551, 0.891])

    See Paquette, Lee, Pedregosa, Paquette (2021), SGD in the large, for the limit of large p.
    """
    rows, s, z, basis = _rotated(X, y)
    coef = z / s
    residuals = np.asarray(y, dtype=np.float64) - rows @ coef
    outside = float(np.mean(residuals**2))
    source = RowSource(s, coef**2, outside, 0.0, len(rows), rows, residuals, coef)
    run, found = _states(source, step, batch_size, stops, momentum, weight_decay)
    mean = np.empty((len(found), len(basis)))
    spread = np.empty((len(found), len(s), len(s)))
    losses = np.empty(len(found))
    with progress_shown(verbose):
        for place, state in enumerate(run):
            mean[place] = basis @ (state.gain * z)
            spread[place] = state.covariance
            losses[place] = source.loss(state)
    return Moments(found, mean, losses, (basis * s) @ basis.T, basis, spread)


@dataclass(frozen=True, eq=False, repr=False)
class BatchRisk:
    """The risk of stochastic gradient descent: that of the full gradient, and what batches add.

    ``bias`` and ``variance`` are those of the full gradient at every stop; ``batches`` is the
    variance that random batches add; ``train_error`` is E‖y - Xβ‖²/n.
    """

    stops: Array
    bias: Array
    variance: Array
    batches: Array
    train_error: Array

    @property
    def full_gradient(self) -> Array:
        """The risk of the full gradient."""
        return self.bias + self.variance

    @property
    def total(self) -> Array:
        """The risk."""
        return self.full_gradient + self.batches

    @property
    def cost(self) -> Array:
        """The risk over that of the full gradient."""
        full = self.full_gradient
        return np.divide(self.total, full, out=np.ones_like(full), where=full > 0)

    @property
    def best(self) -> float:
        """The stop with the least risk."""
        return float(self.stops[np.argmin(self.total)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk, and that of the full gradient; see :func:`stoptime.plots.batches`."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.batches({"random batches": self}, ax=ax)

    def __repr__(self) -> str:
        least = f"least risk {self.total.min(initial=np.inf):.4g}"
        return f"BatchRisk({len(self.stops)} stops, {least})"


def risk(
    X: ArrayLike,
    coef: ArrayLike,
    noise: float,
    step: float,
    batch_size: float,
    stops: ArrayLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    target: Target = "estimation",
) -> BatchRisk:
    r"""Return the exact risk :math:`E\|\beta_k - \beta_0\|^2` for these rows.

    The mean is over noise and batches. The response is y = Xβ₀ + ε, with coefficients ``coef`` and
    independent errors of variance ``noise``. The other parameters are those of :func:`moments` and
    :func:`stoptime.risk`.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> curve = risk(X, [1, 2, 0], 1.0, 0.1, 5, [10, 100])
    >>> curve.cost.round(2)
    array([1.07, 1.42])
    """
    given = check_array(X, dtype=np.float64)
    beta = _one_per_column("coef", coef, given.shape[1])
    level = float(nonnegative("noise", noise))
    nothing = np.zeros(len(given))
    rows, s, _, basis = _rotated(given, nothing)
    signal = basis.T @ beta
    source = RowSource(s, signal**2, 0.0, level, len(rows), rows, nothing, signal)
    states = _states(source, step, batch_size, stops, momentum, weight_decay)
    # nothing is learned of coefficients outside the row space
    unseen = max(float(beta @ beta - signal @ signal), 0.0)
    return _assembled(source, *states, target, unseen)


def limit(
    eigenvalues: ArrayLike,
    stops: ArrayLike,
    *,
    signal: ArrayLike | float,
    noise: float,
    n_samples: int,
    step: float,
    batch_size: float,
    momentum: float = 0.0,
    target: Target = "estimation",
) -> BatchRisk:
    r"""Return the risk from the spectrum alone: the limit of many features.

    .. math:: D_j' = (1 - \varepsilon s_j)^2 D_j + \frac{\varepsilon^2}{b}
        \bigl(s_j\psi - s_j^2 E\delta_j^2\bigr), \qquad \psi = E\|y - X\beta\|^2/n

    Here D is the variance that batches add in every direction, and δ the distance from least
    squares: every row is taken to have the average of xᵀVx. Summed over the steps, this is the
    Volterra equation for the loss ψ of Paquette, Lee, Pedregosa, Paquette (2021), SGD in the large,
    and of Paquette, Paquette (2021), Dynamics of stochastic momentum methods, in discrete time. A
    step costs O(p). :func:`risk` is exact for given rows.

    Parameters
    ----------
    eigenvalues, noise, n_samples, target
        As in :func:`stoptime.risk`.
    stops, step, batch_size, momentum
        As in :func:`moments`.
    signal : array-like of shape (p,), or float
        Coordinates vᵢᵀβ₀ of the coefficients, or r² = E‖β₀‖², spread evenly.

    Examples
    --------
    >>> known = {"signal": 1.0, "noise": 1.0, "n_samples": 400, "step": 0.1}
    >>> limit(np.linspace(0.1, 2, 100), [10, 100], **known, batch_size=50).cost.round(2)
    array([1.35, 1.25])
    """
    source = _spectrum_source(eigenvalues, signal, noise, n_samples)
    return _assembled(source, *_states(source, step, batch_size, stops, momentum), target)


def largest_step(
    X: ArrayLike, batch_size: float, momentum: float = 0.0, weight_decay: float = 0.0
) -> float:
    """Return the step from which on the mean square of the iterates grows without bound.

    The parameters are those of :func:`moments`.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> round(largest_step(X, 5), 3), round(largest_step(X, np.inf), 3)
    (1.158, 1.541)
    """
    given = check_array(X, dtype=np.float64)
    nothing = np.zeros(len(given))
    rows, s, z, _ = _rotated(given, nothing)
    source = RowSource(s, z, 0.0, 0.0, len(rows), rows, nothing, z)
    size = _batch(batch_size)
    decay = float(nonnegative("weight_decay", weight_decay))
    return source.largest_step(fraction_below_one("momentum", momentum), decay, size)


def _rotated(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """Return the rows in the eigenbasis, the eigenvalues, the response there, and the basis."""
    rows, response = check_X_y(X, y, dtype=np.float64)
    spectrum = decompose(rows, response, fit_intercept=False)
    basis = np.asarray(spectrum.vectors, dtype=np.float64)
    s = np.asarray(spectrum.eigenvalues, dtype=np.float64)
    z = np.asarray(spectrum.response, dtype=np.float64)
    return np.asfortranarray(rows @ basis), s, z, basis


def _spectrum_source(
    eigenvalues: ArrayLike, signal: ArrayLike | float, noise: float, n_samples: float
) -> SpectrumSource:
    """Return a source for a signal of given coordinates, or spread evenly."""
    s = list_of_eigenvalues(eigenvalues)
    if np.ndim(signal) == 0:
        squares = np.full(len(s), float(nonnegative("signal", signal)) / len(s))
    else:
        squares = coordinates_of(signal, s) ** 2
    rows = positive_number("n_samples", n_samples)
    if np.count_nonzero(s) > rows:
        raise ValueError(
            f"{rows:g} rows have at most as many positive eigenvalues, and {np.count_nonzero(s)} "
            "are given: raise n_samples."
        )
    return SpectrumSource(s, squares, 0.0, float(nonnegative("noise", noise)), rows)


def _batch(batch_size: float) -> float:
    """Return the batch size, a whole number or infinity."""
    return (
        np.inf if batch_size == np.inf else float(whole_number("batch_size", batch_size, least=1))
    )


def _states(
    source: Source, step: float, batch_size: float, stops: ArrayLike, momentum: float,
    decay: float = 0.0,
) -> tuple[Iterator[State], Array]:  # fmt: skip
    """Return the states at the stops, one after the other, after checking every number."""
    step, momentum, decay = _checked_sgd(step, momentum, decay)
    size = _batch(batch_size)
    source.check_stable(step, momentum, decay, size)
    found = _numbers_of_steps(stops)
    moves = (HeavyBall(step, momentum) if momentum else GradientDescent(step)).coefficients
    return source.followed(moves, step, decay, size, found), found


def _assembled(
    source: Source, states: Iterator[State], stops: Array, target: Target, unseen: float = 0.0
) -> BatchRisk:
    """Return bias, variance and the variance of batches at the stops."""
    check_target(target)
    s = source.eigenvalues
    weight = np.ones_like(s) if target == "estimation" else s
    signal = weight * source.signal
    level = weight * s * source.noise / source.n_samples
    parts = np.empty((4, len(stops)))
    for column, state in zip(parts.T, states, strict=True):
        bias = signal @ (1 - s * state.gain) ** 2 + (unseen if target == "estimation" else 0.0)
        spread = weight @ source.variances(state.covariance)
        column[:] = bias, level @ state.gain**2, spread, source.loss(state)
    return BatchRisk(stops, *parts)


def _checked_sgd(step: float, momentum: float, weight_decay: float) -> tuple[float, float, float]:
    """Return step, momentum and weight decay; refuse those for which no iterate is defined."""
    decay = float(nonnegative("weight_decay", weight_decay))
    return positive_number("step", step), fraction_below_one("momentum", momentum), decay


def _one_per_column(name: str, values: ArrayLike, n_columns: int) -> Array:
    """Return finite numbers, one for each column."""
    found: Array = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if found.shape != (n_columns,):
        raise ValueError(f"{name} must have {n_columns} numbers, one for each column.")
    return found


def _numbers_of_steps(stops: ArrayLike) -> Array:
    """Return distinct numbers of steps in ascending order; refuse those that no run reaches."""
    found = np.unique(list_of_stops(stops))
    if found.max(initial=0) > MOST_ITERATIONS:
        raise ValueError(
            f"A stop after {found[-1]:g} steps is beyond the limit of {MOST_ITERATIONS}: random "
            "batches have no last iterate. Give an earlier stop."
        )
    return found
