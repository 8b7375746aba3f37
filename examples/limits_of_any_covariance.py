"""
Limits for rows of any covariance
=================================

With many rows and many columns the risk of a path hardly depends on the data. It is a function of
the covariance of the rows, of p/n, of the signal and of the noise, and needs no data.
"""

# %%
# A quarter of the directions has a tenfold variance, and the signal leans towards them. One random
# design with 400 rows is close to the limit at every stop, oscillations included.

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

covariance = ([1.0, 10.0], [0.75, 0.25])
signal = [0.5, 2.5]  # squared coefficients by direction, times p
n, p = 400, 480
rng = np.random.default_rng(0)
tau = np.repeat(covariance[0], [360, 120])
X = rng.standard_normal((n, p)) * np.sqrt(tau)
s, V = np.linalg.eigh(X.T @ X / n)

_, ax = plots.new_figure(figsize=(7, 4.2))
known = {"aspect": p / n, "noise": 1.0, "covariance": covariance}
for name in ("ridge", "gradient-flow", "accelerated-flow"):
    method = st.get_method(name)
    stops = np.geomspace(0.02, 10, 80) if method.time_power == 1 else np.geomspace(0.2, 12, 80)
    limit = st.limiting_risk(method, stops, signal=signal, target="prediction", **known)
    few = stops[::8]
    g, gain = (part(np.maximum(s, 0)[:, None], few) for part in (method.shrinkage, method.gain))
    prior = (V.T * np.repeat(signal, [360, 120])) @ V * ((V.T * tau) @ V) / p
    drawn = np.sum(g * (prior @ g), axis=0) + tau @ V**2 @ (s[:, None] * gain**2) / n
    # comparable units: the gain of null directions
    x = few if method.time_power == 1 else few**2 / 8
    line = stops if method.time_power == 1 else stops**2 / 8
    ax.plot(line, limit.total, color=plots.COLORS[name], label=plots.LABELS[name])
    ax.plot(x, drawn, "o", color=plots.COLORS[name], markersize=4)
    error = float(limit.quadrature_error.max())
    gap = np.abs(drawn / limit.total[::8] - 1).max()
    print(
        f"{plots.LABELS[name]:>16}: error of the integrals {error:.0e}, one design {gap:.1%} away"
    )
ax.set(xscale="log", xlabel="gain", ylabel="prediction risk", title="limit (lines), one design")
ax.legend()

# %%
# Learning curves: eigenvalues fall like 1/i, the signal like i⁻³. Ridge saturates: from some number
# of rows on, no penalty makes up for its slower rate.

number = np.arange(1.0, 121)
powers = {"covariance": (1 / number, np.ones(120)), "signal": 120 * number**-3.0, "noise": 0.01}
sizes = np.geomspace(20, 2000, 6)
_, ax = plots.new_figure(figsize=(7, 4.2))
for name in ("ridge", "gradient-flow", "critical-flow"):
    stops = [0.0, 1e4 if st.get_method(name).time_power == 1 else 300.0]
    curves = [
        st.limiting_risk(name, stops, aspect=120 / n, target="prediction", **powers) for n in sizes
    ]
    least = np.array([curve.best_total for curve in curves])
    ax.plot(sizes, least, "o-", color=plots.COLORS[name], label=plots.LABELS[name], markersize=4)
    exponents = np.diff(np.log(least)) / np.diff(np.log(sizes))
    print(f"{plots.LABELS[name]:>22}: exponents {exponents.round(2)}")
ax.set(xscale="log", yscale="log", xlabel="rows n", ylabel="least prediction risk")
ax.legend()
plt.show()
