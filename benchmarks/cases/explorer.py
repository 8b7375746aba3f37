"""Processor time of the explorer per frame at p = 500 while sliders move, in a browser.

A slider is moved once in every frame, with all seven methods shown. The display shows 60 frames
per second. Other processes affect the number of frames per second, but hardly the processor time
of the page's thread; 33 ms per frame correspond to 30 frames per second.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import Case, MissingError, Work
from benchmarks.results import Measure

GROUP = "explorer"
TITLE = "The explorer"
ABOUT = (
    "The page of `stoptime explore` with p = 500 and seven methods in a headless browser. Each "
    "slider is moved once in every frame, and the slowest slider counts. 33 ms of processor time "
    "per frame correspond to 30 frames per second."
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
METHODS = "ridge,gradient-flow,nesterov-flow,heavy-ball-flow,gradient-descent,nesterov,heavy-ball"
SLIDERS = ("nu", "p", "n", "snr", "friction", "damping", "step", "time")
WARM_UP, FRAMES = 20, 60
FRAME = 1000 / 30  # milliseconds
DRAG = """async ([key, frames]) => {
  const input = document.querySelector(key === "time" ? "#time" : `#slider-${key}`);
  const next = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  for (let i = 0; i < frames; i += 1) {
    // every step changes the value
    input.value = key === "p" ? 960 + (i % 20) * 2 : 300 + (i % 20) * 7;
    input.dispatchEvent(new Event("input"));
    times.push(await next());
  }
  return times;
}"""


def browser_path(running: Any) -> str:
    """Return the path of the first browser found, or say how to install one."""
    found = [
        os.environ.get("STOPTIME_BROWSER"),
        *map(shutil.which, BROWSERS),
        running.chromium.executable_path,
    ]
    path = next((p for p in found if p and Path(p).exists()), None)
    if path is None:
        raise MissingError("apt-get install chromium, or python -m playwright install chromium")
    return path


def processor_time(clock: Any) -> float:
    """Return the processor time of the page's thread in seconds."""
    metrics = clock.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def dragged(page: Any, clock: Any, address: str, key: str) -> tuple[float, float]:
    """Return processor milliseconds per frame, and frames per second, while a slider moves."""
    page.goto(f"{address}#p=500&show={METHODS}")
    page.reload()
    page.wait_for_selector('#table[data-exact="true"]', timeout=60_000)
    page.evaluate(DRAG, [key, WARM_UP])  # the first frames are slower: JavaScript is compiled
    before = processor_time(clock)
    times = page.evaluate(DRAG, [key, FRAMES])
    spent = 1000 * (processor_time(clock) - before) / FRAMES
    return spent, 1000 * (len(times) - 1) / (times[-1] - times[0])


def drag_all(sliders: tuple[str, ...]) -> tuple[float, float]:
    """Return the worst processor time and the median rate over all sliders."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra

    from stoptime.show import explorer  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        address = explorer.write(Path(folder) / "explorer.html").as_uri()
        browser = running.chromium.launch(
            executable_path=browser_path(running), args=["--no-sandbox"]
        )
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            clock = page.context.new_cdp_session(page)
            clock.send("Performance.enable", {"timeDomain": "threadTicks"})
            found = [dragged(page, clock, address, key) for key in sliders]
        finally:
            browser.close()
    spent, rates = zip(*found, strict=True)
    return max(spent), statistics.median(rates)


def frames(sliders: tuple[str, ...]) -> Work:
    """Measure the slowest slider."""

    def named(found: tuple[float, float], _: object) -> tuple[Measure, ...]:
        spent, rate = found
        return (
            Measure("ms of processor time in a frame, slowest slider", spent, FRAME, "at most"),
            Measure("frames a second, median slider", rate),
        )

    return Work(lambda: drag_all(sliders), measures=named)


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    sliders = SLIDERS[-1:] if quick else SLIDERS
    return [
        Case(
            GROUP,
            "p = 500, seven methods",
            "30 frames a second",
            lambda: frames(sliders),
            "Probably the risk of all methods at all times, which is computed again in each frame.",
            needs=("stoptime.explorer", "playwright"),
        )
    ]
