"""What a lesson calls: guesses, comparisons, exercises, drawings, and the student's copies."""

from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar


class Named(Protocol):
    """What is found by its name."""

    @property
    def name(self) -> str:
        """As a lesson writes it."""


Kind = TypeVar("Kind", bound=Named)


def registered(kind: type[Kind], folder: str, modules: str = "[a-z]*") -> dict[str, Kind]:
    """All of a kind that the modules of a folder hold at their top level, by name: what lies there is registered.

    >>> registered(Exercise, "exercises", "lesson_00")    # doctest: +SKIP
    {'00-launches': Exercise(name='00-launches', ...)}
    """
    stems = sorted(path.stem for path in (Path(__file__).parent / folder).glob(f"{modules}.py"))
    held = [vars(import_module(f"{__name__}.{folder}.{stem}")).values() for stem in stems]
    return {each.name: each for values in held for each in values if isinstance(each, kind)}
