"""Operators that torch has in one piece on a GPU, and in several on a CPU, put together again.

A callable that is counted on a machine without a GPU shows the CPU's operators. Of most functions they are the same;
an RMS norm and a dropout are one operator on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from brrr.counting.cost import Form, OperatorCost

RMS = ("pow", "mean", "add", "rsqrt", "mul")
CAST = "_to_copy"
"""On a CPU an RMS norm of a short type begins with a cast to float32 and ends with one back."""
DROPOUT = ("empty_like", "bernoulli", "div", "mul")


def as_on_gpu(operators: Sequence[OperatorCost]) -> list[OperatorCost]:
    """The operators with those sequences in one piece; everything else is left as it is."""
    found: list[OperatorCost] = []
    place = 0
    while place < len(operators):
        taken, merged = _rms(operators[place:]) or _dropout(operators[place:]) or (1, operators[place])
        found.append(merged)
        place += taken
    return found


def _names(operators: Sequence[OperatorCost], count: int) -> tuple[str, ...]:
    return tuple(each.name.removeprefix("aten.").rstrip("_") for each in operators[:count])


def _rms(operators: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """x * rsqrt(mean(x^2) + eps), and times a weight where there is one; of a short type between two casts."""
    found = _plain_rms(operators)
    if found is not None or _names(operators, 1) != (CAST,):
        return found
    widened, inner = operators[0], _plain_rms(operators[1:])
    if inner is None or operators[1].shapes != widened.shapes:
        return None
    count, norm = inner
    if _names(operators[1 + count :], 1) != (CAST,) or operators[1 + count].form.name != f"to-{widened.dtype}":
        return None
    weight = norm.read_bytes - operators[1].read_bytes
    narrowed = operators[1 + count].written_bytes
    merged = replace(norm, read_bytes=widened.read_bytes + weight, written_bytes=narrowed, dtype=widened.dtype)
    return count + 2, merged


def _plain_rms(operators: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """The same in one data type."""
    if _names(operators, len(RMS)) != RMS or operators[1].form.name != "rows":
        return None
    square, mean, scaled = operators[0], operators[1], operators[4]
    weighted = len(operators) > len(RMS) and _weights(operators[5], mean.form.length)
    weight = operators[5].read_bytes - scaled.written_bytes if weighted else 0.0
    count = len(RMS) + weighted
    return count, OperatorCost(
        "aten._fused_rms_norm", _flop(operators[:count]), square.read_bytes + weight, scaled.written_bytes,
        square.dtype, square.shapes, "norm", (), mean.form,
    )  # fmt: skip


def _weights(each: OperatorCost, length: int) -> bool:
    """Whether it multiplies by a weight for each element of a row."""
    return each.name in ("aten.mul", "aten.mul_") and (length,) in each.shapes


def _dropout(operators: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """A random mask, scaled, times x; the GPU's operator writes the mask in bytes, for the backward."""
    if _names(operators, len(DROPOUT)) != DROPOUT or operators[1].kind != "random":
        return None
    scaled = operators[3]
    elements = scaled.form.length
    itemsize = scaled.written_bytes / max(1, elements)
    return len(DROPOUT), OperatorCost(
        "aten.native_dropout", 2.0 * elements, elements * itemsize, elements * (itemsize + 1),
        scaled.dtype, scaled.shapes[:1], "random", (), Form("", 1, elements),
    )  # fmt: skip


def _flop(operators: Sequence[OperatorCost]) -> float | None:
    return None if any(each.flop is None for each in operators) else sum(each.flop or 0.0 for each in operators)
