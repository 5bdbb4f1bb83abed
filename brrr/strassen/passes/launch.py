"""The kernel of `strassen_sums.cu` for a job: compiled once, kept on the disk, launched by PyCUDA or cuda-bindings.

>>> run = prepared(work)    # doctest: +SKIP
>>> run()                   # doctest: +SKIP

PyCUDA takes torch's default stream and `shared_stream`'s only; on any other one, such as that on which torch captures a
CUDA Graph, cuda-bindings launches the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.launching import (
    PreparedLaunch,
    on_current_stream,
    packed_launch,
    pycuda_function,
    pycuda_stream,
    raw_stream,
    typed,
)
from brrr.gpu.nvrtc import function as function_of
from brrr.strassen.algebra.forms import STRASSEN as STRASSEN
from brrr.strassen.algebra.forms import Form
from brrr.strassen.passes.plan import MOST, Job, Tuning, launch_size
from brrr.strassen.passes.work import (
    DTYPES,
    Work,
    factors_work,
    run_in_torch,
    signs_of,
)

if TYPE_CHECKING:
    from brrr.strassen.passes.work import Work

SOURCE, NAME = "strassen/passes/strassen_sums.cu", "brrr_strassen_sums"
LETTERS = "PPPPPPiiqqqqq"
"""The types of the kernel's arguments, as Python's `struct` names them."""


@dataclass(frozen=True)
class Arguments:
    """The kernel's arguments in their order, and the blocks of threads; strides in bytes."""

    source: int
    bias: int
    matrix: int
    high: int
    low: int
    exponents: int
    exponent_step: int
    words: int
    block_rows: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    blocks: int


def arguments_of(work: Work, tuning: Tuning) -> Arguments:
    """A work's tensors as the kernel takes them. ArgumentError where it has more words than 32 bits count."""
    words, blocks = launch_size(work.block, tuning)
    if blocks * tuning.threads > MOST:
        found = f"blocks of {work.block}"
        raise ArgumentError("strassen_sums", "shape", found, f"at most {MOST} words in a block", "Use more levels")
    touched, exponents = work.touched, work.exponents
    size = 0 if touched is None else touched.element_size()
    down, along = (0, 0) if touched is None else touched.stride()
    return Arguments(
        _address(work.source), _address(work.bias), _address(work.matrix), _address(work.high), _address(work.low),
        _address(exponents), int(exponents is not None and exponents.numel() > 1), words, work.block[0], *work.shape,
        down * size, along * size, blocks,
    )  # fmt: skip


def prepared_kernel(work: Work, tuning: Tuning | None = None) -> Callable[[], None]:
    """A function of no arguments that does the work; it keeps the tensors. Errors as those of `launch`."""
    chosen = tuning or work.job().tuning()
    arguments = arguments_of(work, chosen)
    if not arguments.blocks:
        return _nothing
    return launch(work.job(chosen.vector), chosen, work.source.device.index, arguments, work)


def launch(
    job: Job, tuning: Tuning, device_index: int, arguments: Arguments, kept: object = None
) -> Callable[[], None]:
    """A function of no arguments that launches on the stream that is torch's current one when it is called.

    kept: what must live as long as the function does.

    UnavailableError where the kernel cannot be compiled or loaded.
    """
    values, blocks = astuple(arguments)[:-1], arguments.blocks
    anywhere = _by_bindings(job, tuning, device_index, values, blocks)
    try:
        stream = pycuda_stream(device_index)
        function = pycuda_function(SOURCE, NAME, LETTERS, device_index, _tables(job, tuning))
    except UnavailableError:
        return on_current_stream(anywhere, device_index, kept)
    mine = packed_launch(function, (blocks, 1), (tuning.threads, 1, 1), values, stream)
    return partial(_on_its_stream, mine, 0 if stream is None else stream.handle, anywhere, device_index, kept)


def _on_its_stream(
    mine: Callable[[], None], handle: int, anywhere: Callable[[int], None], device_index: int, _kept: object
) -> None:
    """PyCUDA's launch where its stream is the current one, else the other."""
    current = raw_stream(device_index)
    if current == handle:
        mine()
    else:
        anywhere(current)


def _by_bindings(
    job: Job, tuning: Tuning, device_index: int, values: tuple[int, ...], blocks: int
) -> Callable[[int], None]:
    loaded = function_of(SOURCE, NAME, device_index, head=_tables(job, tuning))
    return PreparedLaunch(loaded, (blocks, 1, 1), (tuning.threads, 1, 1), typed(LETTERS, values))


