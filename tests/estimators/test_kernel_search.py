"""Kernels and widths that are chosen: against each candidate alone, refits, copies, and habits."""

import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st
from stoptime.estimators import kernel_search
from stoptime.spectrum.radial import ORDERS, Radial, distances
from stoptime.stopping.comparison import Search

X, y = load_diabetes(return_X_y=True)
X, y = X[:120] * np.geomspace(1e-3, 1e3, 10), y[:120]


@pytest.mark.parametrize("weights", [None, np.random.default_rng(0).uniform(0.2, 2, 120)])
def test_the_choice_is_the_best_of_candidates_that_are_each_right(weights):
    model = st.StoppedKernelRegressorCV().fit(X, y, weights)
    names = {one.kernel for one in model.candidates_}
    assert names == {"linear", *ORDERS}
    assert len(model.candidates_) >= 1 + 4 * 3 + 2 * (model.kernel_ != "linear")
    for one in model.candidates_:
        alone = st.StoppedKernelRegressorCV(kernel=one.kernel, gamma=one.gamma, standardise=True)
        alone.fit(X, y, weights)
        assert one.error == pytest.approx(alone.choice_.error, rel=1e-8)
        assert one.n_rows == 120
    best = model.candidates_[0]
    assert (best.kernel, best.gamma) == (model.kernel_, model.gamma_)
    assert best.error == model.choice_.error == min(one.error for one in model.candidates_)


def test_distances_are_computed_once_and_few_kernels_see_all_rows(monkeypatch, rng):
    rows = rng.standard_normal((1000, 3))
    response = np.sin(2 * rows[:, 0]) + 0.3 * rng.standard_normal(1000)
    computed = []

    def counted(one, other, order):
        computed.append((len(one), len(other), order))
        return distances(one, other, order)

    monkeypatch.setattr(kernel_search, "distances", counted)
    model = st.StoppedKernelRegressorCV("ridge").fit(rows, response)
    assert sorted(computed[:2]) == [(1000, 1000, 1), (1000, 1000, 2)]
    assert len(computed) == 4  # the others look for copies
    counts = [one.n_rows for one in model.candidates_]
    assert sorted(set(counts)) == [250, 500, 1000]
    assert counts.count(250) >= 5  # of the thirteen that began
    assert counts.count(1000) <= 4 + 4
    assert model.score(rows, response) > 0.8


@pytest.mark.parametrize("name", ORDERS)
def test_kernels_are_those_of_the_field(name, rng):
    one, other = rng.standard_normal((7, 3)), rng.standard_normal((4, 3))
    values = Radial(name, 0.7)(one, other)
    if name == "matern":
        expected = Matern(length_scale=1 / 0.7, nu=1.5)(one, other)
    else:
        expected = PAIRWISE_KERNEL_FUNCTIONS[name](one, other, gamma=0.7)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    for kind in (sparse.csr_array, sparse.csr_matrix):
        np.testing.assert_allclose(Radial(name, 0.7)(kind(one), kind(other)), values, rtol=1e-10)
    torch = pytest.importorskip("torch")
    found = Radial(name, 0.7)(torch.from_numpy(one), torch.from_numpy(other))
    np.testing.assert_allclose(found.numpy(), values, rtol=1e-12)


def test_units_and_dead_columns_do_not_matter():
    model = st.StoppedKernelRegressorCV("ridge").fit(X, y)
    dead = np.c_[X, np.full(120, 7e8), 1e-33 * np.random.default_rng(0).standard_normal(120)]
    other = st.StoppedKernelRegressorCV("ridge").fit(dead * 3.7, y)
    np.testing.assert_allclose(other.predict(dead * 3.7), model.predict(X), rtol=1e-6)
    scaled = make_pipeline(
        StandardScaler(), st.StoppedKernelRegressorCV("ridge", standardise=False)
    ).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X), model.predict(X), rtol=1e-6)
    thin = st.StoppedKernelRegressorCV("ridge").fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), model.predict(X), rtol=1e-5)
    np.testing.assert_allclose(thin.predict(X), model.predict(X), rtol=1e-5)
    np.testing.assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X), rtol=1e-12)


