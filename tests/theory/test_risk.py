"""Exact risk: against Monte Carlo, closed forms, and brute force over the stop."""

import pickle
from itertools import product

import numpy as np
import pytest

import stoptime as st
from iteration_cases import AUTO, each_auto
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov
from stoptime.theory.search import lowest

STOPS = np.array([0.0, 0.4, 1.5, 4.0, 12.0, np.inf])
METHODS = [
    st.Ridge(),
    st.GradientFlow(),
    st.AcceleratedFlow(5),
    st.HeavyBallFlow(0.4),
    st.CriticalFlow(),
    st.IteratedRidge(),
]
KNOWN = {"eigenvalues": [1.0, 0.5], "signal": [1.0, 1.0], "noise": 1.0, "n_samples": 5}
each_method = pytest.mark.parametrize("method", METHODS, ids=str)


@pytest.mark.parametrize("method", [*METHODS, *AUTO], ids=str)
@pytest.mark.parametrize("shape", [(30, 8), (5, 12)], ids=str)
def test_risk_is_that_of_the_linear_map(rng, method, shape):
    """Estimation, in-sample prediction, and prediction at rows of another covariance."""
    n, p = shape
    X = rng.standard_normal(shape) * np.geomspace(1, 0.4, p)
    s, V = np.linalg.eigh(X.T @ X / n)
    s = np.maximum(s, 0) * (s > 1e-12)
    beta = rng.standard_normal(p)
    A = rng.standard_normal((p, p))
    stops = np.append(np.arange(201.0), np.inf) if method.whole_stops else STOPS
    hat = st.path(X, np.eye(n), method, stops, fit_intercept=False).coef
    left = hat @ X - np.eye(p)
    known = {"eigenvalues": s, "noise": 0.7, "n_samples": n}
    for weight, target in (
        (np.eye(p), {}),
        (X.T @ X / n, {"target": "prediction"}),
        (A @ A.T, {"covariance": V.T @ A @ A.T @ V}),
    ):
        variance = 0.7 * np.einsum("tir,ij,tjr->t", hat, weight, hat)
        fixed = st.risk(method, stops, signal=V.T @ beta, **known, **target)
        bias = np.einsum("ti,ij,tj->t", left @ beta, weight, left @ beta)
        np.testing.assert_allclose(fixed.bias, bias, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(fixed.variance, variance, rtol=1e-9)
        random = st.bayes_risk(method, stops, signal=2.5, **known, **target)
        bias = 2.5 / p * np.einsum("tir,ij,tjr->t", left, weight, left)
        np.testing.assert_allclose(random.bias, bias, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(random.variance, variance, rtol=1e-9)


@each_auto
def test_the_best_of_every_iterate_and_of_stops_in_any_order(method):
    known = {"eigenvalues": np.geomspace(0.02, 1, 8), "signal": np.ones(8), "noise": 0.5}
    known["n_samples"] = 30
    curve = st.risk(method, np.arange(201), **known)
    assert (curve.best, curve.best_total) == (np.argmin(curve.total), curve.total.min())
    scattered = st.risk(method, [200, 3, 3, np.inf, 0], **known)
    np.testing.assert_allclose(scattered.total[[0, 1, 2, 4]], curve.total[[200, 3, 3, 0]])


def test_gradient_descent_reaches_any_iterate_at_once():
    known = {"eigenvalues": [1e-12, 0.5], "signal": [3.0, 1.0], "noise": 0.0, "n_samples": 9}
    curve = st.risk(GradientDescent(1.0), [0, 1, 10**12], **known)
    np.testing.assert_allclose(curve.bias, [10, 9.25, 9 * np.exp(-2)], rtol=1e-11)


def test_tiny_variance_keeps_its_digits():
    """Variance (σ²/n) s t⁴/64 for t²s down to 1e-30: 1 - g would have lost everything."""
    t = np.array([1e-15, 1e-10, 1e-7])
    curve = st.risk("nesterov-flow", t, eigenvalues=[1.0], signal=[1.0], noise=2.0, n_samples=4)
    np.testing.assert_allclose(curve.variance, 0.5 * t**4 / 64, rtol=1e-12)
    known = {"eigenvalues": [1e-230], "signal": [1.0], "noise": 1.0, "n_samples": 1}
    curve = st.risk("nesterov-flow", [1e100], **known)
    np.testing.assert_allclose(curve.variance, 1e-230 * 1e200 * (1e200 / 64), rtol=1e-12)


def oscillating(seed):
    rng = np.random.default_rng(seed)
    known = {"eigenvalues": np.sort(10 ** rng.uniform(-3, 0, 5)), "n_samples": 30}
    known |= {"signal": rng.standard_normal(5), "noise": 10 ** rng.uniform(-2, 1)}
    return known, np.linspace(0.01, 300, 60_001)


def slow_under_fast(slow, last):
    """A slow strong signal under a fast weak one: the first of hundreds of dips are traps."""
    known = {"eigenvalues": [slow, 1.0], "signal": [3.0, 1.0], "noise": 1e-4, "n_samples": 10}
    return known, np.linspace(0.1, last, 200_001)


def decades_apart(seed):
    """In every direction the signal is about as strong as the noise."""
    rng = np.random.default_rng(seed)
    s = 10.0 ** -np.arange(1, 8, 1.5) * rng.uniform(0.5, 2, 5)
    known = {"eigenvalues": s, "signal": np.sqrt(10 ** rng.uniform(-0.3, 0.3, 5) / s)}
    known |= {"noise": 1.0, "n_samples": 1, "target": "prediction"}
    return known, np.unique(np.round(np.geomspace(1, 1e9, 20_001)))


def long_run():
    known = {"eigenvalues": np.geomspace(1e-4, 1, 40), "signal": np.ones(40), "noise": 1}
    return known | {"n_samples": 2000}, np.arange(1.0, 9001.0)


HARD = [
    *product((st.AcceleratedFlow(), st.HeavyBallFlow(0.01)), map(oscillating, range(3))),
    (st.AcceleratedFlow(0.5), oscillating(0)),
    (st.HeavyBallFlow(1e-3), slow_under_fast(1e-4, 600)),
    (st.HeavyBallFlow(1e-5), slow_under_fast(1.5e-7, 5000)),
    *product((st.Ridge(), st.GradientFlow(), GradientDescent(1.0)), map(decades_apart, range(3))),
    *product((GradientDescent(1.0), HeavyBall(1.0, 0.99)), [long_run()]),
]


@pytest.mark.parametrize(("method", "problem"), HARD, ids=lambda one: str(one)[:40])
def test_best_is_the_least_of_a_dense_curve(method, problem):
    known, dense = problem
    sparse = st.risk(method, dense[[0, -1]], **known)
    every = st.risk(method, dense, **known)
    assert dense[0] <= sparse.best <= dense[-1]
    assert sparse.best_total <= every.total.min() * (1 + 1e-9)
    found = st.risk(method, [sparse.best], **known).total[0]
    assert found == pytest.approx(sparse.best_total, rel=1e-12)
    if method.whole_stops and len(dense) == dense[-1]:
        assert sparse.best == dense[np.argmin(every.total)]


def test_best_is_found_far_out_and_at_any_scale():
    far = {"eigenvalues": [1.0], "signal": 1.0, "noise": 1e-5, "n_samples": 1}
    assert st.bayes_risk("ridge", [0.1, 1e12], **far).best == pytest.approx(1e5, rel=1e-4)
    bests = []
    for scale in (1e-24, 1.0, 1e24):
        known = {"eigenvalues": np.array([1.0, 0.1]) * scale, "signal": 1.0 / scale}
        stops = np.array([0.1, 50]) / np.sqrt(scale)
        curve = st.bayes_risk("nesterov-flow", stops, **known, noise=1.0, n_samples=5)
        bests.append(curve.best * np.sqrt(scale))
    np.testing.assert_allclose(bests, bests[1], rtol=1e-6)
    short = {"eigenvalues": [0.05], "signal": [1.0], "noise": 1e-3 * 0.05, "n_samples": 1}
    curve = st.risk(GradientDescent(1e-4), [0, np.inf], **short)
    assert curve.best_total == pytest.approx(1e-3 / (1 + 1e-3), rel=1e-8)  # g = σ²/(s + σ²)


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow", Nesterov(0.1)], ids=str)
def test_the_best_stop_lies_between_the_first_and_the_last(method):
    setting = {"eigenvalues": [1.0, 0.0], "signal": [1.0, 1.0], "noise": 1e-6, "n_samples": 10}
    curve = st.risk(method, [1.0, 2.0], **setting)  # long before the best of all
    assert 1.0 <= curve.best <= 2.0
    assert curve.best_total == pytest.approx(curve.total.min())
    for stop in (0.0, 3.0, np.inf):
        assert st.risk(method, [stop], **setting).best == stop
    nothing = st.risk(method, [1.0, 2.0], **setting | {"eigenvalues": [0.0, 0.0]})
    assert nothing.best_total == 2.0


def test_a_plateau_of_rounding_errors_is_searched_a_few_times_only():
    """Every other point of noise is a dip: without a limit all whole numbers would be tried."""
    noise = 1 + 2e-16 * np.random.default_rng(0).integers(-2, 3, 20_001)
    looks = []

    def curve(points):
        looks.append(points.size)
        return noise[np.round(points).astype(int)]

    grid = np.unique(np.round(np.geomspace(1, 20_000, 300)))
    for whole in (True, False):
        assert lowest(curve, grid, 40, 8, whole=whole)[1] == pytest.approx(1)
        assert len(looks) == 2
        looks.clear()
    assert lowest(lambda k: np.abs(k - 12_345), grid, 8, whole=True) == (12_345, 0)


@each_method
@pytest.mark.parametrize("decay", [0.1, 3.0])
@pytest.mark.parametrize("target", ["estimation", "prediction"])
def test_inflation_is_the_ratio_of_two_least_risks(method, decay, target):
    known = {"eigenvalues": np.append(np.arange(1.0, 31) ** -decay, 0.0), "n_samples": 40}
    for level in (0.01, 1.0, 30.0):
        setting = known | {"signal": 2.0, "noise": level, "target": target}
        found = st.inflation(method, **setting)
        span = {} if method.universal_guarantee else {"low": 1e-6, "high": 1e6}
        assert 1 - 1e-12 <= found.ratio <= st.calibrate(method, **span).inflation
        # the best ridge has the penalty σ²p/(r²n)
        ridge = st.bayes_risk("ridge", [2.0 * 40 / (level * 31)], **setting).total[0]
        at_stop = st.bayes_risk(method, [found.stop], **setting).total[0]
        assert at_stop / ridge == pytest.approx(found.ratio, rel=1e-9)
        brute = st.bayes_risk(method, np.geomspace(1e-3, 1e4, 3000), **setting).total.min()
        assert found.ratio <= brute / ridge * (1 + 1e-9)


@each_auto
def test_inflation_of_iterations_is_that_of_the_best_iterate(method):
    s = np.geomspace(0.02, 1, 20)
    known = {"eigenvalues": s, "signal": 20.0, "noise": 1.0, "n_samples": 40}
    found = st.inflation(method, **known)
    every = st.bayes_risk(method, np.arange(2000), **known)
    ridge = st.bayes_risk("ridge", [40.0], **known)
    assert found.ratio == pytest.approx(every.total.min() / ridge.total[0], rel=1e-9)
    assert found.stop == every.stops[np.argmin(every.total)]


def test_inflation_beyond_the_longest_search_is_that_of_the_flow(monkeypatch):
    known = {"eigenvalues": np.geomspace(1e-12, 1, 20), "signal": 20.0, "noise": 1.0}
    flow = st.inflation("nesterov-flow", **known, n_samples=1e10)
    monkeypatch.setattr(Nesterov, "coefficients", lambda *_: pytest.fail("a step was taken"))
    far = st.inflation(Nesterov(1.0), **known, n_samples=1e10)
    assert far == st.Inflation(flow.ratio, round(flow.stop))


def test_the_worst_spectrum_reaches_the_constant():
    """The exact inflation of the spectrum that proves the lower end, and of one beside it."""
    pytest.importorskip("flint")
    constant = st.bounds.risk_inflation("gradient-flow", adaptive=True)
    x, shares = np.array(constant.spectrum).T
    # rounded up: a small share of small eigenvalues is what makes late stops bad
    count = np.ceil(50_000 * shares).astype(int)

    def ratio(x):
        # signal len(s) and noise 1 of one row make 1 the best penalty
        known = {"eigenvalues": np.repeat(x, count), "signal": float(count.sum())}
        return st.inflation("gradient-flow", **known, noise=1.0, n_samples=1.0).ratio

    assert constant.lower - 2e-4 <= ratio(x) <= constant.upper
    assert ratio(10 * x) < constant.lower - 0.02


def test_plots_pickle_and_repr():
    curve = st.risk("nesterov-flow", [0, 1, 5, np.inf], **KNOWN)
    ax = curve.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:3] == ["risk", "bias²", "variance"]
    assert curve.plot(ax=ax) is ax
    assert repr(curve).startswith("RiskCurve(AcceleratedFlow(friction=3.0), 4 stops, least risk")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(curve)).total, curve.total)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eigenvalues": [1.0, -1.0]}, "eigenvalues must be"),
        ({"eigenvalues": []}, "eigenvalues must be"),
        ({"eigenvalues": [[1.0, 2.0]]}, "eigenvalues must be"),
        ({"signal": [1.0]}, r"each of the 2 eigenvalues; got the shape \(1,\)"),
        ({"signal": [np.nan, 1.0]}, "signal must have one finite coordinate"),
        ({"signal": [[1.0, 1.0]]}, "signal must have"),
        ({"noise": -1}, "noise must be"),
        ({"n_samples": 0}, "n_samples must be"),
        ({"target": "training"}, "target must be"),
        ({"covariance": np.eye(3)}, "covariance must be"),
        ({"covariance": np.eye(2), "target": "prediction"}, "not both"),
        ({"covariance": [[1.0, 0.5], [0.4, 1.0]]}, "must be symmetric"),
        ({"covariance": [[1.0, 1.5], [1.5, 1.0]]}, r"eigenvalues; its least is -0\.5\."),
        ({"stops": [-1.0]}, "stops must be"),
        ({"stops": []}, "stops must be"),
        ({"stops": [[1.0]]}, "stops must be"),
    ],
)
def test_bad_arguments(change, message):
    given = {"stops": [1.0], **KNOWN, **change}
    with pytest.raises(ValueError, match=message):
        st.risk("ridge", given.pop("stops"), **given)


