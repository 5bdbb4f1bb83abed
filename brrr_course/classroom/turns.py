"""Whose turn it is: requests of students become jobs for the workers, each point once, and fairly.

Start-time fair queueing (Goyal, Vin and Cheng, 1997): a job's rank is one more than that of the same user's job before
it, and never less than that of the job begun last. So who comes late, or rarely, stands among the first, behind at
most one point of each other student; who floods stands behind themselves.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from brrr.core.errors import BrrrError, RecordingError
from brrr.core.files import typed
from brrr_course.classroom.asked import Asked, loads, parse
from brrr_course.classroom.engine import Engine
from brrr_course.classroom.store import Answer, Store, device_of
from brrr_course.sources.recording import Machine, RunInfo

LOOK_AGAIN_S = 0.25
"""How often a request looks for what another gateway measures."""
KEPT_S = 900.0
"""So long an answer waits to be fetched."""
MOST_OPEN = 64
MOST_WAITING = 4000
"""Requests that a user may have open, and all together."""
WATCH_S = 10.0


class TooManyError(BrrrError):
    """Too many requests of one user, or of all; later there is room again."""


@dataclass
class Job:
    """Variants of a point that a worker measures in one go; `key` is what the workers know it by."""

    asked: Asked
    user: str
    rank: float
    number: int
    wanted_by: set[str]
    key: str = ""
    began_s: float | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    answers: Mapping[str, Answer] = field(default_factory=dict)


@dataclass
class Request:
    """What one student asked for, and how far it is."""

    id: str
    user: str
    asked: Asked
    answers: dict[str, Answer] = field(default_factory=dict)
    ended_s: float | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Wake who waits for news of it."""
        self.changed.set()
        self.changed = asyncio.Event()


