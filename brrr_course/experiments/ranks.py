"""Several processes of this host, a device each, that make the same calls at the same time.

A process is a *rank*: its number tells which device is its own. The ranks find each other through a file in a temporary
folder, and talk by NCCL between GPUs, by gloo on a CPU, whose threads they share. Who started them sends each the same
function, and waits for all answers. Where one dies, does not answer in time, or the caller is interrupted, all end.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Processor
from brrr.gpu import is_gpu, synchronize
from brrr.gpu.probe import cpu_count

RANKS = 2
"""A measurement has so many."""
TIMEOUT_S = 120.0
"""No call of a measurement takes as long; starting takes seconds, the first call of NCCL some more."""
SETTINGS = {"NCCL_NVLS_ENABLE": "0"}
"""Multicast through NVLink's switches is off: a virtual machine may not have it, and two GPUs gain little by it."""
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
"""The interface that gloo takes between processes of one host; without it a host's name must resolve."""


@dataclass
class Rank:
    """One of `count` processes, as the functions that it is sent see it; they keep in `held` what a later one needs.

    >>> Rank(1, 2, "cuda").device, Rank(1, 2, "cpu").device
    ('cuda:1', 'cpu')
    """

    number: int
    count: int
    processor: Processor
    held: Any = None

    @property
    def device(self) -> str:
        """Its own device, as torch names it."""
        return f"{self.processor}:{self.number}" if is_gpu(self.processor) else self.processor

    def meet(self) -> None:
        """Wait for all ranks, and for what the device does."""
        import torch.distributed as dist

        dist.barrier()
        self.done()

    def done(self) -> None:
        """Wait for what the device does."""
        if is_gpu(self.processor):
            synchronize()


class Ranks:
    """The processes: `call` runs a function of some module in all of them, each with its `Rank`."""

    def __init__(self, count: int, processor: Processor, timeout_s: float = TIMEOUT_S) -> None:
        """UnavailableError where there are fewer GPUs than `count`, or the ranks cannot meet."""
        require_devices(count, processor)
        self.timeout_s, self.over = timeout_s, ""
        self._folder = tempfile.TemporaryDirectory(prefix="brrr-ranks-", ignore_cleanup_errors=True)
        context = get_context("spawn")
        pipes = [context.Pipe() for _ in range(count)]
        ranks = [Rank(number, count, processor) for number in range(count)]
        self._processes = [
            context.Process(target=_serve, args=(theirs, rank), daemon=True)
            for (_, theirs), rank in zip(pipes, ranks, strict=True)
        ]
        self._pipes: list[Connection] = [ours for ours, _ in pipes]
        for process, (_, theirs) in zip(self._processes, pipes, strict=True):
            process.start()
            theirs.close()  # its other end is the process's alone: it closes when that dies
        self.call(_join, str(Path(self._folder.name) / "store"), timeout_s)

    def call(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`function(rank, *args)` in all ranks at once; their results in order.

        What one raises is raised here. Then, as for a rank that died (UnavailableError with its exit code), for no
        answer within `timeout_s`, and for Ctrl-C, all processes end: the others may wait for it for ever.
        """
        if self.over:
            raise UnavailableError(f"the processes have ended: {self.over}")
        try:
            for number, pipe in enumerate(self._pipes):
                self._alive(number, partial(pipe.send, (function, args)))
            return self._answers()
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}")
            raise

    def _answers(self) -> list[Any]:
        found: dict[int, Any] = {}
        until = time.monotonic() + self.timeout_s
        while missing := [number for number in range(len(self._pipes)) if number not in found]:
            ready = wait([self._pipes[number] for number in missing], max(0.0, until - time.monotonic()))
            if not ready:
                names = ", ".join(map(str, missing))
                raise UnavailableError(f"no answer within {self.timeout_s:g} s from rank {names} of {len(self._pipes)}")
            for number in (each for each in missing if self._pipes[each] in ready):
                found[number] = self._alive(number, self._pipes[number].recv)
                if isinstance(found[number], Exception):
                    raise found[number]
        return [found[number] for number in range(len(self._pipes))]

    def _alive(self, number: int, exchange: Callable[[], Any]) -> Any:
        try:
            return exchange()
        except (EOFError, OSError):
            self._processes[number].join(1.0)
            code = self._processes[number].exitcode
            raise UnavailableError(f"rank {number} of {len(self._pipes)} died with exit code {code}") from None

    def end(self, why: str = "end() was called") -> None:
        """Kill the processes, whatever they are at; they hold nothing that anybody misses."""
        self.over = self.over or why
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._folder.cleanup()


_here: dict[Processor, Ranks] = {}


def ranks_on(processor: Processor) -> Ranks:
    """RANKS of them on a kind of device, for this session: started once, and again where they have ended."""
    if processor not in _here or _here[processor].over:
        _here[processor] = Ranks(RANKS, processor)
    return _here[processor]


def end_ranks() -> None:
    """End those of this session, so that they hold no memory while something else is measured."""
    while _here:
        _here.popitem()[1].end()


def require_devices(count: int, processor: Processor) -> None:
    """UnavailableError where this host has fewer GPUs."""
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        raise UnavailableError("this torch is built without torch.distributed")
    if is_gpu(processor) and (torch.cuda.device_count() < count or not dist.is_nccl_available()):
        here = f"{torch.cuda.device_count()} GPUs are here, {'with' if dist.is_nccl_available() else 'without'} NCCL"
        raise UnavailableError(f"it takes {count} GPUs of one host and NCCL; {here}. The recording and the CPU show it")


def _join(rank: Rank, store: str, timeout_s: float) -> None:
    """Take the rank's device and its share of the CPU, and meet the others."""
    os.environ |= SETTINGS | ({"GLOO_SOCKET_IFNAME": LOOPBACK[sys.platform]} if sys.platform in LOOPBACK else {})
    import torch
    import torch.distributed as dist

    torch.set_num_threads(max(1, cpu_count() // rank.count))
    if is_gpu(rank.processor):
        torch.cuda.set_device(rank.number)
    dist.init_process_group(
        "nccl" if is_gpu(rank.processor) else "gloo", store=dist.FileStore(store, rank.count), rank=rank.number,
        world_size=rank.count, timeout=timedelta(seconds=timeout_s),
    )  # fmt: skip
    rank.meet()


def _serve(pipe: Connection, rank: Rank) -> None:
    """Answer each function that is sent, until whoever sends them is gone; Ctrl-C is the sender's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = function(rank, *args)
        except Exception as error:
            known = isinstance(error, BrrrError) or type(error).__name__ == "OutOfMemoryError"
            answer = error if known else RuntimeError(f"rank {rank.number}: {type(error).__name__}: {error}")
        pipe.send(answer)
