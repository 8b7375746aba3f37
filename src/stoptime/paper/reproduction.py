"""The paper's experiments and a few more: figures, their numbers, and a table of constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.bounds import heavy_ball_theorem, risk_inflation, statements, table
from stoptime.bounds.heavy_ball_plan import make_plan
from stoptime.methods.iterations import as_iteration
from stoptime.methods.recurrence import Recurrence

from stoptime.bounds.summary import (  # isort: skip
    BEST_STOP, ONE_STOP, TABLE_CONDITION_NUMBERS, BoundsRow, BoundsTable, Claim, claims,
    paper_bound,
)  # fmt: skip
from stoptime.methods.flows import AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov
from stoptime.methods.registry import METHODS
from stoptime.paper.experiment import Experiment, Rows
from stoptime.paper.optimisers import adaptive_paths, batch_sizes
from stoptime.paper.products import price_of_products
from stoptime.paper.sharp_constant import sharp_constant
from stoptime.show import plots
from stoptime.support.arrays import Array
from stoptime.support.files import atomic
from stoptime.support.wording import rounded_up
from stoptime.theory.calibration import calibrate, guarantee
from stoptime.theory.risk import RiskCurve, risk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Experiment", "reproduce"]

N_SAMPLES = 500
N_FEATURES = 100
SEED = 2022
INVERSE_PENALTIES = np.geomspace(1e-1, 1e7, 1600)
CURVE_CONDITION_NUMBERS = np.geomspace(1, 1e4, 17)
FRICTIONS = np.unique([*np.geomspace(2, 21, 20), *np.linspace(4, 5, 9), 3, 6, 7, 9])
CURVE_TOLERANCE = 3e-3  # of constants in the figure that are not proven
PROVEN_CURVE_TOLERANCE = 1e-3
SOURCES = (  # the statement of the paper that a constant belongs to, by how its name begins
    ("gradient flow / ridge, t", "prior work, quoted beside the lemma on gradient flow"),
    (f"gradient flow / ridge, {BEST_STOP}", "Lemma: risk inflation for gradient flow"),
    (f"gradient flow / ridge, {ONE_STOP}", "the min-max in the proof of this lemma"),
    (f"accelerated flow / ridge, {BEST_STOP}", "Theorem: risk inflation for accelerated flow"),
    (f"accelerated flow / ridge, {ONE_STOP}", "the min-max in the proof of this theorem"),
    ("accelerated flow, parameter error", "Theorem: parameter error bound"),
    ("heavy-ball flow, parameter error", "Theorem: parameter error bound for heavy ball"),
    ("heavy-ball flow / ridge", "Lemma: risk inflation for heavy ball flow"),
    ("critically damped flow / ridge", "arXiv 2201.05405, stated as 1.035"),
)
ORDER = (
    "accelerated-flow",
    "heavy-ball-flow",
    "gradient-flow",
    "ridge",
)  # as in the paper's legends
# Marker and colour by √ε, the time of one iteration if the largest eigenvalue is one.
MARKERS = {0.5: ("o", "#D55E00"), 0.25: ("^", "#E69F00"), 0.125: (".", "#0072B2")}
LAST_TIME = 24.0
EIGENVALUE = 0.5
RUNS = 500
ITERATES = 60
COMPARED: dict[str, tuple[GradientFlow | AcceleratedFlow | HeavyBallFlow, Recurrence]] = {
    "gradient descent": (GradientFlow(), GradientDescent()),
    "Nesterov": (AcceleratedFlow(), Nesterov()),
    "heavy ball": (HeavyBallFlow(0.3), HeavyBall(momentum=0.8)),
}


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
        plots.bias_and_variance(curves, INVERSE_PENALTIES, ax=left)
        plots.risks(curves, INVERSE_PENALTIES, ax=right)
        left.set_title(title, loc="left", fontsize="medium")
        top = max(curve.total.max() for curve in curves.values())
        left.set(xlim=(INVERSE_PENALTIES[0], last), ylim=(1e-4 * top, 2 * top))
        for method, curve in curves.items():
            numbers = (INVERSE_PENALTIES, curve.stops, curve.bias, curve.variance, curve.total)
            rows.extend((title, method, *map(float, row)) for row in zip(*numbers, strict=True))
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    columns = ("spectrum", "method", "inverse_penalty", "stop", "bias", "variance", "risk")
    return Experiment(f"stability_{kind}", figure, columns, rows, caption)


def heavy_ball_bound(certify: bool) -> Experiment:
    """Draw the paper's h(κ) and the sharp constant on the same axes."""
    theorem = heavy_ball_theorem(CURVE_CONDITION_NUMBERS)
    tolerance = None if certify else CURVE_TOLERANCE
    ends = [_sharp_heavy_ball(kappa, tolerance) for kappa in CURVE_CONDITION_NUMBERS.tolist()]
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    kind = "certified" if certify else "numerical"
    numbers = np.column_stack([CURVE_CONDITION_NUMBERS, theorem, ends])
    plots.heavy_ball_constant(CURVE_CONDITION_NUMBERS, theorem, numbers[:, -1], kind, ax=ax)
    rows = [tuple(row) for row in numbers.tolist()]
    columns = ("kappa", "theorem_h", f"{kind}_lower", f"{kind}_upper")
    caption = "Risk of heavy-ball flow over the best ridge risk: the bound h(κ), and a sharp one."
    return Experiment("heavy_ball_constant", figure, columns, rows, caption)


