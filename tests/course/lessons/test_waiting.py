"""A comparison without a guess: a request outside a notebook; in one, a place that fills itself in."""

from collections.abc import Iterator
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances

from brrr.core.errors import NotRecordedError
from brrr_course.lessons import waiting
from brrr_course.lessons.guessing import Guess, forget, guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, Waiting
from brrr_course.view.display import MEASURING
from brrr_course.view.explorer import explore

MADE: list[str] = []
"""What was compared, in order."""


def compare_made(guess: Guess, name: str, *, wrong: bool = False) -> Comparison:
    def compared() -> Comparison:
        MADE.append(name)
        if wrong:
            raise NotRecordedError("no <such> point")
        return Comparison(f"{name}: you said {guess.value}.", ("line", "time"), (("GPU <1>", "3 ms"),), "RECORDED")

    return compared() if guess.answered else Waiting(UNANSWERED, guess=guess, compared=compared)


@pytest.fixture(autouse=True)
def _nothing_left_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("BRRR_STATIC", raising=False)
    MADE.clear()
    forget()
    yield
    forget()


class Cells:
    """A notebook played: `run` runs a cell that shows something, and returns the place that is then on the page."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, named: bool = True) -> None:
        self.runs, self.named = 0, named
        self.published: list[Any] = []
        self.now = ("", "")
        monkeypatch.setattr(waiting, "in_notebook", lambda: True)
        monkeypatch.setattr(waiting, "publish", self.published.append)
        monkeypatch.setattr(waiting, "_cell_and_run", lambda: self.now)

    def run(self, shown: Comparison, cell: str = "one") -> Any:
        self.runs += 1
        self.now = (cell if self.named else f"run {self.runs}", f"run {self.runs}")
        assert isinstance(shown, Waiting)
        shown._ipython_display_()
        view = self.published[-1]["application/vnd.jupyter.widget-view+json"]
        return _instances[view["model_id"]]


def said(place: Any) -> str:
    (output,) = place.outputs
    return str(output["data"]["text/plain"])


def test_outside_a_notebook_it_asks_for_the_guess_and_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    asked = compare_made(guess("q", unit="x"), "a")
    capsys.readouterr()
    asked._ipython_display_()  # type: ignore[attr-defined]  # IPython in a terminal
    assert repr(asked) == UNANSWERED == capsys.readouterr().out.strip()
    assert "run this cell again" in repr(asked)


def test_the_place_fills_itself_in(monkeypatch: pytest.MonkeyPatch) -> None:
    g = guess("q", unit="x")
    place = Cells(monkeypatch).run(compare_made(g, "a"))
    assert said(place) == "Not answered yet: give your guess above."
    assert MADE == []
    g.answer("3x")
    assert said(place) == repr(compare_made(g, "a"))
    (output,) = place.outputs
    assert output["data"]["text/html"] == compare_made(g, "a")._repr_html_()
    assert "&lt;1&gt;" in output["data"]["text/html"]


def test_every_place_says_that_it_measures_before_any_of_them_does(monkeypatch: pytest.MonkeyPatch) -> None:
    g, during, cells = guess("q", unit="x"), [], Cells(monkeypatch)
    figure = explore("matmul", at={"size": 4096}, unlock=g, source="recorded:h200")
    cover = figure._root_widget()

    def made() -> Any:
        during.append([cover.children[0].value, *map(said, places)])
        raise NotRecordedError("no <such> figure")

    monkeypatch.setattr(figure, "_make_panel", made)
    places = [cells.run(compare_made(g, "a"))]
    g.answer("3x")
    ((covered, place),) = during
    assert MEASURING in covered and place == MEASURING
    assert "no &lt;such&gt; figure" in cover.children[0].children[0].value and said(places[0]).startswith("a: you said")


def test_a_cell_that_ran_again_writes_into_its_new_output_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    g, cells = guess("q", unit="x"), Cells(monkeypatch)
    dead, other = cells.run(compare_made(g, "before it was edited")), cells.run(compare_made(g, "b"), "two")
    shown = cells.run(compare_made(g, "a"))
    g.answer("3x")
    assert sorted(MADE) == ["a", "b"]
    assert said(dead).startswith("Not answered yet")
    assert said(shown).startswith("a: you said 3.0") and said(other).startswith("b: you said 3.0")


def test_where_cells_have_no_names_every_place_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    g, cells = guess("q", unit="x"), Cells(monkeypatch, named=False)
    places = [cells.run(compare_made(g, name)) for name in ("a", "b")]
    g.answer("3x")
    assert [said(place)[0] for place in places] == ["a", "b"]


def test_an_error_is_shown_in_the_place_and_keeps_nobody_else_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    g, cells = guess("q", unit="x"), Cells(monkeypatch)
    failed, shown = cells.run(compare_made(g, "a", wrong=True)), cells.run(compare_made(g, "b"), "two")
    g.answer("3x")
    assert said(failed) == "NotRecordedError: no <such> point"
    assert "&lt;such&gt;" in failed.outputs[0]["data"]["text/html"]
    assert said(shown).startswith("b")
