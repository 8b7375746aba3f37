// The Bessel function of accelerated flow, and forms of exponentials that do not cancel.
"use strict";

(function (stoptime) {
  const SERIES_REACH = 3; // terms of the power series stay below 10: at most one digit is lost
  const SERIES_TERMS = 16; // at u = 3 the next one is below 1e-20
  const HANKEL_START = 128; // from here on a dozen terms of Hankel's expansion reach the rounding
  const MARCH_TERMS = 24; // over a distance of one: 1/24! is far below the rounding
  const TAYLOR_TERMS = 16; // over a distance of one half
  const KEPT = 64; // Bessel functions remembered: dragging a slider makes a new one each frame
  const remembered = new Map();

  /** log Γ(x) for x > 0, by Stirling's series after a shift to x ≥ 12. */
  function logGamma(x) {
    let shift = 0;
    for (; x < 12; x += 1) shift += Math.log(x);
    const y = 1 / (x * x);
    const tail = 1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188 - y * (691 / 360360)))));
    return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + tail / x - shift;
  }

  /** (e^x - 1)/x. */
  const exprel = (x) => (x === 0 ? 1 : Math.expm1(x) / x);

  const INVERSE_FACTORIALS = [1];
  for (let k = 1; k <= 20; k += 1) INVERSE_FACTORIALS.push(INVERSE_FACTORIALS[k - 1] / k);

  /** (e^x - 1 - x)/x² for |x| ≤ 1, by its series. */
  function exprel2(x) {
    let total = 0;
    for (let k = 20; k >= 2; k -= 1) total = total * x + INVERSE_FACTORIALS[k];
    return total;
  }

  /** (e^x - 1)/x - 1, free of cancellation. */
  const exprelMinusOne = (x) => (Math.abs(x) <= 1 ? x * exprel2(x) : exprel(x) - 1);

  /** (1 - sin(x)/x)/x² for |x| ≤ 1, by its series. */
  function sincDefect(x) {
    let total = 0;
    for (let k = 19; k >= 3; k -= 2) total = INVERSE_FACTORIALS[k] - total * x * x;
    return total;
  }

  const sinc = (x) => (x === 0 ? 1 : Math.sin(x) / x);
  const oneMinusSinc = (x) => (Math.abs(x) <= 1 ? x * x * sincDefect(x) : 1 - Math.sin(x) / x);

  /** Coefficients of Σ c_k (-u²)^k = Λ_ν(u) = Γ(ν+1) (2/u)^ν J_ν(u). */
  function seriesCoefficients(nu) {
    const c = new Float64Array(SERIES_TERMS);
    c[0] = 1;
    for (let k = 1; k < SERIES_TERMS; k += 1) c[k] = c[k - 1] / (4 * k * (nu + k));
    return c;
  }

  /** Taylor coefficients at u = c of the solution of u y'' + (2ν+1) y' + u y = 0 with given y and y'. */
  function taylor(nu, c, value, slope) {
    const a = new Float64Array(MARCH_TERMS);
    a[0] = value;
    a[1] = slope;
    for (let k = 0; k + 2 < MARCH_TERMS; k += 1) {
      const known = (k + 1) * (k + 2 * nu + 1) * a[k + 1] + c * a[k] + (k > 0 ? a[k - 1] : 0);
      a[k + 2] = -known / (c * (k + 1) * (k + 2));
    }
    return a;
  }

  /** Taylor coefficients at 3, 4, ..., 128. Marching outwards is stable: the other solution, u^(-2ν), falls. */
  function taylorTable(nu, series) {
    const count = HANKEL_START - SERIES_REACH + 1;
    const table = new Float64Array(count * TAYLOR_TERMS);
    let value = series(SERIES_REACH);
    let slope = series.slope(SERIES_REACH);
    for (let i = 0; i < count; i += 1) {
      const a = taylor(nu, SERIES_REACH + i, value, slope);
      table.set(a.subarray(0, TAYLOR_TERMS), i * TAYLOR_TERMS);
      value = slope = 0;
      for (let k = MARCH_TERMS - 1; k >= 0; k -= 1) value += a[k];
      for (let k = MARCH_TERMS - 1; k >= 1; k -= 1) slope += k * a[k];
    }
    return table;
  }

  function powerSeries(nu) {
    const c = seriesCoefficients(nu);
    const horner = (x, first) => {
      let total = 0;
      for (let k = SERIES_TERMS - 1; k >= first; k -= 1) total = total * x + c[k];
      return total;
    };
    const series = (u) => horner(-u * u, 0);
    series.gain = (u) => horner(-u * u, 1); // (1 - Λ)/u²
    series.slope = (u) => {
      let total = 0;
      for (let k = SERIES_TERMS - 1; k >= 1; k -= 1) total = total * -(u * u) + k * c[k];
      return -2 * u * total;
    };
    return series;
  }

  function hankelExpansion(nu) {
    const even = [];
    const odd = [];
    for (let k = 0, a = 1; k < 40 && Math.abs(a) / HANKEL_START ** k > 1e-18; k += 1) {
      (k % 2 ? odd : even).push((k % 4 > 1 ? -1 : 1) * a);
      a *= (4 * nu * nu - (2 * k + 1) ** 2) / (8 * (k + 1));
    }
    const shift = (nu / 2 + 0.25) * Math.PI;
    const [a, b] = [Math.cos(shift), Math.sin(shift)];
    const power = -(nu + 0.5);
    const scale = logGamma(nu + 1) + (nu + 0.5) * Math.LN2 - 0.5 * Math.log(Math.PI);
    return (u) => {
      const x = 1 / u;
      const y = x * x;
      let p = 0;
      let q = 0;
      for (let k = even.length - 1; k >= 0; k -= 1) p = p * y + even[k];
      for (let k = odd.length - 1; k >= 0; k -= 1) q = q * y + odd[k];
      q *= x;
      // P cos(u - shift) - Q sin(u - shift) by the addition theorem: the difference would round off
      const wave = Math.cos(u) * (a * p + b * q) + Math.sin(u) * (b * p - a * q);
      return Math.exp(scale + power * Math.log(u)) * wave;
    };
  }

  /**
   * The normalised Bessel function Λ_ν(u) = Γ(ν+1) (2/u)^ν J_ν(u), for ν > -1/2 and u ≥ 0.
   *
   * Power series up to 3, the Taylor series of the nearest whole number up to 128, then Hankel's expansion.
   * The property `gain` is (1 - Λ)/u², free of cancellation.
   */
  function makeBessel(nu) {
    const series = powerSeries(nu);
    const table = taylorTable(nu, series);
    const far = hankelExpansion(nu);
    const decay = (u) => {
      if (u <= SERIES_REACH) return series(u);
      if (u > HANKEL_START) return far(u);
      const node = Math.round(u);
      const distance = u - node;
      const first = (node - SERIES_REACH) * TAYLOR_TERMS;
      let total = table[first + TAYLOR_TERMS - 1];
      for (let k = first + TAYLOR_TERMS - 2; k >= first; k -= 1) total = total * distance + table[k];
      return total;
    };
    decay.gain = (u) => (u <= SERIES_REACH ? series.gain(u) : (1 - decay(u)) / (u * u));
    return decay;
  }

  function bessel(nu) {
    if (!remembered.has(nu)) {
      if (remembered.size >= KEPT) remembered.clear();
      remembered.set(nu, makeBessel(nu));
    }
    return remembered.get(nu);
  }

  stoptime.special = { bessel, exprel, exprel2, exprelMinusOne, oneMinusSinc, sinc, sincDefect };
})((globalThis.stoptime ??= {}));