def _sharp_heavy_ball(kappa: float, tolerance: float | None) -> tuple[float, float]:
    """Return both ends of the constant: certified, or found numerically to a given tolerance."""
    if tolerance is None:
        width = PROVEN_CURVE_TOLERANCE
        enclosure = risk_inflation(HeavyBallFlow(), condition_number=kappa, tolerance=width)
        return enclosure.lower, enclosure.upper
    # One eigenvalue: some stop has exactly ridge's shrinkage, and the search has no interval.
    if kappa == 1:
        return 1.0, 1.0
    plan = make_plan(kappa, tolerance)
    return 1 + plan.floor, 1 + plan.cap


def friction_tradeoff() -> Experiment:
    """Draw guaranteed inflation and best stop against friction."""
    best = [calibrate(AcceleratedFlow(r)) for r in FRICTIONS]
    columns = FRICTIONS, [c.inflation for c in best], [c.stop for c in best]
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    plots.friction(*columns, ax=ax)
    rows = [tuple(map(float, row)) for row in zip(*columns, strict=True)]
    caption = (
        "Risk over the best ridge risk: at most 26 % more (friction 5), 60 % more (friction 3)."
    )
    return Experiment("friction_tradeoff", figure, ("friction", "inflation", "stop"), rows, caption)


def calibration_tradeoff() -> Experiment:
    """Draw the guaranteed distance from ridge against the constant of the calibration."""
    c = np.unique([*np.geomspace(0.3, 12, 90), 0.790875, 1.0, 5.0002])
    errors = {}
    for flow in (GradientFlow(), AcceleratedFlow()):
        stops = c ** (1 / flow.time_power)
        errors[flow.name] = [guarantee(flow, stop).parameter_error for stop in stops.tolist()]
    figure, ax = plots.new_figure(figsize=(6.5, 4.5))
    plots.calibration(c, errors, ax=ax)
    rows = [tuple(map(float, row)) for row in zip(c, *errors.values(), strict=True)]
    caption = "Squared relative distance from ridge: at most 14.1 % (λ = 5/t²), 76.6 % (λ = 1/t²)."
    columns = ("c", "gradient_flow", "accelerated_flow")
    return Experiment("calibration_tradeoff", figure, columns, rows, caption)


def from_flow_to_iteration() -> Experiment:
    """Draw three panels: iterates on the flow, the gap, and the risk of every iteration."""
    figure, (left, middle, right) = plots.new_figure(1, 3, figsize=(14, 4))
    rows = [*_iterates(left), *_gaps(middle), *_risks(right)]
    for ax in (left, middle, right):
        ax.legend(fontsize="small")
    columns = ("panel", "method", "x", "value", "reference", "two_standard_errors")
    caption = "Iterates are within O(√ε) of their flow; exact risk and mean loss of 500 runs agree."
    return Experiment("from_flow_to_iteration", figure, columns, rows, caption)


