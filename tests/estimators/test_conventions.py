"""Habits of scikit-learn's users: searches, alpha, batches, groups, shapes, and mistakes."""

import gc
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import (
    BaseCrossValidator,
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    StratifiedGroupKFold,
    cross_val_score,
    cross_validate,
)

import stoptime as st

X, y = load_diabetes(return_X_y=True)
SPECTRUM = st.decompose(X, y)
GROUPS = np.arange(len(y)) % 7


# ---------------------------------------------------------------- parameters of methods


@pytest.mark.parametrize("method", ["nesterov-flow", st.AcceleratedFlow(4.0)])
def test_a_grid_search_sets_the_parameter_of_a_method(method):
    frictions = [3.0, 9.0]
    model = st.StoppedRegressor(method, stop=200.0)
    found = GridSearchCV(model, {"method__friction": frictions}, cv=KFold(4)).fit(X, y)
    each = [st.StoppedRegressor(st.AcceleratedFlow(one), stop=200.0) for one in frictions]
    scores = [cross_val_score(one, X, y, cv=KFold(4)).mean() for one in each]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], scores, rtol=1e-12)
    assert model.method == method  # the methods of others are never changed


KINDS = [
    "StoppedRegressor",
    "StoppedClassifier",
    "StoppedKernelRegressor",
    "StoppedKernelClassifier",
]


@pytest.mark.parametrize("name", [*KINDS, *(f"{kind}CV" for kind in KINDS)])
def test_parameters_of_a_method_are_parameters_of_the_estimator(name):
    model = getattr(st, name)(st.HeavyBallFlow(damping=0.5))
    assert model.get_params()["method__damping"] == 0.5
    assert "method__damping" not in model.get_params(deep=False)
    other = clone(model)
    assert other.method == model.method
    other.set_params(method__damping=2.0)
    assert (other.method.damping, model.method.damping) == (2.0, 0.5)
    other.set_params(method="iterated-ridge", method__times=3)  # in any order
    assert other.method == st.IteratedRidge(3)
    nested = TransformedTargetRegressor(clone(model)).set_params(regressor__method__damping=4.0)
    assert nested.regressor.method.damping == 4.0


@pytest.mark.parametrize("name", [*st.METHODS, *st.ITERATIONS])
def test_every_method_has_its_parameters(name):
    method = st.get_method(name)
    assert type(method)(**method.get_params()) == method
    assert method.with_params() == method
    assert clone(method) is method


# ---------------------------------------------------------------- alpha and best score


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 3, len(y))])
def test_alpha_is_that_of_ridge(weights):
    model = st.StoppedRegressorCV("ridge").fit(X, y, weights)
    peer = Ridge(alpha=model.alpha_).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-9)
    fixed = st.StoppedRegressor("ridge", stop=model.stop_).fit(X, y, weights)
    assert fixed.alpha_ == pytest.approx(model.alpha_, rel=1e-12)
    assert model.best_score_ == -model.choice_.error


def test_alpha_of_a_kernel_of_targets_and_of_the_limits():
    rows = X[:80]
    options = {"kernel": "rbf", "gamma": 5.0}
    kernel = st.StoppedKernelRegressor("ridge", 10.0, fit_intercept=False, **options)
    kernel.fit(rows, y[:80])
    peer = KernelRidge(alpha=kernel.alpha_, **options).fit(rows, y[:80])
    np.testing.assert_allclose(kernel.predict(rows), peer.predict(rows), rtol=1e-8)
    Y = np.c_[y, X[:, 0] + y / 100]
    own = st.StoppedRegressorCV("nesterov-flow", per_target=True).fit(X, Y)
    one = st.equivalent_penalty(own.method_, own.stop_[1]) * len(y)
    assert own.alpha_.shape == (2,)
    assert own.alpha_[1] == pytest.approx(one, rel=1e-12)
    assert st.StoppedRegressor(stop=np.inf).fit(X, y).alpha_ == 0
    assert st.StoppedRegressor(stop=0).fit(X, y).alpha_ == np.inf


def test_alpha_where_there_is_none():
    assert not hasattr(st.StoppedRegressor(), "alpha_")
    for model in (
        st.StoppedRegressor("conjugate-gradient", stop=3),
        st.BandedRegressorCV([0] * 10),
    ):
        with pytest.raises(AttributeError, match="alpha_"):
            _ = model.fit(X, y).alpha_


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("stop", [None, 100.0])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 3, len(y))])
def test_batches_give_the_fit_to_all_rows(stop, weights):
    model = st.StoppedRegressor(stop=stop)
    for rows in np.array_split(np.arange(len(y)), 5):
        model.partial_fit(X[rows], y[rows], None if weights is None else weights[rows])
    whole = st.StoppedRegressor(stop=stop).fit(X, y, weights)
    size = np.abs(whole.coef_).max()
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-12)
    assert model.stop_ == pytest.approx(whole.stop_, rel=1e-9)
    assert model.alpha_ == pytest.approx(whole.alpha_, rel=1e-9)


