"""Rules that pick the stop, and the errors they look at."""

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.exact import leave_one_out, left_out_residuals
from stoptime.stopping.cross_validation import CrossValidation, HoldOut
from stoptime.stopping.gcv import naive_gcv, path_gcv
from stoptime.stopping.grid import default_stops
from stoptime.stopping.problem import Problem
from stoptime.stopping.registry import (
    GCV,
    RULES,
    LeaveOneOut,
    OneStandardError,
    PathGCV,
    PlugIn,
    get_rule,
)
from stoptime.stopping.rule import Choice, CurveRule, Rule, StopWarning
from stoptime.stopping.sure_discrepancy import SURE, Discrepancy, training_error
from stoptime.theory.oracle import Oracle, estimate_oracle

__all__ = [
    "GCV",
    "RULES",
    "SURE",
    "Choice",
    "CrossValidation",
    "CurveRule",
    "Discrepancy",
    "ErrorCurve",
    "HoldOut",
    "LeaveOneOut",
    "OneStandardError",
    "Oracle",
    "PathGCV",
    "PlugIn",
    "Problem",
    "Rule",
    "StopWarning",
    "default_stops",
    "estimate_oracle",
    "get_rule",
    "leave_one_out",
    "left_out_residuals",
    "naive_gcv",
    "path_gcv",
    "training_error",
]
