"""Rows larger than memory: arrays on disk, tables and folds, progress and memory."""

import io
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, ShuffleSplit

import stoptime as st
from helpers import same_fit
from stoptime.spectrum import sources
from stoptime.spectrum.source import Block, Folds
from stoptime.spectrum.sources import Chunks
from stoptime.support import progress as progress_module

COLUMNS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def weights(rng):
    return rng.uniform(0.2, 2, 1000)


def frame(X, y, weights=None):
    columns = pd.DataFrame(X, columns=COLUMNS).assign(y=y)
    return columns if weights is None else columns.assign(w=weights)


SPLITTERS = [
    5,
    KFold(4, shuffle=True, random_state=1),
    PredefinedSplit([-1, 0, 1, 1] * 250),
    GroupKFold(4),
]


@pytest.mark.parametrize("cv", SPLITTERS, ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_cross_validation_takes_one_pass(table, weights, cv, fit_intercept):
    X, y = table
    Y = np.column_stack([y, -y + X[:, 0], np.random.default_rng(0).standard_normal(1000)])
    groups = np.arange(1000) // 37 if isinstance(cv, GroupKFold) else None
    options = {"stops": [0.1, 1.0, 10.0, np.inf], "cv": cv, "fit_intercept": fit_intercept}
    passes = []

    def read():
        passes.append(0)
        return Chunks.of(X, Y, weights, rows=130).read()

    model = st.StoppedRegressorCV("nesterov-flow", per_target=True, **options)
    found = clone(model).fit(Chunks(read, 5, 1000), groups=groups)
    assert passes == [0]
    known = model.fit(X, Y, weights, groups)
    same_fit(found, known)
    np.testing.assert_array_equal(found.stop_, known.stop_)


@pytest.mark.parametrize("rule", ["loo", "one-standard-error"])
def test_leave_one_out_is_refused_before_any_row_is_read(rule):
    def read():
        raise AssertionError("read")

    with pytest.raises(ValueError, match='choose the stop by cv=5, rule="path-gcv"'):
        st.StoppedRegressorCV(rule=rule).fit(Chunks(read, 3, 100))


@pytest.mark.parametrize("cv", [ShuffleSplit(3, random_state=0), [([0, 1], [2, 3])]])
def test_folds_that_need_a_second_look_are_refused(table, cv):
    with pytest.raises(ValueError, match="at most once, and train on all others"):
        st.StoppedRegressorCV(cv=cv).fit(Chunks.of(*table))


def test_folds_where_the_number_of_rows_is_unknown(table):
    X, y = table
    chunks = Chunks(Chunks.of(X, y, rows=100).read, 5)
    model = st.StoppedRegressorCV("nesterov-flow", cv=3, stops=[1.0, 9.0]).fit(chunks)
    dealt = PredefinedSplit(np.arange(1000) // 100 % 3)
    same_fit(model, st.StoppedRegressorCV("nesterov-flow", cv=dealt, stops=[1.0, 9.0]).fit(X, y))
    with pytest.raises(ValueError, match=r"cv=11 needs at least as many blocks .* got 10"):
        st.StoppedRegressorCV(cv=11).fit(chunks)
    with pytest.raises(ValueError, match="cv must be a whole number if"):
        st.StoppedRegressorCV(cv=KFold(3)).fit(chunks)
    for bad in (1, 0, 2000):
        with pytest.raises(ValueError, match=f"cv={bad} must be at least 2"):
            st.StoppedRegressorCV(cv=bad).fit(Chunks.of(X, y))
    assert "unknown rows" in repr(chunks)
    with pytest.raises(ValueError, match="it gave none"):
        Folds.of([], 10)
    with pytest.raises(ValueError, match="non-empty sets"):
        Folds.of([([], [0])], 10)


def test_chunks_and_statistics_have_no_rows(table):
    X, y = table
    for data in (Chunks.of(X, y, rows=90), st.Statistics.of(X, y)):
        with pytest.raises(TypeError, match="rows in memory"):
            st.path(data, "nesterov-flow", [1.0]).predict(data)
        with pytest.raises(ValueError, match="for streamed data"):
            st.leave_one_out(data, None, "ridge", [1.0], spectrum=st.decompose(X, y))


def test_blocks_of_a_zarr_array_are_whole_chunks(table, tmp_path):
    X, _ = table
    store = str(tmp_path / "X.zarr")
    stored = zarr.open(store, mode="w", shape=X.shape, chunks=(64, 3), dtype=X.dtype)
    stored[:] = X
    assert {len(block.X) % 64 for block in list(Chunks.of(stored))[:-1]} <= {0}
    with pytest.raises(ValueError, match="y must be given"):
        st.decompose(stored)


def test_parquet_files_and_folders(table, tmp_path, weights):
    X, y = table
    columns = frame(X, y, weights)
    for part, rows in enumerate(np.array_split(np.arange(1000), 3)):
        # an index that pandas stores beside the columns is no feature
        columns.iloc[rows].to_parquet(
            tmp_path / f"part-{part}.parquet", row_group_size=100, index=True
        )
    chunks = Chunks.parquet(tmp_path, "y", weight="w", rows=70)
    assert chunks.shape == (1000, 5)
    assert chunks.names == tuple(COLUMNS)
    model = st.StoppedRegressorCV(cv=4).fit(chunks)
    same_fit(model, st.StoppedRegressorCV(cv=4).fit(X, y, weights))
    assert list(model.feature_names_in_) == COLUMNS
    np.testing.assert_allclose(
        model.predict(Chunks.parquet(tmp_path, None, features=COLUMNS)),
        model.predict(frame(X, y)[COLUMNS]),
    )
    np.testing.assert_array_equal(np.concatenate([block.X for block in chunks]), X)
    assert max(len(block.X) for block in chunks) <= 70
    both = Chunks.parquet([tmp_path / "part-0.parquet"], ["y", "a"], features=["b", "c"])
    found = np.concatenate([block.y for block in both])
    np.testing.assert_array_equal(found, columns[["y", "a"]][:334])


def test_bad_tables_are_named(tmp_path):
    good = pd.DataFrame({"a": [1.0, 2.0], "b": [1, 2], "y": [1.0, 0.0], "city": ["x", "y"]})
    good.to_parquet(tmp_path / "1.parquet")
    with pytest.raises(TypeError, match=r"Column 'city' of 1.parquet holds .*string"):
        Chunks.parquet(tmp_path, "y")
    with pytest.raises(
        ValueError, match=r"1.parquet has no column 'z'; it has 'a', 'b', 'y', 'city'"
    ):
        Chunks.parquet(tmp_path, "z")
    with pytest.raises(ValueError, match="different columns"):
        Chunks.parquet(tmp_path, "y", features=["a", "y"])
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        Chunks.parquet(tmp_path / "none", "y")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"No file \*.parquet"):
        Chunks.parquet(tmp_path / "empty", "y")
    good.astype({"b": float}).to_parquet(tmp_path / "2.parquet")  # numbers of another type
    assert st.summarise(Chunks.parquet(tmp_path, "y", features=["a", "b"])).n_rows == 4
    holes = pa.table({"a": [1.0, None, 3.0], "y": [1.0, 2.0, 3.0]})
    pq.write_table(holes, tmp_path / "holes.parquet")
    with pytest.raises(
        ValueError, match=r"Block 0 \(rows 0 to 2\): X contains NaN, first in row 1"
    ):
        st.summarise(Chunks.parquet(tmp_path / "holes.parquet", "y"))


def test_csv_files(table, tmp_path, weights):
    X, y = table
    frame(X, y, weights).to_csv(tmp_path / "rows.csv", index=False)
    chunks = Chunks.csv(tmp_path / "rows.csv", "y", weight="w", rows=60)
    assert max(len(block.X) for block in chunks) == 60
    (tmp_path / "rows2.csv").write_text("a,y\n1,2\n")
    with pytest.raises(ValueError, match=r"rows2.csv has no column 'b'; it has 'a', 'y'"):
        Chunks.csv([tmp_path / "rows.csv", tmp_path / "rows2.csv"], "y", weight="w")
    (tmp_path / "bad.csv").write_text("a,y\n1,2\nx,3\n")
    with pytest.raises(ValueError, match=r"bad.csv"):
        st.summarise(Chunks.csv(tmp_path / "bad.csv", "y"))


@pytest.mark.parametrize("cv", [None, 3, KFold(3, shuffle=True, random_state=0)], ids=str)
def test_one_bad_block_is_named(table, cv):
    X, y = table
    X[731, 2] = np.nan
    model = st.StoppedRegressor("ridge", 1.0) if cv is None else st.StoppedRegressorCV(cv=cv)
    named = r"Block 7 \(rows 700 to 799\): X contains NaN, first in row 31, column 2"
    with pytest.raises(ValueError, match=named):
        model.fit(Chunks.of(X, y, rows=100))


def test_blocks_that_do_not_fit_are_refused(table):
    X, _ = table
    blocks = [Block(np.ones((2, 3)), np.ones(2)), Block(np.ones((2, 4)), np.ones(2))]
    with pytest.raises(ValueError, match=r"Block 1 \(rows 2 to 3\): X of shape \(2, 4\)"):
        st.summarise(Chunks(lambda: iter(blocks), 3))
    with pytest.raises(ValueError, match="no response"):
        st.summarise(Chunks.of(X))
    with pytest.raises(ValueError, match="no rows"):
        st.summarise(Chunks(lambda: iter([]), 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: Chunks.of(X[0], y), "X must be of shape"),
        (lambda X, y: Chunks.of(X, y, rows=0), "rows must be a whole number of at least 1; got 0"),
        (
            lambda _, y: Chunks.of(np.broadcast_to(0.0, (9, 30_000)), y[:9]),
            "30000 features take 7 GB",
        ),
        (lambda X, y: st.decompose(Chunks.of(X, y), y), "holds its own response"),
        (lambda X, _: st.decompose(X), "y must be given"),
        (
            lambda X, y: st.StoppedRegressor().fit(Chunks.of(X, y)).predict(Chunks.of(X[:, :2])),
            "X has 2 features",
        ),
        (lambda X, y: st.StoppedRegressorCV(cv=2).fit(Chunks.of(X[:1], y[:1])), "2"),
        (
            lambda X, y: st.StoppedRegressorCV(rule="path-gcv").fit(Chunks.of(X[:1], y[:1])),
            "at least 2 rows",
        ),
    ],
)
def test_bad_calls(table, call, message):
    with pytest.raises(ValueError, match=message):
        call(*table)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predictions_of_chunks_refuse_missing_values_as_those_of_arrays(table, bad):
    X, y = table
    model = st.StoppedRegressor(stop=3.0).fit(X, y)
    spoiled = X[:100].copy()
    spoiled[70, 1] = bad
    for rows in (spoiled, Chunks.of(spoiled, y[:100], rows=37)):
        with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
            model.predict(rows)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        model.score(Chunks.of(spoiled, y[:100], rows=37))


