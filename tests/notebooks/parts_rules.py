"""The rules of a lesson's parts, beside those of rules.py: what it exercises, how it closes, and its words."""

import re
import tomllib
from collections.abc import Callable
from html import unescape
from typing import Any

from harness import NOTEBOOKS, REPOSITORY, calls
from rules import BACK, RULE, RULES, prose, slider_counts, stage, tags

GLOSSARY = tomllib.loads((REPOSITORY / "data" / "glossary.toml").read_text("utf-8"))["term"]
SPELLINGS = {term["means"]: (term["name"], *term.get("also", ())) for term in GLOSSARY}
"""From what a term means, which stands behind each mark, to how it may be written."""

MARK = re.compile(r'<abbr title="([^"]*)">([^<]*)</abbr>')
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"\b(?:papers?|sheets?|roads?|trucks?|factory|factories|warehouses?)\b", re.IGNORECASE)
LANGUAGES = {"python", "cuda", "cpp", "bash", "sh", "shell", "console"}
MEASURED = re.compile(r"^<details><summary>What measured it</summary>\n\n```python\n(.*?)^```$", re.M | re.DOTALL)
MOST_SLIDERS, MOST_AT_WORK, MOST_WORDS_AT_WORK, MOST_PICTURE = 3, 8, 60, 3
OBJECTIVES, MOST_WORDS_OF_ONE, MOST_WORDS_OF_RULE = 3, 9, 30


def exercises(notebook: Any) -> list[str]:
    """Two exercises: one calculates before it measures, one makes or mends something."""
    cells = [cell for cell in notebook.cells if any(tag.startswith("exercise:") for tag in tags(cell))]
    kinds = sorted("+".join(sorted({"calculates", "makes"} & set(tags(cell)))) or "neither" for cell in cells)
    checks = calls(notebook, "check")
    found = [] if kinds == ["calculates", "makes"] else [f"the exercises are tagged {', '.join(kinds) or 'nowhere'}"]
    return found + ([] if checks == 2 else [f"{checks} checks; expected 2"])


def sliders(notebook: Any) -> list[str]:
    """At most three sliders an explorer, where its cell names them; else `explore` itself sees to it."""
    return [f"{count} sliders" for count in slider_counts(notebook) if count > MOST_SLIDERS]


def closing(notebook: Any) -> list[str]:
    """One Markdown cell each for remember, work and next, as `remember`, `at_work` and `next_lesson` want them."""
    found = []
    for name, title, wants in (
        ("remember", "Remember", remember), ("work", "At work", at_work), ("next", "Next", next_lesson)
    ):  # fmt: skip
        cells = [cell for cell in notebook.cells if stage(cell) == name]
        head = f"## {title}\n"
        if len(cells) != 1 or cells[0].cell_type != "markdown" or not cells[0].source.startswith(head):
            found.append(f"{name}: {len(cells)} cells; expected one of Markdown that begins with {head.strip()!r}")
        else:
            found += [f"{name}: {wrong}" for wrong in wants(cells[0].source.removeprefix(head))]
    return found


def remember(text: str) -> list[str]:
    """Three sentences as a list, then one line of terms, each marked; above them perhaps the rule."""
    listed, _, terms = re.sub(rf"\A{RULE.pattern}", "", text.strip(), flags=RULE.flags).rpartition("Terms: ")
    items = re.split(r"^(?:-|\d\.) ", listed.strip(), flags=re.MULTILINE)
    sentences = [_sentences(MARK.sub(r"\2", item)) for item in items[1:]]
    left = re.sub(r"[\s,;.]", "", MARK.sub("", terms))
    found = [] if not items[0] and sentences == [1, 1, 1] else ["expected a list of three sentences, one an item"]
    return found + ([] if MARK.search(terms) and not left else ["expected a last line `Terms: ...` of marked terms"])


def objectives(notebook: Any) -> list[str]:
    """Behind the question three things that a reader can do afterwards, each in at most nine words, a verb first."""
    text = "".join(prose(cell) for cell in notebook.cells if stage(cell) == "question" and cell.cell_type == "markdown")
    lines = text.partition("\n\nYou will be able to:\n\n")[2].partition("\n\n")[0].splitlines()
    found = [] if len(lines) == OBJECTIVES else [f"{len(lines)} objectives; expected {OBJECTIVES}"]
    found += [f"{line!r} does not begin as `- verb`" for line in lines if not re.match(r"- [a-z]+ ", line)]
    return found + [f"{line!r} is too long" for line in lines if len(line.split()) - 1 > MOST_WORDS_OF_ONE]


def rule(source: Any) -> list[str]:
    """Of a lesson's source, not built: above what to remember one sentence with a number, and what makes it so."""
    text = "".join(cell.source for cell in source.cells if stage(cell) == "remember")
    said = RULE.search(text)
    if said is None or not text.startswith(f"## Remember\n\n{said[0]}\n<!-- so "):
        return ["no rule, with its check behind it"]
    found = [] if _sentences(said[1]) == 1 and re.search(r"\d", said[1]) else ["expected one sentence with a number"]
    return found + (["the rule is too long"] if len(said[1].split()) > MOST_WORDS_OF_RULE else [])


