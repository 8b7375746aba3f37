"""Figures for light pages, for dark pages and for paper.

If ``name-dark.png`` exists next to ``name.png`` or ``name-light.png``, dark pages show the first
file and light pages the other one. Figures and thumbnails of the gallery are drawn twice.
"""

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib import pyplot as plt
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx_gallery.utils import scale_image

from stoptime.show import plots

DPI = 150
THUMBNAIL = (400, 280)
ORDER = [  # of the examples in the gallery; examples that are not listed come last
    "choose_when_to_stop",
    "one_factorisation",
    "momentum_against_ridge",
    "from_flow_to_iteration",
    "naive_gcv_fails",
    "prediction_intervals",
    "many_targets",
    "small_table",
    "tomography",
    "out_of_core",
    "on_dask",
]


# Figures of three panels that an example arranges for the width of a page.
REARRANGED = {
    "figures/adaptive_paths.png": "what_adam_regularises",
}


class Twins(SphinxTransform):
    """Add the dark version of an image where there is one; print the PDF of a figure on paper."""

    default_priority = 300

    def apply(self, **_: Any) -> None:
        """Go through the images of a page."""
        for image in list(self.document.findall(nodes.image)):
            if "://" in image["uri"]:
                continue
            if self.app.builder.format == "html" and image["uri"] in REARRANGED:
                image["uri"] = f"gallery/images/sphx_glr_{REARRANGED[image['uri']]}_001.png"
            uri = Path(image["uri"])
            if self.app.builder.format == "latex":
                image["uri"] = self._where_it_exists(uri.with_suffix(".pdf")) or str(uri)
            elif dark := self._where_it_exists(
                uri.with_stem(f"{uri.stem.removesuffix('-light')}-dark")
            ):
                twin = image.deepcopy()
                twin["uri"] = dark
                image["classes"].append("only-light")
                twin["classes"].append("only-dark")
                image.parent.insert(image.parent.index(image) + 1, twin)

    def _where_it_exists(self, file: Path) -> str | None:
        """Return the name of a file that the page can show, and None where there is none."""
        place = self.env.relfn2path(str(file), self.env.docname)[1]
        return str(file) if Path(place).exists() else None


def scrape(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save every open figure for light and dark pages, and return the reST that shows them."""
    text = ""
    for number in plt.get_fignums():
        figure = plt.figure(number)
        file = Path(next(block_vars["image_path_iterator"]))
        figure.savefig(file, dpi=DPI)
        titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
        plots.darken(figure)
        figure.savefig(file.with_stem(f"{file.stem}-dark"), dpi=DPI)
        place = os.path.relpath(file, gallery_conf["src_dir"])
        width, height = figure.get_size_inches()
        text += (
            f"\n.. container:: {'panels' if width > 2 * height else 'panel'}\n\n"
            f"   .. image:: /{place}\n"
            f"      :alt: {'; '.join(titles) or file.stem}\n"
            "      :class: figure\n"
        )
    plt.close("all")
    return text


def _get_sg_image_scraper():
    return scrape


def position(name: str) -> tuple[int, str]:
    """Return the sort key of an example in the gallery."""
    stem = Path(name).stem
    return (ORDER.index(stem) if stem in ORDER else len(ORDER)), stem


def draw_dark_thumbnails(app: Sphinx) -> None:
    """Draw a dark version of every thumbnail."""
    images = Path(app.srcdir) / "gallery" / "images"
    for thumbnail in (images / "thumb").glob("sphx_glr_*_thumb.png"):
        figure = images / thumbnail.name.replace("_thumb", "_001-dark")
        if not figure.exists():  # an example without figures shows the picture of the README
            figure = Path(app.srcdir) / "_static" / "readme-dark.png"
        scale_image(figure, thumbnail.with_stem(f"{thumbnail.stem}-dark"), *THUMBNAIL)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_transform(Twins)
    # A late priority: the gallery must have been run before.
    app.connect("builder-inited", draw_dark_thumbnails, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
