"""Signals by their coordinates in the eigenbasis, and the rates at which methods learn them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Method
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow
from stoptime.methods.iterations import GradientDescent, NuMethod
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Butterworth, IteratedRidge, Ridge
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number

Target = Literal["estimation", "prediction"]


@dataclass(frozen=True)
class PowerSignal:
    """Squared coordinates that fall like a power of the number of their direction."""

    decay: float

    def coordinates(self, eigenvalues: ArrayLike) -> Array:
        """Return the coordinates for these eigenvalues, in their order."""
        s = np.asarray(eigenvalues, dtype=np.float64)
        number = np.empty(len(s))
        number[np.argsort(-s, kind="stable")] = np.arange(1, len(s) + 1)
        return number ** (-self.decay / 2)


def power_signal(decay: float) -> PowerSignal:
    r"""Return the signal with squared coordinates :math:`(v_i^T\beta_0)^2 = i^{-b}`.

    The direction i = 1 has the largest eigenvalue. The ``decay`` is the b: 0 is the same size in
    all directions, and a larger b leans more towards the leading ones.

    Examples
    --------
    >>> power_signal(2.0).coordinates([0.1, 5.0, 1.0])
    array([0.33333333, 1.        , 0.5       ])
    """
    return PowerSignal(float(nonnegative("decay", decay)))


def coordinates_of(signal: ArrayLike | PowerSignal, eigenvalues: Array) -> Array:
    """Return the coordinates of a signal; refuse all but one finite number per eigenvalue."""
    given = signal.coordinates(eigenvalues) if isinstance(signal, PowerSignal) else signal
    a = np.asarray(given, dtype=np.float64)
    if a.ndim != 1 or not np.isfinite(a).all():
        raise ValueError(
            f"signal must be a list of finite coordinates, one per eigenvalue; got {signal!r}."
        )
    if len(a) != len(eigenvalues):
        raise ValueError(
            f"signal must have one coordinate per eigenvalue, {len(eigenvalues)}; got {len(a)}."
        )
    return a


def squared_coordinates(signal: ArrayLike | PowerSignal, eigenvalues: Array) -> Array:
    """Return the squares of the coordinates; one number is spread evenly over all of them."""
    if isinstance(signal, PowerSignal) or np.ndim(signal):
        return coordinates_of(signal, eigenvalues) ** 2
    r2 = float(nonnegative("signal", signal))
    return np.full(len(eigenvalues), r2 / max(len(eigenvalues), 1))


def target_weights(target: Target, eigenvalues: Array) -> Array:
    """Return the weight of every direction in the risk of this target."""
    if target not in {"estimation", "prediction"}:
        raise ValueError(f'target must be "estimation" or "prediction"; got {target!r}.')
    return eigenvalues if target == "prediction" else np.ones_like(eigenvalues)


def risk_exponent(
    method: str | Method,
    *,
    eigenvalue_decay: float,
    signal_decay: float,
    target: Target = "prediction",
) -> float:
    r"""Return the power of n with which the least risk of a method falls.

    .. math:: \min_t R(t) \sim n^{-m/(m+1)}, \qquad m = \min(a + b - 1,\, 2qa)

    for eigenvalues :math:`i^{-a}`, a signal of squared coordinates :math:`i^{-b}` and a method of
    qualification q; for ``target="estimation"``, :math:`n^{-m/(m+1+a)}` with
    :math:`m = \min(b - 1, 2qa)`. Equal arguments of the minimum add a logarithm.

    Parameters
    ----------
    method : Method or str
        A method that knows its qualification: 1 for ridge, q for ridge iterated q times, r/4 for
        accelerated flow of friction r, ν for the ν-method, and infinite for gradient flow, the
        critically damped flow and spectral cut-off. Where it oscillates, the rate is that of its
        envelope.
    eigenvalue_decay, signal_decay : float
        The a, above 1/2, and the b, with a + b above 1. For estimation both exceed 1.
    target : {"prediction", "estimation"}, default="prediction"
        The risk; see :func:`stoptime.risk`.

    Examples
    --------
    >>> known = {"eigenvalue_decay": 1.0, "signal_decay": 4.0}
    >>> risk_exponent("gradient-flow", **known), round(risk_exponent("ridge", **known), 3)
    (-0.8, -0.667)
    """
    target_weights(target, np.empty(0))
    least = 0.5 if target == "prediction" else 1.0
    a = positive_number("eigenvalue_decay", eigenvalue_decay, low=least)
    b = float(nonnegative("signal_decay", signal_decay))
    q = qualification(get_method(method))
    spare = a if target == "prediction" else 0.0
    m = min(spare + b - 1, 2 * q * a)
    if m <= 0:
        raise ValueError(
            "The signal falls too slowly for any rate: signal_decay must exceed "
            f"{1 - spare:g}; got {b:g}."
        )
    return -m / (m + 1 + a - spare)


def qualification(method: Method) -> float:
    """Return the q with g ~ (λ/s)^q at large s, where λ is the equivalent penalty."""
    if isinstance(method, Ridge):
        return 1.0
    if isinstance(method, IteratedRidge):
        return float(method.times)
    if isinstance(method, Butterworth):
        return float(method.order)
    if isinstance(method, AcceleratedFlow):
        return method.friction / 4  # the envelope of g falls like u^(-r/2) = (t²s)^(-r/4)
    if isinstance(method, NuMethod):
        return method.nu
    if isinstance(method, GradientFlow | CriticalFlow | GradientDescent | SpectralCutoff):
        return np.inf
    raise ValueError(f"The qualification of {method} is not known, so neither is its rate.")
