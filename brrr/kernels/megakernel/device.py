"""What the megakernel asks of a GPU and its driver: how much fits, the compiled kernels, and by prediction the time.

>>> gpu_of(0).active_clusters[16]    # doctest: +SKIP
7
"""

from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.heavy import driver, torch
from brrr.gpu import launching
from brrr.gpu.nvrtc import check
from brrr.gpu.nvrtc import function as function_of
from brrr.kernels.megakernel.plan import CLUSTERS, Gpu, MegakernelPlan, NetworkShape, plans, wide_plans
from brrr.roofline.persistent import Step, persistent_s

CLUSTER_SOURCE, CLUSTER_KERNEL = "kernels/megakernel/megakernel.cu", "brrr_mega_cluster"
GRID_SOURCE, GRID_KERNEL, GRID_THREADS = "kernels/megakernel/megakernel_grid.cu", "brrr_mega_grid", 256
NO_CLUSTERS = Gpu(0, {})


USUAL = MegakernelPlan(128, 128, 8, 4, 4, 1, 1, 128, 8)
"""The plan whose kernel tells how many clusters a GPU runs at once."""


@lru_cache(maxsize=16)
def gpu_of(device_index: int) -> Gpu:
    """What a plan depends on, asked of the driver."""
    if torch.cuda.get_device_capability(device_index) < (9, 0):
        return NO_CLUSTERS
    function = function_of(CLUSTER_SOURCE, CLUSTER_KERNEL, device_index, USUAL.defines())
    opt_in = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    shared = int(check(driver.cuDeviceGetAttribute(opt_in, driver.CUdevice(device_index)), "its shared memory"))
    launching.allow_shared(function, shared)
    launching.allow_clusters_of_16(function)
    counts = {size: launching.active_clusters(function, size, 128, shared) for size in CLUSTERS}
    return Gpu(shared, {size: count for size, count in counts.items() if count})


def cluster_function(made: MegakernelPlan, device_index: int) -> Any:
    """The kernel compiled for a plan; UnavailableError where not even one cluster of it fits on the GPU."""
    function = function_of(CLUSTER_SOURCE, CLUSTER_KERNEL, device_index, made.defines())
    launching.allow_shared(function, made.shared_bytes)
    if made.wide:  # the launch is cooperative: the driver refuses one that does not fit
        return function
    if made.cluster > 8:
        launching.allow_clusters_of_16(function)
    if not launching.active_clusters(function, made.cluster, made.threads, made.shared_bytes):
        need = f"{made.cluster} blocks of {made.shared_bytes} bytes of shared memory"
        raise UnavailableError(f"Megakernel: no cluster of {need} fits on cuda:{device_index}; choose a smaller plan")
    return function


def grid_blocks(function: Any, device_index: int) -> int:
    """As many blocks as run at once, all that a barrier of the grid allows; UnavailableError where it allows none."""
    properties = torch.cuda.get_device_properties(device_index)
    count = launching.active_blocks(function, GRID_THREADS, 0) * int(properties.multi_processor_count)
    if not count:
        raise UnavailableError(f"Megakernel: no block of {GRID_THREADS} threads fits on cuda:{device_index}")
    return count


# ---------------------------------------------------------------------------------------------------------------------
# How long a plan of the megakernel should take, and so which is best.

LAUNCH_S, START_S, START_CHUNK_S, START_WARP_S = 2.03e-6, 0.60e-6, 0.064e-6, 0.007e-6
"""A launch of clusters; a block's start, to the first loads from L2, with what each chunk of a layer and each warp add
to it."""

OVERLAP_S = 1.49e-6
"""What a launch in a row of launches gains by beginning before the one in front of it has ended, where `may_overlap`
allows it."""

LAYER_CYCLES, CHUNK_CYCLES, ROW_CYCLES, MEETING_CYCLES = 389, 77, 83, 10
"""From a block's last input to its last result at the others; what a warp's chunks add to it, one after the other; each
row of the block; and adding up over the warps that share a tile."""

SCHEDULERS, RESERVED_BYTES = 4, 1024
"""Of a multiprocessor: so many warps issue at a time; shared memory that each block takes for the system."""

READ_BYTES, FMAS = 136, 79
"""What a multiprocessor does in a cycle: bytes from shared memory to its lanes, and multiply-adds (of 128)."""

L2_BYTES, GROUP_L2_BYTES, GROUP_STORES, GROUPS = 64, 616, 17.5, 8
"""In a cycle: bytes from L2 to a multiprocessor, and to a group of 16 or 18 (a GPC), in which a cluster lies; stores of
16 bytes between its multiprocessors. Groups of the GPU."""

RING_CYCLES = 1490
"""From a slot that is free to its next chunk: a ring of few slots waits for it."""

