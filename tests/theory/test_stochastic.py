"""Moments of random batches: over all sequences, the full gradient, and each other."""

from itertools import islice, product

import numpy as np
import pytest

import stoptime as st
from helpers import run
from iteration_cases import make_data
from stoptime.bounds.plan import isotropic_eigenvalues
from stoptime.methods.iterations import Nesterov
from stoptime.theory.stochastic import RowSource
from theory.batch_cases import estimation_risk, problem


def over_all_batches(X, y, method, size, last, decay=0.0):
    """Return the coefficients after each step, for every sequence of batches that can be drawn."""
    batches = np.array(list(product(range(len(X)), repeat=size)))
    coef = move = np.zeros((1, X.shape[1]))
    found = [coef]
    for k in range(1, last + 1):
        momentum, lookahead, weight = method.coefficients(k)
        drawn = np.tile(batches, (len(coef), 1))
        coef, move = (np.repeat(one, len(batches), axis=0) for one in (coef, move))
        point = coef + lookahead * move
        errors = np.einsum("rbp,rp->rb", X[drawn], point) - y[drawn]
        gradient = np.einsum("rbp,rb->rp", X[drawn], errors) / size + decay * point
        move = momentum * move - weight * method.epsilon * gradient
        coef = coef + move
        found.append(coef)
    return found


@pytest.mark.parametrize(("n", "p", "size"), [(4, 2, 1), (3, 1, 2), (2, 4, 2)])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.0, 0.3), (0.9, 0.3)])
def test_moments_are_those_of_all_sequences_of_batches(n, p, size, momentum, decay):
    X, y, _ = problem(n, n, p)
    step = 0.5 * (1 - momentum) / (X**2).sum(axis=1).max()
    found = st.stochastic.moments(X, y, step, size, range(5), momentum, decay)
    for k, coef in enumerate(over_all_batches(X, y, st.HeavyBall(step, momentum), size, 4, decay)):
        np.testing.assert_allclose(found.mean[k], coef.mean(axis=0), rtol=1e-9, atol=1e-12)
        spread = np.cov(coef.T, bias=True).reshape(p, p)
        np.testing.assert_allclose(found.covariance[k], spread, rtol=1e-9, atol=1e-12)
        losses = ((coef @ X.T - y) ** 2).mean(axis=1)
        assert found.train_error[k] == pytest.approx(losses.mean(), rel=1e-9)


def test_nesterov_on_batches_is_the_mean_over_all_sequences():
    X, y, _ = problem(6, 4, 2)
    method = Nesterov(0.5 / np.linalg.norm(X.T @ X / 4, 2))
    values, basis = np.linalg.eigh(X.T @ X / 4)
    rows = np.asfortranarray(X @ basis)
    best = basis.T @ X.T @ y / 4 / values
    left = y - rows @ best
    source = RowSource(values, rows, left, best)
    state = next(islice(source.steps(method.coefficients, method.epsilon, 0.0, 1.0), 5, None))
    np.testing.assert_allclose(state.gain, method.gain(values, 5), rtol=1e-12)
    coef = over_all_batches(X, y, method, 1, 5)[-1]
    assert source.loss(state) == pytest.approx(((coef @ X.T - y) ** 2).mean(), rel=1e-10)


@pytest.mark.parametrize(("n", "p"), [(30, 5), (8, 20)])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.3), (0.6, 0.0), (0.6, 0.3)])
def test_infinite_batches_are_the_full_gradient(n, p, momentum, decay):
    X, y, _ = problem(7, n, p)
    step = 1 / np.linalg.norm(X.T @ X / n, 2)
    stops = [0, 1, 10, 200]
    found = st.stochastic.moments(X, y, step, np.inf, stops, momentum, decay)
    near = st.stochastic.moments(X, y, step, 10**14, stops, momentum, decay)
    method = st.HeavyBall(step, momentum) if momentum else st.GradientDescent(step)
    method = st.Decayed(method, decay) if decay else method
    path = st.path(X, y, method, stops, fit_intercept=False)
    np.testing.assert_allclose(found.mean, path.coef, atol=1e-12 * np.abs(path.coef).max())
    losses = ((y - path.predict(X)) ** 2).mean(axis=1)
    np.testing.assert_allclose(found.train_error, losses, atol=1e-12 * np.mean(y**2))
    np.testing.assert_allclose(near.train_error, losses, atol=1e-12 * np.mean(y**2))
    assert not found.covariance.any()
    one_row = st.stochastic.moments([[1.0, 2.0]], [3.0], 0.1, 1, [5], 0.5)
    np.testing.assert_allclose(one_row.covariance, 0, atol=1e-15)


