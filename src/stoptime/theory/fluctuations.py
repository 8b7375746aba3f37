r"""How far iterates on random batches stray from those on all rows: their covariance at every step.

A batch of b rows, drawn with replacement, changes the gradient by a random vector ξ of mean zero.
So the mean of the iterates is the path of the full gradient, and their covariance V starts at zero.
With the residuals e of the mean, H = XᵀX/n and h = -Xᵀe/n, the covariance of ξ is

.. math:: N = \frac1b\Bigl[\frac1n\sum_i d_i x_ix_i^T - HVH - hh^T\Bigr],
    \qquad d_i = x_i^TVx_i + e_i^2

In the eigenbasis of H an iteration multiplies entry (i, j) of V by a number, and adds ε²N.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import blas
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, eigsh

from stoptime.methods.recurrence import Coefficients
from stoptime.support.arrays import Array
from stoptime.support.checks import iteration_numbers
from stoptime.support.progress import progress

Moves = Callable[[int], Coefficients]

BLOCK_ENTRIES = 2**24  # of a temporary array of rows
STEP_TOLERANCE = 1e-6  # relative error of the largest stable step
EIGENVALUE_TOLERANCE = 1e-6  # of an eigenvector; the eigenvalue is known to the square of this
EDGE = 1e-9  # relative distance from the step at which the full gradient itself diverges


class State(NamedTuple):
    """Gain φ of the mean, and covariance of the iterates, after k steps."""

    gain: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Source(ABC):
    r"""Where the randomness comes from: the rows in the eigenbasis, or their spectrum alone.

    ``signal`` are the squared coordinates of the coefficients that fit the response. What the
    columns cannot fit has the mean square ``outside``. Independent noise of variance ``noise`` is
    averaged over, if there is any. There are ``n_samples`` rows.
    """

    eigenvalues: Array
    signal: Array
    outside: float
    noise: float
    n_samples: float
    whole: ClassVar[bool]
    """Whether covariances are matrices, or their diagonals alone."""

    def loss(self, state: State) -> float:
        """Return the expected training error, E‖y - Xβ‖²/n."""
        s = self.eigenvalues
        left = (1 - s * state.gain) ** 2
        spread = s @ self.variances(state.covariance)
        # directions with s = 0 have a part of one left, and no part in the fit
        unfitted = 1 - (len(s) - left.sum()) / self.n_samples
        return float(s * self.signal @ left + self.outside + self.noise * unfitted + spread)

    def empty(self) -> Array:
        """Return a covariance of zero: a matrix, or the variances of all directions."""
        return np.zeros((len(self.eigenvalues),) * (2 if self.whole else 1))

    def variances(self, covariance: Array) -> Array:
        """Return the variances of all directions."""
        return np.diagonal(covariance) if self.whole else covariance

    def scaled(self, factors: Array) -> tuple[Array, Array]:
        """Return factors of the rows and of the columns of a covariance."""
        return (factors[:, None], factors[None, :]) if self.whole else (factors, factors)

    @abstractmethod
    def gradient_noise(self, state: State) -> Array:
        """Return bN, the covariance of the gradient of one random row at this state."""

    @abstractmethod
    def growth(self, response: Array) -> float:
        """Return the factor by which a loop of noise and response multiplies the covariance.

        The response is that of the covariance to a constant covariance N of one, for every entry.
        """

    def followed(
        self, moves: Moves, step: float, decay: float, batch_size: float, stops: Array
    ) -> Iterator[State]:  # fmt: skip
        """Return the states at the stops, in ascending order.

        ``moves`` gives the coefficients of every iteration.
        """
        run = self._steps(moves, self.eigenvalues + decay, step, batch_size)
        return at_stops(run, stops)

    def _steps(
        self, coefficients: Moves, rates: Array, step: float, batch_size: float
    ) -> Iterator[State]:
        """Yield the states of the iteration with these coefficients, from the first on."""
        rows, columns = self.scaled(rates)
        # covariances must stay symmetric to the last digit, because a difference from the transpose
        # would grow: hence one product for both factors, and sums with the transpose in brackets
        both = rows * columns
        gain = np.zeros_like(rates)
        speed = np.zeros_like(rates)
        # covariances of the iterate, of iterate and last move, and of the last move
        own = self.empty()
        mixed = self.empty()
        moves = self.empty()
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

    def loop_growth(self, step: float, momentum: float, decay: float, batch_size: float) -> float:
        r"""Return the factor from the noise of a batch to the noise that it causes; stable below 1.

        The noise :math:`N_{ij}` of every step adds up to the covariance

        .. math:: \frac{\varepsilon^2 (1-\mu^2) N_{ij}}
            {(1-\mu)^2[(1+\mu)(x_i + x_j) - x_ix_j] + \mu(x_i - x_j)^2}, \qquad x = \varepsilon(s+w)

        with momentum μ and weight decay w, and this covariance makes new noise.
        """
        x, y = self.scaled(step * (self.eigenvalues + decay))
        damping = (1 - momentum) ** 2 * ((1 + momentum) * (x + y) - x * y)
        total = damping + momentum * (x - y) ** 2
        # directions in which nothing is learned have neither noise nor a response
        noise = step**2 * (1 - momentum**2)
        response = np.divide(noise, total, out=np.zeros_like(total), where=total > 0)
        return self.growth(response / batch_size)

    def largest_step(self, momentum: float, decay: float, batch_size: float) -> float:
        """Return the step from which on the mean square of the iterates grows without bound."""
        largest = float(np.max(self.eigenvalues, initial=0)) + decay
        if largest == 0:
            return np.inf
        end = 2 * (1 + momentum) / largest
        if np.isinf(batch_size):
            return end

        def excess(step: float) -> float:
            # the growth has a pole at the end of the bracket, and its reciprocal a zero
            return 1 - 1 / max(self.loop_growth(step, momentum, decay, batch_size), 1e-300)

        highest = end * (1 - EDGE)
        if excess(highest) <= 0:
            return end
        lowest = highest / 2
        while excess(lowest) > 0:
            highest = lowest
            lowest /= 2
        return float(brentq(excess, lowest, highest, rtol=STEP_TOLERANCE))

    def check_stable(self, step: float, momentum: float, decay: float, batch_size: float) -> None:
        """Raise a ValueError with the largest stable step if the iterates diverge."""
        end = self.largest_step(momentum, decay, np.inf)
        stable = step < end
        if stable and np.isfinite(batch_size):
            stable = self.loop_growth(step, momentum, decay, batch_size) < 1
        if not stable:
            limit = self.largest_step(momentum, decay, batch_size)
            raise ValueError(
                f"A step of {step:g} diverges with batches of {batch_size:g} rows: the step must "
                f"be below {limit:.4g} for this batch size (below {end:.4g} for the full gradient)."
                " Take a smaller step, or larger batches."
            )


@dataclass(frozen=True, eq=False)
class RowSource(Source):
    """Rows of X in the eigenbasis, and residuals and coefficients of least squares: exact."""

    rows: Array
    residuals: Array
    coef: Array
    whole: ClassVar[bool] = True

    def gradient_noise(self, state: State) -> Array:
        """Return the covariance of the gradient of one random row, averaged over all rows."""
        left = 1 - self.eigenvalues * state.gain
        return self._noise(state.covariance, np.multiply.outer(left, left), left)

    def _noise(self, covariance: Array, both: Array, left: Array) -> Array:
        """Return this covariance as a linear map of V, ggᵀ and the shrinkage g of the mean."""
        s = self.eigenvalues
        if not s.size:
            return np.zeros_like(covariance)
        level = np.diag(self.noise / (self.n_samples * s))
        # E δδᵀ of the distance δ from the coefficients of least squares, whose residuals have no
        # product with the columns; noise is averaged over, and its constant part is added below
        second = covariance + both * (np.multiply.outer(self.coef, self.coef) + level) - level
        # all products by SciPy's BLAS: threads of NumPy's would wait for the same processors
        crossed = blas.dgemv(2.0, self.rows, left * self.coef)
        total = self._weighted(second, self.residuals * (self.residuals + crossed))
        total -= np.multiply.outer(s, s) * second
        total[np.diag_indices_from(total)] += self.noise * (1 - 1 / self.n_samples) * s
        return total

    def _weighted(self, matrix: Array, more: Array | float = 0.0) -> Array:
        """Return Σ (xᵀMx + q)xxᵀ/n for a symmetric matrix M and numbers q, one for each row x."""
        # one triangle, with half of the diagonal, is enough: half the price of the whole product
        triangle = np.array(matrix, order="F")
        triangle[np.diag_indices_from(triangle)] /= 2
        numbers = np.empty(len(self.rows))
        for part, scratch in self._blocks():
            scratch[...] = self.rows[part]
            half = blas.dtrmm(2.0, triangle, scratch, side=1, lower=1, overwrite_b=1)
            numbers[part] = np.einsum("ij,ij->i", half, self.rows[part])
        numbers += more
        # one triangle of Σ wxxᵀ costs half the product, and needs roots of the weights: so the
        # least one is subtracted where it is negative, and XᵀX/n is diagonal
        least = min(float(numbers.min()), 0.0)
        total = np.diag(least * self.eigenvalues)
        for part, scratch in self._blocks():
            roots = np.sqrt(np.maximum(numbers[part] - least, 0))
            weighted = np.multiply(self.rows[part], roots[:, None], out=scratch)
            upper = np.triu(blas.dsyrk(1.0, weighted, trans=1))
            total += (upper + np.triu(upper, 1).T) / len(numbers)
        return total

    def growth(self, response: Array) -> float:
        """Return the largest eigenvalue of the loop, a symmetric operator on matrices."""
        if not len(response):
            return 0.0
        root = np.sqrt(response)
        s = self.eigenvalues

        def loop(flat: Array) -> Array:
            covariance = root * flat.reshape(root.shape)
            covariance = (covariance + covariance.T) / 2
            total = self._weighted(covariance) - covariance * np.multiply.outer(s, s)
            return np.asarray((root * total).ravel())

        if len(s) == 1:
            return float(loop(np.ones(1))[0])
        operator: Any = LinearOperator((root.size, root.size), loop, dtype=np.float64)
        # a fixed start makes the result the same every time
        start = np.diag(np.sqrt(np.diagonal(response)) * s).ravel()
        found = eigsh(
            operator, 1, which="LA", v0=start, tol=EIGENVALUE_TOLERANCE, return_eigenvectors=False
        )
        return float(found[0])

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield parts of the rows and an array to work in, which has their shape."""
        for first in range(0, len(self.rows), len(self._scratch)):
            part = slice(first, first + len(self._scratch))
            yield part, self._scratch[: len(self.rows[part])]

    @cached_property
    def _scratch(self) -> Array:
        """Made once, and small: new memory in every step would cost as much as the products."""
        n, p = self.rows.shape
        return np.empty((min(n, max(1, BLOCK_ENTRIES // p)), p), order="F")


@dataclass(frozen=True, eq=False)
class SpectrumSource(Source):
    """The spectrum alone: every row is taken to have the mean of xᵀVx over all rows."""

    whole: ClassVar[bool] = False

    def gradient_noise(self, state: State) -> Array:
        """Return the variance of the gradient of one random row in every direction."""
        s = self.eigenvalues
        left = (1 - s * state.gain) ** 2
        mean_square = s**2 * (state.covariance + self.signal * left)
        mean_square += self.noise * s * left / self.n_samples
        return np.asarray(s * self.loss(state) - mean_square)

    def growth(self, response: Array) -> float:
        """Return the factor of the loss after one loop."""
        answer = response * self.eigenvalues**2
        return float(np.sum(answer / (1 + answer)))


def at_stops(run: Iterator[Any], stops: Array) -> Iterator[Any]:
    """Yield what a run without end yields after each of these numbers of steps."""
    wanted = set(iteration_numbers(stops).tolist())
    start = next(run)
    if 0 in wanted:
        yield start
    for k in progress(range(1, max(wanted, default=0) + 1), "steps"):
        state = next(run)
        if k in wanted:
            yield state
