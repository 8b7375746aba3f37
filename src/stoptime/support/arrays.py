"""NumPy arrays and torch tensors by the same few words.

Filters are evaluated on the host, in double precision; what is large stays where the data are. Code that
may meet either keeps to operators and methods that both have, and to these functions.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)

__all__ = ["as_complex", "as_float64", "as_real", "empty", "is_tensor", "like", "on_host", "pairs"]


def _torch() -> Any:
    return sys.modules["torch"]  # it is there, or there were no tensor


def is_tensor(values: Any) -> bool:
    """Tell a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def like(reference: Any, values: Any) -> Any:
    """Return host values where the reference is: the same array, or a tensor on its device.

    Examples
    --------
    >>> like(np.zeros(2), np.ones(3))
    array([1., 1., 1.])
    """
    if not is_tensor(reference) or is_tensor(values):
        return values
    return _torch().as_tensor(values, device=reference.device)


def empty(reference: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Return room for numbers where the reference is; on a device they are in double precision.

    Examples
    --------
    >>> empty(np.zeros(2), (3, 4)).shape
    (3, 4)
    """
    if is_tensor(reference):
        return reference.new_empty(shape, dtype=_torch().float64)
    return np.empty(shape, dtype)


def on_host(values: Any) -> Any:
    """Return a NumPy array of the same values.

    Examples
    --------
    >>> on_host(np.ones(2))
    array([1., 1.])
    """
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def pairs(first: Any, second: Any) -> Any:
    """Return both side by side, along a new last axis.

    Examples
    --------
    >>> pairs(np.zeros(2), np.ones(2))
    array([[0., 1.],
           [0., 1.]])
    """
    if is_tensor(first):
        return _torch().stack([first, second], dim=-1)
    return np.stack([first, second], axis=-1)


def as_float64(values: Any) -> Any:
    """Return the values in double precision, where they are.

    Examples
    --------
    >>> as_float64(np.ones(2, np.float32)).dtype
    dtype('float64')
    """
    return values.double() if is_tensor(values) else values.astype(np.float64, copy=False)


def as_complex(values: Any) -> Any:
    """Return real, imaginary, real, ... along the last axis as complex numbers.

    Examples
    --------
    >>> as_complex(np.array([1.0, 2.0]))
    array([1.+2.j])
    """
    if is_tensor(values):
        return _torch().view_as_complex(values.unflatten(-1, (-1, 2)))
    return values.view(np.complex128)


def as_real(values: Any) -> Any:
    """Return real numbers as they are, complex ones as real, imaginary, real, ... along the last axis.

    Examples
    --------
    >>> as_real(np.array([1 + 2j]))
    array([1., 2.])
    """
    if is_tensor(values):
        return _torch().view_as_real(values).flatten(-2) if values.is_complex() else values
    return np.ascontiguousarray(values).view(np.float64)
