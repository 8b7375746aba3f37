"""The documentation quotes messages that are raised and names that are public."""

import ast
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest

import stoptime as st
from stoptime.show import plots

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "stoptime").rglob("*.py"))
VALUE = "..."


def templates(tree):
    """Yield every string of a module, with ``...`` where a value is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def begins(message, quote):
    """Tell whether a message begins as quoted; ``...`` may stand for more than one value."""
    pattern = ".*?".join(re.escape(part) for part in quote.split(VALUE))
    return re.match(pattern, message, flags=re.DOTALL) is not None


def test_the_faq_quotes_messages_that_are_raised():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES]
    messages = {text for tree in trees for text in templates(tree)}
    text = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    quotes = re.findall(r"^### `(.*)`$", text, flags=re.MULTILINE)
    assert len(quotes) > 15
    invented = "X is too blue: ..."
    unknown = [
        quote
        for quote in [*quotes, invented]
        if not any(begins(message, quote) for message in messages)
    ]
    assert unknown == [invented]


def test_the_reference_shows_every_public_name():
    """Documented by its own name, or as a member of a module that is documented whole."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = set(
        re.findall(
            r"(?:auto(?:class|function|exception)|py:data):: stoptime\.(\w+)$",
            text,
            flags=re.MULTILINE,
        )
    )
    modules = set(re.findall(r"automodule:: (\S+)$", text, flags=re.MULTILINE))
    missing = {
        name
        for name in st.__all__
        if name not in shown
        and getattr(getattr(st, name), "__module__", None) not in modules
        and getattr(getattr(st, name), "__name__", None) not in modules
    }
    assert missing == set()
    every = re.findall(r"auto(?:class|function|exception|module|data):: (\S+)$", text, re.MULTILINE)
    assert len(every) == len(set(every))
    for name in every:
        assert pydoc.locate(name) is not None, name


def luminance(color):
    rgb = np.asarray(color[:3])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    """Return the contrast of two colours as accessibility guidelines define it, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_dark_figures_can_be_read():
    figure, ax = plots.new_figure()
    lines = [
        ax.plot([1, 2], [1, k], color=color, label=name)[0]
        for k, (name, color) in enumerate(plots.COLORS.items())
    ]
    ax.fill_between([1, 2], 1, 2, color="0.9")
    picture = ax.imshow(np.zeros((2, 2)))
    before = picture.get_cmap()(0.3)
    ax.set(title="title", xlabel="x", ylabel="y")
    legend = ax.legend()
    plots.darken(figure)
    page = ax.patch.get_facecolor()
    assert luminance(page) < 0.01
    texts = [ax.title, ax.xaxis.label, *ax.get_xticklabels(), *legend.get_texts()]
    assert min(contrast(text.get_color(), page) for text in texts) > 10
    assert min(contrast(line.get_color(), page) for line in lines) > 4
    assert picture.get_cmap()(0.3) == before


# what only Sphinx reads: the two tables of contents
CONTENTS = {"index.md", "text.md"}
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in CONTENTS]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_pages_read_as_plain_markdown(page):
    text = page.read_text(encoding="utf-8")
    raw = r"\[\]\([^)]*\)|\{[a-z:]+\}`[^`]*`|^:::.*|^```\{.*"
    assert re.findall(raw, text, flags=re.MULTILINE) == []
    # figures are drawn when the site is built
    links = re.findall(r"\]\((?!https?:|#|figures/)([^)#]+)", text)
    assert [one for one in links if not (page.parent / one).exists()] == []


def test_the_glossary_explains_the_words_of_the_pages():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    words = {"filter", "spectrum", "flow", "friction", "degrees of freedom", "Bayes risk", "stop"}
    assert {*words, "leave-one-out", "path GCV", "penalty", "rule", "classification"} <= set(terms)
    assert len(terms) == len(set(terms))
    pages = " ".join(
        path.read_text(encoding="utf-8")
        for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        if path.stem != "glossary"
    )
    assert [term for term in terms if term[:8].lower() not in pages.lower()] == []
