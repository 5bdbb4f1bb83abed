"""The page to send to others: it stands without WebGPU, and shows the reader's own GPU once it was measured."""

import re

import pytest
from opened import NOTEBOOKS
from overlaps import covered

from brrr_course.experiments import NAMES, experiment

YOURS = {
    "device": {"vendor": "made up", "browser": "A browser", "date": "2026-01-01"},
    "peaks": {"bytes_per_s": 1e11, "flop_per_s": 2e12},
    "rows": [{"experiment": "repeat", "variant": "webgpu-fma", "times": {"period_s": [1e-3, 0, 1e-3, 7]},
              "point": {"repeat": repeat, "elements": 2**24, "dtype": "float32"}, "flop": 2**25 * repeat}
             for repeat in (1, 32, 512)],
}  # fmt: skip


def test_what_a_browser_measures_has_the_names_that_figures_look_for() -> None:
    script = NOTEBOOKS.parent / "brrr_course" / "view" / "drawn" / "yours.js"
    variants = (each for name in NAMES for each in experiment(name).variants if each.device == "webgpu")
    assert {each.name for each in variants} <= {*re.findall('"(webgpu[^"]*)"', script.read_text("utf-8"))}


@pytest.mark.browser
def test_it_tells_all_from_the_recording_and_then_the_reader_s_gpu_too_in_a_browser(opened) -> None:
    why = opened("why")
    page, cells = why.page, why.page.locator("#guesses tbody td:last-child")
    page.emulate_media(reduced_motion="reduce")  # what goes is gone at once
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'gpu', {value: undefined})")
    why.load()
    assert page.locator("#yours:visible, .own:visible, .after:visible, .comparison").count() == 0
    assert cells.all_inner_texts() == ["guess first"] * 6
    for _ in range(2):  # a form that was answered takes no more
        why.answer(["3"] * 5 + ["memory"])
    assert page.locator(".view .say").nth(5).inner_text().startswith("You said memory; it is overhead.")
    assert page.locator(".after:visible").count() == 6 and page.locator("#ridge").inner_text() == ""
    for waiting, told in zip(why.made.comparisons, cells.all_inner_texts(), strict=True):
        waiting.guess.value = 3.0 if waiting.guess.form != why.made.comparisons[-1].guess.form else "memory"
        told = {"the same": r"\S+ \(no difference"}.get(told, told.replace("×", "x"))
        assert re.search(rf"(?:measured|it is) {told}\b", waiting.compared().text), told
        waiting.guess.value = None
    page.evaluate("found => document.dispatchEvent(new CustomEvent('brrr-yours', {detail: found}))", YOURS)
    assert "its ridge point lies at 20 FLOP/B" in page.locator("#ridge").inner_text()
    assert page.locator(".scene").nth(3).locator(".axis.y text").all_text_contents() == ["100 µs", "1 ms"]
    told = page.locator(".scene .say").all_inner_texts()
    assert [n for n, each in enumerate(told) if each.endswith(" On your own GPU: 1×.")] == [3]
    roofs = page.locator(".scene").last.locator(".roofs .roof-name").all_text_contents()
    assert [each.strip() for each in roofs[2:]] == ["yours: 100 GB/s", "yours: 2 TFLOP/s"]
    assert page.evaluate("brrr.si(1 / 0, 'FLOP/s')") == "∞"  # the rate of a time that may be nothing
    assert why.complaints == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1100, 390])
def test_no_word_of_a_figure_covers_another_or_a_point_in_a_browser(opened, width: int) -> None:
    why = opened("why", width)
    why.answer(["3"] * 5 + ["memory"])
    assert covered(why, width) == []
    why.page.evaluate("found => document.dispatchEvent(new CustomEvent('brrr-yours', {detail: found}))", YOURS)
    assert covered(why, width) == []
    why.page.add_style_tag(content=".scene svg text.value { font-size: 40px }")
    assert any(" over " in each for each in covered(why, width))
