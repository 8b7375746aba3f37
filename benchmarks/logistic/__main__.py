"""Log loss, calibration and time of stopped logistic regression, against LogisticRegressionCV.

    python -m benchmarks.logistic           # some minutes; writes results and docs/logistic.md
    python -m benchmarks.logistic --quick   # three small problems, printed only
    python -m benchmarks.logistic --big     # 50 000 rows against one penalty; add --threads 2
    python -m benchmarks.logistic --risk    # a simulation for the figure, some minutes
    python -m benchmarks.logistic --page    # writes the tables again from the stored results

The peer has 20 penalties and the same five folds, and chooses by the log loss. All fits are made in
one process, by default with one thread, in turns. Columns are standardised on the training rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import stoptime as st
from benchmarks import harness
from benchmarks.harness import load, rounded, save
from benchmarks.logistic import risk
from benchmarks.logistic.problems import Problem, large, problems
from benchmarks.page import draw
from stoptime.support.files import atomic

PAGE = Path(__file__).parents[2] / "docs" / "logistic.md"
QUICK = ("wine", "diabetes, thirds", "isotropic, 2 classes")
PEER, OURS, PLAIN, SQUARED = "LogisticRegressionCV", "stopped", "friction 3", "squared loss"
METHODS: dict[str, Any] = {
    OURS: "auto",
    PLAIN: st.Nesterov(),
    "friction 5": st.Nesterov(friction=5.0),
    "friction 9": st.Nesterov(friction=9.0),
    "average of friction 3": st.Averaged(st.Nesterov()),
    "heavy ball, momentum 0.9": st.HeavyBall(momentum=0.9),
    "gradient descent": st.GradientDescent(),
}


def calibration_error(y: Any, chances: Any, classes: Any) -> float:
    """Return the expected calibration error: 15 bins of the probability of the predicted class."""
    top = chances.max(axis=1)
    right = classes[chances.argmax(axis=1)] == y
    bins = np.minimum((15 * top).astype(int), 14)
    return float(np.abs(np.bincount(bins, top - right, 15)).sum() / len(y))


def models() -> dict[str, Any]:
    """Return all classifiers, new ones."""
    stopped = {name: st.StoppedLogisticRegressionCV(method) for name, method in METHODS.items()}
    penalties = np.geomspace(1e-4, 1e4, 20)
    peer = LogisticRegressionCV(Cs=penalties, cv=5, scoring="neg_log_loss", max_iter=2000)
    return stopped | {PEER: peer, SQUARED: st.StoppedClassifierCV()}


def linearised(X: Any, y: Any, model: Any) -> Any:
    """Return the fit at the stop of exact leave-one-out for the loss linearised at zero logits."""
    onehot = np.eye(y.max() + 1)[y]
    slower = st.Nesterov(step=model.method_.step / onehot.shape[1])
    stops = np.unique(np.round(np.geomspace(1, 8 * model.stop_ + 50, 60)))
    errors = st.leave_one_out(X, onehot, slower, stops, standard_errors=False).pooled().errors
    return st.StoppedLogisticRegression(model.method_, int(stops[np.argmin(errors)])).fit(X, y)


def measured(problem: Problem) -> dict[str, Any]:
    """Return log loss, calibration error and time of every classifier, averaged over splits."""
    sums: dict[str, Any] = {}
    quick: list[float] = []
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
            loss = log_loss(y_new, chances)
            found = [loss, calibration_error(y_new, chances, model.classes_), spent]
            sums[name] = sums.get(name, 0.0) + np.array(found) / problem.times
            if name == PLAIN and seed == 0:
                other = linearised(X, y, model)
                over = log_loss(y_new, other.predict_proba(X_new)) / loss
                quick = [other.stop_, model.stop_, over]
    print(f"{problem.name:34s}", {k: rounded(v.tolist()) for k, v in sums.items()}, flush=True)
    return {
        "name": problem.name,
        "shape": [problem.rows, int(rows.shape[1])],
        "classes": len(np.unique(labels)),
        "models": {name: found.tolist() for name, found in sums.items()},
        "linearised": quick,
    }


def big(rounds: int = 3) -> dict[str, Any]:
    """Time the whole path with five folds against one fit with one penalty, on large data."""
    found: dict[str, Any] = {}
    for name, (X, y, X_new, y_new) in large():
        rows: dict[str, Any] = {"ours": [np.inf], "peer": [np.inf]}
        for _ in range(rounds):
            for who, model in (
                ("ours", st.StoppedLogisticRegressionCV()),
                ("peer", LogisticRegression(max_iter=1000)),
            ):
                begin = time.perf_counter()
                model.fit(X, y)
                spent = time.perf_counter() - begin
                loss = float(log_loss(y_new, model.predict_proba(X_new)))
                steps = int(np.max(model.n_iter_))
                rows[who] = [min(spent, rows[who][0]), loss, steps]
        found[name] = rows
        print(name, rows, f"ratio {rows['ours'][0] / rows['peer'][0]:.2f}", flush=True)
    return found


def study(quick: bool, threads: int) -> dict[str, Any]:
    """Run everything and return plain data."""
    environment = harness.environment(threads)
    with harness.pinned(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = [measured(one) for one in problems() if not quick or one.name in QUICK]
        found = {} if quick else big()
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "environment": environment, "data": data, "big": found}


def ratios(results: dict[str, Any], name: str, other: str = PEER, place: int = 0) -> Any:
    """Return the quotients of a number of two classifiers, one for each problem."""
    rows = [one["models"] for one in results["data"]]
    return np.array([one[name][place] / one[other][place] for one in rows])


def geometric(values: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def table(head: str, rows: Iterable[Iterable[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def summary(results: dict[str, Any], name: str, shown: str) -> str:
    """Return how a classifier compares with the peer, in words."""
    loss, speed = ratios(results, name), 1 / ratios(results, name, place=2)
    ece = [np.mean([one["models"][who][1] for one in results["data"]]) for who in (name, PEER)]
    return (
        f"{shown} the log loss is {geometric(loss):.3f} times the peer's in the geometric mean, "
        f"{loss.max():.3f} times at most, and above 1.05 times on {np.sum(loss > 1.05)}. The fit "
        f"is {np.median(speed):.1f} times as fast in the median, {speed.min():.1f} times at least. "
        f"The calibration error is {ece[0]:.3f} in the mean, that of the peer {ece[1]:.3f}."
    )


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


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the page that the study fills, by their names."""
    isotropic = [one["name"].startswith("isotropic") for one in results["data"]]
    methods, data, quick, large_data = [], [], [], []
    for name in (*METHODS, SQUARED):
        loss = ratios(results, name)
        numbers = geometric(loss), loss.max(), geometric(loss[isotropic])
        spent = geometric(ratios(results, name, place=2))
        shown = "friction 3, vanishing decay (the default)" if name == OURS else name
        methods.append([shown, *(f"{one:.3f}" for one in numbers), f"{spent:.2f}"])
    for one in results["data"]:
        ours, peer = one["models"][OURS], one["models"][PEER]
        shape = f"{one['shape'][0]} × {one['shape'][1]}, {one['classes']}"
        numbers = ours[0], peer[0], ours[0] / peer[0], ours[1], peer[1]
        faster = f"{peer[2] / ours[2]:.1f}"
        data.append([one["name"], shape, *(f"{number:.3f}" for number in numbers), faster])
        stop, best, over = one["linearised"]
        quick.append([one["name"], stop, best, f"{over:.3f}"])
    for name, rows in results["big"].items():
        ratio = rows["ours"][0] / rows["peer"][0]
        for who, shown, over in (
            ("ours", "five folds, all stops", f"{ratio:.1f}"),
            ("peer", "scikit-learn, one penalty", ""),
        ):
            spent, loss, steps = rows[who]
            large_data.append([f"{name}: {shown}", steps, f"{loss:.3f}", f"{spent:.1f}", over])
    ece = "data | rows × columns, classes | log loss | peer | ratio | ECE | peer | times as fast"
    linear = "data | stop, linearised | stop, lockstep | log loss over that of lockstep"
    return {
        "summary": f"On {len(results['data'])} data sets, beside LogisticRegressionCV with 20 "
        f"penalties and the same five folds:\n\n- {summary(results, OURS, 'By default')}\n"
        f"- {summary(results, PLAIN, 'With `method=' + chr(34) + 'nesterov' + chr(34) + '`')}",
        "data": table(ece, data),
        "which": which(results),
        "methods": table("classifier | log loss | largest | isotropic | time", methods),
        "linearised": table(linear, quick),
        "big": table("50000 × 768, 10 classes | steps | log loss | seconds | ratio", large_data),
    }


