"""Numbers in the pages that are computed when the pages are built.

The role ``{value}`` prints a quantity as :mod:`quantities` defines it, and the directive
``{value-table}`` a table of quantities with a column for every value of a loop. In HTML, a number
shows the call that it came from when the mouse is over it.
"""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from quantities import shown, table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole


class value(nodes.inline):  # noqa: N801, docutils names its nodes in lower case
    """A computed number."""


class Value(SphinxRole):
    """Print a quantity."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Compute it; a mistake in it is an error of the page and of this line."""
        try:
            text = shown(self.text)
        except Exception as error:
            message = self.inliner.reporter.error(f"{self.text}: {error}", line=self.lineno)
            return [nodes.problematic("", self.rawtext)], [message]
        return [value("", text, source_call=self.text)], []


class ValueTable(SphinxDirective):
    """Print a table of quantities."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"over": directives.unchanged_required}  # noqa: RUF012, as docutils has it
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Write the table with a role in every cell, and let the parser read it."""
        lines = [line for line in self.content if line.strip()]
        return self.parse_text_to_nodes(
            "\n".join(table(self.arguments[0], self.options["over"], lines))
        )


def open_in_html(self: Any, node: value) -> None:
    """Show the call of a number as a tooltip."""
    self.body.append(self.starttag(node, "span", "", title=node["source_call"]))


def close_in_html(self: Any, _node: value) -> None:
    """End the number."""
    self.body.append("</span>")


def plainly(*_: Any) -> None:
    """Print the number and nothing around it."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    plain = (plainly, plainly)
    app.add_node(value, html=(open_in_html, close_in_html), latex=plain, text=plain)
    app.add_role("value", Value())
    app.add_directive("value-table", ValueTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
