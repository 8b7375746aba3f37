"""Nested cross-validation error of least squares, RidgeCV and the stopped methods.

    python -m benchmarks.datasets

The data are those of scikit-learn, as they are and with expanded columns (ill-conditioned), and
classical ill-posed problems. Every method chooses its own stop (RidgeCV its penalty) inside each
outer fold. The table is printed and written to docs/datasets.md. This takes a few minutes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import RepeatedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

import stoptime as st

Data = tuple[np.ndarray, np.ndarray]

STOPS = 100
PENALTIES = np.geomspace(1e-10, 1e4, STOPS)
POWERS = {degree: PolynomialFeatures(degree, include_bias=False) for degree in (2, 3)}


def expanded(load: Callable[..., Data], *steps: BaseEstimator) -> Callable[[], Data]:
    """Return a loader of a data set with a fixed expansion of its columns."""

    def loaded() -> Data:
        X, y = load(return_X_y=True)
        expansion = make_pipeline(StandardScaler(), *steps, "passthrough")
        return expansion.fit_transform(X), y.astype(float)

    return loaded


def integral_equation(kernel: str) -> Callable[[], Data]:
    """Return a discretised integral equation of the first kind with 1 % noise."""

    def loaded() -> Data:
        n = 120
        x = (np.arange(n) + 0.5) / n
        s, t = np.meshgrid(x, x, indexing="ij")
        if kernel == "blur":
            A = np.exp(-(((s - t) / 0.06) ** 2)) / n
        elif kernel == "gravity":
            A = 0.25 / (0.25**2 + (s - t) ** 2) ** 1.5 / n
        else:  # second derivative: Green's function
            A = np.where(s < t, s * (t - 1), t * (s - 1)) / n
        truth = np.sin(np.pi * x) + 0.5 * np.sin(2 * np.pi * x)
        clean = A @ truth
        rng = np.random.default_rng(0)
        return A * 100, clean + 0.01 * np.std(clean) * rng.standard_normal(n)

    return loaded


DATA: dict[str, Callable[[], Data]] = {
    "diabetes": expanded(load_diabetes),
    "diabetes, quadratic": expanded(load_diabetes, POWERS[2], StandardScaler()),
    "diabetes, cubic": expanded(load_diabetes, POWERS[3], StandardScaler()),
    "diabetes, splines": expanded(load_diabetes, SplineTransformer(8)),
    "breast cancer": expanded(load_breast_cancer),
    "breast cancer, splines": expanded(load_breast_cancer, SplineTransformer(6)),
    "digits": expanded(load_digits),
    "blur": integral_equation("blur"),
    "gravity": integral_equation("gravity"),
    "second derivative": integral_equation("derivative"),
}

MODELS: dict[str, BaseEstimator] = {
    "least squares": LinearRegression(),
    "RidgeCV": RidgeCV(PENALTIES),
    "ridge": st.StoppedRegressorCV("ridge", stops=STOPS),
    "gradient flow": st.StoppedRegressorCV("gradient-flow", stops=STOPS),
    "Nesterov flow": st.StoppedRegressorCV("nesterov-flow", stops=STOPS),
    "friction 5": st.StoppedRegressorCV(st.AcceleratedFlow(5), stops=STOPS),
    "heavy ball": st.StoppedRegressorCV(st.HeavyBallFlow(0.1), stops=STOPS),
}


def table() -> list[str]:
    """Return a Markdown table of root mean squared errors, the smallest of each row in bold."""
    lines = ["| data | n × p | " + " | ".join(MODELS) + " |", "|---" * (len(MODELS) + 2) + "|"]
    for name, load in DATA.items():
        X, y = load()
        begin = time.perf_counter()
        errors = []
        for model in MODELS.values():
            cv = RepeatedKFold(n_splits=5, n_repeats=2, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = cross_val_score(model, X, y, cv=cv, scoring="neg_mean_squared_error")
            errors.append(np.sqrt(-scores.mean()))
        least = min(errors)
        cells = [f"**{e:.4g}**" if e <= least * 1.0005 else f"{e:.4g}" for e in errors]
        lines.append(f"| {name} | {X.shape[0]} × {X.shape[1]} | " + " | ".join(cells) + " |")
        print(f"{lines[-1]}   ({time.perf_counter() - begin:.0f} s)", flush=True)
    return lines


def main() -> None:
    """Print the table and write it into the documentation."""
    lines = table()
    page = Path(__file__).parent.parent / "docs" / "datasets.md"
    head, marker, _ = page.read_text(encoding="utf-8").partition("<!-- table -->\n")
    page.write_text(head + marker + "\n".join(lines) + "\n", encoding="utf-8")
    print("wrote docs/datasets.md")


if __name__ == "__main__":
    main()
