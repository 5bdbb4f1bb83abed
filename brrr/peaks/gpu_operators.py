"""The sweep of operators: reductions, norms, softmax, casts, broadcasts and the rest, by number and length of lines."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from brrr.counting.cost import OperatorCost
from brrr.counting.mode import CostMode
from brrr.peaks import checks
from brrr.peaks.gpu_sweep import Prepare, Row, measure_sweep, pool, taken
from brrr.peaks.operator_forms import BY_LINES, FEW, MANY, SLOW, Run, dropped_is_right, operators, place_is_right
from brrr.peaks.parts import Findings
from brrr.peaks.sweep_shapes import matrices

COLUMNS = ("operator", "kind", "form", "dtype", "lines", "length", "read", "written")
SHARE_S = 9.0
QUICK_S = 0.3
MOST_BYTES = 5e8
MEMORY_SHARE = 16
"""A sixteenth of the free memory at most is one operand, since its check takes float64 copies."""
DTYPES = ("float32", "bfloat16")
DROPOUT = "dropout"
OWN_CHECKS = {DROPOUT: dropped_is_right, "where in rows": place_is_right}
LIMITS = {"float32": 2e-4, "bfloat16": 3e-2}
"""Relative errors (Frobenius) that a right result stays below: roundings of the result, and of sums of many values."""


def sweep_operators(found: Findings) -> None:
    """`sweeps["operators"]`: times of torch's own operators on contiguous matrices of random values, hot."""
    free, _ = torch.cuda.mem_get_info()
    most = min(MOST_BYTES, free / MEMORY_SHARE) / (100 if found.quick else 1)
    pools = {dtype: pool(int(2.1 * most) + 4096, getattr(torch, dtype)) for dtype in DTYPES}
    calls = list(_calls(pools, most))
    random.Random(0).shuffle(calls)  # where time runs out, some of each are there
    share_s = QUICK_S if found.quick else min(SHARE_S, 0.9 * found.left_s)
    with torch.no_grad():
        measure_sweep("operators", COLUMNS, calls, share_s, found, "torch's operators on a matrix")
    del pools, calls
    torch.cuda.empty_cache()


def _calls(pools: dict[str, torch.Tensor], most: float) -> Iterator[Prepare]:
    runs: dict[str, Run] = {**operators(), DROPOUT: lambda x, y: torch.nn.functional.dropout(x, 0.5)}
    for name, run in runs.items():
        count, limit = (MANY if name in BY_LINES else FEW), min(most, SLOW.get(name, most))
        for dtype, values in pools.items():
            for sizes in matrices(count, limit, values.element_size(), f"{name} {dtype}"):
                yield partial(_made, name, run, values, sizes)


def _made(name: str, run: Run, values: torch.Tensor, sizes: tuple[int, int]) -> tuple[Row, Callable[[], Any]] | None:
    x, y = taken(values, sizes), taken(values, sizes, end=True)
    with CostMode() as counting:
        result = run(x, y)
    each = _only(counting.operators)
    if each is None:
        return None
    what = f"{name} of {sizes[0]} x {sizes[1]} {each.dtype}"
    own_check = OWN_CHECKS.get(name)
    checks.require(own_check(result, x) if own_check else _near(result, run, x, y, each.dtype), what)
    return _row(each), lambda: run(x, y)


def _only(counted: list[OperatorCost]) -> OperatorCost | None:
    """The operator that runs on the device, if it is one: a choice has its comparison beside it, and tells nothing."""
    running = [each for each in counted if each.kind != "view"]
    return running[0] if len(running) == 1 else None


def _row(each: OperatorCost) -> Row:
    form = each.form
    return (each.name, each.kind, form.name, each.dtype, form.lines, form.length,
            int(each.read_bytes), int(each.written_bytes))  # fmt: skip


def _near(result: torch.Tensor, run: Run, x: torch.Tensor, y: torch.Tensor, dtype: str) -> bool:
    """Whether the result is that in float64."""
    expected = run(x.double(), y.double())
    if not result.is_floating_point():
        return bool((result == expected).all())
    difference, size = (result.double() - expected.double()).norm(), expected.double().norm()
    return bool(difference <= LIMITS[dtype] * size.clamp(min=1e-30))
