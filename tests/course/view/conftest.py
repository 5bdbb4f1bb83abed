"""What every view's test begins with: a session of its own, and what is displayed in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brrr_course import sources
from brrr_course.view import display


@pytest.fixture(autouse=True)
def own_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is named by the environment, and no live source is left behind."""
    for name in ("BRRR_SOURCE", "BRRR_STATIC", "BRRR_QUICK", "BRRR_RECORDINGS"):
        monkeypatch.delenv(name, raising=False)
    yield
    sources._live.clear()


@pytest.fixture
def made_up_recordings(own_session: None, synthetic_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the course's."""
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was displayed, as pairs of data and metadata."""
    found: list[Any] = []
    monkeypatch.setattr(display, "publish", lambda data, metadata=None: found.append((data, metadata)))
    return found
