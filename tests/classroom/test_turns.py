"""Whose turn it is: each point once, nobody behind more than one point of each other, and nothing lost by a kill."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from played_class import RUN, Classroom, Played, answer, asks, hello, settle

from brrr.core.errors import RecordingError
from brrr_course.classroom import turns as turns_module
from brrr_course.classroom.asked import parse
from brrr_course.classroom.turns import Request, TooManyError, Turns
from brrr_course.sources.recording import RunDevice

FILLERS = (
    "INSERT INTO point SELECT NULL, hex(randomblob(8)), '', '', '', '', '', '', 0, hex(zeroblob(20))",
    "INSERT INTO request VALUES (hex(randomblob(8)), '', '', '')",
)
"""What fills the pages that the file has."""


def fill(room: Classroom) -> None:
    for filler in FILLERS:
        with suppress(sqlite3.OperationalError):
            while True:
                room.store._db.execute(filler)


def played(path: Path, engine: Played, act: Callable[[Classroom], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Classroom(path, engine) as room:
            await act(room)

    asyncio.run(run())


async def ask(room: Classroom, user: str, size: int, *variants: str) -> Request:
    return await room.turns.ask(user, parse(asks(size, *variants), "cpu"))


async def drain(engine: Played) -> None:
    await settle()
    while engine.running:
        engine.release()
        await settle()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "class.db"


def test_a_point_that_many_ask_for_is_measured_once(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        requests = [await ask(room, f"s{number}", 64) for number in range(30)]
        await drain(engine)
        assert engine.measured == [(64, ("cpu",))]
        assert all("cells" in request.answers["cpu"] for request in requests)
        assert (await ask(room, "late", 64)).ended_s is not None  # cached: answered at once
        await settle()
        assert len(engine.measured) == 1

    played(path, engine, act)


def test_variants_that_overlap_are_measured_once_each_and_on_the_same_device(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        one, two = await ask(room, "ada", 64, "cpu"), await ask(room, "bob", 64, "cpu", "queue")
        await drain(engine)
        assert engine.measured == [(64, ("cpu",)), (64, ("queue",))]
        assert set(one.answers) == {"cpu"} and set(two.answers) == {"cpu", "queue"}
        third = await ask(room, "cyd", 256, "cpu")
        await drain(engine)
        await ask(room, "cyd", 256, "queue")
        await drain(engine)
        assert third.ended_s and engine.places[-1] == "played"  # where its other variant was measured

    played(path, engine, act)


def test_who_comes_late_waits_for_one_point_of_each_other_at_most(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        for user in ("ada", "bob", "cyd"):
            for size in (1, 2, 4, 8, 16, 32):
                await ask(room, user, size + {"ada": 0, "bob": 1000, "cyd": 2000}[user])
        await settle()
        for _ in range(5):
            engine.release()
            await settle()
        await ask(room, "late", 64)
        await settle()
        before = len(engine.measured)
        await drain(engine)
        order = [size for size, _ in engine.measured]
        assert order.index(64) - before <= 3 + 1  # one of each other, and the one that is running
        first = [next(n for n, size in enumerate(order) if low <= size < low + 1000) for low in (0, 1000, 2000)]
        assert max(first) <= 3

    played(path, engine, act)


def test_nobody_is_starved_by_others_who_come_again_and_again(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        mine = [await ask(room, "ada", size) for size in (1, 2, 4)]
        for number in range(40):  # bob asks for another whenever one is done
            await ask(room, "bob", 1000 + number)
            await settle()
            engine.release()
            await settle()
        assert all(request.ended_s is not None for request in mine)

    played(path, engine, act)


def test_a_flooder_s_point_moves_up_for_somebody_who_is_owed_a_turn(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        for number in range(10):
            await ask(room, "flood", 1000 + number)
        await settle()
        shared = await ask(room, "ada", 1009)  # the last of the flooder's points
        await settle()
        assert room.turns.state(shared)["place"] <= 2
        await drain(engine)
        order = [size for size, _ in engine.measured]
        assert order.index(1009) <= 2 and len(order) == len(set(order)) == 10

    played(path, engine, act)


def test_a_request_tells_its_place_then_that_it_runs_then_its_answer(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        one, two, three = [await ask(room, user, size) for user, size in (("a", 1), ("b", 2), ("c", 4))]
        await settle()
        assert room.turns.state(one)["state"] == "running"
        assert [room.turns.state(each)["place"] for each in (two, three)] == [1, 2]
        overview = room.turns.overview()
        assert [job["user"] for job in overview["running"]] == ["a"]
        assert [job["user"] for job in overview["waiting"]] == ["b", "c"]
        engine.release()
        await settle()
        assert room.turns.state(one)["state"] == "done" and room.turns.state(two)["state"] == "running"

    played(path, engine, act)


def test_cancel_stops_what_nobody_else_wants(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        running, waiting, shared = await ask(room, "a", 1), await ask(room, "a", 2), await ask(room, "b", 1)
        await settle()
        await room.turns.cancel(running)
        assert engine.running  # b waits for it too
        await room.turns.cancel(waiting)
        await room.turns.cancel(shared)
        await settle()
        assert not engine.running and engine.measured == []
        assert running.answers["cpu"]["error"] == "CancelledError"
        again = await ask(room, "a", 1)
        await drain(engine)
        assert "cells" in again.answers["cpu"]

    played(path, engine, act)


def test_a_gateway_started_again_goes_on_with_what_was_asked_and_measures_nothing_twice(path: Path) -> None:
    killed, second = Played(), Played()

    async def first(room: Classroom) -> None:
        await ask(room, "ada", 1)
        await drain(killed)
        for size in (2, 4, 8):
            await ask(room, "ada", size)
        await settle()
        for lock in room.store._locks:
            lock.close()  # what a kill does
        for task in list(room.turns._tasks):
            task.cancel()

    async def then(room: Classroom) -> None:
        assert [request.asked.point["size"] for request in room.turns.requests.values()] == [2, 4, 8]
        requests = list(room.turns.requests.values())
        await drain(second)
        assert all("cells" in request.answers["cpu"] for request in requests)
        assert [size for size, _ in killed.measured + second.measured] == [1, 2, 4, 8]
        assert (await ask(room, "bob", 1)).ended_s is not None
        assert room.store.read("SELECT COUNT(*) FROM request") == [(0,)]
        assert room.store.read("SELECT COUNT(*) FROM claim") == [(0,)]

    played(path, killed, first)
    played(path, second, then)


def test_two_gateways_on_one_file_measure_a_point_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "LOOK_AGAIN_S", 0.01)
    one, two = Played(), Played()

    async def run() -> None:
        async with Classroom(path, one) as first, Classroom(path, two) as second:
            mine, other = await ask(first, "ada", 64), await ask(second, "bob", 64)
            await settle()
            busy, idle = (one, two) if one.running else (two, one)  # whichever looked first
            assert (len(busy.running), len(idle.running)) == (1, 0)
            busy.release()
            for _ in range(200):
                await asyncio.sleep(0.01)
                if mine.ended_s is not None and other.ended_s is not None:
                    break
            assert mine.answers == other.answers and "cells" in other.answers["cpu"] and idle.measured == []

    asyncio.run(run())


def test_what_fails_for_good_is_not_tried_again_and_what_may_not_is(path: Path) -> None:
    for error, times in (("DeviceMemoryError", 1), ("TimedOutError", 1), ("BrrrError", 2)):
        engine = Played(error=error)

        async def act(room: Classroom, engine: Played = engine, error: str = error, times: int = times) -> None:
            for _ in range(2):
                request = await ask(room, "ada", 64)
                await drain(engine)
                assert request.answers["cpu"]["error"] == error
            assert len(engine.measured) == times
            room.store.retry()
            await ask(room, "ada", 64)
            await drain(engine)
            assert len(engine.measured) == times + 1

        played(path.with_name(f"{error}.db"), engine, act)


def test_a_full_disk_loses_no_answer_and_is_said(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        request = await ask(room, "ada", 64)
        await settle()
        ((pages,),) = room.store._db.execute("PRAGMA page_count")
        room.store._db.execute(f"PRAGMA max_page_count = {pages}")
        fill(room)
        await drain(engine)
        assert "cells" in request.answers["cpu"] and "full" in room.turns.trouble
        assert "cells" in (await ask(room, "bob", 64)).answers["cpu"]  # from memory, not measured again
        fill(room)  # the request that was answered left room for another
        with pytest.raises(turns_module.BrrrError, match="make room"):
            await ask(room, "cyd", 128)
        room.store._db.execute("PRAGMA max_page_count = 1000000")
        await room.turns._write(room.store.save)
        assert room.turns.trouble == "" and len(engine.measured) == 1

    played(path, engine, act)
    played(path, Played(), lambda room: _known(room))


async def _known(room: Classroom) -> None:
    assert (await ask(room, "dan", 64)).ended_s is not None  # it reached the disk


def test_open_requests_are_limited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "MOST_OPEN", 3)

    async def act(room: Classroom) -> None:
        for size in (1, 2, 4):
            await ask(room, "ada", size)
        with pytest.raises(TooManyError, match="3 requests of ada"):
            await ask(room, "ada", 8)
        await ask(room, "bob", 8)

    played(path, Played(), act)


def test_a_worker_with_another_machine_is_refused(path: Path) -> None:
    async def act(room: Classroom) -> None:
        with pytest.raises(RecordingError, match="cannot be joined"):
            room.turns._learn(hello(device="another CPU"))
        with pytest.raises(RecordingError, match=r"a worker has torch 2\.12\.0"):
            room.turns._learn(hello(replace(RUN, torch="2.12.0")))
        room.turns._learn(hello(replace(RUN, devices=(RunDevice("a CPU", "CPU-1"),))))
        assert len(room.turns.devices) == 2

    played(path, Played(), act)


def test_a_row_of_another_card_is_not_taken(path: Path) -> None:
    engine = Played()

    async def act(room: Classroom) -> None:
        asked = parse(asks(64), "cpu")
        told = answer(
            {"experiment": "matmul", "point": {"size": 64}, "variants": ["cpu"]},
            replace(RUN, devices=(RunDevice("a CPU", "CPU-9"),)),
        )
        room.store.keep(asked, told["answers"], told["run"], "another", 0.1, told["machine"])
        assert (await ask(room, "ada", 64)).ended_s is None

    played(path, engine, act)


# -- a turn is as long as what it measures ----------------------------------------------------------------------------


@pytest.fixture
def seconds_are_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point of size 42 is expected to take 42 s."""
    monkeypatch.setattr(turns_module.DurationEstimator, "seconds", lambda self, step: float(step.point["size"]))
    monkeypatch.setattr(Turns, "_charge", lambda self, user, seconds: None)


