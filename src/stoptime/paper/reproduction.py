"""The paper's experiments and one of our own: figures, numbers behind them, and a table of constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from stoptime.bounds import (
    BoundsRow,
    BoundsTable,
    heavy_ball_theorem,
    risk_inflation,
    statements,
    table,
)
from stoptime.bounds.heavy_ball_plan import make_plan
from stoptime.methods import METHODS, AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.base import Array
from stoptime.paper.discretisation import from_flow_to_iteration
from stoptime.paper.experiment import Experiment
from stoptime.support import plots
from stoptime.support.files import atomic
from stoptime.theory.calibration import calibrate, guarantee
from stoptime.theory.risk import RiskCurve, risk

__all__ = ["Experiment", "reproduce"]

N_SAMPLES, N_FEATURES = 500, 100
SEED = 2022
INVERSE_PENALTIES = np.geomspace(1e-1, 1e7, 1600)
CONDITION_NUMBERS = np.geomspace(1, 1e4, 17)
CERTIFIED_NUMBERS = (1.0, 10.0, 100.0, 1000.0)
CURVE_TOLERANCE, TABLE_TOLERANCE = 3e-3, 1e-3  # of constants that are not proven
SOURCES = {  # the statement of the paper that a constant belongs to, by how its name begins
    "gradient flow / ridge, t = 1/λ*": "prior work, quoted beside the lemma on gradient flow",
    "gradient flow / ridge": "Lemma: risk inflation for gradient flow",
    "accelerated flow / ridge, friction": "beyond the paper",
    "accelerated flow / ridge": "Theorem: risk inflation for accelerated gradient flow",
    "accelerated flow, parameter error, λ": "beyond the paper",
    "accelerated flow, parameter error": "Theorem: parameter error bound",
    "heavy-ball flow, parameter error": "Theorem: parameter error bound for heavy ball",
    "heavy-ball flow / ridge": "Lemma: risk inflation for heavy ball flow",
    "gradient flow, parameter error": "beyond the paper",
}
ORDER = ("nesterov-flow", "heavy-ball-flow", "gradient-flow", "ridge")  # as in the paper's legends


def polynomial_spectra() -> dict[str, Array]:
    """Return the spectra s_i = 1/i^ν of the paper's main figure, ascending."""
    i = np.arange(N_FEATURES, 0, -1, dtype=np.float64)
    return {f"ν = {nu:g}": i**-nu for nu in (0.1, 0.5, 1.0, 2.0)}


def random_spectra() -> dict[str, Array]:
    """Return the spectra of the appendix: Gaussian, Student-t, and two orthogonal designs."""
    rng = np.random.default_rng(SEED)

    def spectrum(X: Array) -> Array:
        return np.asarray(np.linalg.eigvalsh(X.T @ X / N_SAMPLES))

    shape = N_SAMPLES, N_FEATURES
    return {
        "Gaussian": spectrum(rng.standard_normal(shape)),
        "Student t, 3 degrees of freedom": spectrum(rng.standard_t(3, shape)),
        "orthogonal, s = 0.1": np.full(N_FEATURES, 0.1),
        "orthogonal, s = 1": np.full(N_FEATURES, 1.0),
    }


def dense_signal() -> Array:
    """Return dense coordinates of β₀ with ‖β₀‖² = 1, so that a noise of 1 is a signal-to-noise of 1."""
    a = np.random.default_rng(SEED + 1).standard_normal(N_FEATURES)
    return np.asarray(a / np.linalg.norm(a))


def paper_curves(eigenvalues: Array) -> dict[str, RiskCurve]:
    """Return the exact risk of the four methods of the paper, at t = 1/λ or t = 1/√λ."""
    signal = dense_signal()
    return {
        name: risk(
            name,
            INVERSE_PENALTIES ** (1 / METHODS[name].order),
            eigenvalues=eigenvalues,
            signal=signal,
            noise=1.0,
            n_samples=N_SAMPLES,
        )
        for name in ORDER
    }


