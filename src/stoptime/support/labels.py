"""Labels of rows, as the numbers of their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from stoptime.support.arrays import on_host


def classes_of(y: Any, *, several: bool = False) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes, sorted, and the number of the class of each row, on the host.

    If ``several`` labels are allowed, y may have a column of zeros and ones for each label, which
    are returned as they are.
    """
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    found = on_host(y)
    if several and np.ndim(found) == 2 and type_of_target(found) == "multilabel-indicator":
        marks = np.asarray(found).astype(np.intp)
        return np.arange(marks.shape[1]), marks
    if np.ndim(found) == 2 and np.shape(found)[1] > 1:
        raise ValueError(
            f"y must have one label for each row; got shape {np.shape(found)}. For several labels, "
            "fit one classifier to each: sklearn.multioutput.MultiOutputClassifier(model)."
        )
    labels = np.asarray(column_or_1d(found, warn=True))
    # neither None nor NaN nor the NA of pandas is a label
    if labels.dtype.kind == "O" and any(
        one is None or type(one).__name__ == "NAType" or one != one  # noqa: PLR0124
        for one in {*labels.tolist()}
    ):
        raise ValueError("Input y contains NaN.")  # the words of scikit-learn
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, places = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must have at least two classes; its rows, n_samples={len(labels)}, have "
            f"{len(classes)} class."
        )
    return classes, places
