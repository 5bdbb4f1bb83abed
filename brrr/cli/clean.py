"""`brrr doctor --clean`: what brrr keeps for this user, how much that is, and the end of it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.files import cache_folder, system_folder
from brrr.core.private import KEPT

OWN = "recordings"
WHAT = {**KEPT, OWN: "what you recorded and calibrated"}


def places() -> Mapping[str, Path]:
    """The folders that are there, by name; no other one of the cache, which `BRRR_CACHE` may share with others.

    >>> places().keys() <= WHAT.keys()
    True
    """
    every = {name: cache_folder() / name for name in KEPT} | {OWN: system_folder("data") / "brrr" / OWN}
    return {name: folder for name, folder in every.items() if folder.is_dir()}


def clean(names: Collection[str], yes: bool) -> str:
    """Remove the named places, all but one's own where none is named, and say so; without `yes`, only say so."""
    if wrong := {*names} - {*WHAT}:
        raise ArgumentError("doctor", "--clean", " ".join(sorted(wrong)), f"no name, or some of {', '.join(WHAT)}")
    if not (there := places()):
        return "brrr keeps nothing here."
    held = (sum(path.lstat().st_size for path in each.rglob("*") if not path.is_dir()) for each in there.values())
    rows = [(name, WHAT[name], units.nbytes(size), str(there[name])) for name, size in zip(there, held, strict=True)]
    chosen = [name for name in there if (name in names if names else name != OWN)]
    for folder in (there[name] for name in chosen if yes):
        shutil.rmtree(folder)
        with suppress(OSError):  # it holds something else
            folder.parent.rmdir()
    said = "Removed" if yes else "Nothing was removed. With --yes this removes"
    stays = [f"Unless you name it, this stays: {OWN}."] * (OWN in there and OWN not in chosen)
    return "\n".join([*units.table(rows), f"{said}: {', '.join(chosen) or 'nothing'}.", *stays])
