"""What docs/classroom.md, its details and the modules promise in numbers: found again in what is done."""

import asyncio
import time
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from played_class import Classroom, Client, Clock, Played, asks, settle
from promises import promised

from brrr.core.errors import ArgumentError
from brrr_course.classroom import serving
from brrr_course.classroom import turns as turns_module
from brrr_course.classroom.gateway import Gateway
from brrr_course.classroom.query import parse
from brrr_course.classroom.store import ClassStore
from brrr_course.classroom.tokens import holds, issue, of_class, revoke
from brrr_course.classroom.turns import Job, Request, TooManyError

CLASS, DETAILS = "docs/classroom.md", "docs/classroom_details.md"


async def ask(room: Classroom, user: str, size: int) -> Request:
    found = await room.turns.ask(user, parse(asks(size), "cpu"))
    await settle()
    return found


# -- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("seconds_are_sizes")
@pytest.mark.parametrize(("waited_s", "runs"), [(7.9, False), (8.2, True)])
async def test_a_worker_stays_idle_for_a_tenth_of_a_job_and_its_lead(
    room: Classroom, clock: Clock, waited_s: float, runs: bool
) -> None:
    """A job of 41 s, 40 s ahead of one who has just been answered, waits 8.1 s."""
    for user, size in (("slow", 40), ("quick", 4), ("slow", 41)):
        await ask(room, user, size)
    for _ in range(2):
        room.engine.release()
        await settle()
    assert not room.engine.running
    clock.now_s += waited_s
    room.turns._let()
    await settle()
    assert bool(room.engine.running) is runs


@pytest.mark.usefixtures("seconds_are_sizes")
async def test_a_job_goes_to_the_workers_a_second_before_its_turn(room: Classroom) -> None:
    await ask(room, "ada", 1)
    await ask(room, "ada", 2)
    await ask(room, "ada", 4)
    waiting = [entry[3]["point"]["size"] for entry in room.engine._waiting]
    assert waiting == [2], "the third is three seconds of work away"
    assert sorted(job.rank for job in room.turns._open()) == [0.0, 1.0, 3.0]


async def test_who_ends_the_process_waits_five_seconds_and_three_times_its_start(room: Classroom, clock: Clock) -> None:
    turns = room.turns
    job: Any = SimpleNamespace(user="storm", wanted_by=set())
    turns._fine("storm")
    assert not turns._fined(job), "alone, it costs nobody anything"
    turns._answered_s["other"] = clock.now_s
    for after_s, waits in ((4.9, True), (5.1, False)):
        clock.now_s = 1000.0 + after_s
        assert turns._fined(job) is waits
    turns._fine("storm")
    turns._fine("storm")
    assert turns._fined_until_s["storm"] == pytest.approx(clock.now_s + 10.0), "each time longer"
    turns.requests["third"] = Request("third", "third", parse(asks(64), "cpu"))
    assert not turns._fined(SimpleNamespace(user="storm", wanted_by={"third"}))  # type: ignore[arg-type]
    for since_s, beside in ((59.0, True), (61.0, False)):
        turns._answered_s["other"], turns._fined_until_s["storm"] = clock.now_s - since_s, clock.now_s + 9
        assert turns._fined(job) is beside, "others were answered within the last minute"


@pytest.mark.parametrize("owed", ["", "storm"])
async def test_what_a_fresh_process_took_to_start_is_theirs_who_ended_the_last(
    room: Classroom, clock: Clock, owed: str
) -> None:
    turns, asked = room.turns, parse(asks(64), "cpu")
    job = Job(asked, "ada", 0.0, 1, set(), 2.0, began_s=clock.now_s - 9.0)
    turns._owes, turns._fined_until_s["storm"] = owed, 100.0
    turns._account(job, {"seconds": 3.0, "answers": {"cpu": {"cells": {}}}})
    assert turns._had["ada"] == pytest.approx(0.0 if owed else 1.0), "the first in it also loads what it needs"
    assert turns._fined_until_s["storm"] == 100.0 + (3 * (9.0 - 2.0) if owed else 0.0)
    assert turns._owes == ""
    turns._account(job, {"seconds": 2.0, "answers": {"cpu": {"error": "TimedOutError"}}})
    assert turns._owes == "ada" and turns._fined_until_s["ada"] == pytest.approx(clock.now_s + 5.0)


