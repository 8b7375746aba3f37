"""Frames a second of the explorer at p = 500 while sliders are dragged, in a headless browser.

A slider is moved once in every frame, all seven methods shown. The screen asks for 60 frames a second. Frames
a second feel what else the machine does; the processor time of the page's thread in each frame hardly does,
and 33 ms of it are 30 frames a second.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from stoptime import explorer

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
METHODS = "ridge,gradient-flow,nesterov-flow,heavy-ball-flow,gradient-descent,nesterov,heavy-ball"
SLIDERS = ("nu", "p", "n", "snr", "friction", "damping", "step")
WARM_UP, FRAMES = 20, 60
DRAG = """async ([key, frames]) => {
  const input = document.querySelector(key === "time" ? "#time" : `#slider-${key}`);
  const next = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  const work = [];
  for (let i = 0; i < frames; i += 1) {
    input.value = key === "p" ? 960 + (i % 20) * 2 : 480 + (i % 20) * 7; // each step changes the value shown
    input.dispatchEvent(new Event("input"));
    times.push(await next());
    work.push(stoptime.app.filtersOfLastFrame);
  }
  return [times, work];
}"""


def browser_path(running: object) -> str:
    """Return the first browser found, or say how to get one."""
    own = running.chromium.executable_path  # type: ignore[attr-defined]
    found = [os.environ.get("STOPTIME_BROWSER"), *map(shutil.which, BROWSERS), own]
    path = next((p for p in found if p and Path(p).exists()), None)
    if path is None:
        sys.exit("no browser: apt-get install chromium, or python -m playwright install chromium")
    return path


def processor_time(clock: object) -> float:
    """Return the seconds of processor time that the page's thread has used."""
    metrics = clock.send("Performance.getMetrics")["metrics"]  # type: ignore[attr-defined]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def main() -> None:
    """Drag every slider, and print a line for each."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        sys.exit('needs a driven browser: pip install "stoptime[browser]"')
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        address = explorer.write(Path(folder) / "explorer.html").as_uri()
        browser = running.chromium.launch(executable_path=browser_path(running), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        print(f"{browser.version}, p = 500, seven methods, {os.cpu_count()} cores")
        clock = page.context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        print(f"{'slider':10} {'frames/s':>9} {'worst ms':>9} {'processor ms':>13} {'filters a frame':>16}")
        for key in (*SLIDERS, "time"):
            page.goto(f"{address}#p=500&show={METHODS}")
            page.reload()
            page.wait_for_selector('#table[data-exact="true"]', timeout=60_000)
            page.evaluate(DRAG, [key, WARM_UP])  # the first frames compile
            before = processor_time(clock)
            times, work = page.evaluate(DRAG, [key, FRAMES])
            spent = 1000 * (processor_time(clock) - before) / FRAMES
            gaps = [b - a for a, b in pairwise(times)]
            rate = 1000 / statistics.mean(gaps)
            filters = int(statistics.median(work))
            print(f"{key:10} {rate:9.1f} {max(gaps):9.1f} {spent:13.1f} {filters:16,d}")
        browser.close()


if __name__ == "__main__":
    main()
