"""Conventions of scikit-learn: parameters of methods, alpha, pickles, and rows in batches."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from stoptime.methods.registry import get_method
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import DTYPES
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.version import __version__
from stoptime.theory.calibration import equivalent_penalty

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from stoptime.methods.base import Method
    from stoptime.spectrum.data import Data
    from stoptime.support.arrays import Floats

PICKLED_VERSION = "stoptime_version"  # key of the version in the state of a pickle
OF_METHOD = "method__"  # begins the names of parameters that belong to the method


class MethodParameters(BaseEstimator):
    """Lets a search set the parameters of a method, as in ``{"method__friction": [3, 5, 9]}``."""

    method: Any

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a method, such as ``method__friction``, give a new method."""
        # a new one, because methods are immutable, and estimators may share them
        own = {key: value for key, value in params.items() if key.startswith(OF_METHOD)}
        super().set_params(**{key: value for key, value in params.items() if key not in own})
        if own:
            if self.method == "auto" or isinstance(self.method, list | tuple):
                raise ValueError(f"{', '.join(own)} needs one method; got {self.method!r}.")
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
            warnings.warn(
                f"This {type(self).__name__} was pickled by {made_by}, and this is stoptime "
                f"{__version__}: fit it again. To keep a model across versions, use stoptime.save.",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__(state)


class Incremental(BaseEstimator):
    """Fits rows that come in batches, without keeping them."""

    fit_intercept: bool
    _seen: Statistics
    _fitted: Callable[[Data], Self]

    @available_if(lambda self: self._streams)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to those seen so far, and fit all of them: as exact as one fit to all rows.

        The model keeps p × p numbers (a :class:`stoptime.Statistics`) and no rows. Every call
        factors them anew, so that batches of at least as many rows as columns cost the least.
        :meth:`fit` forgets the rows seen so far.
        X, y and sample_weight are arrays as for :meth:`fit`.
        """
        first = not hasattr(self, "_seen")
        options = {"dtype": DTYPES, "multi_output": True, "y_numeric": True}
        X, y = validate_data(self, X, y, reset=first, **options)
        new = Statistics.of(X, y, sample_weight)
        seen = new if first else self._seen + new
        self._fitted(open_data(seen, fit_intercept=self.fit_intercept))
        self._seen = seen
        return self
