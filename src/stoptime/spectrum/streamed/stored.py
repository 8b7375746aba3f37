"""What stored statistics must look like: files come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMAT", "fault"]

FORMAT = 1
"""Version of the layout."""

SYMMETRY = 1e-8  # relative error of a stored matrix beyond which it is no matrix of products
KINDS = {
    "format": "i",
    "weight": "f",
    "n_rows": "i",
    "origin": "f",
    "offset": "f",
    "gram": "f",
    "cross": "f",
    "target_power": "f",
    "single_target": "b",
    "names": "U",
}
"""Every array of a file of statistics, and the kind of its entries."""


def fault(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return what is wrong with stored arrays; nothing where they are statistics."""
    for check in (_wrong_types, _wrong_shapes, _impossible):
        reason = check(arrays)
        if reason:
            return reason
    return ""


def _wrong_types(arrays: Mapping[str, NDArray[Any]]) -> str:
    for name, kind in KINDS.items():
        if name not in arrays:
            return f"{name} is missing"
        dtype = arrays[name].dtype
        if dtype.kind != kind or (kind == "f" and dtype != np.float64):
            return f"{name} is of dtype {dtype}"
    return ""


def _wrong_shapes(arrays: Mapping[str, NDArray[Any]]) -> str:
    if arrays["format"].shape != () or arrays["format"] != FORMAT:
        return f"it is of format {arrays['format']}, where this version reads {FORMAT}"
    if arrays["cross"].ndim != 2 or arrays["cross"].size == 0:
        return f"cross is of shape {arrays['cross'].shape}"
    p, q = arrays["cross"].shape
    one, both = (), (p + q,)
    shapes = {"weight": one, "n_rows": one, "single_target": one, "origin": both, "offset": both}
    for name, shape in (shapes | {"gram": (p, p), "target_power": (q,)}).items():
        if arrays[name].shape != shape:
            return f"{name} is of shape {arrays[name].shape} instead of {shape}"
    if arrays["names"].shape not in {(0,), (p,)} or (arrays["single_target"] and q != 1):
        return "its names or targets do not fit its shapes"
    return ""


def _impossible(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return why no rows have these values."""
    if not all(np.isfinite(arrays[name]).all() for name, kind in KINDS.items() if kind == "f"):
        return "it has values that are not finite"
    if arrays["weight"] < 0 or arrays["n_rows"] < 0:
        return "its number of rows is negative"
    gram, power = arrays["gram"], arrays["target_power"]
    if (np.diagonal(gram) < 0).any() or (power < 0).any():
        return "it has negative mean squares"
    size = np.sqrt(np.diagonal(gram))
    if (np.abs(gram - gram.T) > SYMMETRY * np.multiply.outer(size, size)).any():
        return "its gram is not symmetric"
    return ""
