"""What the script does by itself: numbers as Python writes and reads them, guesses kept, links, keys, speed."""

import random
import re
from functools import partial
from statistics import mode

import pytest

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr_course.lessons.answers import Quantity
from brrr_course.site.exercises import typed
from brrr_course.view.canvas import WIDER, covered
from brrr_course.view.explorer import Explorer

pytestmark = pytest.mark.browser


def test_numbers_are_written_as_units_writes_them(opened):
    page, chance = opened("00").page, random.Random(7)
    values = [chance.uniform(1, 10) * 10.0 ** chance.randint(-14, 16) for _ in range(1500)]
    values += [float(f"{chance.randint(1000, 9999) / 10}e{chance.randint(-12, 12)}") for _ in range(500)]  # ties
    values += [0.0, 999.5, 0.9995, 9.995e-7, 1e21, 1e-30]
    for unit in ("s", "x", "B", "FLOP/s", "%", "W"):
        said = page.evaluate("([values, unit]) => values.map(value => brrr.quantity(value, unit))", [values, unit])
        written = units.ratio if unit == "x" else partial(units.quantity, unit=unit)
        assert said == [written(value) for value in values]
    shown = page.evaluate("values => values.map(value => [brrr.repr(value), brrr.general(value, 6)])", values)
    assert shown == [[repr(typed(value)), f"{value:g}"] for value in values]


READ = {
    "s": ["25 µs", "25us", "3e-3 ms", "1.5 s", ".5ms", "12", "0 s", "-1 s", "abc", "1,5 ms", "1,500 ms", "0,125 s",
          "2 h", "7 µS"],
    "x": ["3x", "3 x", "1e3", " 2.5x ", "x", "0x", "-4x", "3y", "inf", "2,5x"],
}  # fmt: skip


def test_guesses_and_answers_are_read_as_python_reads_them(opened):
    page = opened("00").page
    for unit, given in READ.items():
        found = page.evaluate("([unit, given]) => given.map(each => brrr.parsed({unit}, each))", [unit, given])
        assert found == [_parsed(unit, each) for each in given]
    given = ["4.6", "4,6 µs", "4.6us", "0.0046 ms", "4,600", "4.6 x", "-2", "1e3", "abc"]
    found = page.evaluate("given => given.map(each => brrr.read({unit: 'us'}, each))", given)
    assert found == pytest.approx([units.parsed(each, "us") for each in given], nan_ok=True)


def _parsed(unit, given):
    try:
        return Quantity(unit).parse(given)
    except ArgumentError:
        return None


def test_what_does_not_fit_is_refused_with_what_would(opened):
    page = opened("01").page
    form = page.locator(".guess form").first
    form.locator("input[type=text]").fill("12")
    form.evaluate("form => form.requestSubmit()")
    said = page.locator(".guess .message.wrong").text_content() or ""
    assert said.startswith("You wrote 12.") and "a number and its unit, as 25 µs" in said
    assert page.locator(".guess .message.open").count() == 0


def test_an_exercise_speaks_of_what_was_typed(opened):
    page = opened("01").page
    form, said = page.locator(".exercise form").first, page.locator(".exercise .message").first
    for typed_in, answer in [(("4,6 µs", "10.6"), "You wrote 10.6 for extra_us."), (("a", "1"), "You wrote a.")]:
        for field, text in zip(form.locator("input").all(), typed_in, strict=True):
            field.fill(text)
        assert page.locator(".exercise .message").count() == 0
        form.evaluate("form => form.requestSubmit()")
        assert answer in (said.text_content() or "")


def test_a_guess_can_be_changed_and_the_first_is_said(opened):
    page = opened("01").page
    guess, form = page.locator(".guess").first, page.locator(".guess form").first
    for given in ("1 ms", "2 ms"):
        form.locator("input[type=text]").fill(given)
        form.locator("input[type=text]").press("Enter")
        assert page.evaluate("document.activeElement.textContent") == "Change my guess"
        assert (
            f"Your guess: {given}" in guess.inner_text()
            and "you: " + given in page.locator(".view").nth(1).inner_html()
        )
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.type") == "text"
    form.locator("input[type=text]").press("Enter")
    assert "At first: 1 ms." in guess.inner_text() and "you said 2 ms" in page.locator(".comparison").first.inner_text()


def test_a_guess_is_kept_until_the_reader_starts_again(opened):
    page = opened("00")
    page.answer(["the CPU"])
    page.load()
    assert page.page.locator(".cover").count() == 0
    page.page.click("#again")
    page.page.wait_for_selector("html[data-ready]")
    assert page.page.locator(".cover").count() == 1
    assert page.page.locator(".view svg").count() == 1  # the drawing; the covered figure shows nothing


def test_a_link_opens_a_state(opened):
    page = opened("01")
    page.answer(["1 ms", ["no sync", "no warm-up", "sync each call", "event pair each call", "transfers included"]])
    page.load("#matmul.size=4096&matmul-2.size=16")
    said = page.page.evaluate("[...document.querySelectorAll('.view')].map(each => each.view.rest.textContent)")
    assert said[1].startswith("At size 4096: ")
    assert said[-1].startswith("At size 16: ")
    page.page.evaluate("location.hash = '#matmul.size=nonsense'")
    assert page.complaints == []


def test_sliders_move_by_key_and_lines_by_their_boxes(opened):
    page = opened("01")
    slider = page.page.locator(".view").last.locator("input[type=range]")
    slider.focus()
    before = page.page.locator(".said").last.text_content()
    page.page.keyboard.press("ArrowRight")
    assert page.page.locator(".said").last.text_content() != before
    page.page.locator(".view").last.locator("input[type=checkbox]").first.uncheck()
    assert "CPU:" not in (page.page.locator(".said").last.text_content() or "")


