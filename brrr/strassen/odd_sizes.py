"""How odd sizes are met: rows and columns left over are split off, or rounded up; and operands copied to aligned rows.

>>> from brrr.strassen import IMPLEMENTATIONS
>>> core_of(Problem(IMPLEMENTATIONS["sgemm-strassen-2"], 4097, 4097, 4097))
(4096, 4096, 4097)
>>> core_of(Problem(IMPLEMENTATIONS["sgemm-strassen-3"], 5000, 5000, 5000))  # 4992 would save no tile
(5000, 5000, 5000)
>>> copied(Problem(IMPLEMENTATIONS["bf16"], 4097, 4096, 4096, "bfloat16"))
Copied(left=False, right=False, result=False)

With levels, sizes are rounded up to whole blocks. One column more than a multiple may cost a whole tile of each block;
then the core, the part below the multiple, goes through the levels, and the rest are thin products of a library:

    C[:m0, :n0] = A[:m0, :k0] B[:k0, :n0] (with levels) + A[:m0, k0:] B[k0:, :n0]
    C[:m0, n0:] = A[:m0] B[:, n0:],   C[m0:] = A[m0:] B

A classical product in a short type takes several times as long where rows do not start at multiples of 16 bytes: its
operands are copied to rows that do, with zeros behind them, if the copies cost less.

Both are decided here, from the sizes alone, for the predicted time, the workspace and the steps alike: by a rule with
an H200's rates, not by the time model, which would split off where that was measured to lose (docs/strassen_tried.md).
Importing this loads no torch.
"""

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from brrr.counting.cost import ITEMSIZE
from brrr.strassen.algebra.blocks import COLUMN_MULTIPLE
from brrr.strassen.implementations import Problem, Sizes

TILES = ((128, 1.0), (64, 0.75))
"""Edges of the tiles that a library cuts a block product's result into, and the share of the best rate that they
reach."""

NARROW, MULTIPROCESSORS = 32, 132
"""The other edge of a thin product's tiles, and how many tiles an H200 takes at a time."""

FLOP_PER_S = {"sgemm": 51e12, "fp64": 60e12, "tf32": 350e12, "fp16": 660e12, "bf16": 690e12, "fp16x3": 210e12}
"""Of inner products, measured on an H200 at 4096 (of fp16x3 without splitting), of fp64 the datasheet's."""

BYTES_PER_S, LAUNCH_S = 2.4e12, 4e-6
"""Assumed: half of an H200's memory, for rows that may start anywhere; the start of a short kernel behind another."""

LARGEST_REST = 1 / 8
"""No more than this share of a size is split off."""

GAIN = 0.98
"""Splitting off must save so much of the predicted time."""

SMALL = 64
"""Products with a size below this are left as they are: they are bound by memory, or by the launch."""

WORD, UNALIGNED = 16, {"bf16": 5.1, "fp16": 5.1, "tf32": 3.2}
"""Bytes at whose multiples rows start for a library's fastest kernels, and how many times as long a product takes if
they do not: on an H200 1026 us at 4097 against 201 us at 4096 (TF32: 3.0 times). SGEMM's 1.17 are its tiles."""


class Copied(NamedTuple):
    """Which matrices of a classical product are copied to aligned rows."""

    left: bool = False
    right: bool = False
    result: bool = False


NOTHING = Copied()


@lru_cache(maxsize=4096)
def core_of(problem: Problem) -> Sizes:
    """The sizes (m, n, k) of what goes through the levels; the rest are thin products. All of it where that pays."""
    if problem.whole or not problem.implementation.level or min(problem.sizes) < SMALL:
        return problem.sizes
    rows, columns, depths = _candidates(problem)
    cores = {core: _seconds(problem, core) for core in product(rows, columns, depths)}
    best = min(cores, key=cores.__getitem__)
    return best if cores[best] < GAIN * cores[problem.sizes] else problem.sizes


@lru_cache(maxsize=4096)
def copied(problem: Problem) -> Copied:
    """Which matrices of a classical product are copied to rows that start at 16 bytes; none where it does not pay."""
    how, (m, n, k) = problem.implementation, problem.sizes
    slower, size = UNALIGNED.get(how.inner), how.kind.itemsize
    if not problem.aligned or how.level or slower is None or min(m, n, k) < SMALL:
        return NOTHING
    deep, wide = (each * size % WORD != 0 for each in (k, n))
    if not deep and not wide:
        return NOTHING
    found = Copied(deep, True, wide)
    elements = found.left * m * k + found.right * n * k + found.result * m * n
    saved_s = (slower - 1) * 2.0 * m * n * k / FLOP_PER_S[how.inner]
    copies_s = sum(found) * LAUNCH_S + 2 * elements * ITEMSIZE[problem.operand] / BYTES_PER_S
    if how.dtype != problem.operand:  # they are copied in any case
        found, copies_s = Copied(True, True, True), LAUNCH_S
    return found if copies_s < saved_s else NOTHING


def thin_parts(core: Sizes, sizes: Sizes) -> list[Sizes]:
    """The thin products (m, n, k) beside a core: what k, n and m have left over, in this order.

    >>> thin_parts((4096, 4096, 4096), (4097, 4097, 4097))
    [(4096, 4096, 1), (4096, 1, 4097), (1, 4097, 4097)]
    """
    (rows, columns, deep), (m, n, k) = core, sizes
    parts = [(rows, columns, k - deep), (rows, n - columns, k), (m - rows, n, k)]
    return [each for each in parts if min(each) > 0]


def _candidates(problem: Problem) -> list[list[int]]:
    """For m, n and k: first the size itself, then the multiples below it of whole blocks, and of blocks of whole tiles,
    where they leave little.

    Of k nothing is split off short types: the rest is added to a result that was rounded before.
    """
    blocks, tile, short = 1 << problem.implementation.level, TILES[0][0], ITEMSIZE[problem.operand] < 4
    words, found = blocks * COLUMN_MULTIPLE, []
    cuts = (blocks, blocks * tile), (words, blocks * tile), () if short else (words,)
    for size, units in zip(problem.sizes, cuts, strict=True):
        below = sorted({size // unit * unit for unit in units})
        found.append([size, *(each for each in below if each < size and size - each <= LARGEST_REST * size)])
    return found


def _seconds(problem: Problem, core: Sizes) -> float:
    """A core's products in full tiles, and the thin products beside it."""
    m, n, k = core
    rows, deep, columns = replace(problem, m=m, n=n, k=k).block
    tiled = min(-(-rows // tile) * -(-columns // tile) * tile * tile / share for tile, share in TILES)
    thin_s = sum(_thin_s(each, each[2] < problem.k, problem.operand) for each in thin_parts(core, problem.sizes))
    return problem.implementation.products * 2.0 * tiled * deep / FLOP_PER_S[problem.implementation.inner] + thin_s


def _thin_s(part: Sizes, added: bool, operand: str) -> float:
    """By memory, or by the waves of its narrow tiles, each of which takes all of k."""
    (m, n, k), size = part, ITEMSIZE[operand]
    tiles = -(-max(m, n) // TILES[0][0]) * -(-min(m, n) // NARROW)
    waves = 0 if 1 in (m, n) else -(-tiles // MULTIPROCESSORS)
    arithmetic = waves * 2.0 * TILES[0][0] * NARROW * k * MULTIPROCESSORS / FLOP_PER_S["sgemm"]
    moved = size * (m * k + k * n + (1 + added) * m * n)  # what is added to is read too
    return LAUNCH_S + max(arithmetic, moved / BYTES_PER_S)
