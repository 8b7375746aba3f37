"""
Cross-validation on Dask
========================

Cross-validation in one pass over data that do not fit into the memory of one machine.
"""

# %%
# The example starts a cluster of two workers; if you have your own ``distributed.Client``, leave
# that out. Each worker reduces its blocks to 31 × 31 products, and only these are sent over the
# network.

import sys

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import stoptime as st

N_FEATURES = 30


def main() -> None:
    """Fit random data generated on the workers, and predict lazily."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        rng = da.random.default_rng(0)
        X = rng.standard_normal((n, N_FEATURES), chunks=(20_000, N_FEATURES))
        X = X * np.geomspace(1, 0.03, N_FEATURES)
        y = X @ np.sin(np.arange(N_FEATURES)) + 3 * rng.standard_normal(n, chunks=20_000)
        model = st.StoppedRegressorCV(["ridge", "accelerated-flow"], cv=5).fit(X, y)
        error, deviation = model.choice_.error, model.choice_.standard_error
        print(f"{model.method_} stops at {model.stop_:.0f}: {error:.4f} ± {deviation:.4f}")
        fit = model.predict(X)
        print(f"predictions are lazy: {fit.npartitions} blocks of {fit.chunksize[0]} rows")
        residual = float(((y - fit) ** 2).mean().compute())
        print(f"mean squared residual, computed by the workers: {residual:.4f}")
        seen = st.summarise(X, y)
        print(f"statistics to save and update: {seen}")
    model.plot().set_title(f"{n} rows on two workers, in one pass")
    plt.show()


if __name__ == "__main__":
    main()
