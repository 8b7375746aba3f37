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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.utils import check_array, check_X_y

from stoptime.methods.iterations import GradientDescent, HeavyBall
from stoptime.methods.recurrence import MOST_ITERATIONS
from stoptime.spectrum.decompose import decompose
from stoptime.support import checks
from stoptime.support.arrays import Array
from stoptime.support.progress import progress, progress_shown
from stoptime.theory.risk import list_of_eigenvalues
from stoptime.theory.signals import Target, squared_coordinates, target_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BatchRisk", "Moments", "largest_step", "limit", "moments", "risk"]

Moves = Callable[[int], tuple[float, float, float]]


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Mean, of shape (n_stops, n_features), and covariance of random iterates at many stops.

    ``train_error`` is E‖y - Xβ‖²/n at every stop and ``gram`` is XᵀX/n. The covariance is stored as
    ``spread`` in a ``basis`` of the row space.
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
        distance = self.mean - _one_per_column(coef, len(self.gram))
        bias = np.einsum("ti,ij,tj->t", distance, weight, distance)
        inner = self.basis.T @ weight @ self.basis
        return np.asarray(bias + np.einsum("tij,ji->t", self.spread, inner))

    def __repr__(self) -> str:
        return f"Moments({len(self.stops)} stops, {len(self.gram)} features)"


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
    A step costs about 4np² operations. Batches are drawn with replacement.

    Parameters
    ----------
    X, y : array-like of shape (n, p) and (n,)
        The data, as they are: nothing is centred.
    step, batch_size : float, and int or inf
        Step ε, refused where the iterates diverge, and rows of a batch; ``inf`` is all rows.
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
    """
    rows, response = check_X_y(X, y, dtype=np.float64)
    source, basis = _row_source(rows, response)
    found, run = _run(source, step, batch_size, stops, momentum, weight_decay)
    mean = np.empty((len(found), len(basis)))
    spread = np.empty((len(found), basis.shape[1], basis.shape[1]))
    losses = np.empty(len(found))
    s = source.eigenvalues
    with progress_shown(verbose):
        for place, state in enumerate(run):
            mean[place] = basis @ (state.gain * s * source.coef)
            spread[place] = state.covariance
            losses[place] = source.loss(state)
    return Moments(found, mean, losses, (basis * s) @ basis.T, basis, spread)


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
    rows = check_array(X, dtype=np.float64)
    beta = _one_per_column(coef, rows.shape[1])
    source, basis = _row_source(rows, rows @ beta, float(checks.nonnegative("noise", noise)))
    run = _run(source, step, batch_size, stops, momentum, weight_decay)
    # nothing is learned of coefficients outside the row space
    signal = basis.T @ beta
    return _assembled(source, *run, target, max(float(beta @ beta - signal @ signal), 0.0))


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
    in discrete time. A step costs O(p). :func:`risk` is exact for given rows.

    The ``signal`` is a list of coordinates vᵢᵀβ₀, or the number r² = E‖β₀‖², spread evenly. The
    other parameters are those of :func:`moments` and :func:`stoptime.risk`.

    Examples
    --------
    >>> known = {"signal": 1.0, "noise": 1.0, "n_samples": 400, "step": 0.1}
    >>> limit(np.linspace(0.1, 2, 100), [10, 100], **known, batch_size=50).cost.round(2)
    array([1.35, 1.25])
    """
    s = list_of_eigenvalues(eigenvalues)
    rows = checks.positive_number("n_samples", n_samples)
    level = float(checks.nonnegative("noise", noise))
    if np.count_nonzero(s) > rows:
        raise ValueError(
            f"{rows:g} rows have at most as many positive eigenvalues, and {np.count_nonzero(s)} "
            "are given: raise n_samples."
        )
    source = SpectrumSource(s, squared_coordinates(signal, s), 0.0, level, rows)
    return _assembled(source, *_run(source, step, batch_size, stops, momentum), target)


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
    rows = check_array(X, dtype=np.float64)
    source, _ = _row_source(rows, np.zeros(len(rows)))
    return source.largest_step(*_checked(batch_size, momentum, weight_decay))


