"""Ridge regression, once, iterated, or with a steeper edge, as a path to least squares."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from stoptime.methods.base import Checks, Complex, Monotone
from stoptime.methods.special import piecewise
from stoptime.support.arrays import TINY, Array
from stoptime.support.checks import whole_number


class SumOfRidges(Monotone):
    """A filter that is a sum of a few ridges, so that leave-one-out takes few systems a stop."""

    @abstractmethod
    def ridges(self, stops: Array) -> tuple[Complex, Complex]:
        r"""Return penalties and weights of the ridges, both of shape (n_ridges, n_stops).

        .. math:: g(s, t) = \mathrm{Re}\sum_k \omega_k\,\frac{\lambda_k}{\lambda_k + s}

        Of two conjugate penalties only one is returned, with the weight of both. The stops are
        positive and finite.
        """


@dataclass(frozen=True)
class Ridge(SumOfRidges):
    r"""Ridge regression with penalty 1/t.

    .. math:: g(s, t) = 1 / (1 + t s)

    The penalty is that of :math:`\|y - X\beta\|^2/(2n) + (\lambda/2)\|\beta\|^2`: scikit-learn's
    ``alpha`` is :math:`n\lambda = n/t`.
    """

    name: ClassVar[str] = "ridge"
    time_power: ClassVar[int] = 1
    stop_meaning: ClassVar[str] = "1/penalty"

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return 1 / (1 + t * s)

    def _gain(self, s: Array, t: Array) -> Array:
        return t / (1 + t * s)

    def ridges(self, stops: Array) -> tuple[Complex, Complex]:
        """Return the penalty of every stop, with weight one."""
        penalties = (1 / stops[None]).astype(np.complex128)
        return penalties, np.ones_like(penalties)


def whole_times(name: str, value: Any, most: float = np.inf) -> int:
    """Return a whole number of at least one; 3.0, as a command line gives it, is the number 3."""
    whole = isinstance(value, float) and value.is_integer()
    number = whole_number(name, int(value) if whole else value, least=1)
    if number > most:
        raise ValueError(f"{name} must be at most {most}; got {value!r}.")
    return number


@dataclass(frozen=True)
class IteratedRidge(Monotone):
    r"""Ridge regression applied again and again to its own residuals, q times in all.

    .. math:: \beta_{j+1} = \beta_j + (\hat\Sigma + \lambda I)^{-1} X^T(y - X\beta_j)/n, \qquad
        g(s, t) = (1 + ts/q)^{-q}, \quad \lambda = q/t

    Once is ridge, and gradient flow is the limit of many times. See King, Chillingworth (1979).

    Parameters
    ----------
    times : int, default=2
        The q above.

    Examples
    --------
    >>> bool(IteratedRidge(times=1).gain(2.0, 3.0) == Ridge().gain(2.0, 3.0))
    True
    """

    times: int = 2
    name: ClassVar[str] = "iterated-ridge"
    time_power: ClassVar[int] = 1
    stop_meaning: ClassVar[str] = "times/penalty"
    _checks: ClassVar[Checks] = {"times": whole_times}

    def _shrinkage(self, s: Array, t: Array) -> Array:
        # a power multiplies the rounding of 1 + x by q, which a logarithm of small x has not
        q = float(self.times)
        cases = [
            (s * (t / q) < 0.5, lambda x: np.exp(-q * np.log1p(x))),
            (s * (t / q) >= 0.5, lambda x: (1 + x) ** -q),
        ]
        return piecewise(cases, s * (t / q))

    def _gain(self, s: Array, t: Array) -> Array:
        time = t / self.times
        x = np.maximum(s * time, TINY)  # for which the formula gives q, as at zero
        return np.asarray(time * (-np.expm1(-self.times * np.log1p(x)) / x))


@dataclass(frozen=True)
class Butterworth(SumOfRidges):
    r"""A ridge with a steeper edge: the Butterworth filter of signal processing.

    .. math:: g(s, t) = \frac{1}{1 + (ts)^q}, \qquad \lambda = 1/t

    For q = 1 it is ridge with penalty λ, and for large q it is close to principal component
    regression. It is an average of q ridges with complex penalties. A steep edge suits a signal
    that lies in the leading directions. See Butterworth (1930), On the theory of filter amplifiers.

    Parameters
    ----------
    order : int, default=4
        The q above, at most 1000.

    Examples
    --------
    >>> Butterworth(4).shrinkage([0.5, 1.0, 2.0], 1.0).round(4)
    array([0.9412, 0.5   , 0.0588])
    """

    order: int = 4
    name: ClassVar[str] = "butterworth"
    time_power: ClassVar[int] = 1
    stop_meaning: ClassVar[str] = "1/penalty"
    _checks: ClassVar[Checks] = {"order": partial(whole_times, most=1000)}

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return 1 / (1 + (t * s) ** float(self.order))

    def _gain(self, s: Array, t: Array) -> Array:
        # two half powers: the whole power may underflow before it meets a late stop
        half_power = (t * s) ** ((self.order - 1) / 2)
        return np.asarray((t * half_power) * half_power * self._shrinkage(s, t))

    def _largest_gain(self, t: Array) -> Array:
        q = self.order
        return np.asarray(t * ((q - 1) ** ((q - 1) / q) / q))  # at (ts)^q = q - 1

    def ridges(self, stops: Array) -> tuple[Complex, Complex]:
        r"""Return penalties and weights of the ridges whose average is this filter.

        .. math:: \lambda_k = -e^{i\pi(2k+1)/q}/t
        """
        # The poles of g are the q-th roots of -1, divided by t. The upper half of them is enough.
        half = (self.order + 1) // 2
        angles = np.pi * (2 * np.arange(half) + 1) / self.order
        penalties = -np.exp(1j * angles)
        weights = np.full(half, 2 / self.order, np.complex128)
        if self.order % 2:
            # An odd order has one real penalty, that of ridge itself, without a conjugate.
            penalties[-1] = 1.0
            weights[-1] = 1 / self.order
        return penalties[:, None] / stops, np.repeat(weights[:, None], len(stops), axis=1)
