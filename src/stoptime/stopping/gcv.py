"""Generalised cross-validation of a path: leave-one-out for an average row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv

from stoptime.left_out.curve import ErrorCurve, standard_error
from stoptime.left_out.residuals import operators_of, route_to
from stoptime.left_out.rows import average_row
from stoptime.methods.base import Method, as_filter
from stoptime.methods.recurrence import tuned_without_rows
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Butterworth, Ridge
from stoptime.spectrum.base import Spectrum
from stoptime.stopping.rule import Choice, CurveRule, choice_at
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import list_of_stops
from stoptime.support.user_warnings import warn_user

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem


def shaped(errors: Floats, spectrum: Spectrum) -> Floats:
    """Return errors (n_stops, n_targets) without the second axis where y was a vector."""
    return errors[:, 0] if spectrum.response.ndim == 1 else errors


def path_gcv(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Floats:
    r"""Estimate the leave-one-out error of a method at many stops from the spectrum alone.

    The left-out residual of row i solves a Volterra equation with a function :math:`k_i` of its
    own. Here all rows share the mean of these functions:

    .. math:: e_i(t) = r_i(t) + \int_0^t \bar k(t, \tau)\, e_i(\tau)\, d\tau, \qquad
        \bar k = \frac1n \sum_i k_i

    For ridge that is generalised cross-validation, except that the fit without a row is normalised
    by the remaining rows. For every other method, unlike :func:`naive_gcv`, it stays close to
    leave-one-out.

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data. Where not every eigenvalue is known it needs random probes,
        ``decompose(..., probes=10)``.
    method, stops : Method or str, and array-like of shape (n_stops,)
        The method and non-negative stops; ``inf`` is least squares, which needs every eigenvalue.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import decompose
    >>> spectrum = decompose(*load_diabetes(return_X_y=True))
    >>> path_gcv(spectrum, "accelerated-flow", [10, 100, 1000]).round(1)
    array([5511., 3023., 3009.])

    See Bellec, Tan (2024), Uncertainty quantification for iterative algorithms in linear models.
    """
    return _path_gcv(spectrum, get_method(method), list_of_stops(stops))[0]


def _path_gcv(spectrum: Spectrum, method: Method, stops: Array) -> tuple[Floats, Floats]:
    """Return the same, and the number of directions of the residual on which it rests."""
    if spectrum.n_observations < 1 + spectrum.n_unpenalised + 1e-9:
        fewest = spectrum.n_unpenalised + 2
        raise ValueError(
            f"X must have at least {({2: 'two', 3: 'three'}).get(fewest, fewest)} rows of positive "
            "sample_weight: with fewer, nothing can be learned after leaving one row out."
        )
    if not spectrum.accuracy.complete and np.isinf(stops).any():
        raise ValueError("Path GCV needs finite stops unless every eigenvalue is known; got inf.")
    s = spectrum.eigenvalues.astype(np.float64)
    counts = np.ones(len(s))
    energy, rest = spectrum.energies()
    if not spectrum.accuracy.complete:
        # response and density are known at different nodes: each is zero at those of the other
        atoms, weights = spectrum.atoms
        order = np.argsort(np.concatenate([s, atoms]))
        s = np.concatenate([s, atoms])[order]
        counts = np.concatenate([0 * counts, weights])[order]
        energy = np.concatenate([energy, np.zeros((len(atoms), energy.shape[1]))])[order]
    row = average_row(counts, spectrum.n_observations, spectrum.n_unpenalised)
    if spectrum.accuracy.complete and row.rest[0] == 0:
        # the columns span all rows, so a response outside of them is rounding
        rest = 0 * rest
    tuned = as_filter(tuned_without_rows(method, spectrum.padded_eigenvalues, float(row.scale[0])))
    source, mix = route_to(tuned, stops, s, row.scale)
    own, images = operators_of(source, row)
    alpha = mix.coordinates[0].T @ own[0]
    slopes = mix.coordinates[0].T @ images[0]
    errors = np.multiply.outer(alpha, np.sqrt(rest)) ** 2 + slopes**2 @ energy
    # a weighted sum of k squares, of the variance of a plain sum of fewer: by Welch, Satterthwaite
    beyond = max(spectrum.n_observations - spectrum.n_unpenalised - counts.sum(), 0.0)
    squares = beyond * alpha**2 + slopes**2 @ counts
    directions = squares**2 / (beyond * alpha**4 + slopes**4 @ counts)
    return shaped(errors, spectrum), directions


def _luck(directions: Floats | float, chance: float) -> Floats:
    """Return the factor by which a mean of squares of noise is too low with this probability."""
    return np.asarray(directions / (2 * gammaincinv(np.asarray(directions) / 2, chance)))


def _spread_of_probes(spectrum: Spectrum, method: Method, stops: Array) -> Floats | None:
    """Return the standard error of path GCV where random probes estimate its trace."""
    density = spectrum.density
    if spectrum.accuracy.complete or density is None or density.n_probes < 2:
        return None
    alone = [replace(spectrum, density=density.of_probe(k)) for k in range(density.n_probes)]
    return standard_error(np.array([path_gcv(one, method, stops) for one in alone]))


def naive_gcv(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Floats:
    r"""Return textbook generalised cross-validation; warn for every method except ridge.

    .. math:: \frac{\frac1n\sum_i r_i(t)^2}{(1 - \mathrm{df}(t)/n)^2}

    Parameters and result are those of :func:`path_gcv`; the error is infinite where every degree of
    freedom is used.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import decompose
    >>> spectrum = decompose(*load_diabetes(return_X_y=True))
    >>> naive_gcv(spectrum, "ridge", [100, 1000]).round(1)
    array([4230.4, 3104.4])

    References
    ----------
    Patil, Wu, Tibshirani (2024), Failures and successes of cross-validation for early-stopped
    gradient descent.
    """
    method = get_method(method)
    _warn_of_gcv(method)
    return shaped(gcv_errors(spectrum, method, stops), spectrum)


def _warn_of_gcv(method: Method) -> None:
    if not isinstance(method, Ridge) and method != Butterworth(order=1):
        warn_user(
            f"Generalised cross-validation is inconsistent for {method.name}, and for every "
            'method except ridge: use rule="path-gcv" or rule="loo".',
            UserWarning,
        )


def gcv_errors(spectrum: Spectrum, method: Method, stops: ArrayLike) -> Floats:
    """Return the same without a warning, of shape (n_stops, n_targets)."""
    stops = list_of_stops(stops)
    energy, rest = spectrum.energies()
    tuned = as_filter(method).tuned_to(spectrum.padded_eigenvalues)
    g = tuned.shrinkage(spectrum.eigenvalues.astype(np.float64), stops[:, None])
    atoms, weights = spectrum.atoms
    freedom = (1 - tuned.shrinkage(atoms, stops[:, None])) @ weights + spectrum.n_unpenalised
    left = 1 - freedom / spectrum.n_observations
    errors = np.full((len(stops), len(rest)), np.inf)
    free = left > 1e-12  # less is rounding: no degree of freedom is left
    errors[free] = (g[free] ** 2 @ energy + rest) / left[free, None] ** 2
    return errors


@dataclass(frozen=True)
class PathGCV(CurveRule):
    """Generalised cross-validation adapted to paths; see :func:`stoptime.path_gcv`.

    Where random probes estimate a trace, the standard error is that of the trace alone. Stops are
    compared by raised errors where these rest on a few directions of the residual: near
    interpolation a single one may decide, and some of many targets have hardly any response there.
    """

    name: ClassVar[str] = "path-gcv"
    _uses_trace: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the left-out error at the stops from the spectrum alone."""
        errors = path_gcv(problem.spectrum, problem.tuned, stops)
        return ErrorCurve(stops, errors, _spread_of_probes(problem.spectrum, problem.tuned, stops))

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least raised error; see :meth:`Rule.choose`."""
        choice = _Raised().choose(problem, stops, per_target=per_target)
        # what is reported is path GCV itself
        stops = np.union1d(choice.curve.stops, choice.stop)
        curve = self.errors(problem.reaching(stops), stops)
        at = np.atleast_1d(np.searchsorted(stops, choice.stop))
        return choice_at(at, curve, choice.message, per_target=np.ndim(choice.stop) > 0)


class _Raised(PathGCV):
    """The errors by which stops are compared, raised where they rest on few directions."""

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return path GCV times the factor by which luck may have made it too low."""
        spectrum = problem.spectrum
        errors, directions = _path_gcv(spectrum, problem.tuned, stops)
        # twenty directions are enough, or a fifth of all
        total = spectrum.n_observations - spectrum.n_unpenalised
        enough = min(20.0, 0.2 * total)
        # every target may choose its own stop, and then the luckiest of many decides
        chance = 1e-3 / np.size(spectrum.target_power)
        factor = np.maximum(_luck(directions, chance) / _luck(enough, chance), 1)
        return ErrorCurve(stops, (errors.T * factor).T)

    choose = CurveRule.choose


@dataclass(frozen=True)
class GCV(CurveRule):
    """Textbook generalised cross-validation; it warns for every method except ridge."""

    name: ClassVar[str] = "gcv"
    compares_methods: ClassVar[bool] = False
    only_method: ClassVar[str] = "ridge"  # for no other one it is consistent
    _uses_trace: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops; see :func:`stoptime.naive_gcv`."""
        return ErrorCurve(
            stops, shaped(gcv_errors(problem.spectrum, problem.tuned, stops), problem.spectrum)
        )

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least error; see :meth:`Rule.choose`."""
        _warn_of_gcv(problem.method)
        return super().choose(problem, stops, per_target=per_target)
