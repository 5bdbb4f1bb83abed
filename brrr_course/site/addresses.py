"""Where the notebooks and the repository's files are to be had, as far as this build knows."""

import os
from html import escape

from brrr_course.nouns import places

VARIABLE = "BRRR_REPOSITORY"
"""The repository's address, as https://github.com/OWNER/NAME, where a build is to take another than `places` has."""


def in_repository(path: str) -> str:
    """The address of one of the repository's files; empty where none is known.

    >>> in_repository("SECURITY.md")
    ''
    """
    address = os.environ.get(VARIABLE, places.REPOSITORY).rstrip("/")
    return f"{address}/blob/main/{path}" if address.startswith("https://") else ""


def notebook_links(name: str) -> str:
    """Links to a lesson's notebook: the copy beside the pages, and, of a repository on GitHub, Colab and Binder.

    >>> notebook_links("03_overhead")
    '<a href="notebooks/03_overhead.ipynb" download>the notebook</a>'
    """
    file = f"notebooks/{name}.ipynb"
    links = [f'<a href="{file}" download>the notebook</a>']
    _, on_github, own = in_repository(file).partition("https://github.com/")
    if on_github:
        links.append(f'<a href="https://colab.research.google.com/github/{escape(own)}">Colab</a>')
        own = own.partition("/blob/")[0]
        links.append(f'<a href="https://mybinder.org/v2/gh/{escape(own)}/main?labpath={file}">Binder</a>')
    return ", ".join(links)
