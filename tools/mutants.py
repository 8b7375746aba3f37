"""Mutation testing: change the mathematics in one place at a time, and see whether the tests notice.

``make mutants`` tries a random sample of 200 of all mutants; ``python tools/mutants.py --sample 0`` tries
every one, which takes hours; ``python tools/mutants.py risk.py --seed 1`` tries other mutants of one file.
A mutant that outlives its tests is printed as the line it changed. Mutants are tried in a copy of the tree.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "stoptime"
Place = ast.expr | ast.stmt
TESTS = {  # what is responsible for a file, the quickest first
    "special.py": ["tests/test_methods.py"],
    "methods/phase.py": ["tests/test_methods.py"],
    "methods/ridge.py": ["tests/test_methods.py"],
    "methods/base.py": ["tests/test_methods.py", "tests/test_iterations.py"],
    "methods/flows.py": ["tests/test_methods.py", "tests/test_iterations.py", "tests/test_planning.py"],
    "methods/closed_forms.py": ["tests/test_iterations.py"],
    "methods/high_resolution.py": ["tests/test_iterations.py"],
    "methods/iterations.py": ["tests/test_iterations.py", "tests/test_planning.py"],
    "methods/krylov.py": ["tests/test_krylov.py"],
    "methods/recurrence.py": ["tests/test_iterations.py"],
    "risk_model.py": ["tests/test_risk.py", "tests/test_iterations.py"],
    "risk.py": ["tests/test_risk.py", "tests/test_iterations.py", "tests/test_paper.py"],
    "stopping/loo.py": ["tests/test_loo.py"],
    "stopping/mixture.py": ["tests/test_loo.py"],
    "stopping/routes.py": ["tests/test_loo.py"],
    "stopping/rows.py": ["tests/test_loo.py"],
    **{f"bounds/{file.name}": ["tests/test_bounds.py"] for file in (ROOT / PACKAGE / "bounds").glob("[!_]*")},
}
NOT_TESTED = (4, 5, 99)  # pytest's own codes for wrong usage and no tests, and ours for anything else
PRELOADED = (
    "numpy", "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "sklearn.linear_model",
    "sklearn.model_selection", "sklearn.metrics", "matplotlib.pyplot",
    "mpmath", "pytest",
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
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"

    @property
    def source(self) -> str:
        """The file with this change."""
        tree = parsed(self.file)
        parent, name, index, _, changed = next(islice(every_change(tree), self.number, None))
        if index is None:
            setattr(parent, name, changed)
        else:
            getattr(parent, name)[index] = changed
        return ast.unparse(tree)


def mutants(file: str) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    for number, (*_, node, changed) in enumerate(every_change(parsed(file))):
        yield Mutant(file, number, node.lineno, ast.unparse(node), ast.unparse(changed))


def parsed(file: str) -> ast.Module:
    """Return the syntax of a file of the package."""
    return ast.parse((ROOT / PACKAGE / file).read_text(encoding="utf-8"))


def every_change(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Place, Place]]:
    """Yield every place that can be changed, by its parent, with what could stand there."""
    for parent, name, index, node in places(tree):
        for changed in changes(node):
            yield parent, name, index, node, changed


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Place]]:
    """Yield what can be changed: not annotations, decorators and messages of errors."""
    for name, field in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"} or isinstance(node, ast.Raise | ast.JoinedStr):
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


def _with(node: Place, **fields: object) -> Place:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def survives(tree: Path, file: str, source: str, limit: int) -> bool:
    """Return whether the tests of a file pass with another source in its place; too slow is noticed too."""
    target = tree / PACKAGE / file
    original = target.read_text(encoding="utf-8")
    target.write_text(source, encoding="utf-8")
    child = os.fork()  # of a process that has imported what takes long
    if child == 0:
        signal.alarm(limit)
        try:
            os._exit(_tested(tree, file))
        finally:  # whatever happens, the child must not go on as its parent
            os._exit(NOT_TESTED[-1])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    target.write_text(original, encoding="utf-8")
    if status in NOT_TESTED:
        sys.exit(f"the tests of {file} could not be run")
    return status == 0


def _tested(tree: Path, file: str) -> int:
    import pytest  # noqa: PLC0415 - loaded before, for all children

    os.chdir(tree)
    sys.path.insert(0, str(tree / "src"))
    sys.dont_write_bytecode = True
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    return int(pytest.main([*options, *TESTS[file], str(PACKAGE / file)]))


def limits(tree: Path, files: list[str]) -> dict[str, int]:
    """Return how many seconds the tests of each file may take; they must pass as the files are."""
    seconds: dict[tuple[str, ...], int] = {}
    for file in files:
        if tuple(TESTS[file]) not in seconds:
            begin = time.monotonic()
            if not survives(tree, file, (tree / PACKAGE / file).read_text(encoding="utf-8"), 3600):
                sys.exit(f"{' '.join(TESTS[file])} fail without any mutant")
            seconds[tuple(TESTS[file])] = int(30 + 5 * (time.monotonic() - begin))
    return {file: seconds[tuple(TESTS[file])] for file in files}


def copied(folder: Path) -> Path:
    """Return a folder into which all that tests need has been copied."""
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def main() -> None:
    """Try mutants and print those that live, then the share killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", default=list(TESTS), help=f"of {', '.join(TESTS)}", metavar="FILE"
    )
    parser.add_argument("--sample", type=int, default=200, help="how many mutants to try; 0 means all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after this long")
    wanted = parser.parse_args()
    population = [mutant for file in wanted.files for mutant in mutants(file)]
    random.Random(wanted.seed).shuffle(population)  # noqa: S311 - a sample, not a secret
    for module in PRELOADED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as name:
        tree = copied(Path(name))
        allowed, end = limits(tree, wanted.files), time.monotonic() + 60 * wanted.minutes
        tried = killed = 0
        for mutant in population[: wanted.sample or None]:
            if time.monotonic() > end:
                break
            alive = survives(tree, mutant.file, mutant.source, allowed[mutant.file])
            tried, killed = tried + 1, killed + (not alive)
            if alive:
                print(f"survived  {mutant}", flush=True)
    print(f"{killed} of {tried} mutants killed, of {len(population)} in all")


if __name__ == "__main__":
    main()
