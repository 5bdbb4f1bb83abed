"""Which way each layer of a network is made in.

>>> wish = Wish(level=1, form="strassen", inner="sgemm")
>>> [plan.way.name for plan in plans_of([(64, 32), (16, 64)], 8, "float32", "cpu", wish)]
['sgemm-strassen-1-prepared', 'sgemm-strassen-1-prepared']

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brrr.strassen.choosing import Plan, plan, plan_of
from brrr.strassen.inners import INNERS
from brrr.strassen.requests import Inners, checked


@dataclass(frozen=True)
class Wish:
    """What is asked of each product, as `matmul` takes it; ArgumentError for what no product can be asked."""

    accuracy: float | str | None = None
    level: int | None = None
    form: str | None = None
    inner: Inners = None

    def __post_init__(self) -> None:
        if isinstance(self.inner, list):
            object.__setattr__(self, "inner", tuple(self.inner))
        names = (self.inner,) if isinstance(self.inner, str) else self.inner or ()
        operand = next((INNERS[name].operands[-1] for name in names if name in INNERS), "float32")
        checked(1, 1, 1, operand, **self.options, workspace_bytes=None)

    @property
    def options(self) -> dict[str, Any]:
        """As keywords."""
        return {"accuracy": self.accuracy, "level": self.level, "form": self.form, "inner": self.inner}


def plans_of(
    shapes: Iterable[tuple[int, int]], rows: int, dtype: str, kind: str, wish: Wish, *, prepared: bool = True,
    eager: bool = False,
) -> list[Plan]:  # fmt: skip
    """The plan of each layer, by its weight's shape (n, k), for so many rows on "cuda" or "cpu".

    eager: the host issues each launch, rather than a CUDA Graph.
    """
    more: dict[str, Any] = {"workspace_bytes": None, "prepared": prepared, "eager": eager, "whole": True}
    made = (checked(rows, n, k, dtype, **wish.options, **more) for n, k in shapes)
    return [plan_of(each, kind) for each in made]


def plans_on(shapes: Iterable[tuple[int, int]], rows: int, dtype: str, device: object, wish: Wish) -> list[Plan]:
    """The same on a device as `brrr.predict` takes it."""
    options: dict[str, Any] = {"prepared": True, "whole": True, **wish.options}
    return [plan(rows, n, k, dtype=dtype, device=device, **options) for n, k in shapes]
