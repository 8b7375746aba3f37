"""One long pass over the rows: interrupts, checkpoints, progress and memory."""

import io
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import stoptime as st
from stoptime.spectrum.streamed import data as streams
from stoptime.spectrum.streamed.sources import Chunks
from stoptime.support import progress as progress_module


class Interrupted(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("times", [1, 3])
def test_nothing_is_lost_on_an_interrupt(table, tmp_path, times):
    X, y = table
    whole = Chunks.of(X, y, rows=50)
    seen = []

    def read(start):
        for number, block in enumerate(whole.read(start)):
            if number == 4 and len(seen) < times:
                seen.append(start)
                raise Interrupted
            yield block

    chunks = Chunks(read, 5, 1000, None, whole.source)
    checkpoint = tmp_path / "so-far.npz"
    for done in range(1, times + 1):
        with pytest.raises(Interrupted):
            st.summarise(chunks, checkpoint=checkpoint)
        assert st.Statistics.load(checkpoint).n_rows == 200 * done
    resumed, straight = st.summarise(chunks, checkpoint=checkpoint), st.summarise(whole)
    assert seen == [200 * k for k in range(times)]
    np.testing.assert_allclose(resumed.gram, straight.gram, rtol=1e-12)
    np.testing.assert_allclose(resumed.cross, straight.cross, rtol=1e-12)
    assert st.summarise(chunks, checkpoint=checkpoint).n_rows == 1000  # done: no row is read again


def test_checkpoints_are_saved_on_the_way_and_belong_to_their_source(table, tmp_path, monkeypatch):
    X, y = table
    saved = []
    save = streams.save_arrays
    monkeypatch.setattr(streams, "SAVE_EVERY", -1.0)
    monkeypatch.setattr(streams, "save_arrays", lambda *args: (saved.append(args), save(*args)))
    st.summarise(Chunks.of(X, y, rows=100), checkpoint=tmp_path / "a.npz")
    assert len(saved) == 10
    with pytest.raises(ValueError, match=r"made from arrays: float64 \(1000, 5\).*remove it"):
        st.summarise(Chunks.of(X[:900], y[:900]), checkpoint=tmp_path / "a.npz")
    with pytest.raises(ValueError, match="first rows"):  # of the same shape, and yet other data
        st.summarise(Chunks.of(X + 1, y), checkpoint=tmp_path / "a.npz")
    with pytest.raises(ValueError, match="first rows"):
        st.summarise(Chunks.of(X, y + 1), checkpoint=tmp_path / "a.npz")
    st.Statistics.of(X, y).save(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        st.summarise(Chunks.of(X, y), checkpoint=tmp_path / "b.npz")


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
    """Blocks of 4 MB of a file of 120 MB do not make the process grow much; one block does."""
    path = tmp_path / "X.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(150_000, 100))[:, ::7] = 1.0
    command = [sys.executable, "-c", textwrap.dedent(GROWTH.format(path=str(path)))]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    in_blocks, in_one = map(float, told.split())
    assert in_blocks < 40
    assert in_one > 100
