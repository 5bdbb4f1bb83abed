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


def band(value: T | float, low: float, high: float = INF) -> Verdict:
    """Holds with the whole interval inside, fails with all of it outside."""
    t = exact(value)
    inside, outside = low <= t.low and t.high <= high, t.high < low or t.low > high
    return "holds" if inside else "fails" if outside else "undecided", value


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
        self.looked: set[tuple[Any, ...]] = set()  # the run, the variant and the point of each row that was asked for

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
        found = {point: row for point, row in rows if all(
            ok(here) if callable(ok) else here in ok if isinstance(ok, tuple) else here == ok
            for here, ok in zip(point, tests, strict=True))}  # fmt: skip
        self.looked |= {(row["run"], variant, *point) for point, row in found.items()}
        return found

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

    @property
    def names(self) -> list[str]:
        """The variants on this device, the CPU's own ones without their prefix."""
        here = [name for name in self.rows if name.startswith("cpu-") == (self.device == "cpu")]
        return [name.removeprefix("cpu-") for name in here]

    @property
    def sheet(self) -> dict[str, Any]:
        """The device's datasheet."""
        present(self.rows)  # nothing is said of a device on which the experiment did not run
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
WIDE = {"batch": 32768, "direction": "forward"}
GONE, LEVELS = "ffma|fp8|tf32x3|bf16x6|sgemm-strassen-4|tf32-s|fp16-s", "-(strassen|winograd)-[123]"


# fmt: off
# ---- statistics ----

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

def compared(r: Recording, one: str, other: str, size: int, other_size: int = 0) -> Any:
    """The ratio of two times, 0 without the other; in cycles too where the SM clocks are over 5 % apart."""
    if not other:
        return 0.0
    pair = (one, size), (other, other_size or size)
    a, b = (r(f"{name}.span_s", size=n) for name, n in pair)
    x, y = (max((t.mid for t in r.all(f"{name}.sm_clock_hz", size=n).values()), default=0) for name, n in pair)
    ratio = a / b
    if not x or not y or min(x, y) >= 0.95 * max(x, y):
        return ratio
    return T(ratio.mid, min(ratio.low, ratio.low * (x / y)), max(ratio.high, ratio.high * (x / y)))

def quickest(r: Recording, inner: str, size: int, prepared: bool | None = None, fewest: int = 1,
             error: Any = INF) -> str:
    """The fastest way over an inner product, with levels or without too; nothing where none is as accurate."""
    ready = {True: "-prepared", False: "", None: "(-prepared)?"}[prepared]
    pattern = f"{inner}{LEVELS}{ready}" if fewest else f"{inner}({LEVELS})?{ready}"
    there = fastest(r, pattern, size)
    with suppress(Missing):
        return fastest(r, pattern, size, exact(error).mid)
    return "" if there else there

def growth(r: Recording, form: str) -> dict[Any, float]:
    """The growth of the error a level, over SGEMM."""
    ways = [way for name in r.names if (way := re.fullmatch(rf"sgemm-{form}-([123])(-prepared)?", name))]
    base, found = r.all("sgemm.error"), [(w, p, t) for w in ways for p, t in r.all(f"{w[0]}.error").items()]
    return dict(present({(w[0], *p): (t.mid / base[p].mid) ** (1 / int(w[1])) for w, p, t in found if p in base}))

def unbeaten(r: Recording) -> dict[str, int]:
    """The levels of the ways that no other beats, at the largest size."""
    times = {(name, *p): t.mid for name in r.names if not re.match(f"auto|{GONE}|.*-prepared", name)
             for p, t in r.all(f"{name}.span_s").items()}
    last = max(size for _, size in present(times))
    places = {name: (t, r(f"{name}.error", size=size).mid) for (name, size), t in times.items() if size == last}
    best = [name for name, (t, e) in places.items()
            if not any(a <= t and b <= e and (a, b) != (t, e) for a, b in places.values())]
    return {name: int(name[-1]) if re.search(LEVELS, name) else 0 for name in best}

def choices(r: Recording) -> dict[Any, Any]:
    """matmul over the fastest way that is as accurate as promised."""
    found = {}
    for name in r.names:
        promised = {"fp32": "sgemm"}.get(name[5:], name[5:])
        inner = "bf16" if promised == "bf16" else "(sgemm|tf32|fp16x3)"
        for (size,) in r.all(f"{name}.span_s") if name.startswith("auto-") else ():
            error = 1e-5 if promised == "1e-5" else 1.05 * r(f"{promised}.error", size=size).mid
            found[name, size] = compared(r, name, fastest(r, f"(?!{GONE}){inner}({LEVELS})?", size, error), size)
    return dict(present(found))

