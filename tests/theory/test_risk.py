"""Exact risk: against Monte Carlo, closed forms, and brute force over the stop."""

import pickle
import re

import numpy as np
import pytest

import stoptime as st

REPLICATES = 4000
STANDARD_ERRORS = 4.5  # over all comparisons here a false alarm has odds of about one in a thousand
STOPS = np.array([0.0, 0.4, 1.5, 4.0, 12.0, np.inf])
METHODS = [
    st.Ridge(),
    st.GradientFlow(),
    st.AcceleratedFlow(),
    st.AcceleratedFlow(5),
    st.HeavyBallFlow(),
    st.HeavyBallFlow(0.4),
    st.CriticalFlow(),
    st.IteratedRidge(),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=str)


def noise(rng, kind, shape):
    if kind == "gaussian":
        return rng.standard_normal(shape)
    return rng.standard_t(6, shape) / np.sqrt(6 / 4)


def design(rng, n, p):
    X = rng.standard_normal((n, p)) * np.geomspace(1, 0.4, p)
    s, V = np.linalg.eigh(X.T @ X / n)
    return X, np.maximum(s, 0) * (s > 1e-12), V


def simulate(X, method, beta, errors):
    """Coefficients, less the truth, of every replicate at every stop: (stops, p, replicates)."""
    path = st.path(X, X @ beta + errors, method, STOPS, fit_intercept=False)
    return path.coef - beta


def assert_agrees(losses, exact):
    mean, error = losses.mean(axis=1), losses.std(axis=1) / np.sqrt(losses.shape[1])
    np.testing.assert_array_less(np.abs(mean - exact), STANDARD_ERRORS * error + 1e-9 * (1 + exact))


@each_method
@pytest.mark.parametrize("kind", ["gaussian", "student"])
def test_risk_of_fixed_coefficients_by_monte_carlo(rng, method, kind):
    X, s, V = design(rng, 40, 6)
    beta = rng.standard_normal(6)
    gap = simulate(X, method, beta[:, None], noise(rng, kind, (40, REPLICATES)))
    known = {"eigenvalues": s, "signal": V.T @ beta, "noise": 1.0, "n_samples": 40}
    assert_agrees((gap**2).sum(axis=1), st.risk(method, STOPS, **known).total)
    in_sample = np.einsum("ij,tjr->tir", X, gap)
    assert_agrees(
        (in_sample**2).mean(axis=1), st.risk(method, STOPS, **known, target="prediction").total
    )
    A = rng.standard_normal((6, 6))
    population = A @ A.T
    losses = np.einsum("tir,ij,tjr->tr", gap, population, gap)
    assert_agrees(losses, st.risk(method, STOPS, **known, covariance=V.T @ population @ V).total)


@each_method
@pytest.mark.parametrize("kind", ["gaussian", "student"])
def test_bayes_risk_by_monte_carlo(rng, method, kind):
    X, s, V = design(rng, 40, 6)
    signal = 2.5
    betas = noise(rng, kind, (6, REPLICATES)) * np.sqrt(signal / 6)
    gap = simulate(X, method, betas, noise(rng, kind, (40, REPLICATES)) * np.sqrt(0.7))
    known = {"eigenvalues": s, "signal": signal, "noise": 0.7, "n_samples": 40}
    assert_agrees((gap**2).sum(axis=1), st.bayes_risk(method, STOPS, **known).total)
    in_sample = np.einsum("ij,tjr->tir", X, gap)
    assert_agrees(
        (in_sample**2).mean(axis=1),
        st.bayes_risk(method, STOPS, **known, target="prediction").total,
    )
    A = rng.standard_normal((6, 6))
    losses = np.einsum("tir,ij,tjr->tr", gap, A @ A.T, gap)
    assert_agrees(losses, st.bayes_risk(method, STOPS, **known, covariance=V.T @ A @ A.T @ V).total)


