"""What is claimed of Strassen's algorithm on square products: speed without and with tensor cores, errors, choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import datasheet
from brrr.course.experiments.strassen.frontier import (
    IN_ORDER,
    Best,
    Growth,
    apart,
    clock_of,
    clocks_note,
    error_of,
    frontier,
    growths,
    largest_growth,
    picks,
    sizes,
)
from brrr.course.experiments.strassen.ways import CPU, flop_share, line_name, prepared_lines, short, timed_lines, way_of
from brrr.course.nouns.claim import Judge, Status, Verdict, band_verdict, not_above, not_below, weakest
from brrr.course.nouns.source import Evidence

EXACT = ("sgemm", "ffma")
PREPARED = {2048: 1.05, 4096: 1.24, 8192: 1.36, 16384: 1.4}
TIMED = {4096: 1.18, 8192: 1.3, 16384: 1.35}
SPLIT = ("fp16x3", *timed_lines("fp16x3"))
LARGE = 16384


TOO_FAR = "at clocks so far apart it is not decided"


# ---- the fastest of several, and two times that were measured at different clocks ----


@dataclass(frozen=True)
class Timed:
    """A line at a size: its time."""

    line: str
    time: Estimate


def fastest(evidence: Evidence, lines: Sequence[str], n: int) -> Timed:
    """The fastest of several lines at a size, of those measured there; NotRecordedError where none was."""
    found, missing = [], ""
    for line in lines:
        try:
            found.append(Timed(line, evidence.get(line, size=n)))
        except NotRecordedError as error:
            missing = missing or str(error)
    if not found:
        raise NotRecordedError(missing or f"there is no line to measure at size {n}")
    return min(found, key=lambda timed: timed.time.median)


@dataclass(frozen=True)
class Clocked:
    """A line's time, and the SM clock it ran at in Hz; None where nobody told it."""

    line: str
    time: Estimate
    clock_hz: float | None

    @classmethod
    def of(cls, evidence: Evidence, line: str, n: int, time: Estimate) -> Clocked:
        """A line's time at a size, with its clock."""
        return cls(line, time, clock_of(evidence, line, n))


@dataclass(frozen=True)
class Compared:
    """The ratio of two times: as measured, and in cycles where their clocks are apart."""

    measured: Estimate
    cycles: Estimate | None
    clocks: str

    @classmethod
    def of(cls, one: Clocked, other: Clocked) -> Compared:
        """One time over the other."""
        measured = one.time / other.time
        if not one.clock_hz or not other.clock_hz or not apart((one.clock_hz, other.clock_hz)):
            return cls(measured, None, "")
        told = [f"{each.line} at {units.quantity(each.clock_hz or 0.0, 'Hz')}" for each in (one, other)]
        return cls(measured, measured * (one.clock_hz / other.clock_hz), ", ".join(told))

    @property
    def ratios(self) -> tuple[Estimate, ...]:
        """Both ratios, or the one where the clocks are alike."""
        return (self.measured,) if self.cycles is None else (self.measured, self.cycles)

    @property
    def told(self) -> str:
        """The ratio, or both with the two clocks."""
        if self.cycles is None:
            return f"{self.measured:x}"
        return f"{self.cycles:x} in cycles, {self.measured:x} as measured ({self.clocks})"

    @property
    def smaller(self) -> float:
        """The smaller of the ratios: no more than this is certain."""
        return min(ratio.median for ratio in self.ratios)

    def at_least(self, threshold: float) -> Status:
        """Whether the ratio reaches a threshold: *holds* and *fails* only where both ratios say so."""
        return agreed(not_below(ratio, threshold) for ratio in self.ratios)

    def at_most(self, threshold: float) -> Status:
        """Whether the ratio stays at or below a threshold, by both ratios."""
        return agreed(not_above(ratio, threshold) for ratio in self.ratios)

    def reason(self, status: Status) -> str:
        """Why nothing is decided, if the clocks are why."""
        return f"; {TOO_FAR}" if status == "undecided" and self.cycles is not None else ""


def agreed(found: Iterable[Status]) -> Status:
    """The verdict that all share, else *undecided*.

    >>> agreed(["holds", "fails"]), agreed(["holds", "holds"])
    ('undecided', 'holds')
    """
    each = set(found)
    return each.pop() if len(each) == 1 else "undecided"


# ---- the claims ----


