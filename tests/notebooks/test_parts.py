"""The form of a lesson: a made-up one keeps all rules, and each of them can be broken."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import parts_rules
import pytest
import rules
from harness import build_script

build = build_script()

RULE = "> **Rule.** Below 206 tokens, wait for the memory."
REMEMBER = """## Remember

- A [[tile]] is calculated whole.
- The last [[wave]] costs as much as a full one,
  however few blocks are in it.
- Choose sizes that are multiples of the tile.

Terms: [[tile]], [[tile quantisation]], [[wave]]"""
WORK = "## At work\n\nPad the width.\n\n```python\nimport torch\nx = torch.nn.functional.pad(x, (0, 3))\n```"
OURS = "<details><summary>Our explanation</summary>\n\nIt waits.\n\n</details>"
NEXT = "## Next\n\nGo on with [01 · Why does the GPU's time look constant?](01_async_timing.ipynb)."
QUESTION = "# 07 · Shapes\n\nIs a [[tile quantisation|partial tile]] free, as `tile`? The [[tile]] comes in a [[wave]]."


def _cell(source: str, *tags: str, code: bool = False) -> Any:
    made = nbformat.v4.new_code_cell if code else nbformat.v4.new_markdown_cell
    return made(source if code else build.with_meanings(source), metadata={"tags": list(tags)})


def of(*cells: Any) -> Any:
    return nbformat.v4.new_notebook(cells=list(cells))


def lesson(**other: str) -> Any:
    """A lesson whose parts may be given otherwise."""
    text = {"question": QUESTION, "explore": 'explore("a", sliders=["b"])', "remember": REMEMBER, "work": WORK,
            "next": NEXT, "calculates": "check(1)", "makes": "check(2)", "held": "## Which claims held",
            "claims": 'claims("07")', **other}  # fmt: skip
    cells = [_cell(text.get(stage, stage), stage, code=stage == "explore") for stage in rules.STAGES[:-5]]
    explain = next(place for place, cell in enumerate(cells) if "explain" in rules.tags(cell))
    cells[explain:explain] = [_cell("Why?", "explain", "yours"), _cell(text.get("ours", OURS), "explain")]
    cells += [
        _cell(text[kind], "your-turn", f"exercise:07-{kind}", kind, code=True) for kind in ("calculates", "makes")
    ]
    cells += [_cell(text["held"], "claims"), _cell(text["claims"], "claims", code=True)]
    return of(*cells, *(_cell(text[stage], stage) for stage in rules.STAGES[-3:]))


def without(stage: str) -> Any:
    made = lesson()
    made.cells = [cell for cell in made.cells if stage not in rules.tags(cell)]
    return made


def also(*sources: str, tag: str = "none", shows: str = "") -> Any:
    """A lesson with more cells of code at its end."""
    made = lesson()
    made.cells += [_cell(source, tag, code=True) for source in sources]
    made.cells[-1].outputs = [nbformat.v4.new_output("display_data", data={"text/html": shows})] if shows else []
    return made


STANDING = also('explore("a", sliders=[])\n' * 3)
FENCED = lesson(explain=f"```\n{'word ' * 1001}\n```")
AGAIN = lesson()
CAN = "\n\nYou will be able to:\n\n- say it\n- do it\n- count it"
MADE = "<details><summary>What measured it</summary>\n\n```python\n1\n2\n3\n```\n\n</details>"
RULED = {"question": QUESTION + CAN, "explain": MADE, "remember": REMEMBER.replace("\n\n", f"\n\n{RULE}\n\n", 1)}
AGAIN.cells[5:5] = lesson().cells[1:5]


@pytest.mark.parametrize(("notebook", "rules_of"), [
    (lesson(), parts_rules.ALL_RULES), (STANDING, [rules.too_long]), (FENCED, [rules.too_long]),
    (AGAIN, [rules.out_of_order]),
    (lesson(**RULED), [*parts_rules.ALL_RULES, parts_rules.objectives, parts_rules.what_measured_it]),
    (lesson(remember=RULED["remember"].replace("memory.", "memory.\n<!-- so gemm: 1 -->")), [parts_rules.rule]),
], ids=["a lesson", "figures without sliders", "fenced code", "a second round", "headed", "with a rule"])  # fmt: skip
def test_a_lesson_keeps_the_rules(notebook: Any, rules_of: Any) -> None:
    assert [wrong for rule in rules_of for wrong in rule(notebook)] == []


def _ruled(said: str) -> str:
    return f"## Remember\n\n> **Rule.** {said}\n<!-- so gemm: 1 -->\n\n- A"


BROKEN = [
    (rules.too_long, of(*(_cell("1", code=True) for _ in range(26))), "26 cells; at most 25"),
    (rules.too_long, of(_cell("1\n" * 13, code=True)), "13 lines"),
    (rules.too_long, of(_cell("explore(1)\n" * 4, code=True)), "4 explorers"),
    (rules.too_long, of(_cell("check(1)\n" * 3, code=True)), "3 exercises"),
    (rules.too_long, of(_cell("word " * 1001)), "1001 words; at most 1000"),
    (rules.out_of_order, without("question"), "no question"),
    (rules.out_of_order, also("1", tag="run"), "run comes after next"),
    (rules.out_of_order, also("1"), "no tag says"),
    (rules.out_of_order, without("remember"), "no remember"),
    (rules.out_of_order, without("work"), "no work"),
    (rules.helpers, also("def f(): pass"), "FunctionDef"),
    (rules.helpers, also("f = lambda: 1"), "Lambda"),
    (rules.figures_in_prose, lesson(explain="It takes 25 µs."), "25 µs"),
    (rules.figures_in_prose, lesson(explain="It is 2.4x faster."), "2.4x"),
    (rules.checks_text_only, also("print(compare())", tag="nbval-check-output"), "no recording"),
    (rules.checks_text_only, also("1", tag="nbval-check-output", shows="<b>1</b>"), "more than text"),
    (rules.shows_what_held, without("claims"), "0 cells"),
    (rules.shows_what_held, also("claims()"), "2 cells"),
    (rules.shows_what_held, lesson(held="## What held"), "claims stand below '## What held"),
    (rules.shows_what_held, lesson(claims='claims("02")'), "in lesson 07"),
    (parts_rules.exercises, without("makes"), "tagged calculates"),
    (parts_rules.exercises, lesson(makes="1"), "1 checks"),
    (parts_rules.sliders, lesson(explore='explore("a", sliders=["b", "c", "d", "e"])'), "4 sliders"),
    (parts_rules.closing, without("next"), "next: 0 cells"),
    (parts_rules.closing, lesson(work="Work"), "begins with '## At work'"),
    (parts_rules.closing, lesson(remember=REMEMBER.replace("- Choose", "Choose")), "list of three sentences"),
    (parts_rules.closing, lesson(remember=REMEMBER.replace("whole.", "whole. So it is.")), "list of three sentences"),
    (parts_rules.closing, lesson(remember=REMEMBER.replace("Terms: ", "Terms: grid, ")), "of marked terms"),
    (parts_rules.closing, lesson(remember=REMEMBER.partition("Terms")[0]), "of marked terms"),
    (parts_rules.closing, lesson(remember=REMEMBER.replace("\n\nTerms", f"\n\n{RULE}\n\nTerms")), "of three sentences"),
    (parts_rules.objectives, lesson(), "0 objectives; expected 3"),
    (parts_rules.objectives, lesson(question=QUESTION + CAN.replace("- do", "- Do")), "'- Do it' does not begin"),
    (parts_rules.objectives, lesson(question=QUESTION + CAN.replace("do it", "do " * 10)), "too long"),
    (parts_rules.rule, lesson(**RULED), "no rule, with its check"),
    (parts_rules.rule, lesson(remember=_ruled("It waits.")), "a number"),
    (parts_rules.rule, lesson(remember=_ruled("2 " * 31)), "too long"),
    (parts_rules.what_measured_it, lesson(explain=MADE.replace("1\n", "")), "[2] lines"),
    (parts_rules.closing, lesson(work=WORK.replace("import torch", "import brrr")), "brrr is in the block"),
    (parts_rules.closing, lesson(work=WORK.replace("import torch", "1\n" * 8)), "10 lines"),
    (parts_rules.closing, lesson(work=WORK.replace("python", "")), "no language"),
    (parts_rules.closing, lesson(work=WORK.replace("Pad", "pad " * 61)), "words; at most 60"),
    (parts_rules.closing, lesson(work=WORK + "\n\n```bash\nncu\n```"), "2 fenced blocks"),
    (parts_rules.closing, lesson(next="## Next\n\nGo on."), "no link"),
    (parts_rules.closing, lesson(next=NEXT.replace("01_", "77_")), "no 77_async_timing.ipynb"),
    (parts_rules.closing, lesson(next=NEXT + " So. It. Is."), "4 sentences"),
    (parts_rules.terms_marked, lesson(explain='<abbr title="mine">x</abbr>'), "'x' has no meaning"),
    (parts_rules.terms_marked, lesson(explain="[["), "not built"),
    (parts_rules.terms_marked, lesson(question="# 07 · a [[tile quantisation]] [[tile]]"), "('wave',) is one of"),
    (parts_rules.terms_marked, lesson(question=QUESTION.replace("Is a", "Are waves a")), "'waves' stands in the prose"),
    (parts_rules.own_explanation, without("yours"), "0 cells"),
    (parts_rules.own_explanation, lesson(ours="It waits."), "ours does not follow"),
    (parts_rules.few_pictures, lesson(explain="Paper on the road, trucks, and a factory."), "4 words of the picture"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "notebook", "found"), BROKEN)
def test_each_rule_can_be_broken(rule: Callable[[Any], list[str]], notebook: Any, found: str) -> None:
    assert found in "\n".join(rule(notebook))


@pytest.mark.parametrize("source", build.lessons(), ids=lambda source: source.stem)
def test_a_lesson_has_its_head_its_rule_and_what_measured_it(source: Path) -> None:
    built = build.read(source)
    assert parts_rules.objectives(built) + parts_rules.what_measured_it(built) == []
    assert parts_rules.rule(build.jupytext.read(source, fmt="py:percent")) == []


# ---- the glossary, and what the build makes of a mark ----


def test_each_term_has_one_sentence_and_no_spelling_means_two_things() -> None:
    lessons = {source.stem.split("_")[0] for source in build.sources()}
    for term in build.GLOSSARY:
        assert set(term) <= {"name", "lesson", "means", "also"} and term["lesson"] in lessons, term
        assert term["means"].endswith(".") and len(term["means"].split()) <= 30, term
        assert not set('|"`[]') & set(term["means"]), f"{term}: it stands in a table and in an attribute"
    spellings = Counter(each.lower() for term in build.GLOSSARY for each in {term["name"], *term.get("also", ())})
    assert [each for each, times in spellings.items() if times > 1] == []
    assert len(parts_rules.SPELLINGS) == len(build.GLOSSARY), "two terms have the same meaning"


def test_a_mark_becomes_what_hovering_shows() -> None:
    means = build.MEANING["occupancy"]
    assert build.with_meanings("an [[occupancy|occupied]] SM") == f'an <abbr title="{means}">occupied</abbr> SM'
    assert build.with_meanings("[[thread\nblocks]]").endswith(">thread\nblocks</abbr>")
    assert build.with_meanings("x[[0, 1][0]]") == "x[[0, 1][0]]"


def test_a_term_that_the_glossary_lacks_ends_the_build() -> None:
    with pytest.raises(SystemExit, match=r"warp drive"):
        build.with_meanings("[[warp drive]]")
