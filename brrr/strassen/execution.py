"""A way on given tensors: its passes and its product, one function of no arguments each.

>>> a, b, out = torch.randn(20, 30), torch.randn(30, 10), torch.empty(20, 10)
>>> how = Implementation("sgemm", 1, "strassen")
>>> run = prepared(how, a, b, out)
>>> run()
>>> torch.allclose(out, a @ b, atol=1e-4), len(steps(how, a, Right.of(b), out, Arena(2**20, "cpu")))
(True, 4)
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from brrr.core.errors import ArgumentError
from brrr.gpu import CUDA
from brrr.gpu.cublas_lt import Keeping
from brrr.gpu.precision import float32_products
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.block_products import matrix_step, product_step
from brrr.strassen.cost import buffers_of, rounded, workspace_bytes
from brrr.strassen.implementations import Implementation, Problem, Sizes
from brrr.strassen.launcher import Run, run_all
from brrr.strassen.odd_sizes import NOTHING, Copied, copied, core_of
from brrr.strassen.operands import Arena, Right, check_operands, check_out, operand_name
from brrr.strassen.passes.launch import post_add_step, pre_add_step
from brrr.strassen.split.split_steps import right_terms, split_steps

KINDS = (CUDA,)
"""Where a library's products gain by aligned rows; a CPU's do not."""

STARTS = 16
"""Bytes at whose multiples what is not copied must start."""


def prepared(how: Implementation, a: Tensor, b: Tensor, out: Tensor) -> Callable[[], None]:
    """A function that runs a way again and again on these tensors, its memory held; for timing and for CUDA Graphs.

    Where `way.prepared`, b's part is made here, once. ArgumentError for tensors that do not fit.
    """
    check_operands("prepared", a, b)
    check_out("prepared", out, a, b.shape[1], b)
    right = prepare_right(b, how, rows=a.shape[0]) if how.prepared else Right.of(b)
    made = steps(how, a, right, out, Arena(workspace_bytes(_problem(how, a, right)), a.device))
    return Keeping(partial(run_all, made), a, right, out)


def prepare_right(b: Tensor | Right, how: Implementation, *, once: bool = True, rows: int | None = None) -> Right:
    """A right operand with its sums, or its terms, made beforehand: as a network's weights are.

    >>> prepare_right(torch.ones(30, 10), Implementation("sgemm", 1, "strassen")).factors[0].shape
    torch.Size([7, 16, 8])

    once: it will be used more often than it is made, so that it may be turned if that makes products faster. rows: of
    the left operand, where what an odd size leaves over may stay out of the sums; a chain of layers takes no such ones.
    """
    right, how = b if isinstance(b, Right) else Right.of(b), replace(how, prepared=True)
    if rows is not None:
        _, n, k = core_of(Problem(how, rows, right.n, right.k, operand_name(right.source)))
        return replace(prepare_right(right.cut(n, k), how, once=once), source=right.source, core=(n, k))
    source = _best_lying(how, right, once)
    needed = buffers_of(Problem(how, 1, right.n, right.k, operand_name(right.source)))
    nbytes = rounded(needed.right) - (needed.turned if source.transposed else 0)
    making, made = _right_steps(how, source, Arena(nbytes, source.source.device))
    run_all(making)
    return replace(right, implementation=how, factors=made, made_transposed=source.transposed)


def _best_lying(how: Implementation, right: Right, once: bool) -> Right:
    """The operand as its factors should lie; turned here, and not in memory that stays.

    Terms of split products lie along k; other products with levels take (k, n), which is the faster.
    """
    split = how.kind.split
    if not how.level or right.transposed == split or not (once or split):
        return right
    return Right(right.source.t().contiguous(), not right.transposed)


def steps(how: Implementation, a: Tensor, right: Right, out: Tensor, arena: Arena, *, whole: bool = False) -> list[Run]:
    """What a way does, in order; its buffers are taken from the arena. A right side made for it is not made again.

    whole: all of it goes through the levels, sizes rounded up; otherwise what odd sizes leave over may be split off.
    """
    if not out.numel():
        return []
    if not right.k:
        return [out.zero_]
    problem = replace(_problem(how, a, right), whole=whole)
    core, made_for = core_of(problem), right.implementation
    if right.factors and (made_for, right.core or (right.n, right.k)) != (replace(how, prepared=True), core[1:]):
        raise ArgumentError("matmul", "b", f"prepared for {made_for}", f"prepared for {how.name}")
    if core != problem.sizes:
        return cut_steps(how, core, a, right, out, arena)
    if how.kind.split:
        return split_steps(how, a, right, out, arena)
    copies = Copied(True, True, True) if how.level else _copies(problem, a, right, out, arena)
    return pass_steps(problem, a, right, out, arena, copies) if any(copies) else _classical(how, a, right, out, arena)


def _problem(how: Implementation, a: Tensor, right: Right) -> Problem:
    return Problem(how, a.shape[0], right.n, right.k, operand_name(a))


def _copies(problem: Problem, a: Tensor, right: Right, out: Tensor, arena: Arena) -> Copied:
    """Which matrices of a classical product are copied to aligned rows: none where it does not pay, or cannot be."""
    copies, given = copied(problem), (a, right.source, out)
    if a.device.type not in KINDS or not any(copies) or workspace_bytes(problem) > arena.left_bytes:
        return NOTHING
    lie = [x.is_contiguous() and x.data_ptr() % STARTS == 0 for x in given]
    return copies if all(copy or lies for copy, lies in zip(copies, lie, strict=True)) else NOTHING


def _classical(how: Implementation, a: Tensor, right: Right, out: Tensor, arena: Arena) -> list[Run]:
    """The library's product; operands of another type are copied into its own, and its result back."""
    dtype = getattr(torch, how.dtype)
    if a.dtype == dtype:
        return [matrix_step(how.kind, a, right.source, out, right_transposed=right.transposed)]
    making, (b,) = _right_steps(how, right, arena)
    left, product = arena.take(tuple(a.shape), dtype), arena.take(tuple(out.shape), dtype)
    multiply = matrix_step(how.kind, left, b, product, right_transposed=right.transposed)
    return [*making, partial(left.copy_, a), multiply, partial(out.copy_, product)]


