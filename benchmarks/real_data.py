"""The default fit against RidgeCV on real data: ``python -m benchmarks.real_data [--quick]``.

Every cell is printed as it is measured: the two are timed in turn, and their answers are compared.
A full run writes benchmarks/results/real_data.json and docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

import stoptime as st
from benchmarks import harness
from benchmarks.harness import Case, Measures, Work, best, measure
from benchmarks.problems import CUBIC, QUADRATIC, SCALED

PAGE = "benchmarks.md"
FILE = "real_data.json"
PEER = "RidgeCV"
COLUMNS: dict[str, tuple[Any, ...]] = {
    "raw": (),
    "standardised": SCALED,
    "quadratic": QUADRATIC,
    "cubic": CUBIC,
    "splines": (*SCALED, SplineTransformer(), StandardScaler()),
}
SHAPES = (
    (2000, 200), (100, 10), (500, 50), (2000, 20), (5000, 100), (20000, 500), (200000, 10),
    (500, 2000), (500, 5000), (800, 6000),
)  # fmt: skip
NEW_ROWS = 1000  # generated rows that are only predicted


Rows = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]


def work(make: Callable[[], Rows]) -> Work:
    """Compare the fit with RidgeCV; a quarter is held out of another fit if no rows are new."""
    X, y, new = make()
    ours = st.StoppedRegressorCV()
    peer = RidgeCV(np.geomspace(1e-8, 1e4, 100))

    def score(model: Any) -> float:
        if new is not None:
            return float(model.score(*new))
        kept, held, y_kept, y_held = train_test_split(X, y, test_size=0.25, random_state=0)
        return float(clone(model).fit(kept, y_kept).score(held, y_held))

    def measures(*_: object) -> Measures:
        error = float(np.mean(ours.choice_.error) / -peer.best_score_)
        sizes = zip(("rows", "columns", "targets"), [*X.shape, *y.shape[1:]], strict=False)
        return (
            measure("left-out error / RidgeCV", error),
            measure("R²", score(ours)),
            measure("R² of RidgeCV", score(peer)),
            *(measure(name, size) for name, size in sizes),
        )

    return Work(partial(ours.fit, X, y), partial(peer.fit, X, y), measures=measures)


def bundled(name: str, columns: str) -> Rows:
    """Return a data set of scikit-learn with its columns as they are, or expanded."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = make_pipeline(*COLUMNS[columns], "passthrough").fit_transform(X)
    return np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=float), None


def generated(n: int, p: int, decay: float = 0, targets: int | None = None) -> Rows:
    """Return Gaussian rows whose covariance has the eigenvalues i^-decay."""
    rng = np.random.default_rng(0)
    # means away from zero have to be removed, as in real data
    X = (rng.standard_normal((n + NEW_ROWS, p)) + 1) * np.arange(1, p + 1.0) ** (-decay / 2)
    return with_response(X, rng, targets)


