"""The verdicts of the course's claims computed again, from data/ alone: nothing of `brrr` is imported.

`python tools/ledger.py [--source h200|cpu|h100] [--against FILE]`; FILE is JSON, from "id|device" to a table with
`status`. A claim that holds its expression is read by `tools/notation.py`; of the others, `CLAIMS` has a row each.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # `python tools/ledger.py` looks beside this file only

from tools.notation import Missing, Reader, T, Unreadable, exact, stacked

DATA = Path(__file__).resolve().parent.parent / "data"
HARDWARE = tomllib.loads((DATA / "hardware.toml").read_text(encoding="utf-8"))
INF = math.inf
QUEUE, CPU = {"busy_s": "kernel_s"}, {"busy_s": "period_s", "span_s": "period_s", "period_s": "none"}
STAND_IN: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "matmul": ("", {"gpu": "queue"}, {}),
    "transfers": ("queue-", {"h2d-": ""}, QUEUE), "nested_sine": ("queue-", {}, QUEUE),
    "overlap": ("queue-", {"source-": ""}, QUEUE), "pseudo_linear": ("queue-", {}, QUEUE),
    "pseudo_linear_flaws": ("queue-", {}, QUEUE), "adds": ("", {"cuda": "cpu"}, {}), "host_cost": ("cpu-", {}, {}),
    "run_ahead": ("", {"eager": "queue"}, QUEUE), "scaling": ("cpu-", {}, {}), "unary": ("queue-", {}, QUEUE),
    "repeat": ("queue-", {"compile": "fused", "cuda": "fused"}, CPU), "cos_cos": ("cpu-", {"compile": "blocks"}, CPU),
    "fusion": ("cpu-", {"compile": "blocks"}, CPU), "remat": ("cpu-", {}, {}), "strassen": ("cpu-", {}, CPU),
    "strassen_errors": ("cpu-", {}, CPU),
}  # fmt: skip
"""For an experiment: what stands in for its variants where there is no GPU (prefix, parts of names), and for fields."""


# ---- what a bound makes of a value ----

Verdict = tuple[str, Any]
Rows = dict[str, dict[tuple[Any, ...], dict[str, str]]]
ORDER = ("fails", "undecided", "holds")


def present(value: Any) -> Any:
    """The value, Missing for nothing."""
    if not value:
        raise Missing("no point")
    return value


def over(found: Iterable[T], how: Callable[[Iterable[Any]], Any]) -> T:
    """The best value by its median, else the least (what all reach), most, mean or sum of each end on its own."""
    listed = present(list(found))
    return best(listed) if how is best else T(*map(how, zip(*(t.ends for t in listed), strict=True)))


def best(values: Iterable[T]) -> T:
    return max(values)


def band(value: T | float, low: float, high: float = INF) -> Verdict:
    """Holds with the whole interval inside, fails with all of it outside."""
    t = exact(value)
    inside, outside = low <= t.low and t.high <= high, t.high < low or t.low > high
    return "holds" if inside else "fails" if outside else "undecided", value


def fact(true: bool, value: Any = None) -> Verdict:
    return "holds" if true else "fails", value


def every(*verdicts: Verdict) -> Verdict:
    """Holds if all do, fails if one does."""
    return min(present(verdicts), key=lambda each: ORDER.index(each[0]))


def each(values: Iterable[T | float], low: float, high: float = INF) -> Verdict:
    return every(*(band(value, low, high) for value in values))


def within(told: float) -> tuple[float, float]:
    return 0.8 * told, 1.2 * told


def as_told(by: float) -> tuple[float, float]:
    """What is gained beyond 1 within 20 % of it, or 0.05."""
    room = max(0.05, (by - 1) / 5)
    return by - room, by + room


def judged(claim: Mapping[str, Any], r: Recording) -> Verdict:
    """What a claim's expressions and bounds make of a recording; a table is judged at each of its points."""
    reader = Reader(claim, r, FUNCTIONS.get(r.experiment, {}))
    found = reader.values()
    given = {key: claim[key] for key in ("within", "about", "about_gain") if key in claim}
    if not given and all(np.asarray(t.mid).dtype == bool for t in found):
        given = {"within": [1, 1]}
    if len(given) != 1:
        raise Unreadable(f"{claim['id']}: expected one of within, about and about_gain, not {[*given] or 'none'}")
    (key, told), *_ = given.items()
    pairs = told if isinstance(told, list) and isinstance(told[0], list) else [told] * len(found)
    if key == "within":
        pairs = [[exact(reader.read(end, key)).mid for end in pair] for pair in pairs]
    else:
        pairs = [(within if key == "about" else as_told)(exact(reader.read(about, key)).mid) for about in pairs]
    if [len(pair) for pair in pairs] != [2] * len(found):
        raise Unreadable(f"{claim['id']}: {key}: expected a lowest and a highest value for each of {len(found)} values")
    return every(*(each(t.points().values() if t.is_table else [t], *pair)
                   for t, pair in zip(found, pairs, strict=True)))  # fmt: skip


# ---- a recording ----


