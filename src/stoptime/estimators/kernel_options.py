"""The parameters of a kernel: what they mean, and the kernel as a function of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from stoptime.spectrum.landmarks import KernelFunction, LandmarkFeatures
from stoptime.spectrum.radial import ORDERS, Columns, Radial, by_scikit_learn, given, linear
from stoptime.support.arrays import Floats, is_device_array
from stoptime.support.checks import is_whole, nonnegative
from stoptime.support.user_warnings import warn_user

Kernel = str | Callable[..., Any]
Gamma = float | str | None
MOST_EXACT = 5000  # rows: the kernel matrix of more is slow to factor, and landmarks are as good
MANY_LANDMARKS = 2000  # that are drawn by default


def most_compared(n_landmarks: int) -> int:
    """Return the number of rows on which the best kernels are compared with landmarks."""
    # a fit to four rows for each landmark costs about as much as its factorisation
    return max(4 * n_landmarks, MOST_EXACT)


@dataclass(frozen=True)
class KernelOptions:
    """The parameters that :class:`stoptime.StoppedKernelRegressor` documents."""

    kernel: Kernel
    gamma: Gamma
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    standardise: bool | str = False
    n_landmarks: int | None = None
    rng: Any = None

    def is_any_of(self, *names: str) -> bool:
        """Whether the kernel is one of these names."""
        return isinstance(self.kernel, str) and self.kernel in names

    @property
    def tunes(self) -> bool:
        """Whether the width is chosen, and the kernel if it is "auto"."""
        return self.is_any_of("auto", *ORDERS) and isinstance(self.gamma, str)

    def check(self) -> None:
        """Raise a ValueError that says what to do if a parameter is wrong."""
        known = {"auto", "precomputed", *ORDERS, *PAIRWISE_KERNEL_FUNCTIONS}
        if not callable(self.kernel) and self.kernel not in known:
            raise ValueError(
                f"Unknown kernel {self.kernel!r}; choose one of {', '.join(sorted(known))}, or "
                "give a function of two rows."
            )
        is_number = self.gamma is None or isinstance(self.gamma, Real)
        if not (is_number or (isinstance(self.gamma, str) and self.gamma == "auto")):
            raise ValueError(f'gamma must be a number, None or "auto"; got {self.gamma!r}.')
        if self.is_any_of("auto") and self.gamma != "auto":
            raise ValueError(
                "gamma means something else for every kernel: name the kernel, for example "
                'kernel="rbf", or leave gamma="auto".'
            )
        if self.standardise not in (True, False, "auto"):
            raise ValueError(
                f'standardise must be True, False or "auto"; got {self.standardise!r}.'
            )
        count = self.n_landmarks
        if count is not None and not (is_whole(count) and count >= 1):
            raise ValueError(f"n_landmarks must be a positive whole number; got {count!r}.")
        if self.is_any_of("precomputed") and (self.standardise is True or count is not None):
            raise ValueError(
                'kernel="precomputed" has no columns and no rows: give standardise=False and '
                "n_landmarks=None."
            )

    def columns_of(self, rows: Any, weights: Floats | None) -> Columns:
        """Return what is subtracted from columns, and what divides them."""
        scaled = self.tunes if isinstance(self.standardise, str) else bool(self.standardise)
        # distances are computed from squares, which cancel if rows are far from zero
        centred = scaled or self.is_any_of("auto", *ORDERS)
        return Columns.of(rows, weights, centred=centred, scaled=scaled)

    def landmark_count(self, n: int, rows: Any) -> int | None:
        """Return the number of landmarks, or None for the kernel matrix of all rows."""
        if self.is_any_of("precomputed"):
            return None
        count = n if self.n_landmarks is None else min(int(self.n_landmarks), n)
        if self.n_landmarks is None and n > MOST_EXACT:
            warn_user(
                f"With {n} rows the kernel matrix is large: {MANY_LANDMARKS} of them, drawn at "
                "random, are landmarks. Give n_landmarks, or as many as there are rows for an "
                "exact fit.",
                UserWarning,
            )
            count = MANY_LANDMARKS
        # all rows of a tensor as landmarks are the kernel matrix, where the tensor is
        return count if count < n or is_device_array(rows) else None

    def function(self, n_features: int) -> KernelFunction:
        """Return the kernel as a function of two sets of prepared rows."""
        name = self.kernel
        if callable(name):
            return partial(by_scikit_learn, {"metric": name, **(self.kernel_params or {})})
        if name in ORDERS:
            gamma = 1 / n_features if self.gamma is None else self.gamma
            return Radial(name, float(nonnegative("gamma", gamma)))
        if name in {"linear", "auto", "precomputed"}:  # linear until a kernel is chosen
            return given if name == "precomputed" else linear
        parameters = {"degree": self.degree, "coef0": self.coef0}
        if self.gamma is not None:  # otherwise the kernel has a default of its own
            parameters["gamma"] = float(nonnegative("gamma", self.gamma))
        return partial(by_scikit_learn, {"metric": name, "filter_params": True, **parameters})

    def features(self, columns: Columns, rows: Any, centred: bool) -> LandmarkFeatures:
        """Return the features of these landmarks, or of all rows."""
        return LandmarkFeatures(columns, self.function(rows.shape[1]), columns(rows), centred)
