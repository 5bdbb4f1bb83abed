"""What the source said about repeating a multiplication, and whether it holds; and what the datasheet predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr.gpu.datasheet import Hardware, hardware
from brrr_course.experiments.judging import all_within, datasheet, queue_named
from brrr_course.experiments.repeat.theory import FMA, MULTIPLY, flop_a_step, knee, moved_bytes, peak
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below
from brrr_course.nouns.source import Evidence

LARGE, FLOAT = 2**26, "float32"
"""The source names no size; claims about the GPU's memory look at an array that no cache holds."""

WAYS = ("cuda", "triton", "compile")
Steps = dict[int, Estimate]


def along_repeat(evidence: Evidence, line: str, at_least: int = 4) -> tuple[int, Steps]:
    """The elements, and from each number of steps to the time: LARGE elements of float32.

    On the CPU queue, the most elements at which enough steps were measured.
    """
    try:
        return LARGE, _curve(evidence, line, LARGE, at_least)
    except NotRecordedError:
        for toy in evidence.experiment.twins(line.replace("compile", "cuda"))[1:]:
            for elements in sorted(_sizes(evidence, toy.name), reverse=True):
                with suppress(NotRecordedError):
                    return elements, _curve(evidence, toy.name, elements, at_least)
        raise


def _curve(evidence: Evidence, line: str, elements: int, at_least: int) -> Steps:
    found = evidence.curve(line, "repeat", elements=elements, dtype=FLOAT)
    if len(found) < at_least:
        raise NotRecordedError(f"{line} was measured at fewer than {at_least} numbers of steps")
    return {int(repeat): time for repeat, time in found.items()}


def _sizes(evidence: Evidence, line: str) -> set[int]:
    known = evidence.source.known(evidence.experiment, evidence.experiment.line(line).variant)
    place = [axis.name for axis in evidence.experiment.axes].index("elements")
    return {int(point[place]) for point in known}


def _point(repeat: int, elements: int = LARGE) -> dict[str, Value]:
    return {"repeat": repeat, "elements": elements, "dtype": FLOAT}


def _rate(amount: float, time: Estimate, scale: float = 1.0) -> Estimate:
    """An amount over a time, as a share of `scale`."""
    return amount / time / scale


def _flop(evidence: Evidence, line: str, repeat: int, elements: int = LARGE) -> float:
    kind = evidence.experiment.variant(evidence.experiment.line(line).variant).kind
    return float(repeat) * flop_a_step(kind) * elements


def measured_knee(times: Steps) -> Estimate:
    """Where the memory's time and the arithmetic's are equal, in steps: the flat part over the slope of the steep one.

    The flat part is the time of the fewest steps, the slope what the last doubling of the steps adds to each of them.
    """
    first, last = min(times), max(times)
    before = max((repeat for repeat in times if repeat <= last / 2), default=first)
    grown = times[last] - times[before]
    return times[first] * (last - before) / grown


def _growing(times: Steps) -> Steps:
    """The times, if the last doubling of the steps took at least half as long again: else the range shows no knee."""
    last = max(times)
    before = max((repeat for repeat in times if repeat <= last / 2), default=min(times))
    if times[last].median < 1.5 * times[before].median:
        raise NotRecordedError(f"{last} steps are too few to leave the flat part")
    return times


@queue_named
def _flat_at_first(evidence: Evidence) -> Verdict:
    """Fused, 32 steps over one: 0.9x to 1.1x; beside it the last number of steps that is still flat."""
    elements, times = along_repeat(evidence, "compile mul")
    if 32 not in times:
        nearest = max((repeat for repeat in times if repeat <= 32), default=1)
        raise NotRecordedError(f"32 steps were not measured; the next below is {nearest}")
    ratio = times[32] / times[min(times)]
    flat = max(repeat for repeat in times if times[repeat].median <= 1.1 * times[min(times)].median)
    text = f"32 steps over one on {elements} elements: {ratio:x}; flat, to a tenth, up to {flat}"
    return band_verdict(ratio, 0.9, 1.1, text)


@queue_named
def _knee_in_the_source(evidence: Evidence) -> Verdict:
    """The knee of the multiplications, in steps: 32 to 64."""
    elements, times = along_repeat(evidence, "compile mul")
    found = measured_knee(_growing(times))
    return band_verdict(found, 32, 64, f"the knee is at {_steps(found)} on {elements} elements")


def _knee_as_predicted(evidence: Evidence) -> Verdict:
    """The measured knee over the datasheet's, multiplications and FMAs: within a quarter, by each way measured."""
    hardware, parts, shares = datasheet(evidence), [], []
    for kind in (MULTIPLY, FMA):
        predicted = knee(hardware, kind, FLOAT)
        for line, times in _each_way(evidence, kind):
            if predicted:
                found = measured_knee(_growing(times))
                shares.append(found / predicted)
                parts.append(f"{line} at {_steps(found)}, predicted {predicted:.3g}")
    if not shares:
        raise NotRecordedError("no fused way was measured, or the datasheet has no float32 peak")
    return all_within(shares, 0.75, 1.25, "; ".join(parts))


