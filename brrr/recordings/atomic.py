"""Write a file whole or not at all, so that a kill at any moment leaves either the old file or the new one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from brrr.errors import RecordingError


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
