"""What the certified constants are proven with: balls, envelopes, expansions, branch and bound."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from stoptime import bounds
from stoptime.bounds import balls, filters, flows
from stoptime.methods.flows import GradientFlow

flint = pytest.importorskip("flint")


@pytest.mark.parametrize("friction", [0.1, 1.0, 1.9, 2.0, 3.0, 7.5, 21.0, 300.0])
def test_tail_really_bounds(friction):
    bessel_filter = filters.BesselFilter(friction)
    with balls.working_precision():
        for factor in (1.0, 1.3, 2.0, 7.0):
            start = factor * bessel_filter.tail_start
            cap = float(bessel_filter.tail(start).upper())
            u = np.linspace(start, start + 100, 1001)
            g = np.array([float(bessel_filter.shrinkage(balls.exact(v))) for v in u.tolist()])
            assert np.abs(g).max() <= cap * (1 + 1e-12)
            if friction >= 2:
                assert (u * np.abs(g)).max() <= start * cap * (1 + 1e-12)


@pytest.mark.parametrize("friction", [0.3, 1.0, 3.0, 8.0, 90.0, 4000.0])
def test_shrinkage_encloses_the_bessel_function(friction):
    bessel_filter, nu = filters.BesselFilter(friction), (mpmath.mpf(friction) - 1) / 2
    with balls.working_precision(), mpmath.workdps(60):
        for u in (1e-3, 0.7, 5.0, 19.9, 20.1, 44.0, 150.0, 1900.0):
            found = bessel_filter.shrinkage(balls.exact(u))
            truth = mpmath.hyp0f1(nu + 1, -(mpmath.mpf(u) ** 2) / 4)
            assert abs(mpmath.mpf(float(found.mid())) - truth) <= 1e-15
            assert float(found.rad()) < 1e-20


def test_a_series_cut_short_says_no_more_than_a_mean_of_cosines(monkeypatch):
    monkeypatch.setattr(filters, "SERIES_TERMS", 4)
    with balls.working_precision():
        found = filters.BesselFilter(90.0).shrinkage(balls.exact(30.0))
        assert -1 - 1e-8 < found.lower() <= -1 < 1 <= found.upper() < 1 + 1e-8


MONOTONE = [filters.GaussianFilter(), filters.MaternFilter(), *map(filters.PowerFilter, (2, 7))]


@pytest.mark.parametrize("monotone", [*MONOTONE, filters.PowerFilter(1)], ids=repr)
def test_tail_of_a_monotone_shrinkage(monotone):
    with balls.working_precision():
        start = monotone.tail_start
        cap = monotone.tail(start)
        for u in np.geomspace(1.001 * start, 1e3, 50).tolist():
            g = monotone.shrinkage(balls.exact(u))
            assert g < cap
            assert u * g < start * cap


@pytest.mark.parametrize("cosine_filter", [*MONOTONE, filters.BesselFilter(4.2)], ids=repr)
def test_caps_hold_on_thin_balls(cosine_filter):
    """|g''| ≤ E T², |φ'| ≤ slope + bend·u and |φ''| ≤ bend, by differences of thin balls."""
    with balls.working_precision():
        second = cosine_filter.even_moment(1)
        step = balls.exact(2.0**-20)

        def gain(u):
            return (1 - cosine_filter.shrinkage(u)) / (u * u)

        def bend(f, u):
            return (f(u + step) - 2 * f(u) + f(u - step)) / step**2

        for u in np.geomspace(2.0**-14, 30, 40).tolist():
            at = balls.exact(u)
            # Differences have an error of order step², which is 1e-12.
            assert abs(bend(cosine_filter.shrinkage, at)) <= second + 1e-9
            assert abs(bend(gain, at)) <= cosine_filter.gain_bend + 1e-9
            slope = (gain(at + step) - gain(at - step)) / (2 * step)
            assert abs(slope) <= cosine_filter.gain_slope + cosine_filter.gain_bend * u + 1e-9


@pytest.mark.parametrize("calibration", [1e-3, 1.9, 2.0, 2.001, 2.3, 4.0, 1e6])
def test_head_of_critically_damped_flow(calibration):
    """Up to the head |h| stays below h(0), and without a head it grows from the origin."""
    with balls.working_precision():
        head = filters.MaternFilter().head(balls.exact(calibration))
    u = mpmath.linspace(0, max(head, 1e-6), 41)[1:]
    with mpmath.workdps(40):
        h = [
            calibration * (1 - (1 + v) * mpmath.exp(-v)) / v**2 - (1 + v) * mpmath.exp(-v)
            for v in u
        ]
    origin = abs(calibration / 2 - 1)
    if head > 0:
        assert max(map(abs, h)) < origin
    else:
        assert calibration <= 2
        assert min(map(abs, h)) > origin


