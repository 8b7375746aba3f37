"""A browser with the explorer in it; without one these tests are skipped, and say what to install."""

import os
import shutil
from pathlib import Path

import pytest

from stoptime import explorer

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING_PACKAGE = 'the explorer is tested in a browser: pip install "stoptime[browser]"'
MISSING_BROWSER = (
    "the explorer is tested in a browser: apt-get install chromium, or "
    "python -m playwright install chromium, or set STOPTIME_BROWSER to the path of one"
)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason=MISSING_PACKAGE)
    with playwright.sync_playwright() as running:
        found = [
            os.environ.get("STOPTIME_BROWSER"),
            *map(shutil.which, BROWSERS),
            running.chromium.executable_path,
        ]
        path = next((p for p in found if p and Path(p).exists()), None)
        if path is None:
            pytest.skip(MISSING_BROWSER)
        # Chromium has no sandbox for root, and hosted runners do not let it make one
        unboxed = "CI" in os.environ or (hasattr(os, "geteuid") and os.geteuid() == 0)
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"] if unboxed else [])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return explorer.write(tmp_path_factory.mktemp("explorer") / "explorer.html").as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the page at a hash; nothing but the page itself may be asked for, and nothing may go wrong."""
    contexts, requests, troubles = [], [], []

    def open_page(fragment="", **options):
        # waiting for a condition evaluates text in the page, which its own policy forbids
        defaults = {"viewport": {"width": 1280, "height": 900}, "bypass_csp": True}
        contexts.append(browser.new_context(**{**defaults, **options}))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: requests.append(request.url.partition("#")[0]))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.goto(address + fragment)
        page.wait_for_selector("#table[data-exact]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert set(requests) == {address}
    assert troubles == []


@pytest.fixture(scope="module")
def javascript(browser, address):
    """Call a function of the page's mathematics on a list of arguments."""
    page = browser.new_page()
    page.goto(address)

    def call(function, arguments):
        return page.evaluate("([source, list]) => list.map(eval(source))", [function, arguments])

    yield call
    page.close()
