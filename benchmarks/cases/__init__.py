"""The cases, one module for each group. A new group needs a module and a name here.

Each module has cases(quick), and GROUP, TITLE and ABOUT for the command line and the page.
"""

from __future__ import annotations

from benchmarks.cases import choosing, chunks, classes, paths, sparse, targets
from benchmarks.harness import Case

GROUPS = {one.GROUP: one for one in (paths, choosing, classes, targets, sparse, chunks)}


def all_cases(quick: bool, only: str | None = None) -> list[Case]:
    """Return the cases of all groups, or of one."""
    chosen = [GROUPS[only]] if only else GROUPS.values()
    return [case for module in chosen for case in module.cases(quick)]