def _gain(evidence: Evidence, base: str, lines: tuple[str, ...], n: int, at_least: float) -> Verdict:
    """The fastest of some lines against one, with both errors beside."""
    slow, best = evidence.get(base, size=n), fastest(evidence, lines, n)
    found = Compared.of(Clocked.of(evidence, base, n, slow), Clocked.of(evidence, best.line, n, best.time))
    status = found.at_least(at_least)
    text = f"{base} over {best.line} at {n} is {found.told}{found.reason(status)}, at least {units.ratio(at_least)}"
    beside = _errors(evidence, (best.line, base), n)
    if found.cycles is None:
        beside += _clocks(evidence, (best.line, base), n)
    return Verdict(status, f"{text} was claimed{beside}")


def _errors(evidence: Evidence, lines: tuple[str, ...], n: int) -> str:
    try:
        parts = [f"{error_of(evidence, line, n):.2g} for {line}" for line in lines]
    except NotRecordedError:
        return ""
    return f"; relative error {', '.join(parts)}"


def _clocks(evidence: Evidence, lines: tuple[str, ...], n: int) -> str:
    """The clocks that they ran at, for a power limit may slow one of them more."""
    found = [clock_of(evidence, line, n) for line in lines]
    told = [units.quantity(clock, "Hz") for clock in found if clock is not None]
    return f"; SM clock {', '.join(told)}" if len(told) == len(lines) else ""


def _fp32(lines: tuple[str, ...], n: int, at_least: float) -> Judge:
    return lambda evidence: _gain(evidence, "sgemm", lines, n, at_least)


def _split(n: int, at_least: float) -> Judge:
    """Fast enough, and no less accurate than SGEMM: of the ways that are, the fastest counts."""

    def judge(evidence: Evidence) -> Verdict:
        slow, bound = evidence.get("sgemm", size=n), error_of(evidence, "sgemm", n)
        accurate = tuple(line for line in SPLIT if _within(evidence, line, n, bound))
        if not accurate:
            best = fastest(evidence, SPLIT, n)
            text = f"{slow / best.time:x} with {best.line}"
            return Verdict("fails", f"no split product is as accurate as SGEMM at {n}; {text}"
                                    f"{_errors(evidence, (best.line, 'sgemm'), n)}")  # fmt: skip
        return _gain(evidence, "sgemm", accurate, n, at_least)

    return judge


def _within(evidence: Evidence, line: str, n: int, bound: float) -> bool:
    try:
        return error_of(evidence, line, n) <= bound
    except NotRecordedError:
        return False


def _short(inner: str, n: int, at_least: float) -> Judge:
    """The fastest way with levels over the same inner product, the right side prepared or not."""
    lines = (*timed_lines(inner), *prepared_lines(inner))
    return lambda evidence: _gain(evidence, inner, lines, n, at_least)


# ---- faster than the peak ----


def _best_fp32(evidence: Evidence) -> Timed:
    return fastest(evidence, prepared_lines(*EXACT), LARGE)


def _above_peak(evidence: Evidence) -> Verdict:
    """2n^3 over the time against the datasheet's fp32 peak."""
    best, peak = _best_fp32(evidence), datasheet(evidence).peak("fp32", "cuda cores")
    rate = 2.0 * LARGE**3 / best.time
    text = f"{best.line} at {LARGE}: {units.quantity(rate.median, 'FLOP/s')} effective, the peak is "
    return Verdict(not_below(rate, peak), f"{text}{units.quantity(peak, 'FLOP/s')}")


def _below_peak(evidence: Evidence) -> Verdict:
    """What is really multiplied, over the time, stays below the same peak."""
    best, peak = _best_fp32(evidence), datasheet(evidence).peak("fp32", "cuda cores")
    way = way_of(evidence.experiment.line(best.line).variant)
    assert way is not None
    rate = 2.0 * LARGE**3 * flop_share(way) / best.time
    text = f"{best.line} at {LARGE} multiplies {units.percent(flop_share(way), 2)} of the FLOP: "
    text += f"{units.quantity(rate.median, 'FLOP/s')}, {units.percent(rate.median / peak, 2)} of the peak"
    return Verdict(not_above(rate, peak), text)


# ---- errors and choice ----


def _growth(evidence: Evidence) -> Verdict:
    """How much Strassen's form makes the error grow: at most 1.6x a level."""
    every = partial(growths, evidence.source, evidence.experiment, "strassen", EXACT)
    there = [name for name in ("sgemm", f"{CPU}sgemm") if every(name)]
    if not there:
        raise NotRecordedError("no errors of Strassen's form and of the library's own product were measured")
    found, own = every(there[0]), every(IN_ORDER)
    most = largest_growth(found)
    library = "the library's SGEMM" if there[0].startswith(CPU) else "cuBLAS SGEMM"
    text = f"at most {_grown(most)} against {library}; {len(found)} points"
    text += f"; against a product that sums in order at most {_grown(largest_growth(own))}" if own else ""
    return Verdict("holds" if most.per_level <= 1.6 else "fails", text)


