"""Where the data and the lessons lie: in the repository, or inside the installed package."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def share(name: str) -> Path:
    """The folder `data` or `notebooks`, from the installed package if it ships them, else from the repository.

    >>> share("data").name
    'data'
    """
    shipped = PACKAGE / "share" / name
    return shipped if shipped.is_dir() else PACKAGE.parent / name