async def test_what_a_point_took_beyond_what_was_expected_moves_its_user_s_waiting_jobs(room: Classroom) -> None:
    turns, asked = room.turns, parse(asks(64), "cpu")
    waiting, runs, other = (
        Job(asked, user, 5.0, number, set(), 1.0, began_s=began)
        for number, (user, began) in enumerate((("ada", None), ("ada", 1.0), ("bob", None)))
    )
    turns._jobs = {("", str(each.number)): each for each in (waiting, runs, other)}
    turns._now, turns._had["ada"] = 3.0, 4.0
    turns._charge("ada", 2.5)
    assert (waiting.rank, runs.rank, other.rank, turns._had["ada"]) == (7.5, 5.0, 5.0, 6.5)
    turns._charge("ada", -10.0)
    assert waiting.rank == 3.0, "no rank is before the job begun last"
    turns._jobs = {}


async def test_answers_wait_a_quarter_of_an_hour_to_be_fetched(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_module, "WATCH_S", 0.0)
    asked = parse(asks(64), "cpu")
    ended = {"new": clock.now_s - 899.0, "old": clock.now_s - 901.0, "open": None}
    async with Classroom(path, Played()) as room:
        room.turns.requests = {name: Request(name, "ada", asked, ended_s=when_s) for name, when_s in ended.items()}
        for _ in range(50):
            await asyncio.sleep(0.01)
            if len(room.turns.requests) < 3:
                break
        assert set(room.turns.requests) == {"new", "open"}


async def test_so_many_requests_of_one_are_open_and_fewer_where_the_class_is_full(
    room: Classroom, engine: Played
) -> None:
    engine.workers = 0
    most = promised(DETAILS, r"requests a second or (\d+) open ones")
    asked = parse(asks(64), "cpu")

    def opened(user: str, count: int) -> None:
        room.turns.requests |= {f"{user}{n}": Request(f"{user}{n}", user, asked) for n in range(count)}

    async def refused(user: str) -> bool:
        with suppress(TooManyError):
            await room.turns.cancel(await room.turns.ask(user, asked))
            return False
        return True

    opened("ada", int(most) - 1)
    assert not await refused("ada")
    opened("ada", int(most))
    with pytest.raises(TooManyError, match=f"{int(most)} requests of ada"):
        await room.turns.ask("ada", asked)
    assert not await refused("bob")
    opened("all", 4000 - int(most) - 1)
    opened("bob", 4)
    assert await refused("bob"), "4000 wait: four of each"
    del room.turns.requests["bob0"]
    assert not await refused("bob")
    room.turns.requests = {}


async def test_a_place_in_the_queue_counts_from_one(room: Classroom, engine: Played) -> None:
    engine.workers = 0
    first, second = await ask(room, "ada", 64), await ask(room, "bob", 128)
    waiting = [room.turns.state(each) for each in (first, second)]
    assert [(each["place"], each["of"]) for each in waiting] == [(1, 2), (2, 2)]
    assert [job["user"] for job in room.turns.overview()["waiting"]] == ["ada", "bob"]
    late = Request("late", "cyd", parse(asks(256), "cpu"))
    assert {**room.turns.state(late), "id": ""} == {**waiting[0], "id": "", "place": 3, "of": 3}


# -- the door ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "status"), [(0, 400), (1, 413)])
async def test_a_request_is_so_large_at_most(ada: Client, more: int, status: int) -> None:
    largest = int(promised(DETAILS, r"413 above (\d+) KB")) * 1024 + more
    assert (await ada.post("/measure", content=b" " * largest)).status_code == status


