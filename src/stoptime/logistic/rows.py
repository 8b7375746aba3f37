"""Rows of a classification problem: gradients and held-out losses of several runs at once.

A row trains some runs, which need its logits where the gradient is taken, and tests others, which
need them at the present iterate. So a step needs one product of the rows with all coefficients, and
one of their transpose with residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from scipy import sparse

from stoptime.support.arrays import (
    Array,
    array_namespace,
    as_dtype,
    is_device_array,
    like,
    on_host,
    slices,
)

Places = NDArray[np.intp]
Split = tuple[Places, Places]
Tested = tuple[Places, Array]  # some rows of a test set, and their logits of shape (classes, n)


class Rows:
    r"""All rows in blocks, for a run on each training set and a last run on all rows.

    Coefficients have shape (runs, classes - 1, p + 1). The logits of the first class are minus the
    sum of the others, as in every softmax run from zero, because its gradients sum to zero. The
    last column is that of the intercept, which is multiplied by a constant: one in a linear layer
    of torch, zero if there is none. If the columns are centred, it is so large that the intercept
    moves as fast as the fastest direction, because it should not be regularised. Dense rows
    are held in single precision on demand, after they have been centred.
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
        single: bool = False,
    ) -> None:
        n, p = X.shape
        count = len(splits) + 1
        own = np.ones(n) if weights is None else weights
        # which rows train each run, the last of which has all, and which rows test it
        members = np.zeros((2 * count - 1, n), bool)
        members[count - 1] = True
        for run, (trained, tested) in enumerate(splits):
            members[run, trained] = True
            members[count + run, tested] = True
        sums = members @ own
        if not sums.min() > 0:
            raise ValueError(
                "Every training set and every test set needs a row whose weight is not zero."
            )
        self.total = float(own.sum())
        self.test_total = float(sums[count:].sum())
        shares = np.stack([np.bincount(places, own * one, n_classes) for one in members[:count]])
        # a class that a training set lacks is taken to be half as frequent as its rarest class
        rarest = np.where(shares > 0, shares, np.inf).min(axis=1, keepdims=True) / 2
        shares = np.where(shares > 0, shares, rarest)
        self.priors = shares / shares.sum(axis=1, keepdims=True)
        self.centred = centred
        self.mean = X.T @ alike(X, own / self.total * centred)
        self.dtype = np.float32 if single else self.mean.dtype
        # sparse rows would lose their zeros: their mean is subtracted from the products
        self.offset = self._alike(on_host(self.mean) * sparse.issparse(X))
        # rows, their places in X, their classes after the first one, zero for rows of the first and
        # one for others, the runs that they train and then those that they test, how many they
        # train, and weights of shape (runs, n): zero for rows of other runs
        self.blocks: list[tuple[Any, Places, Any, Any, list[int], int, Any]] = []
        # numbers of a block: a gigabyte of a device; 16 MB of a processor, which bound the memory,
        # and are enough for one product that threads rarely have to wait for one another
        numbers = 2**28 if is_device_array(X) else 2**21
        # rows of a test set share the runs that they train; rows of several test sets have all runs
        label = np.arange(1, count) @ members[count:]
        label *= members[count:].sum(axis=0).max() <= 1
        for group in (np.flatnonzero(label == one) for one in np.unique(label)):
            runs = np.flatnonzero(members[:, group].any(axis=1))
            for part in slices(len(group), numbers // max(p, n_classes * len(runs))):
                order = group[part]
                at = like(X, order)
                A = X[at]
                if not sparse.issparse(X):
                    A = as_dtype(A - self.mean, self.dtype)
                labels = like(X, places[order] - 1)
                marks = self._alike(places[order] > 0)
                factors = self._alike(members[np.ix_(runs, order)] * own[order])
                first = int(np.searchsorted(runs, count))
                self.blocks.append((A, order, labels, marks, runs.tolist(), first, factors))
        # the intercept is orthogonal to centred columns, and does not count for their eigenvalues
        self.constant = 0.0 if centred else constant
        self.largest = self._largest_eigenvalue()
        if centred:
            self.constant = constant * float(np.sqrt(self.largest))

    def start(self) -> Any:
        """Return coefficients of zero; free intercepts give the shares of the classes."""
        runs, classes = self.priors.shape
        start = np.zeros((runs, classes - 1, self.mean.shape[0] + 1))
        if self.centred and self.constant:
            odds = np.log(self.priors)
            start[:, :, -1] = (odds - odds.mean(axis=1, keepdims=True))[:, 1:] / self.constant
        return self._alike(start)

    def curvature(self) -> float:
        """Return the largest eigenvalue of the Hessian at the start."""
        shares = self.priors[-1]
        hessian = np.diag(shares) - np.outer(shares, shares)
        return self.largest * float(np.linalg.eigvalsh(hessian)[-1])

    def times_gram(self, vectors: Array) -> Array:
        """Return the products of XᵀX/n with row vectors, on the host."""
        given = self._alike(vectors)
        found = 0 * given
        for A, *_, count, weights in self.blocks:
            # the last run that a block trains is that on all rows
            found += self._adjoint(A, weights[count - 1] * self._products(A, given))
        return np.asarray(on_host(found), np.float64) / self.total

    def gradient(
        self, ahead: Any, shown: Any, keep: bool = False
    ) -> tuple[Any, float, float, list[list[Tested]]]:
        """Return the gradients of all runs at ``ahead``, and the loss of test rows at ``shown``.

        Losses of training rows are summed, and divided by the number of all rows in every run: the
        best penalty for a mean loss falls like 1/n, and so a fold, which has fewer rows, should
        advance more slowly than the fit to all rows. The loss of test rows is their mean and its
        standard error. The rows and logits of each test set are kept on demand.
        """
        xp = array_namespace(ahead)
        both = xp.concat([ahead, shown[:-1]])
        gradient = 0 * ahead
        sums = xp.zeros(2, dtype=xp.float64, device=device(ahead))
        kept: list[list[Tested]] = [[] for _ in self.priors[1:]]
        for A, order, labels, marks, runs, count, weights in self.blocks:
            products = self._products(A, both[runs].reshape(-1, both.shape[2]))
            others = products.reshape(len(runs), -1, len(order))
            first = -xp.sum(others, axis=1)
            for place in range(count, len(runs) if keep else count):
                own = np.flatnonzero(on_host(weights[place]))
                logits = on_host(xp.concat([first[None, place], others[place]]))[:, own]
                kept[runs[place] - len(ahead)].append((order[own], logits))
            # less the largest logit of each row, so that exponentials do not overflow
            top = xp.maximum(first, xp.max(others, axis=1))
            first -= top
            others -= top[:, None, :]
            rows = xp.arange(len(order), device=device(products))
            chosen = xp.where(marks > 0, others[count:, labels, rows], first[count:])
            odds = xp.exp(others)
            totals = xp.exp(first) + xp.sum(odds, axis=1)
            losses = xp.log(totals[count:]) - chosen
            weighted = losses * weights[count:]
            sums += xp.sum(xp.stack([weighted, weighted * losses]), axis=(1, 2), dtype=xp.float64)
            # probabilities less the indicators of the classes
            residuals = odds[:count]
            residuals /= totals[:count, None, :]
            residuals[:, labels, rows] -= marks
            residuals *= weights[:count, None, :]
            slopes = self._adjoint(A, residuals.reshape(-1, len(order)))
            gradient[runs[:count]] += slopes.reshape(count, *ahead.shape[1:])
        mean, square = on_host(sums) / (self.test_total or 1.0)
        deviation = np.sqrt(max(square - mean**2, 0.0) / (self.test_total or 1.0))
        return gradient / self.total, float(mean), float(deviation), kept

    def _alike(self, values: Any) -> Any:
        """Return numbers where the rows are, in their type."""
        return as_dtype(like(self.mean, values), self.dtype)

    def _products(self, A: Any, coef: Any) -> Any:
        """Return the products of rows with coefficients of shape (m, p + 1), of shape (m, n)."""
        found = coef[:, :-1] @ A.T
        found += self.constant * coef[:, -1:] - coef[:, :-1] @ self.offset[:, None]
        return found

    def _adjoint(self, A: Any, residuals: Any) -> Any:
        """Return the products of residuals of shape (m, n) with the rows."""
        sums = residuals.sum(axis=1)[:, None]
        found = residuals @ A - sums * self.offset
        return array_namespace(found).concat([found, self.constant * sums], axis=1)

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


def alike(reference: Any, values: Any) -> Any:
    """Return numbers where the reference is, in its type."""
    return as_dtype(like(reference, values), reference.dtype)
