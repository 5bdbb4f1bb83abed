"""No page of the site breaks a rule that axe-core knows, in light and in dark, wide and on a phone, all folds open."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from opened import NOTEBOOKS, index_of, made

from brrr_course.site.documents import documents, glossary, page_of_term, terms
from brrr_course.site.index import list_page
from brrr_course.site.page import Page, slides_page
from brrr_course.site.questions import questions
from brrr_course.site.reference import MODULES, reference

pytestmark = pytest.mark.browser
DOCUMENTS = sorted(path.stem for path in (NOTEBOOKS.parent / "docs").glob("*.md") if path.stem != "glossary")


of_names = cache(reference)
of_documents = cache(partial(documents, NOTEBOOKS.parent / "docs"))
"""Each makes all its pages at once."""


def question() -> str:
    lesson = made("01")
    return next(each for each in questions() if each.lesson == "01").page(lesson.name, "01", lesson.seen)


PAGES: dict[str, Callable[[], str]] = {
    "index": lambda: index_of("01"),
    "question": question,
    "questions": lambda: list_page(questions()),
    "glossary": lambda: glossary([])["glossary"],
    "term": lambda: glossary([Page("01_async_timing", "01", "?", [], "")])[page_of_term(terms()[0])],
    **{f"lesson {number}": lambda number=number: made(number).page for number in ("01", "03", "12", "why")},
    "slides 03": lambda: slides_page(made("03").lesson),
    **{name: lambda name=name: of_names()[name][1] for name in MODULES},
    **{name: lambda name=name: of_documents()[name][1] for name in DOCUMENTS},
}
OPEN = """() => {
  for (const form of document.querySelectorAll('.guess form')) {
    const text = form.innerText.includes('times') ? '3' : '1 ms';
    form.querySelectorAll('input[type=text]').forEach(field => { field.value = text; });
    form.querySelectorAll('.order button').forEach(button => button.click());
    form.querySelectorAll('input[type=radio]').forEach(radio => { radio.checked = true; });
    form.requestSubmit();
  }
  document.querySelectorAll('details').forEach(each => { each.open = true; });
  document.querySelectorAll('.predict input').forEach(each => each.click());
  document.querySelectorAll('.deck > section').forEach(each => { each.hidden = false; });
}"""


@pytest.mark.usefixtures("cells_here")  # the reference has all names of the course, Triton's too
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_violation(browser: Any, tmp_path: Path, page: str) -> None:
    (tmp_path / "page.html").write_text(PAGES[page](), encoding="utf-8")
    with browser.new_context(bypass_csp=True, viewport={"width": 390, "height": 900}) as context:
        opened = context.new_page()
        opened.goto((tmp_path / "page.html").as_uri())
        opened.evaluate(OPEN)
        for width, theme in ((390, "dark"), (1000, "light")):
            opened.set_viewport_size({"width": width, "height": 900})
            opened.emulate_media(color_scheme=theme)
            found = Axe().run(opened)
            assert found.violations_count == 0, f"{theme}, {width} px: {found.generate_report()}"
