// The settings, and their form in the address that can be shared: #spectrum=power&nu=1&p=100...
"use strict";

(function (stoptime) {
  const number = (initial, min, max, more = {}) => ({ kind: "number", initial, min, max, ...more });
  const choice = (initial, options) => ({ kind: "choice", initial, options });

  const PARAMETERS = {
    spectrum: choice("power", ["power", "condition", "marchenko-pastur", "pasted"]),
    nu: number(1, 0, 3),
    kappa: number(100, 1, 1e4, { log: true }),
    spacing: choice("geometric", ["geometric", "linear"]),
    aspect: number(0.5, 0.05, 4, { log: true }),
    eigenvalues: { kind: "text", initial: "1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01" },
    p: number(100, 1, 500, { whole: true }),
    n: number(500, 5, 10000, { log: true, whole: true }),
    snr: number(10, 0.01, 100, { log: true }),
    lean: number(0, -4, 4, { decimals: 1 }),
    target: choice("estimation", ["estimation", "prediction"]),
    friction: number(3, 0.5, 20, { log: true }),
    damping: number(0.1, 0.001, 10, { log: true }),
    critical: choice("yes", ["yes", "no"]),
    step: number(1, 0.02, 1.32, { log: true }),
    times: number(2, 1, 10, { whole: true }),
    t: number(1, 1e-9, 1e12, { log: true }),
    show: {
      kind: "list",
      initial: ["ridge", "gradient-flow", "nesterov-flow", "heavy-ball-flow", "nesterov"],
    },
    theme: choice("auto", ["auto", "light", "dark"]),
  };

  const initialState = () =>
    Object.fromEntries(Object.entries(PARAMETERS).map(([key, { initial }]) => [key, initial]));

  function readNumber({ initial, min, max, whole }, text) {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value)) return initial;
    const inside = Math.min(Math.max(value, min), max);
    return whole ? Math.round(inside) : inside;
  }

  function readValue(key, text) {
    const parameter = PARAMETERS[key];
    if (parameter.kind === "number") return readNumber(parameter, text);
    if (parameter.kind === "choice") return parameter.options.includes(text) ? text : parameter.initial;
    if (parameter.kind === "list") return stoptime.METHODS.filter((name) => text.split(",").includes(name));
    return text;
  }

  /** Read the state from an address. Missing and invalid values keep their defaults. */
  function fromHash(hash) {
    const state = initialState();
    for (const part of hash.replace(/^#/, "").split("&")) {
      const [key, text = ""] = part.split("=");
      if (!(key in PARAMETERS)) continue;
      try {
        state[key] = readValue(key, decodeURIComponent(text));
      } catch {
        continue; // a broken escape: as if the key were not there
      }
    }
    return state;
  }

  const SPECTRUM_OF = {
    nu: "power",
    kappa: "condition",
    spacing: "condition",
    aspect: "marchenko-pastur",
    eigenvalues: "pasted",
  };

  /** Tell whether a setting has an effect; the others are left out of the address. */
  function isUsed(key, state) {
    if (key === "p") return state.spectrum !== "pasted";
    if (key === "n") return state.spectrum !== "marchenko-pastur";
    if (key === "damping") return state.critical === "no";
    if (key === "theme") return state.theme !== "auto";
    return !(key in SPECTRUM_OF) || SPECTRUM_OF[key] === state.spectrum;
  }

  function toHash(state) {
    const write = (value) => encodeURIComponent(String(value).replace(/, +/g, ",")).replaceAll("%2C", ",");
    const keys = Object.keys(PARAMETERS).filter((key) => isUsed(key, state));
    return "#" + keys.map((key) => `${key}=${write(state[key])}`).join("&");
  }

  Object.assign(stoptime, { PARAMETERS, fromHash, toHash });
})((globalThis.stoptime ??= {}));
