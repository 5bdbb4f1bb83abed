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
from statistics import geometric_mean, mean
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # `python tools/ledger.py` looks beside this file only

from tools.notation import Missing, Reader, T, Unreadable, exact, stacked

DATA = Path(__file__).resolve().parent.parent / "data"
HARDWARE = tomllib.loads((DATA / "hardware.toml").read_text(encoding="utf-8"))
INF = math.inf
QUEUE, CPU = {"busy_s": "kernel_s"}, {"busy_s": "period_s", "span_s": "period_s", "period_s": "none"}
STAND_IN: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
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
        return {point: value(row, field) for point, row in self.chosen(variant, **where).items() if row.get(field)}

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
    middle = float(row[field])
    if f"{field}_low" not in row:
        return exact(middle)
    low, high = float(row[f"{field}_low"]), float(row[f"{field}_high"])
    if int(row[f"{field}_n"]) <= 1:
        low, high = min(low, 0.9 * middle), max(high, 1.1 * middle)
    return T(middle, low, high)


Claim = Callable[[Recording], Verdict]
WAYS, FUSED = ("cuda", "triton", "compile"), ("compile", "cuda", "script")
BELOW, ABOVE, THERE = (128, 256, 512), (2048, 4096), (1024, 2048, 4096)
At = dict[str, Any]
HOT, COLD, RELU, GEMM = At(cache="hot"), At(cache="cold"), At(function="relu-64x1024"), At(function="gemm-8192")
ONE, SIXTEEN = At(elements=1024, operators=1), At(elements=1024, operators=16)
SMALL, LARGE, TRACE = At(elements=2**10), At(elements=2**28), f"gpu-transfers@elements={2**28}"
F32, FIRST = At(dtype="float32"), At(elements=2**26, dtype="float32", repeat=1)
WIDE, WIDTH = At(batch=32768, direction="forward"), At(width=4096, batch=32768, direction="forward")
NARROW, POSTED = At(width=256, batch=128, direction="forward"), At(batch=2048)
DEEP, LEAST, LARGE_NET = At(layers=8), At(layers=8, batch=2, hidden=128), At(layers=8, batch=ABOVE, hidden=ABOVE)
EIGHT, FEW = At(layers=8, batch=(2, 4, 8, 16, 32, 64)), At(layers=8, batch=(2, 4, 8, 16), hidden=ABOVE)
REGION, SOURCE_GRID = At(layers=8, batch=(64, 128), hidden=THERE), At(batch=(2, 4, 8, 16, 32, 64, 128))
MEGA, RIVALS = "megakernel megakernel-graph", "module graph max-autotune"
RIVALS_ALL, WITHOUT = f"{RIVALS} compile", f"graph max-autotune pycuda-graph triton-graph {MEGA}"
SINE = ("CUDA context", "memory", "copy", "first kernel")
GONE, LEVELS = "ffma|fp8|tf32x3|bf16x6|sgemm-strassen-4|tf32-s|fp16-s", "-(strassen|winograd)-[123]"
A100, A100_40, OLD, NEW = (HARDWARE[name] for name in ("a100", "a100-40gb", "gtx-1070", "h200"))
TENSOR, PLAIN = A100["dense"]["tensor cores"]["bf16"], A100["dense"]["cuda cores"]["fp32"]


# fmt: off
# ---- statistics ----

def ratio(fields: str, slow: str, fast: str, low: float, high: float = INF, **at: Any) -> Claim:
    return lambda r: band(r.ratio(fields, slow, fast, **at), low, high)

def saves(fields: str, slow: str, fast: str, low: float, high: float = INF, **at: Any) -> Claim:
    return lambda r: band(1 - r.ratio(fields, fast, slow, **at), low, high)

def grid(how: Any, bounds: tuple[float, ...], slow: str, fast: str, field: str = "period_s", needed: int = 1,
         fewest: int = 1, **where: Any) -> Claim:
    """Least, largest or mean gain of some variants over others, of all points, if they are not too few."""
    def judged(r: Recording) -> Verdict:
        found = r.ratios(field, slow, fast, needed, **where)
        return band(over(present(len(found) >= fewest and found).values(), how), *bounds)
    return judged

def gap(r: Recording, field: str, way: str, **at: Any) -> Verdict:
    """The share of the gap from nn.Module to PyCUDA that a way closes, with its interval's extremes: at least half."""
    s, w, f = (r(f"{name}.{field}", **at) for name in ("module", way, "pycuda"))
    low, high = (s.low - w.high) / (s.low - f.low), (s.high - w.low) / (s.high - f.high)
    return band(T((s.mid - w.mid) / (s.mid - f.mid), low, high) if f.high < s.low else 0, 0.5)

def from_on(sizes: Iterable[int], good: Callable[[int], bool]) -> int:
    """The smallest size from which on all are good, 0 for none."""
    listed = sorted(sizes)
    return next((n for i, n in enumerate(listed) if all(map(good, listed[i:]))), 0)

def late_win(r: Recording, fast: str, slow: str) -> Verdict:
    one, other = r.along(f"{fast}.latency_s"), r.along(f"{slow}.latency_s")
    size = from_on(both := present(set(one) & set(other)), lambda size: one[size].high < other[size].low)
    return fact(size > min(both), size)

def unsynchronized(r: Recording) -> Verdict:
    sizes = [p for p, row in r.rows.get("gpu", {}).items() if "single-call" not in row["flags"]]
    lines = ([t.mid for p, t in r.all(f"gpu.{field}").items() if p in sizes] for field in ("host_s", "latency_s"))
    spread = [max(present(times)) / min(times) for times in lines]
    return fact(spread[0] <= 3 and spread[1] >= 10, spread)

def kernels(told: dict[str, int]) -> Claim:
    """Are these numbers of kernels the only ones counted, at sizes at which torch does not cut arrays up?"""
    return lambda r: every(*(
        fact(present({t.mid for (n,), t in r.all(f"{way}.kernels").items() if n <= 2**28}) == {count}, count)
        for way, count in told.items()))

