"""Write the figures of the documentation: those of the paper, and those of some examples.

``python tools/figures.py docs/figures`` writes each as PDF, SVG and PNG, also for dark pages, and
the numbers behind it as CSV.
"""

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

from stoptime.paper.reproduction import Experiment, reproduce

EXAMPLES = (
    "from_flow_to_iteration",
    "price_of_products",
    "random_batches",
    "safer_momentum",
    "sharp_constant",
    "what_adam_regularises",
)


def write(folder: Path) -> None:
    """Write all figures."""
    mpl.use("Agg")
    reproduce(folder, dark=True, progress=print)
    for name in EXAMPLES:
        print(name)
        found = runpy.run_path(str(Path(__file__).parents[1] / "examples" / f"{name}.py"))
        for experiment in found.values():
            if isinstance(experiment, Experiment):
                experiment.write(folder, dark=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
