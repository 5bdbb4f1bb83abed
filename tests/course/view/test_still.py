"""The one still picture of a figure: what is written in it, and that nothing lies beyond its edges."""

from itertools import combinations
from typing import Any

import pytest
import views
from matplotlib.transforms import Bbox
from test_figure import shown_by_default

from brrr_course.experiments import NAMES
from brrr_course.view import explorer
from brrr_course.view.explorer import explore
from brrr_course.view.still import apart, still_of

ROOM = 2.0
"""Pixels by which the empty edges of two texts may overlap."""


def texts_in(figure: Any) -> list[tuple[str, Bbox]]:
    """What is written in a figure, and where."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    (axes,) = figure.axes
    written = [*axes.texts, *figure.texts, axes.xaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in written if text.get_text()]


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_written_is_in_the_picture(name: str) -> None:
    figure = still_of(shown_by_default(name).scene)
    for text, box in texts_in(figure):
        assert figure.bbox.x0 - ROOM <= box.x0 and box.x1 <= figure.bbox.x1 + ROOM, text
        assert figure.bbox.y0 - ROOM <= box.y0 and box.y1 <= figure.bbox.y1 + ROOM, text


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stills of the made-up experiment."""
    monkeypatch.setattr(explorer, "experiment_named", lambda name: views.EXPERIMENT)

    def drawn(source: Any = None, **options: Any) -> Any:
        made = explore("views", at={"width": 1024, "batch": 64}, source=source or views.Recorded(), **options)
        return still_of(made.scene)

    return drawn


def test_a_line_has_its_name_and_its_value_and_two_compared_their_factor(still: Any) -> None:
    source = views.Recorded(fixed={"prepared": 10e-6, "module": 40e-6}, grows=0.0)
    figure = still(source, lines=["prepared", "module"], versus={"module": "prepared"})
    found = [text.replace("\n", " ") for text, _ in texts_in(figure)]
    assert {"10 µs", "40 µs", "4×"} <= {*found}
    assert sum(views.RUNGS["prepared"].endswith(text) for text in found) >= 1
    assert any(text.startswith("RECORDED") for text in found)


def test_bars_and_parts_have_their_names_and_values(still: Any) -> None:
    ladder = {text for text, _ in texts_in(still(lines=["module", "graph"], show="ladder"))}
    assert sum(each.endswith("µs") for each in ladder) >= 2
    source = views.Recorded(grows=0.0)
    stack = {text.replace("\n", " ") for text, _ in texts_in(still(source, show={"stack": views.PARTS}))}
    assert {*views.PARTS.values(), "together 14 µs", "2 µs, 14 %"} <= stack
    gap = views.Recorded(lacks=lambda variant, point: variant == "graph")
    assert "not measured" in {text for text, _ in texts_in(still(gap, show="ladder", lines=["module", "graph"]))}


def test_where_nothing_was_recorded_the_picture_says_so(still: Any) -> None:
    small = views.Recorded(lacks=lambda variant, point: point[1] == 64)
    assert any("Not recorded" in text for text, _ in texts_in(still(small, lines=["module", "graph"])))


def test_names_push_each_other_apart_within_the_axis() -> None:
    sizes = [16.0, 32.0, 16.0, 16.0]
    found = apart([3, 5, 6, 90], sizes, 0, 100)
    for (one, size), (other, its) in combinations(zip(found, sizes, strict=True), 2):
        assert other - one > (size + its) / 2 - 1
    assert found[0] >= 8 and found[-1] <= 92
