"""The method that an optimiser of torch is on least squares, read from its attributes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, cast

from stoptime.methods.adaptive import AdaGrad, Adam, AdamW, RMSProp
from stoptime.methods.averages import Decayed
from stoptime.methods.base import Method
from stoptime.methods.iterations import SGD, GradientDescent, HeavyBall
from stoptime.methods.recurrence import Iteration
from stoptime.methods.schedules import LONGEST_SEARCH, Listed, Schedule
from stoptime.support.checks import positive_number, whole_number

OPTIONS = ("lr", "momentum", "dampening", "nesterov", "weight_decay", "maximize")
# AdamW is a kind of Adam in torch, so it comes first
TORCH_ADAPTIVE: Any = {"AdamW": AdamW, "Adam": Adam, "RMSprop": RMSProp, "Adagrad": AdaGrad}


def from_torch(
    optimizer: Any,
    scheduler: Any = None,
    *,
    loss_scale: float = 1.0,
    iterations: int = LONGEST_SEARCH,
) -> Method:
    r"""Return the method that this optimiser is on least squares, with full batches.

    The optimiser is new and unused, and the coefficients start at zero. Any scheduler of SGD that
    does not look at the loss is read by stepping a copy of it once for each step of the optimiser.
    Torch is not imported, and neither optimiser nor scheduler is changed.

    Parameters
    ----------
    optimizer : torch.optim.SGD, Adam, AdamW, RMSprop or Adagrad
        Its parameter groups must have the same options.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        For example StepLR, MultiStepLR, ExponentialLR, CosineAnnealingLR, OneCycleLR (which also
        changes the momentum), LinearLR, LambdaLR or SequentialLR.
    loss_scale : float, default=1.0
        The loss divided by ‖y - Xβ‖²/(2n): 1 for half of the mean squared error, 2 for
        ``torch.nn.MSELoss()`` with one output, and 2/q with q outputs. The step of the method is
        ``lr`` times this number, and its weight decay is torch's divided by it. Adaptive methods
        divide by the size of the gradient, so that for them only ``eps`` changes.
    iterations : int, default=20_000
        The length of the run, for which the scheduler is read; after it, the last step is kept.

    Returns
    -------
    Method
        :class:`GradientDescent`; with momentum :class:`HeavyBall`, or :class:`SGD` where there is
        ``nesterov`` or ``dampening``; and with weight decay :class:`Decayed` of it. Otherwise
        :class:`Adam`, :class:`AdamW`, :class:`RMSProp` or :class:`AdaGrad`, which have no filter.

    Raises
    ------
    ValueError
        If what the optimiser does has no counterpart here. The message says why.

    Examples
    --------
    >>> class SGD:  # in place of torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    ...     param_groups = [{"params": [], "lr": 0.1, "momentum": 0.9}]
    >>> from_torch(SGD())
    HeavyBall(step=0.1, momentum=0.9)
    """
    scale = positive_number("loss_scale", loss_scale)
    if not getattr(optimizer, "param_groups", None):
        raise ValueError(f"from_torch reads an optimiser of torch.optim; got {optimizer!r}.")
    kinds = [cls.__name__ for cls in type(optimizer).__mro__]
    known = [name for name in (*TORCH_ADAPTIVE, "SGD") if name in kinds]
    if not known:
        names = ", ".join(["SGD", *TORCH_ADAPTIVE])
        raise ValueError(f"{kinds[0]} has no counterpart here; these optimisers have: {names}.")
    states = getattr(optimizer, "state", {}).values()
    # Adagrad counts steps from the start, and SGD has a buffer from the first step on
    if any(one.get("momentum_buffer") is not None or one.get("step", 0) > 0 for one in states):
        raise ValueError(
            "The optimiser has already taken steps, and a method describes a run from its start: "
            "call from_torch before the first step."
        )
    if known[0] in TORCH_ADAPTIVE:
        return _adaptive(known[0], optimizer, scheduler, scale)
    groups = [_options(group) for group in optimizer.param_groups]
    _check_equal(groups, OPTIONS)
    options = groups[0]
    if options["maximize"]:
        raise ValueError("maximize=True moves away from least squares: there is no path to stop.")
    length = whole_number("iterations", iterations, least=1)
    lrs, momenta = _recorded(optimizer, scheduler, length)
    step = _as_schedule([scale * lr for lr in lrs])
    momentum = _as_schedule(momenta)
    method: Iteration
    if options["nesterov"] or options["dampening"]:
        method = SGD(step, momentum, options["dampening"], bool(options["nesterov"]))
    else:
        method = HeavyBall(step, momentum) if any(momenta) else GradientDescent(step)
    decay = options["weight_decay"] / scale
    return Decayed(method, decay) if decay else method


def _adaptive(kind: str, optimizer: Any, scheduler: Any, scale: float) -> Method:
    """Return the method without a filter; refuse options that it does not have."""
    groups = optimizer.param_groups
    _check_equal(groups, [key for key in groups[0] if key != "params"])
    given = dict(groups[0])
    if kind == "Adam" and given.get("decoupled_weight_decay"):
        kind = "AdamW"
    method = TORCH_ADAPTIVE[kind]
    names = method().get_params()
    special = ["weight_decay", "amsgrad", "centered", "momentum", "maximize"]
    special += ["lr_decay", "initial_accumulator_value"]
    extra = [key for key in special if key not in names and given.get(key)]
    if extra:
        named = ", ".join(f"{key}={given[key]}" for key in extra)
        raise ValueError(f"st.{method.__name__} has no counterpart of {named}: leave it out.")
    if scheduler is not None:
        raise ValueError(
            f"st.{method.__name__} has one lr for all steps: only torch.optim.SGD can be read with "
            "a scheduler."
        )
    # The loss of the method is mse_loss, with twice the gradient. A gradient that is c times as
    # large takes the same steps as a value of eps that is c times as small.
    given["eps"] *= 2 / scale
    given["lr"] = float(given["lr"])
    return cast("Method", method(**{key: given[key] for key in names}))


def _check_equal(groups: Sequence[dict[str, Any]], keys: Sequence[str]) -> None:
    """Refuse parameter groups that differ in one of the keys."""
    unequal = [key for key in keys if any(group[key] != groups[0][key] for group in groups)]
    if unequal:
        raise ValueError(
            f"The parameter groups have different {', '.join(unequal)}, so no single method moves "
            "all columns: give them the same options, or put the parameters into one group."
        )


def _options(group: dict[str, Any]) -> dict[str, float]:
    # a learning rate may be a tensor with one element
    return {key: float(group.get(key) or 0.0) for key in OPTIONS}


def _recorded(optimizer: Any, scheduler: Any, length: int) -> tuple[list[float], list[float]]:
    """Return learning rates and momenta of all iterations, from a copy of the scheduler."""
    if scheduler is None:
        first = _options(optimizer.param_groups[0])
        return [first["lr"]], [first["momentum"]]
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise ValueError("The scheduler belongs to another optimiser.")
    if getattr(scheduler, "last_epoch", 0) > 0:
        raise ValueError("The scheduler has already taken steps: call from_torch before the first.")
    # the parameters themselves are not copied: they may be large
    kept = {id(one): one for group in optimizer.param_groups for one in group["params"]}
    twin, stepped = copy.deepcopy((optimizer, scheduler), kept)
    lrs: list[float] = []
    momenta: list[float] = []
    # OneCycleLR refuses to go on beyond its end
    for _ in range(min(length, getattr(scheduler, "total_steps", length))):
        groups = [_options(group) for group in twin.param_groups]
        if any(group["lr"] != groups[0]["lr"] for group in groups):
            raise ValueError("The scheduler gives the parameter groups different learning rates.")
        if groups[0]["lr"] < 0:
            raise ValueError(
                f"The learning rate is negative after {len(lrs)} iterations: give the length of "
                f"the run, for example iterations={len(lrs)}."
            )
        lrs.append(groups[0]["lr"])
        momenta.append(groups[0]["momentum"])
        try:
            with warnings.catch_warnings():
                # torch warns that the copy of the optimiser takes no steps
                warnings.simplefilter("ignore")
                stepped.step()
        except TypeError:
            raise ValueError(
                f"{type(scheduler).__name__} needs the loss, so its steps depend on the response "
                "and there is no filter."
            ) from None
    return lrs, momenta


def _as_schedule(values: Sequence[float]) -> float | Schedule:
    """Return the values without repetitions of the last one, or a number if all are the same."""
    length = len(values)
    while length > 1 and values[length - 2] == values[-1]:
        length -= 1
    return values[0] if length == 1 else Listed(tuple(values[:length]))
