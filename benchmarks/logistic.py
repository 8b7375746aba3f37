"""Log loss, calibration and time of stopped logistic regression, against LogisticRegressionCV.

    python -m benchmarks.logistic           # some minutes; writes results and docs/logistic.md
    python -m benchmarks.logistic --quick   # three small problems, printed only

The peer has 20 penalties and the same five folds, and chooses by the log loss. All fits are made in
one process, by default with one thread. Columns are standardised on the training rows. Large data
are compared with one fit of scikit-learn with one penalty.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import gmean
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import stoptime as st
from benchmarks import gpu, harness
from benchmarks.problems import Labelled, large, with_classes

PAGE = "logistic.md"
FILE = "logistic.json"
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


def models(methods: Mapping[str, Any]) -> dict[str, Any]:
    """Return all classifiers, new ones."""
    stopped = {name: st.StoppedLogisticRegressionCV(method) for name, method in methods.items()}
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


def compared(problem: Labelled, methods: Mapping[str, Any] = METHODS) -> dict[str, Any]:
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
        for name, model in models(methods).items():
            spent = harness.fit_seconds(model, X, y)
            chances = model.predict_proba(X_new)
            loss = log_loss(y_new, chances)
            found = [loss, calibration_error(y_new, chances, model.classes_), spent]
            sums[name] = sums.get(name, 0.0) + np.array(found) / problem.times
            if name == PLAIN and seed == 0:
                other = linearised(X, y, model)
                over = log_loss(y_new, other.predict_proba(X_new)) / loss
                quick = [other.stop_, model.stop_, over]
    print(problem.name, *(f"{name} {one[0]:.3f}" for name, one in sums.items()), flush=True)
    return {
        "name": problem.name,
        "shape": [problem.rows, int(rows.shape[1])],
        "classes": len(np.unique(labels)),
        "models": {name: found.tolist() for name, found in sums.items()},
        "linearised": quick,
    }


def big() -> dict[str, Any]:
    """Time the whole path with five folds against one fit with one penalty, on large data."""
    found: dict[str, Any] = {}
    for name, (X, y, X_new, y_new) in large():
        peer = LogisticRegression(max_iter=1000)
        rivals = {"ours": st.StoppedLogisticRegressionCV(), "peer": peer}
        works = {who: partial(model.fit, X, y) for who, model in rivals.items()}
        times, _ = harness.in_turns(works, 3, longest=np.inf)
        found[name] = {}
        for who, model in rivals.items():
            loss = float(log_loss(y_new, model.predict_proba(X_new)))
            found[name][who] = [min(times[who]), loss, int(np.max(model.n_iter_))]
        print(name, found[name], flush=True)
    return found


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Compare on all problems, or on a few."""
    run = harness.run_of(given)
    with threadpool_limits(given.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [one for one in with_classes() if not given.quick or one.name in QUICK]
        run["data"] = [compared(one) for one in chosen]
        run["big"] = {} if given.quick else big()
    return run


# ---------------------------------------------------------------- the page


def ratios(data: list[dict[str, Any]], name: str, other: str = PEER, place: int = 0) -> Any:
    """Return the quotients of a number of two classifiers, one for each problem."""
    return np.array([one["models"][name][place] / one["models"][other][place] for one in data])


def of_methods(data: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the rows of all classifiers."""
    isotropic = np.array([one["name"].startswith("isotropic") for one in data])
    left = [one["models"][OURS][0] / np.log(one["classes"]) for one in data]
    overlap = np.array(left) > 0.5
    for name in (*METHODS, SQUARED, PEER):
        loss = ratios(data, name)
        spent = ratios(data, name, place=2)
        error = np.mean([one["models"][name][1] for one in data])
        numbers = [gmean(loss), loss.max(), gmean(loss[isotropic])]
        numbers += [gmean(loss[overlap]), gmean(loss[~overlap]), error]
        shown = "friction 3, vanishing decay (the default)" if name == OURS else name
        times = f"{gmean(spent):.2f}", f"{spent.max():.2f}"
        yield [shown, *(f"{one:.3f}" for one in numbers), *times]


def of_data(data: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the rows of all data sets."""
    for one in data:
        ours, peer = one["models"][OURS], one["models"][PEER]
        shape = f"{one['shape'][0]} × {one['shape'][1]}, {one['classes']}"
        numbers = ours[0], peer[0], ours[0] / peer[0], ours[1], peer[1]
        faster = f"{peer[2] / ours[2]:.1f}"
        linear, stop, over = one["linearised"]
        shown = [*(f"{number:.3f}" for number in numbers), faster, f"{over:.3f}, {linear} ({stop})"]
        yield [one["name"], shape, *shown]


def of_large(found: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the rows of large data."""
    for name, one in found.items():
        (ours, loss, steps), (peer, its_loss, its_steps) = one["ours"], one["peer"]
        ratio = f"{ours / peer:.1f}"
        yield [f"{name}: five folds, all stops", steps, f"{loss:.3f}", f"{ours:.1f}", ratio]
        rest = [its_steps, f"{its_loss:.3f}", f"{peer:.1f}", ""]
        yield [f"{name}: scikit-learn, one penalty", *rest]


def parts() -> dict[str, str]:
    """Return the parts of the page that the study fills, by their names."""
    run = harness.load(FILE)
    data = run["data"]
    heads = {
        "data": "data | rows × columns, classes | log loss | peer | ratio | ECE | peer "
        "| times as fast | linearised",
        "methods": "classifier | log loss | largest | isotropic | classes overlap "
        "| they do not | ECE | time | longest",
        "big": "50000 × 768, 10 classes | steps | log loss | seconds | ratio",
    }
    rows = {
        "data": of_data(data),
        "methods": of_methods(data),
        "big": of_large(run["big"]),
    }
    found = {name: harness.table(head.split(" | "), rows[name]) for name, head in heads.items()}
    return found | {"gpu": gpu.sentence()}


if __name__ == "__main__":
    harness.command(__doc__, FILE, measured, {PAGE: parts}, quick=False, threads=1)
