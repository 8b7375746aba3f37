"""Conventions of scikit-learn: parameters of methods, and pickles."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator

from stoptime.methods.registry import get_method
from stoptime.support.user_warnings import warn_user
from stoptime.support.version import __version__

PICKLED_VERSION = "stoptime_version"  # key of the version in the state of a pickle


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
        own = {key: params.pop(key) for key in [*params] if key.startswith("method__")}
        super().set_params(**params)
        if own:
            if self.method == "auto" or isinstance(self.method, list | tuple):
                raise ValueError(
                    f"{', '.join(own)} needs one method, such as method='accelerated-flow'; got "
                    f"{self.method!r}."
                )
            changes = {key.removeprefix("method__"): value for key, value in own.items()}
            self.method = get_method(self.method).with_params(**changes)
        return self


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
