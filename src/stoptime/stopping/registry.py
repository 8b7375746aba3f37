"""Every rule by its name, and the rule of one standard error, which is built on another rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from stoptime.stopping.gcv import GCV, PathGCV
from stoptime.stopping.held_out import CrossValidation, is_leave_one_out
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.rule import Choice, CurveRule, Rule, choice_at, columns_of
from stoptime.stopping.training_error import NCP, SURE, Discrepancy, LCurve, PlugIn
from stoptime.support.checks import instance_of
from stoptime.support.wording import did_you_mean_class

if TYPE_CHECKING:
    from stoptime.spectrum.data import Data
    from stoptime.stopping.problem import Problem
    from stoptime.support.arrays import Floats


@dataclass(frozen=True)
class OneStandardError(Rule):
    """The earliest stop whose error is within one standard error of the least error.

    ``rule`` is another rule; it estimates the error curve and its standard errors.
    """

    rule: CurveRule | str = LeaveOneOut()  # noqa: RUF009 - it is frozen
    name: ClassVar[str] = "one-standard-error"

    @property
    def needs_rows(self) -> bool:
        """Whether ``rule`` reads rows one by one."""
        return get_rule(self.rule).needs_rows

    @property
    def needs_trace(self) -> bool:
        """Whether ``rule`` sums over all eigenvalues."""
        return get_rule(self.rule).needs_trace

    def fixed(self, data: Data, groups: ArrayLike | None = None) -> OneStandardError:
        """Return this rule with the folds of ``rule`` drawn once."""
        fixed = get_rule(self.rule).fixed(data, groups)
        return OneStandardError(fixed) if isinstance(fixed, CurveRule) else self

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the earliest stop as good as the best; see :meth:`Rule.choose`."""
        rule = self._checked()
        found = self._earliest(rule.choose(problem, stops, per_target=per_target))
        return found if found.standard_error is not None else rule.finished(problem, found)

    def choose_each(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[tuple[Problem, Choice]]:
        """Pick the best stops: methods are compared by their least errors."""
        return self._checked().choose_each(problems, stops, per_target=per_target)

    def parts(self, problem: Problem, choice: Choice) -> Floats | None:
        """Return the parts of the error of ``rule``."""
        return get_rule(self.rule).parts(problem, choice)

    def finished(self, problem: Problem, choice: Choice) -> Choice:
        """Return the earliest stop within one standard error of the best one."""
        rule = get_rule(self.rule)
        found = self._earliest(rule.finished(problem, choice))
        return found if found.standard_error is not None else rule.finished(problem, found)

    def _checked(self) -> Rule:
        """Return ``rule``, unless its standard error is not that of the data."""
        rule = get_rule(self.rule)
        # that of path GCV is one of random probes
        if isinstance(rule, PathGCV):
            self._refuse()
        return rule

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"{get_rule(self.rule)} has no standard error over rows or folds: use "
            "CrossValidation(5) or, if exact leave-one-out is possible, LeaveOneOut()."
        )

    def _earliest(self, best: Choice) -> Choice:
        if best.standard_error is None:
            self._refuse()
        limit = np.atleast_1d(best.error + best.standard_error)
        per_target = np.ndim(best.stop) > 0
        within = columns_of(best.curve, per_target=per_target) <= limit
        message = f"earliest stop within one standard error of the {best.message}"
        return choice_at(np.argmax(within, axis=0), best.curve, message, per_target=per_target)


_CLASSES = LeaveOneOut, PathGCV, GCV, SURE, Discrepancy, NCP, LCurve, PlugIn, OneStandardError
RULES: dict[str, type[Rule]] = {cls.name: cls for cls in _CLASSES}
"""Every rule that needs no further data, by its name."""


def get_rule(rule: str | Rule | type[Rule], cv: Any = None) -> Rule:
    """Return the rule of that name with its defaults, or cross-validation by a splitter ``cv``.

    Examples
    --------
    >>> get_rule("loo")
    LeaveOneOut(standard_errors=False)
    """
    if cv is not None:
        # without refits, and exactly
        return LeaveOneOut() if is_leave_one_out(cv) else CrossValidation(cv)
    if isinstance(rule, Rule | type):
        return instance_of(rule, Rule)
    given: Any = rule  # callers without types give anything
    if not isinstance(given, str) or given not in RULES:
        hint = did_you_mean_class(rule, RULES)
        raise ValueError(
            f"Unknown rule {rule!r}{hint or '.'} Choose one of {', '.join(RULES)}, or give a "
            "splitter as cv."
        )
    return RULES[given]()
