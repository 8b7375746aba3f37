"""Certified constants: those of the theorems of the paper, and sharper ones.

An :class:`Enclosure` is two doubles with the true constant between them, proven in ball arithmetic
by python-flint (``pip install "stoptime[certify]"``). The page *Certificates* of the documentation
has the proofs. The paper is Sheng, Ali (2022), Accelerated gradient flow: risk, stability, and
implicit regularization.
"""

from __future__ import annotations

from stoptime.bounds.balls import Enclosure, WorkLimitError
from stoptime.bounds.certificates import (
    bias_coupling,
    hardest_spectrum,
    parameter_error,
    price_of_products,
    risk_inflation,
    variance_coupling,
)
from stoptime.bounds.summary import (
    BoundsRow,
    BoundsTable,
    coupling_counterexample,
    heavy_ball_theorem,
    table,
)

__all__ = [
    "BoundsRow", "BoundsTable", "Enclosure", "WorkLimitError",
    "bias_coupling", "coupling_counterexample",
    "hardest_spectrum", "heavy_ball_theorem", "parameter_error",
    "price_of_products", "risk_inflation", "table", "variance_coupling",
]  # fmt: skip