def test_folds_groups_scores_and_other_rules(rng):
    """Comparisons on a part of the rows keep folds, groups and validation sets."""
    rows = rng.standard_normal((500, 2))
    response = np.sin(2 * rows[:, 0]) + 0.2 * rng.standard_normal(500)
    groups = np.arange(500) % 26
    folds = list(GroupKFold(5).split(rows, response, groups))
    by_groups = st.StoppedKernelRegressorCV("ridge", cv=GroupKFold(5)).fit(
        rows, response, groups=groups
    )
    by_folds = st.StoppedKernelRegressorCV("ridge", cv=folds).fit(rows, response)
    assert by_groups.candidates_ == by_folds.candidates_
    fixed = st.StoppedKernelRegressorCV(
        "ridge",
        cv=folds,
        kernel=by_folds.kernel_,
        gamma=by_folds.gamma_,
        standardise=True,
    ).fit(rows, response)
    assert fixed.choice_.error == pytest.approx(by_folds.choice_.error, rel=1e-9)
    for options in (
        {"rule": st.HoldOut(rows[:50], response[:50])},
        {"scoring": "neg_mean_absolute_error"},
        {"rule": "path-gcv"},
        {"rule": "plug-in"},
        {"rule": "one-standard-error"},
    ):
        model = st.StoppedKernelRegressorCV("ridge", **options).fit(rows, response)
        assert {one.n_rows for one in model.candidates_} == {250, 500}
        assert model.score(rows, response) > 0.85
        assert len(model.candidates_) >= 14


def test_scores_of_any_sign_compare_kernels_and_methods():
    """R² on left-out predictions orders all fits as the squared error does."""
    by_error = st.StoppedKernelRegressorCV().fit(X, y)
    by_score = st.StoppedKernelRegressorCV(scoring="r2").fit(X, y)
    assert (by_score.kernel_, by_score.gamma_) == (by_error.kernel_, by_error.gamma_)
    assert by_score.method_ == by_error.method_
    assert by_score.best_score_ == pytest.approx(1 - by_error.choice_.error / y.var(), rel=1e-3)
    assert [one.error for one in by_score.candidates_] == sorted(
        one.error for one in by_score.candidates_
    )


def test_a_fitted_model_keeps_no_distances(monkeypatch):
    made = []

    class Watched(kernel_search.Distances):
        def __init__(self, *parts):
            super().__init__(*parts)
            made.append(weakref.ref(self))

    monkeypatch.setattr(kernel_search, "Distances", Watched)
    model = st.StoppedKernelRegressorCV("ridge").fit(X, y)
    gc.collect()
    assert [one() for one in made] == [None]
    assert model.candidates_  # the model is still there


def test_widths_go_on_where_the_best_is_the_widest():
    """The linear function of a distance is the limit of wide Laplacian kernels."""
    rows = np.linspace(0, 1, 60)[:, None]
    response = np.abs(rows[:, 0] - 0.37)
    model = st.StoppedKernelRegressorCV("ridge", kernel="laplacian").fit(rows, response)
    widths = [1 / one.gamma for one in model.candidates_]
    assert max(widths) / min(widths) > 2**7.5
    assert len(widths) == len(set(widths))


def test_a_given_stop_has_its_own_best_kernel():
    model = st.StoppedKernelRegressor("ridge", 30.0, kernel="auto", gamma="auto").fit(X, y)
    errors = {}
    for one in model.candidates_:
        alone = st.StoppedKernelRegressorCV(
            "ridge", stops=[30.0], kernel=one.kernel, gamma=one.gamma, standardise=True
        ).fit(X, y)
        errors[one.kernel, one.gamma] = alone.choice_.error
    assert model.stop_ == 30.0
    assert min(errors, key=errors.get) == (model.kernel_, model.gamma_)


def test_copies_are_noticed_and_replicates_are_not(rng):
    rows = rng.standard_normal((150, 8))
    response = rows[:, 0] + rng.standard_normal(150)
    copies = np.r_[rows, rows + 1e-4 * rng.standard_normal(rows.shape)]
    twice = np.r_[response, response]
    with pytest.warns(st.StopWarning, match="100% of the rows have a near copy"):
        misled = st.StoppedKernelRegressorCV("ridge").fit(copies, twice)
    groups = np.arange(300) % 150
    honest = st.StoppedKernelRegressorCV("ridge", cv=GroupKFold(5))
    honest.fit(copies, twice, groups=groups)  # says nothing
    new = rng.standard_normal((2000, 8))
    truth = new[:, 0]
    assert np.mean((honest.predict(new) - truth) ** 2) < 0.5 * np.mean(
        (misled.predict(new) - truth) ** 2
    )
    with pytest.warns(st.StopWarning, match="100% of the rows have a near copy"):
        st.StoppedKernelRegressorCV("ridge", n_landmarks=100).fit(copies, twice)
    # measured again, with new noise: nothing is wrong
    again = np.r_[response, rows[:, 0] + rng.standard_normal(150)]
    st.StoppedKernelRegressorCV("ridge").fit(copies, again)


