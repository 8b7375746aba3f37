"""Stopped logistic regression on a GPU, relative to the bare products of its steps.

    python -m benchmarks.logistic.gpu                        # 1 000 000 rows, writes the results
    python -m benchmarks.logistic.gpu --rows 50000 --device cpu --columns 128   # to try it

A step of five folds and of the fit to all rows needs X times the coefficients of all runs and its
transpose times their residuals. The peer computes these two products as often as the fit does, and
nothing else. The step is so small that the error still falls after all 200 steps.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import stoptime as st
from benchmarks.machine import versions
from benchmarks.results import rounded
from stoptime.support.files import atomic

RESULTS = Path(__file__).parents[1] / "results" / "logistic_gpu.json"
GOAL = 1.3
ROUNDS = 3


def data(n: int, p: int, q: int, device: str) -> tuple[Any, Any]:
    """Return rows around the means of their classes, in single precision."""
    import torch  # noqa: PLC0415 - an optional peer

    generator = torch.Generator(device).manual_seed(0)
    options = {"device": device, "generator": generator}
    labels = torch.randint(0, q, (n,), **options)
    scale = torch.arange(1, p + 1, device=device) ** -0.5
    means = torch.randn(q, p, **options) * scale
    return torch.randn(n, p, **options) * scale**0.5 + 0.3 * means[labels], labels


def waited_for(device: str) -> float:
    """Return the time after the device has finished all its work."""
    import torch  # noqa: PLC0415

    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def bare(X: Any, q: int, folds: int, steps: int) -> None:
    """Compute the two products of every step."""
    import torch  # noqa: PLC0415

    coef = torch.full((X.shape[1], (folds + 1) * q), 1e-3, device=X.device)
    for _ in range(steps):
        residuals = X @ coef
        X.T @ residuals


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Time the fit and the bare products in turns."""
    import torch  # noqa: PLC0415

    X, y = data(given.rows, given.columns, given.classes, given.device)
    method = st.Nesterov(step=1e-3)
    model = st.StoppedLogisticRegressionCV(method, cv=given.folds, max_iter=given.steps)
    times: dict[str, list[float]] = {"fit": [], "products": []}
    # the first round warms up
    for number in range(ROUNDS + 1):
        begin = waited_for(given.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", st.StopWarning)
            model.fit(X, y)
        middle = waited_for(given.device)
        # one more pass over the rows than steps says how good the last step is
        bare(X, given.classes, given.folds, model.n_iter_ + 1)
        end = waited_for(given.device)
        if number:
            times["fit"].append(middle - begin)
            times["products"].append(end - middle)
        print(f"{middle - begin:.2f} s, products {end - middle:.2f} s", flush=True)
    cuda = given.device == "cuda"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if cuda else platform.machine(),
        "versions": versions(),
        "shape": [given.rows, given.columns],
        "classes": given.classes,
        "folds": given.folds,
        "steps": model.n_iter_,
        "times": times,
        "ratio": min(times["fit"]) / min(times["products"]),
        "goal": GOAL,
        "memory_over_X": torch.cuda.max_memory_allocated() / X.nbytes if cuda else None,
        "held_out_log_loss": -model.best_score_,
    }


def main() -> None:
    """Print the ratio, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    found = rounded(measured(given))
    print(f"ratio {found['ratio']} (goal at most {GOAL}), {found['steps']} steps")
    if given.device == "cuda":
        with atomic(RESULTS) as path:
            path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
