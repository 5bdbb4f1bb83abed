"""The explorer in a notebook: where its reader goes, what Python moves, what it hides, and what renews its figure."""

from collections.abc import Iterator
from typing import Any

import pytest
import views
from synthetic import live
from traitlets import TraitError

from brrr.core.errors import ArgumentError
from brrr.drawing.style import readable
from brrr_course.lessons.comparing import compare
from brrr_course.lessons.guessing import Guess, guess
from brrr_course.sources.recorded import Recorded
from brrr_course.view import explorer, words
from brrr_course.view.display import COVERED
from brrr_course.view.explorer import Explorer, explore

LINES = ["transfers", "unsynchronized", "synchronized"]


pytestmark = pytest.mark.usefixtures("made_up_recordings")


@pytest.fixture
def two_axes(monkeypatch: pytest.MonkeyPatch) -> Explorer:
    """An explorer over widths and batches, which stands at the first of each."""
    monkeypatch.setattr(explorer, "experiment_named", lambda name: views.EXPERIMENT)
    return explore("views", source=views.Recorded(), at={"width": views.WIDTHS[0], "batch": 64})


def said(shown: Explorer) -> str:
    """The sentence of the figure where its sliders stand."""
    figure, place = shown.panel.figure, 0
    for position, slider in zip(figure.at, figure.scene["sliders"], strict=True):
        place = place * len(slider["texts"]) + position
    told = figure.scene["say"]
    return str(told["forms"][told["at"][place]])


# ---- where it stands ----


