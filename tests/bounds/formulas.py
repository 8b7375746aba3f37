"""Shrinkages and the ratio of risks straight from their definitions, in floating point."""

import numpy as np
from scipy.special import gamma, jv

import stoptime as st


def bessel(friction, u):
    """The shrinkage of accelerated flow, straight from its definition."""
    nu = (friction - 1) / 2
    return gamma(nu + 1) * (2 / u) ** nu * jv(nu, u)


def oscillation(a, u):
    """The shrinkage of heavy-ball flow at unit time, straight from its definition."""
    b = np.sqrt(np.maximum(u**2 - a**2, 0))
    return np.exp(-a) * (np.cos(b) + a * np.sinc(b / np.pi))


def risk_ratio(x, g):
    return (1 + x) * g**2 + (1 + x) * (1 - g) ** 2 / x


def shrinkage(method, u):
    """The shrinkage of a flow as a function of u = t√s, or u² = ts, from its definition."""
    match method:
        case st.GradientFlow():
            return np.exp(-(u**2))
        case st.CriticalFlow():
            return (1 + u) * np.exp(-u)
        case st.AcceleratedFlow():
            return bessel(method.friction, u)
        case st.IteratedRidge():
            return np.exp(-method.times * np.log1p(u**2 / method.times))
        case st.Butterworth():
            return 1 / (1 + u ** (2 * method.order))
