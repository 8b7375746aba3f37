"""The statements of the paper: its formulas, and its constants next to the certified ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.bounds.balls import PRECISION, Enclosure, WorkLimitError, exact, working_precision
from stoptime.bounds.certificates import parameter_error, risk_inflation
from stoptime.bounds.friction import friction_change
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.ridge import IteratedRidge
from stoptime.support.wording import aligned, rounded_up

PAPER_PRECISION = 1e-4  # the paper prints four decimals
TABLE_DIGITS = 10
SHARPER_FRICTION = (4.0, 5.0, 7.0)
TABLE_TIMES = (2, 3, 10)
TABLE_CONDITION_NUMBERS = (1.0, 10.0, 100.0, 1000.0)
CERTIFIED_ITERATIONS = {
    "gradient descent": GradientDescent(),
    "Nesterov's method": Nesterov(),
    "ν-method": NuMethod(),
    "heavy ball with momentum 0.9": HeavyBall(momentum=0.9),
}
LARGEST_CONSTANT = 1e150  # for larger constants x overflows
ATTEMPTS = 200

Claim = tuple[str, float | None, Callable[[], Enclosure]]


@dataclass(frozen=True)
class BoundsRow:
    """One statement: the number in print (None if there is none) and the certified one.

    The paper is Sheng, Ali (2022), or the one that the statement names.
    """

    statement: str
    paper: float | None
    certified: Enclosure

    @property
    def verdict(self) -> str:
        """Say how the paper's number compares with the certified one."""
        if self.paper is None:
            return "new"
        if self.paper < self.certified.lower:
            return "rounded down in the paper"
        return "confirmed" if self.paper - self.certified.upper < PAPER_PRECISION else "sharper"


@dataclass(frozen=True)
class BoundsTable:
    """All statements, printable as a table."""

    rows: tuple[BoundsRow, ...]

    def __str__(self) -> str:
        lines = [("statement", "paper", "lower", "upper", "stop")]
        for row in self.rows:
            lower, upper = row.certified.printed(TABLE_DIGITS)
            stop = f"{row.certified.stop:.6g}"
            lines.append((row.statement, paper_bound(row.paper), lower, upper, stop))
        verdicts = ["", *(row.verdict for row in self.rows)]
        pairs = zip(aligned(lines).splitlines(), verdicts, strict=True)
        return "\n".join(f"{line}  {verdict}".rstrip() for line, verdict in pairs)


def paper_bound(value: float | None) -> str:
    """Return a bound of the paper to four decimals; the value of a formula is rounded up."""
    return "-" if value is None else rounded_up(value, 4)


def table(
    condition_numbers: Iterable[float] = TABLE_CONDITION_NUMBERS,
    *,
    progress: Callable[[str], None] | None = None,
) -> BoundsTable:
    """Return certified enclosures of the paper's constants, and of this package's sharper ones.

    The heavy-ball theorem is compared with the exact constant at some condition numbers, each of
    which takes about a second, large ones more. ``progress`` is called with every statement before
    it is proven.

    Examples
    --------
    >>> row = table(condition_numbers=()).rows[2]
    >>> row.statement, row.paper, row.verdict
    ('accelerated flow / ridge', 1.5991, 'rounded down in the paper')
    """
    rows = []
    for statement, paper, certify in _claims(condition_numbers):
        if progress is not None:
            progress(statement)
        rows.append(BoundsRow(statement, paper, certify()))
    return BoundsTable(tuple(rows))


def statements(condition_numbers: Iterable[float] = TABLE_CONDITION_NUMBERS) -> list[str]:
    """Return the statements of :func:`table` in its order, without proving them."""
    return [statement for statement, _, _ in _claims(condition_numbers)]


