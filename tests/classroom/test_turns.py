"""Whose turn it is: each point once, nobody behind more than one point of each other, and nothing lost by a kill."""

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from played_class import RUN, Classroom, Played, answer, asks, hello, settle

from brrr.core.errors import RecordingError
from brrr_course.classroom import turns as turns_module
from brrr_course.classroom.query import parse
from brrr_course.classroom.turns import Request
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


async def ask(room: Classroom, user: str, size: int, *variants: str) -> Request:
    return await room.turns.ask(user, parse(asks(size, *variants), "cpu"))


async def drain(engine: Played) -> None:
    await settle()
    while engine.running:
        engine.release()
        await settle()


async def test_a_point_that_many_ask_for_is_measured_once(room: Classroom, engine: Played) -> None:
    requests = [await ask(room, f"s{number}", 64) for number in range(30)]
    await drain(engine)
    assert engine.measured == [(64, ("cpu",))]
    assert all("cells" in request.answers["cpu"] for request in requests)
    assert (await ask(room, "late", 64)).ended_s is not None  # cached: answered at once
    await settle()
    assert len(engine.measured) == 1


async def test_variants_that_overlap_are_measured_once_each_and_on_the_same_device(
    room: Classroom, engine: Played
) -> None:
    one, two = await ask(room, "ada", 64, "cpu"), await ask(room, "bob", 64, "cpu", "queue")
    await drain(engine)
    assert engine.measured == [(64, ("cpu",)), (64, ("queue",))]
    assert set(one.answers) == {"cpu"} and set(two.answers) == {"cpu", "queue"}
    third = await ask(room, "cyd", 256, "cpu")
    await drain(engine)
    await ask(room, "cyd", 256, "queue")
    await drain(engine)
    assert third.ended_s and engine.places[-1] == "played"  # where its other variant was measured


async def test_who_comes_late_waits_for_one_point_of_each_other_at_most(room: Classroom, engine: Played) -> None:
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


async def test_a_flooder_s_point_moves_up_for_somebody_who_is_owed_a_turn(room: Classroom, engine: Played) -> None:
    for number in range(10):
        await ask(room, "flood", 1000 + number)
    await settle()
    shared = await ask(room, "ada", 1009)  # the last of the flooder's points
    await settle()
    assert room.turns.state(shared)["place"] <= 2
    await drain(engine)
    order = [size for size, _ in engine.measured]
    assert order.index(1009) <= 2 and len(order) == len(set(order)) == 10


async def test_cancel_stops_what_nobody_else_wants(room: Classroom, engine: Played) -> None:
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


async def test_a_gateway_started_again_goes_on_with_what_was_asked_and_measures_nothing_twice(path: Path) -> None:
    killed, second = Played(), Played()
    async with Classroom(path, killed) as room:
        await ask(room, "ada", 1)
        await drain(killed)
        for size in (2, 4, 8):
            await ask(room, "ada", size)
        await settle()
        for lock in room.store._locks:
            lock.close()  # what a kill does
        for task in list(room.turns._tasks):
            task.cancel()
    async with Classroom(path, second) as room:
        requests = list(room.turns.requests.values())
        assert [request.asked.point["size"] for request in requests] == [2, 4, 8]
        await drain(second)
        assert all("cells" in request.answers["cpu"] for request in requests)
        assert [size for size, _ in killed.measured + second.measured] == [1, 2, 4, 8]
        assert (await ask(room, "bob", 1)).ended_s is not None
        for table in ("request", "claim"):
            assert room.store.read(f"SELECT COUNT(*) FROM {table}") == [(0,)]


async def test_two_gateways_on_one_file_measure_a_point_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "LOOK_AGAIN_S", 0.01)
    one, two = Played(), Played()
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


