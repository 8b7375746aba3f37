"""Predictions and intervals through pipelines, searches and transformed targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from stoptime.support.arrays import Floats


def predict_interval(model: Any, X: Any, confidence: float = 0.9, **options: Any) -> Floats:
    """Return lower and upper ends of prediction intervals, along a new last axis.

    A Pipeline transforms X first, and a TransformedTargetRegressor maps the ends back to the units
    of y: the order of values is all that an interval needs, so its confidence stays the same. A
    transformation that is not monotone within an interval is refused.

    Parameters
    ----------
    model : estimator
        A fitted regressor of stoptime or of :func:`stoptime.load`, alone or at the end of a
        Pipeline, inside a TransformedTargetRegressor, or found by a search such as GridSearchCV.
    X : array-like or data frame of shape (n, n_features)
        New rows.
    confidence : float, default=0.9
        Probability, between 0 and 1, that an interval contains the new response.
    **options
        Further arguments of the regressor, such as ``kind="jackknife"``.

    Examples
    --------
    >>> import numpy as np
    >>> import stoptime as st
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), st.StoppedRegressorCV())
    >>> of_log = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(X, y)
    >>> predict_interval(of_log, X[:2]).round()
    array([[101., 365.],
           [ 38., 136.]])
    """
    if isinstance(model, Pipeline):
        return predict_interval(model[-1], prepared(model, X), confidence, **options)
    if isinstance(model, TransformedTargetRegressor):
        ends = predict_interval(model.regressor_, X, confidence, **options)
        return _mapped_back(model.transformer_, ends)
    if hasattr(model, "best_estimator_"):
        return predict_interval(model.best_estimator_, X, confidence, **options)
    if not hasattr(model, "predict_interval"):
        raise TypeError(
            f"{type(model).__name__} has no intervals: they need a regressor of stoptime that "
            "chose its stop, such as StoppedRegressorCV."
        )
    return model.predict_interval(X, confidence, **options)  # type: ignore[no-any-return]


def _mapped_back(transformer: Any, ends: Floats) -> Floats:
    """Return the ends in the units of the target; refuse a function that turns between them."""
    low, high = ends[..., 0], ends[..., 1]
    inside = [low + share * (high - low) for share in np.linspace(0, 1, 33)]
    # a transformer takes a matrix with a column for each target
    columns = [one.reshape(len(ends), -1) for one in inside]
    back = np.stack([transformer.inverse_transform(one) for one in columns], axis=-1)
    found = np.sort(back[..., [0, -1]], axis=-1)  # a decreasing function swaps the ends
    room = 1e-9 * np.abs(found).max(axis=-1, keepdims=True)
    if np.any((back < found[..., :1] - room) | (back > found[..., 1:] + room)):
        raise ValueError(
            "The inverse transformation of the target turns within an interval, so that its values "
            "at the ends do not bound those between: intervals need a monotone transformation."
        )
    return np.reshape(found, ends.shape)


def prepared(model: Any, X: Any) -> Any:
    """Return the rows that the last step of a pipeline gets, or an estimator alone."""
    return model[:-1].transform(X) if isinstance(model, Pipeline) and len(model.steps) > 1 else X


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a pipeline, without a transformation of its target."""
    last = model[-1] if isinstance(model, Pipeline) else model
    return last.regressor_ if isinstance(last, TransformedTargetRegressor) else last
