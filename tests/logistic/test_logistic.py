"""Cross-entropy: runs against independent ones, folds in lockstep against folds one by one."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

import stoptime as st
from stoptime.logistic import lockstep
from stoptime.logistic.rows import Rows

iris, species = load_iris(return_X_y=True)
iris = (iris - iris.mean(axis=0)) / iris.std(axis=0)
cells, benign = load_breast_cancer(return_X_y=True)
cells = (cells - cells.mean(axis=0)) / cells.std(axis=0)
rng = np.random.default_rng(0)
weights = rng.uniform(0.2, 3.0, len(species))
NESTEROV = st.Nesterov(step=0.5)
CV, Fit = st.StoppedLogisticRegressionCV, st.StoppedLogisticRegression


def plain_run(X, y, q, method, stop, weights=None):
    """Return all iterates of softmax regression without intercept, by the textbook's loop."""
    w = np.ones(len(y)) if weights is None else weights
    B, old = np.zeros((2, X.shape[1], q))
    found = [B]
    for k in range(1, stop + 1):
        m, e, weight = method.coefficients(k)
        residuals = np.eye(q)[y] - softmax(X @ (B + e * (B - old)), axis=1)
        gradient = X.T @ (w[:, None] * residuals) / w.sum()
        B, old = B + m * (B - old) + method.step * weight * gradient, B
        found.append(B)
    return found


def losses(X, y, B):
    return -log_softmax(X @ B, axis=1)[np.arange(len(y)), y]


def coefficients(B):
    """Return coefficients as the estimators store them: two classes have one logit."""
    return B.T if B.shape[1] > 2 else (B[:, 1:] - B[:, :1]).T


