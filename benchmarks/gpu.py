"""Speed of a fit on a GPU, relative to the bare products and eigh on the same device.

    python -m benchmarks.gpu [--shape n p] [--out benchmarks/results/gpu.json]

This needs torch with CUDA. All computations are in float64, with 100 stops, with and without exact
leave-one-out. ``python -m benchmarks.page`` adds the result to the page once it is in
benchmarks/results.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import stoptime as st
from benchmarks.data import label
from benchmarks.harness import Case, Settings, Work, interleaved, ratio
from benchmarks.machine import versions
from benchmarks.results import Measure, Outcome, Run, save, seconds

GROUP = "gpu"
PEER = "bare X.T @ X, eigh and X @ V"
SHAPE = (200_000, 4096)
N_STOPS = 100
ROUNDS = 4
GOALS = {
    "choosing by leave-one-out": 2.0,
    "choosing, grid refined": None,
    "path": 1.3,
    "choosing by path GCV": None,
}
WHY = "Probably the leave-one-out errors of all rows at all stops, which the peer does not compute."


def waited_for() -> float:
    """Return the time after the device has finished all its work."""
    import torch  # noqa: PLC0415 - an optional peer

    torch.cuda.synchronize()
    return time.perf_counter()


def data(n: int, p: int) -> tuple[Any, Any]:
    """Return data on the device, from a fixed seed."""
    import torch  # noqa: PLC0415

    generator = torch.Generator("cuda").manual_seed(0)
    options = {"dtype": torch.float64, "device": "cuda", "generator": generator}
    X = torch.randn(n, p, **options) + 1
    return X, X @ torch.randn(p, **options) / p**0.5 + torch.randn(n, **options)


def works(X: Any, y: Any) -> dict[str, Work]:
    """Return the timed work, each compared with the bare algebra."""
    import torch  # noqa: PLC0415

    stops = np.geomspace(0.1, 30, N_STOPS) / np.sqrt(st.decompose(X, y).eigenvalues[-1])

    by_path_gcv = st.StoppedRegressorCV(stops=stops, rule="path-gcv")

    def bare() -> None:
        X @ torch.linalg.eigh(X.T @ X)[1]

    jobs = {
        "choosing by leave-one-out": lambda: st.StoppedRegressorCV(stops=stops).fit(X, y),
        "choosing, grid refined": lambda: st.StoppedRegressorCV(stops=N_STOPS).fit(X, y),
        "path": lambda: st.path(X, y, "nesterov-flow", stops),
        "choosing by path GCV": lambda: by_path_gcv.fit(X, y),
    }
    return {name: Work(job, bare) for name, job in jobs.items()}


def measured(name: str, work: Work, X: Any) -> Outcome:
    """Time one case, and record the peak memory of the device."""
    import torch  # noqa: PLC0415

    problem = f"{name}, {label(*X.shape)}"
    case = Case(
        GROUP, problem, PEER, lambda: work, WHY, goal=GOALS[name], sense="at most", rounds=ROUNDS
    )
    torch.cuda.reset_peak_memory_stats()
    work.ours()
    held = Measure("times X at the peak, X included", torch.cuda.max_memory_allocated() / X.nbytes)
    settings = Settings(threads=0, clock=waited_for)
    times, _ = interleaved({"ours": work.ours, "theirs": work.peer}, ROUNDS, settings)
    first = ratio(times["ours"], times["theirs"], case, work.share)
    return Outcome(GROUP, problem, PEER, **times, measures=(first, held), why=WHY)


def environment() -> dict[str, Any]:
    """Return the device and the versions."""
    import torch  # noqa: PLC0415

    return {
        "processor": torch.cuda.get_device_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(),
    }


def main() -> None:
    """Print every ratio, and write them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--shape", type=int, nargs=2, default=SHAPE, metavar=("N", "P"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gpu.json")
    given = parser.parse_args()
    X, y = data(*given.shape)
    run = Run("full", dt.date.today().isoformat(), environment())
    for name, work in works(X, y).items():
        outcome = measured(name, work, X)
        times = f"{seconds(min(outcome.ours))} against {seconds(min(outcome.theirs))}"
        print(
            f"{outcome.name}: {', '.join(map(str, outcome.measures))} ({times}): {outcome.verdict}",
            flush=True,
        )
        run = replace(run, outcomes=(*run.outcomes, outcome))
        save(run, given.out)
    print(f"wrote {given.out.name}")


if __name__ == "__main__":
    main()
