"""What is counted of the textbook network: FLOP, bytes, and the floor that the datasheet sets.

The network: `layers` times (Linear(hidden, hidden), ReLU) on a batch of rows, inference.
"""

from __future__ import annotations

from brrr.counting.cost import Cost
from brrr.experiment import Point, Variant
from brrr.machines.datasheet import Hardware
from brrr.networks import Network

PLACES = ("cpu-", "queue-")


def way_of(variant: str) -> str:
    """The way of running the network that a variant has, without device and arithmetic.

    >>> way_of("cpu-module"), way_of("graph-bf16"), way_of("pycuda-graph")
    ('module', 'graph', 'pycuda-graph')
    """
    for place in PLACES:
        variant = variant.removeprefix(place)
    return variant.removesuffix("-bf16").removesuffix("-tf32")


def arithmetic_of(variant: str) -> str:
    """The type of the numbers, or `tf32`.

    >>> arithmetic_of("graph-bf16"), arithmetic_of("graph"), arithmetic_of("graph-tf32")
    ('bfloat16', 'float32', 'tf32')
    """
    return {"bf16": "bfloat16", "tf32": "tf32"}.get(variant.rsplit("-", 1)[-1], "float32")


def sizes(point: Point) -> tuple[int, int, int]:
    """Layers, batch and hidden size."""
    return int(point["layers"]), int(point["batch"]), int(point["hidden"])


def network_of(variant: str, point: Point) -> Network:
    """The network that a variant runs at a point.

    >>> print(network_of("graph-bf16", {"layers": 8, "batch": 16, "hidden": 512}))
    8 layers of 512, batch 16, bfloat16
    """
    arithmetic = arithmetic_of(variant)
    tf32 = arithmetic == "tf32"
    return Network(*sizes(point), dtype="float32" if tf32 else arithmetic, tf32=tf32)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call, the same for every way of running it."""
    return network_of(variant.name, point).cost


def floor_s(hardware: Hardware | None, point: Point) -> float | None:
    """The longer of two times: the bytes once through the memory, and the FLOP at the fp32 peak; None where unknown.

    In a loop, weights that fit into the L2 cache need not come from the memory: then a time may lie below.
    """
    if hardware is None:
        return None
    work = network_of("module", point).cost
    return max(work.flop / hardware.peak("fp32"), work.bytes / hardware.memory_bytes_per_s)
