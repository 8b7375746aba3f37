// A small chart in SVG: hover, zoom, log or linear axes, legend, keyboard.
const CLOSER = 0.6; // the fraction of the view that remains after zooming in once
const CLOSEST = 1e-4; // the smallest view, as a fraction of the whole axis

class Chart {
  constructor(figure, spec) {
    this.spec = spec;
    this.plot = figure.querySelector(".plot");
    this.caption = figure.querySelector("figcaption");
    this.x = new Axis(spec.x_label, spec.log_x);
    this.y = new Axis(spec.y_label, spec.log_y);
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
    const label = `Tools: ${this.spec.title}`;
    const bar = make(this.caption, "div", { class: "tools", role: "toolbar", "aria-label": label });
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
    const actions = [
      ["+", "Zoom in", () => this.zoom(CLOSER)],
      ["−", "Zoom out", () => this.zoom(1 / CLOSER)],
      ["Reset", "Reset zoom", () => this.reset()],
    ];
    for (const [label, name, act] of actions)
      make(bar, "button", { type: "button", "aria-label": name, title: name }, label).addEventListener("click", act);
  }

  legend() {
    if (this.spec.series.length < 2) return;
    const list = make(this.plot, "div", { class: "legend", role: "group", "aria-label": "Show or hide lines" });
    this.spec.series.forEach((one, index) => {
      const button = make(list, "button", { type: "button", "aria-pressed": true });
      const sign = make(button, "svg", { width: 22, height: 10, "aria-hidden": true });
      const stroke = { stroke: this.color(one), "stroke-width": 2.5, "stroke-dasharray": this.dash(one) };
      if (one.kind === "band") make(sign, "rect", { width: 22, height: 10, fill: this.color(one), opacity: 0.25 });
      else if (one.kind === "points") make(sign, "circle", { cx: 11, cy: 5, r: 4, fill: this.color(one) });
      else make(sign, "path", { d: "M0 5H22", ...stroke });
      make(button, "span", {}, one.name);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(index)) this.hidden.add(index);
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
  shown() {
    return this.spec.series.map((one, index) => ({ ...one, index })).filter((one) => !this.hidden.has(one.index));
  }

  domain() {
    const xs = this.spec.series.flatMap((one) => one.x).filter((value) => this.x.shows(value));
    let [low, high] = this.x.view || [Math.min(...xs), Math.max(...xs)];
    const apart = !this.x.log && this.spec.series.some((one) => one.kind === "points"); // room for the outer points
    const margin = this.spec.categories.length ? 0.5 : Math.min(0.5, (high - low) / 20 || 0.5);
    if (!this.x.view && apart) [low, high] = [low - margin, high + margin];
    if (low === high) [low, high] = this.x.log ? [low / 2, high * 2] : [low - 1, high + 1];
    [this.x.low, this.x.high] = [low, high];
    const ys = [];
    for (const one of this.shown()) one.x.forEach((at, i) => {
      if (at >= low && at <= high) ys.push(one.y[i], ...(one.low ? [one.low[i], one.high[i]] : []));
    });
    for (const mark of this.spec.marks) if (mark.y !== null && ys.length) ys.push(mark.y);
    const seen = ys.filter((value) => this.y.shows(value));
    const [least, top] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [this.y.log ? 0.1 : 0, 1];
    const bottom = this.y.log ? Math.max(least, top * 1e-8) : least;
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
    const inner = { x: this.x.begin, y: 0, width: Math.max(1, this.x.end - this.x.begin), height: this.y.begin + 1 };
    make(make(this.svg, "clipPath", { id: clip }), "rect", inner);
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
    const upright = `translate(12 ${(b + t) / 2}) rotate(-90)`;
    make(this.svg, "text", { transform: upright, "text-anchor": "middle" }, this.y.label);
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
    const seen = one.x.map((value, i) => this.x.shows(value) && this.y.shows(one.y[i]));
    const at = one.x.map((value, i) => seen[i] ? [this.x.place(value), this.y.place(one.y[i])] : null);
    this[one.kind](layer, one, at);
    return layer;
  }

  ends(one, i) { // of a band or whisker, cut off at the lower end of the axis
    return [one.high[i], one.low[i]].map((value) => this.y.place(Math.max(value, this.y.low)));
  }

  line(layer, one, at) {
    let path = "", open = false;
    for (const place of at) {
      if (place) path += `${open ? "L" : "M"}${place[0].toFixed(1)} ${place[1].toFixed(1)}`;
      open = Boolean(place);
    }
    make(layer, "path", { class: "line", d: path, stroke: this.color(one), "stroke-dasharray": this.dash(one) });
  }

  band(layer, one, at) {
    const kept = one.x.map((_, i) => i).filter((i) => at[i]);
    if (!kept.length) return;
    const up = kept.map((i) => `${at[i][0]} ${this.ends(one, i)[0]}`);
    const down = kept.map((i) => `${at[i][0]} ${this.ends(one, i)[1]}`).reverse();
    make(layer, "path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: this.color(one), opacity: 0.18 });
  }

  whiskers(layer, one, at) {
    const cap = this.spec.categories.length ? 6 : 0;
    const look = { stroke: this.color(one), "stroke-width": cap ? 2 : 3, opacity: cap ? 1 : 0.45 };
    at.forEach((place, i) => {
      if (!place) return;
      const [high, low] = this.ends(one, i);
      const caps = [high, low].map((y) => `M${place[0] - cap} ${y}h${2 * cap}`).join("");
      make(layer, "path", { d: `M${place[0]} ${high}V${low}${caps}`, ...look });
    });
  }

  points(layer, one, at) {
    const r = this.spec.categories.length ? 5.5 : 3.4;
    for (const place of at) if (place) make(layer, "circle", { cx: place[0], cy: place[1], r, fill: this.color(one) });
  }

  lines() {
    const taken = [];
    let row = 0;
    for (const { label, x, y } of this.spec.marks) {
      const axis = x !== null ? this.x : this.y, value = x !== null ? x : y;
      if (!axis.shows(value) || value < axis.low || value > axis.high) continue;
      if (x !== null) this.upright(label, axis.place(value), label ? row++ : row);
      else this.level(label, axis.place(value), taken);
    }
  }

  upright(label, at, row) {
    make(this.body, "line", { class: "mark upright", x1: at, x2: at, y1: this.y.end, y2: this.y.begin });
    const right = at > (this.x.begin + this.x.end) / 2;
    const place = { x: at + (right ? -6 : 6), y: this.y.end + 12 + 16 * row, "text-anchor": right ? "end" : "start" };
    make(this.svg, "text", { class: "mark-label", ...place }, label);
  }

  level(label, at, taken) {
    make(this.body, "line", { class: "mark", x1: this.x.begin, x2: this.x.end, y1: at, y2: at });
    const free = (y) => taken.every((other) => Math.abs(other - y) > 13) && y < this.y.begin;
    const y = [at - 5, at + 14].find(free);
    if (y === undefined) return; // too close to other labels: the line is drawn without its label
    taken.push(y);
    make(this.svg, "text", { class: "mark-label", x: this.x.begin + 6, y }, label);
  }

  // hover and keyboard: a cursor is a series and an index in it
  lead() {
    const shown = this.shown();
    const first = (fits) => shown.find(fits);
    return first((one) => one.labels.length) || first((one) => one.kind === "line") || first((one) => one.kind !== "band");
  }

  find(px, py) {
    let best = null;
    const lead = this.lead();
    const wanted = this.spec.nearest || !lead || lead.kind !== "line" ? this.shown() : [lead];
    for (const one of wanted) one.x.forEach((at, i) => {
      const seen = this.x.shows(at) && this.y.shows(one.y[i]) && at >= this.x.low && at <= this.x.high;
      if (one.kind === "band" || !seen) return;
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
      const same = other.x.indexOf(at);
      const k = same < 0 && other.kind === "line" ? nearestIndex(other.x, at) : same;
      if (k < 0 || !this.y.shows(other.y[k])) continue;
      rows.push([other.name, other.low ? `${format(other.low[k])} to ${format(other.high[k])}` : format(other.y[k])]);
      const look = { r: 5, fill: this.color(other), stroke: "var(--card)", "stroke-width": 2 };
      if (other.kind !== "band") make(this.over, "circle", { cx: px, cy: this.y.place(other.y[k]), ...look });
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
    const left = px > room / 2 ? px - width - 14 : px + 14;
    this.tip.style.left = `${Math.max(0, Math.min(room - width, left))}px`;
    this.tip.style.top = "34px"; // below the labels of upright marks
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
    const centre = around !== null ? this.x.to(around) : cursor ? this.x.to(cursor) : (low + high) / 2;
    this.view(this.x.back(centre - (centre - low) * factor), this.x.back(centre + (high - centre) * factor));
  }

  view(low, high) {
    this.x.view = null;
    this.domain();
    const [least, most] = [this.x.low, this.x.high];
    const whole = low <= least && high >= most;
    const view = [Math.max(low, least), Math.min(high, most)];
    const size = (pair) => this.x.to(pair[1]) - this.x.to(pair[0]);
    if (!whole && size(view) > CLOSEST * size([least, most])) this.x.view = view;
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
        const box = { x: Math.min(start, end), width: Math.abs(end - start), y: this.y.end };
        make(this.over, "rect", { class: "brush", ...box, height: this.y.begin - this.y.end });
        return;
      }
      const found = this.find(px, py);
      if (found) this.point(found.series, found.i);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const end = limit(local(event)[0]);
      const from = start;
      start = null;
      if (from === null || Math.abs(end - from) <= 6) return;
      this.view(this.x.value(Math.min(from, end)), this.x.value(Math.max(from, end)));
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
      const middle = Math.floor(seen.length / 2);
      const next = now < 0 ? middle : Math.min(seen.length - 1, Math.max(0, now + moves[event.key]));
      if (seen.length) this.point(series, seen[next]);
    } else if (event.key in hops && this.cursor && shown.length) {
      const at = this.spec.series[this.cursor.series].x[this.cursor.i];
      const now = shown.findIndex((one) => one.index === this.cursor.series);
      const next = shown[(now + hops[event.key] + shown.length) % shown.length];
      this.point(next.index, nearestIndex(next.x, at));
    } else if (event.key === "+" || event.key === "=") this.zoom(CLOSER);
    else if (event.key === "-") this.zoom(1 / CLOSER);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }
}
