"""The structure of the source: its reading order in CONTRIBUTING.md, and one name for one thing."""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import house as tool  # noqa: E402 - a script beside the package

from stoptime.methods.base import Filter, Method  # noqa: E402
from stoptime.methods.recurrence import Iteration  # noqa: E402

MODULES_OF_A_FIT = 33  # the aim is 22
LEAST_COMMENTS = 0.03  # of all lines
LATER_TYPES = {
    "stopping.grid": {"stopping.problem"},
    "stopping.rule": {"stopping.problem"},
}
"""Known imports under TYPE_CHECKING from a later module; the list may only become shorter."""
DRAWS = "stoptime.show.plots"
"""Functions that draw a result import it when they are called: the one import upwards."""


@pytest.fixture(scope="module")
def house():
    return tool.House()


def places():
    """Return the place of every module in the reading order; a package comes after its files."""
    order = {}
    files = tool.reading_order()
    for package in tool.packages():
        for file in files.get(package, []):
            order[f"stoptime.{package}.{file.replace('/', '.')}"] = len(order)
        order[f"stoptime.{package}"] = len(order)
    return order


def test_imports_form_no_cycle_deferred_ones_included(house):
    graph = {
        module: imported - {DRAWS, *(f"stoptime.{one}" for one in LATER_TYPES.get(module[9:], ()))}
        for module, imported in house.imports.items()
    }
    TopologicalSorter(graph).prepare()  # raises where there is a cycle


def test_every_module_is_listed_in_reading_order(house):
    tops = {"stoptime", "stoptime.__main__"}
    assert set(house.trees) - tops == set(places()) | {
        name for name in house.trees if name.startswith("stoptime.show.") and name.count(".") == 2
    }


def test_a_module_imports_only_modules_above_it(house):
    order = places()
    later = {
        module[9:]: {one[9:] for one in imported - {DRAWS} if order.get(one, -1) > order[module]}
        for module, imported in house.imports.items()
        if module in order
    }
    assert {module: found for module, found in later.items() if found} == LATER_TYPES


def test_only_functions_that_draw_import_the_figures_from_below(house):
    order = places()
    users = {name for name, found in house.imports.items() if DRAWS in found and name in order}
    for module in {name for name in users if order[name] < order[DRAWS]}:
        whole, drawing = house.trees[module], []
        for node in ast.walk(whole):
            if isinstance(node, ast.FunctionDef) and node.name.startswith(("plot", "draw")):
                drawing += list(ast.walk(node))
        found = {id(one) for one in house.importing(ast.walk(whole), DRAWS)}
        assert found == {id(one) for one in house.importing(drawing, DRAWS)}, module


def test_support_knows_no_other_package_in_types_neither(house):
    support = {name: found for name, found in house.imports.items() if ".support" in name}
    assert {one for found in support.values() for one in found if ".support" not in one} == set()


def test_imports_of_a_later_module_are_of_types_alone(house):
    known = {(one, other) for one, found in LATER_TYPES.items() for other in found}
    ran = {(one[9:], other[9:]) for one, found in house.imports_that_run.items() for other in found}
    assert known & ran == set()


def test_a_default_fit_enters_few_modules():
    assert len(tool.walk_of_a_fit()) <= MODULES_OF_A_FIT


@pytest.mark.parametrize(("cls", "most"), [(Method, 12), (Filter, 15), (Iteration, 15)])
def test_a_method_is_small_enough_to_hold(cls, most):
    own = set(vars(cls)) | set(cls.__annotations__)
    new = {name for name in own if not name.startswith(("__", "_abc"))}
    assert len(new - {name for base in cls.__mro__[1:] for name in vars(base)}) <= most


def test_a_constant_has_one_value(house):
    assert set(house.repeated_constants()) == set()


def test_tests_are_in_the_folders_of_what_they_test(house):
    folders = {path.parent.relative_to(house.root).as_posix() for path in house.files}
    own = {"soak", "reference", "typing", "show/explorer"}
    tested = {
        path.parent.relative_to(ROOT / "tests").as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
    }
    assert tested - folders - own == set()


def test_comments_say_why(house):
    lines = [line.strip() for path in house.files for line in path.read_text().splitlines()]
    assert sum(line.startswith("#") or "  # " in line for line in lines) >= LEAST_COMMENTS * len(
        lines
    )


def test_no_function_hides_a_module(house):
    import stoptime

    hidden = [name for name in stoptime.__all__ if f"stoptime.{name}" in house.trees]
    assert [name for name in hidden if not hasattr(getattr(stoptime, name), "__path__")] == []
