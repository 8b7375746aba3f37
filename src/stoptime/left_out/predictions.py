r"""Predictions at new rows by the n paths that are each fitted without one row.

In the eigenbasis, and scaled to unit variance, the coefficients without row i are a vector γ that
each route gives in closed form. With the new row there, b = Vᵀ(x₀ - x̄), the prediction is

.. math:: \hat y_{-i}(x_0) = \bar y + \sum_j \frac{b_j}{\sqrt{s_j}}\gamma_{ij}
    - \rho_i\Bigl(\tilde y_i - \sum_j\frac{a_{ij}}{\sqrt{s_j}}\gamma_{ij}\Bigr)

where the last term, which moves the means, is absent without an intercept. Directions that a
penalty matrix leaves unshrunk move as the means do.

References
----------
Barber, Candès, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.routing import MANY_TARGETS, Route, Routing, least_squares
from stoptime.left_out.rows import Index, RowBlock, Rows
from stoptime.methods.base import Method
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.dense import DenseData
from stoptime.support.arrays import Array, Floats, as_float64, empty, like, on_host

MOST_KEPT_COEFFICIENTS = 2**24  # 128 MB: more of them are computed anew for every prediction
MOST_PICKLED = 2**24  # numbers of X and of the eigenvectors: larger ones are left out of a pickle


class LeftOutRows(NamedTuple):
    """Residuals and predictions of all rows, each by the fit without it, in the shape of y."""

    residuals: Floats
    predictions: Floats

    @classmethod
    def of(cls, data: DenseData, residuals: Floats) -> LeftOutRows:
        """Return the residuals, and the predictions that have them."""
        return cls(residuals, data.as_given(data.response) - residuals)


@dataclass(frozen=True)
class LeftOutFits:
    """The paths of a tuned method without each of the rows, at one stop or one for each target.

    It refers to the training rows and their spectrum, and copies neither. Eigenvalues beyond
    ``limit`` are taken as learned. A pickle contains the rows, unless they are large.
    """

    rows: Rows | None
    method: Method
    stop: Array
    limit: float = np.inf

    @classmethod
    def of(cls, rows: Rows, method: Method, stop: Array, limit: float = np.inf) -> LeftOutFits:
        """Return the fits of these rows, without anything that the rows remember."""
        fresh = replace(rows, data=replace(rows.data), spectrum=replace(rows.spectrum))
        return cls(replace(fresh, remember=False), method, stop, limit)

    def of_rows(self) -> LeftOutRows:
        """Return the residual of every row, and its prediction, by the fit without it."""
        rows = self._rows
        found = LeftOut(rows).residuals(self.method, self.stop, self.limit)
        return LeftOutRows.of(rows.data, found)

    def at(self, new: Any) -> Floats:
        """Return predictions of shape (n, n_new) or (n, n_new, n_targets).

        The new rows are a matrix with the columns of X, where the data are.
        """
        rows = self._rows
        scores = new_scores(rows.spectrum, new) / like(rows.data.y, np.sqrt(rows.eigenvalues))
        shape = rows.data.n_rows, scores.shape[0], rows.data.n_targets
        mean: Any = rows.spectrum.target_mean
        free: Any = None
        if (geometry := rows.spectrum.geometry) is not None:
            free = new_scores(rows.spectrum, new, geometry.vectors)
            mean = mean + (free @ like(free, geometry.response)).reshape(len(free), len(rows.unit))
        out = empty(rows.data.y, shape)
        for index, targets, coefficients, shift in self._kept or self._coefficients():
            overlap: Any = float(rows.data.fit_intercept)
            if free is not None:
                overlap = overlap + rows.free_scores(index) @ free.T
            # units are taken where numbers are few: passes over all predictions take half the time
            unit = like(out, rows.unit[targets])[:, None]
            values = (like(out, coefficients) * unit[..., None]) @ scores.T
            if rows.data.fit_intercept or free is not None:
                values -= (like(out, shift) * unit)[..., None] * overlap
            out[index, :, targets] = values.swapaxes(0, 1).swapaxes(1, 2)
        out += mean
        out = rows.data.as_given(out)
        return out[..., 0] if rows.data.single_target else out

    def coefficients(self) -> tuple[Array, Array, Array]:
        """Return coefficients of shape (n, n_targets, n_features), and how they move the means.

        The second array, (n, n_targets), are predictions for the mean row, which is the third
        array, minus the mean of the response.
        """
        rows = self._rows
        basis = on_host(rows.spectrum.vectors) / np.sqrt(rows.eigenvalues)
        coef = np.empty((rows.data.n_rows, rows.data.n_targets, len(basis)))
        at_mean = np.empty(coef.shape[:2])
        geometry = rows.spectrum.geometry
        for index, targets, coefficients, shift in self._kept or self._coefficients():
            own = on_host(coefficients) @ basis.T
            if geometry is not None:
                moved = on_host(rows.free_scores(index) @ geometry.vectors.T)
                own -= on_host(shift)[..., None] * moved
            coef[index, targets] = own.swapaxes(0, 1)
            at_mean[index, targets] = -on_host(shift).T * rows.data.fit_intercept
        coef *= rows.unit[:, None]
        if geometry is not None:
            coef += on_host(geometry.coef).reshape(len(basis), -1).T
        mean = np.asarray(on_host(rows.spectrum.feature_mean), np.float64)
        return coef, at_mean * rows.unit, mean

    @property
    def _rows(self) -> Rows:
        if self.rows is None:
            raise ValueError(
                "This model was pickled without its training rows, which have more than "
                f'{MOST_PICKLED} numbers: fit it again, or use kind="jackknife".'
            )
        return self.rows

    @cached_property
    def _kept(self) -> list[tuple[Index, slice, Array, Array]] | None:
        """All coefficients, if they fit into memory."""
        rows = self._rows
        numbers = rows.data.n_rows * rows.data.n_targets * len(rows.eigenvalues)
        return list(self._coefficients()) if numbers <= MOST_KEPT_COEFFICIENTS else None

    def _coefficients(self) -> Iterator[tuple[Index, slice, Array, Array]]:
        """Yield rows, targets, the γ of shape (n_targets, n_rows, rank), and shifts of means."""
        rows = self._rows
        stops = np.broadcast_to(self.stop, rows.data.n_targets)
        for targets in _runs(stops):
            several = rows.data.n_targets > targets.stop - targets.start
            some = rows.of_targets(targets) if several else rows
            routing = Routing(some, self.method, stops[targets][:1], None, self.limit)
            for index, route in routing.parts(np.arange(rows.data.n_rows)):
                block = some.block(index, on_host=route.runs_on_host)
                gamma = _scaled_coefficients(routing, block, route)
                pull = (block.weight * block.stretch)[:, None]
                roots = like(gamma, np.sqrt(some.eigenvalues))
                fit = (block.scores / roots * gamma).sum(axis=-1)
                shift = (pull * block.targets).T - pull[:, 0] * fit
                yield index, targets, gamma, shift

    @property
    def keeps_rows(self) -> bool:
        """Whether a pickle contains the rows."""
        if self.rows is None:
            return False
        numbers = self.rows.data.n_features * (self.rows.data.n_rows + self.rows.spectrum.rank)
        return numbers <= MOST_PICKLED

    def __getstate__(self) -> dict[str, Any]:
        state = {name: vars(self)[name] for name in ("rows", "method", "stop", "limit")}
        state["rows"] = None
        if self.keeps_rows:
            state["rows"] = LeftOutFits.of(self._rows, self.method, self.stop).rows
        return state


def residuals_at(rows: Rows, method: Method, stops: Array) -> Array:
    """Return the left-out residuals of all rows at many stops, (n_stops, n, n_targets)."""
    routing = Routing(rows, method, stops)
    members = np.arange(rows.data.n_rows)
    out = np.empty((len(stops), rows.data.n_rows, rows.data.n_targets))
    for index, route in routing.parts(members):
        block = rows.block(index, on_host=route.runs_on_host)
        for places, values in routing.residuals(block, route):
            out[places[:, None], members[index]] = on_host(values)
    return out * rows.unit


def _runs(stops: NDArray[np.float64]) -> Iterator[slice]:
    """Cut the targets into neighbours of one stop, few enough to be computed together."""
    start = 0
    for place in range(1, len(stops) + 1):
        full = place - start == MANY_TARGETS - 1
        if place == len(stops) or full or stops[place] != stops[start]:
            yield slice(start, place)
            start = place


def _scaled_coefficients(routing: Routing, block: RowBlock, route: Route) -> Array:
    """Return √s times the coefficients without each row of the block, at the only stop."""
    coef = like(block.scores, routing.rows.coef)
    if routing.between.size:
        return route.coefficients(block, coef)
    roots = like(block.scores, np.sqrt(routing.rows.eigenvalues))
    whole = (coef * roots[:, None]).T[:, None] + 0 * block.scores
    if routing.stops[0] == 0:
        return 0 * whole
    # ridge with a vanishing penalty
    ends = least_squares(block, routing.rows.eigenvalues, coef, block.residual)
    pull = block.scores / roots * (block.weight * block.stretch)[:, None]
    return whole - pull * ends.T[..., None]


def new_scores(spectrum: Spectrum, new: Any, vectors: Any = None) -> Array:
    """Return centred new rows in the eigenbasis or along other vectors, of shape (n_new, k)."""
    mean = spectrum.feature_mean
    basis = spectrum.basis if vectors is None else vectors
    if sparse.issparse(new) or isinstance(new, LinearOperator):
        vectors = spectrum.vectors if vectors is None else vectors
        return np.asarray(new @ vectors - mean @ vectors)
    centred = new - mean
    if isinstance(basis, DualVectors):
        # for wide data this costs less than forming the eigenvectors
        return as_float64((basis.rows @ centred.T).T @ basis.mix)
    return as_float64(centred @ (spectrum.vectors if vectors is None else vectors))
