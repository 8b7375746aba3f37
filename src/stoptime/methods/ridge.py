"""Ridge regression, as a path that grows from nothing to least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from stoptime.methods.base import Method

if TYPE_CHECKING:
    from stoptime.support.arrays import Array


@dataclass(frozen=True)
class Ridge(Method):
    r"""Ridge regression with penalty 1/t.

    .. math:: g(s, t) = 1 / (1 + t s)

    The penalty is that of :math:`\|y - X\beta\|^2/(2n) + (\lambda/2)\|\beta\|^2`: scikit-learn's
    ``alpha`` is :math:`n\lambda = n/t`.
    """

    name: ClassVar[str] = "ridge"
    order: ClassVar[int] = 1
    oscillates: ClassVar[bool] = False
    mixture: ClassVar[Literal["pole"]] = "pole"
    scale_free: ClassVar[bool] = True
    gcv_is_consistent: ClassVar[bool] = True
    stop_meaning: ClassVar[str] = "1/penalty"
    universal_guarantee: ClassVar[bool] = True
    """Ridge is the method that all others are compared with."""

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return 1 / (1 + t * s)

    def _gain(self, s: Array, t: Array) -> Array:
        late = np.maximum(t, 1)
        early = np.minimum(t, 1)
        # equals t/(1 + ts), arranged so that neither ts nor 1/t overflows
        return early / (1 / late + early * s)
