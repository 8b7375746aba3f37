"""What branch and bound is fed: values, slopes and curvatures of boxes, and caps on all beyond them."""

from __future__ import annotations

import sys

import mpmath as mp
import numpy as np
import pytest

from stoptime.bounds import balls, certificates, filters, inflation, oscillator
from stoptime.methods.flows import AcceleratedFlow, GradientFlow

pytest.importorskip("flint")

BOXES = [(0.0, 0.02), (0.3, 0.5), (1.0, 1.9), (3.7, 3.8), (5.0, 9.0)]


def decay(friction, u):
    """The shrinkage by its series; without friction that of gradient flow at t = 1, s = u²."""
    return (
        mp.exp(-(u**2)) if friction is None else mp.hyp0f1((friction + 1) / mp.mpf(2), -(u**2) / 4)
    )


def moments(friction):
    """E T² and E T⁴ from the series of the shrinkage."""
    series = mp.taylor(lambda u: decay(friction, u), 0, 4)
    return [(-1) ** k * series[2 * k] * mp.factorial(2 * k) for k in (1, 2)]


def flow(friction):
    return GradientFlow() if friction is None else AcceleratedFlow(friction)


@pytest.fixture
def brackets(monkeypatch):
    """The function and the outside that every search for a supremum was given."""
    seen = []

    def spy(module):
        honest = module.supremum

        def supremum(bracket, box, **options):
            seen.append((bracket, box, options["known"]))
            return honest(bracket, box, **options)

        monkeypatch.setattr(module, "supremum", supremum)

    spy(sys.modules["stoptime.bounds.parameter_error"])  # whose name is that of a function as well
    spy(inflation)
    return seen


def assert_is_mean_value_form(bracket, box, value, reach):
    """Compare a bracket with the square of the value at the centre, and of what the whole box may reach."""
    with balls.working_precision():
        found = bracket(box)
    assert found.box == box
    assert found.attained == pytest.approx(float(value**2), rel=1e-12, abs=1e-14)
    assert found.cap == pytest.approx(float(reach**2), rel=1e-12)


@pytest.mark.parametrize("calibration", [0.6, 5.0])
@pytest.mark.parametrize("friction", [None, 0.7, 3.0, 8.0])
def test_boxes_of_the_parameter_error(brackets, friction, calibration):
    certificates._flow_error.__wrapped__(
        certificates._cosine_filter(flow(friction)), calibration, 1e-3
    )
    ((bracket, _, _),) = brackets
    with mp.workdps(40):
        second, fourth = moments(friction)

        def h(u):
            return calibration * (1 - decay(friction, u)) / u**2 - decay(friction, u)

        for low, high in BOXES:
            middle, radius = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
            curvature = calibration * fourth / 12 + second
            reach = abs(h(middle)) + abs(mp.diff(h, middle)) * radius + curvature * radius**2 / 2
            assert_is_mean_value_form(bracket, ((low, high),), h(middle), reach)


@pytest.mark.parametrize("share", [0.5, 0.99, 1.01])
@pytest.mark.parametrize("friction", [None, 0.7, 3.0])
def test_a_head_ends_where_the_value_at_the_origin_may_be_used_up(brackets, friction, share):
    """No derivative of h = c·φ - g exceeds that of all its cosines together, as at the origin."""
    with mp.workdps(40):
        g = [
            abs(a) * mp.factorial(k)
            for k, a in enumerate(mp.taylor(lambda u: decay(friction, u), 0, 6))
        ]
        calibration = share * 2 / g[2]  # h(0) = 0 at a share of one
        start, bend = share - 1, g[2] - calibration * g[4] / 12
        curvature, fourth = calibration * g[4] / 12 + g[2], calibration * g[6] / 30 + g[4]
        head = min(mp.sqrt(abs(bend) / fourth), mp.sqrt(2 * abs(start) / curvature))
    certificates._flow_error.__wrapped__(
        certificates._cosine_filter(flow(friction)), float(calibration), 1e-3
    )
    ((_, ((first, _),), _),) = brackets
    assert first == pytest.approx(float(head) if start * bend < 0 else 0.0, rel=1e-12)


@pytest.mark.parametrize("stop", [0.4, 1.7])
@pytest.mark.parametrize("friction", [None, 2.0, 5.0])
def test_boxes_of_the_inflation(brackets, friction, stop):
    certificates._flow_inflation.__wrapped__(
        certificates._cosine_filter(flow(friction)), stop, 1e-3
    )
    ((bracket, ((start, end),), known),) = brackets
    assert start == 0
    with mp.workdps(40):
        second, fourth = moments(friction)
        sigma = mp.sqrt(stop) if friction is None else mp.mpf(stop)
        curvature = 3 * (second / sigma + sigma * fourth / 12)

        def imbalance(u):
            g = decay(friction, u)
            return u * g / sigma - sigma * (1 - g) / u

        for low, high in BOXES:
            middle, radius = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
            slope = mp.diff(imbalance, middle)
            reach = abs(imbalance(middle)) + abs(slope) * radius + curvature * high * radius**2 / 2
            assert_is_mean_value_form(bracket, ((low, high),), imbalance(middle), reach)
            inside = [abs(mp.diff(imbalance, u, 2)) / u for u in np.linspace(low, high, 5)[1:]]
            assert max(inside) <= curvature
        ((peak, _),) = known.box
        assert known.attained == pytest.approx(float(imbalance(peak) ** 2), rel=1e-12)
        assert known.cap >= max(imbalance(end + k) ** 2 for k in range(20))


