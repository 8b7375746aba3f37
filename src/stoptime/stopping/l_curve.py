"""The L-curve: stop at the corner where coefficients begin to grow without a better fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoptime.left_out.curve import ErrorCurve
from stoptime.stopping.crossing import training_error
from stoptime.stopping.gcv import shaped
from stoptime.stopping.rule import EXTENSIONS, CurveRule, StopWarning, columns_of
from stoptime.support.arrays import TINY

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.stopping.problem import Problem
    from stoptime.stopping.rule import Choice
    from stoptime.support.arrays import Array, Floats

CORNER_RATIO = 2.0  # of the stops between which the curve turns, for methods of the second order
SHORT_SIDE = 0.1  # of an angle, in units of the logarithm: shorter ones count less
BLUNT = np.radians(170)  # an angle above it is no corner
STRAIGHT = np.radians(175)  # an angle above it may be a curve before its corner
CORNER_NUMBERS = 2**23  # coefficients that are held at once


@dataclass(frozen=True)
class LCurve(CurveRule):
    r"""Stop at the corner of the curve of residual norm and coefficient norm, in logarithms.

    .. math:: \min_t \angle\bigl(P(t/c), P(t), P(ct)\bigr), \qquad
        P(t) = \bigl(\log\|y - X\hat\beta(t)\|, \log\|\hat\beta(t)\|\bigr)

    with c = 2 where the stop scales like 1/√penalty, and its square where it scales like 1/penalty.
    The noise need not be known. The rule often stops late, warns if there is no corner, and as the
    noise falls to zero its stop does not converge to the best one. From Hansen, O'Leary (1993), The
    use of the L-curve in the regularization of discrete ill-posed problems.
    """

    name: ClassVar[str] = "l-curve"
    measure: ClassVar[str] = "angle"
    compares_methods: ClassVar[bool] = False

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the angles of the curve at the stops, in radians; π where it goes straight on."""
        ratio = CORNER_RATIO ** (2 / problem.tuned.order)
        inner = np.flatnonzero((stops > 0) & np.isfinite(stops))
        sides = [stops[inner] / ratio, stops[inner], stops[inner] * ratio]
        if problem.tuned.whole_stops:
            sides = [np.floor(sides[0]), sides[1], np.ceil(sides[2])]
        places, own = np.unique(np.concatenate(sides), return_inverse=True)
        problem = problem.reaching(places)
        before, here, after = _points(problem, places)[:, own.reshape(3, -1)].swapaxes(0, 1)
        # where the curve begins and where it ends there is no corner
        angles = np.full((len(stops), *here.shape[2:]), 2 * np.pi)
        angles[inner] = _angles(here - before, after - here)
        return ErrorCurve(stops, shaped(angles, problem.spectrum))

    def _extensions(self, method: Method) -> int:
        """Return how often a search may go on, up to about the same penalty for all methods."""
        # the corner is where noise is fitted, which with little noise is far beyond the best stop
        return 2 * EXTENSIONS // method.order

    def _unsettled(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> bool:
        """Tell whether the corner may lie beyond the last stop, where no limit is known."""
        if problem.spectrum.has_limit:
            return False
        angles = columns_of(curve, per_target=per_target)
        sharpest = angles.min(axis=0)
        # the less sharp a corner is, the farther the search has to go on without a sharper one
        distance = np.select([sharpest <= BLUNT, sharpest <= STRAIGHT], [4.0, 16.0], np.inf)
        distance **= 1 / problem.method.order
        return bool(np.any(distance * curve.stops[np.argmin(angles, axis=0)] > curve.stops[-1]))

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        """Return the choice of the sharpest corner, and warn if there is none."""
        choice = super()._lowest(curve, per_target=per_target)
        if np.max(choice.error) > BLUNT:
            warnings.warn(
                "The L-curve has no corner: its sharpest angle is "
                f"{np.degrees(np.max(choice.error)):.0f} degrees. The stop means little.",
                StopWarning,
                stacklevel=4,
            )
        return choice


def _points(problem: Problem, stops: Array) -> Floats:
    """Return logarithms of residual and coefficient norms, (2, n_stops, n_targets)."""
    spectrum = problem.spectrum
    s = spectrum.eigenvalues.astype(np.float64)
    z = spectrum.response.reshape(len(s), -1).astype(np.float64)
    # only differences of logarithms count, and scaled responses do not overflow
    z = z / np.maximum(np.abs(z).max(axis=0, initial=0), TINY)
    height = max(1, CORNER_NUMBERS // max(z.size, 1))
    parts = [stops[start : start + height] for start in range(0, max(len(stops), 1), height)]
    followed = (problem.tuned.follow(s, z, part, s[:0])[0] for part in parts)
    lengths = np.concatenate([np.hypot.reduce(one, axis=0) for one in followed])
    errors = training_error(spectrum, problem.tuned, stops).reshape(lengths.shape)
    return np.log(np.maximum([np.sqrt(errors), lengths], TINY))


def _angles(arriving: Floats, leaving: Floats) -> Floats:
    """Return the angle inside the curve: below π where it turns to larger coefficients."""
    # paths that oscillate double back: what makes the fit worse, or coefficients smaller, is left
    # out, so that a cusp is no corner
    (x0, y0), (x1, y1) = ((np.minimum(x, 0), np.maximum(y, 0)) for x, y in (arriving, leaving))
    # the curve runs to the left and then, after the corner, upwards: a turn to the right
    turn = np.arctan2(y0 * x1 - x0 * y1, x0 * x1 + y0 * y1)
    sides = np.minimum(np.hypot(x0, y0), np.hypot(x1, y1))
    # every singular value that is learned alone makes a small step, which is no corner
    return np.pi - turn * sides / (sides + SHORT_SIDE)
