"""Files written whole or not at all, and JSON read as a type, each error with its place."""

import dataclasses
import errno
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from brrr.core import files
from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import (
    MOST_BYTES,
    MOST_JSON_BYTES,
    cache_folder,
    digest,
    file_bytes,
    json_text,
    kept,
    read_json,
    read_object,
    require_writable,
    share,
    system_folder,
    typed,
    write_atomically,
)

posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX's files")


# -- written whole -----------------------------------------------------------------------------------------------------


@posix
def test_a_file_is_replaced_whole_and_may_be_read_by_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in ("ä", b"\x00\xff"):
        write_atomically(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert path.stat().st_mode & 0o777 == 0o644 and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_what_goes_wrong_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if fails == "fsync" else (Path, "replace")), full)
    with pytest.raises(RecordingError, match=r"a\.json: cannot be written \(No space left on device\)"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


@posix
def test_a_file_is_flushed_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bool] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.path.isdir(f"/dev/fd/{handle}")) or fsync(handle))
    open_before = len(os.listdir("/dev/fd"))
    write_atomically(tmp_path / "a", "x")
    assert flushed == [False, True] and len(os.listdir("/dev/fd")) == open_before
    assert kept(tmp_path / "a") == b"x"


def test_a_cache_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert kept(tmp_path / "file" / "x") is None and kept(tmp_path) is None


def test_a_folder_is_proved_to_be_writable(tmp_path: Path) -> None:
    require_writable(tmp_path / "a" / "b")
    require_writable(tmp_path / "a" / "b")
    assert [*(tmp_path / "a" / "b").iterdir()] == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="Choose a folder"):
        require_writable(tmp_path / "file")


# -- read --------------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_nothing_but_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    """A pipe in a file's place would never end."""
    path = Path("/dev/zero") if kind == "device" else tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(OSError):
        file_bytes(path)
    with pytest.raises(RecordingError, match="cannot be read"):
        read_object(path)


def test_a_file_has_so_many_bytes_at_most(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert file_bytes(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4e-06 MB"):
        file_bytes(path, 4)
    with pytest.raises(RecordingError, match="more than"):
        read_object(path, most=4)
    assert (MOST_BYTES, MOST_JSON_BYTES) == (64 * 2**20, 16 * 2**20)
    path.write_bytes(b"[" + b" " * MOST_JSON_BYTES)
    with pytest.raises(RecordingError, match=r"more than 16\.8 MB"):
        read_object(path)
    with path.open("wb") as large:
        large.truncate(MOST_BYTES + 1)
    with pytest.raises(OSError, match=r"more than 67\.1 MB"):
        file_bytes(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"[1]", "holds no JSON object"), (b"{", "no valid JSON"), (b"\xff", "no valid JSON"),
     (b"[" * 99999, "no valid JSON"), (rb'{"a": "\ud800"}', "no valid JSON"),
     (b'{"a": NaN}', "NaN is not a number"), (b'{"a": -Infinity}', "-Infinity is not a number")],
)  # fmt: skip
def test_what_is_no_json_object_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=rf"x\.json: .*{said}"):
        read_object(path)
    with pytest.raises(RecordingError, match=r"none\.json: is missing, run this"):
        read_object(tmp_path / "none.json", ", run this")


@dataclasses.dataclass(frozen=True)
class Inner:
    at: float
    kind: Literal["a", "b", 3] = "a"
    twice: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ArgumentError("Inner", "at", self.at, "0 or more")


@dataclasses.dataclass(frozen=True)
class Whole:
    name: str
    inner: Inner
    pair: tuple[int, str]
    times: tuple[float, ...]
    rows: tuple[Inner, ...]
    table: Mapping[str, int | str]
    maybe: int | None


GOOD: dict[str, Any] = {
    "name": "x", "inner": {"at": 1, "kind": "b", "twice": 0.0}, "pair": [1, "y"], "times": [1, 2.5],
    "rows": [{"at": 0.0, "kind": 3, "twice": 0.0}], "table": {"k": 1, "l": "m"}, "maybe": None,
}  # fmt: skip


def changed(place: str, value: Any) -> dict[str, Any]:
    content = json.loads(json.dumps(GOOD))
    *path, last = place.split(".")
    at = content
    for each in path:
        at = at[int(each)] if isinstance(at, list) else at[each]
    at[int(last) if isinstance(at, list) else last] = value
    return content