SPLITTERS = {
    "folds": (StratifiedKFold(4), None),
    "groups": (GroupKFold(3), np.arange(150) % 7),
    "one group out": (LeaveOneGroupOut(), np.arange(150) % 4),
    "some never tested": (PredefinedSplit(np.arange(150) % 4 - 1), None),
    "repeated": (RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0), None),
    "drawn": (ShuffleSplit(3, test_size=0.2, train_size=0.5, random_state=0), None),
    "a validation set": ([(np.arange(0, 150, 2), np.arange(1, 150, 2))], None),
}


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_folds_that_are_run_one_by_one(name, weighted):
    splitter, groups = SPLITTERS[name]
    own = weights if weighted else np.ones(150)
    model = CV(NESTEROV, splitter, fit_intercept=False, max_iter=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        model.fit(iris, species, own if weighted else None, groups)
    splits = splitter if isinstance(splitter, list) else splitter.split(iris, species, groups)
    total, expected, squares = 0.0, 0.0, 0.0
    for train, test in splits:
        # a fold with fewer rows takes smaller steps on its mean loss
        slower = st.Nesterov(step=NESTEROV.step * own[train].sum() / own.sum())
        path = plain_run(iris[train], species[train], 3, slower, model.stops_[-1], own[train])
        each = np.array([losses(iris[test], species[test], B) for B in path])
        expected = expected + each @ own[test]
        squares = squares + each**2 @ own[test]
        total += own[test].sum()
    expected = expected / total
    np.testing.assert_allclose(model.errors_, expected, rtol=1e-9)
    spread = np.sqrt(np.maximum(squares / total - expected**2, 0.0) / total)
    np.testing.assert_allclose(model.standard_errors_, spread, rtol=1e-6, atol=1e-8)
    # The least error, but for gains that mean nothing.
    assert expected[model.stop_] <= expected.min() + 1e-3 * spread.max()
    whole = plain_run(iris, species, 3, NESTEROV, model.stop_, own)[-1]
    np.testing.assert_allclose(model.coef_, whole.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [st.HeavyBall(0.1, 0.8), st.NuMethod(0.05)])
@pytest.mark.parametrize("q", [2, 3])
def test_a_run_is_the_one_of_the_method(method, q):
    X, y = iris[species < q], species[species < q]
    path = np.array(plain_run(X, y, q, method, 12))
    fit = partial(Fit, stop=12, fit_intercept=False)
    exponential = path[1]
    for one in path[2:]:
        exponential = 0.9 * exponential + 0.1 * one
    for made, expected in (
        (method, path[-1]),
        (st.Averaged(method), path[1:].mean(axis=0)),
        (st.Averaged(method, "exponential", decay=0.9), exponential),
    ):
        found = fit(made).fit(X, y).coef_
        np.testing.assert_allclose(found, coefficients(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        {"lr": 0.1, "momentum": 0.7, "dampening": 0.3, "weight_decay": 0.05},
    ],
)
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_run_is_the_one_of_torch(options, outputs):
    torch = pytest.importorskip("torch")
    q = max(outputs, 2)
    X, y = iris[species < q] - 3.0, species[species < q]
    layer = torch.nn.Linear(4, outputs, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.7)
    scale = 0.5 if outputs == 1 else 1.0
    method = st.from_torch(optimizer, scheduler, iterations=30, loss_scale=scale)
    losses = torch.nn.functional
    for _ in range(12):
        optimizer.zero_grad()
        logits = layer(torch.asarray(X))
        if outputs == 1:
            target = torch.asarray(y, dtype=torch.float64)
            losses.binary_cross_entropy_with_logits(logits[:, 0], target).backward()
        else:
            losses.cross_entropy(logits, torch.asarray(y)).backward()
        optimizer.step()
        scheduler.step()
    # The bias is the coefficient of a column of ones, and X is not centred: as the plan has it.
    run = lockstep.search(Rows(X, y, q, centred=False), method, 12)
    found = torch.column_stack([layer.weight, layer.bias]).detach().numpy()
    expected = found / 2 if outputs == 1 else found[1:]
    np.testing.assert_allclose(run.coef, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "method",
    [
        st.Decayed(st.GradientDescent(0.2), 0.02),
        st.Decayed(st.Nesterov(momentum=0.9), 0.02),
        st.OptimalIteration(0.1, penalty=0.02),
    ],
)
@pytest.mark.parametrize("data", [(cells[:, :8], benign), (iris, species)])
@pytest.mark.parametrize("intercept", [False, True])
def test_weight_decay_ends_at_ridge_whose_intercept_is_free(method, data, intercept):
    X, y = data
    model = Fit(method, 2500, fit_intercept=intercept).fit(X, y)
    # two classes: a penalty on both logits is half of one on their difference
    C = (100 if X is not iris else 50) / len(y)
    peer = LogisticRegression(C=C, fit_intercept=intercept, tol=1e-10, max_iter=3000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)
    if intercept:
        found = model.intercept_ - model.intercept_.mean() * (model.intercept_.size > 1)
        np.testing.assert_allclose(found, peer.intercept_, atol=1e-4)


def test_near_zero_the_path_is_least_squares_with_a_qth_of_the_curvature():
    # The first steps of a run with a tiny step, where logits are small: φ of least squares with the
    # eigenvalues divided by q, for the response q(onehot - 1/q)/q.
    X, q = iris, 3
    method = st.Nesterov(step=1e-4)
    model = Fit(method, 60, fit_intercept=False).fit(X, species)
    path = st.path(X, q * np.eye(q)[species], st.Nesterov(step=1e-4 / q), [60], fit_intercept=False)
    expected = path.coef[0].T - path.coef[0].mean(axis=1)
    np.testing.assert_allclose(model.coef_, expected, rtol=0.02, atol=0.01 * np.abs(expected).max())
    assert np.abs(X @ model.coef_.T).max() < 0.3  # or it would be no linearisation


@pytest.mark.parametrize("method", [st.Nesterov(0.1), st.GradientDescent(0.1)])
def test_a_vanishing_decay_lets_the_run_follow_ridge(method):
    c, stop = 16.0, 400
    here = c / (0.1 * stop**method.time_power)
    ridges = []
    for penalty in here * np.geomspace(0.5, 2, 9):
        peer = LogisticRegression(C=2 / (penalty * len(benign)), fit_intercept=False)
        ridges.append(peer.set_params(tol=1e-8, max_iter=5000).fit(cells, benign).coef_)
    far = []
    for one in (method, st.VanishingDecay(method, c)):
        model = Fit(one, stop, fit_intercept=False).fit(cells, benign)
        far.append(min(np.linalg.norm(model.coef_ - r) / np.linalg.norm(r) for r in ridges))
    assert far[1] < 0.06 < far[0] / 4
    # for least squares too, where it is a filter: near ridge with a penalty between c and c + 8
    s = np.geomspace(1e-3, 1, 20)
    decayed = st.VanishingDecay(st.Nesterov(1.0), c)
    g = decayed.shrinkage(s, 100)
    np.testing.assert_allclose(g + s * decayed.gain(s, 100), 1.0, rtol=1e-10)
    low, high = (1 / (1 + s * 100**2 / one) for one in (c / 2, 2 * c))
    assert ((low < g) & (g < high)).all()
    with pytest.raises(TypeError, match="without decay"):
        st.VanishingDecay(st.Decayed(method, 0.1))


@pytest.mark.parametrize("q", [2, 3])
def test_units_means_and_the_order_of_rows_do_not_matter(q):
    X, y = iris[species > 2 - q], species[species > 2 - q] - (q == 2)
    X = X + (0.3 * rng.standard_normal(X.shape))
    model = CV(cv=StratifiedKFold(4)).fit(X, y)
    for factor, shift in ((1e6, 0.0), (1e-6, 0.0), (1.0, 1e4)):
        other = CV(cv=StratifiedKFold(4)).fit(factor * X + shift, y)
        assert other.stop_ == model.stop_
        np.testing.assert_allclose(other.errors_, model.errors_, rtol=1e-6)
        np.testing.assert_allclose(other.coef_ * factor, model.coef_, rtol=1e-5)
    wide = np.hstack([X, np.zeros((len(X), 2)), np.ones((len(X), 1))])
    other = CV(cv=StratifiedKFold(4)).fit(wide, y)
    np.testing.assert_allclose(other.coef_[:, :4], model.coef_, rtol=1e-7)
    assert np.abs(other.coef_[:, 4:]).max() < 1e-12
    renamed = CV(cv=StratifiedKFold(4)).fit(X, np.array(["c", "b", "a"])[y])
    assert renamed.classes_.tolist() == sorted(set("cba"[:q]))
    np.testing.assert_allclose(renamed.coef_, model.coef_[::-1] * (-1 if q == 2 else 1), rtol=1e-6)


def test_weights_count_rows_twice():
    twice = rng.integers(0, 3, len(benign))
    repeated = np.repeat(np.arange(len(benign)), twice)
    fold = np.arange(len(benign)) % 3
    left = CV(cv=PredefinedSplit(fold)).fit(cells, benign, twice)
    right = CV(cv=PredefinedSplit(fold[repeated])).fit(cells[repeated], benign[repeated])
    np.testing.assert_allclose(left.errors_, right.errors_, rtol=1e-8)
    np.testing.assert_allclose(left.coef_, right.coef_, rtol=1e-6)
    X, y = iris[:120], species[:120]
    balanced = Fit(class_weight="balanced", stop=30).fit(X, y)
    same = Fit(stop=30).fit(X, y, (120 / (3 * np.bincount(y)))[y])
    np.testing.assert_allclose(balanced.coef_, same.coef_, rtol=1e-9)


@pytest.mark.parametrize("kind", [sparse.csr_array, "torch", np.float32, "pandas"])
@pytest.mark.parametrize("q", [2, 3])
def test_every_container_gives_the_same_fit(kind, q):
    X, y = iris[species > 2 - q], species[species > 2 - q] - (q == 2)
    expected = CV(one_standard_error=True).fit(X, y)
    tolerance = {"rtol": 1e-8, "atol": 1e-9}
    rows, labels = X, y
    if kind == "torch":
        torch = pytest.importorskip("torch")
        rows, labels = torch.asarray(X), torch.asarray(y)
    elif kind == "pandas":
        rows, labels = pd.DataFrame(X, columns=list("abcd")), pd.Series(y)
    elif kind is np.float32:
        rows, tolerance = X.astype(kind), {"rtol": 1e-3, "atol": 1e-3}
    else:
        rows = kind(X)
    model = CV(one_standard_error=True).fit(rows, labels)
    assert model.stop_ == expected.stop_
    np.testing.assert_allclose(np.asarray(model.coef_), expected.coef_, **tolerance)
    np.testing.assert_allclose(model.predict_proba(rows), expected.predict_proba(X), **tolerance)
    assert np.array_equal(model.predict(rows), expected.predict(X))
    if kind == "torch":
        with pytest.raises(ValueError, match="X contains NaN"):
            CV().fit(torch.full_like(rows, torch.nan), labels)
        assert type(model.coef_) is type(rows)
        assert model.coef_.dtype == rows.dtype
        assert type(model.decision_function(X)) is type(rows)
    elif kind is np.float32:
        assert model.coef_.dtype == np.float32
    elif kind == "pandas":
        assert model.feature_names_in_.tolist() == list("abcd")


def test_blocks_of_rows_change_nothing(monkeypatch):
    X, y = load_digits(return_X_y=True)
    expected = CV(max_iter=5)
    small = clone(expected)
    with pytest.warns(st.StopWarning, match=r"max_iter=5 steps\. Standardise"):
        expected.fit(X, y)
    cut = "stoptime.logistic.rows.slices"
    monkeypatch.setattr(cut, lambda count, _: (slice(i, i + 97) for i in range(0, count, 97)))
    with pytest.warns(st.StopWarning):
        small.fit(X, y)
    np.testing.assert_allclose(small.errors_, expected.errors_, rtol=1e-12)
    np.testing.assert_allclose(small.coef_, expected.coef_, rtol=1e-9, atol=1e-12)


def test_large_rows_of_an_automatic_run_are_held_in_single_precision():
    draws = np.random.default_rng(2)
    X = draws.standard_normal((2200, 1000))
    y = (X[:, 0] + draws.standard_normal(2200) > 0).astype(int)
    X += 1e4  # rows are centred before they are rounded
    model = CV(cv=2, max_iter=40).fit(X, y)
    # a run whose step is given is made in double precision
    exact = CV(model.method_, cv=2, max_iter=40).fit(X, y)
    assert model.coef_.dtype == np.float64
    assert model.stop_ == exact.stop_
    np.testing.assert_allclose(model.errors_, exact.errors_, rtol=1e-6)
    assert np.linalg.norm(model.coef_ - exact.coef_) < 1e-5 * np.linalg.norm(exact.coef_)
    chances = exact.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), chances, atol=1e-5)
    for unit in (1e-30, 1e30):  # whose squares single precision does not hold
        found = clone(model).fit(unit * X, y).predict_proba(unit * X)
        np.testing.assert_allclose(found, chances, atol=1e-5)


