"""The structure of the source: its reading order in CONTRIBUTING.md, and one name for one thing.

``python tests/test_house.py`` prints the modules that a default fit enters.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import stoptime as st

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stoptime"
MODULES_OF_A_FIT = 34  # the aim is 22
LEAST_COMMENTS = 0.03  # of all lines
LATER_TYPES = {
    "stopping.grid": {"stopping.problem"},
    "stopping.rule": {"stopping.problem"},
}
"""Known imports under TYPE_CHECKING from a later module; the list may only become shorter."""
DRAWS = "stoptime.show.plots"
"""Functions that draw a result import it when they are called: the one import upwards."""


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def imported(nodes):
    """Return the modules of the package that some nodes import."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stoptime":
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in TREES else node.module for name in whole}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in TREES}
    return found


def that_run(tree):
    """Yield all nodes that can ever run: not what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from that_run(node)


# deferred imports and those of types included
IMPORTS = {name: imported(ast.walk(tree)) for name, tree in TREES.items()}


def places():
    """Return the place of every module in the reading order; a package comes after its files."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    order = {}
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|[^|]*\|([^|]*)\|", text, flags=re.MULTILINE)
    for package, files in rows:
        for file in re.findall(r"`([\w/]+)`", files):
            order[f"stoptime.{package}.{file.replace('/', '.')}"] = len(order)
        order[f"stoptime.{package}"] = len(order)
    return order


ORDER = places()


def test_every_module_is_listed_in_reading_order():
    tops = {"stoptime", "stoptime.__main__"}
    shown = {name for name in TREES if name.startswith("stoptime.show.") and name.count(".") == 2}
    assert set(TREES) - tops == set(ORDER) | shown


def test_a_module_imports_only_modules_above_it():
    """Deferred imports and those of types included, so that there is no cycle."""
    later = {
        module[9:]: {one[9:] for one in found - {DRAWS} if ORDER.get(one, -1) > ORDER[module]}
        for module, found in IMPORTS.items()
        if module in ORDER
    }
    assert {module: found for module, found in later.items() if found} == LATER_TYPES


def test_imports_of_a_later_module_are_of_types_alone():
    for module, later in LATER_TYPES.items():
        ran = imported(that_run(TREES[f"stoptime.{module}"]))
        assert not ran & {f"stoptime.{one}" for one in later}


def test_only_functions_that_draw_import_the_figures_from_below():
    for module in {one for one in ORDER if ORDER[one] < ORDER[DRAWS] and DRAWS in IMPORTS[one]}:
        drawing = set()
        for node in ast.walk(TREES[module]):
            if isinstance(node, ast.FunctionDef) and node.name.startswith(("plot", "draw")):
                drawing |= set(ast.walk(node))
        assert DRAWS not in imported(set(ast.walk(TREES[module])) - drawing), module


def walk_of_a_fit():
    """Return the modules that a default fit enters, each once, in the order of the first entry."""
    X, y = load_diabetes(return_X_y=True)
    st.StoppedRegressorCV().fit(X, y)  # once before: caches and lazy imports are not the walk
    entered = {}

    def profile(frame, event, _):
        name = str(frame.f_globals.get("__name__", ""))
        # expressions of classes and comprehensions are not calls that a reader follows
        if event == "call" and name.startswith("stoptime.") and frame.f_code.co_name[0] != "<":
            entered[name] = None

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        st.StoppedRegressorCV().fit(np.array(X), y)
    finally:
        sys.setprofile(before)
    return list(entered)


def test_a_default_fit_enters_few_modules():
    assert len(walk_of_a_fit()) <= MODULES_OF_A_FIT


def test_a_constant_has_one_value():
    places = Counter()
    for tree in TREES.values():
        own = set()
        for node in tree.body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            nodes = [one for target in targets if target is not None for one in ast.walk(target)]
            own |= {one.id for one in nodes if isinstance(one, ast.Name) and one.id.isupper()}
        places.update(own)
    assert [name for name, count in places.items() if count > 1] == []


def test_tests_are_in_the_folders_of_what_they_test():
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in FILES}
    own = {"soak", "reference", "typing", "show/explorer"}
    tests = (ROOT / "tests").rglob("test_*.py")
    tested = {path.parent.relative_to(ROOT / "tests").as_posix() for path in tests}
    assert tested - folders - own == set()


def test_comments_say_why():
    lines = [line.strip() for path in FILES for line in path.read_text().splitlines()]
    comments = sum(line.startswith("#") or "  # " in line for line in lines)
    assert comments >= LEAST_COMMENTS * len(lines)


def test_no_function_hides_a_module():
    hidden = [name for name in st.__all__ if f"stoptime.{name}" in TREES]
    assert [name for name in hidden if not hasattr(getattr(st, name), "__path__")] == []


if __name__ == "__main__":
    print(*walk_of_a_fit(), sep="\n")  # noqa: T201
