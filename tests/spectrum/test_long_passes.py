"""Long passes over the rows: progress and memory."""

import io
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import stoptime as st
from stoptime.spectrum import sources
from stoptime.spectrum.sources import Chunks
from stoptime.support import progress as progress_module


def test_a_pass_over_several_files_adds_up(table, tmp_path):
    X, y = table
    seen = 0
    for rows in np.array_split(np.arange(1000), 3):
        seen = seen + st.summarise(Chunks.of(X[rows], y[rows], rows=50))
        seen.save(tmp_path / "seen.npz")
        seen = st.Statistics.load(tmp_path / "seen.npz")
    # sums in another order differ by rounding, which is relative to the largest entries
    wanted = st.Statistics.of(X, y).gram
    np.testing.assert_allclose(seen.gram, wanted, rtol=0, atol=1e-12 * abs(wanted).max())


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
