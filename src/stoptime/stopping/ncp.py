"""The rule of white residuals: stop where their periodogram is that of noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from scipy import fft

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.rows import target_units
from stoptime.paths import Drawing
from stoptime.stopping.gcv import shaped
from stoptime.stopping.rule import CurveRule
from stoptime.support.arrays import EPS, Array, Floats, on_host

if TYPE_CHECKING:
    from stoptime.spectrum.data import RowsToTest
    from stoptime.stopping.problem import Problem

ROUNDED_RESIDUAL = 1e4 * EPS  # of the response: such residuals are rounding errors, and white too


@dataclass(frozen=True)
class NCP(CurveRule):
    r"""Stop where the periodogram of the residuals is closest to that of white noise.

    .. math:: \min_t \frac1q\sum_{k=1}^q\Bigl|c_k(t) - \frac kq\Bigr|, \qquad
        c_k = \frac{\sum_{j\le k}|\hat r_j|^2}{\sum_{j\le q}|\hat r_j|^2}

    with :math:`\hat r` the Fourier coefficients of the residuals, from low to high frequency. The
    rows must be samples of a signal or pixels of an image, with ``shape`` if they are not a line,
    and their noise must be white; its variance need not be known. The rule fails if the noise is
    correlated, or the signal as rough as the noise. From Hansen, Kilmer, Kjeldsen (2006),
    Exploiting residual information in the parameter choice for discrete ill-posed problems.
    """

    shape: tuple[int, ...] | None = None
    name: ClassVar[str] = "ncp"
    measure: ClassVar[str] = "distance"
    compares_methods: ClassVar[bool] = False
    predicts_new_rows: ClassVar[bool] = False

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the distances of the periodograms from that of white noise."""
        every = np.arange(problem.data.shape[0] or 0)
        # all rows are tested by the fit to all of them
        (fold,) = problem.data.folds([(every, every)])
        rows = cast("RowsToTest", fold()[1])
        # a row of weight w has noise of variance 1/w
        root = np.sqrt(rows.weights)[:, None]
        units = target_units(problem.spectrum)
        found = rows.residuals(Drawing(problem.spectrum, problem.tuned), stops)
        parts = [self._distances(root * on_host(some) / units) for _, some in found]
        return ErrorCurve(stops, shaped(np.concatenate(parts), problem.spectrum))

    def _distances(self, residuals: Floats) -> Floats:
        """Return the distance for every stop and target."""
        stops, n, targets = residuals.shape
        shape = (n,) if self.shape is None else tuple(int(size) for size in self.shape)
        if min(shape, default=0) < 1 or int(np.prod(shape)) != n:
            raise ValueError(f"shape must have a product of {n}, the number of rows; got {shape}.")
        grid = residuals.reshape(stops, *shape, targets)
        waves = fft.fftn(grid, axes=range(1, 1 + len(shape))).reshape(stops, n, targets)
        # from low to high frequency, without the constant
        frequencies = np.meshgrid(*(fft.fftfreq(size) for size in shape), indexing="ij")
        order = np.argsort(sum(one**2 for one in frequencies).ravel(), kind="stable")[1:]
        sums = np.cumsum(np.abs(waves[:, order]) ** 2, axis=1)
        total = sums[:, -1:]
        seen = total > (n * ROUNDED_RESIDUAL) ** 2
        white = np.arange(1, n)[:, None] / (n - 1)
        distances = np.abs(sums / np.where(seen, total, 1.0) - white).mean(axis=1)
        return np.where(seen[:, 0], distances, 1.0)
