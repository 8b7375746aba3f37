r"""Left-out residuals from the eigenvalues without each row, for a filter of any kind.

With A = S - ρaaᵀ, and r and β̂ those of least squares on all rows, the fit without row i has

.. math:: \hat\beta_{-i} = (1 - g(cA))\hat\beta - \rho r\,c\varphi(cA)a, \qquad
    \frac{e_i}{d_i} = r\,\bigl(1 + \rho\,a^Tc\varphi(cA)a\bigr) + a^Tg(cA)\hat\beta.

Every row takes an eigendecomposition. That is for spectral cut-off, which counts eigenvalues, and
for oscillations so fast that a mixture of ridges would need more penalties than that costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from stoptime.left_out.rows import RowBlock
from stoptime.methods.base import Filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.support.arrays import Array, like, on_host, slices


@dataclass(frozen=True, eq=False)
class Downdated:
    """A tuned method at some stops, on the spectra without each of the rows.

    ``by_svd`` says whether small eigenvalues are known to more digits than XᵀX has.
    """

    eigenvalues: Array
    method: Filter
    stops: Array
    by_svd: bool

    def numbers_per_row(self, n_targets: int) -> int:
        """Return about how many numbers are held for every row."""
        return len(self.stops) * (2 * len(self.eigenvalues) + n_targets)

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α and C where the rows are; see :meth:`Ridges.operators`."""
        alpha = np.zeros((len(block.rest), len(self.stops) + 2))
        slopes = np.zeros((*alpha.shape, len(self.eigenvalues)))
        pull = on_host(block.pull)
        scores = given = on_host(block.scores)
        if block.is_average:
            # such a row is given by its shares ρa²/s alone
            scores = np.sqrt(block.shares * self.eigenvalues / pull[:, None])
        given = given / np.where(scores == 0, 1.0, scores)
        stretch = on_host(block.stretch)[:, None]
        for part, rotated, vectors, gain, shrinkage in self._remaining(
            replace(block, scores=scores)
        ):
            weighted = (rotated[:, :, None] ** 2 * gain).sum(axis=1)
            alpha[part, :-2] = 1 + pull[part, None] * weighted
            images = vectors @ (rotated[:, :, None] * shrinkage)
            slopes[part, :-2] = images.swapaxes(1, 2) * given[part, None]
        alpha *= stretch
        slopes *= stretch[..., None]
        return like(block.scores, alpha), like(block.scores, slopes)

    def coefficients(self, block: RowBlock, coef: Array, mixed: Array) -> Array:  # noqa: ARG002
        """Return √s times the left-out coefficients at the stop, (n_targets, n_rows, rank)."""
        out = np.empty((coef.shape[1], *block.scores.shape))
        roots = np.sqrt(self.eigenvalues)
        for part, rotated, vectors, gain, shrinkage in self._remaining(block):
            own = vectors.swapaxes(1, 2) @ coef
            moved = (on_host(block.pull)[part, None] * rotated * gain[..., 0])[..., None]
            components = (1 - shrinkage[..., :1]) * own - moved * on_host(block.residual)[
                part, None
            ]
            out[:, part] = ((vectors @ components) * roots[:, None]).transpose(2, 0, 1)
        return like(block.scores, out)

    def _remaining(self, block: RowBlock) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
        """Yield some rows, and without each: its coordinates, eigenvectors, cφ and g."""
        # so many rows at a time that their matrices take 32 MB
        for part in slices(len(block.rest), 2**22 // max(len(self.eigenvalues), 1) ** 2):
            scores = on_host(block.scores[part])
            rest = on_host(block.rest)[part]
            values, vectors = self._eigenpairs(scores, rest, on_host(block.pull)[part])
            # without a row of leverage one a null direction remains, which is learned at no stop
            values[rest == 0, :1] = 0.0
            scale = on_host(block.scale)[part][:, None]
            gain = self._gains(scale * values)
            gain[rest == 0, :1] = 0.0
            shrinkage = 1 - (scale * values)[..., None] * gain
            rotated = (scores[:, None] @ vectors)[:, 0]
            yield part, rotated, vectors, scale[..., None] * gain, shrinkage

    def _eigenpairs(self, scores: Array, rest: Array, pull: Array) -> tuple[Array, Array]:
        """Return eigenvalues of S - ρaaᵀ, ascending, and eigenvectors, for every row."""
        s = self.eigenvalues
        if not self.by_svd:
            outer = pull[:, None, None] * scores[:, :, None] * scores[:, None]
            values, vectors = np.linalg.eigh(np.diag(s) - outer)
            return np.maximum(values, 0.0), vectors
        # A = BᵀB with B = (I - buuᵀ)S^½ and u = √ρ S^-½ a, so that small eigenvalues are squares
        # of singular values and keep their digits
        u = scores / np.sqrt(s) * np.sqrt(pull)[:, None]
        length = np.maximum((u * u).sum(axis=1), np.finfo(np.float64).tiny)
        b = (1 - np.sqrt(np.maximum(rest, 0))) / length
        roots = np.eye(len(s)) - b[:, None, None] * u[:, :, None] * u[:, None]
        _, lengths, right = np.linalg.svd(roots * np.sqrt(s))
        return lengths[:, ::-1] ** 2, right[:, ::-1].swapaxes(1, 2)

    def _gains(self, s: Array) -> Array:
        """Return φ of shape (n, rank, n_stops) for the n spectra without each row."""
        if not isinstance(self.method, SpectralCutoff):
            return self.method.gain(s[..., None], self.stops)
        # every spectrum has components of its own to count
        gains = [self.method.tuned_to(own).gain(own[:, None], self.stops) for own in s]
        return np.stack(gains) if gains else np.empty((*s.shape, len(self.stops)))
