"""What is claimed of Strassen's algorithm on square products: speed without and with tensor cores, errors, choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments.judging import datasheet
from brrr_course.experiments.strassen.frontier import all_known, apart, clocks_note, frontier, picks, sizes
from brrr_course.experiments.strassen.ways import CPU, accuracy_of, flop_share, leveled, line_name, short, way_of
from brrr_course.nouns.claim import Judge, Status, Verdict, band_verdict, not_above, not_below, weakest
from brrr_course.nouns.source import Evidence

PREPARED = {2048: 1.05, 4096: 1.24, 8192: 1.36, 16384: 1.4}
TIMED = {4096: 1.18, 8192: 1.3, 16384: 1.35}
FP32, FP32_READY = leveled("sgemm", prepared=False), leveled("sgemm", prepared=True)
SPLIT = ("fp16x3", *leveled("fp16x3", prepared=False))
LARGE = 16384

TOO_FAR = "at clocks so far apart it is not decided"


# ---- the fastest of several, and two times that were measured at different clocks ----


@dataclass(frozen=True)
class Timed:
    """A line at a size: its time, the relative error and the SM clock in Hz, None where nobody told them."""

    line: str
    time: Estimate
    error: float | None
    clock_hz: float | None

    @classmethod
    def of(cls, evidence: Evidence, line: str, n: int) -> Timed:
        """NotRecordedError where the line was not measured at the size."""
        time = evidence.get(line, size=n)
        measured = all_known(evidence.source, evidence.experiment, evidence.experiment.line(line).variant)[n,]
        return cls(line, time, measured.error, measured.sm_clock_hz)


def measured(evidence: Evidence, lines: Sequence[str], n: int) -> list[Timed]:
    """Those of several lines that were measured at a size; NotRecordedError where none was."""
    found = []
    for line in lines:
        with suppress(NotRecordedError):
            found.append(Timed.of(evidence, line, n))
    if not found:
        raise NotRecordedError(f"{lines[0]} at size {n} was not measured")
    return found


def fastest(found: Iterable[Timed]) -> Timed:
    """The one with the least time."""
    return min(found, key=lambda timed: timed.time.median)


@dataclass(frozen=True)
class Compared:
    """One time over another: as measured, and in cycles where their clocks are apart."""

    one: Timed
    other: Timed

    @property
    def clocks(self) -> list[float]:
        """Both clocks, or none where one is not known."""
        found = [each.clock_hz for each in (self.one, self.other) if each.clock_hz]
        return found if len(found) == 2 else []

    @property
    def ratios(self) -> list[Estimate]:
        """As measured; before it in cycles, where the clocks are apart."""
        measured = self.one.time / self.other.time
        return [measured * (self.clocks[0] / self.clocks[1]), measured] if apart(self.clocks) else [measured]

    @property
    def told(self) -> str:
        """The ratio, or both with the two clocks."""
        if not apart(self.clocks):
            return f"{self.ratios[0]:x}"
        cycles, measured = self.ratios
        each = zip((self.one.line, self.other.line), self.clocks, strict=True)
        at = ", ".join(f"{line} at {units.quantity(clock, 'Hz')}" for line, clock in each)
        return f"{cycles:x} in cycles, {measured:x} as measured ({at})"

    def judged(self, judge: Callable[[Estimate, float], Status], bound: float) -> Status:
        """Whether it keeps a bound: *holds* and *fails* only where both ratios say so."""
        found = {judge(ratio, bound) for ratio in self.ratios}
        return found.pop() if len(found) == 1 else "undecided"

    def reason(self, status: Status) -> str:
        """Why nothing is decided, if the clocks are why."""
        return f"; {TOO_FAR}" if status == "undecided" and apart(self.clocks) else ""

    @property
    def beside(self) -> str:
        """Both errors, and the clocks where `told` has not told them: a power limit may slow one way more."""
        both, text = (self.other, self.one), ""
        if all(each.error is not None for each in both):
            text = "; relative error " + ", ".join(f"{each.error:.2g} for {each.line}" for each in both)
        if self.clocks and not apart(self.clocks):
            text += "; SM clock " + ", ".join(units.quantity(each.clock_hz or 0.0, "Hz") for each in both)
        return text


# ---- speed ----


def _gain(base: str, lines: Sequence[str], n: int, bound: float) -> Judge:
    """The fastest of some lines against one."""
    return lambda evidence: _gained(Timed.of(evidence, base, n), measured(evidence, lines, n), n, bound)


def _gained(slow: Timed, found: Iterable[Timed], n: int, bound: float) -> Verdict:
    compared = Compared(slow, fastest(found))
    status = compared.judged(not_below, bound)
    text = f"{slow.line} over {compared.other.line} at {n} is {compared.told}{compared.reason(status)}"
    return Verdict(status, f"{text}, at least {units.ratio(bound)} was claimed{compared.beside}")


def _split(n: int, bound: float) -> Judge:
    """Fast enough, and no less accurate than SGEMM: of the ways that are, the fastest counts."""

    def judge(evidence: Evidence) -> Verdict:
        slow, found = Timed.of(evidence, "sgemm", n), measured(evidence, SPLIT, n)
        accurate = [each for each in found if each.error is not None and each.error <= (slow.error or 0.0)]
        if accurate:
            return _gained(slow, accurate, n, bound)
        compared = Compared(slow, fastest(found))
        text = f"no split product is as accurate as SGEMM at {n}; {compared.ratios[-1]:x} with {compared.other.line}"
        return Verdict("fails", text + compared.beside)

    return judge


def _peak(evidence: Evidence) -> tuple[Timed, Estimate, float, float]:
    """The fastest prepared float32 way, 2n^3 over its time, what it multiplies of that, the datasheet's fp32 peak."""
    best = fastest(measured(evidence, FP32_READY, LARGE))
    way = way_of(evidence.experiment.line(best.line).variant)
    assert way is not None
    return best, 2.0 * LARGE**3 / best.time, flop_share(way), datasheet(evidence).peak("fp32", "cuda cores")


