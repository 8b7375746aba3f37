"""Mutation testing: change the mathematics in one place at a time, and see whether the tests notice.

``make mutants`` tries a random sample of 200 of all mutants; ``python tools/mutants.py --sample 0`` tries
every one, which takes hours; ``python tools/mutants.py risk.py --seed 1`` tries other mutants of one file.
A mutant that outlives its tests is printed as the line it changed.

The tests run once under coverage. A mutant then faces those alone that enter the function it changes, the
quickest first, in a fork of a process that has imported what takes long, and on a copy of the tree. What they
took is remembered in ``.mutants.json`` until the code or a file of tests changes. Mutants that change nothing
but rounding, speed or memory are listed with their reasons in ``equivalent_mutants.toml`` and left out;
annotations, decorators (caches), the strictness of zip and the wording of errors are never changed. mutmut is
not used: version 3.8.0 took two minutes to write its 7132 mutants, and failed on pytest 9.2 when it asked
which tests run what.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "stoptime"
FILES = [
    str(path.relative_to(ROOT / PACKAGE))
    for pattern in (
        "special.py", "search.py", "risk.py", "risk_model.py", "methods/[!_]*.py", "bounds/[!_]*.py",
        "stopping/left_out.py", "stopping/loo.py", "stopping/mixture.py", "stopping/routes.py",
        "stopping/routing.py", "stopping/rows.py", "stopping/secular.py", "stopping/skeleton.py",
    )
    for path in sorted((ROOT / PACKAGE).glob(pattern))
]  # fmt: skip
TESTS = [
    f"tests/test_{subject}.py"
    for subject in (
        "methods", "recurrence", "iterations", "iteration_uses", "krylov", "risk", "loo", "left_out",
        "mixture", "bounds", "bounds_proofs", "bounds_brackets", "planning", "gcv", "extremes", "search",
    )
]  # fmt: skip
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
MEASURED = ROOT / ".mutants.json"
MOST_SECONDS = 20.0  # of tests that one mutant faces
MEMORY = 6 * 2**30
Place = ast.expr | ast.stmt
T = TypeVar("T", bound=ast.AST)
NO_TESTS = 5  # as pytest says it
NOT_TESTED = (4, NO_TESTS, 99)  # wrong usage, no tests, and anything else
PRELOADED = (
    "numpy", "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "sklearn.linear_model",
    "sklearn.model_selection", "sklearn.metrics", "sklearn.utils.estimator_checks", "scipy.integrate",
    "scipy.fft", "matplotlib.pyplot", "mpmath", "flint", "pytest", "coverage",
)  # fmt: skip
ORDERINGS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or,
    ast.Or: ast.And, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, **ORDERINGS,
}  # fmt: skip
OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}


@dataclass(frozen=True)
class Mutant:
    """One changed place of one file."""

    file: str
    number: int
    line: int
    change: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.described}"

    @property
    def function(self) -> str:
        """The function or method it changes, empty for what a module does when it is imported."""
        return functions(self.file).get(self.line, "")

    @property
    def described(self) -> str:
        """Where and what it changes, in words that outlive other changes of the file."""
        return f"{self.function or 'module'}: {self.change}"

    def lot(self, seed: int) -> str:
        """Return a random word by which samples are drawn: other mutants do not change it."""
        return hashlib.sha256(f"{seed} {self.file} {self.described}".encode()).hexdigest()

    @property
    def source(self) -> str:
        """The file with this change."""
        tree = parsed(self.file)
        parent, name, index, _, changed = next(islice(every_change(tree), self.number, None))
        vars(parent).update(vars(_replaced(parent, name, index, changed)))
        return ast.unparse(tree)


def mutants(file: str) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    seen: Counter[tuple[str, str]] = Counter()
    for number, (parent, name, index, node, changed) in enumerate(every_change(parsed(file))):
        change = f"{ast.unparse(node)} -> {ast.unparse(changed)}"
        if isinstance(node, ast.Constant) and isinstance(
            parent, ast.expr | ast.Assign | ast.AnnAssign
        ):
            change = (
                f"{ast.unparse(parent)} -> {ast.unparse(_replaced(parent, name, index, changed))}"
            )
        key = functions(file).get(node.lineno, ""), change
        seen[key] += 1
        again = f" ({seen[key]})" if seen[key] > 1 else ""
        yield Mutant(file, number, node.lineno, change + again)


@cache
def functions(file: str) -> dict[int, str]:
    """Return the function or method of every line of a file that is inside one."""
    found = {}
    for top in parsed(file).body:
        prefix = f"{top.name}." if isinstance(top, ast.ClassDef) else ""
        for node in top.body if isinstance(top, ast.ClassDef) else [top]:
            if isinstance(node, ast.FunctionDef):
                lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
                found |= dict.fromkeys(lines, prefix + node.name)
    return found


def worth_trying(population: list[Mutant]) -> list[Mutant]:
    """Leave out the mutants that are listed as equivalent; a list with others in it is refused."""
    reasons = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    known = {
        (file, change) for files in reasons.values() for file in files for change in files[file]
    }
    of_files = {mutant.file for mutant in population}
    unknown = {pair for pair in known if pair[0] in of_files} - {
        (m.file, m.described) for m in population
    }
    if unknown:
        sys.exit(f"{EQUIVALENT.name} lists what is no mutant: {sorted(unknown)}")
    return [mutant for mutant in population if (mutant.file, mutant.described) not in known]


def parsed(file: str) -> ast.Module:
    """Return the syntax of a file of the package."""
    return ast.parse((ROOT / PACKAGE / file).read_text(encoding="utf-8"))


def every_change(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Place, Place]]:
    """Yield every place that can be changed, by its parent, with what could stand there."""
    for parent, name, index, node in places(tree):
        for changed in changes(node):
            if ast.unparse(changed) != ast.unparse(node):  # as 1e150 + 1 is not
                yield parent, name, index, node, changed


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Place]]:
    """Yield what can be changed: not annotations, decorators, strictness and messages of errors."""
    for name, field in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"} or isinstance(
            node, ast.Raise | ast.JoinedStr
        ):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":
            continue
        for index, child in enumerate(field) if isinstance(field, list) else [(None, field)]:
            if isinstance(child, ast.expr | ast.stmt):
                yield node, name, index, child
            if isinstance(child, ast.AST):
                yield from places(child)


def changes(node: Place) -> Iterator[Place]:
    """Yield a node with one thing changed."""
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            yield _with(node, op=SWAPS[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield _with(node, ops=[SWAPS[type(op)]()])
            if type(op) in OPPOSITES:
                yield _with(node, ops=[OPPOSITES[type(op)]()])
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield _with(node, body=orelse, orelse=body)
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))


def _replaced(parent: ast.AST, name: str, index: int | None, changed: Place) -> ast.AST:
    if index is None:
        return _with(parent, **{name: changed})
    field = getattr(parent, name)
    return _with(parent, **{name: [*field[:index], changed, *field[index + 1 :]]})


def _with(node: T, **fields: object) -> T:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


class Watch:
    """A plugin of pytest that notes which functions every test enters, and how long it takes."""

    def __init__(self, tree: Path) -> None:
        import coverage  # noqa: PLC0415 - loaded before, for all children

        self.tree, self.seconds = tree, dict[str, float]()
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(tree / PACKAGE / "*")]
        )
        self.coverage.start()

    def pytest_runtest_setup(self, item: Any) -> None:
        """Begin with a test."""
        self.coverage.switch_context(item.nodeid)
        self.seconds[item.nodeid] = -time.process_time()

    def pytest_runtest_teardown(self, item: Any) -> None:
        """End with it."""
        self.seconds[item.nodeid] += time.process_time()

    @property
    def found(self) -> dict[str, tuple[float, list[str]]]:
        """Seconds and functions, by tests."""
        self.coverage.stop()
        entered: dict[str, set[str]] = {test: set() for test in self.seconds}
        for file in FILES:
            lines = self.coverage.get_data().contexts_by_lineno(str(self.tree / PACKAGE / file))
            for line, tests in lines.items():
                for test in entered.keys() & set(tests) if line in functions(file) else ():
                    entered[test].add(f"{file} {functions(file)[line]}")
        return {test: (self.seconds[test], sorted(entered[test])) for test in self.seconds}


class Chosen:
    """A plugin of pytest that runs some tests only, the quickest first."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Sort the tests and forget the others."""
        known = [item for item in items if item.nodeid in self.seconds]
        items[:] = sorted(known, key=lambda item: self.seconds[item.nodeid])


