"""The iterations on which the tests of several files run, and data for them."""

import numpy as np
import pytest

from stoptime.methods.iterations import (
    GradientDescent,
    HeavyBall,
    Nesterov,
    NuMethod,
    OptimalIteration,
)

CONCRETE = [
    GradientDescent(0.8),
    Nesterov(1.0),
    Nesterov(1.0, 5.0),
    Nesterov(0.7, 2.3),
    Nesterov(1.0, 1.0),
    Nesterov(1.0, momentum=0.9),
    HeavyBall(1.0, 0.9),
    HeavyBall(1.0, 0.0),
    NuMethod(1.0),
    NuMethod(0.5, 0.4),
    NuMethod(1.0, 3.0),
]
AUTO = [
    GradientDescent(),
    Nesterov(),
    Nesterov(friction=5),
    Nesterov(momentum=0.8),
    HeavyBall(momentum=0.7),
    NuMethod(),
    OptimalIteration(penalty=0.02),
]
each_auto = pytest.mark.parametrize("method", AUTO, ids=str)


def make_data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.geomspace(0.3, 1, p) + 1
    return X, X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)
