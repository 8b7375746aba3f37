"""The paper's experiments: figures, their numbers, and a table of constants."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stoptime.bounds import heavy_ball_theorem, risk_inflation, table
from stoptime.bounds.heavy_ball import estimated_heavy_ball
from stoptime.bounds.summary import (
    BEST_STOP,
    ONE_STOP,
    BoundsTable,
    claims,
    paper_bound,
)
from stoptime.methods.flows import HeavyBallFlow
from stoptime.methods.registry import METHODS
from stoptime.show import plots
from stoptime.support.arrays import Array
from stoptime.support.files import atomic
from stoptime.theory.risk import RiskCurve, risk

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SAMPLES = 500
N_FEATURES = 100
SEED = 2022
INVERSE_PENALTIES = np.geomspace(1e-1, 1e7, 1600)
# as in the legends of the paper
ORDER = ("accelerated-flow", "heavy-ball-flow", "gradient-flow", "ridge")


@dataclass(frozen=True)
class Experiment:
    """A figure, the numbers behind it, and a caption."""

    name: str
    figure: Figure
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    caption: str

    def write(self, folder: Path, *, dark: bool = False) -> list[Path]:
        """Write the figure as PDF, SVG and PNG and the numbers as CSV, each file completely."""
        files = [folder / f"{self.name}.{extension}" for extension in ("pdf", "svg", "png")]
        for target in files:
            self._save(target)
        # The figure itself is recoloured, and stays so: the dark picture is the last one.
        if dark:
            plots.darken(self.figure)
            files.append(folder / f"{self.name}-dark.png")
            self._save(files[-1])
        files.append(folder / f"{self.name}.csv")
        with atomic(files[-1]) as path, path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([self.columns, *self.rows])
        return files

    def _save(self, target: Path) -> None:
        # The files carry no date and no random names, so the same run gives the same bytes.
        metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(target.suffix)
        salted = import_module("matplotlib").rc_context({"svg.hashsalt": self.name})
        with atomic(target) as path, salted:
            self.figure.savefig(path, dpi=150, metadata=metadata)


def polynomial_spectra() -> dict[str, Array]:
    """Return the spectra s_i = 1/i^ν of the paper's main figure, ascending."""
    i = np.arange(N_FEATURES, 0, -1, dtype=np.float64)
    return {f"ν = {nu:g}": i**-nu for nu in (0.1, 0.5, 1.0, 2.0)}


def random_spectra() -> dict[str, Array]:
    """Return the spectra of the appendix: Gaussian, Student-t, and two orthogonal designs."""
    rng = np.random.default_rng(SEED)
    gaussian = rng.standard_normal((N_SAMPLES, N_FEATURES))
    student = rng.standard_t(3, gaussian.shape)
    return {
        "Gaussian": np.linalg.eigvalsh(gaussian.T @ gaussian / N_SAMPLES),
        "Student t, 3 degrees of freedom": np.linalg.eigvalsh(student.T @ student / N_SAMPLES),
        "orthogonal, s = 0.1": np.full(N_FEATURES, 0.1),
        "orthogonal, s = 1": np.full(N_FEATURES, 1.0),
    }


def dense_signal() -> Array:
    """Return dense coordinates of β₀ with ‖β₀‖² = 1: noise 1 gives a signal-to-noise ratio of 1."""
    a = np.random.default_rng(SEED + 1).standard_normal(N_FEATURES)
    return np.asarray(a / np.linalg.norm(a))


def paper_curves(eigenvalues: Array) -> dict[str, RiskCurve]:
    """Return the exact risk of the four methods of the paper, at t = 1/λ or t = 1/√λ."""
    known: dict[str, Any] = {"signal": dense_signal(), "noise": 1.0, "n_samples": N_SAMPLES}
    stops = {name: INVERSE_PENALTIES ** (1 / METHODS[name].time_power) for name in ORDER}
    return {name: risk(name, stops[name], eigenvalues=eigenvalues, **known) for name in ORDER}


def stability(kind: str, spectra: dict[str, Array], last: float, caption: str) -> Experiment:
    """Draw bias and variance left and risk right up to 1/λ = last, one row for each spectrum."""
    figure, axes = plots.new_figure(len(spectra), 2, figsize=(9, 2.5 * len(spectra)), sharex=True)
    rows: list[tuple[Any, ...]] = []
    for (title, eigenvalues), (left, right) in zip(spectra.items(), axes, strict=True):
        curves = paper_curves(eigenvalues)
        x = INVERSE_PENALTIES
        for method, curve in curves.items():
            look: dict[str, Any] = {"color": plots.COLORS[method]}
            left.plot(x, curve.bias, linestyle="--", linewidth=1.2, **look)
            left.plot(x, curve.variance, linestyle=":", linewidth=1.6, **look)
            right.plot(x, curve.total, linewidth=1.4, label=plots.LABELS[method], **look)
        left.set_title(title, loc="left", fontsize="medium")
        left.set(xscale="log", yscale="log", xlabel="1/λ", ylabel="bias² (- -), variance (···)")
        right.set(xscale="log", yscale="log", xlabel="1/λ", ylabel="risk")
        right.yaxis.set_major_formatter("{x:g}")
        low, high = right.get_ylim()
        # a short axis shows hardly a power of ten: label a few numbers between them
        if high < 30 * low:
            between = import_module("matplotlib.ticker").LogLocator(subs=(2, 3, 5))
            right.yaxis.set_minor_locator(between)
            right.yaxis.set_minor_formatter("{x:g}")
        top = max(curve.total.max() for curve in curves.values())
        left.set(xlim=(x[0], last), ylim=(1e-4 * top, 2 * top))
        for method, curve in curves.items():
            numbers = (x, curve.stops, curve.bias, curve.variance, curve.total)
            rows.extend((title, method, *map(float, row)) for row in zip(*numbers, strict=True))
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    columns = ("spectrum", "method", "inverse_penalty", "stop", "bias", "variance", "risk")
    return Experiment(f"stability_{kind}", figure, columns, rows, caption)


