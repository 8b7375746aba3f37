"""Certified constants: every theorem of the paper as a number with a proof.

An :class:`Enclosure` is two doubles with the true constant between them, proven in ball arithmetic by
python-flint (``pip install "stoptime[certify]"``). The proofs: page *Certificates* of the documentation.
"""

from __future__ import annotations

from stoptime.bounds.certificates import parameter_error, risk_inflation
from stoptime.bounds.enclosure import Enclosure, WorkLimitError
from stoptime.bounds.summary import BoundsRow, BoundsTable, statements, table
from stoptime.bounds.theorems import coupling_counterexample, heavy_ball_theorem

__all__ = [
    "BoundsRow",
    "BoundsTable",
    "Enclosure",
    "WorkLimitError",
    "coupling_counterexample",
    "heavy_ball_theorem",
    "parameter_error",
    "risk_inflation",
    "statements",
    "table",
]