class State(NamedTuple):
    """Gain φ of the mean, and covariance of the iterates, after k steps."""

    gain: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Source(ABC):
    r"""Where the randomness comes from: the rows in the eigenbasis, or their spectrum alone.

    With the residuals e of the mean and the covariance V of the iterates, a gradient of b rows has
    the covariance :math:`N = \frac1b[\frac1n\sum_i (x_i^TVx_i + e_i^2) x_ix_i^T - HVH - hh^T]`,
    H = XᵀX/n and h = -Xᵀe/n. In the eigenbasis of H a step multiplies each entry of V by a number,
    and adds ε²N. ``signal`` are the squared coordinates of the coefficients that fit the response,
    ``outside`` the mean square of what they leave; ``noise`` is averaged over.
    """

    eigenvalues: Array
    signal: Array
    outside: float
    noise: float
    n_samples: float
    whole: ClassVar[bool]
    """Whether covariances are matrices, or their diagonals alone."""

    @abstractmethod
    def gradient_noise(self, state: State) -> Array:
        """Return bN, the covariance of the gradient of one random row at this state."""

    @abstractmethod
    def growth(self, response: Array) -> float:
        """Return the factor by which noise grows in a loop with this response of V to N."""

    def loss(self, state: State) -> float:
        """Return the expected training error, E‖y - Xβ‖²/n."""
        s = self.eigenvalues
        left = (1 - s * state.gain) ** 2
        # directions with s = 0 have a part of one left, and no part in the fit
        unfitted = 1 - (len(s) - left.sum()) / self.n_samples
        fixed = s * self.signal @ left + self.outside + self.noise * unfitted
        return float(fixed + s @ self.variances(state.covariance))

    def variances(self, covariance: Array) -> Array:
        """Return the variances of all directions."""
        return np.diagonal(covariance) if self.whole else covariance

    def _scaled(self, factors: Array) -> tuple[Array, Array]:
        """Return factors of the rows and of the columns of a covariance."""
        return (factors[:, None], factors[None, :]) if self.whole else (factors, factors)

    def followed(
        self, moves: Moves, step: float, decay: float, batch_size: float, stops: Array
    ) -> Iterator[State]:
        """Yield the states at the stops, in ascending order; ``moves`` defines the iteration."""
        wanted = set(checks.iteration_numbers(stops).tolist())
        run = self._steps(moves, self.eigenvalues + decay, step, batch_size)
        for k, state in zip(
            progress(range(max(wanted, default=0) + 1), "steps"), run, strict=False
        ):
            if k in wanted:
                yield state

    def _steps(
        self, coefficients: Moves, rates: Array, step: float, batch_size: float
    ) -> Iterator[State]:
        """Yield the states of the iteration with these coefficients, from the first on."""
        rows, columns = self._scaled(rates)
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

    def loop_growth(self, step: float, batch_size: float, momentum: float, decay: float) -> float:
        """Return the factor from the noise of a batch to the noise it causes; stable below 1."""
        # The noise N of every step adds up to the covariance, with x = ε(s + w) and momentum μ,
        # ε²(1 - μ²)N / {(1 - μ)²[(1 + μ)(xᵢ + xⱼ) - xᵢxⱼ] + μ(xᵢ - xⱼ)²}, which makes new noise.
        x, y = self._scaled(step * (self.eigenvalues + decay))
        damping = (1 - momentum) ** 2 * ((1 + momentum) * (x + y) - x * y)
        total = damping + momentum * (x - y) ** 2
        # directions in which nothing is learned have neither noise nor a response
        noise = step**2 * (1 - momentum**2)
        response = np.divide(noise, total, out=np.zeros_like(total), where=total > 0)
        return self.growth(response / batch_size)

    def largest_step(self, batch_size: float, momentum: float, decay: float) -> float:
        """Return the step from which on the mean square of the iterates grows without bound."""
        largest = float(np.max(self.eigenvalues, initial=0)) + decay
        if largest == 0:
            return np.inf
        end = 2 * (1 + momentum) / largest
        if np.isinf(batch_size):
            return end

        def excess(log_step: float) -> float:
            # the growth has a pole at the end of the bracket, and its logarithm rises slowly
            growth = self.loop_growth(end * np.exp(log_step), batch_size, momentum, decay)
            return float(np.log(max(growth, 1e-300)))

        lowest, highest = -60.0, -1e-9
        if excess(highest) <= 0:
            return end
        return end * float(np.exp(brentq(excess, lowest, highest, xtol=1e-6)))

    def check_stable(self, step: float, batch_size: float, momentum: float, decay: float) -> None:
        """Raise a ValueError with the largest stable step if the iterates diverge."""
        end = self.largest_step(np.inf, momentum, decay)
        stable = step < end
        if stable and np.isfinite(batch_size):
            stable = self.loop_growth(step, batch_size, momentum, decay) < 1
        if not stable:
            limit = self.largest_step(batch_size, momentum, decay)
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
        s = self.eigenvalues
        left = 1 - s * state.gain
        level = np.diag(self.noise / (self.n_samples * s))
        # E δδᵀ of the distance δ from the coefficients of least squares, whose residuals have no
        # product with the columns; noise is averaged over, and its constant part is added below
        spread = np.multiply.outer(self.coef, self.coef) + level
        second = state.covariance + np.multiply.outer(left, left) * spread - level
        crossed = 2 * self.rows @ (left * self.coef)
        total = self._weighted(second, self.residuals * (self.residuals + crossed))
        total -= np.multiply.outer(s, s) * second
        total[np.diag_indices_from(total)] += self.noise * (1 - 1 / self.n_samples) * s
        return total

    def _weighted(self, matrix: Array, more: Array | float = 0.0) -> Array:
        """Return Σ (xᵀMx + q)xxᵀ/n for a symmetric matrix M and numbers q, one for each row x."""
        numbers = np.einsum("ij,ij->i", self.rows @ matrix, self.rows) + more
        total = self.rows.T @ (numbers[:, None] * self.rows) / len(self.rows)
        # products of a matrix with another one are symmetric up to rounding only
        return np.asarray((total + total.T) / 2)

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
        found = eigsh(operator, 1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)
        return float(found[0])


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