def what_measured_it(notebook: Any) -> list[str]:
    """Below a figure, folded, three to six lines of PyTorch that give its number."""
    lines = [len(code.splitlines()) for cell in notebook.cells for code in MEASURED.findall(cell.source)]
    return [] if len(lines) == 1 and 3 <= lines[0] <= 6 else [f"{lines} lines of what measured it; expected 3 to 6"]


def at_work(text: str) -> list[str]:
    """A few words, and one fenced block of at most eight lines that does it without brrr."""
    blocks, words = FENCED.findall(text), len(re.findall(r"\w+", MARK.sub(r"\2", FENCED.sub("", text))))
    found = [] if len(blocks) == 1 else [f"{len(blocks)} fenced blocks; expected one"]
    found += [f"{words} words; at most {MOST_WORDS_AT_WORK}"] if words > MOST_WORDS_AT_WORK else []
    for language, code in blocks:
        lines = len(code.splitlines())
        found += [] if language in LANGUAGES else [f"a block of {language or 'no language'}"]
        found += [f"{lines} lines; at most {MOST_AT_WORK}"] if lines > MOST_AT_WORK else []
        found += ["brrr is in the block"] if re.search(r"\bbrrr\b", code) else []
    return found


def next_lesson(text: str) -> list[str]:
    """One or two sentences with a link that leads somewhere, and the way back."""
    links = re.findall(r"\]\(([^)]+)\)", text)
    count = _sentences(re.sub(r"\[[^\]]*\]\([^)]*\)", "link", BACK.sub("", text)))
    found = [] if count in (1, 2) else [f"{count} sentences; expected one or two"]
    dead = [link for link in links if "://" not in link and not (NOTEBOOKS / link).exists()]
    return found + ([] if links else ["no link"]) + [f"no {link}" for link in dead]


def _sentences(text: str) -> int:
    return len([part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part])


def terms_marked(notebook: Any) -> list[str]:
    """Each mark has its meaning from the glossary; each of the Terms is marked where the prose first has it."""
    text = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    marked = [mark for cell in text for mark in MARK.findall(cell.source)]
    found = [f"{word!r} has no meaning of the glossary" for title, word in marked if unescape(title) not in SPELLINGS]
    found += [f"{cell.source[:40]!r} has a [[mark]] that was not built" for cell in text if "[[" in cell.source]
    before = "\n".join(_without_code(cell.source) for cell in text if stage(cell) not in ("remember", "work", "next"))
    terms = [title for cell in text if stage(cell) == "remember"
             for title, _ in MARK.findall(cell.source.rpartition("Terms: ")[2])]  # fmt: skip
    return found + [wrong for title in dict.fromkeys(terms) if (wrong := _first_place(before, title))]


def _without_code(text: str) -> str:
    """The prose without code and headings."""
    return re.sub(r"^#+ .*$", "", re.sub(r"`[^`]*`", "", FENCED.sub("", text)), flags=re.MULTILINE)


def _first_place(text: str, title: str) -> str:
    """What is wrong where a term stands first in the prose; nothing if it is marked there."""
    spellings = SPELLINGS.get(unescape(title), ())
    first = text.find(f'<abbr title="{title}">')
    if first < 0:
        return f"{spellings[:1]} is one of the Terms and not marked in the prose"
    plain = MARK.sub("", text[:first])  # other marked terms may have its word in theirs, as tile in tile quantisation
    earlier = [each for each in spellings if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", plain, re.IGNORECASE)]
    return f"{earlier[0]!r} stands in the prose before it is marked" if earlier else ""


def few_pictures(notebook: Any) -> list[str]:
    """The course's picture (paper, road, factory, ...) once, beside the field's terms: at most three of its words."""
    found = [word for cell in notebook.cells if cell.cell_type == "markdown" for word in PICTURE.findall(prose(cell))]
    return [f"{len(found)} words of the picture: {', '.join(found)}"] if len(found) > MOST_PICTURE else []


def own_explanation(notebook: Any) -> list[str]:
    """One cell for the student's own explanation, in Markdown so that the notebook keeps it; behind it ours, folded."""
    places = [place for place, cell in enumerate(notebook.cells) if "yours" in tags(cell)]
    if len(places) != 1:
        return [f"{len(places)} cells for the student's own explanation; expected one"]
    ours = notebook.cells[places[0] + 1].source
    folded = ours.startswith("<details><summary>Our explanation</summary>\n\n") and "\n\n</details>" in ours
    return [] if folded else ["ours does not follow it, folded"]


ALL_RULES: tuple[Callable[[Any], list[str]], ...] = (
    *RULES, exercises, sliders, closing, terms_marked, few_pictures, own_explanation,
)  # fmt: skip
