"""The gateway's door: who is let in, what may be asked, and what it says to everything else."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_class import ANOTHER, QUESTION, Classroom, Client, Played, asks, settle

from brrr.core.errors import ArgumentError, UnavailableError
from brrr_course.classroom import gateway as gateway_module
from brrr_course.classroom import tokens as tokens_module
from brrr_course.classroom.query import parse
from brrr_course.classroom.teacher import asked_by_lessons
from brrr_course.classroom.tokens import issue, revoke
from brrr_course.experiments import experiment
from brrr_course.lessons.calculations import calculated
from brrr_course.lessons.sharing import AGREED, line
from brrr_course.nouns.places import COURSE

ROOT = Path(__file__).resolve().parents[2]


def in_class(path: Path, act: Callable[[Classroom, Client], Awaitable[None]]) -> None:
    """For each of Hypothesis's examples, which are no coroutines."""

    async def run() -> None:
        async with Classroom(path, Played()) as room, room.client("ada") as ada:
            await act(room, ada)

    asyncio.run(run())


@pytest.fixture
def engine() -> Played:
    return Played(at_once=True)


# -- who is let in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "Bearer ", "Bearer x.y", "Basic YTpi", "Bearer \u00e9.x", "Bearer a" * 999])
async def test_without_a_good_token_nothing_is_said(ada: Client, given: str) -> None:
    header = {"Authorization": given.encode("latin-1")}  # type: ignore[dict-item]
    for method, place in (("GET", "/about"), ("POST", "/measure"), ("GET", "/points/matmul"), ("GET", "/status")):
        answer = await ada.request(method, place, headers=header)
        assert answer.status_code == 401 and "token" in answer.json()["reason"]
    assert (await ada.get("/health", headers=header)).status_code == 200


async def test_a_token_expires_by_the_clock_and_can_be_ended(
    room: Classroom, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "FRESH_S", 0.0)
    now = time.time()
    assert (await ada.get("/about")).status_code == 200
    monkeypatch.setattr(time, "time", lambda: now + 121 * 86400)  # expired, or the clock was set wrongly
    assert (await ada.get("/about")).status_code == 401
    monkeypatch.setattr(time, "time", lambda: now - 86400)  # a clock that goes back lets nobody new in
    assert (await ada.get("/about")).status_code == 200
    assert revoke(room.store, "ada") == 1
    assert (await ada.get("/about")).status_code == 401


async def test_the_file_holds_no_token_and_a_changed_one_is_refused(room: Classroom, ada: Client, path: Path) -> None:
    token = issue(room.store, "bob")
    room.store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    held = path.read_bytes()
    assert token.partition(".")[2].encode() not in held and b"bob" in held
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    assert (await ada.get("/about", headers={"Authorization": f"Bearer {wrong}"})).status_code == 401


@pytest.mark.parametrize("name", ["", " ", "a" * 65, "a\nb"])
async def test_names_of_tokens_are_checked(room: Classroom, name: str) -> None:
    with pytest.raises(ArgumentError, match="NAME"):
        issue(room.store, name)


async def test_nobody_sees_or_cancels_another_s_request(engine: Played, ada: Client, bob: Client) -> None:
    engine.at_once = False
    mine = (await ada.post("/measure", json=asks(64))).json()["id"]
    for method in ("GET", "DELETE"):
        stranger = await bob.request(method, f"/requests/{mine}")
        unknown = await bob.request(method, "/requests/abc")
        assert stranger.status_code == unknown.status_code == 404
        assert stranger.content == unknown.content
    await settle()
    assert (await ada.get(f"/requests/{mine}")).json()["state"] == "running"
    assert (await ada.delete(f"/requests/{mine}")).json()["answers"]["cpu"]["error"] == "CancelledError"


async def test_the_teacher_alone_sees_who_waits_and_what_was_answered(
    room: Classroom, engine: Played, ada: Client
) -> None:
    engine.at_once = False
    await ada.post("/measure", json=asks(64))
    await settle()
    async with room.client("teacher", teacher=True) as teacher:
        assert (await teacher.get("/status")).json()["running"][0]["user"] == "ada"
        for name, value in ((QUESTION, "25 µs"), (QUESTION, "3 ms"), (ANOTHER, "=1+1")):
            sent = await ada.post("/answers", json={"kind": "guess", "name": name, "value": value})
            assert sent.status_code == 200
    assert (await ada.get("/status")).status_code == 403
    newest = room.store.read("SELECT value FROM answer WHERE name = ?", QUESTION)
    assert newest == [("3 ms",)]
    ((who,),) = room.store.read("SELECT DISTINCT who FROM answer")
    assert "ada" not in who


# -- what may be asked ------------------------------------------------------------------------------------------------

