"""Public names that are loaded when they are first used (PEP 562), listed once: in the package's `.pyi`.

A type checker reads the same list, so that every public name is typed.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading typing takes longer than all the rest of `import brrr`
    from collections.abc import Callable
    from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__init__.py`.

    Each line of the stub that counts is `from .module import name as name`. Used as
    `__getattr__, __dir__, __all__ = attach(__name__, __file__)`.
    """
    with open(file.removesuffix("c") + "i", encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.startswith("from ")]
    where = {words[3]: words[1] for words in lines}

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from brrr.core.errors import extras  # loaded when it is first needed, like all else

        with extras(f"{package}.{name}"):
            value = getattr(module := import_module(where[name], package), name)
        if name in vars(module):  # what a module makes when it is asked, it makes each time
            setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return load, names, sorted(where)