WIDE_CYCLES, KEPT_BYTES, HBM_BYTES, AGAIN = 2715, 40e6, 2015, 0.28
"""An exchange through global memory; bytes that stay in L2 from call to call; bytes from memory in a cycle, where they
do not stay; the part of them that each further group of rows, which comes a little later, finds gone from L2 again."""

BOTH = 0.32
"""Of a wide layer's weights and arithmetic, how much of the shorter the longer does not hide."""


@lru_cache(maxsize=512)
def plan(network: NetworkShape, gpu: Gpu) -> MegakernelPlan | None:
    """The plan with the shortest predicted time, or None where none fits in the GPU's shared memory.

    It is kept, since going through all of them takes milliseconds.
    """
    every = chain(plans(network.hidden, gpu), wide_plans(network, gpu))
    overlapping = (replace(each, overlap=may_overlap(each, network, gpu)) for each in every)
    return min(overlapping, key=lambda each: predicted_s(each, network, gpu), default=None)


def may_overlap(made: MegakernelPlan, network: NetworkShape, gpu: Gpu) -> bool:
    """Whether it pays to let a launch begin before the one in front of it has ended. It is safe always: until that has
    ended, a block reads nothing but its own weights, and writes nothing outside its shared memory.

    The early blocks take multiprocessors that the launch in front leaves free, or wait. It does not pay where they
    find room beside blocks that still run, and both together have more warps than the multiprocessor has schedulers.
    A cooperative launch takes no part in it.
    """
    if made.wide:
        return False
    beside = made.shared_bytes + RESERVED_BYTES <= (gpu.shared_bytes + RESERVED_BYTES) // 2
    crowded = 2 * made.warps > SCHEDULERS and 2 * made.clusters(network.batch) > gpu.active_clusters[made.cluster]
    return not (beside and crowded)


def predicted_s(made: MegakernelPlan, network: NetworkShape, gpu: Gpu) -> float:
    """Seconds a call should take on the device, in a row of calls.

    A layer's weights come from L2, ahead, while its rows go through one thing after the other. Where more clusters are
    needed than run at once, they take turns.
    """
    start_s = START_S + START_CHUNK_S * made.chunks + START_WARP_S * made.warps
    turns, layer = (1, _wide_layer(made, network, gpu)) if made.wide else _layer(made, network, gpu)
    launch_s = LAUNCH_S - OVERLAP_S * made.overlap
    return persistent_s(layer, network.layers, launch_s=launch_s, start_s=start_s, turns=turns)


def _layer(made: MegakernelPlan, network: NetworkShape, gpu: Gpu) -> tuple[int, Step]:
    """How many turns the clusters take, and a layer: all its results go to all blocks of the cluster, through the
    network that the group's multiprocessors share."""
    clusters, at_once = made.clusters(network.batch), gpu.active_clusters[made.cluster]
    together = made.cluster * -(-min(clusters, at_once) // GROUPS)  # blocks of a group
    weights = max(_stream_cycles(made), made.weight_bytes * together / GROUP_L2_BYTES)
    rows = _row_cycles(made) + made.rows * made.width / 4 * together / GROUP_STORES
    return -(-clusters // at_once), Step({"weights": weights / gpu.clock_hz, "rows": rows / gpu.clock_hz})


def _wide_layer(made: MegakernelPlan, network: NetworkShape, gpu: Gpu) -> Step:
    """A layer where all blocks share out the columns, and exchange results through global memory."""
    layer_bytes, again = 4 * made.width**2, AGAIN * (made.clusters(network.batch) - 1)
    kept = network.layers * layer_bytes <= KEPT_BYTES
    weights = max(_stream_cycles(made), 0.0 if kept else layer_bytes * (1 + again) / HBM_BYTES)
    rows = _row_cycles(made) + WIDE_CYCLES + 4 * made.rows * made.width / L2_BYTES
    return Step({"weights": weights / gpu.clock_hz, "rows": rows / gpu.clock_hz}, exposed=BOTH)


def _stream_cycles(made: MegakernelPlan) -> float:
    """The way of a layer's weights from L2 into a block, or the ring's turns."""
    return max(made.weight_bytes / L2_BYTES, RING_CYCLES * made.chunks / made.slots)


def _row_cycles(made: MegakernelPlan) -> float:
    """A layer's arithmetic in a block.

    It is bound by what the block's lanes read of shared memory, or by multiply-adds. Each warp also adds up its sums,
    and those of the warps that share its tile.
    """
    chunks = CHUNK_CYCLES * made.chunks / made.k_warps + MEETING_CYCLES * (made.k_warps > 1)
    sums = made.warps * made.k_warps if made.k_warps > 1 else 0
    words = made.width / 32 * made.tiles * (made.tile_rows + made.tile_quads) + sums
    arithmetic = max(512 * words / READ_BYTES, made.rows * made.columns * made.width / FMAS)
    return LAYER_CYCLES + ROW_CYCLES * made.rows + chunks + arithmetic
