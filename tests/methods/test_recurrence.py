"""The one loop of all iterations: closed forms, 50 digits, raw data, broadcasting, memory."""

import tracemalloc

import mpmath as mp
import numpy as np
import pytest

import stoptime as st
from iteration_cases import each, each_auto, make_data
from methods.closed_forms import closed_form
from stoptime.methods import recurrence
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import filtered
from stoptime.theory.search import closer_stops

X_EXACT = (
    np.arange(1025) / 1024
)  # 1 - x is then a float, and a closed form does not suffer from rounding it


@each
@pytest.mark.parametrize("k", [0, 1, 2, 3, 10, 57, 200])
def test_recurrence_is_the_closed_form(method, k):
    s = X_EXACT / method.step
    np.testing.assert_allclose(
        method.shrinkage(s, k), closed_form(method, s, k), atol=1e-12, rtol=0
    )
    gain = (1 - closed_form(method, s[1:], k)) / s[1:]
    np.testing.assert_allclose(method.gain(s[1:], k), gain, rtol=1e-9, atol=0)


def test_closed_forms_say_where_they_end():
    with pytest.raises(ValueError, match="at most one"):
        closed_form(Nesterov(1.0), [1.1], 3)
    with pytest.raises(ValueError, match=r"whole numbers.*2\.5"):
        closed_form(Nesterov(1.0), [0.1], 2.5)


def fifty_digits(method, s, k):
    """Run the iteration as it is printed in papers, on one direction with unit response."""
    mp.mp.dps = 50
    s, step = mp.mpf(float(s)), mp.mpf(method.step)
    old = b = mp.mpf(0)
    for j in range(1, k + 1):
        match method:
            case GradientDescent():
                point, move, weight = b, 0, 1
            case HeavyBall(momentum=eta):
                point, move, weight = b, mp.mpf(eta) * (b - old), 1
            case Nesterov(momentum=None, friction=r):
                ratio = mp.mpf(j - 2) / (mp.mpf(j - 1) + mp.mpf(r) - 1) if j > 1 else 0
                point, move, weight = b + ratio * (b - old), ratio * (b - old), 1
            case Nesterov(momentum=eta):
                point, move, weight = b + mp.mpf(eta) * (b - old), mp.mpf(eta) * (b - old), 1
            case NuMethod(nu=nu):  # Engl, Hanke, Neubauer (1996), algorithm 6.13
                nu = mp.mpf(nu)
                move = (
                    (j - 1) * (2 * j - 3) * (2 * j + 2 * nu - 1)
                    / ((j + 2 * nu - 1) * (2 * j + 4 * nu - 1) * (2 * j + 2 * nu - 3))
                ) * (b - old)  # fmt: skip
                weight = (
                    4
                    * (2 * j + 2 * nu - 1)
                    * (j + nu - 1)
                    / ((j + 2 * nu - 1) * (2 * j + 4 * nu - 1))
                )
                point = b
        b, old = b + move + weight * step * (1 - s * point), b
    return 1 - s * b, b


@each
def test_long_runs_against_fifty_digits(method):
    for x in (1e-12, 1e-5, 1e-3, 0.02, 0.3, 0.77, 1.0):
        s = x / method.step
        for k in (1, 2, 30, 500):
            g, gain = fifty_digits(method, s, k)
            assert abs(float(method.shrinkage(s, k)) - g) < 1e-12
            assert abs(float(method.gain(s, k)) / gain - 1) < 1e-12


@each_auto
def test_path_is_the_iteration_on_the_raw_data(method):
    X, y = make_data(40, 6)
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, method, np.arange(31))
    tuned = drawn.method
    b = old = np.zeros(6)
    penalty = tuned.get_params().get("penalty", 0.0)  # the optimal iteration descends on ridge
    for k in range(31):
        np.testing.assert_allclose(drawn.coef[k], b, rtol=1e-10, atol=1e-13)
        momentum, lookahead, weight = tuned.coefficients(k + 1)
        point = b + lookahead * (b - old)
        gradient = Xc.T @ (Xc @ point - yc) / 40 + penalty * point
        b, old = b + momentum * (b - old) - weight * tuned.step * gradient, b


def test_nesterov_is_su_boyd_candes():
    X, y = make_data(50, 7)
    step, n = 0.2, 50
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, Nesterov(step), np.arange(1, 61)).coef
    b = theta = np.zeros(7)
    for k in range(1, 61):
        b, old = theta - step * (Xc.T @ (Xc @ theta - yc) / n), b
        theta = b + (k - 1) / (k + 2) * (b - old)
        np.testing.assert_allclose(drawn[k - 1], b, rtol=1e-9, atol=1e-13)


