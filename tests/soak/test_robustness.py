"""Robustness: threads, full disks, Ctrl-C, little memory."""

from __future__ import annotations

import linecache
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import stoptime as st
from helpers import run
from stoptime.paper.reproduction import Experiment
from stoptime.show import explorer, report
from stoptime.support import files

# ---------------------------------------------------------------- threads and processes


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 8))
    return X, X @ rng.standard_normal(8) + rng.standard_normal(60)


ESTIMATORS = [
    st.StoppedRegressor(),
    st.StoppedRegressorCV(stops=30),
    st.StoppedRegressorCV("nesterov", stops=[1, 5, 20], cv=4),
    st.StoppedKernelRegressorCV("ridge", stops=20, kernel="rbf", gamma=0.1),
]


def bits(model):
    return model.predict(np.eye(8)).tobytes(), model.stop_


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_threads_change_no_bit_and_those_of_blas_rounding_alone(table, estimator):
    fits = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            fits.append(clone(estimator).fit(*table).predict(table[0]))
    np.testing.assert_allclose(*fits, rtol=1e-9, atol=1e-9)
    alone = bits(clone(estimator).fit(*table))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: bits(clone(estimator).fit(*table)), range(8))) == {alone}


def test_one_spectrum_serves_many_threads(table):
    spectrum = st.decompose(*table)
    methods = [*st.METHODS, *st.ITERATIONS]

    def drawn(name):
        return st.path(spectrum, name, [1, 2, 9]).coef.tobytes()

    alone = [drawn(name) for name in methods]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(drawn, methods * 3)) == alone * 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_however_they_start(table, start):
    with multiprocessing.get_context(start).Pool(1) as pool:
        model = pool.apply_async(ESTIMATORS[1].fit, table).get(timeout=60)
    np.testing.assert_allclose(model.coef_, ESTIMATORS[1].fit(*table).coef_, rtol=1e-10)


# ---------------------------------------------------------------- Ctrl-C


@contextmanager
def interrupted_at(moment, within):
    """Raise KeyboardInterrupt at a line event of files whose path contains ``within``; count.

    Not at a ``with``, which is traced again before its context is left.
    """
    seen, before = [0], sys.gettrace()

    def trace(frame, kind, _):
        if within not in frame.f_code.co_filename:
            return None
        if kind == "line":
            seen[0] += 1
            source = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if seen[0] >= moment > 0 and not source.lstrip().startswith("with "):
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


def test_an_interrupted_fit_leaves_nothing_behind(table):
    model = st.StoppedRegressorCV(stops=12)
    alone = bits(model.fit(*table))
    handling = np.geterr()
    with interrupted_at(-1, "stoptime") as lines:  # of a second fit: the first fills what is kept
        model.fit(*table)
    moments = random.Random(0)
    for _ in range(20):
        moment = moments.randint(1, lines[0])
        with pytest.raises(KeyboardInterrupt), interrupted_at(moment, "stoptime"):
            model.fit(*table)
        assert np.geterr() == handling
        assert bits(model.fit(*table)) == alone


def test_an_interrupted_writer_leaves_the_old_file_or_the_new(table, tmp_path):
    old, new = (st.StoppedRegressor("ridge", stop).fit(*table) for stop in (1.0, 2.0))
    target = tmp_path / "model.json"
    st.save(new, target)
    whole = {target.read_bytes()}
    st.save(old, target)
    whole.add(target.read_bytes())
    with interrupted_at(-1, "support/files") as lines:
        st.save(old, target)
    last = lines[0] - 1  # the removal of what is left, which one more interrupt could stop
    for moment in range(1, last + 1):
        with pytest.raises(KeyboardInterrupt), interrupted_at(moment, "support/files"):
            st.save(new, target)
        assert target.read_bytes() in whole
        assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


# ---------------------------------------------------------------- full disks and closed folders


