"""The ranking of schedules that students enter: each one's best, under a name that nobody takes for another's."""

from __future__ import annotations

import json
import re
import unicodedata
from operator import itemgetter
from typing import Any

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Processor
from brrr_course.classroom.query import Query, parse
from brrr_course.classroom.store import ClassStore
from brrr_course.experiments import PLAYED, experiment, own_choice

OWN_CHOICE = "brrr's own choice"
CYRILLIC = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u043a\u043c\u0442\u0432\u043d\u0433"
    "\u044c\u043f\u0454\u045b\u0452\u0431\u0438"
)
LATIN = "\u0131\u00f8\u0142\u0111\u00f0\u00fe\u0127\u0167\u014b\u00e6\u0153\u00df"
"""Letters of European languages that are none of a to z with an accent."""
KANA = "\u30d8\u30cb\u30ab\u30ed\u30a8\u30bf\u30c8\u30cf\u30fc\u30ea"
HAN = "\u3078\u4e8c\u529b\u53e3\u5de5\u5915\u535c\u516b\u4e00\u308a"
ALIKE = str.maketrans(CYRILLIC + LATIN[:9] + KANA + "01l|!569", "aeopcyxijskmtbhrbnehhbuioiddphtn" + HAN + "oiiiisbg")
"""Letters that a reader takes for others."""
EAST_ASIAN = ("CJK UNIFIED IDEOGRAPH", "HIRAGANA LETTER", "KATAKANA", "HANGUL SYLLABLE")
EMOJI = re.compile("[\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff]")


class ClassRanking:
    """The rankings of a class; each call reads or writes the class's file.

    >>> Ranking(store, "cpu").table("schedule", devices)  # doctest: +SKIP
    [{'seconds': 0.0011, 'shown': "brrr's own choice", 'point': {'chunks': 8, 'buffers': 4}}]
    """

    def __init__(self, store: ClassStore, kind: Processor) -> None:
        self._store, self._kind = store, kind

    def asked(self, name: str, point: Any) -> Query:
        """The one variant of a game at a point; ArgumentError for what is no game, or no point of it."""
        return parse({"experiment": name, "variants": list(self._variant(name)), "point": point}, self._kind)

    def table(self, name: str, devices: tuple[str, ...]) -> list[dict[str, Any]]:
        """The fastest first: each student's best, and the package's own, first of equals, if anybody measured it."""
        rows = self._store.read("SELECT shown, point FROM score WHERE challenge = ? ORDER BY rowid", name)
        own = [(OWN_CHOICE, own_choice(name, variant)) for variant in self._variant(name)]
        found = [*own, *((shown, json.loads(point)) for shown, point in rows)]
        timed = [(self._seconds(self.asked(name, point), devices), shown, point) for shown, point in found]
        best: dict[str, dict[str, Any]] = {}
        for seconds, shown, point in sorted((each for each in timed if each[0] is not None), key=itemgetter(0)):
            best.setdefault(shown, {"seconds": seconds, "shown": shown, "point": point})
        return list(best.values())

    def enter(self, user: str, shown: str, wanted: Query, devices: tuple[str, ...]) -> None:
        """Enter what was measured under a name; of a student's schedules the best stays.

        NotRecordedError where nobody measured it; ArgumentError for the package's own, and for a name that looks like
        somebody else's.
        """
        name, who, store = wanted.experiment, self._store.digest(user), self._store
        if (seconds := self._seconds(wanted, devices)) is None:
            raise NotRecordedError(f"{name} at {wanted.point} was not measured: measure it first")
        if any(wanted.point == own_choice(name, variant) for variant in self._variant(name)):
            raise ArgumentError("scores", "point", dict(wanted.point), f"another than {OWN_CHOICE}, which stands there")
        given, shown = shown, " ".join(unicodedata.normalize("NFKC", shown).split())
        scripts = {_script(letter) for letter in shown} - {""}
        if not 0 < len(shown) <= 30 or not given.isprintable() or None in scripts or len(scripts) > 1:
            expected = "1 to 30 letters (Latin, Cyrillic, or Chinese, Japanese and Korean), digits, ASCII signs, emoji"
            raise ArgumentError("scores", "shown", given, expected)
        others = store.read("SELECT shown FROM score WHERE challenge = ? AND who != ?", name, who)
        if looks(shown) in {looks(OWN_CHOICE), *(looks(other) for (other,) in others)}:
            raise ArgumentError("scores", "shown", shown, "a name that looks like nobody else's")
        before = store.read("SELECT point FROM score WHERE challenge = ? AND who = ?", name, who)
        points = [json.loads(point) for (point,) in before]
        timed = [(self._seconds(self.asked(name, point), devices), point) for point in points]
        timed = [(seconds, dict(wanted.point)), *(each for each in timed if each[0] is not None)]
        best = json.dumps(min(timed, key=itemgetter(0))[1])
        store.write("INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?)", name, who, shown, best)
        store.write("DELETE FROM score WHERE challenge = ? AND who = ? AND point != ?", name, who, best)

    def _variant(self, name: str) -> tuple[str, ...]:
        if name not in PLAYED:
            raise ArgumentError("scores", "experiment", name, f"one of {', '.join(PLAYED)}")
        return experiment(name).variants_on(self._kind)

    def _seconds(self, wanted: Query, devices: tuple[str, ...]) -> float | None:
        """The period of what was measured and found right; None where it was not."""
        (answer, *_) = [*self._store.answers(wanted, devices).values(), {}]
        return float(answer["cells"]["period_s"]) if "cells" in answer else None


def looks(name: str) -> str:
    """What names have in common that a reader takes for one: without case, accents, spaces and foreign letters.

    >>> looks("BRRR's  own choice") == looks("brrr\u2019s own ch\u043eice")
    True
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    plain = "".join(each for each in plain if unicodedata.category(each)[0] != "M").translate(ALIKE)
    plain = plain.replace("rn", "m").replace("vv", "w")
    return "".join(letter for letter in plain if letter.isalnum()) or plain


def _script(letter: str) -> str | None:
    """What a letter of a name belongs to, "" for what goes with all; None where nobody has said what it looks like.

    >>> [_script(letter) for letter in "\u00e9\u0436\u5b57!\u03b1"]
    ['Latin', 'Cyrillic', 'East Asian', '', None]
    """
    base = unicodedata.normalize("NFD", letter)[0].lower()
    if base.isascii() or base in LATIN:
        return "Latin" if base.isalpha() else ""
    if "\u0430" <= base <= "\u044f" or base in CYRILLIC:
        return "Cyrillic"
    if unicodedata.name(letter, "").startswith(EAST_ASIAN):
        return "East Asian"
    return "" if EMOJI.match(letter) else None