@pytest.mark.usefixtures("seconds_are_sizes")
def test_slow_points_of_one_take_no_more_time_than_another_s_quick_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_module, "PATIENCE", 1000.0)
    engine = Played()

    async def act(room: Classroom) -> None:
        for size in (40, 41, 42):
            await ask(room, "slow", size)
        await settle()
        for number in range(7):  # one after the other, each when the one before is answered
            await ask(room, "quick", 4 + number)
            await settle()
            engine.release()
            await settle()
        await ask(room, "quick", 11)
        await drain(engine)
        assert [size for size, _ in engine.measured] == [40, 4, 5, 6, 7, 8, 9, 10, 41, 11]  # 49 s before the second

    played(path, engine, act)


@pytest.mark.usefixtures("seconds_are_sizes")
def test_a_worker_is_idle_for_others_a_moment_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "PATIENCE", 0.02)
    engine = Played()

    async def act(room: Classroom) -> None:
        for user, size in (("slow", 40), ("quick", 4), ("slow", 41)):
            await ask(room, user, size)
            await settle()
        for _ in range(2):
            engine.release()
            await settle()
        assert not engine.running  # quick was answered just now, and may ask again
        while not engine.running:
            await asyncio.sleep(0.01)
        assert len(engine.measured) == 2

    played(path, engine, act)


