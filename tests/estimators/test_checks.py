"""The checks of scikit-learn: on six estimators, and on more kinds of each with ``make soak``."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import stoptime as st
from campaign import SOAK

ALWAYS = [
    st.StoppedRegressorCV(),
    st.StoppedClassifierCV(),
    st.StoppedLogisticRegression(stop=20),
    st.StoppedLogisticRegressionCV(cv=3),
    st.StoppedKernelRegressorCV("ridge", stops=8, kernel="rbf", gamma="auto", n_landmarks=10),
    st.StoppedKernelClassifierCV("ridge", stops=[0.1, 1.0, 10.0], kernel="rbf", gamma=0.3),
]
SOMETIMES = [
    st.StoppedKernelRegressorCV("ridge", stops=8, n_landmarks=10),
    st.StoppedKernelClassifierCV("ridge", stops=[0.1, 1.0, 10.0]),
    st.StoppedRegressor(),
    st.StoppedKernelRegressor("ridge", kernel="auto", gamma="auto"),
    st.StoppedClassifier(),
    st.StoppedClassifier("ridge", stop=1.0),
    st.StoppedClassifierCV("ridge", stops=[0.1, 1.0, 10.0], scoring="accuracy"),
    st.StoppedClassifierCV("gradient-flow", cv=3, class_weight="balanced"),
    st.StoppedKernelClassifier(),
    st.StoppedRegressor("ridge", fit_intercept=False),
    st.StoppedRegressor("gradient-flow", stop=5.0),
    st.StoppedRegressor(st.HeavyBallFlow(0.5)),
    st.StoppedRegressorCV("ridge", per_target=True),
    st.StoppedRegressorCV("gradient-flow", rule="path-gcv", fit_intercept=False),
    st.StoppedRegressorCV(st.AcceleratedFlow(5), stops=[0.1, 1.0, 10.0, float("inf")]),
    st.StoppedKernelRegressor(),
    st.StoppedKernelRegressor("ridge", kernel="precomputed"),
    st.StoppedKernelRegressor("gradient-descent", stop=20, kernel="poly", fit_intercept=False),
    st.StoppedKernelRegressorCV(stops=20),
    st.StoppedKernelRegressorCV(
        "gradient-flow", rule="path-gcv", kernel="laplacian", fit_intercept=False
    ),
    st.StoppedKernelRegressorCV("ridge", stops=[1.0, 10.0], kernel="precomputed"),
    st.StoppedKernelClassifier("ridge", 5.0, kernel="matern", gamma="auto"),
    st.BandedRegressorCV({"first": slice(0, 1), "rest": slice(1, None)}, n_draws=1, n_starts=1),
]


def expected_failures(model):
    """Return the checks that fail, and why."""
    kernel = getattr(model, "kernel", None)
    if kernel == "precomputed":
        rounded = "rounded to whole numbers, the kernel is not positive semi-definite"
        return {"check_estimators_dtypes": rounded}
    # where rows are there three times, the best stop of the default methods is least squares, which
    # predicts a left-out row exactly by its copies at any weights; path GCV counts a weight as rows
    exact = model.method == "auto" or getattr(model, "rule", "loo") == "path-gcv"
    is_drawn = kernel is not None and (model.n_landmarks or model.gamma == "auto")
    of_left_out = hasattr(model, "calibration")  # probabilities of classifiers
    if (is_drawn or of_left_out) and not exact:
        copies = "leaving a row of weight 2 out removes both copies, or other rows are drawn"
        kinds = ("dense", "sparse")
        return {f"check_sample_weight_equivalence_on_{one}_data": copies for one in kinds}
    return {}


@parametrize_with_checks(ALWAYS + SOMETIMES * (SOAK), expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::stoptime.StopWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
