"""The ranking of schedules, and what students agree to send: checked, without names, for the class to see."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from played_class import Classroom, Played, answer, served

from brrr.core.errors import ArgumentError, UnavailableError, WrongResultError
from brrr_course import enter, leaderboard, share
from brrr_course import sources as source_module
from brrr_course.classroom.asked import parse
from brrr_course.classroom.ranking import OWN_CHOICE
from brrr_course.experiments import experiment
from brrr_course.lessons import sharing
from brrr_course.lessons.checking import check
from brrr_course.lessons.guessing import forget, guess
from tests.refusals import refused

SCHEDULE = experiment("schedule")


def schedule(chunks: int, buffers: int = 3) -> dict[str, Any]:
    return {"experiment": "schedule", "variants": ["queue-pipeline"], "point": {"chunks": chunks, "buffers": buffers}}


def measured(room: Classroom, chunks: int, period_s: float, buffers: int = 3) -> None:
    """Somebody measured this schedule."""
    asked = parse(schedule(chunks, buffers), "cpu")
    told = answer(schedule(chunks, buffers))
    told["answers"]["queue-pipeline"]["cells"]["period_s"] = repr(period_s)
    (device,) = room.turns.devices
    room.store.keep(asked, told["answers"], told["run"], device, 0.1, told["machine"])


async def entered(client: httpx.AsyncClient, chunks: int, shown: str) -> httpx.Response:
    content = {"experiment": "schedule", "point": schedule(chunks)["point"], "shown": shown}
    return await client.post("/scores", json=content)


def test_the_best_schedule_of_each_is_ranked_beside_the_package_s_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            Classroom(tmp_path / "class.db", Played()) as room,
            room.client("ada") as ada,
            room.client("b") as bob,
        ):
            for chunks, period_s in ((1, 4e-3), (2, 2e-3), (16, 1e-3)):
                measured(room, chunks, period_s)
            measured(room, 8, 1.5e-3, buffers=4)
            assert (await entered(ada, 1, "night shift")).status_code == 200
            assert (await entered(ada, 2, "night shift")).status_code == 200
            assert (await entered(ada, 1, "night shift")).json()[-1]["point"]["chunks"] == 2  # the better one stays
            table = (await entered(bob, 16, "bob")).json()
            assert [row["shown"] for row in table] == ["bob", "brrr's own choice", "night shift"]
            assert table == (await ada.get("/scores/schedule")).json()
            assert len(room.store.read("SELECT * FROM score")) == 2  # the best of each
            for chunks, shown in (
                (2, "bob"),
                (2, "brrr's own choice"),
                (2, ""),
                (2, "x" * 31),
                (2, "a\nb"),
                (3000, "x"),
            ):
                assert (await entered(ada, chunks, shown)).status_code == 400
            assert (await entered(ada, 64, "night shift")).status_code == 404  # nobody measured it
            assert (await ada.get("/scores/matmul")).status_code == 400

    asyncio.run(run())


@pytest.mark.parametrize("shown", [
    "Ada ", "\u0430da", "\uff21da", "BRRR's own choice", "brrr\u2019s  own ch\u043eice ", "\u00e1d\u00e4", "\u202eada",
])  # fmt: skip
def test_a_name_that_looks_like_another_s_is_refused(tmp_path: Path, shown: str) -> None:
    async def run() -> None:
        async with Classroom(tmp_path / "class.db", Played()) as room, room.client("a") as ada, room.client("b") as bob:
            measured(room, 1, 4e-3)
            assert (await entered(ada, 1, "ada")).status_code == (await entered(ada, 1, "Ada ")).status_code == 200
            assert (await entered(bob, 1, shown)).status_code == 400
            for other in ("bob", "\U0001f680", "\U0001f389"):
                assert (await entered(bob, 1, other)).status_code == 200

    asyncio.run(run())


def test_the_package_s_own_stands_first_of_equals_and_nobody_enters_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with Classroom(tmp_path / "class.db", Played()) as room, room.client("ada") as ada:
            measured(room, 4, 1e-3, buffers=3)
            measured(room, 8, 1e-3, buffers=4)
            table = (await entered(ada, 4, "ada")).json()
            assert [row["shown"] for row in table] == [OWN_CHOICE, "ada"]
            content = {"experiment": "schedule", "point": {"chunks": 8, "buffers": 4}, "shown": "ada"}
            refusal = await ada.post("/scores", json=content)
            assert refusal.status_code == 400 and OWN_CHOICE in refusal.json()["reason"]

    asyncio.run(run())


def test_a_schedule_s_whole_result_is_checked() -> None:
    work = SCHEDULE.workload("queue-pipeline", {"chunks": 4, "buffers": 2})
    try:
        assert work.check() < 1e-6
        work.run.args[1][7] = float("nan")  # of the arrays that the pipeline is called with, the result
        with pytest.raises(WrongResultError):
            work.verified(None)
    finally:
        work.close()


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Classroom]:
    with served(tmp_path / "class.db", Played(at_once=True)) as (url, token, found):
        (tmp_path / "token").write_text(token, "utf-8")
        monkeypatch.setenv("BRRR_SOURCE", f"remote:{url}")
        monkeypatch.setenv("BRRR_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setattr(sharing, "threading", SimpleNamespace(Thread=AtOnce))
        yield found
    source_module._live.clear()
    sharing._agreed.clear()
    forget()


class AtOnce:
    """A thread that has run when it was started."""

    def __init__(self, target: Any, args: Any, daemon: bool) -> None:
        self.start = lambda: target(*args)


def test_a_schedule_is_measured_entered_and_shown(room: Classroom) -> None:
    shown = enter("ada", chunks=8, buffers=3)
    assert shown.text.startswith("2 entries for schedule") and ("ada", "8", "3") in {row[:3] for row in shown.rows}
    assert OWN_CHOICE in {row[0] for row in shown.rows}  # nobody else has measured the package's own
    assert leaderboard() == shown and len(room.engine.measured_points) == 2
    with pytest.raises(ArgumentError):
        enter("ada", chunks=8)
    with refused("game", "chess"):
        leaderboard("chess")
    with pytest.raises(UnavailableError, match="tiling needs a GPU"):
        enter("ada", "tiling", rows=64, columns=64, depth=32, warps=4, stages=3)
    assert leaderboard("tiling").text == "0 entries for tiling"


def test_guesses_and_marks_are_sent_by_those_who_agree_only(
    room: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "SELECT kind, name, value FROM answer ORDER BY kind"
    guess("How long?", unit="s", answer="25 us")
    check("00-launches", microseconds=1.0)
    assert room.store.path.exists() and read(room, rows) == []
    assert "the name of your token" in share()
    assert read(room, rows) == [(*sharing.AGREED, "named")]
    guess("How  long\ndoes it take?", unit="s", answer="25 us")
    mark = check("00-launches", microseconds=1.0)
    check("00-launches", microseconds=...)  # not answered: nothing to send
    sent = [("check", "00-launches", mark.status), ("guess", "How long does it take?", "25 µs")]
    assert [row for row in read(room, rows) if row[:2] != sharing.AGREED] == sent
    assert share(False) == "Nothing is sent."
    guess("Another?", unit="s", answer="25 us")
    assert len(read(room, rows)) == 3


def read(room: Classroom, query: str) -> list[tuple[Any, ...]]:
    async def ask() -> list[tuple[Any, ...]]:
        return room.store.read(query)

    return asyncio.run_coroutine_threadsafe(ask(), room.loop).result(10)


def test_a_lost_gateway_disturbs_no_guess(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    share()
    monkeypatch.setattr(sharing._agreed[0].connection, "ask", _lost)
    assert guess("Still?", unit="s", answer="1 s").answered


def _lost(*_: object) -> None:
    raise UnavailableError("gone")


def test_without_a_gateway_there_is_nobody_to_send_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    for call in (share, leaderboard):
        with pytest.raises(UnavailableError, match="BRRR_SOURCE=remote:URL"):
            call()
