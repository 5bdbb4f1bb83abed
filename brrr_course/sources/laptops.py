"""Readers' own GPUs beside each other: `data/laptops.csv`, a line for each, which no figure takes as a source.

brrr join recordings/yours --model "MacBook Air, M2"

A reader sends that folder, or as a file what *Copy what to send* copied, which the pages have too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from brrr.core.errors import RecordingError
from brrr.core.files import read_object, typed, write_atomically
from brrr.core.measurement import Estimate
from brrr_course.nouns.places import share
from brrr_course.nouns.table import MOST, Column, cells_of, values_of, written
from brrr_course.nouns.table import read as read_table
from brrr_course.sources.browser import FOUND, keep
from brrr_course.sources.rows import LONGEST_S, SHORTEST_S, in_order

Line = dict[str, Any]
TABLE = share("data") / "laptops.csv"
MISSING = ". What a browser measured has it (an older one: measure again); another recording needs --into FOLDER"
NAMED = ("vendor", "architecture", "model", "browser", "date")
"""What tells a line from another; a browser says little of the model, so whoever joins may."""
SECONDS = SHORTEST_S, LONGEST_S, "seconds"
FIGURES: Mapping[str, tuple[float, float, str]] = {
    "copy_bytes_per_s": (1e7, 1e15, "B/s"), "flop_per_s": (1e6, 1e18, "FLOP/s"), "launch_alone_s": SECONDS,
    "launch_among_s": SECONDS, "fusion_gain": (1e-3, 1e3, ""), "matmul_flop_per_s": (1e6, 1e18, "FLOP/s"),
}  # fmt: skip
"""Each column, with a column for either end of its interval; and what it can be on any machine."""
LARGEST = {
    "copy_bytes_per_s": ("copy", "elements", ("webgpu",)), "flop_per_s": ("repeat", "repeat", ("webgpu-fma",)),
    "fusion_gain": ("fusion", "elements", ("webgpu-chain", "webgpu-chain-fused")),
    "matmul_flop_per_s": ("matmul", "size", ("webgpu",)),
}  # fmt: skip
"""Of the largest size that was measured, in a column of its own: the experiment, its axis, its variants."""
ENDS = ("", "_low", "_high")
COLUMNS = (
    *(Column(name, may_be_empty=True) for name in NAMED), Column("tick_s", float, SHORTEST_S, 1.0, "seconds"),
    *(Column(f"{name}{end}", float, 0 if end else low, MOST if end else high, unit, may_be_empty=True)
      for name, (low, high, unit) in FIGURES.items() for end in ENDS),
    *(Column(f"{name}_at", int, 1, 1e9, may_be_empty=True) for name in LARGEST),
)  # fmt: skip
TEXT = re.compile(r"(?![=+@-])[^|<>\"`*\[\]\\]{0,200}")
"""It stands in a CSV that a spreadsheet may open, and in Markdown."""


def add(source: Path, model: str = "", table: Path = TABLE) -> str:
    """Add a line for what a browser measured, from its folder or the file that was sent, and say so.

    RecordingError, and nothing is written, where it is no such thing, a processor played the GPU, or the table has
    other figures of the same device, browser and day.
    """
    found = read_object(source / FOUND, MISSING) if source.is_dir() else read_object(source)
    try:
        line = _checked(values_of(COLUMNS, cells_of(COLUMNS, _line(found, model))))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as wrong:
        said = f"{wrong} is missing" if isinstance(wrong, KeyError) else wrong
        raise RecordingError(f"{source}: {said}") from wrong
    lines, name = read(table), named(line)
    if name in map(named, lines):
        instead = "Remove that line to have these figures instead, or tell them apart by --model"
        raise RecordingError(f"{source}: {table} has {name} already. {instead}")
    write_atomically(table, written(COLUMNS, [cells_of(COLUMNS, each) for each in (*lines, line)]))
    return f"{name}: added to {table}"


def named(line: Line) -> str:
    """What tells it from another, in words."""
    return ", ".join(filter(None, (line[each] for each in NAMED)))


def _line(found: Mapping[str, Any], model: str) -> Line:
    if not found.get("rows"):
        raise ValueError(f"nothing was measured there; the browser said: {found.get('shown') or found.get('said')}")
    if found["device"]["software"] is not False:
        raise ValueError("a processor played this GPU, so it is of no device that the table could name")
    with TemporaryDirectory() as folder:
        keep(found, Path(folder))  # which checks it
    device = {**found["device"], "model": model or found["device"].get("description", "")}
    line = dict.fromkeys([each.name for each in COLUMNS]) | {n: typed(str, device[n], n).strip() for n in NAMED}
    line["tick_s"] = typed(float, device["tick_s"], "tick_s")
    for name, figure, at in _figures(found):
        ends = zip(ENDS, (figure.median, figure.low, figure.high), strict=True)
        line |= {f"{name}{end}": float(f"{value:.4g}") for end, value in ends} | ({f"{name}_at": at} if at else {})
    return line


def _figures(found: Mapping[str, Any]) -> Iterable[tuple[str, Estimate, int]]:
    """Each figure's name, and the size that it is of, 0 where it has none."""
    launch, rows = found.get("launch", {}), [*found["rows"], *filter(None, [found.get("copy")])]
    for name in launch.keys() & {"alone", "among"}:
        yield f"launch_{name}_s", _estimate({"period_s": launch[name]}), 0
    for name, (experiment, axis, variants) in LARGEST.items():
        of = [[row for row in rows if (row["experiment"], row["variant"]) == (experiment, each)] for each in variants]
        sizes = [{row["point"][axis]: row for row in each} for each in of]
        for at in sorted(set(sizes[0]).intersection(*sizes))[-1:]:
            took, *less = (_estimate(each[at]["times"]) for each in sizes)
            amount = less[0] if less else typed(float, sizes[0][at]["bytes" if experiment == "copy" else "flop"], name)
            yield name, took / amount if less else amount / took, typed(int, at, axis)


def _estimate(times: Mapping[str, object]) -> Estimate:
    return Estimate(*typed(tuple[float, float, float, int], times.get("latency_s") or times["period_s"], "times"))


def _checked(line: Line) -> Line:
    """The line, if a device can have it; ValueError names the column."""
    for name in NAMED:
        if not TEXT.fullmatch(line[name]):
            expected = "at most 200 letters, digits and signs of a product's name"
            raise ValueError(f"{name} is {line[name]!r}; expected {expected}")
    if not line["vendor"] + line["model"]:
        raise ValueError("model is ''; expected what the device is, since its browser does not say: --model NAME")
    for name in FIGURES:
        in_order(name, *(line[f"{name}{end}"] for end in ENDS))
    return line | {"date": str(date.fromisoformat(line["date"]))}


def read(table: Path = TABLE) -> list[Line]:
    """The table's lines; RecordingError says what is wrong."""
    return read_table(table, COLUMNS, _checked)
