"""Write fitted models in one environment and read them in another: pickles and JSON model files.

Run ``python tools/exchange.py write FOLDER`` and then, with another Python or other releases of
NumPy, SciPy and scikit-learn, ``python tools/exchange.py read FOLDER``. ``make test-matrix`` does
this for all pairs of environments.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st

ROUNDING = 1e-12  # of predictions by another BLAS; stored numbers agree to the last bit
ROWS, COLUMNS = 40, 5


def estimators() -> dict[str, Any]:
    """Return estimators by name; together they have every kind of fitted attribute."""
    return {
        "stopped": st.StoppedRegressor(),
        "infinite": st.StoppedRegressor("gradient-flow", np.inf, fit_intercept=False),
        "leave-one-out": st.StoppedRegressorCV(["ridge", "nesterov-flow"], 30),
        "folds": st.StoppedRegressorCV(
            "nesterov", [1, 5, 20], KFold(4, shuffle=True, random_state=0)
        ),
        "one-standard-error": st.StoppedRegressorCV(
            st.HeavyBallFlow(0.5), 20, rule="one-standard-error"
        ),
        "discrepancy": st.StoppedRegressorCV("gradient-descent", rule=st.Discrepancy(noise=0.1)),
        "each-target": st.StoppedRegressorCV("nu-method", 20, per_target=True),
        "kernel": st.StoppedKernelRegressor("ridge", 10.0, kernel="poly", degree=2),
        "kernel-leave-one-out": st.StoppedKernelRegressorCV(stops=20),
        "pipeline": make_pipeline(
            StandardScaler(), st.StoppedRegressorCV("heavy-ball", 20, rule="sure")
        ),
    }


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the data of an estimator; their bits do not depend on any library."""
    grid = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    X = (grid * 37 % 101 - 50) / 64
    y = X[:, 0] - 2 * X[:, 1] + (np.arange(ROWS) * 53 % 29 - 14) / 128
    if name == "stopped":
        return X.astype(np.float32), y.astype(np.float32)
    return X, np.column_stack([y, y[::-1]]) if name == "each-target" else y


def write(folder: Path) -> None:
    """Write every model, its predictions and its coefficients."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, estimator in estimators().items():
        X, y = data(name)
        model = estimator.fit(X, y)
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(model))
        np.save(folder / f"{name}.npy", model.predict(X))
        if hasattr(model, "coef_"):
            st.save(model, folder / f"{name}.json")
            np.savez(
                folder / f"{name}.npz",
                coef=model.coef_,
                intercept=model.intercept_,
                stop=model.stop_,
            )


def read(folder: Path) -> None:
    """Fail if a model predicts something else than where it was fitted, or gives a new warning."""
    for name in estimators():
        X, _ = data(name)
        right = np.load(folder / f"{name}.npy")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # scikit-learn warns about its own parts of the pipeline.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            model = pickle.loads((folder / f"{name}.pickle").read_bytes())  # noqa: S301 - our own
            same(f"predictions of the pickled {name}", model.predict(X), right)
            repr(model)
        if (folder / f"{name}.json").exists():
            check_file(folder, name, model)


def check_file(folder: Path, name: str, pickled: Any) -> None:
    """Compare a model file and its pickle bit by bit with the fitted model."""
    file, fitted = folder / f"{name}.json", np.load(folder / f"{name}.npz")
    loaded = st.load(file)
    for key in ("coef", "intercept"):
        equal(f"{key} of {name}", getattr(pickled, f"{key}_"), fitted[key])
        # a file holds numbers in double precision, whatever they were fitted in
        equal(
            f"{key} in the file of {name}", getattr(loaded, f"{key}_"), fitted[key] * np.float64(1)
        )
    for found in (loaded.stop_, pickled.stop_):
        equal(f"stop of {name}", found, fitted["stop"])
    again = file.with_suffix(".again")
    st.save(loaded, again)
    if json.loads(again.read_bytes()) != json.loads(file.read_bytes()):
        sys.exit(f"{file} changes if it is loaded and saved again")
    again.unlink()


def equal(what: str, found: Any, right: np.ndarray) -> None:
    """Fail if two arrays differ in any bit."""
    values = np.asarray(found)
    if (
        values.dtype != right.dtype
        or values.shape != right.shape
        or values.tobytes() != right.tobytes()
    ):
        sys.exit(f"{what}: {values} instead of {right}")


def same(what: str, found: np.ndarray, right: np.ndarray) -> None:
    """Fail if two arrays differ by more than rounding errors."""
    rounding = ROUNDING if right.dtype == np.float64 else 1e-5
    if found.dtype != right.dtype or not np.allclose(found, right, rtol=rounding, atol=rounding):
        sys.exit(f"{what}: off by {np.abs(found - right).max()}")


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