def _iterates(ax: Axes) -> Rows:
    """Draw g of one direction: the flow as a line, iterates as dots."""
    t = np.linspace(0, LAST_TIME, 600)
    flow = AcceleratedFlow()
    g = flow.shrinkage(EIGENVALUE, t)
    ax.plot(t, g, color="0.25", linewidth=1.4, label="accelerated flow", zorder=1)
    rows: Rows = []
    for root, (marker, color) in MARKERS.items():
        k = np.arange(round(LAST_TIME / root) + 1)
        g = Nesterov(root**2).shrinkage(EIGENVALUE, k)
        reference = flow.shrinkage(EIGENVALUE, root * k)
        ax.plot(root * k, g, marker, color=color, markersize=4, label=f"Nesterov, √ε = {root:g}")
        for row in zip(root * k, g, reference, strict=True):
            rows.append(("iterates", f"√ε = {root:g}", *map(float, row), ""))
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlabel="time  t = √ε·k", ylabel=f"shrinkage g at s = {EIGENVALUE:g}")
    ax.set_title("Iterates follow the flow")
    return rows


def _gaps(ax: Axes) -> Rows:
    """Draw the largest gap between iterate and flow up to t = 6, by the time of one iteration."""
    s = np.linspace(0, 1, 200)[:, None]
    paces = 2.0 ** -np.arange(1, 8)
    rows: Rows = []
    for label, (flow, _) in COMPARED.items():
        gaps = []
        for pace in paces.tolist():
            k = np.arange(1, round(6 / pace) + 1)
            g = as_iteration(flow, pace**flow.time_power).shrinkage(s, k)
            gaps.append(float(np.abs(g - flow.shrinkage(s, pace * k)).max()))
            rows.append(("gap", label, pace, gaps[-1], "", ""))
        ax.loglog(paces, gaps, "o-", color=plots.COLORS[flow.name], ms=4, linewidth=1, label=label)
    ax.loglog(paces, 0.08 * paces, ":", color="0.4", label="slope one")
    ax.set(xlabel="time of one iteration (ε or √ε)", ylabel="largest gap up to t = 6")
    ax.set_title("Halving √ε halves the gap")
    return rows


def _risks(ax: Axes) -> Rows:
    """Draw the exact risk of every iteration, and the mean loss of simulated runs on top."""
    rng = np.random.default_rng(0)
    n, p, noise = 100, 40, 4.0
    X = rng.standard_normal((n, p)) * np.geomspace(0.15, 1, p)
    beta = rng.standard_normal(p)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    responses = (X @ beta)[:, None] + np.sqrt(noise) * rng.standard_normal((n, RUNS))
    known: dict[str, Any] = {"signal": vectors.T @ beta, "noise": noise, "n_samples": n}
    k = np.arange(ITERATES + 1)
    dots: dict[str, Any] = {"fmt": "o", "ms": 3, "mfc": "white", "elinewidth": 0.8}
    rows: Rows = []
    for label, (_, method) in COMPARED.items():
        tuned = method.tuned_to(values)
        curve = risk(tuned, k, eigenvalues=values, **known)
        losses = _losses(tuned, X, responses, beta)
        mean = losses.mean(axis=1)
        error = 2 * losses.std(axis=1) / np.sqrt(RUNS)
        color = plots.COLORS[method.name]
        ax.plot(k, curve.total, color=color, linewidth=1.4, label=label)
        ax.errorbar(k[::3], mean[::3], error[::3], color=color, **dots)
        ax.plot(curve.best, curve.best_total, "*", color=color, markersize=11)
        for row in zip(k, curve.total, mean, error, strict=True):
            rows.append(("risk", label, *map(float, row)))
    ax.plot([], [], "o", color="0.3", ms=3, mfc="white", label=f"mean of {RUNS} runs ± 2 s.e.")
    ax.set(xlabel="iteration k", ylabel="risk", ylim=(0, None))
    ax.set_title("Exact risk; stars: best stop")
    return rows


