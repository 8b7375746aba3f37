"""The structure of the source: which file imports which, how deep that goes, what is said twice.

``tests/test_house.py`` uses it, and ``python tools/house.py`` prints it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stoptime"


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
        """Files and folders at the top level; a stub is part of its module."""
        return sorted({path.stem for path in self.root.iterdir() if path.name != "__pycache__"})

    @property
    def lines(self) -> int:
        """Lines of Python, comments included."""
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in self.files)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """What every module imports of the package, deferred imports and those of types included.

        Those of types stand under ``TYPE_CHECKING`` and never run.
        """
        return {name: self._imported(ast.walk(tree)) for name, tree in self.trees.items()}

    @cached_property
    def imports_that_run(self) -> dict[str, set[str]]:
        """The same without imports of types."""
        return {name: self._imported(_run(tree)) for name, tree in self.trees.items()}

    def _imported(self, nodes: Iterable[ast.AST]) -> set[str]:
        found: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stoptime":
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in self.trees else str(node.module))
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if alias.name in self.trees}
        return found

    def importing(self, nodes: Iterable[ast.AST], module: str) -> list[ast.AST]:
        """Return those of the nodes that import a module of the package."""
        return [node for node in nodes if module in self._imported([node])]

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


def walk_of_a_fit() -> list[str]:
    """Return the modules that a default fit enters, each once, in the order of the first entry."""
    import numpy as np  # noqa: PLC0415 - the figures of the source need none of this
    from sklearn.datasets import load_diabetes  # noqa: PLC0415

    import stoptime as st  # noqa: PLC0415

    X, y = load_diabetes(return_X_y=True)
    st.StoppedRegressorCV().fit(X, y)  # once before: caches and lazy imports are not the walk
    entered: dict[str, None] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        # expressions of classes and comprehensions are not calls that a reader follows
        if event == "call" and name.startswith("stoptime.") and frame.f_code.co_name[0] != "<":
            entered[name] = None

    sys.setprofile(profile)
    try:
        st.StoppedRegressorCV().fit(np.array(X), y)
    finally:
        sys.setprofile(None)
    return list(entered)


def packages() -> list[str]:
    """Return the packages, and the files at the top level, in reading order by CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)(?:/|\.py)` \|", text, flags=re.MULTILINE)


def reading_order() -> dict[str, list[str]]:
    """Return the files of every package in reading order, as CONTRIBUTING.md lists them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| [^|]* \| ([^|]*) \|", text, flags=re.MULTILINE)
    return {package: re.findall(r"`([\w/]+)`", files) for package, files in rows}


def main() -> None:
    """Print the figures of the source, and the modules that a default fit enters."""
    house = House()
    print(f"{len(house.entries)} entries at the top, {len(house.files)} files, {house.lines} lines")
    print(f"constants named twice: {', '.join(sorted(house.repeated_constants())) or 'none'}")
    walk = walk_of_a_fit()
    print(f"a default fit enters {len(walk)} modules: {', '.join(walk)}")


if __name__ == "__main__":
    main()
