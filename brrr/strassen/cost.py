"""What a product costs in a way, before it runs: memory, passes, launches, and seconds by one function for all ways.

>>> from brrr.strassen import IMPLEMENTATIONS
>>> from brrr.roofline.device_model import model_of
>>> both = [Problem(IMPLEMENTATIONS[name], 8192, 8192, 8192) for name in ("sgemm-strassen-1", "sgemm")]
>>> with_a_level, plain = (seconds(problem, model_of("h200")) for problem in both)
>>> with_a_level < plain, round(workspace_bytes(both[0]) / 8192**2 / 4, 2)
(True, 5.25)

All 7^L products are made at once: with blocks of m', k', n' and s bytes an element, they take

    7^L (m' k' s + k' n' s + m' n' s)

and with split products a copy of the right operand, which is turned if it does not lie along k. That is for sizes
rounded up to whole blocks; where what is left over is split off (`odd_sizes.py`), it is somewhat less. A classical
product needs memory where operands are copied into another type, or to rows that start at 16 bytes. Passes and products
take what the roofline's model of the device says, each by its rate against that. Importing this loads no torch.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from brrr.core.heavy import torch
from brrr.core.measurement import median
from brrr.counting.cost import ITEMSIZE, Matmul
from brrr.gpu import CUDA
from brrr.roofline.corrections import kernel_time
from brrr.roofline.device_model import LAUNCH_S, DeviceModel
from brrr.roofline.gemm_families import operator_of
from brrr.roofline.lowering import in_tf32
from brrr.roofline.terms import stream_s
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.algebra.blocks import aligned_size
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.implementations import INNERS, Inner, Problem, Sizes
from brrr.strassen.odd_sizes import copied, core_of, thin_parts
from brrr.timing.host_times import HostTimes

ALIGNED = 256
"""Each buffer starts at a multiple of this many bytes, as those of the CUDA allocator do."""

EXPONENT = 4
"""Bytes of the exponent that a split product keeps for each row of a block of factors."""


def rounded(nbytes: int) -> int:
    """What a buffer of so many bytes takes.

    >>> rounded(1), rounded(512)
    (256, 512)
    """
    return -(-nbytes // ALIGNED) * ALIGNED


class Buffers(NamedTuple):
    """Bytes of a way's left and right factors and of its products; 0 for what it does not need.

    `turned` is what the right side has for a copy of an operand that does not lie along k.
    """

    left: int = 0
    right: int = 0
    products: int = 0
    turned: int = 0

    @property
    def total(self) -> int:
        """Left, right and products."""
        return sum(map(rounded, self[:3]))


def buffers_of(problem: Problem) -> Buffers:
    """Of one product, all of it through the levels.

    >>> from brrr.strassen import IMPLEMENTATIONS
    >>> [buffers_of(Problem(IMPLEMENTATIONS[name], 64, 64, 64)).left for name in ("sgemm", "bf16")]
    [0, 8192]

    A classical product of operands that are in its own type already needs none; of other operands it makes copies.
    """
    how, (m, n, k) = problem.implementation, problem.sizes
    inner, made, copies = how.kind, ITEMSIZE[problem.product_dtype], copied(problem)
    if any(copies):
        deep, columns, size = aligned_size(k), aligned_size(n), inner.itemsize
        return Buffers(copies.left * m * deep * size, deep * columns * size, copies.result * m * columns * made)
    same = problem.product_dtype == problem.operand
    if not how.level and not inner.split and inner.dtype == problem.operand:
        return Buffers()
    (rows, deep, columns), count = problem.block, how.products
    products = 0 if same and not how.level else count * rows * columns * made
    if not inner.split:
        return Buffers(count * rows * deep * inner.itemsize, count * deep * columns * inner.itemsize, products)
    wide = deep if how.level else aligned_size(deep)  # rows of terms start at multiples of 16 bytes
    left, right = (rounded(count * each * wide * inner.itemsize) + rounded(EXPONENT * each) for each in (rows, columns))
    turned = rounded(ITEMSIZE[problem.operand] * n * k) if how.level else 0  # the right operand, along k
    return Buffers(left, right + turned, products, turned)


def workspace_bytes(problem: Problem) -> int:
    """What a way takes; a prepared right side is not in it."""
    needed = buffers_of(problem)
    return needed._replace(right=0).total if problem.implementation.prepared else needed.total


class Pass(NamedTuple):
    """One pass over memory: bytes read and written, and which of `PASSES` it is."""

    read: int = 0
    written: int = 0
    kind: str = "sums"


def passes(problem: Problem, gpu: bool = True) -> list[Pass]:
    """The passes of one product in whole blocks: on the left, on the right where it is not prepared, and behind.

    >>> from brrr.strassen import IMPLEMENTATIONS
    >>> passes(Problem(IMPLEMENTATIONS["sgemm-strassen-1"], 1024, 1024, 1024))[0]
    Pass(read=4194304, written=7340032, kind='sums')

    Off a GPU torch makes the sums, level by level: a pass over two blocks for each that is added.
    """
    how, (m, n, k), needed = problem.implementation, problem.sizes, buffers_of(problem)
    split, size = how.kind.split, ITEMSIZE[problem.operand]
    plain = how.level or not gpu or any(copied(problem))
    kinds = ("sums",) * 3 if plain else ("sums", "turned", "sums") if split else ("casts",) * 3
    more = int(split and how.level > 0)  # once for the exponents; the right side is turned first
    read = (1 + more) * size * m * k, (1 + 2 * more) * size * k * n, needed.products
    written = needed.left, 0 if how.prepared else needed.right, size * m * n
    found = [Pass(*each) if each[0] and each[1] else Pass() for each in zip(read, written, kinds, strict=True)]
    if not how.level or gpu:
        return found
    form, level = FORMS[str(how.form)], how.level
    before, behind = (int((side != 0).sum()) for side in (np.vstack((form.left, form.right)), form.result))
    parts = sum(7**outer * 4 ** (level - 1 - outer) for outer in range(level))  # of a block product's size
    each = [parts * (made.written // count) for made, count in zip(found, (7**level, 7**level, 4**level), strict=True)]
    blocks = (before // 2, 7), (before // 2, 7), (behind, 4)  # that are added up; the first of a sum is copied
    return [Pass((2 * n - first) * size, n * size) for size, (n, first) in zip(each, blocks, strict=True)]


# ---------------------------------------------------------------------------------------------------------------------
# Seconds: the passes, the products between them, and the thin products beside a core.

PASSES = {"sums": 0.79, "casts": 0.62, "turned": 0.45}
"""Rates of passes against the roofline's copy of as many bytes, measured on an H200: the median of 157 rows at 1.9 GHz
and more (0.6 to 1); rounding to a short type and back by torch's copies (0.4 to 0.9); splitting a right operand that
lies as (k, n) (1.3 to 2.6 TB/s)."""

Curve = tuple[tuple[float, float], ...]
BY_SIZE_ON = "NVIDIA H200"
"""The device whose measured rates the curves correct; no other's, and no datasheet's."""

PRODUCTS: dict[str, tuple[float, Curve]] = {
    "sgemm": (1.0, ((512, 0.89), (1024, 0.9), (1537, 1.0), (4096, 1.006), (8192, 1.094), (16384, 1.1))),
    "sgemm batched": (1.0, ((512, 0.85), (1400, 1.05), (1960, 1.015), (3750, 1.07), (7500, 1.08), (14336, 1.06))),
    "bf16": (1.0, ((8192, 1.0), (16384, 1.11))),
    "bf16 batched": (1.0, ((1960, 0.75), (3750, 1.0), (7836, 1.036), (16384, 1.11))),
    "fp16x3": (0.88, ((512, 0.75), (2048, 1.02), (4096, 0.98), (8192, 1.0), (16384, 1.08))),
    "fp16x3 batched": (0.88, ((1000, 0.75), (2048, 0.97), (4096, 0.98), (8192, 0.945), (16384, 1.07))),
}
"""Rates of inner products against the roofline's for the library product of the same kind, and what they are multiplied
with at some sizes, measured on an H200 (torch 2.11, CUDA 13.0): by the cube of as much work, all products of a batch
together. Between two sizes by their logarithm, beyond them as at the end; all others go as it has them."""

LIBRARY = {True: {"fp16x3": "fp16"}, False: {"fp16x3": "sgemm", "fp16": "sgemm"}}
"""The library product that an inner product goes by on a GPU, and on a CPU, which has no units for short types."""


def seconds(problem: Problem, model: DeviceModel) -> float:
    """All of a product, one launch after the other, as a CUDA Graph runs it; MissingPeakError for a missing type."""
    m, n, k = (max(1, size) for size in problem.sizes)  # an empty product takes no less
    problem = replace(problem, m=m, n=n, k=k, aligned=problem.aligned and model.is_gpu)
    core, how = core_of(problem), problem.implementation
    inside = replace(problem, m=core[0], n=core[1], k=core[2])
    touched = float(buffers_of(inside).total)
    left_s, right_s, behind_s = (_pass_s(each, touched, model) for each in passes(inside, model.is_gpu))
    if any(copied(inside)):
        inside = replace(inside, n=aligned_size(core[1]), k=aligned_size(core[2]), aligned=False)
    rows, deep, columns = inside.block
    products_s = _product_s(how.kind, (how.products, rows, columns, deep), model)
    return left_s + right_s + products_s + behind_s + _thin_s(core, problem, model)


def _pass_s(made: Pass, touched: float, model: DeviceModel) -> float:
    return stream_s(model, made.read, made.written, touched) / PASSES[made.kind] if made.read else 0.0


def _thin_s(core: Sizes, problem: Problem, model: DeviceModel) -> float:
    """The thin products beside a core, by the library; what is added to is read too."""
    taken, operand = 0.0, problem.operand
    for m, n, k in thin_parts(core, problem.sizes):
        again = ITEMSIZE[operand] * m * n if k < problem.k else 0
        taken += _product_s(INNERS[PLAIN[operand]], (1, m, n, k), model) + _pass_s(Pass(again), float(again), model)
    return taken


def _product_s(inner: Inner, sizes: tuple[int, int, int, int], model: DeviceModel) -> float:
    """The library product of its kind, as many times, by the rate of the inner product against it."""
    count, m, n, k = sizes
    if inner.split and model.is_gpu:  # its terms are filled up: no size is an odd one
        m, n, k = map(aligned_size, (m, n, k))
    library = LIBRARY[model.is_gpu].get(inner.name, inner.name)
    each = operator_of(Matmul(m, n, k, count, INNERS[library].dtype, (False, True)))
    made = kernel_time(in_tf32(each) if library == "tf32" else each, model)
    assert made.device_s is not None  # no view
    rate, curve = PRODUCTS.get(f"{inner.name} batched" if count > 1 else inner.name, (1.0, ()))
    if curve and model.peaks is not None and model.device == BY_SIZE_ON:
        places, factors = zip(*curve, strict=True)
        size = max((float(count) * m * n * k) ** (1 / 3), 1.0)
        rate *= float(np.interp(math.log(size), np.log(places), factors))
    return inner.products * made.device_s / rate


# ---------------------------------------------------------------------------------------------------------------------
# What the host takes to issue a way's launches, where no CUDA Graph does it.

CALL_S, TORCH_S, OURS_S = 4e-6, 12e-6, 30e-6
"""Measured beside an H200: a call with no launch; torch's own product, 10 to 14 us; and what `matmul` takes beside its
launches where the product is none of torch's, 47 us in all for a split one."""

