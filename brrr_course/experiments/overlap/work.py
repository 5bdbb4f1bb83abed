"""What the `overlap` experiment runs: copy, k sines in place, copy back; in one stream, in three, and in a pipeline.

All variants of a point share their host arrays and one float64 reference.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import is_queue
from brrr.running.lanes import CudaLane
from brrr.running.pipeline import BUFFERS, Pipeline
from brrr_course.experiments.checked import refuse_too_large
from brrr_course.experiments.overlap import ITEM_BYTES, SHAPED, cost
from brrr_course.experiments.overlap.toy import TOLERANCE, Toy, Travelling, copied, sine_in_place
from brrr_course.nouns.experiment import Run, Variant, Workload


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running k sines over n elements of the host."""
    elements, sines = int(point["elements"]), int(point["sines"])
    if is_queue(variant.device):
        return Toy(variant, point).workload()
    # input, result and their pageable twins on the host; input, result and reference (float64) on the GPU
    refuse_too_large(4 * elements * ITEM_BYTES, "cpu", f"overlap {elements}")
    refuse_too_large(6 * elements * ITEM_BYTES, "cuda", f"overlap {elements}")
    data = Travelling.of(elements, sines, "cuda")
    run, found = ON_CUDA[variant.way](data)

    sent = variant.way == "upload"
    error = copied(data, found) if sent else lambda result: data.error(found if result is None else result)
    return Workload(run, cost(variant, point), error, TOLERANCE, synchronize=torch.cuda.synchronize)


# ---- each function returns what to run, and where the result then lies ----


def _serial(data: Travelling, x: torch.Tensor, out: torch.Tensor) -> tuple[Run, torch.Tensor]:
    """One stream, everything in turn; the host waits only where a copy of pageable memory makes it."""
    there = torch.empty(data.elements, device="cuda")

    def run() -> None:
        there.copy_(x, non_blocking=True)
        sine_in_place(there, data.sines)
        out.copy_(there, non_blocking=True)

    return run, data.spoilt(out)


def _source_serial(data: Travelling) -> tuple[Run, None]:
    """To the GPU, sines into new memory, back into new memory: how the source wrote it."""
    x, _ = data.pageable

    def run() -> torch.Tensor:
        there = x.to("cuda")
        for _ in range(data.sines):
            there = torch.sin(there)
        return there.cpu()

    return run, None


@lru_cache(maxsize=1)
def _streams() -> tuple[torch.cuda.Stream, ...]:
    return tuple(torch.cuda.Stream() for _ in range(3))


def _source_streams(data: Travelling) -> tuple[Run, None]:
    """The same on three streams, with a wait for each before the next one starts: the source's second version."""
    x, _ = data.pageable
    up, work, down = _streams()

    def run() -> torch.Tensor:
        there = torch.empty_like(x, device="cuda")
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
    there = torch.empty(data.elements, device="cuda")
    up, work, down = _streams()
    x, out = data.x, data.spoilt(data.out)

    def run() -> None:
        with torch.cuda.stream(up):
            there.copy_(x, non_blocking=True)
        up.synchronize()
        with torch.cuda.stream(work):
            sine_in_place(there, data.sines)
        work.synchronize()
        with torch.cuda.stream(down):
            out.copy_(there, non_blocking=True)
        down.synchronize()

    return run, out


def _pipeline(
    data: Travelling, x: torch.Tensor, out: torch.Tensor, *, pinned: bool = True, chunk_bytes: int = 0,
    buffers: int = BUFFERS,
) -> tuple[Run, torch.Tensor]:  # fmt: skip
    chunks = math.ceil(data.elements * ITEM_BYTES / chunk_bytes) if chunk_bytes else None
    compute = partial(sine_in_place, count=data.sines)
    pipeline = Pipeline(compute, data.elements, chunks=chunks, buffers=buffers, device="cuda", pinned=pinned)
    data.spoilt(out)
    return partial(pipeline, x, out), out


def _shaped(data: Travelling, shape: Mapping[str, int]) -> tuple[Run, torch.Tensor]:
    sizes = {"buffers": BUFFERS, "chunk_bytes": 0, **shape}
    return _pipeline(data, data.x, data.out, buffers=sizes["buffers"], chunk_bytes=sizes["chunk_bytes"])


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
    sent, lane = torch.full((data.elements,), float("nan"), device="cuda"), CudaLane()
    torch.cuda.synchronize()

    def run() -> None:
        lane.copy(sent, data.x)
        torch.cuda.current_stream().wait_stream(lane.stream)

    return run, sent


ON_CUDA: dict[str, Callable[[Travelling], tuple[Run, Any]]] = {
    "source-serial": _source_serial,
    "source-streams": _source_streams,
    "serial-pageable": lambda data: _serial(data, *data.pageable),
    "serial": lambda data: _serial(data, data.x, data.out),
    "streams": _streams_pinned,
    "pipeline-pageable": lambda data: _pipeline(data, *data.pageable, pinned=False),
    "pipeline": lambda data: _pipeline(data, data.x, data.out),
    **{name: partial(_shaped, shape=shape) for name, shape in SHAPED.items()},
    "compute": _compute,
    "upload": _upload,
}
