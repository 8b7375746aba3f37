"""Least squares fitted by momentum and stopped early: what stopping did, and when to stop."""

from stoptime.backends import decompose
from stoptime.calibration import Calibration, calibrate, equivalent_penalty, equivalent_stop
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
from stoptime.spectrum import Spectrum
from stoptime.stopping import Oracle, estimate_oracle

__all__ = [
    "METHODS",
    "AcceleratedFlow",
    "Calibration",
    "GradientFlow",
    "HeavyBallFlow",
    "Method",
    "Oracle",
    "Path",
    "Ridge",
    "Spectrum",
    "StoppedRegressor",
    "calibrate",
    "decompose",
    "equivalent_penalty",
    "equivalent_stop",
    "estimate_oracle",
    "get_method",
    "path",
]

__version__ = "0.1.0.dev0"