def mean_over_the_noise(X, beta, noise, **settings):
    """The mean risk and loss of the moments: as they are quadratic, ± pairs average exactly."""
    total = 0.0
    loss = 0.0
    for row in np.sqrt(noise * len(X)) * np.vstack([np.eye(len(X)), -np.eye(len(X))]):
        one = st.stochastic.moments(X, X @ beta + row, **settings)
        total += estimation_risk(one, beta) / (2 * len(X))
        loss += one.train_error / (2 * len(X))
    return total, loss


@pytest.mark.parametrize("target", ["estimation", "prediction"])
def test_the_full_gradient_has_the_risk_of_gradient_descent(target):
    s = np.append(np.zeros(2), np.geomspace(0.1, 3, 8))
    known = {"signal": np.linspace(-2, 1, 10), "noise": 2.0, "n_samples": 25, "target": target}
    stops = [0, 1, 30]
    right = st.risk(st.GradientDescent(0.02), stops, eigenvalues=s, **known)
    found = st.stochastic.limit(s, stops, **known, step=0.02, batch_size=4)
    np.testing.assert_allclose(found.bias, right.bias, rtol=1e-10)
    np.testing.assert_allclose(found.variance, right.variance, rtol=1e-10)


def test_the_limit_is_close_for_many_features():
    rng = np.random.default_rng(0)
    momentum = 0.8
    n, p = 400, 200
    X = rng.standard_normal((n, p)) * np.geomspace(0.3, 1, p)
    beta = rng.standard_normal(p) / np.sqrt(p)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    settings = {"step": 0.03, "batch_size": 20}
    settings |= {"stops": [3, 10, 30], "momentum": momentum}
    exact = st.stochastic.moments(X, X @ beta, **settings)
    known = {"signal": vectors.T @ beta, "noise": 0.0, "n_samples": n}
    found = st.stochastic.limit(values, **known, **settings)
    np.testing.assert_allclose(found.total, estimation_risk(exact, beta), rtol=0.01)
    np.testing.assert_allclose(found.train_error, exact.train_error, rtol=0.01)


def test_the_limit_is_exact_where_all_rows_are_alike():
    """Rows ±√p·e_j: every row has the mean of xᵀVx, because V stays a multiple of the identity."""
    p = 4
    X = np.sqrt(p) * np.vstack([np.eye(p), -np.eye(p)])
    beta = np.ones(p)
    settings = {"stops": [1, 5, 20], "step": 0.1, "batch_size": 2, "momentum": 0.3}
    total, loss = mean_over_the_noise(X, beta, 0.5, **settings)
    known = {"signal": beta, "noise": 0.5, "n_samples": 2 * p}
    found = st.stochastic.limit(np.ones(p), **known, **settings)
    np.testing.assert_allclose(found.total, total, rtol=1e-12)
    np.testing.assert_allclose(found.train_error, loss, rtol=1e-12)


def test_the_limit_solves_the_volterra_equation():
    s = np.linspace(0.2, 1.5, 30)
    rng = np.random.default_rng(1)
    signal = rng.standard_normal(30)
    n, step, size, last = 60, 0.1, 3, 25
    known = {"signal": signal, "noise": 0.4, "n_samples": n, "step": step, "batch_size": size}
    found = st.stochastic.limit(s, np.arange(last + 1), **known).train_error
    rate = (1 - step * s) ** 2 - (step * s) ** 2 / size
    mean = s * signal**2 + 0.4 / n
    losses = []
    for k in range(last + 1):
        past = np.arange(k)
        left = (1 - step * s) ** (2 * k)
        forced = mean @ left + 0.4 * (1 - 30 / n)
        # the mean gradient is no noise; its share of every past step is taken out
        own = (step**2 / size) * sum(
            s * rate ** (k - 1 - j) @ (s * mean * (1 - step * s) ** (2 * j)) for j in past
        )
        kernel = [(step**2 / size) * np.sum(s**2 * rate ** (k - 1 - j)) for j in past]
        losses.append(forced - own + np.dot(kernel, losses) if k else forced)
    np.testing.assert_allclose(found, losses, rtol=1e-10)


