"""What judges the claims on products of matrices, column by column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value, median
from brrr_course.experiments.judging import all_within, datasheet, maximum, minimum
from brrr_course.nouns.claim import Judge, Status, Verdict, band_verdict, not_above, not_below
from brrr_course.nouns.source import Evidence

SIZE, FEW, ALIGNED = 2048, 1100, (512, 1024)
MULTIPLES = tuple(range(32, 1025, 32))
STEPPED = tuple(range(1024, 2561, 128))
MINI_BATCHES = (32, 64, 96, 128, 256)
HELD_OUT = (1760, 2560, 3000)
STEP = 1.08
"""Two neighbours whose times are further apart than this are a step."""


def _time(evidence: Evidence, line: str, columns: int, dtype: str = "float32", size: int = SIZE) -> Estimate:
    return evidence.get(line, columns=columns, size=size, dtype=dtype)


def _curve(evidence: Evidence, line: str, dtype: str, size: int = SIZE) -> dict[int, Estimate]:
    return {int(n): time for n, time in evidence.curve(line, "columns", size=size, dtype=dtype).items()}


def _sweep(evidence: Evidence, dtype: str = "float32") -> dict[int, Estimate]:
    """W x at every number of columns; NotRecordedError where only some were measured."""
    found = _curve(evidence, "nn", dtype)
    if len(found) < FEW:
        raise NotRecordedError(f"fewer than {FEW} numbers of columns were measured in {dtype}")
    return found


def _rate(evidence: Evidence, columns: int, over: int, dtype: str = "float32") -> Estimate:
    """FLOP/s with some columns over those with other columns."""
    times = [_time(evidence, "nn", each, dtype) for each in (over, columns)]
    return times[0] / times[1] * (columns / over)


def _fourteen_times(evidence: Evidence) -> Verdict:
    found = _rate(evidence, 32, 1)
    return band_verdict(found, 0.8 * 14, 1.2 * 14, f"32 columns get {found:x} of the FLOP/s of one")


def _at_least_32(evidence: Evidence) -> Verdict:
    rates = {n: _rate(evidence, 32, n) for n in (1, 2, 4, 8, 16)}
    text = ", ".join(f"{rate:x} of {n}" for n, rate in rates.items())
    return Verdict(not_below(minimum(rates.values()), 1.0), f"32 columns get the FLOP/s: {text}")


def _multiples(dtype: str) -> Judge:
    """FLOP/s at each multiple of 32 over the better of its neighbours: the smallest above 1."""

    def judge(evidence: Evidence) -> Verdict:
        found = {n: minimum(_rate(evidence, n, near, dtype) for near in (n - 1, n + 1)) for n in MULTIPLES}
        worst = min(found, key=lambda n: found[n].median)
        wins = sum(each.low > 1 for each in found.values())
        text = (
            f"faster than both neighbours at {wins} of {len(found)} multiples; the least is {found[worst]:x} at {worst}"
        )
        return Verdict(not_below(minimum(found.values()), 1.0), text)

    return judge


def _not_monotonic(evidence: Evidence) -> Verdict:
    """The largest loss of FLOP/s from some number of columns to any larger one."""
    curve = _sweep(evidence)
    best, drop, where = Estimate(0.0, 0.0, 0.0, 9), Estimate(0.0, 0.0, 0.0, 9), (0, 0)
    top = 0
    for n, time in curve.items():
        rate = n / time
        if best.median and (best / rate).median > drop.median:
            drop, where = best / rate, (top, n)
        if rate.median > best.median:
            best, top = rate, n
    text = f"{where[1]} columns get {1 / drop:x} of the FLOP/s of {where[0]}"
    return Verdict(not_below(drop, 1.0), text)


def _layouts(evidence: Evidence) -> dict[tuple[int, int], Estimate]:
    """The time of the slower of NN and TN over the faster, by size and columns."""
    found = {}
    for size in STEPPED:
        for n in MINI_BATCHES:
            one, other = (_time(evidence, line, n, size=size) for line in ("nn", "tn"))
            found[size, n] = one / other if one.median >= other.median else other / one
    return found


def _asymmetry(evidence: Evidence) -> Verdict:
    """Significant at some sizes (at least 1.2x), and not at all (under 1.05x at some)."""
    found = _layouts(evidence)
    worst = max(found, key=lambda key: found[key].median)
    large, none = sum(each.low >= 1.2 for each in found.values()), sum(each.high <= 1.05 for each in found.values())
    text = (
        f"one layout is at least 1.2x faster at {large} of {len(found)} points, both alike within 5 % at {none}; "
        f"the most is {found[worst]:x} at M = K = {worst[0]}, {worst[1]} columns"
    )
    return Verdict("holds" if large and none else "fails", text)


def _slightly(evidence: Evidence) -> Verdict:
    found = maximum(_layouts(evidence).values())
    return Verdict(not_above(found, 1.2), f"the slower of NN and TN takes up to {found:x} of the other's time")


def _size_independent(evidence: Evidence) -> Verdict:
    """The best FLOP/s of three sizes over the worst."""
    rates = {size: size**2 / _time(evidence, "nn", 2048, size=size) for size in (2048, 4096, 8192)}
    best, worst = (pick(rates, key=lambda size: rates[size].median) for pick in (max, min))
    found = rates[best] / rates[worst]
    return Verdict(not_above(found, 1.1), f"size {best} gets {found:x} of the FLOP/s of size {worst}")


def _about_64(evidence: Evidence) -> Verdict:
    """FLOP/s at 64 columns over the best of all."""
    rates = {n: n / time for n, time in _sweep(evidence).items()}
    top = max(rates, key=lambda n: rates[n].median)
    found = rates[64] / rates[top]
    return Verdict(not_below(found, 0.8), f"64 columns get {found:%} of the FLOP/s of {top}")


def _data_change_nothing(evidence: Evidence) -> Verdict:
    """The time on zeros over that on random numbers, per type."""
    found = {
        dtype: _time(evidence, "zeros", 4096, dtype, 8192) / _time(evidence, "nn", 4096, dtype, 8192)
        for dtype in ("float32", "bfloat16")
    }
    return all_within(found.values(), 0.9, 1.1, "; ".join(f"zeros in {d}: {r:x} of the time" for d, r in found.items()))


def launched(evidence: Evidence, dtype: str, size: int = SIZE) -> dict[int, str]:
    """The first kernel of W x, as the profiler named it, by the number of columns."""
    known = evidence.source.known(evidence.experiment, "nn").items()
    found = {int(n): m.launched[0] for (n, at, kind), m in known if (at, kind) == (size, dtype) and m.launched}
    if not found:
        raise NotRecordedError(f"no kernel's name was recorded for {dtype} at M = K = {size}")
    return found


def tile(kernel: str) -> tuple[int, int] | None:
    """The tile of the result that a library's kernel tells in its name; None where it tells none.

    >>> tile("cutlass_80_simt_sgemm_128x64_8x5_nn_align1 16x8x1 of 128"), tile("gemv2T_kernel_val 1x1x1 of 128")
    ((128, 64), None)
    >>> tile("nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT 4x22x1 of 384")
    (64, 24)
    """
    found = re.search(r"(\d+)x(\d+)", kernel.partition(" ")[0])
    return (int(found[1]), int(found[2])) if found else None


def blocks(kernel: str) -> int:
    """How many blocks a kernel was launched with.

    >>> blocks("nvjet_sss_128x64_64x5_2x1_v_bz_TNT 132x2x1 of 384")
    264
    """
    count = 1
    for each in kernel.split()[-3].split("x"):
        count *= int(each)
    return count


def _tiles(evidence: Evidence) -> Verdict:
    tiles = [tile(kernel) for kernel in launched(evidence, "float32").values()]
    inside = sum(each is not None and all(32 <= side <= 128 for side in each) for each in tiles)
    share = inside / len(tiles)
    return Verdict("holds" if share > 0.5 else "fails", f"{inside} of {len(tiles)} products have tiles of 32 to 128")


def _several_blocks(evidence: Evidence) -> Verdict:
    """Blocks per multiprocessor of the kernel that reaches the most FLOP/s."""
    kernels, rates = launched(evidence, "float32"), {n: n / t for n, t in _curve(evidence, "nn", "float32").items()}
    top = max(kernels, key=lambda n: rates[n].median)
    count, sms = blocks(kernels[top]), datasheet(evidence).sm_count or 1
    text = f"the fastest product, {top} columns, has {count} blocks on {sms} multiprocessors ({kernels[top]})"
    return Verdict("holds" if count >= 2 * sms else "fails", text)


def _one_more(evidence: Evidence) -> Verdict:
    found = {n: _time(evidence, "nn", n + 1, "bfloat16") / _time(evidence, "nn", n, "bfloat16") for n in ALIGNED}
    text = ", ".join(f"{n + 1} over {n} columns: {ratio:x}" for n, ratio in found.items())
    return Verdict(not_below(minimum(found.values()), 5.0), text)


def _two_columns(evidence: Evidence) -> Verdict:
    found = _time(evidence, "nn", 2) / _time(evidence, "nn", 1)
    return band_verdict(found, 0.8 * 8, 1.2 * 8, f"two columns take {found:x} of the time of one")


def _odd_rows(evidence: Evidence) -> Verdict:
    """A Linear with 32 i + 1 rows over 32 (i + 1)."""
    found = {n: _time(evidence, "linear", n - 31, "bfloat16") / _time(evidence, "linear", n, "bfloat16")
             for n in MULTIPLES[1:]}  # fmt: skip
    worst = max(found, key=lambda n: found[n].median)
    return Verdict(not_above(maximum(found.values()), 1.1), f"at most {found[worst]:x}, with {worst - 31} rows")


def _padding_gains(evidence: Evidence) -> Verdict:
    found = _time(evidence, "nn", 1025, "bfloat16") / _time(evidence, "padded", 1025, "bfloat16")
    return Verdict(not_below(found, 5.0), f"padding makes 1025 columns {found:x} as fast")


def _padding_never_slower(evidence: Evidence) -> Verdict:
    found: dict[tuple[Value, ...], Estimate] = {}
    for dtype in ("bfloat16", "float16"):
        plain, padded = (_curve(evidence, line, dtype) for line in ("nn", "padded"))
        found |= {(dtype, n): plain[n] / padded[n] for n in plain.keys() & padded.keys()}
    if not found:
        raise NotRecordedError("padding was measured nowhere beside torch.mm")
    worst = min(found, key=lambda key: found[key].median)
    slower = sum(each.high < 0.98 for each in found.values())
    text = f"the least gain is {found[worst]:x} at {worst[1]} columns in {worst[0]}; slower at {slower} of {len(found)}"
    return Verdict(not_below(minimum(found.values()), 0.98), text)


# ---------------------------------------------------------------------------------------------------------------------
# The predictor against a sweep.


def foretold(evidence: Evidence, dtype: str, size: int = SIZE) -> tuple[dict[int, float], dict[int, float]]:
    """Measured and predicted seconds of W x, by the number of columns."""
    from brrr.roofline.shapes import product_time_s

    device, kind = datasheet(evidence).key, evidence.experiment.variant("nn")
    measured = {n: time.median for n, time in _curve(evidence, "nn", dtype, size).items()}
    predicted = {}
    for n in measured:
        run = evidence.experiment.predicted_run(kind.name, {"columns": n, "size": size, "dtype": dtype})
        assert run is not None
        predicted[n] = product_time_s(run.cost.matmuls[0], device)
    return measured, predicted


def steps(times: Mapping[int, float]) -> set[int]:
    """The numbers of columns at which the time is another than at one column fewer, by more than STEP.

    >>> steps({1: 1.0, 2: 1.01, 3: 1.2, 5: 2.0})
    {3}
    """
    pairs = [(n, times[n - 1], times[n]) for n in times if n - 1 in times]
    return {n for n, before, now in pairs if max(before / now, now / before) > STEP}


def _steps_located(evidence: Evidence) -> Verdict:
    told = []
    for dtype in ("float32", "bfloat16"):
        _sweep(evidence, dtype)
        measured, predicted = ({n: each[n] for n in each if n <= FEW} for each in foretold(evidence, dtype))
        seen = steps(measured)
        told.append((len(seen & steps(predicted)), len(seen), dtype))
    text = ", ".join(f"{hit} of {seen} steps in {dtype}" for hit, seen, dtype in told)
    status: Status = "holds" if all(hit >= 0.9 * seen for hit, seen, _ in told) else "fails"
    return Verdict(status, f"predicted at the exact column: {text}")


def _error(sizes: tuple[int, ...], limit: float) -> Callable[[Evidence], Verdict]:
    def judge(evidence: Evidence) -> Verdict:
        told = {}
        for size in sizes:
            for dtype in ("float32", "bfloat16"):
                measured, predicted = foretold(evidence, dtype, size)
                told[f"{dtype} at {size}"] = median([abs(predicted[n] / measured[n] - 1) for n in measured])
        text = ", ".join(f"{units.percent(error, 2)} in {where}" for where, error in told.items())
        return Verdict("holds" if max(told.values()) <= limit else "fails", f"median error {text}")

    return judge


JUDGES: dict[str, Judge] = {
    "fourteen-times": _fourteen_times,
    "at-least-32": _at_least_32,
    "multiples-of-32": _multiples("float32"),
    "multiples-in-bf16": _multiples("bfloat16"),
    "not-monotonic": _not_monotonic,
    "asymmetry": _asymmetry,
    "slightly": _slightly,
    "size-independent": _size_independent,
    "about-64": _about_64,
    "data-change-nothing": _data_change_nothing,
    "tiles": _tiles,
    "several-blocks": _several_blocks,
    "one-more-column": _one_more,
    "two-columns": _two_columns,
    "odd-rows": _odd_rows,
    "padding-gains": _padding_gains,
    "padding-never-slower": _padding_never_slower,
    "steps-located": _steps_located,
    "sweep-error": _error((SIZE,), 0.05),
    "held-out": _error(HELD_OUT, 0.08),
}