def test_the_reader_moves_the_scene_and_nothing_is_sent_back(
    two_axes: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, sent = two_axes.panel.figure, list[Any]()
    monkeypatch.setattr(figure, "send_state", lambda key=None: sent.append(key))
    figure.set_state({"at": [3, 1]})  # as a message of the page's
    assert two_axes.scene.point == {"width": views.WIDTHS[3], "batch": 1024}
    assert [dial.value for dial in two_axes.sliders.values()] == [views.WIDTHS[3], 1024]
    assert (figure.at, sent) == ([3, 1], [])
    assert said(two_axes) == words.verdict(two_axes.scene)


def test_python_moves_the_figure(two_axes: Explorer) -> None:
    figure = two_axes.panel.figure
    two_axes.set(width=views.WIDTHS[2] + 1, batch=16384)
    assert figure.at == [2, 2]
    assert [slider["texts"][2] for slider in figure.scene["sliders"]] == [
        readable(views.WIDTHS[2]),
        readable(16384),
    ]
    with pytest.raises(TraitError, match="7 is none of this slider's values"):
        two_axes.sliders["width"].value = 7
    two_axes.sweep()
    assert figure.at == [2, 2]


# ---- its lines ----


def test_lines_that_the_reader_hides_are_off_in_the_scene() -> None:
    shown = explore("matmul", at={"size": 4096}, lines=LINES, source="recorded:h200")
    figure = shown.panel.figure
    assert figure.hidden == [] and [line["name"] for line in figure.scene["lines"]] == LINES
    figure.hidden = LINES[:1]
    assert list(shown.data) == LINES[1:] and "with transfers" not in shown.text
    figure.hidden = LINES
    assert shown.text == "No line is switched on. At size 4096."
    figure.hidden = LINES[:2]
    assert list(shown.data) == LINES[2:]
    shown.set(size=64)
    assert figure.hidden == LINES[:2] and list(shown.data) == LINES[2:]


def test_predictions_are_in_the_figure_where_the_reader_wants_them(two_axes: Explorer) -> None:
    at, source = {"width": 1024, "batch": 64}, views.Recorded()
    shown = explore("views", at=at, lines=["prepared"], source=source, predict=True)
    figure = shown.panel.figure
    for on in (True, False, True):
        figure.predicting = on
        assert shown.scene.predictions.on == bool(shown.predictions) == on == shown._choose(source.name).predictions.on
        kinds = [line.get("kind") for line in figure.scene["lines"]]
        assert ("foretold" in figure.scene, "predicted" in kinds) == (on, on)
    assert shown.panel.failures == []


# ---- its source ----


def test_the_source_changes_with_its_badge_and_its_lines() -> None:
    shown = explore("matmul", at={"size": 256}, source="recorded:h200")
    assert "RECORDED · Synthetic H200" in shown.panel.figure.scene["badge"]
    offered = [name for _, name in shown.panel.source.options]
    assert offered[:3] == ["recorded:cpu", "recorded:h100", "recorded:h200"]
    assert "cpu" in offered
    others = [name for _, name in explore("nested_sine", source="recorded:h200").panel.source.options]
    assert others[:2] == ["recorded:cpu", "recorded:h200"], "nobody recorded it on an H100"
    shown.panel.source.value = "recorded:cpu"
    assert "Synthetic CPU" in shown.panel.figure.scene["badge"]
    assert {line.variant for line in shown.scene.lines} <= {"cpu", "queue"}
    assert shown.scene.point == {"size": 256}
    assert shown.panel.measuring.layout.display == "none"


def test_a_source_that_fails_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = explore("matmul", at={"size": 256}, source="recorded:h200")
    monkeypatch.setattr(explorer, "source_named", lambda _: Recorded("gone"))
    shown.panel.source.value = "recorded:cpu"
    assert shown.panel.source.value == "recorded:h200"
    assert "Synthetic H200" in shown.panel.figure.scene["badge"]
    assert all("Recorded: device is" in text for text in (shown.text, shown.panel.text.value))
    shown.set(size=1)
    assert not any("Recorded: device is" in text for text in (shown.text, shown.panel.text.value))
    shown.sweep()


# ---- what renews it ----


def test_a_comparison_that_measures_renews_the_figure_above_it() -> None:
    shown, source = live()
    assert "Not measured yet" in said(shown)
    compare(guess("q", unit="s", answer="1 s"), "matmul", ["cpu", "synchronized"], source=source, size=256)
    assert "Not measured yet" not in said(shown)


def test_what_cannot_be_measured_is_a_message_until_the_next_move() -> None:
    shown, _ = live(too_large=10_000)
    shown.set(size=32768)
    shown.panel.measure.click()
    assert "needs 51.5 GB" in shown.panel.figure.scene["message"] and "needs 51.5 GB" in shown.panel.text.value
    shown.set(size=64)
    assert shown.panel.text.value == ""


def test_another_guess_is_new_in_the_figure() -> None:
    asked = Guess("How long?", guess("warm", unit="s").form)
    shown = explore("matmul", at={"size": 4096}, lines=["synchronized"], unlock=asked, source="recorded:h200")
    root = shown._root_widget()
    for answer, value in (("25 µs", 25e-6), ("2 ms", 2e-3)):
        asked.answer(answer)
        assert root.children == (shown.panel.root,)
        assert shown.panel.figure.guess == [value, answer]
        assert said(shown).startswith(f"You said {answer}. GPU, clock stopped after synchronize(): 2.76 ms.")


# ---- covered ----


def widgets_in(widget: Any) -> Iterator[Any]:
    """A widget and all that is in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from widgets_in(child)


def test_while_covered_no_widget_holds_data() -> None:
    asked = Guess("How long?", guess("warm", unit="s").form)
    shown = explore("matmul", at={"size": 4096}, unlock=asked, source="recorded:h200", predict=True)
    assert (shown.text, shown.data, shown.predictions) == (COVERED, {}, []) and repr(shown) == COVERED
    root = shown._root_widget()
    assert shown._panel is None and not any(hasattr(each, "scene") for each in widgets_in(root))
    with pytest.raises(ArgumentError):
        shown.picture()
    asked.answer("25 µs")
    (figure,) = (each for each in widgets_in(root) if hasattr(each, "scene"))
    assert figure is shown.panel.figure and "as long as" in said(shown) and shown.data["synchronized"]
    at_once = explore("matmul", at={"size": 4096}, unlock=asked, source="recorded:h200")
    assert "took 460× as long as " in said(at_once) and at_once._root_widget() is at_once.panel.root