class Recording:
    """One CSV of one device: the newest row of each variant and point; of a hot cache, where there are such rows."""

    def __init__(self, device: str, experiment: str) -> None:
        self.device, self.experiment, self.folder = device, experiment, DATA / "recordings" / device

    @cached_property
    def read(self) -> tuple[list[str], Rows]:
        """The axes, and the rows by variant and point."""
        with (self.folder / f"{self.experiment}.csv").open(encoding="utf-8", newline="") as file:
            read = csv.DictReader(line for line in file if not line.startswith("#"))
            rows = sorted(read, key=lambda row: row["run"])
        names, found = list(read.fieldnames or ()), Rows()
        axes = names[: names.index("variant")]
        every = "cache" in axes or all(row["cache"] != "hot" for row in rows)
        for row in rows:
            if every or row["cache"] == "hot":
                point = (int(row[axis]) if row[axis].lstrip("-").isdigit() else row[axis] for axis in axes)
                found.setdefault(row["variant"], {})[tuple(point)] = row
        return axes, found

    axes = property(lambda self: self.read[0])
    rows = property(lambda self: self.read[1])

    def stand_in(self, variant: str, field: str = "") -> tuple[str, str]:
        """The line that is read for one that this device lacks."""
        if variant not in self.rows and self.device == "cpu" and self.experiment in STAND_IN:
            prefix, parts, fields = STAND_IN[self.experiment]
            for old, new in parts.items():
                variant = variant.replace(old, new)
            return prefix + variant, fields.get(field, field)
        return variant, field

    def chosen(self, variant: str, **where: Any) -> dict[tuple[Any, ...], dict[str, str]]:
        """The rows of a variant where the axes named have the value, or one of the values, or pass the test."""
        rows = sorted(self.rows.get(variant, {}).items())
        if unknown := where.keys() - self.axes:
            raise Unreadable(f"an axis of {self.axes}, not {sorted(unknown)}")
        tests = [where.get(axis, lambda here: True) for axis in self.axes]
        return {point: row for point, row in rows if all(
            ok(here) if callable(ok) else here in ok if isinstance(ok, tuple) else here == ok
            for here, ok in zip(point, tests, strict=True))}  # fmt: skip

    def all(self, line: str, **where: Any) -> dict[tuple[Any, ...], T]:
        """The line "variant.field", or its stand-in, by the points."""
        variant, field = self.stand_in(*line.rpartition(".")[::2])
        there = {
            point: row for point, row in self.chosen(variant, **where).items() if row.get(field) or field == "flags"
        }
        return {point: value(row, field) for point, row in there.items()}

    def has(self, variant: str, where: Mapping[str, Any]) -> bool:
        return bool(self.chosen(self.stand_in(variant)[0], **where))

    def table(self, field: str, variant: str, where: Mapping[str, Any]) -> T:
        """By the axes that `where` leaves open: those of which it names no value, several, or a test."""
        found = self.all(f"{variant}.{field}", **where)
        if not found:
            raise Missing(f"{variant}.{field} at {dict(where)}")
        free = [
            axis for axis in self.axes if axis not in where or callable(where[axis]) or isinstance(where[axis], tuple)
        ]
        if not free:
            return next(iter(found.values()))
        keys = [tuple(here for axis, here in zip(self.axes, point, strict=True) if axis in free) for point in found]
        return stacked({key if len(free) > 1 else key[0]: t for key, t in zip(keys, found.values(), strict=True)})

    def figure(self, *names: str) -> float:
        """A figure of the device's datasheet, or of the one named first: a rate by its type, the link's or a field."""
        *device, name = names
        sheet = HARDWARE[device[0]] if device else self.sheet
        rates = [unit[name] for unit in sheet["dense"].values() if name in unit]
        link = {"host_link_bytes_per_s": sheet["host_link"]["bytes_per_s"]}
        return float(present(max(rates, default=0) or (sheet | link).get(name)))

    def along(self, line: str, **fixed: Any) -> dict[Any, T]:
        """A line along the axis that is not fixed, from small to large; Missing where it has no point."""
        free = [place for place, name in enumerate(self.axes) if name not in fixed]
        found = {tuple(point[place] for place in free): t for point, t in self.all(line, **fixed).items()}
        if not found:
            raise Missing(f"{line} at {fixed}")
        return {key[0] if len(key) == 1 else key: t for key, t in found.items()}

    def top(self, *lines: str, **fixed: Any) -> Any:
        """Lines at the largest value of the free axis at which all were measured."""
        curves = [self.along(line, **fixed) for line in lines]
        last = max(present(set.intersection(*map(set, curves))))
        return [curve[last] for curve in curves]

    def __call__(self, line: str, **point: Any) -> T:
        (found,) = self.top(line, **point)
        return exact(found)

    def ratio(self, fields: str, slow: str, fast: str, **fixed: Any) -> T:
        """One variant's time over another's (two fields: "host_s/kernel_s") at a point, or the largest they share."""
        one, _, other = fields.partition("/")
        slow_s, fast_s = map(exact, self.top(f"{slow}.{one}", f"{fast}.{other or one}", **fixed))
        return slow_s / fast_s

    def rate(self, fields: str, variant: str, **fixed: Any) -> T:
        return self.ratio(fields, variant, variant, **fixed)

    def ratios(self, field: str, slow: str, fast: str, needed: int = 1, **where: Any) -> dict[Any, T]:
        """The fastest of some variants (the first `needed` must be there) over that of others, wherever measured."""
        ones, others = ([self.all(f"{n}.{field}", **where) for n in names.split()] for names in (slow, fast))
        there = set.intersection(*map(set, ones[:needed])) & set.union(*map(set, others))
        a, b = ({p: min(line[p] for line in lines if p in line) for p in there} for lines in (ones, others))
        return present({(p[0] if len(p) == 1 else p): a[p] / b[p] for p in sorted(there)})

    def gain(self, slow: str, fast: Iterable[str], **fixed: Any) -> T:
        """The largest gain of several lines over one, each at the largest size that both share."""
        found = []
        for line in fast:
            if self.all(line, **fixed):
                one, other = self.top(slow, line, **fixed)
                found.append(one / other)
        return max(present(found))

    @property
    def names(self) -> list[str]:
        """The variants on this device, the CPU's own ones without their prefix."""
        here = [name for name in self.rows if name.startswith("cpu-") == (self.device == "cpu")]
        return [name.removeprefix("cpu-") for name in here]

    @property
    def sheet(self) -> dict[str, Any]:
        """The device's datasheet."""
        name = json.loads((self.folder / "machine.json").read_text(encoding="utf-8"))["device"]
        sheets: list[dict[str, Any]] = present([each for each in HARDWARE.values() if name in each["reported_as"]])
        return sheets[0]

    bandwidth = property(lambda self: float(self.sheet["memory_bytes_per_s"]))
    fp32 = property(lambda self: float(self.sheet["dense"]["cuda cores"]["fp32"]))

    def trace(self, name: str) -> tuple[float, float, int]:
        """Of a timeline: the share of busy time with two kinds of work, of the period with a copy; the streams."""
        path = self.folder / "traces" / self.experiment / f"{name}.json"
        if not path.is_file():
            raise Missing(path.name)
        t, clock, edges = json.loads(path.read_text(encoding="utf-8")), 0, []
        for lane, sort, start, length in zip(t["lane"], t["sort"], t["start_ns"], t["length_ns"], strict=True):
            clock += start
            if (kind := t["kinds"][sort]) in ("kernel", "copy in", "copy out", "copy", "memset"):
                edges += [(clock, 1, kind, lane), (clock + length, -1, kind, lane)]
        active, busy, two, copies, last = Counter[str](), 0, 0, 0, 0
        for at, step, kind, _ in sorted(edges):
            running = [name for name, count in active.items() if count]
            busy += (at - last) * bool(running)
            two += (at - last) * (len(running) > 1)
            copies += (at - last) * any(name.startswith("copy ") for name in running)
            active[kind], last = active[kind] + step, at
        return two / busy, copies / (t["period_s"] * t["calls"] * 1e9), len({lane for *_, lane in edges})


