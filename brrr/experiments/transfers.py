"""Copies between the CPU's memory and the GPU's: how long the way is, by size, direction and kind of memory.

`period_s` (a loop of copies) and `busy_s` (the copy engine alone) are true of the bandwidth; `latency_s` is true of a
single copy, whose floor is what any copy costs, however small.
"""

from __future__ import annotations

from brrr.counting.cost import Cost
from brrr.experiment import Axis, Experiment, Guide, Line, Point, Rate, Variant
from brrr.experiments.transfers_claims import CLAIMS
from brrr.machines.datasheet import Hardware

SIZES = tuple(2**k for k in range(10, 31))
ODD_SIZES = (1000, 1_000_003, 100_000_007)
QUEUE_MAX = 2**28
"""The toy accelerator stops here: a laptop has other uses for its memory."""

THROUGH_ONE_MEMORY = ("device", "cpu")
"""These stay in one memory, which both reads and writes each byte; a link carries it once."""


def supports(variant: Variant, point: Point) -> bool:
    """Everything exists everywhere, but the toy accelerator ends at QUEUE_MAX."""
    return variant.device != "cpu-queue" or int(point["nbytes"]) <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes that cross: the link's once, both directions together; within one memory read once and written once."""
    twice = variant.name in (*THROUGH_ONE_MEMORY, "both-pinned")
    return Cost(flop=0.0, bytes=float(point["nbytes"]) * (2 if twice else 1))


def link_bytes_per_s(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link in one direction, in B/s; None for a device without a link."""
    return hardware.host_link.bytes_per_s if hardware is not None and hardware.host_link is not None else None


def both_bytes_per_s(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link with both directions together."""
    one = link_bytes_per_s(hardware, point)
    return None if one is None else 2 * one


LINK_LINES = (
    "up pageable", "up pinned", "down pageable", "down pinned", "up pinned, engine", "down pinned, engine",
)  # fmt: skip

EXPERIMENT = Experiment(
    name="transfers",
    title="Transfers",
    question="What does it cost to send data to the GPU and back?",
    axes=(
        Axis(
            "nbytes",
            tuple(sorted(SIZES + ODD_SIZES)),
            label="bytes to copy (2^20 is about 1 MB, 2^30 about 1 GB)",
            quick=(2**10, 2**16, 2**22),
        ),
    ),
    variants=(
        Variant("h2d-pageable", "to the GPU, pageable memory", "cuda"),
        Variant("h2d-pinned", "to the GPU, pinned memory", "cuda"),
        Variant("d2h-pageable", "from the GPU, pageable memory", "cuda"),
        Variant("d2h-pinned", "from the GPU, pinned memory", "cuda"),
        Variant("both-pinned", "both ways at once, pinned memory", "cuda"),
        Variant("device", "within the GPU's memory", "cuda"),
        Variant("cpu", "within the CPU's memory", "cpu"),
        Variant("queue-pageable", "to the toy accelerator, through a staging buffer", "cpu-queue"),
        Variant("queue-pinned", "to the toy accelerator, direct", "cpu-queue"),
    ),
    lines=(
        Line("up pageable", "h2d-pageable", "period_s", "to the GPU, pageable"),
        Line("up pinned", "h2d-pinned", "period_s", "to the GPU, pinned"),
        Line("down pageable", "d2h-pageable", "period_s", "from the GPU, pageable"),
        Line("down pinned", "d2h-pinned", "period_s", "from the GPU, pinned"),
        Line("both pinned", "both-pinned", "period_s", "both ways at once, pinned"),
        Line("device", "device", "period_s", "within the GPU's memory (read and written)"),
        Line("cpu", "cpu", "period_s", "within the CPU's memory (read and written)"),
        Line("up pageable once", "h2d-pageable", "latency_s", "to the GPU, pageable, a single copy", shown=False),
        Line("up pinned once", "h2d-pinned", "latency_s", "to the GPU, pinned, a single copy", shown=False),
        Line("down pinned once", "d2h-pinned", "latency_s", "from the GPU, pinned, a single copy", shown=False),
        Line("up pageable issued", "h2d-pageable", "host_s", "to the GPU, pageable: until the call returns", False),
        Line("up pinned issued", "h2d-pinned", "host_s", "to the GPU, pinned: until the call returns", False),
        Line("up pinned, engine", "h2d-pinned", "busy_s", "to the GPU, pinned, the copy engine alone", shown=False),
        Line("down pinned, engine", "d2h-pinned", "busy_s", "from the GPU, pinned, the copy engine alone", shown=False),
        Line("queue up pageable", "queue-pageable", "period_s", "to the toy accelerator, through a staging buffer"),
        Line("queue up pinned", "queue-pinned", "period_s", "to the toy accelerator, direct"),
        Line("queue up pageable once", "queue-pageable", "latency_s", "to the toy, staging buffer, one copy", False),
        Line("queue up pinned once", "queue-pinned", "latency_s", "to the toy, direct, one copy", False),
        Line("queue up pageable issued", "queue-pageable", "host_s", "to the toy, staging buffer: until return", False),
        Line("queue up pinned issued", "queue-pinned", "host_s", "to the toy, direct: until return", False),
    ),
    build="brrr.experiments.transfers_work:workload",
    supports="brrr.experiments.transfers:supports",
    claims=CLAIMS,
    anchors=({"nbytes": 2**20}, {"nbytes": 2**28}),
    cost="brrr.experiments.transfers:cost",
    rate=Rate("bytes", "B/s", "bandwidth"),
    guides=(
        Guide(
            "link", "the link's limit, one direction", "DATASHEET", "rate",
            "brrr.experiments.transfers:link_bytes_per_s", lines=LINK_LINES,
        ),
        Guide(
            "link-both", "the link's limit, both directions", "DATASHEET", "rate",
            "brrr.experiments.transfers:both_bytes_per_s", lines=("both pinned",),
        ),
    ),
)  # fmt: skip
