"""The explorer: one offline page of exact risk curves, which computes them in the browser."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from stoptime.support.files import atomic
from stoptime.support.version import __version__

__all__ = ["SCRIPTS", "page", "write"]

#: The scripts of the page; each uses only those before it.
SCRIPTS = ("special", "methods", "spectra", "risk", "state", "model", "chart", "view", "app")


def page() -> str:
    """Return the explorer as one HTML page, which loads nothing from the network."""
    script = "\n".join(_source(f"{name}.js") for name in SCRIPTS)
    # browsers run this script and no other
    digest = b64encode(sha256(script.encode()).digest()).decode()
    parts = {"version": __version__, "style": _source("style.css"), "script": script}
    parts["digest"] = digest
    # one pass over the template leaves braces inside the parts alone
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _source("page.html"))


def write(target: str | Path) -> Path:
    """Write the page to a file in a folder that exists, completely or not at all."""
    target = Path(target)
    with atomic(target) as path:
        path.write_text(page(), encoding="utf-8")
    return target


def _source(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
