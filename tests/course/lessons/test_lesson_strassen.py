"""What lessons 09 and 09b are made of: drawings with sliders, and their tables."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from formulas import Kept
from strassen_made_up import GROWTH, recording, time_and_error

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.strassen.implementations import Implementation
from brrr_course.experiments import experiment
from brrr_course.experiments.strassen import chosen, sizes
from brrr_course.experiments.strassen_errors import random_inputs
from brrr_course.lessons import strassen_levels
from brrr_course.lessons.comparing import compare
from brrr_course.lessons.drawings import Dial, Drawing, drawing, drawings
from brrr_course.lessons.drawings.strassen_errors import SCALINGS, errors, scaled_product, summed_product
from brrr_course.lessons.drawings.strassen_flow import STEPS, A, B, Walk, expanded, result
from brrr_course.lessons.drawings.strassen_frontier import frontier
from brrr_course.lessons.guessing import guess
from brrr_course.lessons.strassen_fused import against_float64
from brrr_course.lessons.strassen_levels import (
    FIRST,
    FIRST_ON_A_CPU,
    FIRST_ON_CPU,
    FIRST_ON_GPU,
    KINDS,
    grown,
    kinds_of,
)
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recorded import recorded as kept
from brrr_course.view import display

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A made-up recording."""
    return Recorded("h200", recording(tmp_path_factory.mktemp("recordings")))


# ---- drawings ----


@pytest.mark.parametrize("name", drawings())
def test_every_drawing_of_the_course_draws_at_both_ends_of_its_sliders_and_moves(name: str) -> None:
    made = drawing(name, source="recorded:h200")
    for dial in made.dials:
        at = made.settings[dial.name]
        pictures = set()
        for value in dict.fromkeys((dial.values[0], dial.values[-1], at)):
            made.set(**{dial.name: value})
            drawn = made.picture()
            assert drawn.png.startswith(PNG) and drawn.alt == made.text
            assert made.figure or made.panel.image.value == drawn.png
            assert made.text.startswith("At ") and f" {dial.reading(value)}" in made.text
            pictures.add(drawn.png)
        assert len(pictures) > 1 and (made.figure or dial.name in made.sliders)
    made.sweep()


def test_a_drawing_waits_for_its_guess() -> None:
    g = guess("a drawing's guess", unit="x")
    made = drawing("strassen-flow", unlock=g, source="cpu")
    assert made.text.startswith("Covered") and not made._kept
    with pytest.raises(ArgumentError, match="unlock"):
        made.picture()
    g.answer("2x")
    assert made.text.startswith("At step 0")


def test_errors_of_drawings() -> None:
    with pytest.raises(ArgumentError, match=r"name.*'nonsense'.*strassen-flow"):
        drawing("nonsense", source="cpu")
    with pytest.raises(ArgumentError, match=r"name.*'depth'.*step"):
        drawing("strassen-flow", source="cpu", depth=3)
    with pytest.raises(ArgumentError, match=r"type.*'int2'.*int4"):
        drawing("bits-roofline", source="cpu", type="int2")
    assert drawing("bits-roofline", source="cpu", tokens=100).settings["tokens"] == 128


def test_a_raising_slider_is_kept_for_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "shown", set())  # no other test's sweep shall meet this one

    def draw(settings: object) -> Picture:
        if settings == {"n": 2}:
            raise ZeroDivisionError("two")
        return Picture(PNG, "one", 10)

    made = Drawing((Dial("n", "n", (1, 2)),), draw, {})
    with pytest.raises(ZeroDivisionError):
        made.sweep()
    made.set(n=2)
    assert "ZeroDivisionError: two" in made.panel.text.value


# ---- the flow ----


def test_the_last_step_is_the_product() -> None:
    walk = Walk(len(STEPS))
    assert np.array_equal(result(), A @ B) and walk.made == (18, 7)
    assert "C equals A times B" in drawing("strassen-flow", source="cpu", step=walk.step).text


def test_a_wrong_result_would_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr_course.lessons.drawings.strassen_flow.result", lambda: A @ B + 1)
    assert "C is not A times B" in drawing("strassen-flow", source="cpu", step=25).text


