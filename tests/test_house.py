"""The house as CONTRIBUTING.md draws it: its size, its reading order, and one name for one thing.

``python tools/house.py`` prints the same figures.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import house as tool  # noqa: E402 - a script beside the package

LIMITS = {
    "entries at the top level": 16,
    "lines of Python under src": 30_300,
    "isinstance checks on method classes outside methods": 10,
    "modules in the longest chain of imports": 15,
    "constants with a second value": 0,
}
MODULES_OF_A_FIT = 38
LEAST_COMMENTS = 0.03  # of all lines


@pytest.fixture(scope="module")
def house():
    return tool.House()


def places():
    """Return the place of every module in the reading order; a package comes after its files."""
    order = {}
    files = tool.reading_order()
    for package in tool.layers():
        for file in files.get(package, []):
            order[f"stoptime.{package}.{file.replace('/', '.')}"] = len(order)
        order[f"stoptime.{package}"] = len(order)
    return order


def figures(house):
    return {
        "entries at the top level": len(house.entries),
        "lines of Python under src": house.lines,
        "isinstance checks on method classes outside methods": len(house.method_checks()),
        "modules in the longest chain of imports": len(house.longest_chain()),
        "constants with a second value": len(house.repeated_constants()),
    }


@pytest.mark.parametrize("figure", LIMITS)
def test_the_house_stays_within_its_limits(house, figure):
    assert figures(house)[figure] <= LIMITS[figure]


def test_imports_form_no_cycle_deferred_ones_included(house):
    chain = house.longest_chain()  # raises where there is a cycle
    assert len(set(chain)) == len(chain) > 1


def test_every_module_is_listed_in_reading_order(house):
    tops = {"stoptime", "stoptime.__main__"}
    packages = {f"stoptime.{one}" for one in ("spectrum.krylov", "spectrum.streamed")}
    assert set(house.trees) - tops - packages == set(places()) | {
        name for name in house.trees if name.startswith("stoptime.show.") and name.count(".") == 2
    }


def test_a_module_imports_only_modules_above_it(house):
    order = places()
    wrong = [
        f"{module} imports {one}"
        for module, imported in house.imports.items()
        for one in imported
        if order.get(one, -1) > order.get(module, len(order))
    ]
    assert wrong == []


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


def test_the_picture_shows_the_house_as_it_is(house):
    walk = tool.walk_of_a_fit()
    assert len(walk) <= MODULES_OF_A_FIT
    drawn = tool.picture(house, walk)
    assert tool.PICTURE.read_text(encoding="utf-8") == drawn, "python tools/house.py --draw"
