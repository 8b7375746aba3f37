"""The structure of the source: its reading order in CONTRIBUTING.md, and one name for one thing."""

import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import house as tool  # noqa: E402 - a script beside the package

MODULES_OF_A_FIT = 34  # the aim is 22
METHOD_CHECKS = 10
LEAST_COMMENTS = 0.03  # of all lines
LATER_TYPES = {
    "methods.flows": {"methods.iterations"},
    "methods.high_resolution": {"methods.iterations"},
    "spectrum.accuracy": {"spectrum.dense"},
    "spectrum.data": {"paths"},
    "spectrum.factorise": {"spectrum.dense"},
    "spectrum.krylov.spaces": {"spectrum.krylov.operator"},
    "spectrum.streamed.data": {"paths"},
    "spectrum.streamed.gram": {"spectrum.penalised", "spectrum.streamed.statistics"},
    "stopping.grid": {"stopping.problem"},
    "stopping.rule": {"stopping.problem"},
    "support.plots": {
        "methods.base",
        "paths",
        "stopping.rule",
        "theory.learning",
        "theory.risk",
        "theory.stochastic",
    },
    "support.wording": {"methods.base"},
}
"""Known imports under TYPE_CHECKING from a later module; the list may only become shorter."""


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
        module: imported - {f"stoptime.{one}" for one in LATER_TYPES.get(module[9:], ())}
        for module, imported in house.imports.items()
    }
    TopologicalSorter(graph).prepare()  # raises where there is a cycle


def test_every_module_is_listed_in_reading_order(house):
    tops = {"stoptime", "stoptime.__main__"}
    packages = {f"stoptime.{one}" for one in ("spectrum.krylov", "spectrum.streamed")}
    assert set(house.trees) - tops - packages == set(places()) | {
        name for name in house.trees if name.startswith("stoptime.show.") and name.count(".") == 2
    }


def test_a_module_imports_only_modules_above_it(house):
    order = places()
    later = {
        module[9:]: {one[9:] for one in imported if order.get(one, -1) > order[module]}
        for module, imported in house.imports.items()
        if module in order
    }
    assert {module: found for module, found in later.items() if found} == LATER_TYPES


def test_imports_of_a_later_module_are_of_types_alone(house):
    known = {(one, other) for one, found in LATER_TYPES.items() for other in found}
    ran = {(one[9:], other[9:]) for one, found in house.imports_that_run.items() for other in found}
    assert known & ran == set()


def test_a_default_fit_enters_few_modules():
    assert len(tool.walk_of_a_fit()) <= MODULES_OF_A_FIT


def test_methods_are_asked_what_they_can_do_and_not_for_their_class(house):
    assert len(house.method_checks()) <= METHOD_CHECKS


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
