"""What a lesson calls: guess, compare and check, with answers that are right, wrong and junk."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from formulas import Kept
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Synthetic

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Measurement, Value
from brrr_course.experiments import experiment
from brrr_course.lessons import guessing
from brrr_course.lessons.answers import Quantity, Ranking
from brrr_course.lessons.checking import check, exercises
from brrr_course.lessons.comparing import SPECIAL, UNJUDGED, compare
from brrr_course.lessons.guessing import Guess, forget, guess
from brrr_course.sources import source as source_named
from brrr_course.view.arguments import reachable


@pytest.fixture(autouse=True)
def _recorded(synthetic_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lesson's source is the made-up recording, and no answer is left over from another test."""
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    monkeypatch.delenv("BRRR_STATIC", raising=False)
    forget()
    yield
    forget()


# ---- guess ----


def test_an_answer_uncovers_once_and_is_told_to_all_who_wait() -> None:
    g, told = guess("How long?", unit="s"), []
    g.on_answer(told.append)
    assert not g.answered
    assert told == []
    g.answer("25 µs")
    assert g.answered
    assert g.value == pytest.approx(25e-6)
    assert told == [g]
    g.on_answer(told.append)
    assert told == [g, g]


def test_a_guess_can_be_changed_and_the_first_stays_on_record(sent: list[tuple[str, str, str]]) -> None:
    g = guess("How long?", unit="s")
    field, button, status = _form(g)
    field.value = "25 ms"
    button.click()
    told: list[Any] = []
    g.on_answer(lambda answered: told.append(answered.value))
    assert field.disabled and button.description == "Change my guess"
    button.click()
    assert not field.disabled
    field.value = "25 us"
    button.click()
    assert (g.value, g.first, field.disabled) == (pytest.approx(25e-6), "25 ms", True)
    assert told == [pytest.approx(25e-3), pytest.approx(25e-6)]
    assert "Your guess: 25 µs" in status.value and "At first: 25 ms" in status.value
    assert sent == [("guess", "How long?", "25 ms")] * 2


def test_a_guess_is_kept_beside_the_notebook_until_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "01_async_timing.ipynb"))
    questions: dict[str, Any] = {
        "How long?": {"unit": "s"},
        "Who?": {"options": ["a", "b"]},
        "Order?": {"ranking": "ab"},
    }
    for (question, form), answer in zip(questions.items(), ("4,6 µs", "b", ["b", "a"]), strict=True):
        guess(question, **form, answer=answer)
    kept = tmp_path / ".01_async_timing.guesses.json"
    assert kept.stat().st_mode & 0o077 == 0
    guessing._given.clear()  # a new kernel
    assert [guess(question, **form).value for question, form in questions.items()] == [4.6e-6, "b", ("b", "a")]
    assert not guess("How long?", ranking=["a", "b"]).answered  # the cell was edited since
    kept.write_text("{damaged")
    guessing._given.clear()
    assert not guess("Who?", options=["a", "b"]).answered
    forget()
    assert not kept.exists()


@pytest.mark.parametrize(
    "junk", ["", "soon", "25", "25 parsecs", "-3 ms", "0 s", "1e999 s", "2,500 ms", None, [1], True]
)
def test_junk_is_refused_and_changes_nothing(junk: object) -> None:
    g = guess("How long?", unit="s")
    with pytest.raises(ArgumentError, match="expected a"):
        g.answer(junk)
    assert not g.answered


@given(st.text())
def test_no_text_breaks_a_quantity(text: str) -> None:
    for unit in ("s", "x", ""):
        with suppress(ArgumentError):
            assert Quantity(unit).parse(text) > 0


@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3))
def test_the_ratio_is_never_below_one(said: float, measured: float) -> None:
    text = Quantity("s").distance(said, measured)
    if text != "a good guess":
        factor, _, which = text.split()
        assert float(factor.rstrip("x")) > 1.2
        assert which == ("short" if said < measured else "long")


