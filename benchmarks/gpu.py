"""Speed of a fit on a GPU, relative to the bare products and eigh on the same device.

    python -m benchmarks.gpu [--shape n p] [--out gpu.json]

This needs torch with CUDA. The first cases are in float64, with 100 stops, with and without
exact leave-one-out; the others are default fits of float32 data. ``python -m benchmarks.page`` adds
the result to the page once it is in benchmarks/results.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import stoptime as st
from benchmarks.harness import (
    Settings,
    Work,
    interleaved,
    label,
    measure,
    save,
    seconds,
    versions,
)  # fmt: skip
from benchmarks.page import in_words

GROUP = "gpu"
PEER = "bare X.T @ X, eigh and X @ V"
SHAPE = (200_000, 4096)
N_STOPS = 100
N_CLASSES = 100
ROUNDS = 4
GOALS = {
    "choosing by leave-one-out": 2.0,
    "path": 1.3,
    "default fit, eigenvalues i⁻²": 1.3,
    "default fit": 1.1,
    "default fit, tall": 3.0,
    "default fit, large": 1.25,
    f"default classifier, {N_CLASSES} classes": 2.5,
}
WHY = "Probably the leave-one-out errors of all rows at all stops, which the peer does not compute."


def waited_for() -> float:
    """Return the time after the device has finished all its work."""
    import torch  # noqa: PLC0415 - an optional peer

    torch.cuda.synchronize()
    return time.perf_counter()


def data(n: int, p: int, decay: float = 0.0, precision: str = "float64") -> tuple[Any, Any]:
    """Return data on the device, with eigenvalues i^-decay and as much noise as signal."""
    import torch  # noqa: PLC0415

    generator = torch.Generator("cuda").manual_seed(0)
    options = {"dtype": getattr(torch, precision), "device": "cuda", "generator": generator}
    sizes = torch.arange(1, p + 1, device="cuda") ** (-decay / 2)
    X = torch.randn(n, p, **options) * sizes + 1
    signal = X @ torch.randn(p, **options)
    return X, signal + signal.std() * torch.randn(n, **options)


def classes(n: int, p: int) -> tuple[Any, Any]:
    """Return labels, and rows around the centre of each class."""
    import torch  # noqa: PLC0415

    generator = torch.Generator("cuda").manual_seed(0)
    options = {"device": "cuda", "generator": generator}
    labels = torch.randint(0, N_CLASSES, (n,), **options)
    centres = torch.randn(N_CLASSES, p, **options) * torch.arange(1, p + 1, device="cuda") ** -0.5
    return torch.randn(n, p, **options) + 0.3 * centres[labels], labels


def bare(X: Any) -> None:
    """Compute what every solver by products has to compute, in double precision."""
    import torch  # noqa: PLC0415

    rows = X.double()
    rows @ torch.linalg.eigh(rows.T @ rows)[1]


def of_given_stops(X: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """Return the work on a grid of stops."""
    stops = np.geomspace(0.1, 30, N_STOPS) / np.sqrt(st.decompose(X, y).eigenvalues[-1])
    by_path_gcv = st.StoppedRegressorCV("accelerated-flow", stops=stops, rule="path-gcv")
    return {
        "choosing by leave-one-out": lambda: st.StoppedRegressorCV(
            "accelerated-flow", stops=stops
        ).fit(X, y),
        "choosing, grid refined": lambda: st.StoppedRegressorCV(stops=N_STOPS).fit(X, y),
        "path": lambda: st.path(X, y, "accelerated-flow", stops),
        "choosing by path GCV": lambda: by_path_gcv.fit(X, y),
    }


def cases(shape: tuple[int, int]) -> Iterator[tuple[str, Work, Any]]:
    """Yield the name of a case, its work and its X; data are made when they are needed."""
    X, y = data(*shape)
    for name, job in of_given_stops(X, y).items():
        yield name, Work(job, partial(bare, X)), X
    defaults: dict[str, tuple[Any, Callable[[], tuple[Any, Any]]]] = {
        "default fit, eigenvalues i⁻²": (
            st.StoppedRegressorCV(),
            lambda: data(100_000, 2048, 2.0, "float32"),
        ),
        "default fit": (st.StoppedRegressorCV(), lambda: data(4096, 4096, 0.0, "float32")),
        "default fit, tall": (
            st.StoppedRegressorCV(),
            lambda: data(1_000_000, 256, 0.0, "float32"),
        ),
        "default fit, large": (
            st.StoppedRegressorCV(),
            lambda: data(1_000_000, 4096, 0.0, "float32"),
        ),
        f"default classifier, {N_CLASSES} classes": (
            st.StoppedClassifierCV(),
            lambda: classes(1_000_000, 1024),
        ),
    }
    for name, (model, make) in defaults.items():
        X, y = make()
        fit = partial(model.fit, X, y)
        yield name, Work(fit, partial(bare, X)), X


def measured(name: str, work: Work, X: Any) -> dict[str, Any]:
    """Time one case, and record the peak memory of the device."""
    import torch  # noqa: PLC0415

    torch.cuda.reset_peak_memory_stats()
    work.ours()
    held = torch.cuda.max_memory_allocated() / X.nbytes
    settings = Settings(threads=0, clock=waited_for)
    times, _ = interleaved({"ours": work.ours, "theirs": work.peer}, ROUNDS, settings)
    ratio = min(times["ours"]) / min(times["theirs"])
    measures = [
        measure("times as long", ratio, GOALS.get(name), "at most"),
        measure("times X at the peak, X included", held),
    ]
    found = {"group": GROUP, "name": f"{name}, {label(*X.shape)}", "peer": PEER, "why": WHY}
    return found | {"share": 1.0, "measures": measures} | times


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("--shape", type=int, nargs=2, default=SHAPE, metavar=("N", "P"))
    parser.add_argument("--out", default="gpu.json", help="name of the file in benchmarks/results")
    given = parser.parse_args()
    run = {"mode": "full", "date": dt.date.today().isoformat(), "environment": environment()}
    outcomes = []
    for name, work, X in cases(given.shape):
        outcomes.append(measured(name, work, X))
        one = outcomes[-1]
        times = f"{seconds(min(one['ours']))} against {seconds(min(one['theirs']))}"
        print(f"{one['name']}: {', '.join(map(in_words, one['measures']))} ({times})", flush=True)
        save(run | {"outcomes": outcomes}, given.out)


if __name__ == "__main__":
    main()
