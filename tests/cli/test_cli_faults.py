"""``stoptime`` under Ctrl-C, on full disks and before closed pipes: one line, no half file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import stoptime as st
from helpers import run

pytest.importorskip("typer")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and timers of Linux")

# All is imported and every path taken once before the limit or the timer: both are to hit the work.
COMMAND = """
    import contextlib, io, json, os, random, resource, signal, sys
    from stoptime.cli import run as run_command

    def stoptime(*arguments):
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                run_command(list(arguments))
        except SystemExit as end:
            return end.code or 0, err.getvalue()

    small, large, folder = sys.argv[1:]
    options = ["-t", "y", "-m", "ridge", "--stops", "10"]

    def outputs(name):
        os.mkdir(folder + name)
        run = folder + name
        return ["--model", run + "/model.json", "--report", run + "/report.html"]
"""
INTERRUPTED = """
    import time
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def press(*_):  # only while the command is in charge: else it would hit this script
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGPROF, press)
    assert stoptime("fit", small, *options, *outputs("/first"))[0] == 0
    began = time.process_time()
    assert stoptime("fit", small, *options, *outputs("/second"))[0] == 0
    whole = time.process_time() - began
    moments = random.Random({seed})
    for run in range({count}):
        files = outputs(f"/{{run}}")
        signal.setitimer(signal.ITIMER_PROF, moments.uniform(1e-3, whole))  # of processor time
        code, said = stoptime("fit", small, *options, *files)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([code, said]), flush=True)
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two files: one of a moment, and one of some megabytes."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(3)
    for name, (n, p) in {"small": (40, 3), "large": (3000, 120)}.items():
        X = rng.standard_normal((n, p + 1)).round(3)
        names = [*(f"x{j}" for j in range(p)), "y"]
        np.savetxt(
            folder / f"{name}.csv", X, fmt="%g", delimiter=",", header=",".join(names), comments=""
        )
    return folder


def told(script: str, tables: Path, folder: Path) -> list[tuple[int, str]]:
    """Return exit codes and standard error of the commands that a script runs in a new process."""
    code = textwrap.dedent(COMMAND) + textwrap.dedent(script)
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", code, tables / "small.csv", tables / "large.csv", folder],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def check_files(folder: Path) -> set[int]:
    """Refuse half-written and temporary files; return how many files the runs have left."""
    found = [path for path in folder.glob("*/*") if path.is_file()]
    for path in found:
        if path.name == "model.json":
            st.load(path)
        else:
            assert path.name == "report.html"
            assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    return {sum(path.parent == run for path in found) for run in folder.iterdir()}


@pytest.mark.parametrize(
    "error",
    ["MemoryError", "ImportError('lib.so: failed to map segment\\nfrom it')", "OSError(12)"],
)
def test_libraries_that_do_not_load_are_one_line(tmp_path, error):
    (tmp_path / "typer.py").write_text(f"raise {error}\n")
    given = os.environ.get("PYTHONPATH")
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "stoptime", "fit", "diabetes", "--model", tmp_path / "model.json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *([given] if given else [])]),
        },
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("stoptime could not load its libraries: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "model.json").exists()


def test_ctrl_c_at_any_moment_leaves_whole_files_or_none(tables, tmp_path):
    ends = told(INTERRUPTED.format(seed=0, count=25), tables, tmp_path)
    for code, said in ends:
        assert code in {0, 130}, said
        assert code == 0 or said.endswith(
            "stoptime: interrupted; no file was left half written.\n"
        ), said
        assert "Traceback" not in said
    assert sum(code == 130 for code, _ in ends) > 10
    assert check_files(tmp_path) > {2}  # files of a run, by when the interrupt came


@pytest.mark.parametrize("moment", ["typer", "stoptime.cli.fit"])
def test_ctrl_c_while_libraries_load_is_one_line(tmp_path, moment):
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Press:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {moment!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Press())\n"
    )
    given = os.environ.get("PYTHONPATH")
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "stoptime", "fit", "diabetes", "--model", tmp_path / "model.json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *([given] if given else [])]),
        },
    )
    assert done.stderr == "stoptime: interrupted; no file was left half written.\n"
    assert (done.returncode, done.stdout) == (130, "")
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize("swallow", ["raise ValueError('a C library failed') from None", "pass"])
def test_ctrl_c_that_a_library_hides_is_told_all_the_same(swallow):
    code = f"""
        import signal, stoptime.tables.reading as reading
        from stoptime.__main__ import main
        signal.signal(signal.SIGINT, signal.default_int_handler)
        read = reading.read_table

        def hides(*args, **kwargs):
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                {swallow}
            return read(*args, **kwargs)

        reading.read_table = hides
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), "fit", "diabetes", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
    assert done.stderr == "stoptime: interrupted; no file was left half written.\n"
    assert done.returncode == 130


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in a folder; ``stoptime`` is this Python's."""
    line = f'set -o pipefail; stoptime() {{ {sys.executable} -m stoptime "$@"; }}; {command}'
    return subprocess.run(  # noqa: S603 - our own command
        ["/bin/bash", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


FIT = "fit small.csv -t y -m ridge --no-compare"


@pytest.mark.parametrize("command", [f"{FIT} --json", "--help"])
def test_a_full_standard_output_is_named(tables, command):
    done = shell(tables, f"stoptime {command} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        "stoptime: standard output could not be written: No space left on device.\n"
    )


@pytest.mark.parametrize("command", [FIT, "fit --help"])
def test_a_reader_that_wants_no_more_ends_the_command_quietly(tables, command):
    done = shell(tables, f"stoptime {command} | true")
    assert (done.returncode, done.stderr) == (141, "")
    assert shell(tables, f"stoptime {command} | cat > /dev/null").returncode == 0


def test_files_are_written_before_predictions_that_nobody_reads(tables, tmp_path):
    files = f"--model {tmp_path}/model.json --report {tmp_path}/report.html"
    done = shell(tables, f"stoptime {FIT} --predict small.csv --out - {files} | true")
    assert (done.returncode, done.stderr) == (141, "")
    assert {one.name for one in tmp_path.iterdir()} == {"model.json", "report.html"}
    done = shell(tables, f"stoptime predict {tmp_path}/model.json small.csv > /dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        "stoptime: standard output could not be written: No space left on device.\n"
    )


def test_a_full_disk_is_told_with_the_name_of_the_file(monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_text", full)
    result = run("explore", "--out", tmp_path / "page.html")
    told = f"stoptime: {tmp_path / 'page.html'} could not be written: No space left on device.\n"
    assert (result.exit_code, result.stderr) == (1, told)
    assert not list(tmp_path.iterdir())
