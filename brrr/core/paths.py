"""Folders: the data and the lessons (in the repository or the installed package), the cache, the recordings."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def share(name: str) -> Path:
    """The folder `data` or `notebooks`, from the installed package if it ships them, else from the repository.

    >>> share("data").name
    'data'
    """
    shipped = PACKAGE / "share" / name
    return shipped if shipped.is_dir() else PACKAGE.parent / name


# ---------------------------------------------------------------------------------------------------------------------
# Where the package keeps what it can make again: compiled kernels, and which way to run a network was fastest.

VARIABLE = "BRRR_CACHE"
"""The environment variable that names another folder."""


def cache_folder() -> Path:
    """The folder of the cache, which need not exist: `BRRR_CACHE`, else `brrr` where the system keeps caches.

    >>> cache_folder().name != ""
    True

    Linux: `$XDG_CACHE_HOME` or `~/.cache` (XDG Base Directory Specification); macOS: `~/Library/Caches`; Windows:
    `%LOCALAPPDATA%`. Nothing in it is needed: it may be deleted at any time.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    return _system_folder() / "brrr"


def _system_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The specification: a relative path there is invalid and must be ignored.
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def keep(path: Path, content: bytes) -> bool:
    """Write a file of the cache, whole or not at all; False, and no error, where the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        return False
    finally:
        Path(name).unlink(missing_ok=True)  # gone after the replacement, left over where something came between
    return True


def kept(path: Path) -> bytes | None:
    """What a file of the cache holds; None where there is none, or where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def recordings_root() -> Path:
    """Where the recordings lie: the folder that `BRRR_RECORDINGS` names, else the course's own."""
    named = os.environ.get("BRRR_RECORDINGS")
    return Path(named) if named else share("data") / "recordings"


def recorded_devices(root: Path | None = None) -> tuple[str, ...]:
    """The devices that there are recordings of, in alphabetical order."""
    root = root or recordings_root()
    slug = re.compile(r"[a-z0-9][a-z0-9-]*")  # a folder set aside by `brrr record --fresh` has a dot in its name
    if not root.is_dir():
        return ()
    return tuple(sorted(d.name for d in root.iterdir() if slug.fullmatch(d.name) and (d / FILE).is_file()))


FILE = "machine.json"
