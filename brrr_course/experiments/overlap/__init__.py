"""Sending, computing and fetching at the same time: streams that cannot overlap, and a pipeline that does.

The three-stream version is that of "GPU Performance: Parallel Processing vs Overhead" (2024), which waits between its
steps and found little benefit. Beside it stand the same steps in one stream, with pageable and with pinned memory, the
chunked pipeline of brrr.running.pipeline, and computing and sending alone.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, ratio_verdict
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Rate, Variant
from brrr_course.nouns.source import Evidence

ELEMENTS = (2**18, 2**20, 2**22, 2**24, 30_000_001, 2**26, 2**28)
SINES = (1, 4, 8, 16, 32, 40, 64, 128)
ITEM_BYTES = 4

PAGEABLE = ("source-serial", "source-streams", "serial-pageable", "pipeline-pageable")
PAGEABLE_MAX = 2**26
"""Pageable copies of a gigabyte take long, and show nothing that a quarter of it does not."""

QUEUE_MAX = 2**20
"""The CPU queue's largest array: on its slow link, a call then stays under an eighth of a second."""

SHAPED = {"pipeline-4MB": {"chunk_bytes": 4 * 2**20}, "pipeline-64MB": {"chunk_bytes": 64 * 2**20},
          "pipeline-two": {"buffers": 2}}  # fmt: skip
"""The pipeline with smaller chunks, with larger ones, and with a buffer too few."""

SHAPED_MIN = 2**24

SOURCE_SINES = 4
BALANCE = 1.4
"""Computing and sending count as equally long within this factor."""


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue and pageable memory end early; all else exists everywhere."""
    elements = int(point["elements"])
    if is_queue(variant.device):
        return elements <= QUEUE_MAX
    if variant.way in SHAPED:
        return elements >= SHAPED_MIN
    return variant.way not in PAGEABLE or elements <= PAGEABLE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """A sine counts as one FLOP; the bytes are those that cross the link (of computing: those read and written)."""
    elements = float(point["elements"])
    if variant.way == "upload":  # which moves the array one way only
        return Cost(0.0, ITEM_BYTES * elements)
    return Cost(elements * float(point["sines"]), 2 * ITEM_BYTES * elements)


def three_lanes(hardware: Hardware | None, point: Point) -> float:
    """The most that three equal parts can gain by running at the same time."""
    return 3.0


# ---- the claims ----


def _here(evidence: Evidence, line: str) -> str:
    """The line, or its twin of the CPU queue where the source has no GPU."""
    here = evidence.experiment.available(line, evidence.source.variants(evidence.experiment))
    return here.name if here else evidence.experiment.twins(line)[-1].name


def _largest(evidence: Evidence, *lines: str, sines: int | None = None) -> int:
    """The most elements at which all the lines were measured (with so many sines, if given)."""
    found: list[set[int]] = []
    for line in lines:
        variant = evidence.experiment.line(line).variant
        keys = [(int(key[0]), int(key[1])) for key in evidence.source.known(evidence.experiment, variant)]
        there = [key for key in keys if evidence.experiment.has(variant, {"elements": key[0], "sines": key[1]})]
        found.append({elements for elements, count in there if sines in (None, count)})
    common = set.intersection(*found)
    if not common:
        raise NotRecordedError(f"no point has all of {', '.join(lines)}")
    return max(common)


def balanced(evidence: Evidence) -> tuple[int, int]:
    """Elements and sines where computing takes as long as sending: the largest array, the closest number of sines.

    NotRecordedError where no number of sines comes within a factor of 1.4.
    """
    upload, compute = _here(evidence, "upload"), _here(evidence, "compute")
    elements = _largest(evidence, upload, compute, _here(evidence, "pipeline"), _here(evidence, "serial"))
    sending = evidence.curve(upload, "sines", elements=elements)
    working = evidence.curve(compute, "sines", elements=elements)
    off = {int(s): working[s].median / sending[s].median for s in working if s in sending}
    sines = min(off, key=lambda s: max(off[s], 1 / off[s]))
    if not 1 / BALANCE <= off[sines] <= BALANCE:
        raise NotRecordedError(f"at {elements} elements no number of sines takes as long as sending")
    return elements, sines


def _pipeline_gains(evidence: Evidence) -> Verdict:
    elements, sines = balanced(evidence)
    serial = evidence.get(_here(evidence, "serial"), elements=elements, sines=sines)
    pipeline = evidence.get(_here(evidence, "pipeline"), elements=elements, sines=sines)
    what = f"serial over pipeline at {elements} elements and {sines} sines"
    return ratio_verdict(serial, pipeline, 2.2, what)


def _pinning_gains(evidence: Evidence) -> Verdict:
    elements = _largest(evidence, "serial pageable", "serial", sines=1)
    pageable, pinned = (evidence.get(line, elements=elements, sines=1) for line in ("serial pageable", "serial"))
    return ratio_verdict(pageable, pinned, 1.2, f"pageable over pinned, one stream, {elements} elements and 1 sine")


def _streams(evidence: Evidence, sines: int) -> tuple[Estimate, str]:
    """The gain of the source's three streams over its one stream, on the largest array."""
    names = ("source serial", "source streams") if _here(evidence, "serial") == "serial" else (
        "queue serial", "queue streams")  # fmt: skip
    elements = _largest(evidence, *names, sines=sines)
    one, three = (evidence.get(name, elements=elements, sines=sines) for name in names)
    gain = one / three
    return gain, f"three streams are {units.ratio(gain.median)} as fast as one at {elements} elements, sines: {sines}"


