r"""Adam and its relatives on all rows: every coefficient has a step size of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from stoptime.methods.base import Checks, Method
from stoptime.methods.recurrence import MOST_ITERATIONS, Indices, at_stops
from stoptime.methods.schedules import LONGEST_SEARCH
from stoptime.support.arrays import Array, Floats, on_host, slices
from stoptime.support.checks import fraction_below_one, iteration_numbers, positive_number


class Products:
    """XᵀX/n = VSVᵀ, as the matrix that is cheaper to multiply with, and the columns of Xᵀy/n."""

    def __init__(self, spectrum: Any, name: str) -> None:
        if spectrum.solver == "kernel":
            raise ValueError(f"{name} sees features, and a kernel has none: fit linear columns.")
        if spectrum.geometry is not None:
            raise ValueError(f"{name} has a geometry of its own: give no penalty_matrix.")
        self.vectors: Array = on_host(spectrum.vectors).astype(np.float64, copy=False)
        self.weighted = self.vectors * spectrum.eigenvalues
        z = spectrum.response.astype(np.float64)
        self.cross: Array = self.vectors @ z.reshape(len(z), int(np.prod(z.shape[1:])))
        # below half of the rank, two products with the basis are cheaper
        is_low = 2 * len(z) <= len(self.vectors)
        self.whole = None if is_low else self.weighted @ self.vectors.T

    def __matmul__(self, coef: Array) -> Array:
        if self.whole is not None:
            return np.asarray(self.whole @ coef)
        return np.asarray(self.weighted @ (self.vectors.T @ coef))


def _fractions(name: str, value: Any) -> Any:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{name} must be two numbers; got {value!r}.")
    return tuple(fraction_below_one(name, one) for one in value)


@dataclass(frozen=True)
class Adaptive(Method):
    r"""A method that divides the step of every coefficient by the size of its past gradients.

    .. math:: g_k = 2(X^TX\beta_{k-1} - X^Ty)/n, \qquad m_k = b\,m_{k-1} + (1-b)\,g_k, \qquad
        v_k = \rho\,v_{k-1} + \alpha\,g_k^2,

    .. math:: \beta_k = (1-\eta w)\beta_{k-1}
        - \eta\,\frac{m_k/(1-b^k)}{\sqrt{v_k/(1-\rho^k)} + \epsilon}

    (Adam, with all products taken entry by entry; the others do without the corrections by 1 - bᵏ
    and 1 - ρᵏ). With an intercept the data are centred: it is at its best value in every step, and
    not trained as one more parameter.
    """

    time_power: ClassVar[int] = 1
    whole_stops: ClassVar[bool] = True
    stop_meaning: ClassVar[str] = "iterations"
    horizon: ClassVar[float] = LONGEST_SEARCH
    _checks: ClassVar[Checks] = {"lr": positive_number, "eps": positive_number}

    lr: float = 0.01
    _corrected: ClassVar[bool] = False
    _decay: ClassVar[Any] = 0.0  # ηw

    @property
    @abstractmethod
    def _numbers(self) -> tuple[float, float, float, float]:
        """The b, ρ, α and ε above."""

    def coefficients_at(self, spectrum: Any, stops: Floats) -> Array:
        """Return the coefficients at these stops, (n_stops, p, n_targets)."""
        products = Products(spectrum, self.name)
        numbers, which = self._places(stops)
        with np.errstate(over="ignore", invalid="ignore"):
            run = at_stops(self._run(products, products.cross, None), numbers)
            coef = np.array([found for found, _ in run])
        if not np.isfinite(coef).all():
            raise ValueError(
                f"Coefficients of {self} overflow: rescale X and y, or use another lr."
            )
        return coef.reshape(len(numbers), *products.cross.shape)[which]

    def freedom_at(self, spectrum: Any, stops: Floats) -> Array:
        """Return the trace of d(fit)/dy at every stop, with a column for each target if many.

        The response acts through Xᵀy/n = Vz alone, so derivatives by z are enough: p x rank
        numbers for each target.
        """
        products = Products(spectrum, self.name)
        numbers, which = self._places(stops)
        traces = np.empty((len(numbers), products.cross.shape[1]))
        basis = products.vectors
        # several arrays of derivatives are held at once, so targets are taken in blocks
        for block in slices(traces.shape[1], 2**20 // max(1, basis.size)):
            run = at_stops(self._run(products, products.cross[:, block], basis), numbers)
            for row, (_, slope) in zip(traces, run, strict=True):
                row[block] = np.einsum("pr,pqr->q", products.weighted, slope)
        freedom: Array = traces[which] + int(spectrum.fit_intercept)
        return freedom[:, 0] if spectrum.response.ndim == 1 else freedom

    def _places(self, stops: Floats) -> tuple[Indices, Indices]:
        """Return the distinct stops, ascending, and the place of each stop among them."""
        last = float(np.max(stops, initial=0))
        if last > MOST_ITERATIONS:
            raise ValueError(
                f"A stop after {last:g} iterations is beyond the limit of {MOST_ITERATIONS}, and "
                f"{self.name} with a fixed step has no limit: give an earlier stop."
            )
        numbers = iteration_numbers(np.asarray(stops, np.float64))
        return np.unique(numbers, return_inverse=True)

    def _run(
        self, products: Products, cross: Array, basis: Array | None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the iterates and, given a basis of Xᵀy/n, their derivatives by its coordinates."""
        past, kept, added, eps = self._numbers
        coef, mean, square = (np.zeros_like(cross) for _ in range(3))
        shape = (0, 0, 0) if basis is None else (*cross.shape, basis.shape[1])
        slope, mean_slope, square_slope = (np.zeros(shape) for _ in range(3))
        for k in count(1):
            yield coef, slope
            # a corrected average is divided by the sum of its weights
            first = 1 - past**k if self._corrected else 1.0
            second = 1 - kept**k if self._corrected else 1.0
            gradient = 2 * (products @ coef - cross)
            mean = past * mean + (1 - past) * gradient
            square = kept * square + added * gradient**2
            root = np.sqrt(square / second)
            size = root + eps
            coef = (1 - self._decay) * coef - self.lr * (mean / first) / size
            if basis is None:
                continue
            pulled = products @ slope.reshape(len(coef), -1)
            change = 2 * (pulled.reshape(shape) - basis[:, None])
            mean_slope = past * mean_slope + (1 - past) * change
            square_slope = kept * square_slope + (2 * added * gradient)[..., None] * change
            # a gradient that has always been zero stays at the point 0/(0 + eps), where the root
            # has no influence
            bend = np.divide(mean, 2 * root, out=np.zeros_like(mean), where=root > 0)
            bend /= first * second * size**2
            move = mean_slope / (first * size)[..., None] - bend[..., None] * square_slope
            slope = (1 - self._decay) * slope - self.lr * move


