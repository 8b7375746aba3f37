"""Tomography: a picture from its projections, one Krylov space for every stop.

    python examples/tomography.py [target.png] [size]

Parallel rays cross a picture of size x size pixels under many angles; each measures a sum along its way, with
noise. The matrix of these sums is sparse and ill-conditioned: run on, least squares fits the noise.
Nesterov's flow is stopped early instead, at a time chosen without knowing the picture: by path GCV with
random probes, by the discrepancy principle with the known noise, and by rays held out.
"""

import sys

import numpy as np
from scipy import sparse

import stoptime as st
from stoptime import plots

target = sys.argv[1] if len(sys.argv) > 1 else "tomography.png"
size = int(sys.argv[2]) if len(sys.argv) > 2 else 96
rng = np.random.default_rng(0)


def phantom(size: int) -> np.ndarray:
    """Return ellipses in a disc, and a smooth hill."""
    x, y = np.meshgrid(*2 * [(np.arange(size) + 0.5) / size * 2 - 1])
    picture = 1.0 * (x**2 + y**2 < 0.8)
    ellipses = [(0.3, 0.2, 0.25, 0.4, -0.6), (-0.35, 0.1, 0.2, 0.35, 0.8), (0, -0.5, 0.4, 0.1, 0.5)]
    for cx, cy, a, b, value in ellipses:
        picture += value * (((x - cx) / a) ** 2 + ((y - cy) / b) ** 2 < 1)
    return picture + 0.5 * np.exp(-((x + 0.1) ** 2 + (y - 0.6) ** 2) / 0.02)


def projections(size: int, n_angles: int) -> sparse.csr_array:
    """Return the matrix of parallel-beam rays: a pixel's mass falls on the two rays next to its centre."""
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
X = projections(size, n_angles=size)
clean = X @ truth.ravel()
noise = 0.03 * np.abs(clean).max()
y = clean + noise * rng.standard_normal(len(clean))

held_out = rng.random(len(y)) < 0.1
rules = {
    "path GCV": (X, y, "path-gcv"),
    "discrepancy": (X, y, st.Discrepancy(noise=noise**2)),
    "held-out rays": (X[~held_out], y[~held_out], st.HoldOut(X[held_out], y[held_out])),
}
models = {
    name: st.StoppedRegressorCV("nesterov-flow", rule=rule, fit_intercept=False).fit(A, b)
    for name, (A, b, rule) in rules.items()
}

options = {"fit_intercept": False, "solver": "krylov"}
largest = st.path(X, y, "nesterov", [1], **options).krylov.largest
stops = np.geomspace(1, 400, 120) / np.sqrt(largest)
path = st.path(X, y, "nesterov-flow", stops, **options)
errors = np.linalg.norm(path.coef - truth.ravel(), axis=1) / np.linalg.norm(truth)
iterations = int(np.ceil(stops[-1] * np.sqrt(largest)))
print(f"{X.shape[0]} rays, {X.shape[1]} pixels, {X.nnz} entries; {path.krylov.sizes[0]} Krylov vectors")
print(f"{path.krylov.products} products for {len(stops)} stops; Nesterov's iteration takes {2 * iterations}")

figure, axes = plots.new_figure(1, 4, figsize=(14, 3.6))
best = models["path GCV"]
fits = {
    "truth": truth.ravel(),
    f"stopped by path GCV at t√L = {best.stop_ * np.sqrt(largest):.0f}": best.coef_,
    f"run on to t√L = {iterations}": path.coef[-1],
}
for ax, (title, picture) in zip(axes, fits.items(), strict=False):
    ax.imshow(picture.reshape(size, size), vmin=truth.min(), vmax=truth.max(), cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])
curve = axes[-1]
curve.plot(stops * np.sqrt(largest), errors, color="0.2")
for place, (name, model) in enumerate(models.items()):
    distance = np.linalg.norm(model.coef_ - truth.ravel()) / np.linalg.norm(truth)
    time = model.stop_ * np.sqrt(largest)
    print(f"{name:>14}: t√L = {time:.1f}, error {distance:.3f} (best of the path {errors.min():.3f})")
    curve.plot(time, distance, "osD"[place], color=f"C{place}", label=name)
curve.set(xscale="log", xlabel="t√L", ylabel="‖β - truth‖ / ‖truth‖", title="error, and three rules")
curve.legend()
figure.savefig(target, dpi=110)
print(f"wrote {target}")
