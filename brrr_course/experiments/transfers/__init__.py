"""Copies between the CPU's memory and the GPU's: how long the way is, by size, direction and kind of memory.

`period_s` (a loop of copies) and `busy_s` (the copy engine alone) are true of the bandwidth; `latency_s` is true of a
single copy, whose floor is what any copy costs, however small.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Variant, stand_in

SIZES = tuple(2**k for k in range(10, 31))
ODD_SIZES = (1000, 1_000_003, 100_000_007)
QUEUE_MAX = 2**28
"""The CPU queue stops here: a laptop has other uses for its memory."""

THROUGH_ONE_MEMORY = ("device", "cpu")
"""These stay in one memory, which both reads and writes each byte; a link carries it once."""


def supports(variant: Variant, point: Point) -> bool:
    """Everything exists everywhere, but the CPU queue ends at QUEUE_MAX."""
    return not is_queue(variant.device) or int(point["nbytes"]) <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes that cross: the link's once, both directions together; within one memory read once and written once."""
    twice = variant.way in (*THROUGH_ONE_MEMORY, "both")
    return Cost(flop=0.0, bytes=float(point["nbytes"]) * (2 if twice else 1))


def link_bytes_per_s(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link in one direction, in B/s; None for a device without a link."""
    return hardware.host_link.bytes_per_s if hardware is not None and hardware.host_link is not None else None


def both_bytes_per_s(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link with both directions together."""
    one = link_bytes_per_s(hardware, point)
    return None if one is None else 2 * one


LINK_LINES = ("up pageable", "up pinned", "down pageable", "down pinned")

EXPERIMENT = Experiment(
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
        Variant("h2d-pageable", "to the GPU, pageable", "cuda", way="h2d", kind="pageable", line="up pageable"),
        Variant("h2d-pinned", "to the GPU, pinned", "cuda", way="h2d", kind="pinned", line="up pinned"),
        Variant("d2h-pageable", "from the GPU, pageable", "cuda", way="d2h", kind="pageable", line="down pageable"),
        Variant("d2h-pinned", "from the GPU, pinned", "cuda", way="d2h", kind="pinned", line="down pinned"),
        Variant("both-pinned", "both ways at once, pinned", "cuda", way="both", kind="pinned"),
        Variant("device", "within the GPU's memory (read and written)", "cuda"),
        Variant("cpu", "within the CPU's memory (read and written)", "cpu"),
        Variant("queue-pageable", "to the CPU queue, through a staging buffer", "cpu-queue",
                way="queue", kind="pageable", stands_in_for="up pageable"),
        Variant("queue-pinned", "to the CPU queue, direct", "cpu-queue",
                way="queue", kind="pinned", stands_in_for="up pinned"),
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
        Guide("link", "the link's limit, one direction", "DATASHEET", "rate", link_bytes_per_s, LINK_LINES),
        Guide("link-both", "the link's limit, both directions", "DATASHEET", "rate", both_bytes_per_s,
              ("both pinned",)),
    ),
)  # fmt: skip
