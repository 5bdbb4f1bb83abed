"""Modules that lessons imported once: their old names work for one release, with a DeprecationWarning.

A student's copy of a lesson is never overwritten, so its imports must outlive a move. To go with the next release.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading typing takes longer than all the rest of `import brrr`
    from types import ModuleType

MOVED = dict.fromkeys(
    ("codegen", "codegen.generated", "experiments.cos_cos_work", "experiments.mlp_table", "experiments.strassen_table",
     "lessons", "lessons.available", "lessons.copy_comparison", "lessons.drawings", "lessons.growth_comparison",
     "lessons.memory_comparison", "lessons.published_gain", "lessons.roofline_points", "lessons.strassen_comparison",
     "lessons.triton_here", "roofline.generations"), "brrr.course",
) | {
    "experiments": "brrr.course.experiments", "experiments.mlp": "brrr.course.experiments.mlp",
    "kernels.megakernel_time": "brrr.kernels.megakernel.time", "source": "brrr.course.sources",
    "units": "brrr.core.units",
}  # fmt: skip
"""From a module's old name below brrr to where its names are now."""
RENAMED = {"brrr.lessons.strassen_comparison.compare_growth": "compare_errors"}


class Moved:
    """Finds the modules of `MOVED`, last in `sys.meta_path`, and loads them: each of their names from its new place."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of a module that moved: a package's, since others may have lain in it."""
        here = name.removeprefix("brrr.") in MOVED and name.startswith("brrr.")
        return ModuleSpec(name, self, is_package=True) if here else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty one will do."""

    def exec_module(self, module: ModuleType) -> None:
        """Each name is fetched, with a warning, when it is imported."""
        old, new = module.__name__, MOVED[module.__name__.removeprefix("brrr.")]

        def fetch(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            now = f"{new}.{RENAMED.get(f'{old}.{name}', name)}"
            warnings.warn(f"{old}.{name} is {now} now; the old name goes with the next release", DeprecationWarning, 2)
            return getattr(import_module(new), now.rpartition(".")[2])

        setattr(module, "__getattr__", fetch)  # noqa: B010 (mypy takes the plain assignment for a method's)


sys.meta_path.append(Moved())
