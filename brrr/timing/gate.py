"""The gate: fill the GPU's queue first, let it run afterwards, so that issue time cannot leak into device time.

A kernel holds the stream; the host issues the work behind it and then opens it by a write to pinned memory. What the
events then measure is what the device alone can do. Every gate gives up by itself after a time, so a function that
synchronises ends up late rather than never, and is found out.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from brrr.core.heavy import torch
from brrr.gpu import CUDA
from brrr.gpu.nvrtc import I64, PTR, U32, U64, probe_kernel

ONE = (1, 1, 1)


class Gate:
    """Holds torch's current stream until `open`, or until its time is over.

    >>> gate = gate_of(0)                       # doctest: +SKIP
    >>> gate.run(lambda: relu(x), timeout_s=0.1)  # True: it held; False: it gave up, for relu waited  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._words = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self._view = self._words.numpy()
        self._ticket = 0

    def close(self, timeout_s: float) -> None:
        """Put the gate's kernel into the current stream."""
        self._ticket += 1
        address = self._words.data_ptr()
        held = (address, PTR), (address + 4, PTR), (self._ticket, U32), (int(timeout_s * 1e9), U64)
        probe_kernel("brrr_gate")(ONE, ONE, *held)

    def open(self) -> None:
        """Let the stream go on."""
        self._view[0] = self._ticket

    @property
    def gave_up(self) -> bool:
        """Whether the last gate opened by itself; ask after synchronising."""
        return bool(self._view[1] == self._ticket)

    def run(self, issue: Callable[[], Any], timeout_s: float) -> bool:
        """Close, issue, open and wait; whether the gate held until all was issued."""
        stream = torch.cuda.current_stream()
        self.close(timeout_s)
        try:
            issue()
        finally:
            self.open()
            stream.synchronize()
        return not self.gave_up


@lru_cache(maxsize=8)
def gate_of(device_index: int) -> Gate:
    """The gate of a device, made once."""
    return Gate()


class Eviction:
    """Empties the L2 cache of the function's data: write twice its size, then read twice its size of clean memory."""

    def __init__(self, l2_bytes: int) -> None:
        self.words = max(1, 2 * l2_bytes // 16)
        self._dirty = torch.zeros(self.words * 4, dtype=torch.int32, device=CUDA)
        self._clean = torch.zeros(self.words * 4, dtype=torch.int32, device=CUDA)
        self._sink = torch.zeros(1, dtype=torch.int32, device=CUDA)
        self._grid = (torch.cuda.get_device_properties().multi_processor_count * 4, 1, 1)

    def __call__(self) -> None:
        block = (512, 1, 1)
        count = (self.words, I64)
        probe_kernel("brrr_evict_write")(self._grid, block, (self._dirty.data_ptr(), PTR), count, (1, U32))
        clean, sink = (self._clean.data_ptr(), PTR), (self._sink.data_ptr(), PTR)
        probe_kernel("brrr_evict_read")(self._grid, block, clean, count, sink)


@lru_cache(maxsize=8)
def eviction_of(device_index: int) -> Eviction:
    """The eviction for a device, its buffers made once."""
    return Eviction(torch.cuda.get_device_properties(device_index).L2_cache_size)


def spin(duration_s: float, out: Any) -> None:
    """Keep one thread of the GPU busy for a time; `out`, three int64 on the GPU, gets start ns, end ns and cycles."""
    probe_kernel("brrr_spin")(ONE, ONE, (round(duration_s * 1e9), U64), (out.data_ptr(), PTR))


def marker_kernel() -> None:
    """Launch a kernel that does nothing but stand between calls in a profiler's record."""
    probe_kernel("brrr_marker")(ONE, (32, 1, 1))


def sm_clock_hz(duration_s: float = 50e-6) -> float:
    """The SM clock as a kernel sees it just now: cycles over elapsed time, within a tick in `duration_s`."""
    out = torch.zeros(3, dtype=torch.int64, device=CUDA)
    spin(duration_s, out)
    start, end, cycles = out.tolist()
    return float(cycles) / (float(end - start) * 1e-9)
