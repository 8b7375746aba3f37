"""The reading order of the package: CONTRIBUTING.md lists every file, and none knows one further down."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "stoptime"


def layers():
    """Return the place of every file and folder in the list."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]*`) \|", text, flags=re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(\w+)(?:\.py|/)`", cell)]
    return {name: place for place, name in enumerate(names)}


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def known(path):
    """Yield the parts of the package that a file imports as it is loaded."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module == "stoptime":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stoptime."):
            yield node.module.split(".")[1]


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not part_of(path).startswith("__")]


def test_every_file_is_listed():
    assert {part_of(path) for path in FILES} == set(layers())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_file_knows_only_files_above_it(path):
    places, own = layers(), part_of(path)
    assert [name for name in known(path) if places.get(name, -1) > places[own]] == []
