"""The spectrum: eigenvalues, eigenvectors and rotated response, all that a method ever sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoptime.spectrum.accuracy import Accuracy, Krylov, Rounding
from stoptime.support.arrays import Array, Floats, as_dtype, like


class OnDemand(ABC):
    """Eigenvectors V that are multiplied with components, and formed only if they are asked for."""

    @abstractmethod
    def __matmul__(self, components: Any) -> Any:
        """Return V times components, where the data are."""


@dataclass(frozen=True)
class DualVectors(OnDemand):
    """Eigenvectors of a wide problem as combinations of its rows, V = RᵀM."""

    rows: Any
    mix: Any

    def __matmul__(self, components: Any) -> Any:
        return self.rows.T @ (self.mix @ components)

    def __deepcopy__(self, memo: dict[int, Any]) -> DualVectors:
        # an array is a centred copy of the rows already
        return replace(self, rows=deepcopy(self.rows, memo)) if hasattr(self.rows, "X") else self


@dataclass(frozen=True)
class Density:
    r"""An estimate of all eigenvalues of XᵀX/n by Lanczos quadrature from a few random probes.

    .. math:: \mathrm{tr}\, f(X^TX/n) \approx \sum_j w_j f(\theta_j), \qquad f(0) = 0

    ``nodes`` are the θ, ascending; ``weights`` the w, which sum to min(n, p); ``probe`` is the
    number of the probe of each node; ``products`` counts products with X and with Xᵀ.
    """

    nodes: Floats
    weights: Floats
    probe: NDArray[np.intp]
    products: int

    @property
    def n_probes(self) -> int:
        """Number of probes."""
        return int(self.probe.max(initial=-1)) + 1

    def of_probe(self, one: int) -> Density:
        """Return the estimate from one probe alone."""
        own = self.probe == one
        weights = self.weights[own] * self.n_probes
        return Density(self.nodes[own], weights, np.zeros(len(weights), np.intp), self.products)


@dataclass(frozen=True)
class Geometry:
    r"""What a penalty ‖Lβ‖² changes: directions F that are never shrunk, and the rank of L.

    .. math:: LF = 0, \qquad F^TX^TXF/n = I, \qquad r = F^TX^Ty/n, \qquad
        \hat\beta(t) = V\varphi(S, t)z + Fr

    ``vectors`` are the F, of shape (n_features, n_free), and ``response`` is the r. The
    eigenvectors of the spectrum then have VᵀLᵀLV = I and FᵀXᵀXV = 0.
    """

    vectors: Any
    response: Floats
    rank: int

    @property
    def coef(self) -> Any:
        """Coefficients of the directions that are never shrunk, the same at every stop."""
        return self.vectors @ like(self.vectors, self.response)


@dataclass(frozen=True, repr=False)
class Spectrum:
    r"""The data in its eigenbasis.

    .. math:: X^TX/n = V S V^T, \qquad z = V^TX^Ty/n, \qquad \hat\beta(t) = V\varphi(S, t)z

    with X and y centred when there is an intercept, and n the sum of the sample weights.

    Attributes
    ----------
    eigenvalues, response : arrays of shape (rank,), and (rank,) or (rank, n_targets)
        The positive eigenvalues, ascending, and the z above; nothing is learned elsewhere.
    basis : array or DualVectors
        An object with ``basis @ components`` equal to V times components; see :attr:`vectors`.
    n_samples, n_observations : float
        Sum of the sample weights, which is the number of rows if there are no weights; and,
        for likelihoods, the larger of this sum and the number of rows of positive weight.
    feature_mean, target_mean : arrays of shape (n_features,) and () or (n_targets,)
        Means that centring subtracted; zeros without an intercept.
    target_power : array of shape () or (n_targets,)
        Mean square of the (centred) response.
    fit_intercept, solver, accuracy : bool, str and Accuracy
        Whether the data were centred; "gram", "svd", "kernel" or "krylov"; and what is known about
        the errors of paths, a :class:`Krylov` if the eigenvalues are Ritz values.
    density : Density or None
        An estimate of all eigenvalues for traces, where they are not known.
    precision : dtype or None
        Type that coefficients are rounded to.
    geometry : Geometry or None
        The directions that a penalty matrix does not shrink; None without such a matrix.
    """

    eigenvalues: Floats
    basis: Any
    response: Floats
    n_samples: float
    n_observations: float
    feature_mean: Floats
    target_mean: Floats
    target_power: Floats
    fit_intercept: bool
    solver: str
    accuracy: Accuracy
    density: Density | None = None
    precision: Any = None
    geometry: Geometry | None = None

    @cached_property
    def vectors(self) -> Floats:
        """Eigenvectors V, an array of shape (n_features, rank)."""
        if not isinstance(self.basis, OnDemand):
            return self.basis
        return self.basis @ like(self.feature_mean, np.eye(self.rank))

    @property
    def krylov(self) -> Krylov | None:
        """Cost and error of a Krylov space, if the eigenvalues are Ritz values."""
        return self.accuracy if isinstance(self.accuracy, Krylov) else None

    @property
    def has_limit(self) -> bool:
        """Whether least squares, the limit of every path, can be computed."""
        # products of X have a finite gain too, but more digits are at hand
        known = self.accuracy.complete
        return known and (self.solver != "svd" or bool(np.isinf(self.accuracy.gain)))

    @property
    def fades_out(self) -> bool:
        """Whether eigenvalues fall to rounding without a gap, as those of a kernel do."""
        return self.solver == "kernel"

    def rounded(self, values: Any) -> Any:
        """Return coefficients in the precision of the data."""
        return values if self.precision is None else as_dtype(values, self.precision)

    def accepted(self) -> Spectrum:
        """Return the same for a user who has asked for products, and needs no warning."""
        if not isinstance(self.accuracy, Rounding):
            return self
        return replace(self, accuracy=replace(self.accuracy, is_accepted=True))

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.feature_mean.shape[0])

    @property
    def rank(self) -> int:
        """Number of positive eigenvalues."""
        return int(self.eigenvalues.shape[0])

    @property
    def n_penalised(self) -> int:
        """Number of directions that are penalised: the rank of L, or all columns of X."""
        return self.n_features if self.geometry is None else self.geometry.rank

    @property
    def n_unpenalised(self) -> int:
        """Number of directions that are never shrunk, with the intercept as one of them."""
        free = 0 if self.geometry is None else int(self.geometry.vectors.shape[1])
        return int(self.fit_intercept) + free

    @property
    def padded_eigenvalues(self) -> Floats:
        """All eigenvalues of XᵀX/n, ascending; zeros stand for those that are zero or unknown."""
        several = not self.accuracy.complete and self.response.ndim > 1
        zeros = np.zeros(max(self.n_penalised - self.rank, int(several)), self.eigenvalues.dtype)
        found = np.concatenate([zeros, self.eigenvalues])
        largest = 0.0 if self.density is None else self.density.nodes.max(initial=0)
        if len(zeros) and largest > found[-1]:
            # the response has no part in this direction, but an iteration must not diverge there
            found = np.append(found[1:], largest)
        return found

    @property
    def atoms(self) -> tuple[Floats, Floats]:
        """Positive eigenvalues and how often each occurs, for sums over all of them."""
        if self.accuracy.complete:
            return self.eigenvalues, np.ones_like(self.eigenvalues)
        if self.density is None:
            raise ValueError(
                "A trace needs all eigenvalues, and Ritz values are only some of them: use random "
                "probes, decompose(..., probes=10)."
            )
        return self.density.nodes, self.density.weights

    def energies(self) -> tuple[Array, Array]:
        """Return the power of targets along each eigenvector, (rank, n_targets), and outside."""
        s = self.eigenvalues.astype(np.float64)
        power = np.atleast_1d(self.target_power).astype(np.float64)
        response = self.response.astype(np.float64).reshape(len(s), len(power))
        energy = (response / np.sqrt(s)[:, None]) ** 2
        # a power of zero may come out as a small negative number
        return energy, np.maximum(power - energy.sum(axis=0), 0)

    def freedom(self, gain: Floats, gain_at_atoms: Callable[[Floats], Floats]) -> Floats:
        """Return Σ sφ over all eigenvalues, plus all that is unshrunk; NaN if they are unknown."""
        # gain is φ at the eigenvalues, one row for each; gain_at_atoms gives it at all of them
        if self.accuracy.complete:
            return np.asarray((self.eigenvalues[:, None] * gain).sum(axis=0) + self.n_unpenalised)
        if self.density is None:
            return np.full(gain.shape[1:], np.nan)
        s, weights = self.atoms
        return np.asarray((weights * s) @ gain_at_atoms(s[:, None]) + self.n_unpenalised)

    def __repr__(self) -> str:
        targets = "" if self.response.ndim == 1 else f", {self.response.shape[1]} targets"
        krylov = self.krylov
        cost = "" if krylov is None else f", {krylov.products} products, error {krylov.error:.0e}"
        return (
            f"Spectrum({self.n_samples:g} samples, {self.n_features} features, rank {self.rank}"
            f"{targets}, solver={self.solver!r}{cost})"
        )
