r"""Mini-batches: the exact mean and covariance of stochastic gradient descent on least squares.

.. math:: \beta_k = \beta_{k-1} + \mu(\beta_{k-1} - \beta_{k-2}) - \varepsilon
    \Bigl[\frac1b\sum_{i\in B_k} x_i(x_i^T\beta_{k-1} - y_i) + w\beta_{k-1}\Bigr]

with batches B of b rows, momentum μ and weight decay w as in ``torch.optim.SGD``. For the loss
``mse_loss`` of torch, whose gradient is twice this one, ε is twice torch's ``lr`` and w half its
``weight_decay``. X and y are taken as they are, without an intercept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y

from stoptime.methods.iterations import GradientDescent, HeavyBall
from stoptime.methods.recurrence import MOST_ITERATIONS, at_stops
from stoptime.spectrum.decompose import decompose
from stoptime.support import checks
from stoptime.support.arrays import Array
from stoptime.theory.risk import (
    Target,
    list_of_eigenvalues,
    squared_coordinates,
    target_weights,
)

__all__ = ["BatchRisk", "Moments", "limit", "moments"]


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Mean, of shape (n_stops, n_features), and covariance of random iterates at many stops.

    ``train_error`` is E‖y - Xβ‖²/n; ``spread`` is the covariance in a ``basis`` of the row space.
    """

    stops: Array
    mean: Array
    train_error: Array
    basis: Array
    spread: Array

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients, an array of shape (n_stops, n_features, n_features)."""
        return np.asarray(self.basis @ self.spread @ self.basis.T)

    def __repr__(self) -> str:
        return f"Moments({len(self.stops)} stops, {len(self.basis)} features)"


@dataclass(frozen=True, eq=False)
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


def moments(
    X: ArrayLike,
    y: ArrayLike,
    step: float,
    batch_size: float,
    stops: ArrayLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> Moments:
    r"""Return the exact mean and covariance of the iterates, given the data.

    .. math:: E\beta_k \text{ is the iterate of the full gradient}, \qquad
        V_{k+1} = (I - \varepsilon H)V_k(I - \varepsilon H) + \varepsilon^2 N(V_k)

    (without momentum) with N the covariance of the gradient of a batch, which depends on every row.
    A step costs about 4np² operations. Batches are drawn with replacement.

    Parameters
    ----------
    X, y : array-like of shape (n, p) and (n,)
        The data, as they are: nothing is centred.
    step, batch_size : float, and int or inf
        Step ε, and rows of a batch; ``inf`` is all rows.
    stops : array-like of shape (n_stops,)
        Numbers of steps. The covariance at every stop has p² numbers.
    momentum, weight_decay : float
        As in ``torch.optim.SGD``, for the loss ‖y - Xβ‖²/(2n).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 3))
    >>> found = moments(X, X @ [1, 2, 0] + rng.standard_normal(50), 0.1, 5, [10, 100])
    >>> found.train_error.round(3)
    array([1.551, 0.891])
    """
    rows, response = check_X_y(X, y, dtype=np.float64)
    spectrum = decompose(rows, response, fit_intercept=False)
    basis = np.asarray(spectrum.vectors, dtype=np.float64)
    s = np.asarray(spectrum.eigenvalues, dtype=np.float64)
    coef = np.asarray(spectrum.response, dtype=np.float64) / s
    rotated = rows @ basis
    source = RowSource(s, rotated, response - rotated @ coef, coef)

    def parts(state: State) -> tuple[Any, ...]:
        return basis @ (state.gain * s * coef), source.loss(state), state.covariance

    given = source, step, batch_size, stops, momentum, weight_decay
    found, mean, losses, spread = _followed(*given, parts)
    return Moments(found, mean, losses, basis, spread)


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
    in discrete time. The ``signal`` is a list of coordinates vᵢᵀβ₀, or the number r² = E‖β₀‖². The
    other parameters are those of :func:`moments`, which is exact for given data, and of
    :func:`stoptime.risk`.

    Examples
    --------
    >>> known = {"signal": 1.0, "noise": 1.0, "n_samples": 400, "step": 0.1}
    >>> limit(np.linspace(0.1, 2, 100), [10, 100], **known, batch_size=50).cost.round(2)
    array([1.35, 1.25])
    """
    s = list_of_eigenvalues(eigenvalues)
    rows = checks.positive_number("n_samples", n_samples)
    level = float(checks.nonnegative("noise", noise))
    weight = target_weights(target, s)
    if np.count_nonzero(s) > rows:
        raise ValueError(
            f"{rows:g} rows have at most as many positive eigenvalues, and {np.count_nonzero(s)} "
            "are given: raise n_samples."
        )
    source = SpectrumSource(s, squared_coordinates(signal, s), level, rows)

    def parts(state: State) -> tuple[Any, ...]:
        bias = weight * source.signal @ (1 - s * state.gain) ** 2
        variance = level / rows * (weight * s) @ state.gain**2
        return bias, variance, weight @ state.covariance, source.loss(state)

    return BatchRisk(*_followed(source, step, batch_size, stops, momentum, 0.0, parts))


