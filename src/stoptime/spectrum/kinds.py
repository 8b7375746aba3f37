"""The kinds of containers, found without importing their packages; checks of arrays and labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.rows import ArrayRows, OperatorRows, Rows, Sample, SlicedRows, SparseRows
from stoptime.spectrum.source import Source
from stoptime.support.arrays import array_namespace, as_dtype, is_device_array, like, on_host

Kind = Literal["dense", "sparse", "operator", "disk", "rows", "stream"]
DTYPES = [np.float64, np.float32]


def kind_of(X: Any) -> Kind:
    """Return the kind of a container; unknown containers count as dense arrays."""
    # the second is a data frame of pandas whose columns are all sparse
    if sparse.issparse(X) or (hasattr(X, "columns") and hasattr(X, "sparse")):
        return "sparse"
    if isinstance(X, Rows):
        return "rows"
    # operators of SciPy, PyLops and others: the protocol of aslinearoperator
    if hasattr(X, "matvec") and hasattr(X, "shape"):
        return "operator"
    if hasattr(X, "__dask_graph__") or isinstance(X, Source | Statistics):
        return "stream"
    package = type(X).__module__.partition(".")[0]
    return "disk" if package in {"zarr", "h5py"} else "dense"


def array_options(X: Any) -> dict[str, Any] | None:
    """Return how scikit-learn checks training rows; None if it does not know their container."""
    kind = kind_of(X)
    if kind == "sparse":
        return {"dtype": DTYPES, "accept_sparse": ["csr"]}
    if kind != "dense" or is_device_array(X):
        return None
    # NaN in dense rows is found in their products, at no extra cost
    return {"dtype": DTYPES, "ensure_all_finite": False}


def checked_matrix(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix in double precision by rows, or an operator of SciPy."""
    if len(X.shape) != 2:
        raise ValueError(f"{name} must have two dimensions; got shape {X.shape}.")
    if kind_of(X) == "sparse" and not sparse.issparse(X):
        X = X.sparse.to_coo()
    X = X if sparse.issparse(X) else aslinearoperator(X)
    if X.dtype is not None and np.issubdtype(X.dtype, np.complexfloating):
        raise ValueError(f"Complex data not supported: {name} is complex. Use Re and Im as rows.")
    if min(X.shape) == 0:
        raise ValueError(f"{name} must have at least one row and one column; got shape {X.shape}.")
    if not sparse.issparse(X):
        return X
    X = X.tocsr()
    X = X.astype(np.float64, copy=False)
    assert_all_finite(X.data, input_name=name)
    return X


def rows_in_memory(X: Any, reference: Any, *, dtype: Any = None, name: str = "X") -> Any:
    """Return new rows in memory as a matrix that can be multiplied with coefficients."""
    # the rows are put where the reference is, which are coefficients or training rows
    kind = kind_of(X)
    on_device = is_device_array(X) or is_device_array(reference)
    if kind in {"sparse", "operator"} and not on_device:
        return checked_matrix(X, name)
    if kind in {"disk", "rows"}:
        X = X.read(slice(None)) if kind == "rows" else X[:]
        kind = "dense"
    if kind != "dense":
        where = "rows of the same kind as in fit" if on_device else "rows in memory"
        raise TypeError(f"{name} must be {where}; got {type(X).__name__}.")
    if not on_device:
        return check_array(X, dtype=dtype or DTYPES, input_name=name)
    rows = X.detach() if hasattr(X, "detach") else X
    rows = rows if is_device_array(rows) else np.asarray(rows)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be of shape (n, n_features); got {tuple(rows.shape)}.")
    if not is_device_array(reference):
        return on_host(rows)
    # a model predicts on the device of its coefficients, in their type
    rows = array_namespace(reference).asarray(like(reference, rows), device=reference.device)
    return as_dtype(rows, reference.dtype)


def checked_host(X: Any, y: Any) -> tuple[Any, Any]:
    """Return NumPy arrays of floating types, as scikit-learn checks them."""
    # checks cost as much as a small product: plain arrays, which would pass unchanged, skip them
    if not (type(X) is np.ndarray and X.ndim == 2 and X.size and X.dtype in DTYPES):
        X = np.asarray(check_array(X, dtype=DTYPES, ensure_all_finite=False, input_name="X"))
    if type(y) is np.ndarray and y.dtype in DTYPES and y.size:
        assert_all_finite(y, input_name="y")
    else:
        values = np.asarray(y)
        if values.size and isinstance(values.flat[0], str):
            raise ValueError(
                "y holds text. Labels need a classifier, such as StoppedClassifierCV, or "
                'loss="cross-entropy" in stoptime.plan.'
            )
        options = {"ensure_2d": False, "allow_nd": True, "input_name": "y"}
        y = np.asarray(check_array(y, dtype=DTYPES, **options))
    check_shapes(X, y)
    return X, y


