r"""Rows of a classification problem: gradients and held-out losses of several runs at once.

There is a run for each fold, and a last one for all rows. A row trains some runs, which need its
logits where the gradient is taken, and tests others, which need them at the present iterate. So a
step needs one product of the rows with all coefficients, and one of their transpose with residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from scipy import sparse

from stoptime.support.arrays import Array, array_namespace, is_device_array, on_host, slices

Places = NDArray[np.intp]
Split = tuple[Places, Places]


class Block(NamedTuple):
    """Some rows, and the runs that they train and test, with weights of shape (runs, n)."""

    A: Any
    places: Any  # the class of each row
    order: Places  # where the rows are in X
    train: list[int]
    test: list[int]
    weights: Any  # None where all are one
    test_weights: Any


class Rows:
    r"""All rows in blocks, for a run on each training set and a last run on all rows.

    Coefficients have shape (runs, classes - 1, p + 1). The logits of the first class are minus the
    sum of the others, as in every softmax run from zero, because its gradients sum to zero. The
    last column is that of the intercept, which is multiplied by a constant: one in a linear layer
    of torch, zero if there is none. If the columns are centred, it is so large that the intercept
    moves as fast as the fastest direction, because it should not be regularised.
    """

    def __init__(
        self,
        X: Any,
        places: Places,
        n_classes: int,
        splits: Sequence[Split] = (),
        weights: Array | None = None,
        *,
        constant: float = 1.0,
        centred: bool = True,
    ) -> None:
        n = X.shape[0]
        own = np.ones(n) if weights is None else weights
        # which rows train each run, the last of which has all, and which rows test it
        train = np.ones((len(splits) + 1, n), bool)
        test = np.zeros((len(splits), n), bool)
        for run, (trained, tested) in enumerate(splits):
            train[run] = np.isin(np.arange(n), trained)
            test[run, tested] = True
        shares = np.stack([np.bincount(places, own * one, n_classes) for one in train])
        if not min(shares.sum(axis=1).min(), (test @ own).min(initial=np.inf)) > 0:
            raise ValueError(
                "Every training set and every test set needs a row whose weight is not zero."
            )
        self.total = float(own.sum())
        self.test_total = float(np.sum(test @ own))
        # a class that a training set lacks is taken to be half as frequent as its rarest class
        rarest = np.where(shares > 0, shares, np.inf).min(axis=1, keepdims=True) / 2
        shares = np.where(shares > 0, shares, rarest)
        self.priors = shares / shares.sum(axis=1, keepdims=True)
        self.mean = X.T @ alike(X, own / self.total * centred)
        self.blocks = []
        # logits of a block: few enough for the cache of a processor, or a gigabyte of a device
        numbers = 2**28 if is_device_array(X) else 2**18
        for members in _groups(np.concatenate([train, test])):
            runs = [np.flatnonzero(one[:, members].any(axis=1)) for one in (train, test)]
            for part in slices(len(members), numbers // (n_classes * sum(map(len, runs)))):
                order = members[part]
                factors = []
                for one, used in zip((train, test), runs, strict=True):
                    factor = one[np.ix_(used, order)] * own[order]
                    factors.append(None if (factor == 1).all() else alike(X, factor))
                A = X[alike(X, order, whole=True)]
                # sparse rows would lose their zeros: their mean is subtracted from the products
                if centred and not sparse.issparse(A):
                    A -= self.mean
                labels = alike(X, places[order], whole=True)
                self.blocks.append(Block(A, labels, order, *(u.tolist() for u in runs), *factors))
        # the intercept is orthogonal to centred columns, and does not count for their eigenvalues
        self.constant = 0.0 if centred else constant
        self.largest = self._largest_eigenvalue()
        if centred:
            self.constant = constant * float(np.sqrt(self.largest))

    def start(self, at_priors: bool) -> Any:
        """Return coefficients of zero, with intercepts that give the shares of the classes."""
        runs, classes = self.priors.shape
        start = np.zeros((runs, classes - 1, self.mean.shape[0] + 1))
        if at_priors and self.constant:
            odds = np.log(self.priors)
            start[:, :, -1] = (odds - odds.mean(axis=1, keepdims=True))[:, 1:] / self.constant
        return alike(self.mean, start)

    def curvature(self) -> float:
        """Return the largest eigenvalue of the Hessian at the start."""
        shares = self.priors[-1]
        hessian = np.diag(shares) - np.outer(shares, shares)
        return self.largest * float(np.linalg.eigvalsh(hessian)[-1])

    def times_gram(self, vectors: Array) -> Array:
        """Return the products of XᵀX/n with row vectors, on the host."""
        given = alike(self.mean, vectors)
        found = 0 * given
        for block in self.blocks:
            products = self._products(block.A, given)
            if block.weights is not None:
                products *= block.weights[-1]  # those of the last run, which has all rows
            found += self._adjoint(block.A, products)
        return np.asarray(on_host(found), np.float64) / self.total

    def gradient(self, ahead: Any, shown: Any, keep: bool = False) -> tuple[Any, Array, Any]:
        """Return the gradients of the log losses of all runs, and the losses of test rows.

        Losses of training rows are summed, and divided by the number of all rows in every run: the
        best penalty for a mean loss falls like 1/n, and so a fold, which has fewer rows, should
        advance more slowly than the fit to all rows. Gradients are those at the coefficients
        ``ahead``, losses those at ``shown``. Of the losses there is the weighted sum, and that of
        their squares. The rows and logits of each test set are kept on demand.
        """
        xp = array_namespace(ahead)
        gradient = 0 * ahead
        sums = xp.zeros(2, dtype=xp.float64, device=device(ahead))
        kept: list[list[tuple[Places, Any]]] = [[] for _ in self.priors[1:]]
        for block in self.blocks:
            coef = xp.concat([ahead[block.train], shown[block.test]])
            products = self._products(block.A, coef.reshape(-1, coef.shape[2]))
            others = products.reshape(len(coef), -1, products.shape[1])
            logits = xp.concat([-xp.sum(others, axis=1, keepdims=True), others], axis=1)
            count = len(block.train)
            rows = xp.arange(products.shape[1], device=device(products))
            for place, run in enumerate(block.test if keep else []):
                # rows that do not belong to this test set have the weight zero
                factor = block.test_weights
                own = slice(None) if factor is None else np.flatnonzero(on_host(factor[place]))
                kept[run].append((block.order[own], on_host(logits[count + place])[:, own]))
            # less the largest logit of each row, so that exponentials do not overflow
            logits = logits - xp.max(logits, axis=1, keepdims=True)
            odds = xp.exp(logits)
            totals = xp.sum(odds, axis=1)
            if block.test:
                losses = xp.log(totals[count:]) - logits[count:, block.places, rows]
                weighted = losses if block.test_weights is None else losses * block.test_weights
                both = xp.stack([weighted, weighted * losses])
                sums += xp.sum(both, axis=(1, 2), dtype=xp.float64)
            # probabilities less the indicators of the classes
            residuals = odds[:count] / totals[:count, None, :]
            residuals[:, block.places, rows] -= 1
            if block.weights is not None:
                residuals *= block.weights[:, None, :]
            slopes = self._adjoint(block.A, residuals[:, 1:].reshape(-1, products.shape[1]))
            gradient[block.train] += slopes.reshape(count, *ahead.shape[1:])
        return gradient / self.total, on_host(sums), kept

    def _products(self, A: Any, coef: Any) -> Any:
        """Return the products of rows with coefficients of shape (m, p + 1), of shape (m, n)."""
        shift = self.constant * coef[:, -1:]
        if sparse.issparse(A):
            return (A @ coef[:, :-1].T).T + (shift - coef[:, :-1] @ self.mean[:, None])
        return coef[:, :-1] @ A.T + shift

    def _adjoint(self, A: Any, residuals: Any) -> Any:
        """Return the products of residuals of shape (m, n) with the rows."""
        sums = residuals.sum(axis=1)[:, None]
        found = (A.T @ residuals.T).T - sums * self.mean if sparse.issparse(A) else residuals @ A
        return array_namespace(residuals).concat([found, self.constant * sums], axis=1)

    def _largest_eigenvalue(self) -> float:
        """Estimate the largest eigenvalue of XᵀX/n by a few steps of block power iteration."""
        size = self.mean.shape[0] + 1
        vectors = np.random.default_rng(0).standard_normal((size, min(8, size)))
        largest = 0.0
        for _ in range(8):
            vectors = np.linalg.qr(vectors)[0]
            found = self.times_gram(vectors.T).T
            before, largest = largest, float(np.linalg.norm(vectors.T @ found, 2))
            # runs are checked against the curvature that they meet, so that 1 % is enough
            if largest <= 1.01 * before:
                break
            vectors = found
        return largest


def _groups(members: NDArray[np.bool_]) -> list[Places]:
    """Return sets of rows with equal columns here, or all rows if these sets are too many."""
    # rows with equal columns have equal sums of random numbers
    draws = np.random.default_rng(0).integers(2**62 // len(members), size=len(members))
    codes = np.zeros(members.shape[1], np.int64)
    for one, draw in zip(members, draws, strict=True):
        codes[one] += draw
    _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    # with repeated folds every row has the logits of all runs, and weights of zero
    if len(counts) > len(members) // 2 + 1:
        return [np.arange(len(codes))]
    return np.split(np.argsort(which, kind="stable"), np.cumsum(counts)[:-1])


def alike(reference: Any, values: Any, whole: bool = False) -> Any:
    """Return numbers where the reference is, in its type or as whole numbers."""
    if not is_device_array(reference):
        return np.asarray(values, None if whole else reference.dtype)
    xp = array_namespace(reference)
    dtype = xp.int64 if whole else reference.dtype
    return xp.asarray(values, dtype=dtype, device=reference.device)
