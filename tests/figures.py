"""Marks behind the figures of README and docs/: where each comes from, and whether it still stands there.

A figure is a number with a unit, or a relative error. A paragraph, item or table that has one ends in marks, which its
reader does not see; a mark behind a heading holds for what has none of its own, up to the next heading.

| mark | what the numbers beside it come from |
| --- | --- |
| `claims: strassen.odd-sizes` | what a claim says, what decides it, what the H200 made of it, before a change too |
| `claims: strassen.odd-sizes@h100` | the same of another device's recording |
| `rows: strassen rate sgemm/fp16x3 size>=4096` | recorded rows, as `recorded` reads them; `strassen@cpu` the CPU's |
| `peaks: host.relu` | what `brrr calibrate` measured there |
| `given: 700 W, the datasheet's; 64 rows` | what was not measured here: each is named |
| `definition: bounds` | all of it is ours to choose |
| `test: tests/tools/test_judge.py` | a test of its own compares each line with what was recorded |
| `attempt: while it was built` | measured once; the section tells its reader that no recording holds it |

By the first four every number must stand, up to the rounding that is written. Code is left out.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatch
from functools import cache
from typing import Any

from brrr.core.files import PACKAGE
from brrr.core.units import quantity
from brrr_course.experiments import experiment
from brrr_course.lessons.claims_table import claims
from brrr_course.nouns.experiment import Experiment, Variant
from brrr_course.nouns.ledger import ledger_path, past
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Recording
from brrr_course.sources.rows import Row

H200 = Recorded("h200", PACKAGE.parent / "data" / "recordings")
UNIT = r"[nµm]?s|%|times|[kMGT]B|[kMGT]?B/s|[kMGT]?FLOP(?:/s|/B)?|[kMG]?Hz|W"
UNITS = rf"(x| ?(?:{UNIT}))(?![\w/])"
NUMBER = re.compile(rf"(?<![\w.^])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:{UNITS})?(?!\.?\w)")
MARK = re.compile(r"<!-- (claims|rows|peaks|given|definition|attempt|test): (.*?) -->", re.DOTALL)
NO_FIGURE = re.compile(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)|^\d+\. ", re.DOTALL)
SAID = "no recording holds"
Number = tuple[Decimal, str]


def numbers(text: str) -> list[Number]:
    """Each number of a text with its unit, or with none; of a range the first has that of the second.

    >>> numbers("size 8: 50 to 54 TFLOP/s, 1.2x")
    [(Decimal('8'), ''), (Decimal('50'), 'TFLOP/s'), (Decimal('54'), 'TFLOP/s'), (Decimal('1.2'), 'x')]
    """
    text = re.sub(rf"([\d.]+)(?= to [\d.]+{UNITS})", r"\1\2", text)
    return [(Decimal(number), unit.strip()) for number, unit in NUMBER.findall(text)]


def blocks(page: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Each paragraph, item and table without its code: the section so far, what it says, and its marks."""
    section, behind_heading = "", []
    for block in re.split(r"\n\s*\n|\n(?=(?:[-*]|\d+\.) )", re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
        marks, said = MARK.findall(block), NO_FIGURE.sub("", block).strip()
        if said.startswith("#"):
            section, behind_heading = "", [] if "\n" in said else marks
        section += f"\n{said}"
        yield section, said, marks or behind_heading


def wrong(page: str) -> list[str]:
    """What is wrong with the figures of a page: the paragraph, the figure, and what its marks say."""
    found = []
    for section, said, marks in blocks(page):
        figures = [each for each in numbers(said) if each[1] or "E" in str(each[0])]
        kinds, where = {kind for kind, _ in marks}, f"{said[:60]!r}:"
        if figures and not marks:
            found.append(f"{where} {shown(figures[0])} has no mark; tests/figures.py tells which there are")
        elif figures and "attempt" in kinds and SAID not in section.lower():
            found.append(f"{where} an attempt, and its section does not tell that {SAID} it")
        elif "test" in kinds:
            tests = [line for kind, lines in marks for line in lines.split("; ") if kind == "test"]
            found += [f"{where} there is no {each}" for each in tests if not (PACKAGE.parent / each).is_file()]
        elif marks and not kinds & {"attempt", "definition"}:
            told = [f"{kind} {line}: {text}" for kind, lines in marks for line, text in stands(kind, lines)]
            there = numbers("\n".join(told))
            missing = [each for each in numbers(said) if not any(alike(each, other) for other in there)]
            found += ["\n    ".join([f"{where} {shown(each)} is not what its marks say:", *told]) for each in missing]
    return found


def shown(number: Number) -> str:
    return f"{number[0]}{number[1] if number[1] in 'x' else f' {number[1]}'}"


def alike(written: Number, found: Number) -> bool:
    """Whether a number is another one, rounded, and of the same unit if it has one."""
    step = Decimal(1).scaleb(int(written[0].as_tuple().exponent))
    return abs(written[0] - found[0]) <= step / 2 and written[1] in ("", found[1])


def stands(kind: str, lines: str) -> list[tuple[str, str]]:
    """What a mark names: each claim, selection of rows or peak, with what it says."""
    if kind == "given":
        return [("", lines)]
    each = re.split(r"[,;] " if kind == "claims" else "; ", " ".join(lines.split()))
    return [(line, {"claims": claimed, "rows": recorded, "peaks": calibrated}[kind](line)) for line in each]


def claimed(name: str) -> str:
    """All that a claim says, and what was measured of it; of one that is gone its last figure."""
    name, _, device = name.partition("@")
    about, _, claim = name.partition(".")
    told, device = judged(about, device or "h200"), device or "h200"
    return told[claim] if claim in told else past(ledger_path().with_name("history.csv"))[name, device][-1][3]


@cache
def judged(about: str, device: str = "h200") -> dict[str, str]:
    """The claims of an experiment, by their names."""
    source = Recorded(device, H200.folders[0].parent)
    table = claims(about, source)
    return {
        claim.name: f"{verdict.measured}; {claim.text} {claim.decides}; "
        + "; ".join(f"{each.before}; {each.after}" for each in claim.entry.changed)
        for claim, verdict in table.rows
    }


def calibrated(name: str) -> str:
    """A figure of the machine's calibration."""
    found = json.loads((H200.folders[0] / "peaks.json").read_text(encoding="utf-8"))["peaks"]["measured"][name]
    return quantity(found["value"], found["unit"], 4)


def recorded(selection: str) -> str:
    """Recorded values, of several the lowest and the highest: `EXPERIMENT FIELD VARIANT[/VARIANT] AXIS=V AXIS>=V ...`.

    A variant may be several, with commas, or a pattern. A ratio is also given as its difference from 1, in percent. Of
    the field `step`, a recurrent layer's, of one variant each value is given.
    """
    about, field, ways, *where = selection.split()
    over, _, under = ways.partition("/")
    found, base = rows(about, field, over, where), dict(rows(about, field, under, where))
    values = [value / base[point] for point, value in found if point in base] if under else [each for _, each in found]
    assert values, f"no recorded row is alike: {selection}"
    unit = {"rate": "FLOP/s", "clock": "Hz", "error": ""}.get(field, "s")
    ends = (min(values), max(values))
    if under:
        return " to ".join(f"{each:.4g}x ({abs(each - 1):.2%})" for each in ends)
    if field == "step":
        return ", ".join(f"{each * 1e6:.4g} µs" for each in values)
    return " to ".join(quantity(each, unit, 4) if unit else f"{each:.3e}" for each in ends)


def rows(about: str, field: str, ways: str, where: list[str]) -> list[tuple[tuple[Any, ...], float]]:
    """The field of each row that is asked for, by its point."""
    if field == "step":
        return slopes(about, ways, where)
    source, asked = of_recording(about)
    names = [axis.name for axis in asked.axes]
    chosen = [each.name for each in asked.variants if any(fnmatch(each.name, way) for way in ways.split(","))]
    every = [(point, row) for way in chosen for point, row in source.rows(asked, way).items()]
    there = [(at, row) for at, row in every if all(fits(dict(zip(names, at, strict=True)), each) for each in where)]
    return [(at, value) for at, row in there if (value := value_of(row, field)) is not None]


@cache
def of_recording(about: str) -> tuple[Recorded, Experiment]:
    """The recording, and the experiment with what it alone has: figures of these stand among what was tried."""
    about, _, device = about.partition("@")
    source, asked = Recorded(device or "h200", H200.folders[0].parent), experiment(about)
    there = {row.variant for row in Recording.read(source.folders[0], asked).rows}
    gone = there - {each.name for each in asked.variants}
    more = (Variant(name, name, source.kind) for name in sorted(gone))
    return source, replace(asked, variants=(*asked.variants, *more))


def slopes(about: str, way: str, where: list[str]) -> list[tuple[tuple[Any, ...], float]]:
    """A time step of a recurrent layer at each place: the slope of the span between 64 and 256 of them."""
    at = [axis.name for axis in experiment(about).axes].index("steps")
    short, long = (
        {point[:at] + point[at + 1 :]: time for point, time in rows(about, "span_s", way, [*where, f"steps={steps}"])}
        for steps in (64, 256)
    )
    return [(place, (long[place] - short[place]) / (256 - 64)) for place in long if place in short]


def value_of(row: Row, field: str) -> float | None:
    """One of the six times, the `rate` of the span, the `clock`, or the `error`; None where it was not measured."""
    if field in ("error", "clock"):
        return row.error if field == "error" else row.measurement.sm_clock_hz
    time = row.measurement.get("span_s" if field == "rate" else field)
    return None if time is None else row.cost.flop / time.median if field == "rate" else time.median


def fits(at: dict[str, Any], condition: str) -> bool:
    """Whether a point is within `size=2048,4096`, `size>=2048` or `size<=2048`."""
    name, how, wanted = re.split(r"(>=|<=|=)", condition)
    if how == "=":
        return str(at[name]) in wanted.split(",")
    return bool(at[name] >= float(wanted) if how == ">=" else at[name] <= float(wanted))
