"""A way on given tensors, breadth first: its passes and its product, one function of no arguments each.

>>> a, b, out = torch.randn(20, 30), torch.randn(30, 10), torch.empty(20, 10)
>>> way = Way("sgemm", 1, "strassen")
>>> run = prepared(way, a, b, out)
>>> run()
>>> torch.allclose(out, a @ b, atol=1e-4), len(steps(way, a, Right.of(b), out, Arena(2**20, "cpu")))
(True, 4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from brrr.core.errors import ArgumentError
from brrr.gpu.cublas_lt import Keeping
from brrr.gpu.precision import float32_products
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.gemm.products import matrix_step, product_step
from brrr.strassen.operands import Arena, Right, check_operands, check_out, operand_name
from brrr.strassen.passes.launch import Run
from brrr.strassen.passes.steps import post_add_step, pre_add_step
from brrr.strassen.peeling import NOTHING, Copied, Sizes, copied, core_of, right_core, rows_of
from brrr.strassen.steps import right_terms, split_steps
from brrr.strassen.ways import Way
from brrr.strassen.workspace import Buffers, product_dtype, rounded, workspace_bytes

KINDS = ("cuda",)
"""Where a library's products gain by aligned rows; a CPU's do not."""

STARTS = 16
"""Bytes at whose multiples what is not copied must start."""

ALONG_K_LEVELS = 2
"""Up to so many levels TF32's prepared factors lie along k; the many small products of three are slower that way."""


