"""Where the course's data and its lessons lie."""

from pathlib import Path

from brrr.core import files

COURSE = Path(__file__).resolve().parents[1]
"""The folder of the package `brrr_course`."""
REPOSITORY = "<this repository>"
"""Where one clones it from: the one place; `python notebooks/build.py --pages` writes it into README and docs/."""


def share(name: str) -> Path:
    """The folder `data` or `notebooks`, from the installed course if it ships them, else from the repository.

    >>> share("notebooks").name
    'notebooks'
    """
    return files.share(name, COURSE)
