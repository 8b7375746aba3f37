"""The page of the study, written from its JSON file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import figures
from benchmarks.page import ROOT, image, machine_line, unbroken
from benchmarks.results import Run, seconds, short
from benchmarks.study import pictures
from benchmarks.study.measure import FOLDS
from benchmarks.study.models import AUTO, BASELINE, SIMPLE
from benchmarks.study.pictures import ratio, verdict
from stoptime.support.files import atomic

FIGURES = "_static/benchmarks"
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
WHY = """\
## Why it wins and loses

Five cases were looked at more closely, on the first repetition of the run of 16 November 2026.

- *Friedman 1* and *500 digits*, both with Matérn 3/2, are wins that no ridge can have. `RidgeCV`
  chose its smallest penalty in every fit, and a grid down to 1e-14 gives it the same error.
  Momentum goes further than interpolation: its shrinkage is negative in about two fifths and one
  half of the directions, as if the penalty were negative.
- *Digits* is a loss to the grid alone: *auto* chose ridge in every fold, and `RidgeCV` with 2000
  penalties has the same error as *auto*.
- *Gravity, smooth* is in part a loss to the end of the grid. In two of five folds `RidgeCV` stopped
  at its smallest penalty; with a grid down to 1e-14 it chooses a smaller one, and its test error
  rises by 12 % and 8 %.
- *Tomography* is a loss of the choice. In two of five folds friction 3 had the smaller
  leave-one-out error, by up to 4 %, and a test error larger by 15 % and 22 %. A smaller part
  belongs to the grid: `RidgeCV` with 2000 penalties is 2 % worse than with 100.

So choosing among several methods has a price where their errors differ by less than their noise.
`prefer_simple=True` lowers it and keeps most of the gain below.
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


def line(one: dict[str, Any]) -> str:
    """Return a line that shows progress."""
    times = one["models"][AUTO]["seconds"], one["models"][BASELINE]["seconds"]
    return (
        f"{one['name']}: auto / RidgeCV {ratio(one):.4f} ({in_errors(one):+.1f} standard errors), "
        f"time {seconds(times[0])} against {seconds(times[1])}"
    )


def risk_line(one: dict[str, Any]) -> str:
    """Return a line that shows progress with the synthetic problems."""
    auto = one["models"][AUTO]
    return f"{one['name']}: auto / RidgeCV {auto['ratio']:.3f} ± {auto['standard_error']:.3f}"


def in_errors(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the difference to RidgeCV in paired standard errors."""
    found = one["models"][model]
    return found["difference"] / found["standard_error"] if found["standard_error"] else 0.0


def slowdown(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the fitting time relative to that of RidgeCV."""
    return float(one["models"][model]["seconds"] / one["models"][BASELINE]["seconds"])


def row(*cells: str) -> str:
    """Return one row of a table."""
    return "| " + " | ".join(map(unbroken, cells)) + " |"


def rule(number: int) -> str:
    """Return the line below the head of a table."""
    return "|---" * number + "|"


def plural(number: int) -> str:
    """Return a number of data sets."""
    return f"{number} data set" if number == 1 else f"{number} data sets"


def summary(data: list[dict[str, Any]]) -> list[str]:
    """Return the table of all models against RidgeCV."""
    head = (
        "against RidgeCV", "data sets", "better", "equal", "worse", "better by 2", "worse by 2",
        "error ratio: least", "median", "largest", "median time ratio",
    )  # fmt: skip
    lines = [row(*head), rule(len(head))]
    for name in COLUMNS[1:]:
        having = [one for one in data if name in one["models"]]
        if not having:
            continue
        verdicts = [verdict(one, name) for one in having]
        errors = np.array([in_errors(one, name) for one in having])
        ratios = [ratio(one, name) for one in having]
        counts = [len(having), *(verdicts.count(kind) for kind in pictures.VERDICTS)]
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
    lines = [row(f"auto is {kind}", "error ratio", "standard errors", "mostly chosen"), rule(4)]
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
    lines = [row(*head), rule(len(head))]
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
    lines = [row(*head), rule(len(head))]
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
        f"**On {plural(len(data))} *auto* and `RidgeCV` predict almost equally well.** *auto* is "
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
        f"{plural(len(data))}; the ratio of times runs from {min(times):.2g} to {max(times):.2g}, "
        f"with the median {np.median(times):.2g}. Most of these fits take `RidgeCV` only "
        f"milliseconds; on the {plural(len(slow))} where it takes more than {seconds(LONG)}, the "
        f"median ratio is {np.median(slow):.2g}."
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
    lines += [VERDICTS, *summary(data), *beyond(data, "better"), *beyond(data, "worse"), WHY]
    lines += [SYNTHETIC, *risks(results["synthetic"])]
    lines += image("risks", "Exact excess risk of six models relative to RidgeCV, four problems.")
    lines += [ALL]
    for group, title in GROUPS.items():
        listed = [one for one in data if one["group"] == group]
        lines += [f"### {title}", "", *table(listed)] if listed else []
    lines += [f"- {one['name']}: not run ({one['missing']})" for one in results["missing"]]
    run = Run(results["mode"], results["date"], results["environment"])
    lines += [METHOD.rstrip("\n"), edges(data), "", machine_line(run)]
    return "\n".join(lines) + "\n"


def write(file: Path, docs: Path = ROOT / "docs") -> None:
    """Write the page and its figures from the saved results."""
    results = json.loads(file.read_text(encoding="utf-8"))
    folder = docs / FIGURES
    figures.write(lambda page: pictures.errors(results["data"], page), folder, "errors")
    figures.write(lambda page: pictures.risks(results["synthetic"], page), folder, "risks")
    with atomic(docs / "datasets.md") as path:
        path.write_text(text(results), encoding="utf-8")
