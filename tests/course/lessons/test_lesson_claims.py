"""What each lesson shows of the ledger: few claims open, each with what follows from it, and why one does not hold."""

import math
import re
from functools import cache
from typing import Any

import pytest

from brrr.core.files import share
from brrr.core.measurement import Estimate
from brrr_course import claims
from brrr_course.experiments import NAMES, experiment
from brrr_course.lessons.claims_table import ClaimsTable
from brrr_course.lessons.course import notebooks_in
from brrr_course.nouns import claim as judging
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.expression import FUNCTIONS, flat
from brrr_course.nouns.ledger import Entry, course_devices, ledger_path, past, read_ledger

LEDGER = read_ledger(ledger_path())
ENTRIES = {each.id: each for each in LEDGER.claim}
DEVICES = course_devices()
MOST_WORDS = 45
LONGEST = 130
"""Letters of an open claim's figure."""

of_each_lesson = pytest.mark.parametrize("lesson", LEDGER.lessons)


def words(text: str) -> int:
    """Of a text in English."""
    return len(re.findall(r"\w[\w'’.-]*", text))


SINGLE = dict[str, set[str]]()
"""By the device the claims that take the median of a single call by `exact`, which has no interval to leave out."""
COMPARED = dict[tuple[str, str], list[tuple[Estimate, float, float]]]()
"""By the claim and the device each value that was compared with its bounds."""


@cache
def judged(lesson: str, device: str) -> ClaimsTable:
    """What a lesson shows on a recording; judged once, for some claims take a second, and watched."""
    now, taken, decided, compare = [""], FUNCTIONS["exact"], judging.decided, judging.band_verdict

    def exact(value: Any) -> Any:
        if any(isinstance(each, Estimate) and each.n <= 1 for each in flat(value)):
            SINGLE.setdefault(device, set()).add(now[0])
        return taken(value)

    def watched(entry: Entry, *given: Any) -> Verdict:
        now[0] = entry.id
        return decided(entry, *given)

    def band(value: Estimate, low: float, high: float, text: str) -> Verdict:
        COMPARED.setdefault((now[0], device), []).append((value, low, high))
        return compare(value, low, high, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FUNCTIONS, "exact", exact)
        patch.setattr(judging, "decided", watched)
        patch.setattr(judging, "band_verdict", band)
        return claims(lesson, f"recorded:{device}")


def unlike(table: ClaimsTable) -> dict[str, Entry]:
    """The claims of a table that fail or are undecided."""
    return {claim.entry.id: claim.entry for claim, verdict in table.rows if verdict.status in ("fails", "undecided")}


def test_every_lesson_has_its_claims() -> None:
    """And one that waits for its recording has no verdict yet."""
    written = {path.stem.split("_")[0] for path in notebooks_in(share("notebooks"))}
    assert written <= set(LEDGER.lessons)
    for number in set(LEDGER.lessons) - written:
        table = judged(number, "h100")
        assert {verdict.status for _, verdict in table.rows} == {"not measured"}


@of_each_lesson
def test_three_or_four_claims_carry_a_lesson_in_few_words(lesson: str) -> None:
    table = judged(lesson, "h200")
    assert len(table.rows) in (3, 4)
    for claim, verdict in table.rows:
        shown = (claim.text, verdict.figure, claim.because(table.source, verdict), claim.entry.so_what)
        assert words(" ".join(shown)) <= MOST_WORDS, claim.entry.id
        assert len(verdict.figure) <= LONGEST, claim.entry.id


@pytest.mark.parametrize("device", DEVICES)
def test_what_does_not_hold_says_why_and_what_holds_does_not(device: str) -> None:
    found = {claim for name in NAMES for claim in unlike(judged(name, device))}
    assert {name for name, entry in ENTRIES.items() if device in entry.because} == found
    assert all(set(entry.because) <= set(DEVICES) for entry in ENTRIES.values())


def test_a_lesson_shows_its_badge_once_and_how_to_reach_the_others() -> None:
    table = claims("04c", "recorded:h200")
    for shown in (str(table), table._repr_html_(), table.details()):
        assert shown.count("RECORDED") == 1 and "is about 4" not in shown
        assert "in a terminal: brrr claims pseudo_linear_flaws pseudo_linear" in shown


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
    tables = [judged(name, device) for name in NAMES]
    every = {claim.entry.id: verdict.status for table in tables for claim, verdict in table.rows}
    there = {path.stem for path in (ledger_path().parent / "recordings" / device).glob("*.csv")}
    now = {name: status for name, status in every.items() if name.partition(".")[0] in there}  # a formula needs no row
    last = {name: history.get((name, device), [["", "", "not measured", ""]])[-1][2] for name in now}
    assert [name for name, status in now.items() if status != last[name]] == []


def test_a_claim_that_once_failed_and_one_older_than_its_rows_say_so() -> None:
    flipped, late = claims("gemm", "recorded:h200").details(), claims("host_cost", "recorded:h200").details()
    assert re.search(r"earlier +FAILS on 2026-11-22 \(padding makes 1025 columns 4\.22x", flipped)
    assert re.search(r"older +\d+ of \d+ rows were measured before its text was committed, \w+ \(20261121\)", late)