def test_scores_of_chunks_with_their_own_response(table, weights):
    X, y = table
    model = st.StoppedRegressor(stop=3.0).fit(X, y)
    np.testing.assert_allclose(
        model.score(st.Chunks.of(X, y, rows=37)), model.score(X, y), rtol=1e-12
    )
    weighted = st.Chunks.of(X, y, weights, rows=37)
    np.testing.assert_allclose(model.score(weighted), model.score(X, y, weights), rtol=1e-12)
    with pytest.raises(ValueError, match="Chunks have no response"):
        model.score(st.Chunks.of(X, rows=37))
    with pytest.raises(ValueError, match="leave sample_weight out"):
        model.score(weighted, sample_weight=weights)
    with pytest.raises(ValueError, match="y must be given with X"):
        model.score(X)


@pytest.mark.parametrize("announced", [500, 1500])
def test_rows_that_were_announced_have_to_come(announced, rng):
    chunks = st.Chunks.of(rng.standard_normal((1000, 3)), rng.standard_normal(1000), rows=250)
    with pytest.raises(ValueError, match=f"but {announced} were expected"):
        st.StoppedRegressor().fit(st.Chunks(chunks.read, 3, announced))


def test_pages_of_every_array_of_a_block_are_released(tmp_path, monkeypatch):
    released = []
    monkeypatch.setattr(sources, "_release", released.append)
    arrays = []
    for name, shape in (("X", (90, 4)), ("y", (90,)), ("weights", (90,))):
        np.save(tmp_path / name, np.ones(shape))
        arrays.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    assert len(list(Chunks.of(*arrays, rows=30))) == 3
    assert [id(one) for one in released] == [id(one) for one in arrays] * 3


