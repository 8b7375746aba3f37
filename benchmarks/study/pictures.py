"""Figures of the study, each for light and dark pages."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks.figures import PAGES, on
from benchmarks.study.models import AUTO, BASELINE

# Okabe and Ito's palette, which colour-blind readers can distinguish; shapes repeat the colours.
VERDICTS = {"better": ("#0072B2", "o"), "equal": ("#999999", "D"), "worse": ("#D55E00", "X")}
METHODS = {
    AUTO: ("#D55E00", "o"),
    "gradient flow": ("#009E73", "s"),
    "friction 3": ("#CC79A7", "^"),
    "PLS": ("#56B4E9", "v"),
    "PCR": ("#E69F00", "D"),
    "LassoCV": ("#999999", "P"),
}


def verdict(one: dict[str, Any], model: str = AUTO) -> str:
    """Return whether a model differs from RidgeCV by more than one paired standard error."""
    found = one["models"][model]
    if abs(found["difference"]) <= found["standard_error"]:
        return "equal"
    return "better" if found["difference"] < 0 else "worse"


def ratio(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the test error of a model divided by that of RidgeCV."""
    # The stored errors have few digits, and the stored difference has as many of its own.
    return float(1 + one["models"][model]["difference"] / one["models"][BASELINE]["error"])


def errors(data: list[dict[str, Any]], page: str) -> Figure:
    """Draw the test error of "auto" relative to RidgeCV on each data set, sorted."""
    ordered = sorted(data, key=ratio, reverse=True)
    figure = Figure(figsize=(8.5, 1.4 + 0.23 * len(ordered)), layout="constrained")
    ax = figure.add_subplot()
    for height, one in enumerate(ordered):
        colour, marker = VERDICTS[verdict(one)]
        spread = one["models"][AUTO]["standard_error"] / one["models"][BASELINE]["error"]
        ax.errorbar(
            ratio(one), height, xerr=spread, fmt=marker, color=on(page, colour), markersize=6,
            elinewidth=1.4, capsize=2,
        )  # fmt: skip
    ax.axvline(1, color=PAGES[page], linewidth=0.8)
    names = [f"{one['name']}  ({one['n']} × {one['p']})" for one in ordered]
    ax.set_yticks(range(len(ordered)), names, fontsize=8)
    ax.set_ylim(-0.7, len(ordered) - 0.3)
    ax.set_xlabel("test error of auto / test error of RidgeCV, ± one paired standard error")
    ax.grid(axis="x", alpha=0.25)
    for name, (colour, marker) in VERDICTS.items():
        number = sum(verdict(one) == name for one in ordered)
        said = "within one standard error" if name == "equal" else f"{name} than RidgeCV"
        ax.plot([], [], marker, color=on(page, colour), label=f"{said}: {number}")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def risks(synthetic: list[dict[str, Any]], page: str) -> Figure:
    """Draw the exact excess risk relative to RidgeCV, for each alignment and model."""
    figure = Figure(figsize=(8.5, 4.2), layout="constrained")
    ax = figure.add_subplot()
    width = 0.11
    for number, (name, (colour, marker)) in enumerate(METHODS.items()):
        places = [place + (number - 2.5) * width for place in range(len(synthetic))]
        found = [one["models"][name] for one in synthetic]
        ax.errorbar(
            places, [one["ratio"] for one in found], yerr=[one["standard_error"] for one in found],
            fmt=marker, color=on(page, colour), markersize=7, capsize=2, label=name,
        )  # fmt: skip
    ax.axhline(1, color=PAGES[page], linewidth=0.8)
    ax.text(-0.48, 1.01, "RidgeCV", fontsize=8, va="bottom")
    for border in range(len(synthetic) - 1):
        ax.axvline(border + 0.5, color=PAGES[page], linewidth=0.4, alpha=0.4)
    ax.set_xticks(range(len(synthetic)), [one["name"] for one in synthetic])
    ax.set_xlim(-0.5, len(synthetic) - 0.5)
    ax.set_xlabel("coefficients i⁻ᵃ in directions of variance 1/i, or no preferred direction")
    ax.set_ylabel("excess risk / that of RidgeCV")
    ax.grid(axis="y", alpha=0.25)
    figure.legend(loc="outside upper center", ncols=6, frameon=False)
    return figure
