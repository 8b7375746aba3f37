"""Left-out predictions at new rows: options, containers, pickles, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import stoptime as st
from left_out.cases import problem, rows_of
from stoptime.left_out import predictions
from stoptime.left_out.predictions import LeftOutFits


def test_rows_themselves_are_predicted_without_them():
    X, y, _ = problem("targets")
    found = st.left_out_predictions(X, y, "nesterov-flow", 3.0)
    residuals = st.left_out_residuals(X, y, "nesterov-flow", 3.0)
    np.testing.assert_allclose(found, y - residuals, rtol=1e-12)
    at_rows = st.left_out_predictions(X, y, "nesterov-flow", 3.0, new=X)
    np.testing.assert_allclose(np.einsum("iiq->iq", at_rows), found, rtol=1e-9, atol=1e-12)
    assert st.left_out_predictions(X, y[:, 0], "ridge", 3.0).shape == (len(X),)


@pytest.mark.parametrize("kind", ["targets", "many targets"])
def test_every_target_may_have_its_own_stop(kind):
    X, y, _ = problem(kind)
    stops = np.resize([0.0, 0.3, 0.3, 5.0, np.inf], y.shape[1])
    found = st.left_out_predictions(X, y, "nesterov-flow", stops, new=X[:3])
    assert found.shape == (len(X), 3, y.shape[1])
    for target, stop in enumerate(stops):
        alone = st.left_out_predictions(X, y[:, target], "nesterov-flow", stop, new=X[:3])
        size = np.abs(alone).max()
        np.testing.assert_allclose(found[..., target], alone, rtol=1e-8, atol=1e-10 * size)


@pytest.mark.parametrize("kind", ["tall", "wide", "weights"])
def test_sparse_rows_and_tensors_give_the_same(kind):
    torch = pytest.importorskip("torch")
    X, y, options = problem(kind)
    expected = st.left_out_predictions(X, y, "nesterov-flow", 3.0, new=X[:4], **options)
    rows = sparse.csr_array(X)
    for data, new in [(rows, rows[:4]), (rows, X[:4]), (X, rows[:4])]:
        found = st.left_out_predictions(data, y, "nesterov-flow", 3.0, new=new, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    tensors = torch.asarray(X), torch.asarray(y)
    for stop in (3.0, 0.0, np.inf, 3e4):
        new = tensors[0][:4]
        found = st.left_out_predictions(*tensors, "nesterov-flow", stop, new=new, **options)
        expected = st.left_out_predictions(X, y, "nesterov-flow", stop, new=X[:4], **options)
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8)


def test_single_precision_stays_single():
    X, y, _ = problem("tall")
    found = st.left_out_predictions(
        X.astype(np.float32), y.astype(np.float32), "nesterov-flow", 3.0, new=X[:4]
    )
    assert found.dtype == np.float32
    expected = st.left_out_predictions(X, y, "nesterov-flow", 3.0, new=X[:4])
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_refusals():
    X, y, _ = problem("tall")
    with pytest.raises(ValueError, match="new has 2 features, but X has 6"):
        st.left_out_predictions(X, y, "ridge", 1.0, new=X[:, :2])
    with pytest.raises(ValueError, match="one number or one per target"):
        st.left_out_predictions(X, y, "ridge", [1.0, 2.0], new=X)


def test_pickles_hold_the_rows_unless_they_are_large(monkeypatch):
    X, y, _ = problem("wide")
    rows = rows_of(X, y, None, st.decompose(X, y))
    fits = LeftOutFits.of(rows, st.Ridge(), np.asarray(1.0), None)
    expected = fits.at(X[:2])
    for again in (pickle.loads(pickle.dumps(fits)), copy.deepcopy(fits)):
        np.testing.assert_array_equal(again.at(X[:2]), expected)
    monkeypatch.setattr(predictions, "MOST_PICKLED", 10)
    with pytest.raises(ValueError, match="pickled without its training rows"):
        pickle.loads(pickle.dumps(fits)).at(X[:2])


def test_coefficients_are_computed_anew_where_they_are_many(monkeypatch):
    X, y, _ = problem("targets")
    expected = st.left_out_predictions(X, y, "nesterov-flow", 3.0, new=X)
    monkeypatch.setattr(predictions, "MOST_KEPT_COEFFICIENTS", 0)
    found = st.left_out_predictions(X, y, "nesterov-flow", 3.0, new=X)
    np.testing.assert_array_equal(found, expected)
