"""The pages of data/questions.toml: what they name exists, no figure stands in them unmarked, each can be moved."""

import gzip
import json
import re
from pathlib import Path

import pytest
from figures import wrong
from opened import NOTEBOOKS, made

from brrr.core.errors import BrrrError
from brrr.core.recordings import recorded_devices
from brrr_course.lessons.course import ROAD
from brrr_course.nouns.ledger import ledger_path, read_ledger
from brrr_course.site.documents import documents, glossary, page_of_term, terms
from brrr_course.site.frame import unpacked
from brrr_course.site.index import index_page, list_page
from brrr_course.site.page import Page
from brrr_course.site.questions import NOTHING, Question, questions
from brrr_course.site.text import addressed, markdown

ASKED = questions()
DOCS = NOTEBOOKS.parent / "docs"
SENTENCE = re.compile(r"[.?!](?:\s|$)")


def cells(number: str, kind: str) -> str:
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in found if cell["cell_type"] == kind)


@pytest.mark.parametrize("asked", ASKED, ids=lambda each: each.slug)
def test_what_a_question_names_is_there(asked: Question) -> None:
    claims = {each.id for each in read_ledger(ledger_path()).claim}
    for name, at, device in (each.partition("@") for each in asked.claims):
        assert name in claims and (not at or device in recorded_devices()), name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", asked.slug) and asked.question.endswith("?")
    assert 2 <= len(SENTENCE.findall(asked.answer)) <= 6 and wrong(asked.answer) == []
    if asked.claims:
        name, _, nth = asked.figure.partition("-")
        assert len(re.findall(rf'explore\(\s*"{name}"', cells(asked.lesson, "code"))) >= int(nth or 1)
    else:
        assert (asked.lesson, asked.figure) == ("", "") and NOTHING in asked.page()


def test_every_question_has_an_address_of_its_own() -> None:
    others = {path.stem for path in [*NOTEBOOKS.glob("*.ipynb"), *DOCS.glob("*.md")]} | set(map(page_of_term, terms()))
    slugs = [each.slug for each in ASKED]
    assert len(slugs) == len(set(slugs)) >= 20 and not others & set(slugs)
    assert all(f'href="{slug}.html"' in list_page(ASKED) for slug in slugs)


def test_a_question_s_page_has_its_figure_and_its_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    (asked,) = (each for each in ASKED if each.slug == "timing-without-synchronize")
    lesson = made("01")
    page = asked.page(lesson.name, lesson.lesson.title, lesson.seen)
    assert [(each["name"], each["guess"]) for each in unpacked(page)["view"]] == [("matmul", -1)]
    assert page.count("holds") >= 1 and "H200" in page and f'href="{lesson.name}.html#matmul"' in page
    index = index_page([Page(lesson.name, "", "", [], "", questions={asked.slug: page})], ASKED, {})
    assert 'class="scene front"' in index and len(gzip.compress(index.encode())) < 60_000
    with pytest.raises(BrrrError, match="has no figure matmul-9"):
        Question(**{**vars(asked), "figure": "matmul-9"}).page(lesson.name, "", lesson.seen)


def test_the_documents_are_pages_with_their_terms() -> None:
    """Where their links lead is held by test_links.py."""
    pages = {name: html for name, (_, html) in documents(DOCS).items()}
    pages |= glossary([Page("01_async_timing", "A", "", [], f'data-means="{terms()[0]["means"]}"')])
    assert not [name for name, html in pages.items() if re.search("<!-- (?:claims|rows)", html)]
    assert 'href="01_async_timing.html"' in pages[page_of_term(terms()[0])]
    assert len(terms()) + len(list(DOCS.glob("*.md"))) == len(pages)


def test_a_file_of_the_repository_is_linked_where_its_address_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "See [why](../SECURITY.md), [how](devices.md#all)."
    assert markdown(asked, "docs") == '<p>See why, <a href="devices.html#all">how</a>.</p>\n'
    monkeypatch.setenv("BRRR_REPOSITORY", "https://github.com/o/n/")
    assert '<a href="https://github.com/o/n/blob/main/SECURITY.md">why</a>' in markdown(asked, "docs")


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_page_asks_for_nothing_that_only_a_notebook_has(path: Path) -> None:
    text = markdown(cells(path.stem.partition("_")[0], "markdown"))
    assert not re.search(r"Shift\+Enter|[Dd]ouble-click|own copy|[Rr]un (?:the|this|each) cell|docs/\w+\.md", text)


def test_the_index_has_every_lesson_and_question_once() -> None:
    about = {path.stem: json.loads(path.read_text("utf-8"))["metadata"]["brrr"] for path in NOTEBOOKS.glob("*.ipynb")}
    text = {name: addressed(markdown(cells(name.partition("_")[0], "markdown"))) for name in sorted(about)}
    main = '<main id="content">{}</main>'.format
    lessons = [Page(name, name.upper(), "", [], main(html), about=about[name]) for name, html in text.items()]
    html = index_page(lessons, ASKED, {"timer": "The timer"})
    assert len(gzip.compress(html.encode())) < 56_500, "with its pictures the first page is 6.5 kB more"
    (road,) = re.findall(r'<ol class="map">(.*?)</ol>', html, re.DOTALL)
    assert sorted(re.findall(r'data-lesson="(\w+)"', road)) == sorted(about)
    along = re.findall(r'<li><div class="card" data-lesson="(\d\d)_', re.sub(r"<ul>.*?</ul>", "", road))
    assert along == [*ROAD]
    assert f"{about['01_async_timing']['minutes']} minutes · read 00 before" in road and 'href="timer.html"' in html
    groups = dict(re.findall(r"<section><h3>(.*?)</h3><ul>(.*?)</ul>", html))
    assert all(html.count(f'href="{each.slug}.html"') == 1 for each in ASKED) and len(groups) > 5
    assert 'href="cuda-streams-do-not-help.html"' in groups['<a href="02_transfers.html">02_TRANSFERS</a>']  # of 02b
