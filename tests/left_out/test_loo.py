"""Leave-one-out of every method: options, extreme stops and units, and what is refused."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from left_out.cases import METHODS, problem
from stoptime import decompose, leave_one_out, left_out_residuals
from stoptime.left_out import residuals as left_out
from stoptime.spectrum import krylov


def test_a_spectrum_of_other_data_is_refused():
    X, y, _ = problem("tall")
    with pytest.raises(ValueError, match="other data"):
        leave_one_out(X[1:], y[1:], "nesterov-flow", [2.0], spectrum=decompose(X, y))
    with pytest.raises(ValueError, match="fit_intercept"):
        leave_one_out(X, y, "ridge", [2.0], spectrum=decompose(X, y, fit_intercept=False))


def test_bad_input_is_refused():
    X, y, _ = problem("targets")
    with pytest.raises(ValueError, match="two rows"):
        leave_one_out(X[:1], y[:1], "ridge", [1.0])
    with pytest.raises(ValueError, match="two rows"):
        leave_one_out(X, y, "ridge", [1.0], sample_weight=np.eye(len(X))[0])
    with pytest.raises(ValueError, match="non-negative"):
        leave_one_out(X, y, "ridge", [-1.0])
    with pytest.raises(ValueError, match="one number or a list"):
        leave_one_out(X, y, "ridge", [[1.0]])
    with pytest.raises(ValueError, match="one per target"):
        left_out_residuals(X, y, "ridge", [1.0, 2.0])
    assert leave_one_out(X, y, "ridge", []).errors.shape == (0, 3)


def test_verbosity_changes_no_number(capsys, monkeypatch):
    monkeypatch.setattr("stoptime.support.progress.PATIENCE", 0.0)
    X, y, _ = problem("tall")
    quiet = leave_one_out(X, y, "nesterov-flow", [1.0]).errors
    assert capsys.readouterr().err == ""
    loud = leave_one_out(X, y, "nesterov-flow", [1.0], verbose=True).errors
    np.testing.assert_array_equal(loud, quiet)
    assert "leave-one-out: 100%" in capsys.readouterr().err


def test_scale_of_the_response_does_not_matter():
    X, y, _ = problem("tall")
    expected = leave_one_out(X, y, "nesterov-flow", [2.0])
    for scale in (1e-90, 1e90):
        found = leave_one_out(X, scale * y, "nesterov-flow", [2.0])
        np.testing.assert_allclose(found.errors / scale**2, expected.errors)
        np.testing.assert_allclose(found.standard_errors / scale**2, expected.standard_errors)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", ["tall", "wide", "leverage one"])
def test_scale_of_the_design_is_a_scale_of_time(kind, method):
    X, y, _ = problem(kind)
    stops = np.array([0.0, 0.1, 3.0, 50.0, 1e5, np.inf])
    expected = leave_one_out(X, y, method, stops).errors
    for scale in (2.0**-300, 2.0**300):
        scaled = method.in_units_of(scale**-2)
        found = leave_one_out(scale * X, y, scaled, stops / scale ** (3 - method.time_power)).errors
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_extreme_stops(method):
    X, y, _ = problem("tall")
    errors = leave_one_out(X, y, method, [0, 1e-300, 1e-160, 1e150, 1e300, np.inf]).errors
    np.testing.assert_allclose(errors[:3], errors[0])
    np.testing.assert_allclose(errors[3:], errors[-1], rtol=1e-8)


def test_targets_a_block_at_a_time(rng, monkeypatch):
    X = rng.standard_normal((60, 12))
    y = X @ rng.standard_normal((12, 40)) + rng.standard_normal((60, 40))
    stops = np.geomspace(0.1, 30, 50)
    whole = leave_one_out(X, y, "nesterov-flow", stops)
    monkeypatch.setattr(left_out, "TARGETS_AT_ONCE", 17)
    blocks = leave_one_out(X, y, "nesterov-flow", stops)
    np.testing.assert_allclose(blocks.errors, whole.errors, rtol=1e-10)
    np.testing.assert_allclose(blocks.standard_errors, whole.standard_errors, rtol=1e-8)


def test_a_sparse_design_is_factored_up_to_a_size(monkeypatch):
    X, y, _ = problem("tall")
    expected = leave_one_out(X, y, "nesterov-flow", [2.0]).errors
    monkeypatch.setattr(krylov, "LARGEST", X.shape[1])
    np.testing.assert_allclose(
        leave_one_out(csr_array(X), y, "nesterov-flow", [2.0]).errors, expected
    )
    monkeypatch.setattr(krylov, "LARGEST", X.shape[1] - 1)
    with pytest.raises(ValueError, match="needs every eigenvalue"):
        leave_one_out(csr_array(X), y, "nesterov-flow", [2.0])
