"""Links the first use of each word of the glossary on a page to the glossary."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

GLOSSARY = "glossary"
# the forms in which a word is used, where adding an s is not enough
FORMS = {
    "classification": "classification|classifiers?",
    "condition number": "condition numbers?|ill-conditioned",
    "degrees of freedom": r"degrees\s+of\s+freedom",
    "discrepancy principle": r"discrepancy(?:\s+principle)?",
    "flow": r"(?:gradient|accelerated|heavy-ball)\s+flow|flows?",
    "momentum": "momentum",
    "penalty": "penalt(?:y|ies)",
    "saturation": "saturation|saturates",
    "spectrum": "spectr(?:um|a)",
    "stop": r"stopping\s+times?|stops?",
}
# phrases in which a word of the glossary has another sense
OTHER_SENSES = (
    r"with\s+3\s+degrees\s+of\s+freedom|degrees\s+of\s+freedom\s+and\s+with\s+mean"
    r"|(?:such\s+a|most\s+of\s+the)\s+gain|stopping\s+gains"
)
# pages of code, where words are names, and the titles of other works
WITHOUT_LINKS = ("api", "gallery/", GLOSSARY, "references")


class FirstUses(SphinxTransform):
    """Turn first uses in running text into links to the headings of the glossary."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Look at the plain text of paragraphs, in reading order."""
        if self.app.builder.format != "html" or self.env.docname.startswith(WITHOUT_LINKS):
            return
        left = set(self.app.terms)
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if _is_link(paragraph):
                continue
            children: list[nodes.Node] = []
            # the lines of a text are nodes of their own, and a term may begin in one of them
            for kind, group in groupby(paragraph.children, type):
                run = list(group)
                children += self._linked("".join(run), left) if kind is nodes.Text else run
            paragraph[:] = children

    def _linked(self, text: str, left: set[str]) -> Iterator[nodes.Node]:
        """Yield the text in pieces, with a reference for each term that is still left."""
        page = self.app.builder.get_relative_uri(self.env.docname, GLOSSARY)
        end = 0
        for use in self.app.uses.finditer(text):
            # the group of a term, or none where a word has another sense
            term = use.lastindex and self.app.terms[use.lastindex - 1]
            if term in left:
                left.remove(term)
                yield nodes.Text(text[end : use.start()])
                word = nodes.inline("", use[0], classes=["term"])
                anchor = term.lower().replace(" ", "-")
                yield nodes.reference("", "", word, refuri=f"{page}#{anchor}")
                end = use.end()
        yield nodes.Text(text[end:])


def _is_link(paragraph: nodes.paragraph) -> bool:
    """Tell whether the paragraph is in a card, which is a link as a whole."""
    parent = paragraph.parent
    while parent is not None and not str(parent.get("design_component", "")).startswith("card"):
        parent = parent.parent
    return parent is not None


def read_terms(app: Sphinx) -> None:
    """Find the terms of the glossary, which are its headings, and one pattern for all uses."""
    source = app.srcdir / f"{GLOSSARY}.md"
    terms = re.findall(r"^## (.+)$", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    # of terms that start at the same place, such as path and path GCV, the longer one
    app.terms = sorted(terms, key=len, reverse=True)
    forms = (
        FORMS.get(term) or r"\s+".join(map(re.escape, term.split())) + "s?" for term in app.terms
    )
    alternatives = "|".join([OTHER_SENSES, *(f"({form})" for form in forms)])
    app.uses = re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_transform(FirstUses)
    app.connect("builder-inited", read_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
