"""Estimators whose pickles know which stoptime made them."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.base import BaseEstimator

from stoptime.support.version import __version__

__all__ = ["Versioned"]

KEY = "stoptime_version"


class Versioned(BaseEstimator):
    """An estimator that warns where it is unpickled by another version than pickled it.

    scikit-learn does so for its own estimators alone. Models that must outlive a version are saved as JSON.
    """

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {KEY: __version__}  # type: ignore[no-any-return]

    def __setstate__(self, state: dict[str, Any]) -> None:
        made_by = f"stoptime {state[KEY]}" if KEY in state else "an older stoptime"
        if state.get(KEY) != __version__:
            warnings.warn(
                f"This {type(self).__name__} was pickled by {made_by}, and this is stoptime {__version__}: "
                "fit it again. A model that is to outlive a version is kept with stoptime.save.",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__({name: value for name, value in state.items() if name != KEY})