def _row_source(rows: Array, response: Array, noise: float = 0.0) -> tuple[RowSource, Array]:
    """Return the rows as a source, and the basis of their row space."""
    spectrum = decompose(rows, response, fit_intercept=False)
    basis = np.asarray(spectrum.vectors, dtype=np.float64)
    s = np.asarray(spectrum.eigenvalues, dtype=np.float64)
    coef = np.asarray(spectrum.response, dtype=np.float64) / s
    rotated = rows @ basis
    residuals = response - rotated @ coef
    outside = float(np.mean(residuals**2))
    source = RowSource(s, coef**2, outside, noise, len(rows), rotated, residuals, coef)
    return source, basis


def _checked(batch_size: float, momentum: float, decay: float) -> tuple[float, float, float]:
    """Return batch size, momentum and weight decay; refuse those that define no iterate."""
    whole = batch_size != np.inf
    size = checks.whole_number("batch_size", batch_size, least=1) if whole else np.inf
    momentum = checks.fraction_below_one("momentum", momentum)
    return float(size), momentum, float(checks.nonnegative("weight_decay", decay))


def _run(
    source: Source,
    step: float,
    batch_size: float,
    stops: ArrayLike,
    momentum: float,
    decay: float = 0.0,
) -> tuple[Array, Iterator[State]]:
    """Return distinct stops and the states there, after checking every number."""
    step = checks.positive_number("step", step)
    size, momentum, decay = _checked(batch_size, momentum, decay)
    source.check_stable(step, size, momentum, decay)
    found = np.unique(checks.list_of_stops(stops))
    if found.max(initial=0) > MOST_ITERATIONS:
        raise ValueError(
            f"A stop after {found[-1]:g} steps is beyond the limit of {MOST_ITERATIONS}: random "
            "batches have no last iterate. Give an earlier stop."
        )
    moves = (HeavyBall(step, momentum) if momentum else GradientDescent(step)).coefficients
    return found, source.followed(moves, step, decay, size, found)


def _assembled(
    source: Source, stops: Array, states: Iterator[State], target: Target, unseen: float = 0.0
) -> BatchRisk:
    """Return bias, variance and the variance of batches at the stops."""
    s = source.eigenvalues
    weight = target_weights(target, s)
    parts = np.empty((4, len(stops)))
    for column, state in zip(parts.T, states, strict=True):
        bias = weight * source.signal @ (1 - s * state.gain) ** 2
        bias += unseen if target == "estimation" else 0.0
        variance = source.noise / source.n_samples * (weight * s) @ state.gain**2
        spread = weight @ source.variances(state.covariance)
        column[:] = bias, variance, spread, source.loss(state)
    return BatchRisk(stops, *parts)


def _one_per_column(coef: ArrayLike, n_columns: int) -> Array:
    found: Array = check_array(coef, ensure_2d=False, dtype=np.float64, input_name="coef")
    if found.shape != (n_columns,):
        raise ValueError(f"coef must have {n_columns} numbers, one for each column.")
    return found
