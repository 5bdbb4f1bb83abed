"""A limit of time for code that may never end, names that are loaded late, and linear algebra on one core."""

import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from brrr.core import one_core as module
from brrr.core.errors import UnavailableError
from brrr.core.lazy import attach
from brrr.core.one_core import one_core
from brrr.core.time_limit import Late, within

timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such timer")


@timer
@pytest.mark.parametrize("seconds", [0.02, 0.0, -1.0])
def test_a_block_ends_when_its_time_is_over(seconds: float) -> None:
    outer, began = signal.getitimer(signal.ITIMER_REAL), time.monotonic()
    with pytest.raises(Late), within(seconds):
        time.sleep(5)
    assert time.monotonic() - began < 4
    assert signal.getitimer(signal.ITIMER_REAL) == pytest.approx(outer, abs=5)


@timer
def test_what_was_set_before_is_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = lambda *_: None  # noqa: E731
    before, outer = signal.signal(signal.SIGALRM, mine), signal.setitimer(signal.ITIMER_REAL, 60.0)
    try:
        with within(30.0):
            assert 29 < signal.getitimer(signal.ITIMER_REAL)[0] <= 30
        assert 59 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60 and signal.getsignal(signal.SIGALRM) is mine
        with pytest.raises(KeyError), within(30.0):
            raise KeyError
        assert 59 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, before)
    assert not issubclass(Late, Exception), "no program catches it by accident"


@pytest.mark.parametrize("thread", [True, False])
def test_where_there_is_no_timer_the_block_runs_unless_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, thread: bool
) -> None:
    ran: list[float] = []

    def run() -> None:
        for seconds in (0.0, 1e-9, -1.0):
            with suppress(Late), within(seconds):
                ran.append(seconds)

    if thread:
        one = threading.Thread(target=run)
        one.start()
        one.join()
    else:
        monkeypatch.delattr(signal, "setitimer")
        run()
    assert ran == [1e-9]


# -- names that are loaded when they are first used --------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package with one public name, one that lacks a library of an extra, and one that has moved."""
    folder = tmp_path / "made_up_package"
    folder.mkdir()
    (folder / "__init__.pyi").write_text("from .one import value as value\nfrom .two import other as other\nx: int\n")
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("value = object()\n")
    (folder / "two.py").write_text("import no_such_triton\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    made: ModuleType = __import__("made_up_package")
    monkeypatch.delitem(sys.modules, "made_up_package.one", raising=False)
    yield made, attach("made_up_package", str(folder / "__init__.py"))
    for name in [each for each in sys.modules if each.startswith("made_up_package")]:
        del sys.modules[name]


def test_a_public_name_is_loaded_when_it_is_first_used(package: Any) -> None:
    made, (load, names, public) = package
    assert public == ["other", "value"] and "made_up_package.one" not in sys.modules
    assert load("value") is made.value is sys.modules["made_up_package.one"].value
    assert names() == sorted({*vars(made), "other", "value"})


def test_other_names_say_why_they_are_not_there(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (load, *_) = package
    with pytest.raises(AttributeError, match=r"^module 'made_up_package' has no attribute 'x'"):
        load("x")
    with pytest.raises(ModuleNotFoundError, match="no_such_triton"):
        load("other")
    Path(sys.modules["made_up_package"].__file__ or "").with_name("two.py").write_text("import pycuda.none\n")
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(UnavailableError, match=r"^made_up_package\.other needs pycuda.*\[cuda\]"):
        load("other")


# -- one core ----------------------------------------------------------------------------------------------------------


def test_numpy_computes_on_one_core_within_and_on_as_many_as_before_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    library = SimpleNamespace(
        scipy_openblas_get_num_threads64_=lambda: 7, scipy_openblas_set_num_threads64_=asked.append
    )
    monkeypatch.setattr(module, "_openblas", lambda: library)
    with one_core():
        assert asked == [1]
    assert asked == [1, 7]
    with pytest.raises(KeyError), one_core():
        raise KeyError
    assert asked == [1, 7, 1, 7]
    monkeypatch.setattr(module, "_openblas", lambda: None)
    with one_core():
        pass
    assert len(asked) == 4, "another library is left alone"
