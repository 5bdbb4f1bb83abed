"""What the forum thread said about the pseudo-linear layer, and what holds; and this package's own explanation."""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr_course.experiments.judging import all_within, at, curve, datasheet, maximum, minimum
from brrr_course.experiments.pseudo_linear.theory import BOTH, FORWARD, linear_cost, pseudo_cost, speedup_by_roofline
from brrr_course.experiments.published import pseudo_linear
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_above, not_below, weakest
from brrr_course.nouns.source import Evidence

FEW, SOME, MANY = 128, 2048, 32768


def speedups(evidence: Evidence, line: str, base: str, **rest: Value) -> dict[int, Estimate]:
    """From each width to the time of `base` over that of `line`, with the interval that theirs allow."""
    slow, fast = curve(evidence, base, "width", **rest), curve(evidence, line, "width", **rest)
    return {width: slow[width] / fast[width] for width in sorted(set(slow) & set(fast))}


def widest(found: dict[int, Estimate], at_least: int = 2) -> int:
    """The largest width of a curve; NotRecordedError where it has fewer points than `at_least`."""
    if len(found) < at_least:
        raise NotRecordedError(f"fewer than {at_least} widths were measured")
    return max(found)


def _grows(evidence: Evidence) -> Verdict:
    """No width falls more than a tenth below a narrower one, and the widest gains 4 times over the narrowest."""
    found = speedups(evidence, "pseudo eager", "linear eager", batch=MANY, direction=FORWARD)
    last = widest(found, 3)
    best, falls = 0.0, []
    for width, ratio in found.items():
        falls += [f"width {width}"] if ratio.median < 0.9 * best else []
        best = max(best, ratio.median)
    narrow, wide = found[min(found)].median, found[last].median
    text = f"from {units.ratio(narrow)} at width {min(found)} to {units.ratio(wide)} at {last}"
    text += f"; it falls back at {', '.join(falls)}" if falls else "; it never falls back by more than a tenth"
    return Verdict("holds" if wide >= 4 * narrow and not falls else "fails", text)


def _no_gain_when_narrow(evidence: Evidence) -> Verdict:
    """The speed-up at width 128, where the thread's tables start, few rows: from 1/1.2x to 1x."""
    parts, narrow = [], None
    for batch in (FEW, SOME, MANY):
        found = speedups(evidence, "pseudo eager", "linear eager", batch=batch, direction=FORWARD)
        parts.append(f"batch {batch}: {found[128]:x}" if 128 in found else f"batch {batch}: not measured")
        narrow = found.get(128) if batch == FEW else narrow
    if narrow is None:
        raise NotRecordedError(f"width 128 at batch {FEW} was not measured")
    return band_verdict(narrow, 1 / 1.2, 1.0, f"speed-up at width 128: {'; '.join(parts)}")


def _the_width(evidence: Evidence) -> Verdict:
    """The speed-up at the widest layer as a share of the width, forward and with backward: 80 % to 120 %."""
    parts, shares = [], []
    for direction in (FORWARD, BOTH):
        found = speedups(evidence, "pseudo eager", "linear eager", batch=MANY, direction=direction)
        width = widest(found)
        shares.append(found[width] / width)
        ratio, share = units.ratio(found[width].median), units.percent(shares[-1].median, 2)
        parts.append(f"{direction}, width {width}: {ratio}, {share} of the width")
    return all_within(shares, 0.8, 1.2, "; ".join(parts))


def _no_limit(evidence: Evidence) -> Verdict:
    """From half the widest layer, or less, to the widest the speed-up gains at least half of what the width gains."""
    found = speedups(evidence, "pseudo eager", "linear eager", batch=MANY, direction=FORWARD)
    last = widest(found, 3)
    before = max((width for width in found if width <= last / 2), default=min(found))
    text = f"from width {before} to {last} the speed-up goes from {found[before]:x} to {found[last]:x}"
    return Verdict(not_below(found[last] / found[before], 1 + (last / before - 1) / 2), text)


def _graphs_help_narrow(evidence: Evidence) -> Verdict:
    """Eager over graph of the pseudo layer at width 256 and few rows: at least 1.2x; beside it the wide layer."""
    point: dict[str, Value] = {"width": 256, "batch": FEW, "direction": FORWARD}
    gain = at(evidence, "pseudo eager", **point) / at(evidence, "pseudo graph", **point)
    text = f"a graph gains {gain:x} at width 256, batch {FEW}"
    wide = speedups(evidence, "pseudo graph", "pseudo eager", batch=MANY, direction=FORWARD)
    text += f", and {wide[max(wide)]:x} at width {max(wide)}, batch {MANY}" if wide else ""
    return Verdict(not_below(gain, 1.2), text)


