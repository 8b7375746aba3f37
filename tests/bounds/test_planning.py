"""Plans: where to stop, the equivalent penalty, guarantees, torch's words, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import stoptime as st
from stoptime.methods.iterations import HeavyBall, Nesterov, NuMethod
from stoptime.show.plan import plan
from stoptime.theory.search import risk_ratio


@pytest.fixture
def data(rng):
    X = rng.standard_normal((80, 20)) * np.geomspace(0.2, 1, 20)
    return X, X @ rng.standard_normal(20) / 4 + rng.standard_normal(80)


def test_more_friction_costs_time_and_buys_safety():
    for penalty in (0.01, 0.001):
        found = plan(penalty, step=1.0)
        assert found.iterations <= found.safer.iterations < found.descent.iterations
        assert 1 < found.descent.inflation < found.safer.inflation < found.run.inflation < 1.5992


@pytest.mark.parametrize("method", ["nesterov", "heavy-ball"])
@pytest.mark.parametrize("penalty", [0.001, 0.003])
def test_eigenvalues_that_a_krylov_space_has_not_seen_are_planned_for(rng, method, penalty):
    X = sparse.random(300, 150, density=0.1, random_state=0, format="csr")
    y = X @ rng.standard_normal(150) + rng.standard_normal(300)
    seen, all_of_them = (
        st.decompose(X, y, solver="krylov", max_gain=20.0),
        st.decompose(X, y).eigenvalues,
    )
    run = plan(penalty, spectrum=seen, method=method, momentum=0.9).run
    found = risk_ratio(run.method.in_units_of(penalty), all_of_them / penalty, run.iterations)
    assert found.max() < run.inflation * (
        1 + 1e-3
    )  # whose largest Ritz value is a little too small
    assert run.expected_inflation is None


def test_data_give_penalty_and_step(data):
    X, y = data
    spectrum = st.decompose(X, y)
    found = plan(X=X, y=y)
    assert found.penalty == st.estimate_oracle(spectrum).penalty
    assert found.run.method.step == 1 / spectrum.eigenvalues[-1]
    assert found == plan(spectrum=spectrum)
    bare = plan(found.penalty, spectrum=spectrum.eigenvalues)
    assert bare.run == replace(found.run, expected_error=None)
    oracle = st.estimate_oracle(spectrum)
    known = {"eigenvalues": spectrum.eigenvalues, "signal": oracle.signal, "n_samples": 80}
    for target, noise, ratio in [
        ("estimation", 0.0, found.run.expected_inflation),
        ("prediction", oracle.noise, found.run.expected_error),
    ]:
        own, ridge = (
            st.bayes_risk(method, [stop], **known, noise=oracle.noise, target=target).total[0]
            for method, stop in (
                (found.run.method, found.iterations),
                ("ridge", 1 / oracle.penalty),
            )
        )
        assert ratio == pytest.approx((noise + own) / (noise + ridge), rel=1e-9)
    assert 1 <= found.run.expected_inflation <= found.run.inflation


@pytest.mark.parametrize("q", [1, 3])
def test_the_loss_of_torch_takes_its_factor_from_the_shape_of_y(data, q):
    """MSELoss is a mean over rows and outputs: 2/q times half the mean square."""
    X, y = data
    Y = np.column_stack([y, X[:, 0] + y, -y])[:, :q]
    torch = pytest.importorskip("torch")
    weight = torch.zeros(20, q, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=0.3, momentum=0.5, weight_decay=0.01)
    found = plan(0.1, X=X, y=Y, method=st.from_torch(optimiser), loss="mse")
    scaled = st.from_torch(optimiser, loss_scale=2 / q)
    expected = plan(0.1, X=X, y=Y, method=scaled).run
    assert replace(found.run, method=expected.method) == expected
    assert st.path(X, Y, found.run.method, [9]).coef == pytest.approx(
        st.path(X, Y, expected.method, [9]).coef, rel=1e-13
    )
    assert "lr 0.3" in str(found)
    centred, response = (torch.tensor(one - one.mean(axis=0)) for one in (X, Y))
    for _ in range(found.iterations):
        optimiser.zero_grad()
        torch.nn.MSELoss()(centred @ weight, response).backward()
        optimiser.step()
    path = st.path(X, Y, found.run.method, [found.iterations]).coef[0]
    np.testing.assert_allclose(weight.detach().numpy(), path, rtol=1e-10)
    assert plan(0.1, X=X, y=Y, loss="mse").iterations == plan(0.1, X=X, y=Y).iterations
    with pytest.raises(ValueError, match="needs the number of outputs"):
        plan(0.1, lr=0.1, loss="mse")


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({"lr": 0.1, "momentum": 0.9}, Nesterov(0.1, momentum=0.9)),
        ({"method": "heavy-ball", "lr": 0.1, "momentum": 0.9}, HeavyBall(0.1, 0.9)),
        ({"step": 0.1, "friction": 4}, Nesterov(0.1, 4.0)),
        ({"lr": 0.1, "friction": 5}, Nesterov(0.1, 5.0)),
        ({"method": NuMethod(0.2)}, NuMethod(0.2)),
    ],
)
def test_words_of_torch(options, method):
    found = plan(0.05, **options)
    assert found.run.method == method
    # only friction other than 5 can be made safer
    assert (found.safer is not None) == (method == Nesterov(0.1, 4.0))


def test_the_table_names_every_run_and_says_what_it_means(data):
    X, y = data
    text = str(plan(X=X, y=y, lr=0.2))
    names = [line.split(" ")[0] for line in text.splitlines()[2:5]]
    assert names == ["nesterov", "nesterov", "gradient-descent"]
    for words in (
        "friction 5",
        "lr 0.2",
        "error: of predictions with noise",
        "st.leave_one_out(X, y",
    ):
        assert words in text
    assert "ends too early" not in text
    short = st.GradientDescent(st.schedules.Cosine(0.2, 5))
    assert "schedule ends too early, after 5 iterations" in str(plan(0.01, X=X, y=y, method=short))
    long = st.GradientDescent(st.schedules.Cosine(0.2, 5000))
    assert "ends too early" not in str(plan(0.1, X=X, y=y, method=long))
    assert str(plan(0.1, method="gradient-descent", lr=0.2)).count("gradient-descent") == 1
    assert "momentum 0.9" in str(plan(0.1, method="heavy-ball", lr=0.2, momentum=0.9))


def test_a_plan_of_millions_of_iterations_needs_no_recurrence(monkeypatch):
    monkeypatch.setattr(HeavyBall, "coefficients", lambda *_: pytest.fail("a step was taken"))
    run = plan(1e-9, spectrum=[1e-12, 1.0], method="heavy-ball").run
    assert run.iterations > 10**6
    assert run.expected_inflation <= run.inflation * (1 + 1e-6)
    assert np.isfinite(
        run.largest_ratios(1e-9, np.array([run.iterations, 2 * run.iterations]))
    ).all()


@pytest.mark.parametrize("method", ["nesterov", "heavy-ball", "gradient-descent"])
def test_plot_shows_that_the_plan_is_the_best_stop(data, method):
    found = plan(X=data[0], y=data[1], method=method)
    run = found.run
    around = np.arange(max(run.iterations - 3, 1), run.iterations + 4.0)
    ratios = run.largest_ratios(found.penalty, around)
    assert ratios.min() == pytest.approx(run.inflation, rel=2e-3)
    ax = found.plot()
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert dots[0].get_xdata()[0] == run.iterations
    assert len(dots) == {"nesterov": 3, "heavy-ball": 2, "gradient-descent": 1}[method]
    assert found.plot(ax) is ax


def test_a_step_that_momentum_alone_stands_is_compared_with_the_automatic_step(data):
    X, y = data
    largest = st.decompose(X, y).eigenvalues.max()
    planned = plan(X=X, y=y, method=HeavyBall(3 / largest, 0.9))
    assert planned.run.method.step == 3 / largest
    assert planned.descent.method.step == pytest.approx(1 / largest)
    with pytest.raises(ValueError, match=r"HeavyBall.* diverges"):
        plan(X=X, y=y, method=HeavyBall(10 / largest, 0.9))


def test_what_cannot_be_planned(data):
    X, y = data
    for options, message in [
        ({"penalty": 0.1}, "needs a spectrum"),
        ({"lr": 0.1}, "Give the penalty"),
        ({"spectrum": [1.0, 2.0]}, "Give the penalty"),
        ({"penalty": 0.1, "lr": 0.1, "step": 0.1}, "two names of one parameter"),
        ({"penalty": 0.1, "lr": 0.1, "method": "nesterov-flow"}, "counts iterations"),
        ({"penalty": 0.1, "lr": 0.1, "method": "conjugate-gradient"}, "depends on the response"),
        (
            {"penalty": 0.1, "lr": 0.1, "method": "gradient-descent", "momentum": 0.9},
            "has no momentum",
        ),
        ({"penalty": -1, "lr": 0.1}, "penalty must be a positive number"),
        ({"X": X}, "both X and y"),
        ({"X": X, "y": y, "spectrum": [1.0]}, "either X and y"),
        ({"X": X, "y": y, "lr": 100.0}, "diverges"),
        ({"X": X, "y": X @ np.ones(20)}, "no noise"),
        ({"X": X, "y": np.ones(80)}, "no signal"),
    ]:
        with pytest.raises(ValueError, match=message):
            plan(**options)


def test_a_heavy_ball_may_have_to_run_long_after_its_gain_has_reached_that_of_ridge():
    """Hardly damped oscillations of the large eigenvalues end late, as those of the flow do."""
    spectrum = 1 / np.arange(1.0, 201) ** 4
    found = plan(1e-7, spectrum=spectrum, method="heavy-ball").run
    flow = st.equivalent_stop("heavy-ball-flow", 1e-7, eigenvalues=spectrum)
    assert found.iterations == pytest.approx(flow, rel=0.01)
    # the loop itself has 207.16 at this stop, and the flow, out of phase with it, 152.9
    assert 207.16 <= found.inflation <= 1.1 * 207.16
    small = plan(1e-3, spectrum=spectrum[:20], method="heavy-ball").run  # run as an iteration
    k = np.arange(1.0, 2000)
    assert found.inflation > small.inflation
    assert small.inflation == pytest.approx(small.largest_ratios(1e-3, k).min(), rel=0.01)


@pytest.mark.parametrize("columns", [50, 200])
def test_noise_that_wide_data_do_not_show_is_left_to_left_out_rows(columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, columns))
    y = X[:, 0] + rng.normal(size=20)
    with pytest.raises(ValueError, match=r"too many columns .* StoppedRegressorCV\(\"nesterov\"\)"):
        st.plan(X=X, y=y)
    assert st.plan(X=X, y=y, penalty=0.1).iterations < 100
