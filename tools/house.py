"""The house as the source has it: which file imports which, how deep that goes, and what is said twice.

``tests/test_house.py`` holds these figures to their limits.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stoptime"

METHOD_CLASSES = {
    "Method",
    "Iteration",
    "Ridge",
    "GradientFlow",
    "AcceleratedFlow",
    "HeavyBallFlow",
    "HighResolutionFlow",
    "GradientDescent",
    "Nesterov",
    "HeavyBall",
    "NuMethod",
    "ConjugateGradient",
}


@dataclass(frozen=True)
class House:
    """All Python files of the package, parsed."""

    root: Path = PACKAGE

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The syntax tree of every module, by its dotted name."""
        return {
            self._name(path): ast.parse(path.read_text(encoding="utf-8")) for path in self.files
        }

    @cached_property
    def files(self) -> list[Path]:
        """All Python files."""
        return sorted(self.root.rglob("*.py"))

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def entries(self) -> list[str]:
        """Files and folders at the top level."""
        return sorted(path.name for path in self.root.iterdir() if path.name != "__pycache__")

    @property
    def lines(self) -> int:
        """Lines of Python, comments included."""
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in self.files)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """What every module imports of the package, deferred imports included, types alone left out."""
        return {name: set(self._imported(name)) for name in self.trees}

    def _imported(self, name: str) -> Iterator[str]:
        for node in _run(self.trees[name]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stoptime":
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    yield full if full in self.trees else str(node.module)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.trees)

    def longest_chain(self) -> list[str]:
        """Return the longest chain of imports; a ValueError names a cycle."""
        found: dict[str, list[str]] = {}
        for name in self.imports:
            self._chain(name, found, [])
        return max(found.values(), key=len)

    def _chain(self, name: str, found: dict[str, list[str]], above: list[str]) -> list[str]:
        if name in above:
            raise ValueError(" -> ".join([*above[above.index(name) :], name]))
        if name not in found:
            chains = [self._chain(one, found, [*above, name]) for one in sorted(self.imports[name])]
            found[name] = [name, *max(chains, key=len, default=[])]
        return found[name]

    def method_checks(self) -> list[str]:
        """Return every ``isinstance`` check on a class of methods outside ``methods/``."""
        return [
            f"{name}: {ast.unparse(node)}"
            for name, tree in self.trees.items()
            if not name.startswith("stoptime.methods")
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
            and {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            & METHOD_CLASSES
        ]

    def repeated_constants(self) -> dict[str, list[str]]:
        """Return the names of module constants that are given a value in more than one file."""
        places = defaultdict(list)
        for name, tree in self.trees.items():
            for constant in _constants(tree):
                places[constant].append(name)
        return {constant: where for constant, where in places.items() if len(where) > 1}


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes that can ever run: not what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _run(node)


def _constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (one.id for one in names if isinstance(one, ast.Name) and one.id.isupper())


if __name__ == "__main__":
    house = House()
    print(f"{len(house.entries)} entries at the top, {len(house.files)} files, {house.lines} lines")
    print(f"{len(house.method_checks())} checks of method classes outside methods/")
    print(f"constants named twice: {', '.join(sorted(house.repeated_constants())) or 'none'}")
    chain = house.longest_chain()
    print(f"longest chain, {len(chain)} modules: {' -> '.join(chain)}")