class State(NamedTuple):
    """Gain φ of the mean, and covariance of the iterates, after k steps."""

    gain: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Source(ABC):
    r"""Where the randomness comes from, in the eigenbasis of H = XᵀX/n.

    With the residuals e of the mean and the covariance V of the iterates, the gradient of a random
    row has the covariance :math:`N = \frac1n\sum_i (x_i^TVx_i + e_i^2) x_ix_i^T - HVH - hh^T`,
    h = -Xᵀe/n. A step multiplies each entry of V by a number, and adds ε²N/b.
    """

    eigenvalues: Array

    @abstractmethod
    def gradient_noise(self, state: State) -> Array:
        """Return N at this state."""

    @abstractmethod
    def loss(self, state: State) -> float:
        """Return the expected training error, E‖y - Xβ‖²/n."""

    @abstractmethod
    def factors(self, rates: Array) -> tuple[Array, Array]:
        """Return factors of the rows and of the columns of a covariance."""

    def steps(
        self,
        coefficients: Callable[[int], tuple[float, float, float]],
        step: float,
        decay: float,
        batch_size: float,
    ) -> Iterator[State]:
        """Yield the states after 0, 1, 2, ... steps with these coefficients."""
        rates = self.eigenvalues + decay
        rows, columns = self.factors(rates)
        # covariances must stay symmetric to the last digit, because a difference from the transpose
        # would grow: hence one product for both factors, and sums with the transpose in brackets
        both = rows * columns
        gain = np.zeros_like(rates)
        speed = np.zeros_like(rates)
        # covariances of the iterate, of iterate and last move, and of the last move
        own = np.zeros_like(both)
        mixed = np.zeros_like(both)
        moves = np.zeros_like(both)
        for k in count(1):
            yield State(gain, own)
            momentum, lookahead, weight = coefficients(k)
            size = weight * step
            # the gradient is taken at a point that lies ahead by a part of the last move
            ahead = gain + lookahead * speed
            point = own
            to_point = own
            if lookahead:
                point = own + lookahead * (mixed + mixed.T) + lookahead**2 * moves
                to_point = own + lookahead * mixed
            pulled = momentum * size * (rows * (mixed + lookahead * moves))
            finite = np.isfinite(batch_size)
            noise = self.gradient_noise(State(ahead, point)) / batch_size if finite else 0.0
            moves = momentum**2 * moves - (pulled + pulled.T)
            moves += size**2 * (both * point + noise)
            to_move = momentum * mixed - size * to_point * columns
            own = own + (to_move + to_move.T) + moves
            mixed = to_move + moves
            speed = momentum * speed - size * (rates * ahead - 1)
            gain = gain + speed


