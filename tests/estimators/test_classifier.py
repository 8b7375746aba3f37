"""Classifiers: conventions, agreement with RidgeClassifier and with refits, probabilities."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score
from sklearn.model_selection import (
    KFold,
    cross_val_score,
    train_test_split,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import compute_sample_weight, get_tags

import stoptime as st


def standardised(loaded):
    X, y = loaded(return_X_y=True)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


def blobs(rng, classes, n=60, p=4):
    y = np.arange(n) % classes
    return rng.standard_normal((n, p)) + 1.5 * rng.standard_normal((classes, p))[y], y


@pytest.mark.parametrize("loaded", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 3.0}])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_coefficients_are_those_of_ridge_classifier(loaded, class_weight, fit_intercept):
    X, y = standardised(loaded)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    options = {"class_weight": class_weight, "fit_intercept": fit_intercept}
    model = st.StoppedClassifier("ridge", stop=50.0, **options).fit(X, y, weights)
    total = (weights * compute_sample_weight(class_weight, y)).sum()
    peer = RidgeClassifier(alpha=total / 50, **options).fit(X, y, weights)
    peer_coef = np.atleast_2d(peer.coef_)  # a vector since scikit-learn 1.9, for two classes
    np.testing.assert_allclose(model.coef_, peer_coef, rtol=1e-6, atol=1e-9)
    least_squares = np.reshape(model.regressor_.intercept_, -1)
    np.testing.assert_allclose(
        least_squares, np.resize(peer.intercept_, len(least_squares)), atol=1e-9
    )
    assert model.coef_.shape == (1 if len(set(y)) == 2 else 3, X.shape[1])
    decisions = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(np.squeeze(decisions), model.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 20])
@pytest.mark.parametrize("name", ["ridge", "nesterov-flow"])
def test_left_out_decisions_are_those_of_regressors_on_coded_labels(classes, name, rng):
    """With a shift for two classes, so that zero is an even chance."""
    X, y = blobs(rng, classes, n=90)
    coded = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
    coded = coded[:, 1] if classes == 2 else coded
    model = st.StoppedClassifierCV(name, stops=[0.5, 2.0, 8.0]).fit(X, y)
    fixed = st.StoppedClassifier(name, stop=model.stop_).fit(X, y)
    residuals = st.left_out_residuals(X, coded, name, model.stop_)
    for one in (model, fixed):
        shift = 0.0 if classes > 2 else one.intercept_[0] - one.regressor_.intercept_
        found = one.left_out_decisions_
        np.testing.assert_allclose(found, coded - residuals + shift, atol=1e-9)
        np.testing.assert_allclose(one.predict_proba(X).sum(axis=1), 1)
        np.testing.assert_allclose(np.exp(one.predict_log_proba(X)), one.predict_proba(X))
        assert (one.classes_[one.predict_proba(X).argmax(axis=1)] == one.predict(X)).all()
    np.testing.assert_allclose(model.predict_proba(X), fixed.predict_proba(X), rtol=1e-6)
    assert model.choice_.error == pytest.approx((residuals**2).mean(), rel=1e-9)


def test_probabilities_are_as_good_as_those_of_a_split():
    """Log loss on new rows, against scikit-learn's calibration by five refits."""
    ours, theirs = [], []
    X, y = load_breast_cancer(return_X_y=True)
    for seed in range(4):
        split = train_test_split(X, y, train_size=100, random_state=seed, stratify=y)
        scaler = StandardScaler().fit(split[0])
        train, new = scaler.transform(split[0]), scaler.transform(split[1])
        peer = CalibratedClassifierCV(RidgeClassifierCV(np.geomspace(1e-3, 1e3, 13)), cv=5)
        theirs.append(log_loss(split[3], peer.fit(train, split[2]).predict_proba(new)))
        model = st.StoppedClassifierCV().fit(train, split[2])
        ours.append(log_loss(split[3], model.predict_proba(new)))
    assert np.mean(ours) < np.mean(theirs)