class Turns:
    """The requests and jobs of one gateway, over its workers and the class's file.

    >>> turns = Turns(Store(Path("class.db")), await Dask.embedded([]))  # doctest: +SKIP
    """

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store, self.engine = store, engine
        self.machine: Machine | None = None
        self.run: RunInfo
        """What the class's software is read from, once there is a machine."""
        self.devices: dict[str, str] = {}
        self.workers: list[str] = []
        self.requests: dict[str, Request] = {}
        self.trouble = ""
        self.measured = 0
        self._jobs: dict[tuple[str, str], Job] = {}
        self._last: dict[str, float] = {}
        self._now = 0.0
        self._numbers = count()
        self._tasks: set[asyncio.Task[None]] = set()
        engine.on_start = self._began

    async def open(self) -> None:
        """Learn the devices, and go on with what a gateway before this one left undone."""
        await self._look()
        self.store.hold()
        for identity, user, text in self.store.adopted():
            try:
                self._begin(Request(identity, user, parse(loads(text.encode()), self.engine.kind)))
            except BrrrError:  # this brrr does not know it any more
                self.store.forget(identity)
        self._keep(asyncio.create_task(self._watch()))

    async def close(self) -> None:
        """End the tasks; what is not measured stays in the file for the next gateway."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ask(self, user: str, asked: Asked) -> Request:
        """A new request; without an id, and ended, where everything is known. TooManyError above the limits."""
        known = self.store.answers(asked, self.devices)
        if len(known) == len(asked.variants):
            return Request("", user, asked, known, time.monotonic())
        waiting = [each for each in self.requests.values() if each.ended_s is None]
        if sum(each.user == user for each in waiting) >= MOST_OPEN or len(waiting) >= MOST_WAITING:
            raise TooManyError(
                f"{MOST_OPEN} requests of {user} are open, or {MOST_WAITING} of all: wait for one to end"
            )
        request = Request(secrets.token_urlsafe(16), user, asked)
        self.store.note(request.id, user, asked)
        self._begin(request)
        return request

    async def cancel(self, request: Request) -> None:
        """Nobody waits for it any more; a job that no other request wants is stopped."""
        if request.ended_s is not None:
            return
        assert request.task is not None
        request.task.cancel()
        self._end(request, "CancelledError", "was cancelled")
        for job in self._open():
            if request.id in job.wanted_by:
                job.wanted_by.discard(request.id)
                if not job.wanted_by:
                    await self.engine.stop(job.key)

    def state(self, request: Request) -> dict[str, Any]:
        """What a student is told: done with the answers, running, or waiting with the place in the queue."""
        told: dict[str, Any] = {"id": request.id, "state": "done", "answers": {}, "trouble": self.trouble}
        if request.ended_s is not None:
            return {**told, "answers": request.answers}
        mine = [job for job in self._open() if request.id in job.wanted_by]
        if any(job.began_s is not None for job in mine):
            return {**told, "state": "running"}
        line = self._line()
        place = min((line.index(job) for job in mine if job in line), default=len(line))
        return {**told, "state": "waiting", "place": place + 1, "of": max(len(line), place + 1)}

    @property
    def device(self) -> str:
        """The class's device with its software; empty until a worker has told it."""
        return f"{self.machine.device} ({self.run.describe()})" if self.machine else ""

    def overview(self) -> dict[str, Any]:
        """For the teacher: what runs, who waits for what, and which workers there are."""
        running = [job for job in self._open() if job.began_s is not None]
        return {
            "device": self.device,
            "workers": self.workers,
            "running": [_told(job) for job in running],
            "waiting": [_told(job) for job in self._line()],
            "measured": self.measured,
            "trouble": self.trouble,
        }

    # -- one request -------------------------------------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        self.requests[request.id] = request
        request.task = self._keep(asyncio.create_task(self._fulfil(request)))

    def _keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """The loop holds its tasks weakly; this one holds them until they end."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _fulfil(self, request: Request) -> None:
        """Until every variant has an answer: take what is known, wait for jobs, and begin one for what nobody does."""
        asked, found = request.asked, request.answers
        try:
            while missing := self._missing(asked, found):
                new = [name for name in missing if (asked.key, name) not in self._jobs]
                if mine := self.store.claim(asked, new, self.devices) if new else []:
                    self._submit(Asked(asked.experiment, asked.point, tuple(mine)), request)
                jobs = {id(job): job for name in missing if (job := self._jobs.get((asked.key, name)))}.values()
                for job in jobs:
                    job.wanted_by.add(request.id)
                    await self._hasten(job, request.user)
                for job in jobs:
                    await job.done.wait()
                    found |= {name: answer for name, answer in job.answers.items() if name in asked.variants}
                if not jobs and not mine:
                    await asyncio.sleep(LOOK_AGAIN_S)  # another gateway measures it
        except BrrrError as error:
            self._end(request, type(error).__name__, str(error))
        else:
            self._end(request)

    def _missing(self, asked: Asked, found: dict[str, Answer]) -> list[str]:
        found |= {name: answer for name, answer in self.store.answers(asked, self.devices).items() if name not in found}
        return [name for name in asked.variants if name not in found]

    def _end(self, request: Request, error: str = "", reason: str = "") -> None:
        """Answer it, with an error where something is still missing."""
        for name in request.asked.variants:
            request.answers.setdefault(name, {"error": error, "reason": reason})
        request.ended_s = time.monotonic()
        request.tell()
        self._write(self.store.forget, request.id)

    # -- one job -----------------------------------------------------------------------------------------------------

    def _open(self) -> list[Job]:
        return list({id(job): job for job in self._jobs.values()}.values())

    def _line(self) -> list[Job]:
        """The jobs that wait, in their order."""
        waiting = (job for job in self._open() if job.began_s is None)
        return sorted(waiting, key=lambda job: (job.rank, job.number))

    def _rank(self, user: str) -> float:
        return max(self._now, self._last.get(user, self._now - 1) + 1)

    def _submit(self, asked: Asked, request: Request) -> None:
        rank = self._last[request.user] = self._rank(request.user)
        job = Job(asked, request.user, rank, next(self._numbers), {request.id})
        self._jobs |= {(asked.key, name): job for name in asked.variants}
        self._keep(asyncio.create_task(self._measure(job)))

    async def _hasten(self, job: Job, user: str) -> None:
        """A waiting job that is wanted by somebody whose turn comes earlier moves up; dask takes it as a new one."""
        rank = self._rank(user)
        if job.began_s is None and job.user != user and rank < job.rank:
            job.rank = self._last[user] = rank
            await self.engine.stop(job.key)

    async def _measure(self, job: Job) -> None:
        asked = job.asked
        request = {"experiment": asked.experiment, "point": dict(asked.point), "variants": list(asked.variants)}
        try:
            while job.wanted_by:  # stopped while somebody wants it: again, with its new rank
                job.key, job.began_s = f"measure-{secrets.token_hex(8)}", None
                place = self.devices.get(self.store.device_at(asked))
                if told := await self.engine.submit(job.key, request, job.rank, place):
                    job.answers = self._kept(job, told)
                    break
        except BrrrError as error:
            job.answers = {name: {"error": type(error).__name__, "reason": str(error)} for name in asked.variants}
        except Exception as error:  # nobody waits for this task: students must hear of it
            self.trouble = f"{type(error).__name__}: {error}"
            job.answers = {name: {"error": "UnavailableError", "reason": self.trouble} for name in asked.variants}
        finally:
            for name in asked.variants:
                del self._jobs[asked.key, name]
            self._write(self.store.release, asked)
            job.done.set()

    def _kept(self, job: Job, told: Mapping[str, Any]) -> Mapping[str, Answer]:
        device = self._learn(told)
        self.measured += sum("cells" in answer for answer in told["answers"].values())
        answers: Mapping[str, Answer] = told["answers"]
        self._write(self.store.keep, job.asked, answers, told["run"], device, told["seconds"], told["machine"])
        return {name: {**answer, "device": device} for name, answer in answers.items()}

    def _began(self, key: str) -> None:
        for job in self._open():
            if job.key == key and job.began_s is None:
                job.began_s = time.monotonic()
                self._now = max(self._now, job.rank)
                for request in job.wanted_by:
                    self.requests[request].tell()

    # -- the workers and the file ------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Now and then: workers come and go, a full disk has room again, answers that nobody fetched are dropped."""
        while True:
            await asyncio.sleep(WATCH_S)
            with suppress(BrrrError):
                await self._look()
            self._write(self.store.save)
            old_s = time.monotonic() - KEPT_S
            self.requests = {each.id: each for each in self.requests.values() if (each.ended_s or old_s) >= old_s}

    async def _look(self) -> None:
        hellos = await self.engine.hellos()
        self.workers = sorted(hello["worker"] for hello in hellos)
        for hello in hellos:
            self._learn(hello)

    def _learn(self, hello: Mapping[str, Any]) -> str:
        """The device of a worker; RecordingError where it is not the class's: its times would not compare."""
        machine, run = typed(Machine, hello["machine"]), typed(RunInfo, hello["run"])
        if self.machine is None:
            self.machine, self.run = machine, run
        self.machine.require_joinable(machine)
        if run.software != self.run.software:
            raise RecordingError(f"a worker has {run.describe()}, the class's others {self.run.describe()}")
        device = device_of(machine, run)
        self.devices[device] = hello["worker"]
        return device

    def _write(self, change: Callable[..., object], *values: object) -> None:
        """Change the file; where the disk refuses, go on, and say so to everybody."""
        try:
            change(*values)
            if not self.store.unsaved:
                self.trouble = ""
        except BrrrError as error:
            self.trouble = str(error)


def _told(job: Job) -> dict[str, Any]:
    since = None if job.began_s is None else round(time.monotonic() - job.began_s, 1)
    return {"user": job.user, "experiment": job.asked.experiment, "point": job.asked.point,
            "variants": job.asked.variants, "running_s": since, "others": len(job.wanted_by) - 1}  # fmt: skip
