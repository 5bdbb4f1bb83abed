"""Whose turn it is: requests of students become jobs for the workers, each point once, and fairly.

Start-time fair queueing (Goyal, Vin and Cheng, 1997): a job's rank is the seconds of work that the same user had before
it, and never less than the rank of the job begun last. So who comes late, or rarely, stands among the first, behind at
most one point of each other student; who floods, or asks for slow points, stands behind themselves. Who is far ahead
of others also waits a moment at an idle worker, for one who has just been answered may well ask again.
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
from brrr_course.classroom.engine import Engine
from brrr_course.classroom.query import Query, loads, parse
from brrr_course.classroom.store import Answer, ClassStore, device_of
from brrr_course.classroom.worker import HARMLESS
from brrr_course.sources.plan import DurationEstimator
from brrr_course.sources.recording import Machine, RunInfo

LOOK_AGAIN_S = 0.25
"""How often a request looks for what another gateway measures."""
KEPT_S = 900.0
"""So long an answer waits to be fetched."""
MOST_OPEN = 64
MOST_WAITING = 4000
"""Requests that a user may have open, and all together."""
FEW_OPEN = 4
"""So many each may have open even then."""
WATCH_S = 10.0
AHEAD_S = 1.0
"""A job goes to the workers, who then need not wait for it, so many seconds of work before its turn."""
PATIENCE = 0.1
"""A worker stays idle for so much of a job's time and its user's lead, where others who are owed a turn may ask."""
FINE_S, FINE_TIMES, BESIDE_S = 5.0, 3.0, 60.0
"""Whose point ends the process that measures waits so long for the next one, and so many times as long as the process
takes to start again, if others had an answer within the last minute."""
TROUBLE = "the gateway has trouble: your teacher sees which, by `brrr class status`"


class TooManyError(BrrrError):
    """Too many requests of one user, or of all; later there is room again."""


@dataclass
class Job:
    """Variants of a point that a worker measures in one go; `key` is what the workers know it by."""

    asked: Query
    user: str
    rank: float
    number: int
    wanted_by: set[str]
    seconds: float
    alone: bool = True
    go: asyncio.Event = field(default_factory=asyncio.Event)
    key: str = ""
    began_s: float | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    answers: Mapping[str, Answer] = field(default_factory=dict)


@dataclass
class Request:
    """What one student asked for, and how far it is."""

    id: str
    user: str
    asked: Query
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

    def __init__(self, store: ClassStore, engine: Engine) -> None:
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
        self._had: dict[str, float] = {}
        self._answered_s: dict[str, float] = {}
        self._now = 0.0
        self._held: dict[int, Job] = {}
        self._sent = 0
        self._owes, self._fined_until_s = "", dict[str, float]()
        self._again: asyncio.TimerHandle | None = None
        self._estimator = DurationEstimator()
        self._numbers = count()
        self._claiming = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        engine.on_start = self._began

    async def open(self) -> None:
        """Learn the devices, and go on with what a gateway before this one left undone."""
        await self._look()
        await self.store.writing(self.store.hold)
        for identity, user, text in await self.store.writing(self.store.adopted):
            try:
                self._begin(Request(identity, user, parse(loads(text.encode()), self.engine.kind)))
            except BrrrError:  # this brrr does not know it any more
                self._write(self.store.forget, identity)
        self._keep(asyncio.create_task(self._watch()))

    async def close(self) -> None:
        """End the tasks; what is not measured stays in the file for the next gateway."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ask(self, user: str, asked: Query) -> Request:
        """A new request; without an id, and ended, where everything is known. TooManyError above the limits."""
        known = await self.store.reading(self.store.answers, asked, tuple(self.devices))
        if len(known) == len(asked.variants):
            return Request("", user, asked, known, time.monotonic())
        waiting = [each for each in self.requests.values() if each.ended_s is None]
        most = MOST_OPEN if len(waiting) < MOST_WAITING else FEW_OPEN
        if sum(each.user == user for each in waiting) >= most:
            raise TooManyError(f"{most} requests of {user} are open, and no more at a time: wait for one to end")
        request = Request(secrets.token_urlsafe(16), user, asked)
        self.requests[request.id] = request
        try:
            await self.store.writing(self.store.note, request.id, user, asked)
        except BaseException:
            del self.requests[request.id]
            raise
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
                    if job.began_s is not None:
                        self._fine(request.user)
                    self._go(job)
                    await self.engine.stop(job.key)

    def state(self, request: Request) -> dict[str, Any]:
        """What a student is told: done with the answers, running, or waiting with the place in the queue."""
        told: dict[str, Any] = {"id": request.id, "state": "done", "answers": {},
                                "trouble": TROUBLE if self.trouble else ""}  # fmt: skip
        if request.ended_s is not None:
            return {**told, "answers": request.answers}
        mine = [job for job in self._open() if request.id in job.wanted_by]
        if any(job.began_s is not None for job in mine):
            return {**told, "state": "running"}
        line = self._line()
        before = sum(job.rank <= self._rank(request.user) for job in line)  # while it has no job yet
        place = min((line.index(job) for job in mine if job in line), default=before)
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
            while missing := await self._missing(asked, found):
                async with self._claiming:  # of two that miss the same, one claims it
                    new, mine = [name for name in missing if (asked.key, name) not in self._jobs], list[str]()
                    if new:
                        mine = await self.store.writing(self.store.claim, asked, new, tuple(self.devices))
                    if mine:
                        self._submit(Query(asked.experiment, asked.point, tuple(mine)), request)
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

    async def _missing(self, asked: Query, found: dict[str, Answer]) -> list[str]:
        known = await self.store.reading(self.store.answers, asked, tuple(self.devices))
        found |= {name: answer for name, answer in known.items() if name not in found}
        return [name for name in asked.variants if name not in found]

    def _end(self, request: Request, error: str = "", reason: str = "") -> None:
        """Answer it, with an error where something is still missing."""
        for name in request.asked.variants:
            request.answers.setdefault(name, {"error": error, "reason": reason})
        request.ended_s = self._answered_s[request.user] = time.monotonic()
        request.tell()
        self._write(self.store.forget, request.id)

    # -- one job -----------------------------------------------------------------------------------------------------

    def _open(self) -> list[Job]:
        return list({id(job): job for job in self._jobs.values()}.values())

    def _line(self) -> list[Job]:
        """The jobs that wait, in their order."""
        waiting = (job for job in self._open() if job.began_s is None)
        return sorted(waiting, key=_order)

    def _rank(self, user: str) -> float:
        return max(self._now, self._had.get(user, 0.0))

    def _charge(self, user: str, seconds: float) -> None:
        """So much more, or less, of the workers' time was a user's than was expected."""
        self._had[user] = self._rank(user) + seconds
        for job in self._open():
            if job.user == user and job.began_s is None:
                job.rank = max(self._now, job.rank + seconds)

    def _account(self, job: Job, told: Mapping[str, Any]) -> None:
        """What a job really took is its user's, and what it took to start is theirs who ended the process before."""
        seconds = told["seconds"]
        if self._owes:
            seconds = min(seconds, job.seconds)  # the first in a fresh process also loads what it needs
        else:
            self._estimator.learn(job.asked.step(), seconds)
        self._charge(job.user, seconds - job.seconds)
        if self._owes and job.began_s is not None:
            self._fined_until_s[self._owes] += FINE_TIMES * max(0.0, time.monotonic() - job.began_s - seconds)
        self._owes = ""
        if any(answer.get("error", HARMLESS[0]) not in HARMLESS for answer in told["answers"].values()):
            self._fine(job.user)

    def _fine(self, user: str) -> None:
        self._fined_until_s[user] = max(self._fined_until_s.get(user, 0.0), time.monotonic()) + FINE_S
        self._owes = user

    def _fined(self, job: Job) -> bool:
        """Whether it waits because of what its user did, while others are there; not if another wants it too."""
        now_s = time.monotonic()
        users = {self.requests[each].user for each in job.wanted_by}
        beside = any(then_s > now_s - BESIDE_S for user, then_s in self._answered_s.items() if user != job.user)
        return beside and users <= {job.user} and self._fined_until_s.get(job.user, 0.0) > now_s

    def _submit(self, asked: Query, request: Request) -> None:
        rank, seconds = self._rank(request.user), self._estimator.seconds(asked.step())
        self._had[request.user] = rank + seconds
        job = Job(asked, request.user, rank, next(self._numbers), {request.id}, seconds)
        self._jobs |= {(asked.key, name): job for name in asked.variants}
        self._keep(asyncio.create_task(self._measure(job)))

    async def _hasten(self, job: Job, user: str) -> None:
        """A waiting job that is wanted by somebody whose turn comes earlier moves up; dask takes it as a new one."""
        rank = self._rank(user)
        if job.began_s is None and job.user != user and rank < job.rank:
            job.rank, self._had[user] = rank, rank + job.seconds
            self._let()
            await self.engine.stop(job.key)

    def _let(self) -> None:
        """Let the jobs go to the workers that are near their turn, and for an idle worker the first of the others."""
        if self._again is not None:
            self._again.cancel()
        for job in sorted(self._held.values(), key=_order):
            idle = self._sent < max(1, len(self.workers))
            if job.user in self._fined_until_s and self._fined(job):
                continue
            if job.rank > self._now + AHEAD_S and (not idle or self._others_may_ask(job)):
                break
            self._go(job)
        if self._held and self._sent < max(1, len(self.workers)):
            self._again = asyncio.get_running_loop().call_later(0.05, self._let)

    def _go(self, job: Job) -> None:
        if self._held.pop(job.number, None):
            self._sent += 1
            job.go.set()

    def _others_may_ask(self, job: Job) -> bool:
        """Whether somebody was answered just now who is owed a turn before this job."""
        since_s = time.monotonic() - PATIENCE * (job.seconds + job.rank - self._now)
        lately = (user for user, then_s in self._answered_s.items() if then_s > since_s and user != job.user)
        return any(self._rank(user) < job.rank for user in lately)

    async def _measure(self, job: Job) -> None:
        asked = job.asked
        request = {"experiment": asked.experiment, "point": dict(asked.point), "variants": list(asked.variants)}
        try:
            while job.wanted_by:  # stopped while somebody wants it: again, with its new rank
                job.key, job.began_s, job.alone = f"measure-{secrets.token_hex(8)}", None, True
                place = self.devices.get(await self.store.reading(self.store.device_at, asked))
                self._held[job.number] = job
                job.go.clear()
                self._let()
                await job.go.wait()
                told: Mapping[str, Any] = {}
                try:
                    told = await self.engine.submit(job.key, request, job.rank, place) if job.wanted_by else {}
                finally:
                    self._sent -= 1
                    users = (self.requests[each].user for each in job.wanted_by)
                    self._answered_s |= dict.fromkeys(users, time.monotonic())
                    if told:
                        self._account(job, told)
                    self._let()
                if told:
                    job.answers = await self._kept(job, told)
                    break
        except BrrrError as error:  # such as a point that ends the process each time
            self._fine(job.user)
            job.answers = {name: {"error": type(error).__name__, "reason": str(error)} for name in asked.variants}
        except Exception as error:  # nobody waits for this task: students must hear of it
            self.trouble = f"{type(error).__name__}: {error}"
            job.answers = {name: {"error": "UnavailableError", "reason": TROUBLE} for name in asked.variants}
        finally:
            await asyncio.wait([self._write(self.store.release, asked)])
            for name in asked.variants:
                del self._jobs[asked.key, name]
            job.done.set()

    async def _kept(self, job: Job, told: Mapping[str, Any]) -> Mapping[str, Answer]:
        device, answers, seconds = self._learn(told), told["answers"], told["seconds"]
        self.measured += sum("cells" in answer for answer in answers.values())
        keep = (job.asked, answers, told["run"], device, seconds, told["machine"], job.alone)
        await asyncio.wait([self._write(self.store.keep, *keep)])  # what is told is on the disk
        return {name: {**answer, "device": device} for name, answer in answers.items()}

    def _began(self, key: str) -> None:
        for job in self._open():
            if job.key == key and job.began_s is None:
                for other in self._open():
                    if other.began_s is not None:
                        other.alone = job.alone = False
                job.began_s = time.monotonic()
                self._now = max(self._now, job.rank)
                self._let()
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
            if not self._jobs:  # nobody waits: what was had is forgiven
                self._now = max(self._now, *self._had.values(), 0.0)
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

    def _write(self, change: Callable[..., object], *values: object) -> asyncio.Future[object]:
        """Change the file; where the disk refuses, go on, and tell the teacher."""
        change_done = self.store.writing(change, *values)
        change_done.add_done_callback(self._written)
        return change_done

    def _written(self, change: asyncio.Future[object]) -> None:
        if error := None if change.cancelled() else change.exception():
            self.trouble = str(error)
        elif not self.store.unsaved:
            self.trouble = ""


def _order(job: Job) -> tuple[float, int]:
    return job.rank, job.number


def _told(job: Job) -> dict[str, Any]:
    since = None if job.began_s is None else round(time.monotonic() - job.began_s, 1)
    return {"user": job.user, "experiment": job.asked.experiment, "point": job.asked.point,
            "variants": job.asked.variants, "running_s": since, "others": len(job.wanted_by) - 1}  # fmt: skip
