"""The ranking of schedules, and what students agree to send: checked, without names, for the class to see."""

import asyncio
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_class import ANOTHER, QUESTION, Classroom, Client, Played, answer, served

from brrr.core.errors import ArgumentError, UnavailableError, WrongResultError
from brrr_course import enter, leaderboard, share
from brrr_course import sources as source_module
from brrr_course.classroom.query import parse
from brrr_course.classroom.ranking import OWN_CHOICE, ClassRanking
from brrr_course.experiments import experiment
from brrr_course.lessons import sharing
from brrr_course.lessons.checking import check
from brrr_course.lessons.guessing import forget, guess
from brrr_course.sources import source
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


async def entered(client: Client, chunks: int, shown: str) -> httpx.Response:
    content = {"experiment": "schedule", "point": schedule(chunks)["point"], "shown": shown}
    return await client.post("/scores", json=content)


async def test_the_best_schedule_of_each_is_ranked_beside_the_package_s_own(
    room: Classroom, ada: Client, bob: Client
) -> None:
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


IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u200b\u200d\u202e\u2060\u2064\u206f\u2800\u3164\ufe00\ufe0f\ufeff\uffa0"
    "\ufff0\U0001bca0\U0001d173\U000e0001\U000e0061\U000e0100"
)
MARKS = "\u0300\u0301\u0308\u0327\u0332\u0338\u0489\u05b4\u064b\u1ab0\u20dd\u20e3\u3099"
LIKE = {
    "a": "\u0430\u0251\u03b1\u13aa\ua4ee\uff41\u00e4\u1d00\uab7a\U0001d41a\u237a\u24d0\u15c5",
    "b": "\u0184\u042c\u13cf\u044c\u15af\ua4d0\u0432\u03b26\U0001d41b",
    "c": "\u0441\u03f2\u217d\u1d04\u2ca5\u13df\ua4da",
    "d": "\u0501\u217e\u13e7\ua4d3\u146f\u0111",
    "e": "\u0435\u212e\u0454\u04bd\uab32\u13ac\ua4f0\u03b5",
    "h": "\u04bb\u0570\u13c2\u043d\u0127",
    "i": "\u0456\u0131\u03b9\u13a5\u2170\ufe8d\u05c0l1|!",
    "n": "\u0578\u057c\u043f\u03b7\ua4e0",
    "o": "\u043e\u03bf\u0585\u0d20\u3007\u06c1\u0665\u05e1\u2c9f\u01010\u00f8",
    "r": "\u0433\u1d26\uab47\u2c85\u13a1\ua4e3",
    "s": "\u0455\ua731\u01bd\u13da\ua4e2\U000104485",
    "w": "\u051d\u0461\u026f\u1d21\u13b3\ua4ea",
}
"""What of other scripts, of the signs and of the digits looks like a letter, from Unicode's list of confusables."""


@st.composite
def lookalikes(draw: st.DrawFn, name: str) -> str:
    """The name as somebody writes it who wants to be taken for it."""
    letters = [draw(st.sampled_from([each, each.upper(), *LIKE.get(each, "")])) for each in name]
    for _ in range(draw(st.integers(0, 3))):
        more = draw(st.sampled_from([*IGNORABLE, *MARKS, " ", ".", "\u2019", "\u00a0"]))
        letters.insert(draw(st.integers(0, len(letters))), more)
    return "".join(letters)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(shown=st.sampled_from(["ada", OWN_CHOICE, "chris", "bob"]).flatmap(lookalikes))
def test_a_name_that_looks_like_another_s_is_refused(shown: str) -> None:
    entered = Ranked()
    for who, name in (("a", "ada"), ("a2", "chris"), ("a3", "bob"), ("a", "Ada ")):
        entered.enter(who, name)
    with pytest.raises(ArgumentError, match="shown"):
        entered.enter("b", shown)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    base=st.text("ada", min_size=0, max_size=3),
    more=st.lists(st.sampled_from([*IGNORABLE, *MARKS]), min_size=1, max_size=28),
)
def test_a_name_has_no_letter_that_nobody_sees_and_no_heap_of_marks(base: str, more: list[str]) -> None:
    shown = base + "".join(more)
    seen = unicodedata.normalize("NFKC", shown)
    if any(unicodedata.category(each)[0] == "M" for each in seen) or set(IGNORABLE) & set(seen):
        with pytest.raises(ArgumentError, match="shown"):
            Ranked().enter("b", shown)


