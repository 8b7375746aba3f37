"""Mutation testing: change the mathematics in one place at a time, and see whether tests fail.

``make mutants`` tries a random sample of 200 mutants; ``python tools/mutants.py --sample 0`` tries
all of them, which takes hours; ``python tools/mutants.py theory/risk.py --seed 1`` tries other
mutants of one file. A mutant that no test detects is printed with the line that it changes.

The tests are run once under coverage. A mutant is then tested only by those tests that enter the
function it changes, the fastest first, in a fork of a process that has already imported the slow
modules, and on a copy of the tree. The measured times are kept in ``.mutants.json`` until the code
or a test file changes. Mutants that change only rounding, speed or memory are listed with their
reasons in ``equivalent_mutants.toml`` and are not tried. Annotations, decorators (caches), the
strictness of zip and the wording of errors are never changed. mutmut is not used: version 3.8.0
took two minutes to write its 7132 mutants, and failed on pytest 9.2 when it collected which tests
run which lines.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutations import PACKAGE, ROOT, Mutant, functions, mutants

FILES = [
    str(path.relative_to(ROOT / PACKAGE))
    for pattern in (
        "methods/[!_]*.py",
        "theory/search.py",
        "theory/risk.py",
        "theory/limits.py",
        "bounds/[!_]*.py",
        "left_out/[!_]*.py",
    )
    for path in sorted((ROOT / PACKAGE).glob(pattern))
]
TESTS = [
    str(path.relative_to(ROOT))
    for pattern in (
        "methods/test_*.py",
        "theory/test_*.py",
        "bounds/test_*.py",
        "left_out/test_*.py",
        "stopping/test_gcv.py",
        "estimators/test_extremes.py",
    )
    for path in sorted((ROOT / "tests").glob(pattern))
]
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
MEASURED = ROOT / ".mutants.json"
MOST_SECONDS = 20.0  # total time of the tests of one mutant
MEMORY = 6 * 2**30
NO_TESTS = 5  # exit code of pytest
NOT_TESTED = (4, NO_TESTS, 99)  # wrong usage, no tests, and any other failure to run them
PRELOADED = (
    "numpy", "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial",
    "scipy.integrate", "scipy.fft", "sklearn.linear_model", "sklearn.model_selection",
    "sklearn.metrics", "sklearn.utils.estimator_checks", "matplotlib.pyplot", "mpmath", "flint",
    "pytest", "coverage",
)  # fmt: skip


def worth_trying(population: list[Mutant]) -> list[Mutant]:
    """Drop the mutants that are listed as equivalent; refuse a list with unknown entries."""
    reasons = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    known = {
        (file, change) for files in reasons.values() for file in files for change in files[file]
    }
    of_files = {mutant.file for mutant in population}
    unknown = {pair for pair in known if pair[0] in of_files} - {
        (m.file, m.described) for m in population
    }
    if unknown:
        sys.exit(f"{EQUIVALENT.name} lists entries that are not mutants: {sorted(unknown)}")
    return [mutant for mutant in population if (mutant.file, mutant.described) not in known]


class Watch:
    """A pytest plugin that records which functions every test enters, and how long it takes."""

    def __init__(self, tree: Path) -> None:
        import coverage  # noqa: PLC0415 - loaded before the forks

        self.tree, self.seconds = tree, dict[str, float]()
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(tree / PACKAGE / "*")]
        )
        self.coverage.start()

    def pytest_runtest_setup(self, item: Any) -> None:
        """Start the record of a test."""
        self.coverage.switch_context(item.nodeid)
        self.seconds[item.nodeid] = -time.process_time()

    def pytest_runtest_teardown(self, item: Any) -> None:
        """End the record of a test."""
        self.seconds[item.nodeid] += time.process_time()

    @property
    def found(self) -> dict[str, tuple[float, list[str]]]:
        """Seconds and functions of each test."""
        self.coverage.stop()
        entered: dict[str, set[str]] = {test: set() for test in self.seconds}
        for file in FILES:
            lines = self.coverage.get_data().contexts_by_lineno(str(self.tree / PACKAGE / file))
            for line, tests in lines.items():
                for test in entered.keys() & set(tests) if line in functions(file) else ():
                    entered[test].add(f"{file} {functions(file)[line]}")
        return {test: (self.seconds[test], sorted(entered[test])) for test in self.seconds}


class Chosen:
    """A pytest plugin that runs only some tests, the fastest first."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the chosen tests and sort them."""
        known = [item for item in items if item.nodeid in self.seconds]
        items[:] = sorted(known, key=lambda item: self.seconds[item.nodeid])


