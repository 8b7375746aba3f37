"""
Deblurring
==========

An image of 256 by 256 pixels is sharpened without a matrix: only products with the blur are known,
by Fourier transforms. Conjugate gradients are stopped by two classic rules.
"""

# %%
# The blur is a ``LinearOperator``: a function that blurs an image, and its transpose, which is the
# same function here because the blur is symmetric. Operators of PyLops are accepted as they are.

import sys

import numpy as np
from matplotlib import pyplot as plt
from scipy import fft
from scipy.sparse.linalg import LinearOperator

import stoptime as st
from stoptime.show import plots

size = int(sys.argv[1]) if len(sys.argv) > 1 else 256
rng = np.random.default_rng(0)
ELLIPSES = [(0.3, 0.2, 0.25, 0.4, -0.6), (-0.35, 0.1, 0.2, 0.35, 0.8), (0, -0.5, 0.4, 0.1, 0.5)]


def phantom(size: int) -> np.ndarray:
    """Return a test image: ellipses in a disc, and a smooth peak."""
    x, y = np.meshgrid(*2 * [(np.arange(size) + 0.5) / size * 2 - 1])
    picture = 1.0 * (x**2 + y**2 < 0.8)
    for cx, cy, a, b, value in ELLIPSES:
        picture += value * (((x - cx) / a) ** 2 + ((y - cy) / b) ** 2 < 1)
    return picture + 0.5 * np.exp(-((x + 0.1) ** 2 + (y - 0.6) ** 2) / 0.02)


def gaussian_blur(size: int, width: float) -> LinearOperator:
    """Return a periodic blur whose standard deviation is some pixels wide."""
    squares = fft.fftfreq(size)[:, None] ** 2 + fft.rfftfreq(size) ** 2
    weights = np.exp(-2 * (np.pi * width) ** 2 * squares)

    def apply(pixels: np.ndarray) -> np.ndarray:
        waves = weights * fft.rfft2(pixels.reshape(size, size))
        return fft.irfft2(waves, (size, size)).ravel()

    return LinearOperator((size**2, size**2), matvec=apply, rmatvec=apply, dtype=float)


truth = phantom(size).ravel()
X = gaussian_blur(size, width=2.0)
clean = X @ truth
noise = 0.02 * np.sqrt(np.mean(clean**2))
y = clean + noise * rng.standard_normal(len(clean))

# %%
# The discrepancy principle stops when the residual is as small as the noise, whose variance must be
# known. The normalised cumulative periodogram, NCP, does not need it: it stops when the residual,
# seen as an image, looks most like white noise.

rules = {"discrepancy": st.Discrepancy(noise=noise**2), "NCP": st.NCP(shape=(size, size))}
models = {
    name: st.StoppedRegressorCV("conjugate-gradient", rule=rule, fit_intercept=False).fit(X, y)
    for name, rule in rules.items()
}

# %%
# The error of the image, which only somebody with the true image can compute, falls and then rises
# steeply: later iterations amplify the noise.

iterations = np.arange(1, 41)
path = st.path(X, y, "conjugate-gradient", iterations, fit_intercept=False)
errors = np.linalg.norm(path.coef - truth, axis=1) / np.linalg.norm(truth)
figure, ax = plots.new_figure(figsize=(8, 4.2))
ax.plot(iterations, errors, color="0.3")
looks = ("o", "#0072B2"), ("s", "#D55E00")
for (name, model), (marker, color) in zip(models.items(), looks, strict=True):
    error = np.linalg.norm(model.coef_ - truth) / np.linalg.norm(truth)
    ratio = error / errors.min()
    print(f"{name:>12}: {model.stop_:.0f} iterations, {ratio:.3f} times the best error")
    ax.plot(model.stop_, error, marker, color=color, label=name)
ax.set(xlabel="iterations of conjugate gradients", ylabel="‖β - truth‖ / ‖truth‖")
ax.set_title("Error of the image, and the stops of two rules")
ax.legend()

# %%
# The L-curve needs no noise level either, but for such images it stops several times too late.
# ``python -m benchmarks.inverse`` repeats the comparison with 20 noises.

stopped = models["discrepancy"]
fits = {
    "blurred, with noise": y,
    f"{stopped.stop_:.0f} iterations": stopped.coef_,
    f"{iterations[-1]} iterations": path.coef[-1],
}
figure, axes = plots.new_figure(1, 3, figsize=(11, 4))
for ax, (title, picture) in zip(axes, fits.items(), strict=True):
    ax.imshow(picture.reshape(size, size), vmin=truth.min(), vmax=truth.max(), cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])

plt.show()
