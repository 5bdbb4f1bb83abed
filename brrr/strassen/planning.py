"""Which way each layer of a network is made in.

>>> wish = Wish(level=1, form="strassen", inner="sgemm")
>>> [plan.way.name for plan in plans_of([(64, 32), (16, 64)], 8, "float32", "cpu", wish)]
['sgemm-strassen-1-prepared', 'sgemm-strassen-1-prepared']

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from brrr.core.errors import ArgumentError
from brrr.strassen.choosing import Plan, plan, plan_of
from brrr.strassen.requests import PLAIN, Inners, checked
from brrr.strassen.ways import INNERS, Way


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


# ---------------------------------------------------------------------------------------------------------------------
# With few rows a layer's weights are most of what is moved: there levels and split products are left out.

LEVELS_FROM, SPLITS_FROM = 65, 128
"""Rows from which a level, and a product split into terms, are considered. On an H200 no level gained with 32 rows or
fewer, up to 64 the weights' bytes allow none to; split products lost to the library's fastest product with 64 rows or
fewer (weights of 4096 x 4096), and gained with 128."""

WHY = "With so few rows the weights are most of the bytes, of which other ways read more."

Again = Callable[[Wish], Plan]


def planned(
    shapes: Iterable[tuple[int, int]], rows: int, dtype: str, device: object, wish: Wish, *, prepared: bool = True,
    eager: bool = False,
) -> list[Plan]:  # fmt: skip
    """The plan of each layer, by its weight's shape (n, k).

    device: "cuda" or "cpu" for tensors that are there, or as `brrr.predict` takes it (then `prepared`, in a graph).
    """

    def plan_one(shape: tuple[int, int], wanted: Wish) -> Plan:
        if isinstance(device, str) and device in ("cuda", "cpu"):
            return plans_of([shape], rows, dtype, str(device), wanted, prepared=prepared, eager=eager)[0]
        return plans_on([shape], rows, dtype, device, wanted)[0]

    on_gpu = _on_gpu(device)
    made = []
    for shape in shapes:
        plan = plan_one(shape, wish)
        fit = not on_gpu or wish.level or fits(plan.way, rows)
        made.append(plan if fit else _simpler(plan, wish, dtype, lambda wanted, shape=shape: plan_one(shape, wanted)))  # type: ignore[misc]
    return made


def fits(way: Way, rows: int) -> bool:
    """Whether a way is one for so many rows.

    >>> fits(Way("fp16x3"), 128), fits(Way("fp16x3", 1, "strassen"), 32), fits(Way("sgemm"), 1)
    (True, False, True)
    """
    return rows >= (LEVELS_FROM if way.level else SPLITS_FROM if way.kind.split else 0)


def _simpler(plan: Plan, wish: Wish, dtype: str, again: Again) -> Plan:
    """The best without levels, else the type's own product, where the wish allows it; the plan itself where not."""
    names = (wish.inner,) if isinstance(wish.inner, str) else wish.inner or ()
    inners = [wish.inner, PLAIN[dtype]] if not names or PLAIN[dtype] in names else [wish.inner]
    for inner in inners:
        with suppress(ArgumentError):  # not exact enough
            found = again(Wish(wish.accuracy, 0, None, inner))
            if fits(found.way, plan.m):
                return replace(found, why=WHY, estimates=plan.estimates)
    return plan


def _on_gpu(device: object) -> bool:
    from brrr.roofline.device_model import model_of

    return device == "cuda" or (device != "cpu" and model_of(device).is_gpu)  # type: ignore[arg-type]