def test_what_a_point_took_counts_and_not_what_was_expected(path: Path) -> None:
    async def act(room: Classroom) -> None:
        for user, seconds in (("ada", 50.0), ("bob", 0.5)):
            room.turns._charge(user, seconds)
        await ask(room, "ada", 64)
        await ask(room, "bob", 128)
        await settle()
        assert [job.user for job in [*room.turns._line()]][-1] == "ada"

    played(path, Played(workers=0), act)


def test_who_ends_the_process_that_measures_waits_for_the_next_point(path: Path) -> None:
    engine = Played()

    async def storm(room: Classroom, size: int) -> bool:
        mine = await ask(room, "storm", size)
        await settle()
        running = bool(engine.running)
        await room.turns.cancel(mine)
        await settle()
        return running

    async def act(room: Classroom) -> None:
        assert [await storm(room, size) for size in (64, 65, 66)] == [True] * 3  # alone, it costs nobody anything
        await ask(room, "other", 256)
        await drain(engine)
        assert not await storm(room, 67)
        shared = await ask(room, "storm", 512)
        await settle()
        assert not engine.running
        await ask(room, "third", 512)  # wants it too
        await drain(engine)
        assert shared.ended_s is not None
        room.turns._fined_until_s["storm"] = 0.0
        assert await storm(room, 68)

    played(path, engine, act)


def test_a_full_queue_has_room_for_a_few_of_everybody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "MOST_WAITING", 10)

    async def act(room: Classroom) -> None:
        for number in range(10):
            await ask(room, "ada", number + 1)
        with pytest.raises(TooManyError):
            await ask(room, "ada", 11)
        for number in range(turns_module.FEW_OPEN):
            await ask(room, "bob", 100 + number)

    played(path, Played(), act)


@pytest.mark.parametrize("beside", [False, True])
def test_a_lack_of_memory_is_remembered_of_what_ran_alone(path: Path, beside: bool) -> None:
    engine = Played(workers=2, error="DeviceMemoryError")

    async def act(room: Classroom) -> None:
        for size in (64, 128)[: 1 + beside]:
            await ask(room, "ada", size)
            await settle()
        await drain(engine)
        assert ((await ask(room, "ada", 64)).ended_s is None) == beside

    played(path, engine, act)


def test_trouble_is_the_teacher_s_to_read(path: Path) -> None:
    async def act(room: Classroom) -> None:
        room.turns.trouble = "OSError: /home/teacher/secret"
        assert "secret" not in str(room.turns.state(await ask(room, "ada", 64)))
        assert "secret" in room.turns.overview()["trouble"]

    played(path, Played(), act)