def value(row: dict[str, str], field: str) -> T:
    """A field of a row; a single sample is widened by a tenth either way."""
    if field == "flags":
        return exact(row[field] or "")
    middle = float(row[field])
    if f"{field}_low" not in row:
        return exact(middle)
    low, high = float(row[f"{field}_low"]), float(row[f"{field}_high"])
    if int(row[f"{field}_n"]) <= 1:
        low, high = min(low, 0.9 * middle), max(high, 1.1 * middle)
    return T(middle, low, high)


Claim = Callable[[Recording], Verdict]
At = dict[str, Any]
SMALL, F32 = At(elements=2**10), At(dtype="float32")
WIDE, WIDTH = At(batch=32768, direction="forward"), At(width=4096, batch=32768, direction="forward")
At = dict[str, Any]
SMALL, LARGE, TRACE = At(elements=2**10), At(elements=2**28), f"gpu-transfers@elements={2**28}"
F32, FIRST = At(dtype="float32"), At(elements=2**26, dtype="float32", repeat=1)
WIDE = At(batch=32768, direction="forward")
GONE, LEVELS = "ffma|fp8|tf32x3|bf16x6|sgemm-strassen-4|tf32-s|fp16-s", "-(strassen|winograd)-[123]"
TIMED, READY, ANY = f"sgemm{LEVELS}", f"sgemm{LEVELS}-prepared", f"{LEVELS}(-prepared)?"
SPLIT = f"fp16x3({LEVELS})?"


# fmt: off
# ---- statistics ----

def grid(how: Any, bounds: tuple[float, ...], slow: str, fast: str, field: str = "period_s", needed: int = 1,
         fewest: int = 1, **where: Any) -> Claim:
    """Least, largest or mean gain of some variants over others, of all points, if they are not too few."""
    def judged(r: Recording) -> Verdict:
        found = r.ratios(field, slow, fast, needed, **where)
        return band(over(present(len(found) >= fewest and found).values(), how), *bounds)
    return judged

def published(file: str, **where: str) -> list[dict[str, str]]:
    """Rows of a table of other people's figures."""
    with (DATA / "published" / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if where.items() <= row.items()]

def table(name: str) -> dict[int, float]:
    return {int(row["width"]): float(row["speedup"]) for row in published("pseudo_linear", table=name)}

def clever(r: Recording) -> Verdict:
    """Holds with a rate above the peak, fails if the fused stand-in is near the bandwidth."""
    rate = max(r.rate("flop/busy_s", "linear-eager", width=w, **WIDE) for w in r.along("linear-eager.busy_s", **WIDE))
    present(all(row["error"] == "0.0" for row in present(r.rows.get("linear-integers")).values()))
    share = r.rate("bytes/busy_s", "pseudo-triton", **WIDE).mid / r.bandwidth
    return "holds" if rate.low > r.fp32 else "fails" if share >= 0.7 else "undecided", (rate / r.fp32, share)

def steps(r: Recording, line: str, toy: bool = False) -> dict[int, T]:
    """Busy time by steps; of 2^20 numbers on the CPU queue, if it may stand in."""
    return r.along(f"{line}.busy_s", elements=2**20 if toy and r.device == "cpu" else 2**26, **F32)

def knee(r: Recording, times: T) -> T:
    """Steps at which memory and arithmetic take as long: the time of one over what the last doubling adds to a step."""
    curves: dict[Any, dict[int, T]] = {}
    for key, t in times.points().items():
        repeat, size = key if isinstance(key, tuple) else (key, 0)
        curves.setdefault(size, {})[repeat] = t
    found = curves[max(present([size for size, curve in curves.items() if len(curve) >= 4]))]
    first, last = min(found), max(found)
    before = max(size for size in found if size <= last / 2)
    present(found[last].mid >= 1.5 * found[before].mid)
    return found[first] * (last - before) / (found[last] - found[before])

def half(r: Recording, names: str, low: float, high: float) -> Verdict:
    times = ([r(f"{name}.busy_s", dtype=dtype) for dtype in ("bfloat16", "float32")] for name in names.split())
    return each((short / wide for short, wide in times), low, high)

OPERATORS = ("products", "attention", "norms", "pointwise", "other")

def bert(r: Recording, name: str, column: str) -> str:
    """A cell of a class of operators, of a training step as wide as BERT."""
    return present(r.rows.get(name, {}).get(("training", 1024, 16), {}).get(column))

def flop_rate(r: Recording, name: str) -> float:
    return float(bert(r, name, "flop")) / float(bert(r, name, "busy_s"))