def copied(distance: float) -> Rows:
    """Return 1000 x 200 columns of which half are copies, up to a relative distance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000 + NEW_ROWS, 100)) + 1
    copy = X + distance * rng.standard_normal(X.shape) if distance else X
    return with_response(np.hstack([X, copy]), rng)


def with_response(X: np.ndarray, rng: np.random.Generator, targets: int | None = None) -> Rows:
    """Return rows with a linear signal and half as much noise; the last rows are new."""
    p = X.shape[1]
    signal = X @ rng.standard_normal(p if targets is None else (p, targets))
    y = signal + 0.5 * signal.std(axis=0) * rng.standard_normal(signal.shape)
    return X[:-NEW_ROWS].copy(), y[:-NEW_ROWS], (X[-NEW_ROWS:].copy(), y[-NEW_ROWS:])


def problems() -> Iterator[tuple[str, str, Callable[[], Rows]]]:
    """Yield the group, the name and the rows of all cells."""
    for name in ("diabetes", "wine", "breast_cancer", "digits", "iris", "linnerud"):
        for columns in COLUMNS:
            if (name, columns) != ("digits", "cubic"):  # 47 904 columns
                shown = name.replace("_", " ")
                yield "data", f"{shown}, {columns}", partial(bundled, name, columns)
    for shape in SHAPES:
        for decay in range(7) if shape == SHAPES[0] else (0, 2, 4):
            name = f"{harness.label(*shape)}, a = {decay}"
            yield "shapes", name, partial(generated, *shape, decay)
    for n in (200, 500, 1000):
        yield "other", f"Gaussian, {harness.label(n, n)}", partial(generated, n, n)
    for name, distance in (("equal copies", 0.0), ("near copies", 1e-6)):
        yield "other", f"Gaussian, {name}", partial(copied, distance)
    for shape in ((2000, 20), (2000, 200)):
        for count in (None, 10, 100, 1000):
            said = f"{count} targets" if count else "1 target"
            make = partial(generated, *shape, 2, count)
            yield "targets", f"{harness.label(*shape)}, {said}", make


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for group, name, make in problems():
        quick = "diabetes" in name or name.endswith("a = 2")
        yield Case(group, name, PEER, partial(work, make), "", None, rounds=15, quick=quick)


def speed(outcome: dict[str, Any]) -> float:
    """Return how many times as fast as RidgeCV the fit is; NaN if it failed."""
    return best(outcome)[1] / best(outcome)[0] if outcome["ours"] else float("nan")


def in_short(outcomes: list[dict[str, Any]]) -> str:
    """Return what a reader wants to know."""
    ordered = sorted((one for one in outcomes if one["measures"]), key=speed)
    speeds = np.array([speed(one) for one in ordered])
    errors = max(one["measures"][1]["value"] for one in ordered)
    return (
        "The default fit compares three methods by exact leave-one-out at every stop, and "
        f"`{PEER}` compares 100 penalties of ridge. The default fit is at least as fast on "
        f"{np.mean(speeds >= 1):.0%} of {len(speeds)} problems, {np.median(speeds):.1f} times as "
        f'fast in the median, {speeds[-1]:.0f} times on "{ordered[-1]["name"]}" and '
        f'{speeds[0]:.2f} times on "{ordered[0]["name"]}". Its left-out error is at most '
        f"{errors:.3f} times that of `{PEER}`."
    )


def row(outcome: dict[str, Any]) -> list[str]:
    """Return the cells of the table for one problem."""
    if outcome.get("error"):
        return [outcome["name"], "", f"**failed**: {outcome['error']}", *[""] * 5]
    error, *scores, n, p = (one["value"] for one in outcome["measures"][1:6])
    size = harness.label(n, p)
    size += "".join(f" × {one['value']} targets" for one in outcome["measures"][6:])
    times = map(harness.seconds, best(outcome))
    ratio = harness.short(speed(outcome))
    shown = ratio if speed(outcome) >= 1 else f"**{ratio}**, loses"
    return [outcome["name"], size, *times, shown, f"{error:.4f}", *(f"{r2:.3f}" for r2 in scores)]


def parts() -> dict[str, str]:
    """Return what the page shows: all cases, the slowest relative to RidgeCV first."""
    run = harness.load(FILE)
    head = ["problem", "size", "stoptime", PEER, "times as fast"]
    head += ["left-out error / RidgeCV", "R²", "R² of RidgeCV"]
    # failures come first of all, because NaN would be sorted to the end
    ordered = sorted(run["outcomes"], key=lambda one: (bool(one["measures"]), speed(one)))
    return {
        "in-short": in_short(run["outcomes"]),
        "machine-real-data": harness.machine_line(run),
        "real-data": harness.table(head, map(row, ordered)),
    }


if __name__ == "__main__":
    run = harness.run_cases(cases, FILE)
    harness.command(__doc__, FILE, run, {PAGE: parts}, **harness.OF_CASES)
