"""Noise and signal by marginal likelihood, and the penalty and stop that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from stoptime.methods.base import Method
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import PILOT, Data, Want
from stoptime.support.arrays import Floats
from stoptime.theory.calibration import equivalent_stop, possible_eigenvalues


class UnresolvedError(ValueError):
    """The Krylov space has not converged for the penalty that would be best."""


@dataclass(frozen=True)
class Oracle:
    r"""Noise and signal of :math:`y = X\beta_0 + \varepsilon`, :math:`\beta_0 \sim (0, (r^2/p) I)`.

    ``noise`` is the variance σ² of one observation of weight one and ``signal`` is r², each an
    array where there are several targets. ``penalty`` is λ* = σ²p/(r²n), the penalty of the best
    ridge, which all targets share.
    """

    noise: float | Floats
    signal: float | Floats
    penalty: float

    def stop(self, method: Method, spectrum: Spectrum) -> float:
        """Return the stop of the method that is equivalent to ridge with this penalty."""
        return equivalent_stop(method, self.penalty, eigenvalues=possible_eigenvalues(spectrum))


def estimate_oracle(spectrum: Spectrum) -> Oracle:
    r"""Estimate noise and signal by marginal likelihood on the spectrum.

    In direction i the response has variance :math:`\sigma^2(1 + s_i/\lambda)/n`, in the others
    :math:`\sigma^2/n`. With σ² profiled out, λ minimises

    .. math:: m\log\hat\sigma^2(\lambda) + \sum_i \log(1 + s_i/\lambda), \qquad
        \hat\sigma^2(\lambda) = \frac nm \Bigl(\sum_i \frac{z_i^2/s_i}{1 + s_i/\lambda} + R\Bigr)

    with R the mean square outside the column space and m the number of observations, less one for
    an intercept. All targets share λ. The penalty is 0 where there is no noise, and infinite where
    there is no signal. Ritz values need random probes, ``decompose(..., probes=10)``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import decompose
    >>> oracle = estimate_oracle(decompose(*load_diabetes(return_X_y=True)))
    >>> f"noise {oracle.noise:.0f}, penalty {oracle.penalty:.2e}"
    'noise 2939, penalty 7.62e-05'
    """
    s = spectrum.eigenvalues.astype(np.float64)
    power = np.atleast_1d(spectrum.target_power).astype(np.float64)
    observations = spectrum.n_observations - spectrum.n_unpenalised
    live = power > 0
    if s.size == 0 or observations <= 0 or not live.any():
        return _oracle(spectrum, power, np.inf)
    # shares of the power of each target
    energy, outside = (part / (power + ~live) for part in spectrum.energies())
    atoms, weights = spectrum.atoms

    def noise_share(penalty: Floats) -> Floats:
        return np.asarray((1 / (1 + s / penalty)) @ energy + outside)

    def deviance(log_penalty: ArrayLike) -> Floats:
        penalty = np.exp(log_penalty)[..., None]
        with np.errstate(divide="ignore"):
            fit = observations * np.log(noise_share(penalty)[..., live]).mean(axis=-1)
        return np.asarray(fit + np.log1p(atoms / penalty) @ weights)

    gain = np.inf if spectrum.accuracy.complete else spectrum.accuracy.gain
    with np.errstate(divide="ignore"):
        # a penalty so far below the smallest eigenvalue means no noise at all
        first = np.log(s[0]) + np.log(1e-18) if np.isinf(gain) else -np.log(gain)
    # a penalty so far above the largest eigenvalue means no signal at all; others overflow
    first, last = np.clip([first, np.log(s[-1]) + np.log(1e6)], -700.0, 700.0)
    # six points in each decade; none where the Krylov space has not converged for any gain
    grid = np.linspace(first, last, int(6 * max(0.0, (last - first) / np.log(10))))
    best = int(np.argmin(deviance(grid))) if grid.size else 0
    if best == 0 and np.isfinite(gain):
        raise UnresolvedError(
            "Noise and signal cannot be separated: the Krylov space has converged only up to a "
            f"gain of {gain:.3g}. Decompose with a larger max_gain, or give the stop or "
            "the noise."
        )
    if best == 0:
        return _oracle(spectrum, 0 * power, 0.0)
    if best == len(grid) - 1:
        return _oracle(spectrum, power, np.inf)
    found = minimize_scalar(deviance, bounds=(grid[best - 1], grid[best + 1]), method="bounded")
    penalty = np.exp(found.x)
    scale = spectrum.n_observations / observations
    return _oracle(spectrum, power * noise_share(penalty) * scale, float(penalty))


def _oracle(spectrum: Spectrum, noise: Floats, penalty: float) -> Oracle:
    # the signal may overflow for tiny columns; only the penalty is used then
    with np.errstate(over="ignore"):
        if penalty == 0:
            # without noise, r² is the squared length of the least-squares coefficients
            z = spectrum.response.reshape(spectrum.rank, -1)
            signal = ((z / spectrum.eigenvalues[:, None]) ** 2).sum(axis=0)
        else:
            signal = noise * spectrum.n_penalised / (penalty * spectrum.n_observations)
    if spectrum.response.ndim == 1:
        return Oracle(float(noise[0]), float(signal[0]), penalty)
    return Oracle(noise, signal, penalty)


def resolved_oracle(data: Data, spectrum: Spectrum) -> tuple[Oracle, Spectrum]:
    """Estimate noise and signal; grow the spectrum until it resolves the best penalty."""
    for growth in range(5):
        try:
            return estimate_oracle(spectrum), spectrum
        except UnresolvedError:
            # farther every time, so that a few growths nearly exhaust a small space
            further = 16.0 ** (1 + growth) * spectrum.accuracy.gain
            spectrum = data.spectrum(Want.path(Ridge(), further, trace=True))
    return estimate_oracle(spectrum), spectrum


def plug_in(data: Data, method: Method) -> tuple[Spectrum, Oracle, float]:
    """Return spectrum, oracle, and the stop that is equivalent to the best ridge."""
    oracle, spectrum = resolved_oracle(data, data.spectrum(PILOT))
    stop = oracle.stop(method, spectrum)
    accurate = data.spectrum(Want.path(method, stop, trace=True))
    if accurate is not spectrum and accurate.accuracy.complete:
        # more accurate eigenvalues may move the stop
        oracle = estimate_oracle(accurate)
        stop = oracle.stop(method, accurate)
    return accurate, oracle, stop
