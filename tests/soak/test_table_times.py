"""Small tables of every kind are fitted and assessed in little time by all methods.

Numbers beside the fit, such as the guarantee, may cost no more than the fit itself. ``make test``
tries one table with each method, and ``make soak`` tries 500 with all methods.
"""

from __future__ import annotations

import os
import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest

from stoptime.methods.base import Filter, Method
from stoptime.methods.registry import ALL_METHODS
from stoptime.tables.assessment import Request
from stoptime.tables.fitting import fit_table

SOAK = "STOPTIME_SOAK" in os.environ
METHODS = sorted(ALL_METHODS)
TABLES = 500 if SOAK else len(METHODS)
LONGEST = 20.0  # seconds of processor time for a table; typical ones take a tenth of a second
LONGEST_BESIDE = 1.0  # seconds beyond the fit, on any machine
MOST_BESIDE = 0.01  # seconds for searches whose price does not depend on the table
SLACK = 2.0 if SOAK else 20.0  # processors shared with other work are slower for a while
COLUMNS = ["ranks", "squares", "powers", "normal", "copy", "near copy", "binary", "scaled"]
TUNED_BY_HAND = {
    "heavy-ball-flow": {"damping": 0.1},
    "high-resolution-flow": {"strong_convexity": 0.01},
    "heavy-ball": {"momentum": 0.9},
}
REFUSED = re.compile("the same in every row")
TARGETS = ["exact", "noisy", "noise", "steps", "one row", "huge"]


def column(kind: str, frame: pd.DataFrame, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return one column; some are made of those that the table has already."""
    ranks = np.arange(1.0, n + 1)
    first = frame.iloc[:, 0].to_numpy() if frame.shape[1] else ranks
    return {
        "ranks": ranks,
        "squares": first**2,
        "powers": first ** rng.integers(3, 6),
        "normal": rng.standard_normal(n),
        "copy": first.copy(),
        "near copy": first * (1 + 10 ** rng.uniform(-10, -2) * rng.standard_normal(n)),
        "binary": rng.integers(0, 2, n).astype(float),
        "scaled": 10 ** rng.uniform(-6, 6) * rng.standard_normal(n),
    }[kind]


def table(seed: int) -> pd.DataFrame:
    """Return a table of 3 to 40 rows and 1 to 12 columns, with the target y."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 41))
    frame = pd.DataFrame(index=range(n))
    for i, kind in enumerate(rng.choice(COLUMNS, rng.integers(1, 13))):
        frame[f"x{i}"] = column(kind, frame, n, rng)
    spread = frame.std(ddof=0).to_numpy()
    scaled = frame.to_numpy() / np.where(spread > 0, spread, 1)
    signal = scaled @ rng.standard_normal(frame.shape[1])
    noise = rng.standard_normal(n)
    kind = TARGETS[seed % len(TARGETS)]
    frame["y"] = {
        "exact": signal,
        "noisy": signal + 10 ** rng.uniform(-8, 1) * noise,
        "noise": noise,
        "steps": np.floor(signal),
        "one row": signal + 100 * (np.arange(n) == 0),
        "huge": 1e9 * (signal + 0.1 * noise),
    }[kind]
    return frame


def times(path: str, method: Method) -> tuple[float, float]:
    """Return seconds of the fit and of the assessment; zeros for a table that is refused."""
    steps: dict[str, float] = {}
    cv = None if isinstance(method, Filter) else 3
    request = Request(path, "y", methods=(method,), cv=cv, compare=False, classify=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_table(request, lambda step: steps.setdefault(step, time.process_time()))
    except ValueError as error:
        if "smallest eigenvalue" in str(error):  # as in singular tables, which need a number
            return times(path, type(method)(**TUNED_BY_HAND[method.name]))
        if not REFUSED.search(str(error)):
            raise
        return 0.0, 0.0
    end = time.process_time()
    return steps["assessing"] - steps["fitting"], end - steps["assessing"]


@pytest.mark.parametrize("seed", range(TABLES))
def test_a_small_table_takes_little_time(tmp_path, seed, record_property):
    path = str(tmp_path / "table.csv")
    table(seed).to_csv(path, index=False)
    for name in METHODS if SOAK else [METHODS[-1 - seed]]:
        fit, beside = times(path, ALL_METHODS[name]())
        record_property(name, (fit, beside))
        assert fit + beside < LONGEST, name
        assert beside < min(LONGEST_BESIDE + fit, SLACK * max(MOST_BESIDE, fit)), name