def test_batches_are_forgotten_by_fit_and_kept_by_a_pickle():
    half = slice(0, 200), slice(200, None)
    begun = st.StoppedRegressor(stop=30.0).partial_fit(X[half[0]], y[half[0]])
    again = pickle.loads(pickle.dumps(begun)).partial_fit(X[half[1]], y[half[1]])
    whole = st.StoppedRegressor(stop=30.0).fit(X, y)
    np.testing.assert_allclose(again.coef_, whole.coef_, rtol=1e-9)
    begun.fit(X[half[1]], y[half[1]]).partial_fit(X[half[0]], y[half[0]])
    only = st.StoppedRegressor(stop=30.0).fit(X[half[0]], y[half[0]])
    np.testing.assert_allclose(begun.coef_, only.coef_, rtol=1e-9)


def test_batches_that_do_not_fit():
    frame = pd.DataFrame(X[:50]).rename(columns="x{}".format)
    model = st.StoppedRegressor().partial_fit(frame, y[:50])
    for wrong, message in [
        (frame.iloc[:, :3], "eature"),
        (frame[frame.columns[::-1]], "feature names"),
        (frame * np.nan, "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(wrong, y[:50])
    only = st.StoppedRegressor().partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(model.coef_, only.coef_)
    assert not hasattr(st.StoppedKernelRegressor(), "partial_fit")
    assert not hasattr(st.StoppedRegressorCV(), "partial_fit")


# ---------------------------------------------------------------- groups


class OwnSplitter(BaseCrossValidator):
    """A splitter that uses groups and does not say so."""

    def get_n_splits(self, *_args, **_options):
        return 1

    def split(self, _X, _y=None, groups=None):
        yield np.flatnonzero(groups > 2), np.flatnonzero(groups <= 2)


@pytest.mark.parametrize(
    "options",
    [
        *({"rule": name} for name in st.RULES),
        *({"cv": cv} for cv in (5, KFold(5), PredefinedSplit(GROUPS), [([0, 1, 2], [3, 4])])),
        {"rule": st.HoldOut(X[:9], y[:9] > 140)},
        {"rule": st.OneStandardError(st.CrossValidation(5))},
        {"cv": 3, "scoring": "neg_mean_absolute_error"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("estimator", [st.StoppedRegressorCV, st.StoppedClassifierCV])
def test_groups_that_would_be_ignored(estimator, options):
    if estimator is st.StoppedClassifierCV:
        options = {**options, "scoring": None}
    with pytest.raises(ValueError, match=r"ignores groups.*GroupKFold"):
        estimator("ridge", **options).fit(X, y > 140, groups=GROUPS)


@pytest.mark.parametrize(
    "cv", [GroupKFold(3), LeaveOneGroupOut(), StratifiedGroupKFold(3), OwnSplitter()], ids=repr
)
def test_groups_that_are_used(cv):
    label = (y > 140).astype(float)
    model = st.StoppedRegressorCV("ridge", [1.0, 30.0], cv=cv).fit(X, label, groups=GROUPS)
    folds = list(cv.split(X, label, GROUPS))
    again = st.StoppedRegressorCV("ridge", [1.0, 30.0], cv=folds).fit(X, label)
    np.testing.assert_allclose(model.errors_, again.errors_, rtol=1e-12)
    for options in ({"rule": st.CrossValidation(cv)}, {"cv": cv}):
        one = st.StoppedClassifierCV("ridge", [1.0, 30.0], **options)
        one.fit(X, label, groups=GROUPS)
        np.testing.assert_allclose(one.errors_, 4 * model.errors_, rtol=1e-9)


@pytest.mark.parametrize("make", [st.StoppedRegressorCV, st.StoppedClassifierCV])
def test_groups_are_routed_to_the_splitter(make):
    target = y > 140 if make is st.StoppedClassifierCV else y
    given = {"params": {"groups": GROUPS}, "error_score": "raise", "cv": GroupKFold(4)}
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(make(cv=GroupKFold(2)), X, target, **given)
    assert len(found["test_score"]) == 4


# ---------------------------------------------------------------- shapes and frames


def test_one_column_of_y_is_one_target(rng):
    column = X[:30, :1] + rng.normal(size=(30, 1))
    for given in (column, pd.DataFrame(column)):
        model, ridge = (one.fit(X[:30], given) for one in (st.StoppedRegressorCV(), RidgeCV()))
        assert model.predict(X).shape == ridge.predict(X).shape
        assert model.coef_.shape == ridge.coef_.shape
    same = st.StoppedRegressorCV().fit(X[:30], column[:, 0])
    np.testing.assert_array_equal(model.coef_, same.coef_)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_labels_have_the_message_of_scikit_learn(missing):
    labels = np.array(["a", "b", missing] * 10, dtype=object)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        st.StoppedClassifierCV().fit(X[:30], labels)


def test_frames_of_sparse_columns_are_sparse_matrices(rng):
    rows = rng.normal(size=(40, 4)) * (rng.random((40, 4)) < 0.5)
    frame = pd.DataFrame(rows).astype(pd.SparseDtype("float64", 0.0))
    model = st.StoppedRegressorCV().fit(frame, rows[:, 0] + rng.normal(size=40))
    np.testing.assert_allclose(model.predict(frame), model.predict(rows))
    labels = st.StoppedClassifierCV().fit(frame, rows[:, 0] > 0)
    np.testing.assert_array_equal(labels.predict(frame), labels.predict(rows))


# ---------------------------------------------------------------- mistakes in arguments


KNOWN = {"eigenvalues": [1, 0.1], "noise": 1, "n_samples": 9}
STEEP = np.random.default_rng(0).standard_normal((40, 6)) * np.geomspace(1, 1e-6, 6)
CUT_SHORT = st.decompose(STEEP, STEEP.sum(axis=1), max_gain=10.0)
WITH_A_TYPO = r'no parameter "fricton": did you mean "friction"\?'
MISTAKES = [
    (lambda: st.get_method("nesterov_flow"), ValueError, 'did you mean "nesterov-flow"'),
    (lambda: st.get_method("GradientFlow"), ValueError, 'did you mean "gradient-flow"'),
    (lambda: fitted(rule="pathgcv"), ValueError, 'did you mean "path-gcv"'),
    (lambda: st.get_rule("leave-one-out"), ValueError, 'did you mean "loo"'),
    (lambda: st.get_rule("LeaveOneOut"), ValueError, 'did you mean "loo"'),
    (lambda: st.get_rule("zzz"), ValueError, r"Unknown rule 'zzz'\. Choose one of loo"),
    (lambda: st.get_method(int), TypeError, "<class 'int'> is not a Method"),
    (
        lambda: st.decompose(X, y, penalty_matrix=st.Bands),
        TypeError,
        "Bands needs parameters: give an instance",
    ),
    (lambda: fitted(rule=st.HoldOut), TypeError, "HoldOut needs parameters: give an instance"),
    (lambda: fitted(cv=KFold), TypeError, r"write cv=KFold\(\)"),
    (lambda: st.StoppedClassifierCV(cv=KFold).fit(X, y > 140), TypeError, r"write cv=KFold\(\)"),
    (lambda: st.StoppedRegressor("auto", stop=3.0).fit(X, y), ValueError, "(?i)method"),
    (lambda: st.StoppedClassifier("auto", stop=3.0).fit(X, y > 140), ValueError, "(?i)method"),
    (lambda: of_method(fricton=3), ValueError, WITH_A_TYPO),
    (lambda: of_method("ridge", friction=3), ValueError, "Its parameters: none"),
    (lambda: of_method(friction=-1), ValueError, "friction must be"),
    (lambda: of_method("auto", friction=3), ValueError, "method__friction needs one method"),
    (lambda: of_method(["ridge"], friction=3), ValueError, "method__friction needs one method"),
    (lambda: st.StoppedRegressor().set_params(methods__step=1), ValueError, "Invalid parameter"),
    (lambda: st.StoppedRegressorCV().fit(X, y, groups=np.zeros(5)), ValueError, "groups"),
    (lambda: st.training_error(SPECTRUM, "ridge", [[1.0]]), ValueError, "one number or a list"),
    (
        lambda: st.bayes_risk("ridge", [[1.0]], signal=1, **KNOWN),
        ValueError,
        "one number or a list",
    ),
    (lambda: st.decompose(X, y, max_gain=np.nan), ValueError, "max_gain"),
    (lambda: st.decompose(X, y, max_gain=-1), ValueError, "max_gain"),
    (lambda: st.decompose(X, y, max_gain="all"), ValueError, "max_gain"),
    (
        lambda: st.leave_one_out(STEEP, STEEP.sum(axis=1), "ridge", [1.0], spectrum=CUT_SHORT),
        ValueError,
        "max_gain",
    ),
]


def of_method(method="accelerated-flow", **options):
    changes = {f"method__{name}": value for name, value in options.items()}
    return st.StoppedRegressorCV(method).set_params(**changes)


def fitted(**options):
    return st.StoppedRegressorCV(**options).fit(X, y)


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_mistakes_are_told_with_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_names_do_for_methods_everywhere():
    by_name, by_object = (
        (
            st.calibrate(method).stop,
            st.guarantee(method, 1.0).parameter_error,
            st.default_stops(SPECTRUM, method)[5],
            st.training_error(SPECTRUM, method, [3.0])[0],
            st.bounds.parameter_error(method).upper,
            st.bounds.risk_inflation(method, tolerance=1e-4).upper,
        )
        for method in ("nesterov-flow", st.AcceleratedFlow())
    )
    assert by_name == by_object


def test_a_class_in_the_place_of_an_instance():
    assert st.get_method(st.GradientFlow) == st.GradientFlow()
    assert st.get_rule(st.PathGCV) == st.PathGCV()
    model = st.StoppedRegressorCV(st.Ridge, rule=st.PathGCV).fit(X, y)
    np.testing.assert_array_equal(model.coef_, fitted(method="ridge", rule="path-gcv").coef_)
    assert st.Averaged(st.GradientDescent) == st.Averaged(st.GradientDescent())
    smooth = [st.decompose(X, y, penalty_matrix=one) for one in (st.Differences, st.Differences())]
    np.testing.assert_array_equal(smooth[0].eigenvalues, smooth[1].eigenvalues)


def test_methods_in_an_array_are_a_list_of_methods():
    names = ["ridge", "gradient-flow"]
    assert fitted(method=np.array(names)).method_ == fitted(method=names).method_


@pytest.mark.parametrize("stop", ["5", True, [True, False], ["1", "2"], 1j, None, [None]])
def test_stops_that_only_look_like_numbers(stop):
    with pytest.raises(ValueError, match="stop"):
        st.path(SPECTRUM, "nesterov-flow", stop)
    if stop is not None:
        with pytest.raises(ValueError, match="stop"):
            st.StoppedRegressor(stop=stop).fit(X, y)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1, 0.5], [0.1, 1]], "symmetric"),
        ([[1, 2], [2, 1]], "negative"),
        ([[1, np.nan], [0, 1]], "finite"),
    ],
)
def test_a_covariance_that_is_none(covariance, message):
    for function, signal in ((st.risk, [1, 1]), (st.bayes_risk, 1.0)):
        with pytest.raises(ValueError, match=message):
            function("ridge", [1.0], signal=signal, covariance=covariance, **KNOWN)


