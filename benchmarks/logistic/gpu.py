"""Stopped logistic regression on a GPU, relative to the bare products of its steps.

    python -m benchmarks.logistic.gpu                        # 1 000 000 rows, writes the results
    python -m benchmarks.logistic.gpu --rows 50000 --device cpu --columns 128   # to try it

A step of five folds and of the fit to all rows needs X times the coefficients of all runs and its
transpose times their residuals. The peer computes these two products as often as the fit does, and
nothing else. The step is so small that the error still falls after all 200 steps.
"""

from __future__ import annotations

import argparse
import time
import warnings
from datetime import UTC, datetime
from typing import Any

import stoptime as st
from benchmarks.harness import rounded, save, versions

GOAL = 1.3


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Time the fit and the bare products in turns."""
    import torch  # noqa: PLC0415 - an optional peer

    n, p, q, device = given.rows, given.columns, given.classes, given.device
    options = {"device": device, "generator": torch.Generator(device).manual_seed(0)}
    y = torch.randint(0, q, (n,), **options)
    scale = torch.arange(1, p + 1, device=device) ** -0.5
    X = torch.randn(n, p, **options) * scale**0.5
    X += 0.3 * (torch.randn(q, p, **options) * scale)[y]
    coef = torch.full((p, (given.folds + 1) * q), 1e-3, device=device)
    model = st.StoppedLogisticRegressionCV(
        st.Nesterov(step=1e-3), cv=given.folds, max_iter=given.steps
    )

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", st.StopWarning)
            model.fit(X, y)

    def products() -> None:
        # one more pass over the rows than steps says how good the last step is
        for _ in range(model.n_iter_ + 1):
            X.T @ (X @ coef)

    times: dict[str, list[float]] = {"fit": [], "products": []}
    # the first of four rounds warms up
    for _ in range(4):
        for name, work in (("fit", fit), ("products", products)):
            begin = time.perf_counter()
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - begin)
    times = {name: spent[1:] for name, spent in times.items()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "versions": versions(),
        "shape": [n, p],
        "classes": q,
        "folds": given.folds,
        "steps": model.n_iter_,
        "times": times,
        "ratio": min(times["fit"]) / min(times["products"]),
        "goal": GOAL,
        "held_out_log_loss": -model.best_score_,
    }


def main() -> None:
    """Print the ratio, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    sizes = {"rows": 1_000_000, "columns": 1024, "classes": 100, "folds": 5, "steps": 200}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    found = rounded(measured(given))
    print(f"ratio {found['ratio']} (goal at most {GOAL}), {found['steps']} steps")
    if given.device == "cuda":
        save(found, "logistic_gpu.json")


if __name__ == "__main__":
    main()