def _graphs_stop_paying(evidence: Evidence) -> Verdict:
    """A graph gains 5 % up to some width, and no longer from a wider one on: both were measured."""
    found = speedups(evidence, "pseudo graph", "pseudo eager", batch=SOME, direction=FORWARD)
    pays = [width for width, gain in found.items() if gain.low >= 1.05]
    stops = [width for width, gain in found.items() if gain.high < 1.05]
    if not pays or not stops:
        seen = f"at batch {SOME} a graph gains 5 % and more at {_listed(pays)}, less at {_listed(stops)}"
        return Verdict("fails" if pays or stops else "undecided", seen)
    text = f"at batch {SOME} a graph gains 5 % and more up to width {max(pays)}, and not from {min(stops)} on"
    return Verdict("holds" if max(pays) < min(stops) else "undecided", text)


def _four_times(evidence: Evidence) -> Verdict:
    """(1024 x 1024) / (256 x 256), as the thread has it, is about 4."""
    found = (1024 * 1024) / (256 * 256)
    return band_verdict(Estimate(found, found, found, 2), 3.2, 4.8, f"it is {found:g}")


def _as_the_table(table: str, base: str, line: str) -> Judge:
    """The measured speed-up over that of one of the thread's tables, at each width of both: within 20 %."""

    def judge(evidence: Evidence) -> Verdict:
        told = {row.width: row.speedup for row in pseudo_linear(table)}
        found = speedups(evidence, line, base, batch=MANY, direction=FORWARD)
        both = {width: ratio / told[width] for width, ratio in found.items() if width in told}
        if not both:
            raise NotRecordedError("no width of the table was measured")
        text = ", ".join(f"{units.ratio(found[w].median)} at {w} (told {units.ratio(told[w])})" for w in both)
        return all_within(both.values(), 0.8, 1.2, text)

    return judge


def _differs_between_gpus(evidence: Evidence) -> Verdict:
    """The thread's tables of its two GPUs, the same code: at no width within 10 % of each other."""
    one, other = ({row.width: row.speedup for row in pseudo_linear(f"gpu_{name}_eager")} for name in "ab")
    apart = {width: other[width] / one[width] for width in sorted(one.keys() & other.keys())}
    near = [width for width, ratio in apart.items() if 0.9 <= ratio <= 1.1]
    text = f"GPU B over GPU A: {', '.join(f'{units.ratio(ratio)} at {width}' for width, ratio in apart.items())}"
    return Verdict("fails" if near else "holds", text)


def _all_over_the_place(evidence: Evidence) -> Verdict:
    """From width 2048 on, what a doubling of the width gains differs by 1.2x and more from doubling to doubling."""
    found = speedups(evidence, "pseudo eager", "linear eager", batch=MANY, direction=FORWARD)
    steps = {width: found[2 * width] / found[width] for width in found if width >= 2048 and 2 * width in found}
    if len(steps) < 2:
        raise NotRecordedError("fewer than two doublings from width 2048 on were measured")
    text = ", ".join(f"{ratio:x} from {width}" for width, ratio in steps.items())
    return Verdict(not_below(max(steps.values()) / min(steps.values()), 1.2), f"a doubling gains {text}")


def _many_rows_fill_the_gpu(evidence: Evidence) -> Verdict:
    """The stand-in's bytes a second at width 128, batch 32768, over those at width 8192: at least 90 %."""
    found = curve(evidence, "pseudo busy", "width", batch=MANY, direction=FORWARD)
    if missing := {128, 8192} - found.keys():
        raise NotRecordedError(f"width {min(missing)} was not measured")
    rates = {width: pseudo_cost(width, MANY).bytes / found[width] for width in (128, 8192)}
    share = rates[128] / rates[8192]
    return Verdict(not_below(share, 0.9), f"{share:%} of the bandwidth at width 8192")


def _listed(widths: list[int]) -> str:
    return f"width {', '.join(map(str, widths))}" if widths else "no width"


def _compiling_helps_pseudo_only(evidence: Evidence) -> Verdict:
    """torch.compile gains up to 1.2x on the pseudo layer and at most 1.05x on the linear one, width 4096."""
    point: dict[str, Value] = {"width": 4096, "batch": MANY, "direction": FORWARD}
    gains = {}
    for layer in ("pseudo", "linear"):
        gains[layer] = at(evidence, f"{layer} eager", **point) / at(evidence, f"{layer} compile", **point)
    text = f"torch.compile gains {gains['pseudo']:x} on pseudo and {gains['linear']:x} on Linear, width 4096"
    one = band_verdict(gains["pseudo"], 1.0, 1.2, text).status
    other = not_above(gains["linear"], 1.05)
    return Verdict(weakest((one, other)), text)