BAD = {
    "not JSON": b"{",
    "no UTF-8": b'{"experiment": "\xff"}',
    "NaN": b'{"experiment": "matmul", "variants": ["cpu"], "point": {"size": NaN}}',
    "too many digits": b'{"experiment": "matmul", "variants": ["cpu"], "point": {"size": 1%s}}' % (b"0" * 6000),
    "nested": b"[" * 4000,
    "half a character": b'{"experiment": "\\ud800", "variants": ["cpu"], "point": {"size": 64}}',
    "a path": b'{"experiment": "../../etc", "variants": ["cpu"], "point": {"size": 64}}',
    "another key": b'{"experiment": "matmul", "variants": ["cpu"], "point": {"size": 64}, "budget_s": 1e9}',
    "another axis": b'{"experiment": "matmul", "variants": ["cpu"], "point": {"size": 64, "self": 1}}',
    "a text": b'"matmul"',
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
async def test_what_an_experiment_does_not_allow_is_refused(room: Classroom, ada: Client, what: str) -> None:
    answer = await ada.post("/measure", content=BAD[what])
    assert answer.status_code == 400 and "expected" in answer.json()["reason"], answer.text
    assert not room.turns.requests and len(answer.content) < 20_000


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["cpu", "queue", "gpu", "queue-serial"])
axes = st.sampled_from(["size", "columns", "dtype", "elements", "sines"])
sizes = st.fixed_dictionaries({"size": st.integers(0, 70000) | st.floats()})
near = st.fixed_dictionaries(
    {
        "experiment": st.sampled_from(["matmul", "gemm", "overlap", "timers"]) | anything,
        "variants": st.lists(names | anything, max_size=3) | anything,
        "point": st.dictionaries(axes, anything, max_size=3) | sizes | anything,
    }
)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=near | anything)
def test_whatever_is_sent_is_measured_or_refused(content: Any) -> None:
    try:
        asked = parse(content, "cpu", 60.0)
    except (ArgumentError, UnavailableError) as refused:
        json.dumps(str(refused))
        return
    found = experiment(asked.experiment)
    assert asked.variants and set(asked.variants) <= set(found.variants_on("cpu"))
    for axis in found.axes:
        assert axis.checked("test", asked.point[axis.name]) == asked.point[axis.name]
    assert asked == parse(json.loads(json.dumps({**content, "point": asked.point})), "cpu", 60.0)


METHODS = st.sampled_from(["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
PLACES = st.sampled_from(["about", "measure", "requests/x", "points/matmul", "answers", "status", "", "health"])


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(method=METHODS, place=PLACES, query=st.text(max_size=20), content=st.binary(max_size=200) | anything)
def test_no_request_breaks_the_gateway(
    tmp_path_factory: pytest.TempPathFactory, method: str, place: str, query: str, content: Any
) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def act(room: Classroom, ada: Client) -> None:
        url = httpx.URL(f"http://class/{place}", params={"wait": query, "after": query, "name": query})
        answer = await ada.request(method, url, content=body)
        assert answer.status_code < 500, answer.text
        assert (await ada.get("/about")).status_code == 200

    in_class(tmp_path_factory.mktemp("any") / "class.db", act)


def test_the_lessons_say_what_may_be_answered() -> None:
    """Every exercise that marks itself, and every question of the executed lessons, those made by a loop too."""
    asked = asked_by_lessons()
    made = "".join(path.read_text("utf-8") for path in (COURSE / "lessons" / "exercises").glob("*.py"))
    marked = {*calculated(), *re.findall(r'@exercise\("([^"]+)"', made)}
    assert {name for kind, name in asked if kind == "check"} == {*marked, AGREED[1]}
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "notebooks" / "source").glob("*.py"))
    written = {line(text) for text in re.findall(r'(?<![\w.])guess\("([^"]+)"', texts)}
    assert len(written) > 40 and {("guess", each) for each in written} <= asked
    assert ("guess", "A copy that moves 12 MB gets faster ...") in asked


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_answer_to_what_no_lesson_asks_is_not_kept(path: Path, data: st.DataObject) -> None:
    kind, name = data.draw(st.sampled_from(sorted(asked_by_lessons())))
    given = data.draw(
        st.just((kind, name))
        | st.tuples(st.sampled_from(["guess", "check", "share", ""]), st.text(max_size=40))
        | st.sampled_from([("guess" if kind == "check" else "check", name), (kind, f"{name} "), (kind, name.upper())])
    )
    value = data.draw(st.sampled_from(["right", "3 ms", "", "a\nb", "x" * 301]))
    good = given in asked_by_lessons() and value in ("right", "3 ms")

    async def act(room: Classroom, ada: Client) -> None:
        room.store.withdraw("ada")
        sent = await ada.post("/answers", json={"kind": given[0], "name": given[1], "value": value})
        assert sent.status_code == (200 if good else 400)
        assert room.store.read("SELECT kind, name, value FROM answer") == ([(*given, value)] if good else [])

    in_class(path, act)


async def test_who_agreed_may_take_their_answers_out_and_nobody_else_s(
    room: Classroom, ada: Client, bob: Client
) -> None:
    for who in (ada, bob):
        for name in (QUESTION, ANOTHER):
            await who.post("/answers", json={"kind": "guess", "name": name, "value": "1"})
    assert (await ada.delete("/answers")).json() == {"answers": 2} != (await ada.delete("/answers")).json()
    assert room.store.read("SELECT DISTINCT who FROM answer") == [(room.store.digest("bob"),)]


async def test_who_floods_is_held_back_and_others_are_not(
    ada: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "BURST", 10.0)
    monkeypatch.setattr(gateway_module, "RATE", 0.001)
    answers = [await ada.post("/measure", json=asks(64)) for _ in range(15)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 5
    assert (await bob.get("/about")).json()["user"] == "bob"


async def test_an_unexpected_error_tells_a_student_nothing_of_the_machine(
    room: Classroom, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("/home/teacher/secret")

    monkeypatch.setattr(room.turns, "ask", broken)
    answer = await ada.post("/measure", json=asks(64))
    assert answer.status_code == 500 and "secret" not in answer.text and "RuntimeError" in answer.text
