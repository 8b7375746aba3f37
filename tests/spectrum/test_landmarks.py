"""Kernels by landmarks: against explicit features, refits, the exact kernel, and all containers."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import KFold, cross_val_score

import stoptime as st
from stoptime.estimators import kernel, kernel_search
from stoptime.spectrum import landmarks
from stoptime.spectrum.radial import Radial


@pytest.fixture
def data(rng):
    X = rng.standard_normal((260, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(260)


def explicit(model, X):
    """Return features from the formula, by another root of the same matrix."""
    Z = model.X_fit_
    kernel = Radial(model.kernel_, model.gamma_)
    values, vectors = np.linalg.eigh(kernel(Z, Z))
    return kernel(X, Z) @ (vectors / np.sqrt(values + landmarks.JITTER * len(Z)))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern"])
@pytest.mark.parametrize("weighted", [True, False])
def test_landmarks_are_linear_least_squares_on_features(data, rng, fit_intercept, name, weighted):
    X, y = data
    y = np.column_stack([y, X[:, 0] ** 2])
    weights = rng.uniform(0.2, 2, len(y)) if weighted else None
    options = {"method": ["ridge", "gradient-flow"], "fit_intercept": fit_intercept}
    model = st.StoppedKernelRegressorCV(kernel=name, gamma=0.3, n_landmarks=40, **options).fit(
        X, y, weights
    )
    assert model.X_fit_.shape == (40, 3)
    assert model.dual_coef_.shape == (40, 2)
    primal = st.StoppedRegressorCV(**options).fit(explicit(model, X), y, weights)
    assert model.stop_ == pytest.approx(primal.stop_, rel=1e-5)
    assert model.choice_.error == pytest.approx(primal.choice_.error, rel=1e-9)
    new = rng.standard_normal((5, 3))
    found = model.predict(new)
    np.testing.assert_allclose(found, primal.predict(explicit(model, new)), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        model.left_out_residuals_, primal.left_out_residuals_, rtol=1e-6, atol=1e-8
    )
    expected = primal.predict_interval(explicit(model, new))
    np.testing.assert_allclose(model.predict_interval(new), expected, rtol=1e-6, atol=1e-8)


def test_all_rows_as_landmarks_are_the_kernel(data):
    X, y = data
    options = {"kernel": "matern", "gamma": 0.5}
    exact = st.StoppedKernelRegressorCV("ridge", n_landmarks=len(y), **options).fit(X, y)
    assert exact.n_landmarks_ is None
    near = st.StoppedKernelRegressorCV("ridge", n_landmarks=len(y) - 1, **options).fit(X, y)
    assert near.n_landmarks_ == len(y) - 1
    # the row that is no landmark is predicted a little less well
    assert np.std(near.predict(X) - exact.predict(X)) < 0.01 * np.std(exact.predict(X))


@pytest.mark.parametrize("kind", ["array", "float32", "memmap", "sparse", "torch", "torch32"])
def test_containers_agree(data, tmp_path, kind):
    X, y = data
    options = {"kernel": "laplacian", "gamma": "auto", "n_landmarks": 50, "rng": 3}
    expected = st.StoppedKernelRegressorCV("ridge", **options).fit(X, y)
    rows = X
    if kind == "memmap":
        np.save(tmp_path / "rows.npy", X)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    if kind == "sparse":
        rows = sparse.csr_array(X)
    if kind == "float32":
        rows = X.astype(np.float32)
    response = y
    if kind.startswith("torch"):
        torch = pytest.importorskip("torch")
        rows = torch.from_numpy(X)
        rows = rows.float() if kind == "torch32" else rows
        response = torch.from_numpy(y)
    model = st.StoppedKernelRegressorCV("ridge", **options).fit(rows, response)
    single = kind.endswith("32")
    assert model.gamma_ == pytest.approx(expected.gamma_, rel=1e-5)
    assert model.choice_.error == pytest.approx(expected.choice_.error, rel=1e-3)
    predicted = model.predict(rows)
    assert type(predicted) is (type(rows) if kind.startswith("torch") else np.ndarray)
    assert predicted.dtype == (rows.dtype if single else predicted.dtype)
    tolerance = 1e-2 if single else 1e-6
    np.testing.assert_allclose(np.asarray(predicted), expected.predict(X), atol=tolerance)
    found = np.asarray(model.predict_interval(rows[:4]))
    np.testing.assert_allclose(found, expected.predict_interval(X[:4]), atol=tolerance)


def test_folds_and_validation_rows_see_the_same_landmarks(data):
    X, y = data
    options = {"kernel": "rbf", "gamma": 0.3, "n_landmarks": 30}
    stops = [1.0, 30.0]
    folds = KFold(4)
    model = st.StoppedKernelRegressorCV("ridge", stops, cv=folds, **options).fit(X, y)
    features = explicit(model, X)
    for stop, error in zip(model.stops_, model.errors_, strict=True):
        one = st.StoppedRegressor("ridge", stop)
        scores = cross_val_score(one, features, y, cv=folds, scoring="neg_mean_squared_error")
        assert error == pytest.approx(-scores.mean(), rel=1e-6)
    held = st.StoppedKernelRegressorCV(
        "ridge", stops, rule=st.HoldOut(X[:50], y[:50]), **options
    ).fit(X, y)
    primal = st.StoppedRegressorCV("ridge", stops, rule=st.HoldOut(features[:50], y[:50]))
    np.testing.assert_allclose(held.errors_, primal.fit(features, y).errors_, rtol=1e-6)
    with pytest.raises(ValueError, match="features"):
        st.StoppedKernelRegressorCV(rule=st.HoldOut(X[:, :1], y), n_landmarks=9).fit(X, y)


def test_features_are_never_all_in_memory(data, monkeypatch):
    X, y = data
    read = []
    original = landmarks.LandmarkFeatures.values

    def counted(self, rows):
        read.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(landmarks, "KERNEL_VALUES", 64 * 40)
    monkeypatch.setattr(landmarks.LandmarkFeatures, "values", counted)
    model = st.StoppedKernelRegressorCV(kernel="rbf", gamma=0.3, n_landmarks=40).fit(X, y)
    assert max(read) <= 260  # the second pass cuts blocks by the size of a cache
    assert sum(read) == 2 * 260 + 64  # two passes, and a first guess of the means
    assert read[1:6] == [64, 64, 64, 64, 4]
    read.clear()
    model.predict(X)
    assert read == [64, 64, 64, 64, 4]


def test_many_rows_take_landmarks_with_a_note(rng, monkeypatch):
    monkeypatch.setattr(kernel, "MOST_EXACT", 500)
    monkeypatch.setattr(kernel, "MANY_LANDMARKS", 100)
    monkeypatch.setattr(kernel_search, "MOST_EXACT", 500)
    monkeypatch.setattr(kernel_search, "MOST_COMPARED", 300)
    X = rng.standard_normal((1200, 2))
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(1200)
    with pytest.warns(UserWarning, match="With 1200 rows the kernel matrix is large: 100 of them"):
        model = st.StoppedKernelRegressorCV("ridge").fit(X, y)
    assert model.n_landmarks_ == 100
    assert {one.n_rows for one in model.candidates_} == {300, 500}
    best = model.candidates_[0]
    assert (best.kernel, best.gamma, best.n_rows) == (model.kernel_, model.gamma_, 500)
    assert model.choice_.error < 0.11
    again = clone(model).set_params(n_landmarks=100).fit(X, y)  # a wish needs no note
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    other = clone(again).set_params(rng=1).fit(X, y)
    assert not np.array_equal(other.X_fit_, model.X_fit_)


def test_classes_probabilities_and_pickles():
    X, y = make_moons(400, noise=0.2, random_state=0)
    options = {"kernel": "rbf", "n_landmarks": 60, "scoring": "neg_log_loss"}
    model = st.StoppedKernelClassifierCV("ridge", **options).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.n_landmarks_ == 60
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    fixed = st.StoppedKernelClassifier("ridge", 100.0, kernel="matern", gamma=1.0, n_landmarks=60)
    assert fixed.fit(X, y).score(X, y) > 0.95
    torch = pytest.importorskip("torch")
    rows, labels = torch.from_numpy(X), torch.from_numpy(y)
    tensors = st.StoppedKernelClassifierCV("ridge", **options).fit(rows, labels)
    np.testing.assert_allclose(tensors.predict_proba(rows), model.predict_proba(X), atol=1e-6)


def test_other_kernels_and_a_stop_by_marginal_likelihood(data):
    X, y = data
    poly = st.StoppedKernelRegressor(
        "ridge", 1e4, kernel="poly", degree=3, gamma=1.0, n_landmarks=60
    ).fit(X, y)
    exact = clone(poly).set_params(n_landmarks=None).fit(X, y)
    np.testing.assert_allclose(poly.predict(X), exact.predict(X), atol=1e-3)  # of rank 20
    oracle = st.StoppedKernelRegressor(kernel="rbf", gamma=0.3, n_landmarks=60).fit(X, y)
    assert oracle.score(X, y) > 0.9


def test_rows_without_weight_are_no_landmarks(data):
    X, y = data
    weights = (np.arange(len(y)) % 4 == 0).astype(float)
    options = {"kernel": "rbf", "gamma": 0.3, "n_landmarks": 100}
    model = st.StoppedKernelRegressorCV("ridge", **options).fit(X, y, weights)
    assert model.n_landmarks_ == len(model.X_fit_) == len(model.dual_coef_) == weights.sum()


def test_rules_of_new_rows_compare_kernels_with_their_landmarks(data):
    X, y = data
    new = np.arange(200, 260)
    rule = st.HoldOut(X[new], y[new])
    model = st.StoppedKernelRegressorCV("ridge", rule=rule, n_landmarks=100).fit(X[:200], y[:200])
    assert model.candidates_[0].error == model.choice_.error
    alone = st.StoppedKernelRegressorCV(
        "ridge", rule=rule, kernel=model.kernel_, gamma=model.gamma_, standardise=True
    )
    alone.set_params(n_landmarks=100).fit(X[:200], y[:200])
    assert model.choice_.error == pytest.approx(alone.choice_.error, rel=1e-6)
    error = np.mean((model.predict(X[new]) - y[new]) ** 2)
    assert model.choice_.error == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("n_landmarks", [None, 50])
def test_new_rows_go_where_the_model_is(data, n_landmarks):
    torch = pytest.importorskip("torch")
    X, y = data
    tensor, response = torch.from_numpy(X), torch.from_numpy(y)
    host = st.StoppedKernelRegressorCV(kernel="matern", gamma=0.5, n_landmarks=n_landmarks)
    there = clone(host).fit(tensor, response)
    host.fit(X, y)
    # all rows of a tensor are landmarks
    assert there.n_landmarks_ == (n_landmarks or len(y))
    expected = host.predict(X)
    for model, kind in ((host, np.ndarray), (there, torch.Tensor)):
        for rows in (X, tensor):
            assert type(model.predict(rows)) is kind
            np.testing.assert_allclose(np.asarray(model.predict(rows)), expected, atol=1e-5)
    assert there.choice_.error == pytest.approx(host.choice_.error, rel=1e-6)
    half = clone(there).fit(tensor.float(), response).predict(X)
    assert half.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_landmarks": 0}, "positive whole number"),
        ({"n_landmarks": 2.5}, "positive whole number"),
        ({"kernel": "precomputed", "n_landmarks": 3}, "no rows"),
    ],
)
def test_wrong_numbers_of_landmarks(data, options, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        st.StoppedKernelRegressorCV(**options).fit(X, y)


def test_tensors_say_what_they_need(data):
    torch = pytest.importorskip("torch")
    X, y = (torch.from_numpy(one) for one in data)
    with pytest.raises(TypeError, match="runs where they are"):
        st.StoppedKernelRegressorCV(kernel="poly", n_landmarks=9).fit(X, y)
    model = st.StoppedKernelRegressorCV("ridge", n_landmarks=20).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
    X[3, 1] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        st.StoppedKernelRegressorCV(n_landmarks=9).fit(X, y)
