"""Draw the picture of the README for light and dark pages: a path and exact risks."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import stoptime as st
from stoptime.support import plots

X, y = load_diabetes(return_X_y=True)
model = st.StoppedRegressor("nesterov-flow").fit(X, y)
spectrum = st.decompose(X, y)

figure, (left, right) = plots.new_figure(1, 2, figsize=(10, 3.8))

st.path(spectrum, "nesterov-flow", np.geomspace(3, 1500, 400)).plot(ax=left)
left.axvline(model.stop_, color="0.2", linestyle="--", linewidth=1)
at = (model.stop_, 0.02)
left.annotate(f"stop = {model.stop_:.0f}", at, (4, 0), ("data", "axes fraction"), "offset points")
left.set_xlabel("stop (time t of accelerated flow)")
left.set_title("Diabetes data: one factorisation, every stop")

inverse_penalty = np.geomspace(1e2, 1e7, 900)
oracle = model.oracle_
for name in ("ridge", "gradient-flow", "nesterov-flow", "heavy-ball-flow"):
    cls = st.METHODS[name]
    curve = st.bayes_risk(
        name,
        inverse_penalty ** (1 / cls.order),
        eigenvalues=spectrum.padded_eigenvalues,
        signal=oracle.signal,
        noise=oracle.noise,
        n_samples=len(y),
    )
    color = plots.COLORS[name]
    label = plots.LABELS[name]
    right.plot(
        inverse_penalty, curve.total / oracle.signal, color=color, linewidth=1.6, label=label
    )
    right.plot(curve.best**cls.order, curve.best_total / oracle.signal, "o", color=color)
right.set(xscale="log", xlabel="stop, as 1/λ  (t or t²)", ylabel="risk / ‖β₀‖²", ylim=(0, 1.05))
right.set_title("Exact risk: four methods, dots where to stop")
right.legend(loc="upper right")

folder = Path(__file__).parent.parent / "docs" / "_static"
figure.savefig(folder / "readme.png", dpi=110)
plots.darken(figure)
figure.savefig(folder / "readme-dark.png", dpi=110)
print("wrote readme.png and readme-dark.png")