def test_phases_and_partial_sums() -> None:
    phases = [Walk(step).phase for step in range(1, 26)]
    assert phases[0] == "addition 1 of 10 before the products" and phases[-1] == "addition 8 of 8 after the products"
    assert sum("product " in phase for phase in phases) == 7
    assert Walk(18).latest("11") == "U1" and Walk(20).latest("11") == "C11" and Walk(17).latest("11") == ""
    assert expanded("C11") == "M1 + M4 - M5 + M7"
    assert not Walk(3).known("S4") and Walk(4).known("S4") and Walk(0).known("A11")


# ---- roofs ----


# ---- measured ----


def test_levels_are_held_against_the_same_product_without_any(recorded: Recorded) -> None:
    assert grown(recorded, "float32, Winograd", 16384, 1) is None and "bfloat16" in kinds_of(recorded)
    for kind, (inner, form) in kinds_of(recorded).items():
        one = time_and_error(f"{inner}-{form}-1-prepared", 8192)
        plain = time_and_error(inner, 8192)
        assert grown(recorded, kind, 8192, 1) == pytest.approx((plain[0] / one[0], one[1] / plain[1]))


def test_the_frontier_s_text_is_short_and_right(recorded: Recorded) -> None:
    made = drawing("strassen-frontier", source=recorded, size=8192)
    assert "on the frontier are " in made.text and "fp16x3" in made.text and len(made.text) < 320
    count = re.search(r"(\d+) of (\d+) ways are dominated", made.text)
    assert count and 0 < int(count[1]) < int(count[2])


def test_the_frontier_keeps_to_one_kind_of_machine(recorded: Recorded) -> None:
    described = experiment("strassen")
    assert (512,) in recorded.known(described, "cpu-sgemm") and (128,) in recorded.known(described, "cpu-sgemm")
    assert not any(place.variant.startswith("cpu-") for place in [*frontier(recorded, 512), *chosen(recorded, 512)])
    assert min(sizes(recorded)) == 512


def names_on_the_picture(monkeypatch: pytest.MonkeyPatch, source: Recorded, size: int) -> dict[str, str]:
    """What is written beside which marker."""
    seen: list[Any] = []

    def keep(figure: Any, alt: str) -> Picture:
        seen.append(figure)
        return Picture(PNG, alt, 10)

    monkeypatch.setattr(style, "picture", keep)
    made = drawing("strassen-frontier", source=source, size=size)
    made.picture()
    assert "RECORDED" in made.badge
    marks = [text for text in seen[0].axes[0].texts if str(text.get_gid()).startswith("label ")]
    return {str(text.get_gid()).removeprefix("label "): text.get_text() for text in marks}


def test_every_marker_has_a_name(monkeypatch: pytest.MonkeyPatch, recorded: Recorded) -> None:
    places = frontier(recorded, 8192)
    names = names_on_the_picture(monkeypatch, recorded, 8192)
    assert {place.variant for place in places} == {name for name in names if not name.startswith("auto-")}
    beaten = {place.variant for place in places if place.dominated_by}
    assert {"sgemm", "sgemm-strassen-1"} <= beaten
    assert (names["sgemm"], names["sgemm-strassen-1"], names["fp16x3"]) == ("sgemm", "S1", "fp16x3")


def test_rings_on_each_other_share_a_name(monkeypatch: pytest.MonkeyPatch, recorded: Recorded) -> None:
    took = {name: said for name, said in names_on_the_picture(monkeypatch, recorded, 8192).items() if "auto" in name}
    places = {(place.time_s, place.error) for place in chosen(recorded, 8192)}
    assert len(took) == len(places) < len(chosen(recorded, 8192))
    assert any("fp32, 1e-5" in said for said in took.values())


def test_what_a_live_source_measures_first_is_enough_for_the_lesson() -> None:
    described = experiment("strassen")
    assert all(described.has(name, {"size": FIRST}) for name in FIRST_ON_GPU)
    assert all(described.has(name, {"size": FIRST_ON_A_CPU}) for name in FIRST_ON_CPU)
    inner, form = next(iter(KINDS.values()))
    assert {Implementation(inner, 0, None).name, Implementation(inner, 2, form, True).name} <= set(FIRST_ON_GPU)
    assert "sgemm" in FIRST_ON_GPU and len(FIRST_ON_GPU) < 12, "each takes most of a second"


