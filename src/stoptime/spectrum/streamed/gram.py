r"""The spectrum of streamed data from XᵀX alone, and the error that rounding leaves in its paths.

Statistics hold the products :math:`\hat\Sigma` and the response, each rounded. To first order the
rounding errors E and e of the two move the coefficients by

.. math:: \delta\hat\beta = V(\varphi[s_i, s_j] \circ V^TEV)z + V\varphi(S)V^Te,
    \qquad |V^TEV|_{ij} \approx \eta d_id_j, \quad |V^Te|_i \approx \eta d_i\|y\|/\sqrt n,

with divided differences φ[·,·] of the gain, η a few rounding units, and d the lengths of the
columns that a direction combines. The differences are at most about :math:`\psi_i\psi_j`, with
:math:`\psi^2 = \max(\varphi^2, |\partial\varphi/\partial s|)`; for ridge they are equal to it.
Directions below the rank cut are dropped. Their response is known much better than their
eigenvalue, and tells how much of the coefficients they would have carried.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stoptime.methods.base import Filter, Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.spectrum.accuracy import GRAM_TOLERANCE, check_range, constant
from stoptime.spectrum.base import DroppedDirections, Rounding, Spectrum
from stoptime.spectrum.factorise import advising
from stoptime.spectrum.moments import Moments
from stoptime.support.arrays import EPS, Array, Floats, on_host, slices

if TYPE_CHECKING:
    from stoptime.spectrum.penalised import Restoration
    from stoptime.spectrum.streamed.statistics import Statistics

PRODUCT_ROUNDINGS = 2.0  # rounding units, of the lengths of two columns: error of their product
UNEVEN = 100.0  # ratio of mean squares of columns from which the order of columns matters
WIDTH = 512  # directions that are checked together, so that they need little memory
WARNED_ROUNDING = 1e-6  # relative error of the coefficients that is warned about
UNEXPLAINED = 1e-10  # of the size of a target: a fit that explains less is rounding alone
FIRST_ORDER_MARGIN = 16.0  # factor over the typical error of first order
GAP = 1e3  # rounding units: eigenvalues closer to the rank cut may continue below it
SLOPE = 1e-6  # relative step of a derivative

Gain = Callable[[Floats], Array]
Standard = Callable[["Moments", Floats, float], "tuple[Moments, Floats, Restoration]"]
"""Brings moments and powers of y into standard form, and says how spectra are mapped back."""


# overflow is found by check_range
@np.errstate(over="ignore", invalid="ignore")
def by_statistics(
    statistics: Statistics, fit_intercept: bool, standard: Standard | None = None
) -> Spectrum:
    """Diagonalise XᵀX, or with a penalty matrix that of the problem in standard form."""
    m, given_power = _checked(statistics, fit_intercept)
    power = given_power
    # a product of two columns is a sum over rows, whose random rounding errors grow as √n
    hidden = EPS * (statistics.n_features + np.sqrt(statistics.n_rows))
    lengths = np.sqrt(np.diagonal(m.gram))
    restored = None
    if standard is not None:
        m, power, restored = standard(m, power, hidden)
    powers = np.diagonal(m.gram)
    order = np.arange(len(powers))
    # eigh keeps the digits of small columns only if the largest columns come first
    if powers.max() > UNEVEN * powers.min():
        order = np.argsort(-powers, kind="stable")
    with advising("rescale its columns"):
        eigenvalues, vectors = np.linalg.eigh(m.gram[np.ix_(order, order)])
    vectors = vectors[np.argsort(order)]
    response = vectors.T @ m.cross
    scales = _scales(m.gram, eigenvalues, vectors)
    if restored is not None:
        # products of columns of X were rounded before a direction combined them
        combined = np.linalg.norm(lengths[:, None] * (restored.back @ vectors), axis=0)
        scales = np.maximum(scales, combined)
    # directions this small are beyond the reach of the singular values of X too
    negligible = (EPS * max(statistics.n_features, statistics.n_rows)) ** 2 * eigenvalues[-1]
    kept = eigenvalues > np.maximum(hidden * scales**2, negligible)
    # small columns are known to vary, so their scale of zero leaves no doubt about their response
    drowned = (powers > 0) & (powers <= negligible)
    dropped = DroppedDirections(
        np.maximum(np.concatenate([eigenvalues[~kept], powers[drowned]]), 0),
        np.concatenate([response[~kept], m.cross[drowned]]),
        np.concatenate([scales[~kept], np.zeros(np.count_nonzero(drowned))]),
    )
    rounding = Rounding(PRODUCT_ROUNDINGS * EPS, scales[kept], dropped, given_power)
    # rounding moves eigenvalues by about EPS·d²: gains up to 1/unsure keep GRAM_TOLERANCE
    unsure = EPS * np.max(scales[kept] ** 2, initial=0) / GRAM_TOLERANCE["float64"]
    far = np.inf if unsure <= eigenvalues[kept].min(initial=np.inf) else float(1 / unsure)
    one = (..., 0) if statistics.single_target else ...
    n = statistics.weight
    spectrum = Spectrum(
        eigenvalues[kept], vectors[:, kept], response[kept][one], n, max(n, statistics.n_rows),
        m.feature_mean, m.target_mean[one], power[one], fit_intercept, "gram", far,
        rounding=rounding,
    )  # fmt: skip
    return spectrum if restored is None else restored(spectrum)


def _checked(statistics: Statistics, fit_intercept: bool) -> tuple[Moments, Floats]:
    """Return moments and powers of y in range, without the rounding of constant columns."""
    if statistics.weight == 0:
        raise ValueError("There is no row of positive weight to fit.")
    m, power = statistics.about(fit_intercept)
    flat = constant(np.diagonal(m.gram), m.feature_mean)
    check_range("X", np.diagonal(m.gram), lambda small: ~flat[small])
    check_range("y", power, lambda small: ~constant(power, m.target_mean)[small])
    if flat.any():
        # products with constant columns are rounding alone
        gram = np.where(flat | flat[:, None], 0, m.gram)
        m = replace(m, gram=gram, cross=np.where(flat[:, None], 0, m.cross))
    return m, power


def _scales(gram: Floats, eigenvalues: Floats, vectors: Floats) -> Floats:
    r"""Return d of each direction, where the product of two is off by about :math:`\eta d_id_j`.

    .. math:: d_i^2 = c_i(c_i + \rho_i/\eta), \qquad c_i^2 = \sum_a V_{ai}^2\hat\Sigma_{aa}, \qquad
        \rho_i = \max_a|\hat\Sigma V - VS|_{ai}/\sqrt{\hat\Sigma_{aa}}
    """
    # products of columns are rounded in proportion to their lengths; ρ is the residual of eigh
    lengths = np.sqrt(np.diagonal(gram))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    scales = np.empty_like(eigenvalues)
    for part in slices(len(scales), WIDTH):
        v = vectors[:, part]
        size = np.linalg.norm(lengths[:, None] * v, axis=0)
        residual = np.abs(inverse[:, None] * (gram @ v - v * eigenvalues[part])).max(axis=0)
        scales[part] = np.sqrt(size * (size + residual / (PRODUCT_ROUNDINGS * EPS)))
    return scales


def rounding_errors(spectrum: Spectrum, method: Method, stops: Floats) -> Array:
    r"""Bound :math:`\|\delta\hat\beta(t)\|/\|\hat\beta(t)\|` roughly, for each stop and target."""
    # the method is tuned to the data; targets that the fit does not explain have no error
    rounding = spectrum.rounding
    power = np.atleast_1d(on_host(spectrum.target_power))
    errors = np.zeros((len(stops), len(power)))
    if rounding is None or spectrum.rank == 0:
        return errors
    # every target in units of its own size, so that squares neither overflow nor underflow
    size = np.sqrt(np.where(power > 0, power, 1.0))
    s = spectrum.eigenvalues
    z = spectrum.response.reshape(spectrum.rank, -1) / size
    power = power / size**2
    rounded = rounding.target_power / size**2
    left = rounding.left.response / size
    # without a filter the gain depends on the response, so that every target has its own
    every = range(z.shape[1])
    targets = [slice(None)] if isinstance(method, Filter) else [slice(k, k + 1) for k in every]
    for row, stop in enumerate(stops):
        for own in targets:
            gain = _gain_for(method, s, z[:, own], stop)
            dropped = replace(rounding.left, response=left[:, own])
            known = replace(rounding, left=dropped, target_power=rounded[own])
            errors[row, own] = _at_stop(s, z[:, own], power[own], known, gain)
    return errors


def _gain_for(method: Method, s: Floats, z: Floats, stop: float) -> Callable[[Floats], Array]:
    """Return the gain at one stop, or its size where it depends on the response."""
    if isinstance(method, Filter):
        return partial(method.gain, t=stop)
    most = np.inf
    if isinstance(method, ConjugateGradient):
        most = method.largest_gain_of(s, z, stop)
    return lambda at: np.minimum(most, 1 / at)


def warn_of_rounding(errors: Array, *, stacklevel: int = 3) -> None:
    """Warn where coefficients may be off by more than a part in a million."""
    worst = float(errors.max(initial=0))
    if worst > WARNED_ROUNDING:
        warnings.warn(
            "Columns are so dependent, or so different in scale, that rounding of XᵀX may change "
            f"the coefficients at these stops by {min(worst, 1.0):.1g} of their size: "
            "stop earlier, standardise or drop columns, or fit in memory.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _at_stop(s: Floats, z: Floats, power: Floats, rounding: Rounding, gain: Gain) -> Array:
    unit, d = rounding.unit, rounding.scales
    at = gain(s)
    # a step below the error of an eigenvalue would measure rounding instead of the slope
    step = np.maximum(unit * d**2, SLOPE * s)
    steep = np.maximum(at, np.sqrt(np.abs(gain(s + step) - at)) / np.sqrt(step)) * d
    of_products = unit * steep.max() * _lengths(steep[:, None] * z)
    of_response = unit * np.max(at * d) * np.sqrt(rounding.target_power)
    errors = FIRST_ORDER_MARGIN * (of_products + of_response)
    errors += _lengths(_left_out(s, z, power, rounding, gain))
    length = _lengths(at[:, None] * z)
    # zero is a good answer where the fit is rounding alone
    explained = _lengths((np.sqrt(s) * at)[:, None] * z)
    real = explained > UNEXPLAINED * np.sqrt(power)
    return np.where(real, errors / np.where(length > 0, length, 1), 0.0)


def _lengths(columns: Floats) -> Array:
    """Return the lengths of vectors whose squares may overflow or underflow."""
    largest = np.abs(columns).max(axis=0, initial=0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.linalg.norm(columns / unit, axis=0))


def _left_out(s: Floats, z: Floats, power: Floats, rounding: Rounding, gain: Gain) -> Array:
    """Return the coefficients in directions below the rank cut, zero where they seem to be null."""
    unit, d, left = rounding.unit, rounding.scales, rounding.left
    mixed = _lengths((d / s)[:, None] * z)
    doubt = unit * left.scales[:, None] * (np.sqrt(rounding.target_power) + mixed)
    # a direction seems to be null if rounding alone explains its response, and if a gap separates
    # the rank cut from the eigenvalues above it: without a gap they may continue below the cut
    gap = np.min(s / d**2) > GAP * unit
    seen = np.abs(left.response) > (doubt if gap else 0)
    # z² ≤ s‖y‖²/n bounds the unknown eigenvalue from below
    lowest = (left.response / np.sqrt(np.where(power > 0, power, 1))) ** 2
    gains = gain(np.maximum(lowest, left.eigenvalues[:, None]))
    return np.where(seen, gains * np.abs(left.response), 0.0)