def test_words_are_labels_of_sparse_rows(rng):
    X, y = blobs(rng, 3)
    words = np.array(["ash", "birch", "cedar"])[y]
    model = st.StoppedClassifierCV(stops=12).fit(X, words)
    assert set(model.predict(X)) <= {"ash", "birch", "cedar"}
    assert model.score(X, words) > 0.6
    rows = sparse.csr_array(X)
    other = st.StoppedClassifierCV(stops=12).fit(rows, words)
    # the stop is the vertex of a parabola, which has half of the digits of the errors
    np.testing.assert_allclose(other.predict_proba(rows), model.predict_proba(X), rtol=1e-5)


EVEN = np.arange(60) % 2


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "f1_macro", "neg_log_loss"])
def test_scores_are_those_of_left_out_decisions(scoring, weighted, classes, rng):
    if scoring == "roc_auc" and classes > 2:
        scoring = "roc_auc_ovr"
    X, y = blobs(rng, classes, n=120)
    weights = rng.uniform(0.5, 2, 120) if weighted else None
    model = st.StoppedClassifierCV(stops=12, scoring=scoring).fit(X, y, weights)
    assert -model.errors_.min() == model.best_score_
    values = model.left_out_decisions_
    columns = np.column_stack([0 * values, values]) if classes == 2 else values
    labels = columns.argmax(axis=1)
    chances = softmax(model.slope_ * columns, axis=1)
    asked = {
        "accuracy": lambda **options: accuracy_score(y, labels, **options),
        "roc_auc": lambda **options: roc_auc_score(y, values, **options),
        "roc_auc_ovr": lambda **options: roc_auc_score(y, chances, multi_class="ovr", **options),
        "f1_macro": lambda **options: f1_score(y, labels, average="macro", **options),
        "neg_log_loss": lambda **options: -log_loss(y, chances, **options),
    }[scoring]
    assert model.best_score_ == pytest.approx(asked(sample_weight=weights), rel=1e-6)


def test_folds_are_stratified_and_hold_outs_have_labels():
    X, y = standardised(load_iris)
    words = np.array(["x", "y", "z"])[y]
    # sorted labels: unstratified folds would miss a class each
    model = st.StoppedClassifierCV(stops=12, cv=3, scoring="accuracy").fit(X, words)
    assert model.best_score_ > 0.7
    plain = st.StoppedClassifierCV(stops=12, cv=KFold(3)).fit(X, words)
    assert plain.choice_.error > st.StoppedClassifierCV(stops=12, cv=3).fit(X, words).choice_.error
    held = st.StoppedClassifierCV(stops=12, rule=st.HoldOut(X[::3], words[::3])).fit(X, words)
    assert held.score(X, words) > 0.7
    assert held.plot() is not None
    with pytest.raises(ValueError, match="y_val has the class 'w'"):
        st.StoppedClassifierCV(rule=st.HoldOut(X[:1], ["w"])).fit(X, words)


def test_rows_that_cannot_be_left_out_have_labels_without_probabilities(rng):
    X, y = blobs(rng, 2)
    model = st.StoppedClassifier("conjugate-gradient", stop=2).fit(X, y)
    assert model.score(X, y) > 0.5
    operator = sparse.linalg.aslinearoperator(X)
    other = st.StoppedClassifier("ridge", stop=1.0).fit(operator, y)
    dense = st.StoppedClassifier("ridge", stop=1.0).fit(X, y)
    np.testing.assert_allclose(other.decision_function(X), dense.regressor_.predict(X), atol=1e-5)
    for one in (model, other):
        with pytest.raises(
            ValueError, match="Probabilities are calibrated on rows that are left out"
        ):
            one.predict_proba(X)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("classes", [2, 3])
