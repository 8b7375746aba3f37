"""Speed of fits on a GPU, relative to the bare algebra on the same device.

    python -m benchmarks.gpu [--only NAME]

This needs torch with CUDA. Least squares: X.T @ X, eigh and X @ V in float64. Cross-entropy: the
two products with X of every step, for five folds and all rows. Landmarks: two products of every
block with a square matrix, and one eigendecomposition. The results are shown in docs/benchmarks.md,
docs/logistic.md and docs/kernels.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import stoptime as st
from benchmarks import harness
from benchmarks.harness import Case, Measures, Work, best, label, load, measure
from benchmarks.kernel_times import bare, smooth

with suppress(ImportError):  # the page is written without torch
    import torch

PAGE = "benchmarks.md"
FILE = "gpu.json"
WHY = "Probably the leave-one-out errors of all rows at all stops, which the peer does not compute."
RUNS = {"rows": 1_000_000, "columns": 1024, "classes": 100, "folds": 5, "steps": 200}


def waited_for() -> float:
    """Return the time after the device has finished all its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def data(n: int, p: int, decay: float = 0.0, precision: str = "float32") -> tuple[Any, Any]:
    """Return data on the device, with eigenvalues i^-decay and as much noise as signal."""
    generator = torch.Generator("cuda").manual_seed(0)
    options = {"dtype": getattr(torch, precision), "device": "cuda", "generator": generator}
    sizes = torch.arange(1, p + 1, device="cuda") ** (-decay / 2)
    X = torch.randn(n, p, **options) * sizes + 1
    signal = X @ torch.randn(p, **options)
    return X, signal + signal.std() * torch.randn(n, **options)


def classes(n: int, p: int, q: int, decay: float = 0.0, device: str = "cuda") -> tuple[Any, Any]:
    """Return rows around the centre of each class, with variances i^-decay, and their labels."""
    options = {"device": device, "generator": torch.Generator(device).manual_seed(0)}
    labels = torch.randint(0, q, (n,), **options)
    place = torch.arange(1, p + 1, device=device)
    centres = torch.randn(q, p, **options) * place**-0.5
    rows = torch.randn(n, p, **options) * place ** (-decay / 2)
    return rows + 0.3 * centres[labels], labels


def algebra(X: Any) -> None:
    """Compute what every solver by products has to compute, in double precision."""
    rows = X.double()
    rows @ torch.linalg.eigh(rows.T @ rows)[1]


def least_squares(name: str, make: Callable[[], tuple[Any, Any]]) -> Work:
    """Compare a fit or a path with the bare algebra, and measure the peak memory of the device."""
    X, y = make()
    ours = work_of(name, X, y)

    def memory(*_: object) -> Measures:
        torch.cuda.reset_peak_memory_stats()
        ours()
        held = torch.cuda.max_memory_allocated() / X.nbytes
        return (measure("times X at the peak, X included", held),)

    return Work(ours, partial(algebra, X), measures=memory)


def work_of(name: str, X: Any, y: Any) -> Callable[[], Any]:
    """Return the work that has a name: the path, or a fit."""
    if name.startswith("default fit"):
        return partial(st.StoppedRegressorCV().fit, X, y)
    if name.startswith("default classifier"):
        return partial(st.StoppedClassifierCV().fit, X, y)
    if name == "choosing, grid refined":
        return partial(st.StoppedRegressorCV(stops=100).fit, X, y)
    stops = np.geomspace(0.1, 30, 100) / np.sqrt(st.decompose(X, y).eigenvalues[-1])
    if name == "path":
        return partial(st.path, X, y, "accelerated-flow", stops)
    rule = "path-gcv" if name == "choosing by path GCV" else "loo"
    return partial(st.StoppedRegressorCV("accelerated-flow", stops=stops, rule=rule).fit, X, y)