@pytest.mark.parametrize(
    ("scoring", "splitter"),
    [("roc_auc", StratifiedKFold(3)), ("accuracy", SPLITTERS["repeated"][0])],
)
def test_scores_are_those_of_fitted_models(scoring, splitter):
    options = {"cv": splitter, "scoring": scoring, "fit_intercept": False}
    model = CV(st.Nesterov(step=0.2), **options).fit(cells, benign)
    for stop in (0, model.stop_, model.stops_[-1]):
        found = []
        for train, test in splitter.split(cells, benign):
            slower = st.Nesterov(step=0.2 * len(train) / len(benign))
            one = Fit(slower, int(stop), fit_intercept=False)
            one.fit(cells[train], benign[train])
            found.append(get_scorer(scoring)(one, cells[test], benign[test]))
        assert model.errors_[stop] == pytest.approx(-np.mean(found), rel=1e-9)
        deviation = np.std(found, ddof=1) / np.sqrt(len(found))
        assert model.standard_errors_[stop] == pytest.approx(deviation, abs=1e-9)
    weighted = clone(model).fit(cells, benign, np.linspace(0.1, 1, len(benign)))
    assert not np.allclose(weighted.errors_[:5], model.errors_[:5])


def test_the_chosen_fit_can_be_made_again():
    model = CV().fit(cells, benign)
    again = Fit(model.method_, model.stop_).fit(cells, benign)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-8)
    np.testing.assert_allclose(again.intercept_, model.intercept_, rtol=1e-8)
    assert model.best_score_ == -model.errors_[model.stop_]
    early = CV(one_standard_error=True).fit(cells, benign)
    within = model.errors_[model.stop_] + model.standard_errors_[model.stop_]
    assert early.stop_ == np.flatnonzero(model.errors_ <= within)[0] < model.stop_
    again = Fit(model.method_, early.stop_).fit(cells, benign)
    np.testing.assert_allclose(again.coef_, early.coef_, rtol=1e-8)
    shuffled = [CV(rng=seed).fit(cells, benign).errors_ for seed in (1, 1, 2)]
    np.testing.assert_array_equal(shuffled[0], shuffled[1])
    assert not np.array_equal(shuffled[0][:9], shuffled[2][:9])


