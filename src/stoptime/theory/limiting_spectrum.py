r"""The eigenvalues of XᵀX/n as n and p grow together, for rows of any covariance.

With v = -1/u the companion transform, :math:`z = u + cu\sum_j w_j\tau_j/(u - \tau_j)`. On the real
line, :math:`u = a + ib`, its imaginary part says :math:`c\sum_j w_j\tau_j^2/|u-\tau_j|^2 = 1`,
which falls with b: each a of a *band*, where the sum exceeds one at b = 0, has one b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from stoptime.methods.base import Complex
from stoptime.support.arrays import EPS, TINY, Array, slices

PANEL_NODES = 16  # of the Gauss rule on each panel
MOST_PAIRED_NODES = 5000  # of an integral over two eigenvalues: its table has 200 MB
POPULATION_ENTRIES = 2**20  # of one table, nodes by population eigenvalues


class Points(NamedTuple):
    """Points of the support: the eigenvalue x = c|u|² Σ wτ/|u - τ|², u, dx/da and du/dx."""

    x: Array
    u: Complex
    stretch: Array
    du: Complex


@dataclass(frozen=True, eq=False)
class Population:
    """Eigenvalues of Σ in units of the largest, their shares of all directions, and c = p/n."""

    eigenvalues: Array
    shares: Array
    aspect: float
    unit: float

    @cached_property
    def positive(self) -> tuple[Array, Array]:
        """The positive eigenvalues, in ascending order, and their shares times c."""
        order = np.argsort(self.eigenvalues, kind="stable")
        order = order[(self.eigenvalues * self.shares)[order] > 0]
        # a wider band of a rare eigenvalue has the same mass, and rounding leaves it open
        # the relative width of a band is about the root of its load
        return self.eigenvalues[order], np.maximum(self.aspect * self.shares[order], 1e-24)

    @cached_property
    def surplus(self) -> float:
        """The number of positive eigenvalues of Σ per row, less one."""
        surplus = float(self.positive[1].sum()) - 1
        # shares that sum to one up to rounding must not make a tiny gap at zero
        return 0.0 if abs(surplus) < PANEL_NODES * EPS else surplus

    @property
    def has_null(self) -> bool:
        """Whether eigenvalues of XᵀX/n are zero, or come arbitrarily close to it."""
        return self.surplus >= 0 or bool(self.shares[self.eigenvalues == 0].any())

    @cached_property
    def null_point(self) -> float:
        """The u at z = 0, below zero where there are more positive eigenvalues than rows."""
        tau, load = self.positive
        if self.surplus <= 0:
            return 0.0
        return float(
            brentq(lambda u: self.surplus + load @ (u / (tau - u)), -load @ tau, 0.0, xtol=TINY)
        )

    def excess(self, a: Array, square: Array) -> tuple[Array, Array]:
        """Return the sum that is one on the support, less one, and its derivative by -b²."""
        tau, load = self.positive
        distance = (a[:, None] - tau) ** 2 + square[:, None]
        # τ²/|u - τ|² - 1 with a common denominator is accurate where u is close to zero
        level = 2 * a[:, None] * tau - (a**2 + square)[:, None]
        return self.surplus + (level / distance) @ load, (tau / distance) ** 2 @ load

    def _excess_at(self, a: float) -> float:
        # one less the reciprocal root of the sum: it is nearly linear in a next to an eigenvalue
        excess = float(self.excess(np.array([a]), np.zeros(1))[0][0])
        root = np.sqrt(1 + excess)
        return float(excess / (root * (1 + root)))

    def _falls(self, a: float) -> float:
        tau, load = self.positive
        return float((load * tau**2) @ (a - tau) ** -3.0)

    def _gaps(self) -> Iterator[float]:
        """Yield both ends of each interval of a between two eigenvalues that is in no band."""
        tau, load = self.positive
        near = np.sqrt(load) * tau / 2  # within it, the term of one eigenvalue exceeds four
        # the least sum of the two terms next to a gap; other terms only raise it
        least = 4 * (near[:-1] ** (2 / 3) + near[1:] ** (2 / 3)) ** 3
        for j in np.flatnonzero(least < np.diff(tau) ** 2):
            left = tau[j] + near[j]
            right = tau[j + 1] - near[j + 1]
            # the sum is convex, so that it is below one around its minimum or nowhere
            if left < right and self._falls(left) > 0 > self._falls(right):
                lowest = brentq(self._falls, left, right)
                if self._excess_at(lowest) < 0:
                    yield brentq(self._excess_at, left, lowest, xtol=TINY)
                    yield brentq(self._excess_at, lowest, right, xtol=TINY)

    @cached_property
    def bands(self) -> Array:
        """The intervals of a that make up the support, of shape (n_bands, 2)."""
        tau, load = self.positive
        if not tau.size:
            return np.empty((0, 2))
        near = np.sqrt(load) * tau / 2
        far = 4 * np.linalg.norm(near)  # beyond it, all terms together are at most a quarter
        first = 0.0
        if self.surplus:
            first = brentq(self._excess_at, tau[0] - far, tau[0] - near[0], xtol=TINY)
        last = brentq(self._excess_at, tau[-1] + near[-1], tau[-1] + far, xtol=TINY)
        return np.array([first, *self._gaps(), last]).reshape(-1, 2)

    @property
    def support(self) -> tuple[float, float]:
        """The smallest and the largest positive eigenvalue in the limit, not in units."""
        if not self.bands.size:
            return 0.0, 0.0
        lowest, highest = self.unit * self.points(self.bands.ravel()[[0, -1]]).x
        return float(lowest), float(highest)

    def height(self, a: Array) -> Array:
        """Return b at points a of the bands, by Newton's method for 1/sum as a function of b²."""
        tau, load = self.positive
        # No single term exceeds one. The reciprocal of the sum is concave in b², so that Newton's
        # method rises from this start to the root and never passes it.
        square = np.max(load * tau**2 - (a[:, None] - tau) ** 2, axis=1, initial=0.0)
        moving = np.arange(len(a))
        for _ in range(100):
            excess, slope = self.excess(a[moving], square[moving])
            step = excess * (1 + excess) / slope
            square[moving] += step
            # convergence is quadratic: the step after such a small one is below rounding
            moving = moving[step > 1e-9 * square[moving]]
            if not moving.size:
                break
        return np.asarray(np.sqrt(np.maximum(square, TINY)))

    def points(self, a: Array) -> Points:
        """Return the points of the support at points a of the bands."""
        rows = POPULATION_ENTRIES // max(1, len(self.positive[0]))
        blocks = [self._points(a[part]) for part in slices(max(1, len(a)), rows)]
        return Points(*(np.concatenate(one) for one in zip(*blocks, strict=True)))

    def _points(self, a: Array) -> Points:
        tau, load = self.positive
        b = self.height(a)
        u = np.asarray(a + 1j * b, dtype=np.complex128)
        distance = (a[:, None] - tau) ** 2 + b[:, None] ** 2
        x = np.abs(u) ** 2 * ((tau / distance) @ load)
        # z'(u) = 2b(bS + iT): on the support its real part is this sum of positive terms
        S = (tau / distance) ** 2 @ load
        T = ((tau / distance) ** 2 * (a[:, None] - tau)) @ load
        slope = np.asarray(2 * b * (b * S + 1j * T), dtype=np.complex128)
        return Points(x, u, 2 * (b**2 * S + T**2 / S), 1 / slope)

    def summed(self, term: Callable[[Complex, Array], Complex], u: Complex, w: Array) -> Complex:
        """Return the sum over the eigenvalues of w·term(u, τ), one for each u."""
        blocks = slices(len(u), POPULATION_ENTRIES // len(self.eigenvalues))
        parts = [term(u[one, None], self.eigenvalues) @ (self.shares * w) for one in blocks]
        return np.concatenate([np.empty(0), *parts])

    def density(self, points: Points, w: Array) -> Array:
        """Return the density of p⁻¹ tr w(Σ) f(Σ̂) at positive eigenvalues, for one w per τ."""
        total = self.summed(lambda u, tau: tau / np.abs(u - tau) ** 2, points.u, w)
        return points.u.imag / (np.pi * points.x) * total.real


@dataclass(frozen=True, eq=False)
class Panels:
    """Panels in the angle θ of each band, a = a₁ + (a₂ - a₁) sin²(θ/2): b is smooth."""

    population: Population
    edges: Array  # a₁ and a₂ of the band of each panel, of shape (n_panels, 2)
    angles: Array  # of both ends of each panel, of shape (n_panels, 2)

    def points(self, n_nodes: int) -> tuple[Points, Array]:
        """Return the points of a Gauss rule on every panel, and the weights of an integral by x."""
        nodes, w = np.polynomial.legendre.leggauss(n_nodes)
        half = np.diff(self.angles) / 2
        angle = self.angles[:, :1] + half * (1 + nodes)
        width = np.diff(self.edges)
        a = self.edges[:, :1] + width * np.sin(angle / 2) ** 2
        found = self.population.points(a.ravel())
        return found, (half * w * width / 2 * np.sin(angle)).ravel() * found.stretch


def panels_for(population: Population, phase: float, weights: Array, rough: float) -> Panels:
    """Return panels that resolve densities, decades of eigenvalues and phases up to t√x.

    Each row of ``weights`` is the w of a density. The last Legendre coefficients of the densities
    on a panel are at most ``rough`` of the largest.
    """
    edges = population.bands
    angles = np.tile([0.0, np.pi], (len(edges), 1))
    nodes, gauss = np.polynomial.legendre.leggauss(PANEL_NODES)
    to_legendre = np.linalg.inv(np.polynomial.legendre.legvander(nodes, PANEL_NODES - 1)).T
    done = []
    # towards an edge at zero, panels go down to 1e-13 of the interval
    for _ in range(45):
        if not 0 < len(edges) <= 20_000:
            break
        points, by_x = Panels(population, edges, angles).points(PANEL_NODES)
        x = points.x.reshape(-1, PANEL_NODES)
        # the eigenvalues of a panel differ by at most this factor, and their phases by six radians
        fine = x[:, -1] <= 8.0 * x[:, 0]
        fine &= phase * (np.sqrt(x[:, -1]) - np.sqrt(x[:, 0])) <= 6.0
        # the relative rounding error of b, from that of the sum and of a: no panel resolves less
        slope = 1 / points.du
        rounding = EPS * (1 + np.abs(points.u.real * slope.imag) / points.u.imag) / slope.real
        for w in weights:
            density = by_x * population.density(points, w)
            noise = (density * np.minimum(rounding, 1.0)).reshape(-1, PANEL_NODES) / gauss
            sizes = np.abs((density.reshape(-1, PANEL_NODES) / gauss) @ to_legendre)
            # ten rounding errors pass for smooth
            least = np.maximum(rough * sizes.max(axis=1), 10 * noise.max(axis=1))
            fine &= sizes[:, -2:].max(axis=1) <= least
        done.append((edges[fine], angles[fine]))
        edges = np.repeat(edges[~fine], 2, axis=0)
        middle = angles[~fine].mean(axis=1)
        angles = np.stack([angles[~fine, 0], middle, middle, angles[~fine, 1]], 1).reshape(-1, 2)
    parts = zip(*done, (edges, angles), strict=True)
    return Panels(population, *(np.concatenate(one) for one in parts))


@dataclass(frozen=True, eq=False)
class Limit:
    """The limiting eigenvalues of XᵀX/n, zero first, as nodes of an integral."""

    population: Population
    points: Points
    weights: Array

    @property
    def eigenvalues(self) -> Array:
        """Zero and the nodes."""
        return np.append(0.0, self.population.unit * self.points.x)

    def single(self, w: Array) -> Array:
        """Return the weights of p⁻¹ tr w(Σ) f(Σ̂), for one w per population eigenvalue."""
        tau = self.population.eigenvalues
        null = self.population.null_point
        # a direction without variance stays null, others by the resolvent at z = 0
        at_zero = np.divide(null, null - tau, out=np.ones(len(tau)), where=tau > 0)
        bulk = self.weights * self.population.density(self.points, w)
        return np.append(at_zero @ (self.population.shares * w), bulk)

    def paired(self, w: Array) -> Array:
        r"""Return the matrix of p⁻¹ tr w(Σ) f(Σ̂) Σ f(Σ̂), a quadratic form of f.

        The density beside the diagonal is :math:`(\beta(x)\alpha(y) - \alpha(x)\beta(y))/(x - y)`
        with :math:`\pi\beta = \operatorname{Im} h`, :math:`\pi\alpha = \operatorname{Im} hA`,
        :math:`h = -u/x`; on the diagonal it is :math:`-|h|^2\operatorname{Im} A/\pi`.
        """
        x, u, _, du = self.points
        if len(x) > MOST_PAIRED_NODES:
            raise ValueError(
                f"The prediction risk of this signal needs {len(x)} nodes, and at most "
                f"{MOST_PAIRED_NODES} are possible. Take earlier stops, or fewer eigenvalues of "
                "the covariance."
            )
        h = -u / x
        A = self.population.summed(lambda u, tau: tau / (u - tau), u, w)
        alpha = (h * A).imag / np.pi
        beta = h.imag / np.pi
        matrix = np.zeros((len(x) + 1, len(x) + 1))
        kernel = matrix[1:, 1:]
        np.multiply.outer(beta, alpha, out=kernel)
        kernel -= kernel.T.copy()
        between = np.subtract.outer(x, x)
        np.fill_diagonal(between, 1.0)
        kernel /= between
        # the limit of the quotient on the diagonal is a difference of derivatives by x
        dA = du * self.population.summed(lambda u, tau: -tau / (u - tau) ** 2, u, w)
        dh = (u / x - du) / x
        np.fill_diagonal(kernel, (dh.imag * alpha - (dh * A + h * dA).imag * beta) / np.pi)
        kernel *= np.multiply.outer(self.weights, self.weights)
        kernel[np.diag_indices(len(x))] -= self.weights * np.abs(h) ** 2 * A.imag / np.pi
        null = self.population.null_point
        if null < 0:
            # h has a pole at zero, so that null directions pair with themselves and with others
            share = self.population.shares * self.population.eigenvalues
            share /= null - self.population.eigenvalues
            matrix[0, 1:] = -null * self.weights * (alpha - (share @ w) * beta) / x
            matrix[1:, 0] = matrix[0, 1:]
            outside = self.population.excess(np.array([null]), np.zeros(1))[0][0]
            matrix[0, 0] = (share * w) @ (null**2 / (self.population.eigenvalues - null)) / outside
        return self.population.unit * matrix