def _claims(condition_numbers: Iterable[float]) -> list[Claim]:
    gradient, nesterov, heavy_ball = GradientFlow(), AcceleratedFlow(), HeavyBallFlow()
    inflation = partial(partial, risk_inflation)
    error = partial(partial, parameter_error)
    known = [(kappa, float(heavy_ball_theorem(kappa))) for kappa in condition_numbers]
    return [
        ("gradient flow / ridge", 1.0786, inflation(gradient)),
        ("gradient flow / ridge, t = 1/λ*", 1.2147, inflation(gradient, stop=1.0)),
        ("accelerated flow / ridge", 1.5991, inflation(nesterov)),
        ("accelerated flow, parameter error", 0.7657, error(nesterov)),
        ("heavy-ball flow, parameter error", 25.0, error(heavy_ball)),
        *((f"heavy-ball flow / ridge, κ = {k:g}", h, inflation(heavy_ball, condition_number=k))
          for k, h in known),
        *((f"accelerated flow / ridge, friction {r:g}", None, inflation(AcceleratedFlow(r)))
          for r in SHARPER_FRICTION),
        ("accelerated flow, friction where the worst case changes", None, friction_change),
        ("critically damped flow / ridge (Wang, Zhou, Fu)", 1.035, inflation(CriticalFlow())),
        *((f"ridge iterated {times} times / ridge", None, inflation(IteratedRidge(times)))
          for times in TABLE_TIMES),
        ("critically damped flow, parameter error, λ = 2.2712/t²", None,
         error(CriticalFlow(), calibration=2.2712)),
        *((f"{name} / ridge, any step ≤ 1/L", None, inflation(method))
          for name, method in CERTIFIED_ITERATIONS.items()),
        ("heavy ball with tied momentum / ridge, κ = 10, any step ≤ 1/L", None,
         inflation(HeavyBall(), condition_number=10.0)),
        ("accelerated flow, parameter error, λ = 5/t²", None, error(nesterov, calibration=5.0)),
        ("gradient flow, parameter error, λ = 0.79/t", None, error(gradient, calibration=0.79)),
    ]  # fmt: skip


def heavy_ball_theorem(kappa: ArrayLike) -> NDArray[np.float64]:
    r"""Return the paper's bound on the risk inflation of heavy-ball flow.

    .. math::

        h(\kappa) = 8 z^2 + \Big(1 + \tfrac14 (z + w)^2\Big) \Big(\frac{w}{2z} + \frac32\Big)^2
        e^{-(z + w)/z}, \qquad z = \kappa^{1/3}, \quad w = \sqrt{5 z^2 - 4}

    The condition numbers are at least 1, and the result has their shape. :func:`risk_inflation`
    gives the exact constant, which is far smaller.

    Examples
    --------
    >>> float(heavy_ball_theorem(100.0))
    187.828...
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    if not np.all((kappa >= 1) & np.isfinite(kappa)):
        raise ValueError(f"kappa must be finite and at least 1; got {kappa!r}.")
    z = np.cbrt(kappa)
    w = np.sqrt(5 * z**2 - 4)
    bias = (1 + (z + w) ** 2 / 4) * (w / (2 * z) + 1.5) ** 2 * np.exp(-(z + w) / z)
    return np.asarray(8 * z**2 + bias)[()]


def coupling_counterexample(constant: float) -> float:
    r"""Return a point x where accelerated flow's bias exceeds a multiple of ridge's bias.

    .. math:: (1 + x)^2 \, \frac{4 J_1(\sqrt x)^2}{x} > \mathrm{constant}, \ x = t^2 s = s/\lambda

    Such an x exists for every constant, because at its peaks the left side grows like
    :math:`8\sqrt{x}/\pi`. So no bound of the risks can hold along the whole path with t = λ^(-1/2)
    (Section 3.3 of the paper). The inequality is verified in ball arithmetic before x is returned.
    The constant may lie between 0 and 1e150.

    Examples
    --------
    >>> x = coupling_counterexample(1000.0)
    >>> round(x)
    161073
    """
    constant = float(constant)
    if not 0 <= constant <= LARGEST_CONSTANT:
        raise ValueError(f"constant must lie in [0, {LARGEST_CONSTANT:g}]; got {constant!r}.")
    k = max(0, int(constant / 8) - 1)
    for _ in range(ATTEMPTS):
        # |J₁(√x)| has a peak near this x.
        x = (math.pi * (k + 0.75)) ** 2
        # The phase √x modulo π loses all digits of √x before the point: so many are added.
        with working_precision(PRECISION + 2 * max(0, math.frexp(x)[1])):
            ball = exact(x)
            if (1 + ball) ** 2 * 4 * ball.sqrt().bessel_j(1) ** 2 / ball > constant:
                return x
        k += 1 + k // 50
    raise WorkLimitError(f"No counterexample to the constant {constant:g} was verified.")