def stability(name: str, spectra: dict[str, Array], last: float, caption: str) -> Experiment:
    """Draw bias and variance left and risk right up to 1/λ = last, one row for each spectrum."""
    figure, axes = plots.new_figure(len(spectra), 2, figsize=(9, 2.5 * len(spectra)), sharex=True)
    rows: list[tuple[Any, ...]] = []
    for (title, eigenvalues), (left, right) in zip(spectra.items(), axes, strict=True):
        curves = paper_curves(eigenvalues)
        plots.bias_and_variance(curves, INVERSE_PENALTIES, ax=left)
        plots.risks(curves, INVERSE_PENALTIES, ax=right)
        left.set_title(title, loc="left", fontsize="medium")
        top = max(curve.total.max() for curve in curves.values())
        left.set_ylim(1e-4 * top, 2 * top)
        left.set_xlim(INVERSE_PENALTIES[0], last)
        for method, curve in curves.items():
            numbers = (INVERSE_PENALTIES, curve.stops, curve.bias, curve.variance, curve.total)
            rows.extend((title, method, *map(float, row)) for row in zip(*numbers, strict=True))
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    columns = ("spectrum", "method", "inverse_penalty", "stop", "bias", "variance", "risk")
    return Experiment(name, figure, columns, rows, caption)


def heavy_ball_bound(certify: bool) -> Experiment:
    """Draw the paper's h(κ) and the sharp constant on the same axes."""
    theorem = heavy_ball_theorem(CONDITION_NUMBERS)
    ends = [_sharp_heavy_ball(float(kappa), certify) for kappa in CONDITION_NUMBERS]
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    kind = "certified" if certify else "numerical"
    plots.heavy_ball_constant(CONDITION_NUMBERS, theorem, [upper for _, upper in ends], kind, ax=ax)
    rows: list[tuple[Any, ...]] = [
        (float(kappa), float(h), *end)
        for kappa, h, end in zip(CONDITION_NUMBERS, theorem, ends, strict=True)
    ]
    columns = ("kappa", "theorem_h", f"{kind}_lower", f"{kind}_upper")
    caption = "Risk of heavy-ball flow over the best ridge risk: the paper's bound h(κ) and the sharp constant."
    return Experiment("heavy_ball_constant", figure, columns, rows, caption)


def _sharp_heavy_ball(kappa: float, certify: bool) -> tuple[float, float]:
    if certify:
        enclosure = risk_inflation(HeavyBallFlow(), condition_number=kappa)
        return enclosure.lower, enclosure.upper
    plan = make_plan(kappa, CURVE_TOLERANCE)
    return 1 + plan.floor, 1 + plan.cap


def friction_tradeoff() -> Experiment:
    """Draw guaranteed inflation and best stop against friction."""
    frictions = np.unique(
        np.concatenate([np.geomspace(2, 21, 20), np.linspace(4, 5, 9), [3, 6, 7, 9]])
    )
    best = [calibrate(AcceleratedFlow(r)) for r in frictions]
    columns = frictions, [c.inflation for c in best], [c.stop for c in best]
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    plots.friction(*columns, ax=ax)
    rows: list[tuple[Any, ...]] = [tuple(map(float, row)) for row in zip(*columns, strict=True)]
    caption = "What friction buys in guaranteed risk and costs in time: 5 instead of 3 gives 26 % instead of 60 %."
    return Experiment("friction_tradeoff", figure, ("friction", "inflation", "stop"), rows, caption)


def calibration_tradeoff() -> Experiment:
    """Draw the guaranteed distance from ridge against the constant of the calibration."""
    c = np.unique(np.append(np.geomspace(0.3, 12, 90), [0.790875, 1.0, 5.0002]))
    flows = {"gradient-flow": GradientFlow(), "nesterov-flow": AcceleratedFlow()}
    errors = {
        name: [guarantee(flow, float(value ** (1 / flow.order))).parameter_error for value in c]
        for name, flow in flows.items()
    }
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    plots.calibration(c, errors, ax=ax)
    rows: list[tuple[Any, ...]] = [
        tuple(map(float, row)) for row in zip(c, *errors.values(), strict=True)
    ]
    caption = "Distance from the ridge path: with λ = 5/t² instead of 1/t² it is at most 14 % instead of 77 %."
    columns = ("c", "gradient_flow", "accelerated_flow")
    return Experiment("calibration_tradeoff", figure, columns, rows, caption)


