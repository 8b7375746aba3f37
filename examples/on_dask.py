"""
Cross-validation on Dask
========================

One pass over blocks that no machine holds together.
"""

# %%
# Starts a cluster of two workers; with a ``distributed.Client`` of your own, leave that out. Every block
# becomes 31 × 31 products where it is, and only those travel.

import sys

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import stoptime as st

N_FEATURES = 30


def main() -> None:
    """Fit random data made by the workers, and predict lazily."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        rng = da.random.default_rng(0)
        X = rng.standard_normal((n, N_FEATURES), chunks=(20_000, N_FEATURES)) * np.geomspace(
            1, 0.03, N_FEATURES
        )
        y = X @ np.sin(np.arange(N_FEATURES)) + 3 * rng.standard_normal(n, chunks=20_000)
        model = st.StoppedRegressorCV(["ridge", "nesterov-flow"], cv=5).fit(X, y)
        choice = model.choice_
        print(
            f"{model.method_} stops at {model.stop_:.3g}: {choice.error:.4f} ± {choice.standard_error:.4f}"
        )
        fit = model.predict(X)
        print(f"predictions are lazy: {fit}")
        print(
            f"mean squared residual, by the workers: {float(((y - fit) ** 2).mean().compute()):.4f}"
        )
        seen = st.summarise(X, y)
        print(f"to keep and to update: {seen}")


if __name__ == "__main__":
    main()
