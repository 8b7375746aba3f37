"""Compare true error, exact leave-one-out, path GCV and naive GCV along paths.

    python -m benchmarks.gcv

The data are Gaussian with n = 1000 rows and p = 200 or 1200 columns and a fixed seed. The true
error is computed exactly from the coefficients. The figure is written to docs/_static/gcv.png and
gcv-dark.png, and its numbers are printed.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

import stoptime as st
from stoptime.show import plots

N_SAMPLES = 1000
ASPECTS = (0.2, 1.2)
METHODS = ("gradient-flow", "accelerated-flow")
NOISE = 1.0
SIGNAL = 5.0


def simulate(aspect: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and the true coefficients."""
    rng = np.random.default_rng(seed)
    p = int(aspect * N_SAMPLES)
    X = rng.standard_normal((N_SAMPLES, p))
    beta = rng.standard_normal(p) * np.sqrt(SIGNAL / p)
    return X, X @ beta + np.sqrt(NOISE) * rng.standard_normal(N_SAMPLES), beta


def curves(aspect: float, name: str) -> dict[str, np.ndarray]:
    """Return the stops, the true error and its three estimates."""
    X, y, beta = simulate(aspect)
    spectrum = st.decompose(X, y)
    stops = np.geomspace(0.1, 40 if name == "accelerated-flow" else 400, 80)
    path = st.path(spectrum, name, stops)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that naive GCV is inconsistent
        naive = st.naive_gcv(spectrum, name, stops)
    offset = path.intercept
    return {
        "stop": stops,
        "true error": NOISE + ((path.coef - beta) ** 2).sum(axis=1) + offset**2,
        "exact leave-one-out": st.leave_one_out(X, y, name, stops, spectrum=spectrum).errors,
        "path GCV": st.path_gcv(spectrum, name, stops),
        "naive GCV": naive,
    }


def main() -> None:
    """Draw the figure and print the largest relative errors."""
    figure, axes = plots.new_figure(2, 2, figsize=(9.5, 6.5))
    styles = {
        "true error": ("#000000", "-", 2.2),
        "exact leave-one-out": ("#009E73", "--", 1.8),
        "path GCV": ("#0072B2", ":", 2.2),
        "naive GCV": ("#D55E00", "-.", 1.6),
    }
    print(
        "method, p/n, estimate: value at the last stop; largest relative error; "
        "true error at its minimum\n"
    )
    for row, aspect in zip(axes, ASPECTS, strict=True):
        for ax, name in zip(row, METHODS, strict=True):
            found = curves(aspect, name)
            truth = found["true error"]
            for label, (color, line, width) in styles.items():
                ax.plot(
                    found["stop"], found[label], line, color=color, linewidth=width, label=label
                )
                gap = np.max(np.abs(found[label] / truth - 1))
                chosen = truth[np.argmin(found[label])]
                end = found[label][-1]
                print(f"{name:>14} {aspect:4.1f} {label:>20}: {end:6.2f} {gap:8.1%} {chosen:6.3f}")
            ax.set(
                xscale="log", ylim=(0, 2.2 * truth.max()), xlabel="stop", ylabel="prediction error"
            )
            ax.set_title(f"{plots.LABELS[name]}, p/n = {aspect}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    folder = Path(__file__).parent.parent / "docs" / "_static"
    figure.savefig(folder / "gcv.png", dpi=110)
    plots.darken(figure)
    figure.savefig(folder / "gcv-dark.png", dpi=110)
    print("wrote docs/_static/gcv.png and gcv-dark.png")


if __name__ == "__main__":
    main()
