"""Torch tensors to a spectrum: all that is large stays on their device, in double precision.

Filters and eigenvalues are small and belong to the host, where SciPy's Bessel functions are right and
torch's are not. A float32 X is widened block by block, so that its products lose no digits: only the
coefficients are rounded to float32 in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoptime.spectrum.accuracy import GRAM_TOLERANCE, check_columns, constant, reach
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.dense import sample_sizes
from stoptime.spectrum.kinds import kind_of
from stoptime.spectrum.moments import NEAR, Moments, heaviest_rows
from stoptime.support.arrays import Floats, is_tensor, like, on_host

__all__ = ["TensorData", "by_gram", "by_svd", "checked_tensors", "rows_like"]

Tensor = Any  # of torch, which is not imported here


@dataclass(frozen=True)
class TensorData:
    """Validated tensors on one device; ``uneven_shares`` are weights divided by their sum."""

    X: Tensor
    y: Tensor
    uneven_shares: Tensor | None
    n_samples: float
    n_observations: float
    fit_intercept: bool
    single_target: bool

    eps: ClassVar[float] = float(np.finfo(np.float64).eps)
    tolerance: ClassVar[float] = GRAM_TOLERANCE["float64"]
    numbers_at_once: ClassVar[int] = 2**27  # a gigabyte: large products keep a device busy

    @classmethod
    def validated(cls, X: Tensor, y: Any, sample_weight: Any, fit_intercept: bool) -> TensorData:
        """Check the input; X is not searched for NaN: they surface in the products, at no price."""
        X, y = checked_tensors(X, y)
        weights = None if sample_weight is None else on_host(sample_weight)
        shares, n, observations = sample_sizes(weights, len(X))
        shares = None if shares is None else like(X, shares)
        return cls(X, y.reshape(len(y), -1), shares, n, observations, fit_intercept, y.ndim == 1)

    @property
    def shares(self) -> Tensor:
        """Sample weights divided by their sum."""
        if self.uneven_shares is None:
            return self.y.new_ones(len(self.y)).double() / len(self.y)
        return self.uneven_shares

    @property
    def rounding(self) -> float:
        """Relative size of the rounding noise in singular values."""
        return self.eps * max(self.X.shape)

    def as_given(self, values: Tensor) -> Tensor:
        """Return values in the precision of X."""
        return values.to(self.X.dtype)

    def blocks(self) -> Iterator[slice]:
        """Cut the rows into blocks that are widened, centred and multiplied one at a time."""
        height = max(1, self.numbers_at_once // self.X.shape[1])
        return (slice(start, start + height) for start in range(0, len(self.X), height))

    def rotated(self, index: Any, mean: Tensor, vectors: Tensor) -> Tensor:
        """Return some centred rows times vectors."""
        return (self.X[index] - mean) @ vectors

    def moments(self) -> Moments:
        """Return means and second moments, in one pass; shifted where the mean of a few rows is large."""
        n, p = self.X.shape
        shift, target_shift = self._shifts()
        shifted = bool(shift.any())
        sums = shift.new_zeros((p + 1 + self.y.shape[1], p))
        target_total = 0 * target_shift
        for rows in self.blocks():
            features, targets = self.X[rows].double(), self.y[rows].double() - target_shift
            features = features - shift if shifted else features
            share = self.shares[rows, None]
            weighted = features if self.uneven_shares is None else share * features
            sums[:p] += features.T @ weighted
            sums[p] += weighted.sum(axis=0)
            sums[p + 1 :] += targets.T @ weighted
            target_total += (share * targets).sum(axis=0)
        if self.uneven_shares is None:
            sums /= n
        gram, total, cross = sums[:p], sums[p], sums[p + 1 :].T
        if self.fit_intercept:
            gram -= total[:, None] * total
            cross -= total[:, None] * target_total
            shift, target_shift = shift + total, target_shift + target_total
        return Moments(shift, target_shift, gram, cross)

    def _shifts(self) -> tuple[Tensor, Tensor]:
        """Guess the means from a few rows; zeros for features near zero, and without an intercept."""
        weights = None if self.uneven_shares is None else on_host(self.uneven_shares)
        few, share = (like(self.X, part) for part in heaviest_rows(weights, len(self.X)))
        rows, targets = self.X[few].double(), self.y[few].double()
        if not self.fit_intercept:
            return 0 * rows[0], 0 * targets[0]
        mean = share @ rows
        far = (mean**2 > NEAR**2 * (share @ (rows - mean) ** 2)).any()
        return mean if bool(far) else 0 * mean, share @ targets

    def centred(self) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Return weighted, centred rows and targets in double precision, and what was subtracted."""
        X, y, shares = self.X.double(), self.y.double(), self.shares
        means = 0 * X[0], 0 * y[0]
        if self.fit_intercept:
            means = shares @ X, shares @ y
            X = X - means[0]
            means = means[0] + shares @ X, means[1]  # the mean of large numbers is itself rounded
            X = X - shares @ X
        root = shares[:, None] ** 0.5
        rows = X * root
        flat = constant(on_host((rows**2).sum(axis=0)), on_host(means[0]))
        rows[:, like(rows, flat)] = 0
        return rows, (y - means[1]) * root, means

    def spectrum(
        self,
        eigenvalues: Floats,
        basis: Tensor,
        response: Floats,
        means: tuple[Tensor, Tensor],
        solver: str,
        far: float,
    ) -> Spectrum:
        """Assemble the result: eigenvalues and response on the host, what is large on the device."""
        power = on_host((self.shares[:, None] * (self.y.double() - means[1]) ** 2).sum(axis=0))
        if not (np.isfinite(power).all() and np.isfinite(response).all()):
            raise ValueError("y is too large: products with its entries overflow. Rescale y.")
        target_mean = means[1]
        if self.single_target:
            response, target_mean, power = response[:, 0], target_mean[0], power[0]
        return Spectrum(
            eigenvalues, basis, response, self.n_samples, self.n_observations,
            means[0], target_mean, power, self.fit_intercept, solver, far, precision=self.X.dtype,
        )  # fmt: skip


