"""Bandwidth by working set on a GPU: sustained, in a single pass, and through torch's own operators."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from brrr.core.measurement import Value
from brrr.gpu import CUDA, free_bytes
from brrr.gpu.nvrtc import F32, PTR, U32, Kernel, kernel
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.gpu_times import clock_conditions, times_of
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.peak import Curve, Peak, better, sizes_between

# ---------------------------------------------------------------------------------------------------------------------
# The kernels of `peaks.cu` on a working set, each checked before it is timed.

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


class Stream(NamedTuple):
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
        self.arena = torch.empty(largest_bytes // 4, device=CUDA).normal_()
        self._multiprocessors = torch.cuda.get_device_properties().multi_processor_count
        self._kernels = {kind: compiled(f"brrr_stream_{kind}") for kind in KINDS}

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
        arrays = list(self.arena[: ARRAYS[kind] * words * 4].view(ARRAYS[kind], words * 4))
        source, numbers = arrays[0], list[tuple[float, Any]]()
        allowed: float | part.OfBlock = 0.0
        expected: part.OfBlock = lambda block: source[block]  # noqa: E731
        if kind == "read":
            arrays.append(torch.empty(blocks * BLOCK // 32, dtype=torch.int32, device=CUDA))  # a sum for each warp
        elif kind == "write":
            arrays, numbers, expected = [source.view(torch.int32)], [(PEDESTAL, U32)], _numbers
        elif kind == "triad":
            scale = float(torch.rand(()).half()) + 0.5  # without a rounding in float32
            a, b, c = arrays
            arrays, numbers = [b, c, a], [(scale, F32)]
            expected, allowed = part.added(b, c, scale), part.roundings(b, c, scale)
        given = [*((each.data_ptr(), PTR) for each in arrays), *numbers, (words, U32), (words * passes, U32)]
        run, out = self._kernels[kind], arrays[-1]

        def call() -> None:
            run((blocks, 1, 1), (BLOCK, 1, 1), *given)

        def check() -> None:
            out.fill_(torch.nan if out.is_floating_point() else -1)
            call()
            what = f"brrr_stream_{kind} of {source.nbytes} bytes"
            if kind == "read":
                part.require((_sum(out) - _sum(source.view(torch.int32)) * passes) % 2**32 == 0, what)
            else:
                part.same(out, expected, what, allowed)
            if kind in ("copy", "triad"):  # random again, for the streams that read it
                out.normal_()

        set_bytes = ARRAYS[kind] * words * WORD
        return Stream(kind, set_bytes, set_bytes * passes, blocks, call, check)


def compiled(name: str) -> Kernel:
    """A kernel of `peaks.cu`."""
    return kernel("roofline/calibrate/peaks.cu", name, torch.cuda.current_device())


def _sum(words: torch.Tensor) -> int:
    return int(words.sum(dtype=torch.int64))


def _numbers(block: slice) -> torch.Tensor:
    """PEDESTAL + first, PEDESTAL + first + 1, ... as 32-bit words, which wrap round."""
    numbers = torch.arange(block.start, block.stop, dtype=torch.int64, device=CUDA) + PEDESTAL
    return ((numbers + 2**31) % 2**32 - 2**31).to(torch.int32)


SMALLEST, LARGEST, QUICK_LARGEST = 64 * 2**10, 4 * 2**30, 256 * 2**20
MEMORY_SHARE = 4
"""The arena takes at most a quarter of the free memory, so that the checks have theirs."""
PAGE = 4096
"""Sets are whole pages, so that no half of one begins inside a line of the cache."""


def measure_bandwidth(found: Findings) -> None:
    """The curves copy, read, write and triad, each sustained and once; `torch-copy` and `torch-pointwise`, once.

    Sustained, a kernel goes over the working set again and again, so that the rate is that of the memory level which
    holds it. Once is what an operator does on a hot cache: the kernel's start and end weigh on small sets.
    """
    sizes = working_sets(found.quick)
    streams = Streams(sizes[-1])
    for kind in KINDS:
        for once in (False, True):
            _measure_kind(streams, kind, sizes, once, found)
    streams.arena.normal_()  # random again, where a write has been
    _measure_torch(streams.arena, sizes, found)
    del streams
    torch.cuda.empty_cache()


def working_sets(quick: bool) -> list[int]:
    """From 64 KiB to 4 GiB, or a quarter of the free memory; twice as dense about the size of the L2."""
    free = free_bytes(CUDA)
    l2 = torch.cuda.get_device_properties().L2_cache_size
    largest = min(QUICK_LARGEST if quick else LARGEST, free // MEMORY_SHARE)
    sizes = sizes_between(SMALLEST, largest, 8 if quick else 2, fine=None if quick else (l2 / 4, l2 * 3))
    return [size // PAGE * PAGE for size in sizes]


def _measure_kind(streams: Streams, kind: str, sizes: Sequence[int], once: bool, found: Findings) -> None:
    tried = [stream for size in sizes for stream in streams.of(kind, size, once=once)]
    for stream in tried:
        stream.check()
    how = "a single pass on a hot cache" if once else "passes over the set until at least 256 MiB are moved"
    by = f"brrr_stream_{kind} with {BLOCK} threads a block, the best of its launch shapes: {how}"
    calls = [(each.set_bytes, each.moved_bytes, each.call, {"blocks": each.blocks}) for each in tried]
    _measure(f"{kind}-once" if once else kind, by, calls, found)


STEP = 2.0**-10


def _measure_torch(arena: torch.Tensor, sizes: Sequence[int], found: Findings) -> None:
    """torch's own copy and its own pointwise product on the same sets, once each."""
    copied: list[Tried] = []
    multiplied: list[Tried] = []
    for size in sizes:
        x, y = arena[: size // 8], arena[size // 8 : size // 4]
        copy, multiply = partial(y.copy_, x), partial(torch.mul, x, 1.0 + STEP, out=y)
        part.checked(copy, y, x.__getitem__, "torch's copy_")
        part.checked(multiply, y, part.added(x, x, STEP), "torch.mul", 1e-6)
        copied.append((size, size, copy, {}))
        multiplied.append((size, size, multiply, {}))
    _measure("torch-copy", "y.copy_(x)", copied, found)
    _measure("torch-pointwise", "torch.mul(x, factor, out=y)", multiplied, found)


Tried = tuple[int, int, Callable[[], Any], dict[str, Any]]
"""The bytes of a working set, those that a call moves, the call, and its conditions."""


def _measure(name: str, by: str, tried: Sequence[Tried], found: Findings) -> None:
    """A curve: of each working set the best of what was tried."""
    estimates, origin = times_of([call for _, _, call, _ in tried])
    best: dict[int, Peak] = {}
    for (set_bytes, moved, _, conditions), estimate in zip(tried, estimates, strict=True):
        if estimate is not None:
            best[set_bytes] = better(best.get(set_bytes), Peak.rate(moved, estimate, "B/s", **conditions))
    if missing := len({set_bytes for set_bytes, *_ in tried} - best.keys()):
        found.note(f"{name}: {missing} small sets left out, since only CUPTI can time their kernels")
    if best:
        about: dict[str, Value] = {"by": by, "times_from": origin, **clock_conditions()}
        found.curves[name] = Curve("working_set_bytes", tuple(sorted(best.items())), about)
