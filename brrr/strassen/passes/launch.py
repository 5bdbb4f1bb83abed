"""Passes over memory as functions of no arguments: by `strassen_sums.cu` on a GPU, as it is cut and chosen here.

>>> x, out = torch.empty(64, 64), torch.empty(343, 8, 8)
>>> work = factors_work(x, "left", "strassen", out, level=3)
>>> tuning_of(work).vector, "#define LEVEL 3" in text_of(work, tuning_of(work))
(2, True)
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from brrr.core.errors import ArgumentError
from brrr.gpu.launching import typed
from brrr.gpu.nvrtc import function
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.implementations import Implementation
from brrr.strassen.launcher import Run, launched, run_all
from brrr.strassen.passes.sums import Work, assembled_work, factors_work, run_in_torch

SOURCE = "strassen/passes/strassen_sums.cu"
LETTERS = "PPPPPPiiqqqqq"
"""The types of the kernel's arguments, as Python's `struct` names them."""

MOST = 2**31 - 1
"""Threads of a launch: they are counted in 32 bits."""

WORD = 16
"""Bytes of the widest access."""

SHORT = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class Tuning(NamedTuple):
    """How the work is cut among threads.

    vector: neighbours a thread takes. ahead: 7^ahead products are loaded together. resident: blocks that a
    multiprocessor holds, which limits the registers. rolled: the outermost seven are a loop.
    """

    vector: int
    threads: int = 128
    resident: int = 1
    ahead: int = 1
    rolled: bool = False


def _rolled(vector: int, resident: int = 2, ahead: int = 1) -> Tuning:
    return Tuning(vector, resident=resident, ahead=ahead, rolled=True)


TUNINGS = {
    ("pre_add", "wide"): (Tuning(4), Tuning(4), Tuning(4, resident=4), _rolled(2)),
    ("pre_add", "narrow"): (Tuning(8), Tuning(8), _rolled(4, 6), _rolled(4)),
    ("post_add", "wide"): (Tuning(4), Tuning(4), Tuning(4, resident=2), _rolled(1, 3, ahead=2)),
    ("post_add", "narrow"): (Tuning(8), Tuning(4), Tuning(4, resident=2), _rolled(2)),
    ("step", "wide"): (Tuning(4), Tuning(4), _rolled(4, 3), _rolled(2)),
    ("step", "narrow"): (Tuning(4), Tuning(4), Tuning(4, resident=2), _rolled(2)),
}
"""By kind, whether numbers have 32 bits or 16, and level: the fastest of those measured on an H200, where at most a few
dozen registers are spilled (level 3, two numbers a thread).

