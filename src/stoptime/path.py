"""The path: coefficients at many stops, from one spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from stoptime.arrays import empty, is_tensor, like
from stoptime.backends import decompose
from stoptime.backends.chunks import Chunks
from stoptime.backends.dense import DTYPES
from stoptime.backends.kinds import STREAMED, kind_of
from stoptime.methods import ConjugateGradient, Iteration, Method, get_method
from stoptime.methods.base import list_of_stops
from stoptime.methods.krylov import conjugate_gradients
from stoptime.spectrum import Floats, Spectrum
from stoptime.statistics import Statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCK_NUMBERS = 2**22  # of a temporary array

__all__ = ["Path", "at_stop", "at_stops", "draw", "largest_gain", "path"]


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
        gradients have a filter of their own, and a column here, for each of many targets.
    """

    method: Method
    stops: Floats
    coef: Floats
    intercept: Floats
    degrees_of_freedom: Floats

    def predict(self, X: ArrayLike) -> Floats:
        """Predict at every stop.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n_stops, n) or (n_stops, n, n_targets)
        """
        if kind_of(X) in STREAMED:
            raise TypeError("X must be rows in memory here: take one stop, and the predict of an estimator.")
        rows: Any = X if is_tensor(X) else check_array(X, dtype=DTYPES, input_name="X")
        if rows.shape[1] != self.coef.shape[1]:
            raise ValueError(
                f"X has {rows.shape[1]} features, but the path was drawn with {self.coef.shape[1]}."
            )
        fit = self.coef @ rows.T if self.coef.ndim == 2 else rows @ self.coef
        return fit + self.intercept[:, None]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients against the stop; see :func:`stoptime.plots.coefficients`."""
        from stoptime import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.coefficients(self, ax=ax)

    def __repr__(self) -> str:
        first, last = (f"{stop:.4g}" for stop in self.stops[[0, -1]]) if len(self.stops) else ("-", "-")
        shape = " x ".join(map(str, self.coef.shape[1:]))
        return f"Path({self.method}, {len(self.stops)} stops from {first} to {last}, {shape} coefficients)"


@overload
def path(spectrum: Spectrum, method: str | Method, stops: ArrayLike, /) -> Path: ...
@overload
def path(data: Chunks | Statistics, method: str | Method, stops: ArrayLike, /, **options: Any) -> Path: ...
@overload
def path(X: Any, y: ArrayLike, method: str | Method, stops: ArrayLike, /, **options: Any) -> Path: ...
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
        ``sample_weight``, ``fit_intercept``, ``solver``: passed to :func:`stoptime.decompose`.

    Returns
    -------
    Path

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> path(*load_diabetes(return_X_y=True), "nesterov-flow", [10, 100, 1000])
    Path(AcceleratedFlow(friction=3.0), 3 stops from 10 to 1000, 10 coefficients)
    """
    first = next(iter(arguments), None)
    if len(arguments) != (3 if isinstance(first, Spectrum | Chunks | Statistics) else 4):
        raise TypeError("path takes (X, y, method, stops) or (spectrum, method, stops).")
    *data, name, stops = arguments
    method = get_method(name)
    stops = list_of_stops(stops)
    if isinstance(first, Spectrum):
        if options:
            raise TypeError(f"{', '.join(options)}: options of the data, which a spectrum has fixed.")
        return draw(first, method, stops)
    options.setdefault("max_gain", largest_gain(method, stops))
    return draw(decompose(*data, **options), method, stops)


def largest_gain(method: Method, stops: ArrayLike) -> float:
    """Return a bound of the gain φ(s, t) over all eigenvalues at the largest stop."""
    if isinstance(method, ConjugateGradient) or (isinstance(method, Iteration) and method.step == "auto"):
        return np.inf  # it depends on the data, which are not yet factored
    with np.errstate(over="ignore"):
        return float((method.pace * np.max(stops, initial=0)) ** method.order)


def draw(spectrum: Spectrum, method: Method, stops: Floats) -> Path:
    """Draw the path of a method from a spectrum; arguments already validated."""
    method = method.tuned_to(spectrum.padded_eigenvalues)
    s, z = spectrum.eigenvalues[:, None], spectrum.response
    if isinstance(method, ConjugateGradient):
        components, freedom = _conjugate(spectrum, stops)
    else:
        gain = method.gain(s, stops)
        components = gain * z[:, None] if z.ndim == 1 else gain[:, :, None] * z[:, None, :]
        freedom = (gain * s).sum(axis=0) + spectrum.fit_intercept
    with np.errstate(over="ignore", invalid="ignore"):
        flat = components.reshape(len(z), int(np.prod(components.shape[1:]))).astype(z.dtype, copy=False)
        coef = spectrum.basis @ like(spectrum.feature_mean, flat)
    coef = coef.reshape(spectrum.n_features, len(stops), *z.shape[1:]).swapaxes(0, 1)
    if not (abs(coef) < np.inf).all():
        raise ValueError("Coefficients overflow at the largest stops: stop earlier, or rescale X and y.")
    columns = coef if coef.ndim == 2 else coef.swapaxes(1, 2)
    intercept = spectrum.target_mean - columns @ spectrum.feature_mean
    return Path(method, stops, spectrum.rounded(coef), spectrum.rounded(intercept), freedom)


def _conjugate(spectrum: Spectrum, stops: Floats) -> tuple[Floats, Floats]:
    """Return components of conjugate gradients, and Σ (1 - g) of the filter that each response has made."""
    s, z = spectrum.eigenvalues.astype(np.float64), spectrum.response
    columns = z.reshape(len(s), int(np.prod(z.shape[1:])))
    runs = [conjugate_gradients(s, column, stops) for column in columns.T]
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # of a filter that rounding has undone, late in the run
        freedom = np.array([[s @ one.gain(s) for one in run.filters] for run in runs]).T
    freedom = freedom + spectrum.fit_intercept
    components = np.stack([run.components.T for run in runs], axis=-1)
    return (components[..., 0], freedom[:, 0]) if z.ndim == 1 else (components, freedom)


def at_stop(spectrum: Spectrum, method: Method, stop: float) -> tuple[Floats, Floats, float]:
    """Return coefficients (targets first), intercept and degrees of freedom at one stop."""
    path = draw(spectrum, method, np.array([stop]))
    return path.coef[0].swapaxes(0, -1), path.intercept[0], float(np.mean(path.degrees_of_freedom[0]))


def at_stops(spectrum: Spectrum, method: Method, stops: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the same with a stop of its own for each of many targets, a block of targets at a time."""
    s, z = spectrum.eigenvalues[:, None], spectrum.response
    distinct, own = np.unique(stops, return_inverse=True)
    gain = method.tuned_to(spectrum.padded_eigenvalues).gain(s, distinct)
    freedom = (gain * s).sum(axis=0) + spectrum.fit_intercept
    coef = empty(spectrum.feature_mean, (len(stops), spectrum.n_features), z.dtype)
    width = max(1, BLOCK_NUMBERS // max(len(s), 1))
    for start in range(0, len(stops), width):
        block = slice(start, start + width)
        components = (gain[:, own[block]] * z[:, block]).astype(z.dtype, copy=False)
        coef[block] = (spectrum.basis @ like(coef, components)).T
    intercept = spectrum.target_mean - coef @ spectrum.feature_mean
    return spectrum.rounded(coef), spectrum.rounded(intercept), freedom[own]
