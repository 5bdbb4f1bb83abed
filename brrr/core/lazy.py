"""Public names that are loaded when they are first used (PEP 562), listed once: in the package's `.pyi`.

A type checker reads the same list, so that every public name is typed. Below them: old names.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType

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
        lines = [line.split() for line in stub if line.startswith("from .")]
    where = {words[3]: words[1] for words in lines}

    def load(name: str) -> Any:
        if now := RENAMED.get(old := f"{package}.{name}"):
            _warn_of(old, now)
            name = now.rpartition(".")[2]
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(where[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return load, names, sorted(where)


# ---- old names ----
# A student's copy of a lesson is never overwritten, so its imports outlive a move for one release.

MOVED = dict.fromkeys(
    ("codegen", "codegen.generated", "experiments.cos_cos_work", "experiments.mlp_table", "experiments.strassen_table",
     "lessons", "lessons.available", "lessons.copy_comparison", "lessons.drawings", "lessons.growth_comparison",
     "lessons.memory_comparison", "lessons.published_gain", "lessons.roofline_points", "lessons.strassen_comparison",
     "lessons.triton_here", "roofline.generations"), "brrr.course",
) | {
    "experiments": "brrr.course.experiments", "experiments.mlp": "brrr.course.experiments.mlp",
    "kernels.megakernel_time": "brrr.kernels.megakernel.device", "source": "brrr.course.sources",
    "units": "brrr.core.units",
}  # fmt: skip
"""From a module's old name below brrr to where its names are now."""
RENAMED = {
    "brrr.lessons.strassen_comparison.compare_growth": "brrr.course.compare_errors",
    "brrr.networks.Way": "brrr.networks.Implementation",
    "brrr.strassen.Estimate": "brrr.strassen.ParetoPoint", "brrr.strassen.Plan": "brrr.strassen.ProductPlan",
}  # fmt: skip


class Moved(ModuleType):
    """A module's old name: each of its names is fetched from its new place, with a warning."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old)
        self._new = new

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        old, now = f"{self.__name__}.{name}", f"{self._new}.{name}"
        now = RENAMED.get(old, now)
        place = import_module(self._new)
        found: object = getattr(place, now.rpartition(".")[2])
        # torch asks every loaded module for names such as `torch`, which the new place only imports.
        if isinstance(found, ModuleType) and name not in getattr(place, "__all__", ()):
            raise AttributeError(f"{self.__name__} has no {name}")
        _warn_of(old, now)
        return found


def _warn_of(old: str, now: str) -> None:
    warnings.warn(f"{old} is {now} now; the old name goes with the next release", DeprecationWarning, 3)


sys.modules.update({f"brrr.{old}": Moved(f"brrr.{old}", new) for old, new in MOVED.items()})