def test_several_methods_are_compared():
    X, y = iris[species > 0][:, :2], species[species > 0]
    methods = [st.GradientDescent(), st.Nesterov(), "heavy-ball"]
    model = CV(methods).fit(X, y)
    alone = [CV(one).fit(X, y) for one in methods]
    errors = [-one.best_score_ for one in alone]
    assert list(model.candidates_.values()) == pytest.approx(errors)
    best = alone[int(np.argmin(errors))]
    assert model.method_ == best.method_
    np.testing.assert_allclose(model.coef_, best.coef_)
    default = CV().fit(X, y)
    named = CV(st.VanishingDecay(st.Nesterov(), 4.0)).fit(X, y)
    assert (default.method_, default.stop_) == (named.method_, named.stop_)
    assert CV("heavy-ball", fit_intercept=False).fit(X, y).method_.momentum < 1
    # The momentum that is best for the smallest and the largest eigenvalue at the start.
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True)) / 2
    expected = (1 - np.sqrt(values[0] / values[-1])) ** 2
    assert alone[2].method_.momentum == pytest.approx(expected, rel=1e-6)


def test_the_step_is_stable_and_as_long_as_the_curvature_allows():
    # Rare classes: at the start the curvature is a small part of the bound.
    X, y = load_digits(return_X_y=True)
    rows = Rows(X, y, 10, list(StratifiedKFold(5).split(X, y)))
    exact = np.linalg.eigvalsh(np.cov(X.T, bias=True))[-1]
    assert rows.largest == pytest.approx(exact, rel=0.03)
    shares = np.bincount(y) / len(y)
    top = np.linalg.eigvalsh(np.diag(shares) - np.outer(shares, shares))[-1]
    assert rows.curvature() == pytest.approx(rows.largest * top)
    model = CV().fit(X, y)
    assert 2 / rows.largest <= model.method_.step <= 1 / rows.curvature()
    safe = CV(st.Nesterov(2 / rows.largest)).fit(X, y)
    assert model.stop_ <= safe.stop_
    assert -model.best_score_ == pytest.approx(-safe.best_score_, rel=0.02)
    # Far from the start the curvature of two rare classes rises fivefold: the run is repeated.
    draws = np.random.default_rng(3)
    rare = (draws.uniform(size=400) < 0.03).astype(int)
    X = np.where(rare[:, None], 3.0, -0.1) + draws.standard_normal((400, 2))
    model = CV().fit(X, rare)
    assert np.isfinite(model.errors_).all()
    assert model.best_score_ > -0.05


