"""The table of claims: every claim with its source, what decides it, the device, the measured value and the verdict."""

import dataclasses
import random
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import made_up
import pytest

from brrr.core.errors import RecordingError
from brrr.core.measurement import FIELDS, Estimate, Measurement
from brrr_course.experiments import NAMES, experiment
from brrr_course.lessons import claims_table
from brrr_course.lessons.claims_table import ClaimsTable, claims
from brrr_course.nouns.claim import Claim, Verdict, claims_of
from brrr_course.nouns.ledger import course_devices, ledger_path, read_ledger
from brrr_course.nouns.source import Evidence, broken
from brrr_course.sources import source_for
from brrr_course.sources.live import Live
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Machine
from brrr_course.sources.rows import Timed
from brrr_course.view.display import signed

MATMUL = experiment("matmul")


@pytest.fixture
def recordings(synthetic_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The synthetic recordings in the place of the course's own."""
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    return synthetic_root


def statuses(root: Path, device: str = "h200") -> dict[str, str]:
    return {claim.name: verdict.status for claim, verdict in claims("matmul", Recorded(device, root)).rows}


def test_the_table_says_all_of_every_claim(synthetic_root: Path) -> None:
    table = claims("matmul", Recorded("h200", synthetic_root))
    text, brief, html = table.details(), str(table), table._repr_html_()
    for shown in (text, brief, html):
        assert shown.count("RECORDED · Synthetic H200 · 2000-01-01 · torch 2.11.0+cu130") == 1
    assert len(table.rows) == len(MATMUL.claims) >= 4
    for claim, verdict in table.rows:
        assert all(part in text for part in (claim.text, claim.source, claim.decides, verdict.measured))
        assert claim.text in brief and verdict.figure in brief and claim.decides not in brief
        assert escape(claim.text) in html and signed(verdict.figure) in html
        assert verdict.status in html
        assert verdict.status.upper() in text


def test_the_verdicts_follow_the_made_up_machine(synthetic_root: Path) -> None:
    """It sends at 9 GB/s and multiplies at 50 TFLOP/s: half and half at 32768, by construction."""
    table = statuses(synthetic_root)
    assert table["gpu-wins-at-scale"] == "holds"
    assert table["first-call-bump"] == "holds"
    assert table["unsynchronized-flat"] == "holds"
    assert table["transfers-half"] == "holds"


def test_other_measurements_give_other_verdicts(tmp_path: Path) -> None:
    """The same recording, but with products a hundred times slower: the transfers no longer weigh anything."""
    made_up.record(tmp_path, made_up.GPU, measure=lambda step: made_up.measure(step, slower=100.0))
    table = statuses(tmp_path)
    assert table["transfers-half"] == "fails"
    assert table["unsynchronized-flat"] == "holds"


def test_what_a_device_did_not_record_is_not_measured(synthetic_root: Path) -> None:
    table = claims("matmul", Recorded("cpu", synthetic_root))
    assert {verdict.status for claim, verdict in table.rows if claim.name == "transfers-half"} == {"not measured"}


def test_an_experiment_without_a_recording_is_not_measured(synthetic_root: Path) -> None:
    table = claims("sines", Recorded("h200", synthetic_root))
    assert {verdict.status for _, verdict in table.rows} == {"not measured"}
    assert "recorded:h200, not recorded" in str(table)


def test_a_single_call_is_widened_before_a_claim_judges_it() -> None:
    """It has no interval: a tenth either way is allowed for, so that no claim holds by a hair."""
    one, many = Estimate(1.0, 1.0, 1.0, 1), Estimate(2.0, 1.99, 2.01, 40)
    known = {(8,): Measurement(latency_s=one), (16,): Measurement(latency_s=many)}
    evidence = Evidence(MATMUL, cast(Any, SimpleNamespace(kind="cuda", known=lambda experiment, variant: known)))
    curve = evidence.curve("cpu", "size")
    assert (curve[8].low, curve[8].median, curve[8].high) == pytest.approx((0.9, 1.0, 1.1)) and curve[16] == many
    assert evidence.get("cpu", size=8) == curve[8] == evidence.everywhere("cpu")[8,]


def test_a_live_source_has_measured_nothing_yet() -> None:
    table = claims("matmul", Live("cpu"))
    assert {verdict.status for _, verdict in table.rows} == {"not measured"}
    assert "LIVE" in str(table)


def test_what_a_claim_says_is_no_markup() -> None:
    odd = made_up.claim(sentence="a < b & <b>c</b>", so_what="<i>d</i>")
    html = claims_table.ClaimsTable("title", "<badge>", ((odd, Verdict("holds", "1 <2> 3")),))._repr_html_()
    told = ("a &lt; b &amp; &lt;b&gt;c&lt;/b&gt;", "1 &lt;2&gt; 3", "&lt;badge&gt;", "&lt;i&gt;d&lt;/i&gt;")
    assert all(text in html for text in told)


def test_of_what_was_measured_the_figure_is_shown_and_an_interval_where_it_decides() -> None:
    told = "2x (1.9x to 2.1x) at 8; 3x at 9"
    assert [Verdict(status, told).figure for status in ("holds", "fails")] == ["2x at 8"] * 2
    assert Verdict("undecided", told).figure == "2x (1.9x to 2.1x) at 8"


@pytest.mark.usefixtures("recordings")
def test_the_command_prints_every_claim_and_a_failing_claim_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claims_table.main(["--source", "recorded:h200", "matmul"]) == 0
    text = capsys.readouterr().out
    assert all(claim.text in text for claim in MATMUL.claims)
    made_up.record(tmp_path, made_up.GPU, measure=lambda step: made_up.measure(step, slower=100.0))
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    assert claims_table.main(["--source", "recorded:h200", "matmul"]) == 0
    assert "FAILS" in capsys.readouterr().out


@pytest.mark.usefixtures("recordings")
def test_the_command_takes_a_lesson_s_number_and_prints_as_it_judges(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claims_table.main(["--source", "recorded:h200", "01"]) == 0
    assert capsys.readouterr().out.startswith("Lesson 01 · ")
    before: list[str] = []
    monkeypatch.setattr(claims_table, "claims", lambda *_: before.append(capsys.readouterr().out) or claims("matmul"))
    assert claims_table.main(["--source", "recorded:h200", "matmul", "01"]) == 0
    assert before[0] == "" and "(matmul)" in before[1]


@pytest.mark.parametrize("name", ["14", "collective"])
def test_where_no_source_is_named_the_command_shows_the_recording_that_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """As a lesson does: what stands on the H200 alone is not told as never measured on the H100."""
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h100")
    assert claims_table.main([name]) == 0
    said = capsys.readouterr().out
    assert said == claims(name).details() + "\n"
    assert "H200" in said.partition("\n")[0] and "NOT MEASURED" not in said
    assert claims_table.main(["--source", "recorded:h100", name]) == 0
    assert "NOT MEASURED" in capsys.readouterr().out, "one that is named is taken"


@pytest.mark.parametrize("seed", range(3))
def test_a_claim_is_asked_for_by_its_id_and_unknown_names_give_the_nearest(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    id = chance.choice([each.id for each in read_ledger(ledger_path()).claim if each.experiment in NAMES])
    about, _, name = id.partition(".")
    (asked,) = claims(id, "recorded:h200").rows
    (same,) = [row for row in claims(about, "recorded:h200").rows if row[0].name == name]
    assert asked == same and claims_table.main(["--source", "recorded:h200", id]) == 0
    assert same[0].text in capsys.readouterr().out
    letter = chance.randrange(len(id))
    assert claims_table.main([f"{id[:letter]}?{id[letter + 1 :]}"]) == 2
    said = capsys.readouterr().err
    assert id in said and len(said) < 400


def test_every_claim_of_an_experiment_can_be_asked_for() -> None:
    every = [f"{name}.{claim.name}" for name in NAMES for claim in experiment(name).claims]
    assert sorted(every) == sorted(claims_table._ids())


@pytest.mark.parametrize("names", [("matmul",), ("matmul", "sines", "first_call")])
def test_what_is_recorded_here_changes_nothing_of_what_the_course_says_of_itself(
    names: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> tuple[Any, ...]:
        assert claims_table.main(["--count", "matmul", "sines"]) == 0
        shown = capsys.readouterr().out
        assert claims_table.main(["--devices", "matmul"]) == 0
        return shown, course_devices(), source_for(None, "first_call").name, capsys.readouterr().out

    monkeypatch.setenv("BRRR_SOURCE", "recorded:h100")  # which lacks first_call
    *before, devices = said()
    made_up.record(tmp_path, Machine("a-cpu", "Somebody's CPU", "cpu"), names=names)
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    *after, devices_too = said()
    assert after == before and "a-cpu" not in "".join(map(str, after))
    assert "| a-cpu |" in devices_too and "a-cpu" not in devices, "one's own stand beside the course's where one asks"


def test_a_size_called_once_does_not_decide_whether_the_lie_is_flat(tmp_path: Path) -> None:
    """Its issuing, behind a long wait, takes ten times as long; called more than once, the same would decide."""

    def measure(step: Any, flags: tuple[str, ...]) -> dict[str, Any]:
        runs = dict(made_up.measure(step))
        if step.point == {"size": 32768} and isinstance(run := runs.get("gpu"), Timed):
            slow = dataclasses.replace(run.measurement, host_s=made_up.estimate(60e-6), flags=flags)
            runs["gpu"] = dataclasses.replace(run, measurement=slow)
        return runs

    made_up.record(tmp_path / "once", made_up.GPU, measure=lambda step: measure(step, ("single-call",)))
    made_up.record(tmp_path / "often", made_up.GPU, measure=lambda step: measure(step, ()))
    assert statuses(tmp_path / "once")["unsynchronized-flat"] == "holds"
    assert statuses(tmp_path / "often")["unsynchronized-flat"] == "fails"


TIMES = {"host_s": 5e-6, "kernel_s": 8e-6, "busy_s": 8e-6, "span_s": 9e-6, "period_s": 9e-6, "latency_s": 2e-5}


@pytest.mark.parametrize(
    ("times", "pairs"),
    [
        ({}, []),
        ({"host_s": 2.2e-5, "period_s": 2.2e-5}, [("host_s", "latency_s")]),
        ({"host_s": 2.04e-5, "period_s": 2.2e-5}, []),  # within what the timers promise
        ({"host_s": 9.6e-6}, [("host_s", "period_s")]),  # a loop launches each of its calls
        ({"span_s": 3e-5}, [("span_s", "latency_s")]),
        ({"kernel_s": 1.1e-5, "busy_s": 1.1e-5}, [("busy_s", "span_s"), ("busy_s", "period_s")]),
        ({"busy_s": 1e-5, "kernel_s": 2e-5, "period_s": 8e-6, "span_s": 1e-5}, []),  # several streams
    ],
)
def test_a_verdict_says_which_of_the_rows_it_read_cannot_be_right(
    times: dict[str, float], pairs: list[tuple[str, str]]
) -> None:
    made = {name: Estimate(each, each, each, 9) for name, each in {**TIMES, **times}.items()}
    measured = Measurement(**cast(Any, made))
    assert broken(measured) == pairs
    known = {(size,): Measurement(**cast(Any, made)) for size in (8, 16)}
    source = SimpleNamespace(kind="cuda", known=lambda experiment, variant: known, name="recorded:h200")
    for field in FIELDS:
        read = made_up.claim(value=(f"{field.removesuffix('_s')}('gpu', size=8)",))
        found = read.verdict(Evidence(MATMUL, cast(Any, source)))
        mine = [pair for pair in pairs if field in pair]
        assert all(f"in 1 of its rows {less} is longer than {more}" in found.note for less, more in mine)
        assert bool(found.note) == bool(mine)
        shown = ClaimsTable("Made up", "", ((read, found),), "recorded:h200")
        assert (found.note in repr(shown)) and (found.note in shown.details()) and found.note in shown._repr_html_()


@pytest.mark.parametrize(("slowest", "status"), [(3.0, "holds"), (3.001, "fails")])
def test_at_most_three_times_is_three_times_too(slowest: float, status: str) -> None:
    issued = {1: 1.0, 64: 2.0, 4096: slowest}
    known = {
        (size,): Measurement(host_s=Estimate(s, s, s, 9), latency_s=Estimate(10.0 * size, 10.0 * size, 10.0 * size, 9))
        for size, s in issued.items()
    }
    (flat,) = (claim for claim in MATMUL.claims if claim.name == "unsynchronized-flat")
    source = SimpleNamespace(kind="cuda", known=lambda experiment, variant: known)
    assert flat.verdict(Evidence(MATMUL, cast(Any, source))).status == status


# ---- the ledger ----

SMALL = Path(__file__).with_name("ledger.toml").read_text(encoding="utf-8")


def ledger(folder: Path, text: str = SMALL) -> Path:
    path = folder / f"{abs(hash(text))}.toml"  # a ledger is read once
    path.write_text(text, encoding="utf-8")
    return path


def judged(folder: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> dict[str, tuple[str, str, bool]]:
    """Each claim's verdict, what was measured, and whether its data were there before."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / "claims.toml").write_text(SMALL, encoding="utf-8")
    monkeypatch.setattr("brrr_course.nouns.ledger.share", lambda name: folder / name)
    evidence: Any = SimpleNamespace(source=SimpleNamespace(name=f"recorded:{device}"), doubted="")
    found = claims_of("one", "tests")
    made = {each.name: (each.verdict(evidence), each.after_the_data(f"recorded:{device}")) for each in found}
    return {name: (verdict.status, verdict.measured, after) for name, (verdict, after) in made.items()}


def test_a_claim_has_its_text_from_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "2.4x; at least 2x was claimed"
    assert judged(tmp_path, monkeypatch, "h200") == {
        "fast": ("holds", text, True),
        "old": ("holds", "1x", False),
        "elsewhere": ("not measured", "needs another GPU", False),
    }
    assert not made_up.claim(after_data=("cpu",)).after_the_data("cpu")  # measured live: later than every claim
    assert judged(tmp_path, monkeypatch, "cpu")["fast"] == ("holds", text, False)
    fast = claims_of("one", "tests")[0]
    assert fast.source == "A source (2024), section 2"
    assert fast.decides == "slow over 2: at least 2x; slow is 4.8; nothing prepared"
    assert fast.entry.changed[0].before == "holds: 1.8x"


def test_a_function_that_decides_must_be_there() -> None:
    with pytest.raises(RecordingError, match=r"made-up\.x\.judge is 'no_such'; expected a function of tests"):
        Claim(made_up.claim(judge="no_such").entry, "source", "tests").verdict(None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = "002"\nplace', 'source = "009"\nplace', "one.fast.source is '009'; expected one of 002, course"),
        ('value = "slow / 2"\n', "", "one.fast.value is missing"),
        ('"slow / 2"', '"slow / "', "one.fast.value[0] is 'slow / ': column"),
        ("[2, inf]", "[2, inf, 3]", "one.fast.within is ((2, 'inf', 3),); expected a lowest and a highest"),
        ("[2, inf]", "[2, inf]\nabout = 2", "one.fast: expected one of within, about and about_gain"),
        ('fixed = "2026-11-20"\nafter', 'fixed = "yesterday"\nafter', "one.fast.fixed is 'yesterday'; expected a date"),
        ('date = "2026-11-21"', 'date = "later"', "expected a date"),
        ('id = "one.old"', 'id = "one.fast"', "one.fast stands there twice"),
        ('so_what = "Wait."', "", "one.fast.so_what is ''; expected one if it carries a lesson, else none"),
        ('01 = ["one.fast"]', "01 = []", "one.fast.so_what is 'Wait.'; expected one if it carries"),
        ('"Its launches."', '"Its launches"', "one.fast.because.h200 is 'Its launches'; expected a sentence with"),
        ('01 = ["one.fast"]', '01 = ["one"]', "lessons.01 names 'one'; expected the id of a claim"),
        ("02 = []", '02 = ["one.fast"]', "lessons.02 shows one.fast, as lesson 01 does"),
        ("[sources]", "[sources", "claims|toml"),
    ],
)
def test_a_damaged_ledger_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SMALL.count(old) == 1
    with pytest.raises(RecordingError, match=re.escape(message) if "|" not in message else message):
        read_ledger(ledger(tmp_path, SMALL.replace(old, new)))


def test_the_courses_ledger_is_whole() -> None:
    """What the documents say has a place in them or is of the whole, and what was changed tells both verdicts."""
    found = read_ledger(Path(__file__).resolve().parents[3] / "data" / "claims.toml")
    assert {"000", "001", "002", "003"} <= set(found.sources)
    assert all(each.what and each.why and each.before and each.after for one in found.claim for each in one.changed)
    assert all(set(each.after_data) <= {"h200", "h100", "cpu"} for each in found.claim)


def test_counts_keep_what_was_fixed_after_its_data_apart() -> None:
    after, near, far = (made_up.claim(**given) for given in ({"after_data": ("h200",)}, {}, {"id": "made-up.x-far"}))
    rows = [(after, "holds"), (near, "holds"), (far, "fails"), (made_up.claim(certain="arithmetic"), "holds")]
    for some, told in ((rows[:2], {"holds before": 1, "holds after": 1}), (rows[1:3], {"fails before": 1}),
                       (rows[3:], {"cannot change": 1})):  # fmt: skip
        judged = tuple((claim, Verdict(status, "")) for claim, status in some)  # type: ignore[arg-type]
        text = claims_table.counted([claims_table.ClaimsTable("title", "badge", judged, "recorded:h200")])
        assert text.splitlines()[0] == "| claims | h200 |"
        assert text.splitlines()[2:] == [f"| {kind} | {told.get(kind, 0)} |" for kind in claims_table.COUNTED]


def test_by_source_each_sentence_has_its_place_and_its_verdicts() -> None:
    claim = made_up.claim(place="section 2", after_data=("h200",))
    tables = [
        claims_table.ClaimsTable("title", "badge", ((claim, Verdict(status, "2x")),), f"recorded:{device}")
        for status, device in (("holds", "h200"), ("fails", "cpu"))
    ]
    text = claims_table.sentences(tables)  # type: ignore[arg-type]
    assert text.splitlines() == [
        "source",
        "======",
        "text  [made-up.x; section 2]",
        "    h200: HOLDS (claim written after the data): 2x",
        "    cpu: FAILS: 2x",
    ]


@pytest.mark.usefixtures("recordings")
def test_the_command_counts_and_lists_by_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert claims_table.main(["--count", "matmul"]) == 0
    assert capsys.readouterr().out.startswith("| claims | cpu | h100 | h200 |")
    assert claims_table.main(["--sources", "--source", "recorded:h200", "matmul"]) == 0
    assert "cpu:" not in (said := capsys.readouterr().out) and "[matmul.transfers-half; section 'matmul']" in said


def test_devices_stand_side_by_side_with_each_claims_verdict(
    synthetic_root: Path, only_recordings: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A device that lacks an experiment has none of its claims measured."""
    only_recordings(synthetic_root)
    assert claims_table.main(["--devices", "matmul", "timers"]) == 0
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head == "| claim | cpu | h200 |"
    assert "RECORDED · Synthetic H200 · 2000-01-01 · torch 2.11.0+cu130, your recording" in lines
    rows = [line.strip(" |").split(" | ") for line in lines if "[" in line]
    told = {said.rpartition("[")[2].strip("]"): cells for said, *cells in rows}
    for claim in MATMUL.claims:
        both = [claim.verdict(Evidence(MATMUL, Recorded(name, synthetic_root))) for name in ("cpu", "h200")]
        assert [cell.removesuffix(claims_table.AFTER) for cell in told[claim.entry.id]] == [v.status for v in both]
    lacking = {cell for name, cells in told.items() if name.startswith("timers.") for cell in cells}
    lacking = {cell.removesuffix(claims_table.AFTER) for cell in lacking}
    assert lacking == {"not measured"}


@pytest.mark.parametrize(
    ("lines", "earlier"),
    [
        (["1 a fails 4x", "2 b holds 6x"], ["FAILS on 1 (4x)"]),
        (["1 a holds 5x", "2 b holds 6x"], []),  # another value, the same verdict
        (["1 a fails 4x", "2 b holds 6x anew"], []),  # the claim was changed, not the recording
        (["1 a holds 4x", "2 b fails 1x anew", "3 c holds 5x"], ["FAILS on 2 (1x)"]),
        (["1 a fails 4x", "2 b not-measured", "3 c fails 5x"], []),
        (["1 a holds 4x", "2 b fails 1x", "3 c holds 5x"], ["HOLDS on 1 (4x)", "FAILS on 2 (1x)"]),
    ],
)
def test_a_claim_tells_each_flip_by_a_new_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], earlier: list[str]
) -> None:
    monkeypatch.setattr("brrr_course.nouns.ledger.share", lambda name: tmp_path)
    rows = [
        ",".join(["made-up.x", "h200", *f"{line}  ".split(" ")[:5]]).replace("-measured", " measured") for line in lines
    ]
    head = "claim,device,date,commit,verdict,value,anew"
    (tmp_path / "history.csv").write_text("\n".join([head, *rows, "# up to c", ""]))
    ages = "made-up.x,h200,abc,20261121-134402,2,3,20261121-132255-019"
    (tmp_path / "ages.csv").write_text(f"claim,device,commit,committed,older,rows,oldest\n{ages}\n")
    claim = made_up.claim()
    assert claim.earlier("recorded:h200") == earlier and claim.earlier("h200") == claim.earlier("recorded:cpu") == []
    assert claim.older("recorded:h200").startswith("2 of 3 rows") and claim.older("cpu") == ""