def cross_entropy(
    rows: int, columns: int, classes_: int, folds: int, steps: int, device: str = "cuda"
) -> Work:
    """Compare stopped logistic regression with the bare products of its steps.

    The step is so small that the error still falls after the last one.
    """
    X, y = classes(rows, columns, classes_, decay=0.5, device=device)
    coef = torch.full((columns, (folds + 1) * classes_), 1e-3, device=device)
    method = st.Nesterov(step=1e-3)
    model = st.StoppedLogisticRegressionCV(method, cv=folds, max_iter=steps)

    def products() -> None:
        # one more pass over the rows than steps says how good the last step is
        for _ in range(model.n_iter_ + 1):
            X.T @ (X @ coef)

    fit = partial(model.fit, X, y)
    return Work(fit, products, measures=lambda *_: (measure("steps", model.n_iter_),))


def landmarks(n: int, m: int) -> Work:
    """Compare a kernel with landmarks with the bare algebra, on 20 columns."""
    X, y = (torch.from_numpy(one).cuda() for one in smooth(n, 20))
    block = torch.randn(16_384, m, dtype=torch.float64, device="cuda")
    model = st.StoppedKernelRegressorCV(kernel="rbf", gamma=0.05, n_landmarks=m)
    peer = partial(bare, torch, block, -(-n // len(block)))
    return Work(
        lambda: model.fit(X, y),
        peer,
        measures=lambda mine, _: (measure("left-out error", float(mine.choice_.error)),),
    )


def cases() -> Iterator[Case]:
    """Yield all cases."""
    double = partial(data, precision="float64")
    labelled = partial(classes, q=100)
    for name, make, shape, goal in (
        ("choosing by leave-one-out", double, (200_000, 4096), 2.0),
        ("choosing, grid refined", double, (200_000, 4096), None),
        ("path", double, (200_000, 4096), 1.3),
        ("choosing by path GCV", double, (200_000, 4096), None),
        ("default fit, eigenvalues i⁻²", partial(data, decay=2.0), (100_000, 2048), 1.3),
        ("default fit", data, (4096, 4096), 1.1),
        ("default fit, tall", data, (1_000_000, 256), 3.0),
        ("default fit, large", data, (1_000_000, 4096), 1.25),
        ("default classifier, 100 classes", labelled, (1_000_000, 1024), 2.5),
    ):
        work = partial(least_squares, name, partial(make, *shape))
        peer = "bare X.T @ X, eigh and X @ V"
        yield Case("gpu", f"{name}, {label(*shape)}", peer, work, WHY, goal, "at most", 4)
    work = partial(cross_entropy, *RUNS.values())
    yield Case("logistic", "five folds", "bare products", work, WHY, 1.3, "at most", 4)
    work = partial(landmarks, 1_000_000, 4096)
    yield Case("kernels", "landmarks", "bare algebra", work, WHY, None, "at most", 4)


def of_group(name: str) -> list[dict[str, Any]]:
    """Return the stored results of a group."""
    return [one for one in load(FILE)["outcomes"] if one["group"] == name]


def parts() -> dict[str, str]:
    """Return what the page of the speed shows."""
    return {
        "machine-gpu": harness.machine_line(load(FILE)),
        "gpu": harness.results(of_group("gpu")),
    }


def sentence() -> str:
    """Return the sentence about cross-entropy."""
    (one,) = of_group("logistic")
    ours, theirs = best(one)
    return (
        f"On one {load('gpu.json')['environment']['processor']}, {RUNS['rows']} × "
        f"{RUNS['columns']} in single precision, {RUNS['classes']} classes, {RUNS['folds']} folds "
        f"and {RUNS['steps']} steps take {ours:.1f} s, {ours / theirs:.2f} times the bare products."
    )


if __name__ == "__main__":
    pages = {PAGE: parts, "logistic.md": lambda: {"gpu": sentence()}}
    run = harness.run_cases(cases, FILE, waited_for, lambda: str(torch.cuda.get_device_name()))
    harness.command(__doc__, FILE, run, pages, **harness.OF_CASES)
