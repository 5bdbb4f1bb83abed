"""With few rows a layer's weights are most of what is moved: there levels and split products are left out.

>>> wish = Wish(accuracy=1e-5, inner=("sgemm", "ffma"))
>>> [planned([(4096, 4096)], rows, "float32", "h200", wish)[0].way.level > 0 for rows in (2, 4096)]
[False, True]

A level reads 7/4 of the weights' bytes, and the predictor's time of a library product of few rows may be twice the
measured one. A wish that leaves nothing else is met as it is. Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from brrr.errors import ArgumentError
from brrr.strassen.choosing import Plan
from brrr.strassen.planning import Wish, plans_of, plans_on
from brrr.strassen.requests import PLAIN
from brrr.strassen.ways import Way

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
    from brrr.roofline.choosing import basis_for

    return device == "cuda" or (device != "cpu" and basis_for(device).is_gpu)  # type: ignore[arg-type]
