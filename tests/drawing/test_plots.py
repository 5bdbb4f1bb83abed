"""One style: markers and colours told apart, ticks in units, a badge on the figure, pictures with their text."""

from functools import cache
from io import BytesIO
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from brrr.core.measurement import Badge
from brrr.drawing import style
from brrr_course.view.factory import BROUGHT_OUT, STAGES, TITLES, Detail, Highlight, factory
from tests.refusals import refused

BADGE = Badge("RECORDED", "a made-up device", "2000-01-01", "torch 0")


def test_no_two_of_49_lines_look_alike() -> None:
    looks = {(style.look(n)["color"], style.look(n)["marker"]) for n in range(49)}
    assert len(looks) == 49


def test_colours_stand_out_from_the_paper() -> None:
    """A contrast of 1.8 to 1 at least: enough for a thick line with markers (pale text would need 4.5)."""
    for colour in style.COLOURS:
        assert 1.05 / (_luminance(colour) + 0.05) > 1.8, colour


def test_a_guide_is_dashed_and_labelled() -> None:
    drawn = style.figure()
    on = style.axes(drawn)
    assert style.draw_line(on, [1, 2], [1e-6, 2e-6], 1, "eager").get_linestyle() == "-"
    guide = style.draw_guide(on, [1, 2], [3, 3], 0, "DATASHEET link limit")
    assert guide.is_dashed() and guide.get_color() not in style.COLOURS
    assert guide.get_label() == "DATASHEET link limit"


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (1e-6, "s", "1 µs"),
        (9.999999999999999e-5, "s", "100 µs"),
        (1.0, "s", "1 s"),
        (100.0, "x", "100×"),
        (1e11, "B/s", "100 GB/s"),
    ],
)  # fmt: skip
def test_ticks_read_as_units(value: float, unit: str, said: str) -> None:
    assert style.tick_label(value, unit) == said


def test_a_share_stands_between_nothing_and_all() -> None:
    on = style.axes(style.figure())
    style.value_axis(on, "%", "share of the time")
    on.figure.canvas.draw()
    said = [tick.get_text() for tick in on.get_yticklabels()]
    assert on.get_yscale() == "linear" and on.get_ylim()[0] == 0 and {"0 %", "50 %", "100 %"} <= set(said)


def test_the_time_axis_has_a_tick_a_decade() -> None:
    drawn = style.figure()
    on = style.axes(drawn)
    on.set_ylim(1e-6, 1)
    style.value_axis(on, "s", "time")
    drawn.canvas.draw()
    said = [tick.get_text() for tick in on.get_yticklabels() if 1e-6 <= tick.get_position()[1] <= 1]
    assert said == ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]


def test_the_badge_stands_inside_the_figure() -> None:
    drawn = style.figure()
    style.stamp(drawn, BADGE)
    drawn.canvas.draw()
    (text,) = drawn.texts
    assert text.get_text() == "RECORDED · a made-up device · 2000-01-01 · torch 0"
    box = text.get_window_extent()
    assert 0 < box.x0 < box.x1 < drawn.bbox.x1
    assert box.y0 > 0


def test_pictures_are_sharp_and_shown_at_half_their_pixels() -> None:
    made = style.picture(style.figure(300, 200), "nothing")
    assert Image.open(BytesIO(made.png)).size == (600, 400)
    data, metadata = made._repr_mimebundle_()
    assert metadata["image/png"] == {"width": 300, "alt": "nothing"}
    assert 'alt="nothing"' in data["text/html"] and "data-jp-theme-light" in data["text/html"]
    assert data["text/plain"] == "nothing"


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=60, unique=True).map(sorted), st.integers(2, 12))
def test_ticks_are_few_and_are_values_of_the_slider(values: list[int], most: int) -> None:
    ticks = style.ticked(values, "log", most)
    assert 1 <= len(ticks) <= most
    assert set(ticks) <= set(values)


@given(st.lists(st.text("abc", min_size=1), min_size=1, unique=True))
def test_categories_stand_side_by_side(values: list[str]) -> None:
    assert style.positions(values, "category") == [float(n) for n in range(len(values))]


