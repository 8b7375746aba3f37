"""Optimisers and schedulers of torch, run on raw data beside the methods read from them."""

from itertools import cycle

import numpy as np
import pytest

import stoptime as st
from iteration_cases import make_data
from stoptime.methods.schedules import Cosine, Linear, Listed, OneCycle, StepDecay

torch = pytest.importorskip("torch", reason="torch is an extra, and not installed")
LR = torch.optim.lr_scheduler
OPTIONS = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.8, "dampening": 0.3},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
]
SCHEDULERS = {
    "none": lambda _: None,
    "step": lambda opt: LR.StepLR(opt, 100, 0.5),
    "multistep": lambda opt: LR.MultiStepLR(opt, [30, 80]),
    "exponential": lambda opt: LR.ExponentialLR(opt, 0.99),
    "cosine": lambda opt: LR.CosineAnnealingLR(opt, 1000),
    "cosine again": lambda opt: LR.CosineAnnealingLR(opt, 100),
    "one cycle": lambda opt: LR.OneCycleLR(opt, max_lr=0.1, total_steps=1000),
    "linear": lambda opt: LR.LinearLR(opt, 0.1, 1.0, 300),
    "lambda": lambda opt: LR.LambdaLR(opt, lambda j: min(j / 10, 1) * (1 - j / 1001)),
    "sequential": lambda opt: LR.SequentialLR(
        opt, [LR.LinearLR(opt, 1 / 51, 1.0, 50), LR.CosineAnnealingLR(opt, 950)], [50]
    ),
}
CYCLED_MOMENTUM = OneCycle(0.85, 1000, start=0.95, end=0.95)
BY_HAND = {
    "step": st.HeavyBall(StepDecay(0.1, 100, 0.5), 0.9),
    "cosine": st.HeavyBall(Cosine(0.1, 1000), 0.9),
    "linear": st.HeavyBall(Linear(0.01, 300, end=0.1), 0.9),
    "sequential": st.HeavyBall(Cosine(0.1, 1000, warmup=50), 0.9),
    "one cycle": st.HeavyBall(OneCycle(0.1, 1000), CYCLED_MOMENTUM),
}


def data():
    X, y = make_data(60, 4)
    X[:, 0] = 0.1 * X[:, 0]
    return X, y


def optimiser(cls=torch.optim.SGD, **options):
    weight = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    return cls([weight], **({"lr": 0.1} | options))


def trained(optimizer, scheduler, steps, loss=None):
    """Return the weights after each of the steps; the gradient is written down without a loss."""
    X, y = map(torch.tensor, data())
    gram, moments = X.T @ X / len(y), X.T @ y / len(y)
    (weight,) = optimizer.param_groups[0]["params"]
    found = []
    for k in range(steps):
        optimizer.zero_grad()
        if loss is None:
            weight.grad = gram @ weight.detach() - moments
        else:
            loss(X @ weight, y).backward()
        optimizer.step()
        if scheduler is not None and k < steps - 1:
            scheduler.step()
        found.append(weight.detach().numpy().copy())
    return np.array(found)


def path_of(method, steps):
    return st.path(*data(), method, np.arange(1, steps + 1), fit_intercept=False).coef


CASES = [*zip(SCHEDULERS, cycle(OPTIONS)), *(("cosine", options) for options in OPTIONS)]
CASES += [(name, {"momentum": 0.9}) for name in BY_HAND]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_scheduler_and_option_over_a_thousand_steps(name, options):
    optimizer = optimiser(**options)
    scheduler = SCHEDULERS[name](optimizer)
    method = st.from_torch(optimizer, scheduler, iterations=1000)
    found = trained(optimizer, scheduler, 1000)
    np.testing.assert_allclose(path_of(method, 1000), found, atol=1e-10)
    if options == {"momentum": 0.9} and name in BY_HAND:
        np.testing.assert_allclose(path_of(BY_HAND[name], 1000), found, atol=1e-10)


def test_the_loss_of_torch_is_twice_as_large():
    optimizer = optimiser(lr=0.05, momentum=0.8, weight_decay=0.1)
    method = st.from_torch(optimizer, loss_scale=2.0)
    assert method == st.Decayed(st.HeavyBall(0.1, 0.8), 0.05)
    found = trained(optimizer, None, 200, torch.nn.MSELoss())
    np.testing.assert_allclose(path_of(method, 200), found, atol=1e-10)


