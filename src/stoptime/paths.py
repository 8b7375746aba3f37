"""The path: coefficients at many stops, from one spectrum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Krylov, Spectrum
from stoptime.spectrum.data import goals, worst_goals
from stoptime.spectrum.decompose import check_solver, open_data
from stoptime.spectrum.kinds import new_rows
from stoptime.spectrum.krylov.error_bound import relative_errors, step_errors, unconverged
from stoptime.spectrum.streamed.gram import rounding_errors, warn_of_rounding
from stoptime.spectrum.streamed.sources import Chunks
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.arrays import Floats, empty, like
from stoptime.support.checks import list_of_stops

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCK_NUMBERS = 2**22  # of a temporary array
SLACK = 10.0  # times tol, which is kept at the largest stop: what an error may be at others

__all__ = ["Path", "at_stop", "at_stops", "draw", "path"]


@dataclass(frozen=True, repr=False)
class Path:
    """Coefficients of one method at many stops.

    Attributes
    ----------
    method : Method
        The method, tuned to the data.
    stops : array of shape (n_stops,)
        Where the path was evaluated.
    coef : array of shape (n_stops, n_features) or (n_stops, n_features, n_targets)
        Coefficients.
    intercept : array of shape (n_stops,) or (n_stops, n_targets)
        Zeros where none was fitted.
    degrees_of_freedom : array of shape (n_stops,)
        Trace of the map from the response to the fit: Σ (1 - g), plus one for an intercept. Conjugate
        gradients have a filter of their own, and a column here, for each of many targets. NaN where the
        eigenvalues are Ritz values and no random probes were asked for.
    krylov : Krylov or None
        Of a path from a Krylov space: how many products it took, and what it left out.
    error : array of shape (n_stops,) or None
        Bounds of the relative error of the coefficients, of many targets the worst: what a Krylov space
        leaves out, or what rounding takes from rows that are known by their products alone.
    """

    method: Method
    stops: Floats
    coef: Floats
    intercept: Floats
    degrees_of_freedom: Floats
    krylov: Krylov | None = None
    error: Floats | None = None

    def predict(self, X: ArrayLike) -> Floats:
        """Predict at every stop.

        Parameters
        ----------
        X : array-like, sparse matrix or LinearOperator of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n_stops, n) or (n_stops, n, n_targets)
        """
        rows = new_rows(X, self.coef)
        if rows.shape[1] != self.coef.shape[1]:
            raise ValueError(
                f"X has {rows.shape[1]} features, but the path was drawn with {self.coef.shape[1]}."
            )
        if issparse(rows) or isinstance(rows, LinearOperator):  # which multiply columns only
            columns = np.moveaxis(self.coef, 1, 0)
            flat = np.asarray(rows @ columns.reshape(len(columns), -1))
            fit = np.moveaxis(flat.reshape(-1, *columns.shape[1:]), 0, 1)
        else:
            fit = self.coef @ rows.T if self.coef.ndim == 2 else rows @ self.coef
        return fit + self.intercept[:, None]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients against the stop; see :func:`stoptime.plots.coefficients`."""
        from stoptime.support import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.coefficients(self, ax=ax)

    def __repr__(self) -> str:
        first, last = (
            (f"{stop:.4g}" for stop in self.stops[[0, -1]]) if len(self.stops) else ("-", "-")
        )
        shape = " x ".join(map(str, self.coef.shape[1:]))
        return f"Path({self.method}, {len(self.stops)} stops from {first} to {last}, {shape} coefficients)"