@pytest.mark.parametrize("method", [m for m in METHODS if m != st.HeavyBallFlow()], ids=str)
def test_wide_designs_by_monte_carlo(rng, method):
    """Null directions carry bias and no variance."""
    X, s, V = design(rng, 5, 12)
    assert np.sum(s == 0) == 7
    beta = rng.standard_normal(12)
    gap = simulate(X, method, beta[:, None], noise(rng, "gaussian", (5, REPLICATES)))
    curve = st.risk(method, STOPS, eigenvalues=s, signal=V.T @ beta, noise=1.0, n_samples=5)
    assert_agrees((gap**2).sum(axis=1), curve.total)
    null = (V.T @ beta)[s == 0]
    assert curve.bias[-1] == pytest.approx(null @ null, rel=1e-9)


@each_method
def test_the_ends_of_the_curve(method):
    s, a = np.array([0.25, 1.0]), np.array([2.0, 3.0])
    curve = st.risk(method, [0, np.inf], eigenvalues=s, signal=a, noise=0.5, n_samples=10)
    np.testing.assert_allclose(curve.bias, [13, 0])
    np.testing.assert_allclose(curve.variance, [0, 0.05 * (4 + 1)])
    np.testing.assert_allclose(curve.total, curve.bias + curve.variance)


def test_tiny_variance_keeps_its_digits():
    """Variance (σ²/n) s t⁴/64 for t²s down to 1e-30: 1 - g would have lost everything."""
    t = np.array([1e-15, 1e-10, 1e-7])
    curve = st.risk("nesterov-flow", t, eigenvalues=[1.0], signal=[1.0], noise=2.0, n_samples=4)
    np.testing.assert_allclose(curve.variance, 0.5 * t**4 / 64, rtol=1e-12)
    curve = st.risk(
        "nesterov-flow", [1e100], eigenvalues=[1e-230], signal=[1.0], noise=1.0, n_samples=1
    )
    np.testing.assert_allclose(curve.variance, 1e-230 * 1e200 * (1e200 / 64), rtol=1e-12)


@pytest.mark.parametrize(
    "method", [st.AcceleratedFlow(), st.AcceleratedFlow(0.5), st.HeavyBallFlow(0.01)], ids=str
)
@pytest.mark.parametrize("seed", range(4))
def test_best_is_the_global_minimum_of_an_oscillating_curve(method, seed):
    rng = np.random.default_rng(seed)
    s = np.sort(10 ** rng.uniform(-3, 0, 5))
    known = {
        "eigenvalues": s,
        "signal": rng.standard_normal(5),
        "noise": 10 ** rng.uniform(-2, 1),
        "n_samples": 30,
    }
    coarse = st.risk(method, np.geomspace(0.01, 300, 7), **known)
    dense = st.risk(method, np.linspace(0.01, 300, 60_001), **known)
    assert coarse.best_total <= dense.total.min() * (1 + 1e-12)
    assert coarse.best_total >= dense.total.min() * (1 - 1e-6)
    assert 0.01 <= coarse.best <= 300
    assert st.risk(method, [coarse.best], **known).total[0] == pytest.approx(
        coarse.best_total, rel=1e-12
    )


def test_best_is_not_the_first_dip():
    """Slow strong signal under a fast weak one: the first dip is a trap."""
    known = {"eigenvalues": [1e-4, 1.0], "signal": [3.0, 1.0], "noise": 1e-4, "n_samples": 10}
    curve = st.risk(st.HeavyBallFlow(1e-3), np.linspace(0.1, 600, 50), **known)
    early = st.risk(st.HeavyBallFlow(1e-3), np.linspace(0.1, 20, 5000), **known)
    dips = np.flatnonzero((np.diff(early.total)[:-1] < 0) & (np.diff(early.total)[1:] > 0))
    assert len(dips) >= 2
    assert curve.best > 100
    assert curve.best_total < early.total.min() / 2


