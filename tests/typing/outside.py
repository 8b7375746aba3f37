"""What users with strict types write: ``make lint`` checks it against the package."""

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import stoptime as st
from stoptime import bounds, tables
from stoptime.show import explorer

X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 1.0]])
y = np.array([1.0, 2.0, 3.0, 4.0])


def results_have_types() -> None:
    spectrum = st.decompose(X, y)
    assert_type(spectrum, st.Spectrum)
    assert_type(st.path(spectrum, "nesterov-flow", [1.0, 10.0]), st.Path)
    assert_type(st.path(X, y, "nesterov-flow", [1.0, 10.0]), st.Path)
    assert_type(st.AcceleratedFlow(friction=5.0).shrinkage(1.0, [1.0, 2.0]), NDArray[np.float64])
    assert_type(st.get_method("ridge"), st.Method)
    curve = st.risk(st.Ridge(), [1.0, 2.0], eigenvalues=[1.0], signal=[1.0], noise=1.0, n_samples=9)
    assert_type(curve, st.RiskCurve)
    assert_type(curve.bias, NDArray[np.float64])
    assert_type(st.calibrate("gradient-flow").inflation, float)
    assert_type(st.plan(0.1, method="nesterov", lr=0.1), st.Plan)
    assert_type(st.StoppedRegressorCV("ridge").fit(X, y), st.StoppedRegressorCV)
    assert_type(bounds.risk_inflation("gradient-flow"), bounds.Enclosure)
    assert_type(explorer.write("explorer.html"), Path)
    assert_type(tables.read_table("diabetes"), tables.Table)


def mistakes_are_seen() -> None:
    # strict mypy complains about an ignored error that is none
    st.calibrate(3)  # type: ignore[arg-type]
    st.path(X, y)  # type: ignore[call-overload]
    st.AcceleratedFlow(fricton=5.0)  # type: ignore[call-arg]
