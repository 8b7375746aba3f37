"""Seeded data for the cases."""

from __future__ import annotations

import numpy as np


def gaussian(n: int, p: int, q: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return data whose columns have non-zero means, so that they must be centred."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 1
    y = X @ rng.standard_normal(p if q is None else (p, q)) / np.sqrt(p)
    return X, y + rng.standard_normal(y.shape)


def label(*sizes: int) -> str:
    """Return sizes as text for tables."""
    return " × ".join(f"{size:,}".replace(",", " ") for size in sizes)
