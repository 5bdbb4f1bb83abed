"""A real JupyterLab over a folder of notebooks, and Debian's Chromium to look at it."""

from collections.abc import Iterator
from typing import Any

import pytest
from chromium_here import CHROMIUM, FLAGS
from page import Window
from server import ARTIFACTS, PHOTOGRAPHS, Lab, running


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab for all browser tests."""
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture(scope="session")
def window(lab: Lab, chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """Chromium without a window to see, with a profile of its own, and that JupyterLab in it."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    context = chromium.launch_persistent_context(
        str(tmp_path_factory.mktemp("profile")), executable_path=CHROMIUM, headless=True, args=FLAGS,
        viewport={"width": 1100, "height": 1250}, device_scale_factor=2 if PHOTOGRAPHS else 1,
    )  # fmt: skip
    yield Window(context.new_page(), lab)
    context.close()