def test_lines_that_lie_on_others_have_the_strokes_that_python_draws(opened):
    page = opened("04")
    page.answer(["3", "3"])
    drawn = 0
    for number, view in enumerate(page.made.views):
        if isinstance(view, Explorer) and not view.scene.view.is_bars:
            scene = view.fresh()
            found = covered(scene.curves(), scene.limits)
            wanted = [round(1.8 + WIDER * mode(above.values()), 2) for above in found.values() if above]
            strokes = page.page.locator(".view").nth(number).locator("svg > g:last-child > path[stroke-linecap=square]")
            assert strokes.evaluate_all("all => all.map(each => +each.getAttribute('stroke-width'))") == wanted
            drawn += len(wanted)
    assert drawn > 2


def test_a_term_is_explained_on_a_tap(opened):
    page = opened("00", width=390)
    term = page.page.locator("abbr").first
    term.click()
    assert term.evaluate("each => getComputedStyle(each, '::after').content").strip('"') == term.get_attribute(
        "data-means"
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_on_paper_a_page_is_light(opened):
    page = opened("00").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"


def test_a_screen_reader_gets_the_slider_s_value_and_the_text_line_once(opened):
    page = opened("01")
    view = page.page.locator(".view").last
    assert view.locator("input[type=range]").get_attribute("aria-valuetext") == "1024"
    tree = view.aria_snapshot()
    assert tree.count("status") == 1 and "as long as" in tree
    assert len(re.findall(r"^ *- img", tree, re.MULTILINE)) == 1  # its label, and none of its ticks


def test_it_is_ready_soon_and_a_step_is_painted_at_once(opened, record_property):
    page = opened("04")
    page.answer(["3", "3"])
    ready = float(page.page.evaluate("document.documentElement.dataset.ready"))
    steps = page.page.evaluate(_STEPS)
    median, late = sorted(steps)[len(steps) // 2], sorted(steps)[int(len(steps) * 0.95)]
    record_property("ready_ms", ready)
    record_property("step_ms", [median, late])
    print(f"ready {ready:.0f} ms; a step painted {median:.1f} ms, at the 95th percentile {late:.1f} ms")
    assert ready < 5 * 500 and late < 5 * 50


_STEPS = """async () => {
  const found = [];
  for (const input of document.querySelectorAll('.view input[type=range]'))
    for (let value = 0; value <= +input.max; value++) {
      const start = performance.now();
      input.value = value;
      input.dispatchEvent(new Event('input'));
      await new Promise(painted => requestAnimationFrame(() => setTimeout(painted)));
      found.push(performance.now() - start);
    }
  return found;
}"""


def test_a_link_to_a_figure_that_waits_leads_to_its_guess_and_then_on(opened):
    page = opened("01")
    page.load("#matmul.size=4096&nonsense=1&guess-the-time")
    asked = page.page.locator(".guess").first
    assert "You followed a link" in asked.inner_text() and page.page.locator(".cover").count() > 0
    asked.locator("input[type=text]").fill("1 ms")
    asked.locator("input[type=text]").press("Enter")
    assert page.page.evaluate("document.querySelectorAll('.view')[1].view.rest.textContent").startswith(
        "At size 4096: "
    )
    assert page.complaints == []


def test_the_index_is_told_how_much_of_a_lesson_is_done(opened):
    page = opened("00")
    told = "JSON.parse(localStorage.getItem(`brrr ${brrr.D.lesson} progress`))"
    page.answer(["the CPU"])
    done, all_of_it = page.page.evaluate(told)
    assert done == 1 < all_of_it
    form = page.page.locator(".exercise form").first
    form.locator("input").first.fill("1002")
    form.evaluate("form => form.requestSubmit()")
    assert page.page.evaluate(told) == [2, all_of_it]


def test_on_a_phone_figures_with_axes_are_drawn_narrower_and_others_grow_at_a_tap(opened):
    page = opened("01", width=390)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    page.answer(["1 ms", ["no sync", "no warm-up", "sync each call", "event pair each call", "transfers included"]])
    narrow = page.page.locator(".figure.narrow svg")
    found = narrow.evaluate_all(_PLACES)
    assert len(found) >= 4
    for wide, scale, edges, marks in found:
        assert wide <= 390 and scale > 1.1  # so that 9 points are 10 CSS pixels and more
        assert edges[0] >= -1 and edges[1] <= 331 and marks > 0
    drawing = page.page.locator(".figure:not(.narrow):has(svg)").first
    before = drawing.locator("svg").bounding_box()["width"]
    drawing.click()
    assert before <= 390 < drawing.locator("svg").bounding_box()["width"]
    page.page.set_viewport_size({"width": 900, "height": 900})
    assert narrow.count() == 0 and page.complaints == []


_PLACES = """all => all.map(svg => {
  const {left} = svg.getBoundingClientRect(), scale = svg.getScreenCTM().a;  // a legend is moved as a whole
  const boxes = [...svg.querySelectorAll('text:not([transform*=rotate])')].map(each => each.getBoundingClientRect());
  const ends = [Math.min(...boxes.map(each => each.left)), Math.max(...boxes.map(each => each.right))];
  const edges = ends.map(x => (x - left) / scale);
  return [svg.getBoundingClientRect().width, svg.getScreenCTM().a, edges, svg.querySelectorAll('use').length];
})"""
