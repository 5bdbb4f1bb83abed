"""Where data and caches lie; files written whole or not at all; JSON read as a type, each error named."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from brrr.core.errors import ArgumentError, RecordingError

T = TypeVar("T")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace the file's content: a temporary file beside it is filled, flushed to the disk and renamed.

    Raises RecordingError if the folder cannot be written to or the disk is full; the old file is then untouched.
    """
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes files that only their owner may read
        temporary.replace(path)
        if os.name == "posix":  # a rename is on the disk only when its folder is; Windows can open none
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)  # gone after the replacement, left over where something came between


def require_writable(folder: Path) -> None:
    """Make the folder if it is missing, and prove that a file can be written there; RecordingError if not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise cannot_write(folder, error) from error


def cannot_write(path: Path, error: OSError) -> RecordingError:
    """The error for a file or folder that the system lets nobody write."""
    choose = "Choose a folder that you may write to (brrr site DIR, elsewhere --out DIR)"
    return RecordingError(f"{path}: cannot be written ({error.strerror or error}). {choose}")


MOST_BYTES, MOST_JSON_BYTES = 1 << 26, 1 << 24
"""More than any file of a recording has, the largest ten times over: nothing else is read into memory."""


@contextmanager
def open_regular(path: Path) -> Iterator[IO[bytes]]:
    """A regular file, open for reading; OSError for anything else: a pipe in a file's place may never end."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        yield file


def file_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """What a regular file holds; OSError also for one of more than `most` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"it has more than {most / 1e6:.3g} MB")
    return content


def is_own(path: Path, *starts: str) -> bool:
    """Whether writing over a file, or removing it, loses nothing of others: it begins as ours, is empty or not there.

    >>> is_own(Path("nowhere.html"), "<!doctype html>")
    True
    """
    if not path.is_file():
        return True
    with open_regular(path) as file:
        head = file.read(max(map(len, starts), default=1))
    return not head or head.decode("utf-8", "replace").startswith(starts)


# ---------------------------------------------------------------------------------------------------------------------
# What JSON or TOML holds, as a type.

PLAIN = {str: "a text", int: "a whole number", float: "a finite number"}


def typed(kind: Any, value: Any, place: str = "") -> Any:
    """A value as a type: a dataclass, a tuple, a mapping, `X | None`, a literal, a number or a text.

    >>> typed(Mapping[str, int], {"a": 1, "b": "2"}, "runs[0]")
    Traceback (most recent call last):
    ...
    ValueError: runs[0].b is '2'; expected a whole number

    A dataclass takes each of its fields and no other key; what its own checks refuse is named with the place as well.
    """
    origin, of = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, _required(value, dict, "an object", place), place)
    if origin is Mapping:
        found = _required(value, dict, "an object", place)
        return {key: typed(of[1], item, _at(place, key)) for key, item in found.items()}
    if origin is tuple:
        return _tuple(of, _required(value, (list, tuple), "a list", place), place)
    if origin is frozenset:
        return frozenset(_tuple((*of, ...), _required(value, (list, tuple), "a list", place), place))
    if NoneType in of:
        return None if value is None else typed(of[0], value, place)
    if origin is Literal:
        return value if value in of else _refuse(value, f"one of {', '.join(map(str, of))}", place)
    kinds = _alternatives(kind)
    return value if _is_plain(value, kinds) else _refuse(value, " or ".join(PLAIN[each] for each in kinds), place)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _dataclass(kind: Any, content: Mapping[str, Any], place: str) -> Any:
    # What it computes itself is not read, and what `Exported.as_dict` leaves out need not be there.
    every = dataclasses.fields(kind)
    fields = {x.name: x.init and (x.repr or x.default is x.default_factory or x.name in content) for x in every}
    for name, init in fields.items():
        if init and name not in content:
            raise ValueError(f"{_at(place, name)} is missing")
    hints, given = _hints(kind), dict[str, Any]()
    for name in (each for each, init in fields.items() if init):
        value, hint = content[name], hints[name]
        as_it_is = hint is type(value) and hint in (str, int)  # most are: no place is named where nothing is wrong
        given[name] = value if as_it_is else typed(hint, value, _at(place, name))
    for key in content:
        if key not in fields and key not in getattr(kind, "_more", ()):
            raise ValueError(f"{_at(place, key)} is not a known key; known: {', '.join(fields)}")
    try:
        return kind(**given)
    except ArgumentError as error:
        _refuse(error.value, error.expected, _at(place, error.argument))


@lru_cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _tuple(of: tuple[Any, ...], items: list[Any], place: str) -> tuple[Any, ...]:
    if of[-1] is not Ellipsis and len(items) != len(of):
        _refuse(items, f"{len(of)} values", place)
    plain = _alternatives(of[0])
    if of[-1] is Ellipsis and set(plain) <= set(PLAIN) and _all_plain(items, plain):
        return tuple(items)  # long columns of numbers: no place is named where nothing is wrong
    kinds = of if of[-1] is not Ellipsis else (of[0],) * len(items)
    return tuple(typed(kind, item, f"{place}[{at}]") for at, (kind, item) in enumerate(zip(kinds, items, strict=True)))


def _is_plain(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether it is of one of the types: True is no number, a whole number is also a float, no number is infinite."""
    if type(value) in (int, float) and float in kinds:
        return bool(-float("inf") < value < float("inf"))
    return type(value) in kinds


def _all_plain(items: list[Any], kinds: tuple[type, ...]) -> bool:
    """Whether all are, told at once: a file may hold a million of them."""
    if not {*map(type, items)} <= {*kinds, *((int,) if float in kinds else ())}:
        return False
    return float not in kinds or all(_is_plain(each, kinds) for each in items)


