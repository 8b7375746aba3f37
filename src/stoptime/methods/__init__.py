"""The methods: one formula each, no data."""

from __future__ import annotations

from stoptime.methods.base import Method
from stoptime.methods.flows import AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.ridge import Ridge

__all__ = [
    "METHODS",
    "AcceleratedFlow",
    "GradientFlow",
    "HeavyBallFlow",
    "Method",
    "Ridge",
    "get_method",
]

METHODS: dict[str, type[Method]] = {
    cls.name: cls for cls in (Ridge, GradientFlow, AcceleratedFlow, HeavyBallFlow)
}
"""Every method by its name. Tests, documentation and estimators read this registry."""


def get_method(method: str | Method) -> Method:
    """Return the method of that name with its default parameters; a method is returned as it is.

    Examples
    --------
    >>> get_method("nesterov-flow")
    AcceleratedFlow(friction=3.0)
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"Unknown method {method!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[method]()
