"""Models regularised by stopping early, tuned by exact leave-one-out error."""

import ast
from importlib import import_module
from pathlib import Path as _File  # a public name is Path too
from typing import Any

# SPEC 1 of Scientific Python: a name is imported when it is first used. The stub, which type
# checkers read too, says from where; an alias stands for a whole module
_STUB = ast.parse(_File(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_IMPORTS = [node for node in _STUB.body if isinstance(node, ast.Import | ast.ImportFrom)]
_HOMES = {one.asname or one.name: (node, one.name) for node in _IMPORTS for one in node.names}
__all__ = ast.literal_eval(_STUB.body[-1].value)  # type: ignore[attr-defined]  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    node, own = _HOMES[name]
    if isinstance(node, ast.Import):
        found = import_module(own)
    elif node.module == __name__:
        found = import_module(f"{__name__}.{own}")
    else:
        found = getattr(import_module(str(node.module)), own)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    # without what this file itself imports
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
