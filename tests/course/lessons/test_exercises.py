"""What `check` says of the answers in notebooks/source/solutions/, and of the same with one change each: slips.toml."""

import linecache
import math
import random
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr_course.lessons import marks
from brrr_course.lessons.calculations import calculated, tables
from brrr_course.lessons.checking import check, exercises
from brrr_course.lessons.exercises import lesson_01_timer
from brrr_course.lessons.marks import Mark
from brrr_course.lessons.pretend import Busy, Host, Queue

SOURCES = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "solutions"


def cells() -> Iterator[tuple[str, str]]:
    """Each exercise, and the code of its solution behind the lesson's imports."""
    for path in SOURCES.glob("*.py"):
        imports = ""
        for cell in path.read_text("utf-8").split("# %%"):
            tags, _, code = cell.partition("\n")
            imports += code if '"setup"' in tags else ""
            if found := re.search(r'"exercise:([^"]+)"', tags):
                yield found[1], f"{imports}\n{code}"


SOLUTIONS = dict(cells())


@pytest.fixture(autouse=True)
def _on_this_cpu(monkeypatch: pytest.MonkeyPatch, cells_here: None) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "cpu")
    random.seed(1)  # now and then two mistakes come to the same number


def marked(exercise: str, old: str, new: str) -> Mark:
    """The mark of an exercise's solution with one piece of its text exchanged."""
    made: list[Mark] = []
    assert old in SOLUTIONS[exercise], (exercise, old)
    head, call, tail = SOLUTIONS[exercise].replace(old, new).rpartition("check(")
    text = f"{head}made.append({call}{tail.rstrip()})"
    linecache.cache[exercise] = len(text), None, text.splitlines(keepends=True), exercise  # Triton reads a kernel there
    exec(compile(text, exercise, "exec"), {"made": made})
    return made[0]


def with_triton(exercise: str) -> None:
    if exercise == "05-kernel":
        pytest.importorskip("triton", reason="Triton has no build for this system")


TOLD = tomllib.loads(Path(__file__).with_name("slips.toml").read_text("utf-8"))
TRIED = [(exercise, kind, *row) for exercise, kinds in TOLD.items() for kind, rows in kinds.items() for row in rows]


def test_every_exercise_has_its_slips_here() -> None:
    """But for two with files of their own."""
    assert {*exercises()} - {*TOLD} == {"02-sines", "09-crossover"}
    assert all(kinds["wrong"] for kinds in TOLD.values())


@pytest.mark.parametrize(("exercise", "status", "old", "new", "said"), TRIED)
def test_right_answers_are_right_and_each_slip_is_told(
    exercise: str, status: str, old: str, new: str, said: str
) -> None:
    with_triton(exercise)
    mark = marked(exercise, old, new)
    assert mark.status == status and said.lower() in repr(mark).lower(), mark
    assert mark.right or mark.hint or "your function raised" in mark.text


def test_a_kernel_that_is_compiled_for_a_gpu_is_interpreted_to_be_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    with_triton("05-kernel")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert "you read 400 kB and wrote 400 kB" in marked("05-kernel", "", "").text


def test_where_there_is_no_triton_a_kernel_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    mark = check("05-kernel", kernel=len)
    assert mark.status == "not answered" and "Triton is not installed" in mark.text and "go on" in mark.hint


NEAR, FAR = "505 µs; a call takes 500 µs by construction (PAPER), 1 % off.", "means little: this machine is busy"


def test_what_is_counted_is_sent_in_place_of_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = list[tuple[str, ...]]()
    monkeypatch.setattr("brrr_course.lessons.checking.send", lambda *told: sent.append(told))
    marked("01b-harness", "lab.read(call(x))", "call(x)[:]")
    marked("01b-harness", "", "")
    assert sent == [("check", "01b-harness", "7 of 8"), ("check", "01b-harness", "right")]


@pytest.mark.parametrize(("factors", "said"), [((1.86, 0.8, 1.01), NEAR), ([1.86] * lesson_01_timer.RUNS, FAR)])
def test_a_right_timer_runs_until_its_number_is_near_the_truth(
    monkeypatch: pytest.MonkeyPatch, factors: Sequence[float], said: str
) -> None:
    left = list(factors)

    def device() -> AbstractContextManager[Busy]:
        queue, factor = Queue(Host(issue=0.0)), left.pop(0)

        def event() -> Any:
            at = queue.record().at
            return SimpleNamespace(at=at, query=lambda: True, elapsed_time=lambda end: 1e3 * (end.at - at))

        return nullcontext(Busy("PAPER", lambda takes_s: (queue.run(factor * takes_s), None)[1], event, lambda: None))

    monkeypatch.setattr(lesson_01_timer, "busy", device)
    mark = marked("01-timer", "", "")
    assert mark.right and said in mark.text and not left and "930" not in mark.text


@pytest.mark.parametrize("exercise", exercises())
def test_what_is_no_answer_is_wrong_and_gets_a_hint(exercise: str) -> None:
    found, raising = exercises()[exercise], "your function raised ZeroDivisionError"
    with_triton(exercise)
    for name in found.takes if exercise in calculated() else found.functions:
        for junk in (None, True, "one", [1]):
            answers: dict[str, Any] = dict.fromkeys(found.takes, 1) | dict.fromkeys(found.functions, len)
            answers |= {"line": "head"} if exercise == "07c-slow-line" and name != "line" else {}
            mark = check(exercise, **{**answers, name: junk})
            assert mark.status == "wrong" and repr(junk) in mark.text and mark.hint, mark
    if found.takes == found.functions:
        assert raising in check(exercise, **dict.fromkeys(found.takes, lambda *_: 1 / 0)).text


@pytest.mark.parametrize("number", [0, -1, math.nan, math.inf])
def test_answers_above_0_are_finite(number: float) -> None:
    for exercise, table in tables().items():
        for name, each in table["answers"].items():
            if not {"words", "kind", "arguments"} & {*each}:
                mark = check(exercise, **{**dict.fromkeys(table["answers"], 1), name: number})
                assert mark.status == "wrong" and repr(number) in mark.text and mark.hint


def test_code_that_never_ends_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def finished(*_: object) -> float:
        while True:
            pass

    monkeypatch.setattr(marks, "LIMIT_S", 0.2)
    mark = check("00-queue", finished=finished)
    assert mark.status == "wrong" and mark.text.startswith("your function did not return within 0.2 s\nin line ")
    assert mark.text.endswith(("while True:", "pass"))


def test_an_interrupt_is_one_line() -> None:
    def finished(*_: object) -> float:
        raise KeyboardInterrupt

    assert check("00-queue", finished=finished) == Mark(
        "not answered", "it was interrupted before your function returned."
    )


@pytest.mark.parametrize(
    ("name", "answers", "expected"),
    [
        ("00-launch", {"microseconds": 1}, "check: exercise is '00-launch'; expected its name, such as 00-launches"),
        ("", {}, "check: exercise is ''; expected its name"),
        ("00-launches", {"micro": 1}, """check: answers is 'micro'; expected check("00-launches", microseconds=...)"""),
    ],
)
def test_a_misspelt_call_is_one_line(name: str, answers: dict[str, Any], expected: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        check(name, **answers)
    (shown,) = raised.value._render_traceback_()  # what a notebook shows in place of the frames
    assert shown.startswith(f"ArgumentError: {expected}") and "\n" not in shown
