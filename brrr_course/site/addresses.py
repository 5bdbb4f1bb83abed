"""Where the notebooks and the repository's files are to be had, as far as this build knows."""

import os
from html import escape

from brrr_course.nouns import places

VARIABLE = "BRRR_REPOSITORY"
"""The repository's address, as https://github.com/OWNER/NAME, where a build is to take another than `places` has."""


def repository() -> str:
    """The repository's address; empty where none is known."""
    return os.environ.get(VARIABLE, places.REPOSITORY).rstrip("/")


def in_repository(path: str) -> str:
    """The address of one of the repository's files; empty where none is known.

    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, BRRR_REPOSITORY="https://github.com/o/n"):
    ...     in_repository("SECURITY.md")
    'https://github.com/o/n/blob/main/SECURITY.md'
    """
    return f"{repository()}/blob/main/{path}" if repository() else ""


def in_colab(name: str) -> str:
    """Where Colab opens a lesson's notebook, of a repository on GitHub; empty of any other.

    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, BRRR_REPOSITORY="https://github.com/o/n"):
    ...     in_colab("03_overhead")
    'https://colab.research.google.com/github/o/n/blob/main/notebooks/03_overhead.ipynb'
    """
    _, on_github, own = in_repository(f"notebooks/{name}.ipynb").partition("https://github.com/")
    return f"https://colab.research.google.com/github/{own}" if on_github else ""


def notebook_links(name: str) -> str:
    """Links to a lesson's notebook: the copy beside the pages, and, of a repository on GitHub, Colab and Binder.

    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, BRRR_REPOSITORY=""):
    ...     notebook_links("03_overhead")
    '<a href="notebooks/03_overhead.ipynb" download>the notebook</a>'
    """
    file = f"notebooks/{name}.ipynb"
    links = [f'<a href="{file}" download>the notebook</a>']
    if colab := in_colab(name):
        own = repository().removeprefix("https://github.com/")
        links.append(f'<a href="{escape(colab)}">Colab</a>')
        links.append(f'<a href="https://mybinder.org/v2/gh/{escape(own)}/main?labpath={file}">Binder</a>')
    return ", ".join(links)
