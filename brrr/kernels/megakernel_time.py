"""How long a plan of the megakernel should take, and so which is best.

>>> network = Network(layers=8, batch=16, hidden=256)
>>> chosen = plan(network, H200)
>>> chosen.clusters(16) * chosen.rows >= 16, 2e-6 < predicted_s(chosen, network, H200) < 20e-6
(True, True)

What bounds a layer is counted in cycles of a multiprocessor. The rates are fitted to 132 plans of the kernel's first
form, measured on an H200 (hidden 128 to 1024, batch 2 to 64). What that form did not have is assumed: `SHARING`, adding
up over warps (`MEETING_CYCLES`), and the exchange of the wide form (`WIDE_CYCLES`).
"""

from __future__ import annotations

from itertools import chain

from brrr.kernels.megakernel_plan import H200, Gpu, Network, Plan, plans, wide_plans

__all__ = ["H200", "Network", "plan", "predicted_s"]

LAUNCH_S, START_S = 1.86e-6, 0.38e-6
"""A launch of clusters, and the first loads from L2."""

LAYER_CYCLES, CHUNK_CYCLES, STEP_CYCLES, MEETING_CYCLES = 280, 100, 35, 60
"""From a block's last input to its last result at the others; for a warp, besides, each chunk and each 32 values of k,
one after the other; and adding up over the warps that share a tile."""

READ_BYTES, FMAS = 143, 128
"""What a multiprocessor does in a cycle: bytes from shared memory to its lanes, and multiply-adds."""

L2_BYTES, GROUP_L2_BYTES, GROUP_STORES, GROUPS = 64, 605, 7.1, 8
"""In a cycle: bytes from L2 to a multiprocessor, and to a group of 16 or 18 (a GPC), in which a cluster lies; stores of
16 bytes between its multiprocessors. Groups of the GPU."""

WIDE_CYCLES, KEPT_BYTES, HBM_BYTES, ALL_L2_BYTES = 2500, 40e6, 2100, 2800
"""An exchange through global memory; bytes that stay in L2 from call to call; bytes from memory, and from all of L2 to
blocks that each read their own, in a cycle."""

SHARING = 0.3
"""Of what groups of rows could hide of each other's time, the part that they do not."""


def plan(network: Network, gpu: Gpu) -> Plan | None:
    """The plan with the shortest predicted time, or None where none fits in the GPU's shared memory."""
    every = chain(plans(network.hidden, gpu), wide_plans(network, gpu))
    return min(every, key=lambda each: predicted_s(each, network, gpu), default=None)


def predicted_s(made: Plan, network: Network, gpu: Gpu) -> float:
    """Seconds a call should take on the device.

    A layer's time is the longer of two: its weights' way from L2, which runs ahead, and what its rows go through one
    after the other. Where more clusters are needed than run at once, they take turns.
    """
    if made.wide:
        return LAUNCH_S + START_S + network.layers * wide_cycles(made, network) / gpu.clock_hz
    clusters, at_once = made.clusters(network.batch), gpu.at_once(made.cluster, made.blocks)
    turns, running = -(-clusters // at_once), min(clusters, at_once)
    on_one = -(-running // max(gpu.at_once(made.cluster), 1))  # blocks that some multiprocessor has
    together = max(on_one if made.cluster > 8 else 1, -(-running // GROUPS))
    layer = max(stream_cycles(made, together, on_one), row_cycles(made, together, on_one))
    return LAUNCH_S + turns * (START_S + network.layers * layer / gpu.clock_hz)


def stream_cycles(made: Plan, together: int, on_one: int) -> float:
    """A layer's weights from L2 into a block, or into all clusters that lie together."""
    own = 4 * made.columns * made.width
    return max(own * on_one / L2_BYTES, own * made.cluster * together / GROUP_L2_BYTES)


def row_cycles(made: Plan, together: int, on_one: int) -> float:
    """A layer's arithmetic and exchange; groups of rows overlap theirs."""
    reading, exchange = on_one * read_cycles(made), exchange_cycles(made, together)
    turns = (CHUNK_CYCLES * made.chunks + STEP_CYCLES * made.width / 32) / made.k_warps
    latency = LAYER_CYCLES + turns + MEETING_CYCLES * (made.k_warps > 1)
    alone, groups = latency + reading + exchange, made.row_groups * on_one
    longest = max(reading, exchange, latency + (reading + exchange) / groups)
    return longest + SHARING * (alone - longest)


def read_cycles(made: Plan) -> float:
    """The arithmetic of a block: bound by what its lanes read of shared memory, of which nothing is shared between
    them, or by multiply-adds. Each warp also adds up its sums, and those of the warps that share its tile."""
    words = made.width / 32 * made.tiles * (made.tile_rows + made.tile_quads)
    if made.k_warps > 1:
        words += made.warps * made.k_warps
    return max(512 * words / READ_BYTES, made.rows * made.columns * made.width / FMAS)


def exchange_cycles(made: Plan, together: int) -> float:
    """All results of a layer to all blocks, through the network that the group's multiprocessors share."""
    return made.rows * made.width / 4 * made.cluster * together / GROUP_STORES


def wide_cycles(made: Plan, network: Network) -> float:
    """A layer where all blocks share out the columns: its weights, or what its rows go through and the exchange."""
    weights = 4 * made.width**2
    memory = HBM_BYTES if network.layers * weights > KEPT_BYTES else ALL_L2_BYTES
    own = max(4 * made.columns * made.width / L2_BYTES, weights * made.clusters(network.batch) / ALL_L2_BYTES)
    copy = 4 * made.rows * made.width / L2_BYTES
    return max(own, weights / memory, row_cycles(made, 0, 1) + WIDE_CYCLES + copy)
