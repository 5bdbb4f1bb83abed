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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any
from unittest.mock import patch

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Processor
from brrr.core.private import end_with
from brrr.gpu import is_gpu, synchronize
from brrr.gpu.probe import cpu_count
from brrr_course.nouns.experiment import Variant

RANKS = 2
"""A measurement has so many."""
TIMEOUT_S = 120.0
"""No call of a measurement takes as long; starting takes seconds, the first call of NCCL some more."""
SETTINGS = {"NCCL_NVLS_ENABLE": "0"}
"""Multicast through NVLink's switches is off: a virtual machine may not have it, and two GPUs gain little by it."""
LOOPBACK = {"linux": {"GLOO_SOCKET_IFNAME": "lo"}, "darwin": {"GLOO_SOCKET_IFNAME": "lo0"}}
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

    def done(self) -> None:
        """Wait for what the device does."""
        if is_gpu(self.processor):
            synchronize()


class Ranks:
    """The processes: `call` runs a function of some module in all of them, each with its `Rank`."""

    def __init__(self, count: int, processor: Processor, timeout_s: float = TIMEOUT_S) -> None:
        """UnavailableError where there are fewer GPUs than `count`, or the ranks cannot meet."""
        require_devices(count, processor)
        self.processor, self.timeout_s, self.over, self.holds = processor, timeout_s, "", object()
        self._folder = tempfile.TemporaryDirectory(prefix="brrr-ranks-", ignore_cleanup_errors=True)
        self._pipes, self._processes, context = list[Connection](), [], get_context("spawn")
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                self._pipes.append(ours)
                self._processes.append(
                    context.Process(
                        target=_serve, args=(theirs, Rank(number, count, processor), os.getpid()), daemon=True
                    )
                )
                with _bare_main():
                    self._processes[-1].start()
                theirs.close()  # that end is the process's alone: it closes when that dies
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}")
            raise
        self.call(_join, f"{self._folder.name}/store", timeout_s)

    def call(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`function(rank, *args)` in all ranks at once; their results in order.

        What one raises is raised here. Then, as for a rank that died (UnavailableError with its exit code), for no
        answer within `timeout_s`, and for Ctrl-C, all processes end: the others may wait for it for ever.
        """
        if self.over:
            raise UnavailableError(f"the processes have ended: {self.over}")
        found: dict[int, Any] = {}
        try:
            for pipe in self._pipes:
                with suppress(OSError):  # of a process that is dead, which its answer tells
                    pipe.send((function, args))
            while left := [number for number in range(len(self._pipes)) if number not in found]:
                ready = wait([self._pipes[number] for number in left], self.timeout_s)
                if not ready:
                    raise UnavailableError(
                        f"no answer within {self.timeout_s:g} s from rank {left} of {len(self._pipes)}"
                    )
                found |= {number: self._answer(number) for number in left if self._pipes[number] in ready}
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}")
            raise
        return [found[number] for number in sorted(found)]

    def _answer(self, number: int) -> Any:
        try:
            answer = self._pipes[number].recv()
        except (EOFError, OSError):
            answer = UnavailableError(f"rank {number} of {len(self._pipes)} is gone")
        if not isinstance(answer, Exception):
            return answer
        for each, process in enumerate(self._processes):  # where one died, the others only say that they lost it
            process.join(0.2)
            if process.exitcode is not None:
                raise UnavailableError(f"rank {each} of {len(self._pipes)} died with exit code {process.exitcode}")
        raise answer

    def end(self, why: str = "end() was called") -> None:
        """Kill the processes, whatever they are at; they hold nothing that anybody misses."""
        self.over = self.over or why.rstrip(": ")  # as Ctrl-C says nothing more
        for pipe, process in zip(self._pipes, self._processes, strict=False):
            if process.pid is not None:
                process.kill()
                process.join()
            pipe.close()
        self._folder.cleanup()


@contextmanager
def _bare_main() -> Iterator[None]:
    """A process that is spawned runs the caller's script once more, and ranks need nothing of it."""
    kept, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        with patch.dict(os.environ, PYTHONSAFEPATH="1"):  # nothing from the current folder
            yield
    finally:
        sys.modules["__main__"] = kept


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


def variants_of(labels: Mapping[str, str]) -> tuple[Variant, ...]:
    """The variants of ways that ranks run: on GPUs, and by processes on the CPU, which stand in for them."""
    gpu = (Variant(way, label, "cuda", timer="own", prepare_s=0.4) for way, label in labels.items())
    cpu = (Variant(f"cpu-{way}", f"on the CPU: {label}", "cpu", timer="own", prepare_s=0.4, implementation=way,
                   stands_in_for=way.replace("-", " ")) for way, label in labels.items())  # fmt: skip
    return (*gpu, *cpu)


def require_devices(count: int, processor: Processor) -> None:
    """UnavailableError where this host has fewer GPUs, or torch no NCCL for them."""
    import torch

    here = torch.cuda.device_count()
    if is_gpu(processor) and here < count:
        raise UnavailableError(
            f"it takes {count} GPUs of one host, and this one has {here}. Recordings show it, and processes on the CPU"
        )
    if is_gpu(processor) and not torch.distributed.is_nccl_available():
        raise UnavailableError("this build of torch has no NCCL, by which GPUs exchange; recordings show it")


def _join(rank: Rank, store: str, timeout_s: float) -> None:
    """Take the rank's device and its share of the CPU, and meet the others."""
    os.environ |= SETTINGS | LOOPBACK.get(sys.platform, {})
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    torch.set_num_threads(max(1, cpu_count() // rank.count))
    how, device = "gloo", None
    if is_gpu(rank.processor):
        how, device = "nccl", torch.device(rank.device)
        torch.cuda.set_device(device)
    dist.init_process_group(how, None, timedelta(seconds=timeout_s), rank.count, rank.number,
                            FileStore(store, rank.count), device_id=device)  # fmt: skip
    dist.barrier()


def _serve(pipe: Connection, rank: Rank, parent: int) -> None:
    """Answer each function that is sent, until whoever sends them is gone; Ctrl-C is the sender's."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        while True:
            function, args = pipe.recv()
            try:
                answer = function(rank, *args)
            except Exception as error:
                known = isinstance(error, BrrrError) or type(error).__name__ == "OutOfMemoryError"
                answer = error if known else RuntimeError(f"rank {rank.number}: {type(error).__name__}: {error}")
            pipe.send(answer)