def full(r: Recording, how: str) -> Verdict:
    at = {"how": how, "size": 256}
    return every(band(r("peak.busy_s", **at), 0, 0.1), band(r("driver.busy_s", **at), 0.9))

def limited(eager: float, graph: float, half: float, double: float) -> str:
    if eager / graph >= 1.3:
        return "overhead"
    return "memory" if graph / half >= 1.3 else "latency" if double / graph <= 1.15 else "compute"

def busy(r: Recording, blocks: int, loads: int) -> T:
    return r(f"loads-{loads}.busy_s", blocks=blocks)

def balanced(r: Recording) -> dict[str, Any]:
    """The largest array of all parts, and the number of sines at which computing is closest to sending."""
    parts = ("upload", "compute", "pipeline", "serial")
    elements = max(present(set.intersection(*({p[0] for p in r.all(f"{part}.period_s")} for part in parts))))
    found = r.ratios("period_s", "compute", "upload", elements=elements)
    return {"elements": elements, "sines": min(found, key=lambda point: abs(math.log(found[point].mid)))[1]}

def traced(r: Recording, variant: str, figure: str, **at: int) -> float:
    """A figure of the timeline of a variant, or of what stands in for it, at the first of its points."""
    where = ",".join(f"{axis}={here}" for axis, here in at.items())
    found = sorted((r.folder / "traces" / r.experiment).glob(f"{r.stand_in(variant)[0]}@{where}*.json"))
    return r.trace(present(found)[0].stem)[("overlap_share", "transfer_share_of_period", "streams").index(figure)]

# ---- Strassen's algorithm ----

def fastest(r: Recording, pattern: str, size: int, error: float = INF) -> str:
    """The fastest variant that matches, with no larger an error."""
    times = {name: t.mid for name in r.names if re.fullmatch(pattern, name)
             for t in r.all(f"{name}.span_s", size=size).values() if r(f"{name}.error", size=size).mid <= error}
    return min(present(times), key=lambda name: times[name])

def compared(r: Recording, one: tuple[str, int], other: tuple[str, int], low: float, high: float = INF) -> Verdict:
    """The ratio of two times; in cycles too where the SM clocks are over 5 % apart, undecided if those disagree."""
    pair = (one, other)
    a, b = (r(f"{name}.span_s", size=size) for name, size in pair)
    x, y = (max((t.mid for t in r.all(f"{name}.sm_clock_hz", size=size).values()), default=1) for name, size in pair)
    ratios = [a / b] if min(x, y) >= 0.95 * max(x, y) else [a / b, a / b * (x / y)]
    statuses = {band(t, low, high)[0] for t in ratios}
    return statuses.pop() if len(statuses) == 1 else "undecided", " or ".join(map(shown, ratios))

def faster(base: str, pattern: str, size: int, *bounds: float, accurate: bool = False) -> Claim:
    """A product over the fastest of several (no less accurate)."""
    def best(r: Recording) -> str:
        return fastest(r, pattern, size, r(f"{base}.error", size=size).mid if accurate else INF)
    return lambda r: compared(r, (base, size), (best(r), size), *bounds)

def effective(r: Recording, actual: bool) -> T:
    """FLOP/s at 16384 of the fastest prepared float32 way, counted in full or as multiplied."""
    name = fastest(r, READY, 16384)
    share = (7 / 8) ** int(name.split("-")[2]) if actual else 1.0
    return 2 * 16384**3 * share / r(f"{name}.span_s", size=16384) / r.fp32

def growth(r: Recording, form: str, bound: float) -> Verdict:
    """The largest growth of the error a level, over SGEMM."""
    ways = [way for name in r.names if (way := re.fullmatch(rf"sgemm-{form}-([123])(-prepared)?", name))]
    base, found = r.all("sgemm.error"), [(int(w[1]), p, t) for w in ways for p, t in r.all(f"{w[0]}.error").items()]
    return band(max(present([(t.mid / base[p].mid) ** (1 / level) for level, p, t in found])), 0, bound)

def frontier(r: Recording) -> Verdict:
    """Is a way with levels beaten by no other, at the largest size?"""
    times = {(name, *p): t.mid for name in r.names if not re.match(f"auto|{GONE}", name)
             for p, t in r.all(f"{name}.span_s").items()}
    last = max(size for _, size in times)
    places = {name: (t, r(f"{name}.error", size=size).mid) for (name, size), t in times.items() if size == last}
    best = [name for name, (t, e) in places.items()
            if not any(a <= t and b <= e and (a, b) != (t, e) for a, b in places.values())]
    return fact(any(re.search(LEVELS, name) for name in best), best)

def chooses(r: Recording) -> Verdict:
    """matmul over the fastest way that is as accurate as promised."""
    found = []
    for name in r.names:
        promised = {"fp32": "sgemm"}.get(name[5:], name[5:])
        inner = "bf16" if promised == "bf16" else "(sgemm|tf32|fp16x3)"
        for (size,) in r.all(f"{name}.span_s") if name.startswith("auto-") else ():
            error = 1e-5 if promised == "1e-5" else 1.05 * r(f"{promised}.error", size=size).mid
            best = fastest(r, f"(?!{GONE}){inner}({LEVELS})?", size, error)
            found.append(compared(r, (name, size), (best, size), 0, 1.05))
    return every(*found)

def errors(r: Recording, form: str, *inputs: str) -> dict[tuple[Any, ...], float]:
    return {p: t.mid for p, t in present(r.all(f"{form}.error", inputs=inputs)).items()}

def a_level(r: Recording, form: str, bound: float) -> Verdict:
    found = errors(r, form, "normal", "uniform")
    return band(max((e / found[0, p[1], p[2]]) ** (1 / p[0]) for p, e in found.items() if p[0]), 0, bound)

