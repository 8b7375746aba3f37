"""The spectrum: eigenvalues, eigenvectors and rotated response, all a method ever sees of the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoptime.arrays import is_tensor, on_host

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class DualVectors:
    """Eigenvectors of a wide problem as combinations of its rows, V = RᵀM; formed only when asked for."""

    rows: Floats
    mix: Floats

    def __matmul__(self, components: Floats) -> Floats:
        return self.rows.T @ (self.mix @ components)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        if copy is False:
            raise ValueError("Vectors that are formed when asked for cannot be viewed: let copy be None.")
        return np.asarray(on_host(self.rows.T @ self.mix), dtype=dtype)


@dataclass(frozen=True, repr=False)
class Spectrum:
    r"""The data in its eigenbasis.

    .. math:: X^TX/n = V S V^T, \qquad z = V^TX^Ty/n, \qquad \hat\beta(t) = V\varphi(S, t)z

    with X and y centred when there is an intercept, and n the sum of the sample weights.

    Attributes
    ----------
    eigenvalues : array of shape (rank,)
        The positive ones, ascending. Null directions learn nothing and are left out.
    basis : array or DualVectors
        What :attr:`vectors` is made from; ``basis @ components`` is V times components.
    response : array of shape (rank,) or (rank, n_targets)
        The z above.
    n_samples : float
        Sum of the sample weights; the number of rows without weights.
    n_observations : float
        What a likelihood counts: ``n_samples``, but at least the number of rows of positive weight.
    feature_mean, target_mean : arrays of shape (n_features,) and () or (n_targets,)
        What centring subtracted; zeros without an intercept.
    target_power : array of shape () or (n_targets,)
        Mean square of the (centred) response.
    fit_intercept : bool
        Whether the data were centred.
    solver : str
        The route taken: "gram", "svd" or "kernel".
    reach : float
        The largest gain (about 1/penalty) up to which this route keeps its digits.
    precision : dtype of torch, optional
        What coefficients are rounded to in the end; by default they stay as they are.
    """

    eigenvalues: Floats
    basis: Floats | DualVectors
    response: Floats
    n_samples: float
    n_observations: float
    feature_mean: Floats
    target_mean: Floats
    target_power: Floats
    fit_intercept: bool
    solver: str
    reach: float
    precision: Any = None

    @cached_property
    def vectors(self) -> Floats:
        """Eigenvectors V, an array of shape (n_features, rank)."""
        return self.basis if is_tensor(self.basis) else np.asarray(self.basis)  # type: ignore[return-value]

    def rounded(self, values: Any) -> Any:
        """Return coefficients in the precision of the data."""
        return values if self.precision is None else values.to(self.precision)

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.feature_mean.shape[0])

    @property
    def rank(self) -> int:
        """Number of positive eigenvalues."""
        return int(self.eigenvalues.shape[0])

    @property
    def padded_eigenvalues(self) -> Floats:
        """All eigenvalues of XᵀX/n, zeros included, ascending."""
        zeros = np.zeros(self.n_features - self.rank, self.eigenvalues.dtype)
        return np.concatenate([zeros, self.eigenvalues])

    def __repr__(self) -> str:
        targets = "" if self.response.ndim == 1 else f", {self.response.shape[1]} targets"
        return (
            f"Spectrum({self.n_samples:g} samples, {self.n_features} features, rank {self.rank}"
            f"{targets}, solver={self.solver!r})"
        )
