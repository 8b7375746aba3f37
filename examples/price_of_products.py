"""
The price of k products
=======================

What k iterations can guarantee against ridge, and the iteration that guarantees it.
"""

# %%
# No method that multiplies k times by the data has a smaller guarantee than the black line; the
# optimal iteration attains it. Conjugate gradients have no guarantee: theirs are the worst ratios
# that were found.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.bounds import hardest_spectrum
from stoptime.methods.conjugate_gradient import conjugate_gradients, ritz_gain
from stoptime.paper.reproduction import Experiment
from stoptime.show import plots

PRODUCTS_CONDITION = 1000.0  # the largest eigenvalue over the best penalty
MOST_PRODUCTS = 60
DESCENT_STEPS = np.linspace(0.2, 1.98, 30)  # of gradient descent, in units of 1/L
COMPARED_ITERATIONS = {  # the method, and the line of its curve
    "Nesterov, friction 3": (st.Nesterov(), "-"),
    "Nesterov, friction 5": (st.Nesterov(friction=5.0), "--"),
    "ν-method, ν = 1": (st.NuMethod(), "-"),
    "ν-method, ν = 2": (st.NuMethod(nu=2.0), "--"),
}
CURVE_STYLES = {  # the method that lends its colour, and the line
    "optimal iteration": ("ridge", "-"),
    **{label: (method.name, line) for label, (method, line) in COMPARED_ITERATIONS.items()},
    "gradient descent, best step": ("gradient-descent", "-"),
    "conjugate gradients, worst found": ("conjugate-gradient", "-"),
    "conjugate gradients for ridge, worst found": ("conjugate-gradient", "--"),
}


def guarantees_by_products(products, condition):
    """Return the risk over the best ridge risk after at most 0, 1, ..., ``products`` products.

    ``condition`` is the largest eigenvalue over the best penalty. "optimal iteration" is the
    bound of ``stoptime.bounds.price_of_products`` in double precision. The iterations have
    their guarantees, at the best stop so far; gradient descent also has the best of 30 steps.
    Conjugate gradients have no guarantee: theirs are the largest ratios on the hardest spectra of
    up to ``products`` products, in the limit of many directions and at the best stop so far. Other
    spectra may be worse.
    """
    angles = (2 * np.arange(products + 1) + 1) * np.arcsinh(1 / np.sqrt(condition))
    found = {"optimal iteration": np.tanh(angles) ** -2.0}
    for label, (method, _) in COMPARED_ITERATIONS.items():
        found[label] = best_guarantees(method, products, condition)
    descents = [
        best_guarantees(st.GradientDescent(c / condition), products, condition)
        for c in DESCENT_STEPS
    ]
    found["gradient descent, best step"] = np.min(descents, axis=0)
    found["conjugate gradients, worst found"] = _worst_found(products, condition, 0.0)
    found["conjugate gradients for ridge, worst found"] = _worst_found(products, condition, 1.0)
    return found


def best_guarantees(method, products, condition):
    """Return the largest Bayes risk over that of the best ridge, at the best stop so far."""
    # √x·(g - φ) is an odd trigonometric polynomial of this degree in the angle with x = R·sin²
    degree = 2 * products + 1
    x = condition * np.sin(np.linspace(0, np.pi / 2, 16 * degree + 1)) ** 2
    k = np.arange(products + 1)
    # zero is among the eigenvalues, so that parameters cannot adapt to the smallest one
    tuned = method.tuned_to([0.0, condition])
    g, gain = tuned.shrinkage(x[:, None], k), tuned.gain(x[:, None], k)
    excess = (x[:, None] * (g - gain) ** 2).max(axis=0)
    # between points of distance h it grows at most by 1/cos(degree·h/2) (Ehlich, Zeller 1964)
    return 1 + np.cos(np.pi / 64) ** -2 * np.minimum.accumulate(excess)


def _worst_found(products, condition, penalty):
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


def drawn():
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


experiment = drawn()

# %%
# In use: the penalty is estimated, and a few products take the place of the ridge solution.

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 300)) * np.geomspace(1, 0.03, 300)
y = X @ rng.standard_normal(300) + 3 * rng.standard_normal(400)
spectrum = st.decompose(X, y)
penalty = st.estimate_oracle(spectrum).penalty
largest = spectrum.eigenvalues[-1]
optimal = st.path(spectrum, st.OptimalIteration(penalty=penalty), [5, 10, 20])
nesterov = st.path(spectrum, st.Nesterov(), [5, 10, 20])
ridge = st.path(spectrum, st.Ridge(), [1 / penalty]).coef[0]
for k, *paths in zip(optimal.stops, optimal.coef, nesterov.coef, strict=True):
    price = st.bounds.price_of_products(int(k), largest_eigenvalue=largest, penalty=penalty)
    ours, theirs = (np.linalg.norm(coef - ridge) / np.linalg.norm(ridge) for coef in paths)
    print(f"{k:.0f} products: at most {price.printed(6)[1]} times the risk of the best ridge")
    print(f"  distance from ridge {ours:.3f}; that of Nesterov's method {theirs:.3f}")

plt.show()
