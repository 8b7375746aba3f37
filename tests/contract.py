"""What left-out rows promise: cases of data, methods, and one oracle that really refits.

Everything here goes through public names, so that it holds for any way to compute left-out
predictions. The oracle uses dense arrays of double precision; tests hand the same numbers over in
other containers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import stoptime as st
from stoptime.methods.recurrence import tuned_without_rows

Splits = Iterable[tuple[np.ndarray, np.ndarray]]

# ---------------------------------------------------------------- the oracle


def one_by_one(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the splits of leave-one-out: all rows but one, and this row."""
    every = np.arange(n)
    return [(np.delete(every, row), every[[row]]) for row in every]


def on_all_rows(
    method: st.Method, spectrum: st.Spectrum, sample_weight: np.ndarray | None, n: int
) -> st.Method:
    """Return the method with "auto" and "critical" made numbers, as leave-one-out documents it.

    They keep the value that they have on all rows. An automatic step for which a fit without some
    row would diverge is shorter: the eigenvalues grow by at most 1/(1 - share of its weight).
    """
    if isinstance(method, st.SpectralCutoff):
        return method  # every fit counts its own eigenvalues
    known = spectrum.eigenvalues
    missing = max(spectrum.n_features - len(known), 0)
    weights = np.ones(n) if sample_weight is None else sample_weight
    growth = 1 / (1 - weights.max() / weights.sum())
    return tuned_without_rows(method, np.append(np.zeros(missing), known), growth)


def paths_of(
    X: np.ndarray,
    y: np.ndarray,
    method: st.Method | str,
    stops: np.ndarray,
    splits: Splits,
    sample_weight: np.ndarray | None = None,
    **options: Any,
) -> Iterator[tuple[np.ndarray, st.Path]]:
    """Yield the rows left out of every training set, and the path that is fitted to the others."""
    for train, test in splits:
        weights = None if sample_weight is None else sample_weight[train]
        yield test, st.path(X[train], y[train], method, stops, sample_weight=weights, **options)


def refit(
    X: np.ndarray,
    y: np.ndarray,
    method: st.Method,
    stops: np.ndarray,
    *,
    new: np.ndarray | None = None,
    sample_weight: np.ndarray | None = None,
    fit_intercept: bool = True,
    penalty_matrix: Any = None,
) -> np.ndarray:
    """Return predictions by paths that are fitted to all rows but one.

    Of shape (n_stops, n, n_targets): every row by the path without it. With ``new`` of shape
    (n_stops, n, n_new, n_targets): the new rows by the path without each row.
    """
    n = len(X)
    options = {"fit_intercept": fit_intercept, "penalty_matrix": penalty_matrix}
    whole = st.decompose(X, y, sample_weight=sample_weight, **options)
    tuned = on_all_rows(method, whole, sample_weight, n)
    found = []
    for row, path in paths_of(X, y, tuned, stops, one_by_one(n), sample_weight, **options):
        asked = X[row] if new is None else new
        found.append(np.reshape(path.predict(asked), (len(stops), len(asked), -1)))
    predictions = np.stack(found, axis=1)
    return predictions[:, :, 0] if new is None else predictions