def prepared(way: Way, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
    """A function that runs a way again and again on these tensors, its memory held; for timing and for CUDA Graphs.

    Where `way.prepared`, b's part is made here, once. ArgumentError for tensors that do not fit.
    """
    check_operands("prepared", a, b)
    check_out("prepared", out, a, b.shape[1], b)
    right = prepare_right(b, way, peeled=True) if way.prepared else Right.of(b)
    nbytes = workspace_bytes(way, a.shape[0], right.n, right.k, operand_name(a))
    made = steps(way, a, right, out, Arena(nbytes, a.device))
    return Keeping(partial(run_all, made), a, right, out)


def prepare_right(b: torch.Tensor | Right, way: Way, *, once: bool = True, peeled: bool = False) -> Right:
    """A right operand with its sums, or its terms, made beforehand: as a network's weights are.

    >>> prepare_right(torch.ones(30, 10), Way("sgemm", 1, "strassen")).nbytes
    3584

    once: it will be used more often than it is made, so that it may be turned if that makes products faster. peeled:
    the rows and columns that an odd size leaves over may stay out of the sums; a chain of layers takes no such ones.
    """
    right, way = b if isinstance(b, Right) else Right.of(b), replace(way, prepared=True)
    if peeled:
        core = right_core(way, right.n, right.k, operand_name(right.source))
        return replace(prepare_right(right.cut(*core), way, once=once), source=right.source, core=core)
    if way.nested:
        return replace(right, way=way, parts=prepared_parts(way, right, once=once))
    source = _best_lying(way, right, once)
    making, made = _right_steps(way, source, Arena(_right_bytes(way, source), source.source.device))
    run_all(making)
    return replace(right, way=way, factors=made, made_transposed=source.transposed)


def _best_lying(way: Way, right: Right, once: bool) -> Right:
    """The operand as its factors should lie; turned here, and not in memory that stays.

    Terms of split products lie along k, and so do TF32's up to two levels: on an H200 the library is 13 % faster on
    them at 16384. Its other products with levels take (k, n), which is the faster.
    """
    free = not (once or way.kind.split)
    along_k = way.kind.split or (way.inner == "tf32" and way.level <= ALONG_K_LEVELS)
    if not way.level or right.transposed == along_k or free:
        return right
    return Right(right.source.t().contiguous(), not right.transposed)


def steps(
    way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena, *, whole: bool = False
) -> list[Run]:  # fmt: skip
    """What a way does, in order; its buffers are taken from the arena. A right side made for it is not made again.

    whole: all of it goes through the levels, sizes rounded up; otherwise what odd sizes leave over may be peeled off.
    """
    if not out.numel():
        return []
    if not right.k:
        return [out.zero_]
    if right.made and (right.way is None or not _same(right.way, way)):
        raise ArgumentError("matmul", "b", f"prepared for {right.way}", f"prepared for {way.name}")
    sizes = (a.shape[0], right.n, right.k)
    core = sizes if whole else _core(way, sizes, right)
    if core != sizes:
        return peeled_steps(way, core, a, right, out, arena)
    if way.kind.split:
        return split_steps(way, a, right, out, arena)
    if way.nested:
        return nested_steps(way, a, right, out, arena)
    copies = Copied(True, True, True) if way.level else _copies(way, a, right, out, arena)
    return pass_steps(way, a, right, out, arena, copies) if copies.any else _classical(way, a, right, out, arena)


def _core(way: Way, sizes: Sizes, right: Right) -> Sizes:
    """What goes through the levels; of a right side that is made, what it was made of."""
    operand = operand_name(right.source)
    if not right.made:
        return core_of(way, *sizes, operand)
    m, n, k = sizes
    core = right.core or (n, k)
    return m if right.source.is_meta else rows_of(way, m, (n, k), core, operand), *core


def _copies(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> Copied:
    """Which matrices of a classical product are copied to aligned rows: none where it does not pay, or cannot be."""
    sizes, given = (a.shape[0], right.n, right.k, operand_name(a)), (a, right.source, out)
    copies = copied(way, *sizes)
    if a.device.type not in KINDS or not copies.any or workspace_bytes(way, *sizes) > arena.left_bytes:
        return NOTHING
    return copies if all(copy or _lies(x) for copy, x in zip(copies, given, strict=True)) else NOTHING


def _lies(x: torch.Tensor) -> bool:
    return x.is_contiguous() and x.data_ptr() % STARTS == 0


def run_all(made: list[Run]) -> None:
    """Each step, in order."""
    for step in made:
        step()


def _classical(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """The library's product; operands of another type are copied into its own, and its result back."""
    dtype = getattr(torch, way.dtype)
    making, factors = ([], right.factors) if right.factors else _right_steps(way, right, arena)
    b = factors[0] if factors else right.source
    if a.dtype == dtype:
        return [*making, matrix_step(way.kind, a, b, out, right_transposed=right.transposed)]
    left, product = arena.take(tuple(a.shape), dtype), arena.take(tuple(out.shape), dtype)
    multiply = matrix_step(way.kind, left, b, product, right_transposed=right.transposed)
    return [*making, partial(left.copy_, a), multiply, partial(out.copy_, product)]


def pass_steps(
    way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena, copies: Copied
) -> list[Run]:  # fmt: skip
    """A pass over memory for each side, all products, and a pass behind them; no pass for what `copies` leaves out.

    With levels the passes sum blocks. Without, they copy to rows that start at 16 bytes, filled up with zeros.
    """
    (m, n), made, factors = out.shape, list[Run](), right.factors if way.level else ()
    transposed = right.made_transposed if factors else right.transposed
    if not factors and copies.right:
        made, factors = _right_steps(way, right, arena, padded=True)
    left, products, below = a[None], out[None], factors[0] if factors else right.source[None]
    if copies.left:
        left = arena.take(buffer_shape(m, right.k, "left", way.level), getattr(torch, way.dtype))
        made.append(pre_add_step(a, "left", way, left))
    if copies.result:
        products = arena.take(products_shape(m, n, way.level), getattr(torch, product_dtype(way, operand_name(a))))
    made.append(product_step(way.kind, left, below, products, right_transposed=transposed))
    return [*made, post_add_step(products, way, out)] if copies.result else made


def _right_steps(
    way: Way, right: Right, arena: Arena, *, padded: bool = False
) -> tuple[list[Run], tuple[torch.Tensor, ...]]:
    """What makes the right side's factors, and where they will be; nothing where it is taken as it is."""
    dtype, source = getattr(torch, way.dtype), right.source
    if way.kind.split:
        return right_terms(way, right, arena)
    if way.level or padded:
        rows, columns = source.shape
        shape = buffer_shape(rows, columns, "right", way.level, right.transposed)
        factors = arena.take(shape, dtype)
        return [pre_add_step(source, "right", way, factors, transposed=right.transposed)], (factors,)
    if source.dtype == dtype:
        return [], ()
    copy = arena.take(tuple(source.shape), dtype)
    return [partial(copy.copy_, source)], (copy,)


def _right_bytes(way: Way, right: Right) -> int:
    """The arena that the right side's factors need."""
    whole = Buffers.of(way, 1, right.n, right.k, operand_name(right.source))
    return rounded(whole.right) - (whole.turned if right.transposed else 0)


def _same(one: Way, other: Way) -> bool:
    return (one.inner, one.level, one.form) == (other.inner, other.level, other.form)


# ---------------------------------------------------------------------------------------------------------------------
# More levels than one pass over memory takes: the outermost around seven products of half the size, one by one.


def nested_steps(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """The outermost level's sums, seven products of one level less, and the sums of those."""
    left = arena.take(buffer_shape(a.shape[0], right.k, "left", 1), a.dtype)
    made = [pre_add_step(a, "left", way.outermost, left)]
    if right.parts:
        parts = right.parts
    else:
        making, parts = _outermost(way, right, arena)
        made.append(making)
    products = arena.take(products_shape(out.shape[0], out.shape[1], 1), out.dtype)
    for factor, part, product in zip(left, parts, products, strict=True):
        with arena.mark():  # they run one after another
            made += steps(way.within, factor, part, product, arena, whole=True)
    return [*made, post_add_step(products, way.outermost, out)]


def prepared_parts(way: Way, right: Right, *, once: bool = True) -> tuple[Right, ...]:
    """The seven parts of a right operand, each with its sums of one level less; the parts themselves are not kept."""
    shape = _shape(right)
    size = shape[0] * shape[1] * shape[2] * right.source.element_size()
    making, parts = _outermost(way, right, Arena(rounded(size), right.source.device))
    making()
    return tuple(_without_source(prepare_right(part, way.within, once=once)) for part in parts)


def _outermost(way: Way, right: Right, arena: Arena) -> tuple[Run, tuple[Right, ...]]:
    """What makes the outermost level's seven factors of the right operand, and where they will be."""
    factors = arena.take(_shape(right), right.source.dtype)
    making = pre_add_step(right.source, "right", way.outermost, factors, transposed=right.transposed)
    return making, tuple(Right(each, right.transposed) for each in factors)


def _shape(right: Right) -> tuple[int, int, int]:
    rows, columns = right.source.shape
    return buffer_shape(rows, columns, "right", 1, right.transposed)


def _without_source(part: Right) -> Right:
    """The part's sums alone: of what they were made from, only the sizes."""
    return Right(part.source.to("meta"), part.transposed, part.way, part.factors, part.made_transposed, part.parts)


# ---------------------------------------------------------------------------------------------------------------------
# A product of odd sizes: its core through the levels, and what is left over by thin products of the library.


def peeled_steps(
    way: Way, core: Sizes, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena
) -> list[Run]:  # fmt: skip
    """The steps of a product of which only the core (m, n, k) goes through the levels.

    A right side that is made is one of this core's n and k; its source is needed for what is left over.
    """
    m, n, k = core
    inside = steps(way, a[:m, :k], right.cut(n, k), out[:m, :n], arena, whole=True)
    return [*inside, *thin_steps(core, a, right.matrix, out)]


def thin_steps(core: Sizes, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> list[Run]:
    """The products beside the core, into `out`: what k has left over is added to what the core wrote there."""
    m, n, k = core
    made: list[Run] = []
    if k < a.shape[1]:
        made.append(partial(_add, a[:m, k:], b[k:, :n], out[:m, :n]))
    if n < out.shape[1]:
        made.append(partial(_multiply, a[:m], b[:, n:], out[:m, n:]))
    if m < out.shape[0]:
        made.append(partial(_multiply, a[m:], b, out[m:]))
    return made


def _add(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """out += a b; the library's product is faster than torch's outer one for a single column and row, too."""
    with float32_products():
        out.addmm_(a, b)


def _multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """out = a b; one column or row is the product of a matrix and a vector, which is bound by memory alone."""
    with float32_products():
        if out.shape[1] == 1:
            torch.mv(a, b[:, 0], out=out[:, 0])
        elif out.shape[0] == 1:
            torch.mv(b.t(), a[0], out=out[0])
        else:
            torch.mm(a, b, out=out)
