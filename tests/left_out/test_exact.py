"""The functions of leave-one-out: what they refuse, progress, and the unit of the response."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import stoptime as st
from contract import case

DATA = case("tall", 3)


def test_a_spectrum_of_other_data_is_refused():
    X, y = DATA.X, DATA.y
    with pytest.raises(ValueError, match="other data"):
        st.leave_one_out(X[1:], y[1:], "nesterov-flow", [2.0], spectrum=st.decompose(X, y))
    without = st.decompose(X, y, fit_intercept=False)
    with pytest.raises(ValueError, match="fit_intercept"):
        st.leave_one_out(X, y, "ridge", [2.0], spectrum=without)


@pytest.mark.parametrize(
    ("stops", "options", "message"),
    [
        ([1.0], {"sample_weight": np.eye(len(DATA.X))[0]}, "two rows"),
        ([-1.0], {}, "non-negative"),
        ([[1.0]], {}, "one number or a list"),
    ],
)
def test_bad_input_is_refused(stops, options, message):
    with pytest.raises(ValueError, match=message):
        st.leave_one_out(DATA.X, DATA.y, "ridge", stops, **options)


def test_one_row_and_stops_that_match_no_target_are_refused():
    with pytest.raises(ValueError, match="two rows"):
        st.leave_one_out(DATA.X[:1], DATA.y[:1], "ridge", [1.0])
    with pytest.raises(ValueError, match="one per target"):
        st.left_out_residuals(DATA.X, DATA.y, "ridge", [1.0, 2.0])
    assert st.leave_one_out(DATA.X, DATA.y, "ridge", []).errors.shape == (0, 3)


def test_columns_of_sparse_data_that_are_too_many_are_refused():
    many = csr_array((np.ones(5001), (range(5001), range(5001))))
    with pytest.raises(ValueError, match="needs every eigenvalue"):
        st.leave_one_out(many, np.arange(5001.0), "nesterov-flow", [2.0])


@pytest.mark.usefixtures("bars")
def test_verbosity_changes_no_number(capsys):
    quiet = st.leave_one_out(DATA.X, DATA.y, "nesterov-flow", [1.0]).errors
    assert capsys.readouterr().err == ""
    loud = st.leave_one_out(DATA.X, DATA.y, "nesterov-flow", [1.0], verbose=True).errors
    np.testing.assert_array_equal(loud, quiet)
    assert "leave-one-out: 100%" in capsys.readouterr().err


def test_the_unit_of_the_response_does_not_matter():
    expected = st.leave_one_out(DATA.X, DATA.y, "nesterov-flow", [2.0])
    for scale in (1e-90, 1e90):
        found = st.leave_one_out(DATA.X, scale * DATA.y, "nesterov-flow", [2.0])
        np.testing.assert_allclose(found.errors / scale**2, expected.errors)
        np.testing.assert_allclose(found.standard_errors / scale**2, expected.standard_errors)


@pytest.mark.parametrize("scale", [1e-30, 1e12, 1e30])
def test_numbers_of_components_do_not_depend_on_the_unit_of_the_features(rng, scale):
    X = rng.standard_normal((12, 4))
    y = X @ np.arange(4.0) + rng.standard_normal(12)
    stops = [0.0, 1.0, 2.0, 3.0, 4.0]
    expected = st.leave_one_out(X, y, st.SpectralCutoff(), stops).errors
    found = st.leave_one_out(scale * X, y, st.SpectralCutoff(), stops).errors
    np.testing.assert_allclose(found, expected, rtol=1e-9)
