"use strict";
// Small charts in SVG: hover, zoom, log or linear axes, keyboard. All texts are set as text, never as markup.
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
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
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
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

class Axis {
  constructor(spec) { this.log = Boolean(spec.log); this.can = spec.log !== null; this.label = spec.label; this.view = null; }
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

class Chart {
  constructor(figure, spec) {
    this.spec = spec;
    this.plot = figure.querySelector(".plot");
    this.caption = figure.querySelector("figcaption");
    this.x = new Axis(spec.x);
    this.y = new Axis(spec.y);
    this.hidden = new Set();
    this.cursor = null;
    this.tools();
    this.svg = make(this.plot, "svg", {
      tabindex: 0, role: "group", "aria-roledescription": "interactive chart",
      "aria-label": `${spec.title}. Arrow keys move along the curves, plus and minus zoom, 0 resets.`,
    });
    this.legend();
    this.tip = make(this.plot, "div", { class: "tip", hidden: "" });
    this.said = make(this.plot, "div", { class: "said", "aria-live": "polite" });
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  tools() {
    const bar = make(this.caption, "div", { class: "tools", role: "toolbar", "aria-label": `Tools: ${this.spec.title}` });
    for (const [axis, name] of [[this.x, "x"], [this.y, "y"]]) {
      if (!axis.can) continue;
      const button = make(bar, "button", { type: "button", "aria-pressed": axis.log, "data-log": name }, `log ${name}`);
      button.addEventListener("click", () => {
        axis.log = !axis.log;
        axis.view = null;
        button.setAttribute("aria-pressed", axis.log);
        this.draw();
      });
    }
    for (const [label, name, act] of [["+", "Zoom in", () => this.zoom(0.6)], ["−", "Zoom out", () => this.zoom(1 / 0.6)], ["Reset", "Reset zoom", () => this.reset()]])
      make(bar, "button", { type: "button", "aria-label": name, title: name }, label).addEventListener("click", act);
  }

  legend() {
    if (this.spec.series.length < 2) return;
    const list = make(this.plot, "div", { class: "legend", role: "group", "aria-label": "Show or hide" });
    this.spec.series.forEach((one, index) => {
      const button = make(list, "button", { type: "button", "aria-pressed": true });
      const sign = make(button, "svg", { width: 22, height: 10, "aria-hidden": true });
      if (one.kind === "band") make(sign, "rect", { width: 22, height: 10, fill: this.color(one), opacity: 0.25 });
      else if (one.kind === "points") make(sign, "circle", { cx: 11, cy: 5, r: 4, fill: this.color(one) });
      else make(sign, "path", { d: "M0 5H22", stroke: this.color(one), "stroke-width": 2.5, "stroke-dasharray": this.dash(one) });
      make(button, "span", {}, one.name);
      button.addEventListener("click", () => {
        this.hidden.has(index) ? this.hidden.delete(index) : this.hidden.add(index);
        button.setAttribute("aria-pressed", !this.hidden.has(index));
        this.draw();
      });
      if (this.spec.nearest) {
        button.addEventListener("pointerenter", () => this.emphasise(index));
        button.addEventListener("pointerleave", () => this.emphasise(null));
      }
    });
  }

  color(one) { return `var(--c${one.color % PALETTE})`; }
  dash(one) { return one.dashed ? "7 4" : DASHES[Math.floor(one.color / PALETTE) % DASHES.length]; }
  shown() { return this.spec.series.map((one, index) => ({ ...one, index })).filter((one) => !this.hidden.has(one.index)); }

  domain() {
    const xs = this.spec.series.flatMap((one) => one.x).filter((value) => this.x.shows(value));
    let [low, high] = this.x.view || [Math.min(...xs), Math.max(...xs)];
    if (!this.x.view && !this.x.log && this.spec.series.some((one) => one.kind === "points")) { low -= 0.5; high += 0.5; }
    if (low === high) { low = this.x.log ? low / 2 : low - 1; high = this.x.log ? high * 2 : high + 1; }
    [this.x.low, this.x.high] = [low, high];
    const ys = [];
    for (const one of this.shown()) one.x.forEach((at, i) => {
      if (at >= low && at <= high) ys.push(one.y[i], ...(one.low ? [one.low[i], one.high[i]] : []));
    });
    for (const mark of this.spec.marks) if (mark.y !== null && ys.length) ys.push(mark.y);
    const seen = ys.filter((value) => this.y.shows(value));
    let [bottom, top] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [this.y.log ? 0.1 : 0, 1];
    if (this.y.log) bottom = Math.max(bottom, top * 1e-8);
    const room = (this.y.to(top) - this.y.to(bottom)) * 0.06 || Math.abs(this.y.to(top)) * 0.1 || 1;
    this.y.low = this.y.back(this.y.to(bottom) - room);
    this.y.high = this.y.back(this.y.to(top) + room);
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const height = Math.round(Math.min(380, Math.max(250, width * 0.5)));
    this.domain();
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    this.height = height;
    const marks = ticks(this.y.low, this.y.high, this.y.log, 5);
    const left = 14 + 7 * Math.max(...marks.map((value) => format(value).length), 2);
    [this.x.begin, this.x.end] = [left + 16, width - 10];
    [this.y.begin, this.y.end] = [height - (this.spec.categories.length ? 66 : 42), 12];
    this.axes(marks);
    const clip = `clip-${this.spec.key}`;
    const box = make(make(this.svg, "clipPath", { id: clip }), "rect", {});
    for (const [key, value] of Object.entries({ x: this.x.begin, y: 0, width: Math.max(1, this.x.end - this.x.begin), height: this.y.begin + 1 })) box.setAttribute(key, value);
    this.body = make(this.svg, "g", { "clip-path": `url(#${clip})` });
    this.layers = new Map();
    for (const one of this.shown()) this.layers.set(one.index, this.series(one));
    this.lines();
    this.over = make(this.svg, "g", { "pointer-events": "none" });
    if (this.cursor) this.point(this.cursor.series, this.cursor.i);
  }

  axes(marks) {
    const [l, r, b, t] = [this.x.begin, this.x.end, this.y.begin, this.y.end];
    for (const value of marks) {
      const at = this.y.place(value);
      make(this.svg, "line", { class: "grid", x1: l, x2: r, y1: at, y2: at });
      make(this.svg, "text", { x: l - 7, y: at + 4, "text-anchor": "end" }, format(value));
    }
    if (this.spec.categories.length) this.categories(b);
    else for (const value of ticks(this.x.low, this.x.high, this.x.log, (r - l) / 75)) {
      const at = this.x.place(value);
      make(this.svg, "line", { class: "grid", x1: at, x2: at, y1: t, y2: b });
      make(this.svg, "text", { x: at, y: b + 17, "text-anchor": "middle" }, format(value));
    }
    make(this.svg, "path", { class: "frame", fill: "none", d: `M${l} ${t}V${b}H${r}` });
    make(this.svg, "text", { x: (l + r) / 2, y: b + 36, "text-anchor": "middle" }, this.x.label);
    make(this.svg, "text", { transform: `translate(12 ${(b + t) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.y.label);
  }

  categories(bottom) {
    const gap = (this.x.end - this.x.begin) / Math.max(1, this.x.high - this.x.low);
    const most = Math.max(5, Math.floor(gap / 6.3));
    this.spec.categories.forEach((name, i) => {
      const at = this.x.place(i + 1);
      if (at < this.x.begin || at > this.x.end) return;
      const label = make(this.svg, "text", { class: "category", y: bottom + 4, "text-anchor": "middle" });
      for (const line of wrapped(name, most).slice(0, 4)) make(label, "tspan", { x: at, dy: 13 }, line);
    });
  }

  series(one) {
    const layer = make(this.body, "g", { "data-series": one.name });
    const at = one.x.map((value, i) => this.x.shows(value) && this.y.shows(one.y[i]) ? [this.x.place(value), this.y.place(one.y[i])] : null);
    const floor = (value) => this.y.place(Math.max(value, this.y.low));
    if (one.kind === "band") {
      const keep = one.x.map((_, i) => i).filter((i) => at[i]);
      const up = keep.map((i) => `${at[i][0]} ${floor(one.high[i])}`), down = keep.map((i) => `${at[i][0]} ${floor(one.low[i])}`);
      if (keep.length) make(layer, "path", { d: `M${up.join("L")}L${down.reverse().join("L")}Z`, fill: this.color(one), opacity: 0.18 });
    } else if (one.kind === "whiskers") {
      at.forEach((place, i) => {
        if (!place) return;
        const [high, low] = [floor(one.high[i]), floor(one.low[i])];
        const cap = this.spec.categories.length ? 6 : 0;
        make(layer, "path", { d: `M${place[0]} ${high}V${low}M${place[0] - cap} ${high}h${2 * cap}M${place[0] - cap} ${low}h${2 * cap}`, stroke: this.color(one), "stroke-width": cap ? 2 : 3, opacity: cap ? 1 : 0.45 });
      });
    } else if (one.kind === "points") {
      at.forEach((place) => place && make(layer, "circle", { cx: place[0], cy: place[1], r: this.spec.categories.length ? 5.5 : 3.4, fill: this.color(one) }));
    } else {
      let path = "", open = false;
      at.forEach((place) => { if (place) path += `${open ? "L" : "M"}${place[0].toFixed(1)} ${place[1].toFixed(1)}`; open = Boolean(place); });
      make(layer, "path", { class: "line", d: path, stroke: this.color(one), "stroke-dasharray": this.dash(one) });
    }
    return layer;
  }

  lines() {
    const taken = [];
    let row = 0;
    for (const mark of this.spec.marks) {
      const upright = mark.x !== null;
      const axis = upright ? this.x : this.y;
      const value = upright ? mark.x : mark.y;
      if (!axis.shows(value) || value < axis.low || value > axis.high) continue;
      const at = axis.place(value);
      make(this.body, "line", upright ? { class: "mark upright", x1: at, x2: at, y1: this.y.end, y2: this.y.begin } : { class: "mark", x1: this.x.begin, x2: this.x.end, y1: at, y2: at });
      if (!mark.label) continue;
      if (upright) {
        const right = at > (this.x.begin + this.x.end) / 2;
        make(this.svg, "text", { class: "mark-label", x: at + (right ? -6 : 6), y: this.y.end + 12 + 16 * row++, "text-anchor": right ? "end" : "start" }, mark.label);
      } else {
        const free = (y) => taken.every((other) => Math.abs(other - y) > 13) && y < this.y.begin;
        const y = [at - 5, at + 14].find(free);
        if (y === undefined) continue; // its line is there, and the table names it
        taken.push(y);
        make(this.svg, "text", { class: "mark-label", x: this.x.begin + 6, y }, mark.label);
      }
    }
  }

  // hover and keyboard: a cursor is a series and a place in it
  lead() {
    const shown = this.shown();
    return shown.find((one) => one.kind === "points" && one.labels.length) || shown.find((one) => one.kind === "line") || shown.find((one) => one.kind !== "band") || shown[0];
  }

  find(px, py) {
    let best = null;
    const wanted = this.spec.nearest || !this.lead() || this.lead().kind !== "line" ? this.shown() : [this.lead()];
    for (const one of wanted) one.x.forEach((at, i) => {
      if (one.kind === "band" || !this.x.shows(at) || !this.y.shows(one.y[i]) || at < this.x.low || at > this.x.high) return;
      const dx = this.x.place(at) - px, dy = this.y.place(one.y[i]) - py;
      const far = this.spec.nearest ? dx * dx * 4 + dy * dy : dx * dx + (one.kind === "line" ? 0 : dy * dy * 0.05);
      if (!best || far < best.far) best = { far, series: one.index, i };
    });
    return best;
  }

  point(index, i) {
    const one = this.spec.series[index];
    if (!one || this.hidden.has(index) || !this.x.shows(one.x[i])) return this.clear();
    this.cursor = { series: index, i };
    this.over.replaceChildren();
    const at = one.x[i], px = this.x.place(at);
    make(this.over, "line", { class: "guide", x1: px, x2: px, y1: this.y.end, y2: this.y.begin });
    const name = one.labels[i] || (this.spec.categories.length ? this.spec.categories[i] : "");
    const rows = [[name ? "" : this.x.label, name || format(at)]];
    const told = this.spec.nearest ? [{ ...one, index }] : this.shown();
    for (const other of told) {
      const k = other.x.indexOf(at) >= 0 ? other.x.indexOf(at) : (other.kind === "line" ? nearestIndex(other.x, at) : -1);
      if (k < 0 || !this.y.shows(other.y[k])) continue;
      rows.push([other.name, other.low ? `${format(other.low[k])} to ${format(other.high[k])}` : format(other.y[k])]);
      if (other.kind !== "band") make(this.over, "circle", { cx: px, cy: this.y.place(other.y[k]), r: 5, fill: this.color(other), stroke: "var(--card)", "stroke-width": 2 });
    }
    this.emphasise(this.spec.nearest ? index : null);
    this.say(rows, px);
  }

  say(rows, px) {
    this.tip.replaceChildren();
    for (const [name, value] of rows) {
      const row = make(this.tip, "div");
      make(row, "span", {}, name);
      make(row, "b", {}, value);
    }
    this.tip.hidden = false;
    this.said.textContent = rows.map((row) => row.join(" ").trim()).join(", ");
    const width = this.tip.offsetWidth, room = this.plot.clientWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room - width, px > room / 2 ? px - width - 14 : px + 14))}px`;
    this.tip.style.top = `${this.svg.offsetTop + 34}px`;
  }

  emphasise(index) {
    for (const [key, layer] of this.layers) layer.classList.toggle("dim", index !== null && key !== index);
  }

  clear() {
    this.cursor = null;
    if (this.over) this.over.replaceChildren();
    this.tip.hidden = true;
    this.emphasise(null);
  }

  // zoom
  zoom(factor, around = null) {
    const [low, high] = [this.x.to(this.x.low), this.x.to(this.x.high)];
    const cursor = this.cursor && this.spec.series[this.cursor.series].x[this.cursor.i];
    const center = around !== null ? this.x.to(around) : cursor ? this.x.to(cursor) : (low + high) / 2;
    this.view(this.x.back(center - (center - low) * factor), this.x.back(center + (high - center) * factor));
  }

  view(low, high) {
    this.x.view = null;
    this.domain();
    const [least, most] = [this.x.low, this.x.high];
    const whole = low <= least && high >= most;
    const view = [Math.max(low, least), Math.min(high, most)];
    if (!whole && this.x.to(view[1]) - this.x.to(view[0]) > 1e-4 * (this.x.to(most) - this.x.to(least))) this.x.view = view;
    this.draw();
  }

  reset() { this.x.view = null; this.clear(); this.draw(); }

  listen() {
    let start = null;
    const local = (event) => {
      const box = this.svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const limit = (px) => Math.min(this.x.end, Math.max(this.x.begin, px));
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch") {
        start = limit(local(event)[0]);
        this.svg.setPointerCapture(event.pointerId);
      }
    });
    this.svg.addEventListener("pointermove", (event) => {
      const [px, py] = local(event);
      if (start !== null && Math.abs(px - start) > 6) {
        this.clear();
        const end = limit(px);
        make(this.over, "rect", { class: "brush", x: Math.min(start, end), width: Math.abs(end - start), y: this.y.end, height: this.y.begin - this.y.end });
        return;
      }
      const found = this.find(px, py);
      if (found) this.point(found.series, found.i);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const end = limit(local(event)[0]);
      const from = start;
      start = null;
      if (from !== null && Math.abs(end - from) > 6) this.view(this.x.value(Math.min(from, end)), this.x.value(Math.max(from, end)));
    });
    this.svg.addEventListener("pointercancel", () => { start = null; });
    this.svg.addEventListener("pointerleave", () => { if (start === null) this.clear(); });
    this.svg.addEventListener("dblclick", () => this.reset());
    this.svg.addEventListener("wheel", (event) => {
      if (document.activeElement !== this.svg && !event.ctrlKey) return; // the page scrolls until the chart is clicked
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.x.value(limit(local(event)[0])));
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("blur", () => this.clear());
  }

  key(event) {
    const shown = this.shown().filter((one) => one.kind !== "band");
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 };
    const hops = { ArrowUp: -1, ArrowDown: 1 };
    if (event.key in moves && this.lead()) {
      const series = this.cursor ? this.cursor.series : this.lead().index;
      const xs = this.spec.series[series].x;
      const seen = xs.map((_, i) => i).filter((i) => xs[i] >= this.x.low && xs[i] <= this.x.high);
      const now = this.cursor ? seen.indexOf(this.cursor.i) : -1;
      const next = now < 0 ? Math.floor(seen.length / 2) : Math.min(seen.length - 1, Math.max(0, now + moves[event.key]));
      if (seen.length) this.point(series, seen[next]);
    } else if (event.key in hops && this.cursor && shown.length) {
      const at = this.spec.series[this.cursor.series].x[this.cursor.i];
      const now = shown.findIndex((one) => one.index === this.cursor.series);
      const next = shown[(now + hops[event.key] + shown.length) % shown.length];
      this.point(next.index, nearestIndex(next.x, at));
    } else if (event.key === "+" || event.key === "=") this.zoom(0.6);
    else if (event.key === "-") this.zoom(1 / 0.6);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }
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

function theme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`); };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  label();
}

function copying() {
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch { // no permission: select it, so that the keyboard can copy
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

const specs = new Map(JSON.parse(document.getElementById("charts").textContent).map((spec) => [spec.key, spec]));
for (const figure of document.querySelectorAll("figure[data-chart]")) new Chart(figure, specs.get(figure.dataset.chart));
theme();
copying();