def _losses(method: Recurrence, X: Array, responses: Array, beta: Array) -> Array:
    """Run the iteration on all responses; return squared distances from β, (iterates + 1, runs)."""
    point = np.zeros((X.shape[1], responses.shape[1]))
    move = np.zeros_like(point)
    losses = []
    for k in range(1, ITERATES + 2):
        losses.append(((point - beta[:, None]) ** 2).sum(axis=0))
        momentum, lookahead, weight = method.coefficients(k)
        # This uses the data, not the spectrum, so it is an independent check of the exact risk.
        gradient = X.T @ (X @ (point + lookahead * move) - responses) / len(X)
        move = momentum * move - weight * method.epsilon * gradient
        point = point + move
    return np.array(losses)


def reproduce(
    folder: Path | str = "reproduction",
    *,
    certify: bool = False,
    dark: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Run every experiment, write figures, their numbers and ``summary.md``, and return the files.

    Files of an earlier run are replaced, each only by a complete one. With ``certify`` the
    constants are proven, which needs the extra ``certify``; with ``dark`` every figure is also
    drawn for dark pages. ``progress`` is called with the name of each part before it begins.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tell = progress or (lambda _: None)
    proven = table(progress=tell) if certify else None
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
    """Return the names of the parts, in the order in which :func:`reproduce` reports them."""
    return [*(statements() if certify else ()), *dict(experiments(certify)), "summary"]


def experiments(certify: bool) -> list[tuple[str, Callable[[], Experiment]]]:
    """Return the experiments by name; nothing is computed before one is called."""
    main = "Bias, variance, risk: s_i = 1/i^ν, n = 500, p = 100, signal-to-noise 1 (main figure)."
    designs = "The same for Gaussian, Student-t and orthogonal designs (appendix)."
    return [
        ("stability_polynomial", lambda: stability("polynomial", polynomial_spectra(), 1e7, main)),
        ("stability_designs", lambda: stability("designs", random_spectra(), 1e4, designs)),
        ("sharp_constant", sharp_constant),
        ("heavy_ball_constant", partial(heavy_ball_bound, certify)),
        ("friction_tradeoff", friction_tradeoff),
        ("calibration_tradeoff", calibration_tradeoff),
        ("from_flow_to_iteration", from_flow_to_iteration),
        ("price_of_products", price_of_products),
        ("batch_sizes", batch_sizes),
        ("adaptive_paths", adaptive_paths),
    ]


def summary(captions: Iterable[tuple[str, str]], proven: BoundsTable | None) -> str:
    """Return the table of constants and the list of figures, as Markdown."""
    if proven is None:
        intro = "Estimated in floating point, without a proof; `--certify` proves all of them."
        head = ["constant", "statement of the paper", "printed there", "at most, about"]
        # Every number that is in print has an estimate; searches know some to three decimals only.
        rows = [
            [
                claim.statement,
                _source(claim),
                paper_bound(claim.paper),
                rounded_up(claim.estimate(), 4),
            ]
            for claim in claims(TABLE_CONDITION_NUMBERS)
            if claim.estimate is not None and claim.paper is not None
        ]
    else:
        intro = "Certified in ball arithmetic."
        head = [
            "constant",
            "statement of the paper",
            "printed there",
            "at least",
            "at most",
            "verdict",
        ]
        rows = [
            [
                row.statement,
                _source(row),
                paper_bound(row.paper),
                *row.certified.printed(),
                row.verdict,
            ]
            for row in proven.rows
        ]
    reading = (
        f'"{BEST_STOP}" is the ratio that the theorems of the paper bound; "{ONE_STOP}" is the '
        "min-max in their proofs, and the number for a plan that does not see the spectrum."
    )
    lines = ["# The paper, recomputed", "", "## Constants", "", f"{intro} {reading}", ""]
    lines += ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    lines += ["", "## Figures", ""]
    lines += [f"- **{name}**: {caption}" for name, caption in captions]
    return "\n".join(lines) + "\n"


def _source(claim: Claim | BoundsRow) -> str:
    """Return the statement of the paper that a constant belongs to."""
    if claim.paper is None:
        return "beyond the paper"
    return next(source for start, source in SOURCES if claim.statement.startswith(start))
