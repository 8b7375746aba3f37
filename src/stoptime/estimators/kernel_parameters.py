"""The parameters of a kernel: what they mean, and the kernel as a function of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils import Tags

from stoptime.spectrum.landmarks import KernelFunction
from stoptime.spectrum.radial import ORDERS, Columns, Linear, Radial, by_scikit_learn, given
from stoptime.support.arrays import Floats, is_device_array
from stoptime.support.checks import is_whole, nonnegative
from stoptime.support.user_warnings import warn_user

MOST_EXACT = 5000  # rows: the kernel matrix of more is slow to factor, and landmarks are as good
MANY_LANDMARKS = 2000  # that are drawn by default


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters(BaseEstimator):
    """The parameters that :class:`stoptime.StoppedKernelRegressor` documents."""

    kernel: str | Callable[..., Any] = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    standardise: bool | str = "auto"
    n_landmarks: int | None = None
    rng: Any = None
    penalty_matrix: Any = field(init=False, default=None)  # that of the kernel is the penalty

    # what a fit finds of the kernel
    _kernel_found: ClassVar[tuple[str, ...]] = (
        "kernel_",
        "gamma_",
        "scale_",
        "centre_",
        "candidates_",
        "n_landmarks_",
        "X_fit_",
    )

    @property
    def _kernel_parameters(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(KernelParameters) if one.init}

    def _kernel_is(self, *names: str) -> bool:
        return isinstance(self.kernel, str) and self.kernel in names

    @property
    def _tunes(self) -> bool:
        """Whether the width is chosen, and the kernel if it is "auto"."""
        return self._kernel_is("auto", *ORDERS) and isinstance(self.gamma, str)

    def _check_kernel(self) -> None:
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
        if self._kernel_is("auto") and self.gamma != "auto":
            raise ValueError(
                "gamma means something else for every kernel: name the kernel, for example "
                'kernel="rbf", or give gamma="auto".'
            )
        if self.standardise not in (True, False, "auto"):
            raise ValueError(
                f'standardise must be True, False or "auto"; got {self.standardise!r}.'
            )
        count = self.n_landmarks
        if count is not None and not (is_whole(count) and count >= 1):
            raise ValueError(f"n_landmarks must be a positive whole number; got {count!r}.")
        if self._kernel_is("precomputed") and (self.standardise is True or count is not None):
            raise ValueError(
                'kernel="precomputed" has no columns and no rows: give standardise=False and '
                "n_landmarks=None."
            )

    def _columns_of(self, rows: Any, weights: Floats | None) -> Columns:
        """Return what is subtracted from columns, and what divides them."""
        scaled = self._tunes if isinstance(self.standardise, str) else bool(self.standardise)
        # distances are computed from squares, which cancel if rows are far from zero
        centred = scaled or self._kernel_is("auto", *ORDERS)
        return Columns.of(rows, weights, centred=centred, scaled=scaled)

    def _landmark_count(self, rows: Any) -> int | None:
        """Return the number of landmarks, or None for the kernel matrix of all rows."""
        n = int(rows.shape[0])
        if self._kernel_is("precomputed"):
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

    def _kernel_function(self, n_features: int) -> KernelFunction:
        """Return the kernel of two sets of prepared rows, with a default γ until it is chosen."""
        name = self.kernel
        if callable(name):
            return partial(by_scikit_learn, {"metric": name, **(self.kernel_params or {})})
        gamma = None if isinstance(self.gamma, str) else self.gamma
        if name in ORDERS:
            return Radial(
                name, float(nonnegative("gamma", 1 / n_features if gamma is None else gamma))
            )
        if name in {"linear", "auto", "precomputed"}:  # linear until a kernel is chosen
            return given if name == "precomputed" else Linear()
        parameters = {"degree": self.degree, "coef0": self.coef0}
        if gamma is not None:  # otherwise the kernel has a default of its own
            parameters["gamma"] = float(nonnegative("gamma", gamma))
        return partial(by_scikit_learn, {"metric": name, "filter_params": True, **parameters})

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        precomputed = self._kernel_is("precomputed")
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        return tags
