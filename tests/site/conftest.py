"""Pages of lessons on the course's recording, and Debian's Chromium to open them in, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opened import Opened, made

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        lacking = "no Chromium here: the pages' tests need Debian's `chromium` package"
        pytest.fail(lacking, pytrace=False) if os.environ.get("CI") else pytest.skip(lacking)
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Opened]]:
    """A function that makes the page of the lesson with that number, and opens it as a file."""
    pages: list[Opened] = []

    def opens(number: str, width: int = 900) -> Opened:
        found = made(number)
        path = Path(tmp_path_factory.mktemp("site")) / f"{found.name}.html"
        path.write_text(found.page, encoding="utf-8")
        pages.append(Opened(browser, path, found, width))
        return pages[-1]

    yield opens
    for page in pages:
        page.close()
