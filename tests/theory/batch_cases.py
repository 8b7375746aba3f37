"""Stochastic gradient descent on the rows, run many times: what the exact moments are held to."""

import numpy as np

import stoptime as st


def estimation_risk(found, beta):
    """Return E‖β - β₀‖² at every stop, given the data."""
    bias = ((found.mean - beta) ** 2).sum(axis=1)
    return bias + np.trace(found.covariance, axis1=1, axis2=2)


def problem(seed, n=None, p=None):
    """Return X, y and settings drawn at random: tall or wide, with momentum and decay or not."""
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(4, 40))
    p = p or int(rng.integers(1, 12))
    X = rng.standard_normal((n, p)) * rng.uniform(0.3, 2, p)
    if rng.random() < 0.3:
        X = X * rng.standard_t(4, (n, 1))
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    settings = {
        "batch_size": int(rng.integers(1, 6)),
        "momentum": float(rng.choice([0.0, 0.5, 0.9])),
        "weight_decay": float(rng.choice([0.0, 0.2])),
    }
    # up to one over the largest square of a row, every sequence of batches is stable
    step = rng.uniform(0.1, 1.0) * (1 - settings["momentum"]) / (X**2).sum(axis=1).max()
    return X, y, settings | {"step": float(step)}


def simulated(X, y, stops, runs, seed, *, step, batch_size, momentum=0.0, weight_decay=0.0):
    """Return the coefficients of all runs at every stop, (n_stops, runs, p).

    The response is a vector, or has one row for each run.
    """
    responses = np.broadcast_to(y, (runs, len(X)))
    rng = np.random.default_rng(seed)
    coef = np.zeros((runs, X.shape[1]))
    move = np.zeros_like(coef)
    found = {0: coef}
    for k in range(1, max(stops) + 1):
        batch = rng.integers(0, len(X), (runs, batch_size))
        rows = X[batch]
        errors = np.einsum("rbp,rp->rb", rows, coef)
        errors -= np.take_along_axis(responses, batch, axis=1)
        gradient = np.einsum("rbp,rb->rp", rows, errors) / batch_size + weight_decay * coef
        move = momentum * move - step * gradient
        coef = coef + move
        found[k] = coef
    return np.array([found[k] for k in stops])


def worst_deviation(X, y, settings, stops=(1, 4, 15), runs=4000, seed=0):
    """Return the largest distance of simulated from exact numbers, in standard errors."""
    exact = st.stochastic.moments(X, y, stops=stops, **settings)
    runs_of = simulated(X, y, stops, runs, seed, **settings)
    beta = np.ones(X.shape[1])
    losses = ((runs_of @ X.T - y) ** 2).mean(axis=2)
    distances = ((runs_of - beta) ** 2).sum(axis=2)
    worst = 0.0
    for found, right in ((losses, exact.train_error), (distances, estimation_risk(exact, beta))):
        error = found.std(axis=1, ddof=1) / np.sqrt(runs)
        worst = max(worst, np.max(np.abs(found.mean(axis=1) - right) / (error + 1e-12)))
    return worst