def simulation_tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the page that the simulation fills."""
    kinds = list(risk.METHODS)
    excess = [
        [name, *(f"{row[kind][0]:.3f} ± {row[kind][1]:.3f}" for kind in kinds)]
        for name, row in results["ratios"].items()
    ]
    closest = [[f"{one:g}" for one in row] for row in results["closest"]]
    following = [[f"{c:g}", f"{worst:.3f}", f"{t:.1f}"] for c, worst, t in results["following"]]
    head = "penalty | least squares | cross-entropy, small logits | large logits"
    return {
        "risk": table(f"signal | {' | '.join(kinds)}", excess),
        "closest": table(head, closest),
        "following": table("c | guarantee for least squares, at most | time", following),
    }


def gpu_line(one: dict[str, Any]) -> str:
    """Return the sentence about the GPU."""
    return (
        f"On one {one['device']}, {one['shape'][0]} × {one['shape'][1]} in single precision, "
        f"{one['classes']} classes, {one['folds']} folds and {one['steps']} steps take "
        f"{min(one['times']['fit']):.1f} s, {one['ratio']:.2f} times the bare products."
    )


def filled(page: str) -> str:
    """Return the page with each part between its two marks, from the stored results."""
    parts = tables(load("logistic.json")) | simulation_tables(load("logistic_risk.json"))
    for name, text in (parts | {"gpu": gpu_line(load("logistic_gpu.json"))}).items():
        before, rest = page.split(f"<!-- {name} -->\n")
        after = rest.split(f"<!-- end of {name} -->")[1]
        page = f"{before}<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->{after}"
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, and write the tables of a full run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("quick", "big", "risk", "page"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.quick:
        print(tables(study(True, given.threads))["summary"])
    elif given.big:
        with harness.pinned(given.threads):
            big()
    else:
        if given.risk:
            save(risk.simulated(), "logistic_risk.json")
        elif not given.page:
            save(study(False, given.threads), "logistic.json")
        folder = PAGE.parent / "_static" / "benchmarks"
        simulated = load("logistic_risk.json")
        draw(lambda page: risk.picture(simulated, page), folder, "logistic-risk")
        with atomic(PAGE) as path:
            path.write_text(filled(PAGE.read_text(encoding="utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
