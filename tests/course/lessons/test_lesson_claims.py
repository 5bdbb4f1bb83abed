"""What each lesson shows of the ledger: few claims open, each with what follows from it, and why one does not hold."""

import re
from functools import cache

import pytest

from brrr.core.files import share
from brrr_course import claims
from brrr_course.experiments import NAMES, experiment
from brrr_course.lessons.claims_table import ClaimsTable
from brrr_course.lessons.course import notebooks_in
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.ledger import Entry, ledger_path, past, read_ledger

LEDGER = read_ledger(ledger_path())
ENTRIES = {each.id: each for each in LEDGER.claim}
DEVICES = ("h200", "h100", "cpu")
MOST_WORDS = 45
LONGEST = 130
"""Letters of an open claim's figure."""

of_each_lesson = pytest.mark.parametrize("lesson", LEDGER.lessons)


def words(text: str) -> int:
    """Of a text in English."""
    return len(re.findall(r"\w[\w'’.-]*", text))


@cache
def judged(lesson: str, device: str) -> ClaimsTable:
    """What a lesson shows on a recording; judged once, for some claims take a second."""
    return claims(lesson, f"recorded:{device}")


def unlike(table: ClaimsTable) -> dict[str, Entry]:
    """The claims of a table that fail or are undecided."""
    rows = (*table.rows, *table.folded)
    return {claim.entry.id: claim.entry for claim, verdict in rows if verdict.status in ("fails", "undecided")}


def test_every_lesson_has_its_claims() -> None:
    """And one that waits for its recording has no verdict yet."""
    written = {path.stem.split("_")[0] for path in notebooks_in(share("notebooks"))}
    assert written <= set(LEDGER.lessons)
    for number in set(LEDGER.lessons) - written:
        table = judged(number, "h100")
        assert {verdict.status for _, verdict in (*table.rows, *table.folded)} == {"not measured"}


def test_every_claim_that_is_judged_stands_in_one_lesson() -> None:
    """That none stands in two, the ledger's reader checks; the predictor's are judged by tools/ alone."""
    shown = [name for number, one in LEDGER.lessons.items() for name in (*one.carry, *LEDGER.folded(number))]
    assert sorted(shown) == sorted(claim.entry.id for name in NAMES for claim in experiment(name).claims)


@of_each_lesson
def test_three_or_four_claims_carry_a_lesson_in_few_words(lesson: str) -> None:
    table = judged(lesson, "h200")
    assert len(table.rows) in (3, 4)
    for claim, verdict in table.rows:
        shown = (claim.text, verdict.figure, claim.because(table.source, verdict), claim.entry.so_what)
        assert words(" ".join(shown)) <= MOST_WORDS, claim.entry.id
        assert len(verdict.figure) <= LONGEST, claim.entry.id


@of_each_lesson
def test_what_does_not_hold_on_the_h200_says_why(lesson: str) -> None:
    found = unlike(judged(lesson, "h200"))
    assert [name for name, one in found.items() if not one.because.get("h200")] == []


@of_each_lesson
def test_what_carries_a_lesson_and_does_not_hold_on_the_cpu_says_why(lesson: str) -> None:
    table = judged(lesson, "cpu")
    carry = {claim.entry.id for claim, _ in table.rows}
    assert [name for name, one in unlike(table).items() if name in carry and not one.because.get("cpu")] == []


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_that_holds_says_why_it_does_not(device: str) -> None:
    found = {name for lesson in LEDGER.lessons for name in unlike(judged(lesson, device))}
    assert {name for name, entry in ENTRIES.items() if device in entry.because} <= found
    assert all(set(entry.because) <= set(DEVICES) for entry in ENTRIES.values())


def test_a_lesson_shows_its_badge_once_and_folds_the_rest_away() -> None:
    table = claims("04c", "recorded:h200")
    text, html = str(table), table._repr_html_()
    assert text.count("RECORDED") == html.count("RECORDED") == 1
    assert html.count("<details>") == 1 and html.index("So what?") < html.index("<details>") < html.index("is about 4")
    assert text.splitlines()[-1] == "22 more, in a terminal: brrr claims pseudo_linear pseudo_linear_flaws"
    assert "is about 4" not in text and "is about 4" in table.details()


def test_why_is_told_of_a_recording_where_it_does_not_hold() -> None:
    """Not of what holds there, and not of what was measured live, of which nobody knows."""
    entry = ENTRIES["overlap.streams-help-transfers"]
    why = f"Why? {entry.because['h200']}"
    table = claims("02b", "recorded:h200")
    assert why in str(table) and entry.because["h200"] in table.details()
    assert why not in str(claims("02b", "cpu"))


@pytest.mark.parametrize("device", DEVICES)
def test_the_last_verdict_of_the_history_is_todays(device: str) -> None:
    """Else `python -m tools.history` was forgotten after a recording or a claim was committed."""
    history = past(ledger_path().with_name("history.csv"))
    tables = [judged(lesson, device) for lesson in LEDGER.lessons]
    every = {claim.entry.id: verdict.status for table in tables for claim, verdict in (*table.rows, *table.folded)}
    there = {path.stem for path in (ledger_path().parent / "recordings" / device).glob("*.csv")}
    now = {name: status for name, status in every.items() if name.partition(".")[0] in there}  # a formula needs no row
    last = {name: history.get((name, device), [["", "", "not measured", ""]])[-1][2] for name in now}
    assert [name for name, status in now.items() if status not in ("retired", last[name])] == []


def test_a_claim_that_once_failed_and_one_older_than_its_rows_say_so() -> None:
    flipped, late = claims("gemm", "recorded:h200").details(), claims("host_cost", "recorded:h200").details()
    assert re.search(r"earlier +FAILS on 2026-11-22 \(padding makes 1025 columns 4\.22x", flipped)
    assert re.search(r"older +\d+ of \d+ rows were measured before its first commit, \w+ \(20261121\)", late)


def test_a_lesson_says_on_which_other_recording_a_claim_turns_and_why() -> None:
    (knee,) = [row for row in claims("04", "recorded:h200").folded if row[0].entry.id == "repeat.knee-32-to-64"]
    claim, verdict = knee
    said = claim.elsewhere("recorded:h200", verdict)
    assert said == " ".join(f"It fails on the {name.upper()}. {claim.entry.because[name]}" for name in ("cpu", "h100"))
    assert f"Elsewhere: {said.partition(chr(39))[0]}" in claims("04", "recorded:h200")._repr_html_()
    assert claim.elsewhere("recorded:h100", Verdict("fails", "")) == "It holds on the H200."
    assert "H200" in claim.elsewhere("cuda", Verdict("fails", "")), "what is measured live is a device of its own"
    assert claim.elsewhere("recorded:h200", Verdict("undecided", "")) == ""
