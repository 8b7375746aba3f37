"""The path: coefficients at many stops, computed from one spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from stoptime.methods.adaptive import Adaptive
from stoptime.methods.base import Filter, Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.accuracy import WARNED, Krylov, Rounding
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Want, require_every_eigenvalue
from stoptime.spectrum.decompose import check_solver, open_data
from stoptime.spectrum.kinds import rows_in_memory
from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.source import Source
from stoptime.support.arrays import Array, Floats, empty, like, slices
from stoptime.support.checks import list_of_stops
from stoptime.support.user_warnings import warn_user

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Path:
    """Coefficients of one method, tuned to the data, at many stops.

    ``coef`` has the shape (n_stops, n_features), or (n_stops, n_features, n_targets), and
    ``intercept`` that without features. ``error`` estimates the relative error of the coefficients
    at every stop, the worst of all targets, from a Krylov space or from rounding in products of X;
    ``krylov`` says what that space took. Both may be None.
    """

    method: Method
    stops: Floats
    coef: Floats
    intercept: Floats
    _freedom: Floats | Callable[[], Floats]
    krylov: Krylov | None = None
    error: Floats | None = None

    @cached_property
    def degrees_of_freedom(self) -> Floats:
        """Trace of the derivative of the fit by the response: Σ (1 - g), plus 1 for an intercept.

        NaN if the eigenvalues are Ritz values and no random probes were asked for. Methods without
        a filter have a column for each target; for conjugate gradients it is Σ (1 - g) of the
        filter that was found, which is no derivative.
        """
        return self._freedom() if callable(self._freedom) else self._freedom

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions of shape (n_stops, n) or (n_stops, n, n_targets) for new rows.

        X is an array, a sparse matrix or a LinearOperator of shape (n, n_features).
        """
        rows = rows_in_memory(X, self.coef)
        p = self.coef.shape[1]
        if rows.shape[1] != p:
            raise ValueError(f"X has {rows.shape[1]} features, but the path was drawn with {p}.")
        if issparse(rows) or isinstance(rows, LinearOperator):  # they multiply columns only
            columns = np.moveaxis(self.coef, 1, 0)
            flat = np.asarray(rows @ columns.reshape(p, -1))
            fit = np.moveaxis(flat.reshape(-1, *columns.shape[1:]), 0, 1)
        else:
            fit = self.coef @ rows.T if self.coef.ndim == 2 else rows @ self.coef
        return fit + self.intercept[:, None]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients against the stop; see :func:`stoptime.plots.coefficients`."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.coefficients(self, ax=ax)

    def __repr__(self) -> str:
        stops = f"{self.stops[0]:.4g} to {self.stops[-1]:.4g}" if len(self.stops) else "- to -"
        shape = " x ".join(map(str, self.coef.shape[1:]))
        return f"Path({self.method}, {len(self.stops)} stops from {stops}, {shape} coefficients)"


@overload
def path(
    data: Spectrum | Source | Statistics, method: str | Method, stops: ArrayLike, /, **options: Any
) -> Path: ...
@overload
def path(
    X: Any, y: ArrayLike, method: str | Method, stops: ArrayLike, /, **options: Any
) -> Path: ...
def path(*arguments: Any, **options: Any) -> Path:
    r"""Return the coefficients of a method at many stops, computed in one matrix product.

    .. math:: \hat\beta(t) = V\varphi(S, t)z

    Call it as ``path(X, y, method, stops)``, or as ``path(spectrum, method, stops)`` to use one
    factorisation for many methods. Chunks and statistics contain y: pass them like a spectrum.

    Parameters
    ----------
    X, y, **options
        Data of any kind that :func:`stoptime.decompose` takes, and its options.
    spectrum, method : Spectrum, and Method or str
        The factorised data; a method, or its name.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares, the solution of minimum norm if it is not unique.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> path(*load_diabetes(return_X_y=True), "accelerated-flow", [10, 100, 1000])
    Path(AcceleratedFlow(friction=3.0), 3 stops from 10 to 1000, 10 coefficients)
    """
    first = next(iter(arguments), None)
    if len(arguments) != (3 if isinstance(first, Spectrum | Source | Statistics) else 4):
        raise TypeError("path takes (X, y, method, stops) or (spectrum, method, stops).")
    *data, name, stops = arguments
    method = get_method(name)
    stops = list_of_stops(stops)
    if isinstance(first, Spectrum):
        spectrum = first
        if options:
            raise TypeError(f"{', '.join(options)}: give these with X and y, not with a spectrum.")
    else:
        X, y = data if len(data) == 2 else (first, None)
        solver = options.pop("solver", "auto")
        check_solver(solver)
        gain = options.pop("max_gain", None)
        opened = open_data(X, y, **options)
        want = Want.path(method, stops) if gain is None else Want.up_to(float(gain))
        spectrum = opened.spectrum(replace(want, solver=solver))
    return draw(spectrum, method, stops, warns=True)


