"""The kernel of `strassen_sums.cu` for a job: compiled once, kept on the disk, launched on torch's current stream.

>>> run = prepared(work)    # doctest: +SKIP
>>> run()                   # doctest: +SKIP
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

import torch

from brrr.core.errors import ArgumentError
from brrr.gpu.launching import PreparedLaunch, on_current_stream, typed
from brrr.gpu.nvrtc import function as function_of
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.passes.jobs import MOST, Job, Tuning, launch_size
from brrr.strassen.passes.memory_pass import DTYPES, Work, assembled_work, factors_work, run_in_torch

SOURCE, NAME = "strassen/passes/strassen_sums.cu", "brrr_strassen_sums"
LETTERS = "PPPPPPiiqqqqq"
"""The types of the kernel's arguments, as Python's `struct` names them."""


def arguments_of(work: Work, tuning: Tuning) -> tuple[int, list[int]]:
    """The blocks of threads, and a work's tensors as the kernel takes them, in its order; strides in bytes.

    ArgumentError where it has more words than 32 bits count.
    """
    words, blocks = launch_size(work.block, tuning)
    if blocks * tuning.threads > MOST:
        found = f"blocks of {work.block}"
        raise ArgumentError("strassen_sums", "shape", found, f"at most {MOST} words in a block", "Use more levels")
    touched, exponents = work.touched, work.exponents
    strides = (0, 0) if touched is None else [each * touched.element_size() for each in touched.stride()]
    tensors = (work.source, work.bias, work.matrix, work.high, work.low, exponents)
    each_row = int(exponents is not None and exponents.numel() > 1)
    return blocks, [*map(_address, tensors), each_row, words, work.block[0], *work.shape, *strides]


def prepared_kernel(work: Work, tuning: Tuning | None = None) -> Callable[[], None]:
    """A function of no arguments that does the work; it keeps the tensors.

    UnavailableError where the kernel cannot be compiled or loaded.
    """
    chosen = tuning or work.job().tuning()
    (blocks, values), index = arguments_of(work, chosen), work.source.device.index
    if not blocks:
        return partial(run_all, ())
    loaded = function_of(SOURCE, NAME, index, head=_tables(work.job(chosen.vector), chosen))
    launch = PreparedLaunch(loaded, (blocks, 1, 1), (chosen.threads, 1, 1), typed(LETTERS, values))
    return on_current_stream(launch, index, work)


@lru_cache(maxsize=256)
def _tables(job: Job, tuning: Tuning) -> str:
    return job.text(tuning)  # made once: a product's launches are prepared at each call


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else int(tensor.data_ptr())


# ---------------------------------------------------------------------------------------------------------------------
# What does the work: CUDA C++, or torch's operators.

Run = Callable[[], Any]
"""A prepared call."""


def prepared(work: Work) -> Run:
    """The work as a function of no arguments: by the kernel on a GPU, by torch elsewhere and in float64."""
    tensors = (work.source, work.bias, work.matrix, work.high, work.low)
    if work.source.is_cuda and all(each is None or each.dtype in DTYPES for each in tensors):
        return prepared_kernel(work)
    return partial(run_in_torch, work)


def run_all(made: Iterable[Run]) -> None:
    """Each step, in order."""
    for step in made:
        step()


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.strassen.passes.launch`.


def works(x: torch.Tensor, products: torch.Tensor, level: int) -> dict[str, tuple[Work, torch.Tensor]]:
    """The sums before and behind a product of x's size, each with where it leaves what it makes."""
    (rows, columns), out = x.shape, torch.empty_like(x)
    sums = x.new_empty(buffer_shape(rows, columns, "left", level))
    before = factors_work(x, "left", None, level, False, sums)
    behind = assembled_work(products, None, level, (rows, columns), None, False, out)
    return {"before": (before, sums), "behind": (behind, out)}


def examples(device: str, size: int = 8192) -> Iterator[Example]:
    """One level and two, of a square matrix; an addition for each number that a block gets is not counted."""
    for level in (1, 2):
        x = torch.randn(size, size, device=device)
        products = torch.randn(products_shape(size, size, level), device=device)
        exact = works(x.double(), products.double(), level)
        for name, (work, out) in works(x, products, level).items():
            run_in_torch(exact[name][0])
            nbytes = float(work.source.nbytes + out.nbytes)
            yield Example(f"sums {name}, {level} levels", 0.0, nbytes, giving(out, prepared(work)), exact[name][1])


if __name__ == "__main__":
    some, _ = works(torch.ones(64, 64), torch.ones(products_shape(64, 64, 1)), 1)["before"]
    alone(examples, CudaFile(SOURCE, head=some.job().text()))