@pytest.mark.parametrize("size", [1e-7, 1.0, 1e7])
def test_a_covariance_may_be_off_by_rounding_at_any_scale(size):
    known = KNOWN | {"signal": [1.0, 2.0]}
    for rounding in (0.0, -1.5e-10 * np.eye(2), np.array([[0, 5e-11], [0, 0]])):
        curve = st.risk("ridge", [0.0], **known, covariance=size * (np.ones((2, 2)) + rounding))
        assert curve.bias[0] == pytest.approx(9 * size)  # (1 + 2)²
    with pytest.raises(ValueError, match="must be symmetric"):
        st.risk("ridge", [0.0], **known, covariance=size * np.array([[1, 1], [1 - 2e-10, 1]]))


# --- signals that lean towards the leading directions ---------------------------------------------

# eigenvalues i^-a, squared coordinates i^-b, noise; gradient flow and frictions 3 and 9 over ridge
TABLE = [
    (1, 0, 1.0, 1.020, 1.072, 1.038),
    (1, 2, 1e-2, 0.545, 0.827, 0.529),
    (1.5, 4, 1e-4, 0.252, 0.540, 0.244),
]


def powers(a, b, p=400):
    return {"eigenvalues": np.arange(1.0, p + 1) ** -a, "signal": np.arange(1.0, p + 1) ** (-b / 2)}


