"""A lesson as slides: the parts of its page, one idea on each, the prose between them folded below."""

from __future__ import annotations

import re

from brrr_course.site.lesson import LessonPage

ALONE = ('<div class="view"', '<div class="comparison"')
"""Parts with a slide of their own."""
SAID = "In the lesson's words"
FOLDED = {"run", "explain", "explore"}
"""Tags of text that a teacher says: it is folded below the figure that comes next."""
_DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)
_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)


def slides(found: LessonPage) -> list[str]:
    """The lesson's slides as HTML, each a `section`.

    A heading with its text begins one, which the guess, exercise or claims below it complete; a figure and a comparison
    have their own, under the heading that they belong to.
    """
    made: list[list[str]] = [[]]
    heading, told, folded = found.title, found.title, ""

    def fold() -> str:
        nonlocal folded
        text, folded = folded, ""
        return f'<details class="notes"><summary>{SAID}</summary>{text}</details>' if text.strip() else ""

    for tags, is_code, parts in found.cells:
        text = "".join(parts)
        if "next" in tags:
            continue
        if is_code:
            for part in parts:
                if 'class="code"' in part and " open>" not in part:
                    continue  # only what is to be changed is shown
                if heading != told or (part.startswith(ALONE) and "question" not in tags):
                    made.append([f'<p class="running">{heading}</p>', part, fold()])
                    told = heading
                else:
                    made[-1].append(part)
            continue
        heading = next(iter(_HEADING.findall(text)), heading)
        if FOLDED & set(tags) and "yours" not in tags:
            made[-1] += _DETAILS.findall(text)
            folded += _HEADING.sub(r'<p class="running">\1</p>', _DETAILS.sub("", text))
        else:
            made[-1].append(fold())
            made.append([text])
            told = heading
    made[-1].append(fold())
    return [f"<section hidden>{''.join(each)}</section>" for each in made if any(each)]
