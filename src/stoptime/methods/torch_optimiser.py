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

    The optimiser is unused, and the coefficients start at zero. A scheduler of SGD that does not
    look at the loss is read by stepping a copy of it. Neither is changed, nor is torch imported.

    Parameters
    ----------
    optimizer : torch.optim.SGD, Adam, AdamW, RMSprop or Adagrad
        Its parameter groups must have the same options.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        For example CosineAnnealingLR, OneCycleLR or SequentialLR; only for SGD.
    loss_scale : float, default=1.0
        The loss divided by ‖y - Xβ‖²/(2n): 2/q for ``torch.nn.MSELoss()`` with q outputs. The step
        is ``lr`` times this number, and the weight decay is torch's divided by it.
    iterations : int, default=20_000
        The length of the run, for which the scheduler is read; after it, the last step is kept.

    Returns
    -------
    Method
        Such as :class:`HeavyBall`, :class:`Decayed` of it or :class:`Adam`. What has no counterpart
        raises a ValueError that says why.

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
    options = _common(optimizer.param_groups)
    kind = "AdamW" if options.get("decoupled_weight_decay") else known[0]
    adaptive = TORCH_ADAPTIVE.get(kind)
    options_of = {*(adaptive or SGD)().get_params()} | (set() if adaptive else {"weight_decay"})
    special = ["weight_decay", "amsgrad", "centered", "momentum", "maximize"]
    special += ["lr_decay", "initial_accumulator_value"]
    extra = [
        f"{key}={options[key]}" for key in special if key not in options_of and options.get(key)
    ]
    if extra:
        own = (adaptive or SGD).__name__
        raise ValueError(f"st.{own} has no counterpart of {', '.join(extra)}: leave it out.")
    if adaptive:
        if scheduler is not None:
            raise ValueError("Here only torch.optim.SGD can be read with a scheduler.")
        # The loss of the method is mse_loss, with twice the gradient. A gradient that is c times
        # as large takes the same steps as a value of eps that is c times as small.
        given = {key: options[key] for key in options_of}
        given |= {"eps": options["eps"] * 2 / scale, "lr": float(options["lr"])}
        return cast("Method", adaptive(**given))
    length = whole_number("iterations", iterations, least=1)
    lrs, momenta = _recorded(optimizer, scheduler, length)
    step = _as_schedule([scale * lr for lr in lrs])
    momentum = _as_schedule(momenta)
    dampening = options.get("dampening", 0.0)
    method: Iteration
    if options.get("nesterov") or dampening:
        method = SGD(step, momentum, dampening, bool(options.get("nesterov")))
    else:
        method = HeavyBall(step, momentum) if any(momenta) else GradientDescent(step)
    decay = options.get("weight_decay", 0.0) / scale
    return Decayed(method, decay) if decay else method


def _common(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the options that all parameter groups have; refuse groups that differ."""
    first = {key: value for key, value in groups[0].items() if key != "params"}
    unequal = [key for key in first if any(group[key] != first[key] for group in groups)]
    if unequal:
        raise ValueError(
            f"The parameter groups have different {', '.join(unequal)}, so no single method moves "
            "all columns: give them the same options, or put the parameters into one group."
        )
    return first


def _recorded(optimizer: Any, scheduler: Any, length: int) -> tuple[list[float], list[float]]:
    """Return learning rates and momenta of all iterations, from a copy of the scheduler."""
    lrs: list[float] = []
    momenta: list[float] = []
    if scheduler is None:
        length = 1
    elif getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise ValueError("The scheduler belongs to another optimiser.")
    elif getattr(scheduler, "last_epoch", 0) > 0:
        raise ValueError("The scheduler has already taken steps: call from_torch before the first.")
    # the parameters themselves are not copied: they may be large
    kept = {id(one): one for group in optimizer.param_groups for one in group["params"]}
    twin, stepped = copy.deepcopy((optimizer, scheduler), kept)
    # OneCycleLR refuses to go on beyond its end
    for k in range(min(length, getattr(scheduler, "total_steps", length))):
        options = _common(twin.param_groups)
        # a learning rate may be a tensor with one element
        lrs.append(float(options["lr"]))
        momenta.append(float(options.get("momentum", 0.0)))
        if lrs[-1] < 0:
            raise ValueError(
                f"The learning rate is negative after {k} iterations: give the length of the run, "
                f"for example iterations={k}."
            )
        try:
            with warnings.catch_warnings():
                # torch warns that the copy of the optimiser takes no steps
                warnings.simplefilter("ignore")
                if scheduler is not None:
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
