from pathlib import Path

from stoptime import __version__, explorer

project = "stoptime"
author = "The stoptime developers"
copyright = "2026, the stoptime developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx-mathjax-offline",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
# scikit-learn adds the two methods to every estimator, with links into its own pages
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "set_fit_request, set_score_request",
}
autodoc_typehints = "none"
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]  # a shape such as (n, n_features) is no link to one of many attributes
exclude_patterns = ["_build", "figures"]
html_theme = "furo"
html_title = f"stoptime {version}"
html_static_path = ["_static"]


def write_explorer(app, failure):
    """Put the page beside the others: the documentation carries what the package makes."""
    if failure is None and app.builder.format == "html":
        explorer.write(Path(app.outdir) / "explorer-page.html")


def setup(app):
    app.connect("build-finished", write_explorer)