@pytest.mark.parametrize("unit", ["s", "x", ""])
def test_what_a_refusal_recommends_is_taken(unit: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        Quantity(unit).parse("abc")
    assert [Quantity(unit).parse(each) for each in re.findall("'(.+?)'", refused.value.expected)]


def test_the_answer_is_kept_when_the_cell_runs_again() -> None:
    guess("Which?", options=["a", "b"]).answer("A")
    assert guess("Which?", options=["a", "b"]).value == "a"
    assert not guess("Which?", options=["c", "d"]).answered


@pytest.mark.parametrize("order", [["a", "b"], ["a", "b", "b"], ["a", "b", "c", "c"], "abc", 3, ["a", "b", "x"]])
def test_a_ranking_takes_each_item_once(order: object) -> None:
    with pytest.raises(ArgumentError):
        Ranking(("a", "b", "c")).parse(order)


@pytest.mark.parametrize(
    "wrong", [{}, {"unit": "s", "options": ["a", "b"]}, {"options": ["a"]}, {"ranking": ["a", "a"]}]
)
def test_a_question_that_cannot_be_answered_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        guess("q", **wrong)


# ---- the form ----


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What is told to the class."""
    told: list[tuple[str, str, str]] = []
    monkeypatch.setattr(guessing, "send", lambda *each: told.append(each))
    return told


def _form(g: Guess) -> tuple[Any, Any, Any]:
    from brrr_course.lessons.guessing import form

    _, field, button, status = form(g).children
    return field, button, status


def test_the_form_explains_junk_and_keeps_it() -> None:
    g = guess("How long?", unit="s")
    field, button, status = _form(g)
    field.value = "about 25"
    button.click()
    assert "<b>You wrote about 25.</b>" in status.value and "its unit" in status.value
    assert field.value == "about 25"
    assert not g.answered
    field.value = "25 us"
    button.click()
    assert g.value == pytest.approx(25e-6)
    assert "25 µs" in status.value
    assert field.disabled


def test_enter_is_as_good_as_the_button() -> None:
    g = guess("How long?", unit="s")
    field, _, _ = _form(g)
    field.value = "3 ms"
    field._handle_custom_msg({"event": "submit"}, [])
    assert g.value == pytest.approx(3e-3)


def test_the_form_of_a_choice() -> None:
    g = guess("Which?", options=["a", "b"])
    field, button, status = _form(g)
    button.click()
    assert not g.answered
    assert "<b>Not answered yet.</b>" in status.value and "one of: a, b" in status.value
    field.value = "b"
    button.click()
    assert g.value == "b"


def test_the_form_of_a_ranking() -> None:
    g = guess("Order?", ranking=["a", "b"])
    field, button, status = _form(g)
    _, a, b = field.children
    a.click()
    button.click()
    assert "<b>Not answered yet.</b>" in status.value and "b is missing" in status.value
    a.click()
    assert a.description == "a"  # taken back
    b.click()
    a.click()
    assert (a.description, b.description) == ("2. a", "1. b")
    button.click()
    assert g.value == ("b", "a") and a.disabled


def test_a_kept_answer_fills_the_form() -> None:
    guess("Order?", ranking=["a", "b"], answer=["b", "a"])
    field, _, _ = _form(guess("Order?", ranking=["a", "b"]))
    assert [button.description for button in field.children[1:]] == ["2. a", "1. b"]


# ---- compare ----


def one_point(at: Mapping[str, Value], **times_s: float) -> Any:
    """A source of one point, with a time for each variant it has."""

    def all_of(time_s: float) -> Measurement:
        e = Estimate(time_s, time_s, time_s, 9)
        return Measurement(host_s=e, kernel_s=e, span_s=e, period_s=e, latency_s=e)

    key = tuple(at.values())
    return Kept({name.replace("_", "-"): {key: all_of(each)} for name, each in times_s.items()}, device="made up")


TIMERS = ["no sync", "no warm-up", "sync each call", "event pair each call"]
RELU = {"function": "relu-64x1024", "cache": "hot"}


def test_a_quantity_is_compared_with_the_first_line() -> None:
    g = guess("q", unit="s", answer="25 µs")
    source = one_point({"size": 2048}, gpu=3.1e-3)
    text = repr(compare(g, "matmul", ["synchronized", "transfers"], source=source, size=2000))
    assert "At size 2048, you said 25 µs, measured 3.1 ms: 124x too short." in text
    assert "RECORDED · made up" in text


def test_the_queue_stands_in_where_there_is_no_gpu() -> None:
    g = guess("Who?", options=["the CPU", "the GPU"], answer="the GPU")
    source = one_point({"size": 64}, cpu=1e-6, queue=5e-6)
    text = repr(compare(g, "matmul", {"the CPU": "cpu", "the GPU": "synchronized"}, source=source, size=1))
    assert "you said the GPU, but it is the CPU" in text
    assert "CPU queue" in text


def test_a_ranking_is_by_error_and_leaves_out_what_the_source_lacks() -> None:
    source = one_point(RELU, measure=1e-6, no_sync=3e-6, sync_each_call=0.1e-6, event_pair=5e-6)
    g = guess("Order?", ranking=TIMERS, answer=["no sync", "no warm-up", "event pair each call", "sync each call"])
    text = repr(compare(g, "timers", TIMERS, truth="measure", source=source, **RELU))
    assert "all 3 stand in the right place" in text
    assert "10x too short" in text


def test_errors_that_are_almost_the_same_share_their_place() -> None:
    g = guess("Order?", ranking=TIMERS[:2], answer=["no warm-up", "no sync"])
    tie = one_point(RELU, measure=1e-6, no_sync=3.0e-6, no_warm_up=3.2e-6)
    text = compare(g, "timers", TIMERS[:2], truth="measure", source=tie, **RELU).text
    assert "all 2 stand in the right place; no sync = no warm-up (a tie)." in text
    apart = one_point(RELU, measure=1e-6, no_sync=3.0e-6, no_warm_up=4e-6)
    text = compare(g, "timers", TIMERS[:2], truth="measure", source=apart, **RELU).text
    assert "0 of 2" in text and "tie" not in text


def test_nothing_is_shown_before_the_guess_except_in_the_edition(monkeypatch: pytest.MonkeyPatch) -> None:
    g = guess("q", unit="s")
    assert "Not answered yet" in repr(compare(g, "matmul", ["synchronized"], size=2048))
    monkeypatch.setenv("BRRR_STATIC", "1")
    assert "no guess given; measured:" in repr(compare(g, "matmul", ["synchronized"], size=2048))


def test_a_source_without_any_of_the_lines_says_so() -> None:
    g = guess("q", unit="s", answer="1 s")
    source = one_point({"size": 2048}, cpu=1e-6)
    assert "has none of these lines" in repr(compare(g, "matmul", ["transfers"], source=source, size=2048))


def test_a_value_that_the_source_lacks_becomes_the_nearest_or_the_first() -> None:
    source = one_point({"function": "product-128", "cache": "hot"}, queue_measure=1e-6)
    at = reachable(experiment("timers"), source, {"function": "relu-64x1024", "cache": "hot"})
    assert at == {"function": "product-128", "cache": "hot"}
    assert reachable(experiment("matmul"), source_named(), {"size": 2000}) == {"size": 2048}


def test_a_point_may_be_given_as_explore_takes_it() -> None:
    g = guess("q", unit="x", answer="2")
    whole = compare(g, "matmul", ["synchronized"], size=(512, 2048))
    assert repr(compare(g, "matmul", ["synchronized"], at={"size": 1}, size=(512, 2048))) == repr(whole)
    s = guess("q", unit="s", answer="1 s")
    assert repr(compare(s, "matmul", ["cpu"], at={"size": 512})) == repr(compare(s, "matmul", ["cpu"], size=512))


LARGE = {"dtype": "float32", "elements": 2**26}


@pytest.mark.parametrize(
    ("name", "lines", "asked", "told"),
    [
        ("matmul", ["cpu", "synchronized"], {"size": 2048}, ["cpu", "synchronized"]),
        ("timers", ["no sync"], {"truth": "measure", **RELU}, ["no sync", "measure"]),
        ("repeat", ["cuda mul"], {"repeat": (1, 32), **LARGE}, ["cuda mul"]),
        ("unary", {"relu": "gelu"}, {"of": "speed-up", **LARGE}, ["relu", "gelu"]),
        ("remat", ["eager"], {"of": "memory", "activation": "hardswish", "depth": 8, "elements": 2**16}, ["eager"]),
    ],
)
def test_a_comparison_tells_the_line_of_its_own_that_drifted_most(
    monkeypatch: pytest.MonkeyPatch, name: str, lines: Any, asked: dict[str, Any], told: list[str]
) -> None:
    source, found = Synthetic(), experiment(name)
    drawn = [found.line(each) for each in told]
    of_its_own = {(line.variant, line.field): 0.1 * rank for rank, line in enumerate(drawn, start=1)}
    others = {(line.variant, line.field): 0.9 for line in found.lines} | {(drawn[0].variant, "nothing"): 0.9}
    monkeypatch.setattr(source, "drifts", lambda experiment: others | of_its_own)
    g = guess("q", unit="x", answer="2x")
    text = compare(g, name, lines, source=source, **asked).text
    assert text.endswith(f". Measured again later, times differ by up to {10 * len(told)} % ({drawn[-1].label}).")
    monkeypatch.setattr(source, "drifts", lambda experiment: {})
    again = compare(g, name, lines, source=source, **asked).text
    assert text.startswith(again) and "again later" not in again


FORMS = {"seconds": {"unit": "s"}, "factor": {"unit": "x"}, "choice": {"options": ["a", "b"]},
         "ranking": {"ranking": ["a", "b"]}}  # fmt: skip


@pytest.mark.parametrize(
    ("of", "name", "at", "fits"),
    [
        ("time", "repeat", {"repeat": (1, 32), **LARGE}, {"factor"}), ("speed-up", "unary", {}, {"factor"}),
        ("classes", "block", {}, {"factor"}), ("step", "rnn", {}, {"factor"}),
        ("error", "strassen", {"level": 2}, {"factor"}),
        ("time", "matmul", {}, set(FORMS)), ("regime", "mystery", {}, set(FORMS)),
        ("swap", "memory_swap", {}, set(FORMS)), ("payback", "compiled", {}, set(FORMS)),
    ],
)  # fmt: skip
def test_each_quantity_takes_a_guess_of_its_form_and_waits_for_it(
    of: str, name: str, at: dict[str, Any], fits: set[str]
) -> None:
    for kind, form in FORMS.items():
        g = guess("a form", **form)  # type: ignore[arg-type]
        if kind in fits:
            assert "Not answered yet" in compare(g, name, of=of, **at).text
        else:
            with pytest.raises(ArgumentError, match="a guess of a factor"):
                compare(g, name, of=of, **at)
    if of not in UNJUDGED:
        with pytest.raises(ArgumentError, match="guess"):
            compare(None, name, of=of, **at)


def test_a_quantity_that_an_experiment_does_not_have() -> None:
    assert "error" in SPECIAL["strassen"]
    for of in ("classes", "apples"):
        with pytest.raises(ArgumentError, match=f"of is '{of}'.*time, growth, speed-up, memory"):
            compare(guess("q", unit="x"), "matmul", ["cpu"], of=of, size=2048)


def test_a_comparison_escapes_what_it_shows() -> None:
    g = guess("q", options=["<b>", "b"], answer="<b>")
    html = compare(g, "matmul", {"<b>": "cpu"}, size=2048)._repr_html_()
    assert "<b>," not in html
    assert "&lt;b&gt;" in html


# ---- check ----


@pytest.mark.parametrize("exercise", exercises())
def test_unanswered_is_not_wrong(exercise: str) -> None:
    names = exercises()[exercise].takes
    mark = check(exercise, **dict.fromkeys(names, ...))
    assert mark.status == "not answered"
    assert all(f"`{name}=`" in mark.text for name in names)


def misspells(call: Any, synchronize: Any, event: Any) -> float:
    return clok() - 1  # type: ignore[name-defined]  # noqa: F821


def test_an_exception_is_shown_with_its_line() -> None:
    assert "return clok() - 1" in check("01-timer", timer=misspells).text


def test_half_an_answer_is_not_answered() -> None:
    mark = check("01-events", call_us=4.6, extra_us=...)
    assert mark.status == "not answered"
    assert "`extra_us=`" in mark.text
    assert "`call_us=`" not in mark.text