def _fused_halves_the_traffic(evidence: Evidence) -> Verdict:
    """Eager over fused at the widest layer: at least 1.8x, for two kernels move four tensors and one moves two."""
    found = speedups(evidence, "pseudo triton", "pseudo eager", batch=MANY, direction=FORWARD)
    width = widest(found)
    text = f"at width {width}, batch {MANY}, the fused kernel is {found[width]:x} as fast"
    return Verdict(not_below(found[width], 1.8), text)


def _as_the_roofline_says(evidence: Evidence) -> Verdict:
    """Measured over predicted speed-up of the fused layer at widths from 4096 on: 0.75 to 1.25."""
    hardware = datasheet(evidence)
    found = speedups(evidence, "pseudo triton", "linear eager", batch=MANY, direction=FORWARD)
    wide = {width: ratio for width, ratio in found.items() if width >= 4096}
    if not wide:
        raise NotRecordedError("no width from 4096 on was measured")
    parts, quotients = [], []
    for width, ratio in wide.items():
        predicted = speedup_by_roofline(hardware, {"width": width, "batch": MANY, "direction": FORWARD}) or float("nan")
        quotients.append(ratio / predicted)
        parts.append(f"{units.ratio(ratio.median)} at {width} (predicted {units.ratio(predicted)})")
    all_ = Estimate(quotients[0].median, minimum(quotients).low, maximum(quotients).high, len(quotients))
    return band_verdict(all_, 0.75, 1.25, "; ".join(parts))


def _clever_multiplication(evidence: Evidence) -> Verdict:
    """Three tests of "fewer multiplications"; the thread's guess fails if all three speak against it.

    With fewer than n³ multiplications the rate counted with all n³ could exceed the peak, and whole numbers close to
    the limit of exactness would come out rounded. And if the stand-in runs at the memory's pace, its bytes explain its
    time, and nothing is left for the matrix product to explain.
    """
    hardware = datasheet(evidence)
    linear = curve(evidence, "linear busy", "width", batch=MANY, direction=FORWARD)
    pseudo = curve(evidence, "pseudo triton busy", "width", batch=MANY, direction=FORWARD)
    width = max(set(linear) & set(pseudo))
    exact = sorted(int(width) for width, *_ in evidence.source.known(evidence.experiment, "linear-integers"))
    if not exact:
        raise NotRecordedError("the product of whole numbers was not measured, or did not come out exact")
    peak = hardware.peak("fp32")
    rates = [linear_cost(w, MANY).flop / time.median / peak for w, time in linear.items()]
    beyond = [w for w, time in linear.items() if linear_cost(w, MANY).flop / time.high > peak]
    nbytes = pseudo_cost(width, MANY).bytes
    share = nbytes / pseudo[width].median / hardware.memory_bytes_per_s
    most = linear[width].median * hardware.memory_bytes_per_s / nbytes
    text = (
        f"counted with all its multiplications, Linear reaches at most {units.percent(max(rates), 2)} of the fp32 "
        f"peak; its products of whole numbers are exact at width {' and '.join(map(str, exact))}; the fused stand-in "
        f"moves its bytes at {units.percent(share, 2)} of the bandwidth, at which no stand-in of width {width} "
        f"can be more than {units.ratio(most)} faster"
    )
    if beyond:
        return Verdict("holds", text)
    return Verdict("fails" if share >= 0.7 else "undecided", text)


JUDGES: dict[str, Judge] = {
    "four-times": _four_times,
    "table-of-gpu-a": _as_the_table("gpu_a_eager", "linear eager", "pseudo eager"),
    "table-of-gpu-b": _as_the_table("gpu_b_eager", "linear eager", "pseudo eager"),
    "table-of-the-graph": _as_the_table("gpu_b_cuda_graph", "linear graph", "pseudo graph"),
    "differs-between-gpus": _differs_between_gpus,
    "all-over-the-place": _all_over_the_place,
    "many-rows-fill-the-gpu": _many_rows_fill_the_gpu,
    "grows-with-width": _grows,
    "narrow-no-gain": _no_gain_when_narrow,
    "the-width": _the_width,
    "no-limit": _no_limit,
    "graphs-help-narrow": _graphs_help_narrow,
    "graphs-stop-paying": _graphs_stop_paying,
    "compiling-helps-pseudo-only": _compiling_helps_pseudo_only,
    "fused-halves-traffic": _fused_halves_the_traffic,
    "as-the-roofline-says": _as_the_roofline_says,
    "clever-multiplication": _clever_multiplication,
}
