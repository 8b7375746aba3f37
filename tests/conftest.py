"""What every test may ask for: random numbers, data, a browser."""

import os
import shutil
import sys
from pathlib import Path

import hypothesis
import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_diabetes

mpl.use("Agg")

hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=100, print_blob=False
)
hypothesis.settings.register_profile(
    "soak", deadline=None, print_blob=True
)  # other problems every time
hypothesis.settings.load_profile("repeatable")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING_PACKAGE = "pages are tested in a browser: pip install playwright"
MISSING_BROWSER = (
    "pages are tested in a browser: apt-get install chromium, or "
    "python -m playwright install chromium, or set STOPTIME_BROWSER to the path of one"
)


@pytest.fixture
def rng():
    return np.random.default_rng(20220)


@pytest.fixture(scope="session")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture
def bars(monkeypatch):
    """Show progress bars at once instead of after some seconds."""
    import tqdm

    shown = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: shown(**{**options, "delay": 0}))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    if (plt := sys.modules.get("matplotlib.pyplot")) is not None:
        plt.close("all")


@pytest.fixture(scope="module")
def browser():
    """Start a browser; without one, tests that need it are skipped and say what to install."""
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
        browser = running.chromium.launch(
            executable_path=path, args=["--no-sandbox"] if unboxed else []
        )
        yield browser
        browser.close()


@pytest.fixture
def table(rng):
    X = rng.standard_normal((1000, 5)) @ rng.standard_normal((5, 5)) + 2
    y = X @ np.arange(5.0) + 10 * rng.standard_normal(1000)
    return X, y