def measured(tree: Path) -> dict[str, tuple[float, list[str]]]:
    """Return the time and the functions of every test; run only test files that have changed."""
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    package = b"".join(path.read_bytes() for path in sorted((tree / PACKAGE).rglob("*.py")))
    found = {}
    for file in [*TESTS, *(str(PACKAGE / file) for file in FILES)]:
        key = f"{file} {hashlib.sha256((tree / file).read_bytes() + package).hexdigest()}"
        if key not in known:
            answer = tree / "answer.json"
            if in_child(tree, lambda file=file, answer=answer: _watched(tree, file, answer), 3600):
                sys.exit(f"{file} fails without a mutant")
            known[key] = json.loads(answer.read_text(encoding="utf-8"))
            MEASURED.write_text(json.dumps(known), encoding="utf-8")
        found |= known[key]
    return found


def _watched(tree: Path, file: str, answer: Path) -> int:
    watch = Watch(tree)
    status = _tested([file], watch)
    answer.write_text(json.dumps(watch.found), encoding="utf-8")
    return 0 if status == NO_TESTS else status


def survives(tree: Path, mutant: Mutant, tests: dict[str, tuple[float, list[str]]]) -> bool:
    """Return whether all tests that enter the function of a mutant pass within their time."""
    entered = f"{mutant.file} {mutant.function}"
    faced = {}
    for test, (seconds, names) in sorted(tests.items(), key=lambda item: item[1][0]):
        if any(
            name == entered or (not mutant.function and name.startswith(entered)) for name in names
        ):
            faced[test] = seconds
    while sum(faced.values()) > MOST_SECONDS:
        faced.popitem()
    if not faced:
        return True
    target = tree / PACKAGE / mutant.file
    original = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    files = sorted({test.split("::")[0] for test in faced})
    limit = int(20 + 5 * sum(faced.values()))
    status = in_child(tree, lambda: _tested(files, Chosen(faced)), limit)
    target.write_text(original, encoding="utf-8")
    return status == 0


def in_child(tree: Path, work: Callable[[], int], limit: int) -> int:
    """Return the exit code of work in a fork with a limit of processor seconds."""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, limit)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            os.chdir(tree)
            sys.path.insert(0, str(tree / "src"))
            sys.dont_write_bytecode = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os._exit(work())
        finally:  # the child must never continue with the code of its parent
            os._exit(NOT_TESTED[-1])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status in NOT_TESTED:
        sys.exit("the tests could not be run")
    return status


def _tested(files: list[str], plugin: object) -> int:
    import pytest  # noqa: PLC0415 - loaded before the forks

    try:
        importlib.import_module("stoptime")  # before pytest imports one of its files by path
    except Exception:
        return 1
    options = ["-x", "-q"]
    for unwanted in ("cacheprovider", "randomly", "xdist", "cov"):
        options += ["-p", f"no:{unwanted}"]
    return int(pytest.main([*options, *files], plugins=[plugin]))


def copied(folder: Path) -> Path:
    """Copy everything that the tests need into a folder, and return it."""
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    compileall.compile_dir(folder / "src", quiet=1)
    return folder


def main() -> None:
    """Try mutants; print those that survive, then how many were killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", default=FILES, help=f"some of {', '.join(FILES)}", metavar="FILE"
    )
    parser.add_argument(
        "--sample", type=int, default=200, help="how many mutants to try; 0 means all"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no mutant after this time"
    )
    wanted = parser.parse_args()
    population = [mutant for file in wanted.files for mutant in mutants(file)]
    candidates = sorted(worth_trying(population), key=lambda mutant: mutant.lot(wanted.seed))
    for module in PRELOADED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as name:
        tree = copied(Path(name).resolve())
        tests, end = measured(tree), time.monotonic() + 60 * wanted.minutes
        tried = killed = 0
        for mutant in candidates[: wanted.sample or None]:
            if time.monotonic() > end:
                break
            alive = survives(tree, mutant, tests)
            tried, killed = tried + 1, killed + (not alive)
            print(f"{tried} tried, {killed} killed", end="\r", file=sys.stderr, flush=True)
            if alive:
                print(f"survived  {mutant}", flush=True)
    print(
        f"{killed} of {tried} mutants killed; "
        f"{len(candidates)} of {len(population)} are not listed as equivalent"
    )


if __name__ == "__main__":
    main()
