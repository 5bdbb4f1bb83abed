"""What the variants of a point of `overlap` share; and its ways on the CPU queue, with worker threads for lanes.

Each result array is spoilt before its variant's check, so that nobody passes by what another one left there.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import is_gpu
from brrr.running.lanes import ThreadLane
from brrr.running.pipeline import Pipeline, host_array
from brrr.timing.cpu_queue import CpuQueue, Ticket
from brrr_course.experiments.checked import PointInputs, refuse_too_large
from brrr_course.experiments.overlap import ITEM_BYTES, cost
from brrr_course.nouns.experiment import Run, Variant, Workload

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


def sine_in_place(values: torch.Tensor, count: int) -> None:
    """`count` sines, one after another, each a pass over the memory."""
    for _ in range(count):
        values.sin_()


def copied(data: Travelling, found: torch.Tensor) -> Callable[[Any], float]:
    """The relative error of a copy, which is zero or wrong."""
    return lambda _: 0.0 if torch.equal(found.cpu(), data.x) else float("inf")


# ---- the CPU queue: worker threads for lanes, and a link that takes its time ----

LINK_BYTES_PER_S = 0.2e9
"""The CPU queue's link: so slow that its copies leave the processor free most of the time, and that some forty
sines on one core take as long, as they do on an H200 and its link."""

TOY_CHUNK = 2**17
"""Elements of the toy's chunks: some milliseconds on its link, long against what waking a thread takes."""


class LaneQueue(CpuQueue):
    """Several worker lanes that count as one device: waiting for it waits for all of them."""

    def __init__(self, lanes: Sequence[ThreadLane], worked_s: deque[float]) -> None:
        self.lanes, self.worked_s = lanes, worked_s

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        """To the first lane."""
        self.lanes[0].run(call, *args)

    @contextmanager
    def noting(self) -> Iterator[list[Ticket]]:
        """Keep the tickets of all lanes."""
        tickets: list[Ticket] = []
        for lane in self.lanes:
            lane._tickets = tickets
        try:
            yield tickets
        finally:
            for lane in self.lanes:
                lane._tickets = None

    def synchronize(self) -> None:
        """Wait for all lanes, in the order in which they wait for each other."""
        for lane in self.lanes:
            lane.synchronize()

    def close(self) -> None:
        """End all workers."""
        for lane in self.lanes:
            lane.close()


class Toy:
    """One variant on the CPU queue: worker threads for lanes, and a slow link each way."""

    def __init__(self, variant: Variant, point: Point) -> None:
        self.variant, self.point = variant, point
        elements = int(point["elements"])
        refuse_too_large(6 * elements * ITEM_BYTES, "cpu", f"overlap {elements}")
        self.data = Travelling.of(elements, int(point["sines"]), "cpu")
        self.out = torch.full_like(self.data.x, float("nan"))
        self.there = torch.full_like(self.data.x, float("nan"))
        self.worked_s: deque[float] = deque(maxlen=1024)
        self.up = self._lane("upload", "copy in")
        self.work = self._lane("compute", "")
        self.down = self._lane("download", "copy out")
        self.lanes = self.up, self.work, self.down

    def _lane(self, name: str, copies: str) -> ThreadLane:
        return ThreadLane(LINK_BYTES_PER_S, self.worked_s, name=f"{name} queue", copies=copies)

    def workload(self) -> Workload:
        """The variant's run, checked where its result lies."""
        name = self.variant.way
        run: Run = self.pipelined() if name == "pipeline" else getattr(self, name)
        queue = LaneQueue(self.lanes, self.worked_s)
        checks = {"upload": copied(self.data, self.there), "compute": lambda _: self.data.error(self.there)}
        error = checks.get(name, lambda _: self.data.error(self.out))
        return Workload(run, cost(self.variant, self.point), error, TOLERANCE, queue.synchronize, queue.close, queue)

    def sines(self, values: torch.Tensor) -> None:
        """NumPy's sine: one thread, and the interpreter is free meanwhile."""
        import numpy as np

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
        self.up.copy(self.there, self.data.x)
        self.up.synchronize()
        self.work.run(self.sines, self.there)
        self.work.synchronize()
        self.down.copy(self.out, self.there)
        self.down.synchronize()

    def pipelined(self) -> Run:
        """The course's own pipeline over the three lanes."""
        chunks = int(self.point.get("chunks", max(1, self.data.elements // TOY_CHUNK)))
        buffers = int(self.point.get("buffers", 4))
        pipeline = Pipeline(
            self.sines, self.data.elements, chunks=chunks, buffers=buffers, device="cpu-queue", lanes=self.lanes
        )
        return partial(pipeline, self.data.x, self.out)

    def compute(self) -> None:
        """The sines alone; a first copy that does not cross the link puts the input back."""
        self.work.run(self.there.copy_, self.data.x)
        self.work.run(self.sines, self.there)

    def upload(self) -> None:
        """One way alone."""
        self.up.copy(self.there, self.data.x)