def test_a_lesson_says_on_which_other_recording_a_claim_turns_and_why() -> None:
    table = claims("repeat.knee-32-to-64", "recorded:h200")
    ((claim, verdict),) = table.rows
    said = claim.elsewhere("recorded:h200", verdict)
    assert said == " ".join(f"It fails on the {name.upper()}. {claim.entry.because[name]}" for name in ("cpu", "h100"))
    assert f"Elsewhere: {said.partition(chr(39))[0]}" in table._repr_html_()
    assert claim.elsewhere("recorded:h100", Verdict("fails", "")) == "It holds on the H200."
    assert "H200" in claim.elsewhere("cuda", Verdict("fails", "")), "what is measured live is a device of its own"
    assert claim.elsewhere("recorded:h200", Verdict("undecided", "")) == ""


# ---- what a sentence says is what its expression computes ----

CAUSE = re.compile(
    r": |; |\b(because|since|thanks to|due to|so that|so a|sets? the pace|to blame|caused?)\b|\w+-bound\b|\bbound by\b"
    r"|, (for (?!(a|one|nine|activation|the next)\b)|as if|as it|which (?!the)|though)"
)
"""What names a cause, or may: behind a colon it often stands."""
JUDGED = {
    "memory_swap.streams-gain-it-all", "rnn.gain-shrinks", "nested_sine.fusing-saves-half-small",
    "nested_sine.fusing-saves-half-large", "pseudo_linear.no-limit",
    "pseudo_linear_flaws.posted-wide", "fusion.as-the-bytes-say", "gemm.multiples-of-32", "matmul.transfers-half",
}  # fmt: skip
"""Claims whose expression computes what stands behind the colon."""


def test_no_sentence_names_a_cause_that_nothing_judges() -> None:
    """A verdict is read as a proof of all that its sentence says: what judges a cause stands beside it, or that nothing
    does; and of ours no sentence has one that nothing judges."""
    told = [each for each in LEDGER.claim if not each.not_here and CAUSE.search(each.sentence)]
    assert [each.id for each in told if not each.cause and each.id not in JUDGED] == []
    ours = [each for each in told if each.source not in ("000", "001", "002", "003", "004", "nanogpt", "diamos")]
    assert [each.id for each in ours if each.cause.startswith("not judged")] == []
    assert {*JUDGED} <= {each.id for each in told}


@pytest.mark.parametrize("cause", [entry.cause for entry in LEDGER.claim if entry.cause])
def test_a_cause_says_what_judges_it_or_that_nothing_does(cause: str) -> None:
    assert cause.startswith("not judged: ") or "judge" in cause
    assert all(name in ENTRIES for name in re.findall(r"\b[a-z_]+\.[a-z0-9-]{4,}", cause))


@pytest.mark.parametrize("device", DEVICES)
def test_no_claim_takes_the_median_of_a_single_call_as_exact(device: str) -> None:
    """One is a tenth wide either way; what is read beside a verdict counts too."""
    for name in NAMES:
        judged(name, device)
    assert SINGLE.get(device, set()) == set()


def beyond(value: Estimate, low: float, high: float) -> float:
    """How many times a value lies beyond its one bound; of two bounds, or of one at zero, none tells.

    >>> beyond(Estimate(50.0, 40.0, 60.0, 9), 2, math.inf), beyond(Estimate(0.01, 0.01, 0.02, 9), 0, 0.1)
    (20.0, 5.0)
    """
    if low > 0 and math.isinf(high):
        return value.low / low
    return high / value.high if low <= 0 < high < math.inf and value.high > 0 else 0.0


def furthest(compared: list[tuple[Estimate, float, float]]) -> float:
    """Of a claim's values with like bounds the nearest tells, and of unlike ones the furthest."""
    found: dict[tuple[float, float], list[float]] = {}
    for value, *ends in compared:
        found.setdefault((ends[0], ends[1]), []).append(beyond(value, ends[0], ends[1]))
    return max((min(each) for each in found.values()), default=0.0)


@pytest.mark.parametrize("device", DEVICES)
def test_a_claim_that_holds_could_have_failed(device: str) -> None:
    """More than ten times beyond its bound none has been put to a test."""
    tables = [judged(name, device) for name in NAMES]
    holds = [claim.entry.id for table in tables for claim, verdict in table.rows
             if verdict.status == "holds"]  # fmt: skip
    far = {name: furthest(COMPARED.get((name, device), [])) for name in holds}
    late = {"bits.int8-plain-kernel"} if device == "h200" else set()  # its bound is of an H100, recorded before
    assert {name for name, times in far.items() if times > 10} == late


FASTER = re.compile(
    r"\b(fast|faster|fastest|slow|slower|beats?|ahead|gains?|pays?|loses?|helps?|saves?)\b|times as (long|slow)"
    r"|speed-up|\d(\.\d+)?x\b"
)


def test_what_is_said_to_be_faster_names_the_rivals_that_were_not_recorded() -> None:
    """Or says that it needs none."""
    told = [each for each in LEDGER.claim if not each.not_here and FASTER.search(each.sentence)]
    assert len(told) > 100
    assert [each.id for each in told if not re.search("not recorded|no rival is needed|no other", each.rivals)] == []


def test_what_has_no_known_reason_says_so() -> None:
    """Of a recording; what was measured live may have any."""
    claim = next(claim for claim in experiment("occupancy").claims if "h100" not in claim.entry.because)
    told = {status: claim.because("recorded:h100", Verdict(status, "")) for status in ("fails", "undecided", "holds")}  # type: ignore[arg-type]
    assert told == {**judging.UNKNOWN, "holds": ""} and claim.because("cuda", Verdict("fails", "")) == ""
