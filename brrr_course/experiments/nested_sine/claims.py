"""What is claimed of the nested sine: who wins where, what the transfers weigh, what waiting and fusing change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr_course.experiments.judging import Curve, curve, datasheet, largest, power, queue_named, traced, wins_from
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below
from brrr_course.nouns.source import Evidence

SCALE = 2**20
"""Elements: claims about what happens at scale ask for so many at least."""

SMALL, LARGE, TRACED, COMPARED = 2**10, 2**28, 2**28, 2**24
TINY, DOMINATE, NEAR, MEMORY_SHARE = 10.0, 0.5, 0.1, 0.6


def _who(evidence: Evidence, *lines: str, at_least: int = SCALE) -> tuple[int, list[Curve]]:
    """The largest size at which all lines were measured, and the lines."""
    curves = {line: curve(evidence, line, "elements") for line in lines}
    return largest(curves, at_least), list(curves.values())


@queue_named
def _cpu_wins_at_scale(evidence: Evidence) -> Verdict:
    gpu = "with transfers"
    size, (sent, cpu) = _who(evidence, gpu, "cpu")
    ratio = sent[size] / cpu[size]
    text = f"at {power(size)} {gpu} over CPU is {ratio:x}"
    return Verdict(not_below(ratio, 1.0), f"{text}; {_crossing_text(sent, cpu, gpu)}")


def _pinned_turns_it(evidence: Evidence) -> Verdict:
    size, (cpu, sent) = _who(evidence, "cpu", "pinned")
    ratio = cpu[size] / sent[size]
    text = f"at {power(size)} the CPU over the GPU with pinned transfers is {ratio:x}"
    return Verdict(not_below(ratio, 1.0), f"{text}; {_crossing_text(sent, cpu, 'pinned')}")


def _new_memory_costs(evidence: Evidence) -> Verdict:
    """With a new result for each call over the same with one that is kept: at least 2x."""
    new, kept = (evidence.get(line, elements=COMPARED) for line in ("with transfers", "kept"))
    ratio = new / kept
    return Verdict(not_below(ratio, 2.0), f"at {power(COMPARED)} a new result takes {ratio:x} the time of one kept")


def _pinning_alone(evidence: Evidence) -> Verdict:
    """Pageable memory that is kept over pinned memory that is kept: 1.5x to 4x."""
    kept, pinned = (evidence.get(line, elements=COMPARED) for line in ("kept", "pinned"))
    ratio = kept / pinned
    text = f"at {power(COMPARED)} kept pageable memory takes {ratio:x} the time of kept pinned memory"
    return band_verdict(ratio, 1.5, 4.0, text)


def _crossing_text(gpu: Curve, cpu: Curve, line: str) -> str:
    size = wins_from(gpu, cpu)
    return f"{line} wins from {power(size)} on" if size else f"{line} wins at no size and all larger ones"


@queue_named
def _gpu_needs_scale(evidence: Evidence) -> Verdict:
    """Without transfers: the CPU at the smallest size, the GPU from some size on."""
    gpu, cpu = curve(evidence, "without transfers", "elements"), curve(evidence, "cpu", "elements")
    size, smallest = wins_from(gpu, cpu), min(set(gpu) & set(cpu), default=0)
    text = _crossing_text(gpu, cpu, "without transfers")
    return Verdict("holds" if size is not None and size > smallest else "fails", text)


@queue_named
def _compute_is_tiny(evidence: Evidence) -> Verdict:
    size, (sent, there) = _who(evidence, "with transfers", "without transfers")
    ratio = sent[size] / there[size]
    return Verdict(not_below(ratio, TINY), f"with over without transfers at {power(size)} is {ratio:x}")


@queue_named
def _transfers_dominate(evidence: Evidence) -> Verdict:
    size, (sent, there) = _who(evidence, "with transfers", "without transfers")
    found = 1 - there[size] / sent[size]
    return Verdict(not_below(found, DOMINATE), f"transfers take {found:%} at {power(size)}")


def _trace_agrees(evidence: Evidence) -> Verdict:
    """The copies' share of a traced call against one minus without over with."""
    sent, there = (evidence.get(line, elements=TRACED) for line in ("with transfers", "without transfers"))
    measured = 1 - there.median / sent.median
    trace = traced(evidence, "gpu-transfers", elements=TRACED)
    of_call, of_busy = trace.transfer_share_of_period, trace.transfer_share or 0.0
    text = f"at {power(TRACED)} the copies take {units.percent(of_call, 2)} of a traced call"
    text += f" ({units.percent(of_busy, 2)} of the GPU's busy time), and {units.percent(measured, 2)} by subtraction"
    return Verdict("holds" if abs(of_call - measured) <= NEAR and of_call >= DOMINATE else "fails", text)


def _one_after_another(evidence: Evidence) -> Verdict:
    evidence.get("with transfers", elements=TRACED)
    trace = traced(evidence, "gpu-transfers", elements=TRACED)
    together, streams = trace.overlap_share or 0.0, len(trace.streams)
    text = f"{streams} stream{'s' * (streams != 1)}, {units.percent(together, 2)} of the busy time shared by two"
    return Verdict("holds" if streams == 1 and together <= 0.01 else "fails", text)


@queue_named
def _wait_is_needed(evidence: Evidence) -> Verdict:
    """A size that is right with the wait and has no right result without it would speak for the claim."""
    waits, plain = (curve(evidence, line, "elements") for line in ("extra synchronize", "with transfers"))
    lacking = sorted(set(waits) - set(plain))
    if lacking:
        return Verdict("undecided", f"without the wait there is no checked result at {power(lacking[0])}")
    text = f"without the wait the result is right at all {len(waits)} sizes measured with it"
    return Verdict("fails", f"{text}: fetching waits for what comes before it")