A matrix whose rows are no whole words of `vector` numbers is read number by number (`edge_of`)."""


def tuning_of(work: Work) -> Tuning:
    """How the work is cut, where nobody says otherwise: by the type where most of the traffic is."""
    kind = "pre_add" if not work.from_products else "post_add" if work.high is None else "step"
    most = work.source if work.from_products or work.high is None else work.high
    narrow = work.source.dtype != torch.float32 and most.dtype != torch.float32
    return TUNINGS[kind, "narrow" if narrow else "wide"][work.level]


def edge_of(work: Work, vector: int) -> int:
    """Where the matrix that is read or written may end: 0, with its blocks; 1, after any word; 2, anywhere.

    >>> some = [factors_work(torch.empty(rows, n), "left", None, torch.empty(7, 32, 32), level=1)
    ...         for rows, n in ((64, 64), (63, 60), (64, 62))]
    >>> [edge_of(work, 4) for work in some]
    [0, 1, 2]

    0 and 1 also mean that it is read or written in words of `vector` numbers: rows are contiguous and start where a
    word may.
    """
    (rows, columns), x = work.shape, work.matrix if work.from_products else work.source
    if columns % vector:
        return 2
    if x is not None:
        (down, along), size = x.stride(), x.element_size()
        word = min(WORD, size * vector)
        if (along != 1 and columns != 1) or (down * size % word and rows != 1) or x.data_ptr() % word:
            return 2
    return int((rows, columns) != (work.block[0] << work.level, work.block[1] << work.level))


def text_of(work: Work, tuning: Tuning) -> str:
    """The macros in front of the source."""
    terms = (work.high is not None) + (work.low is not None)
    values = {
        "LEVEL": work.level, "FROM_PRODUCTS": int(work.from_products), "TO_MATRIX": int(work.matrix is not None),
        "TERMS": terms, "BIAS": int(work.bias is not None), "RELU": int(work.relu),
        "EDGE": edge_of(work, tuning.vector), "BIAS_TYPE": _type(work.bias), "IN_TYPE": _type(work.source),
        "MATRIX_TYPE": _type(work.matrix), "OUT_TYPE": _type(work.high),
        "SPREAD_TABLE": _table(work.spread, work.side) if terms else "",
        "COLLECT_TABLE": _table(work.collect, "result") if work.from_products else "",
        "VECTOR": tuning.vector, "THREADS": tuning.threads, "RESIDENT": tuning.resident, "AHEAD": tuning.ahead,
        "ROLLED": int(tuning.rolled),
    }  # fmt: skip
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def _type(x: Tensor | None) -> str:
    return "F32" if x is None else SHORT[x.dtype]


@lru_cache(maxsize=16)
def _table(form: str, side: str) -> str:
    return ", ".join("{" + ", ".join(map(str, row)) + "}" for row in FORMS[form].signs(side).tolist())


def arguments_of(work: Work, tuning: Tuning) -> tuple[int, list[int]]:
    """The blocks of threads, and a work's tensors as the kernel takes them, in its order; strides in bytes.

    ArgumentError where it has more words than 32 bits count.
    """
    words, touched = work.block[1] // tuning.vector, work.matrix if work.from_products else work.source
    blocks = -(-work.block[0] * words // tuning.threads)
    if blocks * tuning.threads > MOST:
        found = f"blocks of {work.block}"
        raise ArgumentError("strassen_sums", "shape", found, f"at most {MOST} words in a block", "Use more levels")
    strides = (0, 0) if touched is None else [each * touched.element_size() for each in touched.stride()]
    each_row = int(work.exponents is not None and work.exponents.numel() > 1)
    addresses = [0 if each is None else each.data_ptr() for each in work.tensors]
    return blocks, [*addresses, each_row, words, work.block[0], *work.shape, *strides]


def prepared(work: Work) -> Run:
    """The work as a function of no arguments, which keeps the tensors: by torch in float64 and on a CPU, or the kernel.

    UnavailableError where the kernel cannot be compiled or loaded.
    """
    if not work.source.is_cuda or any(each is not None and each.dtype not in SHORT for each in work.tensors[:5]):
        return partial(run_in_torch, work)
    tuning, index = tuning_of(work), work.source.device.index
    blocks, values = arguments_of(work, tuning)
    if not blocks:
        return partial(run_all, ())
    kernel = function(SOURCE, "brrr_strassen_sums", index, head=text_of(work, tuning))
    return launched(kernel, index, blocks, tuning.threads, typed(LETTERS, values), work)


def pre_add_step(x: Tensor, side: str, how: Implementation, out: Tensor) -> Run:
    """All products' factors of one operand into `out`, in its type, rounded once; side: "transposed" too."""
    return prepared(factors_work(x, side, how.form, out, level=how.level))


def post_add_step(
    products: Tensor, how: Implementation, out: Tensor, bias: Tensor | None = None, relu: bool = False
) -> Run:
    """The result from all products into `out`, in its type, rounded once; then bias and ReLU."""
    return prepared(assembled_work(products, how.form, how.level, (out.shape[0], out.shape[1]), bias, relu, out))


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.strassen.passes.launch`.


def examples(device: str, size: int = 8192) -> Iterator[Example]:
    """The sums before and behind a square product; an addition for each number that a block gets is not counted."""
    for level in (1, 2):
        x = torch.randn(size, size, device=device)
        products = torch.randn(products_shape(size, size, level), device=device)
        sums = x.new_empty(buffer_shape(size, size, "left", level))
        before = factors_work(x, "left", None, sums, level=level)
        behind = assembled_work(products, None, level, (size, size), None, False, torch.empty_like(x))
        for name, work in (("before", before), ("behind", behind)):
            parts = {part: getattr(work, part) for part in ("source", "high", "matrix")}
            wide = replace(work, **{part: x.double() for part, x in parts.items() if x is not None})
            run_in_torch(wide)
            made, exact = (each.matrix if each.high is None else each.high for each in (work, wide))
            assert made is not None and exact is not None
            nbytes = float(work.source.nbytes + made.nbytes)
            yield Example(f"sums {name}, {level} levels", 0.0, nbytes, giving(made, prepared(work)), exact)


if __name__ == "__main__":
    some = factors_work(torch.empty(64, 64), "left", None, torch.empty(buffer_shape(64, 64, "left", 1)), level=1)
    alone(examples, CudaFile(SOURCE, head=text_of(some, tuning_of(some))))
