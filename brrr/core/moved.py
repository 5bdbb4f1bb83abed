"""Modules that lessons imported once: their old names work for one release, with a DeprecationWarning.

A student's copy of a lesson is never overwritten, so its imports must outlive a move. To go with the next release.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType

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
RENAMED = {"brrr.lessons.strassen_comparison.compare_growth": "brrr.course.compare_errors"}


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
        warnings.warn(f"{old} is {now} now; the old name goes with the next release", DeprecationWarning, 2)
        return found


sys.modules.update({f"brrr.{old}": Moved(f"brrr.{old}", new) for old, new in MOVED.items()})
