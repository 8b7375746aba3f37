"""Small corrections of the pages: ends of code blocks, links, and colons."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

import stoptime as st

FOREIGN_LINK = re.compile(r":ref:`([^<`]*?)\s*<\w+>`")
EXAMPLE = re.compile(r"\]\(\.\./examples(?:/(\w+)\.py)?\)")
TYPE = re.compile(r"\(\*(.+?)\*\) -- ")
COLON = "\N{RATIO}"  # in place of a colon, until Napoleon has read the docstring
CLASSES = "|".join(name for name in st.__all__ if isinstance(getattr(st, name), type))


class CodeEnds(SphinxTransform):
    """Drop the empty line at the end of code blocks, which doctest needs and readers do not."""

    default_priority = 300

    def apply(self, **_: Any) -> None:
        """Strip the end of every block."""
        for block in self.document.findall(nodes.literal_block):
            if block.children and block.astext().endswith("\n"):
                block.rawsource = block.astext().rstrip("\n")  # the text that is highlighted
                block.children = [nodes.Text(block.rawsource)]


class ShapesAreNoClasses(SphinxTransform):
    """Remove links from words in types, such as "array of shape (n, n_features)"."""

    default_priority = 300

    def apply(self, **_: Any) -> None:
        """Replace references to lower-case words by the words."""
        for reference in list(self.document.findall(addnodes.pending_xref)):
            target = reference.get("reftarget", "")
            if reference.get("reftype") == "class" and target.islower() and "." not in target:
                reference.replace_self(reference.children)


def lead_to_the_gallery(_app: Any, _page: str, source: list[str]) -> None:
    """Lead from the name of an example, which is a file for readers of Markdown, to its page."""
    source[0] = EXAMPLE.sub(lambda found: f"](gallery/{found[1] or 'index'})", source[0])


def hide_colon(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: Any) -> None:
    """Keep Napoleon from reading what stands before a colon as the type of an attribute."""
    if what in {"attribute", "property"} and lines:
        lines[0] = lines[0].replace(": ", f"{COLON} ")


def show_colon(*arguments: Any) -> None:
    """Put the colons back."""
    lines = arguments[-1]
    lines[:] = [line.replace(COLON, ":") for line in lines]


def without_foreign_links(*arguments: Any) -> None:
    """Keep the words alone of links in inherited docstrings, whose pages are not here."""
    lines = arguments[-1]
    lines[:] = [TYPE.sub(_with_links, FOREIGN_LINK.sub(r"\1", line)) for line in lines]


def _with_links(found: re.Match[str]) -> str:
    """Return the type of a parameter with links to the classes that it names."""
    words, *rest = re.split(rf"\b({CLASSES})\b", found[1])
    text = _italic(words)
    for name, words in zip(rest[::2], rest[1::2], strict=True):
        # an escaped space shows nothing, and separates a role from what is next to it
        text += rf"\ :class:`~stoptime.{name}`\ {_italic(words)}"
    return f"({text}) -- "


def _italic(words: str) -> str:
    bare = words.strip()
    return words.replace(bare, f"*{bare}*") if bare else words


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_transform(CodeEnds)
    app.add_transform(ShapesAreNoClasses)
    app.connect("source-read", lead_to_the_gallery)
    app.connect("autodoc-process-docstring", hide_colon, priority=100)  # before Napoleon
    app.connect("autodoc-process-docstring", show_colon, priority=900)
    app.connect("autodoc-process-docstring", without_foreign_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
