"""The loop of an iteration for any loss: the only place here that knows the methods.

It is the loop of :func:`stoptime.methods.recurrence.iterates` with the gradient of another loss, so
that a run is the one that :func:`stoptime.from_torch` describes.
"""

from __future__ import annotations

from typing import Any

from stoptime.methods.averages import Averaged, Decayed, VanishingDecay
from stoptime.methods.base import Method
from stoptime.methods.recurrence import Recurrence


class Steps:
    """Coefficients of several runs, which take the steps of one method together.

    ``shown`` is the result after k steps: the last iterate, or the average that the method takes.
    """

    def __init__(self, method: Method, start: Any) -> None:
        self.average, self.decayed, self.iteration = layers(method)
        self.start = self.value = self.shown = start
        self.move = self.total = 0 * start
        self.k = 0

    @property
    def patience(self) -> float:
        """How much longer than to its best step a run should go on, as a share of these steps.

        Oscillations of a constant momentum do not become slower, so that errors fall again.
        """
        return 2.0 if getattr(self.iteration, "momentum", None) else 0.25

    @property
    def largest_curvature(self) -> float:
        """The curvature half-way from that for which the step is made to where a run diverges."""
        return (1 + self.iteration.limit) / 2 / self.iteration.epsilon

    def ahead(self) -> Any:
        """Return the coefficients at which the next step takes its gradient."""
        return self.value + self.iteration.update(self.k + 1).lookahead * self.move

    def take(self, ahead: Any, gradient: Any) -> None:
        """Take the next step with the gradient at :meth:`ahead`."""
        self.k += 1
        update = self.iteration.update(self.k)
        slope = self.iteration.epsilon * gradient
        if isinstance(self.decayed, VanishingDecay):
            # the intercept does not decay
            slope[..., :-1] += self.decayed.update(self.k).pull * ahead[..., :-1]
        elif self.decayed is not None:
            # coefficients decay towards where they start, which is zero except for an intercept
            slope += self.iteration.epsilon * self.decayed.weight_decay * (ahead - self.start)
        self.move = update.momentum * self.move - update.weight * slope
        self.value = self.value + update.stride * self.move - update.direct * slope
        self.shown = self.value
        if self.average is not None and self.average.kind == "exponential":
            share = 1.0 if self.k == 1 else 1 - self.average.decay
            self.total = self.shown = self.total + share * (self.value - self.total)
        elif self.average is not None:
            self.total = self.total + self.value
            self.shown = self.total / self.k


def layers(method: Any) -> tuple[Averaged | None, Any, Recurrence]:
    """Return the average, the decay and the iteration of a method that can be run step by step."""
    average = method if isinstance(method, Averaged) else None
    inner = method if average is None else average.method
    decayed = inner if isinstance(inner, Decayed | VanishingDecay) else None
    inner = inner if decayed is None else decayed.method
    if not isinstance(inner, Recurrence) or (average and average.kind == "tail"):
        raise ValueError(
            f"Cross-entropy is fitted step by step, and {method} cannot be run so: take "
            '"nesterov", "gradient-descent", "heavy-ball", one of them with weight decay, or '
            'their "polyak" or "exponential" average.'
        )
    return average, decayed, inner