def test_a_first_step_that_is_too_long_is_cut():
    draws = np.random.default_rng(1)
    X = draws.standard_normal((300, 60))
    weak = (draws.uniform(size=300) < 1 / (1 + np.exp(-0.1 * X.sum(axis=1)))).astype(int)
    model = CV("nesterov").fit(X, weak)
    coarse = st.Nesterov(1 / Rows(X, weak, 2).curvature())
    coarse = CV(coarse).fit(X, weak)
    assert coarse.stop_ <= 1 < model.stop_
    assert model.best_score_ > coarse.best_score_
    noise = CV(cv=3).fit(X[:60], np.arange(60) % 2)
    assert -noise.best_score_ <= np.log(2) + 1e-12


def test_separable_data_and_classes_that_a_fold_lacks():
    X = np.r_[np.linspace(-2, -1, 20), np.linspace(1, 2, 20)][:, None]
    y = np.repeat([0, 1], 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        model = CV().fit(X, y)
    assert model.score(X, y) == 1
    assert np.isfinite(model.coef_).all()
    assert 0 < -model.best_score_ < 0.01
    # The third class is in one group only, so that the run without this group never sees it.
    labels = np.r_[y, 2, 2]
    X = np.r_[X, [[5.0], [5.5]]]
    groups = np.r_[np.arange(40) % 3, 0, 0]
    model = CV(cv=LeaveOneGroupOut()).fit(X, labels, groups=groups)
    assert np.isfinite(model.errors_).all()
    assert model.predict_proba(X).shape == (42, 3)


def test_an_interrupt_keeps_the_best_step_so_far():
    calls = []

    def scorer(model, X, y):
        calls.append(1)
        if len(calls) > 30:
            raise KeyboardInterrupt
        return -log_loss(y, model.predict_proba(X))

    with pytest.warns(st.StopWarning, match="interrupted: the best step so far, 9, is kept"):
        model = CV(cv=3, scoring=scorer).fit(iris, species)
    assert (model.stop_, len(model.errors_)) == (9, 10)
    calls.extend([1] * 30)
    with pytest.raises(KeyboardInterrupt):
        CV(cv=3, scoring=scorer).fit(iris, species)


@pytest.mark.parametrize(
    ("options", "given", "error", "match"),
    [
        ({}, (iris, np.zeros(150)), ValueError, "at least two classes"),
        ({}, (np.where(iris > 1, np.nan, iris), species), ValueError, "NaN"),
        ({}, (iris,), ValueError, "requires y to be passed"),
        ({}, (iris, species, [1.0, 2.0]), ValueError, "inconsistent numbers of samples"),
        ({}, (st.Chunks.of(iris, species),), TypeError, r"got Chunks\. StoppedClassifierCV"),
        ({}, (aslinearoperator(iris), species), TypeError, "rows in memory; got MatrixLinear"),
        ({}, (iris, species, None, np.arange(150)), ValueError, "cv=5 ignores groups"),
        (
            {"cv": PredefinedSplit(species - 1)},
            (iris, species, 1.0 * (species == 0)),
            ValueError,
            "not zero",
        ),
        ({"method": "ridge"}, (iris, species), ValueError, r"fitted step by step.*take"),
        ({"method": st.Adam()}, (iris, species), ValueError, r"fitted step by step.*take"),
        ({"method": st.Averaged(st.Nesterov(), "tail")}, (iris, species), ValueError, "by step"),
        ({"method": []}, (iris, species), ValueError, "at least one method"),
        ({"max_iter": 0}, (iris, species), ValueError, "max_iter must be"),
        ({"scoring": "nonsense"}, (iris, species), ValueError, "scoring"),
    ],
)
def test_bad_input_is_refused_with_advice(options, given, error, match):
    with pytest.raises(error, match=match):
        CV(**options).fit(*given)


def test_streamed_rows_are_predicted():
    da = pytest.importorskip("dask.array")
    model = CV().fit(iris, species)
    expected = model.predict_proba(iris)
    for rows in (st.Chunks.of(iris, rows=40), da.from_array(iris, chunks=(40, 4)), iris.tolist()):
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-12)
        np.testing.assert_array_equal(model.predict(rows), model.predict(iris))
    with pytest.raises(ValueError, match="2 features, but 4 were fitted"):
        model.predict(st.Chunks.of(iris[:, :2]))


