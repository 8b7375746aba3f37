"""Rules and methods refuse what a Krylov space does not know or does not reach."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

import stoptime as st

SIZE = 400
SCALES = 1 / np.arange(1, SIZE + 1)


@pytest.fixture
def operator():
    return LinearOperator(
        (SIZE, SIZE),
        matvec=lambda v: SCALES * v.ravel(),
        rmatvec=lambda v: SCALES * v.ravel(),
        dtype=float,
    )


@pytest.fixture
def response(rng):
    return SCALES * rng.standard_normal(SIZE)


@pytest.mark.parametrize("method", [st.HeavyBallFlow(), st.HeavyBall(), st.HighResolutionFlow()])
def test_a_smallest_eigenvalue_that_is_not_known_is_not_called_zero(operator, response, method):
    with pytest.raises(
        ValueError, match=r"unknown as for sparse matrices and operators: .* for example"
    ):
        st.path(operator, response, method, [3])


@pytest.mark.parametrize("method", [st.HeavyBallFlow(), st.HeavyBall()])
def test_a_smallest_eigenvalue_that_is_known_is_told(method):
    with pytest.raises(ValueError, match=r"it is 0, a singular spectrum"):
        method.tuned_to([0.0, 1.0])


def test_one_standard_error_of_random_probes_is_refused(operator, response):
    model = st.StoppedRegressorCV(rule=st.OneStandardError("path-gcv"))
    with pytest.raises(
        ValueError, match=r"PathGCV\(\) has no standard error .*: use CrossValidation"
    ):
        model.fit(operator, response)


@pytest.mark.parametrize(("phase", "reached"), [(600, True), (2500, False), (5000, False)])
def test_discrepancy_ends_where_the_last_extension_does(operator, response, phase, reached):
    spectrum = st.decompose(np.diag(SCALES), response, fit_intercept=False)
    time = phase / np.sqrt(spectrum.eigenvalues[-1])
    noise = float(st.training_error(spectrum, "nesterov-flow", time)[0])
    model = st.StoppedRegressorCV(rule=st.Discrepancy(noise=noise), fit_intercept=False)
    if reached:
        assert model.fit(operator, response).stop_ == pytest.approx(time, rel=1e-6)
        return
    with pytest.warns(st.StopWarning, match="never falls to the noise"):
        model.fit(operator, response)
    assert model.stop_ == model.stops_[-1] < time
