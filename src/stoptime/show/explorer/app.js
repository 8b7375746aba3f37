// Controls, keyboard, address and time: every input changes the state, and the state is drawn.
"use strict";

(function (stoptime) {
  const { PARAMETERS } = stoptime;
  const DECADES_PER_SECOND = 0.5;
  const SETTLED_AFTER = 180; // milliseconds without a change before the full search and the new address
  const SLICE = 8; // milliseconds of the search before the page handles events again
  const SLIDER_STEPS = 1000;
  const byId = (id) => document.getElementById(id);
  const app = { state: null, model: null, frames: 0, playing: false, filtersOfLastFrame: 0 };
  let scheduled = false;
  let changed = false;
  let settling = 0;

  // ---- sliders: positions are whole numbers from 0 to 1000, values may be logarithmic

  function toPosition({ min, max, log }, value) {
    const share = log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);
    return Math.round(SLIDER_STEPS * share);
  }

  function fromPosition({ min, max, log, whole, decimals }, position) {
    const share = position / SLIDER_STEPS;
    const value = log ? min * (max / min) ** share : min + (max - min) * share;
    if (decimals) return Number(value.toFixed(decimals));
    return whole ? Math.round(value) : Number(value.toPrecision(3));
  }

  function makeSlider(holder) {
    const key = holder.dataset.slider;
    const id = `slider-${key}`;
    holder.className = "slider";
    holder.innerHTML =
      `<label for="${id}">${holder.dataset.label}<span class="hint"></span></label><output for="${id}"></output>` +
      `<input type="range" id="${id}" min="0" max="${SLIDER_STEPS}" step="1">`;
    holder.querySelector(".hint").innerHTML = holder.dataset.hint ?? "";
    holder.querySelector("input").addEventListener("input", (event) => {
      const update = { [key]: fromPosition(PARAMETERS[key], Number(event.target.value)) };
      if (key === "damping") update.critical = "no";
      change(update);
    });
  }

  /** Show a value. A slider that already has it, for example while it is dragged, is not moved. */
  function showSlider(holder, value, disabled) {
    const parameter = PARAMETERS[holder.dataset.slider];
    const input = holder.querySelector("input");
    const text = stoptime.figure(parameter.whole ? Math.round(value) : value);
    if (fromPosition(parameter, Number(input.value)) !== value) {
      input.value = toPosition(parameter, Math.min(Math.max(value, parameter.min), parameter.max));
    }
    holder.querySelector("output").textContent = text;
    input.setAttribute("aria-valuetext", text);
    input.disabled = disabled;
    holder.classList.toggle("off", disabled);
  }

  function makeLegend() {
    for (const name of stoptime.METHODS) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.method = name;
      button.append(stoptime.swatch(name), stoptime.NAMES[name]);
      button.addEventListener("click", () => {
        const shown = app.state.show;
        change({ show: stoptime.METHODS.filter((other) => shown.includes(other) !== (other === name)) });
      });
      byId("legend").append(button);
    }
  }

  // ---- from state to page

  function showControls() {
    const { state, model } = app;
    for (const holder of document.querySelectorAll("[data-for]")) {
      holder.hidden = holder.dataset.for !== state.spectrum;
    }
    const values = { ...state, n: model.n, p: model.eigenvalues.length, damping: model.damping };
    const disabled = { n: state.spectrum === "marchenko-pastur", p: state.spectrum === "pasted" };
    for (const holder of document.querySelectorAll("[data-slider]")) {
      const key = holder.dataset.slider;
      showSlider(holder, values[key], Boolean(disabled[key]));
    }
    for (const input of document.querySelectorAll("[data-choice] input")) {
      input.checked = state[input.name] === input.value;
    }
    for (const button of byId("legend").children) {
      const entry = model.entries.find(({ name }) => name === button.dataset.method);
      button.setAttribute("aria-pressed", state.show.includes(entry.name));
      button.classList.toggle("absent", Boolean(entry.reason));
      button.title = entry.reason ?? "";
    }
    for (const link of document.querySelectorAll("#presets a")) {
      const preset = stoptime.fromHash(link.hash);
      const keys = link.hash.slice(1).split("&").map((part) => part.split("=")[0]);
      link.setAttribute("aria-current", keys.every((key) => String(preset[key]) === String(state[key])));
    }
    byId("critical").checked = state.critical === "yes";
    if (document.activeElement !== byId("eigenvalues")) byId("eigenvalues").value = state.eigenvalues;
    byId("risk-name").textContent = state.target === "estimation" ? "E‖β̂ − β₀‖²" : "E‖X(β̂ − β₀)‖²/n";
  }

  function showTheme() {
    const { theme } = app.state;
    const dark = theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").setAttribute("aria-pressed", dark);
    stoptime.readPalette();
  }

  function showError(message) {
    const box = byId("eigenvalues-error");
    box.textContent = message;
    box.hidden = message === "";
    byId("eigenvalues").setAttribute("aria-invalid", message !== "");
  }

  /** Compute what changed. Eigenvalues that cannot be read leave the last good drawing in place. */
  function compute() {
    try {
      app.model = stoptime.modelOf(app.state);
      showError("");
    } catch (error) {
      showError(error.message);
      if (!app.model) app.model = stoptime.modelOf({ ...app.state, eigenvalues: PARAMETERS.eigenvalues.initial });
    }
    showControls();
    stoptime.drawSpectrum(app.model);
    stoptime.drawSignal(app.model);
    stoptime.drawTable(app.model, app.state.show, false);
    stoptime.describe(app.model);
  }

  function timeShown() {
    const [low, high] = app.model.range;
    return Math.min(Math.max(app.state.t, low), high);
  }

  function frame() {
    scheduled = false;
    const before = stoptime.work.filters;
    if (changed) compute();
    changed = false;
    const [low, high] = app.model.range;
    const time = timeShown();
    byId("time").value = Math.round((SLIDER_STEPS * Math.log(time / low)) / Math.log(high / low));
    byId("time").setAttribute("aria-valuetext", stoptime.figure(time));
    stoptime.drawMoment(app.model, time);
    app.frames += 1;
    app.filtersOfLastFrame = stoptime.work.filters - before;
  }

  /** Draw at most once for each frame of the screen, however many events arrive. */
  function redraw() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(frame);
  }

  function change(update) {
    Object.assign(app.state, update);
    const onlyTime = Object.keys(update).every((key) => key === "t");
    if (!onlyTime) {
      changed = true;
      byId("table").dataset.exact = false; // from now on, not from the next frame on
    }
    redraw();
    settleSoon();
  }

  // ---- once nothing has moved for a while: the full search, and the address

  function settleSoon() {
    clearTimeout(settling);
    settling = setTimeout(settle, SETTLED_AFTER);
  }

  function settle() {
    if (scheduled) return settleSoon();
    history.replaceState(null, "", stoptime.toHash(app.state));
    if (byId("table").dataset.exact === "false") searchSlice(app.model, fullSearch(app.model));
    return undefined;
  }

  /** Search for the best stop of every method. */
  function* fullSearch(model) {
    for (const entry of model.entries.filter(({ curve }) => curve)) {
      entry.best = yield* stoptime.inflationSearch(entry.method, model.spectrum, model.prior);
    }
    stoptime.drawTable(model, app.state.show, true);
    stoptime.describe(model);
    redraw();
  }

  /** Search for a few milliseconds, then handle events; stop if the model has changed, or is about to. */
  function searchSlice(model, search) {
    const isCurrent = () => model === app.model && !changed;
    const end = performance.now() + SLICE;
    while (isCurrent() && performance.now() < end) {
      if (search.next().done) return;
    }
    if (isCurrent()) setTimeout(() => searchSlice(model, search));
  }

  // ---- time

  function setPlaying(playing) {
    app.playing = playing;
    byId("play").setAttribute("aria-pressed", playing);
    byId("play-icon").textContent = playing ? "❚❚" : "▶";
    byId("play-word").textContent = playing ? "Pause" : "Play";
    if (!playing) return;
    if (timeShown() >= app.model.range[1]) change({ t: app.model.range[0] });
    requestAnimationFrame((begin) => run(begin));
  }

  function run(last) {
    requestAnimationFrame((now) => {
      if (!app.playing) return;
      const next = timeShown() * 10 ** ((DECADES_PER_SECOND * Math.max(0, now - last)) / 1000);
      change({ t: Math.min(next, app.model.range[1]) });
      if (next >= app.model.range[1]) setPlaying(false);
      else run(now);
    });
  }

  function nudge(steps) {
    const [low, high] = app.model.range;
    change({ t: Math.min(Math.max(timeShown() * 10 ** (steps / 50), low), high) });
  }

  function onKey(event) {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches("input, textarea, select, summary")) return;
    if (key === " " && !target.matches("button, a")) setPlaying(!app.playing);
    else if (key === "ArrowRight") nudge(event.shiftKey ? 10 : 1);
    else if (key === "ArrowLeft") nudge(event.shiftKey ? -10 : -1);
    else if (key === "Home") change({ t: app.model.range[0] });
    else if (key === "End") change({ t: app.model.range[1] });
    else return;
    event.preventDefault();
  }

  function makeDraggable(chart) {
    const { canvas } = chart;
    const follow = (event) => change({ t: chart.under(event) });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      setPlaying(false);
      follow(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) follow(event);
    });
  }

  // ---- buttons and address

  function say(text) {
    byId("status").textContent = text;
    byId("status").classList.add("shown");
    setTimeout(() => byId("status").classList.remove("shown"), 1800);
  }

  async function copyLink() {
    history.replaceState(null, "", stoptime.toHash(app.state));
    try {
      await navigator.clipboard.writeText(location.href);
      say("Link copied");
    } catch {
      say("The link is in the address bar"); // the browser does not let this page use the clipboard
    }
  }

  function takeAddress(theme = "auto") {
    app.state = stoptime.fromHash(location.hash);
    if (!/[#&]theme=/.test(location.hash)) app.state.theme = theme;
    if (!/[#&]t=/.test(location.hash)) app.state.t = null;
    showTheme();
    changed = true;
    if (app.state.t === null) app.state.t = startTime();
    redraw();
    settleSoon();
  }

  /** The time of the best ridge, for an address without a time. */
  function startTime() {
    try {
      const { snr, target, lean } = app.state;
      const { eigenvalues, n } = stoptime.chooseSpectrum(app.state);
      return Math.sqrt(stoptime.priorOf(stoptime.spectrumOf(eigenvalues, target, lean), { n, snr }).alpha);
    } catch {
      return 1; // the eigenvalues are wrong, and the page shows an error
    }
  }

  function listen() {
    for (const input of document.querySelectorAll("[data-choice] input")) {
      input.addEventListener("change", () => change({ [input.name]: input.value }));
    }
    byId("critical").addEventListener("change", (event) => {
      const damping = app.model.damping || PARAMETERS.damping.initial;
      change(event.target.checked ? { critical: "yes" } : { critical: "no", damping });
    });
    byId("eigenvalues").addEventListener("input", (event) => change({ eigenvalues: event.target.value }));
    byId("time").addEventListener("input", (event) => {
      const [low, high] = app.model.range;
      setPlaying(false);
      change({ t: low * (high / low) ** (Number(event.target.value) / SLIDER_STEPS) });
    });
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    byId("play").addEventListener("click", () => setPlaying(!app.playing));
    byId("copy").addEventListener("click", copyLink);
    byId("reset").addEventListener("click", () => {
      setPlaying(false);
      history.replaceState(null, "", "#");
      takeAddress();
    });
    byId("theme").addEventListener("click", () => {
      change({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
      showTheme();
    });
    document.addEventListener("keydown", onKey);
    addEventListener("hashchange", () => takeAddress(app.state.theme)); // a link within the page keeps the theme
    addEventListener("resize", () => change({ t: app.state.t }));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      showTheme();
      change({});
    });
  }

  function start() {
    document.querySelectorAll("[data-slider]").forEach(makeSlider);
    makeLegend();
    stoptime.makeCharts();
    ["risk", "bias", "variance"].forEach((name) => makeDraggable(stoptime.charts[name]));
    listen();
    takeAddress();
  }

  stoptime.app = app;
  start();
})((globalThis.stoptime ??= {}));