async def test_the_rest_of_a_request_is_waited_for_so_long(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    wait_for = asyncio.wait_for
    monkeypatch.setattr(asyncio, "wait_for", lambda what, limit_s: (limits.append(limit_s), wait_for(what, 5.0))[1])
    await ada.get("/about")
    assert limits[0] == promised(DETAILS, r"408 where a body stops for (\d+) s")


async def test_a_token_that_is_ended_opens_nothing_after_a_second(room: Classroom, clock: Clock) -> None:
    fresh_s = promised(DETAILS, r"--revoke NAME`; within (\w+) second")
    token, known = issue(room.store, "bob"), of_class(room.store)
    assert (await known(token)) is not None
    revoke(room.store, "bob")
    clock.now_s += 0.99 * fresh_s
    assert (await known(token)) is not None, "the file is not asked for each request"
    clock.now_s += 0.02 * fresh_s
    assert (await known(token)) is None


@pytest.mark.parametrize(("days", "taken"), [(0, False), (1e-3, True), (3660, True), (3660.1, False)])
def test_a_token_is_for_up_to_ten_years(path: Path, days: float, taken: bool) -> None:
    store = ClassStore(path)
    with nullcontext() if taken else pytest.raises(ArgumentError, match="--days"):
        issue(store, "bob", days=days)
    assert holds(store, "bob") == taken
    store.close()


async def test_a_token_lasts_so_many_days(room: Classroom) -> None:
    issue(room.store, "bob")
    ((expires,),) = room.store.read("SELECT expires FROM token WHERE name = 'bob'")
    days = promised(CLASS, r"tokens; `--teacher`, `--days (\d+)`")
    assert expires == pytest.approx(time.time() + days * 24 * 3600, abs=60)


def test_a_locked_file_is_waited_for_so_long(path: Path) -> None:
    store = ClassStore(path)
    wait_s = promised(DETAILS, r"requests that must be written wait (\d+) s")
    for connection in (store._db, store._reader):
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (1000 * wait_s,)
    store.close()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a point may take, as the workers are told, who then do not start."""
    found: list[float] = []

    async def embedded(gpus: Any, *, workers: int, limit_s: float, dashboard: Any) -> None:
        found.append(limit_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "Dask", SimpleNamespace(embedded=embedded))
    return found


@pytest.mark.parametrize("scheduler", ["", "tcp://there:8786"])
def test_what_serve_puts_together_answers_those_with_a_token(
    path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    told, said, answers = list[Any](), list[str](), list[int]()

    class Engine(Played):
        async def close(self) -> None:
            told.append("closed")

    async def made(*given: Any, **more: Any) -> Engine:
        told.append((given, more))
        return Engine()

    async def serve(config: Any, listening: Any) -> None:
        transport = httpx.ASGITransport(app=config.app)
        with closing(ClassStore(path)) as store:
            for token in (issue(store, "ada"), "no token"):
                headers = {"Authorization": f"Bearer {token}"}
                async with httpx.AsyncClient(transport=transport, base_url="http://class", headers=headers) as client:
                    answers.append((await client.get("/about")).status_code)
        listening[0].close()

    monkeypatch.setattr(serving, "Dask", SimpleNamespace(embedded=made, joined=made))
    monkeypatch.setattr(serving, "signal", SimpleNamespace(signal=lambda *_: None, SIGINT=2, SIGTERM=15))
    monkeypatch.setattr(uvicorn, "Server", lambda config: SimpleNamespace(serve=partial(serve, config)))
    asyncio.run(serving.serve(path, ["0"], port=0, scheduler=scheduler, longest_s=5.0, say=said.append))
    given = (scheduler, "cuda", 20.0), {}
    own = (["0"],), {"workers": 1, "limit_s": 20.0, "dashboard": None}
    assert told == [given if scheduler else own, "closed"]
    assert answers == [200, 401] and said[-1].startswith("Stopped")


def test_a_point_is_stopped_after_so_many_times_the_longest(path: Path, limits: list[float]) -> None:
    for options in ({}, {"longest_s": 7.0}):
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(serving.serve(path.with_name(f"{len(options)}.db"), port=0, **options))
    longest_s = promised(CLASS, r"`--longest (\d+)`")
    times = promised(CLASS, r"more seconds; one that takes (\w+) times as long is stopped")
    assert limits == [times * longest_s, times * 7.0]
    assert Gateway.__init__.__kwdefaults__["longest_s"] == longest_s
