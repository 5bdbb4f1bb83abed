"""The workers: a cluster of dask's in this process tree, or one that the teacher started elsewhere.

A worker process for each GPU with one thread, so that a GPU measures one thing at a time. dask queues the points by
priority, starts a killed worker again, and gives its point to another; nothing of a student's reaches it but names and
numbers that `asked.parse` let through.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Processor
from brrr.core.private import private_folder
from brrr_course.classroom import worker
from brrr_course.classroom.child import CORES
from brrr_course.classroom.clock import never_back


class Engine(Protocol):
    """What measures; `Dask` in earnest, something quicker in tests."""

    kind: Processor
    on_start: Callable[[str], None]

    async def hellos(self) -> list[Mapping[str, Any]]:
        """The devices of the workers that there are."""

    def submit(self, key: str, request: Mapping[str, Any], rank: float, place: str | None) -> Awaitable[dict[str, Any]]:
        """Measure, the lowest rank first, and if it can be on that worker; an empty answer where it was stopped."""

    async def stop(self, key: str) -> None:
        """Take it out of the queue, or stop it where it runs."""

    async def close(self) -> None:
        """End what this process started."""


class Dask:
    """Workers behind a scheduler of dask's: `await Dask.embedded(["0", "1"])` starts one on this machine.

    >>> engine = await Dask.embedded([])  # doctest: +SKIP
    """

    def __init__(self, client: Any, cluster: Any, kind: Processor, limit_s: float, meeting: Any = None) -> None:
        self._client, self._cluster, self.kind, self._limit_s = client, cluster, kind, limit_s
        self._meeting = meeting
        self._futures: dict[str, Any] = {}
        self.on_start: Callable[[str], None] = lambda key: None
        client.subscribe_topic(worker.TOPIC, lambda event: self.on_start(event[1]["key"]))

    @classmethod
    async def embedded(cls, gpus: Sequence[str], *, workers: int = 1, limit_s: float = 120.0,
                       dashboard: int | None = None) -> Dask:  # fmt: skip
        """Start a scheduler and its workers, on this machine alone: one a GPU, or some of the CPU where there is none.

        Only processes of this user can talk to them, over `sockets`: a scheduler runs any code that it is sent, and
        students may have accounts on this machine.
        """
        import dask
        from distributed import Client, Nanny, Scheduler
        from distributed.deploy.spec import SpecCluster

        from brrr_course.classroom import sockets

        never_back()
        scratch = str(private_folder("dask"))  # workers import from it, and this process as long as they run
        meeting = tempfile.TemporaryDirectory(prefix="brrr-")  # a socket's path has a hundred letters at most
        dask.config.set({"temporary-directory": scratch, sockets.FOLDER: meeting.name})
        devices = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [{"CUDA_VISIBLE_DEVICES": ""}] * workers
        share = _shares(len(devices))
        quiet = {"distributed.worker.profile.enabled": False}  # it wakes a hundred times a second
        dask.config.set(quiet)
        options = {"host": sockets.HOST, "protocol": sockets.PROTOCOL}
        preload = ["brrr_course.classroom.clock"]
        nanny = {**options, "nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL, "config": quiet,
                 "local_directory": scratch, "preload": preload, "worker_class": sockets.SilentWorker}  # fmt: skip
        specs = {
            number: {"cls": Nanny, "options": {**nanny, "env": {**device, CORES: share[number]}}}
            for number, device in enumerate(devices)
        }
        pages = {"dashboard": bool(dashboard), "dashboard_address": f"127.0.0.1:{dashboard}"}
        scheduler = {"cls": Scheduler if dashboard else sockets.SilentScheduler, "options": {**options, **pages}}
        cluster = await SpecCluster(workers=specs, scheduler=scheduler, asynchronous=True, silence_logs=logging.ERROR)
        sys.path[:] = [each for each in sys.path if not each.startswith(scratch)]
        client = await Client(cluster, asynchronous=True)
        await client.wait_for_workers(len(devices))
        return cls(client, cluster, "cuda" if gpus else "cpu", limit_s, meeting)

    @classmethod
    async def joined(cls, address: str, kind: Processor, limit_s: float = 120.0) -> Dask:
        """Use the workers of a scheduler that dask's own commands started; its certificates are in dask's settings."""
        from distributed import Client

        never_back()
        try:
            client = await Client(address, asynchronous=True, timeout=10)
            await client.wait_for_workers(1, timeout=60)
        except (OSError, TimeoutError, TypeError, ValueError) as error:  # TypeError: no certificates for tls
            raise UnavailableError(
                f"--scheduler {address}: no scheduler with a worker answers there: {error}"
            ) from error
        return cls(client, None, kind, limit_s)

    async def hellos(self) -> list[Mapping[str, Any]]:
        """The devices of the workers that there are now; those that do not answer are left out, unless all are."""
        found = await self._client.run(worker.hello, self.kind, on_error="return")
        good: list[Mapping[str, Any]] = [
            {**hello, "worker": address} for address, hello in found.items() if isinstance(hello, dict) and hello
        ]
        if not good:
            raise UnavailableError(str(next(iter(found.values()), "there is no worker")))
        return good

    async def submit(self, key: str, request: Mapping[str, Any], rank: float, place: str | None) -> dict[str, Any]:
        """What `worker.measure` answers, nothing where it was stopped; UnavailableError where it ends processes."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        future = self._client.submit(
            worker.measure, key, dict(request), self.kind, self._limit_s, key=key, priority=-rank, retries=1,
            workers=[place] if place else None, allow_other_workers=bool(place),
        )  # fmt: skip
        self._futures[key] = future
        try:
            found = await future
            assert isinstance(found, dict)
            stopped = any(answer.get("error") == "CancelledError" for answer in found["answers"].values())
            return {} if stopped else found
        except FutureCancelledError:
            return {}
        except (KilledWorker, worker.ChildDiedError) as error:
            where = f"{request['experiment']} at {request['point']}"
            raise UnavailableError(f"{where}: measuring it ended the process each time") from error
        finally:
            self._futures.pop(key).release()

    async def stop(self, key: str) -> None:
        """Cancel the task; a worker that is at it already kills the child that measures."""
        if future := self._futures.get(key):
            with suppress(Exception):  # it may just have ended
                await self._client.run(worker.stop, key, on_error="ignore")
            await future.cancel()

    async def close(self) -> None:
        """End the client, and the workers if this process started them."""
        await self._client.close()
        if self._cluster is not None:
            await self._cluster.close()
            self._meeting.cleanup()


def _shares(workers: int) -> list[str]:
    """Each worker's cores, so that neighbours do not disturb each other; one core stays free where there are many.

    >>> [len(share.split(",")) > 0 for share in _shares(2)]
    [True, True]
    """
    if not hasattr(os, "sched_getaffinity"):
        return [""] * workers
    cores = sorted(os.sched_getaffinity(0))
    free = cores[1:] if len(cores) >= 2 * workers + 2 else cores
    each = max(1, len(free) // workers)
    mine = [free[number * each % len(free) :][:each] for number in range(workers)]
    return [",".join(map(str, share)) for share in mine]
