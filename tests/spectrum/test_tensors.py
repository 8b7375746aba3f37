"""Torch tensors give what arrays give, on their own device and in their own precision."""

import pickle
import warnings

import numpy as np
import pytest

import stoptime as st

torch = pytest.importorskip("torch", reason="tensors are wanted: pip install torch")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ),
]
pytestmark = pytest.mark.parametrize("device", DEVICES)


def problem(rng, shape=(60, 8), targets=None):
    X = rng.standard_normal(shape) * np.geomspace(0.3, 1, shape[1]) + 2
    y = X @ rng.standard_normal(shape[1] if targets is None else (shape[1], targets))
    return X, y + rng.standard_normal(y.shape)


def tensors(device, *arrays, dtype=None):
    return [torch.as_tensor(a, device=device, dtype=dtype or torch.float64) for a in arrays]


def test_data_are_left_alone_and_carry_no_gradient(rng, device):
    X, y = tensors(device, *problem(rng))
    X.requires_grad_()
    before = X.detach().clone()
    model = st.StoppedRegressorCV(stops=20).fit(X, y)
    assert torch.equal(X, before)
    assert not model.coef_.requires_grad
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X[:, 0], y), r"X must be an array of shape \(n, p\)"),
        (lambda X, y: (X[:0], y[:0]), "not empty"),
        (lambda X, y: (X.half(), y), "float32, float64 or integer"),
        (lambda X, y: (X * 1e200, y), "overflow"),
    ],
)
def test_bad_tensors_are_refused_with_advice(rng, device, spoil, message):
    X, y = spoil(*tensors(device, *problem(rng)))
    with pytest.raises(ValueError, match=message):
        st.decompose(X, y)


def test_a_response_in_double_precision_is_centred_first(device):
    X = torch.randn(500, 4, device=device)
    y = X.double() @ torch.arange(1.0, 5.0, device=device).double()
    coef = st.StoppedRegressor(stop=np.inf).fit(X, y + 1.7e9).coef_
    assert coef.dtype == torch.float32
    np.testing.assert_allclose(coef.cpu().numpy(), [1, 2, 3, 4], rtol=1e-4)


def test_a_stop_for_each_target_of_conjugate_gradients_causes_no_warning_of_torch(device, rng):
    X, y = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
    model = st.StoppedRegressorCV("conjugate-gradient", cv=2, per_target=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.set_warn_always(True)  # it warns once in a process otherwise
        try:
            model.fit(torch.tensor(X, device=device), torch.tensor(y, device=device))
        finally:
            torch.set_warn_always(False)
    assert model.stop_.shape == (2,)
