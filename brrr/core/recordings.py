"""Where recordings are looked for, one's own before those that come with the packages; and where new ones go."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from brrr.core.errors import RecordingError
from brrr.core.files import PACKAGE, share, system_folder

T = TypeVar("T")
VARIABLE = "BRRR_RECORDINGS"
FILE = "machine.json"
"""What makes a folder that of a recorded device."""

SLUG = re.compile(r"[a-z0-9][a-z0-9-]*")
"""A device's folder; one that `brrr record --fresh` has set aside has a dot in its name."""

_shipped = [share("data") / "recordings"]
_named: set[str] = set()


def offer(root: Path) -> None:
    """Look there too, after all others: for a package that ships recordings of its own, when it is imported."""
    if root not in _shipped:
        _shipped.append(root)


def search_path() -> tuple[Path, ...]:
    """The folders of recordings, first found first taken.

    Those that `BRRR_RECORDINGS` names (several with the separator of `PATH` between them), the one that `brrr record`
    writes into, and those that the packages ship. Not each of them need exist.

    >>> search_path()[-1].name
    'recordings'
    """
    return tuple(dict.fromkeys((*_chosen(), _home(), *_shipped)))


def own_root() -> Path:
    """Where a new recording goes: the first that `BRRR_RECORDINGS` names, else the repository's where one works in it,
    else `brrr/recordings` where the system keeps a user's data.
    """
    return next(iter(_chosen()), _home())


def ships(root: Path) -> bool:
    """Whether that folder of recordings comes with a package."""
    return root in _shipped


def _chosen() -> list[Path]:
    return [Path(name).expanduser() for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def _home() -> Path:
    """The repository's recordings where it is there and may be written to, else the user's."""
    repository = PACKAGE.parent / "data" / "recordings"
    if repository in _shipped and os.access(repository, os.W_OK):
        return repository
    return system_folder("data") / "brrr" / "recordings"


def recorded_devices(roots: Sequence[Path] | None = None) -> tuple[str, ...]:
    """The devices that there are recordings of, in alphabetical order."""
    there = [each for root in roots or search_path() if root.is_dir() for each in root.iterdir()]
    return tuple(sorted({each.name for each in there if SLUG.fullmatch(each.name) and (each / FILE).is_file()}))


def device_folders(device: str, roots: Sequence[Path] | None = None) -> tuple[Path, ...]:
    """The folders of that device, in the order of the search path; one may hold its peaks alone."""
    there = [root / device for root in roots or search_path()] if SLUG.fullmatch(device) else []
    return tuple(folder for folder in there if folder.is_dir())


def first_that_reads(folders: Iterable[Path], read: Callable[[Path], T | None]) -> T | None:
    """What the first of the folders gives that has it, None where none does.

    A damaged one is named on stderr, once, and hides none that comes after it; RecordingError where none does.
    """
    damaged: RecordingError | None = None
    for folder in folders:
        try:
            found = read(folder)
        except RecordingError as error:
            damaged = damaged or error
            continue
        if found is not None:
            if damaged and str(damaged) not in _named:
                _named.add(str(damaged))
                print(f"{damaged}. Shown instead: what {folder} holds.", file=sys.stderr)
            return found
    if damaged:
        raise damaged
    return None
