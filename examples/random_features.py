"""
Random features as a linear model
=================================

Inputs z of dimension d are standard normal, the response is linear in them, and least squares is
fitted to p random features φ(Wz). For large d, centred features act like Gaussian ones,
μ₁Wz + μ⋆ξ with ξ independent of z. So ``stoptime.limiting_risk`` gives the risk of every method:
the covariance of the features is μ₁²WWᵀ + μ⋆²I, and what they miss of the response acts as noise.
See Mei, Montanari (2022), The generalization error of random features regression.
"""

# %%
# The rectifier φ(z) = max(z, 0) has μ₁ = E zφ(z) = 1/2 and μ⋆² = Var φ - μ₁² = 1/4 - 1/(2π). The
# eigenvalues of WWᵀ follow the law of Marchenko and Pastur, and the best linear prediction from the
# features explains a share of the response that depends on the eigenvalue alone.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

ratio, aspect = 2.0, 1.5  # features per input, and features per row
signal, noise = 1.0, 0.25
linear, other = 1 / 4, 1 / 4 - 1 / (2 * np.pi)

nodes, weights = st.marchenko_pastur(ratio)
# there are more features than inputs, so that some eigenvalues of WWᵀ are zero
squares = np.append(0.0, nodes)
shares = np.append(1 - 1 / ratio, weights)
covariance = linear * squares + other
explained = linear * squares / covariance
missed = signal * (1 - ratio * shares @ explained)

stops = np.geomspace(0.3, 30, 60)
limit = st.limiting_risk(
    "accelerated-flow",
    stops,
    aspect=aspect,
    covariance=(covariance, shares),
    signal=ratio * signal * explained / covariance,
    noise=noise + missed,
    target="prediction",
)

# %%
# One draw of 400 rows, with many targets to average over, is close to the limit at every stop.

n, targets = 400, 60
p = int(aspect * n)
d = int(p / ratio)
rng = np.random.default_rng(0)
W = rng.standard_normal((d, p)) / np.sqrt(d)
theta = np.sqrt(signal / d) * rng.standard_normal((d, targets))
Z, new = rng.standard_normal((n, d)), rng.standard_normal((1000, d))
y = Z @ theta + np.sqrt(noise) * rng.standard_normal((n, targets))


def features(inputs):
    """Return the rectified projections, centred."""
    return np.maximum(inputs @ W, 0.0) - 1 / np.sqrt(2 * np.pi)


path = st.path(features(Z), y, "accelerated-flow", stops, fit_intercept=False)
gaps = np.einsum("mp,tpq->tmq", features(new), path.coef) - new @ theta
simulated = (gaps**2).mean(axis=(1, 2))
difference = np.abs(simulated / (limit.total + missed) - 1).max()
print(f"largest difference from the limit: {100 * difference:.1f} %")

_, ax = plots.new_figure(figsize=(7, 4.2))
ax.plot(stops, limit.total + missed, color=plots.COLORS["accelerated-flow"], label="limit")
ax.plot(stops, simulated, "o", color="0.3", markersize=3, label=f"{n} rows, {p} features")
ax.axhline(missed, color="0.6", linewidth=0.8, label="missed by every linear function")
ax.set(xscale="log", xlabel="stop t", ylabel="squared distance from the truth", ylim=(0, None))
ax.legend()
plt.show()
