"""Every method by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from stoptime.methods import flows, iterations
from stoptime.methods.adaptive import AdaGrad, Adam, AdamW, RMSProp
from stoptime.methods.averages import Averaged, Decayed, VanishingDecay
from stoptime.methods.base import Filter, Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.ridge import Butterworth, IteratedRidge, Ridge
from stoptime.methods.schedules import SCHEDULES, Schedule
from stoptime.support.checks import instance_of
from stoptime.support.wording import did_you_mean_class


def _by_name(*classes: type[Method]) -> dict[str, type[Method]]:
    return {cls.name: cls for cls in classes}


METHODS = _by_name(
    Ridge,
    flows.GradientFlow,
    flows.AcceleratedFlow,
    flows.HeavyBallFlow,
    flows.CriticalFlow,
    IteratedRidge,
    Butterworth,
)
"""The methods in continuous time by their names: their stops are all non-negative numbers."""

ITERATIONS = _by_name(
    iterations.GradientDescent,
    iterations.Nesterov,
    iterations.HeavyBall,
    iterations.NuMethod,
    ConjugateGradient,
    flows.HighResolutionFlow,
    SpectralCutoff,
)
"""The methods with a step by their names: the iterations, the flow that models one of them, and
spectral cut-off, whose stops are whole numbers too."""

ADAPTIVE = _by_name(Adam, AdamW, RMSProp, AdaGrad)
"""The methods with a step of its own for every coefficient, by their names; they have no filter."""

ALL_METHODS = METHODS | ITERATIONS | ADAPTIVE
ALIASES: dict[str, type[Method]] = {"nesterov-flow": flows.AcceleratedFlow}
"""Other names that are accepted wherever the name of a method is."""
WRITABLE = ALL_METHODS | _by_name(
    Decayed,
    VanishingDecay,
    Averaged,
    flows.AveragedFlow,
    flows.HighResolutionAcceleratedFlow,
    iterations.SGD,
    iterations.OptimalIteration,
)
"""The methods that can be written to a file: also those that are not found by a name."""

FAMILY: tuple[Filter, ...] = (Ridge(), flows.GradientFlow(), flows.CriticalFlow())
"""Methods that cover signals of every smoothness, to be chosen among with one factorisation."""


def get_methods(method: str | Method | Sequence[str | Method]) -> list[Method]:
    """Return the methods of a list, those of ``FAMILY`` for "auto", or one method alone."""
    if isinstance(method, str) and method == "auto":
        return list(FAMILY)
    given = list(method) if isinstance(method, list | tuple | np.ndarray) else [method]
    if not given:
        raise ValueError("method must name at least one method; got an empty list.")
    return [get_method(cast("str | Method", one)) for one in given]


def get_method(method: str | Method | type[Method]) -> Method:
    """Return the method of that name with its default parameters; a method is returned as it is.

    The names are the keys of ``METHODS``, ``ITERATIONS`` and ``ADAPTIVE``; "nesterov-flow" is
    accepted for "accelerated-flow".

    Examples
    --------
    >>> get_method("accelerated-flow")
    AcceleratedFlow(friction=3.0)
    """
    if isinstance(method, Method | type):
        return instance_of(method, Method)
    given: Any = method  # callers without types give anything
    known = ALIASES | ALL_METHODS
    if not isinstance(given, str) or given not in known:
        hint = did_you_mean_class(method, known) or "."
        raise ValueError(f"Unknown method {method!r}{hint} Choose one of {', '.join(ALL_METHODS)}.")
    return known[given]()


def as_content(value: Any) -> Any:
    """Return a method, a schedule or another parameter as types that JSON has."""
    if not isinstance(value, Method | Schedule):
        return value
    if isinstance(value, Method):
        known = WRITABLE.get(value.name) is type(value)
        kind = {"name": value.name}
        advice = f"it is none of {', '.join(WRITABLE)}"
    else:
        known = SCHEDULES.get(type(value).__name__) is type(value)
        kind = {"schedule": type(value).__name__}
        advice = "take Listed(schedule.values), which has the same steps"
    if not known:
        raise ValueError(f"{value} cannot be saved: {advice}.")
    given = [one.name for one in fields(cast("Any", value)) if one.init]
    return kind | {name: as_content(getattr(value, name)) for name in given}


def from_content(content: Any) -> Any:
    """Return what :func:`as_content` has written."""
    if isinstance(content, list):
        # the eigenvalues of spectral cut-off are a tuple, which JSON does not have
        return tuple(content)
    if not isinstance(content, dict):
        return content
    given = {name: from_content(value) for name, value in content.items()}
    known = WRITABLE | ALIASES
    kind = known[given.pop("name")] if "name" in given else SCHEDULES[given.pop("schedule")]
    return kind(**given)
