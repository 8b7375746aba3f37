"""The method that an optimiser of torch is on least squares, read from its attributes."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

from stoptime.methods.averages import Decayed
from stoptime.methods.iterations import SGD, GradientDescent, HeavyBall
from stoptime.methods.schedules import LONGEST_SEARCH, Listed, Schedule
from stoptime.support.checks import positive_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoptime.methods.base import Method

OPTIONS = ("lr", "momentum", "dampening", "nesterov", "weight_decay", "maximize")


def from_torch(
    optimizer: Any,
    scheduler: Any = None,
    *,
    loss_scale: float = 1.0,
    iterations: int = LONGEST_SEARCH,
) -> Method:
    r"""Return the method that this optimiser is on least squares, with full batches.

    The optimiser is ``torch.optim.SGD``, new and unused, and the coefficients start at zero. Any
    scheduler that does not look at the loss is read by stepping a copy of it once for each step of
    the optimiser. Torch is not imported, and neither optimiser nor scheduler is changed.

    Parameters
    ----------
    optimizer : torch.optim.SGD
        Its parameter groups must have the same options.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        For example StepLR, MultiStepLR, ExponentialLR, CosineAnnealingLR, OneCycleLR (which also
        changes the momentum), LinearLR, LambdaLR or SequentialLR.
    loss_scale : float, default=1.0
        The loss divided by ‖y - Xβ‖²/(2n): 1 for half of the mean squared error, 2 for
        ``torch.nn.MSELoss()`` with one output, and 2/q with q outputs. The step of the method is
        ``lr`` times this number, and its weight decay is torch's divided by it.
    iterations : int, default=20_000
        The length of the run, for which the scheduler is read; after it, the last step is kept.

    Returns
    -------
    Method
        :class:`GradientDescent`; with momentum :class:`HeavyBall`, or :class:`SGD` where there is
        ``nesterov`` or ``dampening``; and with weight decay :class:`Decayed` of it.

    Raises
    ------
    ValueError
        If what the optimiser does has no filter. The message says why.

    Examples
    --------
    >>> class SGD:  # in place of torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    ...     param_groups = [{"params": [], "lr": 0.1, "momentum": 0.9}]
    >>> from_torch(SGD())
    HeavyBall(step=0.1, momentum=0.9)
    """
    scale = positive_number("loss_scale", loss_scale)
    options = _checked_options(optimizer)
    length = whole_number("iterations", iterations, least=1)
    lrs, momenta = _recorded(optimizer, scheduler, length)
    step = _as_schedule([scale * lr for lr in lrs])
    momentum = _as_schedule(momenta)
    method: Method
    if options["nesterov"] or options["dampening"]:
        method = SGD(step, momentum, options["dampening"], bool(options["nesterov"]))
    else:
        method = HeavyBall(step, momentum) if any(momenta) else GradientDescent(step)
    decay = options["weight_decay"] / scale
    return Decayed(method, decay) if decay else method


def _checked_options(optimizer: Any) -> dict[str, float]:
    """Return the options that all parameter groups share, or say what has no filter."""
    name = type(optimizer).__name__
    if not getattr(optimizer, "param_groups", None):
        raise ValueError(f"from_torch reads an optimiser of torch.optim; got {optimizer!r}.")
    if not any(cls.__name__ == "SGD" for cls in type(optimizer).__mro__):
        raise ValueError(
            f"{name} has no filter that is known here; only torch.optim.SGD has. The steps of "
            "Adam, AdamW, Adagrad and RMSprop depend on the response: take the method of that "
            "name, for example st.Adam, whose stop is chosen by K-fold cross-validation."
        )
    groups = [_options(group) for group in optimizer.param_groups]
    unequal = [key for key in OPTIONS if any(group[key] != groups[0][key] for group in groups)]
    if unequal:
        raise ValueError(
            f"The parameter groups have different {', '.join(unequal)}, so there is no filter of "
            "the eigenvalues of all columns together: give them the same options, or put the "
            "parameters into one group."
        )
    if groups[0]["maximize"]:
        raise ValueError("maximize=True moves away from least squares: there is no path to stop.")
    states = getattr(optimizer, "state", {}).values()
    if any(one.get("momentum_buffer") is not None for one in states):
        raise ValueError(
            "The optimiser has already taken steps, and a method describes a run from its start: "
            "call from_torch before the first step."
        )
    return groups[0]


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
