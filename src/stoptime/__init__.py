"""Least squares fitted by momentum and stopped early: what stopping did, and when to stop."""

from stoptime.asymptotics import limiting_risk, marchenko_pastur
from stoptime.backends import decompose
from stoptime.calibration import Calibration, calibrate, equivalent_penalty, equivalent_stop, guarantee
from stoptime.estimators import StoppedRegressor
from stoptime.methods import (
    METHODS,
    AcceleratedFlow,
    GradientFlow,
    HeavyBallFlow,
    Method,
    Ridge,
    get_method,
)
from stoptime.path import Path, path
from stoptime.risk import Inflation, RiskCurve, bayes_risk, inflation, risk
from stoptime.spectrum import Spectrum
from stoptime.stopping import Oracle, estimate_oracle

__all__ = [
    "METHODS",
    "AcceleratedFlow",
    "Calibration",
    "GradientFlow",
    "HeavyBallFlow",
    "Inflation",
    "Method",
    "Oracle",
    "Path",
    "Ridge",
    "RiskCurve",
    "Spectrum",
    "StoppedRegressor",
    "bayes_risk",
    "calibrate",
    "decompose",
    "equivalent_penalty",
    "equivalent_stop",
    "estimate_oracle",
    "get_method",
    "guarantee",
    "inflation",
    "limiting_risk",
    "marchenko_pastur",
    "path",
    "risk",
]

__version__ = "0.1.0.dev0"
