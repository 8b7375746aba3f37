r"""Penalties ‖Lβ‖² other than ‖β‖², brought into standard form.

.. math:: \beta = B\gamma + W\theta, \qquad \|L\beta\| = \|\gamma\|, \qquad LW = 0, \quad W^TB = 0

so that γ is penalised as coefficients are without L, and θ is not penalised at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import SuperLU, splu

from stoptime.spectrum.kinds import checked_matrix, kind_of
from stoptime.support.arrays import EPS, TINY, Floats, like, on_host
from stoptime.support.checks import instance_of, whole_number

LARGEST_BASIS = 2000  # columns up to which a pseudo-inverse is computed and stored as an array
ILL_CONDITIONED = (
    "penalty_matrix is too ill-conditioned to be solved as a sparse matrix: a matrix of more than "
    "2000 columns must penalise every direction, so append small multiples of unit vectors to it; "
    "take Differences of a lower order, or fewer coefficients along an axis."
)


class Scaling:
    """The B of a diagonal L: some columns of X, each multiplied by its scale."""

    def __init__(self, columns: NDArray[np.intp], scales: Floats, n_features: int) -> None:
        self.columns = columns
        self.scales = scales
        self.n_features = n_features
        self.rank = self.width = len(columns)

    def of_rows(self, X: Any) -> Any:
        """Return XB."""
        scales = like(X, self.scales)
        return (X if self.rank == self.n_features else X[:, like(X, self.columns)]) * scales

    def __matmul__(self, components: Any) -> Any:
        scaled = (components.T * like(components, self.scales)).T
        if self.rank == self.n_features:
            return scaled
        out = like(components, np.zeros((self.n_features, *components.shape[1:])))
        out[like(components, self.columns)] = scaled
        return out


class Product:
    """The B of any other L, an array of shape (n_features, rank)."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix
        self.rank = self.width = int(matrix.shape[1])

    def of_rows(self, X: Any) -> Any:
        """Return XB."""
        return X @ like(X, self.matrix)

    def __matmul__(self, components: Any) -> Any:
        return like(components, self.matrix) @ components