def cpu_grows(r: Recording) -> Verdict:
    times = r.along("cpu.latency_s")
    return each((t / times[n // 2] for n, t in times.items() if n >= 256 and n // 2 in times), 4)

def counted(found: Iterable[tuple[float, float]]) -> Verdict:
    """Is each at most what it may be?"""
    right = present([this <= most for this, most in found])
    return fact(all(right), f"{sum(right)} of {len(right)}")

def fallback(r: Recording) -> Verdict:
    def room(t: float) -> float:
        return max(0.1 * t, 0.3e-6) if t <= 5e-6 else t * (0.04 if t <= 20e-6 else 0.015)
    ours = r.all("measure-no-profiler.kernel_s")
    return counted((abs(ours[p].mid - t.mid), room(t.mid)) for p, t in r.all("measure.kernel_s").items()
                   if p in ours and not p[0].startswith(("spin", "host-", "syncs")))

def closest(r: Recording) -> Verdict:
    kernels, truth, ours = (r.all(f"measure{line}") for line in (".kernels", ".kernel_s", "-no-profiler.kernel_s"))
    return counted(
        (abs(ours[p].mid - truth[p].mid) - abs(t.mid - truth[p].mid), max(0.01 * truth[p].mid, 0.1e-6))
        for rival, cache in (("do-bench", "cold"), ("do-bench-cudagraph", "hot"), ("event-pair", "hot"))
        for p, t in r.all(f"{rival}.span_s", cache=cache).items()
        if p in ours and kernels[p].mid == 1 and not p[0].startswith(("spin", "host-")))

def injected(r: Recording) -> Verdict:
    wrong, found, rows = [], r.along("measure.period_s", cache="hot"), r.rows["measure"]
    for name, t in r.along("truth.period_s", cache="hot").items():
        if host := re.match(r"host-(\d+)us-device-(\d+)us", name):
            flag = ("host-bound" in rows[name, "hot"]["flags"]) == (int(host[1]) > int(host[2]))
            wrong.append((abs(found[name].mid / t.mid - 1), 0.05 if flag else -1))
    return counted(wrong)

def near_truth(r: Recording, prefix: str, field: str, share: float, least: float, zero: str = "") -> Verdict:
    """A time against the truth, both less those of `zero`."""
    true, found = (r.along(f"{who}.{field}", cache="hot") for who in ("truth", "measure"))
    true0, found0 = (line[zero].mid if zero else 0 for line in (true, found))
    return counted((abs(found[n].mid - found0 - t.mid + true0), max(share * (t.mid - true0), least))
                   for n, t in true.items() if n.startswith(prefix) and n != zero)

def published(file: str, **where: str) -> list[dict[str, str]]:
    """Rows of a table of other people's figures."""
    with (DATA / "published" / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if where.items() <= row.items()]

def table(name: str) -> dict[int, float]:
    return {int(row["width"]): float(row["speedup"]) for row in published("pseudo_linear", table=name)}

def speedups(r: Recording, way: str = "eager", direction: str = "forward") -> dict[int, T]:
    """Linear over the pseudo layer by width."""
    found = r.ratios("period_s", f"linear-{way}", f"pseudo-{way}", batch=32768, direction=direction)
    return {width: t for (width, *_), t in found.items()}

def as_table(r: Recording, name: str, way: str) -> Verdict:
    told, here = table(name), speedups(r, way)
    return each((here[width] / told[width] for width in told if width in here), 0.8, 1.2)

def differs(a: dict[int, float], b: dict[int, float]) -> Verdict:
    return fact(all(abs(b[width] / a[width] - 1) > 0.1 for width in a if width in b))

def the_width(r: Recording) -> Verdict:
    found = [speedups(r, direction=way) for way in ("forward", "forward+backward")]
    return band(min(t[max(t)] / max(t) for t in found), 0.8, 1.2)

def grows(r: Recording) -> Verdict:
    found = [t.mid for t in speedups(r).values()]
    steady = all(b >= 0.9 * a for i, b in enumerate(found) for a in found[:i])
    return fact(steady and found[-1] >= 4 * found[0], (found[0], found[-1]))

def no_limit(r: Recording) -> Verdict:
    found = speedups(r)
    last = max(found)
    half = max(width for width in found if width <= last / 2)
    return band(found[last] / found[half], 1 + (last / half - 1) / 2)

def all_over(r: Recording) -> Verdict:
    found = speedups(r)
    doublings = [found[2 * w] / found[w] for w in found if w >= 2048 and 2 * w in found]
    return band(max(present(doublings[1:] and doublings)) / min(doublings), 1.2)

def stop_paying(r: Recording) -> Verdict:
    found = r.ratios("period_s", "pseudo-eager", "pseudo-graph", batch=2048, direction="forward")
    pays, stops = [p[0] for p in found if found[p].low >= 1.05], [p[0] for p in found if found[p].high < 1.05]
    if not pays or not stops:
        return "fails" if pays or stops else "undecided", (pays, stops)
    return "holds" if max(pays) < min(stops) else "undecided", (max(pays), min(stops))

def roofline(r: Recording) -> Verdict:
    def least(name: str, point: Any) -> float:
        return max(r.all(f"{name}.flop")[point].mid / r.fp32, r.all(f"{name}.bytes")[point].mid / r.bandwidth)
    found = r.ratios("period_s", "linear-eager", "pseudo-triton", **WIDE)
    return each((t / (least("linear-eager", p) / least("pseudo-triton", p)) for p, t in found.items() if p[0] >= 4096),
                0.75, 1.25)

def clever(r: Recording) -> Verdict:
    """Holds with a rate above the peak, fails if the fused stand-in is near the bandwidth."""
    rate = max(r.rate("flop/busy_s", "linear-eager", width=w, **WIDE) for w in r.along("linear-eager.busy_s", **WIDE))
    present(all(row["error"] == "0.0" for row in present(r.rows.get("linear-integers")).values()))
    share = r.rate("bytes/busy_s", "pseudo-triton", **WIDE).mid / r.bandwidth
    return "holds" if rate.low > r.fp32 else "fails" if share >= 0.7 else "undecided", (rate / r.fp32, share)

def flaw(r: Recording, linear: str, pseudo: str, bound: float) -> Verdict:
    now, posted = (r.ratio("period_s", f"linear-{a}", f"pseudo-{b}", width=1024, batch=2048)
                   for a, b in ((linear, pseudo), ("posted", "posted")))
    return band(now / posted, bound)

def idle(r: Recording, kind: str) -> list[T]:
    """The idle shares from the smallest size to the largest."""
    busy, period = r.along(f"{kind}.busy_s"), r.along(f"{kind}.period_s")
    shares = [1 - busy[size] / period[size] for size in busy if size in period]
    return [T(*(max(0.0, end) for end in share.ends)) for share in present(shares)]

def doubling(r: Recording, kind: str) -> list[T]:
    return list(r.ratios("period_s", f"{kind}-double", kind).values())

def doubling_tells(r: Recording) -> Verdict:
    found = [(t.mid, share.mid) for t, share in zip(doubling(r, "chain"), idle(r, "chain"), strict=True)]
    return fact(all((t > 1.1 or share >= 0.3) and (t < 1.8 or share < 0.2) for t, share in found), found)

def steps(r: Recording, line: str, toy: bool = False) -> dict[int, T]:
    """Busy time by steps; of 2^20 numbers on the CPU queue, if it may stand in."""
    return r.along(f"{line}.busy_s", elements=2**20 if toy and r.device == "cpu" else 2**26, **F32)

def step_ratio(r: Recording, line: str, many: int, few: int = 1, toy: bool = False) -> T:
    times = steps(r, line, toy)
    return present(times.get(many)) / present(times.get(few))

def knee(times: dict[int, T]) -> T:
    """Steps at which memory and arithmetic take as long: the time of one over what the last doubling adds to a step."""
    first, last = min(times), max(times)
    before = max(size for size in times if size <= last / 2)
    return times[first] * (last - before) / (times[last] - times[before])

def share_of_peak(r: Recording, kind: str, flop: int) -> T:
    """The best of any fused way and number of steps."""
    return max(n * flop * 2**26 / t for way in WAYS for n, t in steps(r, f"{way}-{kind}").items()) / r.fp32

def two_of_three(r: Recording) -> Verdict:
    found = (band(r("copy.busy_s", **FIRST) / r(f"{way}-mul.busy_s", **FIRST), 0.95) for way in WAYS)
    return sorted(found, key=lambda verdict: ORDER.index(verdict[0]))[1]

def alike(r: Recording, names: str, base: str, dtype: str) -> Verdict:
    first, *times = r.top(*(f"{name}.busy_s" for name in (base, *names.split())), dtype=dtype)
    return each((t / first for t in times), 0.9, 1.1)

def half(r: Recording, names: str, low: float, high: float) -> Verdict:
    times = ([r(f"{name}.busy_s", dtype=dtype) for dtype in ("bfloat16", "float32")] for name in names.split())
    return each((short / wide for short, wide in times), low, high)

def levels(r: Recording, variant: str = "sustained-copy") -> Any:
    """Bytes over busy_s by working set, the largest set of a quarter of the L2, the largest from 20 times the L2 on."""
    l2, moved = r.sheet["l2_bytes"], r.along(f"{variant}.bytes")
    found = {size: moved[size] / t for size, t in r.along(f"{variant}.busy_s").items()}
    return found, max(s for s in found if s <= l2 / 4), max(s for s in found if s >= 20 * l2)

def cliff(r: Recording) -> Verdict:
    (found, small, large), l2 = levels(r), r.sheet["l2_bytes"]
    middle = math.sqrt(found[small].mid * found[large].mid)
    after = min(size for size in found if size > small and found[size].mid < middle)
    before = max(size for size in found if size < after)
    return band(T(math.sqrt(before * after) / l2, before / l2, after / l2), 0.25, 1.5)

def stride(line: str, one: tuple[int, int], other: tuple[int, int], low: float, high: float = INF) -> Claim:
    """The time at one stride and offset over that at another, of the plain line."""
    def at(r: Recording, variant: str, stride: int, offset: int) -> T:
        return r(f"{variant}.busy_s", stride=stride, offset=offset, numbers=2**28)
    return lambda r: band(at(r, line, *one) / at(r, line.removesuffix("-whole"), *other), low, high)

def busy(r: Recording, blocks: int, loads: int) -> T:
    return r(f"loads-{loads}.busy_s", blocks=blocks)

def littles_law(r: Recording) -> Verdict:
    """Bytes over time, over 1024 bytes a block and load by the latency of one block, below half the bandwidth."""
    latency, found = busy(r, 1, 1) / 256, []
    for loads in (1, 2, 4, 8):
        for (blocks,) in r.all(f"loads-{loads}.busy_s"):
            asked = 1024 * blocks * loads
            if blocks <= 1056 and asked / latency.mid <= r.bandwidth / 2:
                found.append(2**18 * blocks / busy(r, blocks, loads) * latency / asked)
    return each(present(found), 0.8, 1.25)

def sines(r: Recording, count: int, *ways: str) -> T:
    return r.gain("eager.busy_s", [f"{way}.busy_s" for way in ways], sines=count)

def fused(r: Recording, kind: str, base: str = "eager") -> T:
    return r.gain(f"{kind}-{base}.busy_s", [f"{kind}-{way}.busy_s" for way in WAYS], **F32)

def bytes_say(low: float = 0.8, high: float = 1.2, **told: float) -> Claim:
    return lambda r: each((fused(r, kind) / by for kind, by in told.items()), low, high)

def balanced(r: Recording) -> dict[str, Any]:
    """The largest array of all parts, and the number of sines at which computing is closest to sending."""
    parts = ("upload", "compute", "pipeline", "serial")
    elements = max(present(set.intersection(*({p[0] for p in r.all(f"{part}.period_s")} for part in parts))))
    found = r.ratios("period_s", "compute", "upload", elements=elements)
    return {"elements": elements, "sines": min(found, key=lambda point: abs(math.log(found[point].mid)))[1]}

def timeline(r: Recording) -> Verdict:
    size, names = (2**20, "queue-streams queue-pipeline") if r.device == "cpu" else (2**24, "source-streams pipeline")
    streams, pipeline = (r.trace(f"{name}@elements={size},sines=40")[0] for name in names.split())
    return fact(streams < 0.05 and pipeline > 0.5, (streams, pipeline))

def remat(slow: str, fast: str, activation: str, depth: int, low: float, high: float = INF) -> Claim:
    """One line's time over another's, and the one that saves takes more memory."""
    at = {"activation": activation, "depth": depth}
    return lambda r: every(band(r.ratio("period_s", slow, fast, **at), low, high),
                           fact(r.ratio("peak_bytes", slow, fast, **at).mid > 1))

# ---- the textbook network and Strassen's algorithm ----

def divides(r: Recording, slow: str = "module", fast: str = "pycuda") -> tuple[int, int]:
    """The hidden size from which on every mean gains less than half of the best: here, and in the source's figures."""
    here, theirs = r.ratios("period_s", slow, fast, layers=8), published("mlp_speedup_gtx1070", layers="8")
    hidden = sorted({point[2] for point in here})
    means = ({h: mean(t.mid for p, t in here.items() if p[2] == h) for h in hidden},
             {h: mean(float(row[f"overhead_{h}"]) for row in theirs) for h in hidden})
    one, other = (from_on(hidden, lambda h, g=g: g[h] - 1 < (max(g.values()) - 1) / 2) for g in means)
    return one, other

def layer(r: Recording, way: str) -> T:
    """What seven more layers cost the host."""
    return r(f"{way}.host_s", **LEAST) - r(f"{way}.host_s", **LEAST | {"layers": 1})

def wins(r: Recording, field: str, slow: str, fast: str, **where: Any) -> dict[Any, bool]:
    return {point: t.low > 1 for point, t in r.ratios(field, slow, fast, **where).items()}

def only_there(r: Recording) -> Verdict:
    found = wins(r, "span_s", "pycuda-fused", "strassen-one", layers=8)
    return fact(all(won == (p[1] >= 64 and p[2] >= 1024) for p, won in found.items()))

def mostly(r: Recording) -> Verdict:
    found = wins(r, "span_s", "module", "strassen-one").values()
    return fact(sum(found) > len(found) / 2, f"{sum(found)} of {len(found)}")

def small_overhead(r: Recording) -> Verdict:
    level, fusion = (wins(r, "period_s", "module", way, layers=8) for way in ("strassen-one", "pycuda-fused"))
    gains = present([p for p, won in level.items() if won and (p[1] < 64 or p[2] < 1024)])
    return fact(not any(fusion.get(p) for p in gains), gains)

def cpu_gain(r: Recording) -> T:
    ways = "cpu-functional cpu-inference cpu-script cpu-numpy cpu-compile"
    return over(r.ratios("period_s", "cpu-module", ways, **LEAST).values(), max)

def rewrite(r: Recording) -> Verdict:
    pairs = (("module", "pycuda"), ("pycuda", "pycuda-fused"), ("pycuda-fused", "strassen-one"))
    first, *rest = (over(r.ratios("period_s", *pair, layers=8).values(), mean) for pair in pairs)
    return band(first / max(rest), 1)

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

def peak(sheet: dict[str, Any]) -> float:
    return float(max(rate for unit in sheet["dense"].values() for rate in unit.values()))

def flops(r: Recording, n: int, few: int, dtype: str = "float32") -> T:
    """FLOP/s with n columns over those with others."""
    t = r.along("nn.span_s", size=2048, dtype=dtype)
    return t[few] / t[n] * (n / few)

def multiples(r: Recording, dtype: str) -> Verdict:
    """Is each multiple of 32 up to 1024 faster than the column before and behind?"""
    found = [flops(r, n, near, dtype) for n in range(32, 1025, 32) for near in (n - 1, n + 1)]
    return each(found, 1)[0], min(found)

def not_monotonic(r: Recording) -> Verdict:
    """The best FLOP/s with fewer columns over those with more, wherever that is largest."""
    rates = {n: n / t for n, t in r.along("nn.span_s", size=2048, **F32).items()}
    present(set(range(1, 1101)) <= set(rates))
    return band(max(max(rates[few] for few in rates if few < n) / rates[n] for n in rates if n > 1), 1)

def layouts(r: Recording) -> list[T]:
    """The slower of NN and TN over the faster."""
    where = {"columns": (32, 64, 96, 128, 256), "size": tuple(range(1024, 2561, 128)), **F32}
    nn, tn = (r.all(f"{name}.span_s", **where) for name in ("nn", "tn"))
    present(len(nn) == len(tn) == 65)
    return [max(nn[p], tn[p]) / min(nn[p], tn[p]) for p in nn]

def launches(r: Recording) -> dict[int, tuple[tuple[int, ...], int]]:
    """By the columns, of the first kernel: the tile in its name, if any, and how many blocks it had."""
    found = {}
    for (n, size, dtype), row in r.rows.get("nn", {}).items():
        if (size, dtype) == (2048, "float32") and row["launched"]:
            name, grid, *_ = row["launched"].partition(";")[0].split()
            sides = re.search(r"(\d+)x(\d+)", name)
            found[n] = tuple(map(int, sides.groups())) if sides else (), math.prod(map(int, grid.split("x")))
    return dict(present(found))

def rounded(r: Recording, variant: str) -> T:
    """The time with 50257 words over that with 50304."""
    t = r.along(f"{variant}.span_s", tokens=12288)
    return t[50257] / t[50304]

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
    plain, *padded = (time_steps(r, name, **where) for name in ("cudnn", "cudnn-pad8", "cudnn-pad16"))
    return opened({key: min([t, *(each[key] for each in padded if key in each)]) for key, t in plain.items()})

def grids(r: Recording, name: str) -> dict[tuple[Any, ...], int]:
    """Blocks of the first kernel of a product, by the point."""
    first = {p: row["launched"].partition(";")[0] for p, row in r.rows.get(name, {}).items() if row["launched"]}
    return present({p: math.prod(map(int, kernel.split()[-3].split("x"))) for p, kernel in first.items()})

# ---- the claims ----

CLAIMS: dict[str, Claim] = {
    "matmul.gpu-wins-at-scale": lambda r: late_win(r, "gpu-transfers", "cpu"),
    "matmul.first-call-bump": ratio("latency_s", "gpu-first", "gpu-transfers", 10, size=1),
    "matmul.unsynchronized-flat": unsynchronized,
    "matmul.transfers-half": saves("latency_s", "gpu-transfers", "gpu", 0.45, 0.55, size=32768),
    "matmul.cpu-grows": cpu_grows,
    "timers.spin-kernels": lambda r: near_truth(r, "spin-", "kernel_s", 0.01, 64e-9, "spin-0us"),
    "timers.chain-span": lambda r: near_truth(r, "spins-", "span_s", 0.03, 0.5e-6),
    "timers.fallback": fallback,
    "timers.fallback-closest": closest,
    "timers.injected-work": injected,
    "timers.no-sync-lies": ratio("host_s/kernel_s", "no-sync", "measure", 0, 0.1, **GEMM, **HOT),
    "timers.common-timers": lambda r: each(
        (r.ratio("span_s/kernel_s", name, "measure", **RELU, **cache)
         for name, cache in (("do-bench", COLD), ("event-pair", HOT))), 2),
    "transfers.pinned-beats-pageable": lambda r: each(
        (r.ratio("period_s", f"{way}-pageable", f"{way}-pinned") for way in ("h2d", "d2h")
         if r.device != "cpu" or way == "h2d"), 1.2),
    "transfers.latency-floor": lambda r: band(
        r("h2d-pinned.latency_s", nbytes=2**14) / r("h2d-pinned.latency_s", nbytes=2**10), 0, 1.25),
    "transfers.link-share": lambda r: each(
        (r.rate("bytes/period_s", f"{way}-pinned") / r.sheet["host_link"]["bytes_per_s"] for way in ("h2d", "d2h")),
        0.8, 1),
    "transfers.both-directions": lambda r: band(
        2 * max(r.ratio("period_s", f"{way}-pinned", "both-pinned") for way in ("h2d", "d2h")), 1.6),
    "transfers.pageable-waits": lambda r: every(
        band(r.rate("host_s/latency_s", "h2d-pageable"), 0.5), band(r.rate("host_s/latency_s", "h2d-pinned"), 0, 0.1)),
    "transfers.link-is-the-narrow-place": ratio("period_s", "h2d-pinned", "device", 5),
    "nested_sine.cpu-wins-at-scale": ratio("latency_s", "gpu-transfers", "cpu", 1),
    "nested_sine.compute-is-tiny": ratio("latency_s", "gpu-transfers", "gpu", 10),
    "nested_sine.gpu-needs-scale": lambda r: late_win(r, "gpu", "cpu"),
    "nested_sine.transfers-dominate": saves("latency_s", "gpu-transfers", "gpu", 0.5),
    "nested_sine.trace-agrees": lambda r: (lambda seen, timed: every(band(seen, 0.5), band(seen - timed, -0.1, 0.1)))(
        r.trace(TRACE)[1], 1 - r.ratio("latency_s", "gpu", "gpu-transfers", **LARGE).mid),
    "nested_sine.eight-gigabytes": lambda r: band(2**31 * 4 / 8.5e9, 0.98, 1.02),
    "nested_sine.drawing-is-large": ratio("latency_s", "cpu-drawing", "gpu-transfers", 1),
    "nested_sine.one-after-another": lambda r: fact(r.trace(TRACE)[2] == 1 and r.trace(TRACE)[0] <= 0.01),
    "nested_sine.wait-is-needed": lambda r: (lambda wrong: ("undecided" if wrong else "fails", wrong))(
        [p for p in present(r.all("gpu-transfers-sync.error")) if p not in r.all("gpu-transfers.error")]),
    "nested_sine.wait-changes-no-time": ratio("latency_s", "gpu-transfers-sync", "gpu-transfers", 0.9, 1.1),
    "nested_sine.wait-after": ratio("latency_s", "gpu-transfers-then-sync", "gpu-transfers", 0.9, 1.1),
    "nested_sine.new-memory-costs": ratio("latency_s", "gpu-transfers", "gpu-transfers-kept", 2, elements=2**24),
    "nested_sine.pinning-alone": ratio("latency_s", "gpu-transfers-kept", "gpu-pinned", 1.5, 4, elements=2**24),
    "nested_sine.one-kernel": kernels({"gpu": 4, "gpu-scripted": 1}),
    "nested_sine.scripted-first-call": kernels({"gpu-scripted-first": 4, "gpu-scripted": 1}),
    "nested_sine.fusing-saves-half-small": saves("latency_s", "gpu", "gpu-scripted", 0.4, 0.5, **SMALL),
    "nested_sine.fusing-saves-half-large": saves("kernel_s", "gpu", "gpu-scripted", 0.4, 0.5, **LARGE),
    "nested_sine.memory-bound": lambda r: band(32 * 2**28 / r("gpu.kernel_s", **LARGE) / r.bandwidth, 0.6),
    "nested_sine.free-gpu-loses": lambda r: (lambda sent, there, cpu: band((sent - there) / cpu, 1))(
        *r.top("gpu-transfers.latency_s", "gpu.latency_s", "cpu.latency_s")),
    "nested_sine.pinned-turns-it": ratio("latency_s", "cpu", "gpu-pinned", 1),
    "overlap.streams-little-benefit": ratio("period_s", "source-serial", "source-streams", 1 / 1.2, 1.2, sines=4),
    "overlap.streams-help-transfers": ratio("period_s", "source-serial", "source-streams", 1.1, sines=1),
    "overlap.pipeline-speedup": lambda r: band(r.ratio("period_s", "serial", "pipeline", **balanced(r)), 2.2),
    "overlap.pipeline-limit": ratio("period_s", "both", "pipeline", 0.9, sines=1),
    "overlap.pinning": ratio("period_s", "serial-pageable", "serial", 1.2, sines=1),
    "overlap.timeline": timeline,
    "first_call.context-is-most": lambda r: (lambda context, *rest: band(over(rest, sum) / context, 0, 1))(
        *(r("cuda-first.latency_s", part=part) for part in SINE)),
    "first_call.once-per-process": ratio("latency_s", "cuda-first", "cuda-again", 100, part=SINE[0]),
    "first_call.first-sine-long": ratio("latency_s", "cuda-first", "cuda-again", 10, part=SINE[3]),
    "first_call.compiled-at-first-use": saves("latency_s", "cuda-first", "cuda-no-compiler", 0.25, part=SINE[3]),
    "first_call.loaded-at-first-use": ratio("latency_s", "cuda-first", "cuda-eager", 3, part=SINE[3]),
    "first_call.new-stream": ratio("latency_s", "cuda-first", "cuda-again", 1, part="a new stream's first kernel"),
    "pseudo_linear.grows-with-width": grows,
    "pseudo_linear.narrow-no-gain": ratio(
        "period_s", "linear-eager", "pseudo-eager", 1 / 1.2, 1, width=128, batch=128, direction="forward"),
    "pseudo_linear.the-width": the_width,
    "pseudo_linear.no-limit": no_limit,
    "pseudo_linear.graphs-help-narrow": ratio("period_s", "pseudo-eager", "pseudo-graph", 1.2, **NARROW),
    "pseudo_linear.graphs-stop-paying": stop_paying,
    "pseudo_linear.compiling-helps-pseudo-only": lambda r: every(
        band(r.ratio("period_s", "pseudo-eager", "pseudo-compile", **WIDTH), 1, 1.2),
        band(r.ratio("period_s", "linear-eager", "linear-compile", **WIDTH), 0, 1.05)),
    "pseudo_linear.fused-halves-traffic": ratio("period_s", "pseudo-eager", "pseudo-triton", 1.8, **WIDE),
    "pseudo_linear.as-the-roofline-says": roofline,
    "pseudo_linear.clever-multiplication": clever,
    "pseudo_linear.four-times": lambda r: band(1024**2 / 256**2, *within(4)),
    "pseudo_linear.differs-between-gpus": lambda r: differs(table("gpu_a_eager"), table("gpu_b_eager")),
    "pseudo_linear.table-of-gpu-a": lambda r: as_table(r, "gpu_a_eager", "eager"),
    "pseudo_linear.table-of-gpu-b": lambda r: as_table(r, "gpu_b_eager", "eager"),
    "pseudo_linear.table-of-the-graph": lambda r: as_table(r, "gpu_b_cuda_graph", "graph"),
    "pseudo_linear.all-over-the-place": all_over,
    "pseudo_linear.many-rows-fill-the-gpu": lambda r: (lambda narrow, wide: band(narrow / wide, 0.9))(
        *(r.rate("bytes/busy_s", "pseudo-eager", width=width, **WIDE) for width in (128, 8192))),
    "pseudo_linear_flaws.posted-negligible": ratio(
        "period_s", "linear-posted", "pseudo-posted", 1 / 1.2, 1.2, width=160, **POSTED),
    "pseudo_linear_flaws.posted-wide": ratio(
        "period_s", "linear-posted", "pseudo-posted", *within(3.03), width=1024, **POSTED),
    "pseudo_linear_flaws.data-inside": lambda r: flaw(r, "data-out", "data-out", 1.05),
    "pseudo_linear_flaws.stray-x": lambda r: flaw(r, "posted", "x-out", 1.05),
    "pseudo_linear_flaws.relu-in-both": lambda r: flaw(r, "relu-out", "relu-out", 1.05),
    "pseudo_linear_flaws.all-three": lambda r: flaw(r, "clean", "clean", 1.5),
    "pseudo_linear_flaws.still-not-the-width": lambda r: each(
        (r.ratio("period_s", "linear-clean", "pseudo-clean", width=w, **POSTED) / w for w in (160, 1024)), 0, 0.1),
    "adds.torch-slower": ratio("period_s", "torch-cpu", "python", 10, elements=1),
    "adds.hundredfold": ratio("period_s", "torch-cpu", "python", *within(114), elements=1),
    "adds.gpu-millions": lambda r: band(
        r("python.period_s", elements=1) / 100 * r.rate("flop/period_s", "peak-bf16", elements=1), *within(9.75e6)),
    "adds.large-pays": lambda r: band(
        r.rate("flop/period_s", "torch-cuda") / r.rate("flop/period_s", "torch-cuda", elements=1), 100),
    "adds.all-but-the-addition": lambda r: band(
        1 - r.rate("period_s/flop", "torch-cpu", elements=2**16) / r.rate("period_s/flop", "torch-cpu", elements=1),
        0.5),
    "host_cost.module-to-blame": saves("host_s", "module", "relu", 0.5, **ONE),
    "host_cost.torchscript-closes": lambda r: gap(r, "host_s", "script", **SIXTEEN),
    "host_cost.pycuda-wins": ratio("period_s", "module", "pycuda", 1.5, **SIXTEEN),
    "host_cost.buffers-reused": ratio("host_s", "out", "pycuda", 0, 1.1, **SIXTEEN),
    "host_cost.out-saves": ratio("host_s", "relu", "out", 1.05, **SIXTEEN),
    "host_cost.more-than-a-launch": ratio("host_s", "relu", "pycuda", 1.1, **ONE),
    "host_cost.graph-likes-a-chain": lambda r: band(
        r.ratio("period_s", "module", "graph", **SIXTEEN) / r.ratio("period_s", "module", "graph", **ONE), 1.25),
    "host_cost.hidden": ratio("period_s", "module-grad", "graph", 0.95, 1.05, elements=2**24, operators=1),
    "run_ahead.paperweight": lambda r: band(idle(r, "eager")[0], 0.5),
    "run_ahead.runs-ahead": lambda r: band(idle(r, "eager")[-1], 0, 0.1),
    "run_ahead.overhead-flat": lambda r: (lambda times: band(max(times) / min(times), 0, 2))(
        r.along("eager.host_s").values()),
    "run_ahead.graph-removes": ratio("period_s", "eager", "graph", 2, **SMALL),
    "scaling.doubling-tells": doubling_tells,
    "scaling.overhead-then-work": lambda r: every(
        band(doubling(r, "chain")[0], 0.9, 1.1), band(doubling(r, "chain")[-1], 1.6, 2.4)),
    "scaling.skinny-exception": lambda r: every(band(doubling(r, "gemm")[0], 0, 1.1), band(idle(r, "gemm")[0], 0, 0.2)),
    "repeat.flat-at-first": lambda r: band(step_ratio(r, "compile-mul", 32, toy=True), 0.9, 1.1),
    "repeat.knee-32-to-64": lambda r: band(knee(steps(r, "compile-mul", toy=True)), 32, 64),
    "repeat.knee-as-predicted": lambda r: each(
        (knee(steps(r, f"{way}-{kind}")) / (r.fp32 / 2 * 8 / r.bandwidth) for way in WAYS for kind in ("mul", "fma")),
        0.75, 1.25),
    "repeat.starts-at-0.2-tflops": lambda r: band(2**26 / r("compile-mul.busy_s", **FIRST) / 0.2e12, *within(1)),
    "repeat.grows-linearly": lambda r: band(16 / step_ratio(r, "compile-mul", 16), *within(16)),
    "repeat.half-the-peak": lambda r: band(share_of_peak(r, "mul", 1), 0.45, 0.55),
    "repeat.fma-reaches-the-peak": lambda r: band(share_of_peak(r, "fma", 2), 0.9, 1.02),
    "repeat.compute-bound-beyond-64": lambda r: band(step_ratio(r, "compile-mul", 512, 128) / 4, 0.9, 1.1),
    "repeat.bandwidth-drops": lambda r: every(
        band(8 * 2**26 / r("compile-mul.busy_s", **FIRST) / r.bandwidth, 0.8),
        band(1 / step_ratio(r, "compile-mul", 512), 0, 0.5)),
    "repeat.about-a-hundred": lambda r: band(2 * knee(steps(r, "cuda-fma")), 80, 120),
    "repeat.as-fast-as-a-copy": two_of_three,
    "repeat.eager-pays-each-time": lambda r: band(step_ratio(r, "eager-mul", 16, toy=True), 12, 20),
    "repeat.a100-312": lambda r: band(TENSOR / 1e12, *within(312)),
    "repeat.a100-19.5": lambda r: band(PLAIN / 1e12, *within(19.5)),
    "repeat.fifteen-times": lambda r: band(TENSOR / PLAIN, *within(15)),
    "repeat.grows-faster": lambda r: band(
        peak(NEW) / peak(OLD) / (NEW["memory_bytes_per_s"] / OLD["memory_bytes_per_s"]), 2),
    "repeat.more-arithmetic-same-time": ratio("busy_s", "cuda-fma", "cuda-mul", 0.9, 1.1, **FIRST),
    "repeat.two-hundred-billion": lambda r: band(A100_40["memory_bytes_per_s"] / 8 / 200e9, *within(1)),
    "repeat.formulas": lambda r: (lambda t: band(t * t, 0.8, 1.2))(r("compile-mul.busy_s", **FIRST)),
    "unary.activations-alike": lambda r: alike(r, "gelu sigmoid tanh", "relu", "float32"),
    "unary.alike-with-half-the-bytes": lambda r: alike(r, "gelu sigmoid tanh", "relu", "bfloat16"),
    "unary.as-a-copy": lambda r: alike(r, "relu gelu sigmoid tanh exp cos", "copy", "float32"),
    "unary.near-the-bandwidth": lambda r: band(min(r.rate("bytes/busy_s", name, **F32)
        for name in ("relu", "gelu", "sigmoid", "tanh", "exp", "cos")) / r.bandwidth, 0.8),
    "unary.half-the-bytes": lambda r: half(r, "copy relu exp", 0.45, 0.55),
    "unary.half-the-bytes-gelu": lambda r: half(r, "gelu sigmoid tanh", 0.45, 0.55),
    "unary.arithmetic-shows": lambda r: half(r, "cos gelu", 0.6, 1.1),
    "working_set.l2-is-faster": lambda r: (lambda rate, small, large: band(rate[small] / rate[large], 1.5))(*levels(r)),
    "working_set.cliff-at-the-l2": cliff,
    "working_set.memory-near-the-datasheet": lambda r: (lambda rate, _, large: band(rate[large] / r.bandwidth, 0.8))(
        *levels(r)),
    "working_set.operators-need-size": lambda r: (lambda rate, *_: band(rate[min(rate)] / rate[max(rate)], 0, 0.5))(
        *levels(r, "once-copy")),
    "strides.sector-is-paid": stride("read", (8, 0), (1, 0), 1 / 1.25, 1 / 0.75),
    "strides.time-is-flat": stride("read", (4, 0), (1, 0), 0.9, 1.1),
    "strides.two-sectors-at-once": stride("read", (16, 0), (8, 0), 0.9, 1.1),
    "strides.no-worse-beyond": stride("read", (32, 0), (16, 0), 0, 1 / 2 / 0.75),
    "strides.no-worse-beyond-8": stride("read", (32, 0), (8, 0), 0, 1 / 4 / 0.75),
    "strides.read-before-write": stride("write", (8, 0), (1, 0), 1.7, 2.7),
    "strides.crooked-start": lambda r: every(
        *(stride(line, (1, 1), (1, 0), 0, 1.1)(r) for line in ("read", "write"))),
    "strides.crooked-read": stride("read", (1, 1), (1, 0), 0, 1.1),
    "strides.crooked-write": stride("write", (1, 1), (1, 0), 1.15),
    "strides.a-sector-later": stride("write", (1, 8), (1, 0), 0, 1.1),
    "strides.whole-warps": stride("write-whole", (1, 1), (1, 0), 0, 1.1),
    "occupancy.under-filled": lambda r: band(busy(r, 132, 1) / busy(r, 1, 1), 0, 1.15),
    "occupancy.more-warps": lambda r: band(8 * busy(r, 132, 1) / busy(r, 1056, 1), 6),
    "occupancy.more-loads": lambda r: band(busy(r, 8448, 1) / busy(r, 8448, 8), 2),
    "occupancy.full-is-not-enough": lambda r: band(8448 * 2**18 / busy(r, 8448, 1) / r.bandwidth, 0, 0.5),
    "occupancy.littles-law": littles_law,
    "occupancy.one-block-more": lambda r: band(busy(r, 1057, 1) / busy(r, 1056, 1), 1.5, 2.2),
    "cos_cos.twice-as-fast": ratio("busy_s", "eager", "compile", 1.8, 2.2, **F32),
    "cos_cos.as-one-cosine": ratio("busy_s", "compile", "one", 0.9, 1.1, **F32),
    "cos_cos.every-way": lambda r: each((r.ratio("busy_s", "eager", way, **F32) for way in WAYS), 1.8),
    "sines.half-by-script": saves("busy_s", "eager", "script", 0.4, 0.5, sines=4),
    "sines.longer-gains-more": lambda r: each(
        (sines(r, 2 * n, *FUSED) / sines(r, n, *FUSED) for n in (1, 2, 4)), 1.1),
    "sines.until-arithmetic": lambda r: band(sines(r, 32, "compile", "cuda"), 0, 16),
    "fusion.as-the-bytes-say": bytes_say(bias=2, pseudo=2, chain=7 / 3),
    "fusion.onto-a-reduction": bytes_say(1, INF, norm=1, softmax=1),
    "fusion.onto-a-reduction-bytes": bytes_say(norm=6, softmax=4),
    "fusion.kept-gains-less": lambda r: band(fused(r, "kept") / (4 / 3), 0.9, 1.1),
    "fusion.arithmetic-gains-nothing": lambda r: band(fused(r, "linear"), 0, 1.15),
    "fusion.tiny-is-overhead": lambda r: (lambda status, t: (ORDER[2 - ORDER.index(status)], t))(
        *band(r.ratio("period_s", "chain-eager", "chain-compile", **SMALL, **F32) / (7 / 3), 0.75, 1.25)),
    "fusion.library-is-fused": lambda r: each((fused(r, kind, "library") for kind in ("norm", "softmax")), 0.85, 1.15),
    "remat.lowers-both": remat("compile-saved", "compile", "hardswish", 8, 1),
    "remat.lowers-time": ratio("period_s", "compile-saved", "compile", 1, activation="cos", depth=8),
    "remat.as-the-bytes-say": lambda r: each(
        (r.ratio("period_s", "compile-saved", "compile", activation="hardswish", depth=n) / ((2 * n + 3) / 5)
         for n in (4, 8, 16)), 0.8),
    "remat.dear-arithmetic": remat("compile-saved", "compile", "cos", 16, 0, 1),
    "remat.checkpoint-costs-time": remat("eager", "checkpoint", "hardswish", 16, 0, 1 / 1.1),
    "mlp.faster-in-all-cases": grid(min, (1,), "module", "pycuda"),
    "mlp.best-case": grid(best, as_told(1.8), "module", "pycuda"),
    "mlp.below-the-divide": grid(mean, as_told(1.73), "module", "pycuda", **DEEP, hidden=BELOW),
    "mlp.above-the-divide": grid(mean, as_told(1.05), "module", "pycuda", **DEEP, hidden=ABOVE),
    "mlp.divide": lambda r: fact(divides(r)[0] == 1024, divides(r)),
    "mlp.divide-moved": lambda r: fact(divides(r)[0] > divides(r)[1], divides(r)),
    "mlp.fusion-divide": lambda r: fact(divides(r, "pycuda", "pycuda-fused")[0] == 1024),
    "mlp.fusion-at-best": lambda r: every(*(
        grid(best, as_told(by), "pycuda", "pycuda-fused", layers=n)(r) for n, by in ((1, 1.14), (8, 1.24)))),
    "mlp.fusion-below": grid(mean, as_told(1.22), "pycuda", "pycuda-fused", **DEEP, hidden=BELOW),
    "mlp.fusion-above": grid(mean, as_told(1.01), "pycuda", "pycuda-fused", **DEEP, hidden=ABOVE),
    "mlp.both-together": grid(mean, (2,), "module", "pycuda-fused", **DEEP, hidden=BELOW),
    "mlp.module-to-blame": lambda r: gap(r, "host_s", "functional", **LEAST),
    "mlp.script-closes": lambda r: gap(r, "period_s", "script", **LEAST),
    "mlp.one-kernel-small": grid(min, (4,), "graph", MEGA, "span_s", **EIGHT, hidden=(128, 256)),
    "mlp.one-kernel-middle": grid(min, (3,), "graph", MEGA, "span_s", **EIGHT, hidden=512),
    "mlp.one-kernel-eager": grid(min, (8,), "module", MEGA, **EIGHT, hidden=(128, 256)),
    "mlp.one-kernel-over-autotune": grid(min, (2,), "max-autotune", MEGA, "span_s", **EIGHT, hidden=(128, 256)),
    "mlp.one-kernel-one-caller": grid(min, (2.5,), "graph", MEGA, "latency_s", **EIGHT, hidden=(128, 256)),
    "mlp.best-never-slower": grid(min, (0.98,), RIVALS_ALL, "best", needed=2),
    "mlp.best-half-again": grid(geometric_mean, (1.5,), RIVALS_ALL, "best", needed=3, fewest=40, **DEEP),
    "mlp.best-twice": grid(geometric_mean, (2,), RIVALS_ALL, "best", needed=2, fewest=42, layers=(1, 2, 4)),
    "mlp.best-for-one-caller": grid(geometric_mean, (1.5,), RIVALS, "best", "latency_s", 3, 40, **DEEP),
    "mlp.host-cost-of-a-layer": lambda r: band(layer(r, "pycuda") / layer(r, "module"), -INF, 0.75),
    "mlp.cpu-small-gains": lambda r: band(cpu_gain(r), 2),
    "mlp.bigger-on-a-gpu": lambda r: band(r.ratio("period_s", "module", "pycuda", **LEAST) / cpu_gain(r), 1),
    "mlp.rewrite-gains-most": rewrite,
    "mlp.strassen-at-best": grid(best, as_told(1.53), "pycuda-fused", "strassen-one", "span_s", **REGION),
    "mlp.strassen-average": grid(mean, as_told(1.3), "pycuda-fused", "strassen-one", "span_s", **REGION),
    "mlp.strassen-only-there": only_there,
    "mlp.strassen-few-rows": grid(max, (0, 1), WITHOUT, "strassen-one", "span_s", **FEW),
    "mlp.strassen-few-rows-graph": grid(max, (0, 1), "graph", "strassen-one", "span_s", **FEW),
    "mlp.strassen-kernels": lambda r: fact(
        all(t.mid == 2 * p[0] + 1 for p, t in present(r.all("strassen-one.kernels")).items())),
    "mlp.strassen-mostly-faster": mostly,
    "mlp.strassen-small-is-overhead": small_overhead,
    "mlp.strassen-network": grid(min, (1.12,), RIVALS, "strassen", "span_s", 2, **LARGE_NET),
    "mlp.strassen-network-accurate": grid(min, (2.5,), RIVALS, "strassen-accurate", "span_s", 2, **LARGE_NET),
    "mlp.strassen-never-slower": lambda r: every(*(
        grid(min, (0.98,), RIVALS, way, needed=2, **SOURCE_GRID)(r) for way in ("strassen", "strassen-accurate"))),
    "gemm.fourteen-times": lambda r: band(flops(r, 32, 1), *within(14)),
    "gemm.at-least-32": lambda r: each((flops(r, 32, few) for few in (1, 2, 4, 8, 16)), 1),
    "gemm.multiples-of-32": lambda r: multiples(r, "float32"),
    "gemm.multiples-in-bf16": lambda r: multiples(r, "bfloat16"),
    "gemm.not-monotonic": not_monotonic,
    "gemm.asymmetry": lambda r: (lambda found: fact(
        any(t.low >= 1.2 for t in found) and any(t.high <= 1.05 for t in found), max(found)))(layouts(r)),
    "gemm.slightly": lambda r: (lambda found: (each(found, 0, 1.2)[0], max(found)))(layouts(r)),
    "gemm.size-independent": lambda r: (lambda rates: band(max(rates) / min(rates), 0, 1.1))(
        [n**2 / r("nn.span_s", columns=2048, size=n, **F32) for n in (2048, 4096, 8192)]),
    "gemm.about-64": lambda r: (lambda rates: band(rates[64] / max(rates.values()), 0.8))(
        {n: n / t for n, t in r.along("nn.span_s", size=2048, **F32).items()}),
    "gemm.data-change-nothing": lambda r: each(
        (r.ratio("span_s", "zeros", "nn", columns=4096, size=8192, dtype=dtype) for dtype in ("float32", "bfloat16")),
        0.9, 1.1),
    "gemm.tiles": lambda r: (lambda share: fact(share > 0.5, share))(
        mean(bool(sides) and 32 <= min(sides) <= max(sides) <= 128 for sides, _ in launches(r).values())),
    "gemm.several-blocks": lambda r: (lambda times, found: band(
        found[max(found, key=lambda n: n / times[n].mid)][1] / int(r.sheet["sm_count"]), 2))(
        r.along("nn.span_s", size=2048, **F32), launches(r)),
    "gemm.one-more-column": lambda r: (lambda t: each((t[n + 1] / t[n] for n in (512, 1024)), 5))(
        r.along("nn.span_s", size=2048, dtype="bfloat16")),
    "gemm.two-columns": lambda r: (lambda t: band(t[2] / t[1], *within(8)))(r.along("nn.span_s", size=2048, **F32)),
    "gemm.odd-rows": lambda r: (lambda t: (lambda found: (each(found, 0, 1.1)[0], max(found)))(
        [t[n - 31] / t[n] for n in range(32, 1025, 32)]))(r.along("linear.span_s", size=2048, dtype="bfloat16")),
    "gemm.padding-gains": ratio("span_s", "nn", "padded", 5, columns=1025, size=2048, dtype="bfloat16"),
    "gemm.padding-never-slower": grid(
        min, (0.98,), "nn", "padded", "span_s", size=2048, dtype=("bfloat16", "float16")),
    "gemm_many.larger-is-better": lambda r: (lambda found: fact(
        2 * sum(t.low > 1 for t in found.values()) > len(found), len(found)))(
        r.ratios("span_s", "graph", "combined", count=(2, 4, 8, 16, 32))),
    "gemm_many.streams-help": ratio("span_s", "graph", "streams", 1, count=4, size=512, **F32),
    "gemm_many.batched-as-combined": ratio("span_s", "batched", "combined", 0.9, 1.1, count=4, size=512, **F32),
    "vocabulary.a-quarter": lambda r: band(rounded(r, "step"), *as_told(1.25)),
    "vocabulary.more-is-faster": lambda r: band(rounded(r, "forward"), 1),
}
FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "repeat": {"knee": lambda r, times: knee(times.points())},
    "rnn": {"step": lambda r, name, **where: opened(time_steps(r, name, **where)), "cudnn": cudnn},
    "rnn_ladder": {"grids": grids},
    "strassen": {"compared": compared, "quickest": quickest, "growth": growth, "unbeaten": unbeaten,
                 "choices": choices, "multiplied": lambda r, name: (7 / 8) ** int(name.split("-")[2])},
}
"""What expressions call beside the notation's own functions, by the experiment: each takes the recording first, tables
as T, and returns a number, a name, a T, or a dict of these by the point."""
ELSEWHERE = ("rnn.cached-in-registers", "rnn.floor-explains")
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