def _above_peak(evidence: Evidence) -> Verdict:
    """2n^3 over the time against the datasheet's fp32 peak."""
    best, rate, _, peak = _peak(evidence)
    text = f"{best.line} at {LARGE}: {units.quantity(rate.median, 'FLOP/s')} effective, the peak is "
    return Verdict(not_below(rate, peak), f"{text}{units.quantity(peak, 'FLOP/s')}")


def _below_peak(evidence: Evidence) -> Verdict:
    """What is really multiplied, over the time, stays below the same peak."""
    best, effective, share, peak = _peak(evidence)
    rate = effective * share
    text = f"{best.line} at {LARGE} multiplies {units.percent(share, 2)} of the FLOP: "
    text += f"{units.quantity(rate.median, 'FLOP/s')}, {units.percent(rate.median / peak, 2)} of the peak"
    return Verdict(not_above(rate, peak), text)


def _odd_sizes(evidence: Evidence) -> Verdict:
    """The fastest float32 way with levels at 4097 over that at 4096: at most 1.1x."""
    found = Compared(*(fastest(measured(evidence, FP32_READY, n)) for n in (4097, 4096)))
    status, odd = found.judged(not_above, 1.1), found.one
    text = f"{found.told}{found.reason(status)}, with {odd.line} at 4097 and {found.other.line} at 4096"
    return Verdict(status, text + (f"; relative error {odd.error:.2g} for {odd.line}" if odd.error else ""))


def _tensor_cores(evidence: Evidence) -> Verdict:
    """cuBLAS SGEMM over cuBLAS in bfloat16 at 8192, where both are limited by arithmetic: 16x within 20 %."""
    ratio = evidence.get("sgemm", size=8192) / evidence.get("bf16", size=8192)
    return band_verdict(ratio, 0.8 * 16, 1.2 * 16, f"{ratio:x} at 8192")


# ---- errors and choice ----


