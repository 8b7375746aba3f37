"""Rules that pick the stop, and the errors they look at."""

from stoptime.stopping.choice import Choice, CurveRule, Rule, StopWarning
from stoptime.stopping.curve import ErrorCurve
from stoptime.stopping.discrepancy import SURE, Discrepancy, training_error
from stoptime.stopping.gcv import naive_gcv, path_gcv
from stoptime.stopping.grid import default_stops
from stoptime.stopping.kfold import CrossValidation, HoldOut
from stoptime.stopping.loo import leave_one_out, left_out_residuals
from stoptime.stopping.plugin import Oracle, estimate_oracle
from stoptime.stopping.problem import Problem
from stoptime.stopping.rules import GCV, RULES, LeaveOneOut, OneStandardError, PathGCV, PlugIn, get_rule

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
