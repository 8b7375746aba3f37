"""The inflation as a function of friction: on whole cells, and where its worst case changes."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from bounds.formulas import bessel, risk_ratio
from stoptime import bounds
from stoptime.bounds import balls, filters, friction
from stoptime.methods.flows import AcceleratedFlow

pytest.importorskip("flint")

INTERVALS = [(2.0, 2.2), (4.2, 4.35), (8.0, 8.5), (40.0, 41.0)]
CHANGE = 4.260486033


def decay(r, u):
    return mp.hyp0f1((r + 1) / mp.mpf(2), -(mp.mpf(u) ** 2) / 4)


def overshoot(r):
    """The place and the depth of the minimum of the shrinkage, by a search."""
    found = minimize_scalar(
        lambda u: bessel(r, u), bracket=(3.0 + r / 2, 3.5 + r / 2), options={"xtol": 1e-12}
    )
    return found.x, -found.fun


def searched(r):
    """The inflation by a search over stops on a grid of eigenvalues, which proves nothing."""
    u = np.linspace(0.01, 6 * np.sqrt(r + 6), 6000)
    g = bessel(r, u)

    def worst(log):
        return np.abs(u * g / np.exp(log) - np.exp(log) * (1 - g) / u).max()

    centre = np.log(1 + np.sqrt(r) / 2)
    found = minimize_scalar(worst, bounds=(centre - 1, centre + 1), method="bounded")
    return 1 + found.fun**2


@pytest.fixture(scope="module", params=INTERVALS, ids=str)
def curve(request):
    return bounds.friction_inflation(*request.param, tolerance=4e-3)


# --- caps on derivatives by friction --------------------------------------------------------------


@pytest.mark.parametrize("r", [2.0, 3.3, 9.0, 50.0])
def test_caps_of_the_derivatives_by_friction(r):
    with mp.workdps(30):
        for u in (0.3, 2.0, 5.0, 9.0, 25.0):
            assert abs(mp.diff(lambda s, u=u: decay(s, u), r)) <= 2 / r
            bend = abs(mp.diff(lambda s, u=u: decay(s, u), r, 2))
            assert bend <= 3 * mp.sqrt(3) / r**2
            gain = abs(mp.diff(lambda s, u=u: (1 - decay(s, u)) / u**2, r, 2))
            assert gain <= 3 * mp.sqrt(3) / (2 * r**2)


def test_shrinkage_at_complex_friction_is_bounded():
    """|g| ≤ |r|/Re r and |φ| ≤ |r|/(2·Re r): Cauchy's formula turns them into the caps."""
    rng = np.random.default_rng(0)
    with mp.workdps(30):
        for real, imaginary, u in rng.uniform([0.05, -6, 0.1], [6, 6, 30], (60, 3)).tolist():
            r = mp.mpc(real, imaginary)
            assert abs(decay(r, u)) <= abs(r) / r.real
            assert abs(1 - decay(r, u)) / u**2 <= abs(r) / (2 * r.real)


@pytest.mark.parametrize(("low", "high"), [(2.0, 2.3), (4.0, 4.01), (30.0, 33.0)])
def test_a_band_contains_all_its_frictions(low, high):
    band = filters.BesselBand(low, high)
    start = band.tail_start
    with balls.working_precision():
        cap = float(band.tail(start).upper())
        for r in np.linspace(low, high, 5).tolist():
            inside = filters.BesselFilter(r)
            for u in (0.5, 3.0, start, 2 * start, 5 * start):
                at = balls.exact(u)
                assert band.shrinkage(at).contains(inside.shrinkage(at))
                assert band.slope(at).contains(inside.slope(at))
                if u >= start:
                    assert u * abs(float(inside.shrinkage(at))) <= start * cap


def test_a_thin_band_is_its_friction():
    with balls.working_precision():
        u = balls.exact(4.0)
        band = filters.BesselBand(3.0, 3.0)
        assert float(band.shrinkage(u).rad()) < 1e-25
        assert float(band.tail(4.0)) == pytest.approx(float(filters.BesselFilter(3.0).tail(4.0)))


def test_more_friction_means_a_higher_shrinkage_before_the_overshoot():
    """Sonine's integral: g with more friction is a mean of g with less at smaller u."""
    frictions = np.geomspace(2, 20, 12)
    places, depths = zip(*map(overshoot, frictions), strict=True)
    assert np.all(np.diff(places) > 0)
    assert np.all(np.diff(depths) < 0)
    for r, more, place in zip(frictions, frictions[1:], places, strict=False):
        u = np.linspace(0.1, place, 60)
        assert np.all(bessel(more, u) > bessel(r, u))


# --- the curve ------------------------------------------------------------------------------------


