"""
Tomography
==========

An image is reconstructed from its projections. The matrix is sparse, wide and ill-conditioned, and
one Krylov space gives every stop.
"""

# %%
# Parallel rays cross an image at many angles. Each ray measures the sum of the pixels along its
# way, with noise. The matrix of ray lengths is sparse.

import sys

import numpy as np
from matplotlib import pyplot as plt
from scipy import sparse

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


def projections(size: int, n_angles: int) -> sparse.csr_array:
    """Return the matrix of parallel rays; each pixel contributes to the two nearest rays."""
    x, y = (axis.ravel() for axis in np.meshgrid(*2 * [np.arange(size) - (size - 1) / 2]))
    pixels, blocks = np.arange(size**2), []
    n_rays = int(np.ceil(size * np.sqrt(2))) + 1
    for angle in np.linspace(0, np.pi, n_angles, endpoint=False):
        place = x * np.cos(angle) + y * np.sin(angle) + (n_rays - 1) / 2
        ray = np.floor(place).astype(int)
        share = place - ray
        rays, mass = np.concatenate([ray, ray + 1]), np.concatenate([1 - share, share])
        blocks.append(sparse.coo_array((mass, (rays, np.tile(pixels, 2))), (n_rays + 1, size**2)))
    return sparse.csr_array(sparse.vstack(blocks))


truth = phantom(size)
X = projections(size, n_angles=60)
clean = X @ truth.ravel()
noise = 0.03 * np.abs(clean).max()
y = clean + noise * rng.standard_normal(len(clean))
print(f"{X.shape[0]} rays, {X.shape[1]} pixels, {X.nnz} entries")

# %%
# Least squares, run to convergence, would fit the noise. Accelerated flow is stopped early instead.
# Three rules choose the time without knowing the image: path GCV with random probes, the
# discrepancy principle with the known noise, and the error on held-out rays.

held_out = rng.random(len(y)) < 0.1
rules = {
    "path GCV": (X, y, "path-gcv"),
    "discrepancy": (X, y, st.Discrepancy(noise=noise**2)),
    "held-out rays": (X[~held_out], y[~held_out], st.HoldOut(X[held_out], y[held_out])),
}
models = {
    name: st.StoppedRegressorCV("accelerated-flow", rule=rule, fit_intercept=False).fit(A, b)
    for name, (A, b, rule) in rules.items()
}

# %%
# One Krylov space gives the whole path. It needs fewer products than Nesterov's iteration to the
# last stop.

largest = st.path(X, y, "nesterov", [1], fit_intercept=False).krylov.largest
stops = np.geomspace(1, 120, 80) / np.sqrt(largest)
path = st.path(X, y, "accelerated-flow", stops, fit_intercept=False)
errors = np.linalg.norm(path.coef - truth.ravel(), axis=1) / np.linalg.norm(truth)
iterations = int(np.ceil(stops[-1] * np.sqrt(largest)))
print(
    f"{path.krylov.products} products for {len(stops)} stops; "
    f"Nesterov's iteration takes {2 * iterations}"
)

best = models["discrepancy"]
fits = {
    "truth": truth.ravel(),
    f"stopped by discrepancy, t√L = {best.stop_ * np.sqrt(largest):.0f}": best.coef_,
    f"run to t√L = {iterations}": path.coef[-1],
}
figure, axes = plots.new_figure(1, 3, figsize=(11, 4))
for ax, (title, picture) in zip(axes, fits.items(), strict=True):
    ax.imshow(picture.reshape(size, size), vmin=truth.min(), vmax=truth.max(), cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])

# %%
# The best time can be computed only from the true image. The discrepancy principle stops there,
# because the noise is known. The other two rules stop later: they minimise the error of predicted
# rays, which hardly see the noise in the image.

figure, ax = plots.new_figure(figsize=(8, 4.2))
ax.plot(stops * np.sqrt(largest), errors, color="0.3")
looks = ("o", "#0072B2"), ("s", "#D55E00"), ("D", "#009E73")
for (name, model), (marker, color) in zip(models.items(), looks, strict=True):
    distance = np.linalg.norm(model.coef_ - truth.ravel()) / np.linalg.norm(truth)
    time = model.stop_ * np.sqrt(largest)
    ratio = distance / errors.min()
    print(f"{name:>14}: t√L = {time:.1f}, error {distance:.3f}, {ratio:.3f} times the best")
    ax.plot(time, distance, marker, color=color, label=name)
ax.set(xscale="log", xlabel="stop (t√L, in iterations)", ylabel="‖β - truth‖ / ‖truth‖")
ax.set_title("Error of the image, and the stops of three rules")
ax.legend()

plt.show()
