"""Results of benchmarks: measures with goals, verdicts, growth exponents, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stoptime.support.files import atomic

SCHEMA = 1
DIGITS = 4  # significant digits in the JSON: a time has no more
Sense = Literal["at least", "at most"]
Verdict = Literal["holds", "no goal", "below its goal", "LOSES", "not run", "FAILED"]


@dataclass(frozen=True)
class Measure:
    """One number with its goal."""

    name: str
    value: float
    goal: float | None = None
    sense: Sense = "at least"

    @property
    def holds(self) -> bool:
        """Whether the goal is met; NaN meets no goal."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.sense == "at least" else self.value <= self.goal

    def __str__(self) -> str:
        """Return the number with its name and goal."""
        goal = "" if self.goal is None else f" (goal {self.sense} {short(self.goal)})"
        return f"{short(self.value)} {self.name}{goal}"


@dataclass(frozen=True)
class Outcome:
    """Result of one case: seconds of every round, and the measures; the first is the ratio."""

    group: str
    name: str
    peer: str
    ours: tuple[float, ...] = ()
    theirs: tuple[float, ...] = ()
    measures: tuple[Measure, ...] = ()
    why: str = ""
    missing: str = ""
    error: str = ""
    share: float = 1.0

    @property
    def verdict(self) -> Verdict:
        """The verdict: a ratio above 1 but below its goal is not a loss, every other miss is."""
        if self.missing:
            return "not run"
        if self.error or not self.measures:
            return "FAILED"
        if all(measure.goal is None for measure in self.measures):
            return "no goal"
        if all(measure.holds for measure in self.measures):
            return "holds"
        ratio, *others = self.measures
        ahead = ratio.sense == "at least" and bool(self.theirs) and ratio.value > 1
        return "below its goal" if ahead and all(m.holds for m in others) else "LOSES"


@dataclass(frozen=True)
class Growth:
    """Seconds of one competitor as one size grows."""

    variable: str
    fixed: str
    who: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The exponent of a power law fitted to all sizes."""
        return exponent(self.sizes, self.seconds)

    @property
    def last_exponent(self) -> float:
        """The exponent fitted to the larger half of the sizes, where fixed costs matter less."""
        half = len(self.sizes) // 2
        return exponent(self.sizes[half:], self.seconds[half:])


@dataclass(frozen=True)
class Run:
    """All results of one command."""

    mode: str
    date: str
    environment: Mapping[str, Any]
    outcomes: tuple[Outcome, ...] = ()
    growths: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()


def short(value: float) -> str:
    """Return a number with three digits, without an exponent if possible."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    return f"{value:,.0f}".replace(",", " ") if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time in milliseconds or seconds."""
    return f"{short(value * 1e3)} ms" if value < 1 else f"{short(value)} s"


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Fit log(seconds) = a + b log(size) and return b; NaN for fewer than two sizes."""
    if len(set(sizes)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def rounded(value: Any) -> Any:
    """Return a copy with every float rounded to the significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def as_dict(run: Run) -> dict[str, Any]:
    """Return plain data, with verdicts and exponents for readers of the JSON file."""
    plain = asdict(run)
    for one, outcome in zip(plain["outcomes"], run.outcomes, strict=True):
        one["verdict"] = outcome.verdict
    for one, growth in zip(plain["growths"], run.growths, strict=True):
        one |= {"exponent": growth.exponent, "last_exponent": growth.last_exponent}
    return {"schema": SCHEMA, **rounded(plain)}


def save(run: Run, file: Path) -> None:
    """Write a run; after an error the old file is unchanged."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic(file) as path:
        text = json.dumps(as_dict(run), indent=1, ensure_ascii=False, allow_nan=True)
        path.write_text(text + "\n", encoding="utf-8")


def load(file: Path) -> Run:
    """Read a run."""
    plain = json.loads(file.read_text(encoding="utf-8"))
    if plain.get("schema") != SCHEMA:
        raise ValueError(
            f"{file.name} has schema {plain.get('schema')}, not {SCHEMA}; run the benchmark again."
        )
    outcomes = tuple(_outcome(one) for one in plain["outcomes"])
    growths = tuple(_growth(one) for one in plain["growths"])
    head = {key: plain[key] for key in ("mode", "date", "environment")}
    return Run(**head, outcomes=outcomes, growths=growths, notes=tuple(plain["notes"]))


def _outcome(plain: dict[str, Any]) -> Outcome:
    known = {key: value for key, value in plain.items() if key != "verdict"}
    tuples = {key: tuple(known[key]) for key in ("ours", "theirs")}
    return Outcome(
        **known | tuples | {"measures": tuple(Measure(**one) for one in known["measures"])}
    )


def _growth(plain: dict[str, Any]) -> Growth:
    names = ("variable", "fixed", "who", "sizes", "seconds")
    return Growth(**{key: tuple(v) if isinstance(v := plain[key], list) else v for key in names})