def _at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _required(value: Any, kind: type | tuple[type, ...], expected: str, place: str) -> Any:
    return value if isinstance(value, kind) else _refuse(value, expected, place)


def _refuse(value: object, expected: str, place: str) -> NoReturn:
    raise ValueError(f"{place} is {value!r}; expected {expected}")


# ---------------------------------------------------------------------------------------------------------------------
# JSON files of ours: the number of the format first, a checksum of all the rest last.


def json_text(version: int, content: Mapping[str, Any]) -> str:
    """The text of a file: a line a key, a list of plain values on one line."""
    whole = {"format": version, **content}
    return _lines({**whole, "checksum": _checksum(whole)}) + "\n"


def _lines(value: Any, end: str = "\n") -> str:
    inner = end + " "
    if isinstance(value, Mapping) and value:
        lines = (f"{inner}{_packed(key)}: {_lines(each, inner)}" for key, each in value.items())
        return "{" + ",".join(lines) + end + "}"
    if isinstance(value, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in value):
        return "[" + ",".join(inner + _lines(each, inner) for each in value) + end + "]"
    return _packed(value)


def _packed(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _checksum(content: Mapping[str, Any]) -> str:
    return digest(json.dumps({key: content[key] for key in content if key != "checksum"}, sort_keys=True))


def read_json(path: Path, kind: type[T], expected: int, missing: str = "", most: int = MOST_JSON_BYTES) -> T:
    """What such a file holds, as a dataclass.

    RecordingError names the file and what is wrong: it is missing, no JSON, of another format, a key is wrong, or the
    content does not fit the checksum.
    """
    content = read_object(path, missing, most)
    try:
        version = typed(int, content.get("format"), "format")
        if version != expected:
            newer = "newer than this brrr reads, update it (pip install -U brrr-gpu)"
            _refuse(version, f"{expected}: {newer if version > expected else 'an older brrr wrote it'}", "format")
        rest = {key: content[key] for key in content if key not in ("format", "checksum")}
        found: T = typed(kind, rest)
        if typed(str, content.get("checksum"), "checksum") != _checksum(content):
            raise ValueError("the checksum does not fit the content: damaged or edited. Restore it, or record anew")
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from None
    return found


def read_object(path: Path, missing: str = "", most: int = MOST_JSON_BYTES) -> dict[str, Any]:
    """The object that a JSON file holds; RecordingError if the file is missing, is no JSON, or holds something else."""
    try:
        text = file_bytes(path, most).decode()
        content = json.loads(text, parse_constant=_no_constant)
        if "\\u" in text:  # ValueError for half a surrogate pair, which no file can hold
            json.dumps(content, ensure_ascii=False).encode()
    except FileNotFoundError as error:
        raise RecordingError(f"{path}: is missing{missing}") from error
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise RecordingError(f"{path}: is no valid JSON ({error}); restore it, or record anew") from error
    if not isinstance(content, dict):
        raise RecordingError(f"{path}: holds no JSON object")
    return content


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def digest(text: str) -> str:
    """A short fingerprint of a text; line ends count as one character, however git checks the file out."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------------------------
# Folders: the data and the lessons, in the repository or the installed package.

PACKAGE = Path(__file__).resolve().parents[1]


def share(name: str, package: Path = PACKAGE) -> Path:
    """A folder such as `data`, from the installed package if it ships it, else from the repository.

    >>> share("data").name
    'data'
    """
    shipped = package / "share" / name
    return shipped if shipped.is_dir() else package.parent / name


def read_toml(name: str) -> dict[str, Any]:
    """A file of the package's data.

    >>> sorted(read_toml("product_kernels.toml"))
    ['family', 'kernel']
    """
    return tomllib.loads((share("data") / name).read_text(encoding="utf-8"))


# ---------------------------------------------------------------------------------------------------------------------
# Where the package keeps what it can make again, such as compiled kernels.

VARIABLE = "BRRR_CACHE"
"""The environment variable that names another folder."""


def cache_folder() -> Path:
    """The folder of the cache, which need not exist: `BRRR_CACHE`, else `brrr` where the system keeps caches.

    >>> cache_folder().name != ""
    True

    Nothing in it is needed: it may be deleted at any time.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    return system_folder("cache") / "brrr"


# Where the system keeps a user's caches and data: a variable's name and the folder without it.
LINUX = {"cache": ("XDG_CACHE_HOME", ".cache"), "data": ("XDG_DATA_HOME", ".local/share")}
MAC = {"cache": "Caches", "data": "Application Support"}


def system_folder(of: Literal["cache", "data"]) -> Path:
    """Where the system keeps a user's caches or data.

    Linux: `$XDG_CACHE_HOME` or `~/.cache`, `$XDG_DATA_HOME` or `~/.local/share` (XDG Base Directory Specification);
    macOS: `~/Library/Caches` or `~/Library/Application Support`; Windows: `%LOCALAPPDATA%`.
    """
    home = Path(os.sep, os.path.expanduser("~"))  # /~, which cannot be made, for a container's user without a name
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / MAC[of]
    variable, otherwise = LINUX[of]
    given = os.environ.get(variable, "")
    # The specification: a relative path there is invalid and must be ignored.
    return Path(given) if os.path.isabs(given) else home / otherwise


def kept(path: Path) -> bytes | None:
    """What a file of the cache holds; None where there is none, or where it cannot be read."""
    try:
        return file_bytes(path)
    except OSError:
        return None