@dataclass(frozen=True)
class Adam(Adaptive):
    """Adam on all rows, the iterates of ``torch.optim.Adam`` with the loss ``mse_loss``.

    It is from Kingma, Ba (2015), Adam: a method for stochastic optimization.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import path
    >>> drawn = path(*load_diabetes(return_X_y=True), Adam(lr=1.0), [10, 100])
    >>> drawn.degrees_of_freedom.round(2)
    array([1.  , 2.68])
    """

    name: ClassVar[str] = "adam"
    _corrected: ClassVar[bool] = True
    _checks: ClassVar[Checks] = Adaptive._checks | {"betas": _fractions}

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    @property
    def _numbers(self) -> tuple[float, float, float, float]:
        past, kept = self.betas
        return past, kept, 1 - kept, self.eps


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, the iterates of ``torch.optim.AdamW``.

    It is from Loshchilov, Hutter (2019), Decoupled weight decay regularization.
    """

    name: ClassVar[str] = "adamw"
    _checks: ClassVar[Checks] = Adam._checks | {"weight_decay": fraction_below_one}
    _decay: ClassVar[Any] = property(lambda method: method.lr * method.weight_decay)
    weight_decay: float = 0.01


@dataclass(frozen=True)
class RMSProp(Adaptive):
    """Steps divided by an average of squared gradients, as ``torch.optim.RMSprop`` takes them."""

    name: ClassVar[str] = "rmsprop"
    _checks: ClassVar[Checks] = Adaptive._checks | {"alpha": fraction_below_one}
    alpha: float = 0.99
    eps: float = 1e-8

    @property
    def _numbers(self) -> tuple[float, float, float, float]:
        return 0.0, self.alpha, 1 - self.alpha, self.eps


@dataclass(frozen=True)
class AdaGrad(Adaptive):
    """Steps divided by the sum of squared gradients, as ``torch.optim.Adagrad`` takes them.

    It is from Duchi, Hazan, Singer (2011), Adaptive subgradient methods.
    """

    name: ClassVar[str] = "adagrad"
    eps: float = 1e-10

    @property
    def _numbers(self) -> tuple[float, float, float, float]:
        return 0.0, 1.0, 1.0, self.eps
