"""The loop of an iteration for any loss: the only place here that knows the methods.

It is the loop of :func:`stoptime.methods.recurrence.iterates` with the gradient of another loss, so
that a run is the one that :func:`stoptime.from_torch` describes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoptime.methods.averages import Averaged, Decayed
from stoptime.methods.base import Method
from stoptime.methods.recurrence import Recurrence


class Steps:
    """Coefficients of several runs, which take the steps of one method together.

    ``shown`` is the result after k steps: the last iterate, or the average that the method takes.
    With a vanishing decay c, step k has the weight decay c/t², with t = √step·k the time of the run
    (c/t with t = step·k for gradient descent), except for the intercept.
    """

    def __init__(self, method: Method, start: Any, vanishing_decay: float = 0.0) -> None:
        self.average = method if isinstance(method, Averaged) else None
        inner = method if self.average is None else self.average.method
        self.decay, self.decoupled = 0.0, False
        if isinstance(inner, Decayed):
            self.decay, self.decoupled, inner = inner.weight_decay, inner.decoupled, inner.method
        if not isinstance(inner, Recurrence) or (self.average and self.average.kind == "tail"):
            raise ValueError(
                f"Cross-entropy is fitted step by step, and {method} cannot be run so: take "
                '"nesterov", "gradient-descent", "heavy-ball", one of them with weight decay, or '
                'their "polyak" or "exponential" average.'
            )
        self.iteration = inner
        self.vanishing_decay = vanishing_decay
        self.start = start
        self.value = 1 * start
        self.move = 0 * start
        self.total = 0 * start if self.average else None
        self.shown = self.value
        self.k = 0

    @property
    def patience(self) -> float:
        """How much longer than to its best step a run should go on, as a share of these steps.

        Oscillations of a constant momentum do not become slower, so that errors fall again.
        """
        return 2.0 if getattr(self.iteration, "momentum", None) else 0.25

    def ahead(self) -> Any:
        """Return the coefficients at which the next step takes its gradient."""
        lookahead = self.iteration.update(self.k + 1).lookahead
        return self.value + lookahead * self.move if lookahead else self.value

    def take(self, ahead: Any, gradient: Any) -> None:
        """Take the next step with the gradient at :meth:`ahead`, which is overwritten."""
        self.k += 1
        update = self.iteration.update(self.k)
        # coefficients decay towards where they start, which is zero except for an intercept
        if self.decay and not self.decoupled:
            gradient += self.decay * (ahead - self.start)
        slope = gradient
        slope *= self.iteration.epsilon
        if self.vanishing_decay:
            # a few steps later than c/t², so that the first step does not overshoot
            c, order = self.vanishing_decay, self.iteration.time_power
            pull = c / (self.k + c ** (1 / order)) ** order
            slope[..., :-1] += pull * ahead[..., :-1]
        if self.decoupled:
            share = self.decay * self.iteration.epsilon * self.iteration.step_ratio(self.k)
            self.value -= share * (self.value - self.start)
        if update.direct:
            self.value -= update.direct * slope
        slope *= update.weight
        self.move *= update.momentum
        self.move -= slope
        self.value += update.stride * self.move
        if self.average is not None and self.average.kind == "exponential":
            share = 1.0 if self.k == 1 else 1 - self.average.decay
            self.shown = self.shown + share * (self.value - self.shown)
        elif self.average is not None:
            self.total += self.value
            self.shown = self.total / self.k


def is_automatic(method: Any) -> bool:
    """Tell whether the step of a method is found from the data."""
    return bool(getattr(method, "step", None) == "auto")


def with_step(method: Any, step: float) -> Any:
    """Return the method with this step, also inside an average or a decay."""
    if hasattr(method, "method"):
        return replace(method, method=with_step(method.method, step))
    return replace(method, step=step)
