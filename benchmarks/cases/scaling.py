"""Growth of the cost with rows, columns, stops and targets, compared with RidgeCV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import RidgeCV

import stoptime as st
from benchmarks.data import gaussian
from benchmarks.harness import Settings, interleaved
from benchmarks.machine import pinned
from benchmarks.results import Growth

ABOUT = (
    "Seconds of `StoppedRegressorCV` and `RidgeCV`, both with leave-one-out, as one size grows "
    "and the others are fixed. The exponent is that of a power law fitted to all sizes, then to "
    "the larger half, where fixed costs matter less. A line ends where one fit takes longer than "
    "a few seconds."
)
BASE = {"n": 4000, "p": 100, "stops": 100, "targets": 1}
SIZES = {
    "n": [1000, 2000, 4000, 8000, 16000, 32000, 64000],
    "p": [25, 50, 100, 200, 400, 800, 1600],
    "stops": [10, 30, 100, 300, 1000, 3000],
    "targets": [1, 4, 16, 64, 256, 1024],
}
QUICK = {"n": [1000, 2000, 4000], "p": [25, 50, 100], "stops": [10, 30, 100], "targets": [1, 4, 16]}
ROUNDS = 5
ENOUGH, QUICK_ENOUGH = 5.0, 1.0  # seconds of a fit above which no larger one is tried


@dataclass(frozen=True)
class Sweep:
    """One size, its values, and the seconds at which the sweep ends."""

    variable: str
    sizes: list[int]
    enough: float


def sweeps(quick: bool) -> list[Sweep]:
    """Return one sweep for each variable."""
    chosen, enough = (QUICK, QUICK_ENOUGH) if quick else (SIZES, ENOUGH)
    return [Sweep(variable, sizes, enough) for variable, sizes in chosen.items()]


def competitors(n: int, p: int, stops: int, targets: int) -> dict[str, Callable[[], object]]:
    """Return the timed fits at one size."""
    many = targets > 1
    X, y = gaussian(n, p, targets if many else None)
    penalties = np.geomspace(1e-3, 1e5, stops)
    return {
        "stoptime": lambda: st.StoppedRegressorCV(
            "nesterov-flow", stops=stops, per_target=many
        ).fit(X, y),
        "RidgeCV": lambda: RidgeCV(penalties, alpha_per_target=many).fit(X, y),
    }


def run_sweep(sweep: Sweep, settings: Settings) -> list[Growth]:
    """Time every size, without competitors that have become too slow."""
    times: dict[str, dict[int, float]] = {}
    for size in sweep.sizes:
        entrants = {
            who: work
            for who, work in competitors(**BASE | {sweep.variable: size}).items()
            if max(times.get(who, {0: 0.0}).values()) < sweep.enough
        }
        with pinned(settings.threads):
            seconds, _ = interleaved(entrants, ROUNDS, settings)
        for who, rounds in seconds.items():
            times.setdefault(who, {})[size] = min(rounds)
    fixed = ", ".join(f"{name} = {size}" for name, size in BASE.items() if name != sweep.variable)
    return [
        Growth(sweep.variable, fixed, who, tuple(t), tuple(t.values())) for who, t in times.items()
    ]