@dataclass(frozen=True, eq=False)
class RowSource(Source):
    """Rows of X in the eigenbasis, and residuals and coefficients of least squares: exact."""

    rows: Array
    residuals: Array
    coef: Array

    def factors(self, rates: Array) -> tuple[Array, Array]:
        """Return a column and a row: covariances are matrices."""
        return rates[:, None], rates[None, :]

    def _mean_residuals(self, state: State) -> Array:
        left = (1 - self.eigenvalues * state.gain) * self.coef
        return np.asarray(self.residuals + self.rows @ left)

    def gradient_noise(self, state: State) -> Array:
        """Return the covariance of the gradient of one random row."""
        s = self.eigenvalues
        squares = np.einsum("ij,ij->i", self.rows @ state.covariance, self.rows)
        squares += self._mean_residuals(state) ** 2
        total = self.rows.T @ (squares[:, None] * self.rows) / len(self.rows)
        full = s * (1 - s * state.gain) * self.coef
        total -= np.multiply.outer(s, s) * state.covariance + np.multiply.outer(full, full)
        # products of a matrix with another one are symmetric up to rounding only
        return np.asarray((total + total.T) / 2)

    def loss(self, state: State) -> float:
        """Return the mean square of the residuals of the mean, and the variance of the fit."""
        spread = self.eigenvalues @ np.diagonal(state.covariance)
        return float(np.mean(self._mean_residuals(state) ** 2) + spread)


@dataclass(frozen=True, eq=False)
class SpectrumSource(Source):
    """The spectrum alone: every row is taken to have the mean of xᵀVx over all rows.

    ``signal`` are the squared coordinates of the coefficients; the noise is averaged over.
    """

    signal: Array
    noise: float
    n_samples: float

    def factors(self, rates: Array) -> tuple[Array, Array]:
        """Return the rates twice: of covariances only the diagonal is known."""
        return rates, rates

    def loss(self, state: State) -> float:
        """Return the expected training error, averaged over the noise."""
        s = self.eigenvalues
        left = (1 - s * state.gain) ** 2
        # directions with s = 0 have a part of one left, and no part in the fit
        unfitted = 1 - (len(s) - left.sum()) / self.n_samples
        return float(s * self.signal @ left + self.noise * unfitted + s @ state.covariance)

    def gradient_noise(self, state: State) -> Array:
        """Return the variance of the gradient of one random row in every direction."""
        s = self.eigenvalues
        left = (1 - s * state.gain) ** 2
        mean_square = s**2 * (state.covariance + self.signal * left)
        mean_square += self.noise * s * left / self.n_samples
        return np.asarray(s * self.loss(state) - mean_square)


def _followed(
    source: Source,
    step: float,
    batch_size: float,
    stops: ArrayLike,
    momentum: float,
    decay: float,
    parts: Callable[[State], tuple[Any, ...]],
) -> list[Array]:
    """Return distinct stops and the parts of the states there, after checking every number."""
    step = checks.positive_number("step", step)
    if batch_size != np.inf:
        batch_size = checks.whole_number("batch_size", batch_size, least=1)
    momentum = checks.fraction_below_one("momentum", momentum)
    decay = float(checks.nonnegative("weight_decay", decay))
    found = np.unique(checks.list_of_stops(stops))
    if not found.size:
        raise ValueError("stops must be at least one number; got none.")
    if found[-1] > MOST_ITERATIONS:
        raise ValueError(
            f"A stop after {found[-1]:g} steps is beyond the limit of {MOST_ITERATIONS}: random "
            "batches have no last iterate. Give an earlier stop."
        )
    method = HeavyBall(step, momentum) if momentum else GradientDescent(step)
    run = source.steps(method.coefficients, step, decay, batch_size)
    with np.errstate(over="ignore", invalid="ignore"):
        at_each = [parts(state) for state in at_stops(run, checks.iteration_numbers(found))]
    columns = [np.array(one) for one in zip(*at_each, strict=True)]
    if not all(np.isfinite(one).all() for one in columns):
        raise ValueError(
            f"A step of {step:g} diverges with batches of {batch_size:g} rows: take a smaller "
            "step, or larger batches."
        )
    return [found, *columns]
