"""Sending, computing and fetching at the same time: streams that cannot overlap, and a pipeline that does.

The three-stream version is that of "GPU Performance: Parallel Processing vs Overhead" (2024), which waits between its
steps and found little benefit. Beside it stand the same steps in one stream, with pageable and with pinned memory, the
chunked pipeline of brrr.running.pipeline, and computing and sending alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import CUDA, is_gpu, is_queue
from brrr.running.lanes import Lane, StreamLane, ThreadLane
from brrr.running.pipeline import BUFFERS, Pipeline, host_array
from brrr_course.experiments.checked import PointInputs, must_fit
from brrr_course.experiments.lazily import np, torch
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Rate, Run, Variant, Workload
from brrr_course.nouns.expression import middle
from brrr_course.nouns.source import Evidence

ELEMENTS = (2**18, 2**20, 2**22, 2**24, 30_000_001, 2**26, 2**28)
SINES = (1, 4, 8, 16, 32, 40, 64, 128)
ITEM_BYTES = 4

PAGEABLE = ("source-serial", "source-streams", "serial-pageable", "pipeline-pageable")
PAGEABLE_MAX = 2**26
"""Pageable copies of a gigabyte take long, and show nothing that a quarter of it does not."""

QUEUE_MAX = 2**20
"""The CPU queue's largest array: on its slow link, a call then stays under an eighth of a second."""

SHAPED: dict[str, dict[str, Any]] = {"pipeline-4MB": {"chunk_bytes": 4 * 2**20},
          "pipeline-64MB": {"chunk_bytes": 64 * 2**20}, "pipeline-two": {"buffers": 2}}  # fmt: skip
"""The pipeline with smaller chunks, with larger ones, and with a buffer too few."""

SHAPED_MIN = 2**24


def supports(variant: Variant, point: Point) -> bool:
    """Pageable memory ends early, and unusual chunks begin late; all else exists everywhere."""
    elements = int(point["elements"])
    if variant.implementation in SHAPED:
        return elements >= SHAPED_MIN
    return variant.implementation not in PAGEABLE or elements <= PAGEABLE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """A sine counts as one FLOP; the bytes are those that cross the link (of computing: those read and written)."""
    elements = float(point["elements"])
    if variant.implementation == "upload":  # which moves the array one way only
        return Cost(0.0, ITEM_BYTES * elements)
    return Cost(elements * float(point["sines"]), 2 * ITEM_BYTES * elements)


TRACED = {"elements": 2**24, "sines": 40}
"""Four chunks, and about as much computing as sending: few enough kernels for a picture."""

TRACED_TOY = {"elements": QUEUE_MAX, "sines": 40}


LABELS = {
    "serial": "one stream, pinned", "streams": "three streams that wait, pinned", "pipeline": "pipeline, pinned",
    "compute": "computing alone", "upload": "sending alone", "serial-pageable": "one stream, pageable",
    "pipeline-pageable": "pipeline, pageable", "pipeline-4MB": "pipeline, chunks of 4 MB",
    "pipeline-64MB": "pipeline, chunks of 64 MB", "pipeline-two": "pipeline, two buffers",
    "source-serial": "the article's one stream", "source-streams": "the article's three streams",
}  # fmt: skip
QUEUE_LABELS = {"serial": "one queue", "streams": "three queues that wait", "pipeline": "pipeline",
                "compute": "computing alone", "upload": "sending alone"}  # fmt: skip
LINES = {"pipeline-4MB": "small chunks", "pipeline-64MB": "large chunks", "pipeline-two": "two buffers"}
"""Lines that are not called as their variants."""