def checked_tensors(X: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    """Return tensors of one device and one floating type; y may be anything that can be made a tensor."""
    import torch  # noqa: PLC0415 - an extra, and here already

    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be a tensor of shape (n, p), not empty; got {tuple(X.shape)}.")
    if X.layout != torch.strided or X.is_complex() or X.dtype in {torch.float16, torch.bfloat16}:
        raise ValueError(
            f"X must be a dense tensor of float32, float64 or integers; got {X.layout}, {X.dtype}."
        )
    X = X.detach() if X.is_floating_point() else X.double()
    if y is None:
        raise ValueError("y must be given with X.")
    y = y.detach() if is_tensor(y) else like(X, np.asarray(y))
    if y.device != X.device:
        raise ValueError(f"X is on {X.device}, but y on {y.device}: put them on one device.")
    if y.ndim not in {1, 2} or 0 in y.shape or len(y) != len(X):
        raise ValueError(
            f"y must be of shape ({len(X)},) or ({len(X)}, n_targets); got {tuple(y.shape)}."
        )
    y = (
        y if y.dtype in {torch.float32, torch.float64} else y.double()
    )  # centred before it is rounded
    if not torch.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity.")
    return X, y


def rows_like(coef: Any, X: Any) -> Any:
    """Return new rows where the coefficients are, in their type: a model predicts where it was fitted."""
    if kind_of(X) not in {"dense", "tensor"}:
        raise ValueError(
            f"A model of tensors predicts for tensors and arrays, not for {type(X).__name__}."
        )
    rows = X.detach() if is_tensor(X) else np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"X must be of shape (n, n_features); got {tuple(rows.shape)}.")
    return like(coef, rows).to(coef) if is_tensor(coef) else on_host(rows)


