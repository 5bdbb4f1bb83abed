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
from typing import TYPE_CHECKING, Literal

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.nvrtc import function as function_of
from brrr.gpu.prepared import PreparedLaunch, on_current_stream, raw_stream, typed
from brrr.gpu.pycuda_context import packed_launch, pycuda_function, pycuda_stream
from brrr.strassen.passes.plan import MOST, Job, Tuning, launch_size
from brrr.strassen.passes.work import DTYPES, Work, run_in_torch

if TYPE_CHECKING:
    import torch

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
# Which kernels do the work: CUDA C++, Triton, or torch's operators.

Kernels = Literal["auto", "cuda", "triton", "torch"]
Run = Callable[[], object]


def prepared(work: Work, kernels: Kernels = "auto") -> Run:
    """The work as a function of no arguments, by what `kernels` says."""
    if kernels not in ("auto", "cuda", "triton", "torch"):
        raise ArgumentError("strassen_sums", "kernels", kernels, '"auto", "cuda", "triton" or "torch"')
    tensors = (work.source, work.bias, work.matrix, work.high, work.low)
    narrow = all(each is None or each.dtype in DTYPES for each in tensors)
    if kernels == "torch" or (kernels == "auto" and not (work.source.is_cuda and narrow)):
        return partial(run_in_torch, work)
    if not narrow:
        raise ArgumentError("strassen_sums", "kernels", kernels, '"torch" for types wider than float32')
    return _by_kernels(work, kernels)


def _by_kernels(work: Work, kernels: Kernels) -> Run:
    if kernels == "triton":
        from brrr.strassen.passes import triton

        return triton.prepared(work)
    if not work.source.is_cuda:
        raise UnavailableError("strassen_sums: CUDA C++ needs tensors on an NVIDIA GPU; move them there with .cuda()")

    try:
        return prepared_kernel(work)
    except (UnavailableError, ImportError):
        if kernels == "cuda":
            raise
    return _by_kernels(work, "triton")


def in_turn(*runs: Run) -> Run:
    """One function that calls all of them."""
    return partial(_each, runs)


def _each(runs: tuple[Run, ...]) -> None:
    for run in runs:
        run()