@overload
def path(spectrum: Spectrum, method: str | Method, stops: ArrayLike, /) -> Path: ...
@overload
def path(
    data: Chunks | Statistics, method: str | Method, stops: ArrayLike, /, **options: Any
) -> Path: ...
@overload
def path(
    X: Any, y: ArrayLike, method: str | Method, stops: ArrayLike, /, **options: Any
) -> Path: ...
def path(*arguments: Any, **options: Any) -> Path:
    r"""Draw the coefficients of a method at many stops, in one matrix product.

    .. math:: \hat\beta(t) = V\varphi(S, t)z

    Called as ``path(X, y, method, stops)``, or as ``path(spectrum, method, stops)`` to draw many
    methods from one factorisation. Chunks and statistics, which hold their own y, go like a spectrum.

    Parameters
    ----------
    X, y : array-like
        Data; see :func:`stoptime.decompose`, which also takes the ``options``.
    spectrum : Spectrum
        The factorised data.
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares, of minimum norm where it is not unique.
    **options
        ``sample_weight``, ``fit_intercept``, ``solver``, and for sparse matrices and operators ``tol``,
        ``max_rank``, ``probes``, ``seed``: passed to :func:`stoptime.decompose`.

    Returns
    -------
    Path

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> path(*load_diabetes(return_X_y=True), "nesterov-flow", [10, 100, 1000])
    Path(AcceleratedFlow(friction=3.0), 3 stops from 10 to 1000, 10 coefficients)

    Of a large sparse matrix, or an operator, a path comes with a bound of its error:

    >>> from scipy import sparse
    >>> X = sparse.random(3000, 2000, density=0.01, random_state=0, format="csr")
    >>> drawn = path(X, X @ np.ones(2000), "nesterov-flow", [1, 30])
    >>> bool(drawn.error.max() < 1e-6), drawn.krylov.products < 50
    (True, True)
    """
    first = next(iter(arguments), None)
    if len(arguments) != (3 if isinstance(first, Spectrum | Chunks | Statistics) else 4):
        raise TypeError("path takes (X, y, method, stops) or (spectrum, method, stops).")
    *data, name, stops = arguments
    method = get_method(name)
    stops = list_of_stops(stops)
    if isinstance(first, Spectrum):
        if options:
            raise TypeError(
                f"{', '.join(options)}: options of the data, which a spectrum has fixed."
            )
        return _told(first, draw(first, method, stops))
    X, y = data if len(data) == 2 else (first, None)
    weights = options.pop("sample_weight", None)
    intercept = options.pop("fit_intercept", True)
    solver = options.pop("solver", "auto")
    check_solver(solver)
    wanted = goals(method, stops)
    if "max_gain" in options:
        wanted = worst_goals(float(options.pop("max_gain")))
    spectrum = open_data(X, y, weights, intercept, **options).spectrum(wanted, solver)
    return _told(spectrum, draw(spectrum, method, stops))


def _told(spectrum: Spectrum, drawn: Path) -> Path:
    """Return a path with the error that products of features leave in it, and warn where that shows."""
    if spectrum.rounding is None:
        return drawn
    errors = rounding_errors(spectrum, drawn.method, drawn.stops)
    warn_of_rounding(errors, stacklevel=3)
    return replace(drawn, error=errors.max(axis=1, initial=0))


def draw(spectrum: Spectrum, method: Method, stops: Floats) -> Path:
    """Draw the path of a method from a spectrum; arguments already validated."""
    error = _converged(spectrum, method, stops)
    method = method.tuned_to(spectrum.padded_eigenvalues)
    z = spectrum.response
    components, freedom = _followed(spectrum, method, stops)
    with np.errstate(over="ignore", invalid="ignore"):
        flat = components.reshape(len(z), int(np.prod(components.shape[1:]))).astype(
            z.dtype, copy=False
        )
        coef = spectrum.basis @ like(spectrum.feature_mean, flat)
    coef = coef.reshape(spectrum.n_features, len(stops), *z.shape[1:]).swapaxes(0, 1)
    if not (abs(coef) < np.inf).all():
        raise ValueError(
            "Coefficients overflow at the largest stops: stop earlier, or rescale X and y."
        )
    columns = coef if coef.ndim == 2 else coef.swapaxes(1, 2)
    intercept = spectrum.target_mean - columns @ spectrum.feature_mean
    coef, intercept = spectrum.rounded(coef), spectrum.rounded(intercept)
    return Path(method, stops, coef, intercept, freedom, spectrum.krylov, error)