def draw(spectrum: Spectrum, method: Method, stops: Floats, *, warns: bool = False) -> Path:
    """Return the path of a method from a spectrum; the arguments are validated already."""
    error = _errors(spectrum, method, stops, warns=warns)
    method = method.tuned_to(spectrum.padded_eigenvalues)
    z = spectrum.response
    shape = (spectrum.n_features, len(stops), *z.shape[1:])
    freedom: Floats | Callable[[], Floats]
    if isinstance(method, Adaptive):
        found = method.coefficients_at(spectrum, stops).astype(z.dtype, copy=False)
        coef = like(spectrum.feature_mean, found.swapaxes(0, 1).reshape(shape))
        freedom = partial(method.freedom_at, spectrum, stops)
    else:
        components, freedom = _followed(spectrum, method, stops)
        flat = components.reshape(len(z), math.prod(shape[1:])).astype(z.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            coef = (spectrum.basis @ like(spectrum.feature_mean, flat)).reshape(shape)
    coef = coef.swapaxes(0, 1)
    if spectrum.geometry is not None:
        coef = coef + spectrum.geometry.coef
    columns = coef if coef.ndim == 2 else coef.swapaxes(1, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = _finite(spectrum.rounded(coef))
        intercept = spectrum.rounded(spectrum.target_mean - columns @ spectrum.feature_mean)
    return Path(method, stops, rounded, intercept, freedom, spectrum.krylov, error)


@dataclass(frozen=True)
class Drawing:
    """A method and a spectrum, from which paths and their predictions are drawn at any stops."""

    spectrum: Spectrum
    method: Method

    def __call__(self, stops: Floats) -> Path:
        """Return the path at these stops."""
        return draw(self.spectrum, self.method, stops)

    def predictions(self, X: Any) -> Callable[[Floats], Floats]:
        """Return a function of stops that predicts these rows, as :meth:`Path.predict` does."""
        spectrum = self.spectrum
        # eigenvectors are formed to project rows on them, at most half a gigabyte
        small = spectrum.n_features * spectrum.rank <= 2**26 and spectrum.response.ndim > 1
        small = small and not isinstance(self.method, Adaptive)
        if not (small and spectrum.solver in {"gram", "svd"} and isinstance(X, np.ndarray)):
            return lambda stops: self(stops).predict(X)
        # rows in the eigenbasis spare the coefficients of every target at every stop
        centred = X - spectrum.feature_mean
        constant = spectrum.target_mean
        if spectrum.geometry is not None:
            constant = constant + centred @ spectrum.geometry.coef
        rows = centred @ spectrum.vectors
        tuned = self.method.tuned_to(spectrum.padded_eigenvalues)

        def predicted(stops: Floats) -> Floats:
            components, _ = _followed(spectrum, tuned, stops)
            components = components.astype(spectrum.response.dtype, copy=False)
            with np.errstate(over="ignore", invalid="ignore"):
                fit = np.tensordot(rows, components, 1).swapaxes(0, 1)
                return np.asarray(_finite(fit + constant))

        return predicted


def _errors(spectrum: Spectrum, method: Method, stops: Floats, *, warns: bool) -> Floats | None:
    """Return estimates of the relative error of a path, or None if the spectrum is exact.

    Stops beyond a Krylov space are refused. Users are warned where coefficients from products of X
    may be off by more than a part in a million.
    """
    accuracy = spectrum.accuracy
    given: Array = np.asarray(stops, np.float64)
    if isinstance(accuracy, Rounding):
        if accuracy.worst == accuracy.dropped == accuracy.hidden == 0:
            return None
        errors = accuracy.errors(method.tuned_to(spectrum.padded_eigenvalues), given)
        worst = float(np.max(errors, initial=0))
        trusted = accuracy.is_accepted or spectrum.solver != "gram"
        if warns and worst > WARNED and not trusted:
            warn_user(
                "Columns are so dependent, or so different in scale, that rounding of XᵀX may "
                f"change the coefficients at these stops by {min(worst, 1.0):.1g} of their size: "
                "stop earlier, standardise or drop columns, or fit in memory.",
                UserWarning,
            )
        return errors
    require_every_eigenvalue([method])
    errors = accuracy.errors(method, given)
    if not accuracy.allows(errors):
        first = int(np.argmax(errors > accuracy.tol))
        raise ValueError(
            f"The Krylov space of {spectrum.rank} vectors has not converged for {method} at stop "
            f"{stops[first]:.4g}: its relative error may be {errors[first]:.1g}, above "
            f"tol={accuracy.tol:g}. Use an earlier stop, or decompose with a larger max_gain."
        )
    return errors


def _followed(spectrum: Spectrum, method: Method, stops: Floats) -> tuple[Floats, Floats]:
    """Return the path in the eigenbasis, and its degrees of freedom Σ sφ, NaN if unknown."""
    s: Floats = spectrum.eigenvalues.astype(np.float64)
    single = spectrum.response.ndim == 1
    columns = spectrum.response.reshape(len(s), math.prod(spectrum.response.shape[1:]))
    unknown = not spectrum.accuracy.complete and spectrum.density is None
    atoms, weights = (s[:0], s[:0]) if unknown else spectrum.atoms
    # the eigenvalues are the same array where they can be, so that gains are computed once
    at = s if spectrum.accuracy.complete else atoms
    components, gains = method.follow(s, columns, stops, at)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN where a late filter overflows
        freedom = np.tensordot(weights * atoms, gains, axes=1)
    if not isinstance(method, Filter):
        # rounding may spoil a late filter, whose sum is then no trace
        freedom = np.clip(freedom, 0, spectrum.n_features)
    freedom = freedom + (np.nan if unknown else float(spectrum.n_unpenalised))
    shared = single or isinstance(method, Filter)  # one filter for all targets
    return components[..., 0] if single else components, freedom[:, 0] if shared else freedom


def fit_at(spectrum: Spectrum, method: Method, stop: Any) -> tuple[Floats, Floats, Any]:
    """Return coefficients (targets first), intercept and degrees of freedom.

    The stop is one for all targets, and then the degrees of freedom are one number, or one for each
    target.
    """
    method = method.tuned_to(spectrum.padded_eigenvalues)
    distinct, own = np.unique(np.asarray(stop, np.float64), return_inverse=True)
    # a copy, because tensors are indexed by arrays that can be written
    own = np.broadcast_to(own.ravel(), np.size(spectrum.target_power)).copy()
    if isinstance(method, Filter):
        return _filtered(spectrum, method, distinct, own, shared=np.ndim(stop) == 0)
    drawn = draw(spectrum, method, distinct, warns=True)
    # of adaptive methods, p x p derivatives are taken in every step; these many take about a second
    work = 2.0 * distinct[-1] * spectrum.n_features**3 * len(own)
    freedom = np.full((len(distinct), len(own)), np.nan)
    if not isinstance(method, Adaptive) or work <= 2e10:
        freedom = drawn.degrees_of_freedom
    if np.ndim(stop) == 0:
        return drawn.coef[0].swapaxes(0, -1), drawn.intercept[0], float(np.mean(freedom[0]))
    targets = np.arange(len(own))
    return drawn.coef[own, :, targets], drawn.intercept[own, targets], freedom[own, targets]


def _filtered(
    spectrum: Spectrum, method: Filter, stops: Array, own: NDArray[np.intp], *, shared: bool
) -> tuple[Floats, Floats, Any]:
    """Return what :func:`fit_at` does for filters, with the number of the stop of each target."""
    _errors(spectrum, method, stops, warns=True)
    z = spectrum.response.reshape(len(spectrum.eigenvalues), len(own))
    gain = method.gain(spectrum.eigenvalues[:, None], stops)
    freedom = spectrum.freedom(gain, lambda atoms: method.gain(atoms, stops))
    # coefficients of many targets are large: they are rounded block by block
    dtype = spectrum.precision or z.dtype
    coef = empty(spectrum.feature_mean, (len(own), spectrum.n_features), dtype)
    intercept = empty(spectrum.feature_mean, (len(own),))
    mean = spectrum.target_mean.reshape(-1)
    for block in slices(len(own), 2**22 // max(len(z), 1)):
        with np.errstate(over="ignore", invalid="ignore"):
            components = (gain[:, own[block]] * z[:, block]).astype(z.dtype, copy=False)
            found = (spectrum.basis @ like(coef, components)).T
            if spectrum.geometry is not None:
                free = spectrum.geometry.coef.reshape(spectrum.n_features, -1)
                found = found + free[:, block].T
            coef[block] = found
            intercept[block] = mean[block] - found @ spectrum.feature_mean
    coef = _finite(spectrum.rounded(coef))
    intercept = spectrum.rounded(intercept)
    degrees: Any = float(freedom[0]) if shared else freedom[own]
    single = spectrum.response.ndim == 1
    return (coef[0], intercept[0], degrees) if single else (coef, intercept, degrees)


def _finite(coef: Any) -> Any:
    """Return coefficients, or raise a ValueError where they overflow."""
    if not (abs(coef) < np.inf).all():
        raise ValueError("Coefficients overflow at the largest stops: stop earlier, or rescale X.")
    return coef
