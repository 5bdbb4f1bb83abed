"""`import torch` while `make lab` still installs it waits, and says so; what only asks whether it is there does not."""

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from brrr.core.errors import BrrrError
from brrr.gpu import probe
from brrr_course.view import coming


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """torch is being installed, and says how far it is."""
    monkeypatch.setattr(coming, "NOTE", tmp_path / "note")
    monkeypatch.setattr(coming, "LOOK_S", 0.01)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    coming.NOTE.write_text("Asking\n20 of 200 MB downloaded\nhalf a li", "utf-8")
    return coming.NOTE


def test_an_import_waits_until_it_is_there(
    note: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([lambda: None, lambda: note.write_text("Another line\n"), lambda: note.write_text("")])
    monkeypatch.setattr(coming.time, "sleep", lambda seconds: next(looks)())
    coming.watch()
    finder = sys.meta_path[0]
    assert finder.find_spec("numpy", None) is None and capsys.readouterr().out == ""
    assert finder.find_spec("torch", None) is None and next(looks, None) is None
    said = [each.strip() for each in capsys.readouterr().out.split("\r")]
    assert said[1].endswith("waits for it. 20 of 200 MB downloaded") and said[-1] == "torch is here."
    assert finder.find_spec("torch", None) is None and capsys.readouterr().out == "", "the second time"


def test_a_kernel_of_the_lessons_lets_its_cells_wait(note: Path) -> None:
    """In a terminal's Python, where nobody asks for it, nothing waits."""
    start, before = str(Path(coming.__file__).with_name("restarted.py")), [*sys.meta_path]
    runpy.run_path(start)
    assert sys.meta_path == before
    runpy.run_path(start, {"get_ipython": lambda: SimpleNamespace(set_custom_exc=lambda *_: None)})
    assert isinstance(sys.meta_path[0], coming.Coming) and sys.meta_path[1:] == before


def test_one_that_did_not_come_is_a_plain_sentence(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coming.watch()
    os.utime(note, (0, 0))  # whoever wrote it is gone
    monkeypatch.setattr(coming, "PathFinder", type("Nothing", (), {"find_spec": staticmethod(lambda name: None)}))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(ImportError, match="`make lab` once more") as caught:
        import torch  # noqa: F401
    assert isinstance(caught.value, BrrrError), "a notebook shows no trace of it"


@pytest.mark.parametrize("left", ["", None])
def test_nothing_stands_in_the_way_where_nothing_comes(note: Path, left: str | None) -> None:
    note.write_text(left) if left is not None else note.unlink()
    before = [*sys.meta_path]
    coming.watch()
    assert sys.meta_path == before


def test_who_only_asks_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*names: str) -> str:
        raise probe.ProbeError("not installed")

    monkeypatch.setattr(probe, "package_version", lacking)
    monkeypatch.setattr(probe, "module", lambda name: pytest.fail(f"{name} was imported"))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(probe.ProbeError, match="not installed"):
        probe.torch_module()