EXPERIMENT = Experiment(
    title="Overlap",
    question="Can sending, computing and fetching happen at the same time?",
    axes=(
        Axis("elements", ELEMENTS, label="elements (float32)", quick=(2**18, 2**20), most={"cpu-queue": QUEUE_MAX}),
        Axis("sines", SINES, label="sines of each element", quick=(1, 4, 40)),
    ),
    variants=(
        *(Variant(name, label, timer="measure-host", shown=name in QUEUE_LABELS, line=LINES.get(name, ""))
          for name, label in LABELS.items()),
        *(Variant.twin(name, "cpu-queue", f"CPU queue: {label}",
                       stands_in_for=(name, f"source {name}") if f"source-{name}" in LABELS else (name,))
          for name, label in QUEUE_LABELS.items()),
    ),
    package=__name__, needs="CUDA",
    anchors=(
        *({"elements": elements, "sines": 40} for elements in (2**26, 2**28)),
        *({"elements": QUEUE_MAX, "sines": sines} for sines in (1, 4, 40)),  # what the claims ask of the toy
    ),
    rate=Rate("bytes", "B/s", "bytes over the link, both ways"),
    # the most that three equal parts can gain by running at the same time
    guides=(Guide("three lanes", "three parts at once", "PREDICTED", "ratio", lambda *_: 3.0),),
    traces=(
        *((variant, TRACED) for variant in ("serial", "source-streams", "streams", "pipeline")),
        *((variant, TRACED_TOY) for variant in ("queue-serial", "queue-streams", "queue-pipeline")),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the variants of a point of `overlap` share; and its ways on the CPU queue, with worker threads for lanes.

TOLERANCE = 1e-5
"""float32 sines stay near 1e-7; one sine too few or too many would be off by 1e-3 and more."""

CHECK_ELEMENTS = 2**24


class Travelling(PointInputs):
    """Input, result and reference of one point; freed when the point's last workload is."""

    def __init__(self, elements: int, sines: int, place: str) -> None:
        self.elements, self.sines, self.place = elements, sines, place
        pinned = is_gpu(place)
        self.x, self.out = host_array(elements, pinned=pinned), host_array(elements, pinned=pinned)
        self.x.copy_(torch.randn(elements, device=place))

    @cached_property
    def pageable(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The input and a result array in pageable memory, made when first asked for."""
        return host_array(self.elements, pinned=False).copy_(self.x), torch.empty_like(self.x)

    def spoilt(self, array: torch.Tensor) -> torch.Tensor:
        """The array, filled with NaN."""
        return array.copy_(torch.full((), float("nan"), device=self.place).expand(len(array)).contiguous())

    @cached_property
    def reference(self) -> torch.Tensor:
        """The sines of the input in float64, on the GPU where there is one."""
        made: torch.Tensor = self.x.to(self.place).double()
        sine_in_place(made, self.sines)
        return made

    def error(self, found: torch.Tensor) -> float:
        """The relative error of a result, a piece at a time, so that its float64 copy stays small."""
        pieces = zip(found.split(CHECK_ELEMENTS), self.reference.split(CHECK_ELEMENTS), strict=True)
        off = sum(float(torch.sum((piece.to(self.place).double() - true) ** 2)) for piece, true in pieces)
        return float((off / float(torch.sum(self.reference**2))) ** 0.5)


def travelling(point: Point, what: str) -> Travelling:
    """The GPU's at a point, where there is room for it."""
    elements = int(point["elements"])
    # input, result and their pageable twins on the host; input, result and reference (float64) on the GPU
    for place, arrays in (("cpu", 4), (CUDA, 6)):
        must_fit(arrays * elements * ITEM_BYTES, place, f"{what} {elements}")
    return Travelling.of(elements, int(point["sines"]), CUDA)


def sine_in_place(values: torch.Tensor, count: int) -> None:
    """`count` sines, one after another, each a pass over the memory."""
    for _ in range(count):
        values.sin_()


def error_of(data: Travelling, way: str, found: Any) -> Callable[[Any], float]:
    """The relative error of what lies in `found`, or is returned; that of a copy is zero or infinite."""
    if way == "upload":
        return lambda _: 0.0 if torch.equal(found.cpu(), data.x) else math.inf
    return lambda result: data.error(found if result is None else result)


# ---- the CPU queue: worker threads for lanes, and a link that takes its time ----

LINK_BYTES_PER_S = 0.2e9
"""The CPU queue's link: so slow that its copies leave the processor free most of the time, and that some forty
sines on one core take as long, as they do on an H200 and its link."""

TOY_CHUNK = 2**17
"""Elements of the toy's chunks: some milliseconds on its link, long against what waking a thread takes."""


def one_by_one(lanes: tuple[Lane, Lane, Lane], x: Any, there: Any, compute: Callable[[Any], Any], out: Any) -> None:
    """Send, compute and fetch, each on a lane of its own, which is waited for before the next one gets its work."""
    up, work, down = lanes
    up.copy(there, x)
    up.synchronize()
    work.run(compute, there)
    work.synchronize()
    down.copy(out, there)
    down.synchronize()


class Toy:
    """One variant on the CPU queue: worker threads for lanes, and a slow link each way."""

    def __init__(self, variant: Variant, point: Point) -> None:
        self.way, self.point = variant.implementation, point
        elements = int(point["elements"])
        must_fit(6 * elements * ITEM_BYTES, "cpu", f"overlap {elements}")
        self.data = Travelling.of(elements, int(point["sines"]), "cpu")
        self.out, self.there = (torch.full_like(self.data.x, math.nan) for _ in range(2))
        self.up = ThreadLane(LINK_BYTES_PER_S, name="upload queue", copies="copy in")
        self.work = ThreadLane(name="compute queue", beside=self.up)
        self.down = ThreadLane(LINK_BYTES_PER_S, name="download queue", copies="copy out", beside=self.up)

    def workload(self) -> Workload:
        """The variant's run, checked where its result lies."""
        run: Run = self.pipelined() if self.way == "pipeline" else getattr(self, self.way)
        error = error_of(self.data, self.way, self.there if self.way in ("upload", "compute") else self.out)
        return Workload(run, error, TOLERANCE, synchronize=self.up.synchronize, close=self.up.close, queue=self.up)

    def sines(self, values: torch.Tensor) -> None:
        """NumPy's sine: one thread, and the interpreter is free meanwhile."""
        array = values.numpy()
        for _ in range(self.data.sines):
            np.sin(array, out=array)

    def serial(self) -> None:
        """All three in one lane."""
        self.up.copy(self.there, self.data.x)
        self.up.run(self.sines, self.there)
        self.up.copy(self.out, self.there, "copy out")

    def streams(self) -> None:
        """Three lanes, each waited for before the next one gets its work."""
        one_by_one((self.up, self.work, self.down), self.data.x, self.there, self.sines, self.out)

    def pipelined(self) -> Run:
        """The course's own pipeline over the three lanes."""
        chunks = int(self.point.get("chunks", max(1, self.data.elements // TOY_CHUNK)))
        buffers = int(self.point.get("buffers", 4))
        pipeline = Pipeline(self.sines, self.data.elements, chunks=chunks, buffers=buffers, device="cpu-queue",
                            lanes=(self.up, self.work, self.down))  # fmt: skip
        return partial(pipeline, self.data.x, self.out)

    def compute(self) -> None:
        """The sines alone; a first copy that does not cross the link puts the input back."""
        self.work.run(self.there.copy_, self.data.x)
        self.work.run(self.sines, self.there)

    def upload(self) -> None:
        """One way alone."""
        self.up.copy(self.there, self.data.x)


# ---------------------------------------------------------------------------------------------------------------------
# What the `overlap` experiment runs: copy, k sines in place, copy back; in one stream, in three, and in a pipeline.


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running k sines over n elements of the host."""
    if is_queue(variant.device):
        return Toy(variant, point).workload()
    data = travelling(point, "overlap")
    run, found = ON_CUDA[variant.implementation](data)
    return Workload(run, error_of(data, variant.implementation, found), TOLERANCE)


# ---- each function returns what to run, and where the result then lies ----


def _serial(data: Travelling, pageable: bool = False) -> tuple[Run, torch.Tensor]:
    """One stream, everything in turn; the host waits only where a copy of pageable memory makes it."""
    there, (x, out) = torch.empty(data.elements, device=CUDA), data.pageable if pageable else (data.x, data.out)

    def run() -> None:
        there.copy_(x, non_blocking=True)
        sine_in_place(there, data.sines)
        out.copy_(there, non_blocking=True)

    return run, data.spoilt(out)


def _source_serial(data: Travelling) -> tuple[Run, None]:
    """To the GPU, sines into new memory, back into new memory: how the source wrote it."""
    x, _ = data.pageable

    def run() -> torch.Tensor:
        there = x.to(CUDA)
        for _ in range(data.sines):
            there = torch.sin(there)
        return there.cpu()

    return run, None


@lru_cache(maxsize=1)
def _lanes() -> tuple[StreamLane, StreamLane, StreamLane]:
    return StreamLane(CUDA), StreamLane(CUDA), StreamLane(CUDA)


def _source_streams(data: Travelling) -> tuple[Run, None]:
    """The same on three streams, with a wait for each before the next one starts: the source's second version."""
    x, _ = data.pageable
    up, work, down = (lane.stream for lane in _lanes())

    def run() -> torch.Tensor:
        there = torch.empty_like(x, device=CUDA)
        with torch.cuda.stream(up):
            there.copy_(x, non_blocking=True)
        up.synchronize()
        with torch.cuda.stream(work):
            for _ in range(data.sines):
                there = torch.sin(there)
        work.synchronize()
        with torch.cuda.stream(down):
            back = there.cpu()
        down.synchronize()
        return back

    return run, None


def _streams_pinned(data: Travelling) -> tuple[Run, torch.Tensor]:
    """The source's three streams and waits, with pinned memory and nothing allocated: only the waits are left."""
    there, out = torch.empty(data.elements, device=CUDA), data.spoilt(data.out)
    compute = partial(sine_in_place, count=data.sines)
    return partial(one_by_one, _lanes(), data.x, there, compute, out), out


def pipeline_of(
    data: Travelling, pageable: bool = False, chunk_bytes: int = 0, chunks: int | None = None, buffers: int = BUFFERS
) -> tuple[Run, torch.Tensor]:
    """The course's own pipeline, its chunks told by their bytes, by their number, or not at all."""
    x, out = data.pageable if pageable else (data.x, data.out)
    chunks = math.ceil(data.elements * ITEM_BYTES / chunk_bytes) if chunk_bytes else chunks
    compute = partial(sine_in_place, count=data.sines)
    pipeline = Pipeline(compute, data.elements, chunks=chunks, buffers=buffers, device=CUDA, pinned=not pageable)
    return partial(pipeline, x, data.spoilt(out)), out


def _compute(data: Travelling) -> tuple[Run, torch.Tensor]:
    """The sines alone; the first one reads the input, so that a second call gives the same result."""
    x = data.x.cuda()
    there = torch.full_like(x, float("nan"))

    def run() -> None:
        torch.sin(x, out=there)
        sine_in_place(there, data.sines - 1)

    return run, there


def _upload(data: Travelling) -> tuple[Run, torch.Tensor]:
    """The copy to the GPU alone, on a stream of its own."""
    sent, lane = torch.full((data.elements,), float("nan"), device=CUDA), StreamLane(CUDA)
    torch.cuda.synchronize()

    def run() -> None:
        lane.copy(sent, data.x)
        torch.cuda.current_stream().wait_stream(lane.stream)

    return run, sent


ON_CUDA: dict[str, Callable[[Travelling], tuple[Run, Any]]] = {
    "source-serial": _source_serial,
    "source-streams": _source_streams,
    "serial-pageable": partial(_serial, pageable=True),
    "serial": _serial,
    "streams": _streams_pinned,
    "pipeline-pageable": partial(pipeline_of, pageable=True),
    "pipeline": pipeline_of,
    **{name: partial(pipeline_of, **shape) for name, shape in SHAPED.items()},
    "compute": _compute,
    "upload": _upload,
}


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on overlap ask beside the notation: where computing takes as long as sending.

BALANCE = 1.4
"""Computing and sending count as equally long within this factor."""


def balanced(evidence: Evidence, axis: str) -> int:
    """The elements, or the sines, where computing takes as long as sending: the largest array, the closest sines.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources import source
    >>> balanced(Evidence(experiment("overlap"), source("recorded:h200")), "sines")
    40

    NotRecordedError where no number of sines comes within a factor of 1.4.
    """
    parts = [evidence.table(name, "period_s", {}).values for name in ("upload", "compute", "pipeline", "serial")]
    elements = max(set.intersection(*({key[0] for key in part} for part in parts)), default=None)
    sending, working, *_ = parts
    ratios = {key[1]: middle(working[key]) / middle(time) for key, time in sending.items()
              if key[0] == elements and key in working}  # fmt: skip
    off = {sines: max(ratio, 1 / ratio) for sines, ratio in ratios.items()}
    sines = min(off, key=off.__getitem__, default=None)
    if sines is None or off[sines] > BALANCE:
        raise NotRecordedError(f"at {elements} elements no number of sines takes as long as sending")
    return int((elements if axis == "elements" else sines) or 0)