def _wait_changes_nothing(evidence: Evidence, line: str) -> Verdict:
    size, (waits, plain) = _who(evidence, line, "with transfers")
    ratio = waits[size] / plain[size]
    return band_verdict(ratio, 1 - NEAR, 1 + NEAR, f"with the wait over without it at {power(size)}: {ratio:x}")


def _saved(evidence: Evidence, before: str, after: str, elements: int) -> Verdict:
    """The share of the time that fusing saves: almost half is 40 % to 50 %."""
    base, fused = (evidence.get(line, elements=elements) for line in (before, after))
    saved = 1 - fused / base
    text = f"at {power(elements)} torch.jit.script saves {saved:%}"
    with suppress(NotRecordedError):
        compiled = evidence.get(after.replace("scripted", "compiled"), elements=elements)
        text += f", torch.compile {1 - compiled / base:%}"
    return band_verdict(saved, 0.4, 0.5, text)


def _one_kernel(evidence: Evidence) -> Verdict:
    """The number of kernels of a call, as the profiler counted them."""
    counts = _kernels(evidence, "gpu", "gpu-scripted", "gpu-compiled")
    right = counts["gpu"] == [4] and counts["gpu-scripted"] == [1]
    return Verdict("holds" if right else "fails", f"kernels a call: {_listed(counts)}")


def _scripted_first_call(evidence: Evidence) -> Verdict:
    counts = _kernels(evidence, "gpu-scripted-first", "gpu-scripted")
    return Verdict("holds" if list(counts.values()) == [[4], [1]] else "fails", f"kernels a call: {_listed(counts)}")


def _kernels(evidence: Evidence, *variants: str) -> dict[str, list[int]]:
    """The numbers of kernels of a call that were counted, by variant."""
    counts = {}
    for variant in variants:
        known = evidence.source.known(evidence.experiment, variant)
        few = [found.kernels for (size,), found in known.items() if int(size) <= LARGE]  # above, torch cuts arrays up
        numbers = sorted({count for count in few if count is not None})
        if not numbers:
            raise NotRecordedError(f"no kernels of {variant} were counted")
        counts[variant] = numbers
    return counts


def _listed(counts: Mapping[str, Sequence[int]]) -> str:
    return "; ".join(f"{name}: {' or '.join(map(str, numbers))}" for name, numbers in counts.items())


@queue_named
def _free_gpu_loses(evidence: Evidence) -> Verdict:
    """The transfers alone (with less without) over the CPU's whole time: even a GPU that computes in no time."""
    size, (sent, there, cpu) = _who(evidence, "with transfers", "without transfers", "cpu")
    ratio = (sent[size] - there[size]) / cpu[size]
    text = f"the transfers alone over the CPU at {power(size)} are {ratio:x}"
    return Verdict(not_below(ratio, 1.0), text)


def _memory_bound(evidence: Evidence) -> Verdict:
    """Four kernels read and write 8 bytes of each element: their bytes a second over the datasheet's."""
    peak = datasheet(evidence).memory_bytes_per_s
    time = evidence.get("kernels", elements=LARGE)
    found = 4 * 8 * LARGE / time / peak
    text = f"the four kernels move {found:%} of the {units.rate(peak, 'B/s')} of the datasheet at {power(LARGE)}"
    return Verdict(not_below(found, MEMORY_SHARE), text)


def _drawing_is_large(evidence: Evidence) -> Verdict:
    """Drawing the input, which the trace shows on the CPU, over the whole work with transfers."""
    size, (drawn, sent) = _who(evidence, "drawing", "with transfers")
    ratio = drawn[size] / sent[size]
    text = f"drawing the numbers over working on them, transfers and all, at {power(size)} is {ratio:x}"
    return Verdict(not_below(ratio, 1.0), text)


def _eight_gigabytes(evidence: Evidence) -> Verdict:
    """Arithmetic; the source's plot speaks of twice as many elements."""
    size = 4 * 2**31
    text = (
        f"2^31 times 4 bytes are {units.nbytes(size)}; the 2^32 of the source's plot would be {units.nbytes(2 * size)}"
    )
    return Verdict("holds" if abs(size / 8.5e9 - 1) <= 0.02 else "fails", text)


JUDGES: dict[str, Judge] = {
    "cpu-wins-at-scale": _cpu_wins_at_scale,
    "compute-is-tiny": _compute_is_tiny,
    "gpu-needs-scale": _gpu_needs_scale,
    "transfers-dominate": _transfers_dominate,
    "trace-agrees": _trace_agrees,
    "eight-gigabytes": _eight_gigabytes,
    "drawing-is-large": queue_named(_drawing_is_large),
    "one-after-another": _one_after_another,
    "wait-is-needed": _wait_is_needed,
    "wait-changes-no-time": queue_named(lambda evidence: _wait_changes_nothing(evidence, "extra synchronize")),
    "wait-after": lambda evidence: _wait_changes_nothing(evidence, "wait after"),
    "new-memory-costs": _new_memory_costs,
    "pinning-alone": _pinning_alone,
    "one-kernel": _one_kernel,
    "scripted-first-call": _scripted_first_call,
    "fusing-saves-half-small": lambda evidence: _saved(evidence, "without transfers", "scripted", SMALL),
    "fusing-saves-half-large": lambda evidence: _saved(evidence, "kernels", "scripted kernel", LARGE),
    "memory-bound": _memory_bound,
    "free-gpu-loses": _free_gpu_loses,
    "pinned-turns-it": _pinned_turns_it,
}
