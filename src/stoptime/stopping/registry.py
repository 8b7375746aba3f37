"""Every rule by its name, and the variant of any of them that stops a little earlier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.stopping.cross_validation import CrossValidation
from stoptime.stopping.gcv import naive_gcv, path_gcv_with_spread
from stoptime.stopping.growing import resolved_oracle
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, CurveRule, Rule, choice_at, columns_of, stops_to_try
from stoptime.stopping.sure_discrepancy import SURE, Discrepancy
from stoptime.support.arrays import Array
from stoptime.theory.calibration import calibrate_to, possible_eigenvalues
from stoptime.theory.oracle import Oracle

__all__ = ["GCV", "RULES", "LeaveOneOut", "OneStandardError", "PathGCV", "PlugIn", "get_rule"]


@dataclass(frozen=True)
class LeaveOneOut(CurveRule):
    """Exact leave-one-out error; see :func:`stoptime.leave_one_out`.

    Parameters
    ----------
    standard_errors : bool, optional
        Whether the standard error of the mean is computed too; by default unless targets are many.
    """

    standard_errors: bool | None = None
    name: ClassVar[str] = "loo"

    @property
    def needs_rows(self) -> bool:
        """Every row has a kernel of its own."""
        return True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the left-out error at the stops."""
        wanted = problem.has_few_targets if self.standard_errors is None else self.standard_errors
        return problem.left_out.errors(stops, standard_errors=wanted, verbose=problem.verbose)


@dataclass(frozen=True)
class PathGCV(CurveRule):
    """Generalised cross-validation that is right for paths; see :func:`stoptime.path_gcv`.

    For a Krylov space the standard error is that of its stochastic trace alone.
    """

    name: ClassVar[str] = "path-gcv"

    @property
    def needs_trace(self) -> bool:
        """The mean kernel is a trace."""
        return True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the left-out error at the stops from the spectrum alone."""
        return ErrorCurve(stops, *path_gcv_with_spread(problem.spectrum, problem.tuned, stops))


@dataclass(frozen=True)
class GCV(CurveRule):
    """The textbook's generalised cross-validation, right for ridge only: it warns for all else."""

    name: ClassVar[str] = "gcv"

    @property
    def needs_trace(self) -> bool:
        """The degrees of freedom are a trace."""
        return True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops; see :func:`stoptime.naive_gcv`."""
        return ErrorCurve(stops, naive_gcv(problem.spectrum, problem.tuned, stops))


@dataclass(frozen=True)
class PlugIn(Rule):
    """Stop where the method has the best guarantee against the best ridge, as marginal likelihood sees it.

    The curve is the error that the estimated noise and signal imply. An array of stops is chosen among
    by that curve; otherwise the stop is :func:`stoptime.equivalent_stop` of the estimated penalty.
    """

    name: ClassVar[str] = "plug-in"

    @property
    def needs_trace(self) -> bool:
        """The likelihood has a determinant."""
        return True

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick one stop for all targets; see :meth:`Rule.choose`."""
        if per_target:
            raise ValueError(
                'rule="plug-in" shares one stop between targets: use rule="loo" per target.'
            )
        grid, given = stops_to_try(problem, stops)
        oracle, problem = resolved_oracle(problem)
        curve = ErrorCurve(grid, _expected(problem, oracle, grid))
        message = f"least expected error of {len(grid)} stops"
        stop = float(grid[np.argmin(curve.errors)])
        if not given:
            stop, message = _best_guarantee(problem, oracle.penalty)
        return Choice(
            stop, float(_expected(problem, oracle, np.array([stop]))[0]), curve, None, message
        )