@pytest.mark.parametrize("shown", [
    "Zo\u00eb", "\u0141ukasz", "S\u00f8ren", "Stra\u00dfe 7", "Nguy\u1ec5n V\u0103n", "O'Neil-2",
    "\u0414\u043c\u0438\u0442\u0440\u0438\u0439",
    "\u5c0f\u660e", "\u3055\u304f\u3089\u30b3\u30fc\u30c9", "\uae40\ucca0\uc218", "\U0001f680", "\U0001f389",
    "team 1", "night shift (late)",
])  # fmt: skip
def test_a_name_of_one_s_own_is_taken(shown: str) -> None:
    entered = Ranked()
    for who, name in (("a", "ada"), ("b", shown), ("c", "bob")):
        entered.enter(who, name)
    assert entered.shown() == {"ada", shown, "bob"}
    for other in ("d", "c"):
        with pytest.raises(ArgumentError, match="nobody else's"):
            entered.enter(other, shown.upper())


class Ranked:
    """A ranking of one schedule, which everybody enters."""

    def __init__(self) -> None:
        self.rows = dict[str, str]()
        self.ranking = ClassRanking(self, "cpu")  # type: ignore[arg-type]
        self.ranking._seconds = lambda *_: 1.0  # type: ignore[method-assign]

    def digest(self, name: str) -> str:
        return name

    def read(self, query: str, *values: object) -> list[tuple[str]]:
        return [(shown,) for who, shown in self.rows.items() if who != values[1]] if "who !=" in query else []

    def write(self, statement: str, *values: Any) -> None:
        if statement.startswith("INSERT"):
            self.rows[values[1]] = values[2]

    def enter(self, who: str, shown: str) -> None:
        self.ranking.enter(who, shown, parse(schedule(1), "cpu"), ())

    def shown(self) -> set[str]:
        return {*self.rows.values()}


async def test_the_package_s_own_stands_first_of_equals_and_nobody_enters_it(room: Classroom, ada: Client) -> None:
    measured(room, 4, 1e-3, buffers=3)
    measured(room, 8, 1e-3, buffers=4)
    table = (await entered(ada, 4, "ada")).json()
    assert [row["shown"] for row in table] == [OWN_CHOICE, "ada"]
    content = {"experiment": "schedule", "point": {"chunks": 8, "buffers": 4}, "shown": "ada"}
    refusal = await ada.post("/scores", json=content)
    assert refusal.status_code == 400 and OWN_CHOICE in refusal.json()["reason"]


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
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Classroom]:
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


def test_a_schedule_is_measured_entered_and_shown(reached: Classroom) -> None:
    shown = enter("ada", chunks=8, buffers=3)
    assert shown.text.startswith("2 entries for schedule") and ("ada", "8", "3") in {row[:3] for row in shown.rows}
    assert OWN_CHOICE in {row[0] for row in shown.rows}  # nobody else has measured the package's own
    assert leaderboard() == shown and len(reached.engine.measured_points) == 2
    with pytest.raises(ArgumentError):
        enter("ada", chunks=8)
    with refused("game", "chess"):
        leaderboard("chess")
    with pytest.raises(UnavailableError, match="tiling needs a GPU"):
        enter("ada", "tiling", rows=64, columns=64, depth=32, warps=4, stages=3)
    assert leaderboard("tiling").text == "0 entries for tiling"


def test_guesses_and_marks_are_sent_by_those_who_agree_only(
    reached: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "SELECT kind, name, value FROM answer ORDER BY kind"
    guess("How long?", unit="s", answer="25 us")
    check("00-launches", microseconds=1.0)
    assert reached.store.path.exists() and read(reached, rows) == []
    said = share()
    assert "the name of your token" in said and "the name of your token" in said._repr_html_()
    assert read(reached, rows) == [(*sharing.AGREED, "named")]
    guess(QUESTION.replace(" ", "  \n"), unit="s", answer="25 us")
    mark = check("00-launches", microseconds=1.0)
    check("00-launches", microseconds=...)  # not answered: nothing to send
    sent = [("check", "00-launches", mark.status), ("guess", QUESTION, "25 µs")]
    assert [row for row in read(reached, rows) if row[:2] != sharing.AGREED] == sent
    assert share(...) == "Nothing is sent." and ("guess", QUESTION, "25 µs") in read(reached, rows)
    assert share(False).endswith("taken out.") and read(reached, rows) == []
    guess(ANOTHER, unit="s", answer="25 us")
    assert read(reached, rows) == []
    monkeypatch.setattr(source_module._live[source().name].connection, "ask", _lost)
    with pytest.raises(UnavailableError, match="gone"):
        share(False)
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    assert share(False) == "Nothing is sent."


def read(reached: Classroom, query: str) -> list[tuple[Any, ...]]:
    async def ask() -> list[tuple[Any, ...]]:
        return reached.store.read(query)

    return asyncio.run_coroutine_threadsafe(ask(), reached.loop).result(10)


def test_a_lost_gateway_disturbs_no_guess(reached: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
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