def measured(tree: Path) -> dict[str, tuple[float, list[str]]]:
    """Return how long every test takes and what it enters, from a run of all that may have changed since."""
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    package = b"".join(path.read_bytes() for path in sorted((tree / PACKAGE).rglob("*.py")))
    found = {}
    for file in [*TESTS, *(str(PACKAGE / file) for file in FILES)]:
        key = f"{file} {hashlib.sha256((tree / file).read_bytes() + package).hexdigest()}"
        if key not in known:
            answer = tree / "answer.json"
            if in_child(tree, lambda file=file, answer=answer: _watched(tree, file, answer), 3600):
                sys.exit(f"{file} fails without any mutant")
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
    """Return whether the tests pass that enter the function of a mutant; too slow is noticed too."""
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
    """Return the exit code of work in a fork that may take so many seconds of its processor."""
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
        finally:  # whatever happens, the child must not go on as its parent
            os._exit(NOT_TESTED[-1])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status in NOT_TESTED:
        sys.exit("the tests could not be run")
    return status


def _tested(files: list[str], plugin: object) -> int:
    import pytest  # noqa: PLC0415 - loaded before, for all children

    try:
        importlib.import_module("stoptime")  # before pytest imports a file of it by its path
    except Exception:
        return 1
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:xdist",
        "-p",
        "no:cov",
    ]
    return int(pytest.main([*options, *files], plugins=[plugin]))


def copied(folder: Path) -> Path:
    """Return a folder into which all that tests need has been copied."""
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    compileall.compile_dir(folder / "src", quiet=1)
    return folder


def main() -> None:
    """Try mutants and print those that live, then the share killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", default=FILES, help=f"of {', '.join(FILES)}", metavar="FILE"
    )
    parser.add_argument(
        "--sample", type=int, default=200, help="how many mutants to try; 0 means all"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no mutant after this long"
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
        f"{killed} of {tried} mutants killed; of {len(population)} {len(candidates)} are not equivalent"
    )


if __name__ == "__main__":
    main()
