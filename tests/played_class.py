"""A class without dask, for tests: workers that answer with made-up times, when a test lets them, and who asks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
import made_up
import uvicorn

from brrr.core.measurement import Processor
from brrr_course.classroom.connections import SilenceLimited
from brrr_course.classroom.gateway import Gateway
from brrr_course.classroom.store import ClassStore
from brrr_course.classroom.teacher import asked_by_lessons
from brrr_course.classroom.tokens import issue, of_class
from brrr_course.classroom.turns import Turns
from brrr_course.experiments import experiment
from brrr_course.sources.recording import RunDevice, RunInfo
from brrr_course.sources.rows import Row, to_cells

RUN = RunInfo("20260101-000000-000000", "2026-01-01T00:00:00+00:00", "0.2.0", (RunDevice("a CPU", "CPU-0"),))


def asks(size: int, *variants: str) -> dict[str, Any]:
    """What a student sends."""
    return {"experiment": "matmul", "variants": list(variants or ("cpu",)), "point": {"size": size}}


Client = httpx.AsyncClient
"""Of somebody with a token."""
QUESTION, ANOTHER = sorted(name for kind, name in asked_by_lessons() if kind == "guess")[:2]
"""What lessons ask: the gateway takes no answer to anything else."""


def answer(request: Mapping[str, Any], run: RunInfo = RUN, error: str = "") -> dict[str, Any]:
    """What a worker answers: made-up times, or an error of that class."""
    found = experiment(request["experiment"])
    rows = {}
    for name in request["variants"]:
        row = Row.of(request["point"], name, made_up.made_up(found, name, request["point"]), run.id, made_up.CPU.device)
        rows[name] = {"error": error, "reason": "made up"} if error else {"cells": to_cells(row, found)}
    return {**hello(run), "answers": rows, "seconds": 0.1}


def hello(run: RunInfo = RUN, **other: Any) -> dict[str, Any]:
    """What a worker says of its device."""
    return {"machine": asdict(replace(made_up.CPU, **other)), "run": asdict(run), "worker": "played"}


class Played:
    """So many workers; each takes the waiting point of the lowest rank when `release` lets it, or at once."""

    kind: Processor = "cpu"

    def __init__(self, workers: int = 1, *, at_once: bool = False, error: str = "") -> None:
        self.workers, self.at_once, self.error = workers, at_once, error
        self.on_start: Callable[[str], None] = lambda key: None
        self.measured: list[tuple[int, tuple[str, ...]]] = []
        self.measured_points: list[dict[str, Any]] = []
        self.places: list[str | None] = []
        self._waiting: list[tuple[float, int, str, dict[str, Any], asyncio.Future[dict[str, Any]]]] = []
        self.running: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._count = 0

    async def hellos(self) -> list[dict[str, Any]]:
        return [hello()]

    def submit(self, key: str, request: Mapping[str, Any], rank: float, place: str | None) -> Awaitable[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._count += 1
        self.places.append(place)
        self._waiting.append((rank, self._count, key, dict(request), future))
        self._fill()
        return future

    def _fill(self) -> None:
        while len(self.running) < self.workers and self._waiting:
            self._waiting.sort(key=lambda each: each[:2])
            _, _, key, request, future = self._waiting.pop(0)
            self.running[key] = (request, future)
            asyncio.get_running_loop().call_soon(self.on_start, key)
            if self.at_once:
                asyncio.get_running_loop().call_later(0.002, self.release)

    def release(self) -> None:
        """The worker that began first ends its point."""
        key = next(iter(self.running))
        request, future = self.running.pop(key)
        self.measured.append((request["point"].get("size", 0), tuple(request["variants"])))
        self.measured_points.append(request["point"])
        future.set_result(answer(request, error=self.error))
        self._fill()

    async def stop(self, key: str) -> None:
        futures = [future for *_, name, _, future in self._waiting if name == key]
        self._waiting = [each for each in self._waiting if each[2] != key]
        if key in self.running:
            futures.append(self.running.pop(key)[1])
        for future in futures:
            future.set_result({})
        self._fill()

    async def close(self) -> None:
        """Nothing was started."""


class Clock:
    """What stands in for `time` in the classroom's modules."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.time = time.time

    def monotonic(self) -> float:
        return self.now_s


_open: list[ClassStore] = []


async def settle() -> None:
    """Let every task that can go on do so, and what stores do in their threads."""
    for _ in range(12):
        for store in _open:
            await store.writing(int)
            await store.reading(int)
        await asyncio.sleep(0)


class Classroom:
    """A gateway over played workers, and clients with tokens."""

    def __init__(self, path: Path, engine: Played, **options: Any) -> None:
        self.store, self.engine = ClassStore(path), engine
        self.turns = Turns(self.store, engine)
        self.gateway = Gateway(self.turns, of_class(self.store), **options)

    def client(self, name: str, **more: Any) -> Client:
        """Somebody with a token."""
        headers = {"Authorization": f"Bearer {issue(self.store, name, **more)}"}
        transport = httpx.ASGITransport(app=self.gateway.app, raise_app_exceptions=True)
        return Client(transport=transport, base_url="http://class", headers=headers)

    def release(self) -> None:
        """Let the worker end its point, from another thread."""
        self.loop.call_soon_threadsafe(self.engine.release)

    async def __aenter__(self) -> Classroom:
        self.loop = asyncio.get_running_loop()
        _open.append(self.store)
        await self.turns.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        _open.remove(self.store)
        await self.turns.close()
        self.store.close()


@contextmanager
def served(path: Path, engine: Played, **options: Any) -> Iterator[tuple[str, str, Classroom]]:
    """A gateway that really listens, in a thread: its address, a token, and the class."""
    ready, box = threading.Event(), {}

    async def run() -> None:
        async with Classroom(path, engine, **options) as room:
            server = uvicorn.Server(
                uvicorn.Config(room.gateway.app, port=0, log_level="error", lifespan="off", http=SilenceLimited)
            )
            server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
            box.update(room=room, server=server, token=issue(room.store, "ada"))
            task = asyncio.create_task(server._serve())
            while not server.started:
                await asyncio.sleep(0.01)
            box["port"] = server.servers[0].sockets[0].getsockname()[1]
            ready.set()
            await task

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield f"http://127.0.0.1:{box['port']}", box["token"], box["room"]
    finally:
        box["server"].should_exit = True
        thread.join(30)
