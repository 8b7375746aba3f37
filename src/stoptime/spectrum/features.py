"""Paths of methods that see the features themselves, from the products in a spectrum."""

from __future__ import annotations

import numpy as np

from stoptime.methods.adaptive import Adaptive, Products
from stoptime.spectrum.base import Spectrum
from stoptime.support.arrays import Array, Floats, on_host


def coefficients(spectrum: Spectrum, method: Adaptive, stops: Floats) -> Array:
    """Return the coefficients of a method that sees features, (n_stops, p, n_targets)."""
    with np.errstate(over="ignore", invalid="ignore"):
        coef = method.coefficients_at(*_products(spectrum, method), stops)
    if not np.isfinite(coef).all():
        raise ValueError(f"Coefficients of {method} overflow: rescale X and y, or use another lr.")
    return coef


def freedom(spectrum: Spectrum, method: Adaptive, stops: Floats) -> Array:
    """Return its degrees of freedom, one for each stop, and for each target if there are many."""
    trace = method.freedom_at(*_products(spectrum, method), stops) + spectrum.fit_intercept
    return trace[:, 0] if spectrum.response.ndim == 1 else trace


def _products(spectrum: Spectrum, method: Adaptive) -> tuple[Products, Array]:
    """Return XᵀX/n, and Xᵀy/n with one column for each target."""
    if spectrum.solver == "kernel":
        raise ValueError(f"{method.name} sees features, and a kernel has none: fit linear columns.")
    if spectrum.geometry is not None:
        raise ValueError(f"{method.name} has a geometry of its own: give no penalty_matrix.")
    vectors = on_host(spectrum.vectors).astype(np.float64, copy=False)
    products = Products(vectors, spectrum.eigenvalues.astype(np.float64))
    z = spectrum.response.astype(np.float64)
    return products, vectors @ z.reshape(len(z), int(np.prod(z.shape[1:])))
