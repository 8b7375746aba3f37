"""The statements of the paper: its formulas, and its constants next to the certified ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.bounds import balls
from stoptime.bounds.balls import Enclosure, exact
from stoptime.bounds.certificates import parameter_error, risk_inflation, variance_coupling
from stoptime.methods.base import Filter
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.ridge import Butterworth, IteratedRidge
from stoptime.support.wording import aligned, rounded_up

PAPER_PRECISION = 1e-4  # the paper prints four decimals
TABLE_CONDITION_NUMBERS = (1.0, 10.0, 100.0, 1000.0)
BEST_STOP = "best stop of each spectrum"
ONE_STOP = "one stop for all spectra"
BEYOND = "beyond the paper"


class Claim(NamedTuple):
    """One statement: its proof, its number in print, and where that is."""

    statement: str
    certify: Callable[[], Enclosure]
    paper: float | None = None
    source: str = BEYOND


@dataclass(frozen=True)
class BoundsRow:
    """One statement: the number in print (None if there is none) and the certified one.

    The paper is Sheng, Ali (2022), or the one that the statement names.

    Examples
    --------
    >>> constant = Enclosure(1.2675, 1.2677, stop=1.87)
    >>> BoundsRow("accelerated flow / ridge", 1.5991, constant).verdict
    'sharper'
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
            close = self.certified.lower - self.paper < PAPER_PRECISION
            return "rounded down" if close else "too small in print"
        return "confirmed" if self.paper - self.certified.upper < PAPER_PRECISION else "sharper"


@dataclass(frozen=True)
class BoundsTable:
    """All statements, printable as a table."""

    rows: tuple[BoundsRow, ...]

    def __str__(self) -> str:
        lines = [("statement", "paper", "lower", "upper", "stop")]
        for row in self.rows:
            lower, upper = row.certified.printed(10)
            stop = "-" if row.certified.spectrum else f"{row.certified.stop:.6g}"
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

    A theorem on risks has two rows. "Best stop of each spectrum" is the ratio that the theorem
    bounds; "one stop for all spectra" is the min-max in its proof, and the number for a plan that
    is made before the data are seen. The heavy-ball lemma is compared with both at some condition
    numbers; the largest one takes about half a minute. ``progress`` is called with every statement
    before it is proven.
    """
    rows = []
    for claim in claims(condition_numbers):
        if progress is not None:
            progress(claim.statement)
        rows.append(BoundsRow(claim.statement, claim.paper, claim.certify()))
    return BoundsTable(tuple(rows))


def claims(condition_numbers: Iterable[float] = TABLE_CONDITION_NUMBERS) -> list[Claim]:
    """Return all statements, those on the flows of the paper first."""
    accelerated, heavy_ball, gradient = AcceleratedFlow(), HeavyBallFlow(), GradientFlow()
    theorem = "Theorem: risk inflation for accelerated flow"
    prior = "prior work, quoted beside the lemma on gradient flow"
    one = partial(risk_inflation, gradient, stop=1.0)
    found = [
        *_readings("gradient flow", gradient, 1.0786, "Lemma: risk inflation for gradient flow"),
        Claim("gradient flow / ridge, t = 1/λ*", one, 1.2147, prior),
        *_readings("accelerated flow", accelerated, 1.5991, theorem),
    ]
    theorem = "Theorem: parameter error bound"
    errors: list[tuple[str, Filter, float, str, float | None, str]] = [
        ("accelerated flow", accelerated, 1.0, "", 0.7657, theorem),
        ("heavy-ball flow", heavy_ball, 1.0, "", 25.0, f"{theorem} for heavy ball"),
        ("accelerated flow", accelerated, 5.0, ", λ = 5/t²", None, BEYOND),
        ("critically damped flow", CriticalFlow(), 2.2712, ", λ = 2.2712/t²", None, BEYOND),
        ("gradient flow", gradient, 0.79, ", λ = 0.79/t", None, BEYOND),
    ]
    for name, method, c, ending, printed, source in errors:
        error = partial(parameter_error, method, calibration=c)
        found.append(Claim(f"{name}, parameter error{ending}", error, printed, source))
    for kappa in condition_numbers:
        found += [
            Claim(
                f"heavy-ball flow / ridge, κ = {kappa:g}, {reading}",
                partial(risk_inflation, heavy_ball, condition_number=kappa, adaptive=adaptive),
                float(heavy_ball_theorem(kappa)),
                "Lemma: risk inflation for heavy ball flow",
            )
            for reading, adaptive in ((BEST_STOP, True), ("one stop for each μ/λ*", False))
        ]
    critical = "critically damped flow (Wang, Zhou, Fu)"
    found += _readings(critical, CriticalFlow(), 1.035, "arXiv 2201.05405, stated as 1.035")
    for name, flow in (("accelerated flow", accelerated), ("heavy-ball flow", heavy_ball)):
        statement = f"{name}, variance / ridge variance, λ = 1/t²"
        found.append(Claim(statement, partial(variance_coupling, flow)))
    new: dict[str, Filter] = {
        **{f"accelerated flow with friction {r:g}": AcceleratedFlow(r) for r in (4.0, 5.0, 9.0)},
        **{f"ridge iterated {q} times": IteratedRidge(q) for q in (2, 3)},
        **{f"Butterworth filter of degree {q}": Butterworth(q) for q in (2, 4)},
        "gradient descent, step 0.01/λ*,": GradientDescent(0.01),
        "Nesterov's method, step 0.01/λ*,": Nesterov(0.01),
        "ν-method, step 0.01/λ*,": NuMethod(0.01),
        "heavy ball with momentum 0.9, step 0.01/λ*,": HeavyBall(0.01, 0.9),
    }
    return found + [claim for name, method in new.items() for claim in _readings(name, method)]


def _readings(
    name: str, method: Filter, paper: float | None = None, source: str = BEYOND
) -> list[Claim]:
    """Return the ratio with the best stop of each spectrum, and with one stop for all."""
    adaptive = partial(risk_inflation, method, adaptive=True)
    again = BEYOND if paper is None else "the same, by one stop"
    return [
        Claim(f"{name} / ridge, {BEST_STOP}", adaptive, paper, source),
        Claim(f"{name} / ridge, {ONE_STOP}", partial(risk_inflation, method), paper, again),
    ]


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
    :math:`8\sqrt{x}/\pi`. So the bias cannot be bounded by ridge's bias along the whole path with
    t = λ^(-1/2), nor can the risk where the noise is small (Section 3.3 of the paper). The variance
    can: see :func:`variance_coupling`. The inequality is verified in ball arithmetic before x is
    returned. The constant may lie between 0 and 1e150.

    Examples
    --------
    >>> x = coupling_counterexample(1000.0)
    >>> round(x)
    161073
    """
    constant = float(constant)
    # For larger constants x overflows.
    if not 0 <= constant <= 1e150:
        raise ValueError(f"constant must lie in [0, 1e150]; got {constant!r}.")
    k = max(0, int(constant / 8) - 1)
    for _ in range(200):  # the first one or two suffice
        # |J₁(√x)| has a peak near this x.
        x = (math.pi * (k + 0.75)) ** 2
        # The phase √x modulo π loses all digits of √x before the point: so many are added.
        with balls.working_precision(balls.PRECISION + 2 * max(0, math.frexp(x)[1])):
            at = exact(x)
            if (1 + at) ** 2 * 4 * at.sqrt().bessel_j(1) ** 2 / at > constant:
                return x
        k += 1 + k // 50
    raise balls.WorkLimitError(f"No counterexample to the constant {constant:g} was verified.")
