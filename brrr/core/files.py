"""Write a file whole or not at all, so that a kill at any moment leaves either the old file or the new one."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from brrr.core.errors import RecordingError
from brrr.core.values import Value


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's content: a temporary file beside it is filled, flushed to the disk and renamed.

    Raises RecordingError if the folder cannot be written to or the disk is full; the old file is then untouched.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes files that only their owner may read
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def require_writable(folder: Path) -> None:
    """Make the folder if it is missing, and prove that a file can be written there; RecordingError if not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _flush_folder(folder: Path) -> None:
    """A rename is on the disk only when its folder is; Windows cannot open a folder and needs no flush."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _cannot_write(path: Path, error: OSError) -> RecordingError:
    return RecordingError(
        f"{path}: cannot be written ({error.strerror or error}). Choose a folder that you may write to with --out DIR"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Read a JSON object key by key, each with its type; what is wrong is named with its file and its place.

T = TypeVar("T")


class JsonReader:
    """One JSON object of a file, with the place it stands at.

    >>> JsonReader(Path("machine.json"), "runs[0]", {"id": 7}).text("id")
    Traceback (most recent call last):
    ...
    brrr.core.errors.RecordingError: machine.json: runs[0].id is 7; expected a text
    """

    def __init__(self, path: Path, place: str, content: dict[str, Any]) -> None:
        self.path, self.place, self.content = path, place, content
        self._read: set[str] = set()

    def fail(self, message: str) -> NoReturn:
        """Raise a RecordingError that names the file."""
        raise RecordingError(f"{self.path}: {message}")

    def _take(self, key: str) -> Any:
        if key not in self.content:
            self.fail(f"{self._at(key)} is missing")
        self._read.add(key)
        return self.content[key]

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def _expected(self, key: str, value: object, expected: str) -> NoReturn:
        self.fail(f"{self._at(key)} is {value!r}; expected {expected}")

    def text(self, key: str) -> str:
        """The text under the key."""
        value = self._take(key)
        return value if isinstance(value, str) else self._expected(key, value, "a text")

    def number(self, key: str) -> float:
        """The finite number under the key."""
        value = self.number_or_none(key)
        return self._expected(key, None, "a number") if value is None else value

    def number_or_none(self, key: str) -> float | None:
        """The finite number under the key, or None for null."""
        value = self._take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._expected(key, value, "a finite number")
        return value

    def integer(self, key: str) -> int:
        """The whole number under the key."""
        value = self.integer_or_none(key)
        return self._expected(key, None, "a whole number") if value is None else value

    def integer_or_none(self, key: str) -> int | None:
        """The whole number under the key, or None for null."""
        value = self._take(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            self._expected(key, value, "a whole number")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of texts under the key."""
        value = self._take(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._expected(key, value, "a list of texts")
        return tuple(value)

    def integers(self, key: str) -> list[int]:
        """The list of whole numbers under the key."""
        value = self._take(key)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            self._expected(key, value, "a list of whole numbers")
        return list(value)

    def object(self, key: str) -> JsonReader:
        """The object under the key."""
        value = self._take(key)
        if not isinstance(value, dict):
            self._expected(key, value, "an object")
        return JsonReader(self.path, self._at(key), value)

    def objects(self, key: str) -> Iterator[JsonReader]:
        """The list of objects under the key."""
        value = self._take(key)
        if not isinstance(value, list):
            self._expected(key, value, "a list of objects")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                self._expected(f"{key}[{index}]", item, "an object")
            yield JsonReader(self.path, f"{self._at(key)}[{index}]", item)

    def point(self, key: str) -> dict[str, Value]:
        """The point under the key: an object of numbers and texts."""
        found = self.object(key)
        for name, value in found.content.items():
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                found._expected(name, value, "a number or a text")
        return dict(found.content)

    def mapping(self, read: Callable[[JsonReader, str], T]) -> dict[str, T]:
        """All keys of the object with their values, each read by `read`: `mapping(JsonReader.number)`."""
        return {key: read(self, key) for key in self.content}

    def ignore(self, *keys: str) -> None:
        """These keys may be there, but nothing is read from them."""
        self._read.update(keys)

    def finish(self) -> None:
        """Fail on a key that nobody asked for: a misspelt one, say."""
        for key in self.content:
            if key not in self._read:
                self.fail(f"{self._at(key)} is not a known key")


def read_object(path: Path) -> JsonReader:
    """The object that a JSON file holds; RecordingError if the file is missing, is no JSON, or holds something else."""
    try:
        content = json.loads(path.read_bytes().decode(), parse_constant=_no_constant)
    except FileNotFoundError as error:
        raise RecordingError(f"{path}: is missing. It says which machine the CSV files beside it come from") from error
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise RecordingError(f"{path}: is no valid JSON ({error}); restore it, or record anew") from error
    if not isinstance(content, dict):
        raise RecordingError(f"{path}: holds no JSON object")
    return JsonReader(path, "", content)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def digest(text: str) -> str:
    """A short fingerprint of a text; line ends count as one character, however git checks the file out."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()[:16]
