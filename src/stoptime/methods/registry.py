"""Every method by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stoptime.methods.adaptive import AdaGrad, Adam, AdamW, RMSProp
from stoptime.methods.base import Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.high_resolution import HighResolutionFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.ridge import IteratedRidge, Ridge

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTINUOUS = (Ridge, GradientFlow, AcceleratedFlow, HeavyBallFlow, CriticalFlow, IteratedRidge)
METHODS: dict[str, type[Method]] = {cls.name: cls for cls in CONTINUOUS}
"""The methods in continuous time by their names: their stops are all non-negative numbers."""

STEPPED = (GradientDescent, Nesterov, HeavyBall, NuMethod, ConjugateGradient, HighResolutionFlow)
ITERATIONS: dict[str, type[Method]] = {cls.name: cls for cls in (*STEPPED, SpectralCutoff)}
"""The methods with a step by their names: the iterations, the flow that models one of them, and
spectral cut-off, whose stops are whole numbers too."""

ADAPTIVE: dict[str, type[Method]] = {cls.name: cls for cls in (Adam, AdamW, RMSProp, AdaGrad)}
"""The methods with a step of its own for every coefficient, by their names; they have no filter."""

ALL_METHODS = METHODS | ITERATIONS | ADAPTIVE

FAMILY: tuple[Method, ...] = (
    Ridge(),
    GradientFlow(),
    AcceleratedFlow(3.0),
    AcceleratedFlow(5.0),
    AcceleratedFlow(9.0),
    CriticalFlow(),
)
"""Methods that cover signals of every smoothness, to be chosen among with one factorisation."""


def get_methods(method: str | Method | Sequence[str | Method]) -> list[Method]:
    """Return the methods of a list, those of ``FAMILY`` for "auto", or one method alone."""
    if isinstance(method, str) and method == "auto":
        return list(FAMILY)
    given = method if isinstance(method, list | tuple) else [method]
    if not given:
        raise ValueError("method must name at least one method; got an empty list.")
    return [get_method(cast("str | Method", one)) for one in given]


def get_method(method: str | Method) -> Method:
    """Return the method of that name with its default parameters; a method is returned as it is.

    The names are the keys of ``METHODS``, ``ITERATIONS`` and ``ADAPTIVE``.

    Examples
    --------
    >>> get_method("nesterov-flow")
    AcceleratedFlow(friction=3.0)
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in ALL_METHODS:
        raise ValueError(f"Unknown method {method!r}; choose one of {', '.join(ALL_METHODS)}.")
    return ALL_METHODS[method]()