def _each_way(evidence: Evidence, kind: str, ways: Iterable[str] = WAYS) -> list[tuple[str, Steps]]:
    """The fused ways that were measured on LARGE elements, with their times."""
    found = []
    for way in ways:
        try:
            found.append((f"{way} {kind}", _curve(evidence, f"{way} {kind}", LARGE, 4)))
        except NotRecordedError:
            continue
    return found


def _steps(found: Estimate) -> str:
    return f"{found.median:.3g} steps ({found.low:.3g} to {found.high:.3g})"


def _starts_low(evidence: Evidence) -> Verdict:
    """One multiplication an element, in FLOP/s: 0.2 TFLOP/s, within 20 %."""
    time = evidence.get("compile mul", **_point(1))
    found = _rate(_flop(evidence, "compile mul", 1), time)
    text = f"one multiplication an element reaches {_flops(found)}"
    return band_verdict(found, 0.8 * 0.2e12, 1.2 * 0.2e12, text)


def _grows_linearly(evidence: Evidence) -> Verdict:
    """From 1 to 16 multiplications the rate grows 16-fold, within 20 %."""
    one, sixteen = (evidence.get("compile mul", **_point(repeat)) for repeat in (1, 16))
    found = 16 * (one / sixteen)
    text = f"from 1 to 16 multiplications the rate grows {found:x}"
    return band_verdict(found, 0.8 * 16, 1.2 * 16, text)


def _best(evidence: Evidence, kind: str) -> tuple[str, int, Estimate]:
    """The fused way with the highest rate, the number of steps at which it has it, and the time."""
    ways = _each_way(evidence, kind)
    if not ways:
        raise NotRecordedError(f"no fused way of {kind} was measured at {LARGE} elements")
    tried = [(line, repeat, time) for line, times in ways for repeat, time in times.items()]
    return max(tried, key=lambda each: _flop(evidence, each[0], each[1]) / each[2].median)


def _half_the_peak(evidence: Evidence) -> Verdict:
    """The highest rate of multiplications alone over the datasheet's float32 peak: 45 % to 55 %."""
    return _against_the_peak(evidence, MULTIPLY, 0.45, 0.55)


def _fma_reaches_the_peak(evidence: Evidence) -> Verdict:
    """The highest rate of FMAs over the datasheet's float32 peak: 90 % at least."""
    return _against_the_peak(evidence, FMA, 0.9, 1.02)


def _against_the_peak(evidence: Evidence, kind: str, low: float, high: float) -> Verdict:
    top = peak(datasheet(evidence), FMA)
    if not top:
        raise NotRecordedError("the datasheet has no float32 peak")
    line, repeat, time = _best(evidence, kind)
    found = _rate(_flop(evidence, line, repeat), time, top)
    text = f"{line}, {repeat} steps: {_flops(_rate(_flop(evidence, line, repeat), time))}, {found:%} of the datasheet's"
    return band_verdict(found, low, high, text)


def _flops(found: Estimate) -> str:
    middle, low, high = (units.rate(each, "FLOP/s") for each in (found.median, found.low, found.high))
    return f"{middle} ({low} to {high})"


def _bandwidth_drops(evidence: Evidence) -> Verdict:
    """Bytes a second: at one step 80 % of the datasheet's bandwidth at least, at 512 less than half of the first."""
    one, last = (evidence.get("compile mul", **_point(repeat)) for repeat in (1, 512))
    bandwidth, moved = datasheet(evidence).memory_bytes_per_s, moved_bytes(_point(1))
    first, drop = _rate(moved, one, bandwidth), one / last
    text = f"{units.rate(moved / one.median, 'B/s')} at one step, {first:%} of the datasheet's; "
    text += f"{units.rate(moved / last.median, 'B/s')} at 512"
    if not_below(first, 0.8) == "holds" and drop.high < 0.5:
        return Verdict("holds", text)
    return Verdict("fails" if first.high < 0.8 or drop.low >= 0.5 else "undecided", text)


def _compute_bound_beyond(evidence: Evidence) -> Verdict:
    """128 multiplications reach 90 % to 110 % of the rate of 512: beyond 64 the arithmetic is busy."""
    few, many = (evidence.get("compile mul", **_point(repeat)) for repeat in (128, 512))
    found = many / few / 4
    return band_verdict(found, 0.9, 1.1, f"128 steps reach {found:%} of the rate of 512")


