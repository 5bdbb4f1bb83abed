"""A product of odd sizes: its core through the levels, and what is left over by thin products of the library.

>>> a, b, out = torch.randn(65, 67), torch.randn(67, 66), torch.empty(65, 66)
>>> way, arena = Way("sgemm", 1, "strassen"), Arena(2**20, "cpu")
>>> for step in peeled_steps(way, (64, 64, 64), a, Right.of(b), out, arena):
...     _ = step()
>>> torch.allclose(out, a @ b, atol=1e-4)
True

Which core, `fitting.core_of` says. The core is a view of the operands, whose rows may start anywhere: the passes over
memory take any strides. The thin products are made in the operands' own type, never in TF32.
"""

from __future__ import annotations

from functools import partial

import torch

from brrr.strassen.arena import Arena
from brrr.strassen.blocks import float32_on
from brrr.strassen.execution import steps
from brrr.strassen.fitting import Sizes
from brrr.strassen.operands import Right
from brrr.strassen.sums import Step
from brrr.strassen.ways import Way


def peeled_steps(
    way: Way, core: Sizes, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena
) -> list[Step]:  # fmt: skip
    """The steps of a product of which only the core (m, n, k) goes through the levels.

    A right side that is made is one of this core's n and k; its source is needed for what is left over.
    """
    m, n, k = core
    inside = steps(way, a[:m, :k], right.cut(n, k), out[:m, :n], arena, whole=True)
    return [*inside, *thin_steps(core, a, right.matrix, out)]


def thin_steps(core: Sizes, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> list[Step]:
    """The products beside the core, into `out`: what k has left over is added to what the core wrote there."""
    m, n, k = core
    made: list[Step] = []
    if k < a.shape[1]:
        made.append(partial(_add, a[:m, k:], b[k:, :n], out[:m, :n]))
    if n < out.shape[1]:
        made.append(partial(_multiply, a[:m], b[:, n:], out[:m, n:]))
    if m < out.shape[0]:
        made.append(partial(_multiply, a[m:], b, out[m:]))
    return made


def _add(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """out += a b; the library's product is faster than torch's outer one for a single column and row, too."""
    with float32_on(out, False):
        out.addmm_(a, b)


def _multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """out = a b; one column or row is the product of a matrix and a vector, which is bound by memory alone."""
    with float32_on(out, False):
        if out.shape[1] == 1:
            torch.mv(a, b[:, 0], out=out[:, 0])
        elif out.shape[0] == 1:
            torch.mv(b.t(), a[0], out=out[0])
        else:
            torch.mm(a, b, out=out)
