r"""A table of coefficients and their standard errors, at the stop of a fitted model.

.. math:: \mathrm{se}(\hat\beta_j)^2 = \frac{\sigma^2}n\sum_k v_{jk}^2\varphi_k^2s_k,
    \qquad \sigma^2 = \frac{\|y - \hat y\|^2}{n - \mathrm{tr}(2H - HH^T)}

with H the map from the response to the fit: its eigenvalues are sφ, and one for an intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.methods.base import Filter
from stoptime.spectrum.data import Want
from stoptime.support.arrays import Floats, on_host

if TYPE_CHECKING:
    from stoptime.stopping.comparison import Searched

NOTE = "Standard errors do not include the bias of stopping early: coef ± 2 se is no 95 % interval."


@dataclass(frozen=True, repr=False)
class CoefficientSummary:
    """Coefficients at a stop, and how much noise in the response moves them.

    ``coef`` and ``standard_errors`` have a row for each target, as ``noise``, the standard
    deviation of the response about its mean, and ``r2`` have an entry. Printed, it is a table.
    """

    title: str
    names: list[str]
    coef: Floats
    standard_errors: Floats
    intercept: Floats
    degrees_of_freedom: Floats
    noise: Floats
    r2: Floats
    n_samples: float
    targets: list[str] | None = None  #: Names of several targets, or of classes.

    def __repr__(self) -> str:
        width = max(map(len, [*self.names, "intercept"]))
        lines = [self.title]
        for target, noise in enumerate(self.noise):
            freedom = self.degrees_of_freedom[target]
            named = [] if self.targets is None else [f"\n{self.targets[target]}"]
            lines += [
                *named,
                f"{self.n_samples:g} rows, {freedom:.1f} degrees of freedom",
                f"R² {self.r2[target]:.3f}, standard deviation of the noise {noise:.4g}",
                f"{'':{width}} {'coef':>12} {'std err':>12}",
                f"{'intercept':{width}} {self.intercept[target]:>12.4g}",
            ]
            rows = zip(self.names, self.coef[target], self.standard_errors[target], strict=True)
            lines += [f"{name:{width}} {one:>12.4g} {error:>12.4g}" for name, one, error in rows]
        return "\n".join([*lines, NOTE])


def summarised(model: Any, searched: Searched) -> CoefficientSummary:
    """Return the table of a fitted model; the data are factored again."""
    method = model.method_
    spectrum = searched.rows.spectrum(Want.path(method, searched.stop))
    if spectrum.geometry is not None:
        raise ValueError("Standard errors are known without a penalty matrix only.")
    if not (isinstance(method, Filter) and spectrum.accuracy.complete):
        raise ValueError(
            "Standard errors need every eigenvalue, and a method that is linear in the response: "
            "choose one other than conjugate gradients, and a dense or small sparse X."
        )
    s = spectrum.eigenvalues[:, None].astype(np.float64)
    z = on_host(spectrum.response).reshape(len(s), -1).astype(np.float64)
    gain = method.gain(s, np.broadcast_to(np.asarray(searched.stop, np.float64), z.shape[1:]))
    learned = s * gain
    n = spectrum.n_observations
    power = np.atleast_1d(on_host(spectrum.target_power)).astype(np.float64)
    # the mean square of y - ŷ is that of y minus Σ z²φ(2 - sφ)
    residual = np.maximum(power - (z**2 * gain * (2 - learned)).sum(axis=0), 0)
    left = n - spectrum.fit_intercept - (learned * (2 - learned)).sum(axis=0)
    noise = np.sqrt(n * residual / np.where(left > 0.5, left, np.nan))
    squares = np.asarray(on_host(spectrum.vectors), np.float64) ** 2
    spread = np.sqrt(squares @ (gain**2 * s) / n)
    names = getattr(model, "feature_names_in_", None)
    numbered = [f"target {i}" for i in range(len(noise))]
    targets = getattr(model, "_target_names", []) or numbered
    return CoefficientSummary(
        title=f"{type(model).__name__}: {method} stopped at {np.round(searched.stop, 4)}",
        names=[f"x{j}" for j in range(len(spread))] if names is None else list(map(str, names)),
        coef=np.atleast_2d(on_host(model.coef_)),
        standard_errors=(noise * spread).T,
        intercept=np.atleast_1d(on_host(model.intercept_)),
        degrees_of_freedom=learned.sum(axis=0) + spectrum.fit_intercept,
        noise=noise,
        r2=1 - residual / power,
        n_samples=spectrum.n_samples,
        targets=targets if len(noise) > 1 else None,
    )