def _about_a_hundred(evidence: Evidence) -> Verdict:
    """The knee of the FMAs in FLOP an element, as the source counts its peak: about a hundred: within 20 %."""
    ways = _each_way(evidence, FMA)
    if not ways:
        raise NotRecordedError(f"no fused way of {FMA} was measured at {LARGE} elements")
    line, times = ways[0]
    found = 2 * measured_knee(_growing(times))
    text = f"{line}: memory-bound up to {found.median:.3g} FLOP an element ({found.low:.3g} to {found.high:.3g})"
    return band_verdict(found, 80, 120, text)


@queue_named
def _eager_pays_each_time(evidence: Evidence) -> Verdict:
    """Without fusion, 16 operators over one: 12x to 20x."""
    elements, times = along_repeat(evidence, "eager mul", 2)
    few, many = min(times), max((repeat for repeat in times if repeat <= 16), default=1)
    if many < 8 or few > 1:
        raise NotRecordedError("1 and 8 to 16 steps of one operator each were not measured")
    ratio = times[many] / times[few]
    text = f"{many} operators over one on {elements} elements: {ratio:x}"
    return band_verdict(ratio, 0.75 * many, 1.25 * many, text)


A100 = "a100-40gb"


def _of_a_datasheet(told: float, of: Callable[[Hardware], float], name: str) -> Judge:
    """A figure of the source against that of the A100's datasheet, within 20 %."""

    def judge(evidence: Evidence) -> Verdict:
        found = of(hardware(A100))
        return band_verdict(Estimate(found, found, found, 2), 0.8 * told, 1.2 * told, f"{found:.4g} {name}")

    return judge


def _numbers_a_second(sheet: Hardware) -> float:
    """float32 numbers read and written in a second, in billions."""
    return sheet.memory_bytes_per_s / 8e9


def _grows_faster(evidence: Evidence) -> Verdict:
    """From the GTX 1070 to the H200 the peak of arithmetic has grown more than the memory's bandwidth: at least 2x."""
    old, new = hardware("gtx-1070"), hardware("h200")
    compute = max(new.peaks.values()) / max(old.peaks.values())
    memory = new.memory_bytes_per_s / old.memory_bytes_per_s
    ratio = compute / memory
    text = f"arithmetic {units.ratio(compute)}, bandwidth {units.ratio(memory)}"
    return Verdict(not_below(Estimate(ratio, ratio, ratio, 2), 2.0), text)


def _more_arithmetic_same_time(evidence: Evidence) -> Verdict:
    """One FMA an element over one multiplication: twice the FLOP in the same time, within a tenth."""
    ratio = evidence.get("cuda fma", **_point(1)) / evidence.get("cuda mul", **_point(1))
    return band_verdict(ratio, 0.9, 1.1, f"{ratio:x}")


def _formulas(evidence: Evidence) -> Verdict:
    """Bytes over iterations a second, as the source writes it, over the bandwidth (bytes over the time of one): 1."""
    time = evidence.get("compile mul", **_point(1))
    per_second = 1 / time
    written, bandwidth = moved_bytes(_point(1)) / per_second, moved_bytes(_point(1)) / time
    text = f"{written.median:.3g} by the formula, {units.rate(bandwidth.median, 'B/s')} measured"
    return band_verdict(written / bandwidth, 0.8, 1.2, f"{text}: bytes times iterations a second is the bandwidth")


JUDGES: dict[str, Judge] = {
    "a100-312": _of_a_datasheet(312, lambda sheet: sheet.peak("bf16") / 1e12, "TFLOP/s in bf16, matrix units"),
    "a100-19.5": _of_a_datasheet(19.5, lambda sheet: sheet.peak("fp32") / 1e12, "TFLOP/s in fp32, no matrix units"),
    "fifteen-times": _of_a_datasheet(15, lambda sheet: sheet.peak("bf16") / sheet.peak("fp32"), "times"),
    "two-hundred-billion": _of_a_datasheet(200, _numbers_a_second, "billion numbers read and written a second"),
    "grows-faster": _grows_faster,
    "more-arithmetic-same-time": _more_arithmetic_same_time,
    "formulas": _formulas,
    "flat-at-first": _flat_at_first,
    "knee-32-to-64": _knee_in_the_source,
    "knee-as-predicted": _knee_as_predicted,
    "starts-at-0.2-tflops": _starts_low,
    "grows-linearly": _grows_linearly,
    "half-the-peak": _half_the_peak,
    "fma-reaches-the-peak": _fma_reaches_the_peak,
    "compute-bound-beyond-64": _compute_bound_beyond,
    "bandwidth-drops": _bandwidth_drops,
    "about-a-hundred": _about_a_hundred,
    "eager-pays-each-time": _eager_pays_each_time,
}