def fold_errors(
    X: np.ndarray,
    y: np.ndarray,
    method: st.Method | str,
    stops: np.ndarray,
    splits: Splits,
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return the weighted mean squared errors of test rows, pooled over folds, at every stop."""
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    total = 0.0
    mass = 0.0
    for test, path in paths_of(X, y, method, stops, splits, sample_weight):
        squares = (path.predict(X[test]) - y[test]) ** 2
        total = total + np.einsum("i,ti...->t...", weights[test], squares)
        mass += weights[test].sum()
    return total / mass


def refit_kernel(
    K: np.ndarray,
    y: np.ndarray,
    method: st.Method,
    stops: np.ndarray,
    *,
    sample_weight: np.ndarray | None = None,
    fit_intercept: bool = True,
) -> np.ndarray:
    """Return every row's predictions by the paths without it, from a kernel matrix."""
    n = len(K)
    whole = st.decompose_kernel(K, y, sample_weight, fit_intercept)
    tuned = on_all_rows(method, whole, sample_weight, n)
    found = []
    for kept, row in one_by_one(n):
        weights = None if sample_weight is None else sample_weight[kept]
        spectrum = st.decompose_kernel(K[np.ix_(kept, kept)], y[kept], weights, fit_intercept)
        drawn = st.path(spectrum, tuned, stops)
        found.append(np.reshape(drawn.predict(K[np.ix_(row, kept)]), (len(stops), -1)))
    return np.stack(found, axis=1)


def interval_of_refits(
    make: Callable[[], Any],
    splits: Splits,
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    new: np.ndarray,
    confidence: float = 0.9,
) -> np.ndarray:
    """Return ends of intervals by their definition: order statistics of fits without some rows.

    A whole weight counts a row so often.
    """
    low, high = [], []
    for train, test in splits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", st.StopWarning)
            model = make().fit(X[train], y[train], weights[train])
        centre = model.predict(new)
        for row in test:
            size = abs(y[row] - model.predict(X[[row]])[0])
            low += [centre - size] * int(weights[row])
            high += [centre + size] * int(weights[row])
    n = len(low)
    place = min(int(np.ceil(confidence * (n + 1) * (1 - 1e-12))), n)
    return np.stack([np.sort(low, axis=0)[n - place], np.sort(high, axis=0)[place - 1]], axis=-1)


def residuals_of(y: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Return residuals of shape (n_stops, n, n_targets)."""
    return y.reshape(len(y), -1) - predictions


def errors_of(residuals: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return weighted mean squares of shape (n_stops, n_targets)."""
    n = residuals.shape[1]
    weights = np.ones(n) if sample_weight is None else sample_weight
    return np.einsum("i,tiq->tq", weights / weights.sum(), residuals**2)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Case:
    """Data, and the options that belong to them."""

    X: np.ndarray
    y: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def sample_weight(self) -> np.ndarray | None:
        return self.options.get("sample_weight")

    @property
    def spectrum(self) -> st.Spectrum:
        return st.decompose(self.X, self.y, **self.options)

    @property
    def largest(self) -> float:
        """The largest eigenvalue, or one where there is none."""
        eigenvalues = self.spectrum.eigenvalues
        return float(eigenvalues[-1]) if len(eigenvalues) else 1.0

    @property
    def power(self) -> float:
        """The mean square of the response about its mean: the error of the mean alone."""
        return float(np.var(self.y, axis=0).max())

    @property
    def size(self) -> float:
        """The largest distance of the response from its mean."""
        return float(np.abs(self.y - self.y.mean(axis=0)).max())

    def given(self, **options: Any) -> Case:
        """Return the same data with other options."""
        return Case(self.X, self.y, {**self.options, **options})


def response(X: np.ndarray, rng: np.random.Generator, *targets: int) -> np.ndarray:
    """Return a response of which the columns explain about half."""
    signal = X @ rng.normal(size=(X.shape[1], *targets))
    signal = (signal - signal.mean(axis=0)) / np.maximum(signal.std(axis=0), 1e-300)
    return signal + rng.normal(size=(len(X), *targets))


def falling(rng: np.random.Generator, n: int, p: int, power: float) -> np.ndarray:
    """Return columns for which the eigenvalues of X'X/n are 1, 2^-power, 3^-power, ..."""
    centred = rng.normal(size=(n, p))
    left = np.linalg.qr(centred - centred.mean(axis=0))[0]
    right = np.linalg.qr(rng.normal(size=(p, p)))[0]
    return np.sqrt(n) * left * np.arange(1, p + 1.0) ** (-power / 2) @ right.T


def tall(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(18, 5))


def with_constant_column(rng: np.random.Generator) -> np.ndarray:
    X = tall(rng)
    X[:, 2] = 5.0
    return X


def with_duplicate_rows(rng: np.random.Generator) -> np.ndarray:
    X = tall(rng)
    X[[5, 7]] = X[3]
    return X


def with_lonely_column(rng: np.random.Generator) -> np.ndarray:
    """Return columns of which one is zero but for one row, whose leverage is one."""
    X = tall(rng)
    X[:, 0] = 0.0
    X[4, 0] = 3.0
    return X


DESIGNS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "tall": tall,
    "wide": lambda rng: rng.normal(size=(10, 16)),
    "square": lambda rng: rng.normal(size=(9, 9)),
    "rank deficient": lambda rng: rng.normal(size=(18, 2)) @ rng.normal(size=(2, 5)),
    "constant column": with_constant_column,
    "far means": lambda rng: tall(rng) + 1000.0,
    "three rows": lambda rng: rng.normal(size=(3, 2)),
    "two rows": lambda rng: rng.normal(size=(2, 3)),
    "steep": lambda rng: falling(rng, 18, 6, 6.0),
    "ill-conditioned": lambda rng: falling(rng, 18, 4, 20.0),  # condition number 1e12
    "repeated eigenvalues": lambda _: np.vstack([np.eye(6), -np.eye(6)]),
    "only constants": lambda _: np.ones((8, 2)),
    "large units": lambda rng: 1e3 * tall(rng),
    "small units": lambda rng: 1e-3 * tall(rng),
    "duplicate rows": with_duplicate_rows,
    "lonely column": with_lonely_column,
    "weights": tall,
    "weights, wide": lambda rng: rng.normal(size=(10, 16)),
    "a zero weight": tall,
    "one heavy row": tall,
}
CASES = tuple(DESIGNS)


def weights_of(name: str, n: int, rng: np.random.Generator) -> np.ndarray | None:
    """Return the weights of a named case."""
    uneven = rng.uniform(0.2, 3.0, n)
    if name in {"weights", "weights, wide", "three rows"}:
        return uneven
    if name == "a zero weight":
        uneven[[1, n - 2]] = 0.0
        return uneven
    if name == "one heavy row":
        uneven[4] = (uneven.sum() - uneven[4]) / 9  # a tenth of the whole weight
        return uneven
    return None


def case(name: str, *targets: int) -> Case:
    """Return the data of a named case, with one response or several."""
    rng = np.random.default_rng([11, CASES.index(name)])
    X = DESIGNS[name](rng)
    y = response(X, rng, *targets)
    if name == "far means":
        y = y + 1000.0
    return Case(X, y, {"sample_weight": weights_of(name, len(X), rng)})


# ---------------------------------------------------------------- methods

# A formula of the largest eigenvalue L: dampings, steps and penalties have the units of the data.
Maker = Callable[[float], st.Method]
SCHEDULES = st.schedules

FIRST_ORDER: dict[str, Maker] = {
    "ridge": lambda _: st.Ridge(),
    "iterated ridge": lambda _: st.IteratedRidge(),
    "six times iterated ridge": lambda _: st.IteratedRidge(times=6),
    "gradient flow": lambda _: st.GradientFlow(),
    "averaged gradient flow": lambda _: st.Averaged(st.GradientFlow()),
    "tail of gradient flow": lambda _: st.Averaged(st.GradientFlow(), "tail"),
}
SECOND_ORDER: dict[str, Maker] = {
    "critical flow": lambda _: st.CriticalFlow(),
    "friction 1.5": lambda _: st.AcceleratedFlow(friction=1.5),
    "friction 3": lambda _: st.AcceleratedFlow(),
    "friction 5": lambda _: st.AcceleratedFlow(friction=5.0),
    "friction 9": lambda _: st.AcceleratedFlow(friction=9.0),
    "critical heavy-ball flow": lambda _: st.HeavyBallFlow(),
    "heavy-ball flow": lambda L: st.HeavyBallFlow(damping=0.3 * np.sqrt(L)),
    "undamped heavy-ball flow": lambda L: st.HeavyBallFlow(damping=1e-3 * np.sqrt(L)),
    "overdamped heavy-ball flow": lambda L: st.HeavyBallFlow(damping=3 * np.sqrt(L)),
    "high-resolution flow": lambda L: st.HighResolutionFlow(0.5 / L, 0.01 * L),
    "high-resolution friction 3": lambda L: st.HighResolutionAcceleratedFlow(0.5 / L),
}
ITERATIONS: dict[str, Maker] = {
    "gradient descent": lambda _: st.GradientDescent(),
    "gradient descent, own step": lambda L: st.GradientDescent(0.3 / L),
    "Nesterov": lambda _: st.Nesterov(),
    "Nesterov, constant momentum": lambda L: st.Nesterov(0.5 / L, momentum=0.8),
    "heavy ball": lambda L: st.HeavyBall(0.5 / L, momentum=0.8),
    "nu-method": lambda _: st.NuMethod(),
    "optimal iteration": lambda L: st.OptimalIteration(0.5 / L, penalty=0.1 * L),
    "SGD on all rows": lambda L: st.SGD(0.5 / L, momentum=0.7, dampening=0.2),
    "averaged gradient descent": lambda _: st.Averaged(st.GradientDescent()),
    "tail of gradient descent": lambda _: st.Averaged(st.GradientDescent(), "tail"),
    "averaged Nesterov": lambda _: st.Averaged(st.Nesterov(), "exponential", decay=0.9),
    "decayed gradient descent": lambda L: st.Decayed(st.GradientDescent(0.5 / L), 0.05 * L),
    "decayed heavy ball": lambda L: st.Decayed(st.HeavyBall(0.5 / L, momentum=0.5), 0.05 * L),
    "cosine schedule": lambda L: st.GradientDescent(SCHEDULES.Cosine(0.9 / L, 40, warmup=5)),
    "stepwise schedule": lambda L: st.HeavyBall(
        SCHEDULES.StepDecay(0.5 / L, every=10, factor=0.5), momentum=0.6
    ),
    "one-cycle schedule": lambda L: st.Nesterov(SCHEDULES.OneCycle(0.6 / L, 40)),
    "scheduled momentum": lambda L: st.HeavyBall(
        0.5 / L, momentum=SCHEDULES.Linear(0.8, 30, end=0.2)
    ),
    "decay of an average": lambda L: st.Decayed(st.Averaged(st.GradientDescent(0.5 / L)), 0.05 * L),
    "vanishing decay": lambda _: st.VanishingDecay(),
}
COUNTED: dict[str, Maker] = {"spectral cutoff": lambda _: st.SpectralCutoff()}
METHODS: dict[str, Maker] = FIRST_ORDER | SECOND_ORDER | ITERATIONS | COUNTED


def made(name: str, L: float) -> st.Method:
    """Return the method of this name for data with largest eigenvalue L."""
    return METHODS[name](L)


def names_of_family() -> list[str]:
    """Return the names here of all methods that "auto" compares."""
    return [name for name, make in METHODS.items() if make(1.0) in st.FAMILY]


def unit_of_time(name: str, L: float) -> float:
    """Return the stop at which the leading direction is about half learned."""
    return L**-0.5 if name in SECOND_ORDER else 1 / L


def stops_for(name: str, L: float) -> np.ndarray:
    """Return stops at which nothing, next to nothing, something and nearly all is learned."""
    if name in COUNTED:
        return np.array([0.0, 1.0, 2.0, 4.0, np.inf])
    if name in ITERATIONS:
        return np.array([0.0, 1.0, 6.0, 60.0, np.inf])
    latest = 200.0 if name in SECOND_ORDER else 2e4
    return unit_of_time(name, L) * np.array([0.0, 1e-3, 1.0, 8.0, latest, np.inf])


# ---------------------------------------------------------------- generated problems


def generated(seed: int) -> Case:
    """Return one of many problems: other sizes, spectra, units, means and noise for every seed."""
    rng = np.random.default_rng([29, seed])
    n = int(rng.integers(6, 120))
    p = int(rng.integers(1, 140 if seed % 3 == 0 else max(2, n // 2)))
    decay = rng.uniform(0.0, 6.0)
    X = rng.normal(size=(n, p)) * np.arange(1, p + 1.0) ** (-decay / 2)
    if seed % 2:
        X = X @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    signal = X @ (rng.normal(size=p) * np.arange(1, p + 1.0) ** rng.uniform(-1, 1))
    noise = 10 ** rng.uniform(-1.5, 1.0) * signal.std()
    y = signal + noise * rng.normal(size=n)
    X = 10 ** rng.choice([0.0, 0.0, -3.0, 3.0]) * (X + rng.choice([0.0, 0.0, 10.0]))
    return Case(X, 10 ** rng.choice([0.0, 0.0, -3.0, 3.0]) * y + rng.choice([0.0, 5.0]))


def dense_grid(name: str, spectrum: st.Spectrum) -> np.ndarray:
    """Return stops so close that the error between them is nearly that at them, and infinity.

    Waves of an oscillating method have length 2π/√L in t: they are sampled sixteen times each for
    as long as they are large, and then evenly in the logarithm. An error that is least after the
    last finite stop here is not looked for.
    """
    largest = float(spectrum.eigenvalues[-1])
    smallest = float(spectrum.eigenvalues[0])
    if name in COUNTED:
        return np.arange(spectrum.rank + 1.0)
    if name in ITERATIONS:
        later = np.unique(np.round(np.geomspace(150, 2000, 60)))
        return np.concatenate([np.arange(150.0), later, [np.inf]])
    unit = unit_of_time(name, largest)
    if name in FIRST_ORDER:
        last = min(30 * largest / smallest, 1e13)
        return unit * np.concatenate([[0.0], np.geomspace(1e-3, last, 300), [np.inf]])
    last = min(10 * np.sqrt(largest / smallest), 3e4)
    waves = np.arange(0.0, 40.0, 0.4)
    later = np.geomspace(40.0, max(last, 100.0), 100)
    return unit * np.concatenate([np.geomspace(1e-3, 0.3, 10), waves, later, [np.inf]])


# ---------------------------------------------------------------- fits that choose


def fitted(
    method: Any, X: Any, y: Any, sample_weight: Any = None, **options: Any
) -> st.StoppedRegressorCV:
    """Choose without the warning that the least error is at the last stop, which is no matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        return st.StoppedRegressorCV(method, **options).fit(X, y, sample_weight)


def left_out_error(data: Case, method: st.Method, stops: Any) -> np.ndarray:
    """Return the left-out errors of the data at some stops."""
    curve = st.leave_one_out(data.X, data.y, method, stops, standard_errors=False, **data.options)
    return curve.errors


def least_of_family(data: Case) -> float:
    """Return the least left-out error of dense grids of all methods that "auto" compares."""
    spectrum = data.spectrum
    return min(
        float(left_out_error(data, made(name, 1.0), dense_grid(name, spectrum)).min())
        for name in names_of_family()
    )
