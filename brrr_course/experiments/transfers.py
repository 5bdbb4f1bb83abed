"""Copies between the CPU's memory and the GPU's: how long the way is, by size, direction and kind of memory.

`period_s` (a loop of copies) and `busy_s` (the copy engine alone) are true of the bandwidth; `latency_s` is true of a
single copy, whose floor is what any copy costs, however small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import CUDA, tensors_on
from brrr.gpu.datasheet import Hardware
from brrr.running.pipeline import host_array
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments.checked import drawn_on, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Run, Variant, Workload, stand_in

SIZES = tuple(sorted((*(2**k for k in range(10, 31)), 1000, 1_000_003, 100_000_007)))


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes that cross: the link's once, both directions together; within one memory read once and written once."""
    twice = variant.implementation not in ("h2d", "d2h", "queue")
    return Cost(flop=0.0, bytes=float(point["nbytes"]) * (2 if twice else 1))


def link_bytes_per_s(ways: int, hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link in one direction or both, in B/s; None for a device without a link."""
    return ways * hardware.host_link.bytes_per_s if hardware is not None and hardware.host_link is not None else None


EXPERIMENT = Experiment(
    title="Transfers",
    question="What does it cost to send data to the GPU and back?",
    axes=(
        Axis("nbytes", SIZES, noun="bytes", label="bytes to copy (2²⁰: 1 MB, 2³⁰: 1 GB)",
             quick=(2**10, 2**16, 2**22), most={"cpu-queue": 2**28}),  # a laptop has other uses for its memory
    ),
    variants=(
        *(Variant(f"{way}-{memory}", f"{label} the GPU, {memory}", implementation=way, operation=memory,
                  line=f"{line} {memory}")
          for way, label, line in (("h2d", "to", "up"), ("d2h", "from", "down")) for memory in ("pageable", "pinned")),
        Variant("both-pinned", "both ways at once, pinned", implementation="both", operation="pinned", needs="CUDA"),
        Variant("device", "within the GPU's memory (read and written)"),
        Variant("cpu", "within the CPU's memory (read and written)", "cpu"),
        Variant("queue-pageable", "to the CPU queue, through a staging buffer", "cpu-queue",
                implementation="queue", operation="pageable", stands_in_for=("up pageable",)),
        Variant("queue-pinned", "to the CPU queue, direct", "cpu-queue",
                implementation="queue", operation="pinned", stands_in_for=("up pinned",)),
    ),
    field="period_s",
    lines=(
        Line("up pageable once", "h2d-pageable", "latency_s", "to the GPU, pageable, a single copy", shown=False),
        Line("up pinned once", "h2d-pinned", "latency_s", "to the GPU, pinned, a single copy", shown=False),
        Line("down pinned once", "d2h-pinned", "latency_s", "from the GPU, pinned, a single copy", shown=False),
        Line("up pageable issued", "h2d-pageable", "host_s", "to the GPU, pageable: until the call returns", False),
        Line("up pinned issued", "h2d-pinned", "host_s", "to the GPU, pinned: until the call returns", False),
        stand_in("up pageable once", "queue-pageable", "latency_s", "to the queue, staging buffer, one copy", False),
        stand_in("up pinned once", "queue-pinned", "latency_s", "to the queue, direct, one copy", False),
        stand_in("up pageable issued", "queue-pageable", "host_s", "to the queue, staging buffer: until return", False),
        stand_in("up pinned issued", "queue-pinned", "host_s", "to the queue, direct: until return", False),
    ),
    package=__name__,
    anchors=({"nbytes": 2**20}, {"nbytes": 2**28}),
    rate=Rate("bytes", "B/s", "bandwidth"),
    guides=(
        Guide("link", "link limit, one way", "DATASHEET", "rate", partial(link_bytes_per_s, 1),
              ("up pageable", "up pinned", "down pageable", "down pinned")),
        Guide("link-both", "link limit, both ways", "DATASHEET", "rate", partial(link_bytes_per_s, 2),
              ("both pinned",)),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `transfers` experiment runs: copies into memory that was there before, spoilt, and compared byte by byte.

EXACT = 0.0
STAGE_BYTES = 4 * 2**20
"""The CPU queue's staging buffer."""


def workload(variant: Variant, point: Point) -> Workload:
    """The copy of that many fresh random bytes that the variant names."""
    n = int(point["nbytes"])
    if variant.on_gpu:
        must_fit(4 * n if variant.implementation == "both" else 2 * n, variant.processor, f"copying {n} bytes")
    must_fit(4 * n, "cpu", f"copying {n} bytes")
    return {"both": _both, "queue": _queue}.get(variant.implementation, _one)(variant, n)


def random_bytes(n: int, device: str) -> torch.Tensor:
    """So many random bytes; whole words are drawn, since single bytes would take eight times as long.

    >>> random_bytes(1003, "cpu").shape
    torch.Size([1003])
    """
    words = torch.empty((n + 7) // 8, dtype=torch.int64, device=drawn_on(device)).random_(-(2**63), None)
    return words.view(torch.uint8)[:n].to(device)


def spoilt(source: torch.Tensor, place: str) -> torch.Tensor:
    """Memory for the copy in which every single byte is wrong, in the place named: `cuda`, `cpu` or `pinned`."""
    wrong = source.bitwise_not()
    return in_pinned_memory(wrong) if place == "pinned" else wrong.to(tensors_on(place))


def in_pinned_memory(values: torch.Tensor) -> torch.Tensor:
    """A pinned copy in main memory; UnavailableError where the system refuses to lock so much."""
    give_back_pinned()
    pinned: torch.Tensor = host_array(values.numel(), values.dtype)
    return pinned.copy_(values)


def wrong_share(*copies: tuple[torch.Tensor, torch.Tensor]) -> Callable[[Any], float]:
    """The share of bytes that differ between each source and its copy: 0 for a copy that is exact."""

    def error(_: Any) -> float:
        pairs = [(source.cpu(), copy.cpu()) for source, copy in copies]
        if all(torch.equal(source, copy) for source, copy in pairs):
            return 0.0
        differing = sum(int(torch.count_nonzero(source != copy)) for source, copy in pairs)
        return differing / sum(source.numel() for source, _ in pairs)

    return error


def _one(variant: Variant, n: int) -> Workload:
    """One direction over the link, or one tensor into another in one memory; in the main one on all torch's threads."""
    way, pinned = variant.implementation, variant.operation == "pinned"
    source = random_bytes(n, variant.processor)
    if way == "h2d":
        source = in_pinned_memory(source) if pinned else source.cpu()
    target = spoilt(source, variant.processor if way != "d2h" else "pinned" if pinned else "cpu")
    return _copying(lambda: target.copy_(source, non_blocking=pinned), (source, target))


def _both(variant: Variant, n: int) -> Workload:
    """Both directions at once: the way back on a stream of its own, which the current one waits for."""
    there, here = in_pinned_memory(random_bytes(n, CUDA)), random_bytes(n, CUDA)
    on_gpu, on_host = spoilt(there, CUDA), spoilt(here, "pinned")
    back = torch.cuda.Stream()

    def run() -> None:
        current = torch.cuda.current_stream()
        back.wait_stream(current)
        with torch.cuda.stream(back):
            on_host.copy_(here, non_blocking=True)
        on_gpu.copy_(there, non_blocking=True)
        current.wait_stream(back)

    return _copying(run, (there, on_gpu), (here, on_host))


def _copying(run: Run, *copies: tuple[torch.Tensor, torch.Tensor]) -> Workload:
    def silent() -> None:  # bytes have no NaN, so there is no result to look for one in
        run()

    return Workload(silent, wrong_share(*copies), EXACT)


def give_back_pinned() -> None:
    """Unlock what torch keeps of pinned memory that nobody uses: for the next size it would be too small anyway."""
    empty = getattr(torch._C, "_host_emptyCache", None) or getattr(torch._C, "_accelerator_emptyHostCache", None)
    if empty is not None and torch.cuda.is_initialized():
        empty()


def _queue(variant: Variant, n: int) -> Workload:
    """To the CPU queue: direct, or piece by piece through a small buffer, waiting for each piece."""
    source = random_bytes(n, "cpu")
    target, queue = spoilt(source, "cpu"), CpuQueue()
    buffer = torch.empty(min(STAGE_BYTES, n), dtype=source.dtype)

    def direct() -> None:
        queue.submit(target.copy_, source)

    def staged() -> None:
        """As of pageable memory: the host fills a buffer, the device fetches it from there, and the host waits."""
        for piece, there in zip(source.split(STAGE_BYTES), target.split(STAGE_BYTES), strict=True):
            queue.submit(there.copy_, buffer[: len(piece)].copy_(piece))
            queue.synchronize()

    run, error = staged if variant.operation == "pageable" else direct, wrong_share((source, target))
    return Workload(run, error, EXACT, synchronize=queue.synchronize, close=queue.close, queue=queue)
