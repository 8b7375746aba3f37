"""Arrays of CuPy take the same route as those of NumPy, and stay on their device."""

import numpy as np
import pytest

import stoptime as st

cupy = pytest.importorskip("cupy", reason="arrays of CuPy need the package cupy and a GPU")
pytestmark = pytest.mark.skipif(
    not cupy.cuda.is_available(), reason="arrays of CuPy need a CUDA device"
)


@pytest.fixture(params=[(200, 20), (30, 80)], ids=str)
def arrays(request, rng):
    X = rng.standard_normal(request.param) + 1
    return X, X[:, 0] - X[:, 1] + rng.standard_normal(len(X))


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow", "nesterov"])
def test_paths_equal_those_of_numpy(arrays, method):
    X, y = arrays
    there = st.path(cupy.asarray(X), cupy.asarray(y), method, [1, 5, 20])
    here = st.path(X, y, method, [1, 5, 20])
    assert isinstance(there.coef, cupy.ndarray)
    np.testing.assert_allclose(there.coef.get(), here.coef, atol=1e-9)
    np.testing.assert_allclose(there.predict(cupy.asarray(X)).get(), here.predict(X), atol=1e-8)


def test_the_chosen_stop_and_its_errors_equal_those_of_numpy(arrays):
    X, y = arrays
    there = st.StoppedRegressorCV("nesterov-flow", stops=30).fit(cupy.asarray(X), cupy.asarray(y))
    here = st.StoppedRegressorCV("nesterov-flow", stops=30).fit(X, y)
    np.testing.assert_allclose(there.errors_, here.errors_, rtol=1e-7)
    np.testing.assert_allclose(there.stop_, here.stop_, rtol=1e-4)
    assert isinstance(there.predict(cupy.asarray(X)), cupy.ndarray)
