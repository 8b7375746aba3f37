"""The input of branch and bound: values, slopes and curvatures of boxes, and caps beyond them."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from bounds.formulas import risk_ratio
from stoptime.bounds import balls, filters, flows, heavy_ball

pytest.importorskip("flint")

BOXES = [(0.0, 0.02), (0.3, 0.5), (1.0, 1.9), (3.7, 3.8), (5.0, 9.0)]


def decay(friction, u):
    """The shrinkage by its series; words stand for flows without friction, at t = 1 and s = u²."""
    formulas = {
        None: lambda: mp.exp(-(u**2)),
        "critical": lambda: (1 + u) * mp.exp(-u),
        "ridge 3 times": lambda: (1 + u**2 / 3) ** -3,
    }
    if friction in formulas:
        return formulas[friction]()
    return mp.hyp0f1((friction + 1) / mp.mpf(2), -(u**2) / 4)


def caps(friction):
    """|g''| and, for φ = (1 - g)/u², |φ'| and |φ''|, all at the origin, from the series of g."""
    series = mp.taylor(lambda u: decay(friction, u), 0, 4)
    return [abs(2 * series[2]), abs(series[3]), abs(2 * series[4])]


def cosine_filter(friction):
    named = {
        None: filters.GaussianFilter(),
        "critical": filters.MaternFilter(),
        "ridge 3 times": filters.PowerFilter(3),
    }
    return named[friction] if friction in named else filters.BesselFilter(friction)


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

    spy(heavy_ball)
    spy(flows)
    with balls.working_precision():
        yield seen


def assert_is_mean_value_form(bracket, box, value, reach):
    """Compare a bracket with the squares of the value at the centre and of the mean-value cap."""
    with balls.working_precision():
        found = bracket(box)
    assert found.box == box
    assert found.attained == pytest.approx(float(value**2), rel=1e-12, abs=1e-14)
    assert found.cap == pytest.approx(float(reach**2), rel=1e-12)


@pytest.mark.parametrize("calibration", [0.6, 5.0])
@pytest.mark.parametrize("friction", [None, "critical", "ridge 3 times", 0.7, 3.0, 8.0])
def test_boxes_of_the_parameter_error(brackets, friction, calibration):
    flows.flow_error(cosine_filter(friction), calibration, 1e-3)
    ((bracket, _, _),) = brackets
    with mp.workdps(40):
        bend, _, gain_bend = caps(friction)

        def h(u):
            return calibration * (1 - decay(friction, u)) / u**2 - decay(friction, u)

        for low, high in BOXES:
            middle, radius = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
            curvature = calibration * gain_bend + bend
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
    flows.flow_error(cosine_filter(friction), float(calibration), 1e-3)
    ((_, ((first, _),), _),) = brackets
    assert first == pytest.approx(float(head) if start * bend < 0 else 0.0, rel=1e-12)


@pytest.mark.parametrize("stop", [0.4, 1.7])
@pytest.mark.parametrize("friction", [None, "critical", "ridge 3 times", 2.0, 5.0])
def test_cells_of_the_imbalance(friction, stop):
    """The value at the centre, and slopes that contain all slopes and shrink with the cell."""
    shape = cosine_filter(friction)
    with mp.workdps(40), balls.working_precision():

        def imbalance(u):
            g = decay(friction, u)
            return u * g / stop - stop * (1 - g) / u

        for low, high in BOXES:
            u, radius = balls.centre_and_radius((low, high))
            value, slopes = flows.imbalance(shape, balls.exact(stop), u, radius)
            middle = (low + high) / 2
            assert float(value) == pytest.approx(float(imbalance(mp.mpf(middle))), rel=1e-12)
            ratio = risk_ratio(mp.mpf(middle / stop) ** 2, decay(friction, mp.mpf(middle)))
            assert float(ratio) == pytest.approx(float(1 + value**2), rel=1e-13)
            for at in np.linspace(low, high, 7)[1:].tolist():
                slope = balls.exact(float(mp.diff(imbalance, at)))
                assert (slopes - slope).contains(0) or abs(slopes - slope) < 1e-12
            thin = flows.imbalance(shape, balls.exact(stop), u, radius / 1000)[1]
            assert low == 0 or float(thin.rad()) <= 0.01 * float(slopes.rad())


def damped(a, b):
    """The shrinkage of the heavy ball at unit time."""
    return mp.exp(-a) * (mp.cos(b) + a * mp.sinc(b))


@pytest.mark.parametrize("calibration", [0.5, 4.0])
def test_boxes_of_the_parameter_error_of_the_heavy_ball(brackets, calibration):
    heavy_ball.heavy_ball_error(calibration, 0.1)
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


@pytest.mark.parametrize("friction", [0.4, 1.5, 2.0, 2.5, 3.0, 6.5, 300.0])
def test_tail_is_the_envelope_of_an_oscillator(friction):
    """With p = u·g, the equation p'' + (r - 2)p'/u + qp = 0 gives q."""
    with mp.workdps(40), balls.working_precision():
        u = mp.mpf(filters.BesselFilter(friction).tail_start) + 3
        r = mp.mpf(friction)
        g, slope = (mp.diff(lambda v: decay(friction, v), u, k) for k in (0, 1))
        expected = mp.sqrt(g**2 + slope**2)
        if friction >= 2:
            p, velocity, bend = (mp.diff(lambda v: v * decay(friction, v), u, k) for k in (0, 1, 2))
            q = -(bend + (r - 2) * velocity / u) / p
            expected = mp.sqrt(p**2 + velocity**2 / q) / u
        found = filters.BesselFilter(friction).tail(float(u))
        assert float(found) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("a", [0.01, 0.7, 100.0])
@pytest.mark.parametrize("c", [0.0, 0.2, 0.7, 1.5, 4.0])
@pytest.mark.parametrize("alpha", [0.1, 0.6, 2.0])
def test_the_heavy_ball_has_the_values_and_slopes_of_its_imbalance(alpha, c, a):
    radius = 2.0**-31
    game = heavy_ball.HeavyBallGame(25.0, a)

    def imbalance(alpha, c):
        g = damped(alpha, alpha * c)
        ay = a * mp.sqrt(1 + c**2)
        return ay * g - (1 - g) / ay

    with mp.workdps(40), balls.working_precision():
        c += radius  # places are not negative
        for order, found in [
            ((0, 1), game.over_places(*map(balls.exact, (alpha, c, radius)))),
            ((1, 0), game.over_stops(*map(balls.exact, (c, alpha, radius)))),
        ]:
            at = mp.mpf(alpha), mp.mpf(c)
            value = float(imbalance(*at))
            assert float(found.centre) == pytest.approx(value, rel=1e-12)
            slope = float(mp.diff(imbalance, at, order))
            assert float(found.slope) == pytest.approx(slope, abs=1e-7 * (a + 1 / a))
            excess = game.payoff(np.array([c]), np.array([alpha])).item()
            assert excess == pytest.approx(value**2, rel=1e-9)