@pytest.mark.parametrize(("a", "b", "noise", "gradient", "three", "nine"), TABLE)
def test_stopping_early_beats_ridge_where_the_signal_leans(a, b, noise, gradient, three, nine):
    known = powers(a, b) | {"noise": noise, "n_samples": 2000, "target": "prediction"}
    flows = (st.GradientFlow(), st.AcceleratedFlow(3), st.AcceleratedFlow(9))
    found = [st.inflation(method, **known).ratio for method in flows]
    np.testing.assert_allclose(found, [gradient, three, nine], atol=5.1e-4)
    stops = np.geomspace(1e-3, 1e5, 2000)
    least = [st.risk(m, stops, **known).total.min() for m in (flows[0], "ridge")]
    assert found[0] == pytest.approx(least[0] / least[1], rel=1e-5)


@pytest.mark.parametrize(
    "method",
    [st.Ridge(), st.IteratedRidge(3), st.GradientFlow(), st.CriticalFlow(), st.SpectralCutoff()],
    ids=str,
)
@pytest.mark.parametrize(
    ("a", "b", "target"), [(1.5, 5, "prediction"), (1, 6, "prediction"), (2, 2.5, "estimation")]
)
def test_the_least_risk_falls_with_the_power_of_n_that_is_known(method, a, b, target):
    qualification = {"ridge": 1, "iterated-ridge": 3}.get(method.name, np.inf)
    estimates = target == "estimation"
    variance = 1 + a * estimates
    m = min(b - 1 + a * (not estimates), 2 * qualification * a)
    exponent = -m / (m + variance)
    # so many rows that the first 50 and the first 200 directions are learned
    n = np.array([50.0, 200.0]) ** (m + variance)
    problem = powers(a, b, p=3000) | {"noise": 1.0, "target": target}
    least = [st.risk(method, [0, np.inf], n_samples=one, **problem).best_total for one in n]
    slope = np.log(least[1] / least[0]) / np.log(n[1] / n[0])
    assert slope == pytest.approx(exponent, rel=0.025)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signal": [0, 0]}, "coordinate other than zero"),
        ({"signal": [1, 1, 1]}, "each of the 2 eigenvalues"),
        ({"target": "both"}, "target must be"),
        ({"noise": 0}, "noise must be a pos"),
    ],
)
def test_inflations_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        st.inflation("ridge", **KNOWN | change)
