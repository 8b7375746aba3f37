"""What the certified constants are proven with: balls, envelopes, expansions, branch and bound."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from bounds.formulas import oscillation
from stoptime import bounds
from stoptime.bounds import balls, filters, heavy_ball, heavy_ball_plan, one_variable
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


@pytest.mark.parametrize("side", [1, -1])
def test_a_lower_bound_of_the_witnesses_holds_at_every_stop(side):
    rng = np.random.default_rng(1)
    factors = np.geomspace(1, 1e3, 20_001) ** -side
    with balls.working_precision():
        for a, b, sigma in rng.uniform([-2, 0.01, 0.1], [2, 2, 3], (200, 3)).tolist():
            least = np.abs(a / (sigma * factors) - sigma * factors * b).min()
            found = float(one_variable._least(*map(balls.exact, (a, b, sigma)), side=side))
            assert found == pytest.approx(least, rel=1e-5, abs=1e-2)
            assert found <= least + 1e-12


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
    assert one_variable.horizon(lambda at: balls.exact(1) / balls.exact(at), 1.0, 0.9) == 1.25
    with pytest.raises(bounds.WorkLimitError, match="not proven to stay below 1"):
        one_variable.horizon(lambda _: balls.exact(1), 1.0, 1.0)


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


def test_caps_of_the_oscillator_hold_for_every_value():
    rng = np.random.default_rng(0)
    with balls.working_precision():
        for alpha, low, width, a in rng.uniform([0.01, 0, 0, 0.2], [3, 8, 1, 4], (60, 4)).tolist():
            cell = (low / alpha, (low + width) / alpha)
            y = np.hypot(1, np.linspace(*cell, 301))
            g = oscillation(alpha, alpha * y)
            values = np.abs(a * y * g - (1 - g) / (a * y))
            stop = balls.exact(alpha)
            ((value, distance),) = heavy_ball.over_places(stop, cell, [balls.exact(a)])
            cap = balls.upward(abs(value) + distance)
            tau = alpha / a
            assert values.max() <= cap + 1e-12
            assert cap <= values.max() + 6 * (tau + 9 / tau) * width


def test_a_false_cover_and_a_false_floor_are_refused():
    with balls.working_precision():
        piece = heavy_ball.Piece(0.5, 1.2, 0.7)
        with pytest.raises(bounds.WorkLimitError, match="gap"):
            heavy_ball._prove_cover(None, [piece], 100.0, balls.exact(1.0))
        early = heavy_ball.Piece(0.05, 0.2, 0.7)
        with pytest.raises(bounds.WorkLimitError, match="largest a"):
            heavy_ball._prove_cover(None, [early], 100.0, balls.exact(1.0))
        # the second one was true to rounding at a point, and its proof once went on forever
        for kappa, level in ((100.0, 0.5), (5.0, 0.7)):
            with pytest.raises(bounds.WorkLimitError, match="double precision"):
                heavy_ball._prove_piece(piece, kappa, balls.exact(level))
        late = heavy_ball.Piece(0.05, 30.0, 0.7)
        with pytest.raises(bounds.WorkLimitError, match="double precision"):
            heavy_ball._prove_cover(None, [late], 100.0, balls.exact(1.0))
        with pytest.raises(bounds.WorkLimitError):
            heavy_ball._prove_floor(1.0, 10.0, balls.exact(0.9))


@pytest.mark.parametrize("kappa", [1.001, 1.3, 1.9])
def test_caps_at_balanced_problems_hold_for_every_value(kappa):
    rng = np.random.default_rng(1)
    end = np.sqrt(kappa - 1)
    with balls.working_precision():
        for alpha, width in rng.uniform([1e-3, 0], [3, 0.1], (40, 2)).tolist():
            low, high = np.sort(rng.uniform(0, end, 2)).tolist()
            stops = np.linspace(alpha, alpha + width, 41)
            g1, g2 = (oscillation(stops, stops * y) for y in (1.0, np.sqrt(kappa)))
            problems = np.sqrt((1 - g1 + (1 - g2) / np.sqrt(kappa)) / (g1 + np.sqrt(kappa) * g2))
            y = np.hypot(1, np.linspace(low, high, 31))[:, None]
            g = oscillation(stops, stops * y)
            values = np.abs(problems * y * g - (1 - g) / (problems * y))
            first, _ = heavy_ball.balanced(balls.exact(kappa), balls.exact(alpha))
            assert float(first) == pytest.approx(problems[0])
            cell = ((alpha, alpha + width), (low, high))
            cap = balls.upward(heavy_ball.moving_cap(balls.exact(kappa), *cell))
            assert values.max() <= cap + 1e-12
            assert cap <= values.max() + 5 * (width + high - low)


def test_a_false_curve_of_stops_is_refused(monkeypatch):
    monkeypatch.setattr(balls, "WORK_LIMIT", 2000)
    plan = heavy_ball_plan.make_plan(1.3, 1e-4)
    assert not plan.pieces
    first, last = plan.moving
    with balls.working_precision():
        d = balls.exact(plan.cap).sqrt()
        heavy_ball._prove_cover(plan.moving, [], 1.3, d)
        for moving, level, message in [
            ((2 * first, last), d, "smallest a"),
            ((first, last - 1), d, "largest a"),
            (plan.moving, 0.99 * d, "boxes"),
        ]:
            with pytest.raises(bounds.WorkLimitError, match=message):
                heavy_ball._prove_cover(moving, [], 1.3, level)


@pytest.mark.parametrize("kappa", [5.0, 100.0])
@pytest.mark.parametrize("a", [0.5, 1.0, 1.7])
def test_a_floor_is_proven_just_below_the_best_stop_and_refused_just_above(a, kappa):
    y = np.linspace(1, np.sqrt(kappa), 2001)
    stops = np.concatenate([np.linspace(1e-3, 3, 1500), np.linspace(3, 15, 300)])
    g = np.array([oscillation(alpha, alpha * y) for alpha in stops])
    least = np.abs(a * y * g - (1 - g) / (a * y)).max(axis=1).min()
    with balls.working_precision():
        heavy_ball._prove_floor(a, kappa, balls.exact(0.99 * least))
        with pytest.raises(bounds.WorkLimitError):
            heavy_ball._prove_floor(a, kappa, balls.exact(1.01 * least))


@pytest.mark.parametrize("stops", [[0.5, 0.8, 1.0], [0.3, 0.5, 0.8, 1.0], [0.5, 0.8, 1.0, 1.1]])
def test_the_best_of_a_few_stops_is_refined_between_its_neighbours(stops):
    family = heavy_ball_plan.Family(9.0, stops)
    between = np.linspace(0.5, 1.0, 2001)
    points = [
        heavy_ball_plan.parts(alpha, heavy_ball_plan.phases(alpha, 9.0, 0.01)) for alpha in between
    ]
    heights = [np.abs(np.subtract(*at)).max() for at in points]
    (least, best), *_ = family.best_stops(1.0)
    assert least <= min(heights) + 1e-9
    assert best == pytest.approx(between[np.argmin(heights)], abs=1e-3)


@pytest.mark.parametrize("d", [0.3, 0.7, 1.1])
@pytest.mark.parametrize("alpha", [0.2, 0.9, 2.5])
def test_the_problems_of_one_stop_end_where_the_imbalance_reaches_the_level(alpha, d):
    low, high = heavy_ball_plan.refined_interval(alpha, 25.0, d)
    if low > high:
        a = np.geomspace(1e-2, 1e2, 400)
        assert min(heavy_ball_plan.highest(one, alpha, 25.0)[1] for one in a) > d
    else:
        ends = [heavy_ball_plan.highest(a, alpha, 25.0)[1] for a in (low, high)]
        assert ends == pytest.approx([d, d], rel=1e-9)


@pytest.mark.parametrize("kappa", [1.2, 9.0, 60.0])
def test_a_plan_stops_its_worst_problem_between_floor_and_cap(kappa):
    plan = heavy_ball_plan.make_plan(kappa, 1e-2)
    y = np.linspace(1, np.sqrt(kappa), 20_001)
    g = oscillation(plan.stop * plan.worst, plan.stop * plan.worst * y)
    D = plan.worst * y * g - (1 - g) / (plan.worst * y)
    assert plan.floor <= (D**2).max() <= plan.cap
