"""What a certificate returns: two numbers with the true constant between them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

PRINTED_DIGITS = 12


class WorkLimitError(RuntimeError):
    """A proof was not finished within its budget; the message says what to relax."""


@dataclass(frozen=True)
class Enclosure:
    r"""A constant that provably lies between two doubles.

    .. math:: \mathrm{lower} \le C \le \mathrm{upper}

    Both ends are rounded outwards, so the inequalities hold for the printed numbers themselves.

    Parameters
    ----------
    lower, upper : float
        The proven ends.
    stop : float
        Where the constant is (nearly) attained, in the units of the function that returned it.

    Examples
    --------
    >>> constant = Enclosure(1.5, 1.625, stop=1.7553)
    >>> 1.6 in constant, 1.7 in constant, constant.width
    (True, False, 0.125)
    >>> print(constant)
    [1.5, 1.625] at stop 1.7553
    """

    lower: float
    upper: float
    stop: float

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order, NaN included."""
        if not self.lower <= self.upper:
            raise ValueError(f"lower must not exceed upper; got {self.lower!r} and {self.upper!r}.")

    @property
    def width(self) -> float:
        """The distance between the two ends."""
        return self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        """Say whether ``value`` lies between the ends."""
        return self.lower <= value <= self.upper

    def printed(self, digits: int = PRINTED_DIGITS) -> tuple[str, str]:
        """Return both ends in decimal digits, still rounded outwards."""
        return _decimal(self.lower, digits, ROUND_FLOOR), _decimal(
            self.upper, digits, ROUND_CEILING
        )

    def __str__(self) -> str:
        """Print as an interval and where it is attained."""
        lower, upper = self.printed()
        return f"[{lower}, {upper}] at stop {self.stop:.6g}"


def _decimal(value: float, digits: int, rounding: str) -> str:
    return f"{Context(digits, rounding).create_decimal(Decimal(value)).normalize():f}"
