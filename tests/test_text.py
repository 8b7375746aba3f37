"""The theory as one text: its numbers come from the code, its tests and references exist."""

import doctest
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# The constants of the literature as it rounds them, and erratum 7, which has a test of its own.
QUOTED = {"1.0786", "1.2147", "1.5991", "1.5992"}
PARTS = ["Statement", "Proof", "Number", "Test"]
UNPROVEN = ["Heuristic", "Reason", "Number", "Test"]
MOST_DIGITS = 4  # of a number that is typed by hand, such as 0.1 % or a parameter


sys.path.insert(0, str(ROOT / "tools"))

import constants  # noqa: E402 - a script beside the package


def manifest():
    """The pages of the text, from its table of contents."""
    contents = (DOCS / "text.md").read_text(encoding="utf-8").split("```{toctree}")[1]
    return re.findall(r"^(\w+)$", contents, flags=re.MULTILINE)


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


CHAPTERS = [name for name in manifest() if name != "references"]
PROVEN = [name for name in CHAPTERS if name != "theorems"]  # which is a list of all the others


def typed_by_hand(text):
    """The numbers with a decimal point and many digits that no code has printed."""
    text = constants.TABLE.sub("", constants.NUMBER.sub("", text))
    for generated in (r"```.*?```", r"`[^`]*`", r"\]\([^)]*\)", r"arXiv.\d{4}\.\d{5}"):
        text = re.sub(generated, "", text, flags=re.DOTALL)
    numbers = re.findall(r"\d+\.\d+", text)
    return [n for n in numbers if len(n.replace(".", "").lstrip("0")) > MOST_DIGITS]


@pytest.mark.parametrize("name", CHAPTERS)
def test_numbers_with_many_digits_come_from_the_code(name):
    assert set(typed_by_hand(page(name))) <= QUOTED, (
        "Write NUMBER<!-- EXPRESSION up DIGITS -->, and let tools/constants.py compute the number."
    )


def test_a_number_that_is_typed_by_hand_is_seen():
    assert typed_by_hand("at most 1.59911, and $0.14061$ or 0.0891") == ["1.59911", "0.14061"]
    generated = "```\n1.59911\n``` 1.59911<!-- f(1.59911) up 6 --> [arXiv:2201.08311](b/1.59911)"
    assert typed_by_hand(generated) == []
    assert typed_by_hand("$$\nC = 1.59911\n$$") == ["1.59911"]


# Proofs that take a second or more are compared by ``make docs`` and ``make soak``.
SLOW = (
    "condition_number", "HeavyBall(", "drawn(", "adaptive=True", "Nesterov(",
    "ratio_to_ridge(",
)  # fmt: skip


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_numbers_of_a_page_are_those_of_the_code(name):
    pytest.importorskip("flint")
    found = constants.quantities_of(page(name))
    if "STOPTIME_SOAK" not in os.environ:
        found = [one for one in found if not any(word in one[1] for word in SLOW)]
    for printed, quantity in found:
        assert constants.agree(printed, constants.shown(quantity)), quantity


@pytest.mark.parametrize(
    ("quantity", "digits"),
    [
        ("2 / 3 up 3", "0.667"),
        ("2 / 3 down 3", "0.666"),
        ("2 / 3 to 2", "0.67"),
        ("Enclosure(1.2341, 1.2359, stop=1.0) up 4", "1.236"),
        ("Enclosure(1.2341, 1.2359, stop=1.0) down 4", "1.234"),
        ("Enclosure(1.2341, 1.2359, stop=1.0) enclosed 3", "[1.23, 1.24]"),
        ("-2 / 3 up 3", "-0.666"),
    ],
)
def test_quantities_are_rounded_as_they_say(quantity, digits):
    assert constants.shown(quantity) == digits


