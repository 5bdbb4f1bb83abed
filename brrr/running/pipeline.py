"""A pipeline over a device: send the next piece, work on this one, and fetch the last one, all at the same time.

An array in main memory is cut into chunks. Each passes three lanes (upload, compute, download), which events tie
together: nothing waits but what must. The schedule of n chunks, where the three take t a chunk, is (n + 2) t long
instead of 3 n t; and since a call does not wait either, the next call's first chunk follows this one's last.

A GPU has an engine for each direction of copies beside its cores, so the three lanes run side by side there. What it
needs for that: chunks (a whole array has nothing to overlap with), events in place of `synchronize()`, and pinned
host memory (a copy of pageable memory makes the host wait, which then issues nothing else).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from brrr.core import units
from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError, extras, first_line, whole
from brrr.core.heavy import torch
from brrr.core.measurement import DeviceKind
from brrr.gpu import free_bytes, is_cpu, is_gpu, is_queue, tensors_on
from brrr.gpu.device import processor_for
from brrr.running.lanes import Lane, StreamLane, ThreadLane

BUFFERS = 3
"""One for each lane to work in. On an H200 with balanced lanes two gave 1.9x over serial, three 2.7x, more no more."""


@dataclass
class Slot:
    """A device buffer, and the event at which it is fetched and free again."""

    buffer: Any
    free: Any = None


class Pipeline:
    """Process a large host array on the GPU in chunks, so that copies in, computation and copies out overlap.

    >>> import torch
    >>> doubled = Pipeline(lambda chunk: chunk.mul_(2), 10, chunks=4, device="cpu")
    >>> x, out = torch.arange(10.0), torch.empty(10)
    >>> doubled(x, out)
    >>> doubled.synchronize()
    >>> out.tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]

    Parameters
    ----------
    compute : callable
        Takes a chunk, a one-dimensional tensor on the device, and changes it in place; its return value is ignored. It
        must work element by element, and should not allocate.
    elements : int
        The arrays' length, at least 1. If the chunks do not divide it, they are as even as possible.
    dtype : torch.dtype, optional
        The elements' type, by default float32.
    chunks : int, optional
        How many chunks. By default chunks of about 16 MB, at least four if they are not too small.
    buffers : int
        How many chunks the device holds at once. Three keep all three lanes busy; with one nothing overlaps.
    device : str, optional
        The GPU's kind; "cpu-queue", three worker threads that stand in for it; or "cpu", where nothing overlaps. By
        default the GPU if there is one, else "cpu".
    pinned : bool
        Whether host arrays must be pinned (`host_array`). False takes any, and loses the overlap.
    lanes : tuple of Lane, optional
        Lanes for copies in, computation and copies out, in place of the device's own.

    Raises
    ------
    ArgumentError
        If an argument cannot be used.
    DeviceMemoryError
        If the buffers do not fit.
    UnavailableError
        If a GPU is asked for and there is none.

    Notes
    -----
    A call returns as soon as everything is launched. Until `synchronize()` returns, only work queued later on torch's
    current stream may change `x` or read `out`. Calls may follow each other without waiting. On a GPU `compute` runs
    on the pipeline's own stream, so other tensors that it reads (weights) must be ready when the pipeline is created.
    Copies in do not wait for the current stream, so only `host_s`, `period_s` and `latency_s` of a `measure` are right.
    """

    @extras("Pipeline")
    def __init__(
        self, compute: Callable[[Any], Any], elements: int, dtype: Any = None, *, chunks: int | None = None,
        buffers: int = BUFFERS, device: DeviceKind | None = None, pinned: bool = True,
        lanes: tuple[Lane, Lane, Lane] | None = None,
    ) -> None:  # fmt: skip
        self.compute, self.dtype = compute, dtype or torch.float32
        self.elements = whole("Pipeline", "elements", elements)
        instead = "'cpu-queue' shows the same schedule here"
        self.device = "cpu-queue" if is_queue(device) else processor_for("Pipeline", device, instead)
        self.pinned = pinned and is_gpu(self.device)
        self.chunk_elements = chunk_elements(self.elements, chunks, self.dtype.itemsize)
        self.chunks = math.ceil(self.elements / self.chunk_elements)
        self.buffers = whole("Pipeline", "buffers", buffers)
        require_callable("Pipeline", "compute", compute, "a function that changes a chunk in place")
        self.upload, self.work, self.download = self.lanes = lanes or _lanes(self.device)
        self._slots = list(map(Slot, self._allocated()))
        self._next = 0
        self._known_pinned: set[int] = set()

    @property
    def device_bytes(self) -> int:
        """Bytes of the buffers on the device."""
        return self.buffers * self.chunk_elements * int(self.dtype.itemsize)

    def __call__(self, x: Any, out: Any) -> None:
        """Issue the whole pipeline over `x` into `out`, both one-dimensional and on the host; returns at once.

        ArgumentError for an array of another length or type, on a device, or pageable where pinned was promised.
        """
        for name, array in (("x", x), ("out", out)):
            self._check(name, array)
        slot = None
        for source, target in zip(x.split(self.chunk_elements), out.split(self.chunk_elements), strict=True):
            slot = self._slots[self._next]
            self._next = (self._next + 1) % self.buffers
            self._issue(slot, source, target)
        if is_gpu(self.device) and slot is not None:  # so that events and waits on torch's own stream tell the truth
            torch.get_device_module(tensors_on(self.device)).current_stream().wait_event(slot.free)

    def synchronize(self) -> None:
        """Wait until every call so far has its result; raise what `compute` raised in a worker thread."""
        for lane in self.lanes:
            lane.synchronize()

    def close(self) -> None:
        """End the worker threads, if there are any."""
        for lane in self.lanes:
            lane.close()

    def _issue(self, slot: Slot, source: Any, target: Any) -> None:
        """One chunk through the three lanes: each waits for the one before, and the upload for a free buffer."""
        chunk = slot.buffer if len(source) == self.chunk_elements else slot.buffer[: len(source)]
        self.upload.wait(slot.free)
        self.upload.copy(chunk, source)
        self.work.wait(self.upload.record())
        self.work.run(self.compute, chunk)
        self.download.wait(self.work.record())
        self.download.copy(target, chunk)
        slot.free = self.download.record()

    def _allocated(self) -> Iterator[Any]:
        """The buffers, ready for lanes other than the stream that they were allocated on."""
        place = tensors_on(self.device)
        if self.device_bytes > (free := free_bytes(place)):
            raise _too_large(self.device_bytes, units.nbytes(free), place)
        try:
            found = [torch.empty(self.chunk_elements, dtype=self.dtype, device=place) for _ in range(self.buffers)]
        except torch.OutOfMemoryError as error:
            raise _too_large(self.device_bytes, "less", place) from error
        # The allocator may have handed out memory that earlier work of the current stream still reads, so the lanes
        # wait for it once; and it must not hand the buffers out again while a lane still works in them, so it is told
        # which streams use them.
        for lane in self.lanes if is_gpu(self.device) else ():
            if isinstance(lane, StreamLane):
                lane.stream.wait_stream(torch.get_device_module(place).current_stream())
                for buffer in found:
                    buffer.record_stream(lane.stream)
        yield from found

    def _check(self, name: str, array: Any) -> None:
        fits = isinstance(array, torch.Tensor) and array.shape == (self.elements,) and array.dtype == self.dtype
        if not fits or not is_cpu(array.device) or not array.is_contiguous():
            said = f"{tuple(array.shape)} {array.dtype} on {array.device}" if isinstance(array, torch.Tensor) else array
            expected = f"a contiguous tensor of {self.elements} elements, {self.dtype}, in main memory"
            raise ArgumentError("Pipeline", name, said, expected)
        if self.pinned and array.data_ptr() not in self._known_pinned:
            if not array.is_pinned():
                hint = "Make it with brrr.running.pipeline.host_array, or give pinned=False: then nothing overlaps"
                raise ArgumentError("Pipeline", name, "pageable memory", "pinned memory", hint)
            self._known_pinned.add(array.data_ptr())


@extras("host_array")
def host_array(elements: int, dtype: Any = None, *, pinned: bool = True) -> Any:
    """Allocate an array in main memory that the GPU can copy from and to by itself (pinned memory).

    >>> host_array(3, pinned=False).shape
    torch.Size([3])

    Parameters
    ----------
    elements : int
        Its length. It is not filled.
    dtype : torch.dtype, optional
        The elements' type, by default float32.
    pinned : bool
        False gives an ordinary (pageable) array.

    Returns
    -------
    torch.Tensor
        One-dimensional, on the CPU.

    Raises
    ------
    UnavailableError
        If pinned memory is refused: there is no GPU, or it is more than the system locks.
    """
    count = whole("host_array", "elements", elements)
    try:
        return torch.empty(count, dtype=dtype or torch.float32, pin_memory=pinned)
    except RuntimeError as error:
        size = units.nbytes(count * (dtype or torch.float32).itemsize)
        raise UnavailableError(
            f"host_array: {size} of {'pinned ' if pinned else ''}memory were refused "
            f"({first_line(error)}). Without pinned memory copies do not overlap; use fewer elements, or "
            "host_array(..., pinned=False) with Pipeline(..., pinned=False), which works and takes longer"
        ) from error


def _lanes(device: DeviceKind) -> tuple[Lane, Lane, Lane]:
    make = partial(StreamLane, device) if is_gpu(device) else ThreadLane if is_queue(device) else Lane
    return make(), make(), make()


def _too_large(needed_bytes: int, free: str, place: str) -> DeviceMemoryError:
    where = "GPU" if is_gpu(place) else "CPU"
    return DeviceMemoryError(
        f"Pipeline: the buffers need {units.nbytes(needed_bytes)} and {free} is free on the {where}; "
        "use more chunks, or fewer buffers"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Into how many pieces an array is cut that passes a pipeline.

CHUNK_BYTES = 16 * 2**20
"""Large against what a chunk's launches cost, small against the whole: on an H200, 40 kernels a chunk, the host could
not keep up with chunks of 8 MB and less (2.1x over serial), and 64 MB filled the pipeline too slowly (2.3x)."""

FEWEST_CHUNKS = 4
SMALLEST_CHUNK_BYTES = 2**20
ALIGNED = 1024
"""Chunks of many elements begin at multiples of so many, so that copies and kernels start at round addresses."""


def chunk_elements(elements: int, chunks: int | None, itemsize: int) -> int:
    """How many elements a chunk has; the last one may have fewer.

    >>> chunk_elements(10, 4, 4), chunk_elements(2**26, None, 4)
    (3, 4194304)
    """
    if chunks is not None and whole("Pipeline", "chunks", chunks) > elements:
        raise ArgumentError("Pipeline", "chunks", chunks, f"at most one for each of the {elements} elements")
    count = chunks or default_chunks(elements * itemsize)
    size = math.ceil(elements / count)
    return min(elements, math.ceil(size / ALIGNED) * ALIGNED) if size > 4 * ALIGNED else size


def default_chunks(nbytes: int) -> int:
    """How many chunks an array of so many bytes is cut into where nobody says.

    >>> default_chunks(2**30), default_chunks(2**24), default_chunks(2**20)
    (64, 4, 1)
    """
    return max(math.ceil(nbytes / CHUNK_BYTES), min(FEWEST_CHUNKS, nbytes // SMALLEST_CHUNK_BYTES), 1)
