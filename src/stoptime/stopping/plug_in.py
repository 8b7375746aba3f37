"""The plug-in stop: noise and signal by marginal likelihood, on data of any kind."""

from __future__ import annotations

from stoptime.methods.base import Method
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Goal, goals
from stoptime.theory.oracle import Oracle, UnresolvedError, estimate_oracle

__all__ = ["plug_in", "resolved_oracle"]

FARTHER = 16.0  # times the gain, every time that was not enough


def resolved_oracle(data: Data, spectrum: Spectrum) -> tuple[Oracle, Spectrum]:
    """Estimate noise and signal; grow the spectrum until it resolves the best penalty."""
    for _ in range(data.growths):
        try:
            return estimate_oracle(spectrum), spectrum
        except UnresolvedError:
            spectrum = data.spectrum([Goal(Ridge(), FARTHER * spectrum.reach)])
    return estimate_oracle(spectrum), spectrum


def plug_in(data: Data, method: Method) -> tuple[Spectrum, Oracle, float]:
    """Return spectrum, oracle, and the stop with the best guarantee against the best ridge."""
    oracle, spectrum = resolved_oracle(data, data.pilot())
    stop = oracle.stop(method, spectrum)
    accurate = data.spectrum(goals(method, stop))
    if accurate is not spectrum and accurate.is_complete:
        # more accurate eigenvalues may move the stop
        oracle = estimate_oracle(accurate)
        stop = oracle.stop(method, accurate)
    return accurate, oracle, stop
