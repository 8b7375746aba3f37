"""The sections of the report, each a pure function of its subject."""

from __future__ import annotations

from collections.abc import Callable

from stoptime.show.report.charts import Section
from stoptime.show.report.curves import bias_and_variance, coefficients, error_curve, spectrum
from stoptime.show.report.evidence import code, data, intervals, methods
from stoptime.show.report.subject import Subject

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