def badly(r: Recording, scaled: bool, bound: float) -> Verdict:
    """At most levels and the largest size: the error over that without levels, or over that with scaling."""
    found = []
    for inputs in ("badly scaled rows", "badly scaled inside"):
        plain, other = (errors(r, form, inputs) for form in ("strassen", "strassen-scaled" if scaled else "strassen"))
        key = max(point for point in plain if point in other)
        found.append(plain[key] / other[key if scaled else (0, *key[1:])])
    return band(min(found), bound)

def launches(r: Recording) -> dict[int, tuple[tuple[int, ...], int]]:
    """By the columns, of the first kernel: the tile in its name, if any, and how many blocks it had."""
    found = {}
    for (n, size, dtype), row in r.rows.get("nn", {}).items():
        if (size, dtype) == (2048, "float32") and row["launched"]:
            name, grid, *_ = row["launched"].partition(";")[0].split()
            sides = re.search(r"(\d+)x(\d+)", name)
            found[n] = tuple(map(int, sides.groups())) if sides else (), math.prod(map(int, grid.split("x")))
    return dict(present(found))

def step(r: Recording, name: str, cell: str, dtype: str, batch: int, hidden: int = 1024, last: bool = False) -> T:
    """A recurrent layer's step: the longer sequence less the shorter one, over the steps between."""
    short, long = (256, 1024) if last else (64, 256)
    where = {"batch": batch, "hidden": hidden, "cell": cell, "dtype": dtype}
    for field in ("span_s", "period_s"):
        t = r.all(f"{name}.{field}", steps=(short, long), **where)
        if len(t) == 2:
            less, more = (t[point] for point in sorted(t))
            return (more - less) / (long - short)
    raise Missing(f"a step of {name} at {where}")

def rivals(r: Recording, cell: str, dtype: str, batch: int, hidden: int = 1024) -> T:
    """The best of cuDNN's ways."""
    at = cell, dtype, batch, hidden
    found = [step(r, "cudnn", *at)]
    for name in ("cudnn-pad8", "cudnn-pad16"):
        with suppress(Missing):
            found.append(step(r, name, *at))
    return min(found)

def rnn(cells: str, dtypes: str, batches: Iterable[int], low: float, high: float = INF, rival: str = "") -> Claim:
    """Ours over a rival, the best of cuDNN's ways where none is named, at each cell, type and batch."""
    places = [(cell, dtype, batch) for cell in cells.split() for dtype in dtypes.split() for batch in batches]
    return lambda r: (lambda found: (each(found, low, high)[0], min(found)))(
        [(step(r, rival, *at) if rival else rivals(r, *at)) / step(r, "persistent", *at) for at in places])

def anywhere(r: Recording, names: Iterable[str]) -> Verdict:
    """The best of some ways over ours, wherever both have a step."""
    found = []
    for batch, hidden, steps, cell, dtype in r.rows.get("persistent", {}):
        theirs = []
        for name in names if steps == 256 else ():
            with suppress(Missing):
                theirs.append(step(r, name, cell, dtype, batch, hidden))
        if theirs:
            found.append(min(theirs) / step(r, "persistent", cell, dtype, batch, hidden))
    return each(present(found), 1)[0], min(found)