@pytest.mark.parametrize("noise", [1e-6, 1e-3])
def test_best_is_the_lowest_of_hundreds_of_dips(noise):
    known = {"eigenvalues": [1.5e-7, 1.0], "signal": [3.0, 1.0], "noise": noise, "n_samples": 10}
    curve = st.risk(st.HeavyBallFlow(1e-5), [0.1, 5000], **known)
    dense = st.risk(st.HeavyBallFlow(1e-5), np.linspace(0.1, 5000, 200_001), **known)
    assert curve.best_total <= dense.total.min()


def test_best_ridge_is_the_oracle():
    s = np.geomspace(1e-3, 1, 20)
    curve = st.bayes_risk("ridge", [1e-3, 1e5], eigenvalues=s, signal=3.0, noise=2.0, n_samples=50)
    alpha = 3.0 * 50 / (2.0 * 20)
    assert curve.best == pytest.approx(alpha, rel=1e-5)
    assert curve.best_total == pytest.approx(2.0 / 50 * np.sum(alpha / (alpha * s + 1)), rel=1e-12)


@each_method
@pytest.mark.parametrize("decay", [0.1, 1.0, 3.0])
def test_inflation_is_between_one_and_its_bound(method, decay):
    s = np.arange(1.0, 31) ** -decay
    for noise_level in (0.01, 1.0, 30.0):
        found = st.inflation(method, eigenvalues=s, signal=2.0, noise=noise_level, n_samples=40)
        assert found.ratio >= 1 - 1e-12
        if isinstance(method, st.GradientFlow):
            assert found.ratio <= 1.0785829
        if method == st.AcceleratedFlow():
            assert found.ratio <= 1.5991095
        known = {"eigenvalues": s, "signal": 2.0, "noise": noise_level, "n_samples": 40}
        at_stop = st.bayes_risk(method, [found.stop], **known).total[0]
        ridge = st.bayes_risk("ridge", [1e-6, 1e9], **known).best_total
        assert at_stop / ridge == pytest.approx(found.ratio, rel=1e-9)
        brute = st.bayes_risk(method, np.geomspace(1e-3, 1e4, 3000), **known).total.min()
        assert found.ratio <= brute / ridge * (1 + 1e-9)


@pytest.mark.parametrize("method", [st.GradientFlow(), st.AcceleratedFlow()], ids=str)
def test_the_worst_spectrum_reaches_the_constant(method):
    """The exact inflation of the spectrum that proves the lower end, and of one beside it."""
    pytest.importorskip("flint")
    constant = st.bounds.risk_inflation(method, adaptive=True)
    x, shares = np.array(constant.spectrum).T
    # rounded up: a small share of small eigenvalues is what makes late stops bad
    count = np.ceil(50_000 * shares).astype(int)

    def ratio(x):
        s = np.repeat(x, count)
        return st.inflation(
            method, eigenvalues=s, signal=float(len(s)), noise=1.0, n_samples=1.0
        ).ratio

    # signal len(s) and noise 1 of one row make 1 the best penalty
    assert constant.lower - 2e-4 <= ratio(x) <= constant.upper
    assert ratio(10 * x) < constant.lower - 0.02


def test_plots_pickle_and_repr():
    curve = st.risk(
        "nesterov-flow",
        [0, 1, 5, np.inf],
        eigenvalues=[1, 0.1],
        signal=[1, 1],
        noise=1,
        n_samples=9,
    )
    ax = curve.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()][:3] == [
        "risk",
        "bias²",
        "variance",
    ]
    assert curve.plot(ax=ax) is ax
    assert repr(curve).startswith("RiskCurve(AcceleratedFlow(friction=3.0), 4 stops, least risk")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(curve)).total, curve.total)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eigenvalues": [1.0, -1.0]}, "eigenvalues must be"),
        ({"signal": [1.0]}, "one coordinate per eigenvalue, 2; got 1"),
        ({"noise": -1}, "noise must be"),
        ({"n_samples": 0}, "n_samples must be"),
        ({"target": "training"}, "target must be"),
        ({"covariance": np.eye(3)}, "covariance must be"),
        ({"covariance": np.eye(2), "target": "prediction"}, "not both"),
    ],
)
def test_bad_arguments(change, message):
    known = {"eigenvalues": [1.0, 0.5], "signal": [1.0, 1.0], "noise": 1.0, "n_samples": 5}
    with pytest.raises(ValueError, match=message):
        st.risk("ridge", [1.0], **{**known, **change})