every_factory = pytest.mark.parametrize(("part", "stage"), list(product(TITLES, STAGES)))
TERMS = {
    "gpu": ("host", "CPU", "kernel launch", "host overhead", "stream", "GPU", "compute", "memory", "bandwidth"),
    "link": ("pageable", "pinned", "PCIe"),
    "dram": ("DRAM (HBM)", "DRAM bandwidth"),
    "l2": ("L2 cache", "L2 bandwidth"),
    "sm": (
        "multiprocessor (SM)", "thread block", "warp", "registers", "shared memory", "arithmetic units", "tensor core",
    ),
}  # fmt: skip


@cache
def picture(part: Highlight | None, stage: Detail) -> style.Picture:
    """Each picture is drawn once for all tests that only look at it."""
    return factory(part, detail=stage)


def test_a_picture_tells_its_title_and_what_is_brought_out_and_each_stage_adds_to_the_one_before() -> None:
    for part in TITLES:
        for brought, stage in ((part, "sm"), ("compute" if part == "under-filled" else part, "gpu")):
            made = picture(part, stage)  # type: ignore[arg-type]
            assert made.alt.startswith(f"{TITLES[part]}. ") and made.alt.endswith(BROUGHT_OUT[brought])
            assert Image.open(BytesIO(made.png)).size[0] == style.WIDTH * style.SHARP
    said = [picture(None, stage).alt for stage in STAGES]
    assert tuple(STAGES) == ("gpu", "link", "dram", "l2", "sm")
    assert all(longer.startswith(shorter) and longer != shorter for shorter, longer in pairwise(said))


@pytest.mark.parametrize(("argument", "value"), [("highlight", "bandwith"), ("detail", "L3")])
def test_what_the_factory_does_not_have_is_refused(argument: str, value: str) -> None:
    with refused(argument, value):
        factory(**{argument: value})  # type: ignore[arg-type]


@every_factory
def test_the_factory_s_text_can_be_read(part: Highlight | None, stage: Detail, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage's terms are written in it, large enough; no text touches another, a box's edge or the picture's."""
    kept: list[Figure] = []

    def keep(drawn: Figure, alt: str) -> style.Picture:
        drawn.canvas.draw()
        kept.append(drawn)
        return style.Picture(b"", alt, 1)

    monkeypatch.setattr(style, "picture", keep)
    factory(part, detail=stage)
    (drawn,) = kept
    texts = [text for text in drawn.axes[0].texts if text.get_text()]
    places = [(text.get_text(), text.get_window_extent()) for text in texts]
    written = " ".join(words for words, _ in places).replace("\n", " ").lower()
    for name in STAGES:
        there = list(STAGES).index(name) <= list(STAGES).index(stage)
        untitled = written.replace(TITLES[part].lower(), "")
        assert all((term.lower() in untitled) == there for term in TERMS[name]), (name, written)
    assert all(float(text.get_fontsize()) >= 9.5 for text in texts)
    for words, box in places:
        assert drawn.bbox.x0 <= box.x0 and box.x1 <= drawn.bbox.x1, words
        assert drawn.bbox.y0 <= box.y0 and box.y1 <= drawn.bbox.y1, words
    for (words, box), (others, other) in combinations(places, 2):
        assert not box.overlaps(other), (words, others)
    for words, box in places:
        for edge in (patch.get_window_extent() for patch in drawn.axes[0].patches):
            apart = not box.overlaps(edge)
            inside = edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1
            assert apart or inside, words


def test_the_under_filled_factory_has_few_warps() -> None:
    """Where multiprocessors are drawn, one warp stands where the others have eight; before, compute is brought out."""

    def warps(part: Highlight | None) -> int:
        seen: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(style, "picture", lambda drawn, alt: seen.extend(t.get_text() for t in drawn.axes[0].texts))
            factory(part, detail="sm")
        return seen.count("warp")

    assert warps("under-filled") == 1
    assert {warps(part) for part in TITLES if part != "under-filled"} == {8}


def _luminance(colour: str | tuple[float, ...]) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_log_axis_of_bars_has_ticks_within_its_only_decade() -> None:
    on = style.axes(style.figure())
    on.set_xscale("log")
    on.set_xlim(1.4e-5, 5.5e-4)
    style.bar_axis(on, "s", "time")
    assert sum(1.4e-5 <= tick <= 5.5e-4 for tick in on.get_xticks()) >= 4
