"""Left-out predictions at new rows: many targets, mixed containers, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

import stoptime as st
from contract import case


@pytest.mark.parametrize("n_rows", [24, 700])
def test_every_target_may_have_its_own_stop(n_rows):
    """Coefficients without each row are kept up to 2^24 numbers: those of 700 rows are not."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, 24))
    y = rng.normal(size=(n_rows, 20 if n_rows == 24 else 1030))
    y = y * np.geomspace(1e-3, 1e3, y.shape[1])
    stops = np.resize([0.0, 0.3, 0.3, 5.0, np.inf], y.shape[1])
    found = st.left_out_predictions(X, y, "nesterov-flow", stops, new=X[:3])
    assert found.shape == (n_rows, 3, y.shape[1])
    for target in range(0, y.shape[1], 1 if n_rows == 24 else 103):
        alone = st.left_out_predictions(X, y[:, target], "nesterov-flow", stops[target], new=X[:3])
        size = np.abs(alone).max()
        np.testing.assert_allclose(found[..., target], alone, rtol=1e-8, atol=1e-10 * size)


@pytest.mark.parametrize("kind", ["tall", "wide", "weights"])
def test_new_rows_may_be_sparse_or_dense(kind):
    data = case(kind)
    expected = st.left_out_predictions(
        data.X, data.y, "nesterov-flow", 3.0, new=data.X[:4], **data.options
    )
    rows = sparse.csr_array(data.X)
    for X, new in [(rows, data.X[:4]), (data.X, rows[:4])]:
        found = st.left_out_predictions(X, data.y, "nesterov-flow", 3.0, new=new, **data.options)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["tall", "wide", "weights"])
def test_tensors_have_the_ends_of_the_path(kind):
    torch = pytest.importorskip("torch")
    data = case(kind)
    X, y = torch.asarray(data.X), torch.asarray(data.y)
    for stop in (0.0, np.inf, 3e4):
        found = st.left_out_predictions(X, y, "nesterov-flow", stop, new=X[:4], **data.options)
        expected = st.left_out_predictions(
            data.X, data.y, "nesterov-flow", stop, new=data.X[:4], **data.options
        )
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8)


def test_refusals_and_single_precision():
    data = case("tall")
    single = data.X.astype(np.float32), data.y.astype(np.float32)
    assert st.left_out_predictions(*single, "ridge", 3.0, new=data.X[:4]).dtype == np.float32
    with pytest.raises(ValueError, match="new has 2 features, but X has 5"):
        st.left_out_predictions(data.X, data.y, "ridge", 1.0, new=data.X[:, :2])
    with pytest.raises(ValueError, match="one number or one per target"):
        st.left_out_predictions(data.X, data.y, "ridge", [1.0, 2.0], new=data.X)
