"""Classical discretised inverse problems with 1 % noise; each seed draws other noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

SIZE = 150
NOISE = 0.01  # relative to the standard deviation of the clean measurements
SIDE = 12  # pixels of the tomographic image along each side
RAYS = 200


def grid() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the midpoints of a grid on [0, 1], and all pairs of them."""
    x = (np.arange(SIZE) + 0.5) / SIZE
    return x, *np.meshgrid(x, x, indexing="ij")


def blur() -> np.ndarray:
    """Return a Gaussian blur."""
    _, s, t = grid()
    return np.exp(-(((s - t) / 0.06) ** 2)) / SIZE


def gravity() -> np.ndarray:
    """Return the vertical force of masses at the depth 1/4."""
    _, s, t = grid()
    return 0.25 / (0.25**2 + (s - t) ** 2) ** 1.5 / SIZE


def second_derivative() -> np.ndarray:
    """Return Green's function of the second derivative."""
    _, s, t = grid()
    return np.where(s < t, s * (t - 1), t * (s - 1)) / SIZE


def smooth() -> np.ndarray:
    """Return a sum of two waves."""
    x, _, _ = grid()
    return np.sin(np.pi * x) + 0.5 * np.sin(2 * np.pi * x)


def edges() -> np.ndarray:
    """Return a function with jumps."""
    x, _, _ = grid()
    return np.where((x > 0.2) & (x < 0.45), 1.0, 0.0) + np.where((x > 0.6) & (x < 0.7), 2.0, 0.0)


def tomography() -> np.ndarray:
    """Return approximate lengths of random rays in the pixels of a square image."""
    rng = np.random.default_rng(7)
    angles = rng.uniform(0, np.pi, RAYS)
    offsets = rng.uniform(-0.5, 0.5, RAYS)
    steps = np.linspace(-0.75, 0.75, 600)
    A = np.zeros((RAYS, SIDE * SIDE))
    for row, angle, offset in zip(A, angles, offsets, strict=True):
        x = 0.5 + offset * np.cos(angle) - steps * np.sin(angle)
        y = 0.5 + offset * np.sin(angle) + steps * np.cos(angle)
        inside = (x >= 0) & (x < 1) & (y >= 0) & (y < 1)
        pixels = (SIDE * x[inside]).astype(int) * SIDE + (SIDE * y[inside]).astype(int)
        np.add.at(row, pixels, steps[1] - steps[0])
    return A


def phantom() -> np.ndarray:
    """Return an image with a smooth hill and a block."""
    x = (np.arange(SIDE) + 0.5) / SIDE
    u, v = np.meshgrid(x, x, indexing="ij")
    hill = np.exp(-((u - 0.4) ** 2 + (v - 0.6) ** 2) / 0.05)
    block = (np.abs(u - 0.7) < 0.12) & (np.abs(v - 0.3) < 0.12)
    return (hill + block).ravel()


def measured(
    seed: int, operator: Callable[[], np.ndarray], truth: Callable[[], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return an operator and its noisy measurements."""
    A = operator()
    clean = A @ truth()
    rng = np.random.default_rng(seed)
    return A, clean + NOISE * np.std(clean) * rng.standard_normal(len(clean))


PROBLEMS = {
    "blur, smooth": partial(measured, operator=blur, truth=smooth),
    "blur, edges": partial(measured, operator=blur, truth=edges),
    "gravity, smooth": partial(measured, operator=gravity, truth=smooth),
    "gravity, edges": partial(measured, operator=gravity, truth=edges),
    "second derivative, smooth": partial(measured, operator=second_derivative, truth=smooth),
    "second derivative, edges": partial(measured, operator=second_derivative, truth=edges),
    "tomography": partial(measured, operator=tomography, truth=phantom),
}
