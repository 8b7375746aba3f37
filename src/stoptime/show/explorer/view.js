// Draws the charts and the table of a model.
"use strict";

(function (stoptime) {
  const { palette } = stoptime;
  const NAMES = {
    "ridge": "ridge",
    "iterated-ridge": "iterated ridge",
    "gradient-flow": "gradient flow",
    "nesterov-flow": "accelerated flow",
    "critical-flow": "critical flow",
    "heavy-ball-flow": "heavy-ball flow",
    "gradient-descent": "gradient descent",
    "nesterov": "Nesterov",
    "heavy-ball": "heavy ball",
  };
  const COLUMNS = 6;
  const EQUAL = 1e-9; // ratios nearer to one are called equal
  const charts = {};
  const byId = (id) => document.getElementById(id);

  /** Four significant digits, without needless zeros. */
  function figure(value) {
    if (value === Infinity) return "∞";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
      const [front, power] = value.toExponential(2).split("e");
      return `${Number(front)}·${stoptime.powerOfTen(Number(power))}`;
    }
    return String(Number(value.toPrecision(4)));
  }

  /** An upper bound with four decimals, rounded up so that the printed number is true. */
  function roundedUp(value) {
    const noise = 1e-12; // rounding error of the sums: a ratio of exactly one must not become 1.0001
    return (Math.ceil(value * (1 - noise) * 1e4) / 1e4).toFixed(4);
  }

  function stopLabel(method, stop) {
    if (method.name === "ridge") return `λ = ${figure(1 / stop)}`;
    if (method.name === "iterated-ridge") return `λ = ${figure(method.parameters.times / stop)}`;
    return method.iteration ? `k = ${stop === Infinity ? "∞" : stop}` : `t = ${figure(stop)}`;
  }

  const isDotted = (name) => !/flow|ridge/.test(name);

  /** A sample of the line of a method, for legends. */
  function swatch(name) {
    const span = document.createElement("span");
    span.className = isDotted(name) ? "swatch dots" : "swatch";
    span.style.setProperty("--colour", `var(--${name})`);
    return span;
  }

  function makeCharts() {
    for (const id of ["risk", "bias", "variance", "filter", "spectrum", "signal"]) charts[id] = new stoptime.Chart(byId(id));
  }

  const drawn = (model) => model.entries.filter((entry) => entry.curve);

  /** Iterations are drawn above flows, so that their dots are visible on the lines. */
  function curvesOf(model, part) {
    const entries = drawn(model);
    const ordered = [...entries.filter((e) => !isDotted(e.name)), ...entries.filter((e) => isDotted(e.name))];
    return ordered.map(({ name, curve }) => {
      return { xs: curve.times, ys: curve[part], dots: curve.dots, colour: palette[name] };
    });
  }

  /** The vertical ranges. Bias and variance end at the same height, so that they can be compared. */
  function riskRanges(model) {
    const { prior, spectrum } = model;
    const start = prior.bias * spectrum.biasWeights.reduce((a, b) => a + b, spectrum.zeroWeight);
    const end = drawn(model).reduce((most, { curve }) => Math.max(most, curve.risk[curve.risk.length - 1]), 0);
    const top = Math.max(start * 1.25, Math.min(end * 1.1, start * 3));
    const high = Math.max(top, prior.oracle * 1.6);
    const least = drawn(model).reduce((risk, { best }) => Math.min(risk, best.risk), prior.oracle);
    const room = (high / least) ** 0.12; // space below the least risk, for the label of the best ridge
    const floor = prior.bias * spectrum.zeroWeight; // of the bias: directions with eigenvalue zero are never learned
    const low = least / 60;
    return { risk: [least / room, high], bias: [Math.max(low, 0.7 * floor), top], variance: [low, top] };
  }

  function drawRisks(model, time, standings) {
    const x = { range: model.range, log: true, label: "time t = 1/√λ" };
    const ranges = riskRanges(model);
    const now = (part) =>
      standings.map(({ entry: { name, method }, at }) => ({
        x: stoptime.axisTime(method, at.stop), y: at[part], colour: palette[name], filled: true,
      }));
    const best = drawn(model).filter((entry) => entry.best.stop > 0 && entry.best.stop < Infinity);
    const rings = best.map(({ name, method, best }) => ({
      x: stoptime.axisTime(method, best.stop), y: best.risk, colour: palette[name],
    }));
    const isWide = charts.risk.canvas.clientWidth > 560;
    const label = isWide ? "best ridge (below this line ridge loses)" : "best ridge";
    charts.risk.draw({
      x: { ...x, label: "time t = 1/√λ (no unit, logarithmic)" },
      y: { range: ranges.risk, log: true, label: "risk, in units of σ²" },
      curves: curvesOf(model, "risk"), rules: [{ y: model.prior.oracle, label, shade: true }],
      cursor: time, rings: [...now("risk"), ...rings],
    });
    for (const part of ["bias", "variance"]) {
      charts[part].draw({
        x, y: { range: ranges[part], log: true, label: `${part === "bias" ? "bias²" : part}, in units of σ²` },
        curves: curvesOf(model, part), cursor: time, rings: now(part),
      });
    }
  }

  function drawFilters(model, time) {
    const { smallest, largest } = stoptime.filterRange(model.spectrum);
    const curves = drawn(model).flatMap((entry) => {
      const curve = stoptime.filterCurve(entry, model, time);
      if (!curve) return [];
      const dots = isDotted(entry.name) ? Array.from({ length: 40 }, (_, i) => 4 * i) : null;
      return [{ xs: curve.s, ys: curve.g, dots, colour: palette[entry.name] }];
    });
    const lowest = Math.min(...curves.map(({ ys }) => Math.min(...ys)));
    charts.filter.draw({
      x: { range: [smallest, largest], log: true, label: "eigenvalue s" },
      y: { range: [lowest < -0.5 ? -1.05 : -0.55, 1.05], label: "shrinkage g(s, t)" },
      curves, rules: [{ y: 0 }], rug: model.spectrum.values,
    });
  }

  function drawSpectrum(model) {
    const ys = Array.from(model.spectrum.values).reverse();
    const xs = ys.map((_, i) => i + 1);
    const [low, high] = [ys[ys.length - 1], ys[0]];
    charts.spectrum.draw({
      x: { range: [1, Math.max(2, model.spectrum.count)], whole: true, label: "rank i" },
      y: { range: [Math.min(low, high / 2) / 1.3, high * 1.3], log: true, label: "s" },
      curves: [{ xs, ys, colour: palette.soft, dots: xs.length <= 60 ? xs.map((_, i) => i) : null }],
    });
  }

  /** The share of the signal that lies in each direction. */
  function drawSignal({ spectrum }) {
    const ys = Array.from(spectrum.squares, (square) => square / spectrum.count);
    const xs = ys.map((_, i) => i + 1);
    const [low, high] = [Math.min(...ys), Math.max(...ys)];
    charts.signal.draw({
      x: { range: [1, Math.max(2, spectrum.count)], whole: true, label: "rank i" },
      y: { range: [Math.min(low, high / 10) / 1.5, high * 1.5], log: true, label: "share of r²" },
      curves: [{ xs, ys, colour: palette.accent, dots: xs.length <= 60 ? xs.map((_, i) => i) : null }],
    });
  }

  /** Say in one line whether one of the methods that are shown has less risk than the best ridge. */
  function drawVerdict(model) {
    const others = drawn(model).filter(({ name }) => name !== "ridge");
    const box = byId("verdict");
    box.hidden = others.length === 0;
    if (box.hidden) return;
    const { name, best } = others.reduce((a, b) => (b.best.ratio < a.best.ratio ? b : a));
    const loses = best.ratio < 1 - EQUAL;
    box.dataset.ridge = loses ? "loses" : "wins";
    byId("verdict-word").textContent = loses ? "Ridge loses:" : "No method shown beats ridge:";
    byId("verdict-why").textContent =
      `${NAMES[name]} ${loses ? "has" : "comes nearest, with"} at most ${roundedUp(best.ratio)} times its risk.`;
  }

  /** Say which best stops lie outside the time axis, where no ring can mark them. */
  function drawBeyond(model) {
    const outside = drawn(model).filter(({ method, best }) => isBeyond(model, stoptime.axisTime(method, best.stop)));
    const box = byId("beyond");
    box.hidden = outside.length === 0;
    const names = outside.map(({ name, method, best }) => `${NAMES[name]} (${stopLabel(method, best.stop)})`);
    put(box, `Best stop beyond the axis, without a ring: ${names.join(", ")}.`);
  }

  const isBeyond = ({ range: [low, high] }, time) => time < low || time > high;

  /** Write into a cell only if its text changes, because every write costs the browser a layout. */
  function put(cell, text, value) {
    if (cell.textContent !== text) cell.textContent = text;
    if (value !== undefined) cell.dataset.value = value;
  }

  function makeRow(body, { name, reason }) {
    const row = body.insertRow();
    row.dataset.method = name;
    row.insertCell().append(swatch(name), NAMES[name]);
    if (reason) {
      const td = row.insertCell();
      td.colSpan = COLUMNS - 1;
      td.className = "reason";
      return;
    }
    for (let i = 1; i < COLUMNS; i += 1) row.insertCell();
    row.lastElementChild.className = "now";
  }

  function fillRow({ cells }, { method, best, reason }, model) {
    if (reason) return put(cells[1], reason);
    const time = stoptime.axisTime(method, best.stop);
    const where = best.stop === Infinity ? "–" : `t = ${figure(time)}`;
    put(cells[1], stopLabel(method, best.stop), best.stop);
    put(cells[2], isBeyond(model, time) ? `${where}, beyond the axis` : where);
    put(cells[3], figure(best.risk), best.risk);
    cells[4].classList.toggle("beats", best.ratio < 1 - EQUAL);
    return put(cells[4], roundedUp(best.ratio), best.ratio);
  }

  /** The table except for its last column; `exact` says whether the search for the best stops is complete. */
  function drawTable(model, shown, exact) {
    const table = byId("table");
    const [body] = table.tBodies;
    const entries = model.entries.filter((entry) => shown.includes(entry.name));
    const kinds = entries.map(({ name, reason }) => name + Boolean(reason)).join();
    if (body.dataset.kinds !== kinds) {
      body.replaceChildren();
      entries.forEach((entry) => makeRow(body, entry));
      body.dataset.kinds = kinds;
    }
    entries.forEach((entry, i) => fillRow(body.rows[i], entry, model));
    drawVerdict(model);
    drawBeyond(model);
    table.dataset.exact = exact;
  }

  function drawNow(standings) {
    for (const { entry, at } of standings) {
      const td = document.querySelector(`#table tr[data-method="${entry.name}"] td.now`);
      if (at.beyond) put(td, `k = ${at.stop} is not drawn`, "");
      else put(td, figure(at.risk), at.risk);
    }
  }

  /** Draw everything that depends on the time of the cursor. */
  function drawMoment(model, time) {
    const all = drawn(model).map((entry) => ({ entry, at: stoptime.standing(entry, model, time) }));
    drawRisks(model, time, all.filter(({ at }) => !at.beyond));
    drawFilters(model, time);
    drawNow(all);
    byId("time-value").textContent = `t = ${figure(time)}, λ = ${figure(1 / (time * time))}`;
  }

  /** Describe the risk chart for screen readers. */
  function describe(model) {
    const best = drawn(model).map(({ name, method, best }) =>
      `${NAMES[name]} is best at ${stopLabel(method, best.stop)}, with at most ${roundedUp(best.ratio)} times the risk of the best ridge`);
    byId("risk").setAttribute("aria-label", `Risk against time. ${best.join("; ")}.`);
  }

  Object.assign(stoptime, {
    NAMES, charts, describe, drawMoment, drawSignal, drawSpectrum, drawTable, figure, makeCharts, swatch,
  });
})((globalThis.stoptime ??= {}));
