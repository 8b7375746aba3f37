r"""How far a path from products of features alone is from the path itself.

Of rows that have passed by, products are left: :math:`\hat\Sigma` and the response, each rounded. To first
order the rounding E of one and e of the other move the coefficients by

.. math:: \delta\hat\beta = V(\varphi[s_i, s_j] \circ V^TEV)z + V\varphi(S)V^Te,
    \qquad |V^TEV|_{ij} \approx \eta d_id_j, \quad |V^Te|_i \approx \eta d_i\|y\|/\sqrt n,

with divided differences φ[·,·] of the gain, η a few roundings, and d the lengths of the columns that a
direction is made of. The differences are about :math:`\psi_i\psi_j` or less, with
:math:`\psi^2 = \max(\varphi^2, |\partial\varphi/\partial s|)`: for ridge exactly so.
Directions below the rank cut are left out. Their share of the response is known much better than their
eigenvalue, and tells what they would have carried.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from stoptime.methods.base import Method
from stoptime.spectrum.base import Rounding, Spectrum
from stoptime.support.arrays import Array, Floats, on_host

__all__ = ["VISIBLE", "rounding_errors", "warn_of_rounding"]

VISIBLE = 1e-6
"""Relative error of the coefficients that is warned about."""

NOTHING = (
    1e-10  # of the size of a target: a fit that explains less is rounding, and zero a good answer
)
SAFETY = 16.0  # over the typical error of first order
GAP = 1e3  # roundings: eigenvalues that come closer to the rank cut may go on below it
SLOPE = 1e-6  # relative step of a derivative

Gain = Callable[[Floats], Array]


def rounding_errors(spectrum: Spectrum, method: Method, stops: Floats) -> Array:
    r"""Estimate :math:`\|\delta\hat\beta(t)\|/\|\hat\beta(t)\|` from above, for each stop and target.

    Parameters
    ----------
    spectrum : Spectrum
        From products alone, so that it has a ``rounding``.
    method : Method
        Tuned to it.
    stops : array of shape (n_stops,)
        Where.

    Returns
    -------
    array of shape (n_stops, n_targets)
        Zeros where a target is fitted by nothing but zero.
    """
    rounding = spectrum.rounding
    power = np.atleast_1d(on_host(spectrum.target_power))
    errors = np.zeros((len(stops), len(power)))
    if rounding is None or spectrum.rank == 0:
        return errors
    size = np.sqrt(np.where(power > 0, power, 1.0))  # of every target, by which all is measured
    s, z, power = (
        spectrum.eigenvalues,
        spectrum.response.reshape(spectrum.rank, -1) / size,
        power / size**2,
    )
    rounding = replace(
        rounding, left=replace(rounding.left, response=rounding.left.response / size)
    )
    for row, stop in enumerate(stops):
        if method.has_filter:
            errors[row] = _at_stop(s, z, power, rounding, partial(method.gain, t=stop))
            continue
        for target in range(z.shape[1]):
            mine = slice(target, target + 1)
            gain = method.gain_for(s, z[:, target], stop)
            left = replace(rounding.left, response=rounding.left.response[:, mine])
            part = replace(rounding, left=left)
            errors[row, mine] = _at_stop(s, z[:, mine], power[mine], part, gain)
    return errors


def warn_of_rounding(errors: Array, *, stacklevel: int = 3) -> None:
    """Warn where coefficients may be off by more than a part in a million."""
    worst = float(errors.max(initial=0))
    if worst > VISIBLE:
        warnings.warn(
            "Columns are so dependent, or so different in scale, that products of features may lose "
            f"{min(worst, 1.0):.1g} of the coefficients at these stops: stop earlier, standardise or drop "
            "columns, or fit in memory.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _at_stop(s: Floats, z: Floats, power: Floats, rounding: Rounding, gain: Gain) -> Array:
    unit, d = rounding.unit, rounding.scales
    at = gain(s)
    step = np.maximum(unit * d**2, SLOPE * s)
    steep = np.maximum(at, np.sqrt(np.abs(gain(s + step) - at)) / np.sqrt(step)) * d
    products = unit * steep.max() * _lengths(steep[:, None] * z)
    response = unit * np.max(at * d) * np.sqrt(power)
    left = _lengths(_left_out(s, z, power, rounding, gain))
    length = _lengths(at[:, None] * z)
    explained = _lengths((np.sqrt(s) * at)[:, None] * z)
    real = explained > NOTHING * np.sqrt(power)
    return np.where(
        real, (SAFETY * (products + response) + left) / np.where(length > 0, length, 1), 0.0
    )


def _lengths(columns: Floats) -> Array:
    """Return the lengths of vectors whose squares may be no numbers."""
    largest = np.abs(columns).max(axis=0, initial=0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.linalg.norm(columns / unit, axis=0))


def _left_out(s: Floats, z: Floats, power: Floats, rounding: Rounding, gain: Gain) -> Array:
    """Return what directions below the rank cut would have carried, zeros where they look null.

    They do where rounding alone may show as much of the response, and a gap is above them: eigenvalues that
    go down to the cut may go on below.
    """
    unit, d, left = rounding.unit, rounding.scales, rounding.left
    mixed = _lengths((d / s)[:, None] * z)
    doubt = unit * left.scales[:, None] * (np.sqrt(power) + mixed)
    gap = np.min(s / d**2) > GAP * unit
    seen = np.abs(left.response) > (doubt if gap else 0)
    lowest = (left.response / np.sqrt(np.where(power > 0, power, 1))) ** 2  # as z² ≤ s‖y‖²/n
    gains = gain(np.maximum(lowest, left.eigenvalues[:, None]))
    return np.where(seen, gains * np.abs(left.response), 0.0)
