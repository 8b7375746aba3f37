// Exact risk on a spectrum, the stop where it is least, and the ratio to the best ridge.
"use strict";

(function (stoptime) {
  const POINTS_PER_SWING = 12; // as in the search in Python, which looks at more dips
  const MOST_POINTS = 20000;
  const PER_DECADE = 60;
  const BEGUN = 1e-4;
  const SEARCH = 1e4;
  const LAST_PHASE = 1e6;
  const LONGEST_RUN = 20000;
  const LONGEST_DESCENT = 1e12;
  const DIPS = 12;
  const CHECKED = 64; // stops between two checks whether later stops can be better
  const TIED = 1e-13; // relative difference of risks below which they are equal
  const SECTIONS = 32; // of a dip: its place is then known to 1e-7 of its width, its depth to the rounding
  const QUICK_SECTIONS = 12;
  const RIDGES_PER_DECADE = 24; // the risk of ridge is smooth: it changes over decades of the penalty
  const GOLDEN = (Math.sqrt(5) - 1) / 2;
  const table = { g: new Float64Array(0), gain: new Float64Array(0) }; // one for all: never read after a sum
  const work = { filters: 0 }; // filters evaluated since the page was opened: pairs of eigenvalue and stop

  /** Squared coordinates i^(-lean) of a signal, scaled to the mean one; i = 1 has the largest eigenvalue. */
  function leaningSignal(count, lean) {
    const squares = Float64Array.from({ length: count }, (_, i) => (i + 1) ** -lean);
    const total = sum(squares);
    return squares.map((square) => (count * square) / total);
  }

  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

  /**
   * The positive eigenvalues of a spectrum, ascending; for each the squared coordinate of the signal and the
   * weights of variance and bias; and the weight of the bias that zero eigenvalues leave at every stop.
   */
  function spectrumOf(eigenvalues, target = "estimation", lean = 0) {
    const values = Float64Array.from(eigenvalues.filter((s) => s > 0)).sort();
    const prediction = target === "prediction";
    const squares = leaningSignal(eigenvalues.length, lean);
    const weights = prediction ? values : values.map(() => 1);
    const signal = squares.slice(0, values.length).reverse();
    return {
      values,
      lean,
      squares,
      signal,
      weights,
      count: eigenvalues.length,
      biasWeights: weights.map((weight, i) => weight * signal[i]),
      zeroWeight: prediction ? 0 : sum(squares.subarray(values.length)),
      smallest: values.length === eigenvalues.length ? values[0] : 0,
      largest: values[values.length - 1],
    };
  }

  /** Bias and variance per unit of r²/p and of σ²/n. They do not depend on n, nor on the noise. */
  function unitRisk(method, spectrum, stop) {
    const { values } = spectrum;
    if (stop === Infinity) {
      const variance = values.reduce((total, s, i) => total + spectrum.weights[i] / s, 0);
      return [spectrum.zeroWeight, variance];
    }
    if (table.g.length !== values.length) {
      table.g = new Float64Array(values.length);
      table.gain = new Float64Array(values.length);
    }
    method.fill(values, stop, table.g, table.gain);
    work.filters += values.length;
    return summed(spectrum, table.g, table.gain);
  }

  function summed({ values, weights, biasWeights, zeroWeight }, g, gain) {
    let bias = 0;
    let variance = 0;
    for (let i = 0; i < values.length; i += 1) {
      bias += biasWeights[i] * g[i] * g[i];
      variance += weights[i] * values[i] * gain[i] * gain[i];
    }
    return [zeroWeight + bias, variance];
  }

  /** Yield the unit risks of an iteration at k = 0, 1, 2, ... from one run, for ever. */
  function* runRisk(method, spectrum) {
    const square = method.pace ** 4; // the run gives φ/ε, and the pace is √ε
    for (const [g, gain] of method.iterates(spectrum.values)) {
      const [bias, variance] = summed(spectrum, g, gain);
      work.filters += g.length;
      yield [bias, square * variance];
    }
  }

  /** Unit risks at many stops; those of a run are all k up to the last of them. */
  function unitCurve(method, spectrum, stops) {
    if (method.iterates) stops = Array.from({ length: Math.max(...stops) + 1 }, (_, k) => k);
    const [bias, variance] = [new Float64Array(stops.length), new Float64Array(stops.length)];
    const run = method.iterates && runRisk(method, spectrum);
    stops.forEach((stop, i) => {
      [bias[i], variance[i]] = run ? run.next().value : unitRisk(method, spectrum, stop);
    });
    return { stops, bias, variance };
  }

  /** Signal r² = snr·σ², noise σ² = 1: the factors of both sums, and stop and risk of the best ridge. */
  function priorOf(spectrum, { n, snr }) {
    const prior = { scale: (snr * n) / spectrum.count, bias: snr / spectrum.count, variance: 1 / n };
    return { ...prior, ...(spectrum.lean === 0 ? evenRidge(spectrum, prior) : bestRidge(spectrum, prior)) };
  }

  /** The best ridge for a signal that is the same in all directions. No method has less risk. */
  function evenRidge({ values, weights, zeroWeight }, { scale: alpha, variance }) {
    const oracle = sum(values.map((s, i) => (weights[i] * alpha) / (alpha * s + 1)));
    return { alpha, oracle: variance * (oracle + zeroWeight * alpha) };
  }

  /**
   * The best ridge for a leaning signal. In the direction of the squared coordinate c the best stop is c·scale,
   * and the risk rises on both sides of it, so the best of all lies between the least and the largest of these.
   */
  function bestRidge(spectrum, prior) {
    const ridge = stoptime.method("ridge");
    const risk = (stop) => totalRisk(ridge, spectrum, prior, stop);
    const ends = [spectrum.signal[0], spectrum.signal[spectrum.signal.length - 1]].map((c) => c * prior.scale);
    const low = Math.log10(Math.min(...ends));
    const steps = Math.ceil(RIDGES_PER_DECADE * (Math.log10(Math.max(...ends)) - low));
    // one step more at each end: a dip has neighbours on both sides
    const stops = Array.from({ length: steps + 3 }, (_, i) => 10 ** (low + (i - 1) / RIDGES_PER_DECADE));
    const risks = stops.map(risk);
    const sampled = stops.map((stop, i) => ({ stop, risk: risks[i] })).reduce(lower);
    const refined = dipsOf(stops, risks).map((i) => refine(risk, stops[i - 1], stops[i + 1]));
    const best = refined.reduce(lower, sampled);
    return { alpha: best.stop, oracle: best.risk };
  }

  function totalRisk(method, spectrum, prior, stop) {
    const [bias, variance] = unitRisk(method, spectrum, stop);
    return prior.bias * bias + prior.variance * variance;
  }

  /** A lower bound of the risk at all later stops: |g| is below its envelope, and the best g is 1/(1+αs). */
  function lowerBound(method, spectrum, prior, stop) {
    let total = prior.bias * spectrum.zeroWeight;
    spectrum.values.forEach((s, i) => {
      const square = spectrum.signal[i];
      const g = Math.min(1 / (1 + prior.scale * square * s), method.envelope(s, stop));
      total += spectrum.weights[i] * (prior.bias * square * g * g + (prior.variance * (1 - g) ** 2) / s);
    });
    return total;
  }

  /** Ascending stops: even on a logarithmic scale, and beside them dense enough to follow the fastest swing. */
  function* searchGrid(method, spectrum, first, last) {
    const begin = Math.max(first, BEGUN / spectrum.largest ** (1 / method.order));
    const decades = Math.log10(last / begin);
    const count = Math.floor(PER_DECADE * decades) + 1;
    const step = Math.PI / (Math.sqrt(spectrum.largest) * POINTS_PER_SWING);
    const even = method.order === 2 && !method.monotone ? Math.min(MOST_POINTS, (last - begin) / step) : 0;
    const geometric = (i) => (i > count ? Infinity : begin * (last / begin) ** (i / count));
    const arithmetic = (j) => (j >= even ? Infinity : begin + j * step);
    yield first;
    for (let i = 0, j = 0; i <= count || j < even; ) {
      const [a, b] = [geometric(i), arithmetic(j)];
      yield Math.min(a, b);
      if (a <= b) i += 1;
      if (b <= a) j += 1;
    }
  }

  /** Refine a dip between its neighbours by golden sections. */
  function refine(risk, left, right, sections = SECTIONS) {
    let [a, b] = [right - GOLDEN * (right - left), left + GOLDEN * (right - left)];
    let [riskA, riskB] = [risk(a), risk(b)];
    for (let step = 0; step < sections; step += 1) {
      if (riskA <= riskB) {
        [right, b, riskB] = [b, a, riskA];
        a = right - GOLDEN * (right - left);
        riskA = risk(a);
      } else {
        [left, a, riskA] = [a, b, riskB];
        b = left + GOLDEN * (right - left);
        riskB = risk(b);
      }
    }
    return riskA <= riskB ? { stop: a, risk: riskA } : { stop: b, risk: riskB };
  }

  const NONE = { stop: NaN, risk: Infinity };
  const lower = (x, y) => (y.risk < x.risk * (1 - TIED) ? y : x); // of equals the first, which is the earliest

  /** The dips of a sampled curve, deepest first, each with its neighbours. */
  function dipsOf(stops, risks) {
    const dips = [];
    for (let i = 1; i + 1 < stops.length; i += 1) {
      if (risks[i] <= risks[i - 1] && risks[i] <= risks[i + 1]) dips.push(i);
    }
    return dips.sort((i, j) => risks[i] - risks[j]);
  }

  // The searches are generators: they yield often, so that the page can handle events between the parts.

  /** The least risk of a flow in [first, last]; the search ends when no later stop can be better. */
  function* flowMinimum(method, spectrum, prior, first, last) {
    const risk = (stop) => totalRisk(method, spectrum, prior, stop);
    const [stops, risks] = [[], []];
    let least = Infinity;
    for (const stop of searchGrid(method, spectrum, first, last)) {
      stops.push(stop);
      risks.push(risk(stop));
      least = Math.min(least, risks[risks.length - 1]);
      if (stops.length % CHECKED === 0) {
        if (lowerBound(method, spectrum, prior, stop) > least) break;
        yield;
      }
    }
    const dips = dipsOf(stops, risks);
    const deepest = [Math.min(...dips), ...dips.slice(0, DIPS)].filter(Number.isFinite).sort((i, j) => i - j);
    let best = NONE;
    for (const i of deepest) {
      best = lower(best, refine(risk, stops[i - 1], stops[i + 1]));
      yield;
    }
    return stops.map((stop, i) => ({ stop, risk: risks[i] })).reduce(lower, best);
  }

  /** The best iteration among all up to the last. */
  function* runMinimum(method, spectrum, prior, last) {
    const run = runRisk(method, spectrum);
    let best = NONE;
    for (let stop = 0; stop <= Math.min(LONGEST_RUN, last); stop += 1) {
      const [bias, variance] = run.next().value;
      best = lower(best, { stop, risk: prior.bias * bias + prior.variance * variance });
      if (stop % CHECKED === 0) yield;
    }
    return best;
  }

  /** The best iteration of gradient descent: a grid of whole numbers, made closer around its dips. */
  function* descentMinimum(method, spectrum, prior, last) {
    const known = new Map();
    const look = (k) => {
      if (!known.has(k)) known.set(k, totalRisk(method, spectrum, prior, k));
    };
    const decades = Math.log10(last);
    look(0);
    for (let i = 0; i <= PER_DECADE * decades; i += 1) look(Math.ceil(10 ** (i / PER_DECADE)));
    for (let size = -1; size < known.size; ) {
      size = known.size;
      yield;
      const stops = [...known.keys()].sort((a, b) => a - b);
      const dips = dipsOf(stops, stops.map((k) => known.get(k))).slice(0, 8);
      for (const i of dips) {
        const [low, high] = [stops[i - 1], stops[i + 1]];
        const parts = Math.min(high - low, 64);
        for (let j = 0; j <= parts; j += 1) look(Math.round(low + ((high - low) * j) / parts));
      }
    }
    return [...known].map(([stop, risk]) => ({ stop, risk })).reduce(lower);
  }

  /** The flow an iteration follows as its step shrinks. */
  function flowOf(method) {
    const { friction, momentum } = method.parameters;
    if (method.name === "gradient-descent") return stoptime.method("gradient-flow");
    if (method.name === "nesterov") return stoptime.method("nesterov-flow", { friction });
    return stoptime.method("heavy-ball-flow", { damping: (1 - momentum) / (2 * method.pace) });
  }

  /** The stop with φ(0, t) = gain, by bisection on a logarithmic scale. */
  function stopWithGain(method, gain) {
    if (method.iteration) return stopWithGain(flowOf(method), gain) / method.pace;
    let [low, high] = [-80, 80];
    for (let step = 0; step < 70; step += 1) {
      const middle = (low + high) / 2;
      if (stoptime.filter(method, 0, Math.exp(middle))[1] < gain) low = middle;
      else high = middle;
    }
    return Math.exp((low + high) / 2);
  }

  /** The first and the last stop of the search, as in Python. */
  function searchRange(method, spectrum, prior) {
    if (spectrum.lean !== 0) return [0, LAST_PHASE / spectrum.values[0] ** (1 / method.order) / method.pace];
    const centre = stopWithGain(method, prior.alpha);
    return [centre / SEARCH, centre * SEARCH];
  }

  /** Find the stop with the least risk, that risk, and its ratio to the best ridge, as `stoptime.inflation`. */
  function* inflationSearch(method, spectrum, prior) {
    if (method.name === "ridge") return { stop: prior.alpha, risk: prior.oracle, ratio: 1 };
    const [first, last] = searchRange(method, spectrum, prior);
    const lastStep = Math.max(1, Math.floor(last));
    let best;
    if (method.iterates) best = yield* runMinimum(method, spectrum, prior, lastStep);
    else if (method.iteration) best = yield* descentMinimum(method, spectrum, prior, Math.min(lastStep, LONGEST_DESCENT));
    else best = yield* flowMinimum(method, spectrum, prior, first, last);
    for (const stop of [0, Infinity]) best = lower(best, { stop, risk: totalRisk(method, spectrum, prior, stop) });
    return { ...best, ratio: best.risk / prior.oracle };
  }

  function inflation(method, spectrum, prior) {
    const search = inflationSearch(method, spectrum, prior);
    for (;;) {
      const { done, value } = search.next();
      if (done) return value;
    }
  }

  /** An approximation of the same from a drawn curve, for use while a slider moves. */
  function quickInflation(method, spectrum, prior, curve) {
    if (method.name === "ridge") return inflation(method, spectrum, prior);
    const risks = curve.bias.map((bias, i) => prior.bias * bias + prior.variance * curve.variance[i]);
    let best = { stop: Infinity, risk: totalRisk(method, spectrum, prior, Infinity) };
    risks.forEach((risk, i) => (best = lower(best, { stop: curve.stops[i], risk })));
    const dip = dipsOf(curve.stops, risks)[0];
    if (dip !== undefined && !method.iteration) {
      const risk = (stop) => totalRisk(method, spectrum, prior, stop);
      best = lower(best, refine(risk, curve.stops[dip - 1], curve.stops[dip + 1], QUICK_SECTIONS));
    }
    return { ...best, ratio: best.risk / prior.oracle };
  }

  Object.assign(stoptime, {
    inflation, inflationSearch, leaningSignal, lowerBound, priorOf, quickInflation, spectrumOf, totalRisk, unitCurve, unitRisk, work,
  });
})((globalThis.stoptime ??= {}));
