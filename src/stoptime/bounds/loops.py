r"""The guarantee of any iteration after few steps, from its loop alone.

The shrinkage of iterate k is a polynomial of degree k in the eigenvalue s, so the excess
D² = ((1 + x)g - 1)²/x, x = s/λ, is one of degree n = 2k + 1. With s = m - h·cos ω on an interval of
eigenvalues, it is a trigonometric polynomial of degree n in ω. If M is its maximum, its distance
from M/2 is at most M/2, and Bernstein's inequality bounds its second derivative by n²M/2. As the
slope vanishes at the maximum,

.. math:: M \le \max_j\ \Big(D^2(\omega_j) + \tfrac14 n^2 r_j^2 M\Big)

for any intervals around ω_j of radius r_j that cover [0, π].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, WorkLimitError, centre_and_radius, downward, exact, upward, working_precision,
)  # fmt: skip

if TYPE_CHECKING:
    from flint import arb

    from stoptime.bounds.balls import Interval
    from stoptime.methods.recurrence import Update

LOOP_TOLERANCE = 1e-5
MOST_STEPS = 200  # of a loop in ball arithmetic: the work grows like the square
LOST_BITS = 1.3  # in each step at most, as balls grow by 1 + √2
OVERLAP = 1 + 1e-9  # of neighbouring cells, whose centres are rounded
FINEST = 2.0**-40


def loop_excess(steps: list[Update], scales: tuple[float, float], range_: Interval) -> float:
    """Return an upper bound of D² for all eigenvalues in a range; ``scales`` are step and λ."""
    if len(steps) > MOST_STEPS or any(step.decay for step in steps):
        raise WorkLimitError("The loop is too long for a proof, or it does not start at g(0) = 1.")
    n = 2 * len(steps) + 1
    epsilon, penalty = map(exact, scales)
    with working_precision(PRECISION + math.ceil(LOST_BITS * n)):
        middle, half = centre_and_radius(range_)

        def excess(omega: float) -> arb:
            s = middle - half * exact(omega).cos()
            x = s / penalty
            return ((1 + x) * shrinkage(steps, epsilon * s) - 1) ** 2 / x

        # With radii of 1/2n, the largest value exceeds (1 - 1/16)·M.
        count = math.ceil(math.pi * n)
        radius = math.pi / (2 * count)
        cells = [(omega, excess(omega)) for omega in (radius * (2 * i + 1) for i in range(count))]
        cap = max(upward(value) for _, value in cells) / (
            1 - (n * exact(radius) * OVERLAP) ** 2 / 4
        )
        while radius > FINEST / n:
            best = max(downward(value) for _, value in cells)
            room = upward((n * exact(radius) * OVERLAP) ** 2 * cap / 4)
            if room <= LOOP_TOLERANCE * max(1.0, best):
                return max(upward(value + room) for _, value in cells)
            # A cell whose cap is below the value of another one does not contain the maximum.
            kept = [omega for omega, value in cells if upward(value + room) >= best]
            radius /= 2
            cells = [(at, excess(at)) for omega in kept for at in (omega - radius, omega + radius)]
    raise WorkLimitError("The proof needs angles closer than double precision.")


def shrinkage(steps: list[Update], x: arb) -> arb:
    """Return g after some steps of the loop, as :func:`stoptime.methods.recurrence.iterates`."""
    value = exact(1)
    move = exact(0)
    for momentum, lookahead, weight, stride, direct, decay in steps:
        slope = x * (value + lookahead * move)
        value = value - decay * (value - 1) - direct * slope
        move = momentum * move - weight * slope
        value = value + stride * move
    return value
