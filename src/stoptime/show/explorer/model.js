// Computes the curves from the settings. Nothing here touches the page.
"use strict";

(function (stoptime) {
  const POINTS = [150, 1600]; // of a curve: more where eigenvalues are few, because their oscillations do not average out
  const FILTERS = 75000; // filters evaluated for a curve
  const DRAWN_ITERATIONS = 800; // runs are drawn up to here; the search for the best stop goes further
  const DOTS_PER_DECADE = 20;
  const FILTER_POINTS = 160;
  const kept = new Map(); // unit curves by method: they do not depend on n, the noise or the cursor

  /** All eigenvalues, and n. Throws an Error if pasted eigenvalues are wrong. */
  function chooseSpectrum(state) {
    const { p, n } = state;
    if (state.spectrum === "pasted") return { eigenvalues: stoptime.parseEigenvalues(state.eigenvalues), n };
    if (state.spectrum === "marchenko-pastur") {
      return { eigenvalues: stoptime.marchenkoPastur(p, state.aspect), n: p / state.aspect };
    }
    const values =
      state.spectrum === "power" ? stoptime.powerLaw(p, state.nu) : stoptime.conditioned(p, state.kappa, state.spacing);
    return { eigenvalues: stoptime.withRank(values, n), n };
  }

  /** Damping γ of heavy ball: the root of the smallest eigenvalue, or as chosen. */
  const dampingOf = (state, spectrum) => (state.critical === "yes" ? Math.sqrt(spectrum.smallest) : state.damping);

  /** Every method with the parameters chosen, or the reason why it has no path here. */
  function chooseMethods(state, spectrum) {
    const step = state.step / spectrum.largest;
    const damping = dampingOf(state, spectrum);
    const momentum = 1 - 2 * damping * Math.sqrt(step);
    const parameters = {
      "iterated-ridge": { times: state.times },
      "nesterov-flow": { friction: state.friction },
      "heavy-ball-flow": { damping },
      "gradient-descent": { step },
      "nesterov": { step, friction: state.friction },
      "heavy-ball": { step, momentum },
    };
    return stoptime.METHODS.map((name) => {
      const reason = whyNot(name, damping, momentum, state.step);
      return reason ? { name, reason } : { name, method: stoptime.method(name, parameters[name]) };
    });
  }

  function whyNot(name, damping, momentum, relativeStep) {
    if (!name.startsWith("heavy-ball")) return null;
    if (!(damping > 0)) return "Critical damping needs a positive smallest eigenvalue. Choose a damping.";
    if (name === "heavy-ball" && momentum < 0) return "No momentum is left. Choose a smaller step or a smaller damping.";
    if (name === "heavy-ball" && relativeStep >= 2 * (1 + momentum)) return "The iteration diverges. Choose a smaller step.";
    return null;
  }

  /** Whole decades of the time axis that contain the start and the end of learning, and the best ridge. */
  function timeRange(spectrum, alpha) {
    const [fast, oracle] = [1 / Math.sqrt(spectrum.largest), Math.sqrt(alpha)];
    const slow = Math.min(3 / Math.sqrt(spectrum.values[0]), 1000 * fast);
    const decade = (round, time) => 10 ** round(Math.log10(time) + (round === Math.floor ? 1e-9 : -1e-9));
    return [
      decade(Math.floor, Math.min(0.3 * fast, oracle / 5)),
      decade(Math.ceil, Math.max(30 * fast, 5 * oracle, slow)),
    ];
  }

  const geometric = (low, high, count) =>
    Float64Array.from({ length: count }, (_, i) => low * (high / low) ** (i / (count - 1)));

  /** The stops at which a method is drawn. */
  function drawnStops(method, [low, high], eigenvalues) {
    const count = Math.min(Math.max(Math.round(FILTERS / eigenvalues), POINTS[0]), POINTS[1]);
    const stops = geometric(low, high, count).map((time) => stoptime.ownStop(method, time));
    if (!method.iteration) return stops;
    const last = stoptime.ownStop(method, high);
    if (method.iterates) return [Math.min(Math.floor(last), DRAWN_ITERATIONS)];
    return [...new Set(stops.map(Math.round))].filter((k) => k >= 1);
  }

  /** Choose the points of an iteration that are drawn as dots, equally many in each decade. */
  function thinned(times) {
    const dots = [];
    let next = 0;
    times.forEach((time, i) => {
      if (time > 0 && time >= next) {
        dots.push(i);
        next = time * 10 ** (1 / DOTS_PER_DECADE);
      }
    });
    return dots;
  }

  function unitCurveOf(method, spectrum, range, spectrumKey) {
    const key = [spectrumKey, JSON.stringify(method.parameters), range].join("|");
    const old = kept.get(method.name);
    if (old?.key === key) return old.curve;
    const curve = stoptime.unitCurve(method, spectrum, drawnStops(method, range, spectrum.values.length));
    curve.times = Float64Array.from(curve.stops, (stop) => stoptime.axisTime(method, stop));
    curve.dots = method.iteration ? thinned(curve.times) : null;
    kept.set(method.name, { key, curve });
    return curve;
  }

  /** Scale a unit curve: bias, variance and risk of the chosen n and signal. */
  function scaled(curve, prior) {
    const count = curve.stops.length;
    const [bias, variance, risk] = [0, 1, 2].map(() => new Float64Array(count));
    for (let i = 0; i < count; i += 1) {
      bias[i] = prior.bias * curve.bias[i];
      variance[i] = prior.variance * curve.variance[i];
      risk[i] = bias[i] + variance[i];
    }
    return { ...curve, unit: curve, bias, variance, risk };
  }

  /** Everything but the cursor. Methods that are hidden are not computed. */
  function modelOf(state) {
    const { eigenvalues, n } = chooseSpectrum(state);
    const spectrum = stoptime.spectrumOf(eigenvalues, state.target, state.lean);
    const prior = stoptime.priorOf(spectrum, { n, snr: state.snr });
    const range = timeRange(spectrum, prior.alpha);
    const spectrumKey = [state.target, state.lean, eigenvalues].join();
    const entries = chooseMethods(state, spectrum).map((entry) => {
      if (!entry.method || !state.show.includes(entry.name)) return entry;
      const unit = unitCurveOf(entry.method, spectrum, range, spectrumKey);
      const quick = stoptime.quickInflation(entry.method, spectrum, prior, unit);
      return { ...entry, curve: scaled(unit, prior), best: quick };
    });
    return { eigenvalues, n, spectrum, prior, range, entries, damping: dampingOf(state, spectrum) };
  }

  /** A method at a time of the common axis: its own stop there, bias, variance and risk. */
  function standing(entry, model, time) {
    const { method, curve } = entry;
    const exact = stoptime.ownStop(method, time);
    const stop = method.iteration ? Math.round(exact) : exact;
    let unit = null;
    if (!method.iterates) unit = stoptime.unitRisk(method, model.spectrum, stop);
    else if (stop < curve.stops.length) unit = [curve.unit.bias[stop], curve.unit.variance[stop]];
    if (!unit) return { stop, beyond: true };
    const [bias, variance] = [model.prior.bias * unit[0], model.prior.variance * unit[1]];
    return { stop, bias, variance, risk: bias + variance };
  }

  /** Eigenvalues at which the filter of the current time is drawn, and the filter there. */
  function filterCurve(entry, model, time) {
    const { smallest, largest } = filterRange(model.spectrum);
    const s = geometric(smallest, largest, FILTER_POINTS);
    const { stop, beyond } = standing(entry, model, time);
    if (beyond) return null;
    const [g, gain] = [new Float64Array(FILTER_POINTS), new Float64Array(FILTER_POINTS)];
    entry.method.fill(s, stop, g, gain);
    stoptime.work.filters += s.length * (entry.method.iterates ? stop + 1 : 1);
    return { s, g };
  }

  /** From the smallest positive eigenvalue to the largest; two decades around one that is alone. */
  function filterRange({ values, largest }) {
    const smallest = values[0];
    return largest / smallest < 10 ? { smallest: largest / 100, largest } : { smallest, largest };
  }

  Object.assign(stoptime, { chooseSpectrum, filterCurve, filterRange, modelOf, standing });
})((globalThis.stoptime ??= {}));
