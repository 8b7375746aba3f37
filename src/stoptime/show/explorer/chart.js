// Line charts on a canvas: axes, curves, dots, rings and a cursor. Knows nothing of risk.
"use strict";

(function (stoptime) {
  const MARGIN = { left: 60, right: 14, top: 10, bottom: 38 };
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

  const palette = {};

  /** Read the colours of the style sheet; to be called again when the theme changes. */
  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "soft", "line", "grid", "card", "accent", "shade", ...stoptime.METHODS]) {
      palette[name] = style.getPropertyValue(`--${name}`).trim();
    }
  }

  const powerOfTen = (power) => "10" + String(power).replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);

  /** A tick as people write it: 0.01, 5, 2000, 10⁴. */
  function tickLabel(value) {
    if (value === 0) return "0";
    const power = Math.round(Math.log10(Math.abs(value)));
    if (Math.abs(power) < 4) return String(Number(value.toPrecision(3)));
    const front = Math.round(value / 10 ** power);
    return (front === 1 ? "" : `${front}·`) + powerOfTen(power);
  }

  function logTicks([low, high], room) {
    const decades = Math.log10(high / low);
    if (decades < 0.7) return linearTicks([low, high], room / 1.5);
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const steps = [[1, 2, 3, 5, 7], [1, 2, 5]].find((some) => some.length * decades <= room) || [1];
    const every = Math.max(1, Math.ceil(decades / room));
    const ticks = [];
    for (let power = first; power <= last; power += 1) {
      for (const step of steps) {
        const value = step * 10 ** power;
        const inside = value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
        if (inside && power % every === 0) ticks.push(value);
      }
    }
    return ticks;
  }

  function linearTicks([low, high], room, least = 0) {
    const rough = Math.max((high - low) / room, least);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const ticks = [];
    for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k += 1) ticks.push(k * step);
    return ticks;
  }

  /** From values to pixels along one side. */
  function scaleOf({ range, log, whole }, from, to) {
    const [a, b] = log ? range.map(Math.log) : range;
    const slope = (to - from) / (b - a || 1);
    const scale = log ? (value) => from + (Math.log(value) - a) * slope : (value) => from + (value - a) * slope;
    scale.invert = (pixel) => {
      const value = a + (pixel - from) / slope;
      return log ? Math.exp(value) : value;
    };
    const room = Math.max(2, Math.abs(to - from) / (from > to ? 36 : 70));
    scale.ticks = log ? logTicks(range, room) : linearTicks(range, room, whole ? 1 : 0);
    return scale;
  }

  class Chart {
    constructor(canvas) {
      this.canvas = canvas;
      this.context = canvas.getContext("2d");
    }

    /** Make the canvas as sharp as the screen. */
    fit() {
      const ratio = globalThis.devicePixelRatio || 1;
      const { clientWidth: width, clientHeight: height } = this.canvas;
      const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (this.canvas.width !== wide || this.canvas.height !== high) {
        this.canvas.width = wide;
        this.canvas.height = high;
      }
      this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.context.clearRect(0, 0, width, height);
      const { left, right, top, bottom } = MARGIN;
      this.box = { left, right: width - right, top, bottom: height - bottom };
    }

    /** Draw axes {x, y: {range, log, label}}, then curves, rules, rings and the cursor. */
    draw({ x, y, curves = [], rules = [], rings = [], rug = [], cursor = null }) {
      this.fit();
      const { left, right, top, bottom } = this.box;
      this.x = scaleOf(x, left, right);
      this.y = scaleOf(y, bottom, top);
      this.axes(x, y);
      this.context.save();
      this.context.beginPath();
      this.context.rect(left, top - 1, right - left, bottom - top + 2);
      this.context.clip();
      this.rug(rug);
      rules.forEach((rule) => this.rule(rule));
      curves.forEach((curve) => (curve.dots ? this.dots(curve) : this.line(curve)));
      if (cursor !== null) this.cursorLine(cursor);
      rings.forEach((ring) => this.ring(ring));
      this.context.restore();
    }

    axes(x, y) {
      const { context, box } = this;
      const [ink, grid] = [palette.soft, palette.grid];
      context.font = FONT;
      context.lineWidth = 1;
      context.fillStyle = ink;
      context.strokeStyle = grid;
      context.textAlign = "center";
      context.textBaseline = "top";
      for (const tick of this.x.ticks) {
        this.segment(this.x(tick), box.top, this.x(tick), box.bottom);
        context.fillText(tickLabel(tick), this.x(tick), box.bottom + 5);
      }
      context.fillText(x.label, (box.left + box.right) / 2, box.bottom + 21);
      context.textAlign = "right";
      context.textBaseline = "middle";
      for (const tick of this.y.ticks) {
        this.segment(box.left, this.y(tick), box.right, this.y(tick));
        context.fillText(tickLabel(tick), box.left - 6, this.y(tick));
      }
      context.strokeStyle = palette.line;
      this.segment(box.left, box.bottom, box.right, box.bottom);
      if (y.label) this.sideLabel(y.label);
    }

    sideLabel(text) {
      const { context, box } = this;
      context.save();
      context.translate(9, (box.top + box.bottom) / 2);
      context.rotate(-Math.PI / 2);
      context.textAlign = "center";
      context.fillText(text, 0, 0);
      context.restore();
    }

    segment(x0, y0, x1, y1) {
      this.context.beginPath();
      this.context.moveTo(x0, y0);
      this.context.lineTo(x1, y1);
      this.context.stroke();
    }

    /** The height of a point in pixels, held within reach of the canvas: far points would be drawn badly. */
    height(y) {
      const { top, bottom } = this.box;
      const pixel = this.y(y);
      return Math.min(Math.max(Number.isNaN(pixel) ? bottom + 50 : pixel, top - 50), bottom + 50);
    }

    line({ xs, ys, colour }) {
      const { context } = this;
      context.strokeStyle = colour;
      context.lineWidth = 2.2;
      context.lineJoin = "round";
      context.beginPath();
      for (let i = 0; i < xs.length; i += 1) context.lineTo(this.x(xs[i]), this.height(ys[i]));
      context.stroke();
    }

    dots({ xs, ys, colour, dots }) {
      const { context } = this;
      context.fillStyle = colour;
      context.beginPath();
      for (const i of dots) {
        const [x, y] = [this.x(xs[i]), this.height(ys[i])];
        context.moveTo(x, y);
        context.arc(x, y, 2.6, 0, 2 * Math.PI);
      }
      context.fill();
    }

    rule({ y, label, shade }) {
      const { context, box } = this;
      context.fillStyle = palette.shade;
      if (shade) context.fillRect(box.left, this.y(y), box.right - box.left, box.bottom - this.y(y));
      context.strokeStyle = palette.soft;
      context.lineWidth = 1.2;
      context.setLineDash([5, 4]);
      this.segment(box.left, this.y(y), box.right, this.y(y));
      context.setLineDash([]);
      if (!label) return;
      context.font = FONT;
      context.fillStyle = palette.soft;
      context.textAlign = "left";
      context.textBaseline = "top";
      context.fillText(label, box.left + 6, this.y(y) + 4);
    }

    ring({ x, y, colour, filled }) {
      const { context } = this;
      context.beginPath();
      context.arc(this.x(x), this.height(y), filled ? 4 : 6, 0, 2 * Math.PI);
      context.fillStyle = filled ? colour : palette.card;
      context.fill();
      context.lineWidth = filled ? 1.5 : 2.5;
      context.strokeStyle = filled ? palette.card : colour;
      context.stroke();
    }

    /** A short stroke on the horizontal axis for every value. */
    rug(values) {
      const { context, box } = this;
      context.strokeStyle = palette.soft;
      context.lineWidth = 0.5;
      context.beginPath();
      for (const value of values) {
        context.moveTo(this.x(value), box.bottom - 7);
        context.lineTo(this.x(value), box.bottom);
      }
      context.stroke();
    }

    cursorLine(value) {
      this.context.strokeStyle = palette.ink;
      this.context.lineWidth = 1;
      this.segment(this.x(value), this.box.top, this.x(value), this.box.bottom);
    }

    /** The value of the horizontal axis under a pointer. */
    under(event) {
      const { left, right } = this.box;
      const pixel = event.clientX - this.canvas.getBoundingClientRect().left;
      return this.x.invert(Math.min(Math.max(pixel, left), right));
    }
  }

  Object.assign(stoptime, { Chart, palette, powerOfTen, readPalette });
})((globalThis.stoptime ??= {}));
