// The spectra a person can choose from: p eigenvalues of XᵀX/n, ascending, zeros included.
"use strict";

(function (stoptime) {
  const MOST_PASTED = 2000;

  /** s_i = i^(-ν), i = 1, ..., p: the spectra of the paper's main figure. */
  const powerLaw = (p, nu) => Array.from({ length: p }, (_, i) => (p - i) ** -nu);

  /** From 1/κ to 1, in equal ratios or in equal distances. */
  function conditioned(p, kappa, spacing) {
    if (p === 1) return [1];
    const low = 1 / kappa;
    return Array.from({ length: p }, (_, i) => {
      const share = i / (p - 1);
      return spacing === "linear" ? low + (1 - low) * share : kappa ** (share - 1);
    });
  }

  /**
   * Distribution function of the Marchenko-Pastur law at the angle ψ from the lower edge, without its atom at
   * zero: ∫ (2/π) sin²ψ / s dψ with s(ψ) = (1 - √c)² + 4√c sin²(ψ/2), in closed form.
   */
  function bulkBelow(aspect, psi) {
    const [a, b] = [1 + aspect, 2 * Math.sqrt(aspect)];
    const edge = Math.abs(1 - aspect);
    const arc = psi >= Math.PI ? Math.PI / 2 : Math.atan2((a + b) * Math.tan(psi / 2), edge);
    return (2 / Math.PI) * ((a * psi) / (b * b) + Math.sin(psi) / b - (2 * edge * arc) / (b * b));
  }

  const bulkEigenvalue = (aspect, psi) =>
    (1 - Math.sqrt(aspect)) ** 2 + 4 * Math.sqrt(aspect) * Math.sin(psi / 2) ** 2;

  /** The angle at which the bulk below is `level`, between `low` and π: Newton's method inside a bracket. */
  function bulkAngle(aspect, level, low) {
    let high = Math.PI;
    let psi = low > 0 ? low : Math.PI / 2;
    for (let step = 0; step < 100 && high - low > 1e-15; step += 1) {
      const excess = bulkBelow(aspect, psi) - level;
      if (excess < 0) low = psi;
      else high = psi;
      const next = psi - (excess * Math.PI * bulkEigenvalue(aspect, psi)) / (2 * Math.sin(psi) ** 2);
      if (Math.abs(next - psi) < 1e-15) return next;
      psi = next > low && next < high ? next : (low + high) / 2;
    }
    return psi;
  }

  /** The quantiles of the Marchenko-Pastur law at the levels (i - 1/2)/p; above aspect 1 some are zero. */
  function marchenkoPastur(p, aspect) {
    const atom = Math.max(0, 1 - 1 / aspect);
    let psi = 0;
    return Array.from({ length: p }, (_, i) => {
      const level = (i + 0.5) / p - atom;
      if (level <= 0) return 0;
      psi = bulkAngle(aspect, level, psi);
      return bulkEigenvalue(aspect, psi);
    });
  }

  /** Read eigenvalues from text; throws an Error whose message says what to change. */
  function parseEigenvalues(text) {
    const words = text.split(/[\s,;]+/).filter(Boolean);
    if (words.length === 0) throw new Error("Give at least one eigenvalue, such as 1, 0.5, 0.1.");
    if (words.length > MOST_PASTED) {
      throw new Error(`At most ${MOST_PASTED} eigenvalues can be drawn; got ${words.length}.`);
    }
    const values = words.map((word, i) => {
      const value = Number(word);
      if (!Number.isFinite(value)) throw new Error(`Eigenvalue ${i + 1} is not a finite number: “${word}”.`);
      if (value < 0) throw new Error(`Eigenvalue ${i + 1} is negative: ${word}. Eigenvalues of XᵀX/n are never negative.`);
      return value;
    });
    if (!values.some((value) => value > 0)) throw new Error("At least one eigenvalue must be positive.");
    const [low, high] = [1e-12, 1e12];
    const wrong = values.find((value) => value > 0 && !(value >= low && value <= high));
    if (wrong !== undefined) throw new Error(`Positive eigenvalues must lie in [1e-12, 1e12]; got ${wrong}.`);
    return values.sort((a, b) => a - b);
  }

  /** A design of n rows has rank at most n: the smallest p - n eigenvalues are then zero. */
  const withRank = (values, n) => values.map((value, i) => (i < values.length - n ? 0 : value));

  Object.assign(stoptime, { powerLaw, conditioned, marchenkoPastur, parseEigenvalues, withRank });
})((globalThis.stoptime ??= {}));
