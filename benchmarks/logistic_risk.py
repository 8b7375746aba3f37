"""Excess log loss along paths of cross-entropy against that of ridge, by simulation.

    python -m benchmarks.logistic_risk      # some minutes; writes tables and figure of the page

Labels are drawn from a known logistic model, so that the loss of the true probabilities is known,
and what a fit adds to it is its excess. Stops and penalties are the best ones of each draw: no rule
is involved. The figure shows one of the settings along the whole path.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

import stoptime as st
from benchmarks.harness import command, load, ratio_of_means, table
from stoptime.logistic.lockstep import search
from stoptime.logistic.rows import Rows
from stoptime.show import plots

PAGE = "logistic.md"
FILE = "logistic_risk.json"
ROWS, COLUMNS, NEW = 300, 100, 5000
SETTINGS = {  # powers by which variances and squared coefficients fall, and the size of the logits
    "isotropic, weak": (0.0, 0.0, 1.0),
    "isotropic, strong": (0.0, 0.0, 4.0),
    "falling variances": (1.0, 0.0, 2.0),
    "leading directions": (1.0, 2.0, 2.0),
}
METHODS = {
    "vanishing decay": st.VanishingDecay(),
    "friction 3": st.Nesterov(),
    "friction 5": st.Nesterov(friction=5.0),
    "friction 9": st.Nesterov(friction=9.0),
    "average of friction 3": st.Averaged(st.Nesterov()),
    "critical damping": st.HeavyBall(),
    "gradient descent": st.GradientDescent(),
}
PENALTIES = np.geomspace(10.0, 1e-4, 26)
COLOURS = {
    "ridge": ("#0072B2", "--"),
    "vanishing decay": ("#CC79A7", "-"),
    "friction 3": ("#D55E00", "-"),
    "friction 9": ("#009E73", "-"),
    "gradient descent": ("#999999", "-"),
}
STEPS = {"gradient descent": 900}


def drawn(setting: tuple[float, float, float], seed: int) -> tuple[Any, Any, Any]:
    """Return rows, labels and the true coefficients; the rows are those of both sets."""
    fall, lean, size = setting
    rng = np.random.default_rng(seed)
    place = np.arange(1, COLUMNS + 1)
    X = rng.standard_normal((ROWS + NEW, COLUMNS)) * place ** (-fall / 2)
    coef = rng.standard_normal(COLUMNS) * place ** (-lean / 2)
    coef *= size / np.std(X @ coef)
    y = (rng.uniform(size=len(X)) < expit(X @ coef)).astype(int)
    return X, y, coef


def excess(X: Any, coef: Any, found: Any) -> Any:
    """Return the mean divergence of true and fitted probabilities, for columns of coefficients."""
    true, logits = X @ coef, X @ found
    loss = np.logaddexp(0, logits) - expit(true)[:, None] * logits
    return loss.mean(axis=0) - np.mean(np.logaddexp(0, true) - expit(true) * true)


def path(rows: Rows, method: Any, steps: int, finer: bool = False) -> tuple[Any, Any]:
    """Return the coefficients of all classes but the first after 0, 1, 2, ... steps."""
    if finer:
        # as the estimator does where the first step is the best: a third of the time
        step = 1 / rows.curvature() / 3**method.time_power
        method = method.with_step(step)
    tuned = search(rows, method, 0).method
    run = tuned.steps(lambda at: tuned.epsilon * rows.gradient(at, at)[0], rows.start())
    return np.array([shown[-1, :, :-1] for shown in islice(run, steps + 1)]), tuned


def simulated(
    draws: int,
    settings: Mapping[str, tuple[float, float, float]] = SETTINGS,
    methods: Mapping[str, st.Iteration] = METHODS,
) -> dict[str, Any]:
    """Return least excess losses over that of ridge, and the curves of a setting."""
    ratios: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for name, setting in settings.items():
        least: dict[str, list[float]] = {}
        for seed in range(draws):
            X, y, coef = drawn(setting, seed)
            new = X[ROWS:]
            peers = [
                LogisticRegression(C=1 / (ROWS * one), fit_intercept=False, max_iter=2000)
                .fit(X[:ROWS], y[:ROWS])
                .coef_[0]
                for one in PENALTIES
            ]
            losses = excess(new, coef, np.transpose(peers))
            least.setdefault("ridge", []).append(losses.min())
            rows = Rows(X[:ROWS], y[:ROWS], 2, constant=0.0, centred=False)
            # a penalty on the difference of two logits is half of that on both
            drawn_curves = {"ridge": np.stack([1 / np.sqrt(2 * PENALTIES), losses])}
            for kind, method in methods.items():
                found, tuned = path(rows, method, STEPS.get(kind, 200), finer=True)
                # the difference of two logits that are opposite
                losses = excess(new, coef, 2 * found[1:, 0].T)
                least.setdefault(kind, []).append(losses.min())
                k = np.arange(1, len(losses) + 1)
                first_order = method.time_power == 1
                time = np.sqrt(k * tuned.step) if first_order else k * np.sqrt(tuned.step)
                drawn_curves[kind] = np.stack([time, losses])
            if name == "isotropic, strong":
                # times differ a little between draws
                for kind, curve in drawn_curves.items():
                    curves[kind] = curves.get(kind, 0.0) + curve / draws
        ridge = least.pop("ridge")
        ratios[name] = {kind: ratio_of_means(each, ridge) for kind, each in least.items()}
        print(name, ratios[name], flush=True)
    plain = {kind: curve.tolist() for kind, curve in curves.items()}
    return {"ratios": ratios, "curves": plain, "closest": closest(), "following": following()}


def closest() -> list[list[float]]:
    """Return, for penalties, the steps closest to ridge: of least squares, and of cross-entropy.

    There are five classes. Least squares is the linearisation at zero logits: its eigenvalues are a
    fifth. Cross-entropy has logits of standard deviation 0.3 and 3.
    """
    n, p, q = 500, 40, 5
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) ** -0.5
    coef = rng.standard_normal((p, q))
    found: list[list[float]] = [[one] for one in (0.1, 0.03, 0.01)]
    for size in (0.3, 3.0):
        logits = X @ coef
        chances = softmax(size * logits / logits.std(), axis=1)
        y = (chances.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
        rows = Rows(X, y, q, constant=0.0, centred=False)
        method = st.Nesterov(step=0.02 / rows.curvature())
        others = path(rows, method, 400)[0]
        found_path = np.concatenate([-others.sum(axis=1, keepdims=True), others], axis=1)
        if size < 1:
            slower = st.Nesterov(step=method.step / q)
            line = st.path(X, q * np.eye(q)[y] - 1, slower, range(401), fit_intercept=False).coef
            gram, right = X.T @ X / (n * q), X.T @ (np.eye(q)[y] - 1 / q) / n
        for row in found:
            if size < 1:
                ridge = np.linalg.solve(gram + row[0] * np.eye(p), right)
                row.append(nearest(line, ridge))
            peer = LogisticRegression(
                C=1 / (n * row[0]), fit_intercept=False, tol=1e-10, max_iter=5000
            ).fit(X, y)
            row.append(nearest(found_path, peer.coef_))
    return found


def following() -> list[list[float]]:
    """Return guarantees of Nesterov's method with vanishing decays c, for least squares.

    They are the least over stops of the largest Bayes risk over that of ridge, in one direction
    with any eigenvalue, by a search; and the time of that stop over that of c = 0.
    """
    found = []
    x = np.geomspace(1e-4, 1e4, 4001)
    ridge = 1 / (1 + x)
    for c in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0):
        plain = st.Nesterov(1.0)
        method = st.VanishingDecay(plain, c) if c else plain
        # one direction of a small eigenvalue has the shrinkage of all, at other times
        small, k = 1e-5, np.arange(16001)
        left = method.shrinkage(small, k)
        phases = np.sqrt(small) * k
        best = (np.inf, 0.0)
        for time in np.geomspace(1, 6, 300):
            phase = time * np.sqrt(x)
            # later the shrinkage falls like that of ridge
            late = np.minimum(1, phases[-1] / phase) ** 2
            g = np.interp(phase, phases, left) * late
            worst = np.max((g**2 + (1 - g) ** 2 / x) / (ridge**2 + (1 - ridge) ** 2 / x))
            best = min(best, (float(worst), float(time)))
        found.append([c, *best])
    return [[c, worst, time / found[0][2]] for c, worst, time in found]


def nearest(path: Any, coef: Any) -> int:
    """Return the number of the coefficients that are closest to the given ones."""
    return int(np.argmin(np.linalg.norm(path - coef, axis=(1, 2))))


def picture(results: dict[str, Any]) -> Any:
    """Draw the excess loss against the time of the path and the equivalent penalty."""
    figure, ax = plots.new_figure(figsize=(7.5, 4.2))
    for kind, curve in results["curves"].items():
        if kind not in COLOURS:
            continue
        times, losses = np.array(curve)
        colour, style = COLOURS[kind]
        ax.plot(times, losses, style, color=colour, label=kind, linewidth=1.8)
    ax.set(
        xscale="log",
        xlabel="time √step·k of a path, √(step·k) of gradient descent, 1/√penalty of ridge",
        ylabel="excess log loss",
        xlim=(0.3, 60),
        ylim=(0, 0.45),
    )
    ax.axhline(0, color="black", linewidth=0.6)
    ax.legend(frameon=False)
    return figure


def parts() -> dict[str, str]:
    """Return the tables of the stored simulation."""
    results = load(FILE)
    excess_ = [
        [name, *(f"{row[kind][0]:.3f} ± {row[kind][1]:.3f}" for kind in METHODS)]
        for name, row in results["ratios"].items()
    ]
    steps = [[f"{one:g}" for one in row] for row in results["closest"]]
    following_ = [[f"{c:g}", f"{worst:.3f}", f"{t:.1f}"] for c, worst, t in results["following"]]
    losses = ("penalty", "least squares", "cross-entropy, small logits", "large logits")
    return {
        "risk": table(["signal", *METHODS], excess_),
        "closest": table(losses, steps),
        "following": table(("c", "guarantee for least squares, at most", "time"), following_),
    }


if __name__ == "__main__":
    figures = {"logistic-risk": lambda: picture(load(FILE))}
    command(__doc__, FILE, lambda given: simulated(given.draws), {PAGE: parts}, figures, draws=20)
