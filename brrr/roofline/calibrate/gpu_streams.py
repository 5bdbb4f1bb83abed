"""The kernels of `stream.cu` on a working set, each checked before it is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from brrr.gpu.nvrtc import F32, PTR, U32, Kernel, kernel
from brrr.roofline.calibrate import part

WORD = 16
BLOCK = 512
LINES = 64
"""Arrays are so many words, or a multiple: each then begins on a line of the cache."""
GOES_OVER = 256 * 2**20
"""Bytes that a sustained kernel moves at least: tens of microseconds, next to which its start and end are nothing."""

ONCE_A_THREAD = 0
BLOCKS_A_MULTIPROCESSOR = (4, 8, 32, ONCE_A_THREAD)
"""Launch shapes that are tried: blocks of 512 threads for each multiprocessor, or as many as there are words."""

KINDS = ("read", "copy", "triad", "write")
"""In this order, for the last spoils what the others read."""

ARRAYS = {"read": 1, "copy": 2, "triad": 3, "write": 1}
PEDESTAL = 0x9E3779B9
"""Where the numbers that are written begin: what was left in the memory by accident is not them."""


@dataclass(frozen=True)
class Stream:
    """One kernel on one working set in one launch shape: a call moves `moved_bytes` over `set_bytes`."""

    kind: str
    set_bytes: int
    moved_bytes: int
    blocks: int
    call: Callable[[], None]
    check: Callable[[], None]


class Streams:
    """Makes streams over the beginning of one arena of floats.

    >>> Streams(2**30).of("copy", 2**20, once=False)                      # doctest: +SKIP
    """

    def __init__(self, largest_bytes: int) -> None:
        self.arena = torch.empty(largest_bytes // 4, device="cuda").normal_()
        properties = torch.cuda.get_device_properties()
        self._multiprocessors = properties.multi_processor_count
        self._kernels = {kind: _kernel(f"brrr_stream_{kind}") for kind in KINDS}

    def refill(self) -> None:
        """Fresh random numbers, where a write has been."""
        self.arena.normal_()

    def of(self, kind: str, set_bytes: int, *, once: bool) -> Iterator[Stream]:
        """The kind's kernel over a working set of about `set_bytes`, in every launch shape."""
        words = set_bytes // (WORD * ARRAYS[kind]) // LINES * LINES
        passes = 1 if once else max(1, -(-GOES_OVER // set_bytes))
        for blocks in self._shapes(words * passes):
            yield self._stream(kind, words, passes, blocks)

    def _shapes(self, words: int) -> list[int]:
        """The numbers of blocks to try; more threads than words are of no use."""
        most = -(-words // BLOCK)
        wanted = [most if each == ONCE_A_THREAD else each * self._multiprocessors for each in BLOCKS_A_MULTIPROCESSOR]
        return sorted({min(each, most) for each in wanted})

    def _stream(self, kind: str, words: int, passes: int, blocks: int) -> Stream:
        parts = self.arena[: ARRAYS[kind] * words * 4].view(ARRAYS[kind], words * 4)
        sizes = (words, U32), (words * passes, U32)
        launch, check = getattr(self, f"_{kind}")(parts, blocks, sizes, passes)
        set_bytes = ARRAYS[kind] * words * WORD
        return Stream(kind, set_bytes, set_bytes * passes, blocks, launch, check)

    def _read(self, parts: torch.Tensor, blocks: int, sizes: Any, passes: int) -> Any:
        (source,), sums = parts, torch.zeros(blocks * BLOCK // 32, dtype=torch.int32, device="cuda")
        launch = self._launch("read", blocks, (source.data_ptr(), PTR), (sums.data_ptr(), PTR), *sizes)

        def check() -> None:
            sums.fill_(-1)
            launch()
            expected = int(source.view(torch.int32).sum(dtype=torch.int64)) * passes
            found = int(sums.sum(dtype=torch.int64))
            part.require((found - expected) % 2**32 == 0, f"brrr_stream_read of {source.nbytes} bytes")

        return launch, check

    def _copy(self, parts: torch.Tensor, blocks: int, sizes: Any, passes: int) -> Any:
        source, out = parts
        launch = self._launch("copy", blocks, (source.data_ptr(), PTR), (out.data_ptr(), PTR), *sizes)

        def check() -> None:
            out.fill_(torch.nan)
            launch()
            what = f"brrr_stream_copy of {source.nbytes} bytes"
            part.same(out, lambda first, last: source[first:last], what)
            out.normal_()  # what was copied is random again, for the streams that read it

        return launch, check

    def _triad(self, parts: torch.Tensor, blocks: int, sizes: Any, passes: int) -> Any:
        out, b, c = parts
        scale = float(torch.rand(()).half()) + 0.5  # without a rounding in float32
        arrays = (b.data_ptr(), PTR), (c.data_ptr(), PTR), (out.data_ptr(), PTR)
        launch = self._launch("triad", blocks, *arrays, (scale, F32), *sizes)

        def check() -> None:
            out.fill_(torch.nan)
            launch()
            part.triad_is_right(out, b, c, scale, f"brrr_stream_triad of {out.nbytes} bytes")
            out.normal_()

        return launch, check

    def _write(self, parts: torch.Tensor, blocks: int, sizes: Any, passes: int) -> Any:
        out = parts[0].view(torch.int32)
        launch = self._launch("write", blocks, (out.data_ptr(), PTR), (PEDESTAL, U32), *sizes)

        def check() -> None:
            out.zero_()
            launch()
            part.same(out, _numbers, f"brrr_stream_write of {out.nbytes} bytes")

        return launch, check

    def _launch(self, kind: str, blocks: int, *arguments: tuple[float, Any]) -> Callable[[], None]:
        run = self._kernels[kind]
        return lambda: run((blocks, 1, 1), (BLOCK, 1, 1), *arguments)


def _kernel(name: str) -> Kernel:
    return kernel("roofline/calibrate/stream.cu", name, torch.cuda.current_device())


def _numbers(first: int, last: int) -> torch.Tensor:
    """PEDESTAL + first, PEDESTAL + first + 1, ... as 32-bit words, which wrap round."""
    numbers = torch.arange(first, last, dtype=torch.int64, device="cuda") + PEDESTAL
    return ((numbers + 2**31) % 2**32 - 2**31).to(torch.int32)
