"""Generalised cross-validation of a path: leave-one-out with all rows made alike, and no row-wise work."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import standard_error
from stoptime.left_out.routing import cheapest_route, last_stop
from stoptime.left_out.rows import average_row
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.stopping.problem import energies, shaped
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import list_of_stops

__all__ = ["naive_gcv", "path_gcv", "path_gcv_with_spread"]

EXHAUSTED = 1e-12  # share of the degrees of freedom below which none is left


def path_gcv(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Floats:
    r"""Estimate the leave-one-out error of a method at many stops from the spectrum alone.

    Leaving row i out changes the path by a Volterra equation with a kernel of its own,

    .. math:: e_i(t) = r_i(t) + \int_0^t \bar k(t, \tau)\, e_i(\tau)\, d\tau, \qquad
        \bar k = \frac1n \sum_i k_i;

    here all rows share the mean kernel. For ridge that is generalised cross-validation, but that the fit
    without a row is normalised by the rows that are left. For every other method, unlike
    :func:`naive_gcv`, it stays close to leave-one-out.

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data; one of Ritz values needs random probes, ``decompose(..., probes=10)``.
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares, which a Krylov space does not know.

    Returns
    -------
    array of shape (n_stops,) or (n_stops, n_targets)
        Mean squared errors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import decompose
    >>> spectrum = decompose(*load_diabetes(return_X_y=True))
    >>> path_gcv(spectrum, "nesterov-flow", [10, 100, 1000]).round(1)
    array([5511., 3023., 3009.])

    References
    ----------
    Bellec, Tan (2024), Uncertainty quantification for iterative algorithms in linear models.
    """
    return path_gcv_with_spread(spectrum, method, stops, spread=False)[0]


def path_gcv_with_spread(
    spectrum: Spectrum, method: str | Method, stops: ArrayLike, *, spread: bool = True
) -> tuple[Floats, Floats | None]:
    """Return :func:`path_gcv` and, where its trace is from random probes, the standard error they leave."""
    errors = _path_gcv(spectrum, method, stops)
    density = spectrum.density
    if spectrum.krylov is None or density is None or density.n_probes < 2 or not spread:
        return errors, None
    alone = [replace(spectrum, density=density.of_probe(k)) for k in range(density.n_probes)]
    curves = np.array([_path_gcv(one, method, stops) for one in alone])
    return errors, standard_error(curves)


def _path_gcv(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Floats:
    stops, s = list_of_stops(stops), spectrum.eigenvalues.astype(np.float64)
    energy, rest = energies(spectrum)
    if spectrum.n_observations < 1 + spectrum.fit_intercept + 1e-9:
        raise ValueError(
            f"X must have at least {'three' if spectrum.fit_intercept else 'two'} rows of positive "
            "sample_weight: of fewer, generalised cross-validation leaves nothing to learn from."
        )
    if spectrum.krylov is not None and np.isinf(stops).any():
        raise ValueError(
            "Generalised cross-validation of a Krylov space needs finite stops; got inf."
        )
    counts = np.ones(len(s))
    if spectrum.krylov is not None:  # the response has its own nodes, of which no row has a share
        atoms, weights = spectrum.atoms
        s, counts = np.concatenate([s, atoms]), np.concatenate([np.zeros(len(s)), weights])
        energy = np.concatenate([energy, np.zeros((len(atoms), energy.shape[1]))])
        order = np.argsort(s)
        s, counts, energy = s[order], counts[order], energy[order]
    row = average_row(counts, spectrum.n_observations, spectrum.fit_intercept)
    if (
        spectrum.krylov is None and row.rest[0] == 0
    ):  # all is reached: what is left of the power is rounding
        rest = 0 * rest
    late, slopes = np.ones(len(stops)), np.ones((len(stops), len(s)))
    tuned = get_method(method).tuned_without_rows(spectrum.padded_eigenvalues, float(row.scale[0]))
    end = stops >= last_stop(tuned, s)
    between = (stops > 0) & ~end
    if between.any():
        route = cheapest_route(tuned, stops[between], s, row.scale)
        alpha, c = route.operators(row)
        late[between], slopes[between] = alpha[:, 0], c[:, 0]
    if end.any():
        late[end], slopes[end] = _converged(row.rest[0], row.shares[0], s)
    errors = np.multiply.outer(late, np.sqrt(rest)) ** 2 + slopes**2 @ energy
    return shaped(errors * row.stretch[0] ** 2, spectrum)


def naive_gcv(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Floats:
    r"""Return the textbook's generalised cross-validation, which is right for ridge only.

    .. math:: \frac{\frac1n\sum_i r_i(t)^2}{(1 - \mathrm{df}(t)/n)^2}

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data.
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares.

    Returns
    -------
    array of shape (n_stops,) or (n_stops, n_targets)
        Infinite where every degree of freedom is used.

    Warns
    -----
    UserWarning
        For every method but ridge.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import decompose
    >>> spectrum = decompose(*load_diabetes(return_X_y=True))
    >>> naive_gcv(spectrum, "ridge", [100, 1000]).round(1)
    array([4230.4, 3104.4])

    References
    ----------
    Patil, Wu, Tibshirani (2024), Failures and successes of cross-validation for early-stopped gradient
    descent.
    """
    method = get_method(method)
    if not method.gcv_is_consistent:
        warnings.warn(
            f"Generalised cross-validation is inconsistent for {method.name}, and for every method but "
            "ridge: use path_gcv or leave_one_out.",
            UserWarning,
            stacklevel=2,
        )
    stops, s = list_of_stops(stops), spectrum.eigenvalues.astype(np.float64)
    energy, rest = energies(spectrum)
    method = method.tuned_to(spectrum.padded_eigenvalues)
    g, (atoms, weights) = method.shrinkage(s, stops[:, None]), spectrum.atoms
    freedom = (1 - method.shrinkage(atoms, stops[:, None])) @ weights + spectrum.fit_intercept
    left = 1 - freedom / spectrum.n_observations
    errors = np.full((len(stops), len(rest)), np.inf)
    free = left > EXHAUSTED
    errors[free] = (g[free] ** 2 @ energy + rest) / left[free, None] ** 2
    return shaped(errors, spectrum)


def _converged(rest: float, shares: Array, s: Array) -> tuple[float, Array]:
    """Return what least squares, fitted without the average row, leaves of its residual and its fit."""
    if rest > 0:
        return 1 / rest, np.zeros(len(s))
    spread = s[0] / s
    return 0.0, spread / (shares @ spread)
