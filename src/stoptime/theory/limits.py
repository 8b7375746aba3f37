r"""The limit of the risk as n and p grow together.

For rows with independent entries of unit variance and p/n → c, the eigenvalues of XᵀX/n fill
:math:`[(1-\sqrt c)^2, (1+\sqrt c)^2]` with the Marchenko-Pastur density, and for c > 1 the share
1 - 1/c of them is zero.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from stoptime.methods.registry import get_method
from stoptime.support.checks import nonnegative, positive_number
from stoptime.theory.risk import RiskCurve, RiskModel, curve_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from stoptime.methods.base import Method
    from stoptime.support.arrays import Array

GRADED_PANELS = 45  # each half as long as the one before: down to 1e-13 of the left edge
NODES_PER_PANEL = 16
PHASE_PER_PANEL = 6.0
LATEST_LIMIT_STOP = 1e4  # later stops would need too many nodes


def marchenko_pastur(aspect: float, phase: float = 0.0) -> tuple[Array, Array]:
    r"""Return nodes and weights that integrate against the Marchenko-Pastur bulk.

    .. math:: \int h\,dF_c = \frac{2}{\pi}
        \int_0^\pi h(s(\theta)) \frac{\sin^2\theta}{s(\theta)} d\theta,
        \qquad s(\theta) = 1 + c + 2\sqrt c\cos\theta

    The weights sum to min(1, 1/c); the remaining eigenvalues are zero. The ``aspect`` is c = p/n.
    For filters that oscillate like cos(t√s), ``phase`` is the largest t; it adds nodes.

    Examples
    --------
    >>> nodes, weights = marchenko_pastur(0.5)
    >>> round(float(weights.sum()), 12), round(float(weights @ nodes), 12)
    (1.0, 1.0)
    """
    root = np.sqrt(positive_number("aspect", aspect))
    # θ = π is the lower edge, where 1/s is large if c is near one: panels shrink towards it
    edges = [0.0]
    for k in range(GRADED_PANELS):
        end = np.pi * (1 - 0.5 ** (k + 1)) if k + 1 < GRADED_PANELS else np.pi
        pieces = ceil(1 + phase * min(root, 1) * (end - edges[-1]) / PHASE_PER_PANEL)
        edges.extend(np.linspace(edges[-1], end, pieces + 1)[1:])
    left = np.array(edges[:-1])[:, None]
    right = np.array(edges[1:])[:, None]
    x, w = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    # use π - θ, which stays exact near the lower edge
    from_edge = np.pi - (left + right) / 2 - (right - left) / 2 * x
    s = (1 - root) ** 2 + 4 * root * np.sin(from_edge / 2) ** 2
    weights = (right - left) / np.pi * w * np.sin(from_edge) ** 2 / s
    return s.ravel(), weights.ravel()


def limiting_risk(
    method: str | Method, stops: ArrayLike, *, aspect: float, signal: float, noise: float
) -> RiskCurve:
    r"""Return the limit of the Bayes estimation risk as n and p grow with p/n → c.

    .. math:: r^2\Bigl[\int g^2\,dF_c + (1 - 1/c)_+\Bigr] + \sigma^2 c \int s\varphi^2\,dF_c

    Rows are isotropic, so this is also the risk of predicting new rows, less the noise itself. The
    ``aspect`` is c = p/n, below, at or above one; the other parameters are those of
    :func:`bayes_risk`. "critical" damping is that of the lower edge of the bulk, for c < 1.

    Examples
    --------
    >>> curve = limiting_risk("ridge", [0.1, 10.0], aspect=1.0, signal=1.0, noise=1.0)
    >>> round(curve.best, 6), round(curve.best_total, 6)
    (1.0, 0.618034)
    """
    r2 = nonnegative("signal", signal)
    sigma2 = nonnegative("noise", noise)
    t = nonnegative("stops", stops, infinite=True)
    last = np.max(t, initial=0, where=np.isfinite(t))
    if last > LATEST_LIMIT_STOP:
        raise ValueError(
            f"stops must be at most {LATEST_LIMIT_STOP:g}, or inf for the limit; got {last:g}."
        )
    method = get_method(method)
    if method.counts_eigenvalues:
        raise ValueError(f"{method.name} counts eigenvalues, and in the limit there is no number.")
    nodes, weights = marchenko_pastur(aspect, 2 * last if method.order == 2 else 0.0)
    missing = max(0.0, 1 - 1 / aspect)
    # the smallest node is not the edge of the bulk, so the method is tuned to the edges
    lower_edge = (1 - np.sqrt(aspect)) ** 2 if aspect < 1 else 0.0
    model = RiskModel(
        method.tuned_to([lower_edge, (1 + np.sqrt(aspect)) ** 2]),
        np.append(0.0, nodes),
        r2 * np.append(missing, weights),
        sigma2 * aspect * np.append(0.0, weights),
    )
    return curve_of(model, t)
