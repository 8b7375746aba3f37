"""Arrays of NumPy, torch and CuPy through one namespace, that of array-api-compat.

Filters are evaluated on the host, where SciPy's Bessel functions are accurate; large arrays stay
where the data are.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
from array_api_compat import is_cupy_array, is_torch_array, to_device
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


def array_namespace(*arrays: Any) -> Any:
    """Return the functions for these arrays, which are all of the same kind."""
    if all(type(values) is np.ndarray for values in arrays):
        return array_api_compat.numpy
    return array_api_compat.array_namespace(*arrays)


def is_device_array(values: Any) -> bool:
    """Tell whether values are a tensor of torch or an array of CuPy, without importing either."""
    return type(values) is not np.ndarray and (is_torch_array(values) or is_cupy_array(values))


def like(reference: Any, values: Any) -> Any:
    """Return host values where the reference is: the same array, or one on its device."""
    if not is_device_array(reference) or is_device_array(values):
        return values
    return array_namespace(reference).asarray(values, device=reference.device)


def empty(reference: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Return an uninitialised array where the reference is; on a device in double precision."""
    if is_device_array(reference):
        xp = array_namespace(reference)
        return xp.empty(shape, dtype=xp.float64, device=reference.device)
    return np.empty(shape, dtype)


def constant(reference: Any, count: int, value: float) -> Any:
    """Return equal numbers of double precision where the reference is."""
    xp = array_namespace(reference)
    return xp.full((count,), value, dtype=xp.float64, device=reference.device)


def on_host(values: Any) -> Any:
    """Return a NumPy array of the same values."""
    if is_torch_array(values):
        return to_device(values.detach(), "cpu").numpy()
    return values.get() if is_cupy_array(values) else np.asarray(values)


def slices(count: int, height: int) -> Iterator[slice]:
    """Cut so many entries into slices of this height, or of one entry if it is zero."""
    height = max(1, height)
    return (slice(start, start + height) for start in range(0, count, height))


def numbers_on_device(values: Any) -> int:
    """Return how many doubles a block has on a device: an eighth of what is free, 2 GB at most."""
    free = 2**32
    if is_cupy_array(values):
        free = values.device.mem_info[0]
    elif is_torch_array(values) and values.is_cuda:
        memory = import_module("torch").cuda
        # what torch holds in reserve is free as well
        held = memory.memory_stats(values.device)
        free = memory.mem_get_info(values.device)[0]
        free += held["reserved_bytes.all.current"] - held["allocated_bytes.all.current"]
    # more numbers would not keep it busier, and allocating them takes time
    return min(int(free) // 64, 2**28)


def as_dtype(values: Any, dtype: Any) -> Any:
    """Return the values in a floating type, without a copy where they have it already."""
    return array_namespace(values).astype(values, dtype, copy=False)


def as_float64(values: Any) -> Any:
    """Return the values in double precision, where they are."""
    return as_dtype(values, array_namespace(values).float64)