def _grown(growth: Growth) -> str:
    where = ", ".join(map(str, growth.point))
    return f"{growth.per_level:.2f}x a level, with {short(growth.variant)} at {where}"


def _chooses_well(evidence: Evidence) -> Verdict:
    """The time of `matmul(accuracy=)` over that of the fastest measured way that is accurate enough and may be used."""
    found = [_picked(evidence, *each) for each in picks(evidence)]
    if not found:
        raise NotRecordedError("no choice of matmul was measured beside the ways")
    judged = [(compared.at_most(1.05), compared, told) for compared, told in found]
    status: Status = weakest(status for status, *_ in judged)
    worst, told = max(((one, told) for each, one, told in judged if each == status), key=lambda each: each[0].smaller)
    text = f"at most {worst.told} of the fastest way's time{worst.reason(status)}: {told}; {len(found)} choices"
    return Verdict(status, text)


def _picked(evidence: Evidence, accuracy: str, n: int, mine: Estimate, best: Best) -> tuple[Compared, str]:
    """What `matmul` took against what it could have taken."""
    lines = line_name(f"auto-{accuracy}"), line_name(best.variant)
    one, other = (Clocked.of(evidence, line, n, time) for line, time in zip(lines, (mine, best.time), strict=True))
    return Compared.of(one, other), f'matmul(accuracy="{accuracy}") at {n} against {short(best.variant)}'


def _levels_on_frontier(evidence: Evidence) -> Verdict:
    """Whether a way with levels is on the frontier: no other is both faster and more accurate."""
    measured = sizes(evidence.source)
    if not measured:
        raise NotRecordedError("no two ways were measured with their errors")
    places = [(place, way_of(place.variant)) for place in frontier(evidence.source, measured[-1])]
    best = [(place, way) for place, way in places if not place.dominated_by]
    levels = [short(place.variant) for place, way in best if way is not None and way.level]
    text = f"at {measured[-1]}: {', '.join(levels) or 'none with levels'}, of {len(best)} on the frontier"
    text += clocks_note(place.clock_hz for place, _ in places).replace(" As", "; as", 1).removesuffix(".")
    return Verdict("holds" if levels else "fails", text)


def _odd_sizes(evidence: Evidence) -> Verdict:
    """The fastest float32 way with levels at 4097 over that at 4096: at most 1.1x."""
    even, odd = (fastest(evidence, prepared_lines(*EXACT), n) for n in (4096, 4097))
    found = Compared.of(
        Clocked.of(evidence, odd.line, 4097, odd.time), Clocked.of(evidence, even.line, 4096, even.time)
    )
    status = found.at_most(1.1)
    text = f"{found.told}{found.reason(status)}, with {odd.line} at 4097 and {even.line} at 4096"
    return Verdict(status, text + _errors(evidence, (odd.line,), 4097))


def _tensor_cores(evidence: Evidence) -> Verdict:
    """cuBLAS SGEMM over cuBLAS in bfloat16 at 8192, where both are limited by arithmetic: 16x within 20 %."""
    ratio = evidence.get("sgemm", size=8192) / evidence.get("bf16", size=8192)
    return band_verdict(ratio, 0.8 * 16, 1.2 * 16, f"{ratio:x} at 8192")


JUDGES: dict[str, Judge] = {
    "sixteen-times": _tensor_cores,
    **{f"fp32-prepared-{n}": _fp32(prepared_lines(*EXACT), n, gain) for n, gain in PREPARED.items()},
    **{f"fp32-timed-{n}": _fp32(timed_lines(*EXACT), n, gain) for n, gain in TIMED.items()},
    "effective-above-peak": _above_peak,
    "actual-below-peak": _below_peak,
    **{f"split-{n}": _split(n, 3.6) for n in (8192, 16384)},
    "split-stretch": _split(LARGE, 4.0),
    "bf16-16384": _short("bf16", 16384, 1.2),
    "bf16-8192": _short("bf16", 8192, 1.06),
    "tf32-16384": _short("tf32", 16384, 1.05),
    "error-strassen": _growth,
    "odd-sizes": _odd_sizes,
    "levels-on-frontier": _levels_on_frontier,
    "matmul-chooses": _chooses_well,
}
