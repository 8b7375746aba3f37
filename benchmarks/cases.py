"""What is compared with whom, on which sizes, with which goal.

docs/benchmarks.md says of each group how it is compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, lsmr, lsqr
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV, RidgeCV
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st
from benchmarks.harness import Case, Measures, Work, label, measure, peak_memory


def gaussian(n: int, p: int, q: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return data whose columns have non-zero means, so that they must be centred."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 1
    y = X @ rng.standard_normal(p if q is None else (p, q)) / np.sqrt(p)
    return X, y + rng.standard_normal(y.shape)


def largest_gap(found: np.ndarray, expected: np.ndarray, goal: float) -> Measures:
    """Return the difference of two answers relative to the largest number."""
    gap = np.abs(found - expected).max() / np.abs(expected).max()
    return (measure("largest difference", float(gap), goal, "at most"),)


# ---------------------------------------------------------------- a full path

PHASE = 100.0  # the last stop times sqrt(L): the number of steps of Nesterov's iteration
WIDE_PATH = (
    "With more columns than rows, the coefficients at all stops need a product with all of X and a "
    "centred copy of X; the bare limit has neither."
)
TALL_PATH = "Centring, the rotated response and the filters are extra work."
FEW_PRODUCTS = (
    "Probably a hundred products with one vector cost less here than XXᵀ and its eigenvectors. "
    "These products give one path of one method; the factorisation serves every method, every stop "
    "and leave-one-out."
)


def nesterov(
    times: Callable[[np.ndarray], np.ndarray],
    times_t: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    p: int,
    step: float,
) -> np.ndarray:
    """Run Nesterov's iteration, which gives the stops of one method, to the last stop."""
    b = theta = np.zeros(p)
    for k in range(1, int(PHASE) + 1):
        b, old = theta + step / len(y) * times_t(y - times(theta)), b
        theta = b + (k - 1) / (k + 2) * (b - old)
    return b


