"""All changes of one place in a file of the package, for ``tools/mutants.py``."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "stoptime"
Place = ast.expr | ast.stmt
T = TypeVar("T", bound=ast.AST)
ORDERINGS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
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
    """One change in one file."""

    file: str
    number: int
    line: int
    change: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.described}"

    @property
    def function(self) -> str:
        """The changed function or method; empty for code that runs when the module is imported."""
        return functions(self.file).get(self.line, "")

    @property
    def described(self) -> str:
        """The place and the change, in words that do not depend on the rest of the file."""
        return f"{self.function or 'module'}: {self.change}"

    def lot(self, seed: int) -> str:
        """Return a random key for drawing samples; it does not depend on other mutants."""
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


def parsed(file: str) -> ast.Module:
    """Return the syntax tree of a file of the package."""
    return ast.parse((ROOT / PACKAGE / file).read_text(encoding="utf-8"))


def every_change(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Place, Place]]:
    """Yield every place that can be changed, with its parent and its replacement."""
    for parent, name, index, node in places(tree):
        for changed in changes(node):
            if ast.unparse(changed) != ast.unparse(node):  # unlike 1e150 and 1e150 + 1
                yield parent, name, index, node, changed


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Place]]:
    """Yield the nodes that may change: no annotations, decorators, strictness or error messages."""
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
