"""Sending, computing and fetching at the same time: streams that cannot overlap, and a pipeline that does.

The three-stream version is that of "GPU Performance: Parallel Processing vs Overhead" (2024), which waits between its
steps and found little benefit. Beside it stand the same steps in one stream, with pageable and with pinned memory, the
chunked pipeline of brrr.running.pipeline, and each part alone, among them the limit: both directions at once.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Variant, stand_in

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

ALONE = {"upload": 1, "download": 1}
"""What moves the array one way only; all else moves it there and back."""


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
    nbytes = ITEM_BYTES * float(point["elements"])
    moves_only = variant.way in ALONE or variant.way == "both"
    flop = 0.0 if moves_only else float(point["elements"]) * float(point["sines"])
    return Cost(flop, nbytes * ALONE.get(variant.way, 2))


def three_lanes(hardware: Hardware | None, point: Point) -> float:
    """The most that three equal parts can gain by running at the same time."""
    return 3.0


TRACED = {"elements": 2**24, "sines": 40}
"""Four chunks, and about as much computing as sending: few enough kernels for a picture."""

TRACED_TOY = {"elements": QUEUE_MAX, "sines": 40}

EXPERIMENT = Experiment(
    name="overlap",
    title="Overlap",
    question="Can sending, computing and fetching happen at the same time?",
    axes=(
        Axis("elements", ELEMENTS, label="elements (float32)", quick=(2**18, 2**20)),
        Axis("sines", SINES, label="sines of each element", quick=(1, 4, 40)),
    ),
    variants=(
        Variant("source-serial", "one stream, pageable, new memory each call", "cuda", timer="measure-host"),
        Variant(
            "source-streams", "three streams that wait, pageable, new memory each call", "cuda", timer="measure-host"
        ),
        Variant("serial-pageable", "one stream, pageable", "cuda", timer="measure-host"),
        Variant("serial", "one stream, pinned", "cuda", timer="measure-host"),
        Variant("streams", "three streams that wait, pinned", "cuda", timer="measure-host"),
        Variant("pipeline-pageable", "pipeline, pageable", "cuda", timer="measure-host"),
        Variant("pipeline", "pipeline, pinned", "cuda", timer="measure-host"),
        Variant("pipeline-4MB", "pipeline, chunks of 4 MB", "cuda", timer="measure-host"),
        Variant("pipeline-64MB", "pipeline, chunks of 64 MB", "cuda", timer="measure-host"),
        Variant("pipeline-two", "pipeline, two buffers", "cuda", timer="measure-host"),
        Variant("compute", "computing alone", "cuda", timer="measure-host"),
        Variant("upload", "sending alone, pinned", "cuda", timer="measure-host"),
        Variant("download", "fetching alone, pinned", "cuda", timer="measure-host"),
        Variant("both", "sending and fetching at once, pinned", "cuda", timer="measure-host"),
        Variant("queue-serial", "CPU queue: one queue", "cpu-queue", way="serial"),
        Variant("queue-streams", "CPU queue: three queues that wait", "cpu-queue", way="streams"),
        Variant("queue-pipeline", "CPU queue: pipeline", "cpu-queue", way="pipeline"),
        Variant("queue-compute", "CPU queue: computing alone", "cpu-queue", way="compute"),
        Variant("queue-upload", "CPU queue: sending alone", "cpu-queue", way="upload"),
        Variant("queue-both", "CPU queue: sending and fetching at once", "cpu-queue", way="both"),
    ),
    lines=(
        Line("serial", "serial", "period_s", "one stream, pinned"),
        Line("streams", "streams", "period_s", "three streams that wait, pinned"),
        Line("pipeline", "pipeline", "period_s", "pipeline, pinned"),
        Line("both", "both", "period_s", "limit: both directions, no computing"),
        Line("compute", "compute", "period_s", "computing alone"),
        Line("upload", "upload", "period_s", "sending alone"),
        Line("download", "download", "period_s", "fetching alone", shown=False),
        Line("serial pageable", "serial-pageable", "period_s", "one stream, pageable", shown=False),
        Line("pipeline pageable", "pipeline-pageable", "period_s", "pipeline, pageable", shown=False),
        Line("small chunks", "pipeline-4MB", "period_s", "pipeline, chunks of 4 MB", shown=False),
        Line("large chunks", "pipeline-64MB", "period_s", "pipeline, chunks of 64 MB", shown=False),
        Line("two buffers", "pipeline-two", "period_s", "pipeline, two buffers", shown=False),
        Line("source serial", "source-serial", "period_s", "the source's one stream", shown=False),
        Line("source streams", "source-streams", "period_s", "the source's three streams", shown=False),
        stand_in("serial", "queue-serial", "period_s", "CPU queue: one queue"),
        stand_in("streams", "queue-streams", "period_s", "CPU queue: three queues that wait"),
        stand_in("pipeline", "queue-pipeline", "period_s", "CPU queue: pipeline"),
        stand_in("both", "queue-both", "period_s", "CPU queue: both directions, no computing"),
        stand_in("compute", "queue-compute", "period_s", "CPU queue: computing alone"),
        stand_in("upload", "queue-upload", "period_s", "CPU queue: sending alone"),
    ),
    package=__name__,
    supports=supports,
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
