"""Times of kernels that tune themselves: the default call, and landmarks beside the bare algebra.

    python -m benchmarks.kernel_times           # on the host, in three minutes; stores the results
    python -m benchmarks.kernel_times --cuda    # 1 000 000 x 20, 4096 landmarks, on a GPU

Every case is a line of JSON. A test compares the table of docs/kernels.md with
benchmarks/results/kernel_times.json. The bare algebra is 2·2nm² operations, as two products of
n x m numbers with m x m matrices, and one eigendecomposition of size m, timed in the same run. On
the host, times are those of one thread on a processor, which other work on the machine hardly
changes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import stoptime as st
from benchmarks.harness import environment, save

PENALTIES = np.geomspace(1e-4, 1e2, 13)


def problem(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth function of a few columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)


def seconds(work: Callable[[], Any], wait: Callable[[], Any] | None = None) -> tuple[float, Any]:
    """Return the time of a call, on a device with its ``wait`` or on the host, and its result."""
    if wait is None:
        with threadpool_limits(1):
            begin = time.process_time()
            result = work()
            return time.process_time() - begin, result
    wait()
    begin = time.perf_counter()
    result = work()
    wait()
    return time.perf_counter() - begin, result


def default_call(n: int) -> dict[str, Any]:
    """Time kernel, width, method and stop together."""
    X, y = problem(n, 20)
    model = st.StoppedKernelRegressorCV()  # imports what it needs, once
    spent, _ = seconds(lambda: model.fit(X, y))
    factored, _ = seconds(lambda: np.linalg.eigh(model._searched.data.rows.X.matrix()))
    tried = sum(one.n_rows == n for one in model.candidates_)
    return {
        "case": f"default call, {n} rows",
        "seconds": spent,
        "one eigendecomposition": factored,
        "kernels tried on all rows": tried,
        "chosen": model.kernel_,
        "left-out error": model.choice_.error,
    }


def bare(xp: Any, block: Any, count: int, wait: Callable[[], Any] | None = None) -> float:
    """Return the time of two products of so many blocks, and of one eigendecomposition."""

    def work() -> None:
        gram = block.T @ block
        _, vectors = xp.linalg.eigh(gram)
        for _ in range(2 * count):
            block @ vectors

    return seconds(work, wait)[0]


def on_the_host(n: int = 100_000, m: int = 2000) -> dict[str, Any]:
    """Compare a fit by landmarks with the bare algebra, on arrays of NumPy."""
    X, y = problem(n, 20)
    block = np.random.default_rng(1).standard_normal((2048, m))
    count = -(-n // 2048)
    algebra = bare(np, block, count)
    fit = st.StoppedKernelRegressorCV(kernel="rbf", gamma=0.05, n_landmarks=m)
    spent, model = seconds(lambda: fit.fit(X, y))
    return {
        "case": f"{n} rows, {m} landmarks, host",
        "seconds": spent,
        "bare algebra": algebra,
        "ratio": spent / algebra,
        "left-out error": model.choice_.error,
    }


def on_a_gpu(n: int, m: int) -> list[dict[str, Any]]:
    """Compare a fit by landmarks with the bare algebra and with RidgeCV on the same features."""
    import torch  # noqa: PLC0415 - an extra

    device = torch.device("cuda")
    wait = torch.cuda.synchronize
    X, y = (torch.from_numpy(one).to(device) for one in problem(n, 20))
    options = {"kernel": "rbf", "gamma": 0.05, "n_landmarks": m}
    # the first fit compiles kernels and fills the allocator
    st.StoppedKernelRegressorCV(**(options | {"n_landmarks": 256})).fit(X[:20_000], y[:20_000])
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    spent, model = seconds(lambda: st.StoppedKernelRegressorCV(**options).fit(X, y), wait)
    memory = torch.cuda.max_memory_allocated() / 1e9
    block = torch.randn(16_384, m, dtype=torch.float64, device=device)
    count = -(-n // 16_384)
    algebra = bare(torch, block, count, wait)
    found = [
        {
            "case": f"{n} rows, {m} landmarks, {torch.cuda.get_device_name()}",
            "seconds": spent,
            "gigabytes": memory,
            "bare algebra": algebra,
            "ratio": spent / algebra,
            "left-out error": model.choice_.error,
        }
    ]
    tuned, chosen = seconds(lambda: st.StoppedKernelRegressorCV(n_landmarks=m).fit(X, y), wait)
    found.append(
        {
            "case": "the same, kernel and width chosen",
            "seconds": tuned,
            "chosen": chosen.kernel_,
            "left-out error": chosen.choice_.error,
        }
    )
    new, truth = problem(n + 20_000, 20)
    new = torch.from_numpy(new[n:]).to(device)
    for one, entry in zip((model, chosen), found, strict=True):
        difference = one.predict(new).cpu().numpy() - truth[n:]
        entry["error at new rows"] = float(np.mean(difference**2))
    found.append(ridge_on_features(model, X, y, wait))
    return found


def ridge_on_features(model: Any, X: Any, y: Any, wait: Callable[[], Any]) -> dict[str, Any]:
    """Time RidgeCV of scikit-learn on the same features by the array API, 13 penalties."""
    import torch  # noqa: PLC0415 - an extra
    from sklearn import config_context  # noqa: PLC0415
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415

    # as many rows as fit twice into 40 gigabytes, and the time for all rows in proportion
    rows = min(len(X), int(20e9 / 8 / model.n_landmarks_))
    features = torch.cat([model._matrix(part) for part in X[:rows].split(16_384)])
    with config_context(array_api_dispatch=True):
        ridge = RidgeCV(PENALTIES * rows)
        spent, _ = seconds(lambda: ridge.fit(features, y[:rows]), wait)
    return {
        "case": f"RidgeCV, 13 penalties, {rows} rows",
        "seconds": spent,
        "seconds for all rows, in proportion": spent * len(X) / rows,
    }


def main() -> None:
    """Run the cases of the host, and store them, or those of a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    if options.cuda:
        for one in on_a_gpu(1_000_000, 4096):
            print(json.dumps(one), flush=True)
        return
    found = []
    for case in (lambda: default_call(1000), lambda: default_call(3000), on_the_host):
        found.append(case())
        print(json.dumps(found[-1]), flush=True)
    save({"environment": environment(1), "cases": found}, "kernel_times.json")


if __name__ == "__main__":
    main()
