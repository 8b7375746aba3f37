r"""Rows of a classification problem: gradients and held-out losses of several runs at once.

There is a run for each fold, and a last one for all rows. A row either belongs to the training set
of a run, which needs its logits where the gradient is taken, or to its test set, which needs them
at the present iterate. So one product of the rows with the coefficients of all runs, and one of
their transpose with the residuals, is all that a step needs.

Two classes have one logit, the difference of two. With softmax both of them move, so that their
difference moves twice as fast as with a sigmoid: its gradient counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stoptime.support.arrays import Array, array_namespace, is_device_array, on_host, slices

Places = NDArray[np.intp]
Split = tuple[Places, Places]


class Block(NamedTuple):
    """Some rows of a group. Weights have shape (runs or 1, n), or are None where all are one."""

    A: Any
    places: Any  # the class of each row
    order: Places  # where the rows are in X
    weights: Any
    test_weights: Any


class Group(NamedTuple):
    """Rows that train the same runs and test the same runs, which are given by their numbers."""

    train: list[int]
    test: list[int]
    blocks: list[Block]


@dataclass
class Rows:
    """All rows in groups. Coefficients have one more column at the end, for the intercept.

    The mean is subtracted from the products if the rows are sparse, and from the rows otherwise.
    """

    groups: list[Group]
    total: float  # the weight of all rows
    test_totals: Array
    priors: Array  # shares of the classes in each training set
    mean: Any
    constant: float  # by which the intercept is multiplied; zero if there is none
    largest: float = 0.0  # eigenvalue of XᵀX/n

    @property
    def n_logits(self) -> int:
        """The number of logits of a row."""
        return 1 if self.priors.shape[1] == 2 else int(self.priors.shape[1])

    def start(self, at_priors: bool) -> Any:
        """Return coefficients of zero, with intercepts that give the shares of the classes."""
        start = np.zeros((len(self.priors), self.n_logits, self.mean.shape[0] + 1))
        if at_priors and self.constant:
            odds = np.log(self.priors)
            odds -= odds[:, :1] if self.n_logits == 1 else odds.mean(axis=1, keepdims=True)
            start[:, :, -1] = odds[:, -self.n_logits :] / self.constant
        return alike(self.mean, start)

    def curvature(self) -> float:
        """Return the largest eigenvalue of the Hessian at the start."""
        shares = self.priors[-1]
        hessian = np.diag(shares) - np.outer(shares, shares)
        return self.largest * float(np.linalg.eigvalsh(hessian)[-1])

    def largest_curvature(self) -> float:
        """Return a bound for all coefficients: no row has more than a half."""
        return self.largest / 2

    def _logits(self, block: Block, coef: Any) -> Any:
        """Return the logits for coefficients of shape (m, p + 1), of shape (m, n)."""
        shift = self.constant * coef[:, -1]
        if sparse.issparse(block.A):
            shift = shift - coef[:, :-1] @ self.mean
            return np.ascontiguousarray((block.A @ coef[:, :-1].T + shift).T)
        found = coef[:, :-1] @ block.A.T
        if self.constant:
            found += shift[:, None]
        return found

    def _adjoint(self, block: Block, residuals: Any, out: Any) -> None:
        """Add the products of residuals of shape (m, n) with the rows to a part of ``out``."""
        sums = residuals.sum(axis=1)
        if sparse.issparse(block.A):
            out[:, :-1] += (block.A.T @ residuals.T).T - sums[:, None] * self.mean
        else:
            out[:, :-1] += residuals @ block.A
        out[:, -1] += self.constant * sums

    def times_gram(self, vectors: Array) -> Array:
        """Return the products of XᵀX/n with row vectors, on the host."""
        found = alike(self.mean, np.zeros_like(vectors))
        for group in self.groups:
            for block in group.blocks:
                products = self._logits(block, alike(self.mean, vectors))
                if block.weights is not None:
                    products *= block.weights[-1]  # those of the last run, which has all rows
                self._adjoint(block, products, found)
        return np.asarray(on_host(found), np.float64) / self.total

    def gradient(self, ahead: Any, shown: Any, keep: bool = False) -> tuple[Any, Array, Any]:
        """Return the gradients of the log losses of all runs, and the losses of test rows.

        Losses of training rows are summed, and divided by the number of all rows in every run: the
        best penalty for a mean loss falls like 1/n, and so a fold, which has fewer rows, should
        advance more slowly than the fit to all rows. Gradients are those at the coefficients
        ``ahead``, losses those at ``shown``, both of shape (runs, logits, p + 1). Losses are
        weighted sums over each test set, in the first row, and those of their squares, in the
        second. The logits of test rows are kept on demand.
        """
        xp = array_namespace(ahead)
        gradient = xp.zeros_like(ahead)
        sums = np.zeros((2, len(self.test_totals)))
        logits: list[list[tuple[Places, Any]]] = [[] for _ in self.test_totals]
        for group in self.groups:
            used = [ahead[run] for run in group.train] + [shown[run] for run in group.test]
            coef = xp.stack(used).reshape(-1, ahead.shape[2])
            count = len(group.train)
            slopes = xp.zeros_like(coef[: count * self.n_logits])
            for block in group.blocks:
                scores = self._logits(block, coef)
                scores = scores.reshape(len(used), -1, scores.shape[1])
                if group.test:
                    losses = _losses(scores[count:], block.places)
                    weighted = losses if block.test_weights is None else losses * block.test_weights
                    both = xp.stack([weighted, weighted * losses])
                    sums[:, group.test] += on_host(xp.sum(both, axis=2, dtype=xp.float64))
                for run, own in zip(group.test, scores[count:], strict=True):
                    if keep:
                        logits[run].append((block.order, on_host(own)))
                residuals = _residuals(scores[:count], block.places)
                if block.weights is not None:
                    residuals *= block.weights[:, None, :]
                self._adjoint(block, residuals.reshape(-1, scores.shape[2]), slopes)
            gradient[group.train] += slopes.reshape(count, -1, ahead.shape[2])
        gradient *= (1 + (self.n_logits == 1)) / self.total
        return gradient, sums, logits


def prepared(
    X: Any,
    places: Places,
    n_classes: int,
    splits: Sequence[Split] = (),
    weights: Array | None = None,
    *,
    constant: float = 1.0,
    centred: bool = True,
) -> Rows:
    """Return the rows for a run on each training set, and a last run on all rows.

    ``places`` are the classes of the rows. The intercept is multiplied by a constant, which is one
    in a linear layer of torch. If the columns are centred, it is made so large that the intercept
    moves as fast as the fastest direction, because it should not be regularised.
    """
    n = X.shape[0]
    own = np.ones(n) if weights is None else weights
    trained = [train for train, _ in splits] + [np.arange(n)]
    test_totals = np.array([own[rows].sum() for _, rows in splits])
    shares = np.stack([np.bincount(places[rows], own[rows], n_classes) for rows in trained])
    if not min(shares.sum(axis=1).min(), test_totals.min(initial=np.inf)) > 0:
        raise ValueError("Every training set and every test set needs a row of positive weight.")
    # a class that a training set lacks is taken to be half as frequent as its rarest class
    rarest = np.where(shares > 0, shares, np.inf).min(axis=1, keepdims=True) / 2
    shares = np.where(shares > 0, shares, rarest)
    total = float(own.sum())
    mean = X.T @ alike(X, own / total * centred)
    priors = shares / shares.sum(axis=1, keepdims=True)
    rows = Rows([], total, test_totals, priors, mean, constant)
    # logits of a block: few enough for the cache of a processor, or a gigabyte of a device
    numbers = 2**28 if is_device_array(X) else 2**18
    for train, test, members, masks in _grouped(n, splits):
        blocks = []
        for part in slices(len(members), numbers // (rows.n_logits * (len(train) + len(test)))):
            order = members[part]
            factors = [None if weights is None else weights[None, order]] * 2
            if masks is not None:
                factors = [mask[:, order] * own[order] for mask in masks]
            given = [None if one is None else alike(X, one) for one in factors]
            # sparse rows would lose their zeros
            A = X[alike(X, order, whole=True)]
            A = A if sparse.issparse(A) or not centred else A - mean
            blocks.append(Block(A, alike(X, places[order], whole=True), order, *given))
        rows.groups.append(Group(train, test, blocks))
    _find_largest(rows, centred)
    if centred and constant and rows.largest > 0:
        rows.constant = float(np.sqrt(rows.largest))
    return rows


def _find_largest(rows: Rows, centred: bool) -> None:
    """Estimate the largest eigenvalue of XᵀX/n by a few steps of block power iteration."""
    # the intercept is orthogonal to centred columns, and so is left out
    size = rows.mean.shape[0] + (not centred)
    vectors = np.random.default_rng(0).standard_normal((min(8, size), size))
    for _ in range(8):
        vectors = np.linalg.qr(vectors.T)[0].T
        found = rows.times_gram(np.pad(vectors, ((0, 0), (0, int(centred)))))[:, :size]
        rows.largest = float(np.linalg.norm(found @ vectors.T, 2))
        vectors = found


def _grouped(n: int, splits: Sequence[Split]) -> Iterator[tuple[list[int], list[int], Places, Any]]:
    """Yield the runs that rows train, those that they test, the rows, and masks of both or None."""
    last = len(splits)
    # rows with equal memberships have equal sums of random numbers
    codes = np.zeros(n, np.int64)
    names = np.random.default_rng(0).integers(2**62 // max(last, 1), size=(last, 2))
    for split, pair in zip(splits, names, strict=True):
        for members, name in zip(split, pair, strict=True):
            codes[members] += name
    _, firsts, number = np.unique(codes, return_index=True, return_inverse=True)
    # Repeated folds make too many groups: then every row has the logits of all runs, and masks.
    many = len(firsts) > last + 1
    rows = np.arange(n) if many else firsts
    train = np.array([np.isin(rows, one) for one, _ in splits] + [np.ones(len(rows), bool)])
    test = np.array([np.isin(rows, one) for _, one in splits]).reshape(last, len(rows))
    if many:
        yield list(range(last + 1)), list(range(last)), rows, (train, test)
        return
    for group in range(len(firsts)):
        runs, tests = np.flatnonzero(train[:, group]), np.flatnonzero(test[:, group])
        yield runs.tolist(), tests.tolist(), np.flatnonzero(number == group), None


def alike(reference: Any, values: Any, whole: bool = False) -> Any:
    """Return numbers where the reference is, in its type or as whole numbers."""
    if not is_device_array(reference):
        return np.asarray(values, None if whole else reference.dtype)
    xp = array_namespace(reference)
    dtype = xp.int64 if whole else reference.dtype
    return xp.asarray(values, dtype=dtype, device=reference.device)


def _losses(logits: Any, places: Any) -> Any:
    """Return the log losses of logits of shape (runs, logits, n), of shape (runs, n)."""
    xp = array_namespace(logits)
    if logits.shape[1] == 1:
        # log(1 + exp(f)) for the first class, and log(1 + exp(-f)) for the second
        signed = logits[:, 0] * (1 - 2 * places)
        return xp.logaddexp(0 * signed, signed)
    most = xp.max(logits, axis=1)
    odds = xp.sum(xp.exp(logits - most[:, None, :]), axis=1)
    rows = xp.arange(places.shape[0], device=places.device)
    return xp.log(odds) + most - logits[:, places, rows]


def _residuals(logits: Any, places: Any) -> Any:
    """Return probabilities less the indicators of the classes; the logits are overwritten."""
    xp = array_namespace(logits)
    if logits.shape[1] == 1:
        # the sigmoid by tanh, which does not overflow
        logits *= 0.5
        return (xp.tanh(logits) + 1) * 0.5 - places
    if hasattr(xp, "softmax"):
        chances = xp.softmax(logits, 1)
    else:
        logits -= xp.max(logits, axis=1, keepdims=True)
        chances = xp.exp(logits, out=logits)
        chances /= xp.sum(chances, axis=1, keepdims=True)
    chances[:, places, xp.arange(places.shape[0], device=places.device)] -= 1
    return chances
