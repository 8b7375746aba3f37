"""When to stop a given run on cross-entropy, by folds in lockstep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from stoptime.logistic.lockstep import search
from stoptime.logistic.rows import Places, prepared
from stoptime.methods.base import Method
from stoptime.methods.schedules import LONGEST_SEARCH
from stoptime.support.arrays import Array, array_namespace, as_dtype, is_device_array, on_host
from stoptime.support.checks import one_label_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOATS = [np.float64, np.float32]


@dataclass(frozen=True)
class CrossEntropyPlan:
    """When to stop a run: log losses of held-out rows after 0, 1, 2, ... iterations.

    ``finished`` is False where they still fall in the end: a longer run may be better.
    """

    method: Method
    iterations: int
    errors: Array
    standard_errors: Array
    finished: bool

    def __str__(self) -> str:
        best = self.iterations
        text = (
            f"{self.method}: stop after {best} iterations, with a log loss of held-out rows of "
            f"{self.errors[best]:.4f} ± {self.standard_errors[best]:.4f}."
        )
        return text if self.finished else f"{text} It still falls there: plan a longer run."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the log loss of held-out rows against the iterations, and the stop."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.held_out(self.errors, self.standard_errors, self.iterations, ax)


def plan_cross_entropy(X: Any, y: Any, method: Method) -> CrossEntropyPlan:
    """Plan the run of ``torch.nn.Linear`` from zero on the rows as they are, with five folds."""
    X, classes, places = checked(X, y)
    splits = list(StratifiedKFold(5).split(np.zeros((len(places), 1)), places))
    rows = prepared(X, places, len(classes), splits, centred=False)
    iterations = int(min(method.horizon, LONGEST_SEARCH))
    found = search(rows, method, iterations, at_priors=False)
    errors = np.array(found.errors), np.array(found.standard_errors)
    return CrossEntropyPlan(found.method, found.stop, *errors, finished=not found.ended)


def checked(X: Any, y: Any, check: Any = check_array) -> tuple[Any, Any, Places]:
    """Return rows of a floating type, the classes, and the class of each row.

    A tensor stays on its device, where half precision becomes single precision.
    """
    if is_device_array(X):
        xp = array_namespace(X)
        X = X.detach() if hasattr(X, "detach") else X
        X = X if X.dtype in {xp.float32, xp.float64} else as_dtype(X, xp.float32)
        if X.ndim != 2 or 0 in X.shape or not bool(xp.all(xp.isfinite(X))):
            raise ValueError(f"X must be finite, of shape (n, p); its shape is {tuple(X.shape)}.")
    else:
        X = check(X, dtype=FLOATS, accept_sparse="csr")
    labels = one_label_each(on_host(y))
    check_consistent_length(np.empty((X.shape[0], 0)), labels)
    check_classification_targets(labels)
    classes, places = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes; it has {len(classes)} class.")
    return X, classes, places