@lru_cache(maxsize=256)
def _tables(job: Job, tuning: Tuning) -> str:
    return job.text(tuning)  # made once: a product's launches are prepared at each call


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else int(tensor.data_ptr())


def _nothing() -> None:
    """There is nothing to launch."""


# ---------------------------------------------------------------------------------------------------------------------
# What does the work: CUDA C++, or torch's operators.

Kernels = Literal["auto", "cuda", "torch"]
Run = Callable[[], Any]
"""A prepared call."""


def prepared(work: Work, kernels: Kernels = "auto") -> Run:
    """The work as a function of no arguments, by what `kernels` says."""
    if kernels not in ("auto", "cuda", "torch"):
        raise ArgumentError("strassen_sums", "kernels", kernels, '"auto", "cuda" or "torch"')
    tensors = (work.source, work.bias, work.matrix, work.high, work.low)
    narrow = all(each is None or each.dtype in DTYPES for each in tensors)
    if kernels == "torch" or (kernels == "auto" and not (work.source.is_cuda and narrow)):
        return partial(run_in_torch, work)
    if not narrow:
        raise ArgumentError("strassen_sums", "kernels", kernels, '"torch" for types wider than float32')
    if not work.source.is_cuda:
        raise UnavailableError("strassen_sums: CUDA C++ needs tensors on an NVIDIA GPU; move them there with .cuda()")
    return prepared_kernel(work)


def in_turn(*runs: Run) -> Run:
    """One function that calls all of them."""
    return partial(_each, runs)


def _each(runs: tuple[Run, ...]) -> None:
    for run in runs:
        run()


# ---------------------------------------------------------------------------------------------------------------------
# Factors in two float16 terms, so that a split product under Strassen's needs no pass over memory more.


class SplitBuffers(NamedTuple):
    """Factors in two terms, (high + low) * 2^exponents: float16 [7^L, rows, columns], and int32 [7^L, rows]."""

    high: torch.Tensor
    low: torch.Tensor
    exponents: torch.Tensor


def prepared_split_pre_add(
    x: torch.Tensor, side: str, form: str | Form, level: int, *,
    transposed: bool = False, out: SplitBuffers, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """The factors in two float16 terms, as a function of no arguments: it finds the exponents anew each time.

    Each row of a block has one exponent, by the largest number in the rows that it sums: see `split_exponents`.
    """
    exponents = out.exponents[0]
    work = factors_work("split_pre_add", x, side, form, level, transposed, out.high, out.low, exponents)
    assert work.spread is not None
    find = _finding(x, work.side, work.spread, level, exponents, kernels)
    return in_turn(find, prepared(work, kernels))


def split_exponents(x: torch.Tensor, side: str, form: Form, level: int, out: torch.Tensor) -> torch.Tensor:
    """Into `out`, int32 (rows of a block,): the exponents that bring all sums below 2^15, within float16's range.

    >>> split_exponents(torch.full((2, 16), 3.0), "left", STRASSEN, 1, torch.empty(1, dtype=torch.int32))
    tensor([-12], dtype=torch.int32)

    The largest finite number in the rows that are summed is below 2^e; a sum of a level adds at most 2 blocks
    (Strassen) or 4 (Winograd), so it gains 1 or 2 binary places. What is 2^18 times smaller than the largest loses
    digits of its low term: an error of 2^-40 of the largest. side: "left", "right" or "transposed".
    """
    sizes = torch.where(x.isfinite(), x, 0.0).abs().float()
    largest = sizes.amax(1) if x.numel() else sizes.new_zeros(x.shape[0])
    places = (largest.contiguous().view(torch.int32) >> 23) - 126  # zeros and subnormal numbers: -126
    whole = torch.full((len(out) << level,), -126, dtype=torch.int32, device=x.device)
    whole[: len(places)] = places
    most = whole.view(1 << level, len(out)).amax(0)
    return out.copy_((most + _gain(form, side, level) - 15).clamp(-110, 126))


def _gain(form: Form, side: str, level: int) -> int:
    """Binary places that a sum of blocks may have more than its blocks."""
    terms = int(signs_of(form, side).abs().sum(1).max())
    return (terms - 1).bit_length() * level


def _finding(x: torch.Tensor, side: str, form: Form, level: int, exponents: torch.Tensor, kernels: Kernels) -> Run:
    """`split_exponents`, ready to run: in one launch where the kernel reads x."""
    from brrr.strassen.split import operands as kernel

    if kernels in ("auto", "cuda") and x.numel() and exponents.is_contiguous() and kernel.exponents_fit(x):
        return kernel.prepared_exponents(x, exponents, 1 << level, _gain(form, side, level))
    return partial(split_exponents, x, side, form, level, exponents)