def test_bad_stops_and_aspect():
    known = {"eigenvalues": [1.0], "signal": [1.0], "noise": 1.0, "n_samples": 5}
    for bad in ([-1.0], [], [[1.0]]):
        with pytest.raises(ValueError, match="stops must be"):
            st.risk("ridge", bad, **known)
    with pytest.raises(ValueError, match="aspect must be"):
        st.limiting_risk("ridge", [1.0], aspect=0, signal=1, noise=1)


def test_best_is_found_far_out_and_at_any_scale():
    known = {"signal": 1.0, "noise": 1e-5, "n_samples": 1}
    assert st.bayes_risk("ridge", [0.1, 1e12], eigenvalues=[1.0], **known).best == pytest.approx(
        1e5, rel=1e-4
    )
    for scale in (1e-24, 1e24):
        known = {
            "eigenvalues": np.array([1.0, 0.1]) * scale,
            "signal": 1.0 / scale,
            "noise": 1.0,
            "n_samples": 5,
        }
        plain = st.bayes_risk(
            "nesterov-flow", [0.1, 50], eigenvalues=[1.0, 0.1], signal=1.0, noise=1.0, n_samples=5
        )
        stops = np.array([0.1, 50]) / np.sqrt(scale)
        assert st.bayes_risk("nesterov-flow", stops, **known).best * np.sqrt(
            scale
        ) == pytest.approx(plain.best, rel=1e-6)


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [[1.0, 1.0]]])
def test_bad_signals(bad):
    with pytest.raises(ValueError, match="signal must be"):
        st.risk("ridge", [1.0], eigenvalues=[1.0, 0.5], signal=bad, noise=1.0, n_samples=5)


def test_bad_spectra_and_late_stops():
    for bad in ([], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="eigenvalues must be"):
            st.inflation("ridge", eigenvalues=bad, signal=1.0, noise=1.0, n_samples=5)
    with pytest.raises(ValueError, match="stops must be at most"):
        st.limiting_risk("nesterov-flow", [1e9], aspect=0.5, signal=1.0, noise=1.0)


@pytest.mark.parametrize(
    "method", ["gradient-flow", "nesterov-flow", st.HeavyBallFlow(0.1), st.Nesterov(0.1)], ids=str
)
def test_the_best_stop_lies_between_the_first_and_the_last(method):
    setting = {"eigenvalues": [1.0, 0.5], "signal": [1.0, 1.0], "noise": 1e-6, "n_samples": 10}
    first, last = 0.9, 1.1  # long before the best of all
    if isinstance(method, st.Nesterov):
        first, last = 2, 3
    curve = st.risk(method, [first, last], **setting)
    assert first <= curve.best <= last
    np.testing.assert_allclose(curve.best_total, curve.total.min())


def test_where_nothing_can_be_learned_every_stop_is_best():
    curve = st.risk(
        "nesterov-flow",
        [1.0, 2.0],
        eigenvalues=[0.0, 0.0],
        signal=[1.0, 2.0],
        noise=1.0,
        n_samples=10,
    )
    assert curve.best in {1.0, 2.0}
    assert curve.best_total == 5.0


