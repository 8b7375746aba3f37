"""Conventions of scikit-learn: parameters of methods, alpha, and pickles."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.support.arrays import Floats
from stoptime.support.user_warnings import warn_user
from stoptime.support.version import __version__
from stoptime.theory.calibration import equivalent_penalty

PICKLED_VERSION = "stoptime_version"  # key of the version in the state of a pickle
OF_METHOD = "method__"  # begins the names of parameters that belong to the method


class MethodParameters(BaseEstimator):
    """Lets a search set the parameters of a method, as in ``{"method__friction": [3, 5, 9]}``."""

    method: Any

    # the display of an estimator in a notebook links to its page
    _doc_link_module = "stoptime"
    _doc_link_template = (
        "https://stoptime.github.io/stoptime/api/estimators.html#stoptime.{estimator_name}"
    )

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a method, such as ``method__friction``, give a new method."""
        # a new one, because methods are immutable, and estimators may share them
        own = {key: value for key, value in params.items() if key.startswith(OF_METHOD)}
        super().set_params(**{key: value for key, value in params.items() if key not in own})
        if own:
            if self.method == "auto" or isinstance(self.method, list | tuple):
                raise ValueError(
                    f"{', '.join(own)} needs one method, such as method='accelerated-flow'; got "
                    f"{self.method!r}."
                )
            changes = {key.removeprefix(OF_METHOD): value for key, value in own.items()}
            self.method = get_method(self.method).with_params(**changes)
        return self


class LikeRidge(BaseEstimator):
    """Gives a fitted estimator the ``alpha_`` of scikit-learn's Ridge."""

    method_: Method
    stop_: float | Floats
    eigenvalues_: Floats
    _n_samples: float

    @property
    def alpha_(self) -> float | Floats:
        r"""The ``alpha`` of scikit-learn's Ridge that is equivalent to ``stop_``.

        It is n times :func:`stoptime.equivalent_penalty`, with n the sum of the sample weights,
        and is computed when it is asked for. Conjugate gradients have none.
        """
        if not hasattr(self, "method_"):
            raise AttributeError("There is no alpha_ here: every band has its own, see scales_.")
        stops = np.asarray(self.stop_, np.float64)
        try:
            found = [
                equivalent_penalty(self.method_, stop, eigenvalues=self.eigenvalues_)
                for stop in stops.ravel().tolist()
            ]
        except ValueError as error:
            raise AttributeError(f"There is no alpha_ here. {error}") from error
        return self._n_samples * np.reshape(found, stops.shape)[()]


class Versioned(BaseEstimator):
    """Warns where a pickle of another version is loaded."""

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {PICKLED_VERSION: __version__}  # type: ignore[no-any-return]

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop(PICKLED_VERSION, None)
        if version != __version__:
            made_by = "an older stoptime" if version is None else f"stoptime {version}"
            warn_user(
                f"This {type(self).__name__} was pickled by {made_by}, and this is stoptime "
                f"{__version__}: fit it again. To keep a model across versions, use stoptime.save.",
                UserWarning,
            )
        super().__setstate__(state)
