"""The mathematics inside the explorer's page against the library, in a real browser."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

import stoptime as st

TOLERANCE = 1e-9
CLASSES = {
    "ridge": st.Ridge,
    "iterated-ridge": st.IteratedRidge,
    "gradient-flow": st.GradientFlow,
    "nesterov-flow": st.AcceleratedFlow,
    "critical-flow": st.CriticalFlow,
    "heavy-ball-flow": st.HeavyBallFlow,
    "gradient-descent": st.GradientDescent,
    "nesterov": st.Nesterov,
    "heavy-ball": st.HeavyBall,
}
FLOWS = tuple(CLASSES)[:6]
ITERATIONS = tuple(CLASSES)[6:]
PARAMETERS = {
    "iterated-ridge": ("times",),
    "nesterov-flow": ("friction",),
    "heavy-ball-flow": ("damping",),
    "gradient-descent": ("step",),
    "nesterov": ("step", "friction"),
    "heavy-ball": ("step", "momentum"),
}


def parameters(rng, largest=1.0):
    """Random parameters in the range of the sliders, for eigenvalues up to the largest."""
    return {
        "friction": float(rng.uniform(0.5, 20)),
        "damping": float(10 ** rng.uniform(-3, 1)),
        "step": float(rng.uniform(0.02, 1.32)) / largest,
        "momentum": float(rng.uniform(0, 0.99)),
        "times": int(rng.integers(1, 11)),
    }


def python_method(name, values):
    return CLASSES[name](**{key: values[key] for key in PARAMETERS.get(name, ())})


def bessel_envelope(nu, u):
    """The size of the swings of the normalised Bessel function, or one."""
    log_size = gammaln(nu + 1) + (nu + 0.5) * np.log(2 / np.maximum(u, 1e-9)) - np.log(np.pi) / 2
    return np.minimum(1, np.exp(log_size))


def settings(rng, name, count):
    """Random eigenvalues, stops and parameters, with the corners among them."""
    for i in range(count):
        s = 0.0 if i % 25 == 0 else float(10 ** rng.uniform(-8, 1))
        t = 0.0 if i % 40 == 1 else float(10 ** rng.uniform(-3, 4))
        values = parameters(rng, max(s, 1e-3))
        if name in ITERATIONS:
            t = float(np.floor(min(t, 3000)))
        if i % 10 == 2 and s > 0:
            # critical, where the formula changes
            values["damping"] = float(np.clip(np.sqrt(s), 1e-3, 10))
        yield s, t, values


@pytest.mark.parametrize("name", [*FLOWS, *ITERATIONS])
def test_filters_are_those_of_the_library(javascript, rng, name):
    cases = list(settings(rng, name, 200 if name in FLOWS else 60))
    found = javascript(
        f"([s, t, values]) => stoptime.filter(stoptime.method('{name}', values), s, t)", cases
    )
    for (s, t, values), (g, gain) in zip(cases, found, strict=True):
        method = python_method(name, values)
        nu = (values["friction"] - 1) / 2
        size = bessel_envelope(nu, t * np.sqrt(s)) if name == "nesterov-flow" else 1.0
        expected = float(method.shrinkage(s, t))
        assert g == pytest.approx(expected, rel=0, abs=TOLERANCE * float(size)), (s, t, values)
        assert gain == pytest.approx(float(method.gain(s, t)), rel=TOLERANCE, abs=0), (s, t, values)


def random_problem(rng, zeros=True, leaning=False):
    """A spectrum, n, a signal and parameters, as people might choose them."""
    p = int(rng.integers(1, 40))
    s = np.sort(10 ** rng.uniform(-3, 0.5, p))
    if zeros and p > 3 and rng.random() < 0.3:
        s[: p // 3] = 0
    known = {"n": int(rng.integers(5, 500)), "snr": float(10 ** rng.uniform(-1, 1.5)), "lean": 0.0}
    if leaning:
        known["lean"] = float(rng.uniform(-4, 4))
    target = "prediction" if rng.random() < 0.5 else "estimation"
    return s, known, target, parameters(rng, s[-1])


def coordinates(s, snr, lean):
    """The signal of squared length snr whose squared coordinates are like i^(-lean)."""
    number = np.argsort(np.argsort(-s, kind="stable")) + 1.0
    a = number ** (-lean / 2)
    return a * np.sqrt(snr / np.sum(a**2))


def python_risk(name, stops, s, known, target, values):
    method = python_method(name, values)
    setting = {"eigenvalues": s, "noise": 1.0, "n_samples": known["n"], "target": target}
    if known["lean"] == 0:
        return st.bayes_risk(method, stops, signal=known["snr"], **setting)
    return st.risk(method, stops, signal=coordinates(s, known["snr"], known["lean"]), **setting)


def converges(name, s, values):
    return not (name == "heavy-ball" and values["step"] * s[-1] >= 2 * (1 + values["momentum"]))


RISKS = """([name, s, known, target, values, stops, searched]) => {
  const spectrum = stoptime.spectrumOf(s, target, known.lean);
  const prior = stoptime.priorOf(spectrum, known);
  const method = stoptime.method(name, values);
  const curve = stoptime.unitCurve(method, spectrum, stops);
  const places = stops.map((stop) => curve.stops.indexOf(stop));
  const scaled = (part) => places.map((place) => prior[part] * curve[part][place]);
  const best = searched ? stoptime.inflation(method, spectrum, prior) : null;
  return [scaled("bias"), scaled("variance"), best];
}"""


@pytest.mark.parametrize("name", [*FLOWS, *ITERATIONS])
def test_risks_and_best_stops_are_those_of_the_library(javascript, rng, name):
    problems = [random_problem(rng, leaning=i % 2 == 0) for i in range(30)]
    problems = [problem for problem in problems if converges(name, problem[0], problem[3])]
    stops = [0, 0.01, 0.3, 1, 4, 20, 100, 3000]
    if name in ITERATIONS:
        stops = [0, 1, 2, 5, 20, 100, 400]
    cases = [
        [name, s.tolist(), *rest, stops, place < 12] for place, (s, *rest) in enumerate(problems)
    ]
    for problem, answer in zip(problems, javascript(RISKS, cases), strict=True):
        bias, variance, found = answer
        curve = python_risk(name, stops, *problem)
        np.testing.assert_allclose(bias, curve.bias, rtol=TOLERANCE)
        np.testing.assert_allclose(variance, curve.variance, rtol=TOLERANCE)
        if found is None:
            continue
        if name in {"nesterov", "heavy-ball"}:  # all iterations that the library looks at
            every = python_risk(name, np.arange(20_001), *problem).total
            settled = python_risk(name, [np.inf], *problem).total
            assert found["risk"] == pytest.approx(min(every.min(), settled[0]), rel=TOLERANCE)
            continue
        total = python_risk(name, [found["stop"]], *problem).total[0]
        assert found["risk"] == pytest.approx(total, rel=TOLERANCE), problem
        s, known, target, values = problem
        if known["lean"]:
            signal = coordinates(s, known["snr"], known["lean"])
            setting = {"noise": 1.0, "n_samples": known["n"], "target": target}
            method = python_method(name, values)
            expected = st.inflation(method, eigenvalues=s, signal=signal, **setting)
            assert found["ratio"] == pytest.approx(expected.ratio, rel=TOLERANCE), problem


def test_spectra(javascript):
    power, ratios, distances = javascript(
        "([name, ...values]) => stoptime[name](...values)",
        [
            ["powerLaw", 100, 0.7],
            ["conditioned", 50, 300.0, "geometric"],
            ["conditioned", 50, 300.0, "linear"],
        ],
    )
    np.testing.assert_allclose(power, np.arange(100, 0, -1.0) ** -0.7, rtol=1e-14)
    np.testing.assert_allclose(ratios, np.geomspace(1 / 300, 1, 50), rtol=1e-13)
    np.testing.assert_allclose(distances, np.linspace(1 / 300, 1, 50), rtol=1e-13)
    assert javascript("([s, n]) => stoptime.withRank(s, n)", [[[1, 2, 3, 4], 2]]) == [[0, 0, 3, 4]]


@pytest.mark.parametrize("aspect", [0.05, 1.0, 4.0])
def test_quantiles_of_the_marchenko_pastur_law(javascript, aspect):
    p = 60
    (s,) = javascript("([p, c]) => stoptime.marchenkoPastur(p, c)", [[p, aspect]])
    low = (1 - np.sqrt(aspect)) ** 2

    def density(psi):
        return 2 / np.pi * np.sin(psi) ** 2 / (low + 4 * np.sqrt(aspect) * np.sin(psi / 2) ** 2)

    zeros = sum(value == 0 for value in s)
    assert zeros == sum((np.arange(p) + 0.5) / p <= 1 - 1 / aspect)
    for i in range(zeros, p):
        psi = 2 * np.arcsin(np.sqrt((s[i] - low) / (4 * np.sqrt(aspect))))
        below = max(0.0, 1 - 1 / aspect) + quad(density, 0, psi, epsabs=1e-13)[0]
        assert below == pytest.approx((i + 0.5) / p, abs=TOLERANCE)
    nodes, weights = st.marchenko_pastur(aspect)
    assert np.mean(s) == pytest.approx(weights @ nodes, abs=3e-3)


def test_the_table_shows_the_numbers_of_the_library(visit):
    lean = 2.5
    page = visit(
        "#spectrum=power&nu=1.3&p=60&n=700&snr=4&friction=4&critical=no&damping=0.3&step=0.5"
        f"&times=3&lean={lean}&show={','.join(CLASSES)}"
    )
    page.wait_for_selector('#table[data-exact="true"]')
    s = np.arange(1, 61) ** -1.3
    values = {"friction": 4.0, "damping": 0.3, "step": 0.5, "momentum": 1 - 2 * 0.3 * np.sqrt(0.5)}
    values["times"] = 3
    known = {"n": 700, "snr": 4.0, "lean": lean}
    oracle = python_risk("ridge", [1e-3, 1e4], s, known, "estimation", values).best_total
    for name in CLASSES:
        row = page.locator(f'#table tr[data-method="{name}"] td[data-value]')
        stop, risk, ratio, now = (float(row.nth(i).get_attribute("data-value")) for i in range(4))
        stops = (
            np.arange(300) if name in ITERATIONS else [1e-3, 1e4]
        )  # momentum is best at about 20
        curve = python_risk(name, stops, s, known, "estimation", values)
        best, least = curve.model.minimum(stops[0], stops[-1])
        assert stop == pytest.approx(best, rel=1e-5)
        assert risk == pytest.approx(least, rel=TOLERANCE)
        assert ratio == pytest.approx(least / oracle, rel=TOLERANCE)
        assert now >= risk * (1 - 1e-12)
