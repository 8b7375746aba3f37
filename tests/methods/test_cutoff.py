"""Spectral cut-off: principal component regression, equal eigenvalues, and where it is refused."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

import stoptime as st
from contract import case, refit
from stoptime.theory.search import risk_ratio

CUTOFF = st.SpectralCutoff()


def components(X, y, k, new):
    """Predictions of least squares on the first k principal components, by scikit-learn."""
    if k == 0:
        return np.full(len(new), y.mean())
    pca = PCA(k, svd_solver="full").fit(X)
    return LinearRegression().fit(pca.transform(X), y).predict(pca.transform(new))


@pytest.fixture(params=["tall", "wide", "rank deficient"])
def data(request):
    found = case(request.param)
    return found.X, found.y, found.spectrum.rank


def test_the_path_is_principal_component_regression(data):
    X, y, rank = data
    stops = np.arange(rank + 1)
    drawn = st.path(X, y, CUTOFF, [*stops, rank + 5, np.inf])
    for k in stops:
        np.testing.assert_allclose(drawn.predict(X)[k], components(X, y, k, X), atol=1e-8)
    np.testing.assert_allclose(drawn.degrees_of_freedom[:-2], stops + 1)
    np.testing.assert_allclose(drawn.coef[-2], drawn.coef[-1], rtol=1e-9)


def test_equal_eigenvalues_share_so_that_no_basis_matters(rng):
    """A rotation of the tied eigenspace changes nothing but rounding."""
    left = np.linalg.qr(rng.standard_normal((30, 5)))[0]
    y = left @ rng.standard_normal(5) + rng.standard_normal(30)
    X = left * np.sqrt(30 * np.array([4.0, 2.0, 2.0, 2.0, 1.0]))
    turn = np.eye(5)
    turn[1:4, 1:4] = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    stops = np.arange(6)
    plain = st.path(X, y, CUTOFF, stops, fit_intercept=False)
    turned = st.path(X @ turn, y, CUTOFF, stops, fit_intercept=False)
    np.testing.assert_allclose(plain.predict(X), turned.predict(X @ turn), atol=1e-12)
    np.testing.assert_allclose(plain.degrees_of_freedom, stops, atol=1e-12)
    # the mean over which of the three directions enter
    orders = [[0, i] for i in (1, 2, 3)]
    fits = [left[:, order] @ left[:, order].T @ y for order in orders]
    np.testing.assert_allclose(plain.predict(X)[2], np.mean(fits, axis=0), atol=1e-12)


def test_eigenvalues_that_are_not_counted_are_compared():
    cutoff = CUTOFF.tuned_to([0.0, 1.0, 3.0])
    np.testing.assert_array_equal(cutoff.counted, [1, 3])
    s = [5.0, 3.0, 2.0, 1.0, 0.5, 0.0]
    np.testing.assert_array_equal(cutoff.shrinkage(s, 1), [0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(cutoff.gain(s, 2), [1 / 5, 1 / 3, 1 / 2, 1, 0, 0])
    np.testing.assert_array_equal(cutoff.gain(s, 99), cutoff.gain(s, 2))
    np.testing.assert_array_equal(cutoff.gain(s[:-1], np.inf), 1 / np.array(s[:-1]))


def test_the_guarantee_is_two():
    """Learn what exceeds the penalty: λ/s in these directions, s/λ in the others, at most one."""
    s = np.geomspace(1e-3, 1e3, 61) * 1.01
    for penalty in (1e-4, 0.5, 1.0, 7.0, 1e4):
        stop = st.equivalent_stop(CUTOFF, penalty, eigenvalues=s)
        assert stop == np.sum(s > penalty)
        assert st.equivalent_stop(CUTOFF, penalty, calibration="parameter", eigenvalues=s) == stop
        known = {"eigenvalues": s, "signal": 61.0, "noise": penalty, "n_samples": 1}
        assert st.inflation(CUTOFF, **known).ratio <= 2
        scaled = CUTOFF.tuned_to(s).in_units_of(penalty)
        assert risk_ratio(scaled, s / penalty, stop).max() == st.calibrate(scaled).inflation <= 2
    assert CUTOFF.universal_guarantee
    assert st.equivalent_penalty(CUTOFF, 3, eigenvalues=[4, 3, 2, 0.5]) == pytest.approx(1.0)
    assert st.equivalent_penalty(CUTOFF, 4, eigenvalues=[4, 3, 2, 0.5]) == 0
    for stop in (1, 30, 60):
        penalty = st.equivalent_penalty(CUTOFF, stop, eigenvalues=s)
        assert st.equivalent_stop(CUTOFF, penalty, eigenvalues=s) == stop


@pytest.mark.parametrize("rule", ["loo", "path-gcv", "plug-in"])
def test_every_rule_chooses_the_components(rule, rng):
    X = rng.standard_normal((60, 8)) * np.geomspace(3, 0.1, 8)
    y = X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(60)
    model = st.StoppedRegressorCV(CUTOFF, rule=rule).fit(X, y)
    assert 3 <= model.stop_ <= 8
    expected = components(X, y, int(model.stop_), X)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-9)
    np.testing.assert_array_equal(model.choice_.curve.stops, np.arange(9))


def test_refusals():
    with pytest.raises(ValueError, match=r"depends on the spectrum: call tuned_to"):
        CUTOFF.gain(1.0, 2)
    with pytest.raises(ValueError, match="give the eigenvalues"):
        st.equivalent_stop(CUTOFF, 0.1)
    with pytest.raises(ValueError, match="A plan counts iterations"):
        st.plan(0.1, method=CUTOFF, spectrum=[1.0, 0.5])
    with pytest.raises(ValueError, match="in the limit there is no number"):
        st.limiting_risk(CUTOFF, [1], aspect=0.5, signal=1.0, noise=1.0)
    with pytest.raises(TypeError, match="This constant is certified for"):
        st.bounds.risk_inflation(CUTOFF)


def test_sparse_data_need_every_eigenvalue(rng, monkeypatch):
    from stoptime.spectrum import krylov as limits

    X = sparse.random(300, 40, density=0.2, random_state=0, format="csr")
    y = rng.standard_normal(300)
    dense = st.path(X.toarray(), y, CUTOFF, [1, 5])
    np.testing.assert_allclose(st.path(X, y, CUTOFF, [1, 5]).coef, dense.coef, atol=1e-9)
    monkeypatch.setattr(limits, "LARGEST", 39)
    monkeypatch.setattr(limits, "SMALL", 39)
    with pytest.raises(ValueError, match="needs all of XᵀX"):
        st.path(X, y, CUTOFF, [1, 5])
    krylov = st.decompose(X, y, solver="krylov", max_gain=1.0)
    with pytest.raises(ValueError, match="needs all of XᵀX"):
        st.path(krylov, CUTOFF, [1])


@pytest.mark.parametrize("order", [1, 3, 4])
def test_leave_one_out_of_a_steep_edge_is_that_of_refits(order):
    found = case("tall")
    stops = np.array([0.3, 3.0, 40.0])
    method = st.Butterworth(order)
    refits = refit(found.X, found.y, method, stops)
    curve = st.leave_one_out(found.X, found.y, method, stops)
    expected = ((refits - found.y[:, None]) ** 2).mean(axis=(1, 2))
    np.testing.assert_allclose(curve.errors, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "method",
    [st.AcceleratedFlow(), st.AcceleratedFlow(7), st.GradientFlow(), st.Butterworth(3), st.Ridge()],
    ids=str,
)
def test_principal_components_have_at_most_twice_the_risk(method, rng):
    """Fixed design: the best number of components against the filter, for any signal and noise."""
    largest = 0.0
    for _ in range(500):
        count = rng.integers(1, 12)
        s = np.sort(np.exp(rng.uniform(-4, 4, count)))[::-1]
        g = method.shrinkage(s, np.exp(rng.uniform(-2, 2)))
        variance = np.exp(rng.uniform(-8, 4)) / s
        # signals as large as the noise are the hard ones
        signal = variance * np.exp(rng.uniform(-1, 1) * rng.standard_normal(count))
        filtered = np.sum(g**2 * signal + (1 - g) ** 2 * variance)
        kept = np.append(0.0, np.cumsum(variance))
        dropped = np.append(np.cumsum(signal[::-1])[::-1], 0.0)
        largest = max(largest, (kept + dropped).min() / filtered)
        # without regard to the signal, the directions with g ≤ 1/2 have at most four times the risk
        assert np.sum(np.where(g <= 0.5, variance, signal)) <= 4 * filtered
    assert 1.5 < largest <= 2