@each
def test_gain_and_shrinkage_add_up_and_start_at_nothing(method):
    s, k = (
        np.concatenate([[0, 1e-300], np.geomspace(1e-8, 1 / method.step, 40)])[:, None],
        np.arange(60),
    )
    g, gain = method.shrinkage(s, k), method.gain(s, k)
    np.testing.assert_allclose(gain * s + g, 1, atol=1e-13)
    assert np.all(g[:, 0] == 1)
    assert np.all(gain[:, 0] == 0)
    assert np.all(g[0] == 1)
    np.testing.assert_allclose(gain[0], gain[1], rtol=1e-13)
    np.testing.assert_array_equal(method.gain([0, 0.5], np.inf), [np.inf, 2])
    np.testing.assert_array_equal(method.shrinkage([0, 0.5], np.inf), [1, 0])


@each
def test_broadcasting_scalars_and_pairs(method):
    s, k = np.array([0.1, 0.5, 1.0]), np.array([7, 2])
    table = method.shrinkage(s[:, None], k)
    assert table.shape == (3, 2)
    assert method.gain(s, 3).shape == (3,)
    assert np.ndim(method.gain(1.0, 3)) == 0
    assert method.gain(np.empty((0, 1)), k).shape == (0, 2)
    assert method.gain(s[:, None], np.empty(0)).shape == (3, 0)
    assert method.shrinkage(0.5, 2) == table[1, 1]
    np.testing.assert_array_equal(
        method.shrinkage(s, [7, 2, 7]), [table[0, 0], table[1, 1], table[2, 0]]
    )


def test_many_pairs_are_cut_into_blocks():
    rng = np.random.default_rng(0)
    x, k = rng.uniform(size=3000), rng.permutation(3000)
    method = Nesterov(1.0)
    found = filtered(method.run, x, k, 1.0)
    for i in (0, 1023, 1024, 2999):
        assert found[i] == method.shrinkage(x[i], k[i])


def test_a_hundred_thousand_iterations_in_bounded_memory():
    s = np.linspace(0, 1, 300)
    heavy = {"eigenvalues": s, "signal": 1, "noise": 1, "n_samples": 9}
    tracemalloc.start()  # every allocation is traced, which takes most of the time
    Nesterov(1.0).gain(s[:, None], [1, 15_000, 30_000])
    st.bayes_risk(HeavyBall(1.0, 0.9), [10, 30_000], **heavy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    gain = Nesterov(1.0).gain(s[:, None], [1, 50_000, 100_000])
    bias, _ = st.bayes_risk(HeavyBall(1.0, 0.9), [10, 100_000], **heavy).model.evaluate(
        np.array([10.0, 100_000.0])
    )
    assert np.isfinite(gain).all()
    assert bias[1] == pytest.approx(1 / 300)
    assert float(GradientDescent(1.0).gain(1e-9, 1e12)) == pytest.approx(1e9)
    with pytest.raises(ValueError, match="beyond the limit of 10000000"):
        Nesterov(1.0).gain(s, 1e150)


def test_the_most_steps_are_still_run(monkeypatch):
    monkeypatch.setattr(recurrence, "MOST_ITERATIONS", 50)
    assert Nesterov(1.0).shrinkage(0.0, 50) == 1
    with pytest.raises(ValueError, match="51 iterations is beyond the limit of 50"):
        Nesterov(1.0).shrinkage(0.0, 51)


@each
@pytest.mark.parametrize("call", ["shrinkage", "gain"])
def test_stops_are_whole_numbers(method, call):
    with pytest.raises(ValueError, match=r"whole numbers.*2\.5"):
        getattr(method, call)(1.0, [1, 2.5])
    with pytest.raises(ValueError, match=r"t must be.*-1"):
        getattr(method, call)(1.0, -1)


def test_closer_stops():
    np.testing.assert_array_equal(
        closer_stops(np.arange(0.0, 17, 3), np.array([3])), [7, 8, 10, 11]
    )
    np.testing.assert_array_equal(closer_stops(np.array([0.0, 1, 2, np.inf]), np.array([1, 3])), [])
    found = closer_stops(np.array([0.0, 1000.0, 5000.0]), np.array([1]), most=10)
    assert len(found) == 8
    assert np.all(found == np.round(found))


@each
@pytest.mark.parametrize(
    "stops", [[0, 1, 2, 7, 7, 30], [5, 2, 9], [0, 4, np.inf], [3], []], ids=str
)
@pytest.mark.parametrize("height", [1, 2, 100])
def test_tables_of_filters_are_the_filters(method, stops, height):
    s, stops = np.array([0.0, 0.01, 0.4, 0.9]) / method.step, np.array(stops, dtype=float)
    tables = list(method.filters(s, stops, height))
    assert [g.shape[1] for g, _ in tables] == [
        len(stops[i : i + height]) for i in range(0, len(stops), height)
    ]
    if tables:
        g, gain = (np.hstack(parts) for parts in zip(*tables, strict=True))
        np.testing.assert_allclose(g, method.shrinkage(s[:, None], stops), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(gain, method.gain(s[:, None], stops), rtol=1e-11)
