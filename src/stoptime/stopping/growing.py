"""Sparse matrices and operators, opened for a rule and grown while it has not seen enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.rows import WITHOUT_ROWS
from stoptime.methods.base import Method
from stoptime.methods.ridge import Ridge
from stoptime.paths import goals, largest_gain
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import Arguments, factored, validated
from stoptime.spectrum.kinds import MATRIX_FREE, STREAMED, kind_of
from stoptime.spectrum.krylov.operator import MatrixFreeData
from stoptime.spectrum.krylov.spaces import SMALL, Goal, KrylovLimitError, KrylovSpaces, is_small
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import EXTENSIONS
from stoptime.theory.oracle import Oracle, UnresolvedError, estimate_oracle

__all__ = ["open_data", "plug_in", "resolved_oracle"]

PROBES = 10
HORIZON = 30.0  # phase t√L up to which an unknown spectrum is first looked at
SMOOTH_HORIZON = 100.0  # and tL, for methods that do not swing
FARTHER = 16.0  # times the gain, every time that was not enough
HALVINGS = 10  # of these, where they are too much for the memory
TO_EXHAUSTION = 20  # growths by that: as good as for ever
LARGEST_WITH_ROWS = 3000  # rows or columns up to which leave-one-out factors a sparse X


def open_data(
    data: Arguments,
    methods: Sequence[Method],
    stops: ArrayLike | int | None,
    *,
    rows: bool,
    trace: bool,
    verbose: bool = False,
) -> tuple[Spectrum, KrylovSpaces | None]:
    """Factor a sparse matrix or an operator for a rule: whole where that is small, else by Krylov spaces.

    Parameters
    ----------
    data : tuple of X, y, sample_weight, fit_intercept
        Checked.
    methods : sequence of Method
        What is to be stopped.
    stops : array-like, int or None
        Where, if it is known; else a Krylov space begins with t√L = 30, or tL = 100.
    rows, trace : bool
        What the rule needs: rows one by one, or sums over all eigenvalues.
    verbose : bool, default=False
        Whether growth of more than a few seconds shows its progress.
    """
    X = data[0]
    if is_small(X) or (rows and kind_of(X) == "sparse" and min(X.shape) <= LARGEST_WITH_ROWS):
        return factored(validated(*data)), None
    if rows:
        raise ValueError(WITHOUT_ROWS)
    probes = PROBES if trace else 0
    spaces = KrylovSpaces(MatrixFreeData.validated(*data), probes=probes, verbose=verbose)
    asked = np.asarray(
        [] if stops is None or np.ndim(np.asarray(stops)) == 0 else stops, dtype=np.float64
    )
    if asked.size:
        return spaces.spectrum(
            [goal for method in methods for goal in goals(method, asked)]
        ), spaces
    return _first_look(spaces, [_horizon(method, spaces) for method in methods]), spaces


def _first_look(spaces: KrylovSpaces, wanted: list[Goal]) -> Spectrum:
    """Look as far as is wanted, or half as far, and again, where memory ends before."""
    for _ in range(HALVINGS):
        try:
            return spaces.spectrum(wanted)
        except KrylovLimitError:
            wanted = [Goal(method, _half(method, stop)) for method, stop in wanted]
    return spaces.spectrum(wanted)


def _half(method: Method, stop: float) -> float:
    return stop // 2 if method.whole_stops else stop / 2


def _horizon(method: Method, spaces: KrylovSpaces) -> Goal:
    """Return how far to look at first."""
    if not method.has_filter:
        return Goal(method, method.horizon)
    largest = spaces.largest() or 1.0
    time = SMOOTH_HORIZON / largest if method.order == 1 else HORIZON / np.sqrt(largest)
    if method.whole_stops:
        time = max(np.ceil(time / method.tuned_to([0.0, largest]).pace), 2.0)
    return Goal(method, float(time))


def resolved_oracle(problem: Problem) -> tuple[Oracle, Problem]:
    """Estimate noise and signal, growing a Krylov space until the best penalty lies within its reach."""
    small = min(problem.X.shape) <= SMALL
    for _ in range(TO_EXHAUSTION if small else EXTENSIONS):
        try:
            return estimate_oracle(problem.spectrum), problem
        except UnresolvedError:
            if problem.spaces is None:
                raise
        farther = Goal(Ridge(), FARTHER * problem.spectrum.reach)
        problem = problem.growing_to([farther])
    return estimate_oracle(problem.spectrum), problem


def plug_in(
    data: Arguments, method: Method, factor: Callable[..., Spectrum]
) -> tuple[Spectrum, Oracle, float]:
    """Return the spectrum, the oracle, and the stop with the best guarantee against its ridge."""
    X, y = data[:2]
    if kind_of(X) in MATRIX_FREE:
        spectrum, spaces = open_data(data, [Ridge()], None, rows=False, trace=True)
        oracle, problem = resolved_oracle(Problem(X, y, method, spectrum, spaces=spaces))
        stop = oracle.stop(method, problem.spectrum)
        return problem.reaching(stop).spectrum, oracle, stop
    spectrum = factor(solver="auto" if kind_of(X) in STREAMED else "gram")
    oracle = estimate_oracle(spectrum)
    stop = oracle.stop(method, spectrum)
    if kind_of(X) not in STREAMED and largest_gain(method, stop) > spectrum.reach:
        spectrum = factor(solver="svd")
        oracle = estimate_oracle(spectrum)
        stop = oracle.stop(method, spectrum)
    return spectrum, oracle, stop
