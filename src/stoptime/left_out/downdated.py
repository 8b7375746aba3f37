r"""Left-out residuals from the eigenvalues without each row, for a filter of any kind.

With A = S - ρaaᵀ, and r and β̂ those of least squares on all rows, the fit without row i has

.. math:: \hat\beta_{-i} = (1 - g(cA))\hat\beta - \rho r\,c\varphi(cA)a, \qquad
    \frac{e_i}{d_i} = r\,\bigl(1 + \rho\,a^Tc\varphi(cA)a\bigr) + a^Tg(cA)\hat\beta.

Every row takes an eigendecomposition. That is for spectral cut-off, which counts eigenvalues, and
for oscillations so fast that a mixture of ridges would need more penalties than that costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stoptime.methods.base import Filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.support.arrays import Array, like, on_host, slices

if TYPE_CHECKING:
    from stoptime.left_out.rows import RowBlock

MATRIX_NUMBERS = 2**22  # of the matrices that are decomposed together


class _Remaining(NamedTuple):
    """Rows in the eigenbasis without each of them, g and cφ there, and the vectors."""

    scores: Array
    shrinkage: Array
    gain: Array
    vectors: Array


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

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d at every stop, of shape (n_stops, n_rows, n_targets), where the rows are."""
        out = np.empty((len(self.stops), *block.targets.shape))
        for part, found in self._remaining(block):
            residual = on_host(block.residual[part])
            pull = on_host(block.weight * block.stretch)[part]
            fit = found.scores[:, :, None] * (found.vectors.swapaxes(1, 2) @ on_host(coef))
            gain = pull[:, None] * (found.scores[:, :, None] ** 2 * found.gain).sum(axis=1)
            values = np.einsum("njt,njq->tnq", found.shrinkage, fit, optimize=True)
            values += (1 + gain.T)[:, :, None] * residual
            out[:, part] = values
        return like(block.scores, out)

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        r"""Return α, (n_stops, n_rows), and C, (n_stops, n_rows, rank), on the host.

        .. math:: e_i/d_i = \alpha_ir_i + \sum_jC_{ij}\hat\beta_j
        """
        alpha = np.empty((len(self.stops), len(block.rest)))
        slopes = np.empty((*alpha.shape, len(self.eigenvalues)))
        pull = on_host(block.weight * block.stretch)
        # an average row is given by its shares ρa²/s alone
        scores = np.sqrt(block.shares * self.eigenvalues / pull[:, None])
        for part, found in self._remaining(replace(block, scores=scores)):
            gain = (found.scores[:, :, None] ** 2 * found.gain).sum(axis=1)
            alpha[:, part] = 1 + (pull[part, None] * gain).T
            images = found.vectors @ (found.scores[:, :, None] * found.shrinkage)
            images /= np.where(scores > 0, scores, 1.0)[part, :, None]
            slopes[:, part] = images.transpose(2, 0, 1) * block.scores[part]
        return alpha, slopes

    def coefficients(self, block: RowBlock, coef: Array, mixed: Array) -> Array:  # noqa: ARG002
        """Return √s times the left-out coefficients at the stop, (n_targets, n_rows, rank)."""
        out = np.empty((coef.shape[1], *block.scores.shape))
        roots = np.sqrt(self.eigenvalues)
        for part, found in self._remaining(block):
            residual = on_host(block.residual[part])
            pull = on_host(block.weight * block.stretch)[part]
            own = found.vectors.swapaxes(1, 2) @ on_host(coef)
            moved = (pull[:, None] * found.scores * found.gain[..., 0])[..., None]
            components = (1 - found.shrinkage[..., :1]) * own - moved * residual[:, None]
            out[:, part] = ((found.vectors @ components) * roots[:, None]).transpose(2, 0, 1)
        return like(block.scores, out)

    def _remaining(self, block: RowBlock) -> Any:
        """Yield some rows at a time, and their spectra without each of them."""
        rank = len(self.eigenvalues)
        for part in slices(len(block.rest), MATRIX_NUMBERS // max(rank, 1) ** 2):
            scores = on_host(block.scores[part])
            rest = on_host(block.rest)[part]
            pull = on_host(block.weight * block.stretch)[part]
            values, vectors = self._eigenpairs(scores, rest, pull)
            # without a row of leverage one a null direction remains, which is learned at no stop
            values[rest == 0, :1] = 0.0
            scale = on_host(block.scale)[part][:, None]
            own = scale * values
            gain = _gains(self.method, own, self.stops)
            gain[rest == 0, :1] = 0.0
            rotated = (scores[:, None] @ vectors)[:, 0]
            shrinkage = 1 - own[..., None] * gain
            yield part, _Remaining(rotated, shrinkage, scale[..., None] * gain, vectors)

    def _eigenpairs(self, scores: Array, rest: Array, pull: Array) -> tuple[Array, Array]:
        """Return eigenvalues of S - ρaaᵀ, ascending, and eigenvectors, for every row."""
        s = self.eigenvalues
        if not self.by_svd:
            values, vectors = np.linalg.eigh(
                np.diag(s) - pull[:, None, None] * scores[:, :, None] * scores[:, None]
            )
            return np.maximum(values, 0.0), vectors
        # A = BᵀB with B = (I - buuᵀ)S^½ and u = √ρ S^-½ a, so that small eigenvalues are squares
        # of singular values and keep their digits
        u = scores / np.sqrt(s) * np.sqrt(pull)[:, None]
        length = np.maximum((u * u).sum(axis=1), np.finfo(np.float64).tiny)
        b = (1 - np.sqrt(np.maximum(rest, 0))) / length
        roots = np.eye(len(s)) - b[:, None, None] * u[:, :, None] * u[:, None]
        _, lengths, right = np.linalg.svd(roots * np.sqrt(s))
        return lengths[:, ::-1] ** 2, right[:, ::-1].swapaxes(1, 2)


def _gains(method: Filter, s: Array, stops: Array) -> Array:
    """Return φ of shape (n, rank, n_stops) for the n spectra without each row."""
    if not isinstance(method, SpectralCutoff):
        return method.gain(s[..., None], stops)
    # every spectrum has components of its own to count
    gains = [method.tuned_to(own).gain(own[:, None], stops) for own in s]
    return np.stack(gains) if gains else np.empty((*s.shape, len(stops)))
