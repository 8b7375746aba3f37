"""The page of the study, written from its JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import page as site
from benchmarks.harness import load, seconds, short
from benchmarks.page import FIGURES, PAGES, ROOT, image, machine_line, on
from benchmarks.page import cells as row
from benchmarks.study.measure import FOLDS
from benchmarks.study.models import AUTO, BASELINE, SIMPLE
from stoptime.support.files import atomic

GROUPS = {
    "bundled": "Data bundled with scikit-learn",
    "shipped": "Data shipped with statsmodels",
    "kernel": "Kernels",
    "inverse": "Inverse problems with 1 % noise",
}
COLUMNS = (
    BASELINE, AUTO, SIMPLE, "gradient flow", "friction 3", "PLS", "PCR", "LassoCV", "KernelRidge",
    "gradient boosting",
)  # fmt: skip
# Okabe and Ito's palette, which colour-blind readers can distinguish; shapes repeat the colours.
MARKS = {"better": ("#0072B2", "o"), "equal": ("#999999", "D"), "worse": ("#D55E00", "X")}
CHANCE = 0.159  # of a Gaussian variable above one standard deviation
LONG = 0.03  # seconds; a fit of RidgeCV that is not dominated by fixed costs
LIMITS = {"a = 1/2": 0.92, "a = 1": 0.68, "a = 2": 0.55, "isotropic": 1.02}

INTRODUCTION = """\
# Accuracy on data sets

Is it worth while to choose among ridge and the stopped methods, instead of using ridge alone?
`make study` compares them, and other models, by nested cross-validation and writes this page.
"""
VERDICTS = """\
## Wins and losses

*Better* and *worse* mean by more than one paired standard error, *by 2* means by more than two.
"""
ALL = """\
## All results

Test errors in percent of the variance, the least of each row in bold. The last two columns are the
fitting times.
"""
METHOD = """\
## How it is measured

- Five outer folds; each model tunes itself inside the training rows alone:
  `RidgeCV(alphas=np.geomspace(1e-8, 1e4, 100))` and the stopped methods by leave-one-out, PLS,
  PCR, `LassoCV` and `KernelRidge` by five inner folds. Small data sets are split several times,
  and constructed ones get new noise or new rows each time. Scaling and expansions are fitted to
  the training rows.
- All linear models see the same columns (PLS with `scale=False`), and all kernel models the same
  kernel matrix, whose width is fixed (γ = 1/p on standardised columns). `RidgeCV` gets columns
  whose inner products are that matrix. Gradient boosting gets the raw columns and keeps its
  defaults. *auto* is `StoppedRegressorCV("auto")` or `StoppedKernelRegressorCV("auto")`, and
  *auto, simple* has `prefer_simple=True` in addition: it keeps ridge unless another method is
  better by more than one paired standard error of leave-one-out.
- The test error is the mean squared error divided by the variance of the response. The paired
  standard error is that of the mean difference of squared errors to RidgeCV, row by row; a row
  that is tested several times counts once. It is somewhat too small, because the rows of a fold
  share a training set.
- If two models were equally good, one of six comparisons would still show the second as worse by
  more than one standard error, and one of 44 by more than two. Rows of the same data with other
  columns are not independent of each other.
- Times are processor times of one fit with one thread, the median over all outer folds.
  Preparation of the columns is not counted.
"""
SYNTHETIC = """\
## Where the answer is known

300 Gaussian rows with 150 columns of variance 1/i, coefficients ± i⁻ᵃ with random signs, scaled
to a signal of variance 1, and noise of standard deviation 0.5. The larger a, the more the signal
leans towards the leading directions. In the last problem all columns have variance 1 and the
coefficients are Gaussian, so that the best ridge is optimal. There is no test set: the excess
risk, the expected squared error of the prediction of a new row without its noise, is known
exactly.
"""


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
        colour, marker = MARKS[verdict(one)]
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
    for name, (colour, marker) in MARKS.items():
        number = sum(verdict(one) == name for one in ordered)
        said = "within one standard error" if name == "equal" else f"{name} than RidgeCV"
        ax.plot([], [], marker, color=on(page, colour), label=f"{said}: {number}")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def line(one: dict[str, Any]) -> str:
    """Return a line that shows progress."""
    times = one["models"][AUTO]["seconds"], one["models"][BASELINE]["seconds"]
    return (
        f"{one['name']}: auto / RidgeCV {ratio(one):.4f} ({in_errors(one):+.1f} standard errors), "
        f"time {seconds(times[0])} against {seconds(times[1])}"
    )


def in_errors(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the difference to RidgeCV in paired standard errors."""
    found = one["models"][model]
    return found["difference"] / found["standard_error"] if found["standard_error"] else 0.0


