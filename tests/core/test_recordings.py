"""The search path of recordings: one's own before those that come with the packages."""

import os
from pathlib import Path

import pytest

from brrr.core import recordings
from brrr.core.errors import RecordingError
from brrr.core.files import share
from brrr.core.recordings import device_folders, first_that_reads, offer, own_root, recorded_devices, search_path, ships

COURSE_S = share("data") / "recordings"


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRRR_RECORDINGS", raising=False)
    monkeypatch.setattr(recordings, "_shipped", [COURSE_S])


def device(root: Path, name: str) -> Path:
    (root / name).mkdir(parents=True)
    (root / name / "machine.json").write_text("{}")
    return root / name


def test_in_a_checkout_its_own_recordings_are_the_only_ones_and_get_what_is_new() -> None:
    assert search_path() == (COURSE_S,) and own_root() == COURSE_S and ships(COURSE_S)


def test_those_that_the_variable_names_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    monkeypatch.setenv("BRRR_RECORDINGS", os.pathsep.join([str(a), "", str(b)]))
    assert search_path() == (a, b, COURSE_S) and own_root() == a and not ships(a)


@pytest.mark.parametrize("why", ["installed", "not writable"])
def test_elsewhere_ones_own_lie_where_the_system_keeps_a_users_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if why == "installed":
        monkeypatch.setattr(recordings, "_shipped", [tmp_path / "share"])
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert own_root() == tmp_path / "brrr" / "recordings" == search_path()[0]
    assert len(search_path()) == 2


def test_a_package_offers_its_own_and_they_come_last(tmp_path: Path) -> None:
    offer(tmp_path)
    offer(tmp_path)
    assert search_path() == (COURSE_S, tmp_path) and ships(tmp_path)


def test_a_device_has_a_folder_in_each(tmp_path: Path) -> None:
    roots = [tmp_path / "own", tmp_path / "nothing", tmp_path / "course"]
    folders = device(roots[0], "h200"), device(roots[2], "h200")
    device(roots[2], "cpu")
    device(roots[0], "h200.before-2000")
    (roots[0] / "a100").mkdir()  # its peaks alone, say
    assert device_folders("h200", roots) == folders
    assert recorded_devices(roots) == ("cpu", "h200")
    assert device_folders("a100", roots) == (roots[0] / "a100",)
    assert device_folders("..", roots) == ()


def test_a_damaged_one_is_named_once_and_hides_none(capsys: pytest.CaptureFixture[str]) -> None:
    def read(folder: Path) -> str | None:
        if folder.name == "damaged":
            raise RecordingError("damaged/a.csv: is empty")
        return "whole" if folder.name == "whole" else None

    folders = [Path(name) for name in ("nothing", "damaged", "whole")]
    assert [first_that_reads(folders, read) for _ in range(2)] == ["whole"] * 2
    assert capsys.readouterr().err == "damaged/a.csv: is empty. Shown instead: what whole holds.\n"
    with pytest.raises(RecordingError, match="is empty"):
        first_that_reads(folders[:2], read)
    assert first_that_reads(folders[:1], read) is None