def test_a_curve_encloses_the_constants_of_its_frictions(curve):
    assert (curve.upper - curve.lower).max() <= 4e-3
    for r in np.random.default_rng(3).uniform(curve.frictions[0], curve.frictions[-1], 3).tolist():
        found = curve.at(r)
        proven = bounds.risk_inflation(AcceleratedFlow(r), tolerance=1e-8)
        assert found.lower <= proven.lower
        assert proven.upper <= found.upper
        assert found.stop == pytest.approx(proven.stop, rel=1e-2)
        assert searched(r) in found


def test_chords_hold_inside_a_wide_cell():
    """In one cell of ten per cent both chords are far from the constants, and still bounds."""
    with balls.working_precision():
        for low in (2.0, 4.1, 9.0):
            first, last = (friction._node(r, 1e-4) for r in (low, 1.1 * low))
            lower, upper = friction._chords(first, last)
            for share in (0.0, 0.4, 0.7, 1.0):
                r = low * (1 + 0.1 * share)
                inflation = searched(r)
                assert (1 - share) * lower[0] + share * lower[1] <= inflation + 1e-4
                assert inflation <= (1 - share) * upper[0] + share * upper[1]


def test_every_imbalance_stays_near_its_chord():
    """The distance from the chord that is allowed for is not exceeded at any u."""
    low, high = 4.4, 4.7
    ends = [1.6, 1.75]
    band = filters.BesselBand(low, high)
    u = np.linspace(0.05, 12, 400)

    def imbalance(share):
        sigma = (1 - share) * ends[0] + share * ends[1]
        g = bessel(low + share * (high - low), u)
        return u * g / sigma - sigma * (1 - g) / u

    with balls.working_precision():
        cap = float(friction._rise(band, *ends, 12.0).upper())
    for share in (0.25, 0.5, 0.75):
        chord = (1 - share) * imbalance(0.0) + share * imbalance(1.0)
        assert np.abs(imbalance(share) - chord).max() <= cap


@pytest.mark.parametrize(("low", "high"), [(1.6, 1.75), (2.0, 2.0)])
def test_the_distance_from_a_chord_is_that_of_the_documentation(low, high):
    r, last, end = 4.4, 4.7, 8.0
    width = last - r
    drift = (high - low) / width
    bend = 3 * np.sqrt(3) / r**2
    K = end * (bend / low + 4 * drift / (r * low**2) + 2 * drift**2 / low**3)
    K += (bend * high + 4 * drift / r) / np.sqrt(2)
    with balls.working_precision():
        found = friction._rise(filters.BesselBand(r, last), low, high, end)
    assert float(found) == pytest.approx(K * width**2 / 8, rel=1e-12)


@pytest.mark.parametrize("low", [2.5, 4.25, 6.0])
def test_the_bounds_of_a_cell_are_those_of_the_documentation(low, monkeypatch):
    """Both chords from the formulas of the page on certificates, in floating point."""
    tails = []
    monkeypatch.setattr(friction, "horizon", lambda tail, *_: tails.append(tail) or 9.0)
    high = 1.01 * low
    with balls.working_precision():
        nodes = [friction._node(r, 1e-3) for r in (low, high)]
        lower, upper = friction._chords(*nodes)
        band = filters.BesselBand(low, high)
        small, large = sorted(node.sigma for node in nodes)
        e = float(friction._rise(band, small, large, 9.0))
        assert upper == pytest.approx([1 + (float(node.cap) + e) ** 2 for node in nodes], rel=1e-12)
        g = float(band.tail(7.0))
        assert float(tails[0](7.0)) == pytest.approx(7 * g / small + large * (1 + g) / 7, rel=1e-9)
    early, late = (np.mean([node[i] for node in nodes]) for i in (3, 4))
    drop = 3 * np.sqrt(3) / low**2 * (high - low) ** 2 / 8
    m = np.array([-bessel(node.friction, late) - drop for node in nodes])
    heights = [
        [u * bessel(node.friction, u) / node.sigma - node.sigma * (1 - bessel(node.friction, u)) / u
         for node in nodes]
        for u in (early, late)
    ]  # fmt: skip
    double = np.minimum(heights[0], -np.array(heights[1])) - e
    floors = 2 * np.sqrt(m * (1 + m)) if low < CHANGE else double
    assert lower == pytest.approx(1 + floors**2 - (floors[0] - floors[1]) ** 2 / 4, rel=1e-12)


def test_a_late_place_without_overshoot_bounds_nothing_alone():
    with balls.working_precision():
        first, last = (friction._node(r, 1e-3) for r in (30.0, 30.1))
        band = filters.BesselBand(30.0, 30.1)
        # With a distance from the chord that uses up all of |D|, and g > 0, nothing is left.
        assert [float(floor) for floor in friction._floors(band, first, last, balls.exact(1))] == [
            0,
            0,
        ]
        # Stops much earlier than the best ones are not excluded by the late place.
        early = [
            node._replace(sigma=0.01) for node in (friction._node(r, 1e-3) for r in (5.0, 5.01))
        ]
        floors = friction._floors(filters.BesselBand(5.0, 5.01), *early, balls.exact(0))
        m = -bessel(5.0, early[0].late)
        assert float(floors[0]) == pytest.approx(2 * np.sqrt(m * (1 + m)), rel=1e-3)


