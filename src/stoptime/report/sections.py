"""The sections of the report, each a pure function of its subject."""

from __future__ import annotations

from collections.abc import Callable

from stoptime.report.charts import Section
from stoptime.report.curves import bias_and_variance, coefficients, error_curve, spectrum
from stoptime.report.evidence import code, data, intervals, methods
from stoptime.report.subject import Subject

__all__ = ["SECTIONS"]

SECTIONS: dict[str, Callable[[Subject], Section]] = {
    "error curve": error_curve,
    "coefficients": coefficients,
    "bias and variance": bias_and_variance,
    "comparison": methods,
    "intervals": intervals,
    "spectrum": spectrum,
    "data": data,
    "code": code,
}
"""What the report shows, in its order."""
