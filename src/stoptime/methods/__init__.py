"""The methods: one formula each, no data."""

from __future__ import annotations

from stoptime.methods.base import Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.flows import AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.high_resolution import HighResolutionFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import ALL_METHODS, ITERATIONS, METHODS, get_method
from stoptime.methods.ridge import Ridge

__all__ = [
    "ALL_METHODS",
    "ITERATIONS",
    "METHODS",
    "AcceleratedFlow",
    "ConjugateGradient",
    "GradientDescent",
    "GradientFlow",
    "HeavyBall",
    "HeavyBallFlow",
    "HighResolutionFlow",
    "Iteration",
    "Method",
    "Nesterov",
    "NuMethod",
    "Ridge",
    "get_method",
]