def same_step(pairs: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Claim:
    """Our step at one place over that at another: within a tenth."""
    return lambda r: (lambda found: (each(found, 0.9, 1.1)[0], max(found)))(
        [step(r, "persistent", *one) / step(r, "persistent", *other) for one, other in pairs])

def recurrent_rate(r: Recording, cell: str, batch: int, hidden: int = 1024) -> T:
    """FLOP/s of the recurrent product alone."""
    return 2.0 * hidden**2 * (4 if cell == "lstm" else 1) * batch / step(
        r, "persistent", cell, "float32", batch, hidden)

def training(r: Recording, field: str, way: str, cell: str, batch: int) -> T:
    """Of a training step over 256 time steps."""
    return r(f"train-{way}.{field}", batch=batch, hidden=1024, steps=256, cell=cell, **F32)

def trained(r: Recording, field: str, low: float, high: float = INF) -> Verdict:
    """cuDNN's training step over ours, at each cell and batch."""
    return each([training(r, field, "cudnn", cell, batch) / training(r, field, "persistent", cell, batch)
                 for cell in BOTH.split() for batch in RNN_BATCHES], low, high)

def less_memory(r: Recording) -> Verdict:
    """Ours with 4 samples, cuDNN with 64: the time a sample, and the memory."""
    (ours, less), (theirs, more) = ((training(r, "period_s", way, TANH, batch) / batch,
                                     training(r, "peak_bytes", way, TANH, batch))
                                    for way, batch in (("persistent", 4), ("cudnn", 64)))
    return every(band(theirs / ours, 1), fact(less.mid < more.mid))

def memories(r: Recording) -> Verdict:
    """Registers against shared memory and L2."""
    s = r.sheet
    found = [s["sm_count"] * s["sm_register_bytes"], s["sm_count"] * s["sm_shared_bytes"], s["l2_bytes"]]
    return fact(found[0] == max(found), str(found))

def network(cell: str = "lstm", dtype: str = "float32", batch: int = 64, hidden: int = 512, layers: int = 4) -> At:
    """A point of the ladder with 64 steps; the paper's network, where nothing else is said."""
    return At(batch=batch, hidden=hidden, steps=64, layers=layers, cell=cell, dtype=dtype)

def quickest(r: Recording, names: str, at: At) -> T:
    """The least time in a loop of some ways, of those that were measured at a point."""
    return min(present([t for name in names.split() for t in r.all(f"{name}.period_s", **at).values()]))

def rung(slow: str, fast: str, low: float = 1) -> Claim:
    """The fastest of some ways over that of others, on the paper's network."""
    return lambda r: band(quickest(r, slow, network()) / quickest(r, fast, network()), low)

def in_graph(loop: str) -> str:
    """The loop captured in a CUDA Graph, by the device's time; that of the wavefront is the rung of that name."""
    return "graph.span_s" if loop == "wavefront" else f"{loop}-graph.span_s"

def captured(slow: str, fast: str, low: float = 1) -> Claim:
    """The fastest of some loops over another, each in a CUDA Graph, on the paper's network."""
    return lambda r: band(
        over([r(in_graph(name), **network()) for name in slow.split()], min) / r(in_graph(fast), **network()), low)

def rungs(slow: str, fast: str, places: Iterable[At]) -> Claim:
    """One way over another, at each of several points."""
    listed = list(places)
    return lambda r: (lambda found: (each(found, 1)[0], min(found)))(
        [r(f"{slow}.period_s", **at) / r(f"{fast}.period_s", **at) for at in listed])

def detrimental(r: Recording) -> Verdict:
    """Where the inputs of all steps in one product are slower than of one: of places, the batch of 32 left out."""
    gains = [r(in_graph("transposed"), **at) / r(in_graph("inputs"), **at)
             for cell in CELLS for n in (1, 2, 4, 8, 16, 64, 128) for at in [network(cell, batch=n, layers=1)]]
    slower = sum(t.high < 1 for t in gains)
    return fact(3 * slower >= len(gains), f"{slower} of {len(gains)}")

def best_inputs(r: Recording) -> Verdict:
    """Which of one, two and all steps' inputs in a product is ahead of both others by more than 2 %, and how often."""
    lines, won = {name: r.all(in_graph(name)) for name in LAYERWISE.split()}, Counter[str]()
    there = present(set.intersection(*map(set, lines.values())))
    for p in there:
        (best_s, name), (next_s, _), _ = sorted((line[p].mid, name) for name, line in lines.items())
        won[name] += next_s > 1.02 * best_s
    return fact(sum(map(bool, won.values())) >= 2, f"{dict(won)} of {len(there)}")

def grids(r: Recording, name: str) -> dict[tuple[Any, ...], int]:
    """Blocks of the first kernel of a product, by the point."""
    first = {p: row["launched"].partition(";")[0] for p, row in r.rows.get(name, {}).items() if row["launched"]}
    return present({p: math.prod(map(int, kernel.split()[-3].split("x"))) for p, kernel in first.items()})

def of_the_graph(r: Recording, inputs: bool) -> Verdict:
    """The products alone, 64 of the state and one of all inputs or none, over the network in a CUDA Graph."""
    found = []
    for at in (*(network(cell, layers=1) for cell in CELLS), *(network(hidden=n, layers=1) for n in (1024, 2048))):
        whole = r("graph.span_s", **at)
        state, every_step = 64 * r("state-product.span_s", **at) / whole, r("inputs-product.span_s", **at) / whole
        found.append(over([state, every_step], sum) if inputs else state)
    return each(found, 0.5)[0], min(found)

def activations() -> float:
    """Numbers that training keeps over the weights', each layer with two biases: the least."""
    return min(1024 * 64 * kept * n / (2 * gates * n * (n + 1))
               for kept, gates in ((1, 1), (4, 3), (6, 4)) for n in (256, 512, 1024, 2048))

CELLS, LAYERWISE = ("rnn_tanh", "gru", "lstm"), "transposed inputs2 inputs"
LOOPS = f"naive combined streamed fused {LAYERWISE} wavefront"
TANH, BOTH, HALVES, RNN_BATCHES = "rnn_tanh", "rnn_tanh lstm", "float32 float16", (1, 4, 16, 64)
RNN_TABLE = {
    ("tanh-fp32", TANH, "float32"): ((5, 5, 3.5, 2), (7, 8, 6, 3)),
    ("lstm-fp32", "lstm", "float32"): ((4, 4, 3, 1.8), (6, 6, 4.5, 2.5)),
    ("tanh-fp16", TANH, "float16"): ((1.8, 1.5, 1.8, 1.2), (2.5,) * 4),
    ("lstm-fp16", "lstm", "float16"): ((1.2, 1.1, 1, 1.2), (1.8,) * 4),
}

# ---- the claims ----

CLAIMS: dict[str, Claim] = {
    "pseudo_linear.clever-multiplication": clever,
    "rnn_ladder.combining-helps": captured("naive", "combined"),
    "rnn_ladder.streams-help": captured("combined", "streamed"),
    "rnn_ladder.fusing-helps": captured("streamed", "fused"),
    "rnn_ladder.transposing-helps": captured("fused", "transposed", 1.1),
    "rnn_ladder.two-steps-best": lambda r: (lambda one, two, most: band(over([one / two, most / two], min), 1))(
        *(r(in_graph(name), **network()) for name in LAYERWISE.split())),
    "rnn_ladder.all-inputs-detrimental": detrimental,
    "rnn_ladder.best-depends": best_inputs,
    "rnn_ladder.combined-parallel": lambda r: (lambda one, most: (lambda found: fact(found > 1, found))(
        min(most[p] / one[p] for p in present(one.keys() & most.keys()))))(
        grids(r, "state-product"), grids(r, "inputs-product")),
    "rnn_ladder.wavefront-helps": captured(LAYERWISE, "wavefront"),
    "rnn_ladder.exposed-parallelism": captured("naive", "wavefront", 2),
    "rnn_ladder.lacks-parallelism": lambda r: (lambda found: fact(
        2 * sum(n < r.sheet["sm_count"] for n in found.values()) > len(found), sorted(found.values())))(
        grids(r, "gate-product")),
    "rnn_ladder.recurrent-bottleneck": lambda r: of_the_graph(r, False),
    "rnn_ladder.products-dominate": lambda r: of_the_graph(r, True),
    "rnn_ladder.loads-once": lambda r: each((
        r("graph.span_s", **network(batch=n, layers=1)) / r("graph.span_s", **network(batch=1, layers=1))
        for n in (2, 4, 8, 16, 32, 64)), 0.9, 1.1),
    "rnn_ladder.ahead-of-cudnn": rung("cudnn", f"{LOOPS} graph compiled persistent"),
    "rnn_ladder.graph-gains": rung("wavefront", "graph", 2),
    "rnn_ladder.host-bound": lambda r: each((
        1 - r(in_graph(name), **network()) / r(f"{name}.period_s", **network())
        for name in ("naive", "combined", "transposed", "wavefront")), 0.5),
    "rnn_ladder.cudnn-cliff": lambda r: each((
        r("cudnn.period_s", **network(cell, "float16", 4, 1024, 1))
        / r("cudnn.period_s", **network(cell, "float16", 8, 1024, 1)) for cell in BOTH.split()), 1),
    "rnn_ladder.padding-gains": rungs("cudnn", "cudnn-padded", (
        network(cell, "float16", n, 1024, 1) for cell in BOTH.split() for n in range(1, 18) if n % 8)),
    "rnn_ladder.persistent-ahead": rungs("graph", "persistent", (
        network(cell, batch=n, layers=layers) for n in (1, 2, 4)
        for cell, layers in ((TANH, 1), ("lstm", 1), ("lstm", 4)))),
    **{f"rnn.{name}-batch-{batch}{far}": rnn(cell, dtype, (batch,), low)
       for (name, cell, dtype), table in RNN_TABLE.items() for far, row in zip(("", "-far"), table, strict=True)
       for batch, low in zip(RNN_BATCHES, row, strict=True)},
    "rnn.low-batch": rnn(BOTH, "float32", (1, 2, 3, 4, 8), 2),
    "rnn.doubles": rnn(TANH, "float32", (1, 4, 8, 16), *within(2), rival="graph"),
    "rnn.registers-largest": memories,
    "rnn.off-chip-slower": lambda r: band(r.fp32 / 2 * 4 / r.bandwidth, 2),
    "rnn.high-throughput": lambda r: band(
        max(recurrent_rate(r, cell, n) for cell in BOTH.split() for n in (16, 32, 64, 128)) / r.fp32, 0.5),
    "rnn.saves-memory": less_memory,
    "rnn.sustains": lambda r: band(recurrent_rate(r, TANH, 4, 1152), 2.8e12),
    "rnn.of-the-peak": lambda r: band(recurrent_rate(r, TANH, 4, 1152) / r.fp32, *within(0.45)),
    "rnn.thirty-times": rnn(TANH, "float32", (4,), *within(30), rival="graph"),
    "rnn.graph-three-times": rnn(BOTH, HALVES, (1, 2, 3, 4), 3, rival="graph"),
    "rnn.never-slower": lambda r: anywhere(r, ("cudnn", "cudnn-pad8", "cudnn-pad16")),
    "rnn.beats-tf32": rnn(BOTH, "float32", (1, 2, 3, 4), 1, rival="cudnn-tf32"),
    "rnn.gain-shrinks": lambda r: each((
        rivals(r, *few) / step(r, "persistent", *few) / (rivals(r, *many) / step(r, "persistent", *many))
        for few, many in (((cell, "float32", 4), (cell, "float32", 128)) for cell in BOTH.split())), 2),
    "rnn.exchange-dominates": lambda r: each((
        step(r, "persistent", cell, "float32", 1, 32) / step(r, "persistent", cell, "float32", 1)
        for cell in BOTH.split()), 0.5),
    "rnn.long-sequences": same_step([((cell, "float32", n, 1024, True), (cell, "float32", n))
                                 for cell in BOTH.split() for n in (1, 4, 64)]),
    "rnn.cudnn-graph-little": lambda r: each((
        step(r, "cudnn", cell, "float32", n) / step(r, "cudnn-graph", cell, "float32", n)
        for cell in BOTH.split() for n in RNN_BATCHES), 1 / 1.2, 1.2),
    "rnn.relu-as-tanh": same_step([(("rnn_relu", "float32", n), (TANH, "float32", n)) for n in (1, 64)]),
    "rnn.bfloat16-as-float16": same_step([((cell, "bfloat16", n), (cell, "float16", n))
                                      for cell in BOTH.split() for n in (1, 16, 64)]),
    "rnn.training-faster": lambda r: trained(r, "period_s", 1),
    "rnn.training-memory": lambda r: trained(r, "peak_bytes", 1 / 1.1),
    "rnn.as-accurate": lambda r: (lambda ours, theirs: each(
        (ours[p] / theirs[p] for p in present(ours.keys() & theirs.keys())), 0, 2))(
        r.all("persistent.error"), r.all("cudnn.error")),
    "rnn.fits": lambda r: fact(all(
        max(p[1] for p in present(r.all("persistent.span_s", cell=cell, dtype=dtype))) >= size
        for cell, dtype, size in ((TANH, "float32", 1792), (TANH, "float16", 2560), ("lstm", "float32", 1280)))),
    **{f"strassen.fp32-prepared-{n}": faster("sgemm", READY, n, by)
       for n, by in ((2048, 1.05), (4096, 1.24), (8192, 1.36), (16384, 1.4))},
    **{f"strassen.fp32-timed-{n}": faster("sgemm", TIMED, n, by)
       for n, by in ((4096, 1.18), (8192, 1.3), (16384, 1.35))},
    "strassen.effective-above-peak": lambda r: band(effective(r, False), 1),
    "strassen.actual-below-peak": lambda r: band(effective(r, True), 0, 1),
    "strassen.split-8192": faster("sgemm", SPLIT, 8192, 3.6, accurate=True),
    "strassen.split-16384": faster("sgemm", SPLIT, 16384, 3.6, accurate=True),
    "strassen.split-stretch": faster("sgemm", SPLIT, 16384, 4, accurate=True),
    "strassen.bf16-16384": faster("bf16", f"bf16{ANY}", 16384, 1.2),
    "strassen.bf16-8192": faster("bf16", f"bf16{ANY}", 8192, 1.06),
    "strassen.error-strassen": lambda r: growth(r, "strassen", 1.6),
    "strassen.odd-sizes": lambda r: compared(
        r, (fastest(r, READY, 4097), 4097), (fastest(r, READY, 4096), 4096), 0, 1.1),
    "strassen.levels-on-frontier": frontier,
    "strassen.matmul-chooses": chooses,
    "strassen.sixteen-times": faster("sgemm", "bf16", 8192, *within(16)),
    "strassen_errors.growth-strassen": lambda r: a_level(r, "strassen", 1.6),
    "block.norms-slower": lambda r: band(flop_rate(r, "products") / flop_rate(r, "norms"), *within(250)),
    "block.pointwise-slower": lambda r: band(flop_rate(r, "products") / flop_rate(r, "pointwise"), *within(700)),
    "block.rest-is-little-work": lambda r: band(
        sum(float(bert(r, name, "flop")) for name in ("norms", "pointwise"))
        / sum(float(bert(r, name, "flop")) for name in OPERATORS), *within(0.002)),
    "block.rest-is-much-time": lambda r: band(
        sum(float(bert(r, name, "busy_s")) for name in ("norms", "pointwise"))
        / sum(float(bert(r, name, "busy_s")) for name in OPERATORS), *within(0.39)),
    "block.overhead-to-compute": lambda r: band(min(
        1 - r("to-latency.busy_s", step="forward", width=256, batch=1) / r("step.period_s", step="forward", width=256,
                                                                           batch=1),
        r("to-compute.busy_s", step="forward", width=4096, batch=64) / r("step.period_s", step="forward", width=4096,
                                                                         batch=64)), 0.5, 1),
    "block.latency-in-a-graph": lambda r: (lambda at: band(
        (r("to-latency.busy_s", **at) - r("to-memory.busy_s", **at)) / r("step.period_s", **at), 0.5, 1))(
        {"step": "forward, as a graph", "width": 256, "batch": 1}),
    "utilisation.full-at-tiny-work": lambda r: full(r, "one by one"),
    "utilisation.full-in-a-graph": lambda r: full(r, "as a CUDA Graph"),
    "mystery.three-regimes": lambda r: (lambda found: fact(found == ["latency", "memory", "overhead"], found))(
        [limited(*(float(r(f"{way}.period_s", model=name).mid) for way in ("eager", "graph", "half", "double")))
         for name in "ABC"]),
    "strassen_errors.bad-scaling-hurts": lambda r: badly(r, False, 1000),
    "strassen_errors.default-safe": lambda r: (lambda ours, theirs: (lambda worst: fact(worst <= 4, worst))(max(
        ours[p] / theirs[p] if theirs[p] else float(ours[p] == 0) or math.inf for p in present(ours.keys() & theirs))))(
        *({p: float(row["error"]) for p, row in r.rows.get(name, {}).items()} for name in ("default", "library"))),
}
FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "nested_sine": {"traced": traced},
    "overlap": {"traced": traced, "balanced": lambda r, axis: balanced(r)[axis]},
    "gemm": {
        "tiles": lambda r, *ends: {n: bool(t) and ends[0] <= min(t) <= max(t) <= ends[1]
                                   for n, (t, _) in launches(r).items()},
        "grids": lambda r: {n: blocks for n, (_, blocks) in launches(r).items()},
    },
    "pseudo_linear": {"thread": lambda r, name: table(name)},
    "repeat": {"knee": knee},
    "rnn": {"step": step, "rivals": rivals},
    "rnn_ladder": {"grids": grids},
}
"""What expressions call beside the notation's own functions, by the experiment: each takes the recording first, tables
as T, and returns a number, a name, a T, or a dict of these by the point."""
ARITHMETIC: dict[str, Callable[[], Verdict]] = {"rnn_ladder.activations": lambda: band(activations(), 2)}
"""Claims that need no recording."""
# fmt: on