def test_only_warnings_of_the_chosen_kernel_are_shown(monkeypatch):
    best = Search.best

    def warn(self, data, groups=None):
        found = best(self, data, groups)
        warnings.warn(f"of error {float(found[1].error):.12g}", st.StopWarning, stacklevel=1)
        return found

    monkeypatch.setattr(Search, "best", warn)
    with pytest.warns(st.StopWarning, match="of error") as caught:
        model = st.StoppedKernelRegressorCV("ridge").fit(X, y)
    assert [str(one.message) for one in caught] == [f"of error {model.choice_.error:.12g}"]
    assert caught[0].filename == __file__


def test_a_choice_can_be_cloned_and_searched():
    model = st.StoppedKernelRegressorCV("ridge").fit(X, y)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    grid = {"kernel": ["rbf", "laplacian"]}
    found = GridSearchCV(st.StoppedKernelRegressorCV("ridge"), grid, cv=KFold(3)).fit(X, y)
    assert found.best_estimator_.gamma_ > 0


def test_classes_take_the_kernel_of_coded_labels():
    labels = np.where(y > 150, "high", "low")
    model = st.StoppedKernelClassifierCV("ridge").fit(X, labels)
    peer = st.StoppedKernelRegressorCV("ridge").fit(X, np.where(labels == "low", 1.0, -1.0))
    assert (model.kernel_, model.gamma_) == (peer.kernel_, peer.gamma_)
    assert model.candidates_ == peer.candidates_
    assert model.score(X, labels) > 0.7
    by_loss = st.StoppedKernelClassifierCV("ridge", scoring="neg_log_loss").fit(X, labels)
    np.testing.assert_allclose(by_loss.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.0}, "name the kernel"),
        ({"kernel": "rbf", "gamma": "scale"}, "gamma must be a number"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma must be"),
        ({"kernel": "rbf", "gamma": np.nan}, "gamma must be"),
        ({"kernel": "gaussian"}, "matern"),
        ({"standardise": "yes"}, "standardise must be"),
        ({"kernel": "rbf", "gamma": [0.01, 0.1]}, r"gamma must be a number, None or \"auto\"; got"),
        ({"kernel": "precomputed", "standardise": True}, "no columns"),
        ({"method": "conjugate-gradient", "rule": "discrepancy"}, "name the kernel"),
    ],
)
def test_wrong_parameters_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        st.StoppedKernelRegressorCV(**options).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        st.StoppedKernelRegressorCV("ridge"),
        st.StoppedKernelRegressorCV("ridge", kernel="rbf", n_landmarks=30, fit_intercept=False),
        st.StoppedKernelRegressor("ridge", 50.0, kernel="polynomial", degree=2),
        st.StoppedKernelClassifierCV("ridge", n_landmarks=30),
        st.StoppedKernelClassifier("ridge", 50.0),
    ],
    ids=str,
)
def test_models_are_saved_and_loaded(model, tmp_path):
    rows = X / X.std(axis=0)
    is_class = "Classifier" in type(model).__name__
    response = np.digitize(y, [100, 200]) if is_class else y
    model.fit(rows, response)
    st.save(model, tmp_path / "model.json")
    loaded = st.load(tmp_path / "model.json")
    st.save(loaded, tmp_path / "again.json")  # as it was loaded
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()
    refitted = clone(loaded).fit(rows, response)
    for one in (loaded, pickle.loads(pickle.dumps(loaded))):
        if is_class:
            np.testing.assert_allclose(one.predict_proba(rows), model.predict_proba(rows))
            np.testing.assert_array_equal(one.predict(rows), model.predict(rows))
        else:
            np.testing.assert_allclose(one.predict(rows), model.predict(rows), rtol=1e-10)
    if model.n_landmarks_ is None:  # others would be drawn
        found, expected = refitted.dual_coef_, loaded.dual_coef_
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    if hasattr(model, "choice_") and not is_class:
        expected = model.predict_interval(rows[:3], kind="jackknife")
        np.testing.assert_allclose(loaded.predict_interval(rows[:3]), expected)
    with pytest.raises(TypeError, match="no linear model"):
        st.to_sklearn(model)


