"""Draw the picture of the README, light and dark: left-out errors, and risks against ridge."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import stoptime as st
from stoptime.show import plots

METHODS = (*st.FAMILY, st.AcceleratedFlow())


def look(method):
    """Return label and colour of a method."""
    return plots.LABELS[method.name], plots.COLORS[method.name]


X, y = load_diabetes(return_X_y=True)
X = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler()).fit_transform(X)
model = st.StoppedRegressorCV().fit(X, y)
figure, (left, right) = plots.new_figure(1, 2, figsize=(10, 3.8))

# left: exact leave-one-out errors, at stops of which each method learns equally much at first
gains = np.geomspace(0.03, 3e3, 300)
for method in METHODS:
    label, color = look(method)
    stops = (gains / method.gain(0.0, 1.0)) ** (1 / method.time_power)
    errors = st.leave_one_out(X, y, method, stops).errors
    left.plot(gains, np.sqrt(errors), color=color, linewidth=1.4, label=label)
best = model.method_.gain(0.0, model.stop_)
left.plot(best, np.sqrt(model.choice_.error), "o", color=look(model.method_)[1])
left.axvline(best, color="0.2", linestyle="--", linewidth=1)
text = f"{look(model.method_)[0]}\nstop {model.stop_:.2f} (1/penalty {best:.1f})"
left.annotate(text, (best, 0.6), (6, 0), ("data", "axes fraction"), "offset points")
left.set(xscale="log", ylim=(55, 63), xlabel="stop, as 1/penalty", ylabel="left-out RMSE")
left.set_title("Exact leave-one-out error of four methods")

# right: the exact risk of each at its best stop, relative to the best ridge
decays = np.linspace(0, 3, 16)
problem = {"eigenvalues": 1 / np.arange(1, 151.0), "noise": 0.25, "n_samples": 300}
for method in METHODS:
    label, color = look(method)
    ratios = [
        st.inflation(method, signal=st.power_signal(decay), target="prediction", **problem).ratio
        for decay in decays
    ]
    right.plot(decays, ratios, color=color, linewidth=1.6, label=label)
right.set(ylim=(0, 1.25), ylabel="risk / risk of the best ridge")
right.set_xlabel("b: squared coefficients are i⁻ᵇ along direction i")
right.set_title("Exact risk as the signal leans to leading directions")
right.legend(loc="lower left", fontsize=8)

folder = Path(__file__).parent.parent / "docs" / "_static"
figure.savefig(folder / "readme.png", dpi=110)
plots.darken(figure)
figure.savefig(folder / "readme-dark.png", dpi=110)
print("wrote readme.png and readme-dark.png")
