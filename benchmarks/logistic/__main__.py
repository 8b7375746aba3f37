"""Log loss, calibration and time of stopped logistic regression, against LogisticRegressionCV.

    python -m benchmarks.logistic           # some minutes; writes results and docs/logistic.md
    python -m benchmarks.logistic --quick   # three small problems, printed only
    python -m benchmarks.logistic --risk    # a simulation for the figure, some minutes
    python -m benchmarks.logistic --page    # writes the tables again from the stored results

The peer has 20 penalties and the same five folds, and chooses by the log loss. All fits are made in
one process with one thread, in turns. Columns are standardised on the training rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import stoptime as st
from benchmarks import figures, machine
from benchmarks.logistic import risk
from benchmarks.logistic.gpu import RESULTS as GPU
from benchmarks.logistic.problems import Problem, problems
from benchmarks.results import rounded
from stoptime.support.files import atomic

RESULTS = Path(__file__).parents[1] / "results" / "logistic.json"
RISKS = RESULTS.with_name("logistic_risk.json")
PAGE = Path(__file__).parents[2] / "docs" / "logistic.md"
QUICK = ("wine", "diabetes, thirds", "isotropic, 2 classes")
PEER = "LogisticRegressionCV"
OURS = "stopped"
METHODS = {
    OURS: st.Nesterov(),
    "friction 5": st.Nesterov(friction=5.0),
    "friction 9": st.Nesterov(friction=9.0),
    "average of friction 3": st.Averaged(st.Nesterov()),
    "heavy ball, momentum 0.9": st.HeavyBall(momentum=0.9),
    "gradient descent": st.GradientDescent(),
}
SQUARED = "squared loss, calibrated"
BIG = (50_000, 768, 10)


def calibration_error(y: Any, chances: Any, classes: Any) -> float:
    """Return the expected calibration error: 15 bins of the probability of the predicted class."""
    top = chances.max(axis=1)
    right = classes[chances.argmax(axis=1)] == y
    bins = np.minimum((15 * top).astype(int), 14)
    gaps = np.bincount(bins, top - right, 15)
    return float(np.abs(gaps).sum() / len(y))


def models() -> dict[str, Any]:
    """Return all classifiers, new ones."""
    found: dict[str, Any] = {
        name: st.StoppedLogisticRegressionCV(method) for name, method in METHODS.items()
    }
    penalties = np.geomspace(1e-4, 1e4, 20)
    found[PEER] = LogisticRegressionCV(
        Cs=penalties, cv=5, scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False
    )
    found[SQUARED] = st.StoppedClassifierCV()
    return found


def linearised_stop(X: Any, y: Any, method: Any, last: int) -> int:
    """Return the stop of exact leave-one-out for the loss linearised at zero logits."""
    onehot = np.eye(y.max() + 1)[y]
    slower = st.Nesterov(step=method.step / onehot.shape[1], friction=method.friction)
    stops = np.unique(np.round(np.geomspace(1, last, 60)))
    errors = st.leave_one_out(X, onehot, slower, stops, standard_errors=False).pooled().errors
    return int(stops[np.argmin(errors)])


def measured(problem: Problem) -> dict[str, Any]:
    """Return log loss, calibration error and time of every classifier, averaged over splits."""
    sums: dict[str, np.ndarray] = {}
    quick = []
    for seed in range(problem.times):
        rows, labels = problem.draw(seed)
        X, X_new, y, y_new = train_test_split(
            rows, labels, train_size=problem.rows, random_state=seed, stratify=labels
        )
        scaler = StandardScaler().fit(X)
        X, X_new = scaler.transform(X), scaler.transform(X_new)
        for name, model in models().items():
            begin = time.perf_counter()
            model.fit(X, y)
            spent = time.perf_counter() - begin
            chances = model.predict_proba(X_new)
            found = log_loss(y_new, chances), calibration_error(y_new, chances, model.classes_)
            sums[name] = sums.get(name, 0.0) + np.array([*found, spent]) / problem.times
            if name == OURS and seed == 0:
                begin = time.perf_counter()
                stop = linearised_stop(X, y, model.method_, 8 * model.stop_ + 50)
                spent = time.perf_counter() - begin
                other = st.StoppedLogisticRegression(model.method_, stop).fit(X, y)
                loss = log_loss(y_new, other.predict_proba(X_new))
                quick = [stop, model.stop_, loss / found[0], spent]
    print(f"{problem.name:34s}", {k: rounded(v.tolist()) for k, v in sums.items()}, flush=True)
    return {
        "name": problem.name,
        "shape": [problem.rows, int(rows.shape[1])],
        "classes": len(np.unique(labels)),
        "times": problem.times,
        "models": {name: found.tolist() for name, found in sums.items()},
        "linearised": quick,
    }


def big() -> dict[str, Any]:
    """Time the whole path with five folds against one fit with one penalty, on large data."""
    n, p, q = BIG
    found = {}
    for name, decay in (("standardised", 0.5), ("falling variances", 1.0)):
        rng = np.random.default_rng(0)
        scale = np.arange(1, p + 1) ** -decay
        y = rng.integers(q, size=n + 5000)
        means = (0.35 if decay < 1 else 0.2) * rng.standard_normal((q, p)) * scale
        X = means[y] + np.sqrt(scale) * rng.standard_normal((n + 5000, p))
        X = X.astype(np.float32)
        if name == "standardised":
            X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
        rows = {}
        for who, model in (
            ("ours", st.StoppedLogisticRegressionCV()),
            ("peer", LogisticRegression(max_iter=1000)),
        ):
            begin = time.perf_counter()
            model.fit(X[:n], y[:n])
            spent = time.perf_counter() - begin
            loss = log_loss(y[n:], model.predict_proba(X[n:]))
            rows[who] = [spent, float(loss), int(np.max(model.n_iter_))]
        found[name] = rows
        print(name, rows, flush=True)
    return found


def study(quick: bool) -> dict[str, Any]:
    """Run everything and return plain data."""
    begin = time.perf_counter()
    with machine.pinned(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = [measured(one) for one in problems() if not quick or one.name in QUICK]
        large = {} if quick else big()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": machine.environment(1),
        "minutes": (time.perf_counter() - begin) / 60,
        "data": data,
        "big": large,
    }


def ratios(results: dict[str, Any], name: str, other: str = PEER, place: int = 0) -> Any:
    """Return the quotients of a number of two classifiers, one for each problem."""
    rows = [one["models"] for one in results["data"]]
    return np.array([one[name][place] / one[other][place] for one in rows])


def geometric(values: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page by their names."""
    loss, speed = ratios(results, OURS), 1 / ratios(results, OURS, place=2)
    ece = [np.mean([one["models"][who][1] for one in results["data"]]) for who in (OURS, PEER)]
    wins = int(np.sum(loss <= 1))
    summary = (
        f"On {len(loss)} data sets the log loss over that of LogisticRegressionCV is "
        f"{geometric(loss):.3f} in the geometric mean, {loss.max():.3f} at most, and at most 1 on "
        f"{wins}. The fit is {np.median(speed):.1f} times as fast in the median, "
        f"{speed.min():.1f} times at least. The calibration error is {ece[0]:.3f} in the mean, and "
        f"{ece[1]:.3f} for LogisticRegressionCV."
    )
    lines = [
        "| data | rows × columns, classes | log loss | peer | ratio | ECE | peer | times as fast |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in results["data"]:
        ours, peer = one["models"][OURS], one["models"][PEER]
        n, p = one["shape"]
        lines.append(
            f"| {one['name']} | {n} × {p}, {one['classes']} | {ours[0]:.3f} | {peer[0]:.3f} | "
            f"{ours[0] / peer[0]:.3f} | {ours[1]:.3f} | {peer[1]:.3f} | {peer[2] / ours[2]:.1f} |"
        )
    return {
        "summary": summary,
        "data": "\n".join(lines),
        "which": which(results),
        "methods": methods_table(results),
        "linearised": linearised_table(results),
        "big": big_table(results),
    }


def which(results: dict[str, Any]) -> str:
    """Return how the squared loss compares, where classes overlap and where they do not."""
    loss = ratios(results, SQUARED, OURS)
    spent = geometric(ratios(results, OURS, SQUARED, place=2))
    left = [one["models"][OURS][0] / np.log(one["classes"]) for one in results["data"]]
    overlap = np.array(left) > 0.5
    return (
        f"Squared loss with calibrated probabilities has {geometric(loss[overlap]):.2f} times the "
        f"log loss of `StoppedLogisticRegressionCV` on the {overlap.sum()} data sets where the "
        f"classes overlap (the log loss is more than half of that of guessing), and "
        f"{geometric(loss[~overlap]):.2f} times on the {np.sum(~overlap)} others, at most "
        f"{loss.max():.1f} times. Stopped logistic regression takes {spent:.1f} times as long."
    )


def simulation_tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the simulation."""
    kinds = list(risk.METHODS)
    lines = [f"| signal | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for name, row in results["ratios"].items():
        cells = [f"{row[kind][0]:.3f} ± {row[kind][1]:.3f}" for kind in kinds]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    head = "| penalty | least squares | cross-entropy, small logits | large logits |"
    rows = [" | ".join(f"{one:g}" for one in row) for row in results["closest"]]
    closest = [head, "|---|---|---|---|", *(f"| {one} |" for one in rows)]
    return {"risk": "\n".join(lines), "closest": "\n".join(closest)}


def gpu_line(one: dict[str, Any]) -> str:
    """Return the sentence about the GPU."""
    return (
        f"On one {one['device']}, {one['shape'][0]} × {one['shape'][1]} in single precision, "
        f"{one['classes']} classes, {one['folds']} folds and {one['steps']} steps take "
        f"{min(one['times']['fit']):.1f} s, {one['ratio']:.2f} times the bare products."
    )


def methods_table(results: dict[str, Any]) -> str:
    """Return log losses and times of all methods and of the squared loss."""
    lines = ["| classifier | log loss | largest | isotropic | time |", "|---|---|---|---|---|"]
    isotropic = [one["name"].startswith("isotropic") for one in results["data"]]
    for name in (*METHODS, SQUARED):
        loss = ratios(results, name)
        spent = geometric(ratios(results, name, place=2))
        shown = "Nesterov, friction 3 (the default)" if name == OURS else name
        lines.append(
            f"| {shown} | {geometric(loss):.3f} | {loss.max():.3f} | "
            f"{geometric(loss[isotropic]):.3f} | {spent:.2f} |"
        )
    return "\n".join(lines)


def linearised_table(results: dict[str, Any]) -> str:
    """Return the stops of the linearised loss beside those of lockstep."""
    head = "| data | stop, linearised | stop, lockstep | log loss over that of lockstep |"
    lines = [head, "|---|---|---|---|"]
    for one in results["data"]:
        stop, best, loss, _ = one["linearised"]
        lines.append(f"| {one['name']} | {stop} | {best} | {loss:.3f} |")
    return "\n".join(lines)


def big_table(results: dict[str, Any]) -> str:
    """Return times of the whole path over those of one penalty."""
    n, p, q = BIG
    head = f"| {n} × {p}, {q} classes, float32 | steps | log loss | seconds | ratio |"
    lines = [head, "|---|---|---|---|---|"]
    for name, rows in results["big"].items():
        for who, shown in (
            ("ours", "five folds, all stops"),
            ("peer", "scikit-learn, one penalty"),
        ):
            spent, loss, steps = rows[who]
            over = f"{rows['ours'][0] / rows['peer'][0]:.1f}" if who == "ours" else ""
            lines.append(f"| {name}: {shown} | {steps} | {loss:.3f} | {spent:.1f} | {over} |")
    return "\n".join(lines)


def filled(page: str, parts: dict[str, str]) -> str:
    """Return the page with each table between its two marks."""
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, mark, rest = page.partition(begin)
        if not mark or end not in rest:
            raise ValueError(f"The page has no marks for {name}.")
        page = f"{before}{begin}\n{text}\n\n{end}{rest.partition(end)[2]}"
    return page


def write(file: Path, results: dict[str, Any]) -> None:
    """Write results, rounded."""
    with atomic(file) as path:
        path.write_text(json.dumps(rounded(results), indent=1, ensure_ascii=False) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, and write the tables of a full run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three small problems, printed only")
    parser.add_argument("--risk", action="store_true", help="the simulation alone")
    parser.add_argument("--page", action="store_true", help="write the tables again")
    options = parser.parse_args(arguments)
    if options.quick:
        print(tables(study(quick=True) | {"big": {}})["summary"])
        return 0
    if options.risk:
        write(RISKS, risk.simulated())
    elif not options.page:
        write(RESULTS, study(quick=False))
    parts = {}
    if RESULTS.exists():
        parts |= tables(json.loads(RESULTS.read_text(encoding="utf-8")))
    if RISKS.exists():
        simulated = json.loads(RISKS.read_text(encoding="utf-8"))
        parts |= simulation_tables(simulated)
        folder = PAGE.parent / "_static" / "benchmarks"
        figures.write(lambda page: risk.picture(simulated, page), folder, "logistic-risk")
    if GPU.exists():
        parts["gpu"] = gpu_line(json.loads(GPU.read_text(encoding="utf-8")))
    with atomic(PAGE) as path:
        path.write_text(filled(PAGE.read_text(encoding="utf-8"), parts), "utf-8")
    print(f"wrote the tables of {PAGE.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