def test_leave_one_out_of_streams_is_refused_before_they_are_read():
    def read():
        raise AssertionError

    for model in (st.StoppedKernelRegressorCV(), st.StoppedKernelRegressorCV(scoring="r2")):
        with pytest.raises(ValueError, match="cv=5"):
            model.fit(st.Chunks(read, 3, 100))


# so narrow that the kernel matrix is well conditioned: else features of other blocks differ
@pytest.mark.parametrize("options", [{"kernel": "rbf", "gamma": 0.5}, {"n_landmarks": 40}])
@pytest.mark.parametrize("kind", ["chunks", "dask"])
def test_streams_are_features_of_landmarks(kind, options, rng):
    """K-fold from moments equals a linear model of the features, fitted in memory."""
    rows = rng.standard_normal((300, 3))
    response = np.sin(2 * rows[:, 0]) + 0.2 * rng.standard_normal(300)
    weights = rng.uniform(0.5, 2, 300)
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        parts = [da.from_array(one, chunks=(70, *one.shape[1:])) for one in (rows, response)]
        data = *parts, da.from_array(weights, chunks=70)
        new = parts[0]
    else:
        new = st.Chunks.of(rows, response, weights, rows=70)
        data = (new,)
    model = st.StoppedKernelRegressorCV("ridge", cv=4, **options)
    model.fit(*data)
    assert model.n_landmarks_ == min(options.get("n_landmarks", 2000), 300)
    features = model._features(rows)
    peer = st.StoppedRegressorCV("ridge", cv=4).fit(features, response, weights)
    assert model.choice_.error == pytest.approx(peer.choice_.error, rel=1e-6)
    np.testing.assert_allclose(model.predict(rows), peer.predict(features), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.asarray(model.predict(new)), model.predict(rows), rtol=1e-9)
    assert model.score(rows, response) > 0.8
    with pytest.raises(ValueError, match="2 features, but 3"):
        model.predict(new[:, :2] if kind == "dask" else st.Chunks.of(rows[:, :2]))
    if kind == "chunks":
        with pytest.raises(TypeError, match="no rows to predict"):
            model.predict(st.Statistics.of(rows, response))
        assert model.score(new) == pytest.approx(model.score(rows, response, weights))
        fresh = rng.standard_normal((300, 3))
        later = np.sin(2 * fresh[:, 0]) + 0.2 * rng.standard_normal(300)
        ends = model.predict_interval(fresh, kind="cv+")
        assert 0.8 < np.mean((ends[:, 0] < later) & (later < ends[:, 1])) < 0.98
        with pytest.raises(ValueError, match="cv"):
            st.StoppedKernelRegressorCV("ridge", n_landmarks=40).fit(new)
        given = st.StoppedKernelRegressor("ridge", 30.0, n_landmarks=40).fit(new)
        assert given.score(new) > 0.5


def test_a_model_of_sparse_rows_is_saved(tmp_path):
    rows = sparse.csr_array(X / X.std(axis=0))
    model = st.StoppedKernelRegressorCV("ridge").fit(rows, y)
    st.save(model, tmp_path / "model.json")
    loaded = st.load(tmp_path / "model.json")
    for some in (rows, rows.toarray()):
        np.testing.assert_allclose(loaded.predict(some), model.predict(rows), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::stoptime.PreparationWarning")
def test_tables_are_prepared_and_fitted_in_one_pipeline(rng, tmp_path):
    """Words become indicators, next to numbers with gaps, and the whole is saved as one file."""
    pd = pytest.importorskip("pandas")
    size = rng.uniform(0, 3, 200)
    colour = rng.choice(["red", "green", "blue"], 200)
    response = np.where(colour == "red", np.sin(2 * size), size) + 0.1 * rng.standard_normal(200)
    frame = pd.DataFrame({"size": np.where(rng.random(200) < 0.05, np.nan, size), "colour": colour})
    model = make_pipeline(st.TablePreparation(), st.StoppedKernelRegressorCV("ridge"))
    linear = make_pipeline(st.TablePreparation(), st.StoppedRegressorCV("ridge"))
    model.fit(frame, response)
    assert model.score(frame, response) > 0.8 > linear.fit(frame, response).score(frame, response)
    st.save(model, tmp_path / "table.json")
    loaded = st.load(tmp_path / "table.json")
    np.testing.assert_allclose(loaded.predict(frame), model.predict(frame), rtol=1e-9)
    ends = st.predict_interval(model, frame)
    assert ends.shape == (200, 2)
