"""
Every method from one factorisation
===================================

A method is a filter of the eigenvalues. Once the data are factored, the path of any method is one
matrix product.
"""

# %%
# The diabetes data are factored once. The rest of this example uses only the spectrum.

from time import perf_counter

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

import stoptime as st
from stoptime.show import plots

spectrum = st.decompose(*load_diabetes(return_X_y=True))
L = spectrum.eigenvalues[-1]
print(spectrum)

methods = [
    st.Ridge(),
    st.GradientFlow(),
    st.AcceleratedFlow(),
    st.AcceleratedFlow(friction=5),
    st.HeavyBallFlow(damping=0.03),
    st.Nesterov(),
    st.HeavyBall(momentum=0.6),
    st.ConjugateGradient(),
]


def stops_of(method):
    """Return stops from nearly zero coefficients to nearly least squares."""
    if isinstance(method, st.ConjugateGradient):
        return np.arange(11)
    if isinstance(method, st.Iteration):
        return np.unique(np.round(np.geomspace(1, 1000, 200)))
    return np.geomspace(0.03, 1000, 300) ** (2 / method.time_power) / L ** (1 / method.time_power)


began = perf_counter()
paths = [st.path(spectrum, method, stops_of(method)) for method in methods]
count = sum(len(path.stops) for path in paths)
print(f"{count} fits of {len(methods)} methods in {perf_counter() - began:.2f} seconds")

# %%
# Stops of different methods are not comparable, but degrees of freedom are. Plotted against them,
# the paths look similar: early stopping by any of these methods is close to ridge, with
# oscillations if friction is small. Conjugate gradients have few stops.

figure, axes = plots.new_figure(2, 4, figsize=(13, 6), sharex=True, sharey=True)
for ax, path in zip(axes.flat, paths, strict=True):
    ax.plot(path.degrees_of_freedom, path.coef, linewidth=1.1)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    name = plots.LABELS[path.method.name]
    extra = (
        f", friction {path.method.friction:g}"
        if isinstance(path.method, st.AcceleratedFlow)
        else ""
    )
    ax.set_title(name + extra, fontsize="medium")
for ax in axes[-1]:
    ax.set_xlabel("degrees of freedom")
for ax in axes[:, 0]:
    ax.set_ylabel("coefficient")

plt.show()