@pytest.mark.parametrize(("error", "times"), [("DeviceMemoryError", 1), ("TimedOutError", 1), ("BrrrError", 2)])
async def test_what_fails_for_good_is_not_tried_again_and_what_may_not_is(
    room: Classroom, engine: Played, error: str, times: int
) -> None:
    engine.error = error
    for _ in range(2):
        request = await ask(room, "ada", 64)
        await drain(engine)
        assert request.answers["cpu"]["error"] == error
    assert len(engine.measured) == times
    room.store.retry()
    await ask(room, "ada", 64)
    await drain(engine)
    assert len(engine.measured) == times + 1


async def test_a_full_disk_loses_no_answer_and_is_said(room: Classroom, engine: Played, path: Path) -> None:
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
    async with Classroom(path, Played()) as another:
        assert (await ask(another, "dan", 64)).ended_s is not None  # it reached the disk


async def test_a_worker_with_another_machine_is_refused(room: Classroom) -> None:
    with pytest.raises(RecordingError, match="cannot be joined"):
        room.turns._learn(hello(device="another CPU"))
    with pytest.raises(RecordingError, match=r"a worker has torch 2\.12\.0"):
        room.turns._learn(hello(replace(RUN, torch="2.12.0")))
    room.turns._learn(hello(replace(RUN, devices=(RunDevice("a CPU", "CPU-1"),))))
    assert len(room.turns.devices) == 2


async def test_a_row_of_another_card_is_not_taken(room: Classroom, engine: Played) -> None:
    asked = parse(asks(64), "cpu")
    told = answer(
        {"experiment": "matmul", "point": {"size": 64}, "variants": ["cpu"]},
        replace(RUN, devices=(RunDevice("a CPU", "CPU-9"),)),
    )
    room.store.keep(asked, told["answers"], told["run"], "another", 0.1, told["machine"])
    assert (await ask(room, "ada", 64)).ended_s is None


# -- a turn is as long as what it measures ----------------------------------------------------------------------------


@pytest.mark.usefixtures("seconds_are_sizes")
async def test_slow_points_of_one_take_no_more_time_than_another_s_quick_ones(
    room: Classroom, engine: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_module, "PATIENCE", 1000.0)
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


async def test_what_a_point_took_counts_and_not_what_was_expected(room: Classroom, engine: Played) -> None:
    engine.workers = 0
    for user, seconds in (("ada", 50.0), ("bob", 0.5)):
        room.turns._charge(user, seconds)
    await ask(room, "ada", 64)
    await ask(room, "bob", 128)
    await settle()
    assert [job.user for job in [*room.turns._line()]][-1] == "ada"


async def test_who_ends_the_process_that_measures_waits_for_the_next_point(room: Classroom, engine: Played) -> None:

    async def storm(room: Classroom, size: int) -> bool:
        mine = await ask(room, "storm", size)
        await settle()
        running = bool(engine.running)
        await room.turns.cancel(mine)
        await settle()
        return running

    assert [await storm(room, size) for size in (64, 65, 66)] == [True] * 3  # alone, it costs nobody anything
    await ask(room, "other", 256)
    await drain(engine)
    assert not await storm(room, 67)
    room.turns._fined_until_s["storm"] = 0.0
    assert await storm(room, 68)


@pytest.mark.parametrize("beside", [False, True])
async def test_a_lack_of_memory_is_remembered_of_what_ran_alone(room: Classroom, engine: Played, beside: bool) -> None:
    engine.workers, engine.error = 2, "DeviceMemoryError"
    for size in (64, 128)[: 1 + beside]:
        await ask(room, "ada", size)
        await settle()
    await drain(engine)
    assert ((await ask(room, "ada", 64)).ended_s is None) == beside


async def test_trouble_is_the_teacher_s_to_read(room: Classroom) -> None:
    room.turns.trouble = "OSError: /home/teacher/secret"
    assert "secret" not in str(room.turns.state(await ask(room, "ada", 64)))
    assert "secret" in room.turns.overview()["trouble"]