def launches(r: Recording) -> dict[int, tuple[tuple[int, ...], int]]:
    """By the columns, of the first kernel: the tile in its name, if any, and how many blocks it had."""
    found = {}
    for (n, size, dtype), row in r.rows.get("nn", {}).items():
        if (size, dtype) == (2048, "float32") and row["launched"]:
            name, grid, *_ = row["launched"].partition(";")[0].split()
            sides = re.search(r"(\d+)x(\d+)", name)
            found[n] = tuple(map(int, sides.groups())) if sides else (), math.prod(map(int, grid.split("x")))
    return dict(present(found))

def time_steps(r: Recording, name: str, short: int = 64, long: int = 256, **where: Any) -> dict[Any, T]:
    """A recurrent layer's step by the open axes: the longer sequence less the shorter one, over the steps between."""
    free = [place for place, axis in enumerate(r.axes)
            if axis != "steps" and isinstance(where.get(axis, ()), tuple)]
    found: dict[Any, T] = {}
    for field in ("period_s", "span_s"):
        less, more = ({tuple(point[place] for place in free): t
                       for point, t in r.all(f"{name}.{field}", steps=n, **where).items()} for n in (short, long))
        found |= {key: (more[key] - t) / (long - short) for key, t in less.items() if key in more}
    return found

def opened(found: dict[Any, T]) -> Any:
    """The one value, or the values by the axes that are open."""
    if () in present(found):
        return found[()]
    return {key if len(key) > 1 else key[0]: t for key, t in found.items()}

def cudnn(r: Recording, **where: Any) -> Any:
    """The best of cuDNN's ways."""
    plain, *others = (time_steps(r, name, **where) for name in ("cudnn", "cudnn-pad8", "cudnn-pad16", "cudnn-graph"))
    return opened({key: min([t, *(each[key] for each in others if key in each)]) for key, t in plain.items()})

def grids(r: Recording, name: str) -> dict[tuple[Any, ...], int]:
    """Blocks of the first kernel of a product, by the point."""
    first = {p: row["launched"].partition(";")[0] for p, row in r.rows.get(name, {}).items() if row["launched"]}
    return present({p: math.prod(map(int, kernel.split()[-3].split("x"))) for p, kernel in first.items()})

KINDS = {"streams": ("", 150e6, INF, 4e12, INF), "cached": ("", 0, 25e6, 0, INF),
         "compute": ("m|attention|conv", 25e6, INF, 0, 6e11)}
"""Calls on the H200: how they are called, and from how many to how many bytes they move, at which rates."""

def swapped(r: Recording, group: str) -> dict[Any, T]:
    """A call's time over the H200's; what group it is of, the H200's rows tell."""
    present(r.device != "h200" and r.sheet["sm_count"] == HARDWARE["h200"]["sm_count"])
    there, (called, *ends) = Recording("h200", r.experiment), KINDS[group]
    sizes, times = there.rows["eager"], there.all("eager.kernel_s")
    found = {point: float(sizes[point]["bytes"]) for point in r.all("eager.kernel_s") if re.match(called, point[0])}
    return dict(present({point[0]: r.all("eager.kernel_s")[point] / times[point] for point, size in found.items()
                         if ends[0] <= size <= ends[1] and ends[2] <= size / times[point].mid <= ends[3]}))

# ---- the claims ----

CLAIMS: dict[str, Claim] = {
    "pseudo_linear.clever-multiplication": clever,
}
FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "memory_swap": {"swapped": swapped},
    "nested_sine": {"traced": traced},
    "overlap": {"traced": traced, "balanced": lambda r, axis: balanced(r)[axis]},
    "repeat": {"knee": knee},
    "gemm": {
        "tiles": lambda r, *ends: {n: bool(t) and ends[0] <= min(t) <= max(t) <= ends[1]
                                   for n, (t, _) in launches(r).items()},
        "grids": lambda r: {n: blocks for n, (_, blocks) in launches(r).items()},
    },
    "pseudo_linear": {"thread": lambda r, name: table(name)},
    "rnn": {"step": lambda r, name, **where: opened(time_steps(r, name, **where)), "cudnn": cudnn},
    "rnn_ladder": {"grids": grids},
    "strassen": {"compared": compared, "quickest": quickest, "growth": growth, "unbeaten": unbeaten,
                 "choices": choices, "multiplied": lambda r, name: (7 / 8) ** int(name.split("-")[2])},
}
"""What expressions call beside the notation's own functions, by the experiment: each takes the recording first, tables
as T, and returns a number, a name, a T, or a dict of these by the point."""
ELSEWHERE = ("memory_swap.prediction-agrees", "rnn.cached-in-registers", "rnn.floor-explains")
"""Claims that ask a model of brrr's, which nothing here may import."""
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
        elif name in CLAIMS or ("value" in row and name not in ELSEWHERE):
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