def reproduce(
    folder: Path | str = "reproduction",
    *,
    certify: bool = False,
    dark: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Run every experiment and write figures, their numbers, and ``summary.md``.

    Parameters
    ----------
    folder : path, default="reproduction"
        Made if it is missing. Files of an earlier run are replaced, each only by a whole one.
    certify : bool, default=False
        Prove the constants; needs the extra ``certify``.
    dark : bool, default=False
        Draw every figure for dark pages too.
    progress : callable, optional
        Called with the name of each part before it begins.

    Returns
    -------
    list of Path
        The files, ``summary.md`` last.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tell = progress or (lambda _: None)
    proven = table(CERTIFIED_NUMBERS, progress=tell) if certify else None
    files: list[Path] = []
    captions: list[tuple[str, str]] = []
    for name, run in experiments(certify):
        tell(name)
        experiment = run()
        files += experiment.write(folder, dark=dark)
        captions.append((experiment.name, experiment.caption))
    tell("summary")
    with atomic(folder / "summary.md") as path:
        path.write_text(summary(captions, proven), encoding="utf-8")
    return [*files, folder / "summary.md"]


def steps(certify: bool) -> list[str]:
    """Return the names of the parts, in the order in which :func:`reproduce` tells them."""
    proofs = statements(CERTIFIED_NUMBERS) if certify else ()
    return [*proofs, *(name for name, _ in experiments(certify)), "summary"]


def experiments(certify: bool) -> list[tuple[str, Callable[[], Experiment]]]:
    """Return the experiments by name; nothing is computed before one is called."""
    polynomial = "Bias, variance and risk for s_i = 1/i^ν, n = 500, p = 100, signal-to-noise 1 (main figure)."
    designs = "The same for Gaussian, Student-t and orthogonal designs (appendix)."
    return [
        (
            "stability_polynomial",
            lambda: stability("stability_polynomial", polynomial_spectra(), 1e7, polynomial),
        ),
        (
            "stability_designs",
            lambda: stability("stability_designs", random_spectra(), 1e4, designs),
        ),
        ("heavy_ball_constant", lambda: heavy_ball_bound(certify)),
        ("friction_tradeoff", friction_tradeoff),
        ("calibration_tradeoff", calibration_tradeoff),
        ("from_flow_to_iteration", from_flow_to_iteration),
    ]


def summary(captions: Iterable[tuple[str, str]], proven: BoundsTable | None) -> str:
    """Return the table of constants and the list of figures, as Markdown."""
    lines = ["# The paper, recomputed", "", "## Constants", ""]
    if proven is None:
        lines += ["Computed numerically; run `stoptime reproduce --certify` for proofs.", ""]
        columns = ("constant", "statement of the paper", "printed there", "recomputed", "verdict")
        lines += _markdown(
            columns, ((name, _source(name), *rest) for name, *rest in _numerical_constants())
        )
    else:
        header = (
            "constant",
            "statement of the paper",
            "printed there",
            "at least",
            "at most",
            "verdict",
        )
        lines += ["Certified in ball arithmetic.", ""]
        lines += _markdown(header, (_proven_row(row) for row in proven.rows))
    lines += ["", "## Figures", ""]
    lines += [f"- **{name}**: {caption}" for name, caption in captions]
    return "\n".join(lines) + "\n"


def _proven_row(row: BoundsRow) -> tuple[str, ...]:
    paper = "" if row.paper is None else f"{row.paper:.7g}"
    return row.statement, _source(row.statement), paper, *row.certified.printed(), row.verdict


def _source(constant: str) -> str:
    return next(source for start, source in SOURCES.items() if constant.startswith(start))


def _numerical_constants() -> list[tuple[str, ...]]:
    gradient, nesterov = GradientFlow(), AcceleratedFlow()
    return [
        ("gradient flow / ridge", "1.0786", f"{calibrate(gradient).inflation:.8f}", "confirmed"),
        (
            "gradient flow / ridge, t = 1/λ*",
            "1.2147",
            f"{calibrate(gradient, 'paper').inflation:.8f}",
            "confirmed",
        ),
        (
            "accelerated flow / ridge",
            "1.5991",
            f"{calibrate(nesterov).inflation:.8f}",
            "rounded down in the paper: 1.5992 is true",
        ),
        (
            "accelerated flow, parameter error",
            "0.7657",
            f"{calibrate(nesterov, 'paper').parameter_error:.8f}",
            "confirmed: 49/64",
        ),
        *(
            (
                f"heavy-ball flow / ridge, κ = {kappa:g}",
                f"{float(heavy_ball_theorem(kappa)):.5g}",
                f"{1 + make_plan(kappa, TABLE_TOLERANCE).floor:.3g}",
                "sharper",
            )
            for kappa in CERTIFIED_NUMBERS
        ),
        (
            "accelerated flow / ridge, friction 5",
            "",
            f"{calibrate(AcceleratedFlow(5)).inflation:.8f}",
            "new",
        ),
    ]


def _markdown(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [header, tuple("---" for _ in header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
