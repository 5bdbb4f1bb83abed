"""Where the course's data and its lessons lie."""

from functools import cache
from pathlib import Path

from brrr.core import files
from brrr_course.nouns import table

COURSE = Path(__file__).resolve().parents[1]
"""The folder of the package `brrr_course`."""
REPOSITORY = ""
"""Its address, as https://github.com/OWNER/NAME, or empty: the one place. `notebooks/build.py` writes what needs it."""


def share(name: str) -> Path:
    """The folder `data` or `notebooks`, from the installed course if it ships them, else from the repository.

    >>> share("notebooks").name
    'notebooks'
    """
    return files.share(name, COURSE)


@cache
def published(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a source's own figures: facts to compare with, never measurements of this project.

    >>> published("pseudo_linear")[0]
    {'table': 'gpu_a_eager', 'width': '128', 'speedup': '0.9691576570785311'}
    """
    return tuple(table.read(share("data") / "published" / f"{name}.csv"))
