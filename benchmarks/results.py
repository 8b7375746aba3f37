"""Results of benchmarks: numbers in words, and JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stoptime.support.files import atomic

RESULTS = Path(__file__).parent / "results"


def short(value: float) -> str:
    """Return a number with three digits, without an exponent if possible."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    return f"{value:,.0f}".replace(",", " ") if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time in milliseconds or seconds."""
    return f"{short(value * 1e3)} ms" if value < 1 else f"{short(value)} s"


def rounded(value: Any) -> Any:
    """Return a copy with every float rounded to four digits: a time has no more."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def save(run: Any, name: str) -> None:
    """Write a run; after an error the old file is unchanged."""
    with atomic(RESULTS / name) as path:
        text = json.dumps(rounded(run), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def load(name: str) -> Any:
    """Read a run."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def machine_line(run: Mapping[str, Any]) -> str:
    """Return the recorded environment of a run as text."""
    where = run["environment"]
    parts = [where["processor"], where.get("system")]
    if where.get("cores"):
        parts.append(f"{where['cores']} cores, {where['threads']} threads")
    if where.get("memory_gib"):
        parts.append(f"{where['memory_gib']:g} GiB of memory")
    if where.get("load_at_start") is not None:
        parts.append(f"load at the start {where['load_at_start']:g}")
    versions = {"Python": where.get("python"), **where["versions"]}
    software = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    sentences = ["; ".join(filter(None, parts)), software, "; ".join(where.get("pools", ()))]
    made = f"{run['mode'].capitalize()} run" + (f" of {run['date']}" if run["date"] else "")
    return " ".join(f"{sentence}." for sentence in (*sentences, made) if sentence)