def test_numbers_and_tables_are_written_into_a_page():
    text = """At most 0<!-- 2 / 3 up 3 -->,
in [0, 0]<!-- Enclosure(1.01, 1.02, stop=1) enclosed 2 -->.

<!-- table $r, q$ over r, q in (2, 'a'), (3.5, None)
$r$ times := r * 10 up 3
kept := round(r, ndigits=1) to 2
-->

| old |
"""
    new = constants.written(text)
    assert "At most 0.667<!-- 2 / 3 up 3 -->,\nin [1.0, 1.1]<!--" in new
    table = new.split("-->\n\n")[1]
    assert table.splitlines() == [
        "| $r, q$ | 2, a | 3.5, any |",
        "| --- | --- | --- |",
        "| $r$ times | 20 | 35 |",
        "| kept | 2 | 3.5 |",
    ]
    assert constants.written(new) == new
    assert ("35", "3.5 * 10 up 3") in constants.quantities_of(new)


def test_the_examples_of_the_script_run():
    pytest.importorskip("flint")
    result = doctest.testmod(constants, optionflags=doctest.ELLIPSIS)
    assert result.attempted >= 3
    assert result.failed == 0


@pytest.mark.parametrize("name", PROVEN)
def test_every_statement_has_its_four_parts(name):
    kinds = "|".join({*PARTS, *UNPROVEN})
    parts = re.findall(rf"^\*\*({kinds})\.\*\*", page(name), flags=re.MULTILINE)
    groups = [parts[i : i + 4] for i in range(0, len(parts), 4)]
    assert groups
    assert all(group in (PARTS, UNPROVEN) for group in groups)


@pytest.mark.parametrize("name", PROVEN)
def test_tests_that_are_named_exist(name):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page(name))
    assert named
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_the_observations_of_the_paper_name_tests_that_exist():
    named = re.findall(r"`(test_\w+?)`", page("paper"))
    assert len(named) > 5
    text = (ROOT / "tests" / "paper" / "test_paper.py").read_text(encoding="utf-8")
    assert [test for test in named if f"def {test}" not in text] == []


def cited(text):
    """First author and year of every work that a page names."""
    family = r"[A-Z][\wéèß'’-]+"
    authors = rf"({family})(?:, {family})*(?:,? and {family})? \(?((?:19|20)\d\d)\)?"
    return {(match[1], match[2]) for match in re.finditer(authors, " ".join(text.split()))}


def references():
    """First author and year of every work in the references."""
    entries = re.findall(r"^- (.*?) \((\d{4})\)\.", page("references"), flags=re.MULTILINE)
    return [(re.split(", | and ", authors)[0].split()[-1], year) for authors, year in entries]


@pytest.mark.parametrize("name", [*CHAPTERS, "text"])
def test_works_that_are_named_are_in_the_references(name):
    unknown = cited(page(name)) - set(references())
    assert {work for work in unknown if work[0] not in {"With", "AISTATS"}} == set()


def test_every_reference_is_named_in_the_text():
    named = set().union(*(cited(page(name)) for name in [*CHAPTERS, "text"]))
    assert set(references()) <= named


def test_a_work_that_is_not_in_the_references_is_seen():
    assert cited("of Paquette,\n  Lee and Paquette (2021), Polyak 1964") == {
        ("Paquette", "2021"),
        ("Polyak", "1964"),
    }


def test_references_are_sorted_by_the_first_author():
    families = [family for family, _ in references()]
    assert len(families) == page("references").count("\n- ") > 20
    assert families == sorted(families)


def test_the_list_of_theorems_is_numbered_and_leads_to_sections_that_exist():
    text = page("theorems")
    numbers = [int(found) for found in re.findall(r"^(\d+)\. \(", text, flags=re.MULTILINE)]
    assert numbers == list(range(1, 14))
    for name, anchor in re.findall(r"\]\((\w+)\.md(?:#([\w-]+))?\)", text):
        titles = re.findall(r"^#+ (.+)$", page(name), flags=re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in slugs, f"{name}.md#{anchor}"