def test_chunks_hold_their_labels(rng, classes, class_weight):
    X, y = blobs(rng, classes, n=200)
    labels = np.array(["a", "b", "c"])[y]
    weights = rng.uniform(0.5, 2, 200)
    model = st.StoppedClassifierCV("ridge", cv=KFold(4), class_weight=class_weight)
    streamed = clone(model).fit(st.Chunks.of(X, labels, weights, rows=70))
    model.fit(X, labels, weights)
    assert streamed.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_allclose(streamed.coef_, model.coef_, rtol=1e-6)
    np.testing.assert_array_equal(streamed.predict(st.Chunks.of(X)), streamed.predict(X))
    assert streamed.score(X, labels) > 0.7
    fixed = st.StoppedClassifier("ridge", 10.0).fit(st.Chunks.of(X, labels))
    expected = st.StoppedRegressor("ridge", 10.0).fit(X, 2 * np.eye(classes)[y] - 1).predict(X)
    expected = expected[:, 1] if classes == 2 else expected
    np.testing.assert_allclose(fixed.decision_function(X), expected, rtol=1e-8, atol=1e-8)
    with pytest.raises(ValueError, match="no labels: give y"):
        clone(model).fit(st.Chunks.of(X))


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({}, np.ones(60), "at least two classes"),
        ({"stop": [1.0, 2.0]}, EVEN, "stop must be one number"),
        ({}, None, "requires y to be passed"),
        ({}, np.linspace(0, 1, 60), "Unknown label type"),
        ({"calibration": "platt"}, EVEN, 'calibration must be "sigmoid" or'),
    ],
)
def test_refusals(rng, options, labels, message):
    with pytest.raises(ValueError, match=message):
        st.StoppedClassifier(**options).fit(rng.standard_normal((60, 3)), labels)


def test_classifiers_take_a_penalty_matrix():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[::4, :12]
    y = y[::4]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    for one in (st.StoppedClassifier("ridge"), st.StoppedClassifierCV("ridge")):
        plain = one.fit(scaled, y)
        given = clone(one).set_params(penalty_matrix="standardise").fit(X, y)
        np.testing.assert_allclose(given.predict_proba(X), plain.predict_proba(scaled), atol=1e-8)
        np.testing.assert_allclose(
            given.left_out_decisions_, plain.left_out_decisions_, rtol=0, atol=1e-7
        )
    # many classes have their left-out decisions from a second computation
    labels = np.arange(len(X)) % 17
    smooth = st.StoppedClassifier("ridge", stop=1.0, penalty_matrix=st.Differences(1))
    found = smooth.fit(scaled, labels).left_out_decisions_[3]
    rest = np.arange(len(X)) != 3
    coded = np.where(labels[:, None] == np.arange(17), 1.0, -1.0)
    refit = st.path(scaled[rest], coded[rest], "ridge", [1.0], penalty_matrix=st.Differences(1))
    np.testing.assert_allclose(found, refit.predict(scaled[3:4])[0, 0], rtol=0, atol=1e-8)


def moons(rng, n=80):
    angle = np.pi * rng.random(n)
    place = np.arange(n) % 2
    X = np.column_stack([np.cos(angle) + place, np.sin(angle) * (1 - 2 * place)])
    return X + 0.3 * rng.standard_normal(X.shape), np.where(place, "lower", "upper")


