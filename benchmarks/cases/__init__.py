"""The cases, one module for each group. A new group needs a module and a line here."""

from __future__ import annotations

from benchmarks.cases import (
    choosing,
    chunks,
    classes,
    explorer,
    iterations,
    kernels,
    paths,
    sparse,
    targets,
    training,
)
from benchmarks.harness import Case

# Each module has cases(quick), and GROUP, TITLE and ABOUT for the command line and the page.
GROUPS = {
    module.GROUP: module
    for module in (
        paths,
        choosing,
        iterations,
        training,
        kernels,
        classes,
        targets,
        sparse,
        chunks,
        explorer,
    )
}


def all_cases(quick: bool, only: str | None = None) -> list[Case]:
    """Return the cases of all groups, or of one."""
    chosen = [GROUPS[only]] if only else GROUPS.values()
    return [case for module in chosen for case in module.cases(quick)]