KNOWN = {"signal": 1.0, "noise": 1.0, "n_samples": 9, "step": 0.1, "batch_size": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"step": -1.0}, "step must be a positive number"),
        ({"step": 9.0, "stops": [1000]}, "step of 9 diverges with batches of 1 rows: take a small"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"weight_decay": -0.1}, "weight_decay must be finite non-negative"),
        ({"stops": [1.5]}, "whole numbers"),
        ({"stops": [-1]}, "stops must be"),
        ({"stops": []}, "stops must be at least one number"),
        ({"stops": [np.inf]}, "beyond the limit of 10000000"),
        ({"X": [[np.nan], [1.0]]}, "NaN"),
        ({"eigenvalues": [[1, 2]]}, "eigenvalues must be a list"),
        ({"eigenvalues": np.ones(10)}, "as many positive eigenvalues"),
        ({"eigenvalues": [1], "signal": [1, 2]}, "one finite coordinate"),
        ({"eigenvalues": [1, 0.1], "step": 9.0, "stops": [1000]}, "or larger batches"),
    ],
)
def test_bad_numbers_are_refused(change, message):
    rows = {"X": [[1.0], [2.0]], "y": [1.0, 2.0], "step": 0.1, "batch_size": 1, "stops": [3]}
    limits = "eigenvalues" in change
    call = st.stochastic.limit if limits else st.stochastic.moments
    with pytest.raises(ValueError, match=message):
        call(**((KNOWN | {"stops": [3]} if limits else rows) | change))


def test_data_without_signal_or_of_extreme_size():
    assert not st.stochastic.moments(np.zeros((5, 2)), np.ones(5), 0.1, 2, [4]).mean.any()
    X, y, _ = problem(0, 10, 3)
    found = st.stochastic.moments(X, y, 0.1, 4, [9])
    scaled = st.stochastic.moments(1e60 * X, 1e60 * y, 0.1e-120, 4, [9])
    np.testing.assert_allclose(scaled.mean, found.mean, rtol=1e-9)
    np.testing.assert_allclose(scaled.covariance, found.covariance, rtol=1e-7, atol=1e-12)


def test_a_plan_says_what_batches_cost_and_when_they_no_longer_matter():
    X, y = make_data(2000, 8)
    s = st.decompose(X, y).eigenvalues
    plan = st.plan(0.05, X=X, y=y, method="gradient-descent", step=0.02, batch_size=16)
    run_on_batches = plan.run
    known = {"signal": 8.0, "noise": 0.05 * 2000, "n_samples": 2000}
    step = run_on_batches.method.step

    def cost(size):
        curve = st.stochastic.limit(s, [plan.iterations], **known, step=step, batch_size=size)
        return curve.cost[0]

    assert run_on_batches.batches.cost == pytest.approx(cost(16), rel=1e-10)
    known_step = known | {"step": step, "batch_size": 16, "target": "prediction"}
    curve = st.stochastic.limit(s, [plan.iterations], **known_step)
    errors = known["noise"] + np.array([curve.total[0], curve.full_gradient[0]])
    assert run_on_batches.batches.error == pytest.approx(errors[0] / errors[1], rel=1e-10)
    enough = run_on_batches.batches.enough
    assert cost(enough) <= 1.01 < cost(enough // 2)
    assert "batches of 16" in str(plan)
    assert st.plan(0.05, X=X, y=y).run.batches is None
    small = st.plan(0.05, X=X[:40], y=y[:40], method="gradient-descent", batch_size=16)
    assert small.run.batches.enough is None
    assert "all rows" in str(small)
    momentum = st.plan(0.05, spectrum=st.decompose(X, y), step=0.02, batch_size=16).run.batches
    assert momentum.cost > run_on_batches.batches.cost


def test_a_plan_of_batches_needs_the_number_of_rows():
    for given in ({"spectrum": [1.0, 0.5]}, {"step": 0.5}):
        with pytest.raises(ValueError, match="batch_size needs the number of rows"):
            st.plan(0.1, **given, batch_size=8)
    with pytest.raises(ValueError, match="at most 50000 iterations"):
        st.plan(1e-7, X=np.eye(9), y=np.ones(9), method="gradient-descent", step=1e-3, batch_size=2)


def test_the_command_plans_for_the_shape_of_the_data():
    options = ("plan", "--penalty", 0.01, "--lr", 0.3, "--batch-size", 64)
    result = run(*options, "--rows", 500, "--features", 50)
    assert result.exit_code == 0, result.output
    assert "batches of 64" in result.stdout
    result = run(*options)
    assert result.exit_code != 0
    found = run(*options, "--rows", 500, "--features", 50, "--json")
    assert '"enough"' in found.stdout


@pytest.mark.parametrize(("n", "p"), [(400, 100), (100, 400), (50, 1)])
def test_isotropic_eigenvalues_are_those_of_random_columns(n, p):
    s = isotropic_eigenvalues(n, p)
    assert len(s) == p
    assert np.count_nonzero(s) == min(n, p)
    assert s.mean() == pytest.approx(1, abs=0.02)
    X = np.random.default_rng(0).standard_normal((n, p))
    right = np.linalg.eigvalsh(X.T @ X / n)
    np.testing.assert_allclose(s, right, atol=0.25)
