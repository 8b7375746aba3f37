// The methods: each a formula for the shrinkage g(s, t) and the gain φ(s, t) = (1 - g)/s, without data.
"use strict";

(function (stoptime) {
  const { bessel, exprel, exprel2, exprelMinusOne, oneMinusSinc, sinc, sincDefect } = stoptime.special;

  // A method has an `order` (1: the stop is like 1/λ, 2: like 1/√λ), a `pace` (time per unit of the stop) and
  // `at(t)`, which returns a function that writes g and φ of an eigenvalue s into a pair of numbers.
  // `envelope(s, t)` bounds |g(s, t')| for all t' ≥ t.

  const ridge = () => ({
    order: 1,
    pace: 1,
    at: (t) => (s, pair) => {
      const g = 1 / (1 + t * s);
      pair[0] = g;
      pair[1] = t * g;
    },
    envelope: (s, t) => 1 / (1 + t * s),
  });

  const gradientFlow = () => ({
    order: 1,
    pace: 1,
    at: (t) => (s, pair) => {
      const x = t * s;
      const early = x < 0.5; // then 1 - g would cancel
      const rest = early ? Math.expm1(-x) : Math.exp(-x);
      pair[0] = early ? 1 + rest : rest;
      pair[1] = s > 0 ? (early ? -rest : 1 - rest) / s : t;
    },
    envelope: (s, t) => Math.exp(-t * s),
  });

  function acceleratedFlow({ friction }) {
    const nu = (friction - 1) / 2;
    const decay = bessel(nu);
    return {
      order: 2,
      pace: 1,
      at: (t) => (s, pair) => {
        const u = t * Math.sqrt(s);
        const g = decay(u);
        pair[0] = g;
        pair[1] = u <= 1 ? t * (t * decay.gain(u)) : (1 - g) / s;
      },
      // the energy g² + (∂g/∂u)² falls with time; Λ' = -u Λ_{ν+1}/(2ν+2)
      envelope: (s, t) => {
        const u = t * Math.sqrt(s);
        return Math.hypot(decay(u), (u / (2 * nu + 2)) * bessel(nu + 1)(u));
      },
    };
  }

  // Heavy-ball flow: with a = γt, θ = ωt it swings where s > γ², and creeps elsewhere. Each gain is a sum of
  // terms of one sign until the direction has settled, when 1 - g is no longer small.

  /** What a time t has in store for every eigenvalue. */
  function heavyBallMoment(gamma, t) {
    const a = gamma * t;
    const fade = Math.exp(-a);
    return { t, gamma, a, fade, early: a <= 1 ? exprel2(a) : NaN };
  }

  function swing(moment, s, omega, pair) {
    const { t, gamma, a, fade } = moment;
    const theta = omega * t;
    const [cosine, wave] = [Math.cos(theta), sinc(theta)];
    pair[0] = fade * (cosine + a * wave);
    if (t * t * s <= 1) {
      const waves = sinc(theta / 2) ** 2 / 2 + a * sincDefect(theta);
      const share = (gamma / s) * gamma;
      pair[1] = t * (t * fade * (share * moment.early + (omega / s) * omega * waves));
    } else if (a > 1) {
      pair[1] = (1 - pair[0]) / s;
    } else {
      const turned = theta > 0.5 ? 1 - cosine : 2 * Math.sin(theta / 2) ** 2;
      const missing = theta > 1 ? 1 - wave : oneMinusSinc(theta);
      pair[1] = (fade * (a * a * moment.early + turned + a * missing)) / s;
    }
  }

  function creep(moment, s, omega, pair) {
    const { t, gamma } = moment;
    const d = (s / (gamma + omega)) * t;
    const slow = Math.exp(-d);
    pair[0] = slow * (1 + d * exprel(-2 * omega * t));
    if (d > 1) pair[1] = (1 - pair[0]) / s;
    else pair[1] = (t / (gamma + omega)) * slow * (exprelMinusOne(d) - exprelMinusOne(-2 * omega * t));
  }

  function heavyBallFlow({ damping: gamma }) {
    const at = (t) => {
      const moment = heavyBallMoment(gamma, t);
      return (s, pair) => {
        const square = s - gamma * gamma;
        if (square > 0) swing(moment, s, Math.sqrt(square), pair);
        else creep(moment, s, Math.sqrt(-square), pair);
      };
    };
    const own = new Float64Array(2);
    const envelope = (s, t) => {
      at(t)(s, own);
      const square = s - gamma * gamma;
      if (square <= 0) return own[0];
      // the energy g² + (∂g/∂t)²/s falls with time
      return Math.hypot(own[0], Math.exp(-gamma * t) * Math.sqrt(s) * t * sinc(Math.sqrt(square) * t));
    };
    return { order: 2, pace: 1, at, envelope };
  }

  // The iterations. Their stop is k. Momentum m and lookahead e of step k: with d the last move,
  // value ← value + m d - ε s (value + e d) + source; the shrinkage starts at 1 without a source, the gain over
  // ε at 0 with a source of one, so neither is made from the other.

  function gradientDescent({ step }) {
    const at = (k) => (s, pair) => {
      const x = step * s;
      if (x >= 0.5) {
        pair[0] = (1 - x) ** k;
        pair[1] = (1 - pair[0]) / s;
        return;
      }
      const exponent = k * Math.log1p(-x); // 1 - x would round, k times over
      const early = exponent > -0.5; // then 1 - g would cancel
      const rest = early ? Math.expm1(exponent) : Math.exp(exponent);
      pair[0] = early ? 1 + rest : rest;
      pair[1] = x > 0 ? (early ? -rest : 1 - rest) / s : step * k;
    };
    return { order: 1, pace: step, iteration: true, limit: 2, at };
  }

  function recurrence(pace, step, limit, coefficients) {
    const method = { order: 2, pace, iteration: true, limit };
    /** Run k = 0, 1, ..., last; visit(k, g, φ/ε) at the ascending stops, or at every k without them. */
    method.run = (s, last, visit, stops) => {
      const p = s.length;
      const [g, gain] = [new Float64Array(p).fill(1), new Float64Array(p)];
      const [gMove, gainMove] = [new Float64Array(p), new Float64Array(p)];
      let next = 0;
      for (let k = 0; k <= last; k += 1) {
        if (k > 0) advance(k, s, g, gMove, gain, gainMove);
        if (!stops || stops[next] === k) {
          visit(k, g, gain);
          next += 1;
        }
      }
    };
    function advance(k, s, g, gMove, gain, gainMove) {
      const [momentum, lookahead] = coefficients(k);
      for (let i = 0; i < s.length; i += 1) {
        const x = step * s[i];
        gMove[i] = momentum * gMove[i] - x * (g[i] + lookahead * gMove[i]);
        gainMove[i] = momentum * gainMove[i] - x * (gain[i] + lookahead * gainMove[i]) + 1;
        g[i] += gMove[i];
        gain[i] += gainMove[i];
      }
    }
    method.at = (k) => (s, pair) =>
      method.run([s], k, (_, g, gain) => {
        pair[0] = g[0];
        pair[1] = step * gain[0];
      }, [k]);
    return method;
  }

  /** Nesterov's method with momentum (k-1)/(k+friction-1), as it enters step k. */
  const nesterov = ({ step, friction }) =>
    recurrence(Math.sqrt(step), step, 4 / 3, (k) => {
      const eta = k > 1 ? (k - 2) / (k + friction - 2) : 0;
      return [eta, eta];
    });

  const heavyBall = ({ step, momentum }) =>
    recurrence(Math.sqrt(step), step, 2 * (1 + momentum), () => [momentum, 0]);

  const METHODS = {
    "ridge": ridge,
    "gradient-flow": gradientFlow,
    "nesterov-flow": acceleratedFlow,
    "heavy-ball-flow": heavyBallFlow,
    "gradient-descent": gradientDescent,
    "nesterov": nesterov,
    "heavy-ball": heavyBall,
  };

  /** The method of that name, as in Python: parameters friction, damping, step and momentum as it needs them. */
  function method(name, parameters = {}) {
    const made = METHODS[name](parameters);
    return { ...made, name, parameters, step: parameters.step };
  }

  const pair = new Float64Array(2);

  function shrinkage(name, parameters, s, t) {
    method(name, parameters).at(t)(s, pair);
    return pair[0];
  }

  function gain(name, parameters, s, t) {
    method(name, parameters).at(t)(s, pair);
    return pair[1];
  }

  /** The time on the common axis at which a method stands at a stop of its own, and the other way round. */
  const axisTime = (method, stop) => (method.order === 1 ? Math.sqrt(stop * method.pace) : stop * method.pace);
  const ownStop = (method, time) => (method.order === 1 ? time * time : time) / method.pace;

  Object.assign(stoptime, { METHODS: Object.keys(METHODS), method, shrinkage, gain, axisTime, ownStop });
})((globalThis.stoptime ??= {}));