@pytest.mark.parametrize("value", ["yes", 1, None, 0.0])
def test_truth_values_that_are_none(value):
    for call in (
        lambda **option: st.StoppedRegressor(**option).fit(X, y),
        fitted,
        lambda **option: st.StoppedKernelRegressor(**option).fit(X, y),
        lambda **option: st.decompose(X, y, **option),
        lambda **option: st.decompose_kernel(X @ X.T, y, **option),
    ):
        with pytest.raises(TypeError, match="fit_intercept must be True or False"):
            call(fit_intercept=value)
    for name in ("per_target", "prefer_simple"):
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            fitted(**{name: value})
    assert st.decompose(X, y, fit_intercept=np.bool_(False)).fit_intercept is False


def test_a_model_that_cannot_be_written_is_told_by_the_name_that_was_given(tmp_path):
    path = tmp_path / "no folder" / "model.json"
    with pytest.raises(FileNotFoundError) as error:
        st.save(st.StoppedRegressor(stop=1.0).fit(X, y), path)
    assert str(error.value).endswith(f"No such file or directory: {str(path)!r}")


@pytest.mark.parametrize(
    "model",
    [
        st.StoppedRegressorCV(),
        st.StoppedRegressorCV(cv=5),
        st.StoppedRegressorCV("nesterov", per_target=True),
        st.StoppedKernelRegressorCV(),
        st.BandedRegressorCV(np.arange(10) // 4, n_draws=2, n_starts=1),
    ],
)
def test_large_arrays_of_a_search_are_freed_with_it(model):
    """A reference to itself keeps residuals of all rows until the garbage collector runs."""
    model.fit(X, y)  # what is imported and kept on first use
    gc.collect()
    gc.disable()
    try:
        model.fit(X, y)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = {type(one).__name__ for one in gc.garbage if "stoptime" in type(one).__module__}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == set()