@contextmanager
def full_disk(room=8):
    """Let no file grow beyond a few bytes: the kernel refuses the write, whoever makes it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


FIGURE = Experiment("figure", Figure(), ("a",), [(1,)] * 99, "nothing")


def one_model(table):
    return st.StoppedRegressorCV("ridge", stops=[1.0, 2.0]).fit(*table)


WRITERS = {
    "model.json": lambda table, path: st.save(one_model(table), path),
    "report.html": lambda table, path: report.write(path, one_model(table), *table),
    "explorer.html": lambda _, path: explorer.write(path),
    "statistics.npz": lambda table, path: st.summarise(*table).save(path),
    "arrays.npz": lambda table, path: files.save_arrays(path, {"X": table[0]}),
    "figure.pdf": lambda _, path: FIGURE.write(path.parent),
}
READERS = {"model.json": st.load, "statistics.npz": st.Statistics.load}


def refuse(self, _):
    raise PermissionError(13, "Permission denied", str(self))


@pytest.mark.parametrize("fault", ["a full disk", "a file that may not be replaced"])
@pytest.mark.parametrize("name", WRITERS)
def test_what_cannot_be_written_is_an_error_and_leaves_the_old_file(
    table, tmp_path, name, fault, monkeypatch
):
    target = tmp_path / name
    target.write_text("the old")
    if fault == "a full disk":
        with full_disk(), pytest.raises(OSError, match="File too large"):
            WRITERS[name](table, target)
    else:
        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(PermissionError):
            WRITERS[name](table, target)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert target.read_text() == "the old"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_on_a_full_disk_are_one_line_and_no_file(tmp_path, ending):
    frame = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) ** 2 % 7})
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / f"out.{ending}"
    model = tmp_path / "model.json"
    fitted = run("fit", tmp_path / "data.csv", "-t", "b", "-m", "ridge", "--model", model)
    assert fitted.exit_code == 0, fitted.output
    with full_disk():
        result = run("predict", model, tmp_path / "data.csv", "--out", out)
    assert result.exit_code == 1, result.output
    assert "too large" in result.stderr
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "model.json"]


# ---------------------------------------------------------------- files that are not what they seem


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_by_name_or_still_makes_sense(table, tmp_path, name):
    path = tmp_path / name
    WRITERS[name](table, path)
    whole = path.read_bytes()
    for share in (0.0, 0.3, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match=name):
            READERS[name](path)
    noise = random.Random(1)
    refused = 0
    for _ in range(150):
        broken = bytearray(whole)
        for _ in range(noise.randint(1, 4)):
            broken[noise.randrange(len(broken))] = noise.randrange(256)
        path.write_bytes(bytes(broken))
        try:
            READERS[name](path)
        except ValueError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("ending", ["csv", "parquet", "tsv"])
def test_tables_of_noise_are_one_line(tmp_path, ending):
    noise = random.Random(2)
    path = tmp_path / f"data.{ending}"
    frame = pd.DataFrame({"a": np.arange(30.0), "y": np.arange(30.0) % 4})
    frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
    whole = path.read_bytes()
    half = whole[: len(whole) // 2]
    for content in (b"", b"\0" * 50, noise.randbytes(200), half, b'"' + whole, whole[3:]):
        path.write_bytes(content)
        result = run("fit", path, "--target", "y", "-m", "ridge", "--stops", "10")
        assert result.exit_code in {0, 1, 2}, result.output
        assert isinstance(result.exception, SystemExit | None), repr(result.exception)


# ---------------------------------------------------------------- little memory

STARVED = """
    import resource, sys
    import numpy as np
    import stoptime as st
    X = np.random.default_rng(0).standard_normal((2500, 2500))
    y = X[:, 0]
    st.decompose(X[:50], y[:50], solver={solver!r})  # what is loaded late is loaded
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + {room} * 2**20,) * 2)
    try:
        st.decompose(X, y, solver={solver!r})
    except MemoryError as error:
        print(repr(error))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the memory of a process")
@pytest.mark.parametrize(("solver", "room"), [("gram", 20), ("svd", 60)])
def test_too_little_memory_is_a_memory_error(solver, room):
    script = textwrap.dedent(STARVED.format(solver=solver, room=room))
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    options = {"capture_output": True, "text": True, "timeout": 120}
    command = [sys.executable, "-c", script]
    environment = {**os.environ, **threads}
    result = subprocess.run(command, check=False, env=environment, **options)  # noqa: S603
    assert result.returncode == 0, result.stderr
    assert "MemoryError(" in result.stdout
    assert not result.stderr
