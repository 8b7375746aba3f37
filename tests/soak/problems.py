"""Generated problems: small data of every shape and kind, a method, and a stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as some
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import stoptime as st

COLUMNS = ["normal", "integers", "constant", "zero", "copy", "scaled copy", "sum"]
COLUMNS += ["nearly a copy", "power", "sparse"]
TARGETS = ["normal", "linear", "noisy", "constant", "zero", "one row"]
WEIGHTS = ["none", "ones", "counts", "uneven", "tiny", "huge", "one row"]
KINDS = ["C", "F", "strided", "float32", "int", "list", "DataFrame", "memmap"]
KINDS += ["csr", "csc", "operator", "chunks", "statistics"]
TENSORS = ["tensor", "tensor32"] if find_spec("torch") else []
KINDS += [*TENSORS, *(["dask"] if find_spec("dask") else [])]
MATRIX_FREE = {"csr", "csc", "operator"}
STREAMED = {"chunks", "statistics", "dask"}
SINGLE = {"float32", "tensor32"}


@dataclass(frozen=True)
class Generated:
    """Data as arrays, and how they are to be handed over."""

    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None
    fit_intercept: bool
    kind: str
    scales: tuple[float, float]  # of X and y, in powers of ten
    columns: tuple[str, ...] = field(default=())

    @property
    def single(self) -> bool:
        """Whether they are of single precision."""
        return self.kind in SINGLE

    @property
    def eps(self) -> float:
        return float(np.finfo(np.float32 if self.single else np.float64).eps)

    @property
    def tame(self) -> bool:
        """Whether nothing here may be refused for its size."""
        most = 8 if self.single else 60
        rows = np.asarray(
            self.X if self.sample_weight is None else self.X[self.sample_weight > 0], float
        )
        with np.errstate(over="ignore"):
            powers = np.mean(rows**2, axis=0)
        sizes = powers[powers > 0]
        even = sizes.size == 0 or sizes.min() > 1e-8 * sizes.max()
        return bool(even and max(abs(s) for s in self.scales) <= most)

    def handed_over(self) -> tuple[Any, Any, Any]:
        """Return X, y and weights as the kind says."""
        X, y, weight = self.X, self.y, self.sample_weight
        if self.kind == "strided":
            wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]))
            wide[::2, ::2] = X
            X = wide[::2, ::2]
        elif self.kind == "chunks":
            return st.Chunks.of(X, y, weight, rows=max(1, len(X) // 3)), None, None
        elif self.kind == "statistics":
            return st.summarise(X, y, weight), None, None
        elif self.kind in TENSORS:
            import torch

            X, y = (
                torch.from_numpy(np.ascontiguousarray(X)),
                torch.from_numpy(np.ascontiguousarray(y)),
            )
        elif self.kind == "dask":
            from dask import array as da

            height = max(1, len(X) // 2)
            X, y = da.from_array(X, chunks=(height, X.shape[1])), da.from_array(y, chunks=height)
            weight = None if weight is None else da.from_array(weight, chunks=height)
        else:
            X = CONVERSIONS[self.kind](X)
            if self.kind == "list":
                y, weight = y.tolist(), None if weight is None else weight.tolist()
        return X, y, weight


def _mapped(X: np.ndarray) -> np.ndarray:
    """Return the same rows in a file."""
    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        return np.load(Path(folder) / "X.npy", mmap_mode="r")  # the file lives as long as its map


CONVERSIONS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X,
    "int": lambda X: X,
    "memmap": _mapped,
    "list": lambda X: X.tolist(),
    "DataFrame": lambda X: pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "operator": lambda X: aslinearoperator(np.asarray(X, float)),
}


def _column(kind: str, before: list[np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    plain = rng.standard_normal(n)
    last = before[-1] if before else plain
    return {
        "normal": plain,
        "integers": rng.integers(-3, 4, n).astype(float),
        "constant": np.full(n, rng.choice([1.0, -7.0, 0.1, 1e3])),
        "zero": np.zeros(n),
        "copy": last.copy(),
        "scaled copy": -0.5 * last,
        "sum": np.sum(before, axis=0) if before else plain,
        "nearly a copy": last + 10.0 ** rng.uniform(-14, -1) * plain,
        "power": np.linspace(0, 1, n) ** (len(before) + 1),
        "sparse": plain * (rng.random(n) < 0.3),
    }[kind]


def _target(
    kind: str, X: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    noise = rng.standard_normal(shape)
    signal = X @ rng.standard_normal((X.shape[1], *shape[1:]))
    spike = np.zeros(shape)
    spike[0] = 1
    return {
        "normal": noise,
        "linear": signal,
        "noisy": signal + 0.3 * noise,
        "constant": np.full(shape, 2.5),
        "zero": np.zeros(shape),
        "one row": spike,
    }[kind]


def _weight(kind: str, n: int, rng: np.random.Generator) -> np.ndarray | None:
    one = np.zeros(n)
    one[rng.integers(n)] = 1.0
    return {
        "none": None,
        "ones": np.ones(n),
        "counts": np.maximum(rng.integers(0, 4, n), np.arange(n) == 0).astype(float),
        "uneven": rng.exponential(size=n) + 1e-3,
        "tiny": 1e-100 * (rng.random(n) + 0.1),
        "huge": 1e100 * (rng.random(n) + 0.1),
        "one row": one,
    }[kind]


def _often(usual: list[Any], rest: list[Any]) -> some.SearchStrategy:
    return some.one_of(some.sampled_from(usual), some.sampled_from(usual), some.sampled_from(rest))


@some.composite
def data(draw, kinds: list[str] = KINDS, least_rows: int = 1) -> Generated:
    """Draw data."""
    n, p = draw(some.integers(least_rows, 12)), draw(some.integers(1, 8))
    q = draw(some.sampled_from([0, 0, 1, 2, 3]))
    kind = draw(_often([k for k in kinds if k != "dask"], kinds))
    rng = np.random.default_rng(draw(some.integers(0, 2**32 - 1)))
    names = draw(some.lists(_often(["normal"], COLUMNS), min_size=p, max_size=p))
    columns: list[np.ndarray] = []
    for name in names:
        columns.append(_column(name, columns, n, rng))
    base = np.column_stack(columns)
    powers = [0.0, 0.0, 0.0, *rng.uniform(-10, 10, 2), *rng.uniform(-60, 60, 2)]
    scales = tuple(draw(some.sampled_from(powers)) for _ in range(2))
    offset = draw(_often([0.0], [1.0, 1e3, 1e6, -1e8]))
    spread = draw(_often([0.0], [1.0, 6.0, 30.0]))  # of columns, in powers of ten
    y = _target(draw(some.sampled_from(TARGETS)), base, (n, q) if q else (n,), rng)
    X = (base + offset) * 10.0 ** (scales[0] + spread * rng.uniform(-1, 1, p))
    y = (y + draw(_often([0.0], [1.0, 1e6]))) * 10.0 ** scales[1]
    if kind in SINGLE:
        scales = (scales[0] / 10, scales[1] / 10)  # as far from one as its range allows
        X = ((base + offset) * 10.0 ** scales[0]).astype(np.float32)
        y = (rng.standard_normal(y.shape) * 10.0 ** scales[1]).astype(np.float32)
    elif kind == "int":
        X, scales = np.round(100 * base).astype(int), (0.0, scales[1])
    weight = _weight(draw(_often(["none"], WEIGHTS)), n, rng)
    return Generated(X, y, weight, draw(some.booleans()), kind, scales, tuple(names))


@some.composite
def methods(draw, scale: float = 1.0, conjugate: bool = True) -> st.Method:  # noqa: C901, PLR0911 - one for each
    """Draw a method for eigenvalues of about this size."""
    # spectral cut-off jumps where eigenvalues meet: no first-order bound of rounding holds for it
    names = [name for name in (*st.METHODS, *st.ITERATIONS) if name != "spectral-cutoff"]
    name = draw(some.sampled_from(names))
    root = float(np.sqrt(scale))
    step = draw(some.sampled_from(["auto", "auto", 0.5 / scale, 0.01 / scale]))
    if name == "accelerated-flow":
        return st.AcceleratedFlow(
            draw(some.sampled_from([3.0, 3.0, 1e-3, 0.5, 1.0, 2.0, 5.0, 8.5, 40.0]))
        )
    if name == "heavy-ball-flow":
        dampings = ["critical", root, 0.1 * root, 1e-6 * root, 30 * root]
        return st.HeavyBallFlow(draw(some.sampled_from(dampings)))
    if name == "high-resolution-flow":
        mu = draw(some.sampled_from(["auto", 0.1 * scale, 1e-4 * scale]))
        return st.HighResolutionFlow(step, mu)
    if name == "nesterov":
        friction, momentum = (
            some.sampled_from([3.0, 1.0, 7.0]),
            some.sampled_from([None, None, 0.0, 0.9]),
        )
        return st.Nesterov(step, draw(friction), draw(momentum))
    if name == "heavy-ball":
        return st.HeavyBall(step, draw(some.sampled_from(["auto", 0.0, 0.5, 0.95])))
    if name == "nu-method":
        return st.NuMethod(step, draw(some.sampled_from([1.0, 0.5, 3.0])))
    if name == "gradient-descent":
        return st.GradientDescent(step)
    if name == "iterated-ridge":
        return st.IteratedRidge(draw(some.sampled_from([1, 2, 5])))
    if name == "butterworth":
        return st.Butterworth(draw(some.sampled_from([1, 2, 4, 7])))
    if name == "conjugate-gradient" and not conjugate:
        return st.Ridge()
    return st.get_method(name)


def stops(method: st.Method, scale: float) -> some.SearchStrategy[float]:
    """Draw a stop, mostly where something happens to eigenvalues of about this size."""
    if isinstance(method, st.Iteration | st.ConjugateGradient):
        return some.one_of(
            some.integers(0, 30).map(float), some.sampled_from([0.0, 1.0, np.inf, 300.0])
        )
    near = some.floats(-3, 4).map(lambda e: float(10**e / scale ** (1 / method.time_power)))
    return some.one_of(near, near, near, some.sampled_from([0.0, np.inf, 1.0, 1e-150, 1e150]))


def typical(generated: Generated) -> float:
    """Return the size of the eigenvalues of the data, as far as floating point knows."""
    X = np.asarray(generated.X, float)
    if generated.fit_intercept:
        X = X - X.mean(axis=0)
    with np.errstate(over="ignore", under="ignore"):
        size = float(np.mean(np.square(X)) * X.shape[1])
    return size if 1e-280 < size < 1e280 else 1.0
