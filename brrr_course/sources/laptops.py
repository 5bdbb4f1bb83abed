"""Readers' own GPUs beside each other: `data/laptops.csv`, a line for each, which no figure takes as a source.

brrr join recordings/yours --model "MacBook Air, M2"

A reader sends that folder, or as a file what *Copy what to send* copied, which the pages have too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import read_object, typed, write_atomically
from brrr.core.measurement import Estimate
from brrr_course.nouns.places import share
from brrr_course.sources.browser import FOUND, keep
from brrr_course.sources.recording import cells_of, parted
from brrr_course.sources.rows import within

Line = dict[str, str]
TABLE = share("data") / "laptops.csv"
MISSING = ". What a browser measured has it (an older one: measure again); another recording needs --into FOLDER"
NAMED = ("vendor", "architecture", "model", "browser", "date")
"""What tells a line from another; a browser says little of the model, so whoever joins may."""
FIGURES = {
    "copy_bytes_per_s": "bytes_per_s", "flop_per_s": "flop_per_s", "launch_alone_s": "estimated_s",
    "launch_among_s": "estimated_s", "fusion_gain": "ratio", "matmul_flop_per_s": "flop_per_s",
}  # fmt: skip
"""Each column, with a column for either end of its interval; and its limits, by their name in LIMITS."""
LARGEST = {
    "copy_bytes_per_s": ("copy", "elements", ("webgpu",)), "flop_per_s": ("repeat", "repeat", ("webgpu-fma",)),
    "fusion_gain": ("fusion", "elements", ("webgpu-chain", "webgpu-chain-fused")),
    "matmul_flop_per_s": ("matmul", "size", ("webgpu",)),
}  # fmt: skip
"""Of the largest size that was measured, in a column of its own: the experiment, its axis, its variants."""
ENDS = ("", "_low", "_high")
COLUMNS = (*NAMED, "tick_s", *(f"{name}{end}" for name in FIGURES for end in ENDS), *(f"{name}_at" for name in LARGEST))
TEXT = re.compile(r"(?![=+@-])[^|<>\"`*\[\]\\]{0,200}")
"""It stands in a CSV that a spreadsheet may open, and in Markdown."""


def add(source: Path, model: str = "", table: Path = TABLE) -> str:
    """Add a line for what a browser measured, from its folder or the file that was sent, and say so.

    RecordingError, and nothing is written, where it is no such thing, a processor played the GPU, or the table has
    other figures of the same device, browser and day.
    """
    found = read_object(source / FOUND, MISSING) if source.is_dir() else read_object(source)
    try:
        line = _checked(_line(found, model))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as wrong:
        said = f"{wrong} is missing" if isinstance(wrong, KeyError) else wrong
        raise RecordingError(f"{source}: {said}") from wrong
    lines, name = read(table), named(line)
    if name in map(named, lines):
        instead = "Remove that line to have these figures instead, or tell them apart by --model"
        raise RecordingError(f"{source}: {table} has {name} already. {instead}")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *(each.values() for each in [*lines, line])])
    write_atomically(table, out.getvalue())
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
    line = dict.fromkeys(COLUMNS, "") | {name: typed(str, device[name], name).strip() for name in NAMED}
    line["tick_s"] = f"{typed(float, device['tick_s'], 'tick_s'):.4g}"
    for name, figure, at in _figures(found):
        ends = zip(ENDS, (figure.median, figure.low, figure.high), strict=True)
        line |= {f"{name}{end}": f"{value:.4g}" for end, value in ends} | ({f"{name}_at": str(at)} if at else {})
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
    """The line, if a device can have it; ArgumentError names the column."""
    for name in NAMED:
        if not (TEXT.fullmatch(line[name]) and line[name].isprintable()):
            raise ArgumentError("join", name, line[name], "at most 200 letters, digits and signs of a product's name")
    if not line["vendor"] + line["model"]:
        raise ArgumentError("join", "model", "", "what the device is, since its browser does not say: --model NAME")
    within("join", "tick_s", float(line["tick_s"]))
    for name, limits in FIGURES.items():
        if line[name]:
            median, low, high = (float(line[f"{name}{end}"]) for end in ENDS)
            within("join", name, median, limits)
            if not 0 <= low <= median <= high:
                raise ArgumentError("join", name, median, f"a median between its ends, {low} and {high}")
            within("join", f"{name}_at", int(line.get(f"{name}_at", 1)), "n")
    return line | {"date": str(date.fromisoformat(line["date"]))}


def read(table: Path = TABLE) -> list[Line]:
    """The table's lines; RecordingError says what is wrong."""
    (_, names), *rows = cells_of(table, parted(table)[0])
    if tuple(names) != COLUMNS:
        raise RecordingError(f"{table}: its columns are {', '.join(names)}; expected {', '.join(COLUMNS)}")
    try:
        return [_checked(dict(zip(COLUMNS, cells, strict=True))) for _, cells in rows]
    except ValueError as wrong:
        raise RecordingError(f"{table}: {wrong}") from wrong