def _converged(spectrum: Spectrum, given: Method, stops: Floats) -> Floats | None:
    """Return bounds of the relative error of a path from Ritz values, and refuse one beyond their reach."""
    krylov = spectrum.krylov
    if krylov is None:
        return None
    theta, response, known = spectrum.eigenvalues, spectrum.response, spectrum.padded_eigenvalues
    method = given.tuned_to(known)
    errors = relative_errors(theta, response, krylov, method, stops)
    if getattr(given, "step", None) == "auto":
        other = given.tuned_to(np.append(known, known[-1:] + krylov.doubt))
        errors += step_errors(theta, response, method, other, stops)
    late = unconverged(method, stops, errors, SLACK * krylov.tol)
    if late.any():
        first = int(np.argmax(late))
        raise ValueError(
            f"The Krylov space of {spectrum.rank} vectors has not converged for {method} at stop "
            f"{stops[first]:.4g}: its relative error may be {errors[first]:.1g}, above tol={krylov.tol:g}. "
            "Take an earlier stop, or a spectrum from decompose with a larger max_gain."
        )
    return errors


def _followed(spectrum: Spectrum, method: Method, stops: Floats) -> tuple[Floats, Floats]:
    """Return the path in the eigenbasis, and its degrees of freedom Σ sφ, NaN where not known."""
    s: Floats = spectrum.eigenvalues.astype(np.float64)
    columns = spectrum.response.reshape(len(s), int(np.prod(spectrum.response.shape[1:])))
    known = spectrum.krylov is None or spectrum.density is not None
    atoms, weights = (s, np.ones_like(s)) if spectrum.krylov is None else (s[:0], s[:0])
    if spectrum.density is not None:
        atoms, weights = spectrum.atoms
    components, gains = method.follow(s, columns, stops, atoms)
    freedom = np.tensordot(weights * atoms, gains, axes=1)
    if not method.has_filter:  # rounding may undo a late filter, whose sum is then no trace
        freedom = np.clip(freedom, 0, spectrum.n_features)
    freedom = freedom + (float(spectrum.fit_intercept) if known else np.nan)
    single = freedom.shape[1] == 1
    if spectrum.response.ndim == 1:
        components = components[..., 0]
    return components, freedom[:, 0] if single else freedom


def at_stop(spectrum: Spectrum, method: Method, stop: float) -> tuple[Floats, Floats, float]:
    """Return coefficients (targets first), intercept and degrees of freedom at one stop."""
    path = draw(spectrum, method, np.array([stop]))
    warn_of_rounding(rounding_errors(spectrum, path.method, path.stops), stacklevel=3)
    return (
        path.coef[0].swapaxes(0, -1),
        path.intercept[0],
        float(np.mean(path.degrees_of_freedom[0])),
    )


def at_stops(spectrum: Spectrum, method: Method, stops: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the same with a stop of its own for each of many targets, a block of targets at a time."""
    s, z = spectrum.eigenvalues[:, None], spectrum.response
    method = method.tuned_to(spectrum.padded_eigenvalues)
    distinct, own = np.unique(stops, return_inverse=True)
    if spectrum.rounding is not None:
        errors = rounding_errors(spectrum, method, distinct)
        warn_of_rounding(errors[own, np.arange(len(stops))])
    if not method.has_filter:
        drawn, targets = draw(spectrum, method, distinct), np.arange(len(stops))
        freedom = drawn.degrees_of_freedom[own, targets]
        return drawn.coef[own, :, targets], drawn.intercept[own, targets], freedom
    _converged(spectrum, method, distinct)
    gain = method.gain(s, distinct)
    freedom = spectrum.freedom(gain, lambda atoms: method.gain(atoms, distinct))
    coef = empty(spectrum.feature_mean, (len(stops), spectrum.n_features), z.dtype)
    width = max(1, BLOCK_NUMBERS // max(len(s), 1))
    for start in range(0, len(stops), width):
        block = slice(start, start + width)
        components = (gain[:, own[block]] * z[:, block]).astype(z.dtype, copy=False)
        coef[block] = (spectrum.basis @ like(coef, components)).T
    intercept = spectrum.target_mean - coef @ spectrum.feature_mean
    return spectrum.rounded(coef), spectrum.rounded(intercept), freedom[own]
