"""Noise and signal by marginal likelihood on data of any kind, and the stop that they imply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoptime.methods.ridge import Ridge
from stoptime.spectrum.data import Goal, goals
from stoptime.theory.oracle import UnresolvedError, estimate_oracle

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.spectrum.data import Data
    from stoptime.theory.oracle import Oracle

REACH_GROWTH = 16.0  # factor of the gain, each time that it does not resolve the best penalty


def resolved_oracle(data: Data, spectrum: Spectrum) -> tuple[Oracle, Spectrum]:
    """Estimate noise and signal; grow the spectrum until it resolves the best penalty."""
    for _ in range(data.growths):
        try:
            return estimate_oracle(spectrum), spectrum
        except UnresolvedError:
            spectrum = data.spectrum([Goal(Ridge(), REACH_GROWTH * spectrum.reach)])
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