def test_the_inflation_certainly_falls_after_a_while():
    curve = bounds.friction_inflation(2.5, 3.0, tolerance=4e-3)
    assert 2.5 < curve.smaller_from(2.5) < 2.54
    assert curve.at(curve.smaller_from(2.6)).upper < curve.at(2.6).lower
    assert curve.smaller_from(3.0) == np.inf
    low, high = curve.least_at
    assert 2.9 < low < high == 3.0


def test_least_inflation_and_what_is_smaller_on_a_curve_by_hand():
    frictions, lower, upper = np.array([[2, 3, 4, 5, 6, 7], [5, 4, 1, 4, 6, 8], [6, 5, 3, 5, 7, 9]])
    curve = bounds.FrictionCurve(frictions * 1.0, lower, upper, frictions)
    assert curve.least_at == (3.0, 5.0)
    assert bounds.FrictionCurve(frictions, lower, upper + 9, frictions).least_at == (2.0, 7.0)
    assert curve.smaller_from(7.0) == np.inf
    assert curve.smaller_from(2.0) == np.inf
    falling = bounds.FrictionCurve(frictions * 1.0, -lower[::-1], 1 - lower[::-1], frictions)
    assert falling.at(4.5).lower == pytest.approx(-2.5)
    assert falling.at(4.5).upper == pytest.approx(-1.5)
    shallow = bounds.FrictionCurve(frictions * 1.0, 20.0 - frictions, 20.5 - frictions, frictions)
    assert shallow.smaller_from(2.0) == 3.0
    assert shallow.smaller_from(3.5) == 5.0
    assert shallow.smaller_from(6.9) == np.inf


def test_a_curve_prints_plots_and_pickles(curve):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = curve.plot()
    assert np.array_equal(ax.lines[0].get_ydata(), curve.upper)
    # The axis shows the interval of the curve, and not the ticks of the figure of the paper.
    left, right = ax.get_xlim()
    assert curve.frictions[0] / 1.1 < left < right < 1.1 * curve.frictions[-1]
    assert f"{len(curve.frictions) - 1} cells" in repr(curve)
    again = pickle.loads(pickle.dumps(curve))
    assert again.at(curve.frictions[0]) == curve.at(curve.frictions[0])


def test_progress_and_the_limit_of_work(monkeypatch):
    lines = []
    curve = bounds.friction_inflation(3.0, 3.1, tolerance=4e-3, progress=lines.append)
    assert len(lines) == len(curve.frictions) - 1
    assert lines[-1] == "friction 3.1 of 3.1"
    monkeypatch.setattr(friction, "MOST_CELLS", 2)
    with pytest.raises(bounds.WorkLimitError, match="Only frictions up to 3 are proven"):
        bounds.friction_inflation(3.0, 3.1, tolerance=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1.9}, "2 ≤ low < high"),
        ({"low": 3.0, "high": 3.0}, "2 ≤ low < high"),
        ({"low": np.nan}, "low"),
        ({"high": np.inf}, "high"),
        ({"tolerance": 0.0}, "tolerance"),
    ],
)
def test_senseless_intervals(arguments, message):
    with pytest.raises(ValueError, match=message):
        bounds.friction_inflation(**arguments)


def test_a_friction_outside_the_curve(curve):
    for r in (curve.frictions[0] - 0.01, curve.frictions[-1] + 0.01):
        with pytest.raises(ValueError, match="friction must lie in"):
            curve.at(r)


def test_no_bound_is_refuted_by_random_spectra(curve):
    """Bayes risk over that of the best ridge on 2000 spectra, each with a friction of its own."""
    rng = np.random.default_rng(11)
    x = 10 ** rng.normal(0, 1.5, (2000, 20))
    for i, r in enumerate(rng.uniform(curve.frictions[0], curve.frictions[-1], 20).tolist()):
        found = curve.at(r)
        part = x[100 * i : 100 * (i + 1)]
        g = AcceleratedFlow(r).shrinkage(part, found.stop)
        risk = (g**2 + (1 - g) ** 2 / part).sum(axis=1) / (1 / (1 + part)).sum(axis=1)
        # The stop of the curve is interpolated, and so are the risks at the worst eigenvalues.
        assert risk.max() <= found.upper + 1e-3


# --- where the worst case changes -----------------------------------------------------------------


def test_the_formula_of_the_ratio_is_the_square_of_the_imbalance():
    place, m = overshoot(3.0)
    x = (place / (place * np.sqrt(m / (1 + m)))) ** 2
    assert risk_ratio(x, -m) == pytest.approx((1 + 2 * m) ** 2, rel=1e-12)