def heavy_ball_bound(certify: bool, condition_numbers: ArrayLike | None = None) -> Experiment:
    """Draw the paper's h(κ) and both constants of heavy-ball flow, estimated or certified."""
    every = np.geomspace(1, 1e4, 17)
    if condition_numbers is not None:
        every = np.asarray(condition_numbers, dtype=np.float64)

    def constant(kappa: float, adaptive: bool) -> float:
        options: Any = {"adaptive": adaptive, "tolerance": 1e-2 if adaptive else 3e-3}
        if certify:
            return risk_inflation(HeavyBallFlow(), condition_number=kappa, **options).upper
        return estimated_heavy_ball(kappa, **options)

    # larger condition numbers take minutes for each point
    few = every[every <= 1000]
    one = [constant(kappa, adaptive=False) for kappa in every.tolist()]
    best = [constant(kappa, adaptive=True) for kappa in few.tolist()]
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    rows: list[tuple[Any, ...]] = []
    for label, kappas, values, color, line in (
        ("the paper's bound h(κ)", every, heavy_ball_theorem(every), "#CC79A7", "-"),
        ("1 + √κ: start or least squares", every, 1 + np.sqrt(every), "0.4", "--"),
        ("one stop for each κ, μ/λ*", every, one, "#0072B2", ".-"),
        ("best stop of each spectrum", few, best, "#D55E00", ".-"),
    ):
        ax.plot(kappas, values, line, label=label, linewidth=1.8, color=color)
        rows += zip(
            [label] * len(kappas), kappas.tolist(), np.asarray(values).tolist(), strict=True
        )
    ax.set(xscale="log", yscale="log", xlabel="condition number κ", ylim=(0.9, None))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_title(f"Heavy-ball flow over ridge, {'at most' if certify else 'numerical'}")
    ax.legend(loc="upper left", fontsize="small")
    caption = (
        "Risk of heavy-ball flow over the best ridge risk: the bound h(κ), and the sharp constants "
        "of one stop for each κ and μ/λ*, and of the best stop of each spectrum."
    )
    return Experiment("heavy_ball_constant", figure, ("curve", "x", "value"), rows, caption)


def reproduce(
    folder: Path | str = "reproduction",
    *,
    certify: bool = False,
    dark: bool = False,
    condition_numbers: ArrayLike | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Run every experiment, write figures, their numbers and ``summary.md``, and return the files.

    Files of an earlier run are replaced, each only by a complete one. With ``certify`` the
    constants are proven, which needs the extra ``certify``; with ``dark`` every figure is also
    drawn for dark pages. The constants of heavy-ball flow are drawn at the ``condition_numbers``,
    by default seventeen up to 10 000.
    ``progress`` is called with the name of each part before it begins.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tell = progress or (lambda _: None)
    proven = table(progress=tell) if certify else None
    files: list[Path] = []
    captions: list[tuple[str, str]] = []
    for name, run in experiments(certify, condition_numbers):
        tell(name)
        experiment = run()
        files += experiment.write(folder, dark=dark)
        captions.append((experiment.name, experiment.caption))
    tell("summary")
    with atomic(folder / "summary.md") as path:
        path.write_text(summary(captions, proven), encoding="utf-8")
    return [*files, folder / "summary.md"]


def experiments(
    certify: bool, condition_numbers: ArrayLike | None = None
) -> list[tuple[str, Callable[[], Experiment]]]:
    """Return the experiments by name; nothing is computed before one is called."""
    main = "Bias, variance, risk: s_i = 1/i^ν, n = 500, p = 100, signal-to-noise 1 (main figure)."
    designs = "The same for Gaussian, Student-t and orthogonal designs (appendix)."
    return [
        ("stability_polynomial", lambda: stability("polynomial", polynomial_spectra(), 1e7, main)),
        ("stability_designs", lambda: stability("designs", random_spectra(), 1e4, designs)),
        ("heavy_ball_constant", partial(heavy_ball_bound, certify, condition_numbers)),
    ]


def summary(captions: Iterable[tuple[str, str]], proven: BoundsTable | None) -> str:
    """Return the table of constants and the list of figures, as Markdown."""
    head = ["constant", "statement of the paper", "printed there"]
    intro = "With `--certify` all of them are proven, and more constants beside them."
    more = {}
    if proven is not None:
        intro = "Certified in ball arithmetic."
        head += ["at least", "at most", "verdict"]
        more = {row.statement: [*row.certified.printed(), row.verdict] for row in proven.rows}
    reading = (
        f'"{BEST_STOP}" is the ratio that the theorems of the paper bound; "{ONE_STOP}" is the '
        "min-max in their proofs, and the number for a plan that does not see the spectrum."
    )
    lines = ["# The paper, recomputed", "", "## Constants", "", f"{intro} {reading}", ""]
    rows = [
        [claim.statement, claim.source, paper_bound(claim.paper), *more.get(claim.statement, ())]
        for claim in claims()
        if claim.statement in more or (proven is None and claim.paper is not None)
    ]
    lines += ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    lines += ["", "## Figures", ""]
    lines += [f"- **{name}**: {caption}" for name, caption in captions]
    return "\n".join(lines) + "\n"
