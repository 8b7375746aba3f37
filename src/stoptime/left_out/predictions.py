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

from stoptime.left_out.residuals import LeftOut, Route, blocks_of
from stoptime.left_out.ridges import least_squares
from stoptime.left_out.rows import RowBlock, Rows
from stoptime.methods.base import Filter
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.rows import Sample
from stoptime.support.arrays import Array, Floats, array_namespace, as_float64, empty, like, on_host

MOST_KEPT_COEFFICIENTS = 2**24  # 128 MB: more of them are computed anew for every prediction
MOST_PICKLED = 2**24  # numbers of X and of the eigenvectors: larger ones are left out of a pickle


class LeftOutRows(NamedTuple):
    """Residuals and predictions of all rows, each by the fit without it, in the shape of y."""

    residuals: Floats
    predictions: Floats

    @classmethod
    def of(cls, data: Sample, residuals: Floats) -> LeftOutRows:
        """Return the residuals, and the predictions that have them."""
        return cls(residuals, data.as_given(data.response) - residuals)


class Fingerprint(NamedTuple):
    """Weighted sums over the rows of X and y, by which a later change of them is noticed."""

    of_columns: Floats
    of_targets: Floats

    @classmethod
    def of(cls, data: Sample) -> Fingerprint:
        """Return the fingerprint of the rows as they are now."""
        xp = array_namespace(data.y)
        # made where the data are, because a million numbers would be slow to move
        counts = xp.arange(1, data.n_rows + 1, dtype=xp.float64, device=data.y.device)
        weights = xp.sin(counts)
        both = data.X.fingerprint(weights), weights @ as_float64(data.y)
        return cls(*(np.asarray(on_host(one), np.float64) for one in both))

    def check(self, data: Sample) -> None:
        """Raise a ValueError if the rows have been changed since."""
        for old, new in zip(self, Fingerprint.of(data), strict=True):
            if not np.allclose(old, new, rtol=0, atol=1e-9 * np.abs(old).max(initial=0)):
                raise ValueError(
                    "X or y was changed after fit, and what you ask for needs the training rows "
                    "as they were: fit again, or fit to a copy, model.fit(X.copy(), y.copy())."
                )


@dataclass(frozen=True)
class LeftOutFits:
    """The paths of a tuned method without each of the rows, at one stop or one for each target.

    It refers to the training rows and their spectrum, and copies neither; a change of the rows is
    noticed. A pickle contains the rows, unless they are large.
    """

    rows: Rows | None
    method: Filter
    stop: Array
    unchanged: Fingerprint | None = None

    @classmethod
    def of(
        cls, rows: Rows, method: Filter, stop: Array, unchanged: Fingerprint | None
    ) -> LeftOutFits:
        """Return the fits of these rows, without anything that was computed from them."""
        return cls(Rows(replace(rows.data), replace(rows.spectrum)), method, stop, unchanged)

    def of_rows(self) -> LeftOutRows:
        """Return the residual of every row, and its prediction, by the fit without it."""
        rows = self._rows
        return LeftOutRows.of(rows.data, LeftOut(rows).residuals(self.method, self.stop))

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
            out[index, :, like(out, targets)] = values.swapaxes(0, 1).swapaxes(1, 2)
        out += mean
        out = rows.data.as_given(out)
        return out[..., 0] if rows.data.single_target else out

    @cached_property
    def _rows(self) -> Rows:
        """The rows, unless they are missing or have been changed."""
        if self.rows is None:
            raise ValueError(
                "This model was pickled without its training rows, which have more than "
                f"{MOST_PICKLED} numbers: fit it again, or ask for left_out_residuals_ before you "
                'pickle it, which then serve intervals of kind="jackknife".'
            )
        if self.unchanged is not None:
            self.unchanged.check(self.rows.data)
        return self.rows

    @cached_property
    def _kept(self) -> list[tuple[slice, NDArray[np.intp], Array, Array]] | None:
        """All coefficients, if they fit into memory."""
        rows = self._rows
        numbers = rows.data.n_rows * rows.data.n_targets * len(rows.eigenvalues)
        return list(self._coefficients()) if numbers <= MOST_KEPT_COEFFICIENTS else None

    def _coefficients(self) -> Iterator[tuple[slice, NDArray[np.intp], Array, Array]]:
        """Yield rows, targets, the γ of shape (n_targets, n_rows, rank), and shifts of means."""
        rows = self._rows
        stops = np.broadcast_to(self.stop, rows.data.n_targets)
        for stop in np.unique(stops):
            targets = np.flatnonzero(stops == stop)
            some = rows.of_targets(targets) if rows.data.n_targets > len(targets) else rows
            route = LeftOut(some).route(self.method, np.array([stop]))
            for index, block in blocks_of(some, route.source, len(rows.eigenvalues)):
                gamma = _scaled_coefficients(some, route, block)
                pull = block.pull[:, None]
                roots = like(gamma, np.sqrt(some.eigenvalues))
                fit = (block.scores / roots * gamma).sum(axis=-1)
                shift = (pull * block.targets).T - pull[:, 0] * fit
                yield index, targets, gamma, shift

    def __getstate__(self) -> dict[str, Any]:
        state = {name: vars(self)[name] for name in ("rows", "method", "stop", "unchanged")}
        if (rows := self.rows) is not None:
            numbers = rows.data.n_features * (rows.data.n_rows + rows.spectrum.rank)
            # without what was computed from the rows
            fresh = Rows(replace(rows.data), replace(rows.spectrum))
            state["rows"] = fresh if numbers <= MOST_PICKLED else None
        return state


def _scaled_coefficients(rows: Rows, route: Route, block: RowBlock) -> Array:
    """Return √s times the coefficients without each row of the block, at one stop."""
    mixed = route.mix.of_rows(block.scale)[..., 0]
    nothing_learned, all_learned = mixed[0, -2:]
    if not (nothing_learned or all_learned):
        return route.source.coefficients(block, rows.coef, mixed[:, :-2])
    coef = like(block.scores, rows.coef)
    roots = like(block.scores, np.sqrt(rows.eigenvalues))
    whole = (coef * roots[:, None]).T[:, None] + 0 * block.scores
    if nothing_learned:
        return 0 * whole
    # ridge with a vanishing penalty
    ends = least_squares(block, rows.eigenvalues, coef)
    pull = block.scores / roots * block.pull[:, None]
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
