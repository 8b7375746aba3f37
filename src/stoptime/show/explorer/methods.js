// The methods: each a formula for the shrinkage g(s, t) and the gain φ(s, t) = (1 - g)/s, without data.
"use strict";

(function (stoptime) {
  const { bessel, exprel, exprel2, exprelMinusOne, oneMinusSinc, sinc, sincDefect } = stoptime.special;

  // A method has an `order` (1: the stop is like 1/λ, 2: like 1/√λ), a `pace` (time per unit of the stop) and
  // `fill(s, t, g, gain)`, which writes g and φ of all eigenvalues at one stop. Each has its own loop over the
  // eigenvalues: a shared one that calls the formula is several times slower.
  // `envelope(s, t)` bounds |g(s, t')| for all t' ≥ t. A method of order 2 that is `monotone` does not oscillate.

  const ridge = () => ({
    order: 1,
    pace: 1,
    fill: (s, t, g, gain) => {
      for (let i = 0; i < s.length; i += 1) {
        g[i] = 1 / (1 + t * s[i]);
        gain[i] = t * g[i];
      }
    },
    envelope: (s, t) => 1 / (1 + t * s),
  });

  /** Ridge applied q times to its own residuals: g = r^q with r = 1/(1 + ts/q), and φ = (t/q)(r + ... + r^q). */
  function iteratedRidge({ times }) {
    const fill = (s, t, g, gain) => {
      const time = t / times;
      for (let i = 0; i < s.length; i += 1) {
        const r = 1 / (1 + time * s[i]);
        let total = 1; // 1 + r + ... + r^(q-1): no two terms cancel
        let power = r;
        for (let k = 1; k < times; k += 1) {
          total += power;
          power *= r;
        }
        g[i] = power;
        gain[i] = time * r * total;
      }
    };
    return { order: 1, pace: 1, fill, envelope: (s, t) => (1 + (t / times) * s) ** -times };
  }

  const gradientFlow = () => ({
    order: 1,
    pace: 1,
    fill: (s, t, g, gain) => {
      for (let i = 0; i < s.length; i += 1) fade(-t * s[i], s[i], t, g, gain, i);
    },
    envelope: (s, t) => Math.exp(-t * s),
  });

  /** g = e^x for x ≤ 0, and (1 - g)/s, which is `early` at s = 0. */
  function fade(x, s, early, g, gain, i) {
    if (x > -0.5) {
      const learned = -Math.expm1(x); // 1 - g would cancel
      g[i] = 1 - learned;
      gain[i] = s > 0 ? learned / s : early;
    } else {
      g[i] = Math.exp(x);
      gain[i] = (1 - g[i]) / s;
    }
  }

  function acceleratedFlow({ friction }) {
    const nu = (friction - 1) / 2;
    const decay = bessel(nu);
    return {
      order: 2,
      pace: 1,
      fill: (s, t, g, gain) => {
        for (let i = 0; i < s.length; i += 1) {
          const u = t * Math.sqrt(s[i]);
          g[i] = decay(u);
          gain[i] = u <= 1 ? t * (t * decay.gain(u)) : (1 - g[i]) / s[i];
        }
      },
      // the energy g² + (∂g/∂u)² falls with time; Λ' = -u Λ_{ν+1}/(2ν+2)
      envelope: (s, t) => {
        const u = t * Math.sqrt(s);
        return Math.hypot(decay(u), (u / (2 * nu + 2)) * bessel(nu + 1)(u));
      },
    };
  }

  /** Momentum with critical damping in every direction: g = (1 + u)e^(-u) at u = t√s. */
  const criticalFlow = () => ({
    order: 2,
    pace: 1,
    monotone: true,
    fill: (s, t, g, gain) => {
      for (let i = 0; i < s.length; i += 1) {
        const u = t * Math.sqrt(s[i]);
        const fading = Math.exp(-u);
        g[i] = (1 + u) * fading;
        // 1 - g = e^(-u)(e^u - 1 - u), whose series has terms of one sign
        gain[i] = u <= 1 ? t * (t * fading * exprel2(u)) : (1 - g[i]) / s[i];
      }
    },
    envelope: (s, t) => (1 + t * Math.sqrt(s)) * Math.exp(-t * Math.sqrt(s)),
  });

  // Heavy-ball flow: with a = γt, θ = ωt it swings where s > γ², and creeps elsewhere. Each gain is a sum of
  // terms of one sign until the direction has settled, when 1 - g is no longer small.

  /** Values that depend on the time t alone, shared by all eigenvalues. */
  function heavyBallMoment(gamma, t) {
    const a = gamma * t;
    return { t, gamma, a, fade: Math.exp(-a), early: a <= 1 ? exprel2(a) : NaN };
  }

  function swing(moment, s, omega, g, gain, i) {
    const { t, gamma, a, fade } = moment;
    const theta = omega * t;
    const cosine = Math.cos(theta);
    const wave = sinc(theta);
    g[i] = fade * (cosine + a * wave);
    if (t * t * s <= 1) {
      const waves = sinc(theta / 2) ** 2 / 2 + a * sincDefect(theta);
      const share = (gamma / s) * gamma;
      gain[i] = t * (t * fade * (share * moment.early + (omega / s) * omega * waves));
    } else if (a > 1) {
      gain[i] = (1 - g[i]) / s;
    } else {
      const turned = theta > 0.5 ? 1 - cosine : 2 * Math.sin(theta / 2) ** 2;
      const missing = theta > 1 ? 1 - wave : oneMinusSinc(theta);
      gain[i] = (fade * (a * a * moment.early + turned + a * missing)) / s;
    }
  }

  function creep(moment, s, omega, g, gain, i) {
    const { t, gamma } = moment;
    const d = (s / (gamma + omega)) * t;
    const slow = Math.exp(-d);
    g[i] = slow * (1 + d * exprel(-2 * omega * t));
    if (d > 1) gain[i] = (1 - g[i]) / s;
    else gain[i] = (t / (gamma + omega)) * slow * (exprelMinusOne(d) - exprelMinusOne(-2 * omega * t));
  }

  function heavyBallFlow({ damping: gamma }) {
    const fill = (s, t, g, gain) => {
      const moment = heavyBallMoment(gamma, t);
      for (let i = 0; i < s.length; i += 1) {
        const square = s[i] - gamma * gamma;
        if (square > 0) swing(moment, s[i], Math.sqrt(square), g, gain, i);
        else creep(moment, s[i], Math.sqrt(-square), g, gain, i);
      }
    };
    const [one, g, gain] = [0, 0, 0].map(() => new Float64Array(1));
    const envelope = (s, t) => {
      one[0] = s;
      fill(one, t, g, gain);
      const square = s - gamma * gamma;
      if (square <= 0) return g[0];
      // the energy g² + (∂g/∂t)²/s falls with time
      return Math.hypot(g[0], Math.exp(-gamma * t) * Math.sqrt(s) * t * sinc(Math.sqrt(square) * t));
    };
    return { order: 2, pace: 1, fill, envelope };
  }

  // The iterations. Their stop is k. Momentum m and lookahead e of step k: with d the last move,
  // value ← value + m d - ε s (value + e d) + source; the shrinkage starts at 1 without a source, the gain over
  // ε at 0 with a source of one, so neither is made from the other.

  function gradientDescent({ step }) {
    const fill = (s, k, g, gain) => {
      for (let i = 0; i < s.length; i += 1) {
        const x = step * s[i];
        if (x < 0.5) {
          fade(k * Math.log1p(-x), s[i], step * k, g, gain, i); // 1 - x would round, k times over
        } else {
          g[i] = (1 - x) ** k;
          gain[i] = (1 - g[i]) / s[i];
        }
      }
    };
    return { order: 1, pace: step, iteration: true, fill };
  }

  function recurrence(step, coefficients) {
    /** Yield g and φ/ε after 0, 1, 2, ... steps, for ever; the arrays are the same, overwritten. */
    function* iterates(s) {
      const [g, gain, gMove, gainMove] = [0, 0, 0, 0].map(() => new Float64Array(s.length));
      const both = [g.fill(1), gain];
      for (let k = 1; ; k += 1) {
        yield both;
        const [momentum, lookahead] = coefficients(k);
        advance(step, s, momentum, lookahead, g, gMove, 0);
        advance(step, s, momentum, lookahead, gain, gainMove, 1);
      }
    }
    const fill = (s, k, g, gain) => {
      const run = iterates(s);
      let last;
      for (let done = 0; done <= k; done += 1) last = run.next().value;
      g.set(last[0]);
      last[1].forEach((value, i) => (gain[i] = step * value));
    };
    return { order: 2, pace: Math.sqrt(step), iteration: true, iterates, fill };
  }

  function advance(step, s, momentum, lookahead, value, move, source) {
    for (let i = 0; i < s.length; i += 1) {
      move[i] = momentum * move[i] - step * s[i] * (value[i] + lookahead * move[i]) + source;
      value[i] += move[i];
    }
  }

  /** Nesterov's method with momentum (k-1)/(k+friction-1), as it enters step k. */
  const nesterov = ({ step, friction }) =>
    recurrence(step, (k) => {
      const eta = k > 1 ? (k - 2) / (k + friction - 2) : 0;
      return [eta, eta];
    });

  const heavyBall = ({ step, momentum }) => recurrence(step, () => [momentum, 0]);

  const METHODS = {
    "ridge": ridge,
    "iterated-ridge": iteratedRidge,
    "gradient-flow": gradientFlow,
    "nesterov-flow": acceleratedFlow,
    "critical-flow": criticalFlow,
    "heavy-ball-flow": heavyBallFlow,
    "gradient-descent": gradientDescent,
    "nesterov": nesterov,
    "heavy-ball": heavyBall,
  };

  /** The method of that name, as in Python: its parameters are among friction, damping, times, step, momentum. */
  const method = (name, parameters = {}) => ({ ...METHODS[name](parameters), name, parameters });

  /** Shrinkage and gain of one eigenvalue at one stop. */
  function filter(method, s, t) {
    const [g, gain] = [new Float64Array(1), new Float64Array(1)];
    method.fill(Float64Array.of(s), t, g, gain);
    return [g[0], gain[0]];
  }

  /** The time on the common axis at which a method stands at a stop of its own, and the other way round. */
  const axisTime = (method, stop) => (method.order === 1 ? Math.sqrt(stop * method.pace) : stop * method.pace);
  const ownStop = (method, time) => (method.order === 1 ? time * time : time) / method.pace;

  Object.assign(stoptime, { METHODS: Object.keys(METHODS), axisTime, filter, method, ownStop });
})((globalThis.stoptime ??= {}));
