"""Draw the picture of the README, light and dark: kernels on tables, and risks against ridge."""

import json
from pathlib import Path

import numpy as np

import stoptime as st
from stoptime.show import plots

ROOT = Path(__file__).parent.parent
METHODS = (*st.FAMILY, st.AcceleratedFlow())
figure, (left, right) = plots.new_figure(1, 2, figsize=(10, 3.8))

# left: the study of kernels, tables of numbers with at most 3000 rows, from the best to the worst
study = json.loads((ROOT / "benchmarks/results/kernel_study.json").read_text(encoding="utf-8"))
models = {"stoptime": ("#D55E00", "o"), "RidgeCV": ("#0072B2", "|")}
ratios = {name: [] for name in models}
for table in study.values():
    if table["classes"] or table["rows"] > 3000:
        continue
    errors = {
        name: np.mean(np.concatenate([one["errors"] for one in found.values()]))
        for name, found in table["models"].items()
    }
    for name, own in ratios.items():
        own.append(np.sqrt(errors[name] / errors["gradient boosting"]))  # of mean squares
order = np.argsort(ratios["stoptime"])
for name, (color, marker) in models.items():
    label = "kernels that tune themselves" if name == "stoptime" else name
    heights = np.clip(np.array(ratios[name])[order], None, 1.6)
    left.plot(heights, marker, color=color, markersize=6, label=label)
left.axhline(1, color="0.2", linewidth=1)
left.annotate("gradient boosting", (0, 1), (0, 4), textcoords="offset points", fontsize=8)
left.set(ylim=(0, 1.65), xlabel="real tables", ylabel="error / error of gradient boosting")
left.set_title(f"{len(order)} tables, default calls")
left.legend(loc="lower right", fontsize=8)

# right: the exact risk of each method at its best stop, relative to the best ridge
decays = np.linspace(0, 3, 16)
problem = {"eigenvalues": 1 / np.arange(1, 151.0), "noise": 0.25, "n_samples": 300}
for method in METHODS:
    inflations = [
        st.inflation(
            method, signal=np.arange(1, 151.0) ** (-decay / 2), target="prediction", **problem
        ).ratio
        for decay in decays
    ]
    color = plots.COLORS[method.name]
    right.plot(decays, inflations, color=color, linewidth=1.6, label=plots.LABELS[method.name])
right.set(ylim=(0, 1.25), ylabel="risk / risk of the best ridge")
right.set_xlabel("b: squared coefficients are i⁻ᵇ along direction i")
right.set_title("Exact risk as the signal leans to leading directions")
right.legend(loc="lower left", fontsize=8)

folder = ROOT / "docs" / "_static"
figure.savefig(folder / "readme.png", dpi=110)
plots.darken(figure)
figure.savefig(folder / "readme-dark.png", dpi=110)
print("wrote readme.png and readme-dark.png")
