"""Least squares fitted by momentum with early stopping: its effect, and when to stop."""

from importlib import import_module
from types import ModuleType

from stoptime import bounds
from stoptime.estimators.classifier import StoppedClassifier, StoppedClassifierCV
from stoptime.estimators.kernel import StoppedKernelRegressor, StoppedKernelRegressorCV
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.exact import leave_one_out, left_out_predictions, left_out_residuals
from stoptime.methods.base import Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.high_resolution import HighResolutionFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import FAMILY, ITERATIONS, METHODS, get_method
from stoptime.methods.ridge import IteratedRidge, Ridge
from stoptime.paths import Path, path
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.spectrum.kernel import decompose_kernel
from stoptime.spectrum.streamed.data import summarise
from stoptime.spectrum.streamed.sources import Block, Chunks
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.stopping.crossing import training_error
from stoptime.stopping.gcv import naive_gcv, path_gcv
from stoptime.stopping.grid import default_stops
from stoptime.stopping.l_curve import LCurve
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.ncp import NCP
from stoptime.stopping.problem import Problem
from stoptime.stopping.registry import (
    GCV,
    RULES,
    CrossValidation,
    HoldOut,
    OneStandardError,
    PathGCV,
    PlugIn,
    get_rule,
)
from stoptime.stopping.rule import Candidate, Choice, Rule, StopWarning
from stoptime.stopping.sure_discrepancy import SURE, Discrepancy
from stoptime.support.version import __version__ as __version__
from stoptime.tables.model_file import Model, PreparationWarning, load, save
from stoptime.theory.calibration import (
    Calibration,
    calibrate,
    equivalent_penalty,
    equivalent_stop,
    guarantee,
)
from stoptime.theory.limits import limiting_risk, marchenko_pastur
from stoptime.theory.oracle import Oracle, estimate_oracle
from stoptime.theory.plan import Plan, plan
from stoptime.theory.risk import Inflation, RiskCurve, bayes_risk, inflation, risk
from stoptime.theory.signals import PowerSignal, power_signal, risk_exponent

__all__ = [
    "FAMILY", "GCV", "ITERATIONS", "METHODS", "NCP", "RULES", "SURE", "AcceleratedFlow", "Block",
    "Calibration", "Candidate", "Choice", "Chunks", "ConjugateGradient", "CriticalFlow",
    "CrossValidation", "Discrepancy", "ErrorCurve", "GradientDescent", "GradientFlow", "HeavyBall",
    "HeavyBallFlow", "HighResolutionFlow", "HoldOut", "Inflation", "IteratedRidge", "Iteration",
    "LCurve", "LeaveOneOut", "Method", "Model", "Nesterov", "NuMethod", "OneStandardError",
    "Oracle", "Path", "PathGCV", "Plan", "PlugIn", "PowerSignal", "PreparationWarning", "Problem",
    "Ridge", "RiskCurve", "Rule", "SpectralCutoff", "Spectrum", "Statistics", "StopWarning",
    "StoppedClassifier", "StoppedClassifierCV", "StoppedKernelRegressor",
    "StoppedKernelRegressorCV", "StoppedRegressor", "StoppedRegressorCV", "bayes_risk",
    "bounds", "calibrate", "decompose", "decompose_kernel", "default_stops",
    "equivalent_penalty", "equivalent_stop", "estimate_oracle", "get_method", "get_rule",
    "guarantee", "inflation", "leave_one_out", "left_out_predictions", "left_out_residuals",
    "limiting_risk", "load", "marchenko_pastur", "naive_gcv", "path", "path_gcv", "plan",
    "power_signal", "risk", "risk_exponent", "save", "summarise", "training_error",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    """Import the modules that draw and write pages when they are first used."""
    if name in {"explorer", "plots", "report"}:
        return import_module(
            f"stoptime.show.{name}" if name != "plots" else "stoptime.support.plots"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
