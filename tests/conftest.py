"""Fixtures for all tests: recordings of made-up measurements, written by the real writer."""

import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import interpreter
import left_behind
import made_up
import pytest
from chromium_here import CHROMIUM
from xdist.scheduler import LoadScopeScheduling

from brrr.core import recordings


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


@pytest.fixture
def only_recordings(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Called with a folder of recordings: no others are looked into, the course's neither."""

    def looked_into(root: Path) -> None:
        monkeypatch.setattr(recordings, "_shipped", [])
        monkeypatch.setattr(recordings, "_home", lambda: root)
        monkeypatch.setenv("BRRR_RECORDINGS", str(root))

    return looked_into


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures behind the pictures."""
    from brrr.drawing import style

    seen: list[Any] = []
    monkeypatch.setattr(style, "to_png", lambda drawn: seen.append(drawn) or b"\x89PNG")
    return seen


def as_it_was(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test changed in the process is put back, and fails the test."""
    before = left_behind.state()
    yield
    if changed := left_behind.put_back(before, str(tmp_path_factory.getbasetemp())):
        pytest.fail("\n".join([LEFT, *changed]), pytrace=False)


LEFT = "This test leaves the process changed, for all tests after it; a fixture, monkeypatch or `with` puts it back:"
each_test_leaves_it = pytest.fixture(as_it_was, autouse=True)
each_file_leaves_it = pytest.fixture(as_it_was, autouse=True, scope="module")
"""For what the fixtures of a file change, from before its first test until after its last one."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, Any]:
    """A file that changes the process when it is loaded is an error; `sys.path` is pytest's own."""
    before = {**left_behind.state(), "sys.path": None}
    report = yield
    if isinstance(collector, pytest.Module) and (changed := left_behind.put_back(before)):
        report.outcome, report.longrepr = "failed", "\n".join(["Loading this file changes the process:", *changed])
    return report


@pytest.fixture
def own_environment() -> Iterator[None]:
    """The environment is the test's own: what a command sets in it for its process is gone afterwards."""
    with patch.dict(os.environ):
        yield


@pytest.fixture
def own_precision() -> Iterator[None]:
    """Torch's precision of float32 is the test's own; what sets it need not put all of it back."""
    import torch  # noqa: F401

    was = left_behind.precisions()
    yield
    left_behind.set_precisions(was)


@pytest.fixture
def cells_here(own_environment: None) -> None:
    """For a test that runs a lesson's cells, which may ask for Triton's interpreter."""
    interpreter.load_before_a_cell_does()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """What starts Debian's Chromium, by `launch` and the like; Playwright itself can be started only once a process."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        lacking = "no Chromium here: the browser tests need Debian's `chromium` package"
        pytest.fail(lacking, pytrace=False) if os.environ.get("CI") else pytest.skip(lacking)
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium


SPREAD = {"test_nbval.py", "test_lessons.py", "test_sweep.py"}
"""Files whose tests take long and share nothing: any worker may take one. Of the others, one takes all."""
IN_A_BROWSER = "_in_a_browser"
"""How a browser test is named in a file with other tests, which run earlier."""


class ByFile(LoadScopeScheduling):
    """What a test file prepares once is prepared on one worker only; pytest-xdist's own groups do not see SPREAD."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if nodeid.partition("[")[0].endswith(IN_A_BROWSER):
            return f"{file} {IN_A_BROWSER}"
        return nodeid if file.rpartition("/")[2] in SPREAD else file


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch's small operators on one thread: several wait for each other on a machine that others use too."""
    from brrr_course.experiments.checked import one_thread

    with one_thread():
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """How tests are dealt out to the workers."""
    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: to collect a test's garbage need not mean to look through torch."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order: many short tests, then the notebooks, then the browser.

    Long tests that any worker can take stand at the end, so that all workers end together; the browser's are the last,
    for Playwright keeps an event loop running, in which no other test could start its own.
    """
    others = {item.path for item in items if not _needs_browser(item)}
    for item in items:
        if _needs_browser(item) and item.path in others and not item.name.partition("[")[0].endswith(IN_A_BROWSER):
            raise pytest.UsageError(f"{item.nodeid}: a browser's test beside others is named ..{IN_A_BROWSER}")
    items.sort(key=lambda item: (_needs_browser(item), item.path.name in SPREAD))


def _needs_browser(item: pytest.Item) -> bool:
    return item.get_closest_marker("browser") is not None