def pass_steps(problem: Problem, a: Tensor, right: Right, out: Tensor, arena: Arena, copies: Copied) -> list[Run]:
    """A pass over memory for each side, all products, and a pass behind them; no pass for what `copies` leaves out.

    With levels the passes sum blocks. Without, they copy to rows that start at 16 bytes, filled up with zeros.
    """
    how, (m, n), made = problem.implementation, out.shape, list[Run]()
    factors = right.factors if how.level else ()
    transposed = right.made_transposed if factors else right.transposed
    if not factors and copies.right:
        made, factors = _right_steps(how, right, arena, padded=True)
    left, products, below = a[None], out[None], factors[0] if factors else right.source[None]
    if copies.left:
        left = arena.take(buffer_shape(m, right.k, "left", how.level), getattr(torch, how.dtype))
        made.append(pre_add_step(a, "left", how, left))
    if copies.result:
        products = arena.take(products_shape(m, n, how.level), getattr(torch, problem.product_dtype))
    made.append(product_step(how.kind, left, below, products, right_transposed=transposed))
    return [*made, post_add_step(products, how, out)] if copies.result else made


def _right_steps(
    how: Implementation, right: Right, arena: Arena, *, padded: bool = False
) -> tuple[list[Run], tuple[Tensor, ...]]:
    """What makes the right side's factors, and where they will be; nothing where it is taken as it is."""
    dtype, source = getattr(torch, how.dtype), right.source
    if how.kind.split:
        return right_terms(how, right, arena)
    if how.level or padded:
        rows, columns = source.shape
        factors = arena.take(buffer_shape(rows, columns, "right", how.level), dtype)
        side = "transposed" if right.transposed else "right"
        return [pre_add_step(source, side, how, factors)], (factors,)
    if source.dtype == dtype:
        return [], ()
    copy = arena.take(tuple(source.shape), dtype)
    return [partial(copy.copy_, source)], (copy,)


# ---------------------------------------------------------------------------------------------------------------------
# A product of odd sizes: its core through the levels, and what is left over by thin products of the library.


def cut_steps(how: Implementation, core: Sizes, a: Tensor, right: Right, out: Tensor, arena: Arena) -> list[Run]:
    """The steps of a product of which only the core (m, n, k) goes through the levels.

    A right side that is made is one of this core's n and k; its source is needed for what is left over, of which that
    of k is added to what the core wrote.
    """
    m, n, k = core
    b, made = right.matrix, steps(how, a[:m, :k], right.cut(n, k), out[:m, :n], arena, whole=True)
    if k < a.shape[1]:  # the library's product is faster than torch's outer one for a single column and row, too
        made.append(float32_products()(partial(out[:m, :n].addmm_, a[:m, k:], b[k:, :n])))
    if n < out.shape[1]:
        made.append(partial(_multiply, a[:m], b[:, n:], out[:m, n:]))
    if m < out.shape[0]:
        made.append(partial(_multiply, a[m:], b, out[m:]))
    return made


@float32_products()
def _multiply(a: Tensor, b: Tensor, out: Tensor) -> None:
    """out = a b; one column or row is the product of a matrix and a vector, which is bound by memory alone."""
    if out.shape[1] == 1:
        torch.mv(a, b[:, 0], out=out[:, 0])
    elif out.shape[0] == 1:
        torch.mv(b.t(), a[0], out=out[0])
    else:
        torch.mm(a, b, out=out)