def shown(found: Any) -> str:
    """A value as text."""
    if isinstance(found, T) and found.low == found.high:
        return f"{found.mid:.4g}"
    if isinstance(found, T):
        return f"{found.mid:.4g} ({found.low:.4g} to {found.high:.4g})"
    if isinstance(found, tuple | list):
        return f"({', '.join(map(shown, found))})"
    return f"{found:.4g}" if isinstance(found, float) else str(found)


def main() -> int:
    """Print a line a claim; with `--against`, what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--source", default="h200", choices=("h200", "cpu", "h100"))
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    rows = tomllib.loads((DATA / "claims.toml").read_text(encoding="utf-8"))["claim"]
    found: dict[str, Verdict] = {}
    recordings: dict[str, Recording] = {}
    for row in rows:
        name, why = row["id"], row.get("not_here")
        experiment = name.partition(".")[0]
        if "retired" in row:
            found[name] = "retired", row["retired"]
        elif "value" not in row and name in ARITHMETIC:
            found[name] = ARITHMETIC[name]()
        elif "value" in row or name in CLAIMS:
            if experiment not in recordings:
                recordings[experiment] = Recording(asked.source, experiment)
            recording = recordings[experiment]
            try:
                found[name] = judged(row, recording) if "value" in row else recording.rows and CLAIMS[name](recording)
            except (Missing, FileNotFoundError) as missing:  # a recording may lack the whole experiment
                found[name] = "not measured", missing
        elif why:
            found[name] = "not measured", why
        status, text = found.get(name, ("not computed", ""))
        print(f"{name:45} {status:13} {shown(text)}")
    counts = dict(Counter(status for status, _ in found.values()))
    print(f"{len(found)} of {len(rows)} computed on {asked.source}: {counts}")
    if not asked.against:
        return 0
    theirs = json.loads(asked.against.read_text(encoding="utf-8"))
    there = {name: theirs.get(f"{name}|{asked.source}", {"status": "nothing", "measured": ""}) for name in found}
    differ = [name for name in found if there[name]["status"] != found[name][0]]
    for name in differ:
        status, text = found[name]
        print(f"DIFFERS {name}: {status} {shown(text)}; there {there[name]['status']}: {there[name]['measured']}")
    print(f"{len(found) - len(differ)} of {len(found)} agree")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
