"""Sending, computing and fetching at the same time: streams that cannot overlap, and a pipeline that does.

The three-stream version is that of "GPU Performance: Parallel Processing vs Overhead" (2024), which waits between its
steps and found little benefit. Beside it stand the same steps in one stream, with pageable and with pinned memory, the
chunked pipeline of brrr.running.pipeline, and computing and sending alone.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Rate, Variant

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


TRACED = {"elements": 2**24, "sines": 40}
"""Four chunks, and about as much computing as sending: few enough kernels for a picture."""

TRACED_TOY = {"elements": QUEUE_MAX, "sines": 40}


def _variant(name: str, label: str, *, shown: bool = True, line: str = "") -> Variant:
    return Variant(name, label, "cuda", timer="measure-host", shown=shown, line=line)


def _queued(way: str, label: str) -> Variant:
    return Variant(f"queue-{way}", label, "cpu-queue", way=way, stands_in_for=way)


EXPERIMENT = Experiment(
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
        _variant("source-serial", "the article's one stream", shown=False),
        _variant("source-streams", "the article's three streams", shown=False),
        _queued("serial", "CPU queue: one queue"),
        _queued("streams", "CPU queue: three queues that wait"),
        _queued("pipeline", "CPU queue: pipeline"),
        _queued("compute", "CPU queue: computing alone"),
        _queued("upload", "CPU queue: sending alone"),
    ),
    field="period_s",
    package=__name__,
    anchors=(
        {"elements": 2**26, "sines": 40},
        {"elements": 2**28, "sines": 40},
        *({"elements": QUEUE_MAX, "sines": sines} for sines in (1, 4, 40)),  # what the claims ask of the toy
    ),
    rate=Rate("bytes", "B/s", "bytes over the link, both ways"),
    guides=(Guide("three lanes", "three equal parts at once", "PREDICTED", "ratio", three_lanes),),
    traces=(
        *((variant, TRACED) for variant in ("serial", "source-streams", "streams", "pipeline")),
        *((variant, TRACED_TOY) for variant in ("queue-serial", "queue-streams", "queue-pipeline")),
    ),
)
