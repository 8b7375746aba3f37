"""Prediction errors of RidgeCV, the stopped methods and other models on many data sets.

    python -m benchmarks.datasets           # under 15 minutes; writes docs/datasets.md
    python -m benchmarks.datasets --quick   # a few small problems, printed only

Every model tunes itself inside each of five outer folds. Excess risks are exact, for problems whose
truth is known. The results are written to benchmarks/results/datasets.json.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoCV, LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import stoptime as st
from benchmarks import harness
from benchmarks.problems import Problem, prepared, problems
from stoptime.show import plots

PAGE = "datasets.md"
FILE = "datasets.json"
QUICK = ("iris", "linnerud", "smooth surface, rbf", "blur, smooth")
BASELINE = "RidgeCV"
AUTO = "auto"
SIMPLE = "auto, simple"  # ridge, unless another method is better by a paired standard error
BOOSTING = "gradient boosting"  # gets the columns without scaling, expansion or kernel
MODELS = (
    BASELINE, AUTO, SIMPLE, "gradient flow", "friction 3", "PLS", "PCR", "LassoCV", "KernelRidge",
    BOOSTING,
)  # fmt: skip
PENALTIES = np.geomspace(1e-8, 1e4, 100)
COMPONENTS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 40, 60, 80, 120)
INNER = KFold(5, shuffle=True, random_state=0)
FOLDS = 5
# of a signal, the power by which its coefficients fall, and the goal for the ratio of excess risks
SIGNALS = {
    "a = 1/2": (0.5, 0.92),
    "a = 1": (1.0, 0.68),
    "a = 2": (2.0, 0.55),
    "isotropic": (None, 1.02),
}
# Okabe and Ito's palette, which colour-blind readers can distinguish; shapes repeat the colours.
MARKS = {
    "better": ("#0072B2", "o", "better than RidgeCV"),
    "equal": ("#999999", "D", "within one standard error"),
    "worse": ("#D55E00", "X", "worse than RidgeCV"),
}

# ---------------------------------------------------------------- models


def searched(model: BaseEstimator, parameter: str, values: object) -> GridSearchCV:
    """Return a model with one parameter chosen by five inner folds."""
    return GridSearchCV(model, {parameter: values}, cv=INNER, scoring="neg_mean_squared_error")


def models_of(n: int, p: int, *, kernel: bool = False) -> dict[str, BaseEstimator]:
    """Return the models for n training rows with p columns, or for a kernel matrix."""
    stopped: Any = st.StoppedRegressorCV
    options: dict[str, Any] = {}
    ridge: BaseEstimator = RidgeCV(PENALTIES)
    if kernel:
        stopped = st.StoppedKernelRegressorCV
        options = {"kernel": "precomputed"}
        # columns whose inner products are the kernel matrix, so that RidgeCV can use a kernel
        ridge = make_pipeline(KernelPCA(kernel="precomputed", remove_zero_eig=True), ridge)
        search = searched(KernelRidge(**options), "alpha", np.geomspace(1e-6, 1e2, 17))
        # KernelRidge fits no intercept, so it gets a centred response
        centred = TransformedTargetRegressor(search, transformer=StandardScaler())
        others: dict[str, BaseEstimator] = {"KernelRidge": centred}
    else:
        most = min(p, int(0.8 * n) - 1)  # rank of a centred inner training set
        components = [k for k in COMPONENTS if k <= most]
        latent = [k for k in components if k <= 30]
        regression = make_pipeline(PCA(svd_solver="full"), LinearRegression())
        others = {
            # without scaling of its own, so that all linear models see the same columns
            "PLS": searched(PLSRegression(scale=False), "n_components", latent),
            "PCR": searched(regression, "pca__n_components", components),
            "LassoCV": LassoCV(cv=INNER),
        }
    return {
        BASELINE: ridge,
        AUTO: stopped("auto", **options),
        SIMPLE: stopped("auto", prefer_simple=True, **options),
        "gradient flow": stopped("gradient-flow", **options),
        "friction 3": stopped(st.AcceleratedFlow(3), **options),
        **others,
        BOOSTING: GradientBoostingRegressor(random_state=0),
    }


# ---------------------------------------------------------------- measurements


def repetitions(problem: Problem, n: int) -> int:
    """Return how often the outer folds are drawn anew."""
    if problem.kernel is not None and problem.generated:
        return 3
    return 10 if n < 100 else 4 if n < 250 else 1


def cross_validated(problem: Problem, quick: bool = False) -> dict[str, Any]:
    """Return errors, paired differences to RidgeCV and fitting times of all models."""
    n = len(problem.load(0)[1])
    repeats = 1 if quick else repetitions(problem, n)
    losses: dict[str, np.ndarray] = {}
    times: dict[str, list[float]] = {}
    edges = 0
    squares = []
    for seed in range(repeats):
        X, y = problem.load(seed)
        squares.append((y - y.mean()) ** 2)
        for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(X):
            fitted, other = prepared(problem, X[train], X[test])
            for name, model in models_of(*fitted.shape, kernel=problem.kernel is not None).items():
                raw = name == BOOSTING
                spent = harness.fit_seconds(model, X[train] if raw else fitted, y[train])
                times.setdefault(name, []).append(spent)
                predicted = np.ravel(model.predict(X[test] if raw else other))
                rows = losses.setdefault(name, np.empty((repeats, n)))
                rows[seed, test] = (y[test] - predicted) ** 2
                if name == BASELINE:
                    ridge = model[-1] if hasattr(model, "steps") else model
                    edges += ridge.alpha_ in {PENALTIES[0], PENALTIES[-1]}
    variance = float(np.mean(squares))
    return {
        "name": problem.name,
        "group": problem.group,
        "n": n,
        "p": int(fitted.shape[1]),
        "repeats": repeats,
        "ridge_at_edge": int(edges),
        "models": compared(losses, times, variance, problem.generated),
    }


def compared(
    losses: dict[str, np.ndarray], times: dict[str, list[float]], variance: float, generated: bool
) -> dict[str, dict[str, float]]:
    """Return the share of the variance, its difference to RidgeCV, and the median time."""
    found = {}
    for name, rows in losses.items():
        differences = rows - losses[BASELINE]
        # the same row in several repetitions is one observation; newly drawn rows are several
        units = differences.ravel() if generated else differences.mean(axis=0)
        found[name] = {
            "error": float(rows.mean() / variance),
            "difference": float(units.mean() / variance),
            "standard_error": float(units.std(ddof=1) / np.sqrt(len(units)) / variance),
            "seconds": float(np.median(times[name])),
        }
    return found


def excess_risks(name: str, seeds: int) -> dict[str, Any]:
    """Return exact excess risks of the prediction of new rows, relative to those of RidgeCV."""
    risks: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for seed in range(seeds):
        X, y, coef, variances = aligned(SIGNALS[name][0], seed)
        models = models_of(*X.shape)
        del models[BOOSTING]  # the risk of trees has no closed form
        for kind, model in models.items():
            times.setdefault(kind, []).append(harness.fit_seconds(model, X, y))
            risks.setdefault(kind, []).append(excess(model, coef, variances))
    base = np.asarray(risks[BASELINE])
    found = {}
    for kind, listed in risks.items():
        ratio, spread = harness.ratio_of_means(listed, base)
        found[kind] = {
            "excess": float(np.mean(listed)),
            "ratio": ratio,
            "standard_error": spread,
            "worst": float((np.asarray(listed) / base).max()),
            "seconds": float(np.median(times[kind])),
        }
    return {"name": name, "seeds": seeds, "models": found}


def aligned(alignment: float | None, seed: int) -> tuple[np.ndarray, ...]:
    """Draw 300 rows with variances 1/i and coefficients ± i^-a, or all isotropic."""
    n, p = 300, 150
    rng = np.random.default_rng(seed)
    order = np.arange(1, p + 1)
    if alignment is None:
        variances = np.ones(p)
        coef = rng.standard_normal(p)
    else:
        variances = 1 / order
        coef = order**-alignment * rng.choice([-1.0, 1.0], p)
    coef = coef / np.sqrt(variances @ coef**2)
    X = rng.standard_normal((n, p)) * np.sqrt(variances)
    return X, X @ coef + 0.5 * rng.standard_normal(n), coef, variances


def excess(model: BaseEstimator, coef: np.ndarray, variances: np.ndarray) -> float:
    """Return the exact expected squared error of the prediction, without the noise."""
    # every model here is affine, so its predictions at the unit vectors give its coefficients
    values = np.ravel(model.predict(np.vstack([np.zeros(len(coef)), np.eye(len(coef))])))
    error = values[1:] - values[0] - coef
    return float(variances @ error**2 + values[0] ** 2)


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Run everything and return plain data."""
    begin = time.perf_counter()
    run = harness.run_of(given) | {"data": [], "synthetic": []}
    with threadpool_limits(given.threads):
        for problem in problems():
            if given.quick and problem.name not in QUICK:
                continue
            one = cross_validated(problem, given.quick)
            run["data"].append(one)
            spent = time.perf_counter() - begin
            said = f"auto / RidgeCV {ratio(one):.4f} ({in_errors(one):+.1f} standard errors)"
            print(f"{problem.name}: {said}, time ratio {slowdown(one):.2g}   {spent:.0f} s")
        for name in SIGNALS:
            run["synthetic"].append(excess_risks(name, 2 if given.quick else 50))
            print(name, run["synthetic"][-1]["models"][AUTO], flush=True)
    return run | {"minutes": (time.perf_counter() - begin) / 60}