def slowdown(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the fitting time relative to that of RidgeCV."""
    return float(one["models"][model]["seconds"] / one["models"][BASELINE]["seconds"])


def summary(data: list[dict[str, Any]]) -> list[str]:
    """Return the table of all models against RidgeCV."""
    head = (
        "against RidgeCV", "data sets", "better", "equal", "worse", "better by 2", "worse by 2",
        "error ratio: least", "median", "largest", "median time ratio",
    )  # fmt: skip
    lines = [row(*head), "|---" * len(head) + "|"]
    for name in COLUMNS[1:]:
        having = [one for one in data if name in one["models"]]
        if not having:
            continue
        verdicts = [verdict(one, name) for one in having]
        errors = np.array([in_errors(one, name) for one in having])
        ratios = [ratio(one, name) for one in having]
        counts = [len(having), *(verdicts.count(kind) for kind in MARKS)]
        counts += [int(np.sum(errors < -2)), int(np.sum(errors > 2))]
        shown = [f"{value:.3g}" for value in (min(ratios), float(np.median(ratios)), max(ratios))]
        time = short(float(np.median([slowdown(one, name) for one in having])))
        lines.append(row(name, *map(str, counts), *shown, time))
    return [*lines, ""]


def beyond(data: list[dict[str, Any]], kind: str) -> list[str]:
    """Return the data sets where "auto" is better or worse by more than one standard error."""
    listed = sorted((one for one in data if verdict(one) == kind), key=in_errors)
    listed = listed if kind == "better" else listed[::-1]
    if not listed:
        return [f"On no data set is *auto* {kind} by more than one paired standard error.", ""]
    lines = [
        row(f"auto is {kind}", "error ratio", "standard errors", "mostly chosen"),
        "|---" * 4 + "|",
    ]
    for one in listed:
        chosen = next(iter(one["chosen"]))
        share = one["chosen"][chosen] / sum(one["chosen"].values())
        said = f"{chosen.replace('-', ' ')} ({share:.0%})"
        lines.append(row(one["name"], f"{ratio(one):.4f}", f"{in_errors(one):+.1f}", said))
    return [*lines, ""]


def table(data: list[dict[str, Any]]) -> list[str]:
    """Return the test errors of all models, and the times of two of them."""
    names = [name for name in COLUMNS if any(name in one["models"] for one in data)]
    head = ("data", "n × p", *names, "auto − RidgeCV in standard errors", "RidgeCV", "auto")
    lines = [row(*head), "|---" * len(head) + "|"]
    for one in data:
        errors = {name: found["error"] for name, found in one["models"].items()}
        least = min(errors.values())
        cells = ["" if name not in errors else percent(errors[name], least) for name in names]
        times = [seconds(one["models"][name]["seconds"]) for name in (BASELINE, AUTO)]
        size = f"{one['n']} × {one['p']}"
        lines.append(row(one["name"], size, *cells, f"{in_errors(one):+.1f}", *times))
    return [*lines, ""]


def percent(error: float, least: float) -> str:
    """Return an error as a share of the variance, in bold if it is the least."""
    text = f"{100 * error:.3g}" if 100 * error < 1000 else f"{100 * error:.1e}"
    return f"**{text}**" if error <= least * 1.0005 else text


def risks(synthetic: list[dict[str, Any]]) -> list[str]:
    """Return the table of excess risks."""
    names = [name for name in COLUMNS if name in synthetic[0]["models"]]
    head = ("excess risk / RidgeCV's", *names[1:], "auto, goal", "auto, worst seed", "time ratio")
    lines = [row(*head), "|---" * len(head) + "|"]
    for one in synthetic:
        found = [one["models"][name] for name in names[1:]]
        cells = [f"{value['ratio']:.3f} ± {value['standard_error']:.3f}" for value in found]
        limit = LIMITS[one["name"]]
        auto = one["models"][AUTO]
        goal = f"at most {limit}: " + ("holds" if auto["ratio"] <= limit else "**missed**")
        worst = f"{auto['worst']:.2f}"
        lines.append(row(one["name"], *cells, goal, worst, f"{slowdown(one):.2g}"))
    return [*lines, ""]


def conclusion(results: dict[str, Any]) -> str:
    """Return what was found, in a few sentences with numbers."""
    data = results["data"]
    verdicts = [verdict(one) for one in data]
    worst = max(data, key=in_errors)
    by_ratio = sorted(data, key=ratio)
    gains = {one["name"]: one["models"][AUTO]["ratio"] for one in results["synthetic"]}
    times = [slowdown(one) for one in data]
    faster = sum(value <= 1 for value in times)
    slow = [slowdown(one) for one in data if one["models"][BASELINE]["seconds"] > LONG]
    goal = "met" if "worse" not in verdicts else "missed"
    simple = [verdict(one, SIMPLE) for one in data]
    simple_gains = [one["models"][SIMPLE]["ratio"] for one in results["synthetic"]]
    chance = CHANCE * len(data)
    return (
        f"**On {len(data)} data sets *auto* and `RidgeCV` predict almost equally well.** *auto* is "
        f"better by more than one paired standard error on {verdicts.count('better')}, worse on "
        f"{verdicts.count('worse')}, and within one standard error on {verdicts.count('equal')}; "
        f"between equally good models chance alone would put about {chance:.0f} on each side. "
        f"The ratio of their test errors runs from {ratio(by_ratio[0]):.3f} "
        f"({by_ratio[0]['name']}) to {ratio(by_ratio[-1]):.3f} ({by_ratio[-1]['name']}), with the "
        f"median {np.median([ratio(one) for one in data]):.4f}. The goal that it is never worse by "
        f"more than one standard error is {goal}; the clearest difference to its disadvantage is "
        f"{in_errors(worst):.1f} standard errors, on {worst['name']}.\n\n"
        "**Where the signal leans towards the leading directions, the gain is large:** the excess "
        f"risk is {gains['a = 1/2']:.2f}, {gains['a = 1']:.2f} and {gains['a = 2']:.2f} times that "
        "of `RidgeCV` for coefficients i⁻ᵃ with a = 1/2, 1 and 2, and "
        f"{gains['isotropic']:.3f} times where no direction is preferred. Test errors contain the "
        "noise, which no method can remove, so they show less of such a gain.\n\n"
        "**With `prefer_simple=True`** *auto* keeps ridge unless another method is better by more "
        f"than one standard error. It is then better on {simple.count('better')} and worse on "
        f"{simple.count('worse')} data sets, its error is at most "
        f"{max(ratio(one, SIMPLE) for one in data):.2f} times that of `RidgeCV`, and the four "
        f"excess risks are {', '.join(f'{gain:.2f}' for gain in simple_gains)} times.\n\n"
        f"**Time:** *auto* is faster than `RidgeCV` with 100 penalties on {faster} of "
        f"{len(data)} data sets; the ratio of times runs from {min(times):.2g} to "
        f"{max(times):.2g}, with the median {np.median(times):.2g}. Most of these fits take "
        f"`RidgeCV` only milliseconds; on the {len(slow)} data sets where it takes more than "
        f"{seconds(LONG)}, the median ratio is {np.median(slow):.2g}."
    )


def edges(data: Sequence[dict[str, Any]]) -> str:
    """Say where RidgeCV chose the end of its grid, so that a wider grid might change its error."""
    listed = [
        f"{one['name']} ({one['ridge_at_edge']} of {FOLDS * one['repeats']} fits)"
        for one in data
        if one["ridge_at_edge"]
    ]
    where = "on " + ", ".join(listed) if listed else "nowhere"
    return f"- `RidgeCV` chose the first or the last of its 100 penalties {where}."


def text(results: dict[str, Any]) -> str:
    """Return the whole page."""
    data = results["data"]
    lines = [INTRODUCTION, conclusion(results), ""]
    lines += image("errors", "Test error of auto relative to RidgeCV on every data set, sorted.")
    lines += [VERDICTS, *summary(data), *beyond(data, "better"), *beyond(data, "worse")]
    lines += [SYNTHETIC, *risks(results["synthetic"])]
    lines += [ALL]
    for group, title in GROUPS.items():
        listed = [one for one in data if one["group"] == group]
        lines += [f"### {title}", "", *table(listed)] if listed else []
    lines += [f"- {one['name']}: not run ({one['missing']})" for one in results["missing"]]
    lines += [METHOD.rstrip("\n"), edges(data), "", machine_line(results)]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the page and its figure from the stored results."""
    results = load("datasets.json")
    docs = ROOT / "docs"
    site.draw(lambda page: errors(results["data"], page), docs / FIGURES, "errors")
    with atomic(docs / "datasets.md") as path:
        path.write_text(text(results), encoding="utf-8")