@pytest.mark.parametrize(
    "cosine_filter",
    [filters.GaussianFilter(), filters.PowerFilter(3), filters.BesselFilter(4.2)],
    ids=repr,
)
def test_slope_and_moments_belong_to_the_shrinkage(cosine_filter):
    with balls.working_precision():
        h = balls.exact(2.0**-20)
        for u in (0.4, 2.0, 5.0):
            at = balls.exact(u)
            ahead, behind = cosine_filter.shrinkage(at + h), cosine_filter.shrinkage(at - h)
            assert float(cosine_filter.slope(at)) == pytest.approx(
                float((ahead - behind) / (2 * h)), abs=1e-10
            )
        h = balls.exact(2.0**-8)  # 1 - g = E T²/2·u² - E T⁴/24·u⁴ + E T⁶/720·u⁶ - ...
        second, fourth, sixth = (cosine_filter.even_moment(k) for k in (1, 2, 3))
        rest = 1 - cosine_filter.shrinkage(h) - second * h**2 / 2 + fourth * h**4 / 24
        assert float(rest / (sixth * h**6 / 720)) == pytest.approx(1, abs=1e-4)


def test_supremum_encloses_and_gives_up(monkeypatch):
    def bracket(box):
        u, radius = balls.centre_and_radius(box[0])
        value = u * (3 - u)
        reach = value + abs(3 - 2 * u) * radius + radius**2
        return balls.Bracket(balls.downward(value), balls.upward(reach), box)

    nothing = balls.Bracket(0.0, 0.0, ((0.0, 0.0),))
    with balls.working_precision():
        found = balls.supremum(bracket, ((0.0, 2.7),), known=nothing, tolerance=1e-9)
        assert found.attained <= 2.25 <= found.cap <= found.attained + 1e-8
        hidden = balls.Bracket(0.0, 5.0, ((0.0, 0.0),))
        with pytest.raises(bounds.WorkLimitError, match="tolerance"):
            balls.supremum(bracket, ((0.0, 2.7),), known=hidden, tolerance=1e-9)
        monkeypatch.setattr(balls, "WORK_LIMIT", 10)
        with pytest.raises(bounds.WorkLimitError, match="tolerance"):
            balls.supremum(bracket, ((0.0, 2.7),), known=nothing, tolerance=1e-9)


def test_supremum_ends_at_its_tolerance_and_goes_on_while_the_inside_matters():
    def slope(box):
        return balls.Bracket(sum(box[0]) / 2, box[0][1], box)

    nothing, beyond = balls.Bracket(0.0, 0.0, ((0.0, 0.0),)), balls.Bracket(0.0, 1.0, ((2.0, 2.0),))
    unit = ((0.0, 1.0),)
    assert balls.supremum(slope, unit, known=nothing, tolerance=0.5) == balls.Bracket(
        0.5, 1.0, unit
    )
    half = balls.Bracket(0.75, 1.0, ((0.5, 1.0),))
    assert balls.supremum(slope, unit, known=beyond, tolerance=0.25) == half
    assert balls.supremum(slope, ((0.0, 4.0),), known=nothing, tolerance=1.0) == balls.Bracket(
        2.0,
        4.0,
        ((0.0, 4.0),),  # relative where the supremum exceeds one
    )


def test_a_horizon_lies_where_the_cap_is_below_the_level():
    assert flows.horizon(lambda at: balls.exact(1) / balls.exact(at), 1.0, 0.9) == 1.25
    with pytest.raises(bounds.WorkLimitError, match="not proven to stay below 1"):
        flows.horizon(lambda _: balls.exact(1), 1.0, 1.0)


def test_verify_covers_everything_or_gives_up(monkeypatch):
    examined = []
    unit = ((0.0, 1.0),)

    def short(box):
        examined.append(box)
        return box[0][1] - box[0][0] < 0.2

    balls.verify(short, unit)
    assert sum(high - low for ((low, high),) in examined if high - low < 0.2) == 1.0
    with pytest.raises(bounds.WorkLimitError, match="double precision"):
        balls.verify(lambda _: False, unit)
    count = len(examined)
    monkeypatch.setattr(balls, "WORK_LIMIT", count)
    balls.verify(short, unit)
    assert len(examined) == 2 * count
    monkeypatch.setattr(balls, "WORK_LIMIT", count - 1)
    with pytest.raises(bounds.WorkLimitError, match=f"Not proven within {count - 1} boxes"):
        balls.verify(short, unit)


def test_an_impossible_tolerance_is_refused():
    with pytest.raises(bounds.WorkLimitError, match="tolerance"):
        bounds.risk_inflation(GradientFlow(), tolerance=1e-14)


def test_rounding_goes_outwards():
    with balls.working_precision():
        third = balls.exact(1) / 3
        assert balls.downward(third) < balls.upward(third)
        assert balls.exact(balls.downward(third)) < third < balls.exact(balls.upward(third))
        assert balls.upward(balls.exact(0.75)) == balls.downward(balls.exact(0.75)) == 0.75
        assert balls.upward(flint.arb.nan()) == np.inf
        assert balls.downward(flint.arb.nan()) == -np.inf


def test_a_ball_contains_the_errors_of_its_centre_and_of_its_radius():
    with balls.working_precision():
        found = balls.ball(balls.ball(1, 0.125), balls.ball(0.5, 0.25))
        assert 1.875 <= found.upper() < 1.875 + 1e-6
        assert 0.125 - 1e-6 < found.lower() <= 0.125
        assert balls.exact(0.1).is_exact()


def test_precision_is_restored():
    before = flint.ctx.prec

    def fail_inside():
        with balls.working_precision(333):
            assert flint.ctx.prec == 333
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_inside()
    bounds.parameter_error(GradientFlow(), calibration=0.123)
    assert flint.ctx.prec == before
