"""Dask: one pass on any scheduler, folds, lazy predictions, named blocks, and a cluster."""

import signal
from contextlib import contextmanager

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit
from threadpoolctl import threadpool_limits

import stoptime as st
from helpers import same_fit

COLUMNS = list("abcdef")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 6)) @ rng.standard_normal((6, 6)) + 2
    return X, X @ np.arange(6.0) + 10 * rng.standard_normal(1000)


@pytest.fixture(scope="module")
def frame(table):
    X, y = table
    return dd.from_pandas(pd.DataFrame(X, columns=COLUMNS).assign(y=y), npartitions=7)


def test_dataframes_of_unknown_length(table, frame):
    X, y = table
    features = frame[COLUMNS]
    model = st.StoppedRegressorCV(cv=3).fit(features, frame["y"])
    lengths = frame.map_partitions(len).compute().to_numpy()
    dealt = PredefinedSplit(np.repeat(np.arange(7) % 3, lengths))
    same_fit(model, st.StoppedRegressorCV(cv=dealt).fit(X, y))
    assert list(model.feature_names_in_) == COLUMNS
    np.testing.assert_allclose(model.predict(features).compute(), model.predict(features.compute()))
    np.testing.assert_allclose(
        st.StoppedRegressor().fit(features, frame["y"]).coef_,
        st.StoppedRegressor().fit(X, y).coef_,
        rtol=1e-8,
    )
    many = st.StoppedRegressor(stop=3.0).fit(features, frame[["y", "a"]])
    assert many.coef_.shape == (2, 6)
    with pytest.raises(ValueError, match="in this order"):
        model.predict(frame[COLUMNS[::-1]])
    with pytest.raises(ValueError, match="cv=8 needs at least as many blocks"):
        st.StoppedRegressorCV(cv=8).fit(features, frame["y"])
    with pytest.raises(ValueError, match="same blocks where their lengths are unknown"):
        st.decompose(features, y)


def test_empty_partitions_and_rows_without_weight(table, frame):
    X, y = table
    some = frame[frame["a"] > 2]
    keep = X[:, 0] > 2
    thinned = st.decompose(some[COLUMNS], some["y"])
    np.testing.assert_allclose(
        thinned.eigenvalues, st.decompose(X[keep], y[keep]).eigenvalues, rtol=1e-10
    )
    first = frame[frame["a"] == X[0, 0]]  # six of the seven partitions are empty
    assert st.summarise(first[COLUMNS], first["y"]).n_rows == 1


def poisoned(block, block_info=None):
    block = block.copy()
    if block_info[0]["chunk-location"][0] == 234:
        block[0, 3] = np.nan
    return block


def test_one_bad_block_of_thousands_is_named():
    X = da.ones((900, 4), chunks=(3, 4)).map_blocks(poisoned, dtype=float)
    y = da.ones(900, chunks=3)
    with pytest.raises(
        ValueError, match=r"Block 234 \(rows 702 to 704\): X contains NaN, first in row 0, column 3"
    ):
        st.decompose(X, y)
    response = np.ones(60)
    response[40] = np.inf
    with pytest.raises(
        ValueError, match=r"Block 13 \(rows 39 to 41\): y contains infinity, first in row 1"
    ):
        st.decompose(da.ones((60, 4), chunks=(3, 4)), response)


def test_columns_that_hold_no_numbers_are_named():
    with pytest.raises(TypeError, match="X must hold plain numbers; got dtype object"):
        st.decompose(da.ones((60, 4), chunks=(6, 4)).astype(object), da.ones(60, chunks=6))
    cities = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "city": ["x", "y"]}), npartitions=1)
    with pytest.raises(TypeError, match="Column 'city' of X must hold plain numbers"):
        st.decompose(cities, cities["a"])


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        (da.ones((60, 4)), None, None, "y must be given"),
        (da.ones(60), da.ones(60), None, "X must be of shape"),
        (da.ones((60, 4)), np.ones(50), None, "same rows; got 60 and 50"),
        (da.ones((60, 4)), da.ones(60), da.ones((60, 1)), "sample_weight must be of shape"),
        (da.ones((6, 30_000)), da.ones(6), None, "30000 features take 7 GB"),
    ],
)
def test_bad_calls(X, y, weights, message):
    with pytest.raises(ValueError, match=message):
        st.decompose(X, y, weights)


def test_unknown_lengths_must_come_in_the_same_blocks(frame):
    with pytest.raises(
        ValueError, match="same blocks where their lengths are unknown; got 7 and 3"
    ):
        st.decompose(frame[COLUMNS], frame["y"].repartition(npartitions=3))
    wide = da.concatenate(
        [frame[COLUMNS].to_dask_array()] * 2, axis=1, allow_unknown_chunksizes=True
    )
    assert st.decompose(wide, frame["y"]).n_features == 12
    with pytest.raises(ValueError, match='rule="path-gcv"'):
        st.StoppedRegressorCV().fit(frame[COLUMNS], frame["y"])


@pytest.mark.parametrize("order", ["C", "F"])
def test_where_bytes_lie_changes_no_bit(order):
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((1000, 20)), rng.standard_normal(1000)
    odd = np.ndarray(X.shape, X.dtype, np.empty(X.nbytes + 8, np.uint8), offset=4, order=order)
    odd[:] = X  # as an array lies in a message from another worker
    assert not odd.flags.aligned
    found, known = st.Statistics.of(odd, y), st.Statistics.of(np.array(X, order=order), y)
    for name in ("offset", "gram", "cross", "target_power"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))


@contextmanager
def within(seconds):
    """Raise a TimeoutError in this block, and every ten seconds again while it ends."""

    def late(*_):
        raise TimeoutError(f"The cluster has not answered within {seconds} seconds.")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs alarms, to end in time")
@pytest.mark.filterwarnings("ignore::UserWarning:distributed", "ignore::ResourceWarning")
def test_a_cluster_changes_no_bit():
    rng = da.random.default_rng(5)
    X = rng.standard_normal((20_000, 6), chunks=(1000, 6))
    y = rng.standard_normal(20_000, chunks=1000)
    model = st.StoppedRegressorCV("nesterov-flow", cv=4, stops=[0.5, 5.0])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with within(120), LocalCluster(**options, silence_logs=50) as workers, Client(workers):
        there = clone(model).fit(X, y)
    with threadpool_limits(1), dask.config.set(scheduler="threads"):  # of the BLAS, as on workers
        model.fit(X, y)
    np.testing.assert_array_equal(there.coef_, model.coef_)
    np.testing.assert_array_equal(there.errors_, model.errors_)
    assert there.intercept_ == model.intercept_