def by_gram(data: TensorData, known: Moments | None = None) -> Spectrum:
    """Diagonalise the smaller of XᵀX and XXᵀ on the device."""
    n, p = data.X.shape
    return _by_features(data, known) if p <= n else _by_rows(data)


def _by_features(data: TensorData, known: Moments | None) -> Spectrum:
    m: Any = known or data.moments()
    _check_finite(m.gram)
    flat = like(m.gram, constant(on_host(m.gram.diagonal()), on_host(m.feature_mean)))
    if flat.any():
        m.gram[flat], m.gram[:, flat], m.cross[flat] = 0, 0, 0
    eigenvalues, vectors = _eigh(m.gram)
    response = on_host(vectors.T @ m.cross)
    kept = eigenvalues > data.rounding * eigenvalues[-1]
    null = vectors[:, like(vectors, ~kept)]
    squares = 0 * null[0]
    if not kept.all():
        for rows in data.blocks():
            images = (data.X[rows].double() - m.feature_mean) @ null
            squares += (data.shares[rows, None] * images**2).sum(axis=0)
    dropped = np.sqrt(on_host(squares))
    far = reach(data, eigenvalues, kept, response, dropped, on_host(m.gram.diagonal()))
    basis = vectors[:, like(vectors, kept)]
    means = m.feature_mean, m.target_mean
    return data.spectrum(eigenvalues[kept], basis, response[kept], means, "gram", far)


def _by_rows(data: TensorData) -> Spectrum:
    rows, targets, means = data.centred()
    product = rows @ rows.T
    _check_finite(product)
    eigenvalues, left = _eigh(product)
    kept = eigenvalues > data.rounding * eigenvalues[-1]
    lengths = np.sqrt(np.maximum(eigenvalues, 0))
    lengths[~kept] = on_host((rows.T @ left[:, like(left, ~kept)]).norm(dim=0))
    response = lengths[:, None] * on_host(left.T @ targets)
    far = reach(data, eigenvalues, kept, response, lengths[~kept], on_host((rows**2).sum(axis=0)))
    basis = DualVectors(rows, left[:, like(left, kept)] / like(left, lengths[kept]))
    return data.spectrum(eigenvalues[kept], basis, response[kept], means, "gram", far)


def by_svd(data: TensorData, max_gain: float) -> Spectrum:
    """Take the singular values of the centred data: exact where squares would lose the small ones."""
    import torch  # noqa: PLC0415 - an extra, and here already

    rows, targets, means = data.centred()
    _check_finite(rows)
    left, sizes, right = torch.linalg.svd(rows, full_matrices=False)
    lengths = on_host(sizes)
    powers = (rows**2).sum(axis=0)
    check_columns(data, on_host(powers), max_gain)
    count = int(np.count_nonzero(lengths > data.rounding * lengths.max(initial=0)))
    ascending = np.arange(count)[::-1].copy()
    components = on_host(left.T @ targets)[ascending]
    response = lengths[ascending, None] * components
    vectors = right[ascending].T.contiguous()
    vectors[powers == 0] = 0  # which a device rounds
    return data.spectrum(lengths[ascending] ** 2, vectors, response, means, "svd", np.inf)


def _check_finite(products: Tensor) -> None:
    """Raise a ValueError where a product of X shows that it is not finite, or overflows."""
    if not bool(products.isfinite().all()):
        raise ValueError(
            "X contains NaN or infinity, or is so large that its squares overflow: rescale it."
        )


def _eigh(product: Tensor) -> tuple[Floats, Tensor]:
    """Return eigenvalues on the host and eigenvectors on the device."""
    import torch  # noqa: PLC0415 - an extra, and here already

    try:
        eigenvalues, vectors = torch.linalg.eigh(product)
    except torch.linalg.LinAlgError:
        raise ValueError(
            'The factorisation of X did not converge: rescale its columns, or use solver="svd".'
        ) from None
    return on_host(eigenvalues), vectors
