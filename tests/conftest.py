"""Fixtures for all tests: recordings of made-up measurements, written by the real writer."""

from __future__ import annotations

import shutil
from pathlib import Path

import made_up
import pytest


@pytest.fixture(scope="session")
def synthetic_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings with `h200` and `cpu`, each of `matmul`. Read it only; `writable_root` is a copy."""
    root = tmp_path_factory.mktemp("recordings")
    made_up.record(root, made_up.GPU)
    made_up.record(root, made_up.CPU)
    return root


@pytest.fixture
def writable_root(synthetic_root: Path, tmp_path: Path) -> Path:
    """A copy of the synthetic recordings that a test may spoil."""
    return Path(shutil.copytree(synthetic_root, tmp_path / "recordings"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: Playwright keeps an event loop running, in which no other test could start its own."""
    items.sort(key=lambda item: "browser" in item.path.parts)
