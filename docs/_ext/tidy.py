"""Small things that would otherwise look wrong on every page."""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class CodeEnds(SphinxTransform):
    """Drop the empty line at the end of code that is run as a test, which needs it."""

    default_priority = 300

    def apply(self, **_: Any) -> None:
        """Strip the end of every block."""
        for block in self.document.findall(nodes.literal_block):
            if block.children and block.astext().endswith("\n"):
                block.rawsource = block.astext().rstrip("\n")  # what is highlighted
                block.children = [nodes.Text(block.rawsource)]


class ShapesAreNoClasses(SphinxTransform):
    """Keep words of a type, such as those of "array of shape (n, n_features)", from linking to attributes."""

    default_priority = 300

    def apply(self, **_: Any) -> None:
        """Replace references to lower-case words by the words."""
        for reference in list(self.document.findall(addnodes.pending_xref)):
            target = reference.get("reftarget", "")
            if reference.get("reftype") == "class" and target.islower() and "." not in target:
                reference.replace_self(reference.children)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_transform(CodeEnds)
    app.add_transform(ShapesAreNoClasses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