def _growth(evidence: Evidence) -> Verdict:
    """How much Strassen's form makes SGEMM's error grow, on the GPU or else on the CPU: at most 1.6x a level."""
    for place, library in (("", "cuBLAS SGEMM"), (CPU, "the library's SGEMM")):
        plain, found = _errors(evidence, f"{place}sgemm"), []
        for line in (*FP32, *FP32_READY):
            variant = place + line.replace(" ", "-")
            way = way_of(variant)
            if way is not None and way.form == "strassen":
                errors = _errors(evidence, variant).items()
                at = f"with {short(variant)} at "
                found += [((error / plain[n]) ** (1 / way.level), f"{at}{n}") for n, error in errors if n in plain]
        if found:
            most, where = max(found)
            text = f"at most {most:.2f}x a level, {where} against {library}; {len(found)} points"
            return Verdict("holds" if most <= 1.6 else "fails", text)
    raise NotRecordedError("no errors of Strassen's form and of the library's own product were measured")


def _errors(evidence: Evidence, variant: str) -> dict[int, float]:
    """A variant's error at each size where it was measured."""
    if variant not in evidence.source.variants(evidence.experiment):
        return {}
    known = all_known(evidence.source, evidence.experiment, variant)
    return {int(point[0]): each.error for point, each in known.items() if each.error}


def _chooses_well(evidence: Evidence) -> Verdict:
    """The time of `matmul(accuracy=)` over that of the fastest measured way that is accurate enough and may be used."""
    found = []
    for mine, n, best in picks(evidence.source):
        compared = Compared(*(Timed.of(evidence, line_name(each), n) for each in (mine, best)))
        told = f'matmul(accuracy="{accuracy_of(mine)}") at {n} against {short(best)}'
        found.append((compared.judged(not_above, 1.05), compared, told))
    if not found:
        raise NotRecordedError("no choice of matmul was measured beside the ways")
    status: Status = weakest(status for status, *_ in found)
    bad = [(min(ratio.median for ratio in one.ratios), one, told) for each, one, told in found if each == status]
    _, worst, told = max(bad, key=lambda each: each[0])  # by the smaller ratio: no more than this is certain
    text = f"at most {worst.told} of the fastest way's time{worst.reason(status)}: {told}; {len(found)} choices"
    return Verdict(status, text)


def _levels_on_frontier(evidence: Evidence) -> Verdict:
    """Whether a way with levels is on the frontier: no other is both faster and more accurate."""
    measured = sizes(evidence.source)
    if not measured:
        raise NotRecordedError("no two ways were measured with their errors")
    places = frontier(evidence.source, measured[-1])
    best = [place for place in places if not place.dominated_by]
    levels = [short(place.variant) for place in best if (way := way_of(place.variant)) is not None and way.level]
    text = f"at {measured[-1]}: {', '.join(levels) or 'none with levels'}, of {len(best)} on the frontier"
    text += clocks_note(place.clock_hz for place in places).replace(" As", "; as", 1).removesuffix(".")
    return Verdict("holds" if levels else "fails", text)


JUDGES: dict[str, Judge] = {
    "sixteen-times": _tensor_cores,
    **{f"fp32-prepared-{n}": _gain("sgemm", FP32_READY, n, gain) for n, gain in PREPARED.items()},
    **{f"fp32-timed-{n}": _gain("sgemm", FP32, n, gain) for n, gain in TIMED.items()},
    "effective-above-peak": _above_peak,
    "actual-below-peak": _below_peak,
    **{f"split-{n}": _split(n, 3.6) for n in (8192, 16384)},
    "split-stretch": _split(LARGE, 4.0),
    **{f"bf16-{n}": _gain("bf16", (*leveled("bf16", prepared=False), *leveled("bf16", prepared=True)), n, bound)
       for n, bound in ((16384, 1.2), (8192, 1.06))},
    "error-strassen": _growth,
    "odd-sizes": _odd_sizes,
    "levels-on-frontier": _levels_on_frontier,
    "matmul-chooses": _chooses_well,
}  # fmt: skip
