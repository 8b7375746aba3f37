"""Links the first use of each word of the glossary on a page to the glossary."""

import re
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
# phrases in which a word of the glossary has another sense, or is a part of another term
OTHER_SENSES = re.compile(
    r"with\s+3\s+degrees\s+of\s+freedom|degrees\s+of\s+freedom\s+and\s+with\s+mean"
    r"|(?:such\s+a|most\s+of\s+the)\s+gain|stopping\s+gains|path\s+GCV|Bayes\s+risk"
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
        left = dict(self.app.first_uses)
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if _is_link(paragraph):
                continue
            children: list[nodes.Node] = []
            # the lines of a text are nodes of their own, and a term may begin in one of them
            for kind, group in groupby(paragraph.children, type):
                run = list(group)
                children += self._linked("".join(run), left) if kind is nodes.Text else run
            paragraph[:] = children

    def _linked(self, text: str, left: dict[str, re.Pattern[str]]) -> Any:
        """Yield the text in pieces, with a reference for each term that is still left."""
        while matches := {term: found for term in left if (found := _first(left[term], text))}:
            # of terms that start at the same place, such as path and path GCV, the longer one
            term = min(matches, key=lambda one: (matches[one].start(), -matches[one].end()))
            match = matches[term]
            del left[term]
            yield nodes.Text(text[: match.start()])
            page = self.app.builder.get_relative_uri(self.env.docname, GLOSSARY)
            word = nodes.inline("", match[0], classes=["term"])
            yield nodes.reference("", "", word, refuri=f"{page}#{term.lower().replace(' ', '-')}")
            text = text[match.end() :]
        yield nodes.Text(text)


def _first(word: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first use of a word in the sense of the glossary, and not as part of a phrase."""
    others = [phrase.span() for phrase in OTHER_SENSES.finditer(text)]
    return next((use for use in word.finditer(text) if not _is_part(use.span(), others)), None)


def _is_part(span: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    """Tell whether a span is a part, and not the whole, of another one."""
    return any(o != span and o[0] <= span[0] and span[1] <= o[1] for o in others)


def _is_link(paragraph: nodes.paragraph) -> bool:
    """Tell whether the paragraph is in a card, which is a link as a whole."""
    parent = paragraph.parent
    while parent is not None and not str(parent.get("design_component", "")).startswith("card"):
        parent = parent.parent
    return parent is not None


def read_terms(app: Sphinx) -> None:
    """Find the terms of the glossary, which are its headings."""
    source = app.srcdir / f"{GLOSSARY}.md"
    terms = re.findall(r"^## (.+)$", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    app.first_uses = {
        term: re.compile(rf"(?<![\w-])(?:{FORMS.get(term) or _plain_form(term)})(?![\w-])")
        for term in terms
    }


def _plain_form(term: str) -> str:
    """Return the pattern of a term, or of its plural, that may be broken between two lines."""
    return r"\s+".join(map(re.escape, term.split())) + "s?"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_transform(FirstUses)
    app.connect("builder-inited", read_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
