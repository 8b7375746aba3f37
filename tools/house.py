"""The structure of the source: which file imports which, how deep that goes, what is said twice.

``tests/test_house.py`` holds these figures to their limits. ``python tools/house.py --draw`` draws
the picture at the top of CONTRIBUTING.md, which the same test compares with the source.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stoptime"
PICTURE = ROOT / "docs" / "_static" / "house.svg"
LEFT = 150  # of the boxes, beside room for the arrows
TOP = 40
HEIGHT = 50  # of a row
STEP = 30  # between the steps of the walk
MOST_LETTERS = 54  # in a box

METHOD_CLASSES = {
    "Method",
    "Iteration",
    "Ridge",
    "GradientFlow",
    "AcceleratedFlow",
    "HeavyBallFlow",
    "HighResolutionFlow",
    "HighResolutionAcceleratedFlow",
    "GradientDescent",
    "Nesterov",
    "HeavyBall",
    "NuMethod",
    "SGD",
    "Decayed",
    "Averaged",
    "ConjugateGradient",
    "CriticalFlow",
    "IteratedRidge",
    "Butterworth",
    "SpectralCutoff",
    "Adaptive",
    "Adam",
    "AdamW",
    "RMSProp",
    "AdaGrad",
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
        """Files and folders at the top level; a stub is part of its module."""
        return sorted({path.stem for path in self.root.iterdir() if path.name != "__pycache__"})

    @property
    def lines(self) -> int:
        """Lines of Python, comments included."""
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in self.files)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """What every module imports of the package, deferred imports included, types not."""
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


def layers() -> dict[str, str]:
    """Return what every package is for, in reading order, as CONTRIBUTING.md says it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \| ([^|]*) \|", text, flags=re.MULTILINE)
    return dict(rows)


def reading_order() -> dict[str, list[str]]:
    """Return the files of every package in reading order, as CONTRIBUTING.md lists them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| [^|]* \| ([^|]*) \|", text, flags=re.MULTILINE)
    return {package: re.findall(r"`([\w/]+)`", files) for package, files in rows}


def package_of(module: str) -> str:
    """Return the package, or the file at the top level, that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def arrows(house: House) -> list[tuple[str, str]]:
    """Return which package imports which, without those that follow from others."""
    direct: dict[str, set[str]] = defaultdict(set)
    for module, imported in house.imports.items():
        for other in imported:
            pair = package_of(module), package_of(other)
            if pair[0] != pair[1] and "stoptime" not in pair and not pair[0].startswith("__"):
                direct[pair[0]].add(pair[1])

    def below(package: str) -> set[str]:
        return direct[package].union(*(below(one) for one in direct[package]))

    return sorted(
        (package, one)
        for package in [*direct]
        for one in direct[package]
        if not any(one in below(other) for other in direct[package] - {one})
    )


def picture(house: House, walk: list[str]) -> str:
    """Return the packages in reading order, their imports and the walk of a fit, as SVG."""
    order = layers()
    row = {package: TOP + HEIGHT * place for place, package in enumerate(order)}
    steps = [module for module in walk if package_of(module) in row]
    width = LEFT + 340 + STEP * (len(steps) + 1)
    legend = TOP + HEIGHT * len(order) + 30
    lines = (len(steps) + 3) // 4
    bottom = legend + 20 * lines + 20
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom}"'
            ' font-family="sans-serif" font-size="13">'
        ),
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-weight="bold">Packages, and which imports which</text>',
        (
            f'<text x="{LEFT + 340}" y="24" font-weight="bold">The walk of a default fit, by '
            f"module ({len(steps)})</text>"
        ),
        *_boxes(order, row),
        *_arrows(house, row),
        *_line(steps, row),
    ]
    for place, module in enumerate(steps):
        x = LEFT + (width - LEFT - 20) / 4 * (place // lines)
        y = legend + 20 * (place % lines)
        name = module.removeprefix("stoptime.")
        parts.append(f'<text x="{x:g}" y="{y:g}" font-size="12">{place + 1}  {name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _boxes(order: dict[str, str], row: dict[str, int]) -> Iterator[str]:
    """Yield a box with its name and its purpose for each package."""
    for package, text in order.items():
        y = row[package]
        yield (
            f'<rect x="{LEFT}" y="{y}" width="320" height="{HEIGHT - 12}" rx="5" '
            'fill="#eef3f8" stroke="#6b8cae"/>'
        )
        yield f'<text x="{LEFT + 10}" y="{y + 16}" font-weight="bold">{package}</text>'
        yield f'<text x="{LEFT + 10}" y="{y + 32}" font-size="11">{shortened(text)}</text>'


def _arrows(house: House, row: dict[str, int]) -> Iterator[str]:
    """Yield an arrow for each import between packages, and the shape of its tip."""
    for place, (upper, lower) in enumerate(arrows(house)):
        if upper in row and lower in row:
            x = LEFT - 12 - 9 * (place % ((LEFT - 20) // 9))
            start = row[upper] + 14
            end = row[lower] + HEIGHT - 26
            yield (
                f'<path d="M{LEFT} {start} H{x} V{end} H{LEFT - 5}" fill="none" stroke="#8aa" '
                'marker-end="url(#tip)"/>'
            )
    yield (
        '<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L6 3 L0 6 z" fill="#8aa"/></marker></defs>'
    )


def _line(steps: list[str], row: dict[str, int]) -> Iterator[str]:
    """Yield the line of the walk, with a number for each module."""
    points = [
        (LEFT + 350 + STEP * (place + 0.5), row[package_of(module)] + HEIGHT / 2 - 6)
        for place, module in enumerate(steps)
    ]
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="#c2602e" stroke-width="1.5"/>'
    for place, (x, y) in enumerate(points, start=1):
        yield f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="#fff4ec" stroke="#c2602e"/>'
        yield f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" font-size="11">{place}</text>'


def shortened(text: str) -> str:
    """Return the beginning of a text that fits into a box."""
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 2].rsplit(" ", 1)[0] + " …"


def main() -> None:
    """Print the figures of the house, and draw it where that is asked for."""
    house = House()
    print(f"{len(house.entries)} entries at the top, {len(house.files)} files, {house.lines} lines")
    print(f"{len(house.method_checks())} checks of method classes outside methods/")
    print(f"constants named twice: {', '.join(sorted(house.repeated_constants())) or 'none'}")
    chain = house.longest_chain()
    print(f"longest chain, {len(chain)} modules: {' -> '.join(chain)}")
    if "--draw" in sys.argv:
        PICTURE.write_text(picture(house, walk_of_a_fit()), encoding="utf-8")
        print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
