"use strict";
// Numbers, ticks and scales. All texts are set as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const PALETTE = 8;
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];

function make(parent, name, attributes = {}, text = null) {
  const svg = parent.namespaceURI === SVG || name === "svg";
  const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  parent.appendChild(node);
  return node;
}

function format(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) {
    const [digits, power] = value.toExponential(2).split("e");
    return `${Number(digits)}×10${[...String(Number(power))].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
  }
  const rounded = Number(value.toPrecision(4));
  return size >= 1e4 ? rounded.toLocaleString("en") : String(rounded); // 12,350 as in the tables
}

function ticks(low, high, log, count) {
  if (log) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / count));
    let best = [];
    for (const [parts, step] of [[[1], every], [[1], 1], [[1, 3], 1], [[1, 2, 5], 1]]) {
      const found = [];
      for (let power = first; power <= last; power += step)
        for (const part of parts) found.push(part * 10 ** power);
      const seen = found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
      if (seen.length > best.length && (seen.length <= 1.4 * count || best.length < 2)) best = seen;
    }
    return best.length >= 2 ? best : ticks(low, high, false, count);
  }
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((one) => one >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++)
    found.push(Number((k * step).toPrecision(12)));
  return found;
}

function wrapped(text, most) {
  const lines = [];
  for (const word of text.replace(/[()]/g, "").split(/(?<=-)|\s+/)) {
    const last = lines.length - 1;
    const joined = last >= 0 ? lines[last] + (lines[last].endsWith("-") ? "" : " ") + word : word;
    if (last >= 0 && joined.length <= most) lines[last] = joined;
    else lines.push(word.length > most ? `${word.slice(0, most - 1)}…` : word);
  }
  return lines;
}

function nearestIndex(xs, at) {
  let best = 0;
  xs.forEach((value, i) => { if (Math.abs(value - at) < Math.abs(xs[best] - at)) best = i; });
  return best;
}

class Axis {
  constructor(label, log) { // log: true or false at the start, null where it cannot be chosen
    this.label = label;
    this.log = Boolean(log);
    this.can = log !== null;
    this.view = null; // the zoomed range
  }
  to(value) { return this.log ? Math.log10(value) : value; }
  back(value) { return this.log ? 10 ** value : value; }
  place(value) { // pixels
    const [low, high] = [this.to(this.low), this.to(this.high)];
    return this.begin + (this.to(value) - low) / (high - low || 1) * (this.end - this.begin);
  }
  value(pixel) {
    const [low, high] = [this.to(this.low), this.to(this.high)];
    return this.back(low + (pixel - this.begin) / (this.end - this.begin) * (high - low));
  }
  shows(value) { return value !== null && Number.isFinite(value) && (!this.log || value > 0); }
}
