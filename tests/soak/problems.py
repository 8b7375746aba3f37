"""Generated problems: small data of every shape and kind, a method, and a stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        if self.kind == "chunks":
            return st.Chunks.of(X, y, weight, rows=max(1, len(X) // 3)), None, None
        if self.kind == "statistics":
            return st.summarise(X, y, weight), None, None
        if self.kind in TENSORS:
            import torch

            return torch.tensor(X), torch.tensor(y), weight
        if self.kind == "dask":
            from dask import array as da

            height = max(1, len(X) // 2)
            weight = None if weight is None else da.from_array(weight, chunks=height)
            X = da.from_array(X, chunks=(height, X.shape[1]))
            return X, da.from_array(y, chunks=height), weight
        if self.kind == "list":
            return X.tolist(), y.tolist(), None if weight is None else weight.tolist()
        return CONVERSIONS[self.kind](X), y, weight


def strided(X: np.ndarray) -> np.ndarray:
    """Return the same rows as every second row and column of an array."""
    wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]))
    wide[::2, ::2] = X
    return wide[::2, ::2]


def mapped(X: np.ndarray) -> np.ndarray:
    """Return the same rows in a file."""
    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        return np.load(Path(folder) / "X.npy", mmap_mode="r")  # the file lives as long as its map


CONVERSIONS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": strided,
    "float32": lambda X: X,
    "int": lambda X: X,
    "memmap": mapped,
    "DataFrame": lambda X: pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "operator": lambda X: aslinearoperator(np.asarray(X, float)),
}


def column_of(kind: str, before: list[np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
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


def target_of(
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


def weight_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray | None:
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


def often(usual: list[Any], rest: list[Any]) -> some.SearchStrategy:
    return some.one_of(some.sampled_from(usual), some.sampled_from(usual), some.sampled_from(rest))


@some.composite
def data(draw, kinds: list[str] = KINDS, least_rows: int = 1) -> Generated:
    """Draw data."""
    n, p = draw(some.integers(least_rows, 12)), draw(some.integers(1, 8))
    q = draw(some.sampled_from([0, 0, 1, 2, 3]))
    kind = draw(often([k for k in kinds if k != "dask"], kinds))
    rng = np.random.default_rng(draw(some.integers(0, 2**32 - 1)))
    names = draw(some.lists(often(["normal"], COLUMNS), min_size=p, max_size=p))
    columns: list[np.ndarray] = []
    for name in names:
        columns.append(column_of(name, columns, n, rng))
    base = np.column_stack(columns)
    powers = [0.0, 0.0, 0.0, *rng.uniform(-10, 10, 2), *rng.uniform(-60, 60, 2)]
    scales = tuple(draw(some.sampled_from(powers)) for _ in range(2))
    offset = draw(often([0.0], [1.0, 1e3, 1e6, -1e8]))
    spread = draw(often([0.0], [1.0, 6.0, 30.0]))  # of columns, in powers of ten
    y = target_of(draw(some.sampled_from(TARGETS)), base, (n, q) if q else (n,), rng)
    X = (base + offset) * 10.0 ** (scales[0] + spread * rng.uniform(-1, 1, p))
    y = (y + draw(often([0.0], [1.0, 1e6]))) * 10.0 ** scales[1]
    if kind in SINGLE:
        scales = (scales[0] / 10, scales[1] / 10)  # as far from one as its range allows
        X = ((base + offset) * 10.0 ** scales[0]).astype(np.float32)
        y = (rng.standard_normal(y.shape) * 10.0 ** scales[1]).astype(np.float32)
    elif kind == "int":
        X, scales = np.round(100 * base).astype(int), (0.0, scales[1])
    weight = weight_of(draw(often(["none"], WEIGHTS)), n, rng)
    return Generated(X, y, weight, draw(some.booleans()), kind, scales)


# spectral cut-off jumps where eigenvalues meet: no first-order bound of rounding holds for it
NAMES = [name for name in (*st.METHODS, *st.ITERATIONS) if name != "spectral-cutoff"]


@some.composite
def methods(draw, scale: float = 1.0, conjugate: bool = True) -> st.Method:
    """Draw a method for eigenvalues of about this size."""
    root = float(np.sqrt(scale))
    step = some.sampled_from(["auto", "auto", 0.5 / scale, 0.01 / scale])
    parameters = {
        "accelerated-flow": {"friction": [3.0, 3.0, 1e-3, 0.5, 1.0, 2.0, 5.0, 8.5, 40.0]},
        "heavy-ball-flow": {"damping": ["critical", root, 0.1 * root, 1e-6 * root, 30 * root]},
        "high-resolution-flow": {"strong_convexity": ["auto", 0.1 * scale, 1e-4 * scale]},
        "nesterov": {"friction": [3.0, 1.0, 7.0], "momentum": [None, None, 0.0, 0.9]},
        "heavy-ball": {"momentum": ["auto", 0.0, 0.5, 0.95]},
        "nu-method": {"nu": [1.0, 0.5, 3.0]},
        "iterated-ridge": {"times": [1, 2, 5]},
        "butterworth": {"order": [1, 2, 4, 7]},
    }
    name = draw(some.sampled_from(NAMES))
    if name == "conjugate-gradient" and not conjugate:
        name = "ridge"
    method = st.get_method(name)
    given = {
        key: draw(some.sampled_from(values)) for key, values in parameters.get(name, {}).items()
    }
    if hasattr(method, "step"):
        given["step"] = draw(step)
    return replace(method, **given)


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