TRIAL_S = 0.004


def launches(problem: Problem) -> int:
    """Launches of a way for one product, those of thin products and of copies with it.

    >>> from brrr.strassen import IMPLEMENTATIONS
    >>> [launches(Problem(IMPLEMENTATIONS[name], 4096, 4096, 4096)) for name in ("sgemm", "sgemm-strassen-1")]
    [1, 4]
    """
    how, split = problem.implementation, problem.implementation.kind.split
    if how.level:
        made = (7 if split else 4) - (3 if split else 1) * how.prepared
        return made + len(thin_parts(core_of(problem), problem.sizes))
    return 2 if split else 4 if how.dtype != problem.operand else 1 + sum(copied(problem))


def issuing_s(problem: Problem) -> float:
    """Seconds of the host for all launches; `matmul` also makes those of what is not torch's own product."""
    ours = problem.implementation.name != PLAIN[problem.operand] and not problem.whole  # a chain keeps its own
    return CALL_S + LAUNCH_S["strassen"] * launches(problem) + OURS_S * ours


def host_slowness() -> float:
    """How many times as long this host takes to issue a product as the one that the constants were measured on.

    1 where there is no GPU to issue it to, and while a CUDA Graph is captured, of which the host issues nothing later.
    """
    capturing = not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing()
    return 1.0 if capturing else _slowness()


@lru_cache(maxsize=1)
def _slowness() -> float:
    x = torch.ones(8, 8, device=CUDA)
    times = HostTimes(lambda: torch.mm(x, x), torch.cuda.synchronize)
    times.one()  # it loads the library
    times.round(TRIAL_S)
    return median(times.host) / TORCH_S
