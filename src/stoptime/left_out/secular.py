r"""The eigenvalues that remain when one row is left out, for many rows at once.

With the row in the eigenbasis, scaled to unit variance, :math:`u_j^2` its share in direction j and
:math:`u_0^2 = 1 - \sum_j u_j^2` its share outside the column space, the remaining eigenvalues λ
solve the secular equation

.. math:: \sum_{j=0}^k \frac{u_j^2}{s_j - \lambda} = 0, \qquad s_0 = 0,

with one root between each two neighbouring poles. All residues are positive and no difference is
taken, so every root is found to full relative accuracy as its offset from the nearer pole.

References
----------
Li (1994), Solving secular equations stably and efficiently. LAPACK Working Note 89.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.rows import ByTarget, RowBlock, by_operators
from stoptime.methods.base import Method
from stoptime.support.arrays import Array

Places = NDArray[np.intp]

MAX_STEPS = 1000  # a handful as a rule; hundreds between close pairs of eigenvalues
CHUNK_NUMBERS = 2**17  # one megabyte, so that the arrays of a step stay in the cache
ROOT_TOLERANCE = 4e-16  # of the sum of the terms' sizes: the rounding error of the function
LEAST_RESIDUE = 1e-40  # where the row has no share in a direction; the root is then the pole
LEAST_DISTANCE = 1e-60  # of a root from its pole, relative to the distance of the poles
WORK_PER_PAIR = 1500.0  # of eigenvalues: a few steps of divisions, in units of a matrix product
WORK_PER_GAIN = 2500.0  # one evaluation of the filter, in the same units


@dataclass(frozen=True)
class Downdate:
    r"""Roots of the secular equations: ``eigenvalues`` λ, ascending, of shape (n_rows, k).

    ``gaps`` holds :math:`s_j - \lambda_l` at ``[row, l, j - 1]``, each to full relative accuracy,
    and ``slopes`` holds :math:`\sum_j u_j^2/(s_j-\lambda_l)^2`.
    """

    eigenvalues: Array
    gaps: Array
    slopes: Array


def downdate(eigenvalues: Array, shares: Array, rest: Array) -> Downdate:
    """Solve the secular equations of many rows.

    The eigenvalues are positive and strictly ascending. ``shares``, of shape (n_rows, k), are the
    u_j², and ``rest`` the u_0², which is zero where the row's leverage is one.
    """
    poles = np.concatenate([[0.0], eigenvalues])
    n_rows, k = shares.shape
    residues = np.maximum(np.column_stack([rest, shares]), LEAST_RESIDUE)
    remaining = np.empty(n_rows * k)
    slopes = np.empty(n_rows * k)
    gaps = np.empty((n_rows * k, k))
    height = max(1, CHUNK_NUMBERS // (k + 1))
    for start in range(0, n_rows * k, height):
        here = slice(start, start + height)
        row, left = np.divmod(np.arange(start, min(start + height, n_rows * k)), k)
        own = residues[row]
        origin, offset = _roots(poles, own, left)
        remaining[here] = poles[origin] + offset
        # from the nearer pole, not from the root: s - λ would lose the digits of a small offset
        all_gaps = (poles - poles[origin, None]) - offset[:, None]
        slopes[here] = (own / all_gaps**2).sum(axis=1)
        gaps[here] = all_gaps[:, 1:]
    return Downdate(
        remaining.reshape(n_rows, k), gaps.reshape(n_rows, k, k), slopes.reshape(n_rows, k)
    )


def _roots(poles: Array, residues: Array, left: Places) -> tuple[Places, Array]:
    """Return the pole next to the root between poles ``left`` and ``left + 1``, and the offset."""
    width = poles[left + 1] - poles[left]
    pairs = np.arange(len(left))
    # differences of poles first: the middle itself would round to a pole where two are close
    to_middle = (poles - poles[left, None]) - (width / 2)[:, None]
    to_middle[pairs, left] = -width / 2
    to_middle[pairs, left + 1] = width / 2
    # the function rises between the poles, so its sign in the middle tells the half of the root
    terms = residues / to_middle
    total = terms.sum(axis=1)
    in_left_half = total > 0
    near = np.where(in_left_half, left, left + 1)
    own = residues[pairs, near]
    other = residues[pairs, 2 * left + 1 - near]
    # first guess: the two nearest poles exactly, the others by their sum in the middle
    side = np.where(in_left_half, 1.0, -1.0)
    background = side * (total - terms[pairs, left] - terms[pairs, left + 1])
    guess = _nearer_root(background, own, other, width)
    guess = np.clip(guess, width * LEAST_DISTANCE, width / 2)
    steps = (poles - poles[near, None]) * side[:, None]
    return near, side * _polish(steps, residues, near, guess, width)


def _nearer_root(background: Array, own: Array, other: Array, width: Array) -> Array:
    """Solve ``background - own/d + other/(width - d) = 0`` for d between 0 and ``width``."""
    b = background * width + own + other
    c = own * width
    root = np.sqrt(np.maximum(b * b - 4 * background * c, 0))
    # of the two forms of a quadratic equation's root, the one that adds numbers of one sign
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b > 0, 2 * c / (b + root), (b - root) / (2 * background))


def _polish(steps: Array, residues: Array, near: Places, distance: Array, width: Array) -> Array:
    """Refine the roots by an iteration of quadratic convergence, guarded by a bracket."""
    low = np.zeros_like(distance)
    high = width / 2
    active = np.arange(len(distance))
    for _ in range(MAX_STEPS):
        d = distance[active]
        gaps = steps[active] - d[:, None]
        terms = residues[active] / gaps
        value = terms.sum(axis=1)
        slope = (terms / gaps).sum(axis=1)
        high[active] = np.where(value > 0, np.minimum(high[active], d), high[active])
        low[active] = np.where(value < 0, np.maximum(low[active], d), low[active])
        # roots whose function value is rounding leave the iteration
        moves = np.abs(value) > ROOT_TOLERANCE * np.abs(terms).sum(axis=1)
        active = active[moves]
        if active.size == 0:
            break
        # a model with the near pole exact, and the far pole and the background fitted at d
        own = residues[active, near[active]]
        d = d[moves]
        to_far = width[active] - d
        # the far residue is a sum of positive terms; rounding may make it slightly negative
        far = np.maximum((slope[moves] - own / (d * d)) * to_far**2, 0)
        background = value[moves] + own / d - far / to_far
        new = _nearer_root(background, own, far, width[active])
        # a step that leaves the bracket is replaced by a bisection, so that every root converges
        # on a logarithmic scale while the bracket is wide, because offsets span many decades
        a = low[active]
        b = high[active]
        middle = np.where(a > b / 4, (a + b) / 2, np.sqrt(np.maximum(a, b / 2**12) * b))
        distance[active] = np.where((new > a) & (new < b), new, middle)
    return distance


@dataclass(frozen=True)
class BySecular:
    r"""Left-out residuals from the eigenvalues λ that remain without the row.

    .. math:: e_i(t)/d_i = \tilde y_i + \sum_l \frac{c_i\varphi(c_i\lambda_l, t)}{h'_l}
        \Bigl(\frac{r_i}{\lambda_l} - \sum_j \frac{a_{ij}\hat\beta_j}{s_j - \lambda_l}\Bigr)

    with h′ the slope of the secular function. The cost does not depend on the stop.
    """

    method: Method
    stops: Array
    eigenvalues: Array

    @property
    def runs_on_host(self) -> bool:
        """Whether rows are needed in main memory: not if no stop lies between zero and infinity."""
        return self.stops.size > 0

    @property
    def work(self) -> float:
        """About how many floating-point operations a row of one target takes."""
        rank = len(self.eigenvalues)
        return float(rank * (WORK_PER_PAIR * rank + WORK_PER_GAIN * len(self.stops)))

    def numbers_per_row(self, *, operators: bool) -> int:
        """Return about how many numbers are held for every row."""
        rank = len(self.eigenvalues)
        return rank * (4 * rank + (5 if operators else 3) * len(self.stops))

    def prefers_operators(self, n_targets: int) -> bool:  # noqa: ARG002 - as of mixtures
        """Tell whether operators cost less than residuals: never for few targets."""
        return False

    @cached_property
    def _poles(self) -> tuple[Array, Places]:
        """Distinct eigenvalues in units of the largest, and the index of every eigenvalue."""
        return np.unique(self.eigenvalues / self._unit, return_inverse=True)

    @property
    def _unit(self) -> float:
        return float(self.eigenvalues.max(initial=0)) or 1.0

    def _remaining(self, block: RowBlock) -> tuple[Downdate, Array]:
        """Return the remaining eigenvalues, and cφ(cλ, t)/h′ for every row, pole and stop."""
        found = downdate(self._poles[0], self._gathered(block.shares), block.rest)
        scale = block.scale[:, None] * self._unit
        poles, place = self._poles
        # of m equal eigenvalues the row changes one, and the others remain
        others = np.repeat(poles, np.bincount(place, minlength=len(poles)) - 1)
        gain = self.method.gain_of_spectra(scale * found.eigenvalues, scale * others, self.stops)
        # without a row of leverage one a null direction remains, which is learned at no stop
        gain[block.rest == 0, :1] = 0.0
        return found, gain * (scale / found.slopes)[..., None]

    def _gathered(self, values: Array) -> Array:
        """Sum over equal eigenvalues, along the last axis."""
        poles, place = self._poles
        if len(poles) == len(place):
            return values
        return np.add.reduceat(values, np.searchsorted(place, np.arange(len(poles))), axis=-1)

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d, of shape (n_stops, n_rows, n_targets)."""
        found, gains = self._remaining(block)
        parts = self._gathered(block.scores[:, None] * coef.T).swapaxes(1, 2)
        drive = (1 / found.gaps) @ parts
        drive -= (1 / found.eigenvalues)[..., None] * block.residual[:, None]
        return np.asarray(block.targets - (gains.swapaxes(1, 2) @ drive).swapaxes(0, 1))

    def coefficients(self, block: RowBlock, coef: Array) -> Array:
        r"""Return √s times the left-out coefficients at one stop, (n_targets, n_rows, rank).

        .. math:: \hat\beta_{-i,j} = \rho_i a_{ij}\sum_l
            \frac{c_i\varphi(c_i\lambda_l, t)}{h'_l\,(s_j - \lambda_l)}
            \Bigl(\sum_m\frac{a_{im}\hat\beta_m}{s_m - \lambda_l} - \frac{r_i}{\lambda_l}\Bigr)

        Of equal eigenvalues the row changes one direction; the others keep their gain.
        """
        s = self.eigenvalues
        factor = np.maximum(block.weight * block.stretch, LEAST_RESIDUE)[:, None]
        # the root of a direction in which the row has no share is its pole: a tiny share keeps the
        # quotient of the two zeros finite
        absent = block.shares < LEAST_RESIDUE
        scores = np.where(absent, np.sqrt(s * (LEAST_RESIDUE / factor)), block.scores)
        shares = np.maximum(block.shares, LEAST_RESIDUE)
        found, gains = self._remaining(replace(block, shares=shares))
        parts = self._gathered(scores * coef.T[:, None])
        inverse = 1 / found.gaps
        drive = np.einsum("qnj,nlj->qnl", parts, inverse, optimize=True)
        drive -= block.residual.T[..., None] / found.eigenvalues
        sums = np.einsum("qnl,nlj->qnj", gains[..., 0] * drive, inverse, optimize=True)
        place = self._poles[1]
        out = shares / scores * np.sqrt(s) * (s / self._unit) * sums[..., place]
        if len(self._poles[0]) < len(s):
            portion = (parts / self._gathered(shares))[..., place] * (shares / scores)
            out += self._unchanged(block, found) * (coef.T[:, None] - portion) * np.sqrt(s)
        return out

    def _unchanged(self, block: RowBlock, found: Downdate) -> Array:
        """Return cφ(cs, t)·s of the directions that share their eigenvalue with others."""
        poles, place = self._poles
        counts = np.bincount(place) - 1
        scale = block.scale[:, None] * self._unit
        all_of_them = np.hstack([found.eigenvalues, np.tile(poles[counts > 0], (len(scale), 1))])
        others = np.repeat(poles, np.maximum(counts - 1, 0))
        gain = self.method.gain_of_spectra(scale * all_of_them, scale * others, self.stops)
        out = np.zeros((len(scale), len(poles)))
        out[:, counts > 0] = gain[:, len(poles) :, 0] * (scale * poles[counts > 0])
        return out[:, place]

    def by_target(self, block: RowBlock, coef: Array, *, single: bool) -> ByTarget:
        """Return e as a function of a stop's place and targets."""
        return by_operators(block, *self.operators(block), coef, single=single)

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α, of shape (n_stops, n_rows), and C, of shape (n_stops, n_rows, rank)."""
        found, gains = self._remaining(block)
        alpha = 1 + (gains / found.eigenvalues[..., None]).sum(axis=1)
        slopes = 1 - gains.swapaxes(1, 2) @ (1 / found.gaps)
        return alpha.T, slopes.swapaxes(0, 1)[..., self._poles[1]] * block.scores