@pytest.mark.parametrize("size", [1e-7, 1.0, 1e7])
def test_a_covariance_is_symmetric_and_not_negative_up_to_rounding(size):
    known = {"eigenvalues": [1.0, 0.5], "signal": [1.0, 2.0], "noise": 1.0, "n_samples": 5}
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    for rounded in (0 * singular, -1e-11 * np.eye(2), -1.5e-10 * np.eye(2), [[0, 5e-11], [0, 0]]):
        curve = st.risk("ridge", [0.0], **known, covariance=size * (singular + rounded))
        assert curve.bias[0] == pytest.approx(9 * size)  # (1 + 2)²
    for skewed in ([[1.0, 0.5], [0.4, 1.0]], [[1.0, 1.0], [1.0 - 2e-10, 1.0]]):
        with pytest.raises(ValueError, match="must be symmetric"):
            st.risk("ridge", [0.0], **known, covariance=size * np.array(skewed))
    with pytest.raises(
        ValueError, match=re.escape(f"no negative eigenvalues; its least is {-0.5 * size:.3g}.")
    ):
        st.risk("ridge", [0.0], **known, covariance=size * np.array([[1.0, 1.5], [1.5, 1.0]]))


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow", st.Nesterov(0.5)], ids=str)
def test_the_only_stop_is_the_best(method):
    for stop in (0.0, 3.0, np.inf):
        curve = st.risk(
            method, [stop], eigenvalues=[1.0, 0.0], signal=[1.0, 1.0], noise=1.0, n_samples=5
        )
        assert curve.best == stop
        assert curve.best_total == curve.total[0]


@pytest.mark.parametrize(
    "method", [st.Ridge(), st.GradientFlow(), st.GradientDescent(1.0)], ids=str
)
@pytest.mark.parametrize("seed", range(6))
def test_best_is_the_lowest_of_dips_that_lie_decades_apart(method, seed):
    rng = np.random.default_rng(seed)
    s = 10.0 ** -np.arange(1, 8, 1.5) * rng.uniform(0.5, 2, 5)
    signal = np.sqrt(
        10 ** rng.uniform(-0.3, 0.3, 5) / s
    )  # in every direction about as strong as the noise
    known = {
        "eigenvalues": s,
        "signal": signal,
        "noise": 1.0,
        "n_samples": 1,
        "target": "prediction",
    }
    every = np.unique(np.round(np.geomspace(1, 1e9, 20_001)))
    dense = st.risk(method, every, **known).total.min()
    assert st.risk(method, [1, 1e9], **known).best_total <= dense * (1 + 1e-9)


@pytest.mark.parametrize("step", [1e-4, 1.0, 1e4])
def test_best_of_all_iterates_is_found_however_short_the_step(step):
    known = {
        "eigenvalues": [0.05 / step],
        "signal": [1.0],
        "noise": 1e-3 * 0.05 / step,
        "n_samples": 1,
    }
    curve = st.risk(st.GradientDescent(step / 1e4), [0, np.inf], **known)
    assert curve.best_total == pytest.approx(1e-3 / (1 + 1e-3), rel=1e-8)  # g = σ²/(s + σ²)


def test_the_best_iteration_is_the_least_of_all_in_one_run(monkeypatch):
    runs = []
    run = st.Nesterov.run
    monkeypatch.setattr(st.Nesterov, "run", lambda *given: runs.append(1) or run(*given))
    s = np.geomspace(1e-3, 1, 5)
    prior = {"eigenvalues": s, "signal": 1.0, "noise": 0.3, "n_samples": 30}
    every = st.bayes_risk(st.Nesterov(step=0.9), np.arange(400), **prior)
    runs.clear()
    stop, risk = every.model.minimum(1.0, 399.0)
    assert (stop, risk) == (np.argmin(every.total), every.total.min())
    assert len(runs) == 1


@pytest.mark.parametrize("name", sorted(st.METHODS))
def test_the_risk_that_a_search_minimises_is_bias_plus_variance(name):
    """The search takes g from the gain, which loses digits only where the variance hides them."""
    s = np.geomspace(1e-4, 2.0, 12)
    method = st.get_method(name).tuned_to(s)
    curve = st.bayes_risk(method, [0.0], eigenvalues=s, signal=1.0, noise=1e-6, n_samples=50)
    stops = np.append(np.geomspace(0.01, 1e4, 60).reshape(2, 30), [[np.inf] * 30], axis=0)
    parts = curve.model.evaluate(stops.ravel())
    assert curve.model.total(stops) == pytest.approx(sum(parts).reshape(stops.shape), rel=1e-12)
