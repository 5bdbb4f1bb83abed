"""The questions that people ask most, a page each: the answer, a lesson's figure, and the claims that it rests on."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from brrr.core.errors import BrrrError
from brrr.drawing.style import kept_figures
from brrr_course.lessons.claims_table import judged
from brrr_course.nouns.places import share
from brrr_course.site.frame import ASKS, figures, packed, plain
from brrr_course.site.guesses import rules
from brrr_course.site.text import markdown
from brrr_course.site.vector import Pieces
from brrr_course.site.views import view
from brrr_course.sources import source_for
from brrr_course.view.explorer import Explorer

NOTHING = "<p>Nobody has measured this here yet: the course has no figure of it, and no claim.</p>"


@dataclass(frozen=True)
class Question:
    """What people ask, and what the course can say to it; `figure` is one of the lesson's, as a link names it.

    `at`: where its sliders begin, if elsewhere than in the lesson. `also`: what else people type who ask it.
    """

    slug: str
    question: str
    answer: str
    claims: tuple[str, ...]
    lesson: str
    figure: str
    at: Mapping[str, Any] = field(default_factory=dict)
    also: str = ""

    def page(self, name: str = "", title: str = "", seen: Sequence[object] = ()) -> str:
        """Its page: with what a lesson's cells showed, of the lesson's page and title."""
        lesson = f'<p>Explained in <a href="{name}.html#{self.figure}">{escape(title)}</a>.</p>' if name else ""
        figure = f'<h2>Try it</h2><div class="view" data-at="0">{ASKS}</div>{packed(self.data(seen))}' if seen else ""
        body = f"<h1>{escape(self.question)}</h1>{markdown(self.answer)}{figure}<h2>What was measured</h2>"
        return plain("", self.question, f"{body}{self.evidence()}{lesson}", figures() if seen else "")

    def evidence(self) -> str:
        """Its claims with their verdicts, on the lesson's recording, or on another device's as in `ID@h100`."""
        told = ""
        for device in dict.fromkeys(each.partition("@")[2] for each in self.claims):
            ids = [each.partition("@")[0] for each in self.claims if each.partition("@")[2] == device]
            given = source_for(f"recorded:{device}" if device else None, ids[0].partition(".")[0])
            told += judged(self.question, ids, given)._repr_html_()
        return f'<div class="html">{told}</div>' if told else NOTHING

    def data(self, seen: Sequence[object]) -> dict[str, Any]:
        """What the script reads to show its figure; BrrrError if the lesson has no such figure."""
        name, _, nth = self.figure.partition("-")
        found = [each for each in seen if isinstance(each, Explorer) and each.scene.experiment.name == name]
        if len(found) < int(nth or 1):
            raise BrrrError(f"data/questions.toml: {self.slug}: lesson {self.lesson} has no figure {self.figure}")
        pieces, explorer = Pieces(), found[int(nth or 1) - 1]
        before = {name: explorer.scene.point[name] for name in self.at}
        with kept_figures():
            shown = {**view(explorer.set(**self.at), pieces), "guess": -1}
        explorer.set(**before)
        told = {"view": [shown], "lesson": self.slug, "pieces": pieces.all, "defs": pieces.defs, **rules()}
        return {"guess": [], "comparison": [], "exercise": [], **told}


def questions() -> list[Question]:
    """The questions of data/questions.toml, in their order."""
    text = (share("data") / "questions.toml").read_text(encoding="utf-8")
    return [Question(**{**each, "claims": tuple(each["claims"])}) for each in tomllib.loads(text)["question"]]