def _expected(problem: Problem, oracle: Oracle, stops: Array) -> Array:
    """Return noise plus in-sample Bayes risk, σ² + (r²/p) Σ sg² + (σ²/n) Σ s²φ²."""
    spectrum, noise = problem.spectrum, float(np.mean(oracle.noise))
    s, weights = (values.astype(np.float64, copy=False) for values in spectrum.atoms)
    g, gain = problem.tuned.shrinkage(s[:, None], stops), problem.tuned.gain(s[:, None], stops)
    variance = noise / spectrum.n_observations
    if oracle.penalty > 0:
        powers = variance * (s / oracle.penalty)  # (r²/p)s, even where r² is no number
    else:
        z = spectrum.response.reshape(spectrum.rank, -1).astype(np.float64)
        lengths = np.hypot.reduce(z / spectrum.eigenvalues[:, None], axis=0)
        powers = np.mean(np.multiply.outer(np.sqrt(s), lengths) ** 2, axis=1) / spectrum.n_features
    return np.asarray(
        noise + (weights * powers) @ g**2 + variance * (weights @ (s[:, None] * gain) ** 2)
    )


def _best_guarantee(problem: Problem, penalty: float) -> tuple[float, str]:
    """Return the stop that is like ridge with the penalty, and what it guarantees in words."""
    if penalty in {0.0, np.inf}:
        return (np.inf, "no noise to be seen") if penalty == 0 else (0.0, "no signal to be seen")
    found = calibrate_to(problem.tuned, penalty, eigenvalues=possible_eigenvalues(problem.spectrum))
    message = (
        f"like ridge with the estimated best penalty, {penalty:.3g}: "
        f"at most {found.inflation:.4g} times its Bayes risk"
    )
    return found.stop, message


@dataclass(frozen=True)
class OneStandardError(Rule):
    """The earliest stop whose error is within one standard error of the least: simpler, and as good.

    Parameters
    ----------
    rule : CurveRule
        Whose error curve is looked at; it must know a standard error.
    """

    rule: CurveRule | str = LeaveOneOut(standard_errors=True)
    name: ClassVar[str] = "one-standard-error"

    @property
    def needs_rows(self) -> bool:
        """As its own rule does."""
        return get_rule(self.rule).needs_rows

    @property
    def needs_trace(self) -> bool:
        """As its own rule does."""
        return get_rule(self.rule).needs_trace

    def fixed(self, problem: Problem) -> OneStandardError:
        """Return the rule with whatever its own rule draws at random drawn once."""
        fixed = get_rule(self.rule).fixed(problem)
        return OneStandardError(fixed) if isinstance(fixed, CurveRule) else self

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the earliest stop as good as the best; see :meth:`Rule.choose`."""
        rule = get_rule(self.rule)
        if isinstance(rule, PathGCV):  # that of its random probes says nothing of the data
            raise _without_standard_error(rule)
        best = rule.choose(problem, stops, per_target=per_target)
        if best.standard_error is None or best.curve.standard_errors is None:
            raise _without_standard_error(rule)
        limit = np.atleast_1d(best.error + best.standard_error)
        within = columns_of(best.curve, per_target=per_target) <= limit
        message = f"earliest stop within one standard error of the {best.message}"
        return choice_at(np.argmax(within, axis=0), best.curve, message, per_target=per_target)


def _without_standard_error(rule: Rule) -> ValueError:
    return ValueError(
        f"{rule} knows no standard error over rows or folds: take CrossValidation(5) or, where rows can be "
        "left out, LeaveOneOut(True)."
    )


RULES: dict[str, type[Rule]] = {
    cls.name: cls
    for cls in (LeaveOneOut, PathGCV, GCV, SURE, Discrepancy, PlugIn, OneStandardError)
}
"""Every rule that needs no further data, by its name."""


def get_rule(rule: str | Rule, cv: Any = None) -> Rule:
    """Return the rule of that name with its defaults; a splitter ``cv`` takes its place.

    Examples
    --------
    >>> get_rule("loo")
    LeaveOneOut(standard_errors=None)
    """
    if cv is not None:
        return CrossValidation(cv)
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(
            f"Unknown rule {rule!r}; choose one of {', '.join(RULES)}, or give a splitter as cv."
        )
    return RULES[rule]()
