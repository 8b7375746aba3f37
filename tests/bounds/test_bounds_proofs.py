"""What the certified constants are proven with: balls, envelopes, expansions, branch and bound."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from stoptime import bounds
from stoptime.bounds import balls
from stoptime.bounds.filters import shape_of
from stoptime.bounds.flows import _FlowGame
from stoptime.bounds.heavy_ball import _HeavyBallGame
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow
from stoptime.methods.ridge import Butterworth, IteratedRidge

flint = pytest.importorskip("flint")


SHAPES = [
    shape_of(method)
    for method in (
        GradientFlow(),
        CriticalFlow(),
        IteratedRidge(2),
        IteratedRidge(7),
        Butterworth(2),
        Butterworth(5),
        *map(AcceleratedFlow, (0.1, 1.0, 1.9, 2.0, 4.2, 21.0, 150.0)),
    )
]


def is_steep(shape):
    """Whether it is a Butterworth filter, which has no parameter error."""
    return isinstance(shape.method, Butterworth)


each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.method))


@each_shape
def test_tail_really_bounds(shape):
    friction = getattr(shape.method, "friction", 9.0)
    with balls.working_precision():
        for factor in (1.0, 1.3, 2.0, 7.0):
            start = factor * shape.tail_start
            u = np.linspace(start, start + 60, 601)
            g = np.array([abs(float(shape.shrinkage(balls.exact(v)))) for v in u.tolist()])
            cap = float(shape.tail(start).upper()) * (1 + 1e-12)
            assert g.max() <= cap
            if friction >= 2:
                assert (u * g).max() <= start * cap
                in_floats = shape.tail_in_floats(np.array([1.1 * start])).item()
                assert in_floats == pytest.approx(float(shape.tail(1.1 * start)), rel=1e-9)
            if start > 3 and friction >= 4:
                assert (u**2 * g).max() <= float(shape.square_tail(start)) * (1 + 1e-12)


@pytest.mark.parametrize("friction", [0.3, 3.0, 90.0, 200.0])
def test_shrinkage_encloses_the_bessel_function(friction):
    shape, nu = shape_of(AcceleratedFlow(friction)), (mpmath.mpf(friction) - 1) / 2
    with balls.working_precision(), mpmath.workdps(60):
        for u in (1e-3, 0.7, 5.0, 19.9, 20.1, 44.0, 150.0, 1900.0):
            found = shape.shrinkage(balls.exact(u))
            truth = mpmath.hyp0f1(nu + 1, -(mpmath.mpf(u) ** 2) / 4)
            assert abs(mpmath.mpf(float(found.mid())) - truth) <= 1e-15
            assert float(found.rad()) < 1e-20


@each_shape
def test_slopes_and_caps_are_those_of_the_shrinkage(shape):
    """The shrinkage, its slope, the caps on |g''|, φ and |φ''|, by differences of thin balls."""
    with balls.working_precision():
        step = balls.exact(2.0**-20)

        def gain(u):
            return (1 - shape.shrinkage(u)) / (u * u)

        def bend(f, u):
            return abs((f(u + step) - 2 * f(u) + f(u - step)) / step**2)

        for u in np.geomspace(2.0**-14, 30, 40).tolist():
            at = balls.exact(u)
            g = shape.shrinkage(at)
            assert float(g) == pytest.approx(shape.in_floats(np.array(u)).item(), abs=1e-11)
            slope = (shape.shrinkage(at + step) - shape.shrinkage(at - step)) / (2 * step)
            assert float(shape.slope(at)) == pytest.approx(float(slope), abs=1e-8)
            # Differences have an error of order step², which is 1e-12.
            assert bend(shape.shrinkage, at) <= shape.bend_cap + 1e-8
            assert bend(shape.shrinkage, at) <= shape.bend(at, g, shape.slope(at)) + 1e-8
            assert gain(at) <= shape.gain_cap + 1e-12
            if not is_steep(shape):
                assert bend(gain, at) <= shape.gain_bend + 1e-8


@pytest.mark.parametrize("shape", [one for one in SHAPES if not is_steep(one)], ids=str)
@pytest.mark.parametrize("calibration", [1e-3, 1.9, 2.0, 2.001, 4.0, 50.0, 1e6])
def test_no_value_up_to_the_head_exceeds_that_of_the_origin(shape, calibration):
    with balls.working_precision():
        c = balls.exact(calibration)
        head = shape.head(c)
        origin = abs(c * shape.gain_cap - 1)
        for u in np.linspace(0, head, 41)[1:].tolist() if head else []:
            g = shape.shrinkage(balls.exact(u))
            assert abs(c * (1 - g) / balls.exact(u) ** 2 - g) <= origin + 1e-20


@pytest.mark.parametrize(
    "game",
    [
        *(_FlowGame(shape) for shape in SHAPES if shape.tail_start < 7),
        *(_HeavyBallGame(25.0, a) for a in (0.01, 0.7, 100.0)),
    ],
    ids=lambda game: f"{game}"[:60],
)
def test_cells_contain_the_imbalance_and_its_slope(game, rng):
    """D² on cells of places and of stops, against the formula in floating point."""

    def excess(place, stop):
        return game.payoff(np.array([place]), np.array([stop])).item()

    with balls.working_precision():
        for _ in range(30):
            place, stop = np.exp(rng.uniform(-2, 1.3, 2)).tolist()
            radius = float(min(place, stop) * 10 ** rng.uniform(-4, -0.4))
            at = (-0.9 * radius, 0.0, 0.6 * radius)
            for cell, points in [
                (game.over_places, [(place + d, stop) for d in at]),
                (game.over_stops, [(place, stop + d) for d in at]),
            ]:
                centre = (stop, place) if cell == game.over_places else (place, stop)
                found = cell(*map(balls.exact, (*centre, radius)))
                values = balls.ball(found.centre, abs(found.slope) * radius)
                middle = excess(place, stop)
                assert float(found.centre) ** 2 == pytest.approx(middle, rel=1e-7, abs=1e-9)
                for point in points:
                    value = float(excess(*point))
                    cap = float((abs(values)).upper()) ** 2
                    assert value <= cap * (1 + 1e-9) + 1e-9


def test_second_derivatives_of_the_heavy_ball_have_their_caps(rng):
    """Of φ 1/4, 1/8, 1/12 (by aa, ab, bb), and of g 3, 3/2, 1."""

    def g(a, b):
        return mpmath.exp(-a) * (mpmath.cos(b) + a * mpmath.sinc(b))

    def gain(a, b):
        return (1 - g(a, b)) / (a**2 + b**2)

    with mpmath.workdps(30):
        for a, b in rng.uniform(0.05, 4, (25, 2)).tolist():
            for order, cap, gain_cap in [((2, 0), 3, 4), ((1, 1), 1.5, 8), ((0, 2), 1, 12)]:
                assert abs(mpmath.diff(g, (a, b), order)) <= cap
                assert abs(mpmath.diff(gain, (a, b), order)) <= mpmath.mpf(1) / gain_cap


def test_caps_and_horizons_are_proven_or_refused():
    def values(u, radius):
        return balls.ball(u * (3 - u), abs(3 - 2 * balls.ball(u, radius)) * radius)

    with balls.working_precision():
        balls.prove_cap(values, (0.0, 2.7), balls.exact(2.25 + 1e-9))
        with pytest.raises(bounds.WorkLimitError, match="tolerance"):
            balls.prove_cap(values, (0.0, 2.7), balls.exact(2.25 - 1e-9))
        end = balls.horizon(lambda u: 1 / balls.exact(u), 2.0, balls.exact(0.1))
        assert 10 <= end <= 12.5
        with pytest.raises(bounds.WorkLimitError, match="falls too slowly"):
            balls.horizon(lambda u: 1 + 1 / balls.exact(u), 2.0, balls.exact(1.0))
    with pytest.raises(bounds.WorkLimitError, match="tolerance"):
        bounds.risk_inflation(GradientFlow(), tolerance=1e-14)


def test_verify_covers_everything_or_gives_up():
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
    balls.verify(short, unit, limit=count)
    assert len(examined) == 2 * count
    with pytest.raises(bounds.WorkLimitError, match=f"Not proven within {count - 1} boxes"):
        balls.verify(short, unit, limit=count - 1)


def test_rounding_goes_outwards():
    with balls.working_precision():
        third = balls.exact(1) / 3
        assert balls.downward(third) < balls.upward(third)
        assert balls.exact(balls.downward(third)) < third < balls.exact(balls.upward(third))
        assert balls.upward(balls.exact(0.75)) == balls.downward(balls.exact(0.75)) == 0.75
        assert balls.upward(flint.arb.nan()) == np.inf
        assert balls.downward(flint.arb.nan()) == -np.inf


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
