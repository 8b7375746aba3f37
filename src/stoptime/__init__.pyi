# The public names and where they are defined: type checkers and `stoptime/__init__.py` read this.
import stoptime.bounds as bounds
import stoptime.methods.schedules as schedules
import stoptime.show.explorer as explorer
import stoptime.show.plots as plots
import stoptime.show.report as report
import stoptime.theory.stochastic as stochastic
from stoptime import tables as tables
from stoptime.estimators.banded import BandedRegressorCV
from stoptime.estimators.classifier import StoppedClassifier, StoppedClassifierCV
from stoptime.estimators.kernel import (
    StoppedKernelClassifier,
    StoppedKernelClassifierCV,
    StoppedKernelRegressor,
    StoppedKernelRegressorCV,
)
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.estimators.logistic import StoppedLogisticRegression, StoppedLogisticRegressionCV
from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.exact import leave_one_out, left_out_predictions, left_out_residuals
from stoptime.methods.adaptive import AdaGrad, Adam, AdamW, RMSProp
from stoptime.methods.averages import Averaged, Decayed, VanishingDecay
from stoptime.methods.base import Filter, Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.flows import (
    AcceleratedFlow,
    AveragedFlow,
    CriticalFlow,
    GradientFlow,
    HeavyBallFlow,
    HighResolutionAcceleratedFlow,
    HighResolutionFlow,
)
from stoptime.methods.iterations import (
    SGD,
    GradientDescent,
    HeavyBall,
    Nesterov,
    NuMethod,
    OptimalIteration,
)
from stoptime.methods.recurrence import Iteration, Recurrence
from stoptime.methods.registry import ADAPTIVE, FAMILY, ITERATIONS, METHODS, get_method
from stoptime.methods.ridge import Butterworth, IteratedRidge, Ridge
from stoptime.methods.torch_optimiser import from_torch
from stoptime.paths import Path, path
from stoptime.show.plan import Plan, plan
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.spectrum.kernel import decompose_kernel
from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.penalty import Bands, Differences
from stoptime.spectrum.source import Block
from stoptime.spectrum.sources import Chunks
from stoptime.spectrum.streams import summarise
from stoptime.stopping.gcv import GCV, PathGCV, naive_gcv, path_gcv
from stoptime.stopping.held_out import CrossValidation, HoldOut
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem, default_stops
from stoptime.stopping.registry import RULES, OneStandardError, get_rule
from stoptime.stopping.rule import Candidate, Choice, Rule, StopWarning
from stoptime.stopping.training_error import (
    NCP,
    SURE,
    Discrepancy,
    LCurve,
    PlugIn,
    training_error,
)
from stoptime.support.version import __version__ as __version__
from stoptime.tables.assessment import TableFit
from stoptime.tables.fitting import fit_table
from stoptime.tables.intervals import predict_interval
from stoptime.tables.preparation import PreparationWarning, TablePreparation
from stoptime.tables.saved import load, save, to_sklearn
from stoptime.theory.calibration import (
    Calibration,
    calibrate,
    equivalent_penalty,
    equivalent_stop,
    guarantee,
)
from stoptime.theory.limits import LimitCurve, limiting_risk, marchenko_pastur
from stoptime.theory.oracle import Oracle, estimate_oracle
from stoptime.theory.risk import Inflation, RiskCurve, bayes_risk, inflation, risk

__all__ = [
    "ADAPTIVE", "FAMILY", "GCV", "ITERATIONS", "METHODS", "NCP", "RULES", "SGD", "SURE",
    "AcceleratedFlow", "AdaGrad", "Adam", "AdamW", "Averaged", "AveragedFlow",
    "BandedRegressorCV", "Bands",
    "Block", "Butterworth", "Calibration", "Candidate", "Choice", "Chunks", "ConjugateGradient",
    "CriticalFlow", "CrossValidation", "Decayed", "Differences", "Discrepancy", "ErrorCurve",
    "Filter", "GradientDescent",
    "GradientFlow", "HeavyBall", "HeavyBallFlow", "HighResolutionAcceleratedFlow",
    "HighResolutionFlow", "HoldOut", "Inflation",
    "IteratedRidge", "Iteration", "LCurve", "LeaveOneOut", "LimitCurve", "Method",
    "Nesterov", "NuMethod", "OneStandardError", "OptimalIteration", "Oracle", "Path",
    "PathGCV", "Plan", "PlugIn", "PreparationWarning", "Problem", "RMSProp",
    "Recurrence", "Ridge", "RiskCurve", "Rule", "SpectralCutoff", "Spectrum", "Statistics",
    "StopWarning", "StoppedClassifier", "StoppedClassifierCV", "StoppedKernelClassifier",
    "StoppedKernelClassifierCV", "StoppedKernelRegressor", "StoppedKernelRegressorCV",
    "StoppedLogisticRegression", "StoppedLogisticRegressionCV", "StoppedRegressor",
    "StoppedRegressorCV", "TableFit", "TablePreparation", "VanishingDecay",
    "bayes_risk", "bounds", "calibrate", "decompose",
    "decompose_kernel", "default_stops", "equivalent_penalty", "equivalent_stop", "estimate_oracle",
    "fit_table", "from_torch", "get_method", "get_rule", "guarantee", "inflation",
    "leave_one_out", "left_out_predictions", "left_out_residuals",
    "limiting_risk", "load", "marchenko_pastur", "naive_gcv", "path", "path_gcv", "plan",
    "predict_interval", "risk", "save",
    "schedules", "stochastic", "summarise", "to_sklearn", "training_error",
]  # fmt: skip
