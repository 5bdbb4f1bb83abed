"""Pages of lessons on the course's recording, and Debian's Chromium to open them in, without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium_here import CHROMIUM, FLAGS
from opened import Opened, made


@pytest.fixture(scope="session")
def browser(chromium: Any) -> Iterator[Any]:
    started = chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
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
