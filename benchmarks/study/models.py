"""The models of the study; each tunes itself inside the training rows."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoCV, LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st

BASELINE = "RidgeCV"
AUTO = "auto"
SIMPLE = "auto, simple"  # ridge, unless another method is better by a paired standard error
BOOSTING = "gradient boosting"  # gets the columns without scaling, expansion or kernel
PENALTIES = np.geomspace(1e-8, 1e4, 100)
COMPONENTS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 40, 60, 80, 120)
MOST_LATENT = 30  # components of partial least squares
INNER = KFold(5, shuffle=True, random_state=0)


class KernelFeatures(TransformerMixin, BaseEstimator):
    """Columns whose inner products are the kernel matrix, so that RidgeCV can use a kernel."""

    def fit(self, X: np.ndarray, _: object = None) -> Self:
        """Factor the kernel matrix of the training rows."""
        values, vectors = np.linalg.eigh(X)
        # Eigenvalues at rounding level may be negative and carry no information.
        kept = values > values[-1] * len(X) * np.finfo(float).eps
        self.map_ = vectors[:, kept] / np.sqrt(values[kept])
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the columns of rows of the kernel matrix."""
        return X @ self.map_


def searched(model: BaseEstimator, parameter: str, values: object) -> GridSearchCV:
    """Return a model with one parameter chosen by five inner folds."""
    return GridSearchCV(model, {parameter: values}, cv=INNER, scoring="neg_mean_squared_error")


def linear(n: int, p: int) -> dict[str, BaseEstimator]:
    """Return the models for n training rows with p columns."""
    most = min(p, int(0.8 * n) - 1)  # rank of a centred inner training set
    components = [k for k in COMPONENTS if k <= most]
    latent = [k for k in components if k <= MOST_LATENT]
    components_of = make_pipeline(PCA(svd_solver="full"), LinearRegression())
    return {
        BASELINE: RidgeCV(PENALTIES),
        AUTO: st.StoppedRegressorCV("auto"),
        SIMPLE: st.StoppedRegressorCV("auto", prefer_simple=True),
        "gradient flow": st.StoppedRegressorCV("gradient-flow"),
        "friction 3": st.StoppedRegressorCV(st.AcceleratedFlow(3)),
        # Without scaling of its own, so that all linear models see the same columns.
        "PLS": searched(PLSRegression(scale=False), "n_components", latent),
        "PCR": searched(components_of, "pca__n_components", components),
        "LassoCV": LassoCV(cv=INNER),
        BOOSTING: GradientBoostingRegressor(random_state=0),
    }


def kernel() -> dict[str, BaseEstimator]:
    """Return the models for a precomputed kernel matrix."""
    search = searched(KernelRidge(kernel="precomputed"), "alpha", np.geomspace(1e-6, 1e2, 17))
    options = {"kernel": "precomputed"}
    return {
        BASELINE: make_pipeline(KernelFeatures(), RidgeCV(PENALTIES)),
        AUTO: st.StoppedKernelRegressorCV("auto", **options),
        SIMPLE: st.StoppedKernelRegressorCV("auto", prefer_simple=True, **options),
        "gradient flow": st.StoppedKernelRegressorCV("gradient-flow", **options),
        "friction 3": st.StoppedKernelRegressorCV(st.AcceleratedFlow(3), **options),
        # KernelRidge fits no intercept, so it gets a centred response.
        "KernelRidge": TransformedTargetRegressor(search, transformer=StandardScaler()),
        BOOSTING: GradientBoostingRegressor(random_state=0),
    }


def at_edge(model: BaseEstimator) -> bool:
    """Whether RidgeCV chose the smallest or the largest penalty of its grid."""
    ridge = model[-1] if hasattr(model, "steps") else model
    return bool(ridge.alpha_ in {PENALTIES[0], PENALTIES[-1]})