def test_json_is_read_as_its_type() -> None:
    found = typed(Whole, GOOD)
    assert found == Whole("x", Inner(1, "b"), (1, "y"), (1, 2.5), (Inner(0.0, 3),), {"k": 1, "l": "m"}, None)
    assert typed(Whole, changed("maybe", 7)).maybe == 7 and typed(tuple[Inner, ...], []) == ()


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("name", 3, "name is 3; expected a text"), ("name", None, "name is None; expected a text"),
        ("inner", [], r"inner is \[\]; expected an object"),
        ("inner.at", True, "inner.at is True; expected a finite number"),
        ("inner.at", math.inf, "inner.at is inf; expected a finite"), ("inner.at", math.nan, "inner.at is nan"),
        ("inner.at", -1.0, r"inner\.at is -1\.0; expected 0 or more"), ("inner.at", "1", "inner.at is '1'"),
        ("inner.kind", "c", "inner.kind is 'c'; expected one of a, b, 3"),
        ("pair", [1], r"pair is \[1\]; expected 2 values"),
        ("pair.0", 1.0, r"pair\[0\] is 1.0; expected a whole number"), ("pair", "1y", "pair is '1y'; expected a list"),
        ("pair.1", 1, r"pair\[1\] is 1; expected a text"), ("times.1", True, r"times\[1\] is True"),
        ("times.0", math.nan, r"times\[0\] is nan"), ("times.1", "2", r"times\[1\] is '2'; expected a finite number"),
        ("rows.0.at", None, r"rows\[0\]\.at is None"),
        ("table.l", 1.5, "table.l is 1.5; expected a whole number or a text"),
        ("maybe", "x", "maybe is 'x'; expected a whole number"), ("maybe", False, "maybe is False"),
        ("inner.more", 1, "inner.more is not a known key; known: at, kind, twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(place: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        typed(Whole, changed(place, value))


def test_a_field_that_is_missing_is_named_and_what_is_computed_need_not_be_there() -> None:
    content = json.loads(json.dumps(GOOD))
    del content["inner"]["twice"]
    assert typed(Whole, content).inner == Inner(1, "b")
    del content["inner"]["kind"]
    with pytest.raises(ValueError, match=r"^inner\.kind is missing$"):
        typed(Whole, content)
    with pytest.raises(ValueError, match=r"^runs\.name is missing$"):
        typed(Whole, {}, "runs")


# -- files of ours -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kept:
    name: str
    times: tuple[float, ...]


def test_a_file_of_ours_has_its_format_first_and_its_checksum_last(tmp_path: Path) -> None:
    text = json_text(3, {"name": "ä", "times": [1.5, 2], "more": {"x": [[1], {"y": []}], "e": {}}, "none": []})
    path = tmp_path / "a.json"
    assert [*json.loads(text)] == ["format", "name", "times", "more", "none", "checksum"]
    assert text.splitlines()[:3] == ["{", ' "format": 3,', ' "name": "ä",'] and '"times": [1.5,2],' in text
    assert '\n  "x": [\n   [1],\n   {\n    "y": []\n   }\n  ],' in text and text.endswith("\n}\n")
    path.write_text(json_text(3, {"name": "x", "times": (1.0,)}), "utf-8")
    assert read_json(path, Kept, 3) == Kept("x", (1.0,))
    with pytest.raises(ValueError):
        json_text(1, {"x": math.nan})


@pytest.mark.parametrize(
    ("version", "newest", "said"),
    [(4, 3, "newer than this brrr reads, update"), (0, 3, "expected 3: an older"), (True, 3, "format is True"),
     (None, 3, "format is None"), ("3", 3, "format is '3'")],
)  # fmt: skip
def test_a_format_that_this_brrr_does_not_read_is_refused(tmp_path: Path, version: Any, newest: int, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json_text(version, {"name": "x", "times": []}))
    with pytest.raises(RecordingError, match=said):
        read_json(path, Kept, newest)


def test_a_changed_file_does_not_fit_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json_text(1, {"name": "x", "times": [1.0]})
    for spoiled, said in ((text.replace("1.0", "1.5"), "checksum does not fit"),
                          (text.replace('"x"', "3"), "name is 3"),
                          (text.replace('"checksum"', '"sum"'), "sum is not a known key")):  # fmt: skip
        path.write_text(spoiled)
        with pytest.raises(RecordingError, match=said):
            read_json(path, Kept, 1)
    path.write_text(text.replace(": ", ":   "))
    assert read_json(path, Kept, 1).name == "x", "white space is no content"
    with pytest.raises(RecordingError, match="is missing: run it"):
        read_json(tmp_path / "none", Kept, 1, missing=": run it")
    with pytest.raises(RecordingError, match="more than"):
        read_json(path, Kept, 1, most=10)


def test_a_digest_is_the_same_on_every_system() -> None:
    assert digest("a\r\nb") == digest("a\nb") != digest("a\n\nb")
    assert digest("") == "e3b0c44298fc1c14" and len(digest("\ud800")) == 16


# -- folders -----------------------------------------------------------------------------------------------------------


def test_a_package_s_own_folder_comes_before_the_repository_s(tmp_path: Path) -> None:
    package = tmp_path / "brrr"
    assert share("data", package) == tmp_path / "data"
    (package / "share" / "data").mkdir(parents=True)
    assert share("data", package) == package / "share" / "data"


@pytest.mark.parametrize(
    ("system", "given", "cache", "data"),
    [
        ("linux", {}, ".cache", ".local/share"),
        ("linux", {"XDG_CACHE_HOME": "x", "XDG_DATA_HOME": ""}, ".cache", ".local/share"),
        ("linux", {"XDG_CACHE_HOME": "/c", "XDG_DATA_HOME": "/d"}, "/c", "/d"),
        ("darwin", {}, "Library/Caches", "Library/Application Support"),
        ("win32", {}, "AppData/Local", "AppData/Local"), ("win32", {"LOCALAPPDATA": "/l"}, "/l", "/l"),
    ],
)  # fmt: skip
def test_where_the_system_keeps_a_user_s_files(
    monkeypatch: pytest.MonkeyPatch, system: str, given: dict[str, str], cache: str, data: str
) -> None:
    home = Path.home()
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "BRRR_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert (system_folder("cache"), system_folder("data")) == (home / cache, home / data)
    assert cache_folder() == home / cache / "brrr"
    monkeypatch.setenv("BRRR_CACHE", "~/mine")
    assert cache_folder() == home / "mine" and files.VARIABLE == "BRRR_CACHE"


@posix
def test_a_user_without_a_home_keeps_nothing_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user whom nobody named: neither HOME nor a line in /etc/passwd."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "BRRR_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(RuntimeError):
        Path.home()
    assert cache_folder().parts[:2] == system_folder("data").parts[:2] == ("/", "~")
