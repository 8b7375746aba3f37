"""The explorer: one offline page of exact risk curves, which computes them in the browser."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from stoptime.support.files import atomic
from stoptime.support.version import __version__

__all__ = ["SCRIPTS", "page", "write"]

SCRIPTS = ("special", "methods", "spectra", "risk", "state", "model", "chart", "view", "app")
"""The scripts of the page; each uses only those before it."""


def page() -> str:
    """Return the explorer as one self-contained page with its style and scripts inside.

    Returns
    -------
    str
        HTML that loads nothing from the network.

    Examples
    --------
    >>> html = page()
    >>> html.startswith("<!doctype html>"), "src=" in html
    (True, False)
    """
    script = "\n".join(_source(f"{name}.js") for name in SCRIPTS)
    parts = {"version": __version__, "style": _source("style.css"), "script": script}
    html = _source("page.html")
    for name, text in parts.items():
        html = html.replace("{{" + name + "}}", text)
    return html


def write(target: str | Path) -> Path:
    """Write the page to a file, completely or not at all.

    Parameters
    ----------
    target : str or Path
        The file to write; its folder must exist.

    Returns
    -------
    Path
        The file.
    """
    target = Path(target)
    with atomic(target) as path:
        path.write_text(page(), encoding="utf-8")
    return target


def _source(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
