"""The constants of the paper next to the certified ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stoptime.bounds.certificates import parameter_error, risk_inflation
from stoptime.bounds.enclosure import Enclosure
from stoptime.bounds.theorems import heavy_ball_theorem
from stoptime.methods import AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.support.wording import aligned

PAPER_PRECISION = 1e-4  # it prints four decimals
PRINTED_DIGITS = 10
SHARPER_FRICTION = (4.0, 5.0, 7.0)
CONDITION_NUMBERS = (1.0, 10.0, 100.0, 1000.0)

Claim = tuple[str, float | None, Callable[[], Enclosure]]


@dataclass(frozen=True)
class BoundsRow:
    """One statement: the number printed in the paper (None: not in the paper) and the certified one."""

    statement: str
    paper: float | None
    certified: Enclosure

    @property
    def verdict(self) -> str:
        """Say how the paper's number stands to the certified one."""
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
        """Print one line per statement."""
        numbers = aligned(
            [("statement", "paper", "lower", "upper", "stop"), *map(_numbers, self.rows)]
        )
        verdicts = ["", *(row.verdict for row in self.rows)]
        lines = zip(numbers.splitlines(), verdicts, strict=True)
        return "\n".join(f"{line}  {verdict}".rstrip() for line, verdict in lines)


def _numbers(row: BoundsRow) -> tuple[str, ...]:
    paper = "-" if row.paper is None else f"{row.paper:.7g}"
    return row.statement, paper, *row.certified.printed(PRINTED_DIGITS), f"{row.certified.stop:.6g}"


def table(
    condition_numbers: Iterable[float] = CONDITION_NUMBERS,
    *,
    progress: Callable[[str], None] | None = None,
) -> BoundsTable:
    r"""Return every constant of the paper with its certified enclosure, and the sharper ones of this package.

    .. math:: \mathrm{lower} \le C \le \mathrm{upper} \quad \text{for every row}

    Parameters
    ----------
    condition_numbers : iterable of float
        Where to compare the heavy-ball theorem with the exact constant. Each takes about a second, more
        where it is large.
    progress : callable, optional
        Called with every statement before it is proven.

    Returns
    -------
    BoundsTable
        Its ``rows`` have ``statement``, ``paper``, ``certified`` and ``verdict``.

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


def statements(condition_numbers: Iterable[float] = CONDITION_NUMBERS) -> list[str]:
    """Return the statements of :func:`table` in its order, without proving them.

    Examples
    --------
    >>> statements()[0]
    'gradient flow / ridge'
    """
    return [statement for statement, _, _ in _claims(condition_numbers)]


def _claims(condition_numbers: Iterable[float]) -> list[Claim]:
    gradient, nesterov, heavy_ball = GradientFlow(), AcceleratedFlow(), HeavyBallFlow()
    claims: list[Claim] = [
        ("gradient flow / ridge", 1.0786, lambda: risk_inflation(gradient)),
        ("gradient flow / ridge, t = 1/λ*", 1.2147, lambda: risk_inflation(gradient, stop=1.0)),
        ("accelerated flow / ridge", 1.5991, lambda: risk_inflation(nesterov)),
        ("accelerated flow, parameter error", 0.7657, lambda: parameter_error(nesterov)),
        ("heavy-ball flow, parameter error", 25.0, lambda: parameter_error(heavy_ball)),
    ]
    claims += [_heavy_ball_claim(kappa) for kappa in condition_numbers]
    claims += [_friction_claim(friction) for friction in SHARPER_FRICTION]
    claims += [
        (
            "accelerated flow, parameter error, λ = 5/t²",
            None,
            lambda: parameter_error(nesterov, calibration=5.0),
        ),
        (
            "gradient flow, parameter error, λ = 0.79/t",
            None,
            lambda: parameter_error(gradient, calibration=0.79),
        ),
    ]
    return claims


def _heavy_ball_claim(kappa: float) -> Claim:
    return (
        f"heavy-ball flow / ridge, κ = {kappa:g}",
        float(heavy_ball_theorem(kappa)),
        lambda: risk_inflation(HeavyBallFlow(), condition_number=kappa),
    )


def _friction_claim(friction: float) -> Claim:
    return (
        f"accelerated flow / ridge, friction {friction:g}",
        None,
        lambda: risk_inflation(AcceleratedFlow(friction=friction)),
    )