def check_shapes(X: Any, y: Any) -> None:
    """Raise a ValueError if y is not of one or two dimensions, with a row for each of X."""
    if y.ndim not in {1, 2} or 0 in y.shape:
        raise ValueError(f"y must be of shape (n,) or (n, n_targets); got {tuple(y.shape)}.")
    if X.shape[0] != y.shape[0]:
        check_consistent_length(np.empty((X.shape[0], 0)), np.empty((y.shape[0], 0)))


def checked_device(X: Any, y: Any) -> tuple[Any, Any]:
    """Return arrays of one device and a floating type; y may be anything that can be converted."""
    xp = array_namespace(X)
    floats = (xp.float32, xp.float64)
    if str(X.device).startswith("mps"):
        raise ValueError(
            f"X is on {X.device}, which has no double precision: give X.cpu(), whose memory is "
            "the same."
        )
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be an array of shape (n, p), not empty; got {tuple(X.shape)}.")
    whole = xp.isdtype(X.dtype, ("bool", "integral"))
    layout = str(getattr(X, "layout", "torch.strided"))
    if layout != "torch.strided" or not (whole or xp.isdtype(X.dtype, floats)):
        raise ValueError(
            f"X must be a dense tensor of float32, float64 or integers; got {layout} {X.dtype}."
        )
    X, y = (values.detach() if hasattr(values, "detach") else values for values in (X, y))
    # everything follows X: a response that is elsewhere is moved
    if not is_device_array(y) or y.device != X.device:
        y = like(X, on_host(y))
    check_shapes(X, y)
    # y of another type is widened: it must be centred before it is rounded
    y = y if xp.isdtype(y.dtype, floats) else as_dtype(y, xp.float64)
    return as_dtype(X, xp.float64) if whole else X, finite_tensor(y, "y")


def finite_tensor(values: Any, name: str = "X") -> Any:
    """Return a tensor after checking that its numbers are finite."""
    xp = array_namespace(values)
    if not bool(xp.all(xp.isfinite(values))):
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return values


def sample_of(X: Any, y: Any, sample_weight: Any, fit_intercept: bool) -> Sample:
    """Check rows in any container, their response and weights; NaN in X is found in products."""
    if y is None:
        raise ValueError("y must be given with X.")
    kind = kind_of(X)
    rows: Rows
    if kind == "dense":
        with np.errstate(over="ignore", invalid="ignore"):  # sums that find NaN need not warn too
            X, y = checked_device(X, y) if is_device_array(X) else checked_host(X, y)
        rows = ArrayRows(X)
    else:
        if kind == "rows":
            rows = X
        elif kind == "disk":
            rows = SlicedRows(X)
        else:
            single = kind == "sparse" and getattr(X, "dtype", None) == np.float32
            matrix = checked_matrix(X)
            precision = np.dtype(np.float32 if single else np.float64)
            rows = SparseRows(matrix, precision) if kind == "sparse" else OperatorRows(matrix)
        y = check_array(y, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name="y")
        check_shapes(rows, y)
    return Sample.of(rows, y, sample_weight, fit_intercept)


def classes_of(y: Any, *, several: bool = False) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes, sorted, and the number of the class of each row, on the host.

    If ``several`` labels are allowed, y may have a column of zeros and ones for each label, which
    are returned as they are.
    """
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    found = on_host(y)
    if several and np.ndim(found) == 2 and type_of_target(found) == "multilabel-indicator":
        marks = np.asarray(found).astype(np.intp)
        return np.arange(marks.shape[1]), marks
    if np.ndim(found) == 2 and np.shape(found)[1] > 1:
        raise ValueError(
            f"y must have one label for each row; got shape {np.shape(found)}. For several labels, "
            "fit one classifier to each: sklearn.multioutput.MultiOutputClassifier(model)."
        )
    labels = np.asarray(column_or_1d(found, warn=True))
    # neither None nor NaN nor the NA of pandas is a label
    if labels.dtype.kind == "O" and any(
        one is None or type(one).__name__ == "NAType" or one != one  # noqa: PLR0124
        for one in {*labels.tolist()}
    ):
        raise ValueError("Input y contains NaN.")  # the words of scikit-learn
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, places = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must have at least two classes; its rows, n_samples={len(labels)}, have "
            f"{len(classes)} class."
        )
    return classes, places