def test_throughput_is_told_and_changes_no_number(table, monkeypatch):
    monkeypatch.setattr(progress_module, "PATIENCE", 0.0)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    loud = st.summarise(Chunks.of(*table, rows=300), verbose=True)
    assert "statistics: 100%" in shown.getvalue()
    assert "| 1000/1000 [" in shown.getvalue()
    assert " rows/s" in shown.getvalue()
    shown.truncate(0)
    st.StoppedRegressorCV(cv=3, verbose=True).fit(Chunks(Chunks.of(*table, rows=300).read, 5))
    assert "statistics: 1000 rows [" in shown.getvalue()
    np.testing.assert_allclose(
        loud.gram, st.summarise(Chunks.of(*table, rows=300)).gram, rtol=1e-13
    )


GROWTH = """
    import re
    import numpy as np
    import stoptime as st

    def peak():  # not ru_maxrss, which begins with the memory of whoever started the process
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

    X = np.load({path!r}, mmap_mode="r")
    y = np.arange(len(X), dtype=float)
    st.summarise(st.Chunks.of(X[:10], y[:10], rows=5))  # imports what is used for the first time
    before = peak()
    for rows in (5_000, len(X)):
        st.summarise(st.Chunks.of(X, y, rows=rows))
        print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the memory of a process")
def test_memory_stays_bounded_by_blocks(tmp_path):
    """Blocks of 4 MB of a file of 48 MB do not make the process grow much; one block does."""
    path = tmp_path / "X.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(60_000, 100))[:, ::7] = 1.0
    command = [sys.executable, "-c", textwrap.dedent(GROWTH.format(path=str(path)))]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    in_blocks, in_one = map(float, told.split())
    assert in_blocks < 20
    assert in_one > 40