def integrate(Xc: np.ndarray, yc: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Solve the differential equation to six digits; return coefficients at all stops."""
    p = Xc.shape[1]

    def motion(t: float, state: np.ndarray) -> np.ndarray:
        b, velocity = state[:p], state[p:]
        return np.concatenate([velocity, Xc.T @ (yc - Xc @ b) / len(Xc) - 3 / t * velocity])

    span = stops[0] / 100, stops[-1]
    solved = solve_ivp(motion, span, np.zeros(2 * p), t_eval=stops, rtol=1e-6, atol=1e-9)
    return solved.y[:p].T


def full_path(peer: str, shape: tuple[int, int]) -> Work:
    """Compare a path with the product and eigh, the iteration, or the integrated equation."""
    X, y = gaussian(*shape)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    largest = float(np.linalg.norm(Xc, 2) ** 2 / len(Xc))
    stops = np.geomspace(0.1, PHASE, 100) / np.sqrt(largest)
    ours = partial(st.path, X, y, "accelerated-flow", stops)
    if peer == "bare product and eigh":
        wide = len(Xc) < Xc.shape[1]
        return Work(ours, lambda: np.linalg.eigh(Xc @ Xc.T if wide else Xc.T @ Xc))
    if peer == "scipy.integrate.solve_ivp":
        return Work(
            ours,
            partial(integrate, Xc, yc, stops),
            measures=lambda mine, theirs: largest_gap(mine.coef, theirs, 1e-3),
        )
    times, times_t = Xc.__matmul__, Xc.T.__matmul__
    return Work(ours, partial(nesterov, times, times_t, yc, shape[1], 1 / largest))


# ---------------------------------------------------------------- choosing the stop

REFITS = 10
WIDE_CHOICE = (
    "With more columns than rows both factor the same n × n matrix; this takes a third of our time "
    "and a fifth of theirs."
)
TALL_CHOICE = (
    "The product of all rows with the eigenvectors, which leave-one-out needs, takes half of the "
    "time."
)


def against_ridgecv(shape: tuple[int, ...]) -> Work:
    """Compare choosing a stop with choosing a penalty."""
    X, y = gaussian(*shape)
    many = len(shape) == 3
    ours = st.StoppedRegressorCV("accelerated-flow", stops=100, per_target=many)
    peer = RidgeCV(np.geomspace(1e-3, 1e5, 100), alpha_per_target=many)
    return Work(lambda: ours.fit(X, y), lambda: peer.fit(X, y))


def against_refitting(shape: tuple[int, int]) -> Work:
    """Compare with the definition of leave-one-out, and check that the errors agree."""
    X, y = gaussian(*shape)
    ours = st.StoppedRegressorCV("accelerated-flow", stops=100)
    stops = ours.fit(X, y).stops_

    def refit() -> np.ndarray:
        left_out = [np.arange(len(y)) != i for i in range(REFITS)]
        drawn = (st.path(X[keep], y[keep], "accelerated-flow", stops) for keep in left_out)
        return np.array([y[i] - path.predict(X[i : i + 1])[:, 0] for i, path in enumerate(drawn)])

    def same(_: object, residuals: np.ndarray) -> Measures:
        middle = len(stops) // 2
        found = st.left_out_residuals(X, y, "accelerated-flow", stops[middle])[:REFITS]
        return largest_gap(found, residuals[:, middle], 1e-8)

    return Work(lambda: ours.fit(X, y), refit, share=REFITS / shape[0], measures=same)


def peak(fit: Callable[[], Any], name: str, unit: float) -> Work:
    """Measure the peak memory of a fit in a unit, of which it may take six."""

    def found(bytes_: int, _: object) -> Measures:
        return (measure(name, bytes_ / unit, 6.0, "at most"),)

    return Work(partial(peak_memory, fit), measures=found)


def memory_of_choosing(shape: tuple[int, int]) -> Work:
    """Measure the peak memory of the choice beside X."""
    X, y = gaussian(*shape)
    fit = partial(st.StoppedRegressorCV("accelerated-flow", stops=100).fit, X, y)
    return peak(fit, "times X", X.nbytes)


# ---------------------------------------------------------------- classes

ALPHAS = np.logspace(-3, 3, 10)  # those of ROCKET
LENGTH = 150  # of the time series
TEST_ROWS = 1000
ROCKET = (
    "Products of single precision numbers are taken in double precision, which takes twice the "
    "time, and small data spend as long on the search as on eigh."
)
EMBEDDINGS = (
    "XᵀX in double precision, its eigenvectors, and the product of all rows with them in single "
    "precision take two thirds of the time on one thread."
)


def series(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy time series of eight classes, each with a frequency and a shape."""
    rng = np.random.default_rng(1)
    y = rng.integers(8, size=n)
    clock = np.arange(LENGTH) / LENGTH
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    clean = np.sin(2 * np.pi * (3 + y % 4)[:, None] * clock + phase)
    bent = np.sign(clean) * np.abs(clean) ** np.where(y < 4, 1.0, 0.6)[:, None]
    return bent + 1.2 * rng.standard_normal((n, LENGTH)), y


def convolutions(X: np.ndarray, columns: int) -> np.ndarray:
    """Return shares of positive values of convolutions with random kernels of two weights."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(X)
    out = np.empty((len(X), columns), np.float32)
    for column in range(columns):
        if column % 12 == 0:  # twelve thresholds for every kernel
            kernel = np.zeros(LENGTH)
            spacing = rng.choice([1, 2, 4, 8, 16])
            weights = np.where(np.arange(9) < 3, 2.0, -1.0)
            kernel[spacing * np.arange(9)] = rng.permutation(weights)
            image = np.fft.irfft(spectrum * np.fft.rfft(kernel), LENGTH)
        bias = np.quantile(image[rng.integers(len(X))], rng.uniform())
        out[:, column] = (image > bias).mean(axis=1)
    return out


def rocket(n: int, columns: int, against: str) -> Work:
    """Compare time, accuracy and memory with RidgeClassifierCV, or time with the bare product."""
    raw, y = series(n + TEST_ROWS)
    X = convolutions(raw, columns)
    X, X_test = np.split(StandardScaler().fit(X[:n]).transform(X), [n])
    ours = partial(st.StoppedClassifierCV().fit, X, y[:n])
    if against == "bare product and eigh":
        return Work(ours, lambda: np.linalg.eigh(X @ X.T))
    peer = partial(RidgeClassifierCV(ALPHAS).fit, X, y[:n])

    def measures(mine: Any, other: Any) -> Measures:
        right = float(mine.score(X_test, y[n:])), float(other.score(X_test, y[n:]))
        memory = peak_memory(ours) / peak_memory(peer)
        return (
            measure("accuracy", right[0], right[1]),
            measure("accuracy of the peer", right[1]),
            measure("of its peak memory", memory, 1.0, "at most"),
        )

    return Work(ours, peer, measures=measures)


def embeddings(n: int, p: int) -> Work:
    """Compare with RidgeClassifierCV on many rows of ten classes."""
    rng = np.random.default_rng(2)
    scales = np.arange(1, p + 1) ** -0.5
    y = rng.integers(10, size=n)
    means = 0.3 * rng.standard_normal((10, p)) * scales
    X = (means[y] + scales * rng.standard_normal((n, p))).astype(np.float32)
    ours = st.StoppedClassifierCV()
    return Work(lambda: ours.fit(X, y), partial(RidgeClassifierCV(ALPHAS).fit, X, y))


def intervals(n: int, p: int) -> Work:
    """Compare the jackknife+ of new rows with the fit, both from the start."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)
    new = rng.standard_normal((n // 2, p))
    model = st.StoppedRegressorCV()
    return Work(lambda: model.fit(X, y).predict_interval(new), partial(model.fit, X, y))


def probabilities(splits: int) -> Work:
    """Compare all fits to halves of the bundled data sets, and the mean log loss on the others."""
    halves = []
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        options = {"train_size": 0.5, "stratify": y}
        halves += [train_test_split(X, y, random_state=seed, **options) for seed in range(splits)]

    def fitted(model: Any) -> list[Any]:
        return [make_pipeline(StandardScaler(), model()).fit(one[0], one[2]) for one in halves]

    def losses(*both: list[Any]) -> Measures:
        found = []
        for models in both:
            pairs = zip(models, halves, strict=True)
            each = [log_loss(half[3], model.predict_proba(half[1])) for model, half in pairs]
            found.append(float(np.mean(each)))
        first = measure("log loss", found[0], found[1], "at most")
        return first, measure("log loss of the peer", found[1])

    calibrated = partial(CalibratedClassifierCV, RidgeClassifier(), cv=5)
    ours = partial(fitted, st.StoppedClassifierCV)
    return Work(ours, partial(fitted, calibrated), measures=losses)


# ---------------------------------------------------------------- many targets

BATCH = 2000  # targets
OPERATORS = (
    "Nearly all the time is spent on the leave-one-out operators of every block of rows at every "
    "stop."
)


def many_targets(rows: int, columns: int, n_targets: int) -> tuple[np.ndarray, ...]:
    """Return training and test sets with correlated columns and coefficients of different decay."""
    rng = np.random.default_rng(0)
    single = np.float32
    scales = np.arange(1, columns + 1) ** -0.5
    rotation = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    samples = (rng.standard_normal((rows + TEST_ROWS, columns)) * scales).astype(single)
    Y = np.empty((rows + TEST_ROWS, n_targets), single)
    for start in range(0, n_targets, BATCH):
        width = min(BATCH, n_targets - start)
        decay = rng.uniform(0, 1, width)
        coef = (rng.standard_normal((columns, width)) * scales[:, None] ** decay).astype(single)
        signal = samples @ coef
        noise = signal.std(axis=0) * 10 ** rng.uniform(-0.5, 1, width).astype(single)
        noise = noise * rng.standard_normal(signal.shape, dtype=single)
        Y[:, start : start + width] = signal + noise + 1
    X = samples @ rotation.astype(single)
    X += 1  # so that the columns must be centred
    return X[:rows], Y[:rows], X[rows:], Y[rows:]


def against_himalaya(shape: tuple[int, int, int], rule: str) -> Work:
    """Compare time and mean R² on test rows with ridge by folds, of 20 penalties."""
    from himalaya.ridge import RidgeCV as Peer  # noqa: PLC0415 - an optional package

    X, Y, X_test, Y_test = many_targets(*shape)
    alphas = np.geomspace(1e-1, 1e6, 20)  # the best ones are well inside this range
    options: dict[str, Any] = {"n_targets_batch": BATCH, "n_targets_batch_refit": BATCH}
    peer = Peer(alphas, fit_intercept=True, cv=5, solver_params=options)
    ours = st.StoppedRegressorCV("gradient-flow", stops=100, per_target=True, rule=rule)

    def scores(mine: Any, other: Any) -> Measures:
        found = r2_score(Y_test, X_test @ mine.coef_.T + mine.intercept_)
        theirs = r2_score(Y_test, X_test @ other.coef_ + other.intercept_)
        return measure("mean R²", found, theirs), measure("mean R² of the peer", theirs)

    return Work(lambda: ours.fit(X, Y), lambda: peer.fit(X, Y), measures=scores)


def memory_of_targets(shape: tuple[int, int, int]) -> Work:
    """Measure the peak memory of many targets, in GiB."""
    X, Y, *_ = many_targets(*shape)
    ours = st.StoppedRegressorCV("gradient-flow", stops=100, per_target=True, rule="path-gcv")
    return peak(partial(ours.fit, X, Y), "GiB", 2**30)


# ---------------------------------------------------------------- sparse data

EXTRA_WORK = (
    "Reorthogonalisation, filters and error bound are extra work; in return the space gives every "
    "stop of every method instead of one solution."
)
CHEAP = "Probably products are so cheap here that our extra work is visible."


class Counted(LinearOperator):
    """A sparse matrix that counts its products."""

    def __init__(self, X: csr_array) -> None:
        super().__init__(X.dtype, X.shape)
        self.products = 0
        self.X, self.XT = X, X.T.tocsr()

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.X @ v.ravel()

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.XT @ u.ravel()

    def count(self, work: Callable[[], object]) -> int:
        """Return the number of products of some work."""
        self.products = 0
        work()
        return self.products


def random_sparse(n: int, p: int, per_row: int) -> csr_array:
    """Return a matrix with ``per_row`` normal entries in every row and decreasing column scales."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, p, n * per_row)
    entries = rng.standard_normal(n * per_row) * (1 + columns) ** -0.25
    return csr_array((entries, columns, np.arange(0, n * per_row + 1, per_row)), (n, p))


def products(peer: str, shape: tuple[int, int, int]) -> Work:
    """Compare time and products with one peer."""
    X = random_sparse(*shape)
    rng = np.random.default_rng(1)
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(X.shape[0])
    A = Counted(X)
    largest = st.path(A, y, "nesterov", [1], fit_intercept=False).krylov.largest
    stops = np.geomspace(0.1, 1, 10) * PHASE / np.sqrt(largest)
    ours = partial(st.path, A, y, "accelerated-flow", stops, fit_intercept=False)
    size = int(ours().krylov.sizes[0])
    theirs = {
        "LSQR": partial(lsqr, A, y, iter_lim=size, atol=0, btol=0),
        "LSMR": partial(lsmr, A, y, maxiter=size, atol=0, btol=0),
        "Nesterov's iteration": partial(nesterov, A.matvec, A.rmatvec, y, shape[1], 1 / largest),
    }[peer]

    def counted(*_: object) -> Measures:
        mine, other = A.count(ours), A.count(theirs)
        return (
            measure("times the products", mine / other, 1.1, "at most"),
            measure("products", mine),
            measure("of the peer", other),
        )

    return Work(ours, theirs, measures=counted)


# ---------------------------------------------------------------- more rows than memory

COLUMNS, BLOCK, WORKERS = 100, 400_000, 2
CLUSTER = (
    "The statistics of a block in memory take 1.05 to 1.1 times as long as the product; the rest "
    "is the start and the end of the graph, and client and scheduler share the two cores with the "
    "workers."
)


def stored(folder: Path, n: int) -> tuple[Any, Any]:
    """Write data block by block, and return arrays of Dask whose blocks are read from the files."""
    import dask.array as da  # noqa: PLC0415 - an extra

    draws = da.random.default_rng(0)
    drawn = draws.standard_normal((n, COLUMNS), chunks=(BLOCK, COLUMNS))
    da.to_npy_stack(folder / "X", drawn)
    X = da.from_npy_stack(folder / "X")
    noise = draws.standard_normal(n, chunks=BLOCK)
    da.to_npy_stack(folder / "y", X @ np.linspace(-1, 1, COLUMNS) + noise)
    return X, da.from_npy_stack(folder / "y")


loaded = cache(np.load)  # stays in the memory of a worker


def gram_products(file: Path, count: int) -> None:
    """Multiply a block with its transpose so many times; runs on a worker."""
    block = loaded(file)
    for _ in range(count):
        block.T @ block


def throughput(n: int) -> Work:
    """Compare a pass over a file with as many products of blocks in memory, on all workers."""
    from distributed import Client  # noqa: PLC0415 - an extra

    client = Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None)
    folder = tempfile.TemporaryDirectory()
    X, y = stored(Path(folder.name), n)
    block = Path(folder.name) / "X" / "0.npy"
    count = n // BLOCK // WORKERS

    def products() -> None:
        names = list(client.nthreads())
        submit = partial(client.submit, gram_products, block, count, pure=False)
        client.gather([submit(workers=[name]) for name in names])

    def summarise() -> None:
        assert Path(folder.name).exists()  # the folder lives as long as this function
        st.summarise(X, y)

    return Work(summarise, products)


# ---------------------------------------------------------------- all cases


def cases() -> Iterator[Case]:
    """Yield all cases; those of small data are part of a quick run."""
    few_steps = "Probably few steps of the solver suffice at these times."
    for n, p in ((2000, 200), (20000, 500), (500, 2000), (100000, 50)):
        limit = WIDE_PATH if n < p else TALL_PATH
        quick = n * p <= 1e6
        for peer, why, *goal in (
            ("bare product and eigh", limit, 1.5, "at most"),
            ("Nesterov's iteration in NumPy", FEW_PRODUCTS, 1.0, "at least"),
        ):
            work = partial(full_path, peer, (n, p))
            yield Case("paths", label(n, p), peer, work, why, *goal, rounds=25, quick=quick)
    peer = "scipy.integrate.solve_ivp"
    for shape in ((2000, 200), (500, 500)):
        work = partial(full_path, peer, shape)
        yield Case("paths", label(*shape), peer, work, few_steps, rounds=3, quick=True)

    peer = "scikit-learn RidgeCV"
    goals = {(2000, 200): 5.0, (20000, 500): 8.0, (500, 2000): 1.0, (2000, 200, 1000): 5.0}
    for shape, goal in goals.items():
        name = label(*shape) + (" targets" if len(shape) == 3 else "")
        why = WIDE_CHOICE if shape[0] < shape[1] else TALL_CHOICE
        quick = bool(np.prod(shape) <= 1e6)
        yield Case("choosing", name, peer, partial(against_ridgecv, shape), why, goal, quick=quick)
    work = partial(against_refitting, (2000, 200))
    yield Case("choosing", label(2000, 200), "2 000 refits", work, TALL_CHOICE, 50, quick=True)
    why = "Probably the rotated rows, which are all kept in memory."
    work = partial(memory_of_choosing, (20000, 500))
    yield Case("choosing", label(20000, 500), "peak memory", work, why)

    for n in (300, 1000, 2000):
        name = f"features like MiniRocket's, {label(n, 9996)}"
        for peer, *goal in [("RidgeClassifierCV",), ("bare product and eigh", 1.4, "at most")]:
            work = partial(rocket, n, 9996, peer)
            yield Case("classes", name, peer, work, ROCKET, *goal, rounds=3, quick=n == 300)
    name = f"embeddings, {label(50_000, 768)}, 10 classes"
    work = partial(embeddings, 50_000, 768)
    yield Case("classes", name, "RidgeClassifierCV", work, EMBEDDINGS, 10, rounds=2)
    name = f"fit and intervals of 1000 new rows, {label(2000, 200)}"
    why = "Probably the product of the left-out coefficients with the new rows."
    work = partial(intervals, 2000, 200)
    yield Case("classes", name, "the fit alone", work, why, 4, "at most", quick=True)
    why = "The data are so small that the time is spent on short calls in Python."
    name = "probabilities, four data sets"
    work = partial(probabilities, 5)
    yield Case("classes", name, "CalibratedClassifierCV", work, why, 5, quick=True)

    for rule, n, why in (
        ("path-gcv", 100_000, "Probably both are limited by the product of rows and targets."),
        ("loo", 10_000, OPERATORS),
    ):
        name = f"{label(3000, 500)}, {label(n)} targets by {rule}"
        work = partial(against_himalaya, (3000, 500, n), rule)
        yield Case("targets", name, "himalaya RidgeCV", work, why, rounds=2)
    name = f"{label(3000, 500)}, {label(100_000)} targets by path-gcv"
    work = partial(memory_of_targets, (3000, 500, 100_000))
    yield Case("targets", name, "peak memory", work, "Probably the coefficients of all targets.")

    for n, p, per_row in [(200_000, 50_000, 5), (50_000, 200_000, 20), (1_000_000, 100_000, 10)]:
        name = f"{label(n, p)}, {per_row} entries a row, t·√L = {PHASE:g}"
        quick = n * per_row <= 1e6
        for peer, why, *goal in [
            ("LSQR", EXTRA_WORK, 3.0, "at most"),
            ("LSMR", EXTRA_WORK, 3.0, "at most"),
            ("Nesterov's iteration", CHEAP, 1.0, "at least"),
        ]:
            work = partial(products, peer, (n, p, per_row))
            yield Case("sparse", name, peer, work, why, *goal, rounds=3, quick=quick)

    work = partial(throughput, 4_000_000)
    name = f"{label(4_000_000, COLUMNS)}, two workers"
    yield Case("chunks", name, "X.T @ X per core", work, CLUSTER, 0.8, rounds=7)
