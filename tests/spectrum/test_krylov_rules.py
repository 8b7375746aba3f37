"""Rules for sparse matrices and operators choose as for dense data, or within a standard error."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.model_selection import GroupKFold, ShuffleSplit

import stoptime as st
from stoptime.spectrum import krylov as growing


@pytest.fixture
def all_are_large(monkeypatch):
    """Treat every sparse matrix as too large for all its eigenvalues."""
    monkeypatch.setattr(growing, "SMALL", 0)


def data(n, p, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, p, density=0.1, random_state=seed, format="csr")
    y = X @ rng.standard_normal(p) / 3 + noise * rng.standard_normal(n) + 3
    return X, y


SHAPES = [(120, 60), (60, 120)]


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(("shape", "operator"), [(SHAPES[0], True), (SHAPES[1], False)])
@pytest.mark.parametrize("name", ["nesterov-flow", "nesterov", "conjugate-gradient"])
def test_cross_validation_needs_no_rows(name, shape, operator):
    X, y = data(*shape)
    Y = np.column_stack([y, y**2])
    groups = np.arange(len(y)) // 7
    options = {"stops": [1, 3, 9, 27], "cv": GroupKFold(4), "method": name}
    model = st.StoppedRegressorCV(**options, per_target=name != "conjugate-gradient")
    A = aslinearoperator(X) if operator else X
    given = {"sample_weight": 1.0 + groups % 2, "groups": groups}
    exact = model.fit(X.toarray(), Y, **given)
    errors, stop, coef = exact.errors_, exact.stop_, exact.coef_
    predicted = exact.predict(X.toarray())
    found = model.fit(A, Y, **given)
    np.testing.assert_allclose(found.errors_, errors, rtol=1e-5)
    np.testing.assert_array_equal(found.stop_, stop)
    np.testing.assert_allclose(found.coef_, coef, atol=1e-5 * np.abs(coef).max())
    np.testing.assert_allclose(found.predict(A), predicted, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("all_are_large")
def test_the_grid_grows_while_the_error_falls_and_memory_allows(monkeypatch):
    X, y = data(400, 200, noise=0.02)
    monkeypatch.setattr(growing, "HORIZON", 3.0)
    cv = ShuffleSplit(2, random_state=0)
    found = st.StoppedRegressorCV(cv=cv).fit(X, y)
    exact = st.StoppedRegressorCV(cv=cv).fit(X.toarray(), y)
    largest = st.decompose(X.toarray(), y).eigenvalues[-1]
    assert found.stop_ * np.sqrt(largest) > 6
    assert found.choice_.error == pytest.approx(exact.choice_.error, rel=0.02)
    X, y = data(400, 200, noise=1e-3)
    monkeypatch.setattr(growing, "MEMORY", 8 * 200 * 22)
    with pytest.warns(st.StopWarning, match="least at the last stop"):
        st.StoppedRegressorCV(rule=st.HoldOut(X[:50], y[:50])).fit(X[50:], y[50:])


@pytest.mark.filterwarnings("ignore::stoptime.StopWarning")
@pytest.mark.parametrize("options", [{"cv": 3}, {"rule": "path-gcv"}], ids=str)
def test_a_first_look_ends_where_memory_does(options, rng, monkeypatch):
    monkeypatch.setattr(growing, "MEMORY", 8 * 8 * 250)  # of eight vectors
    X = rng.standard_normal((300, 250))
    y = X @ rng.standard_normal(250) + rng.standard_normal(300)
    model = st.StoppedRegressorCV(**options).fit(aslinearoperator(X), y)
    assert 0 < model.stop_ <= model.stops_[-1] < 10


def test_discrepancy_ends_where_the_last_extension_does(rng):
    scales = 1 / np.arange(1, 401)
    response = scales * rng.standard_normal(400)

    def product(v):
        return scales * v.ravel()

    operator = LinearOperator((400, 400), matvec=product, rmatvec=product, dtype=float)
    spectrum = st.decompose(np.diag(scales), response, fit_intercept=False)
    for phase, reached in ((600, True), (2500, False)):
        time = phase / np.sqrt(spectrum.eigenvalues[-1])
        noise = float(st.training_error(spectrum, "nesterov-flow", time)[0])
        model = st.StoppedRegressorCV(rule=st.Discrepancy(noise=noise), fit_intercept=False)
        if reached:
            assert model.fit(operator, response).stop_ == pytest.approx(time, rel=1e-6)
            continue
        with pytest.warns(st.StopWarning, match="never falls to the noise"):
            model.fit(operator, response)
        assert model.stop_ == model.stops_[-1] < time
    model = st.StoppedRegressorCV(rule=st.OneStandardError("path-gcv"))
    with pytest.raises(ValueError, match=r"PathGCV\(\) has no standard error .*: use CrossVali"):
        model.fit(operator, response)


@pytest.mark.parametrize(("shape", "fit_intercept"), [(SHAPES[0], True), (SHAPES[1], False)])
@pytest.mark.parametrize("max_gain", [20.0, 1000.0])  # the smaller leaves much outside
def test_path_gcv_is_within_its_standard_error(shape, fit_intercept, max_gain):
    X, y = data(*shape)
    method, stops = st.AcceleratedFlow(), np.sqrt(max_gain) * np.array([0.0, 0.1, 0.4, 1.0])
    options = {"fit_intercept": fit_intercept, "solver": "krylov", "max_gain": max_gain}
    options["probes"] = 15
    exact = st.path_gcv(st.decompose(X.toarray(), y, fit_intercept=fit_intercept), method, stops)
    spectrum = st.decompose(X, y, **options)
    curve = st.PathGCV().errors(st.Problem.of(X, y, method, spectrum), stops)
    assert curve.errors[0] == pytest.approx(exact[0])
    assert np.all(np.abs(curve.errors - exact)[1:] < 4 * curve.standard_errors[1:])
    assert np.all(curve.standard_errors < 0.1 * exact)


def test_probes_are_drawn_from_a_seed_or_a_generator_that_goes_on():
    X, y = data(*SHAPES[0])
    generator = np.random.default_rng(5)
    first, again, other, drawn, next_one = (
        st.decompose(X, y, solver="krylov", max_gain=1.0, probes=2, rng=one).density.nodes.tolist()
        for one in (0, 0, 1, generator, generator)
    )
    assert first == again != other
    assert drawn != next_one


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("rule", ["path-gcv", "gcv", "sure", "discrepancy", "plug-in"])
@pytest.mark.parametrize("shape", [(240, 120), (120, 240)], ids=str)
def test_rules_with_a_trace_come_close_to_dense_ones(shape, rule):
    X, y = data(*shape, noise=0.3)
    options = {"method": "ridge" if rule == "gcv" else "nesterov-flow", "rule": rule}
    found, exact = (st.StoppedRegressorCV(**options).fit(A, y) for A in (X, X.toarray()))
    assert found.choice_.error == pytest.approx(exact.choice_.error, rel=0.2)
    assert found.degrees_of_freedom_ == pytest.approx(exact.degrees_of_freedom_, rel=0.15)


def test_what_a_krylov_space_does_not_know_is_refused():
    X, y = data(240, 120, noise=1e-6)
    spectrum = st.decompose(X, y, solver="krylov", max_gain=10.0)
    probed = st.decompose(X, y, solver="krylov", max_gain=1.0, probes=5)
    alternatives = r'cv=5, rule="path-gcv", rule="discrepancy"'
    for unknown, message in (
        (lambda: st.path_gcv(spectrum, "ridge", [1.0]), "probes=10"),
        (lambda: st.estimate_oracle(spectrum), "probes=10"),
        (lambda: st.estimate_oracle(probed), "larger max_gain"),
        (lambda: st.path_gcv(probed, "ridge", [np.inf]), "finite stops"),
        (lambda: st.leave_one_out(X, y, "ridge", [1.0], spectrum=spectrum), alternatives),
        (lambda: st.StoppedRegressorCV().fit(aslinearoperator(X), y), alternatives),
    ):
        with pytest.raises(ValueError, match=message):
            unknown()
    X, y = data(120, 60)
    model = st.StoppedRegressorCV(cv=3).fit(aslinearoperator(X), y)
    assert np.isnan(model.degrees_of_freedom_)
    with pytest.raises(ValueError, match="Intervals need"):
        model.predict_interval(X)


def test_estimators_check_operators():
    X, y = data(60, 20)
    A = aslinearoperator(X)
    model = st.StoppedRegressor(stop=3.0).fit(A, y.tolist())
    assert model.n_features_in_ == 20
    assert model.krylov_.products == 2 * model.krylov_.sizes[0] + 2  # the means, and to begin
    np.testing.assert_allclose(model.predict(A), model.predict(X.toarray()), rtol=1e-12)
    for call, message in (
        (lambda: model.predict(aslinearoperator(X[:, :3])), "features"),
        (lambda: model.fit(A, np.full(60, np.nan)), "NaN"),
        (lambda: model.fit(A), "y must be given"),
        (lambda: st.StoppedRegressorCV(cv=3).fit(A, y[:5]), "inconsistent"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    nothing = st.StoppedRegressorCV(rule="path-gcv").fit(A, np.full(60, 4.0))
    assert nothing.stop_ == 0


def test_the_tomography_example_runs(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tomography.py", "36"])
    example = Path(__file__).parents[2] / "examples" / "tomography.py"
    found = runpy.run_path(str(example))
    assert "held-out rays" in capsys.readouterr().out
    best = found["errors"].min()
    assert found["errors"][-1] > 2 * best
    for model in found["models"].values():
        off = np.linalg.norm(model.coef_ - found["truth"].ravel())
        assert off < 1.6 * best * np.linalg.norm(found["truth"])


@pytest.mark.filterwarnings("ignore:Generalised cross-validation is inconsistent")
@pytest.mark.parametrize(
    ("rule", "method"), [("gcv", "gradient-descent"), ("path-gcv", "nesterov")]
)
def test_steps_do_not_diverge_along_directions_that_only_probes_see(rule, method, rng):
    n, p = 30, 12
    X, y = np.zeros((n, p)), rng.standard_normal(n)
    X[np.diag_indices(p)] = lengths = np.array([1e4, *np.linspace(1, 3, p - 1)])
    y[0] = 0
    model = st.StoppedRegressorCV(method, stops=[1.0, 10.0], rule=rule, fit_intercept=False)
    model.fit(aslinearoperator(X), y)
    assert model.method_.step == pytest.approx(n / lengths[0] ** 2, rel=0.05)
    assert 0 <= model.degrees_of_freedom_ <= p
    assert (model.errors_ <= 1.5 * np.mean(y**2)).all()
