"""Compare the error of images at the chosen stop with the least error of the path.

    python -m benchmarks.inverse [--size 256] [--noises 20] [--processes 1]

Two problems are solved without their matrices becoming dense: an image that was blurred, and an
image from its projections. For every method and rule the table has the median and the largest
ratio of the two errors over random noises. The goal is a median of at most 1.1.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import fft, sparse
from scipy.sparse.linalg import LinearOperator

import stoptime as st
from benchmarks.harness import command, load, table

PAGE = "stopping.md"
ELLIPSES = [(0.3, 0.2, 0.25, 0.4, -0.6), (-0.35, 0.1, 0.2, 0.35, 0.8), (0, -0.5, 0.4, 0.1, 0.5)]
NOISE = 0.02  # standard deviation, relative to the root mean square of the data
BLUR = 2.0  # standard deviation of the blur, in pixels
ANGLES = 90
METHODS = ("conjugate-gradient", "accelerated-flow")
LATEST_PHASE = 200  # t√L up to which the least error of a flow is looked for


def phantom(size: int) -> np.ndarray:
    """Return a test image: ellipses in a disc, and a smooth peak."""
    x, y = np.meshgrid(*2 * [(np.arange(size) + 0.5) / size * 2 - 1])
    picture = 1.0 * (x**2 + y**2 < 0.8)
    for cx, cy, a, b, value in ELLIPSES:
        picture += value * (((x - cx) / a) ** 2 + ((y - cy) / b) ** 2 < 1)
    return picture + 0.5 * np.exp(-((x + 0.1) ** 2 + (y - 0.6) ** 2) / 0.02)


def blur(size: int) -> tuple[LinearOperator, tuple[int, int]]:
    """Return a periodic Gaussian blur by Fourier transforms, and the shape of its data."""
    squares = fft.fftfreq(size)[:, None] ** 2 + fft.rfftfreq(size) ** 2
    weights = np.exp(-2 * (np.pi * BLUR) ** 2 * squares)

    def apply(pixels: np.ndarray) -> np.ndarray:
        waves = weights * fft.rfft2(pixels.reshape(size, size))
        return fft.irfft2(waves, (size, size)).ravel()

    pixels = size**2
    operator = LinearOperator((pixels, pixels), matvec=apply, rmatvec=apply, dtype=float)
    return operator, (size, size)


def projections(size: int) -> tuple[sparse.csr_array, tuple[int, int]]:
    """Return parallel projections; each pixel contributes to the two nearest rays."""
    x, y = (axis.ravel() for axis in np.meshgrid(*2 * [np.arange(size) - (size - 1) / 2]))
    pixels = np.tile(np.arange(size**2), 2)
    blocks = []
    n_rays = int(np.ceil(size * np.sqrt(2))) + 2
    for angle in np.linspace(0, np.pi, ANGLES, endpoint=False):
        place = x * np.cos(angle) + y * np.sin(angle) + (n_rays - 2) / 2
        ray = np.floor(place).astype(int)
        share = place - ray
        entries = np.concatenate([1 - share, share]), (np.concatenate([ray, ray + 1]), pixels)
        blocks.append(sparse.coo_array(entries, (n_rays, size**2)))
    return sparse.csr_array(sparse.vstack(blocks)), (ANGLES, n_rays)


def least_error(X: Any, y: np.ndarray, truth: np.ndarray, method: str) -> float:
    """Return the least error of the path, for which the true image must be known."""
    stops = np.arange(1.0, 61.0)
    if method != "conjugate-gradient":
        largest = st.path(X, y, "nesterov", [1], fit_intercept=False).krylov.largest
        stops = np.geomspace(2, LATEST_PHASE, 60) / np.sqrt(largest)
    coef = st.path(X, y, method, stops, fit_intercept=False).coef
    return float(np.linalg.norm(coef - truth, axis=1).min())


def compare(name: str, size: int, seed: int) -> list[dict[str, Any]]:
    """Return error over least error of every method and rule, for one noise."""
    # the L-curve warns where it has no corner, which is part of the comparison
    warnings.simplefilter("ignore", st.StopWarning)
    X, shape = {"deblurring": blur, "tomography": projections}[name](size)
    truth = phantom(size).ravel()
    clean = X @ truth
    deviation = NOISE * float(np.sqrt(np.mean(clean**2)))
    rules = {
        "discrepancy": st.Discrepancy(deviation**2),
        "ncp": st.NCP(shape),
        "l-curve": st.LCurve(),
        "path-gcv": st.PathGCV(),
    }
    y = clean + deviation * np.random.default_rng(seed).standard_normal(len(clean))
    best = {method: least_error(X, y, truth, method) for method in METHODS}
    found = []
    for method, rule in product(METHODS, rules):
        if rule == "path-gcv" and method == "conjugate-gradient":
            continue  # it needs a filter that does not depend on the response
        model = st.StoppedRegressorCV(method, rule=rules[rule], fit_intercept=False).fit(X, y)
        ratio = float(np.linalg.norm(model.coef_ - truth)) / best[method]
        found.append({"problem": name, "method": method, "rule": rule, "ratio": ratio})
    return found


def measured(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Run both problems."""
    jobs = product(("deblurring", "tomography"), range(given.noises))
    found = Parallel(n_jobs=given.processes)(
        delayed(compare)(name, given.size, seed) for name, seed in jobs
    )
    return [one for some in found for one in some]


def parts() -> dict[str, str]:
    """Return the table of the stored ratios."""
    ratios: dict[tuple[str, ...], list[float]] = {}
    for one in load("inverse.json"):
        key = one["problem"], one["method"], one["rule"]
        ratios.setdefault(key, []).append(one["ratio"])
    head = ("problem", "method", "rule", "median error over best", "largest")
    rows = [[*key, f"{np.median(all_):.3f}", f"{max(all_):.3f}"] for key, all_ in ratios.items()]
    return {"images": table(head, rows)}


if __name__ == "__main__":
    command(__doc__, "inverse.json", measured, {PAGE: parts}, size=256, noises=20, processes=1)
