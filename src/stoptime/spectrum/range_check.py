"""The one check that squares of data of any kind neither overflow nor underflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.support.arrays import Floats, like, on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Varies = Callable[[NDArray[np.bool_]], Any]

MEAN_ULPS = 4.0  # in units of eps·|mean|: a column that varies less is constant


def check_range(name: str, powers: Any, varies: bool | Varies, room: float = 1.0) -> None:
    """Raise a ValueError if mean squares overflow, or underflow in a column that varies.

    ``powers`` has one entry for each column, or is one number if columns are not known. ``varies``
    says whether the columns vary, or is a function that tells which of the columns in a mask do.
    ``room`` is a factor for sums and products that are formed later.
    """
    powers = np.atleast_1d(powers)
    info = np.finfo(powers.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        # eigenvalues are at most the sum, so that they do not overflow either
        finite = np.isfinite(room * powers.sum())
    # mean squares below tiny/eps have lost digits, because some of their terms are subnormal
    small = powers < room * float(info.tiny / info.eps)
    if not finite:
        column = int(np.argmax(np.where(np.isnan(powers), np.inf, powers)))
        fault = "large: squares of its entries overflow"
    elif small.any():
        vary = varies(small) if callable(varies) else varies
        lost = np.zeros_like(small)
        lost[small] = vary
        if not lost.any():
            return
        column = int(np.argmax(lost))
        fault = "small: squares of its entries underflow"
    else:
        return
    where = f", first in column {column}" if len(powers) > 1 else ""
    raise ValueError(
        f"{name} is too {fault} in {powers.dtype}{where}. Rescale it, for example with "
        "StandardScaler."
    )


def constant(power: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary by no more than the rounding of their mean."""
    rounding = MEAN_ULPS * np.finfo(power.dtype).eps * np.abs(mean)
    return np.asarray(power <= rounding * rounding)


def entries_vary(
    values: Any, means: Any, shares: Any, columns: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell which of these columns, whose mean squares are small, have small entries that vary.

    ``shares`` are weights of the rows, of at most one.
    """
    weights = on_host(shares)
    present = weights > 0
    centre = on_host(means)[columns]
    info = np.finfo(centre.dtype)
    distances = np.abs(on_host(values[:, like(values, columns)]) - centre)
    spread = distances.max(axis=0, initial=0, where=present[:, None])
    # a constant column of ordinary size may differ from its rounded mean: that is no underflow
    tiny = spread < np.sqrt(info.tiny / info.eps / weights[present].min(initial=1))
    return np.asarray(tiny & (spread > MEAN_ULPS * info.eps * np.abs(centre)))