def damped(a, b):
    """The shrinkage of the heavy ball at unit time."""
    return mp.exp(-a) * (mp.cos(b) + a * mp.sinc(b))


@pytest.mark.parametrize("calibration", [0.5, 4.0])
def test_boxes_of_the_parameter_error_of_the_heavy_ball(brackets, calibration):
    certificates._heavy_ball_error.__wrapped__(calibration, 0.1)
    ((bracket, everywhere, known),) = brackets
    assert everywhere == ((0.0, 4.0), (0.0, 4.0))

    def h(a, b):
        return calibration * (1 - damped(a, b)) / (a**2 + b**2) - damped(a, b)

    with mp.workdps(40):
        for box in (((0.0, 0.25), (2.5, 3.5)), ((0.5, 2.0), (0.0, 1.0)), ((1.0, 1.5), (3.0, 3.25))):
            (a, b), (p, q) = (
                [mp.mpf(sum(side)) / 2 for side in box],
                [mp.mpf(y - x) / 2 for x, y in box],
            )
            first = abs(mp.diff(h, (a, b), (1, 0))) * p + abs(mp.diff(h, (a, b), (0, 1))) * q
            caps = [
                calibration / x + y for x, y in ((4, 3), (8, mp.mpf(1.5)), (12, 1))
            ]  # of h_aa, h_ab, h_bb
            second = caps[0] * p**2 / 2 + caps[1] * p * q + caps[2] * q**2 / 2
            assert_is_mean_value_form(bracket, box, h(a, b), abs(h(a, b)) + first + second)
            for order, cap in zip(((2, 0), (1, 1), (0, 2)), caps, strict=True):
                assert abs(mp.diff(h, (a, b), order)) <= cap
        assert known.cap == pytest.approx((1 + 2 * calibration / 16) ** 2, rel=1e-15)


@pytest.mark.parametrize("start", [1.0, 2.5])
def test_tail_of_the_imbalance(start):
    with balls.working_precision():
        imbalance, sigma = inflation.Imbalance(filters.GaussianFilter()), balls.exact(0.7)
        found = float(imbalance.tail(sigma, start))
    g = np.exp(-(start**2))
    assert found == pytest.approx((start * g / 0.7 + 0.7 * (1 + g) / start) ** 2, rel=1e-14)


@pytest.mark.parametrize("friction", [0.4, 1.5, 2.0, 2.5, 3.0, 6.5])
def test_tail_is_sonins_envelope(friction):
    """With p = u^(r/2)·g, the equation p'' + qp = 0 gives q."""
    with mp.workdps(40), balls.working_precision():
        bessel_filter, u = filters.BesselFilter(friction), mp.mpf(6.3)

        def p(v):
            return v ** (mp.mpf(friction) / 2) * decay(friction, v)

        q = -mp.diff(p, u, 2) / p(u)
        energy = q * p(u) ** 2 + mp.diff(p, u) ** 2
        expected = mp.sqrt(energy / q if friction >= 2 else energy) / u ** (mp.mpf(friction) / 2)
        assert float(bessel_filter.tail(6.3)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("friction", [11.5, 14.0, 300.0])
def test_tail_before_the_oscillation_is_the_larger_of_two_caps(friction):
    nu, u = (friction - 1) / 2, filters.BesselFilter(friction).tail_start

    def rayleigh(nu, u):
        return np.exp(-(u**2) / (4 * (nu + 1)))

    g, slope = rayleigh(nu, nu), nu / (2 * (nu + 1)) * rayleigh(nu + 1, nu)
    velocity, q = max(slope, friction / 2 * g / nu), 1 / (4 * nu**2)
    envelope = np.sqrt(g**2 + velocity**2 / q)
    with balls.working_precision():
        found = float(filters.BesselFilter(friction).tail(u))
    assert found == pytest.approx(max(rayleigh(nu, u), envelope * nu / u), rel=1e-7)


@pytest.mark.parametrize("b", [0.0, 0.2, 0.7, 1.5, 4.0])
@pytest.mark.parametrize("a", [0.1, 0.6, 2.0])
def test_expansion_has_the_slopes_of_its_functions(a, b):
    def parts(b):
        u = mp.sqrt(a**2 + b**2)
        return u * damped(a, b), (1 - damped(a, b)) / u

    with mp.workdps(40), balls.working_precision():
        thin = oscillator.expand(balls.exact(a), (b, b + 2.0**-30))
        assert float(thin.radius) == 2.0**-31
        for i in (0, 1):
            assert float(thin.values[i]) == pytest.approx(float(parts(b + 2.0**-31)[i]), rel=1e-14)
            slope = mp.diff(lambda b, i=i: parts(b)[i], mp.mpf(b))
            assert float(thin.slopes[i].mid()) == pytest.approx(float(slope), abs=1e-7)
            assert float(thin.slopes[i].rad()) < 1e-7
