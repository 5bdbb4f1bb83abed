"""A real JupyterLab over a folder of notebooks, and Debian's Chromium to look at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from page import Window
from server import ARTIFACTS, PHOTOGRAPHS, Lab, running

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab for all browser tests."""
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture(scope="session")
def window(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """Chromium without a window to see, with a profile of its own, and that JupyterLab in it."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        lacking = "no Chromium here: the browser tests need Debian's `chromium` package"
        pytest.fail(lacking, pytrace=False) if os.environ.get("CI") else pytest.skip(lacking)
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")), executable_path=CHROMIUM, headless=True, args=FLAGS,
            viewport={"width": 1100, "height": 1250}, device_scale_factor=2 if PHOTOGRAPHS else 1,
        )  # fmt: skip
        yield Window(context.new_page(), lab)
        context.close()