@pytest.mark.parametrize(("name", "said"), [
    ("gemm-tiles", "no kernel's name was recorded"), ("strassen-frontier", "strassen"),
    ("rnn-floor", "brrr record rnn"), ("rnn-batch", "brrr record rnn_ladder"),
])  # fmt: skip
def test_without_measurements_a_drawing_says_what_to_run(name: str, said: str) -> None:
    nothing: Any = Kept()
    with pytest.raises(NotRecordedError, match=said):
        drawing(name, source=nothing)


def test_growth_beside_a_guess(recorded: Recorded) -> None:
    g = guess("growth of two levels", unit="x", answer="2x")
    found = compare(g, "strassen", of="error", level=2, source=recorded)
    assert f"measured {GROWTH['strassen'] ** 2:.3g}x" in found.text and found.badge.startswith("RECORDED")
    assert found.rows[0][2] == f"{GROWTH['strassen']:.3g}x"
    assert "no error of 4 levels" in compare(g, "strassen", of="error", level=4, source=recorded).text


def test_errors_level_by_level_and_what_scaling_brings() -> None:
    lost, helped = (errors("badly scaled rows", scaling, "strassen") for scaling in ("none", "outer"))
    assert lost[0] == helped[0] or helped[0] < 1e-5
    assert lost[2] > 100 * helped[2]
    assert errors("integer", "none", "strassen") == (0, 0, 0, 0)
    assert "every result is exact" in drawing("strassen-errors", source="cpu", inputs="integer").text


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scaling_rounds_nothing_and_helps_blocks_that_differ(scaling: str) -> None:
    a, b = random_inputs("normal", 24, 12)
    a[1], a[:, 2], b[:, 0] = 0, 0, 0
    assert torch.equal(scaled_product(a, b, "strassen", 0, scaling), summed_product(a, b, "strassen", 0))
    for inputs, step in (("badly scaled inside", "inner"), ("badly scaled rows", "outer")):
        plain, scaled = errors(inputs, "none", "winograd"), errors(inputs, scaling, "winograd")
        assert (20 * scaled[2] < plain[2]) == (step in scaling)


def test_a_fused_network_trains_as_its_model_does() -> None:
    from brrr.strassen.network import fuse

    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
    found = against_float64(model, fuse(model, level=1), torch.randn(24, 32))
    assert len(found.rows) == 6 and all(float(row[2]) < 1e-5 for row in found.rows)
    other = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
    assert max(float(row[2]) for row in against_float64(model, other, torch.randn(24, 32)).rows) > 0.1


def test_live_on_a_cpu_a_size_is_measured_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strassen_levels, "FIRST_ON_A_CPU", 128)
    from brrr_course.sources.live import Live

    live = Live("cpu", budget_s=0.01)
    made = drawing("strassen-frontier", source=live)
    assert made.settings["size"] == 128 and made.badge.startswith("LIVE")
    found = compare(guess("live", unit="x", answer="2x"), "strassen", of="error", level=1, source=live)
    assert found.text.startswith("At size 128, float32, Strassen: you said 2x")


# ---- what lessons 09 and 09b say in words about the H200's recording ----


def with_levels(size: int, *, prepared: bool) -> set[str]:
    """The inner products of those on the frontier that have levels."""
    best = [each for each in frontier(kept("h200"), size, prepared=prepared) if not each.dominated_by]
    return {each.variant.split("-")[0] for each in best if "strassen" in each.variant or "winograd" in each.variant}


def test_where_levels_are_on_the_frontier() -> None:
    """At 16384, at 8192 with prepared right sides only, and at 4096 nowhere; the split product beats SGEMM's levels."""
    assert with_levels(16384, prepared=False) == with_levels(8192, prepared=True) == {"bf16", "fp16x3"}
    assert not any(with_levels(size, prepared=ready) for size, ready in ((8192, False), (4096, False), (4096, True)))
    for size in (4096, 8192, 16384):
        found = {each.variant: each for each in frontier(kept("h200"), size, prepared=False)}
        split, levels = found["fp16x3"], [each for name, each in found.items() if name.startswith("sgemm-")]
        assert levels and all(split.time_s < each.time_s and split.error < each.error for each in levels)


def test_two_levels_double_the_error_and_the_drawing_shows_more() -> None:
    table = compare(guess("The error?", unit="x", answer="2x"), "strassen", of="error", level=2, source=kept("h200"))
    assert float(table.rows[0][1].removesuffix("x")) == pytest.approx(2, rel=0.05)
    drawn = errors("normal", "none", "strassen")
    assert drawn[2] > 2.3 * drawn[0]