@pytest.mark.parametrize("classes", [2, 3])
def test_kernel_classifiers_are_kernel_regressors_on_coded_labels(rng, classes):
    X, y = moons(rng)
    if classes == 3:
        y = np.where(X[:, 0] > 1.2, "right", y)
    model = st.StoppedKernelClassifierCV("ridge", kernel="rbf", gamma=2.0).fit(X, y)
    coded = 2.0 * (y[:, None] == model.classes_) - 1
    coded = coded[:, 1] if classes == 2 else coded
    peer = st.StoppedKernelRegressorCV("ridge", kernel="rbf", gamma=2.0).fit(X, coded)
    assert model.stop_ == peer.stop_
    np.testing.assert_allclose(model.dual_coef_, peer.dual_coef_)
    values = model.decision_function(X)
    kernel = np.exp(-2.0 * ((X[:, None] - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(values, kernel @ model.dual_coef_ + model.intercept_, atol=1e-9)
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_a_kernel_classifier_takes_a_precomputed_kernel_weights_and_scorers(rng):
    X, y = moons(rng)
    kernel = np.exp(-2.0 * ((X[:, None] - X) ** 2).sum(axis=2))
    options = {"method": "gradient-flow", "class_weight": "balanced", "scoring": "accuracy"}
    model = st.StoppedKernelClassifierCV(kernel="precomputed", **options).fit(kernel, y)
    peer = st.StoppedKernelClassifierCV(kernel="rbf", gamma=2.0, **options).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(kernel), peer.predict_proba(X), atol=1e-6)
    assert cross_val_score(peer, X, y, cv=3).mean() > 0.8


def test_several_labels_for_a_row_are_refused_with_what_to_do(rng):
    X = rng.standard_normal((40, 3))
    for model, y in (
        (st.StoppedLogisticRegression(stop=3), X > 0),
        (st.StoppedClassifierCV(), np.round(X)),
    ):
        with pytest.raises(ValueError, match=r"one label for each row.*MultiOutputClassifier"):
            model.fit(X, y)
    scored = st.StoppedClassifierCV(scoring="accuracy")
    assert not get_tags(scored).classifier_tags.multi_label
    assert get_tags(st.StoppedClassifierCV()).classifier_tags.multi_label
    with pytest.raises(ValueError, match="scoring needs one label"):
        scored.fit(X, X > 0)


@pytest.mark.parametrize("calibration", ["sigmoid", "temperature"])
def test_labels_that_a_row_has_together_are_fitted_as_in_ridge_classifiers(rng, calibration):
    X = rng.standard_normal((150, 4))
    Y = (X[:, :3] + rng.standard_normal((150, 3)) > [0, 0.5, 1]).astype(int)
    weights = rng.integers(1, 3, 150)
    theirs = RidgeClassifier(20.0, class_weight="balanced").fit(X, Y, weights)
    total = (weights * compute_sample_weight("balanced", Y)).sum()
    options = {"class_weight": "balanced", "calibration": calibration}
    model = st.StoppedClassifier("ridge", total / 20.0, **options).fit(X, Y, weights)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.regressor_.predict(X), theirs.decision_function(X), rtol=1e-8)
    found = model.predict(X)
    assert found.shape == (150, 3)
    np.testing.assert_array_equal(found, model.decision_function(X) > 0)
    chances = model.predict_proba(X)
    # one curve for the decision values of all labels
    order = np.argsort(model.decision_function(X), axis=None)
    assert (np.diff(chances.reshape(-1)[order]) >= 0).all()
    np.testing.assert_array_equal((chances > 0.5)[chances != 0.5], found[chances != 0.5])
    plain = st.StoppedClassifierCV(rule=st.HoldOut(X[100:], Y[100:]), calibration=calibration)
    errors = plain.fit(X[:100], Y[:100]).errors_
    one = st.StoppedRegressorCV(rule=st.HoldOut(X[100:], 2.0 * Y[100:] - 1))
    np.testing.assert_allclose(errors, one.fit(X[:100], 2.0 * Y[:100] - 1).errors_)
    chosen = st.StoppedClassifierCV(cv=4, calibration=calibration).fit(X, Y)
    assert chosen.predict_proba(X).mean() == pytest.approx(Y.mean(), abs=0.03)
    assert chosen.score(X, Y) > 0.2  # all labels of a row must be right
    printed = str(chosen.summary())
    assert printed.startswith("StoppedClassifierCV: ")
    assert "class 2" in printed
    with pytest.raises(ValueError, match="several labels for a row cannot be saved"):
        st.save(chosen, "model.json")
