"""A figure beyond the paper: the price of k products, and how far methods are from it."""

from __future__ import annotations

import numpy as np

from stoptime.bounds.products import best_guarantees, hardest_spectrum
from stoptime.methods.conjugate_gradient import conjugate_gradients, ritz_gain
from stoptime.methods.iterations import GradientDescent, Nesterov, NuMethod
from stoptime.paper.experiment import Experiment
from stoptime.show import plots
from stoptime.support.arrays import Array

PRODUCTS_CONDITION = 1000.0  # the largest eigenvalue over the best penalty
MOST_PRODUCTS = 60
DESCENT_STEPS = np.linspace(0.2, 1.98, 30)  # of gradient descent, in units of 1/L
COMPARED_ITERATIONS = {  # the method, and the line of its curve
    "Nesterov, friction 3": (Nesterov(), "-"),
    "Nesterov, friction 5": (Nesterov(friction=5.0), "--"),
    "ν-method, ν = 1": (NuMethod(), "-"),
    "ν-method, ν = 2": (NuMethod(nu=2.0), "--"),
}
CURVE_STYLES = {  # the method that lends its colour, and the line
    "optimal iteration": ("ridge", "-"),
    **{label: (method.name, line) for label, (method, line) in COMPARED_ITERATIONS.items()},
    "gradient descent, best step": ("gradient-descent", "-"),
    "conjugate gradients, worst found": ("conjugate-gradient", "-"),
    "conjugate gradients for ridge, worst found": ("conjugate-gradient", "--"),
}


def guarantees_by_products(products: int, condition: float) -> dict[str, Array]:
    """Return the risk over the best ridge risk after at most 0, 1, ..., ``products`` products.

    ``condition`` is the largest eigenvalue over the best penalty. "optimal iteration" is the
    bound of :func:`stoptime.bounds.price_of_products` in double precision. The iterations have
    their guarantees, at the best stop so far; gradient descent also has the best of 30 steps.
    Conjugate gradients have no guarantee: theirs are the largest ratios on the hardest spectra of
    up to ``products`` products, in the limit of many directions and at the best stop so far. Other
    spectra may be worse.
    """
    known = {"largest_eigenvalue": condition, "penalty": 1.0}
    angles = (2 * np.arange(products + 1) + 1) * np.arcsinh(1 / np.sqrt(condition))
    found = {"optimal iteration": np.tanh(angles) ** -2.0}
    for label, (method, _) in COMPARED_ITERATIONS.items():
        found[label] = best_guarantees(method, products, **known)
    descents = [
        best_guarantees(GradientDescent(c / condition), products, **known) for c in DESCENT_STEPS
    ]
    found["gradient descent, best step"] = np.min(descents, axis=0)
    found["conjugate gradients, worst found"] = _worst_found(products, condition, 0.0)
    found["conjugate gradients for ridge, worst found"] = _worst_found(products, condition, 1.0)
    return found


def _worst_found(products: int, condition: float, penalty: float) -> Array:
    """Return the largest ratios of conjugate gradients on XᵀX/n plus a penalty."""
    worst = np.ones(products + 1)
    for k in range(products + 1):
        # all eigenvalues appear twice, except the largest one
        x = hardest_spectrum(k, largest_eigenvalue=condition)[::2]
        counts = np.append(np.full(k, 2.0), 1.0)
        # the mean squares of the response: with many directions, each is close to its mean
        response = np.sqrt(counts * x * (1 + x))
        run = conjugate_gradients(x + penalty, response, np.arange(products + 1))
        gains = np.array([ritz_gain(values, x + penalty) for values in run.ritz])
        ridge = counts / (1 + x)
        excess = (x * (1 - (1 + x) * gains) ** 2) @ (ridge / ridge.sum())
        worst = np.maximum(worst, 1 + np.minimum.accumulate(excess))
    return worst


def price_of_products() -> Experiment:
    """Draw the excess risk over the best ridge after k products, and the least possible one."""
    found = guarantees_by_products(MOST_PRODUCTS, PRODUCTS_CONDITION)
    k = np.arange(1, MOST_PRODUCTS + 1)
    figure, ax = plots.new_figure(figsize=(7.5, 4.8))
    for label, (name, line) in CURVE_STYLES.items():
        color = plots.COLORS[name]
        ax.semilogy(k, found[label][1:] - 1, line, color=color, linewidth=1.4, label=label)
    lowest = found["optimal iteration"][1:] - 1
    ax.fill_between(k, lowest, lowest[-1], color="0.9", zorder=0, label="not possible")
    ax.set(xlabel="products k", ylabel="excess risk over the best ridge, at most")
    ax.set_title(f"The price of k products, largest eigenvalue {PRODUCTS_CONDITION:g} λ*")
    # room for the legend above the curves
    ax.set(xlim=(1, MOST_PRODUCTS), ylim=(lowest[-1], 50 * lowest[0]))
    ax.legend(fontsize="small", ncols=2, loc="upper right")
    rows = [
        (label, number, ratio)
        for label, ratios in found.items()
        for number, ratio in enumerate(ratios.tolist())
    ]
    caption = "Risk over the best ridge risk after k products: the least possible, and of methods."
    return Experiment("price_of_products", figure, ("curve", "products", "ratio"), rows, caption)
