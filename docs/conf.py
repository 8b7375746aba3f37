import sys
from pathlib import Path

from stoptime import __version__
from stoptime.show import explorer

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

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
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "dark_figures",
    "tidy",
]
# a button copies the code alone, without prompts and output
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
# scikit-learn adds the excluded members to every estimator; they link to pages that are not here.
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": (
        "get_metadata_routing, get_params, set_params, set_fit_request, set_partial_fit_request, "
        "set_score_request"
    ),
}
autodoc_typehints = "none"
napoleon_use_rtype = False
napoleon_use_param = False  # parameters that are explained together stay together
exclude_patterns = ["_build", "figures"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": ".",  # every example is run
    "ignore_pattern": "readme_picture",
    "image_scrapers": ("dark_figures",),
    "within_subsection_order": "dark_figures.position",
    "thumbnail_size": (400, 280),
    "default_thumb_file": str(Path(__file__).parent / "_static" / "readme.png"),
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}
# `make paper`: the pages that text.md lists, as one PDF. XeLaTeX knows λ, κ and ≥ in code too.
latex_engine = "xelatex"
latex_title = "Stopped least squares: proofs and certified constants"
latex_documents = [("text", "stoptime.tex", latex_title, author, "howto")]
latex_elements = {
    "papersize": "a4paper",
    "extraclassoptions": "oneside",
    "printindex": "",
    "fvset": r"\fvset{fontsize=\footnotesize}",
    # Names of tests are long: lines are ragged, and may be broken after each underscore. Statements
    # have numbers, and no column of a table of words is very narrow.
    "preamble": r"""
\usepackage{ragged2e}
\AtBeginDocument{\RaggedRight\setlength{\tymin}{7em}}
\let\plainunderscore\_
\renewcommand{\_}{\plainunderscore\allowbreak}
\setcounter{secnumdepth}{3}
""",
}
latex_show_urls = "no"
latex_domain_indices = False
if tags.has("paper"):  # noqa: F821, Sphinx defines the tags of a build
    # The examples of the gallery run for minutes, and neither they nor the reference are printed.
    extensions.remove("sphinx_gallery.gen_gallery")
    exclude_patterns += ["api", "api.md", "gallery", "index.md"]
    root_doc = "text"
    # Pages outside of the text are read for their titles, to which the text refers. Links to the
    # reference are printed as words; the other build has it, and warns of links that lead nowhere.
    suppress_warnings = ["toc.not_included", "myst.xref_missing"]
html_theme = "furo"
html_title = f"stoptime {version}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["pages.css"]
pygments_style = "default"
pygments_dark_style = "monokai"


def write_explorer(app, failure):
    """Write the explorer page, which the page explorer.md embeds."""
    if failure is None and app.builder.format == "html":
        explorer.write(Path(app.outdir) / "explorer-page.html")


def setup(app):
    app.connect("build-finished", write_explorer)