# ---------------------------------------------------------------- the page


def ratio(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the test error of a model divided by that of RidgeCV."""
    # the stored errors have few digits, and the stored difference has as many of its own
    return float(1 + one["models"][model]["difference"] / one["models"][BASELINE]["error"])


def in_errors(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the difference to RidgeCV in paired standard errors."""
    found = one["models"][model]
    return found["difference"] / found["standard_error"] if found["standard_error"] else 0.0


def verdict(one: dict[str, Any], model: str = AUTO) -> str:
    """Return whether a model differs from RidgeCV by more than one paired standard error."""
    if abs(in_errors(one, model)) <= 1:
        return "equal"
    return "better" if in_errors(one, model) < 0 else "worse"


def slowdown(one: dict[str, Any], model: str = AUTO) -> float:
    """Return the fitting time relative to that of RidgeCV."""
    return float(one["models"][model]["seconds"] / one["models"][BASELINE]["seconds"])


def errors(data: list[dict[str, Any]]) -> Any:
    """Draw the test error of "auto" relative to RidgeCV on each data set, sorted."""
    ordered = sorted(data, key=ratio, reverse=True)
    figure, ax = plots.new_figure(figsize=(9, 1.4 + 0.25 * len(data)))
    for kind, (colour, shape, text) in MARKS.items():
        places = [place for place, one in enumerate(ordered) if verdict(one) == kind]
        shown = [ordered[place] for place in places]
        spreads = [
            one["models"][AUTO]["standard_error"] / one["models"][BASELINE]["error"]
            for one in shown
        ]
        label = f"{text}: {len(shown)}"
        style = {"fmt": shape, "color": colour, "elinewidth": 1.4, "capsize": 2}
        ax.errorbar([ratio(one) for one in shown], places, xerr=spreads, label=label, **style)
    ax.axvline(1, color="black", linewidth=0.8)
    names = [f"{one['name']}  ({one['n']} × {one['p']})" for one in ordered]
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_xlabel("test error of auto / test error of RidgeCV, ± one paired standard error")
    ax.grid(axis="x", alpha=0.25)
    figure.legend(loc="outside upper center", ncols=len(MARKS), frameon=False)
    return figure


def summary(data: list[dict[str, Any]]) -> str:
    """Return the table of all models against RidgeCV."""
    head = (
        "against RidgeCV", "data sets", "better", "equal", "worse", "better by 2", "worse by 2",
        "error ratio: least", "median", "largest", "median time ratio",
    )  # fmt: skip
    rows = []
    for name in MODELS[1:]:
        having = [one for one in data if name in one["models"]]
        verdicts = [verdict(one, name) for one in having]
        sure = np.array([in_errors(one, name) for one in having])
        ratios = [ratio(one, name) for one in having]
        counts = [len(having), *(verdicts.count(kind) for kind in MARKS)]
        counts += [int(np.sum(sure < -2)), int(np.sum(sure > 2))]
        shown = [f"{value:.3g}" for value in (min(ratios), np.median(ratios), max(ratios))]
        spent = harness.short(float(np.median([slowdown(one, name) for one in having])))
        rows.append([name, *counts, *shown, spent])
    return harness.table(head, rows)


def results(data: list[dict[str, Any]]) -> str:
    """Return the test errors of all models, and the times of two of them."""
    names = [name for name in MODELS if name in data[0]["models"]]
    head = ("data", "n × p", *names, "auto − RidgeCV in standard errors", "RidgeCV", "auto")
    rows = []
    for one in data:
        least = min(found["error"] for found in one["models"].values())
        cells = [percent(one["models"][name]["error"], least) for name in names]
        times = [harness.seconds(one["models"][name]["seconds"]) for name in (BASELINE, AUTO)]
        size = f"{one['n']} × {one['p']}"
        rows.append([one["name"], size, *cells, f"{in_errors(one):+.1f}", *times])
    return harness.table(head, rows)


def percent(error: float, least: float) -> str:
    """Return an error as a share of the variance, in bold if it is the least."""
    text = f"{100 * error:.3g}" if 100 * error < 1000 else f"{100 * error:.1e}"
    return f"**{text}**" if error <= least * 1.0005 else text


def risks(synthetic: list[dict[str, Any]]) -> str:
    """Return the table of excess risks."""
    names = [name for name in MODELS[1:] if name in synthetic[0]["models"]]
    head = ("excess risk / RidgeCV's", *names, "auto, goal", "auto, worst seed", "time ratio")
    rows = []
    for one in synthetic:
        found = [one["models"][name] for name in names]
        cells = [f"{value['ratio']:.3f} ± {value['standard_error']:.3f}" for value in found]
        limit = SIGNALS[one["name"]][1]
        auto = one["models"][AUTO]
        goal = f"at most {limit}: " + ("holds" if auto["ratio"] <= limit else "**missed**")
        rows.append([one["name"], *cells, goal, f"{auto['worst']:.2f}", f"{slowdown(one):.2g}"])
    return harness.table(head, rows)


def parts() -> dict[str, str]:
    """Return what the page shows of the stored results."""
    run = harness.load(FILE)
    data = run["data"]
    found = {
        "summary": summary(data),
        "risks": risks(run["synthetic"]),
    }
    for group in ("bundled", "shipped", "kernel", "inverse"):
        found[group] = results([one for one in data if one["group"] == group])
    edges = ", ".join(
        f"{one['name']} ({one['ridge_at_edge']} of {FOLDS * one['repeats']} fits)"
        for one in data
        if one["ridge_at_edge"]
    )
    where = f"`RidgeCV` chose the first or the last of its 100 penalties on {edges or 'none'}."
    return found | {"edges": f"- {where}", "machine": harness.machine_line(run)}


if __name__ == "__main__":
    figures = {"errors": lambda: errors(harness.load(FILE)["data"])}
    harness.command(__doc__, FILE, measured, {PAGE: parts}, figures, quick=False, threads=1)
