"""The teacher's page: who may see the class's guesses, how they are counted, and that no student's text is shown."""

import asyncio
import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from played_class import Classroom, Client, Played, asks, served

from brrr.core.errors import UnavailableError
from brrr.core.private import python
from brrr_course.classroom import announcements, teacher
from brrr_course.classroom.store import ClassStore
from brrr_course.classroom.tokens import issue
from brrr_course.lessons.answers import Choice, Quantity, Ranking
from brrr_course.lessons.sharing import OWN

HERE = Path(teacher.__file__).parent
QUESTIONS = [
    {"question": "This clock says ...", "form": "Quantity", "given": {"unit": "s"}, "measured": 7.9e-6},
    {"question": "Who?", "form": "Choice", "given": {"options": ["the CPU", "the GPU"]}, "measured": "the CPU"},
    {"question": "In order?", "form": "Ranking", "given": {"items": ["a", "b, c"]}, "measured": ["b, c", "a"]},
]


@pytest.fixture
def room(path: Path, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    """A class whose lessons ask `QUESTIONS`."""

    async def truths(self: object, lesson: str, own: bool) -> list[dict[str, Any]]:
        shown = {"said": "", "header": ["", "time"], "rows": [["GPU", "measured there"]], "badge": "RECORDED"}
        return [{**each, **shown} for each in QUESTIONS]

    monkeypatch.setattr(teacher.Truths, "_run", truths)
    monkeypatch.setattr(
        teacher, "asked_by_lessons", lambda: {OWN, *(("guess", each["question"]) for each in QUESTIONS)}
    )
    return Classroom(path, Played(), serving=path)


async def test_guesses_are_counted_and_no_student_s_text_is_shown(room: Classroom, prof: Client) -> None:
    sent = {
        "This clock says ...": ["8 µs", "9 µs", "3 ms", "<b>you</b>", "-1 s", "1e999 s"],
        "Who?": ["the GPU", "the CPU", "javascript:1"],
        "In order?": ["b, c, a", "a, b, c", "a, a"],
    }
    for question, values in sent.items():
        for number, value in enumerate(values):
            async with room.client(f"student {number}") as student:
                content = {"kind": "guess", "name": question, "value": value}
                assert (await student.post("/answers", json=content)).status_code == 200
    covered = await prof.get("/guesses/01")
    clock, who, order = covered.json()["questions"]
    assert clock["rows"][0] == ["5 µs to 10 µs", 2, False] and clock["rows"][-1][:2] == ["2 ms to 5 ms", 1]
    assert (clock["count"], clock["unfit"], who["count"], who["unfit"]) == (3, 3, 2, 1)
    assert who["rows"] == [["the CPU", 1, False], ["the GPU", 1, False]]
    assert order["rows"] == [["a", 1, False], ["b, c", 1, False]] and order["unfit"] == 1
    assert covered.json()["students"] == 6
    for hidden in ("measured there", "RECORDED", "student 1", "<b>", "javascript"):
        assert hidden not in covered.text, hidden
    for own in ("", "&own=1"):
        assert (await prof.get("/guesses/01")).json() == covered.json()  # hidden again
        assert ("01", True) not in room.gateway.truths._tasks
        shown = (await prof.get(f"/guesses/01?reveal=1{own}")).json()["questions"]
        assert [each["truth"]["measured"] for each in shown] == ["7.9 µs", "the CPU", "b, c, a"]
        assert shown[0]["rows"][0] == ["5 µs to 10 µs", 2, True] and shown[2]["rows"][1][2]


async def test_laptops_stand_side_by_side_without_names(room: Classroom, prof: Client) -> None:
    good = ["[3e11, 8e12, 7e-5, 2e-6]", "[1e11, 3e12, 9e-5, 4e-6]"]
    for number, value in enumerate([*good, "[1, 2, 3]", "[1, 2, 3, -4]", "[1, 2, 3, null]", "x"]):
        async with room.client(f"student {number}") as student:
            answer = await student.post("/answers", json={"kind": "yours", "name": "GPU", "value": value})
            assert answer.status_code == (200 if value in good else 400)
            assert (await student.get("/laptops")).status_code == 403
    found = await prof.get("/laptops")
    assert found.json() == {"laptops": [[1e11, 3e12, 9e-5, 4e-6], [3e11, 8e12, 7e-5, 2e-6]]}


async def test_the_page_is_for_all_and_holds_nothing_what_it_asks_for_is_the_teacher_s(
    ada: Client, prof: Client
) -> None:
    token = prof.headers["Authorization"].partition(" ")[2]
    for path in ("/lessons", "/guesses/01", "/guesses/01?reveal=1"):
        assert (await ada.get(path)).status_code == 403
        nobody = {"Authorization": "", "Cookie": f"token={token}"}
        for place in (path, f"{path}{'&' if '?' in path else '?'}token={token}"):  # neither query nor cookie
            assert (await ada.get(place, headers=nobody)).status_code == 401
        assert (await prof.get(path)).status_code == 200
    assert (await prof.get("/guesses/..%2f01")).status_code in (400, 404)
    for path in teacher.FILES:
        page = await ada.get(path, headers={"Authorization": ""})
        assert page.text == (HERE / teacher.FILES[path][0]).read_text("utf-8")
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy


def test_the_page_asks_for_nothing_elsewhere_and_makes_no_html_of_what_it_is_told() -> None:
    for name, _ in teacher.FILES.values():
        text = (HERE / name).read_text("utf-8")
        assert not re.search(r"https?:|url\(|@import|innerHTML|outerHTML|insertAdjacent|eval\(| on\w+=|style=", text)


@pytest.mark.parametrize("form", [Quantity("s"), Quantity("x"), Choice(("a", "b")), Ranking(("a", "b, c", "c"))])
def test_what_a_notebook_sends_is_read_again(form: Any) -> None:
    answer = {Quantity: 3.1e-3, Choice: "b", Ranking: ("c", "b, c", "a")}[type(form)]
    assert form.parse(form.show(answer)) == answer


async def test_a_lesson_that_cannot_be_run_says_why_and_is_tried_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complains = tmp_path / "complains"
    complains.write_text("#!/bin/sh\necho no memory >&2; exit 1\n")
    complains.chmod(0o700)
    monkeypatch.setattr(teacher, "python", lambda *_: [str(complains)])
    async with Classroom(path, Played()) as room, room.client("prof", teacher=True) as prof:
        while (told := await prof.get("/guesses/01")).status_code == 200:
            assert told.json() == {"questions": None}
        assert "no memory" in told.json()["reason"] and not room.gateway.truths._tasks
        assert told.status_code == 422
        with pytest.raises(UnavailableError, match="recording"):  # nobody told it how it is reached
            await room.gateway.truths.of("01", own=True)


async def test_who_waits_is_said_when_it_changes_and_not_again(
    room: Classroom, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(announcements, "EVERY_S", 0.001)
    task = asyncio.create_task(announcements.tell(room.turns, said.append))
    for size in (64, 128):
        await ada.post("/measure", json=asks(size))
        await asyncio.sleep(0.1)
    task.cancel()
    told, one = [text.partition(" ")[2] for text in said], "measured: 0; now: matmul size=64 for ada"
    assert one in told and told[-1] == f"{one}; waiting: ada 1"
    assert all(before != after for before, after in pairwise(told))


@pytest.mark.browser  # Playwright keeps a loop running: what asks for one of its own comes first
def test_guess_reveal_discuss_in_a_browser(chromium: Any, tmp_path: Path) -> None:
    from chromium_here import CHROMIUM, FLAGS

    browser = chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
    with served(tmp_path / "class.db", Played(at_once=True)) as (url, *_):
        store = ClassStore(tmp_path / "class.db")
        prof, asked = (
            issue(store, "prof", teacher=True),
            "Two very small matrices are multiplied. Which takes less time?",
        )
        for number, value in enumerate(["the GPU", "the GPU", "<img src=x onerror=alert(1)>"]):
            store.write("INSERT INTO answer VALUES (?, 'guess', ?, ?)", str(number), asked, value)
        page, complaints = browser.new_page(viewport={"width": 1280, "height": 720}), list[str]()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda request: complaints.append(request.url) if prof in request.url else None)
        page.goto(f"{url}/teacher")
        page.fill("#token", "wrong.token")
        page.press("#token", "Enter")
        page.wait_for_selector("#refused:has-text('token')")
        complaints.clear()  # the browser itself notes the 401
        page.fill("#token", prof)
        page.press("#token", "Enter")
        page.wait_for_selector("#count:has-text('2 guesses')", timeout=60_000)
        assert page.locator("#truth").is_hidden() and page.locator("#bars .right").count() == 0
        page.locator("#reveal").press("Enter")
        page.wait_for_selector("#bars .right:has-text('the CPU')")
        assert "RECORDED" in page.locator("#badge").inner_text() and "µs" in page.locator("#table").inner_text()
        assert "1 that the question cannot have" in page.locator("#note").inner_text()
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
        page.click("#reveal")
        assert page.locator("#truth").is_hidden()
        stored = page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        assert prof not in stored and complaints == []
        page.reload()
        assert page.locator("#door").is_visible() and page.locator("#token").input_value() == ""
        store.close()
    browser.close()


@pytest.mark.parametrize("own", [False, True])
def test_a_lesson_s_questions_come_from_its_own_cells(own: bool, tmp_path: Path) -> None:
    with served(tmp_path / "class.db", Played(at_once=True)) as (url, token, room):
        (serving := tmp_path / "serving").write_text(json.dumps({"url": url, "token": token}))
        command = python("brrr_course.classroom.truth", "notebooks/01_async_timing.ipynb", "recorded:h200")
        command += [str(serving)] if own else []
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert bool(room.engine.measured) == own
    clock, timers = json.loads(told)
    assert clock["question"].startswith("For 2048") and 0 < clock["measured"] < 1
    assert clock["badge"].startswith("LIVE, REMOTE" if own else "RECORDED") and "no guess given" not in told
    assert set(timers["measured"]) <= set(timers["given"]["items"]) and len(timers["measured"]) > 1