@pytest.mark.parametrize("kind", ["polyak", "exponential"])
def test_averages_are_those_of_averaged_model(kind):
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = torch.nn.Linear(4, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    kept = {} if kind == "polyak" else {"multi_avg_fn": get_ema_multi_avg_fn(0.97)}
    average = AveragedModel(model, **kept)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    drawn = path_of(st.Averaged(st.from_torch(optimizer), kind, 0.97), 100)
    X, y = map(torch.tensor, data())
    for k in range(100):
        optimizer.zero_grad()
        (torch.sum((model(X)[:, 0] - y) ** 2) / (2 * len(y))).backward()
        optimizer.step()
        average.update_parameters(model)
        found = average.module.weight.detach().numpy()[0]
        np.testing.assert_allclose(drawn[k], found, atol=1e-10)


def test_what_is_read_and_that_nothing_is_changed():
    tensor = optimiser(lr=torch.tensor(0.1, dtype=torch.float64))
    assert st.from_torch(tensor) == st.from_torch(optimiser()) == st.GradientDescent(0.1)
    optimizer = optimiser(momentum=0.9)
    scheduler = LR.StepLR(optimizer, 2, 0.5)
    method = st.from_torch(optimizer, scheduler, iterations=5)
    assert method == st.HeavyBall(Listed((0.1, 0.1, 0.05, 0.05, 0.025)), 0.9)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert scheduler.last_epoch == 0


ADAPTIVE = {
    st.Adam(0.05, (0.8, 0.95), 0.04): {"lr": 0.05, "betas": (0.8, 0.95), "eps": 0.02},
    st.AdamW(0.05, eps=0.04, weight_decay=0.3): {"lr": 0.05, "eps": 0.02, "weight_decay": 0.3},
    st.RMSProp(0.02, 0.9, 0.04): {"lr": 0.02, "alpha": 0.9, "eps": 0.02},
    st.AdaGrad(0.1, 0.04): {"lr": 0.1, "eps": 0.02},
}
CLASSES = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad"}


@pytest.mark.parametrize("method", ADAPTIVE, ids=str)
def test_adaptive_optimisers_are_read_with_their_options(method):
    """The gradient of the run is half of that of mse_loss, and eps is large enough to show it."""
    optimizer = optimiser(getattr(torch.optim, CLASSES[method.name]), **ADAPTIVE[method])
    assert st.from_torch(optimizer) == method
    assert st.from_torch(optimizer, loss_scale=2.0) == method.with_params(eps=0.02)
    # RMSProp with a fixed step becomes chaotic later on
    np.testing.assert_allclose(path_of(method, 60), trained(optimizer, None, 60), atol=1e-10)
    with pytest.raises(ValueError, match="already taken steps"):
        st.from_torch(optimizer)


def test_what_has_no_counterpart_is_named():
    weights = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    groups = [{"params": weights[:1], "lr": 0.1}, {"params": weights[1:], "lr": 0.2}]
    same = [{"params": weights[:1]}, {"params": weights[1:]}]
    optim = torch.optim
    unequal = LR.LambdaLR(optim.SGD(same, lr=0.1), [lambda _: 1.0, lambda j: 1.0 / (1 + j)])
    used = optimiser(momentum=0.9)
    trained(used, None, 2)
    stepped = optimiser()
    begun = LR.StepLR(stepped, 3)
    stepped.step()
    begun.step()
    steep = optimiser()
    adam = optim.Adam(weights)
    decoupled = optim.Adam(weights, decoupled_weight_decay=True, weight_decay=0.1)
    assert st.from_torch(decoupled) == st.AdamW(0.001, eps=2e-8, weight_decay=0.1)
    cases = [
        ((optim.NAdam(weights),), "NAdam has no counterpart here; .* SGD, AdamW, Adam, RMS"),
        ((optim.SGD(groups),), "parameter groups have different lr"),
        ((optim.SGD(weights, lr=0.1, maximize=True),), "maximize=True"),
        ((used,), "already taken steps"),
        ((stepped, begun), "already taken steps"),
        ((optimiser(), LR.StepLR(optimiser(), 3)), "belongs to another optimiser"),
        ((unequal.optimizer, unequal), "parameter groups have different lr"),
        ((steep, LR.ReduceLROnPlateau(steep)), "ReduceLROnPlateau needs the loss"),
        ((steep, LR.LambdaLR(steep, lambda j: 1 - j / 10)), "negative after 11 iterations"),
        ((3,), "reads an optimiser of torch.optim; got 3"),
        ((optim.Adam(weights, amsgrad=True),), "st.Adam has no counterpart of amsgrad=True"),
        ((optim.Adam(weights, weight_decay=0.1),), "counterpart of weight_decay=0.1"),
        ((optim.RMSprop(weights, momentum=0.5, centered=True),), "centered=True, momentum=0.5"),
        ((optim.Adagrad(weights, lr_decay=0.1),), "AdaGrad has no counterpart of lr_decay"),
        ((adam, LR.StepLR(adam, 3)), "only torch.optim.SGD can be read with a scheduler"),
        ((optim.Adam(groups),), "parameter groups have different lr"),
    ]
    for given, message in cases:
        with pytest.raises(ValueError, match=message):
            st.from_torch(*given)