def _streams_gain_little(evidence: Evidence) -> Verdict:
    gain, text = _streams(evidence, SOURCE_SINES)
    return band_verdict(gain, 1 / 1.2, 1.2, text)


def _streams_help_transfers(evidence: Evidence) -> Verdict:
    gain, text = _streams(evidence, 1)
    return band_verdict(gain, 1.1, float("inf"), text)


def _timeline_shows_it(evidence: Evidence) -> Verdict:
    """Share of the time in which more than one thing runs: the source's streams against the pipeline."""
    shares: dict[str, float] = {}
    for name in ("streams", "pipeline"):
        variant = evidence.experiment.line(_here(evidence, name)).variant
        traced = next((point for which, point in evidence.experiment.traces if which == variant), None)
        found = evidence.source.timeline(evidence.experiment, variant, traced).overlap_share if traced else None
        if found is None:
            raise NotRecordedError(f"no timeline of {variant} tells what overlaps")
        shares[name] = found
    text = ", ".join(f"{name}: {units.percent(share, 2)} of the time" for name, share in shares.items())
    return Verdict("holds" if shares["streams"] < 0.05 and shares["pipeline"] > 0.5 else "fails", text)


JUDGES: dict[str, Judge] = {
    "streams-little-benefit": _streams_gain_little,
    "streams-help-transfers": _streams_help_transfers,
    "pipeline-speedup": _pipeline_gains,
    "pinning": _pinning_gains,
    "timeline": _timeline_shows_it,
}

TRACED = {"elements": 2**24, "sines": 40}
"""Four chunks, and about as much computing as sending: few enough kernels for a picture."""

TRACED_TOY = {"elements": QUEUE_MAX, "sines": 40}


def _variant(name: str, label: str, *, shown: bool = True, line: str = "") -> Variant:
    return Variant(name, label, "cuda", timer="measure-host", shown=shown, line=line)


def _queued(way: str, label: str) -> Variant:
    return Variant(f"queue-{way}", label, "cpu-queue", way=way, stands_in_for=way)


EXPERIMENT = Experiment(
    name="overlap",
    title="Overlap",
    question="Can sending, computing and fetching happen at the same time?",
    axes=(
        Axis("elements", ELEMENTS, label="elements (float32)", quick=(2**18, 2**20)),
        Axis("sines", SINES, label="sines of each element", quick=(1, 4, 40)),
    ),
    variants=(
        _variant("serial", "one stream, pinned"),
        _variant("streams", "three streams that wait, pinned"),
        _variant("pipeline", "pipeline, pinned"),
        _variant("compute", "computing alone"),
        _variant("upload", "sending alone"),
        _variant("serial-pageable", "one stream, pageable", shown=False),
        _variant("pipeline-pageable", "pipeline, pageable", shown=False),
        _variant("pipeline-4MB", "pipeline, chunks of 4 MB", shown=False, line="small chunks"),
        _variant("pipeline-64MB", "pipeline, chunks of 64 MB", shown=False, line="large chunks"),
        _variant("pipeline-two", "pipeline, two buffers", shown=False, line="two buffers"),
        _variant("source-serial", "the source's one stream", shown=False),
        _variant("source-streams", "the source's three streams", shown=False),
        _queued("serial", "CPU queue: one queue"),
        _queued("streams", "CPU queue: three queues that wait"),
        _queued("pipeline", "CPU queue: pipeline"),
        _queued("compute", "CPU queue: computing alone"),
        _queued("upload", "CPU queue: sending alone"),
    ),
    field="period_s",
    package=__name__,
    supports=supports,
    judges=JUDGES,
    anchors=(
        {"elements": 2**26, "sines": 40},
        {"elements": 2**28, "sines": 40},
        *({"elements": QUEUE_MAX, "sines": sines} for sines in (1, 4, 40)),  # what the claims ask of the toy
    ),
    cost=cost,
    rate=Rate("bytes", "B/s", "bytes over the link, both ways"),
    guides=(Guide("three lanes", "three equal parts at once", "PREDICTED", "ratio", three_lanes),),
    traces=(
        *((variant, TRACED) for variant in ("serial", "source-streams", "streams", "pipeline")),
        *((variant, TRACED_TOY) for variant in ("queue-serial", "queue-streams", "queue-pipeline")),
    ),
)