class Solves:
    r"""The pseudo-inverse of a sparse L with a known basis W of its null space, by sparse solves.

    .. math:: L^+\gamma = (I - WW^T)\beta, \qquad (L^TL + EE^T)\beta = L^T\gamma

    with unit vectors E of as many coordinates as determine the null space. The ``width``, the
    number of rows of L, may be larger than its ``rank``.
    """

    def __init__(self, matrix: sparse.csr_array, null: Floats) -> None:
        self.matrix = matrix
        self.null = null
        self.rank = int(null.shape[0] - null.shape[1])
        self.width = int(matrix.shape[0])
        # an L of full row rank is solved as it is, without its square
        self._is_square = self.width == self.rank
        self._unit = float(abs(matrix).max())
        # squares of extreme entries would overflow or underflow
        self._scaled = matrix / self._unit

    def of_rows(self, X: Any) -> Any:
        """Return XL⁺."""
        rows = np.asarray(on_host(X), np.float64).T
        rows = rows - self.null @ (self.null.T @ rows)
        if self._is_square:
            found = self._factors.solve(rows, trans="T")[: self.width]
        else:
            found = self._scaled @ self._solved(rows)
        return like(X, np.ascontiguousarray(found.T) / self._unit)

    def __matmul__(self, components: Any) -> Any:
        given = np.asarray(on_host(components), np.float64)
        if self._is_square:
            zeros = np.zeros((self.null.shape[1], *given.shape[1:]))
            found = self._factors.solve(np.concatenate([given, zeros]))
        else:
            found = self._solved(self._scaled.T @ given)
        found -= self.null @ (self.null.T @ found)
        return like(components, found / self._unit)

    def _solved(self, right: Floats) -> Floats:
        """Solve the normal equations, with a few corrections."""
        found = self._factors.solve(right)
        for _ in range(self._refinements):
            found += self._factors.solve(right - self._scaled.T @ (self._scaled @ found))
        return found

    @cached_property
    def _factors(self) -> SuperLU:
        p, free = self.null.shape
        # a unit vector for each direction of the null space, as far from its complement as possible
        places = linalg.qr(self.null.T, mode="r", pivoting=True)[1][:free] if free else []
        pinned = sparse.csr_array((np.ones(free), (np.arange(free), places)), shape=(free, p))
        matrix = sparse.vstack([self._scaled, pinned])
        options: dict[str, Any] = {}
        if not self._is_square:
            # a positive definite matrix needs no pivots, and is ordered by its own pattern
            matrix = matrix.T @ matrix
            options = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
            options["diag_pivot_thresh"] = 0.0
        try:
            return splu(matrix.tocsc(), **options)
        except RuntimeError:  # exactly singular
            raise ValueError(ILL_CONDITIONED) from None

    @cached_property
    def _refinements(self) -> int:
        """Number of corrections, the same for every product, which keeps products adjoint."""
        L = self._scaled
        given = L.T @ np.random.default_rng(0).standard_normal(self.width)
        found = self._factors.solve(given)
        change = self._factors.solve(given - L.T @ (L @ found))
        # every correction multiplies the error by about this ratio
        ratio = float(np.linalg.norm(change) / np.linalg.norm(found))
        count = np.ceil(np.log(1e-12) / np.log(np.clip(ratio, TINY, 1 - EPS))) - 1
        # three corrections are the most that help; more are needed where L has no full rank
        if not count <= 3:
            raise ValueError(ILL_CONDITIONED)
        return max(int(count), 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # the factors of SuperLU cannot be pickled
        return Solves, (self.matrix, self.null)


@dataclass(frozen=True)
class StandardForm:
    """The B and the W above; the columns of W, of shape (n_features, n_free), are orthonormal.

    ``doubt`` is the relative error to which W is known.
    """

    inverse: Scaling | Product | Solves
    null: Floats
    doubt: float = EPS

    def standard_form(self, n_features: int) -> StandardForm:  # noqa: ARG002 - as of others
        """Return the same: it is accepted where a penalty matrix is."""
        return self

    @classmethod
    def of_scales(cls, scales: Floats) -> StandardForm:
        """Return that of the diagonal L = 1/scales: zero drops a column, inf frees it."""
        if not np.all(scales >= 0):
            raise ValueError("Scales of columns must be non-negative numbers; some are not.")
        kept = np.flatnonzero((scales > 0) & np.isfinite(scales))
        free = np.flatnonzero(np.isinf(scales))
        null = np.zeros((len(scales), len(free)))
        null[free, np.arange(len(free))] = 1
        return cls(Scaling(kept, scales[kept], len(scales)), null)

    @classmethod
    def of_matrix(cls, matrix: Any) -> StandardForm:
        """Return that of any L, of shape (n_rows, n_features)."""
        if matrix.shape[0] == matrix.shape[1]:
            diagonal = np.abs(matrix.diagonal())
            if (matrix != 0).sum() == np.count_nonzero(diagonal):
                with np.errstate(divide="ignore"):
                    return cls.of_scales(1 / diagonal)
        if sparse.issparse(matrix) and matrix.shape[1] > LARGEST_BASIS and matrix.nnz:
            none = np.empty((matrix.shape[1], 0))
            inverse = Solves(sparse.csr_array(matrix), none)
            _ = inverse @ np.zeros(matrix.shape[0])  # a matrix without full rank is refused
            return cls(inverse, none)
        L = matrix.toarray() if sparse.issparse(matrix) else matrix
        return cls.of_singular(*singular(L))

    @classmethod
    def of_singular(
        cls, values: Floats, vectors: Floats, null: Floats | None = None
    ) -> StandardForm:
        """Return that of an L with these singular values, and its right singular vectors.

        ``null`` is a basis of the directions that are not penalised, where it is known.
        """
        kept = values > EPS * len(values) * values.max(initial=0)
        if null is not None:
            kept = np.argsort(values, kind="stable")[null.shape[1] :]
            return cls(Product(vectors[:, kept] / values[kept]), null)
        # a small singular value mixes its direction with those that L annihilates
        doubt = EPS * float(values.max(initial=0) / values[kept].min(initial=np.inf))
        return cls(Product(vectors[:, kept] / values[kept]), vectors[:, ~kept], doubt)


def singular(L: Floats) -> tuple[Floats, Floats]:
    """Return as many singular values as L has columns, and its right singular vectors."""
    p = L.shape[1]
    if len(L) > p:  # left singular vectors are not needed: a triangle has the others
        L = linalg.qr(L, mode="r")[0][:p]
    _, values, vectors = linalg.svd(L)
    return np.append(values, np.zeros(p - len(values))), vectors.T


@dataclass(frozen=True)
class Differences:
    r"""Differences between neighbouring coefficients, as a penalty matrix.

    .. math:: \|L\beta\|^2 = \sum_a\sum_i\bigl((\Delta_a^q\beta)_i\bigr)^2

    with q the order, and a sum over the axes of an image or a volume.

    Parameters
    ----------
    order : int, default=2
        The order of the differences. Without boundaries, polynomials of a smaller degree along
        each axis are not penalised, and so never shrunk.
    shape : int or tuple of at most three int, optional
        Shape of the coefficients, in C order; by default one axis with all columns of X.
    boundary : {"free", "periodic", "zero"}, default="free"
        "free" takes differences inside the array only. "periodic" joins its ends: constants are
        not penalised. "zero" continues it by zeros, so that everything is penalised.

    Examples
    --------
    >>> Differences(order=2).matrix(5).toarray().astype(int)
    array([[ 1, -2,  1,  0,  0],
           [ 0,  1, -2,  1,  0],
           [ 0,  0,  1, -2,  1]])
    """

    order: int = 2
    shape: int | tuple[int, ...] | None = None
    boundary: Literal["free", "periodic", "zero"] = "free"

    def __post_init__(self) -> None:
        """Check the parameters."""
        whole_number("order", self.order, least=1)
        if self.boundary not in {"free", "periodic", "zero"}:
            raise ValueError(
                f'boundary must be "free", "periodic" or "zero"; got {self.boundary!r}.'
            )
        axes = np.atleast_1d(1 if self.shape is None else self.shape)
        if axes.ndim != 1 or not 1 <= len(axes) <= 3 or np.any(axes < 1):
            raise ValueError(f"shape must be one to three positive integers; got {self.shape!r}.")

    def matrix(self, n_features: int | None = None) -> sparse.csr_array:
        """Return L as a sparse matrix; without a shape, ``n_features`` is its number of columns."""
        sizes = self._sizes(n_features)
        parts = []
        for axis, size in enumerate(sizes):
            before = sparse.eye_array(int(np.prod(sizes[:axis])))
            after = sparse.eye_array(int(np.prod(sizes[axis + 1 :])))
            parts.append(sparse.kron(sparse.kron(before, self._along(size)), after))
        return sparse.csr_array(sparse.vstack(parts))

    def standard_form(self, n_features: int) -> StandardForm:
        """Return the standard form, from those of the axes; by solves if it is too large."""
        sizes = self._sizes(n_features)
        null = reduce(np.kron, [self._unpenalised(size) for size in sizes])
        if n_features > LARGEST_BASIS:
            return StandardForm(Solves(self.matrix(n_features), null), null)
        axes = [singular(self._along(size).toarray()) for size in sizes]
        # LᵀL is a Kronecker sum: its eigenvectors are products, its eigenvalues sums over the axes
        squares = reduce(np.add.outer, [values**2 for values, _ in axes]).ravel()
        vectors = reduce(np.kron, [v for _, v in axes])
        return StandardForm.of_singular(np.sqrt(squares), vectors, null)

    def _sizes(self, n_features: int | None) -> tuple[int, ...]:
        shape = n_features if self.shape is None else self.shape
        if shape is None:
            raise ValueError("Differences without a shape need the number of columns of X.")
        sizes = tuple(int(size) for size in np.atleast_1d(shape))
        if n_features is not None and np.prod(sizes) != n_features:
            raise ValueError(f"{self} is for {np.prod(sizes)} columns, but X has {n_features}.")
        return sizes

    def _along(self, size: int) -> sparse.csr_array:
        """Return the differences along one axis."""
        if self.boundary == "free" and size <= self.order:
            raise ValueError(
                f"Differences of order {self.order} need more than {self.order} coefficients along "
                f"every axis; got {size}."
            )
        matrix = sparse.eye_array(size, format="csr")
        for _ in range(self.order):
            n = matrix.shape[0]
            if self.boundary == "free":
                step = sparse.eye_array(n - 1, n, k=1) - sparse.eye_array(n - 1, n)
            elif self.boundary == "zero":
                step = sparse.eye_array(n + 1, n) - sparse.eye_array(n + 1, n, k=-1)
            else:
                after = sparse.eye_array(n, k=1) + sparse.eye_array(n, k=1 - n)
                step = after - sparse.eye_array(n)
            matrix = step @ matrix
        return sparse.csr_array(matrix)

    def _unpenalised(self, size: int) -> Floats:
        """Return an orthonormal basis of the coefficients along one axis without differences."""
        # polynomials below the order, of which only constants are periodic
        count = {"free": self.order, "periodic": 1, "zero": 0}[self.boundary]
        polynomials = legvander(np.linspace(-1, 1, size), max(count - 1, 0))[:, :count]
        return np.asarray(linalg.qr(polynomials, mode="economic")[0] if count else polynomials)


@dataclass(frozen=True)
class Bands:
    r"""A scale for each band of columns, as a penalty matrix.

    .. math:: \|L\beta\|^2 = \sum_b \|\beta_b\|^2/\delta_b^2

    as if the columns of band b were multiplied by their scale δ. A scale of zero drops the band;
    an infinite scale leaves it unpenalised.

    Parameters
    ----------
    groups : array-like of one label per column, mapping of names to columns, or list of columns
        The bands. Columns are slices or lists of integers; a fitted ColumnTransformer gives one
        band for each of its transformers.
    scales : sequence or mapping
        The scale of each band, in the order of the groups (labels: sorted), or by its name.

    Examples
    --------
    >>> import stoptime as st
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bands = st.Bands({"age, sex": [0, 1], "others": slice(2, None)}, [0.1, 1.0])
    >>> model = st.StoppedRegressor("ridge", stop=1000.0, penalty_matrix=bands).fit(X, y)
    >>> model.coef_[:4].round()
    array([  0.,  -4., 405., 236.])
    """

    groups: Any
    scales: Sequence[float] | Mapping[Hashable, float]

    def standard_form(self, n_features: int) -> StandardForm:
        """Return the standard form, a scaling of columns."""
        names, member = bands_of(self.groups, n_features)
        given: Any = self.scales
        if isinstance(given, Mapping):
            if missing := [name for name in names if name not in given]:
                raise ValueError(f"scales has no entry for the bands {missing}.")
            given = [given[name] for name in names]
        scales = np.asarray(given, dtype=np.float64)
        if scales.shape != (len(names),):
            raise ValueError(f"scales must have one entry for each band, {names}; got {given}.")
        return StandardForm.of_scales(scales[member])


def bands_of(
    groups: Any, n_features: int, names: ArrayLike | None = None
) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the names of the bands, and the number of the band of each column.

    ``names`` are those of the columns, if they are known.
    """
    groups = getattr(groups, "output_indices_", groups)  # of a fitted ColumnTransformer
    if hasattr(groups, "transformers"):
        raise ValueError("Fit the ColumnTransformer before it is used as groups.")
    if not isinstance(groups, Mapping):
        groups = list(groups)
        if all(np.ndim(one) == 0 and not isinstance(one, slice) for one in groups):
            if len(groups) != n_features:
                raise ValueError(
                    f"groups has {len(groups)} labels, but X has {n_features} columns."
                )
            labels, member = np.unique(groups, return_inverse=True)
            return labels.tolist(), member
        groups = dict(enumerate(groups))
    member = np.full(n_features, -1)
    counts = np.zeros(n_features, dtype=int)
    chosen = {name: _columns(one, n_features, names) for name, one in groups.items()}
    chosen = {name: columns for name, columns in chosen.items() if len(columns)}
    for number, columns in enumerate(chosen.values()):
        member[columns] = number
        np.add.at(counts, columns, 1)
    if np.any(counts != 1):
        wrong = np.flatnonzero(counts != 1)
        raise ValueError(
            f"Every column must be in exactly one band; columns {wrong[:8].tolist()} are not."
        )
    return list(chosen), member


def _columns(one: Any, n_features: int, names: ArrayLike | None) -> NDArray[np.intp]:
    """Return the numbers of columns that are given by a slice, by numbers, a mask or names."""
    known = {} if names is None else {name: i for i, name in enumerate(np.asarray(names))}
    if isinstance(one, tuple) and one in known:
        one = [one]  # columns of several levels have tuples as names
    given: Any = one if isinstance(one, slice) else np.atleast_1d(np.asarray(one))
    if isinstance(one, list) and any(isinstance(name, tuple) for name in one):
        given = np.fromiter(one, dtype=object)
    if not isinstance(one, slice) and given.dtype.kind in "USO":
        if missing := [name for name in given if name not in known]:
            raise ValueError(
                f"X has no columns of the names {missing[:8]}: give a DataFrame with these columns "
                "to BandedRegressorCV, or give the numbers of the columns."
            )
        given = [known[name] for name in given]
    try:
        return np.arange(n_features)[given]
    except IndexError:
        raise ValueError(f"A band has the columns {one}, but X has {n_features} columns.") from None


def standard_form(
    penalty_matrix: Any, n_features: int, deviations: Callable[[], Floats]
) -> StandardForm:
    """Return the standard form of anything that is accepted as ``penalty_matrix``.

    ``deviations`` returns the standard deviations of the columns of X, zero if they are constant.
    """
    if isinstance(penalty_matrix, str):
        if penalty_matrix != "standardise":
            raise ValueError(
                f'penalty_matrix must be "standardise", a matrix, Differences or Bands; got '
                f"{penalty_matrix!r}."
            )
        found = deviations()
        form = StandardForm.of_scales(1 / np.where(found > 0, found, 1))
    elif hasattr(penalty_matrix, "standard_form"):
        form = instance_of(penalty_matrix, object).standard_form(n_features)
    else:
        form = StandardForm.of_matrix(_checked(penalty_matrix, n_features))
    if form.inverse.rank == 0:
        raise ValueError(
            "penalty_matrix penalises nothing, or drops every column: use stop=inf for least "
            "squares."
        )
    return form


def _checked(matrix: Any, n_features: int) -> Any:
    """Return L as an array or a sparse matrix in double precision."""
    if kind_of(matrix) == "operator":
        operator = checked_matrix(matrix, "penalty_matrix")
        p = operator.shape[1]
        if p <= LARGEST_BASIS:
            matrix = operator @ np.eye(p)
        else:
            units = (np.eye(p, min(64, p - start), -start) for start in range(0, p, 64))
            matrix = sparse.hstack([sparse.csc_array(operator @ some) for some in units]).tocsr()
    matrix = matrix if sparse.issparse(matrix) else np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        raise ValueError(
            f"penalty_matrix must have one column for each of the {n_features} columns of X; got "
            f"shape {matrix.shape}."
        )
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"penalty_matrix must contain real numbers; got {matrix.dtype}.")
    matrix = matrix.astype(np.float64)
    if not np.isfinite(matrix.data if sparse.issparse(matrix) else matrix).all():
        raise ValueError("penalty_matrix contains NaN or infinity.")
    return matrix
