"""Special functions by what they compute: a cosine is one FLOP by convention, and some thirty operations in fact.

The table is assumed. Sines: what each one more takes in a fused kernel of 8 to 32 of them on an H200, at the rate of
plain float32 operations. gelu: its time on bfloat16, where it takes longer than its bytes. The others never were the
limit of a kernel measured alone, so they are estimates below what their bytes hide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from brrr.counting.cost import OperatorCost
from brrr.counting.description import ITEMSIZE

OPERATIONS: Mapping[str, int] = {
    "sin": 31, "cos": 31, "tan": 40, "gelu": 35, "erf": 30, "tanh": 20, "sigmoid": 20, "silu": 21,
    "exp": 8, "exp2": 6, "expm1": 20, "log": 15, "log1p": 20, "log2": 15, "rsqrt": 6, "sqrt": 8,
}  # fmt: skip
"""Plain float32 operations for each element."""


def is_special(each: OperatorCost) -> bool:
    """Whether the table knows the operator."""
    return _name(each.name) in OPERATIONS


def operations(each: OperatorCost) -> OperatorCost:
    """The operator with the operations that it does in place of its conventional FLOP; any other one as it is.

    >>> cos = OperatorCost("aten.cos", 1e6, 4e6, 4e6, "float32", ((1000, 1000),))
    >>> operations(cos).flop
    31000000.0
    >>> twice = OperatorCost("fused(aten.cos, aten.cos)", 2e6, 4e6, 4e6, "float32", ((1000, 1000),), "fused")
    >>> operations(twice).flop
    62000000.0
    """
    if each.name.startswith("fused("):
        return replace(each, flop=max(each.flop or 0.0, _of_parts(each)))
    if not is_special(each):
        return each
    return replace(each, flop=OPERATIONS[_name(each.name)] * each.written_bytes / ITEMSIZE.get(each.dtype, 4))


def _of_parts(each: OperatorCost) -> float:
    """The operations of a fused kernel's special functions, once for each element that it both reads and writes.

    The larger of this and the kernel's own FLOP counts, since those may hold the special functions already.
    """
    parts = each.name.removeprefix("fused(").removesuffix(")").split(", ")
    elements = min(each.read_bytes, each.written_bytes) / ITEMSIZE.get(each.dtype, 4)
    return elements * sum(OPERATIONS.get(_name(part), 0) for part in parts)


def _name(name: str) -> str:
    return name.removeprefix("aten.").rstrip("_")
