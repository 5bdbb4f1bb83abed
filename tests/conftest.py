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


SPREAD = {"test_nbval.py", "test_lessons.py"}
"""Files whose tests take long and share nothing: any worker may take one. Of the others, one takes all."""


@pytest.hookimpl(tryfirst=True)  # in front of pytest-xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order: many short tests, then the notebooks, then the browser.

    What a test file prepares once is prepared on one worker only. Long tests that any worker can take stand at the
    end, so that all workers end together; the browser's are the last, for Playwright keeps an event loop running, in
    which no other test could start its own.
    """
    items.sort(key=lambda item: ("browser" in item.path.parts, item.path.name in SPREAD))
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if item.path.name not in SPREAD:
                item.add_marker(pytest.mark.xdist_group(item.path.name))