def test_plans_say_when_to_stop_that_very_run():
    method = st.SGD(step=0.1, momentum=0.9, nesterov=True)
    plan = st.plan(X=cells, y=benign, method=method, loss="cross-entropy")
    assert (plan.method, plan.finished) == (method, True)
    ones = np.column_stack([cells, np.ones(len(benign))])
    same = CV(method, fit_intercept=False).fit(ones, benign)
    np.testing.assert_allclose(plan.errors, same.errors_, rtol=1e-12)
    assert plan.iterations == same.stop_
    assert f"stop after {plan.iterations} iterations" in str(plan)
    short = st.plan(
        X=iris, y=species, step=st.schedules.Cosine(peak=0.01, total=20), loss="cross-entropy"
    )
    assert (short.iterations, short.finished) == (20, False)
    assert "longer run" in str(short)
    diverging = st.plan(X=iris, y=species, step=1e3, loss="cross-entropy")
    assert diverging.iterations == 0
    assert "No step helps: it is too long" in str(diverging)
    with pytest.raises(ValueError, match=r"fitted step by step, and Adam.*take"):
        st.plan(X=iris, y=species, method=st.Adam(), loss="cross-entropy")
    with pytest.raises(ValueError, match='loss must be "squared", "mse" or'):
        st.plan(X=iris, y=species, loss="hinge")
    with pytest.raises(ValueError, match="needs X, and labels"):
        st.plan(loss="cross-entropy")
    with pytest.raises(ValueError, match="belong to a plan for the squared loss"):
        st.plan(X=iris, y=species, batch_size=3, loss="cross-entropy")


def test_it_has_parameters_of_its_method_and_draws():
    model = CV(cv=3, verbose=True).fit(iris, species)
    named = clone(model).set_params(method="nesterov")
    assert named.set_params(method__friction=5.0).method == st.Nesterov(friction=5.0)
    ax = model.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["held-out rows", f"stop after {model.stop_} steps"]
    assert st.plan(X=iris, y=species, step=0.1, loss="cross-entropy").plot().get_xlabel() == "steps"
